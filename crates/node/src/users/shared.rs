//! Users that belong to a cluster: all nodes have those of its metadata (docs/internals/acl.md).
//!
//! `requirepass` is a setting of the cluster, and comes to a node by another way than users. So the users say by which
//! `requirepass` the user `default` got its passwords. Where a node knows another one, that holds.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, PoisonError};

use acl::{Catalogue, Change, PasswordHash, SNAPSHOT_BYTES_MAX, UserNumber, Users};
use command::Error;

use super::{State, UserTable, follow, hash_of};
use crate::admission::rights::User;
use crate::client::Client;
use crate::cluster::agreed;
use crate::config::Password;
use crate::node::Node;

/// Users, and the `requirepass` that they know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OfCluster {
    password: Option<PasswordHash>,
    pub(crate) users: Users,
}

impl OfCluster {
    /// As bytes (`cluster/agreed.rs` says which).
    ///
    /// # Errors
    ///
    /// They are more than a cluster keeps.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let users = self.users.to_bytes();
        if users.len() > SNAPSHOT_BYTES_MAX {
            return Err(Error::text(format!(
                "ERR the users would take {} bytes, and all users of a cluster may take {SNAPSHOT_BYTES_MAX}",
                users.len()
            )));
        }
        let mut bytes = vec![u8::from(self.password.is_some())];
        bytes.extend(self.password.iter().flat_map(|password| *password.bytes()));
        bytes.extend(users);
        Ok(bytes)
    }

    fn from_bytes(catalogue: &Catalogue, bytes: &[u8]) -> Result<OfCluster, String> {
        let (password, users) = match bytes {
            [0, rest @ ..] => (None, rest),
            [1, rest @ ..] => {
                let (hash, rest) = rest.split_first_chunk::<32>().ok_or("the cluster's users are cut short")?;
                (Some(PasswordHash::from(*hash)), rest)
            }
            _ => return Err("another version of Holdfast has written the cluster's users".to_owned()),
        };
        let users = Users::from_bytes(catalogue, users).map_err(|damaged| damaged.to_string())?;
        Ok(OfCluster { password, users })
    }

    /// Has the user `default` follow `requirepass`, if that is not the one that these users know.
    fn follow(&mut self, requirepass: Option<&Password>) {
        let hash = requirepass.map(hash_of);
        if self.password != hash {
            self.password = hash;
            self.users.set_default_password(hash);
        }
    }
}

impl State {
    /// Has the user `default` follow a new `requirepass`.
    pub(super) fn follow(&mut self, requirepass: Option<&Password>) {
        self.password = requirepass.cloned();
        let hash = requirepass.map(hash_of);
        match &self.agreed {
            Some(agreed) if agreed.password == hash => self.users.take_default_passwords(&agreed.users),
            _ => self.users.set_default_password(hash),
        }
    }
}

impl UserTable {
    /// True for a node of a cluster that has not heard of the cluster's users yet. Only `default` logs in there: the
    /// numbers of users in its files may be those of others in the cluster.
    pub(crate) fn awaits_cluster(&self) -> bool {
        self.read_state().awaits_cluster
    }

    /// Notes that this is a node of a cluster, of whose users it has not heard. `has_users`: its files have some.
    pub(super) fn await_cluster(&self, has_users: bool, requirepass: Option<&Password>) -> Result<(), Error> {
        let mut state = self.write_state();
        let own = OfCluster { password: requirepass.map(hash_of), users: state.users.clone() };
        state.seed = if has_users { Some(own.to_bytes()?.into()) } else { None };
        state.awaits_cluster = true;
        Ok(())
    }

    /// The users in this node's files, for a cluster that has none; `None`: the files have none.
    pub(crate) fn seed(&self) -> Option<Arc<[u8]>> {
        self.read_state().seed.clone()
    }

    /// The users from which a change is made that the cluster is asked for. `agreed`: the cluster's, as bytes.
    pub(crate) fn proposal(&self, agreed: &[u8], requirepass: Option<&Password>) -> Result<OfCluster, Error> {
        let mut proposal = if agreed.is_empty() {
            OfCluster { password: requirepass.map(hash_of), users: self.read(Users::clone) }
        } else {
            OfCluster::from_bytes(&self.catalogue, agreed).map_err(|why| Error::text(format!("ERR {why}")))?
        };
        proposal.follow(requirepass);
        Ok(proposal)
    }

    /// Takes the cluster's users in place of all others: what has changed by that.
    fn take(&self, agreed: Option<OfCluster>, requirepass: Option<&Password>) -> Vec<Change> {
        let mut state = self.write_state();
        // Nobody has changed any: `default` alone.
        let next = agreed.as_ref().map_or_else(|| Users::new(&self.catalogue), |agreed| agreed.users.clone());
        let before = std::mem::replace(&mut state.users, next);
        state.agreed = agreed;
        state.awaits_cluster = false;
        state.follow(requirepass);
        self.generation.fetch_add(1, Release);
        state.users.changes_since(&before)
    }

    /// A client has asked the cluster for a change of users: it hears of the outcome, even if its user is gone then.
    pub(crate) fn asks(&self, client: u64) {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }

    /// It is answered.
    pub(crate) fn is_answered(&self, client: u64) {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != client);
    }

    /// True if the user was deleted.
    pub(crate) fn is_gone(&self, number: u32) -> bool {
        number != User::NODE.principal.user && self.read(|users| users.get(UserNumber(number.into())).is_none())
    }
}

/// Takes the cluster's users, as bytes, in place of all others. Clients that may not go on are closed. Empty: nobody
/// has changed any user of the cluster.
///
/// # Errors
///
/// They cannot be read; nothing has changed.
pub(crate) fn take(node: &Node, bytes: &[u8]) -> Result<(), String> {
    let table = &node.users;
    let agreed = if bytes.is_empty() { None } else { Some(OfCluster::from_bytes(&table.catalogue, bytes)?) };
    let of_files = table.seed().filter(|_| table.awaits_cluster());
    let changes = table.take(agreed, node.config.settings().requirepass.as_ref());
    if of_files.is_some() && !changes.is_empty() {
        say_what_differs(&changes);
    }
    follow(node, &changes);
    end_clients(node, &changes);
    Ok(())
}

/// Takes the users that the files of a cluster's node know, at its start. `payload`: what the cluster had agreed on.
///
/// # Errors
///
/// They cannot be read.
pub fn take_known(node: &Node, payload: &[u8]) -> Result<(), String> {
    let (users, _) = agreed::split(payload)?;
    // A cluster without users is offered those of this node's files.
    if users.is_empty() && node.users.seed().is_some() { Ok(()) } else { take(node, users) }
}

fn say_what_differs(changes: &[Change]) {
    let users = changes.iter().flat_map(|change| change.before.iter().chain(&change.after));
    let names: BTreeSet<_> = users.map(|user| String::from_utf8_lossy(user.name()).into_owned()).collect();
    tracing::warn!(
        "this node's files have other users than the cluster, whose users hold: {}. ACL SETUSER at any node changes them, ACL SAVE or CONFIG REWRITE brings the file up to date",
        names.into_iter().collect::<Vec<_>>().join(", ")
    );
}

/// Closes the clients of users that are gone.
fn end_clients(node: &Node, changes: &[Change]) {
    let gone = changes.iter().filter(|change| change.after.is_none()).filter_map(|change| change.before.as_ref());
    let names: BTreeSet<&[u8]> = gone.map(|user| user.name()).collect();
    if names.is_empty() {
        return;
    }
    let asking = node.users.asking.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let all: Vec<Arc<Client>> = node.clients().values().cloned().collect();
    for client in all.iter().filter(|client| names.contains(&*client.texts().user) && !asking.contains(&client.id)) {
        node.end_client(client);
    }
}

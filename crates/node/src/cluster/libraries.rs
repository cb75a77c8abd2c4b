//! Changes of the libraries of functions, and of users, which belong to the cluster. Its metadata have both, with one
//! version, and every node that serves takes them from there. To change them, a node makes new ones from those that it
//! has, and proposes them for that version. If another node was faster, it makes them again from the newer ones.

use std::sync::Arc;

use ::membership::level;
use acl::RuleBook;
use command::Error;

use super::agreed::join;
use crate::clock::MonoNs;
use crate::node::Node;
use crate::scripts::libraries::{Agreed, Libraries};
use crate::worker::jobs::{Done, Job};

/// Nanoseconds for which a change is repeated while other nodes are faster.
const AGAIN_NS: u64 = 10_000_000_000;

/// A change of the libraries; an error changes nothing.
pub(crate) type OfLibraries = Box<dyn Fn(&mut Libraries) -> Result<(), Error> + Send>;

/// A change of users, and its reply; an error changes nothing.
pub(crate) type OfUsers = Box<dyn Fn(&mut acl::Users, RuleBook<'_>) -> Result<Done, Error> + Send>;

/// What is to become of what a cluster has agreed on: the bytes to propose, and the reply.
type Change = Box<dyn Fn(&Node, &Agreed) -> Result<(Vec<u8>, Done), Error> + Send>;

/// A change under way.
struct Attempt {
    node: Arc<Node>,
    change: Change,
    job: Arc<Job>,
    /// The client to which the outcome matters, also if its user is gone then; 0: none.
    client: u64,
    /// When it gives up.
    until: MonoNs,
}

/// Changes the libraries of the cluster. This node has a lease, so it has every library that a client was told of. The
/// job's client gets `reply` when all nodes that serve have the change.
///
/// # Errors
///
/// Those of `change`: nothing was done.
pub(crate) fn change_libraries(node: &Arc<Node>, change: OfLibraries, reply: Done) -> Result<Arc<Job>, Error> {
    let job = Job::elsewhere();
    let of_libraries = move |_: &Node, agreed: &Agreed| {
        let mut next = Libraries::clone(&agreed.libraries);
        change(&mut next)?;
        Ok((join(&agreed.users, &next.dump()), reply.clone()))
    };
    begin(node, Box::new(of_libraries), &job, 0)?;
    Ok(job)
}

/// Changes the users of the cluster, as [`change_libraries`] does. `client`: it asks for that, and hears of the
/// outcome.
///
/// # Errors
///
/// Those of `change`, or the cluster has a level below that of users: nothing was done.
pub(crate) fn change_users(node: &Arc<Node>, change: OfUsers, job: &Arc<Job>, client: u64) -> Result<(), Error> {
    let of_users = move |node: &Node, agreed: &Agreed| {
        check_level(node)?;
        let settings = node.config.settings();
        let mut next = node.users.proposal(&agreed.users, settings.requirepass.as_ref())?;
        let book = RuleBook { catalogue: node.users.catalogue(), all_channels: settings.acl_pubsub_default };
        let reply = change(&mut next.users, book)?;
        Ok((join(&next.to_bytes()?, &agreed.libraries.dump()), reply))
    };
    begin(node, Box::new(of_users), job, client)
}

/// Nodes below this level would not understand users (rule U1).
fn check_level(node: &Node) -> Result<(), Error> {
    let level = node.cluster().map_or(0, |cluster| cluster.map().level());
    if level >= level::PRINCIPALS {
        return Ok(());
    }
    Err(Error::text(format!(
        "ERR users need level {} of the cluster, which has {level}: when all nodes run this build, `holdfast cluster finalize` raises it",
        level::PRINCIPALS
    )))
}

fn begin(node: &Arc<Node>, change: Change, job: &Arc<Job>, client: u64) -> Result<(), Error> {
    let until = node.clock.monotonic_ns() + AGAIN_NS;
    node.users.asks(client);
    let begun = Attempt { node: Arc::clone(node), change, job: Arc::clone(job), client, until }.begin();
    if begun.is_err() {
        node.users.is_answered(client);
    }
    begun
}

impl Attempt {
    fn begin(self) -> Result<(), Error> {
        let agreed = self.node.scripts.agreed();
        let (payload, reply) = (self.change)(&self.node, &agreed)?;
        let node = Arc::clone(&self.node);
        let admin = node.cluster().and_then(|cluster| cluster.administration());
        let admin = admin.ok_or(Error::new("ERR nobody keeps the cluster's metadata"))?;
        let then = Box::new(move |changed| match changed {
            Ok(true) => self.end(Ok(reply)),
            Ok(false) => self.again(),
            Err(why) => self.end(Err(format!("ERR {why}").into())),
        });
        admin.change_libraries(agreed.version, payload.into(), then);
        Ok(())
    }

    fn end(self, outcome: Result<Done, Vec<u8>>) {
        self.job.end(outcome);
        self.node.users.is_answered(self.client);
    }

    /// Other nodes have changed them.
    fn again(self) {
        let (node, job, client) = (Arc::clone(&self.node), Arc::clone(&self.job), self.client);
        let begun = if node.clock.monotonic_ns() < self.until {
            self.begin()
        } else {
            Err(Error::new("ERR others change the same all the time: nothing was done"))
        };
        if let Err(error) = begun {
            job.end(Err(error.as_bytes().to_vec()));
            node.users.is_answered(client);
        }
    }
}

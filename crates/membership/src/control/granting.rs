//! The leader's grants, and its knowledge of the nodes that ask for them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use quorum::Extent;

use super::agent::Agent;
use super::copies::{self, CopyReport};
use super::cuts;
use super::links::Reply;
use super::standing::{ShardLease, Standing};
use super::types::Wire;
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::handshake::Role;
use crate::meta::{Acceptor, Recover};
use crate::{BootNs, NodeId, ShardId};

/// How long a copy has for its answer.
const ASK: Duration = Duration::from_secs(3);
const NO_ANSWER: &str = "it does not answer in time";

/// Most bytes of a node's report about its troubles.
pub const TROUBLE_MAX: usize = 512;

impl Agent {
    /// Grants a lease, if this node leads (rule O1).
    pub async fn grant(self: &Arc<Self>, renewal: Renewal) -> Reply {
        let Renewal { id, incarnation, libraries, .. } = renewal;
        let Some(term) = self.leads() else { return Reply::NotLeader(self.leader().0) };
        match self.machine.look(|applied| applied.state.incarnation(id)) {
            None => {
                return Reply::Failed(format!(
                    "the cluster has no node {id} any more; with an empty dir it would join as a new one"
                ));
            }
            Some(known) if known != incarnation => {
                return Reply::Failed(format!("node {id} is known to have started {known} times, not {incarnation}"));
            }
            Some(_) => {}
        }
        let (now, is_copied) = ((self.clock)(), renewal.standing.is_some());
        let granted = {
            let mut volatile = self.volatile();
            let known = volatile.libraries.entry(id).or_default();
            *known = libraries.max(*known);
            let judged = self.judge(&mut volatile, term, &renewal);
            let Renewal { trouble, copies, standing, .. } = renewal;
            match trouble.is_empty() {
                true => volatile.troubles.remove(&id),
                false => volatile.troubles.insert(id, trouble),
            };
            match copies.is_empty() {
                true => volatile.copies.remove(&id),
                false => volatile.copies.insert(id, copies),
            };
            match standing {
                None => volatile.standings.remove(&id),
                Some(standing) => volatile.standings.insert(id, Reported { life: incarnation, at: now, standing }),
            };
            match judged {
                Err(why) => Err(why.to_string()),
                Ok(of) if volatile.leases.grant(term, id, now) => Ok(of),
                Ok(_) => Err("its slots are being given to others".to_owned()),
            }
        };
        if is_copied {
            self.looks_at_shards.notify_one();
        }
        let of_shard = match granted {
            Ok(of_shard) => of_shard,
            Err(why) => return Reply::Failed(why),
        };
        // A later leader's election needs a node that answers here, later: so it begins after the renewal was sent.
        match self.confirmed().await {
            Ok(index) => Reply::Done(Granted { index, silent: self.silent(term), of_shard }.to_bytes()),
            Err(reply) => reply,
        }
    }

    /// Nodes that hold no lease any more, as this node knows as a leader, or was told. A leader whose own lease is over
    /// may have been deposed without knowing: other nodes may hold leases of another leader.
    pub fn known_silent(&self) -> Arc<BTreeSet<NodeId>> {
        let is_confirmed = self.shared.lease_until.get() > (self.clock)();
        match self.leads().filter(|_| is_confirmed) {
            Some(term) => Arc::new(self.silent(term)),
            None => self.shared.silent(),
        }
    }

    /// Nodes that hold no lease any more. This node leads in `term`, perhaps since just now: then it does not know what
    /// others have granted.
    fn silent(&self, term: u64) -> BTreeSet<NodeId> {
        let now = (self.clock)();
        let nodes = self.machine.look(|applied| applied.state.nodes());
        let mut volatile = self.volatile();
        nodes.into_iter().map(|(id, _)| id).filter(|id| volatile.leases.left(term, *id, now) == 0).collect()
    }

    /// The nodes that lose a shard which another one takes over.
    pub fn losers_of(&self, Recover { shard, to }: Recover) -> Vec<NodeId> {
        let map = self.machine.map();
        map.shards().iter().filter(|of| of.id == shard && of.owner != to).map(|of| of.owner).collect()
    }

    /// The node that owns a shard.
    pub fn owner_of(&self, shard: ShardId) -> Vec<NodeId> {
        self.machine.map().shards().iter().filter(|of| of.id == shard).map(|of| of.owner).collect()
    }

    /// Checks that a majority of a shard's acceptors can be read: each is asked, as a process may be up whose folder was
    /// wiped, or is refused. And their log must be whole: a node that takes the shard over has no store. A shard with one
    /// copy is the metadata's to refuse.
    ///
    /// # Errors
    /// The copies that cannot be read, or whose log was cut, in words.
    pub async fn can_be_read(self: &Arc<Self>, Recover { shard, to }: Recover) -> Result<(), String> {
        let map = self.machine.map();
        let Some(of) = map.shards().iter().find(|of| of.id == shard && of.owner != to) else { return Ok(()) };
        let (count, needed) = (of.settled.len(), of.settled.len() / 2 + 1);
        if count < 2 {
            return Ok(());
        }
        let ask = |acceptor: &Acceptor| {
            let (agent, acceptor) = (Arc::clone(self), *acceptor);
            let asking = tokio::spawn(async move {
                let asked = tokio::time::timeout(ASK, agent.ask_copy(shard, acceptor)).await;
                asked.unwrap_or_else(|_| Err(NO_ANSWER.to_owned()))
            });
            (acceptor.node, asking)
        };
        let asked: Vec<_> = of.settled.iter().map(ask).collect();
        let (mut lacking, mut known) = (Vec::new(), Vec::new());
        for (node, asking) in asked {
            let place = match map.member(node) {
                Some(member) => format!("{node} at {}:{}", member.host, member.port),
                None => node.to_string(),
            };
            match asking.await.unwrap_or_else(|why| Err(why.to_string())) {
                Ok(extents) => known.push((place, extents)),
                Err(why) => lacking.push(format!("{place} ({why})")),
            }
        }
        if known.len() >= needed {
            return cuts::check(shard, &known, needed);
        }
        Err(format!(
            "{} of {count} copies of the log of shard {} can be read, and {needed} are needed: no answer comes from {}",
            count - lacking.len(),
            shard.0,
            lacking.join(", ")
        ))
    }

    async fn ask_copy(&self, shard: ShardId, acceptor: Acceptor) -> Result<Vec<Extent>, String> {
        let (ask, serve) = self.asks_copies.clone();
        let socket = if acceptor.node == self.me() {
            let (here, there) = UnixStream::pair().map_err(|why| why.to_string())?;
            serve(there.into());
            here.into()
        } else {
            let (stream, _) = self.dial_member(acceptor.node, Role::Log).await?;
            self.carried(stream).map_err(|why| why.to_string())?
        };
        let asked = tokio::task::spawn_blocking(move || ask(socket, shard, acceptor.id)).await;
        asked.unwrap_or_else(|why| Err(why.to_string()))
    }

    /// Takes note of the nodes that hold no lease. The leader logs those whose lease has ended, and those that have one
    /// again.
    pub fn watch(&self, silent: &BTreeSet<NodeId>) {
        let members: BTreeSet<NodeId> =
            self.machine.look(|applied| applied.state.nodes()).into_iter().map(|(id, _)| id).collect();
        let changed = self.volatile().watched.changes(&members, silent);
        if self.leads().is_none() {
            return;
        }
        for (id, is_up) in changed {
            let place = self.known(id).map_or_else(String::new, |node| format!(" at {}:{}", node.host, node.port));
            match is_up {
                true => tracing::info!("node {id}{place} is up again"),
                false => tracing::warn!("node {id}{place} is down: its lease is over"),
            }
        }
    }

    /// The holders of leases of this leader, and for how many more milliseconds.
    pub fn holders(&self) -> Holders {
        let now = (self.clock)();
        let nodes = self.machine.look(|applied| applied.state.nodes());
        let volatile = self.volatile();
        let held = |id: NodeId| {
            let left_ms = volatile.leases.held(id, now) / 1_000_000;
            // A node that is down has reported nothing since.
            let trouble = volatile.troubles.get(&id).filter(|_| left_ms > 0).cloned().unwrap_or_default();
            let copies = volatile.copies.get(&id).filter(|_| left_ms > 0).cloned().unwrap_or_default();
            let standing = volatile.standings.get(&id).filter(|_| left_ms > 0).map(|reported| reported.standing);
            Held { left_ms, trouble, copies, standing }
        };
        Holders(nodes.into_iter().map(|(id, _)| (id, held(id))).collect())
    }
}

/// The members of the cluster, as the leader's answers have told of them.
#[derive(Default)]
pub struct Watched {
    up: BTreeSet<NodeId>,
    /// Members that were up before.
    down: BTreeSet<NodeId>,
}

impl Watched {
    /// Returns the members that have gone down (false), and those that are up again (true). A node that has just joined
    /// has no lease yet, and is neither.
    fn changes(&mut self, members: &BTreeSet<NodeId>, silent: &BTreeSet<NodeId>) -> Vec<(NodeId, bool)> {
        self.up.retain(|id| members.contains(id));
        self.down.retain(|id| members.contains(id));
        let mut changes = Vec::new();
        for id in members {
            if !silent.contains(id) {
                if self.down.remove(id) {
                    changes.push((*id, true));
                }
                self.up.insert(*id);
            } else if self.up.remove(id) {
                self.down.insert(*id);
                changes.push((*id, false));
            }
        }
        changes
    }
}

/// What a process with a copy of a shard has said of itself.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    /// Its life.
    pub life: u64,
    /// When it was heard.
    pub at: BootNs,
    /// What it has said.
    pub standing: Standing,
}

/// A node's report when it renews its lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// Its name.
    pub id: NodeId,
    /// How often it has started.
    pub incarnation: u64,
    /// The version of the libraries that it has.
    pub libraries: u64,
    /// Its troubles, in words, though it serves; at most [`TROUBLE_MAX`] bytes. Empty: none.
    pub trouble: String,
    /// The copies of the log that it owns, at a level that has room for them.
    pub copies: Vec<CopyReport>,
    /// How well it is, and how far, if it has a copy of a shard with standbys.
    pub standing: Option<Standing>,
}

impl Wire for Renewal {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.libraries.to_le_bytes());
        put_bytes(out, self.trouble.as_bytes());
        copies::put(out, &self.copies);
        if let Some(standing) = &self.standing {
            if self.copies.is_empty() {
                put_count(out, 0);
            }
            standing.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, incarnation, libraries) = (NodeId::read(from)?, from.u64()?, from.u64()?);
        let trouble = from.text(TROUBLE_MAX)?.to_owned();
        let copies = copies::read(from)?;
        let standing = if from.is_empty() { None } else { Some(Standing::read(from)?) };
        Ok(Self { id, incarnation, libraries, trouble, copies, standing })
    }
}

/// The answer to a renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The index that the node must have applied before the lease is one.
    pub index: u64,
    /// Nodes that hold no lease.
    pub silent: BTreeSet<NodeId>,
    /// The term of a shard with standbys that the lease is for, and these; none: it is for none.
    pub of_shard: Option<ShardLease>,
}

impl Wire for Granted {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_le_bytes());
        put_count(out, self.silent.len());
        self.silent.iter().for_each(|id| id.put(out));
        // Behind all that earlier builds know.
        if let Some(of_shard) = &self.of_shard {
            of_shard.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let index = from.u64()?;
        let count = from.count(crate::meta::NODES_MAX)?;
        let silent = (0..count).map(|_| NodeId::read(from)).collect::<Result<_, _>>()?;
        Ok(Self { index, silent, of_shard: if from.is_empty() { None } else { Some(ShardLease::read(from)?) } })
    }
}

/// A node, as the leader knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// For how many more milliseconds it has a lease of this leader.
    pub left_ms: u64,
    /// As in [`Renewal`].
    pub trouble: String,
    /// As in [`Renewal`].
    pub copies: Vec<CopyReport>,
    /// As in [`Renewal`].
    pub standing: Option<Standing>,
}

/// See [`Agent::holders`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holders(pub BTreeMap<NodeId, Held>);

impl Wire for Holders {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(out, self.0.len());
        for (id, held) in &self.0 {
            id.put(out);
            out.extend_from_slice(&held.left_ms.to_le_bytes());
            put_bytes(out, held.trouble.as_bytes());
        }
        // Behind all that earlier builds know.
        let owners: Vec<_> = self.0.iter().filter(|(_, held)| !held.copies.is_empty()).collect();
        let standings: Vec<_> = self.0.iter().filter_map(|(id, held)| Some((id, held.standing?))).collect();
        if owners.is_empty() && standings.is_empty() {
            return;
        }
        put_count(out, owners.len());
        for (id, held) in owners {
            id.put(out);
            copies::put(out, &held.copies);
        }
        if standings.is_empty() {
            return;
        }
        put_count(out, standings.len());
        for (id, standing) in standings {
            id.put(out);
            standing.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let held = |from: &mut Reader<'_>| {
            let (id, left_ms) = (NodeId::read(from)?, from.u64()?);
            Ok((id, Held { left_ms, trouble: from.text(TROUBLE_MAX)?.to_owned(), copies: Vec::new(), standing: None }))
        };
        let count = from.count(crate::meta::NODES_MAX)?;
        let mut all: BTreeMap<NodeId, Held> = (0..count).map(|_| held(from)).collect::<Result<_, _>>()?;
        let owners = if from.is_empty() { 0 } else { from.count(crate::meta::NODES_MAX)? };
        for _ in 0..owners {
            let (id, copies) = (NodeId::read(from)?, copies::read(from)?);
            all.get_mut(&id).ok_or(Malformed("copies of a member"))?.copies = copies;
        }
        let standings = if from.is_empty() { 0 } else { from.count(crate::meta::NODES_MAX)? };
        for _ in 0..standings {
            let (id, standing) = (NodeId::read(from)?, Standing::read(from)?);
            all.get_mut(&id).ok_or(Malformed("the standing of a member"))?.standing = Some(standing);
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::super::copies::CopyState;
    use super::super::standing::Following;
    use super::*;
    use crate::Term;

    #[test]
    fn members_that_were_up_go_down_and_come_back() {
        let [a, b, c] = [1, 2, 3].map(|byte| NodeId([byte; 20]));
        let set = |ids: &[NodeId]| ids.iter().copied().collect::<BTreeSet<_>>();
        let mut watched = Watched::default();
        assert!(watched.changes(&set(&[a, b]), &set(&[])).is_empty());
        assert_eq!(watched.changes(&set(&[a, b, c]), &set(&[b, c])), [(b, false)], "one that joins is not down");
        assert!(watched.changes(&set(&[a, b, c]), &set(&[b])).is_empty());
        assert_eq!(watched.changes(&set(&[a, b, c]), &set(&[c])), [(b, true), (c, false)]);
        assert!(watched.changes(&set(&[a, b]), &set(&[])).is_empty(), "a node that was removed is not up");
        assert!(watched.changes(&set(&[a, b, c]), &set(&[])).is_empty());
    }

    fn standing() -> Standing {
        let health = standby::Health { stuck_ms: 1, stalled_ms: 2, reaches_majority: true, disk_failed: true };
        let following = Following {
            log: quorum::Cut(3),
            covered: quorum::Cut(2),
            behind_bytes: 4,
            behind_ms: 5,
            applied_bytes: 6,
            priority: 100,
        };
        Standing { health, following: Some(following) }
    }

    #[test]
    fn what_is_said_is_read() {
        let id = NodeId([3; 20]);
        let copy = |n: u8, state| CopyReport {
            id: quorum::AcceptorId([n; 16]),
            counts: n == 1,
            state,
            blocks: 5,
            bytes: 1 << 40,
        };
        let states = [CopyState::Follows, CopyState::Silent, CopyState::Failed, CopyState::Full, CopyState::SetBack];
        let all: Vec<_> = (1..).zip(states).map(|(n, state)| copy(n, state)).collect();
        for (trouble, copies) in [("", Vec::new()), ("it writes nothing", all.clone())] {
            let (trouble, other) = (trouble.to_owned(), NodeId([4; 20]));
            for standing in [None, Some(Standing::default()), Some(standing())] {
                let (trouble, copies) = (trouble.clone(), copies.clone());
                let renewal = Renewal { id, incarnation: 2, libraries: 7, trouble, copies, standing };
                assert_eq!(Renewal::whole(&renewal.to_bytes()), Ok(renewal.clone()));
                let held = Held { left_ms: 1500, trouble: renewal.trouble, copies: renewal.copies, standing };
                let without = Held { copies: Vec::new(), standing: None, ..held.clone() };
                let holders = Holders([(id, held), (other, without)].into());
                assert_eq!(Holders::whole(&holders.to_bytes()), Ok(holders));
            }
        }
        let of_shard = ShardLease { term: Term::new(3).unwrap(), standbys: Vec::new() };
        for of_shard in [None, Some(of_shard)] {
            let granted = Granted { index: 5, silent: [id].into(), of_shard };
            assert_eq!(Granted::whole(&granted.to_bytes()), Ok(granted));
        }
        let long = "x".repeat(TROUBLE_MAX + 1);
        let long = Renewal { id, incarnation: 2, libraries: 7, trouble: long, copies: Vec::new(), standing: None };
        assert!(Renewal::whole(&long.to_bytes()).is_err());
    }

    /// Nodes of earlier builds read no reports, and write none.
    #[test]
    fn reports_of_copies_stand_behind_what_was_there() {
        let id = NodeId([3; 20]);
        let report = CopyReport {
            id: quorum::AcceptorId([7; 16]),
            counts: true,
            state: CopyState::Silent,
            blocks: 0x102,
            bytes: 0x304,
        };
        let trouble = "x".to_owned();
        let without = Renewal { id, incarnation: 2, libraries: 7, trouble, copies: Vec::new(), standing: None };
        let with = Renewal { copies: vec![report], ..without.clone() };
        let former = [&[3; 20][..], &[2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'x']].concat();
        let more = [&[1, 0, 0, 0][..], &[7; 16], &[1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(without.to_bytes(), former);
        assert_eq!(with.to_bytes(), [&former[..], &more].concat());
        // What a process with a copy of a shard's data says of itself stands behind that, and an empty list says so.
        let of_standby = Renewal { standing: Some(standing()), ..without.clone() };
        assert_eq!(of_standby.to_bytes(), [former, vec![0; 4], standing().to_bytes()].concat());
        let held = Held { left_ms: 5, trouble: String::new(), copies: Vec::new(), standing: None };
        let holders = |standing| Holders([(id, Held { standing, ..held.clone() })].into()).to_bytes();
        let without = [&[1, 0, 0, 0][..], &[3; 20], &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(holders(None), without);
        let more = [&[0, 0, 0, 0, 1, 0, 0, 0][..], &[3; 20], &standing().to_bytes()].concat();
        assert_eq!(holders(Some(standing())), [without, more].concat());
    }

    #[test]
    fn a_lease_names_the_term_of_a_shard_with_standbys_alone() {
        let granted = |of_shard| Granted { index: 5, silent: BTreeSet::new(), of_shard }.to_bytes();
        assert_eq!(granted(None), [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let of_shard = ShardLease { term: Term::new(3).unwrap(), standbys: Vec::new() };
        assert_eq!(granted(Some(of_shard)), [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert!(
            Granted::whole(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).is_err(),
            "no term is so high"
        );
    }
}

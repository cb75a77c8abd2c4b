//! Decides which node does which part of a block.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::membership::items::Principal;
use command::{KeyAt, Reach, effects, flags};
use resp::{Protocol, Reply};
use txn::locks::Mode;
use txn::{Life, Lock, Member, NodeId, Part, ParticipantId};

use super::block::{Answer, Elsewhere, Watches};
use super::names::{member, place_of};
use super::split::{lacking, split};
use super::wire;
use super::wire::{Changes, Check};
use crate::admission::cluster::{EVERYTHING, NO_OWNER, Place, SEVERAL};
use crate::cluster::kinds::Kind;
use crate::cluster::peers::{Peers, slot_of};
use crate::config::Isolation;
use crate::node::Node;
use crate::session::transaction::Interactive;
use crate::session::{Multi, database, is_read_only_script};
use crate::table::{Command, Handler, Table};

/// Bytes of a node's part of a block, at most: it travels in one message.
pub(super) const PART_MAX: usize = 8 << 20;
pub(super) const TOO_LONG: &[u8] = b"ERR the block is too long for a transaction over nodes";
pub(super) const NOT_SERVED: &[u8] = b"CLUSTERDOWN a node that owns some of the keys does not serve now";

/// The nodes' parts of a block, and where its replies come from.
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    pub(super) answers: Vec<Answer>,
    pub(super) selected: u16,
    /// True if the block runs here, on copies.
    pub(super) fetches: bool,
}

/// A node's part of a block.
pub(super) struct OfNode {
    pub(super) locks: Vec<Lock>,
    commands: wire::Commands,
}

impl OfNode {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { locks: Vec::new(), commands: wire::Commands::new(protocol, None) }
    }

    /// Whose commands run as this user's, if it is one.
    fn of_user(protocol: Protocol, user: Option<Principal>) -> Self {
        let mut of_node = Self::new(protocol);
        user.into_iter().for_each(|user| of_node.commands.name_user(user));
        of_node
    }
}

/// A transaction's part at a node. A part with shared locks only changes nothing there.
pub(super) fn part(member: Member, locks: Vec<Lock>, commands: Arc<[u8]>) -> Part {
    let writes = locks.iter().any(|lock| lock.mode == Mode::Exclusive);
    Part { member, locks: Lock::normalized(locks), commands, writes }
}

impl Peers {
    /// The link to the node of a participant, if the map has it.
    pub(crate) fn link_to_member(&mut self, id: ParticipantId) -> Option<usize> {
        let place = place_of(id, &self.map)?;
        Some(self.link_to(place))
    }

    /// This node's present life, as other nodes know it.
    pub(super) fn life(&self) -> Option<Life> {
        let number = self.map.node(self.my_place()?).number;
        Some(Life { node: NodeId(u64::from(number)), incarnation: self.shared.incarnation })
    }
}

impl Peers {
    /// The owner of a key.
    pub(super) fn owner(&self, key: &[u8]) -> Result<u16, Vec<u8>> {
        self.map.owner_of(slot_of(key)).ok_or_else(|| NO_OWNER.into())
    }

    /// Watched keys, by owner.
    pub(super) fn parts_of_watches(
        &self,
        (watched, elsewhere): Watches<'_>,
        protocol: Protocol,
    ) -> Result<BTreeMap<u16, OfNode>, Vec<u8>> {
        let mut nodes: BTreeMap<u16, OfNode> = BTreeMap::new();
        let lock = |db: u16, key: &[u8]| Lock { db, key: key.into(), mode: Mode::Shared };
        if !watched.is_empty() {
            let watch = wire::Watch { vc: wire::HERE, client: 0, keys: watched.len() as u32 };
            let locks = watched.iter().map(|key| lock(key.db, &key.key)).collect();
            nodes.insert(self.me, OfNode { locks, commands: wire::Commands::new(protocol, Some(watch)) });
        }
        for Elsewhere { link, watch, keys } in elsewhere {
            let place = self.links[*link].node.and_then(|node| self.map.index_of(node)).ok_or(NO_OWNER)?;
            let locks = keys.iter().map(|(db, key)| lock(*db, key)).collect();
            nodes.insert(place, OfNode { locks, commands: wire::Commands::new(protocol, Some(*watch)) });
        }
        Ok(nodes)
    }

    /// Makes a part, which is one message, for each node.
    pub(super) fn parts_of(&self, nodes: BTreeMap<u16, OfNode>) -> Result<Vec<Part>, Vec<u8>> {
        let mut parts = Vec::with_capacity(nodes.len());
        for (owner, OfNode { locks, commands }) in nodes {
            let commands = commands.finish();
            if commands.len() + locks.iter().map(|lock| lock.key.len() + 16).sum::<usize>() > PART_MAX {
                return Err(TOO_LONG.into());
            }
            let member = member(&self.map, owner);
            parts.push(part(member, locks, commands.into()));
        }
        // The coordinator keeps them in this order.
        parts.sort_by_key(|part| part.member);
        Ok(parts)
    }

    /// Decides which node does which part. The error is for the client.
    pub(super) fn plan(
        &self,
        (node, databases): (&Node, u16),
        multi: &Multi,
        watches: Watches<'_>,
        session: (u16, Protocol),
        extra: &[Lock],
    ) -> Result<Plan, Vec<u8>> {
        if let Some(plan) = self.plan_apart((&node.table, databases), multi, watches, session)? {
            return Ok(plan);
        }
        let parts = self.plan_fetching((node, databases), multi, watches, session, extra)?;
        if parts.is_empty() {
            Err(SEVERAL.into())
        } else {
            Ok(Plan { parts, answers: Vec::new(), selected: session.0, fetches: true })
        }
    }

    /// Decides which node does which part, if each command needs one node only, or works on each of its keys alone.
    fn plan_apart(
        &self,
        (table, databases): (&Table, u16),
        multi: &Multi,
        watches: Watches<'_>,
        (db, protocol): (u16, Protocol),
    ) -> Result<Option<Plan>, Vec<u8>> {
        let mut nodes = self.parts_of_watches(watches, protocol)?;
        let user = self.says_principals().then_some(multi.user);
        for of_node in nodes.values_mut() {
            user.into_iter().for_each(|user| of_node.commands.name_user(user));
        }
        let (mut answers, mut selected) = (Vec::with_capacity(multi.queue.len()), db);
        let mut positions: Vec<KeyAt> = Vec::new();
        for (queued, args) in multi.commands() {
            let command = table.get(queued.command);
            let mut here = Vec::new();
            let mut reply = Reply::new(&mut here, protocol);
            match (self.kinds[queued.command], command.handler) {
                (Kind::Quick, _) if command.name == "select" => {
                    match database(args.get(1).unwrap_or_default(), databases) {
                        Ok(db) => {
                            selected = db;
                            reply.ok();
                        }
                        Err(error) => reply.error(error.as_bytes()),
                    }
                    answers.push(Answer::Here(here));
                }
                (Kind::Quick, _) if command.name == "ping" || command.name == "echo" => {
                    match args.get(1) {
                        Some(text) => reply.bulk(text),
                        None => reply.simple("PONG"),
                    }
                    answers.push(Answer::Here(here));
                }
                (Kind::Keyed | Kind::Patient, Handler::Data(row)) => {
                    if let Some(error) = lacking(command, args) {
                        reply.error(&error);
                        answers.push(Answer::Here(here));
                        continue;
                    }
                    let is_lockable = row.run.reach(args) == Reach::Keys;
                    let owner = match self.place_of(command, args, queued.key.map(|(slot, _)| slot)) {
                        Place::At(owner, _) if is_lockable => owner,
                        Place::Nobody => return Err(NO_OWNER.into()),
                        Place::At(..) | Place::Anywhere => return Ok(None),
                        Place::Several => {
                            let Some(split) = split(command, args, |key| self.owner(key))? else { return Ok(None) };
                            let mut of_nodes = Vec::with_capacity(split.nodes.len());
                            for (owner, (words, numbers)) in split.nodes {
                                let of_node = nodes.entry(owner).or_insert_with(|| OfNode::of_user(protocol, user));
                                of_node.commands.push(selected, words.iter().copied());
                                let step = (words.len() - 1) / numbers.len();
                                let keys = words[1..].iter().step_by(step);
                                let lock =
                                    |key: &&[u8]| Lock { db: selected, key: (*key).into(), mode: command.mode() };
                                of_node.locks.extend(keys.map(lock));
                                of_nodes.push((member(&self.map, owner).id, numbers));
                            }
                            answers.push(Answer::Split(split.join, of_nodes));
                            continue;
                        }
                    };
                    let of_node = nodes.entry(owner).or_insert_with(|| OfNode::of_user(protocol, user));
                    of_node.commands.push(selected, args.iter());
                    positions.clear();
                    command.spec.keys_of(args, &mut positions);
                    let (mode, databases) = (command.mode(), command.databases(selected, databases));
                    for key in positions.iter().filter_map(|at| args.get(at.index)) {
                        of_node.locks.extend(databases.clone().map(|db| Lock { db, key: key.into(), mode }));
                    }
                    answers.push(Answer::Whole(member(&self.map, owner).id));
                }
                _ => return Ok(None),
            }
        }
        if nodes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Plan { parts: self.parts_of(nodes)?, answers, selected, fetches: false }))
    }
}

impl Peers {
    /// The error with which a transaction over these nodes is refused at once. One of them is out of reach, and the
    /// transaction would wait for it. Or this node is not in the cluster, and no node would hear it; or it is to take part,
    /// and has been without a lease for long.
    pub(super) fn refusal(&mut self, parts: &[Part]) -> Option<Vec<u8>> {
        let Some(me) = self.my_place() else { return Some(self.no_lease()) };
        let map = Arc::clone(&self.map);
        for part in parts {
            let place = place_of(part.member.id, &map)?;
            if place == me {
                if !self.serves && !self.awaits_lease {
                    return Some(self.no_lease());
                }
                continue;
            }
            let link = self.link_to(place);
            if map.node(place).lost || self.links[link].is_out_of_reach() {
                return Some(NOT_SERVED.into());
            }
        }
        None
    }
}

impl Peers {
    /// The keys of a block that runs on copies, by owner. The error is for the client.
    pub(super) fn plan_fetching(
        &self,
        (node, databases): (&Node, u16),
        multi: &Multi,
        watches: Watches<'_>,
        session: (u16, Protocol),
        extra: &[Lock],
    ) -> Result<Vec<Part>, Vec<u8>> {
        let (mut selected, protocol) = session;
        let mut nodes = self.parts_of_watches(watches, protocol)?;
        let mut add = |lock: Lock| {
            let owner = self.owner(&lock.key)?;
            nodes.entry(owner).or_insert_with(|| OfNode::new(protocol)).locks.push(lock);
            Ok::<(), Vec<u8>>(())
        };
        let mut positions = Vec::new();
        for (queued, args) in multi.commands() {
            let command = node.table.get(queued.command);
            let kind = self.kinds[queued.command];
            match kind {
                Kind::Quick if command.name == "select" => {
                    selected = database(args.get(1).unwrap_or_default(), databases).unwrap_or(selected);
                }
                Kind::Keyed | Kind::Patient | Kind::Script => {
                    if command.reach(args) != Reach::Keys {
                        return Err(EVERYTHING.into());
                    }
                    let mode = match kind {
                        Kind::Script if is_read_only_script(node, command, args) => Mode::Shared,
                        Kind::Script => Mode::Exclusive,
                        _ => command.mode(),
                    };
                    positions.clear();
                    command.spec.keys_of(args, &mut positions);
                    for key in positions.iter().filter_map(|at| args.get(at.index)) {
                        for db in command.databases(selected, databases) {
                            add(Lock { db, key: key.into(), mode })?;
                        }
                    }
                }
                Kind::Quick | Kind::Unwatch | Kind::Own => {}
                _ if self.may_be_asked(command) => {}
                Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot => return Err(EVERYTHING.into()),
                Kind::Watch | Kind::Exec => return Err(SEVERAL.into()),
            }
        }
        extra.iter().cloned().try_for_each(add)?;
        self.parts_of(nodes)
    }
}

impl Peers {
    /// These keys, by owner. The error is for the client.
    pub(super) fn plan_further(&self, locks: Vec<Lock>, protocol: Protocol) -> Result<Vec<Part>, Vec<u8>> {
        let mut nodes: BTreeMap<u16, OfNode> = BTreeMap::new();
        for lock in locks {
            let owner = self.owner(&lock.key)?;
            nodes.entry(owner).or_insert_with(|| OfNode::new(protocol)).locks.push(lock);
        }
        self.parts_of(nodes)
    }
}

/// An owner's checks, effects and events.
type OfOwner<'a> = (Vec<Check<'a>>, Vec<u8>, Vec<command::Event>);

impl Peers {
    /// The nodes' parts of a COMMIT. The error is for the client.
    pub(super) fn plan_commit(&self, transaction: &Interactive) -> Result<Vec<Part>, Vec<u8>> {
        let all = transaction.isolation == Isolation::StrictSerializable;
        let mut locks: BTreeMap<u16, Vec<Lock>> = BTreeMap::new();
        let mut changes: BTreeMap<u16, OfOwner<'_>> = BTreeMap::new();
        for ((db, key), seen) in transaction.keys.iter().filter(|(_, seen)| all || seen.written) {
            let owner = self.owner(key)?;
            let mode = if seen.written { Mode::Exclusive } else { Mode::Shared };
            locks.entry(owner).or_default().push(Lock { db: *db, key: key.clone(), mode });
            changes.entry(owner).or_default().0.push((*db, key, seen.version_at(transaction.now)));
        }
        for effect in effects::split(&transaction.effects) {
            let (effect, bytes) = effect.map_err(|_| TOO_LONG)?;
            let owner = self.owner(effect.key)?;
            changes.entry(owner).or_default().1.extend_from_slice(bytes);
        }
        for event in &transaction.events {
            let written = transaction.keys.get(&(event.db, event.key.clone())).is_some_and(|seen| seen.written);
            if written {
                changes.entry(self.owner(&event.key)?).or_default().2.push(event.clone());
            }
        }
        let mut parts = Vec::new();
        for (owner, locks) in locks {
            let (checks, effects, events) = changes.remove(&owner).unwrap_or_default();
            let commands =
                Changes { checks, effects: &effects, events, needs_memory: transaction.needs_memory }.encode();
            if commands.len() > PART_MAX {
                return Err(TOO_LONG.into());
            }
            let member = member(&self.map, owner);
            parts.push(part(member, locks, commands.into()));
        }
        Ok(parts)
    }
}

impl Command {
    /// The mode in which the command locks its keys.
    pub(crate) fn mode(&self) -> Mode {
        // A command that finds fields of a hash expired deletes them, and two must not do that at once.
        let writes = flags::MAY_REPLICATE | flags::EXPIRES_FIELDS;
        let reads = self.spec.has(flags::READONLY) && self.spec.flags & writes == 0;
        if reads { Mode::Shared } else { Mode::Exclusive }
    }

    /// The databases in which the command works on its keys, if its session has selected `db`. MOVE and COPY write to
    /// other databases.
    pub(crate) fn databases(&self, db: u16, databases: u16) -> std::ops::Range<u16> {
        if self.spec.has(command::flags::OTHER_DB) { 0..databases } else { db..db + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_change_something_locks_alone() {
        let table = Table::new();
        let mode = |name: &str| table.find_command(name.as_bytes()).unwrap().mode();
        for name in ["set", "pfcount", "hget", "hmget", "getdel"] {
            assert_eq!(mode(name), Mode::Exclusive, "{name}");
        }
        for name in ["get", "mget", "exists", "lrange", "zscore", "type"] {
            assert_eq!(mode(name), Mode::Shared, "{name}");
        }
    }
}

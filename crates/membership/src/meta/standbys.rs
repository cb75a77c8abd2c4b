//! The copies of a shard's data, in the metadata. `standby::Copies` has the rules; here they meet nodes, slots and groups.
//!
//! A node owns one shard or stands by for one. A pin dissolves the node's own shard, which has no slots. A node that was
//! pinned has an entry with its shard until it goes, or begins with another one: nothing that was said about an earlier
//! life can count a later one.

use std::collections::BTreeMap;
use std::fmt;

use quorum::{Cut, ShardId, Term};
use standby::{Change, Copies, NodeNumber, Process, Refusal as Rule, Standby};

use super::groups::GroupRefusal;
use super::shards::{self, Shard, Shards};
use super::{Kind, Member, NODES_MAX, Refusal, State};
use crate::codec::{Malformed, Reader, put_count};
use crate::takeovers::CopiedShard;
use crate::{NodeId, level};

/// Most pinned standbys of a shard.
pub const STANDBYS_MAX: usize = 15;

/// The log waits for a standby.
const PINNED: u8 = 1;
/// A standby may take the shard over. It is pinned as well.
const ELECTABLE: u8 = 2;
/// An operator has taken a standby out.
const REMOVED: u8 = 4;

/// A change of the copies of a shard's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeCopies {
    /// The shard.
    pub shard: ShardId,
    /// The change. Its processes are named by the numbers of their nodes and by how often these have started.
    pub change: Change,
}

/// The reason why a change of a shard's copies is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopiesRefusal {
    /// It is against a rule of standbys.
    Rule(Rule),
    /// No node has this number.
    NoNode(u32),
    /// The node stands by for another shard.
    StandsBy(ShardId),
    /// Its data would be given up, and the node of this number has a copy of them.
    HasStandby(u32),
}

impl fmt::Display for CopiesRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(why) => write!(f, "{why}"),
            Self::NoNode(number) => write!(f, "no node has the number {number}"),
            Self::StandsBy(shard) => write!(f, "the node stands by for shard {}", shard.0),
            Self::HasStandby(number) => {
                write!(
                    f,
                    "node {number} has a copy of its data, and may take it over: forget that node first to go without"
                )
            }
        }
    }
}

impl Shard {
    /// True if a node is wanted as a standby.
    #[must_use]
    pub fn has_standbys(&self) -> bool {
        self.standbys.values().any(|standby| standby.is_wanted)
    }

    /// The copies of its data, as the rules of standbys have them. `owner`: the number of the owner's node.
    #[must_use]
    pub fn copies(&self, owner: u32) -> Copies {
        let owner = Process { node: NodeNumber(owner), life: self.incarnation };
        Copies::known(self.term, owner, self.rests_ms, self.standbys.clone())
    }
}

impl Shards {
    /// A node stands by for nothing any more.
    pub(super) fn drop_standby(&mut self, node: NodeNumber) {
        for shard in self.all.values_mut() {
            shard.standbys.remove(&node);
        }
    }

    /// The shard that a node stands by for, or has stood by for.
    fn with_standby(&self, node: NodeNumber) -> Option<(ShardId, &Standby)> {
        self.all.values().find_map(|shard| Some((shard.id, shard.standbys.get(&node)?)))
    }

    /// Checks what every change of copies keeps: a standby is a node, which neither owns a shard nor stands by for two.
    pub(super) fn check_standbys(&self, nodes: &BTreeMap<NodeNumber, NodeId>) -> Result<(), Malformed> {
        for shard in self.all.values() {
            for node in shard.standbys.keys() {
                let is_free = |id: &NodeId| self.of(*id).next().is_none();
                let is_only = self.with_standby(*node).is_some_and(|(first, _)| first == shard.id);
                if !is_only || !nodes.get(node).is_some_and(is_free) {
                    return Err(Malformed("standbys, each of one shard"));
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// True if a shard has standbys.
    pub fn has_standbys(&self) -> bool {
        self.shards.all.values().any(Shard::has_standbys)
    }

    /// The shards that have standbys.
    pub fn copied_shards(&self) -> Vec<CopiedShard> {
        let process =
            |(_, member): (NodeId, &Member)| Process { node: NodeNumber(member.number), life: member.incarnation };
        let copied = |shard: &Shard| {
            let owner = self.members.get(&shard.owner)?.number;
            let nodes = shard.standbys.keys().copied().chain([NodeNumber(owner)]);
            let processes = nodes.filter_map(|node| self.numbered(node)).map(process).collect();
            Some(CopiedShard { id: shard.id, copies: shard.copies(owner), processes })
        };
        self.shards.all.values().filter(|shard| shard.has_standbys()).filter_map(copied).collect()
    }

    /// Changes the copies of a shard's data, as the rules of standbys say.
    pub(super) fn change_copies(&mut self, ask: &ChangeCopies) -> Result<(), Refusal> {
        let &ChangeCopies { shard, change } = ask;
        if self.level < level::STANDBYS {
            return Err(Refusal::EarlierLevel { has: self.level, needs: level::STANDBYS });
        }
        let Some(of) = self.shards.all.get(&shard) else { return Err(GroupRefusal::NoShard(shard).into()) };
        match change {
            Change::Pin { standby } => {
                let known = of.standbys.get(&standby.node);
                if known.is_some_and(|known| known.life == standby.life && known.is_pinned && !known.is_electable) {
                    // It may be asked for again, after an answer that was lost.
                    return Ok(());
                }
                self.may_be_pinned(shard, standby)?;
            }
            Change::Remove { standby } => {
                // Its node may be lost: the life is the one that the metadata know.
                if let Some((id, member)) = self.numbered(standby.node)
                    && member.incarnation != standby.life
                {
                    return Err(Refusal::EarlierLife { id, known: member.incarnation });
                }
            }
            Change::TakeOver { to, .. } => {
                let copies = of.settled.len();
                self.present(shard, to)?;
                if copies < 2 {
                    // Nothing keeps the owner from writing to a log that it alone has (rule O3).
                    return Err(GroupRefusal::OneCopy(shard).into());
                }
            }
            Change::Lead { by, .. } => {
                self.present(shard, by)?;
            }
            Change::Count { .. } | Change::GiveUp { .. } => {}
        }
        self.change_shard(shard, change)
    }

    /// Applies a change to the copies of a shard's data. With this a term is given (rule G1), and in no other way.
    pub(super) fn change_shard(&mut self, shard: ShardId, change: Change) -> Result<(), Refusal> {
        let Some(of) = self.shards.all.get(&shard) else { return Err(GroupRefusal::NoShard(shard).into()) };
        let Some(owner) = self.members.get(&of.owner) else { return Err(Refusal::Unknown(of.owner)) };
        let before = of.copies(owner.number);
        if let Change::TakeOver { known, to: process, .. } | Change::Lead { known, by: process, .. } = change
            && known < before.term()
            && process == before.owner()
        {
            // A process that asks for the term after an earlier one, and was given it, may not have heard the answer.
            return Ok(());
        }
        let mut after = before.clone();
        after.apply(change).map_err(|why| refusal(shard, why))?;
        if after == before {
            return Ok(());
        }
        let Some((id, _)) = self.numbered(after.owner().node) else {
            return Err(Refusal::Copies { shard, why: CopiesRefusal::NoNode(after.owner().node.0) });
        };
        if let Change::Pin { standby } = change {
            self.free(standby.node);
        }
        let Some(of) = self.shards.all.get_mut(&shard) else { return Ok(()) };
        of.term = after.term();
        of.incarnation = after.owner().life;
        of.rests_ms = after.rests_ms();
        of.standbys = after.into_standbys();
        let former = std::mem::replace(&mut of.owner, id);
        if former != id {
            self.hand_over(shard, former, id);
        }
        self.version += 1;
        Ok(())
    }

    /// The member of a number.
    fn numbered(&self, node: NodeNumber) -> Option<(NodeId, &Member)> {
        self.members.iter().find(|(_, member)| member.number == node.0).map(|(id, member)| (*id, member))
    }

    /// The node of a process, which is in the life that the metadata know.
    fn present(&self, shard: ShardId, process: Process) -> Result<(NodeId, &Member), Refusal> {
        let known = self.numbered(process.node).filter(|(_, member)| member.kind == Kind::Data);
        match known {
            None => Err(Refusal::Copies { shard, why: CopiesRefusal::NoNode(process.node.0) }),
            Some((id, member)) if member.incarnation != process.life => {
                Err(Refusal::EarlierLife { id, known: member.incarnation })
            }
            Some((id, member)) if member.lost => Err(GroupRefusal::Lost(id).into()),
            Some(found) => Ok(found),
        }
    }

    /// Checks that a process may begin as a standby of a shard: its node has nothing that would be lost by that.
    fn may_be_pinned(&self, shard: ShardId, standby: Process) -> Result<(), Refusal> {
        let (id, member) = self.present(shard, standby)?;
        let rule = |why| Err(Refusal::Copies { shard, why });
        let of = self.shards.all.get(&shard);
        if of.is_some_and(|of| of.owner == id) {
            return rule(CopiesRefusal::Rule(Rule::IsOwner));
        }
        if let slots @ 1.. = self.slots_of(id) {
            return Err(Refusal::OwnsSlots { id, slots: slots as u32 });
        }
        if self.shards.former.get(&member.number).is_some_and(|former| *former != shard) {
            return Err(GroupRefusal::HasLost(id).into());
        }
        let pinned = |of: &Shard| of.standbys.values().filter(|standby| standby.is_pinned).count();
        if of.is_some_and(|of| !of.standbys.contains_key(&standby.node) && pinned(of) >= STANDBYS_MAX) {
            return Err(Refusal::TooMany);
        }
        match self.shards.with_standby(standby.node).filter(|(other, _)| *other != shard) {
            Some((other, known)) if known.is_pinned => rule(CopiesRefusal::StandsBy(other)),
            Some((_, known)) if known.life >= standby.life => rule(CopiesRefusal::Rule(Rule::EarlierLife(known.life))),
            _ => Ok(()),
        }
    }

    /// A node becomes a standby: it owns nothing any more, and stands by for no other shard.
    fn free(&mut self, node: NodeNumber) {
        let Some((id, _)) = self.numbered(node) else { return };
        self.shards.drop_standby(node);
        let empty: Vec<ShardId> = self.shards.of(id).map(|shard| shard.id).collect();
        for id in empty {
            self.shards.all.remove(&id);
            self.shards.gone.insert(id);
        }
        self.consider_all();
    }

    /// A shard has another owner. Logs name the one before as a participant, and the new one as none.
    fn hand_over(&mut self, shard: ShardId, from: NodeId, to: NodeId) {
        if let Some(member) = self.members.get(&from) {
            self.shards.former.insert(member.number, shard);
        }
        self.epoch += 1;
        if let Some(member) = self.members.get_mut(&to) {
            self.shards.former.remove(&member.number);
            member.epoch = self.epoch;
        }
        self.consider_all();
    }

    /// Checks that the data of a node may be given up: no standby of its shard has them.
    ///
    /// # Errors
    /// The shard, and a standby that may take it over.
    pub(super) fn is_last_copy(&self, id: NodeId) -> Result<(), Refusal> {
        self.shards.of(id).try_for_each(is_last_copy_of)
    }
}

/// Checks that the data of a shard's owner may be given up.
///
/// # Errors
/// A standby may take the shard over.
pub(super) fn is_last_copy_of(shard: &Shard) -> Result<(), Refusal> {
    match shard.standbys.iter().find(|(_, standby)| standby.is_electable) {
        Some((node, _)) => Err(Refusal::Copies { shard: shard.id, why: CopiesRefusal::HasStandby(node.0) }),
        None => Ok(()),
    }
}

fn refusal(shard: ShardId, why: Rule) -> Refusal {
    match why {
        Rule::OtherTerm(term) => Refusal::OtherTerm { shard, term },
        Rule::NoTerm => Refusal::TooMany,
        why => Refusal::Copies { shard, why: CopiesRefusal::Rule(why) },
    }
}

fn put_process(out: &mut Vec<u8>, Process { node, life }: Process) {
    out.extend_from_slice(&node.0.to_le_bytes());
    out.extend_from_slice(&life.to_le_bytes());
}

fn process(from: &mut Reader<'_>) -> Result<Process, Malformed> {
    Ok(Process { node: NodeNumber(from.u32()?), life: from.u64()? })
}

fn put_term(out: &mut Vec<u8>, term: Term) {
    out.extend_from_slice(&term.get().to_le_bytes());
}

/// Appends the standbys of a shard, in the order of their nodes' numbers.
pub(super) fn put(out: &mut Vec<u8>, standbys: &BTreeMap<NodeNumber, Standby>) {
    put_count(out, standbys.len());
    for (node, standby) in standbys {
        put_process(out, Process { node: *node, life: standby.life });
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let has = flag(standby.is_pinned, PINNED) | flag(standby.is_electable, ELECTABLE);
        out.push(has | flag(!standby.is_wanted, REMOVED));
    }
}

/// The next ones in `from`.
pub(super) fn read(from: &mut Reader<'_>) -> Result<BTreeMap<NodeNumber, Standby>, Malformed> {
    let mut standbys = BTreeMap::new();
    for _ in 0..from.count(NODES_MAX)? {
        let (Process { node, life }, flags) = (process(from)?, from.u8()?);
        if ![0, PINNED, PINNED | ELECTABLE, REMOVED].contains(&flags) {
            return Err(Malformed("the flags of a standby"));
        }
        if standbys.last_key_value().is_some_and(|(last, _)| *last >= node) {
            return Err(Malformed("standbys in the order of their numbers"));
        }
        let has = |flag: u8| flags & flag != 0;
        let (is_pinned, is_electable, is_wanted) = (has(PINNED), has(ELECTABLE), !has(REMOVED));
        let standby = Standby { life, is_pinned, is_electable, is_wanted };
        standbys.insert(node, standby);
    }
    Ok(standbys)
}

impl ChangeCopies {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        match self.change {
            Change::Pin { standby } => {
                out.push(1);
                put_process(out, standby);
            }
            Change::Count { term, by, standby, covered, floor } => {
                out.push(2);
                put_term(out, term);
                put_process(out, by);
                put_process(out, standby);
                out.extend_from_slice(&covered.0.to_le_bytes());
                out.extend_from_slice(&floor.0.to_le_bytes());
            }
            Change::GiveUp { term, by, standby } => {
                out.push(3);
                put_term(out, term);
                put_process(out, by);
                put_process(out, standby);
            }
            Change::Remove { standby } => {
                out.push(6);
                put_process(out, standby);
            }
            Change::TakeOver { known, to, rests_ms } => {
                out.push(4);
                put_term(out, known);
                put_process(out, to);
                out.extend_from_slice(&rests_ms.to_le_bytes());
            }
            Change::Lead { known, by, of_log, rests_ms } => {
                out.push(5);
                put_term(out, known);
                put_process(out, by);
                put_term(out, of_log);
                out.extend_from_slice(&rests_ms.to_le_bytes());
            }
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let shard = ShardId(from.u32()?);
        let change = match from.u8()? {
            1 => Change::Pin { standby: process(from)? },
            2 => Change::Count {
                term: shards::term(from)?,
                by: process(from)?,
                standby: process(from)?,
                covered: Cut(from.u64()?),
                floor: Cut(from.u64()?),
            },
            3 => Change::GiveUp { term: shards::term(from)?, by: process(from)?, standby: process(from)? },
            4 => Change::TakeOver { known: shards::term(from)?, to: process(from)?, rests_ms: from.u64()? },
            5 => {
                let (known, by) = (shards::term(from)?, process(from)?);
                Change::Lead { known, by, of_log: shards::term(from)?, rests_ms: from.u64()? }
            }
            6 => Change::Remove { standby: process(from)? },
            _ => return Err(Malformed("a change of copies")),
        };
        Ok(Self { shard, change })
    }
}

impl fmt::Display for ChangeCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shard = self.shard.0;
        match self.change {
            Change::Pin { standby } => write!(f, "node {} begins as a standby of shard {shard}", standby.node.0),
            Change::Count { standby, .. } => write!(f, "node {} may take shard {shard} over", standby.node.0),
            Change::GiveUp { standby, .. } => write!(f, "node {} is no standby of shard {shard}", standby.node.0),
            Change::Remove { standby } => write!(f, "node {} is wanted no more at shard {shard}", standby.node.0),
            Change::TakeOver { known, to, .. } => {
                write!(f, "the term after {} of shard {shard} to node {}, a standby", known.get(), to.node.0)
            }
            Change::Lead { known, by, .. } => {
                write!(f, "the term after {} of shard {shard} to node {}", known.get(), by.node.0)
            }
        }
    }
}

impl CopiesRefusal {
    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::NoNode(number) => {
                out.push(1);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::StandsBy(shard) => {
                out.push(2);
                out.extend_from_slice(&shard.0.to_le_bytes());
            }
            Self::HasStandby(number) => {
                out.push(3);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Rule(Rule::NotOwner) => out.push(4),
            Self::Rule(Rule::IsOwner) => out.push(5),
            Self::Rule(Rule::EarlierLife(life)) => {
                out.push(6);
                out.extend_from_slice(&life.to_le_bytes());
            }
            Self::Rule(Rule::NotPinned) => out.push(7),
            Self::Rule(Rule::IsCut) => out.push(8),
            Self::Rule(Rule::NotElectable) => out.push(9),
            Self::Rule(Rule::NoTerm) => out.push(10),
            Self::Rule(Rule::OtherTerm(term)) => {
                out.push(11);
                put_term(out, *term);
            }
        }
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            1 => Self::NoNode(from.u32()?),
            2 => Self::StandsBy(ShardId(from.u32()?)),
            3 => Self::HasStandby(from.u32()?),
            4 => Self::Rule(Rule::NotOwner),
            5 => Self::Rule(Rule::IsOwner),
            6 => Self::Rule(Rule::EarlierLife(from.u64()?)),
            7 => Self::Rule(Rule::NotPinned),
            8 => Self::Rule(Rule::IsCut),
            9 => Self::Rule(Rule::NotElectable),
            10 => Self::Rule(Rule::NoTerm),
            11 => Self::Rule(Rule::OtherTerm(shards::term(from)?)),
            _ => return Err(Malformed("the refusal of a change of copies")),
        })
    }
}

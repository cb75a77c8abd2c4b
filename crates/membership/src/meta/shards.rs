//! Shards: sets of slots with one log each. A node owns its shard, and the shard owns its slots.
//!
//! A node gets a shard when it joins, and owns one at a time. The shard of a lost owner may be given to another node, whose
//! own shard is gone then. Below [`level::SHARDS`] the metadata have no room for shards: the shard of a node has the node's
//! number there, and no term.

use std::collections::{BTreeMap, BTreeSet};

use quorum::{AcceptorId, ShardId, Term};
use standby::{Change, NodeNumber, Process, Standby};

use super::snapshot::{WITH_HEIRS, WITH_STANDBYS};
use super::{Refusal, State, TEXT_MAX, standbys};
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::{NodeId, level};

/// Most acceptors of a shard in one set.
pub const ACCEPTORS_MAX: usize = 15;

/// Most settings of a shard.
pub const SHARD_SETTINGS_MAX: usize = 16;

/// The setting of a shard that says whether it has a log. Without a log it can have no copies.
pub const HAS_LOG: &str = "appendonly";

/// Most numbers in a list of what is gone: as many as there are numbers.
const GONE_MAX: usize = u32::MAX as usize;

/// A folder that holds a copy of a shard's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Acceptor {
    /// The folder.
    pub id: AcceptorId,
    /// The node whose process has it.
    pub node: NodeId,
}

/// A set of slots with one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Its number, never used for another one.
    pub id: ShardId,
    /// The node that owns it.
    pub owner: NodeId,
    /// The life of the owner that the term was given to: how often it had started. 0: there is no term yet.
    pub incarnation: u64,
    /// The owner's time of writing (rule G1).
    pub term: Term,
    /// The name of its log group. Empty: the default group; if there is none, the log has no copies.
    pub group: String,
    /// Its acceptors, the owner's own log first. Empty: the owner's own log alone.
    pub settled: Vec<Acceptor>,
    /// The acceptors that are to take their place.
    pub pending: Option<Vec<Acceptor>>,
    /// The term in which these were chosen. The owner seals them with a later one.
    pub pending_since: Term,
    /// How many streams its log has, as its owner has reported; 0: the owner has not.
    pub streams: u16,
    /// Settings by which its owner runs, whichever node that is: names and values. Empty: no owner has said.
    pub settings: BTreeMap<String, String>,
    /// The nodes that have copies of its data, or had (rule S4). With owner and term they are [`Shard::copies`].
    pub standbys: BTreeMap<NodeNumber, Standby>,
    /// For how many milliseconds the owner of this term rests after it has heard of it (rule S7).
    pub rests_ms: u64,
}

impl Shard {
    /// True if an acceptor at this member counts, or will.
    pub(super) fn has_copy_at(&self, member: NodeId) -> bool {
        self.settled.iter().chain(self.pending.iter().flatten()).any(|acceptor| acceptor.node == member)
    }

    pub(super) fn new(id: ShardId, owner: NodeId) -> Self {
        let (group, settled) = (String::new(), Vec::new());
        Self {
            id,
            owner,
            incarnation: 0,
            term: Term::ZERO,
            group,
            settled,
            pending: None,
            pending_since: Term::ZERO,
            streams: 0,
            settings: BTreeMap::new(),
            standbys: BTreeMap::new(),
            rests_ms: 0,
        }
    }

    fn put(&self, out: &mut Vec<u8>, format: u32) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        self.owner.put(out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.term.get().to_le_bytes());
        put_bytes(out, self.group.as_bytes());
        put_acceptors(out, &self.settled);
        out.push(u8::from(self.pending.is_some()));
        if let Some(pending) = &self.pending {
            put_acceptors(out, pending);
        }
        out.extend_from_slice(&self.pending_since.get().to_le_bytes());
        out.extend_from_slice(&self.streams.to_le_bytes());
        if format >= WITH_HEIRS {
            put_settings(out, &self.settings);
        }
        if format >= WITH_STANDBYS {
            standbys::put(out, &self.standbys);
            out.extend_from_slice(&self.rests_ms.to_le_bytes());
        }
    }

    fn read(from: &mut Reader<'_>, format: u32) -> Result<Self, Malformed> {
        let has_standbys = format >= WITH_STANDBYS;
        Ok(Self {
            id: ShardId(from.u32()?),
            owner: NodeId::read(from)?,
            incarnation: from.u64()?,
            term: term(from)?,
            group: from.text(TEXT_MAX)?.to_owned(),
            settled: acceptors(from)?,
            pending: if from.flag()? { Some(acceptors(from)?) } else { None },
            pending_since: term(from)?,
            streams: from.u16()?,
            settings: if format >= WITH_HEIRS { settings(from)? } else { BTreeMap::new() },
            standbys: if has_standbys { standbys::read(from)? } else { BTreeMap::new() },
            rests_ms: if has_standbys { from.u64()? } else { 0 },
        })
    }
}

fn put_settings(out: &mut Vec<u8>, settings: &BTreeMap<String, String>) {
    put_count(out, settings.len());
    for (name, value) in settings {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn settings(from: &mut Reader<'_>) -> Result<BTreeMap<String, String>, Malformed> {
    let count = from.count(SHARD_SETTINGS_MAX)?;
    (0..count).map(|_| Ok((from.text(TEXT_MAX)?.to_owned(), from.text(TEXT_MAX)?.to_owned()))).collect()
}

fn put_acceptors(out: &mut Vec<u8>, acceptors: &[Acceptor]) {
    put_count(out, acceptors.len());
    for Acceptor { id, node } in acceptors {
        out.extend_from_slice(&id.0);
        node.put(out);
    }
}

fn acceptors(from: &mut Reader<'_>) -> Result<Vec<Acceptor>, Malformed> {
    let count = from.count(ACCEPTORS_MAX)?;
    (0..count).map(|_| Ok(Acceptor { id: AcceptorId(from.array()?), node: NodeId::read(from)? })).collect()
}

/// The next term in `from`.
pub(super) fn term(from: &mut Reader<'_>) -> Result<Term, Malformed> {
    Term::new(from.u32()?).ok_or(Malformed("a term"))
}

/// All shards, and what is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shards {
    pub next: u32,
    pub all: BTreeMap<ShardId, Shard>,
    /// Numbers of nodes that were removed for good.
    pub gone_nodes: BTreeSet<u32>,
    /// Shards that were dissolved.
    pub gone: BTreeSet<ShardId>,
    /// The shards of nodes, by their numbers, that other nodes have taken over (`level::HEIRS`). Their logs name these
    /// nodes, which own no other shard. One that takes its shard back is no former owner any more.
    pub former: BTreeMap<u32, ShardId>,
}

impl Default for Shards {
    fn default() -> Self {
        let (gone_nodes, gone) = (BTreeSet::new(), BTreeSet::new());
        Self { next: 1, all: BTreeMap::new(), gone_nodes, gone, former: BTreeMap::new() }
    }
}

impl Shards {
    /// Those of a cluster whose metadata have no room for shards: of nodes with these numbers and names, and all of
    /// whose numbers are below `next`.
    pub fn of_nodes(next: u32, nodes: &BTreeMap<u32, NodeId>) -> Self {
        let all = nodes.iter().map(|(number, owner)| (ShardId(*number), Shard::new(ShardId(*number), *owner)));
        let gone_nodes: BTreeSet<u32> = (1..next).filter(|number| !nodes.contains_key(number)).collect();
        let gone = gone_nodes.iter().map(|number| ShardId(*number)).collect();
        Self { next, all: all.collect(), gone_nodes, gone, former: BTreeMap::new() }
    }

    /// A new one.
    pub fn add(&mut self, owner: NodeId) {
        let id = ShardId(self.next);
        self.next += 1;
        self.all.insert(id, Shard::new(id, owner));
    }

    /// A node goes for good, and its shards with it.
    pub fn dissolve(&mut self, owner: NodeId, number: u32) {
        let gone: Vec<ShardId> = self.of(owner).map(|shard| shard.id).collect();
        for id in gone {
            self.all.remove(&id);
            self.gone.insert(id);
        }
        self.drop_standby(NodeNumber(number));
        self.gone_nodes.insert(number);
    }

    /// The shards of a node.
    pub fn of(&self, owner: NodeId) -> impl Iterator<Item = &Shard> {
        self.all.values().filter(move |shard| shard.owner == owner)
    }

    /// Appends them in a format of snapshots.
    pub fn put(&self, out: &mut Vec<u8>, format: u32) {
        out.extend_from_slice(&self.next.to_le_bytes());
        put_count(out, self.all.len());
        self.all.values().for_each(|shard| shard.put(out, format));
        put_count(out, self.gone.len());
        self.gone.iter().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
        put_count(out, self.gone_nodes.len());
        self.gone_nodes.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        if format >= WITH_HEIRS {
            put_count(out, self.former.len());
            for (number, shard) in &self.former {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&shard.0.to_le_bytes());
            }
        }
    }

    /// The next ones in `from`, as [`Self::put`] appends them.
    pub fn read(from: &mut Reader<'_>, format: u32) -> Result<Self, Malformed> {
        let next = from.u32()?;
        let mut all = BTreeMap::new();
        for _ in 0..from.count(super::NODES_MAX)? {
            let shard = Shard::read(from, format)?;
            all.insert(shard.id, shard);
        }
        let count = from.count(GONE_MAX)?;
        let gone: BTreeSet<ShardId> = (0..count).map(|_| from.u32().map(ShardId)).collect::<Result<_, _>>()?;
        let count = from.count(GONE_MAX)?;
        let gone_nodes = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
        let count = if format >= WITH_HEIRS { from.count(GONE_MAX)? } else { 0 };
        let one = |from: &mut Reader<'_>| Ok((from.u32()?, ShardId(from.u32()?)));
        let former: BTreeMap<u32, ShardId> = (0..count).map(|_| one(from)).collect::<Result<_, _>>()?;
        if former.values().any(|id| !all.contains_key(id) && !gone.contains(id)) {
            return Err(Malformed("shards that nodes have lost"));
        }
        if all.keys().chain(&gone).any(|id| !(1..next).contains(&id.0)) || all.keys().any(|id| gone.contains(id)) {
            return Err(Malformed("numbers of shards below the next one"));
        }
        Ok(Self { next, all, gone_nodes, gone, former })
    }
}

/// A process asks for the next term of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// The shard.
    pub shard: ShardId,
    /// The shard's term, as the process knows it.
    pub known: Term,
    /// The process's node.
    pub id: NodeId,
    /// Its life: how often it has started.
    pub incarnation: u64,
    /// The highest term in the node's own log; 0: none.
    pub of_log: u32,
}

impl Lead {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        out.extend_from_slice(&self.known.get().to_le_bytes());
        self.id.put(out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.of_log.to_le_bytes());
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            shard: ShardId(from.u32()?),
            known: term(from)?,
            id: NodeId::read(from)?,
            incarnation: from.u64()?,
            of_log: from.u32()?,
        })
    }
}

/// The process that owns a shard says by which settings the shard is run. They replace all that it had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetShard {
    /// The shard.
    pub shard: ShardId,
    /// The owner.
    pub id: NodeId,
    /// Its life: how often it has started.
    pub incarnation: u64,
    /// Names and values: at most [`SHARD_SETTINGS_MAX`], each of at most [`TEXT_MAX`] bytes.
    pub settings: BTreeMap<String, String>,
}

impl SetShard {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        self.id.put(out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        put_settings(out, &self.settings);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (shard, id, incarnation) = (ShardId(from.u32()?), NodeId::read(from)?, from.u64()?);
        Ok(Self { shard, id, incarnation, settings: settings(from)? })
    }
}

impl State {
    /// The shards, by their numbers.
    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.all.values()
    }

    /// Gives a process the next term of its node's shard (rule G1). A process that asks for the term after an earlier
    /// one, and has been given it, gets no other: it may not have heard the answer.
    pub(super) fn lead(&mut self, ask: &Lead) -> Result<(), Refusal> {
        let &Lead { shard, known, id, incarnation, of_log } = ask;
        if self.level < level::SHARDS {
            return Err(Refusal::LowLevel { id, has: self.level, needs: level::SHARDS });
        }
        let Some(member) = self.members.get(&id) else { return Err(Refusal::Unknown(id)) };
        if incarnation != member.incarnation {
            return Err(Refusal::EarlierLife { id, known: member.incarnation });
        }
        if self.shards.all.get(&shard).is_none_or(|of| of.owner != id) {
            return Err(Refusal::NotOwner { id, shard });
        }
        let by = Process { node: NodeNumber(member.number), life: incarnation };
        let of_log = Term::new(of_log).ok_or(Refusal::TooMany)?;
        self.change_shard(shard, Change::Lead { known, by, of_log, rests_ms: 0 })
    }

    /// Changes the settings of a shard, as its owner says.
    pub(super) fn set_shard(&mut self, ask: &SetShard) -> Result<(), Refusal> {
        let SetShard { shard, id, incarnation, settings } = ask;
        if self.level < level::SHARD_SETTINGS {
            return Err(Refusal::EarlierLevel { has: self.level, needs: level::SHARD_SETTINGS });
        }
        let Some(member) = self.members.get(id) else { return Err(Refusal::Unknown(*id)) };
        if *incarnation != member.incarnation {
            return Err(Refusal::EarlierLife { id: *id, known: member.incarnation });
        }
        let Some(of) = self.shards.all.get_mut(shard).filter(|of| of.owner == *id) else {
            return Err(Refusal::NotOwner { id: *id, shard: *shard });
        };
        if settings.len() > SHARD_SETTINGS_MAX {
            return Err(Refusal::TooMany);
        }
        let has_log = settings.get(HAS_LOG).is_none_or(|value| value != "no");
        if !has_log && (of.settled.len() > 1 || of.pending.is_some()) {
            return Err(Refusal::HasCopies(*shard));
        }
        if of.settings != *settings {
            of.settings.clone_from(settings);
            self.version += 1;
        }
        Ok(())
    }
}

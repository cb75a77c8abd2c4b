//! Standbys of the world.

use std::collections::BTreeSet;

use quorum::{BlockId, Cut, StreamId};

use super::ghosts::{AHEAD, PREFIX, SHOWN};
use super::log::Filled;
use super::{Packet, Plan, Record, Role, Store, Stream, World};
use crate::planted::Mistake;
use crate::{Follower, Part, Process};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Standby {
    pub follower: Follower,
    pub memory: BTreeSet<Record>,
    /// Records of the blocks that it has read.
    read: Vec<Record>,
}

impl World {
    /// A process follows: with its store, or with a memory that has more. False: the log has given up what it lacks.
    pub fn follow(&mut self, plan: &Plan, at: usize, memory: Option<(Cut, BTreeSet<Record>)>) -> bool {
        let node = &self.nodes[at];
        let Some(store) = &node.store else { return false };
        let covered = store.covered;
        let (applied, memory) = memory.unwrap_or_else(|| (covered, store.records.clone()));
        let begins: Vec<(BlockId, Cut)> = node.folder.iter().map(|stream| stream.base).collect();
        let Ok(mut follower) = Follower::new(applied, covered, &begins) else { return false };
        follower.planted = plan.planted();
        for (stream, folder) in (0..).map(StreamId).zip(&node.folder) {
            folder.blocks.iter().for_each(|of| follower.block(stream, of.block.clone()));
        }
        let read = node.folder.iter().flat_map(|of| &of.blocks).flat_map(|of| of.records.clone()).collect();
        if let Some(role) = self.role(at) {
            *role = Role::Standby(Box::new(Standby { follower, memory, read }));
        }
        true
    }

    /// A node's acceptor gets the next block of a stream, or drops what is not the log's.
    pub fn tail(&mut self, plan: &Plan, at: usize, of: usize) {
        let stream = StreamId(of as u16);
        let (global, history) = (&self.log.streams[of], self.log.streams[of].history());
        let folder = &mut self.nodes[at].folder[of];
        let last = folder.last();
        if last.sequence < global.base.0.sequence {
            *folder = Stream { base: global.base, blocks: Vec::new() };
            if self.standby(at).is_some() {
                self.start_again(plan, at);
            }
            return;
        }
        if !history.has(last) {
            let keeps = folder.history().common(&history).unwrap_or(folder.base.0.sequence);
            let kept = folder.blocks.iter().filter(|of| of.block.id.sequence <= keeps).count();
            let dropped: Vec<Record> = folder.blocks.drain(kept..).flat_map(|of| of.records).collect();
            if let Some(standby) = self.standby(at) {
                standby.read.retain(|record| !dropped.contains(record));
                standby.follower.dropped(stream, keeps);
            }
        } else if let Some(next) = global.blocks.iter().find(|of| of.block.id.sequence == last.sequence + 1) {
            let next: Filled = next.clone();
            folder.blocks.push(next.clone());
            if let Some(standby) = self.standby(at) {
                standby.read.extend(next.records);
                standby.follower.block(stream, next.block);
            }
        }
        self.looks_ahead(plan, at);
    }

    /// True if a node's acceptor lacks something of a stream.
    pub fn lacks(&self, at: usize, of: usize) -> bool {
        self.nodes[at].folder[of].last() != self.log.streams[of].last()
    }

    /// A standby that has applied what was not kept starts again.
    fn looks_ahead(&mut self, plan: &Plan, at: usize) {
        if self.standby(at).is_some_and(|standby| standby.follower.must_start_again()) {
            self.start_again(plan, at);
        }
    }

    pub fn told(&mut self, plan: &Plan, at: usize, stream: u16, words: (BlockId, BlockId, Option<(BlockId, Cut)>)) {
        let (committed, synced, quiet) = words;
        let stream = StreamId(stream);
        if let Some(standby) = self.standby(at) {
            standby.follower.committed(stream, committed);
            standby.follower.synced(stream, synced);
            if let Some((after, cut)) = quiet {
                standby.follower.quiet(stream, after, cut);
            }
            self.looks_ahead(plan, at);
        }
    }

    pub fn can_apply(&self, at: usize) -> bool {
        let running = self.nodes[at].running.as_ref().filter(|running| !running.is_stopped);
        running.is_some_and(
            |running| matches!(&running.role, Role::Standby(standby) if !standby.follower.clone().next(1).is_empty()),
        )
    }

    pub fn apply(&mut self, plan: &Plan, at: usize, most: usize) {
        let Some(standby) = self.standby(at) else { return };
        let batch = standby.follower.next(most);
        let find = |lsn: Cut| standby.read.iter().find(|record| record.lsn == lsn).copied();
        let records: Vec<Record> = batch.iter().filter_map(|apply| find(apply.lsn)).collect();
        standby.memory.extend(&records);
        standby.follower.done();
        let (applied, memory) = (standby.follower.applied(), standby.memory.clone());
        if plan.always {
            let valid = self.log.valid();
            let is_committed = records.iter().all(|r| self.log.has_synced(r) && valid.contains(r));
            self.check(is_committed, SHOWN);
            let expected: BTreeSet<Record> = valid.into_iter().filter(|record| record.lsn <= applied).collect();
            self.check(memory == expected, PREFIX);
        }
    }

    /// A standby makes its memory durable, if it may.
    pub fn checkpoint_of_standby(&mut self, at: usize) {
        let Some(standby) = self.standby(at) else { return };
        let Ok(covered) = standby.follower.checkpoint() else { return };
        if standby.follower.flushable() < covered || covered <= standby.follower.covered() {
            return;
        }
        let records = standby.memory.clone();
        standby.follower.durable(covered);
        self.check(records.iter().all(|record| self.log.has_synced(record)), AHEAD);
        self.nodes[at].store = Some(Store { covered, records });
    }

    /// It says to the owner how far it is.
    pub fn report(&mut self, at: usize) {
        let (from, to) = (self.process(at), self.nodes[at].view.owner().node);
        if let Some(standby) = self.standby(at) {
            let (covered, applied) = (standby.follower.covered(), standby.follower.applied());
            self.network.insert(Packet::Report { to, from, covered, applied });
        }
    }

    /// The owner's checkpoint has arrived.
    pub fn shipped(&mut self, plan: &Plan, to: Process, store: Store) {
        let at = to.node.0 as usize;
        let waits = matches!(self.role(at), Some(Role::Bootstrap))
            && (self.part(at) == Part::Waits || plan.has(Mistake::CountsUnpinned));
        if self.process(at) != to || !waits || self.nodes[at].store.is_some() {
            return;
        }
        self.nodes[at].store = Some(store);
        for (folder, global) in self.nodes[at].folder.iter_mut().zip(&self.log.streams) {
            if folder.last().sequence < global.base.0.sequence {
                *folder = Stream { base: global.base, blocks: Vec::new() };
            }
        }
        if !self.follow(plan, at, None) {
            self.start_again(plan, at);
        }
    }

    /// A standby begins anew: it was damaged, say.
    pub fn bootstrap_again(&mut self, plan: &Plan, at: usize) {
        self.start_again(plan, at);
        if let Some(role) = self.role(at) {
            *role = Role::Bootstrap;
        }
    }
}

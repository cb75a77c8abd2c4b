//! Owners of the world.

use std::collections::BTreeSet;

use clocks::BootMs;
use quorum::{BlockId, Cut, History, Term};

use super::ghosts::{AHEAD, GAP, LOST, OTHERWISE, STALE};
use super::log::stream_of;
use super::{CommandKind, PATIENCE, Packet, Plan, Plant, Record, Role, SETTINGS, Store, Stream, World};
use crate::planted::Mistake;
use crate::switchover::{Act, Stage};
use crate::{Floor, Memory, NodeNumber, Part, Process, Switchover, Tenure};

/// A command that is executed, and waits for the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gated {
    command: u8,
    record: Option<Record>,
    /// Everything in memory up to here has to be committed.
    upto: Cut,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    pub tenure: Tenure,
    pub floor: Floor,
    pub memory: BTreeSet<Record>,
    /// Memory has everything up to here.
    applied: Cut,
    /// The same as blocks, for a process that goes on with its memory.
    blocks: Memory,
    /// The hybrid clock.
    clock: u64,
    pub is_sealed: bool,
    /// The term before, if this process had it.
    before: Option<Term>,
    pub is_over: bool,
    pub inbox: Vec<u8>,
    pub gated: Vec<Gated>,
    pub switchover: Option<Switchover>,
    logs_reads: bool,
    /// When it looked at its lease: the planted mistake P22.
    pub looked: BootMs,
}

impl World {
    /// A process was given a term: a standby with its memory, or one that has started with its store.
    pub fn take_over(&mut self, plan: &Plan, at: usize) {
        let (now, view) = (self.clock(plan, at), self.nodes[at].view.clone());
        let store = self.nodes[at].store.clone().unwrap_or_default();
        let (memory, applied, blocks) = match self.role(at) {
            Some(Role::Standby(standby)) if !standby.follower.must_start_again() => {
                let Hot { memory, applied, blocks } = Hot::of(standby);
                (memory, applied, blocks)
            }
            _ => (store.records, store.covered, Memory(vec![Default::default(); plan.streams])),
        };
        let mut tenure = Tenure::new(view.term(), now, view.rests_ms());
        tenure.planted = plan.planted();
        let owner = Owner {
            tenure,
            floor: Floor::new(self.begins(), &view),
            memory,
            applied,
            blocks,
            clock: 0,
            is_sealed: false,
            before: None,
            is_over: false,
            inbox: Vec::new(),
            gated: Vec::new(),
            switchover: None,
            logs_reads: false,
            looked: now,
        };
        if let Some(role) = self.role(at) {
            *role = Role::Owner(Box::new(owner));
        }
    }

    pub fn begins(&self) -> Cut {
        self.log.streams.iter().map(|stream| stream.base.1).max().unwrap_or_default()
    }

    /// A new owner seals, takes over what is there, and appends its start blocks.
    pub fn seal(&mut self, plan: &Plan, at: usize, bits: u64) {
        let begins = self.begins();
        let Some(owner) = self.owner(at) else { return };
        let (term, before) = (owner.tenure.term(), owner.before);
        // Its own memory is an answer to the seal, if nobody was between.
        let is_own = before.is_some_and(|before| before == self.log.term && term.is_next_of(before));
        if before.is_some() && !is_own {
            return self.start_again(plan, at);
        }
        let kept: Vec<usize> = (0..plan.streams)
            .map(|of| {
                let synced = self.log.synced[of].sequence;
                let many = self.log.streams[of].blocks.iter().filter(|b| b.block.id.sequence > synced).count();
                if is_own { many } else { ((bits >> (8 * of)) % (many as u64 + 1)) as usize }
            })
            .collect();
        self.chosen = self.log.seal(term, &kept);
        let (chosen, valid, highest) = (self.chosen.clone(), self.log.valid(), self.log.highest());
        let streams = self.log.streams.clone();
        let Some(owner) = self.owner(at) else { return };
        if !owner.blocks.is_within(&chosen) && !plan.has(Mistake::GoesOn) {
            if plan.always {
                self.check(false, OTHERWISE);
            }
            return self.start_again(plan, at);
        }
        let is_gap = owner.applied < begins;
        let applied = owner.applied;
        owner.memory.extend(valid.iter().filter(|record| record.lsn > applied));
        owner.applied = owner.memory.iter().map(|record| record.lsn).max().unwrap_or_default();
        owner.clock = owner.clock.max(highest.0 / 16);
        owner.is_sealed = true;
        owner.tenure.restored();
        for ((block, last), stream) in owner.blocks.0.iter_mut().zip(&streams) {
            let records = stream.blocks.iter().rev().find(|of| of.records.iter().any(|r| valid.contains(r)));
            if let Some(of) = records {
                (*block, *last) = (of.block.id, of.records.iter().map(|r| r.lsn).max().unwrap_or_default());
            }
        }
        let memory = owner.memory.clone();
        self.check(!is_gap, GAP);
        self.check(memory == valid, OTHERWISE);
        let is_kept = !plan.always || self.ghosts.acknowledged.iter().all(|record| memory.contains(record));
        self.check(is_kept, LOST);
    }

    /// A majority has one more block; the owner may hear of it later.
    pub fn sync(&mut self, of: usize) {
        self.log.sync(of);
        if self.log.is_led() {
            self.ghosts.led.insert(self.log.term);
        }
    }

    /// An owner hears what a majority has: it leads, and gated replies leave.
    pub fn hear(&mut self, plan: &Plan, at: usize) {
        let (log, always) = (self.log.clone(), plan.always);
        let by_own = plan.plant == Plant::AcknowledgesOwn;
        let Some(owner) = self.owner(at).filter(|owner| owner.tenure.term() == log.term && !owner.is_over) else {
            return;
        };
        owner.tenure.led(log.is_led());
        let memory = owner.memory.clone();
        let is_out = |gated: &Gated| {
            let mut needed = memory.iter().filter(|record| record.lsn <= gated.upto);
            log.is_led() && (!always || by_own || needed.all(|record| log.has_synced(record)))
        };
        let many = owner.gated.iter().take_while(|gated| is_out(gated)).count();
        let out: Vec<Gated> = owner.gated.drain(..many).collect();
        out.into_iter().for_each(|gated| self.answer(gated.command, gated.record));
        self.serves_again(plan, at);
    }

    /// True if an owner would hear something new.
    pub fn has_news(&self, at: usize) -> bool {
        let running = self.nodes[at].running.as_ref().filter(|running| !running.is_stopped);
        running.is_some_and(|running| match &running.role {
            Role::Owner(owner) => owner.tenure.term() == self.log.term && !owner.is_over && owner.is_sealed,
            _ => false,
        })
    }

    /// An owner executes the next command that has arrived, if it may.
    pub fn execute(&mut self, plan: &Plan, at: usize) {
        let (now, term, streams) = (self.clock(plan, at), self.log.term, plan.streams as u64);
        let Some(owner) = self.owner(at) else { return };
        let looked = if plan.plant == Plant::LooksEarly { owner.looked } else { now };
        if owner.inbox.is_empty() || !owner.tenure.may_execute(looked) {
            return;
        }
        let command = owner.inbox.remove(0);
        let of = self.commands[usize::from(command)].clone();
        let Some(owner) = self.owner(at) else { return };
        let own_term = owner.tenure.term();
        let is_read = of.kind == CommandKind::Read;
        let unlogged = of.kind == CommandKind::Attempt
            && !owner.logs_reads
            && owner.tenure.may_answer_unlogged(now, SETTINGS.d_ms);
        let sees_all = of.after.iter().all(|record| owner.memory.contains(record));
        let upto = owner.memory.iter().map(|record| record.lsn).max().unwrap_or_default();
        if is_read || unlogged {
            owner.gated.push(Gated { command, record: None, upto });
            self.check(sees_all || !plan.always, STALE);
            if unlogged {
                // It counts for three quarters of D, by a clock that may be a ninth slower.
                let until = self.now + SETTINGS.d_ms * 3 / 4 * 10 / 9;
                self.ghosts.windows.push((until, at));
            }
            return self.executes(at, own_term, false);
        }
        let stream = u64::from(command) % streams;
        owner.clock += 1;
        let lsn = Cut(owner.clock * 16 + stream);
        let stands = owner.clock.is_multiple_of(2);
        let on = owner.memory.iter().map(|record| record.lsn).filter(|lsn| stream_of(*lsn) as u64 != stream).max();
        let record = Record { lsn, term: own_term, command, on: on.filter(|_| stands) };
        owner.memory.insert(record);
        owner.applied = lsn;
        owner.gated.push(Gated { command, record: Some(record), upto: lsn });
        let stream = stream as usize;
        let goes = own_term == term;
        let last = self.log.streams[stream].last();
        if goes {
            self.log.streams[stream].push(own_term, lsn, vec![record], false);
        }
        let Some(owner) = self.owner(at) else { return };
        let block = BlockId { term: own_term, sequence: last.sequence + 1 };
        owner.blocks.0[stream] = (block, lsn);
        self.executes(at, own_term, true);
    }

    /// An owner's hybrid clock moves on.
    pub fn idle(&mut self, at: usize) {
        if let Some(owner) = self.owner(at) {
            owner.clock += 2;
        }
    }

    /// An owner says to a node how far the streams are, and that they are idle.
    pub fn tell(&mut self, plan: &Plan, at: usize, to: usize) {
        let log = self.log.clone();
        let Some(owner) = self.owner(at).filter(|owner| owner.tenure.term() == log.term && owner.is_sealed) else {
            return;
        };
        let idle = Cut(owner.clock * 16 + 15);
        if !log.is_led() {
            return;
        }
        for (of, stream) in log.streams.iter().enumerate() {
            let (last, synced) = (stream.last(), log.synced[of]);
            let committed = if plan.always { synced } else { last };
            let quiet = (committed == last).then_some((last, idle));
            self.network.insert(Packet::Told { to, stream: of as u16, committed, synced, quiet });
        }
    }

    fn is_all_synced(&self, at: usize) -> bool {
        let Some(Role::Owner(owner)) = self.nodes[at].running.as_ref().map(|running| &running.role) else {
            return false;
        };
        let leads = owner.tenure.term() == self.log.term && owner.is_sealed && self.log.is_led();
        leads && owner.memory.iter().all(|record| self.log.has_synced(record))
    }

    /// An owner makes its memory durable.
    pub fn checkpoint_of_owner(&mut self, at: usize) {
        if !self.is_all_synced(at) {
            return;
        }
        let Some(owner) = self.owner(at) else { return };
        let store = Store { covered: owner.applied, records: owner.memory.clone() };
        owner.floor.own(store.covered);
        self.check(store.records.iter().all(|record| self.log.has_synced(record)), AHEAD);
        self.nodes[at].store = Some(store);
    }

    /// An owner has the log cut.
    pub fn cut(&mut self, at: usize) {
        let term = self.log.term;
        let Some(owner) = self.owner(at).filter(|owner| owner.tenure.term() == term && owner.is_sealed) else { return };
        let floor = owner.floor.get();
        if !self.log.is_led() {
            return;
        }
        let histories: Vec<History> = self.log.streams.iter().map(Stream::history).collect();
        self.log.cut(floor);
        for node in self.nodes.iter_mut().filter(|node| node.running.is_some()) {
            for ((folder, log), history) in node.folder.iter_mut().zip(&self.log.streams).zip(&histories) {
                folder.follow_cut(log, history);
            }
        }
    }

    /// An owner makes a checkpoint for a process that waits for one.
    pub fn ship(&mut self, plan: &Plan, at: usize, to: usize) {
        let (to_process, is_pinned) = (self.process(to), self.part(to) == Part::Waits);
        let waits = matches!(self.role(to), Some(Role::Bootstrap));
        let is_ready = waits && (is_pinned || plan.has(Mistake::CountsUnpinned)) && self.is_all_synced(at);
        let Some(owner) = self.owner(at).filter(|owner| is_ready && owner.floor.may_ship(to_process)) else { return };
        let store = Store { covered: owner.applied, records: owner.memory.clone() };
        self.network.insert(Packet::Ship { to: to_process, store });
    }

    /// An owner proposes to count a standby.
    pub fn count(&mut self, at: usize, node: usize) {
        let change = self.owner(at).and_then(|owner| owner.floor.count(NodeNumber(node as u32)));
        change.into_iter().for_each(|change| self.propose(change));
    }

    pub fn give_up(&mut self, at: usize, node: usize) {
        let change = self.owner(at).and_then(|owner| owner.floor.give_up(NodeNumber(node as u32)));
        change.into_iter().for_each(|change| self.propose(change));
    }

    /// A standby's report has arrived.
    pub fn reported(&mut self, plan: &Plan, at: usize, from: Process, covered: Cut, applied: Cut) {
        let now = self.clock(plan, at);
        let Some(owner) = self.owner(at) else { return };
        owner.floor.covered(from, covered);
        let ms = if applied.0 + 48 >= owner.applied.0 { 0 } else { 100 };
        let mut acts = Vec::new();
        if let Some(switchover) = &mut owner.switchover {
            switchover.lag(from, ms, now, &mut acts);
            switchover.applied(from, applied, now, &mut acts);
        }
        self.act(plan, at, acts);
    }

    /// The owner hears of other metadata.
    pub fn owner_learns(&mut self, plan: &Plan, at: usize) {
        let (me, view, now) = (self.process(at), self.nodes[at].view.clone(), self.clock(plan, at));
        let begins = self.begins();
        let Some(owner) = self.owner(at) else { return };
        let mut acts = Vec::new();
        if let Some(switchover) = &mut owner.switchover {
            switchover.metadata(&view, now, &mut acts);
        }
        if view.owner() != me {
            owner.is_over = true;
            owner.tenure.end();
        } else if view.term() > owner.tenure.term() {
            owner.before = Some(owner.tenure.term());
            owner.tenure.again(view.term());
            owner.is_sealed = false;
            owner.floor = Floor::new(begins, &view);
        } else {
            owner.floor.heard(&view);
        }
        self.act(plan, at, acts);
    }

    /// An owner that is over comes back as a standby: in place, if the log has all that its memory has.
    pub fn demote(&mut self, plan: &Plan, at: usize) {
        let (me, chosen) = (self.process(at), self.chosen.clone());
        let is_led = self.log.is_led() && self.log.term == self.nodes[at].view.term();
        // It may have been given up meanwhile.
        let follows = self.part(at) == Part::Follows;
        let Some(owner) = self.owner(at).filter(|owner| owner.is_over) else { return };
        // A switchover has given them back already.
        let parked = if owner.switchover.is_none() { std::mem::take(&mut owner.inbox) } else { Vec::new() };
        let (blocks, memory, applied) = (owner.blocks.clone(), owner.memory.clone(), owner.applied);
        self.send_back(parked);
        if is_led && follows && blocks.is_within(&chosen) {
            // What is executed and not answered never will be.
            self.lose(plan, me);
            if self.follow(plan, at, Some((applied, memory))) {
                return;
            }
        }
        self.start_again(plan, at);
    }

    /// A switchover begins.
    pub fn switch(&mut self, plan: &Plan, at: usize, to: usize) {
        let (to, now, view) = (self.process(to), self.clock(plan, at), self.nodes[at].view.clone());
        let mut acts = Vec::new();
        let Some(owner) = self.owner(at).filter(|owner| owner.tenure.may_execute(now)) else { return };
        owner.switchover = Some(Switchover::new(&view, to, PATIENCE, now, &mut acts));
        self.left.switchovers -= 1;
        self.act(plan, at, acts);
    }

    /// Nothing is under way at an owner that is frozen.
    pub fn drained(&mut self, plan: &Plan, at: usize) {
        let (now, is_synced) = (self.clock(plan, at), self.is_all_synced(at));
        let Some(owner) = self.owner(at).filter(|owner| owner.gated.is_empty() && is_synced) else { return };
        let (end, mut acts) = (owner.applied, Vec::new());
        if let Some(switchover) = &mut owner.switchover {
            switchover.drained(end, now, &mut acts);
        }
        self.act(plan, at, acts);
    }

    pub fn is_draining(&self, at: usize) -> bool {
        let running = self.nodes[at].running.as_ref().filter(|running| !running.is_stopped);
        running.is_some_and(|running| match &running.role {
            Role::Owner(owner) => owner.switchover.as_ref().is_some_and(|s| s.stage() == Stage::Draining),
            _ => false,
        })
    }

    /// The time of a switchover passes.
    pub fn tick_switchover(&mut self, plan: &Plan, at: usize) {
        let now = self.clock(plan, at);
        let mut acts = Vec::new();
        if let Some(switchover) = self.owner(at).and_then(|owner| owner.switchover.as_mut()) {
            switchover.tick(now, &mut acts);
        }
        self.act(plan, at, acts);
    }

    pub fn serves_again(&mut self, plan: &Plan, at: usize) {
        let now = self.clock(plan, at);
        let Some(owner) = self.owner(at) else { return };
        // Frozen as it is, the tenure says so.
        let mut thawed = owner.tenure.clone();
        thawed.freeze(false);
        let mut acts = Vec::new();
        if let Some(switchover) = owner.switchover.as_mut().filter(|_| thawed.may_execute(now)) {
            switchover.serves_again(&mut acts);
        }
        self.act(plan, at, acts);
    }

    fn act(&mut self, plan: &Plan, at: usize, acts: Vec<Act>) {
        let (me, now, reign) = (self.process(at), self.leaders_clock(), self.reign);
        for act in acts {
            let Some(owner) = self.owner(at) else { return };
            match act {
                Act::LogReads(is_logged) => owner.logs_reads = is_logged,
                Act::Freeze => owner.tenure.freeze(true),
                Act::Thaw => owner.tenure.freeze(false),
                Act::Undo => {}
                Act::Advance => (0..plan.nodes).filter(|to| *to != at).for_each(|to| self.tell(plan, at, to)),
                Act::Yield { to, term, is_logged } => {
                    owner.tenure.yields();
                    self.network.insert(Packet::Yield { by: me, term, to: to.node, is_logged, reign });
                }
                Act::Lead { known } => {
                    if self.leader.may_lead(&self.metadata, me, now) {
                        self.propose(crate::Change::Lead { known, by: me, of_log: Term::ZERO, rests_ms: 0 });
                    }
                }
                Act::HandOver { .. } => {
                    let parked = std::mem::take(&mut owner.inbox);
                    self.ghosts.handed_over += 1;
                    self.send_back(parked);
                }
                Act::GivenUp(_) => owner.switchover = None,
            }
        }
    }
}

/// What a standby brings along that takes over.
struct Hot {
    memory: BTreeSet<Record>,
    applied: Cut,
    blocks: Memory,
}

impl Hot {
    fn of(standby: &super::Standby) -> Self {
        let follower = &standby.follower;
        Self { memory: standby.memory.clone(), applied: follower.applied(), blocks: follower.memory() }
    }
}

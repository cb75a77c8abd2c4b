//! A worker's share in HOTKEYS and CLUSTER SLOT-STATS. While one of them is on, every command is timed by itself, and
//! its cost is reported to them. While none is on, commands that are only counted pass no code of this module.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::membership::Slot;
use clocks::UnixMs;
use command::KeyAt;
use keyspace::KeyHasher;
use resp::{Args, OwnedArgs};

use super::cost::Cost;
use super::hotkeys::{HotKeys, Tracking};
use super::slots::SlotFigures;
use crate::clock::Clock;
use crate::config::Settings;
use crate::table::{Command, Table};

/// Long replies under way whose bytes are noted, at most.
const REPLIES_MAX: usize = 1024;
/// The bytes of MULTI, which Redis counts for EXEC's slot.
const MULTI_BYTES: u64 = b"*1\r\n$5\r\nmulti\r\n".len() as u64;

/// The slot of all keys of some commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OneSlot {
    /// They have no keys.
    None,
    One(u16),
    /// They have keys of several slots: as in Redis, the command counts for none of them.
    Several,
}

impl OneSlot {
    fn and(self, slot: u16) -> Self {
        match self {
            OneSlot::None => OneSlot::One(slot),
            OneSlot::One(known) if known == slot => self,
            _ => OneSlot::Several,
        }
    }
}

/// A command whose reply is written in steps.
struct Long {
    command: usize,
    args: OwnedArgs,
    sampled: bool,
}

/// See the module's text.
pub(crate) struct Heat {
    clock: Arc<dyn Clock>,
    worker: usize,
    shared: Shared,
    /// The tracking that this worker takes part in.
    tracking: Option<Arc<Tracking>>,
    generation: u64,
    /// True if CPU time is kept for slots, and true if bytes are.
    for_slots: (bool, bool),
    positions: Vec<KeyAt>,
    /// Commands with a long reply, by the tokens of their connections.
    long: BTreeMap<u64, Long>,
}

/// The counters that all workers share.
pub(crate) struct Shared {
    pub(crate) hot: Arc<HotKeys>,
    pub(crate) slots: Arc<SlotFigures>,
    pub(crate) hasher: KeyHasher,
}

impl Heat {
    pub(crate) fn new(clock: Arc<dyn Clock>, worker: usize, shared: Shared) -> Self {
        Heat {
            clock,
            worker,
            shared,
            tracking: None,
            generation: 0,
            for_slots: (false, false),
            positions: Vec::new(),
            long: BTreeMap::new(),
        }
    }

    pub(crate) fn configure(&mut self, settings: &Settings, is_cluster: bool) {
        let kept = settings.cluster_slot_stats_enabled;
        self.for_slots = (is_cluster && kept.cpu, is_cluster && kept.net);
    }

    /// True if commands are to be reported.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.tracking.is_some() || self.for_slots != (false, false)
    }

    /// Takes part in the tracking under way, at unix time `now` in milliseconds.
    #[inline]
    pub(crate) fn follow(&mut self, now: UnixMs) {
        if self.shared.hot.generation() != self.generation || self.tracking.as_ref().is_some_and(|t| !t.is_on(now)) {
            self.change(now);
        }
    }

    #[cold]
    fn change(&mut self, now: UnixMs) {
        self.generation = self.shared.hot.generation();
        self.tracking = self.shared.hot.tracking().filter(|tracking| tracking.is_on(now));
        if !self.is_on() {
            self.long.clear();
        }
    }

    /// The slot of these commands' keys: a block counts as one command.
    pub(crate) fn slot_of<'a>(&mut self, commands: impl Iterator<Item = (&'a Command, Args<'a>)>) -> OneSlot {
        let mut of_all = OneSlot::None;
        if self.for_slots == (false, false) {
            return of_all;
        }
        for (command, args) in commands {
            self.positions.clear();
            command.spec.keys_of(args, &mut self.positions);
            let keys = self.positions.iter().filter_map(|at| args.get(at.index));
            of_all = keys.map(keyspace::slot_of).fold(of_all, OneSlot::and);
        }
        of_all
    }

    /// A block has run. Its commands were reported by themselves, but not to the slots.
    pub(crate) fn ran_block(&mut self, of_all: OneSlot, is_own: impl Fn(Slot) -> bool, cost: Cost, queued: u64) {
        if let OneSlot::One(slot) = of_all
            && is_own(Slot::of(slot))
        {
            let cost = Cost { bytes_in: cost.bytes_in + queued + MULTI_BYTES, ..cost };
            self.shared.slots.add(slot, self.for_slots, cost);
        }
    }

    /// A command has run at unix time `now` in milliseconds. `in_block`: its block is reported as a whole.
    pub(crate) fn ran(
        &mut self,
        (command, args): (&Command, Args<'_>),
        is_own: impl Fn(Slot) -> bool,
        in_block: bool,
        cost: Cost,
        now: UnixMs,
    ) {
        let sampled = self.samples();
        self.tell((command, args), is_own, in_block, (cost, sampled), now);
    }

    /// A command has run, and its reply is to be written in steps: the bytes are reported as they come.
    pub(crate) fn ran_long(
        &mut self,
        token: u64,
        (command, args): (&Command, Args<'_>),
        is_own: impl Fn(Slot) -> bool,
        cost: Cost,
        now: UnixMs,
    ) {
        let sampled = self.samples();
        self.tell((command, args), is_own, false, (cost, sampled), now);
        if self.positions.is_empty() {
            return;
        }
        // Clients that leave in the middle of a reply leave an entry here.
        while self.long.len() >= REPLIES_MAX {
            self.long.pop_first();
        }
        self.long.insert(token, Long { command: command.id, args: OwnedArgs::new(args), sampled });
    }

    /// A part of a long reply was written. `ends`: it is the last.
    pub(crate) fn wrote(
        &mut self,
        (token, ends): (u64, bool),
        table: &Table,
        is_own: impl Fn(Slot) -> bool,
        bytes_out: u64,
        now: UnixMs,
    ) {
        let Some(long) = self.long.remove(&token) else { return };
        let cost = Cost { bytes_out, ..Cost::default() };
        self.tell((table.get(long.command), long.args.args()), is_own, false, (cost, long.sampled), now);
        if !ends {
            self.long.insert(token, long);
        }
    }

    fn samples(&self) -> bool {
        self.tracking.as_ref().is_none_or(|tracking| tracking.samples(self.worker))
    }

    fn tell(
        &mut self,
        (command, args): (&Command, Args<'_>),
        is_own: impl Fn(Slot) -> bool,
        in_block: bool,
        (cost, sampled): (Cost, bool),
        now: UnixMs,
    ) {
        self.positions.clear();
        command.spec.keys_of(args, &mut self.positions);
        // A workspace also has keys of other nodes.
        self.positions.retain(|at| args.get(at.index).is_some_and(|key| is_own(Slot::of(keyspace::slot_of(key)))));
        if self.positions.is_empty() {
            return;
        }
        let of = |at: &KeyAt| args.get(at.index).map(|name| self.shared.hasher.key(name));
        if !in_block && self.for_slots != (false, false) {
            let slots = self.positions.iter().filter_map(of).map(|key| key.slot);
            if let OneSlot::One(slot) = slots.fold(OneSlot::None, OneSlot::and) {
                self.shared.slots.add(slot, self.for_slots, cost);
            }
        }
        let Some(tracking) = self.tracking.as_ref().filter(|tracking| tracking.is_on(now)) else { return };
        let began = self.clock.monotonic_ns();
        let keys: Vec<_> = self.positions.iter().filter_map(of).map(|key| (key.bytes, key.hash, key.slot)).collect();
        tracking.add(self.worker, keys.into_iter(), sampled, cost);
        tracking.took(self.worker, self.clock.monotonic_ns().since(began));
    }
}

//! The end of a walk: faults stop, and everything comes to its end.

use std::collections::BTreeSet;

use super::super::walk::Dice;
use super::{Acceptor, Lines, Packet, Plan, World, name_of};
use crate::{BlockId, Order, Request, Stage, StreamId};

/// Steps that it takes at most.
const STEPS_MAX: usize = 20_000;

const ENDLESS: &str = "there is always something to do";
const STAYS: &str = "a shard whose acceptors answer is not led";
const LAGS: &str = "an acceptor does not come to the end of the log";
const WAITS: &str = "a standby does not hear that it may go on";
const UNSYNCED: &str = "a sync that was ordered leaves something out";

impl World {
    /// No fault happens any more, and broken connections of the newest owner are made again. It leads, and every
    /// acceptor that runs gets to the end of its log. Otherwise the reason comes back.
    pub fn calms(&mut self, plan: &Plan, dice: &mut Dice, mut broken: BTreeSet<usize>) -> Option<&'static str> {
        let host = (0..self.hosts.len()).find(|host| self.is_newest(*host)).filter(|_| self.ghosts.broken.is_none())?;
        for at in 0..self.machines.len() {
            if self.machines[at].acceptor.as_ref().is_some_and(Acceptor::is_failed) {
                self.restart(plan, at, true, 0);
                broken.insert(at);
            }
            if self.machines[at].is_full {
                self.set_room(plan, at, false);
            }
            if self.machines[at].acceptor.is_none() {
                let mut events = Vec::new();
                self.hosts[host].owner.lost(name_of(at), &mut events);
                self.events(plan, host, events);
            } else if broken.contains(&at) || self.machines[at].has_dropped {
                self.connect(plan, host, at);
            }
        }
        let why = self.comes_up(plan, dice, host).err();
        why.or(self.ghosts.broken)
    }

    fn comes_up(&mut self, plan: &Plan, dice: &mut Dice, host: usize) -> Result<(), &'static str> {
        let runs = |at: &&usize| self.machines[**at].acceptor.is_some() && !self.machines[**at].is_set_back;
        let is_majority = |set: &Vec<usize>| set.iter().filter(runs).count() * 2 > set.len();
        if !is_majority(&self.settled) || !self.pending.as_ref().is_none_or(is_majority) {
            return Ok(());
        }
        if !plan.through {
            self.syncs_what_is_there(plan, dice, host)?;
            for _ in 0..3 {
                self.sync(plan, host);
                self.run(plan, dice)?;
            }
        }
        // From here on as on connections: in order.
        let stray = self.network.len();
        self.lines = Some(Lines::default());
        self.run(plan, dice)?;
        if self.hosts[host].owner.stage() != Stage::Leading {
            return Err(STAYS);
        }
        self.check_sent(plan, host, stray)?;
        if self.hosts[host].may_settle && self.pending.is_some() {
            self.settle(plan, host);
        }
        // One whose tail ranks above where the log begins comes up when that moves (rule G9).
        for stream in (0..plan.streams as u16).map(StreamId) {
            if (0..self.machines.len()).any(|at| self.is_refused(host, at, stream)) {
                self.cut(plan, host, stream);
                self.run(plan, dice)?;
            }
        }
        if !plan.through {
            // The setting changes, and nobody orders a sync for what lies in the cache.
            self.hosts[host].owner.write_through(true);
            self.hosts[host].writes_left += plan.streams as u8;
            for stream in (0..plan.streams as u16).map(StreamId) {
                self.write(plan, host, stream, false);
            }
            self.run(plan, dice)?;
        }
        let mut lags = self.hosts[host].owner.lags().filter(|lag| lag.blocks > 0 || !lag.answers);
        let is_late = lags.any(|lag| {
            let at = usize::from(lag.acceptor.0[0]);
            self.machines[at].acceptor.is_some() && !self.is_refused(host, at, lag.stream)
        });
        drop(lags);
        if is_late {
            return Err(LAGS);
        }
        if plan.standbys {
            self.mark(plan, host);
            self.run(plan, dice)?;
        }
        let all =
            (0..self.machines.len()).flat_map(|at| (0..plan.streams as u16).map(move |stream| (at, StreamId(stream))));
        // Otherwise its wish may come before the answer to the seal, and is forgotten.
        let mut all = all.filter(|_| plan.standbys && plan.prompt);
        if all.any(|(at, stream)| self.is_kept_waiting(host, at, stream)) { Err(WAITS) } else { Ok(()) }
    }

    /// True if an acceptor does not begin where the owner's log does, and has nothing of it.
    fn is_refused(&self, host: usize, at: usize, stream: StreamId) -> bool {
        let its = self.machines[at].acceptor.as_ref().and_then(|acceptor| acceptor.history(stream));
        let (Some(its), Some(log)) = (its, self.hosts[host].owner.history(stream)) else { return false };
        log.common(its).is_none() && its.last() >= log.base().id
    }

    fn sync(&mut self, plan: &Plan, host: usize) {
        let mut events = Vec::new();
        (0..plan.streams as u16).for_each(|at| self.hosts[host].owner.sync(StreamId(at), &mut events));
        self.events(plan, host, events);
    }

    /// One order to sync is for all blocks that an acceptor has, those that are being written included.
    fn syncs_what_is_there(&mut self, plan: &Plan, dice: &mut Dice, host: usize) -> Result<(), &'static str> {
        while !self.network.is_empty() {
            let which = dice.below(self.network.len() as u64) as usize;
            self.arrive(plan, which);
        }
        self.sync(plan, host);
        let mut ordered: Vec<(usize, StreamId, BlockId)> = Vec::new();
        for packet in std::mem::take(&mut self.network) {
            self.deliver(plan, packet.clone());
            let Packet::To(at, Request { order: Order::Sync { stream }, .. }) = packet else { continue };
            let history = self.machines[at].acceptor.as_ref().and_then(|acceptor| acceptor.history(stream));
            ordered.extend(history.map(|history| (at, stream, history.last())));
        }
        self.run(plan, dice)?;
        let owner = &self.hosts[host].owner;
        let leaves_out = |(at, stream, last): &(usize, StreamId, BlockId)| {
            let Some(history) = owner.history(*stream).filter(|history| history.has(*last)) else { return false };
            let mut lags = owner.lags().filter(|lag| lag.stream == *stream && usize::from(lag.acceptor.0[0]) == *at);
            lags.any(|lag| lag.answers && history.last().sequence - lag.blocks < last.sequence)
        };
        if ordered.iter().any(leaves_out) { Err(UNSYNCED) } else { Ok(()) }
    }

    fn arrive(&mut self, plan: &Plan, which: usize) {
        let Some(packet) = self.network.iter().nth(which).cloned() else { return };
        self.network.remove(&packet);
        self.deliver(plan, packet);
    }

    /// Packets arrive and operations end, until there are none.
    fn run(&mut self, plan: &Plan, dice: &mut Dice) -> Result<(), &'static str> {
        for _ in 0..STEPS_MAX {
            let (packets, lines) = (self.network.len(), self.lines.as_ref().map_or(0, Lines::len));
            let ops: usize = self.machines.iter().map(|machine| machine.ops.len()).sum();
            if packets + lines + ops == 0 {
                return Ok(());
            }
            let mut which = dice.below((packets + lines + ops) as u64) as usize;
            if let Some(packet) = self.lines.as_mut().and_then(|all| all.next(which.checked_sub(packets + ops)?)) {
                self.deliver(plan, packet);
                continue;
            }
            if which < packets {
                self.arrive(plan, which);
                continue;
            }
            which -= packets;
            for at in 0..self.machines.len() {
                let ops = self.machines[at].ops.len();
                if which < ops {
                    self.land(plan, at, which);
                    break;
                }
                which -= ops;
            }
        }
        Err(ENDLESS)
    }
}

//! The leader of the metadata, as far as one shard goes: it grants the owner's lease, and decides which standby takes
//! the shard over, and when (rule S6). Pure: the time is handed in.
//!
//! It may end a term when the owner's lease is over. That is known in three ways: the time has passed in the leader's
//! own reign; the process has ended, by proof (rule S12); or the owner has yielded (rule S10). It should do so only if a
//! standby is better than the owner, and seldom (rule S13).

mod choice;

use std::collections::BTreeMap;

use clocks::BootMs;
use quorum::{Cut, Term};

pub use self::choice::Position;
use crate::planted::{Mistake, Planted};
use crate::{Change, Copies, NodeNumber, Process};

/// Times and bounds, the same at all members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// A lease, in milliseconds.
    pub lease_ms: u64,
    /// Milliseconds between two renewals.
    pub renew_ms: u64,
    /// For how long answers of unlogged reads may count, in milliseconds (rule T3).
    pub d_ms: u64,
    /// Milliseconds between two takeovers of a shard whose process has not ended.
    pub calm_ms: u64,
    /// Milliseconds without a turn of any worker, or an answer of any majority, after which an owner is useless.
    pub useless_ms: u64,
    /// Bytes that a standby may be behind to go before an owner that has started again.
    pub lag_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { lease_ms: 2_000, renew_ms: 400, d_ms: 200, calm_ms: 60_000, useless_ms: 5_000, lag_bytes: 64 << 20 }
    }
}

impl Settings {
    /// For how many milliseconds a successor executes nothing where unlogged reads may still count (rule S7). An eighth
    /// is for clocks that run at different speeds.
    #[must_use]
    pub fn rests_ms(&self) -> u64 {
        self.d_ms + self.d_ms.div_ceil(8)
    }
}

/// How well a process is, as it says itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Health {
    /// Milliseconds since a worker has turned. Scripts that run do not count.
    pub stuck_ms: u64,
    /// Milliseconds since a majority of the acceptors has answered a write of the owner.
    pub stalled_ms: u64,
    /// A standby's own probe, which syncs, reaches a majority of the acceptors.
    pub reaches_majority: bool,
    /// Its disk has failed. It goes on with the others' (rule G10), gives way to a standby, and takes nothing over.
    pub disk_failed: bool,
}

/// A renewal of a process that has a copy of the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Renewal {
    /// The process.
    pub process: Process,
    /// How well it is.
    pub health: Health,
    /// How far it is, if it follows.
    pub position: Option<Position>,
}

/// The reason for a takeover.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// The owner has not renewed in time, or was not granted it.
    Silent,
    /// The owner's process has ended.
    Ended,
    /// The owner has yielded.
    Yielded,
}

/// What the leader does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decision {
    /// Nothing before this moment, unless something comes.
    Wait(BootMs),
    /// It proposes a change, and says [`Leader::done`] when that is committed or has failed. The owner gets no lease
    /// meanwhile.
    TakeOver {
        /// The change.
        change: Change,
        /// The reason.
        why: Why,
    },
}

/// The reason why a renewal gets no lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The process does not own the shard. It is noted as one that is here.
    NotOwner,
    /// Another process is being given the shard, or this one has ended or yielded.
    Fenced,
    /// It is alive and useless, and a standby is not.
    Useless,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOwner => "it does not own the shard",
            Self::Fenced => "the shard is being given to another process",
            Self::Useless => "a standby would serve the shard, and it does not",
        })
    }
}

impl std::error::Error for Refused {}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Seen {
    life: u64,
    /// The arrival of its last renewal in this reign.
    at: BootMs,
    health: Health,
    position: Option<Position>,
}

/// What a leader knows of a shard.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Leader {
    settings: Settings,
    reign: u64,
    since: BootMs,
    /// The shard's term, and when it began as far as this leader knows.
    term: Term,
    begun: BootMs,
    seen: BTreeMap<NodeNumber, Seen>,
    /// The arrival of the last renewal that was granted, in this reign, and whose.
    granted: Option<(Process, BootMs)>,
    /// Lives up to these have ended.
    ended: BTreeMap<NodeNumber, u64>,
    /// The last life of each node, and when it was heard of first in this reign.
    started: BTreeMap<NodeNumber, (u64, BootMs)>,
    /// The owner of a term has given its lease up. True: it has logged all reads for long enough.
    yielded: Option<(Process, Term, NodeNumber, bool)>,
    /// A change is under way that ends this term, for this reason.
    fenced: Option<(Term, Why)>,
    /// The last takeover in this reign of a process that had not ended.
    last: Option<BootMs>,
    pub(crate) planted: Planted,
}

impl Leader {
    /// One that has not led.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            reign: 0,
            since: BootMs::ZERO,
            term: Term::ZERO,
            begun: BootMs::ZERO,
            seen: BTreeMap::new(),
            granted: None,
            ended: BTreeMap::new(),
            started: BTreeMap::new(),
            yielded: None,
            fenced: None,
            last: None,
            planted: Planted::default(),
        }
    }

    /// It leads in a reign, which it may have found out just now. What it knew from an earlier one is void, except for
    /// changes under way and for ends of processes.
    pub fn reign(&mut self, reign: u64, copies: &Copies, now: BootMs) {
        if reign != self.reign {
            let (ended, fenced, planted) = (std::mem::take(&mut self.ended), self.fenced, self.planted);
            let term = copies.term();
            *self = Self { reign, since: now, term, begun: now, ended, fenced, planted, ..Self::new(self.settings) };
        }
    }

    /// An owner has a lease's time to renew for the first time, and reads that the one before has answered are over
    /// when it is taken over for being silent.
    fn look(&mut self, copies: &Copies, now: BootMs) {
        if copies.term() != self.term {
            (self.term, self.begun) = (copies.term(), now);
        }
    }

    /// A process has started: the earlier lives of its node have ended (rule S12).
    pub fn alive(&mut self, process: Process, now: BootMs) {
        let known = self.started.entry(process.node).or_insert((process.life, now));
        if known.0 < process.life {
            *known = (process.life, now);
        }
        if let Some(before) = process.life.checked_sub(1) {
            self.ended(Process { life: before, ..process });
        }
    }

    /// A process has ended: its parent has waited for exactly that one (rule S12). A lost connection is no proof.
    pub fn ended(&mut self, process: Process) {
        let known = self.ended.entry(process.node).or_default();
        *known = process.life.max(*known);
    }

    fn has_ended(&self, process: Process) -> bool {
        self.ended.get(&process.node).is_some_and(|life| *life >= process.life)
    }

    /// The owner of a term gives its lease up for a standby, and executes nothing more in that term (rule S10).
    /// `is_logged`: for [`Settings::d_ms`] it has answered no unlogged read.
    pub fn yielded(&mut self, by: Process, term: Term, to: NodeNumber, is_logged: bool) {
        self.yielded = Some((by, term, to, is_logged));
    }

    fn yield_of(&self, copies: &Copies) -> Option<(NodeNumber, bool)> {
        let (by, term, to, is_logged) = self.yielded?;
        (by == copies.owner() && term == copies.term()).then_some((to, is_logged))
    }

    /// A renewal has arrived. Returns the length of the lease, which counts from the renewal's sending.
    ///
    /// # Errors
    /// It gets no lease.
    pub fn renew(&mut self, copies: &Copies, renewal: Renewal, now: BootMs) -> Result<u64, Refused> {
        let Renewal { process, health, position } = renewal;
        self.look(copies, now);
        if self.has_ended(process) {
            return Err(Refused::Fenced);
        }
        self.alive(process, now);
        self.seen.insert(process.node, Seen { life: process.life, at: now, health, position });
        if process != copies.owner() {
            return Err(Refused::NotOwner);
        }
        if self.is_fenced(copies) || self.yield_of(copies).is_some() {
            return Err(Refused::Fenced);
        }
        if self.is_useless(copies, health, now) {
            return Err(Refused::Useless);
        }
        self.granted = Some((process, now));
        Ok(self.settings.lease_ms)
    }

    /// Rule S13. A disk that stalls is the acceptors', whose majority a standby needs as well. So its own writes have to
    /// come through. An owner whose own disk has failed goes on with the others' (rule G10), but its store and its log
    /// are nothing for a start any more.
    fn is_useless(&self, copies: &Copies, health: Health, now: BootMs) -> bool {
        let is_stuck = health.stuck_ms >= self.settings.useless_ms;
        let is_stalled = health.stalled_ms >= self.settings.useless_ms;
        let reaches = |seen: &Seen| !is_stalled || seen.health.reaches_majority;
        let is_of_no_use = is_stuck || is_stalled || health.disk_failed;
        is_of_no_use && self.is_calm(now) <= now && self.best(copies, now, reaches).is_some()
    }

    /// When a process that has not ended may be taken over again.
    fn is_calm(&self, now: BootMs) -> BootMs {
        self.last.map_or(now, |last| last + self.settings.calm_ms)
    }

    /// A lease's time for a process that is not heard, with an eighth for clocks that run at different speeds. It has three
    /// chances to renew.
    fn patience_ms(&self) -> u64 {
        let lease = self.settings.lease_ms.max(3 * self.settings.renew_ms);
        lease + lease.div_ceil(8)
    }

    /// True if the owner's node has started again, and the later life may be about to ask for the next term.
    fn is_back(&self, owner: Process, now: BootMs) -> bool {
        let started = self.started.get(&owner.node).copied();
        let seen = self.seen.get(&owner.node).map(|seen| (seen.life, seen.at));
        let is_it = |(life, at): (u64, BootMs)| {
            let process = Process { life, ..owner };
            process.has_replaced(owner) && now < at + self.patience_ms() && !self.has_ended(process)
        };
        started.is_some_and(is_it) || seen.is_some_and(is_it)
    }

    /// When the lease of a process is over for certain. It counts from the arrival of a renewal, which is later than the
    /// sending. What earlier leaders have granted ends a lease after the begin of this reign.
    fn over(&self, owner: Process) -> BootMs {
        let granted = self.granted.filter(|(process, _)| *process == owner).map_or(BootMs::ZERO, |(_, at)| at);
        let last =
            if self.planted.is(Mistake::ForgetsItsReign) { granted } else { granted.max(self.since).max(self.begun) };
        last + self.patience_ms()
    }

    /// Looks whether a standby has to take the shard over.
    pub fn decide(&mut self, copies: &Copies, now: BootMs) -> Decision {
        let (owner, known) = (copies.owner(), copies.term());
        self.look(copies, now);
        if self.is_fenced(copies) {
            return Decision::Wait(BootMs::NEVER);
        }
        let d_ms = self.settings.rests_ms();
        let (why, to, rests_ms) = if self.has_ended(owner) {
            (Why::Ended, None, d_ms)
        } else if let Some((to, is_logged)) = self.yield_of(copies) {
            (Why::Yielded, Some(to), if is_logged { 0 } else { d_ms })
        } else {
            let may = self.over(owner).max(self.is_calm(now));
            if now < may {
                return Decision::Wait(may);
            }
            (Why::Silent, None, 0)
        };
        // An owner that has started again would read its whole store. A standby that lags more would take longer.
        let is_back = self.is_back(owner, now);
        let (most, wanted) = (self.settings.lag_bytes, to);
        let is_near = |seen: &Seen| !is_back || seen.position.is_some_and(|position| position.behind_bytes <= most);
        let wanted = wanted.and_then(|node| self.best_of(copies, now, |of, _| of == node));
        let Some(to) = wanted.or_else(|| self.best(copies, now, is_near)) else {
            return Decision::Wait(now + self.settings.renew_ms);
        };
        self.fenced = Some((known, why));
        Decision::TakeOver { change: Change::TakeOver { known, to, rests_ms }, why }
    }

    /// True if a process of the owner's node may be given the next term. After a start of it a standby goes first that
    /// is near the end: [`Self::decide`] gives it the shard. A leader that has led for a moment hears standbys first.
    #[must_use]
    pub fn may_lead(&self, copies: &Copies, process: Process, now: BootMs) -> bool {
        let is_of_owner = process.node == copies.owner().node && process.life >= copies.owner().life;
        if !is_of_owner || self.is_fenced(copies) || self.has_ended(process) {
            return false;
        }
        let most = self.settings.lag_bytes;
        let near = |seen: &Seen| seen.position.is_some_and(|position| position.behind_bytes <= most);
        process == copies.owner() || !self.may_hear(copies, now) && self.best(copies, now, near).is_none()
    }

    /// True if a standby that may take over was not heard in this reign, and has not had the time for two renewals.
    fn may_hear(&self, copies: &Copies, now: BootMs) -> bool {
        let is_unheard = |node: &NodeNumber| copies.is_electable(*node) && !self.seen.contains_key(node);
        now < self.since + 2 * self.settings.renew_ms && copies.standbys().any(|(node, _)| is_unheard(&node))
    }

    fn is_fenced(&self, copies: &Copies) -> bool {
        self.fenced.is_some_and(|(term, _)| term == copies.term())
    }

    /// The change of a decision is committed, or has failed for good: owners get leases again.
    pub fn done(&mut self, is_taken: bool, now: BootMs) {
        let fenced = self.fenced.take();
        if is_taken && fenced.is_some_and(|(_, why)| why == Why::Silent) {
            self.last = Some(now);
        }
    }
}

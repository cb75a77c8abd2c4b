//! The bound of lag (rule S11): an owner slows its writers down for a standby that lags, and gives it up in the end.
//!
//! Only the best counted standby makes pressure, as that one would take over. One that is away makes none: it does not
//! slow anybody down, but holds the cut until it is given up.

use std::collections::BTreeMap;

use clocks::BootMs;

use crate::{Copies, NodeNumber, Process};

/// How far behind a standby may be, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bounds {
    /// Bytes of committed records that are not applied.
    pub bytes: u64,
    /// Milliseconds by which what is applied is older than what is committed.
    pub ms: u64,
    /// Bytes that a standby above these bounds applies in `patience_ms` at least. Less is no progress.
    pub least_bytes: u64,
    /// Milliseconds without progress after which a standby is given up that is here.
    pub patience_ms: u64,
    /// Milliseconds after which a standby is given up that is away.
    pub away_ms: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 64 << 20, ms: 300, least_bytes: 1 << 20, patience_ms: 10_000, away_ms: 600_000 }
    }
}

/// How far a standby is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Behind {
    /// Bytes of committed records that it has not applied.
    pub bytes: u64,
    /// By how many milliseconds what it has applied is older than what is committed.
    pub ms: u64,
    /// All bytes of records that its process has applied.
    pub applied_bytes: u64,
}

/// The reason why a standby is given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GivenUp {
    /// It is here, and applies nothing worth mentioning.
    Stuck,
    /// It has not been heard of.
    Away,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Progress {
    life: u64,
    is_electable: bool,
    is_here: bool,
    behind: Behind,
    /// When it last came within the bounds or made progress; while it is away: when it went.
    since: BootMs,
    /// What it had applied then.
    applied_then: u64,
}

/// An owner's view of its standbys' lag.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lags {
    bounds: Bounds,
    of: BTreeMap<NodeNumber, Progress>,
}

impl Lags {
    /// Of an owner that begins.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, of: BTreeMap::new() }
    }

    /// Other bounds of lag hold from now on.
    pub fn bound(&mut self, bytes: u64, ms: u64) {
        (self.bounds.bytes, self.bounds.ms) = (bytes, ms);
    }

    /// The metadata have changed.
    pub fn heard(&mut self, copies: &Copies, now: BootMs) {
        self.of.retain(|node, _| copies.standby(*node).is_some_and(|standby| standby.is_pinned));
        for (node, standby) in copies.standbys().filter(|(_, standby)| standby.is_pinned) {
            let life = standby.life;
            let new = Progress {
                life,
                is_electable: false,
                is_here: false,
                behind: Behind::default(),
                since: now,
                applied_then: 0,
            };
            self.of.entry(node).or_insert(new).is_electable = standby.is_electable;
        }
    }

    /// A standby says how far it is.
    pub fn report(&mut self, standby: Process, behind: Behind, now: BootMs) {
        let bounds = self.bounds;
        let Some(of) = self.of.get_mut(&standby.node).filter(|of| of.life <= standby.life) else { return };
        let is_new = !of.is_here || of.life < standby.life;
        let is_within = behind.bytes <= bounds.bytes && behind.ms <= bounds.ms;
        let has_applied = behind.applied_bytes.saturating_sub(of.applied_then) >= bounds.least_bytes;
        if is_new || is_within || has_applied {
            (of.since, of.applied_then) = (now, behind.applied_bytes);
        }
        (of.life, of.is_here, of.behind) = (standby.life, true, behind);
    }

    /// The connection to a standby's process is lost.
    pub fn lost(&mut self, standby: Process, now: BootMs) {
        if let Some(of) = self.of.get_mut(&standby.node).filter(|of| of.life == standby.life && of.is_here) {
            (of.is_here, of.since) = (false, now);
        }
    }

    /// True if writers should slow down.
    #[must_use]
    pub fn is_pressure(&self) -> bool {
        let counted = || self.of.values().filter(|of| of.is_electable && of.is_here).map(|of| of.behind);
        let is_behind = |behind: Behind| behind.bytes > self.bounds.bytes || behind.ms > self.bounds.ms;
        counted().next().is_some() && counted().all(is_behind)
    }

    /// The standbys to be given up, and when to ask again.
    #[must_use]
    pub fn given_up(&self, now: BootMs) -> (Vec<(NodeNumber, GivenUp)>, BootMs) {
        let (mut given_up, mut again) = (Vec::new(), BootMs::NEVER);
        for (node, of) in &self.of {
            let (until, why) = match of.is_here {
                true => (of.since + self.bounds.patience_ms, GivenUp::Stuck),
                false => (of.since + self.bounds.away_ms, GivenUp::Away),
            };
            let is_within = of.behind.bytes <= self.bounds.bytes && of.behind.ms <= self.bounds.ms;
            if of.is_here && is_within {
                continue;
            }
            if until <= now {
                given_up.push((*node, why));
            } else {
                again = again.min(until);
            }
        }
        (given_up, again)
    }
}

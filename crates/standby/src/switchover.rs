//! An orderly switchover, at the owner (rule S10): nobody sees an error, and each step can be given up.
//!
//! ```text
//! nearing -- the standby is near, reads are logged --> draining -- all is committed --> following
//!    |                                                    |                                 |
//!    +------------------ given up: thaw ------------------+---------------------------------+-- applied --> yielding
//!                                                                                                              |
//!            handed over: parked commands go back to their origins <-- metadata: another owner --+-------------+
//!                                                                                                |
//!            given up: thaw <-- led, with a lease <-- resuming <-- metadata: the own next term --+ reclaiming
//! ```
//!
//! Before it yields, the owner may thaw when it likes. From then on its lease may be over. So a freeze ends by the
//! metadata alone: with another owner, or with the next term for this one, and never by a timer.

use clocks::BootMs;
use quorum::{Cut, Term};

use crate::planted::{Mistake, Planted};
use crate::{Copies, Process};

/// How long each step may take, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Patience {
    /// The lag of a standby that is near.
    pub near_ms: u64,
    /// For how long all reads are logged before the freeze (rule S7).
    pub d_ms: u64,
    /// For the standby to come near.
    pub nearing_ms: u64,
    /// For commands, scripts and locks under way to end. What can be undone is undone after that.
    pub draining_ms: u64,
    /// For the standby to apply the rest.
    pub following_ms: u64,
    /// For an answer of the metadata's leader, after which it is asked again.
    pub asking_ms: u64,
    /// For the takeover, after which the owner asks for the next term itself.
    pub yielding_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            near_ms: 10,
            d_ms: 200,
            nearing_ms: 10_000,
            draining_ms: 1_000,
            following_ms: 500,
            asking_ms: 100,
            yielding_ms: 1_000,
        }
    }
}

/// The reason why a switchover was given up. The owner serves as before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GivenUp {
    /// The standby is not counted, or its process is another one.
    NotElectable,
    /// It did not come near.
    Lags,
    /// A script or a lock did not end, and cannot be undone.
    CannotDrain,
    /// It did not apply the rest in time.
    Silent,
    /// Nobody took the shard over.
    NotTaken,
}

impl std::fmt::Display for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotElectable => "the standby may not take it over any more",
            Self::Lags => "the standby did not come near",
            Self::CannotDrain => {
                "a script or a transaction did not end, or its last writes were not on the disks in time"
            }
            Self::Silent => "the standby did not apply the rest in time",
            Self::NotTaken => "the standby did not take it over",
        })
    }
}

/// What the owner has to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// All reading attempts of transactions are logged, or not any more.
    LogReads(bool),
    /// Commands park. What runs goes on.
    Freeze,
    /// What is parked is executed.
    Thaw,
    /// Scripts and locks that still hold the drain up are undone: [`Switchover::drained`], or
    /// [`Switchover::cannot_drain`].
    Undo,
    /// All standbys hear that nothing comes behind the end.
    Advance,
    /// The owner executes nothing more in this term, and tells the leader of the metadata.
    Yield {
        /// The standby.
        to: Process,
        /// The term.
        term: Term,
        /// For long enough it has answered no unlogged read.
        is_logged: bool,
    },
    /// The owner asks for the term after this one.
    Lead {
        /// The term that it has.
        known: Term,
    },
    /// Another process owns the shard. What is parked goes back to its origins, which send it there.
    HandOver {
        /// The owner.
        to: Process,
    },
    /// The switchover is over, and the owner serves.
    GivenUp(GivenUp),
}

/// Where a switchover is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The standby comes near.
    Nearing,
    /// The shard is frozen; what is under way ends.
    Draining,
    /// The standby applies the rest, up to here.
    Following(Cut),
    /// The owner has yielded.
    Yielding,
    /// It asks for its next term.
    Reclaiming,
    /// It was given its next term, and leads it soon.
    Resuming,
    /// It is over.
    Over,
}

/// A switchover to a standby.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Switchover {
    owner: Process,
    term: Term,
    to: Process,
    patience: Patience,
    stage: Stage,
    /// When the stage began.
    since: BootMs,
    /// When the leader was last asked.
    asked: BootMs,
    logged_since: BootMs,
    is_near: bool,
    has_undone: bool,
    pub(crate) planted: Planted,
}

impl Switchover {
    /// Begins a switchover from the owner that the metadata name.
    pub fn new(copies: &Copies, to: Process, patience: Patience, now: BootMs, acts: &mut Vec<Act>) -> Self {
        let mut switchover = Self {
            owner: copies.owner(),
            term: copies.term(),
            to,
            patience,
            stage: Stage::Nearing,
            since: now,
            asked: now,
            logged_since: now,
            is_near: false,
            has_undone: false,
            planted: copies.planted,
        };
        acts.push(Act::LogReads(true));
        switchover.metadata(copies, now, acts);
        switchover
    }

    /// Where it is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The standby.
    #[must_use]
    pub fn to(&self) -> Process {
        self.to
    }

    fn enter(&mut self, stage: Stage, now: BootMs) {
        (self.stage, self.since) = (stage, now);
    }

    /// The standby says how far it is behind.
    pub fn lag(&mut self, of: Process, ms: u64, now: BootMs, acts: &mut Vec<Act>) {
        if of == self.to && self.stage == Stage::Nearing {
            self.is_near = ms <= self.patience.near_ms;
            self.tick(now, acts);
        }
    }

    /// Nothing is under way any more, all is committed, and this is the last record.
    pub fn drained(&mut self, end: Cut, now: BootMs, acts: &mut Vec<Act>) {
        if self.stage == Stage::Draining {
            self.enter(Stage::Following(end), now);
            acts.push(Act::Advance);
        }
    }

    /// Something under way does not end, and cannot be undone.
    pub fn cannot_drain(&mut self, acts: &mut Vec<Act>) {
        if self.stage == Stage::Draining {
            self.give_up(GivenUp::CannotDrain, acts);
        }
    }

    /// The standby has applied everything up to here.
    pub fn applied(&mut self, of: Process, upto: Cut, now: BootMs, acts: &mut Vec<Act>) {
        if of == self.to && matches!(self.stage, Stage::Following(end) if upto >= end) {
            self.enter(Stage::Yielding, now);
            self.asked = now;
            acts.push(self.yields());
        }
    }

    fn yields(&self) -> Act {
        let is_logged = self.since.since(self.logged_since) >= self.patience.d_ms;
        Act::Yield { to: self.to, term: self.term, is_logged }
    }

    /// The metadata have changed.
    pub fn metadata(&mut self, copies: &Copies, now: BootMs, acts: &mut Vec<Act>) {
        if self.stage == Stage::Over || copies.term() < self.term {
            return;
        }
        if copies.owner() != self.owner {
            self.stage = Stage::Over;
            if !self.planted.is(Mistake::DropsParked) {
                acts.push(Act::HandOver { to: copies.owner() });
            }
        } else if copies.term() > self.term {
            // Its own next term, which it has asked for, or which it was given for another reason.
            self.term = copies.term();
            match self.stage {
                Stage::Yielding | Stage::Reclaiming => self.enter(Stage::Resuming, now),
                Stage::Resuming => {}
                _ => self.give_up(GivenUp::NotTaken, acts),
            }
        } else if matches!(self.stage, Stage::Nearing | Stage::Draining | Stage::Following(_))
            && !copies.is_electable(self.to.node)
        {
            self.give_up(GivenUp::NotElectable, acts);
        }
    }

    /// The owner leads its next term, and has a lease.
    pub fn serves_again(&mut self, acts: &mut Vec<Act>) {
        if self.stage == Stage::Resuming {
            self.give_up(GivenUp::NotTaken, acts);
        }
    }

    /// Time has passed. Returns when to say so again.
    pub fn tick(&mut self, now: BootMs, acts: &mut Vec<Act>) -> BootMs {
        let Patience { d_ms, nearing_ms, draining_ms, following_ms, asking_ms, yielding_ms, .. } = self.patience;
        let in_stage = now.since(self.since);
        match self.stage {
            Stage::Nearing if self.is_near && now.since(self.logged_since) >= d_ms => {
                self.enter(Stage::Draining, now);
                acts.push(Act::Freeze);
            }
            Stage::Nearing if in_stage >= nearing_ms => self.give_up(GivenUp::Lags, acts),
            Stage::Draining if in_stage >= draining_ms && !self.has_undone => {
                self.has_undone = true;
                acts.push(Act::Undo);
            }
            Stage::Draining if in_stage >= 2 * draining_ms => self.give_up(GivenUp::CannotDrain, acts),
            Stage::Following(_) if in_stage >= following_ms => self.give_up(GivenUp::Silent, acts),
            Stage::Yielding if in_stage >= yielding_ms && self.planted.is(Mistake::ThawsByTimer) => {
                self.give_up(GivenUp::NotTaken, acts);
            }
            Stage::Yielding if in_stage >= yielding_ms => {
                self.enter(Stage::Reclaiming, now);
                self.ask(Act::Lead { known: self.term }, now, acts);
            }
            // A leader may be another one since, and know nothing of it.
            Stage::Yielding if now.since(self.asked) >= asking_ms => self.ask(self.yields(), now, acts),
            Stage::Reclaiming if now.since(self.asked) >= asking_ms => {
                self.ask(Act::Lead { known: self.term }, now, acts);
            }
            _ => {}
        }
        match self.stage {
            Stage::Nearing => {
                (self.since + nearing_ms).min(if self.is_near { self.logged_since + d_ms } else { BootMs::NEVER })
            }
            Stage::Draining => self.since + if self.has_undone { 2 * draining_ms } else { draining_ms },
            Stage::Following(_) => self.since + following_ms,
            Stage::Yielding => (self.since + yielding_ms).min(self.asked + asking_ms),
            Stage::Reclaiming => self.asked + asking_ms,
            Stage::Resuming | Stage::Over => BootMs::NEVER,
        }
    }

    fn ask(&mut self, act: Act, now: BootMs, acts: &mut Vec<Act>) {
        self.asked = now;
        acts.push(act);
    }

    /// The owner serves as before. It is frozen no longer, and logs reads as it did.
    fn give_up(&mut self, why: GivenUp, acts: &mut Vec<Act>) {
        if self.stage != Stage::Nearing {
            acts.push(Act::Thaw);
        }
        self.stage = Stage::Over;
        acts.extend([Act::LogReads(false), Act::GivenUp(why)]);
    }
}

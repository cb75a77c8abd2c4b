//! An owner's tenure: whether the process of a term may execute commands of its shard now.
//!
//! All of it is looked at after the bytes of a command have arrived (rule O1): what was looked at before says nothing
//! about a process that has stood still in between.

use clocks::BootMs;
use quorum::Term;

use crate::planted::{Mistake, Planted};

/// The time of one process in one term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tenure {
    term: Term,
    /// The end of its lease for this term, by its own clock.
    lease: BootMs,
    rests: BootMs,
    is_led: bool,
    is_restored: bool,
    is_frozen: bool,
    is_over: bool,
    pub(crate) planted: Planted,
}

impl Tenure {
    /// Of a process that hears now that it was given the term. Without `rests_ms` (0) it need not rest: the lease of
    /// before has ended by itself, or its owner logged all reads.
    #[must_use]
    pub fn new(term: Term, now: BootMs, rests_ms: u64) -> Self {
        Self {
            term,
            lease: BootMs::ZERO,
            rests: now + rests_ms,
            is_led: false,
            is_restored: false,
            is_frozen: false,
            is_over: false,
            planted: Planted::default(),
        }
    }

    /// The term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The next term of the same process, with nothing in between (rule G1): its lease is of the process and the shard,
    /// and goes on. After a yield it has none.
    pub fn again(&mut self, term: Term) {
        (self.term, self.is_led) = (term, false);
    }

    /// A majority has the start blocks (rule G5), or not any more.
    pub fn led(&mut self, is_led: bool) {
        self.is_led = is_led;
    }

    /// Everything is applied, and what is prepared is locked (rule S6).
    pub fn restored(&mut self) {
        self.is_restored = true;
    }

    /// A lease for this term, counted from the sending of its renewal by this process's clock.
    pub fn granted(&mut self, term: Term, until: BootMs) {
        if term == self.term {
            self.lease = self.lease.max(until);
        }
    }

    /// The shard is frozen, or not any more (rule S10): commands park.
    pub fn freeze(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
    }

    /// The owner gives its lease up before it ends.
    pub fn yields(&mut self) {
        self.lease = BootMs::ZERO;
    }

    /// Another process has a later term: this one never executes anything again (rule S8).
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// True if a command may be executed whose bytes have arrived.
    #[must_use]
    pub fn may_execute(&self, now: BootMs) -> bool {
        let has_lease = now < self.lease || self.planted.is(Mistake::IgnoresLease) && self.lease > BootMs::ZERO;
        let is_open = self.is_led && self.is_restored && !self.is_frozen && !self.is_over;
        is_open && has_lease && (now >= self.rests || self.planted.is(Mistake::RestsNever))
    }

    /// True if a reading attempt of a transaction may be answered without a record (rule S7): the answer counts for
    /// less than `d_ms`, and the lease lasts that long. So its reader is done when another process may serve.
    #[must_use]
    pub fn may_answer_unlogged(&self, now: BootMs, d_ms: u64) -> bool {
        self.may_execute(now) && (now + d_ms <= self.lease || self.planted.is(Mistake::ReadsToTheEnd))
    }
}

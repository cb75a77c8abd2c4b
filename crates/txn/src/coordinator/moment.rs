//! One moment for the keys of all participants.
//!
//! Whether a key's time has come each node says by its own clock. What an attempt over several nodes sees is of one moment nevertheless, since it names one,
//! a little later than it is: a participant takes part only if what it has locked is the same then. That is so if no key that is there ends before, and, once its
//! clock has passed that moment, if none is lacking that may have ended since. What has ended before does not come back, as its lock is held. No clock is trusted
//! for that: of one that is ahead, or of a key that ends soon, the coordinator hears, and names another moment in the next attempt. If there is none, as the time
//! of a key has come by one clock and not by another, it tries until it has come by both.
//!
//! Who fetches is told the time of each participant, and what runs on what it found has the latest of these.

use super::{Coordinator, Event};

/// Milliseconds that a moment is ahead at most.
const AHEAD_MAX: u64 = 1 << 20;

/// How far ahead the moment of the next attempt is, all in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Aim {
    /// Ahead of the latest clock that was heard of.
    ahead: u64,
    /// By so much that one is ahead of the coordinator's own.
    lead: u64,
}

impl Aim {
    pub(super) fn new(ahead: u64) -> Self {
        Self { ahead, lead: 0 }
    }

    /// The moment of an attempt that is sent `now`, unix milliseconds.
    pub(super) fn moment(self, now: u64) -> u64 {
        now.saturating_add(self.lead).saturating_add(self.ahead)
    }

    /// A participant whose clock was at `theirs` could not execute the last attempt at its moment: one of its keys `ends` before, or it was later already. False:
    /// there is no moment that would do.
    fn missed(&mut self, now: u64, theirs: u64, ends: Option<u64>) -> bool {
        self.lead = self.lead.max(theirs.saturating_sub(now));
        let latest = now.saturating_add(self.lead);
        self.ahead = match ends {
            None => self.ahead.saturating_mul(2).clamp(1, AHEAD_MAX),
            // Halfway there, all may have executed it in time.
            Some(ends) => (ends.saturating_sub(latest) / 2).min(self.ahead),
        };
        ends.is_none_or(|ends| latest <= ends)
    }
}

impl Coordinator {
    /// What time it is, unix milliseconds, at `now` of the clock of [`Self::tick`].
    pub fn set_clock(&mut self, now: u64, unix_ms: u64) {
        self.epoch = unix_ms.saturating_sub(now);
    }

    /// An attempt, which is dropped, named a moment that does not suit a participant: the next one names another.
    pub(super) fn untimely(
        &mut self,
        now: u64,
        sequence: u64,
        (theirs, ends): (u64, Option<u64>),
        out: &mut Vec<Event>,
    ) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if open.aim.missed(now.saturating_add(self.epoch), theirs, ends) && open.aborting.len() <= 4 * open.parts.len()
        {
            // Nobody was in its way.
            return self.attempt(now, sequence, out);
        }
        self.wait(now, sequence);
    }
}

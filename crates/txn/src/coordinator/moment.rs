//! One moment for the keys of all participants.
//!
//! Whether a key's time has come each node says by its own clock. What an attempt over several nodes sees is of one moment nevertheless, since it names one,
//! a little later than it is: a participant takes part only if what it has locked is the same then. That is so if no key that is there ends before, and, once its
//! clock has passed that moment, if none is lacking that may have ended since. What has ended before does not come back, as its lock is held. No clock is trusted
//! for that: of one that is ahead, or of a key that ends soon, the coordinator hears, and names another moment in the next attempt, by the clocks of those who have
//! the keys. If there is none, as a key is there whose time has come by the clock of another who lacks something, it tries until it has come by both.
//!
//! Who fetches is told the time of each participant, and what runs on what it found has the latest of these.

use super::{Coordinator, Event};

/// Milliseconds that a moment is ahead at most.
const AHEAD_MAX: u64 = 1 << 20;

/// How the moment of the next attempt is chosen. Clocks are by how many milliseconds they are ahead of the coordinator's own, which none of the keys goes by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Aim {
    /// Milliseconds that the first moment is ahead.
    first: i64,
    /// Milliseconds that the next one is ahead of the latest clock that was heard of.
    ahead: i64,
    /// That clock.
    latest: Option<i64>,
    /// The latest clock of those for whom a moment was over.
    over: Option<i64>,
}

impl Aim {
    pub(super) fn new(ahead: u64) -> Self {
        let first = ahead.min(AHEAD_MAX) as i64;
        Self { first, ahead: first, latest: None, over: None }
    }

    /// The moment of an attempt that is sent `now`, unix milliseconds.
    pub(super) fn moment(self, now: u64) -> u64 {
        now.saturating_add_signed(self.latest.unwrap_or(0)).saturating_add_signed(self.ahead)
    }

    /// A participant whose clock was at `theirs` could not execute the last attempt at its moment: one of its keys `ends` before, or it was later already. False:
    /// there is no moment that would do, and the search begins anew.
    fn missed(&mut self, now: u64, theirs: u64, ends: Option<u64>) -> bool {
        let since = |at: u64| i64::try_from(i128::from(at) - i128::from(now)).unwrap_or(i64::MAX);
        self.latest = self.latest.max(Some(since(theirs)));
        let latest = self.latest.unwrap_or(0);
        let Some(ends) = ends.map(since) else {
            self.over = self.over.max(Some(since(theirs)));
            self.ahead = self.ahead.saturating_mul(2).clamp(1, AHEAD_MAX as i64);
            return true;
        };
        if latest <= ends {
            // Halfway there, all may have executed it in time.
            self.ahead = (ends.saturating_sub(latest) / 2).min(self.ahead.max(0));
        } else if self.over.is_none_or(|over| over <= ends) {
            // It is over by the clock of somebody whose keys may all be there.
            self.ahead = ends.saturating_sub(latest);
        } else {
            *self = Self { ahead: self.first, latest: None, over: None, ..*self };
            return false;
        }
        true
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

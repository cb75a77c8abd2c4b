//! One moment for the keys of all participants.
//!
//! Each node says by its own clock whether a key has expired. Still, an attempt over several nodes sees one moment,
//! because it names one, a little ahead. A participant takes part only if its locked keys have the same state then.
//! That is so if no key that is there expires before, and, once its clock has passed that moment, if no missing key may
//! have expired since. Expired keys do not come back, because their locks are held.
//!
//! No clock is trusted for that. If a clock is ahead, or a key expires soon, the coordinator hears of it. It names
//! another moment in the next attempt, by the clocks of the keys' owners. There may be none: a key is there that has
//! expired by the clock of a participant that lacks another key. Then it tries until the key has expired by both
//! clocks.
//!
//! An attempt that fetches gets the time of each participant, and its commands run at the latest of these.

use clocks::{BootMs, UnixMs};

use super::{Coordinator, Event};

/// Most milliseconds that a moment is ahead.
const AHEAD_MAX: u64 = 1 << 20;

/// How the moment of the next attempt is chosen. A clock is given by the milliseconds that it is ahead of the
/// coordinator's own, which no key goes by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Aim {
    /// Milliseconds that the first moment is ahead.
    first: i64,
    /// Milliseconds that the next one is ahead of the latest clock that was heard of.
    ahead: i64,
    /// That clock.
    latest: Option<i64>,
    /// The latest clock of the participants for which a moment was over.
    over: Option<i64>,
}

impl Aim {
    pub(super) fn new(ahead: u64) -> Self {
        let first = ahead.min(AHEAD_MAX) as i64;
        Self { first, ahead: first, latest: None, over: None }
    }

    /// The moment of an attempt that is sent `now`.
    pub(super) fn moment(self, now: UnixMs) -> UnixMs {
        now.ahead_by(self.latest.unwrap_or(0)).ahead_by(self.ahead)
    }

    /// A participant whose clock was at `theirs` could not execute the last attempt at its moment: one of its keys
    /// `ends` before, or it was later already. False: no moment would do, and the search begins anew.
    fn missed(&mut self, now: UnixMs, theirs: UnixMs, ends: Option<UnixMs>) -> bool {
        let since = |at: UnixMs| i64::try_from(i128::from(at.0) - i128::from(now.0)).unwrap_or(i64::MAX);
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
            // It is over by the clock of a participant whose keys may all be there.
            self.ahead = ends.saturating_sub(latest);
        } else {
            *self = Self { ahead: self.first, latest: None, over: None, ..*self };
            return false;
        }
        true
    }
}

impl Coordinator {
    /// The Unix time at `now`.
    pub fn set_clock(&mut self, now: BootMs, unix: UnixMs) {
        self.epoch = unix.earlier(now.0);
    }

    /// An attempt, which is dropped, named a moment that does not suit a participant: the next one names another.
    pub(super) fn untimely(
        &mut self,
        now: BootMs,
        sequence: u64,
        (theirs, ends): (UnixMs, Option<UnixMs>),
        out: &mut Vec<Event>,
    ) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if open.aim.missed(self.epoch + now.0, theirs, ends) && open.aborting.len() <= 4 * open.parts.len() {
            // No transaction was in its way.
            return self.attempt(now, sequence, out);
        }
        self.wait(now, sequence);
    }
}

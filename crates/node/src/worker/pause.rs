//! Pauses: CLIENT PAUSE, the end of the log, the moment of an export over nodes, and DEBUG SLEEP, which stands for a
//! server that is busy.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;

/// Which commands a pause holds back; the stronger, the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pause {
    /// Commands that may write.
    Write,
    /// The same, and every part of a transaction over nodes that has no locks here: a part that reads may be widened
    /// to one that writes.
    Cut,
    /// All commands.
    All,
}

/// The pauses of a node. Workers look once per turn.
#[derive(Default)]
pub struct Pauses {
    /// Twice the unix milliseconds at which CLIENT PAUSE ends, plus 1 if all commands wait.
    paused: AtomicU64,
    /// Unix milliseconds until which the node itself holds back commands that may write.
    held: AtomicU64,
    /// Unix milliseconds until which it does so for the moment of an export over nodes.
    cut: AtomicU64,
    /// Unix milliseconds until which nothing is executed at all.
    frozen: AtomicU64,
}

impl Pauses {
    /// Holds commands back until `until` (below 2^62). A pause under way is never weakened.
    pub fn pause(&self, kind: Pause, until: UnixMs) {
        let old = self.paused.load(Relaxed);
        self.paused.store(old.max(until.0 << 1) | u64::from(kind == Pause::All) | old & 1, Relaxed);
    }

    /// Ends the pause.
    pub fn unpause(&self) {
        self.paused.store(0, Relaxed);
    }

    /// Holds back commands that may write until `until`, or [`Self::let_go`].
    pub fn hold(&self, until: UnixMs) {
        self.held.store(until.0, Relaxed);
    }

    /// As [`Self::hold`], but does not end an earlier one.
    pub(crate) fn hold_longer(&self, until: UnixMs) {
        self.held.fetch_max(until.0, Relaxed);
    }

    /// Ends what [`Self::hold`] began. A CLIENT PAUSE stays.
    pub fn let_go(&self) {
        self.held.store(0, Relaxed);
    }

    /// Holds back commands and parts of transactions until `until`, or [`Self::end_cut`].
    pub fn begin_cut(&self, until: UnixMs) {
        self.cut.store(until.0, Relaxed);
    }

    /// Ends what [`Self::begin_cut`] began. Other pauses stay.
    pub fn end_cut(&self) {
        self.cut.store(0, Relaxed);
    }

    /// The pause at `now`, and its end.
    pub fn current(&self, now: UnixMs) -> Option<(Pause, UnixMs)> {
        let own = |kind, of: &AtomicU64| {
            Some(UnixMs(of.load(Relaxed))).filter(|until| *until > now).map(|until| (kind, until))
        };
        let pauses = [self.paused(now), own(Pause::Write, &self.held), own(Pause::Cut, &self.cut)];
        let stronger =
            |(kind, until): (Pause, UnixMs), (other, end): (Pause, UnixMs)| (kind.max(other), until.max(end));
        pauses.into_iter().flatten().reduce(stronger)
    }

    fn paused(&self, now: UnixMs) -> Option<(Pause, UnixMs)> {
        let paused = self.paused.load(Relaxed);
        if paused == 0 {
            return None;
        }
        let until = UnixMs(paused >> 1);
        if until <= now {
            // A pause that another client began meanwhile is not lost.
            let _ = self.paused.compare_exchange(paused, 0, Relaxed, Relaxed);
            return None;
        }
        Some((if paused & 1 == 1 { Pause::All } else { Pause::Write }, until))
    }

    /// Stops all execution until `until`.
    pub fn freeze(&self, until: UnixMs) {
        self.frozen.fetch_max(until.0, Relaxed);
    }

    /// The time until which nothing is executed; 0 or a past time if there is none.
    pub fn frozen_until(&self) -> UnixMs {
        UnixMs(self.frozen.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_by_themselves_and_do_not_weaken() {
        let pauses = Pauses::default();
        assert_eq!(pauses.current(UnixMs(5)), None);
        pauses.pause(Pause::Write, UnixMs(20));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::Write, UnixMs(20))));
        pauses.pause(Pause::All, UnixMs(10));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::All, UnixMs(20))));
        assert_eq!(pauses.current(UnixMs(20)), None);
        pauses.pause(Pause::Write, UnixMs(30));
        assert_eq!(pauses.current(UnixMs(20)), Some((Pause::Write, UnixMs(30))));
        pauses.unpause();
        assert_eq!(pauses.current(UnixMs(20)), None);
    }

    #[test]
    fn what_the_node_holds_back_clients_do_not_let_go() {
        let pauses = Pauses::default();
        pauses.hold(UnixMs(20));
        pauses.unpause();
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::Write, UnixMs(20))));
        pauses.pause(Pause::All, UnixMs(10));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::All, UnixMs(20))));
        assert_eq!(pauses.current(UnixMs(10)), Some((Pause::Write, UnixMs(20))));
        pauses.let_go();
        assert_eq!(pauses.current(UnixMs(5)), None);
    }

    #[test]
    fn a_cut_is_stronger_than_other_pauses_of_writes() {
        let pauses = Pauses::default();
        pauses.begin_cut(UnixMs(20));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::Cut, UnixMs(20))));
        pauses.unpause();
        pauses.let_go();
        pauses.pause(Pause::Write, UnixMs(30));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::Cut, UnixMs(30))));
        assert_eq!(pauses.current(UnixMs(20)), Some((Pause::Write, UnixMs(30))));
        pauses.end_cut();
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::Write, UnixMs(30))));
        pauses.begin_cut(UnixMs(20));
        pauses.pause(Pause::All, UnixMs(10));
        assert_eq!(pauses.current(UnixMs(5)), Some((Pause::All, UnixMs(30))));
    }

    #[test]
    fn a_freeze_only_grows() {
        let pauses = Pauses::default();
        pauses.freeze(UnixMs(10));
        pauses.freeze(UnixMs(7));
        assert_eq!(pauses.frozen_until(), UnixMs(10));
    }
}

//! The log's tail, which a start would replay, is bounded (`checkpoint-log-max`).
//!
//! While a checkpoint with a predictable end is under way, commands that write go on at a pace. By that pace the tail
//! reaches its bound when the checkpoint ends. A slower load is not delayed; a faster one goes on in small waits. At
//! the bound commands wait until a checkpoint has cut the log. If none can end, they are refused. The checkpointer
//! reports the state, and workers read it.
//!
//! Writers go on at a pace, too, while the standby that would take over lags (rule S11).

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Mutex, PoisonError};

use redolog::Log;

/// A record counts so many bytes beside its own: its replay takes as long as reading them.
const RECORD: u64 = 64;
/// An effect whose replay must read the old value counts so many bytes: a start may have to read its key from the
/// store. A key that is changed often is read once. But then few keys change, and the additional checkpoints cost
/// little.
const UNKNOWN: u64 = 384;
/// After so many nanoseconds without any sign of life, a checkpoint counts as one that does not end.
const STALLED_NS: u64 = 60_000_000_000;
/// The longest wait before the next look, in nanoseconds.
const WAIT_MAX_NS: u64 = 20_000_000;
/// Between two looks at the bound, in nanoseconds.
const LOOK_NS: u64 = 2_000_000;
/// A load that was slower than allowed may be faster by so many nanoseconds.
const CREDIT_NS: u64 = 10_000_000;
/// A load that was faster waits for at most so many nanoseconds: the estimate is better by then.
const DEBT_MAX_NS: u64 = 100_000_000;

/// The size of a part of the log as a tail: by the bytes of its records, their number, and the number of effects whose
/// replay must read the old value.
pub fn size_of(bytes: u64, records: u64, unknown: u64) -> u64 {
    let records = records.saturating_mul(RECORD);
    bytes.saturating_add(records).saturating_add(unknown.saturating_mul(UNKNOWN))
}

/// How far the tail may grow. Positions are sizes of everything written since the replayed tail began; times are
/// [`crate::Clock::monotonic_ns`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The position in bytes where the tail begins.
    pub kept: u64,
    /// The position in bytes that the tail may reach.
    pub limit: u64,
    /// When the checkpoint under way is expected to end, in nanoseconds; 0: unknown.
    pub ends_at: u64,
    /// It takes at least so many nanoseconds from any moment on.
    pub least_ns: u64,
}

/// See the module's text. It begins without a bound.
#[derive(Debug)]
pub struct Tail {
    /// The size of the tail that was replayed at the start.
    replayed: AtomicU64,
    /// Effects since then whose replay must read the old value.
    unknown: AtomicU64,
    kept: AtomicU64,
    limit: AtomicU64,
    ends_at: AtomicU64,
    least_ns: AtomicU64,
    /// Workers need not check.
    is_far: AtomicBool,
    /// The last sign of life of the checkpointer.
    alive_at: AtomicU64,
    /// The progress of the store's flushes at the last look.
    steps: AtomicU64,
    /// The error of the last checkpoint.
    failed: Mutex<Option<String>>,
    is_failing: AtomicBool,
    /// Commands that write are refused.
    refuses: AtomicBool,
    /// Writers wait, or did a moment ago.
    is_slowing: AtomicBool,
    /// Bytes a second by which the tail may grow, for a standby that lags; 0: none does.
    pace: AtomicU64,
}

/// A worker's view of the tail.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    position: u64,
    /// When as much as that might have been written.
    at: u64,
}

/// The decision on commands that write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ruling {
    Go,
    /// Not before this time.
    Wait(u64),
    /// No checkpoint ends.
    Refuse,
}

impl Default for Tail {
    fn default() -> Self {
        Self {
            replayed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            ends_at: AtomicU64::new(0),
            least_ns: AtomicU64::new(0),
            is_far: AtomicBool::new(true),
            alive_at: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            failed: Mutex::new(None),
            is_failing: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            is_slowing: AtomicBool::new(false),
            pace: AtomicU64::new(0),
        }
    }
}

impl Tail {
    /// The tail that was replayed at the start, of `size` bytes, counts as if it had been written now: it takes as long
    /// the next time.
    pub fn replayed(&self, size: u64) {
        self.replayed.store(size, Relaxed);
    }

    /// Notes that so many effects were left whose replay must read the old value.
    pub(crate) fn left_unknown(&self, effects: u64) {
        if effects > 0 {
            self.unknown.fetch_add(effects, Relaxed);
        }
    }

    /// The position in bytes of the end of the written log, with the records that were left for it.
    pub fn position(&self, log: &Log) -> u64 {
        let (bytes, records) = log.written();
        self.replayed.load(Relaxed) + size_of(bytes, records, self.unknown.load(Relaxed)) + log.backlog()
    }

    /// The size of the tail in bytes.
    pub fn size(&self, log: &Log) -> u64 {
        self.position(log).saturating_sub(self.kept.load(Relaxed))
    }

    /// Sets how far the tail may grow. `is_far`: it need not be checked for some tenths of a second.
    pub fn set(&self, bound: Bound, is_far: bool) {
        self.kept.store(bound.kept, Relaxed);
        self.limit.store(bound.limit, Relaxed);
        self.ends_at.store(bound.ends_at, Relaxed);
        self.least_ns.store(bound.least_ns, Relaxed);
        self.is_far.store(is_far, Relaxed);
    }

    /// Sets no bound, because there are no checkpoints.
    pub fn unbind(&self) {
        self.limit.store(u64::MAX, Relaxed);
        self.refuses.store(false, Relaxed);
        self.is_far.store(true, Relaxed);
    }

    /// The tail may grow by so many bytes a second, until this is called again; `None`: nobody lags behind it.
    pub fn pace(&self, bytes: Option<u64>) {
        self.pace.store(bytes.map_or(0, |bytes| bytes.max(1)), Relaxed);
    }

    /// Notes a sign of life of the checkpointer at `now`, in nanoseconds of [`crate::Clock::monotonic_ns`].
    pub fn alive(&self, now: u64) {
        self.alive_at.store(now, Relaxed);
    }

    /// True if the checkpointer has not been heard of for long: it may be flushing the store.
    pub(crate) fn is_quiet(&self, now: u64) -> bool {
        now.saturating_sub(self.alive_at.load(Relaxed)) > STALLED_NS / 2
    }

    /// Notes the progress of the store's flushes: a long one is a sign of life as long as it progresses.
    pub(crate) fn flushing(&self, steps: u64, now: u64) {
        if self.steps.swap(steps, Relaxed) != steps {
            self.alive(now);
        }
    }

    /// Notes how the last checkpoint ended: its error.
    pub fn ended(&self, failed: Option<&str>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed.map(str::to_owned);
        self.is_failing.store(failed.is_some(), SeqCst);
    }

    /// True if writers had to wait since the last call.
    pub fn has_slowed(&self) -> bool {
        self.is_slowing.swap(false, Relaxed)
    }

    /// True if a check may be due soon.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        !self.is_far.load(Relaxed) || self.pace.load(Relaxed) > 0
    }

    /// True if commands that write are refused.
    #[inline]
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Relaxed)
    }

    /// Decides if commands that write may be executed, with the log written up to `position`. A worker that was told to
    /// refuse them asks again soon.
    pub(crate) fn rule(&self, position: u64, seen: &mut Seen, now: u64) -> Ruling {
        let ruling = self.look(position, seen, now);
        if (ruling == Ruling::Refuse) != self.refuses() {
            self.refuses.store(ruling == Ruling::Refuse, Relaxed);
        }
        ruling
    }

    fn look(&self, position: u64, seen: &mut Seen, now: u64) -> Ruling {
        let (limit, pace) = (self.limit.load(Relaxed), self.pace.load(Relaxed));
        if limit == u64::MAX && pace == 0 {
            *seen = Seen { position, at: now };
            return Ruling::Go;
        }
        let room = limit.saturating_sub(position);
        if room == 0 {
            *seen = Seen { position, at: now };
            let stalled = now.saturating_sub(self.alive_at.load(Relaxed)) > STALLED_NS;
            if stalled || self.is_failing.load(Relaxed) {
                return Ruling::Refuse;
            }
            self.is_slowing.store(true, Relaxed);
            return Ruling::Wait(now + LOOK_NS);
        }
        let ends_at = self.ends_at.load(Relaxed);
        let is_bound = limit < u64::MAX && ends_at > 0;
        if !is_bound && pace == 0 || seen.at == 0 {
            *seen = Seen { position, at: now };
            return Ruling::Go;
        }
        let left = ends_at.saturating_sub(now).max(self.least_ns.load(Relaxed));
        let grown = position.saturating_sub(seen.position);
        let over = |ns: u64, bytes: u64| u128::from(grown) * u128::from(ns) / u128::from(bytes);
        let for_checkpoint = if is_bound { over(left, room) } else { 0 };
        let takes = for_checkpoint.max(if pace > 0 { over(1_000_000_000, pace) } else { 0 });
        let due = seen.at.max(now.saturating_sub(CREDIT_NS)).saturating_add(takes.min(u128::from(u32::MAX)) as u64);
        *seen = Seen { position, at: due.min(now + DEBT_MAX_NS) };
        if due <= now {
            return Ruling::Go;
        }
        self.is_slowing.store(true, Relaxed);
        Ruling::Wait(due.min(now + WAIT_MAX_NS))
    }

    /// The error for a refused command; `None`: none is refused.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !self.refuses() {
            return None;
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = failed.unwrap_or_else(|| "the one under way does not get on".into());
        Some(format!(
            "MISCONF The log has grown to checkpoint-log-max, and checkpoints, which would shorten it, fail: {why}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn bounded(limit: u64, ends_at: u64) -> Tail {
        let tail = Tail::default();
        tail.set(Bound { kept: 0, limit, ends_at, least_ns: MS }, false);
        tail.alive(1);
        tail
    }

    /// Writes as fast as allowed, in steps, until `until`. Returns how far it came.
    fn write(tail: &Tail, step: u64, until: u64) -> u64 {
        let (mut position, mut now, mut seen) = (0, MS, Seen::default());
        while now < until {
            match tail.rule(position, &mut seen, now) {
                // No time passes while it writes.
                Ruling::Go => position += step,
                Ruling::Wait(at) => {
                    assert!(at > now && at <= now + WAIT_MAX_NS);
                    now = at;
                }
                Ruling::Refuse => unreachable!("nothing has failed"),
            }
        }
        position
    }

    #[test]
    fn without_a_bound_nobody_waits() {
        let (tail, mut seen) = (Tail::default(), Seen::default());
        assert!((1..1000).all(|i| tail.rule(i << 40, &mut seen, 1) == Ruling::Go));
    }

    #[test]
    fn writers_are_slowed_so_that_the_checkpoint_ends_in_time() {
        let tail = bounded(1 << 30, 1001 * MS);
        // Half of the time, half of the room, and never more than there is.
        let half = write(&tail, 1 << 16, 501 * MS);
        assert!((400 << 20..600 << 20).contains(&half), "{half}");
        let all = write(&tail, 1 << 16, 1000 * MS);
        assert!(all <= (1 << 30) + (1 << 16), "{all}");
        // It takes longer than expected: ever slower, but hardly beyond.
        let late = write(&tail, 1 << 16, 5000 * MS);
        assert!(late <= (1 << 30) + (1 << 16), "{late}");
        assert!(tail.has_slowed() && !tail.has_slowed());
    }

    #[test]
    fn writers_go_on_at_the_pace_of_a_standby_that_lags() {
        let tail = Tail::default();
        assert!(!tail.is_near());
        tail.pace(Some(100 << 20));
        assert!(tail.is_near());
        let (at_first, half) = (write(&tail, 1 << 16, 2 * MS), write(&tail, 1 << 16, 501 * MS));
        assert!(at_first < 4 << 20, "{at_first}");
        assert!((45 << 20..55 << 20).contains(&half), "{half}");
        // A checkpoint allows less, or more.
        tail.set(Bound { kept: 0, limit: 1 << 40, ends_at: 1001 * MS, least_ns: MS }, false);
        let half = write(&tail, 1 << 16, 501 * MS);
        assert!((45 << 20..55 << 20).contains(&half), "{half}");
        tail.set(Bound { kept: 0, limit: 20 << 20, ends_at: 1001 * MS, least_ns: MS }, false);
        let half = write(&tail, 1 << 16, 501 * MS);
        assert!((8 << 20..12 << 20).contains(&half), "{half}");
        tail.unbind();
        tail.pace(None);
        let mut seen = Seen::default();
        assert!((1..1000).all(|i| tail.rule(i << 40, &mut seen, i) == Ruling::Go));
    }

    #[test]
    fn who_writes_slowly_does_not_wait() {
        let (tail, mut seen) = (bounded(1 << 30, 1001 * MS), Seen::default());
        for ms in 1..1000 {
            // Half as fast as would be too fast.
            assert_eq!(tail.rule(ms * (1 << 19), &mut seen, ms * MS), Ruling::Go, "{ms}");
        }
    }

    #[test]
    fn at_the_bound_writers_wait_and_are_refused_only_if_no_checkpoint_ends() {
        let (tail, mut seen) = (bounded(1000, 0), Seen::default());
        assert_eq!(tail.rule(999, &mut seen, MS), Ruling::Go);
        assert_eq!(tail.rule(1000, &mut seen, MS), Ruling::Wait(MS + LOOK_NS));
        tail.ended(Some("no room"));
        assert_eq!(tail.rule(1000, &mut seen, MS), Ruling::Refuse);
        assert!(tail.refusal().unwrap().ends_with("fail: no room"));
        // Below it no writer is delayed.
        assert_eq!(tail.rule(999, &mut seen, MS), Ruling::Go);
        tail.ended(None);
        assert_eq!(tail.rule(1000, &mut seen, MS), Ruling::Wait(MS + LOOK_NS));
        // It hangs.
        assert_eq!(tail.rule(1000, &mut seen, STALLED_NS + 2), Ruling::Refuse);
        tail.alive(STALLED_NS);
        assert_eq!(tail.rule(1000, &mut seen, STALLED_NS + 2), Ruling::Wait(STALLED_NS + 2 + LOOK_NS));
        // A flush that takes long, and progresses for some time.
        let mut now = STALLED_NS;
        for steps in [5, 6, 7] {
            now += STALLED_NS - 1;
            assert!(tail.is_quiet(now));
            tail.flushing(steps, now);
            assert!(!tail.is_quiet(now + 1));
            assert_eq!(tail.rule(1000, &mut seen, now), Ruling::Wait(now + LOOK_NS), "{steps}");
        }
        tail.flushing(7, now + STALLED_NS);
        assert_eq!(tail.rule(1000, &mut seen, now + STALLED_NS + 1), Ruling::Refuse);
        tail.alive(now + STALLED_NS);
        assert!(matches!(tail.rule(1000, &mut seen, now + STALLED_NS), Ruling::Wait(_)));
        assert_eq!(tail.refusal(), None);
        assert_eq!(tail.rule(1000, &mut seen, 1 << 60), Ruling::Refuse);
        assert!(tail.refusal().unwrap().contains("does not get on"));
        tail.unbind();
        assert_eq!((tail.refusal(), tail.rule(1000, &mut seen, 1 << 60)), (None, Ruling::Go));
    }
}

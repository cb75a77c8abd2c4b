//! HOTKEYS: the keys that cost most CPU time, and those that cost most bytes on the network, from START to STOP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;

use super::cost::Cost;
use super::heavy::Heavy;

/// Keys that are counted for each key that GET shows: a key with a share of 1 in 1000 is found by default.
const COUNTED: usize = 100;

/// The options of HOTKEYS START.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) cpu: bool,
    pub(crate) net: bool,
    /// The number of keys that GET shows.
    pub(crate) count: usize,
    /// Milliseconds; 0: until it is stopped.
    pub(crate) duration: u64,
    /// A command is counted with a probability of 1 in so many.
    pub(crate) sample: u64,
    /// Ranges of slots, ascending, whose keys are counted; none: all.
    pub(crate) slots: Option<Vec<(u16, u16)>>,
}

impl Wanted {
    fn includes(&self, slot: u16) -> bool {
        self.slots.as_ref().is_none_or(|ranges| ranges.iter().any(|(from, to)| (*from..=*to).contains(&slot)))
    }
}

/// Nanoseconds and bytes of some commands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) nanos: u64,
    pub(crate) bytes: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The figures of one worker.
#[derive(Default)]
struct Seen {
    cpu: Option<Heavy>,
    net: Option<Heavy>,
    all: Sums,
    selected: Sums,
    sampled: Sums,
    /// Nanoseconds that the counting took.
    work: u64,
    /// The state of its random numbers.
    dice: u64,
}

/// A key of a command: its name, hash and slot.
pub(crate) type HotKey<'a> = (&'a [u8], u64, u16);

/// One period of tracking.
pub(crate) struct Tracking {
    pub(crate) wanted: Wanted,
    /// When it began.
    pub(crate) started: UnixMs,
    /// When it ended, a [`UnixMs`]; `u64::MAX` while it goes on.
    ended: AtomicU64,
    /// User and system CPU time of the process at its start, in microseconds.
    pub(crate) cpu_before: (u64, u64),
    /// The figures by worker.
    seen: Box<[Mutex<Seen>]>,
}

/// The contents of HOTKEYS GET.
pub(crate) struct Report {
    pub(crate) all: Sums,
    pub(crate) selected: Sums,
    pub(crate) sampled: Sums,
    /// Bytes of the counted commands.
    pub(crate) net_total: u64,
    /// Keys by nanoseconds, and by bytes.
    pub(crate) by_cpu: Vec<(Vec<u8>, u64)>,
    pub(crate) by_net: Vec<(Vec<u8>, u64)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking {
    fn end(&self) -> UnixMs {
        let duration = self.wanted.duration;
        let planned = if duration == 0 { UnixMs::NEVER } else { self.started + duration };
        planned.min(UnixMs(self.ended.load(Relaxed)))
    }

    /// True if it goes on at `now`.
    pub(crate) fn is_on(&self, now: UnixMs) -> bool {
        now < self.end()
    }

    /// Milliseconds for which it has lasted.
    pub(crate) fn lasted(&self, now: UnixMs) -> u64 {
        now.min(self.end()).since(self.started)
    }

    /// True if worker `worker` counts the next command: it draws a random number.
    pub(crate) fn samples(&self, worker: usize) -> bool {
        if self.wanted.sample <= 1 {
            return true;
        }
        let Some(seen) = self.seen.get(worker) else { return false };
        let mut seen = lock(seen);
        // SplitMix64.
        seen.dice = seen.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = seen.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).is_multiple_of(self.wanted.sample)
    }

    /// Counts a command with these keys.
    pub(crate) fn add<'a>(
        &self,
        worker: usize,
        keys: impl ExactSizeIterator<Item = HotKey<'a>> + Clone,
        sampled: bool,
        cost: Cost,
    ) {
        let Some(seen) = self.seen.get(worker).filter(|_| keys.len() > 0) else { return };
        let mut seen = lock(seen);
        let of_all = Sums { nanos: cost.nanos, bytes: cost.bytes_in + cost.bytes_out };
        let n = keys.len() as u64;
        let each = Sums { nanos: of_all.nanos / n, bytes: of_all.bytes / n };
        seen.all.add(of_all);
        let selected = keys.clone().filter(|(.., slot)| self.wanted.includes(*slot)).count() as u64;
        let share = match selected {
            selected if selected == n => of_all,
            selected => Sums { nanos: each.nanos * selected, bytes: each.bytes * selected },
        };
        seen.selected.add(share);
        if !sampled {
            return;
        }
        seen.sampled.add(share);
        let most = self.wanted.count * COUNTED;
        for (name, hash, _) in keys.filter(|(.., slot)| self.wanted.includes(*slot)) {
            if self.wanted.cpu {
                seen.cpu.get_or_insert_with(|| Heavy::new(most)).add(name, hash, each.nanos);
            }
            if self.wanted.net {
                seen.net.get_or_insert_with(|| Heavy::new(most)).add(name, hash, each.bytes);
            }
        }
    }

    /// Notes that counting took `nanos`.
    pub(crate) fn took(&self, worker: usize, nanos: u64) {
        if let Some(seen) = self.seen.get(worker) {
            lock(seen).work += nanos;
        }
    }

    /// Nanoseconds that counting took.
    pub(crate) fn work(&self) -> u64 {
        self.seen.iter().map(|seen| lock(seen).work).sum()
    }

    /// The report so far.
    pub(crate) fn report(&self) -> Report {
        let (mut all, mut selected, mut sampled, mut net_total) = <(Sums, Sums, Sums, u64)>::default();
        let (mut by_cpu, mut by_net) = (BTreeMap::new(), BTreeMap::new());
        for seen in &self.seen {
            let seen = lock(seen);
            all.add(seen.all);
            selected.add(seen.selected);
            sampled.add(seen.sampled);
            net_total += seen.net.as_ref().map_or(0, Heavy::total);
            for (heavy, sums) in [(&seen.cpu, &mut by_cpu), (&seen.net, &mut by_net)] {
                for (name, weight) in heavy.iter().flat_map(Heavy::keys) {
                    *sums.entry(name.to_vec()).or_insert(0u64) += weight;
                }
            }
        }
        let top = |sums: BTreeMap<Vec<u8>, u64>| {
            let mut keys: Vec<(Vec<u8>, u64)> = sums.into_iter().filter(|(_, weight)| *weight > 0).collect();
            // Keys of one prefix must not hide others that cost the same: names are compared from their ends.
            keys.sort_by(|(a, weight), (b, other)| other.cmp(weight).then_with(|| a.iter().rev().cmp(b.iter().rev())));
            keys.truncate(self.wanted.count);
            keys
        };
        Report { all, selected, sampled, net_total, by_cpu: top(by_cpu), by_net: top(by_net) }
    }
}

/// HOTKEYS of a node.
#[derive(Default)]
pub(crate) struct HotKeys {
    /// Grows with every start and stop.
    generation: AtomicU64,
    /// The tracking under way, or the last.
    tracking: Mutex<Option<Arc<Tracking>>>,
}

impl HotKeys {
    /// Changes whenever a tracking begins or ends.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// The tracking under way, or the last.
    pub(crate) fn tracking(&self) -> Option<Arc<Tracking>> {
        lock(&self.tracking).clone()
    }

    /// Begins to track, at `now`. Returns false if tracking is under way already.
    pub(crate) fn start(&self, wanted: Wanted, workers: usize, now: UnixMs, cpu_before: (u64, u64)) -> bool {
        let mut tracking = lock(&self.tracking);
        if tracking.as_ref().is_some_and(|tracking| tracking.is_on(now)) {
            return false;
        }
        let dice = |worker: usize| now.0.wrapping_mul(workers as u64 + 1).wrapping_add(worker as u64);
        let seen = (0..workers).map(|worker| Mutex::new(Seen { dice: dice(worker), ..Seen::default() })).collect();
        let ended = AtomicU64::new(u64::MAX);
        *tracking = Some(Arc::new(Tracking { wanted, started: now, ended, cpu_before, seen }));
        self.generation.fetch_add(1, Relaxed);
        true
    }

    /// Stops tracking. Returns false if nothing is tracked.
    pub(crate) fn stop(&self, now: UnixMs) -> bool {
        let tracking = lock(&self.tracking);
        let Some(tracking) = tracking.as_ref().filter(|tracking| tracking.is_on(now)) else { return false };
        tracking.ended.store(now.0, Relaxed);
        self.generation.fetch_add(1, Relaxed);
        true
    }

    /// Forgets the findings. Returns false if tracking is under way.
    pub(crate) fn reset(&self, now: UnixMs) -> bool {
        let mut tracking = lock(&self.tracking);
        let is_on = tracking.as_ref().is_some_and(|tracking| tracking.is_on(now));
        if !is_on {
            *tracking = None;
            self.generation.fetch_add(1, Relaxed);
        }
        !is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { cpu: true, net: true, count: 2, duration: 0, sample: 1, slots: None };

    fn started(wanted: Wanted, workers: usize) -> (HotKeys, Arc<Tracking>) {
        let hot = HotKeys::default();
        assert!(hot.start(wanted, workers, UnixMs(1000), (0, 0)));
        let tracking = hot.tracking().expect("under way");
        (hot, tracking)
    }

    fn cost(nanos: u64, bytes: u64) -> Cost {
        Cost { nanos, bytes_in: bytes, bytes_out: 0 }
    }

    #[test]
    fn workers_are_added_up() {
        let (_, tracking) = started(WANTED, 2);
        tracking.add(0, [(&b"a"[..], 1, 1), (b"b", 2, 2)].into_iter(), true, cost(10, 7));
        tracking.add(1, [(&b"b"[..], 2, 2)].into_iter(), true, cost(4, 1));
        tracking.add(1, [(&b"c"[..], 3, 3)].into_iter(), true, cost(1, 9));
        let report = tracking.report();
        assert_eq!(report.by_cpu, [(b"b".to_vec(), 9), (b"a".to_vec(), 5)]);
        assert_eq!(report.by_net, [(b"c".to_vec(), 9), (b"b".to_vec(), 4)]);
        assert_eq!((report.all.nanos, report.all.bytes, report.net_total), (15, 17, 16));
    }

    #[test]
    fn slots_select_keys() {
        let (_, tracking) = started(Wanted { slots: Some(vec![(0, 1), (5, 5)]), ..WANTED }, 1);
        tracking.add(0, [(&b"a"[..], 1, 5), (b"b", 2, 2)].into_iter(), true, cost(10, 6));
        let report = tracking.report();
        assert_eq!(report.by_cpu, [(b"a".to_vec(), 5)]);
        assert_eq!((report.all.nanos, report.selected.nanos, report.selected.bytes), (10, 5, 3));
    }

    #[test]
    fn it_ends_by_itself_or_is_stopped() {
        let (hot, tracking) = started(Wanted { duration: 500, ..WANTED }, 1);
        assert!(tracking.is_on(UnixMs(1499)) && !tracking.is_on(UnixMs(1500)));
        assert_eq!((tracking.lasted(UnixMs(1200)), tracking.lasted(UnixMs(9000))), (200, 500));
        assert!(!hot.start(WANTED, 1, UnixMs(1499), (0, 0)) && !hot.reset(UnixMs(1499)) && !hot.stop(UnixMs(1500)));
        assert!(hot.reset(UnixMs(1500)) && hot.tracking().is_none());
        let (hot, tracking) = started(WANTED, 1);
        assert!(hot.stop(UnixMs(1700)) && !hot.stop(UnixMs(1701)));
        assert_eq!((tracking.is_on(UnixMs(1700)), tracking.lasted(UnixMs(9000))), (false, 700));
        assert!(hot.start(WANTED, 1, UnixMs(1800), (0, 0)));
    }

    #[test]
    fn a_share_of_the_commands_is_sampled() {
        let (_, tracking) = started(Wanted { sample: 10, ..WANTED }, 1);
        let sampled = (0..10_000).filter(|_| tracking.samples(0)).count();
        assert!((800..1200).contains(&sampled), "{sampled}");
    }
}

//! The place where workers leave records for a stream's writer, and how the writer takes all of them up to a cut.
//!
//! A worker *enters* its gate before it chooses an LSN and *exits* when the record has been left. The writer first
//! raises the *floor* to the cut that it wants, then looks at every gate. A worker that is inside may have chosen an
//! LSN below the cut, so the writer waits for it. A worker that enters later sees the floor and chooses a higher LSN.
//! So everything at or below the cut is taken. A record has a higher LSN than all it depends on, so a cut is a
//! consistent prefix (checked by loom in `tests/cuts.rs`).
//!
//! A record that takes long to encode is left *late*: as a function that the writer calls. The worker and its latches
//! need not wait for it.

use std::collections::VecDeque;

use crate::Lsn;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering::*, PoisonError, fence};

/// From so many appended bytes on, a buffer gets just the room that it needs: the system may have no memory for twice
/// that.
pub(crate) const LARGE_RECORD: usize = 1 << 20;

/// Bytes that an empty buffer keeps: memory that a large record needed once may not be needed again.
pub(crate) const KEPT: usize = 256 << 10;

/// Most bytes that a buffer gets at once because the last time needed them.
const AT_ONCE: usize = 4 << 20;

/// Empties a buffer whose contents are no longer needed.
pub(crate) fn empty<T>(buffer: &mut Vec<T>) {
    buffer.clear();
    if buffer.capacity() * size_of::<T>() > KEPT {
        *buffer = Vec::new();
    }
}

/// Appends a record that was left before it was encoded.
pub type Late = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// A record that is not encoded yet.
struct LateRecord {
    lsn: Lsn,
    /// Its length in bytes, roughly.
    about: u64,
    encode: Late,
}

/// The records that a worker has left and the writer has not taken.
#[derive(Default)]
struct Pending {
    /// Encoded records, in the order of their LSNs.
    bytes: Vec<u8>,
    /// The LSN of each record, and where it ends. A late one has no bytes here.
    ends: Vec<(Lsn, usize)>,
    /// Those of them that are late.
    late: VecDeque<LateRecord>,
    /// Bytes that were taken last, at most [`AT_ONCE`]: a buffer without memory gets room for so many at once.
    usual: usize,
}

impl Pending {
    /// A buffer that grows from nothing each time leaves a hole of each size that it passes.
    fn make_room(&mut self) {
        if self.bytes.capacity() == 0 && self.usual > KEPT {
            self.bytes.reserve_exact(self.usual);
        }
    }
}

/// Records of one worker, in the order of their LSNs, some of them late.
struct Mixed {
    bytes: Vec<u8>,
    ends: Vec<(Lsn, usize)>,
    late: VecDeque<LateRecord>,
}

impl Mixed {
    /// Appends the records to `bytes`, and their ends to `ends`. Returns by how many bytes they exceed the estimate.
    fn encode(self, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) -> u64 {
        let (mut from, mut late, mut surplus) = (0, self.late.into_iter().peekable(), 0u64);
        for (lsn, end) in self.ends {
            match late.next_if(|late| late.lsn == lsn) {
                Some(record) => {
                    let before = bytes.len();
                    (record.encode)(bytes);
                    surplus = surplus.wrapping_add((bytes.len() - before) as u64).wrapping_sub(record.about);
                }
                None => bytes.extend_from_slice(&self.bytes[from..end]),
            }
            from = end;
            ends.push(bytes.len());
        }
        surplus
    }
}

/// One worker's part, on lines of its own.
#[repr(align(128))]
struct Lane {
    /// How often the worker has passed its gate, in either direction: it is inside while this is odd.
    passes: AtomicU64,
    /// LSN of the last record left.
    last: AtomicU64,
    /// Bytes of all records ever left, counted by the worker, and taken, counted by the writer. Late ones count by
    /// their estimates.
    left: AtomicU64,
    taken: AtomicU64,
    /// By how many bytes late ones exceeded their estimates, wrapping; counted by the writer.
    surplus: AtomicU64,
    pending: Mutex<Pending>,
}

impl Lane {
    fn last(&self) -> Lsn {
        Lsn(self.last.load(Acquire))
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of all workers, shared, which loom need not check.
type Lanes = std::sync::Arc<[Arc<Lane>]>;

/// The LSN of the last record that any worker has left.
fn last_left(lanes: &[Arc<Lane>]) -> Lsn {
    lanes.iter().map(|lane| lane.last()).max().unwrap_or_default()
}

/// The writer's side.
pub struct Intake {
    lanes: Lanes,
    floor: Arc<AtomicU64>,
    /// The last cut that was taken.
    done: Lsn,
    /// The next cut is not below this, also without records.
    wanted: Lsn,
    round: Option<Round>,
}

/// A cut that is being taken.
struct Round {
    cut: Lsn,
    /// The workers that were inside when the floor was raised, and have not been seen to leave.
    inside: Vec<(usize, u64)>,
}

/// The records that are left and not taken.
pub struct Waiting(Lanes);

impl Waiting {
    /// How many bytes: a load or two for each worker.
    pub fn bytes(&self) -> u64 {
        let of = |lane: &Lane| {
            // In this order taken bytes are part of the left ones.
            let taken = lane.taken.load(Acquire);
            lane.left.load(Acquire).saturating_sub(taken)
        };
        self.0.iter().map(|lane| of(lane)).sum()
    }

    /// How many bytes have ever been left, taken or not.
    pub fn ever(&self) -> u64 {
        self.0
            .iter()
            .map(|lane| lane.left.load(Acquire).wrapping_add(lane.surplus.load(Acquire)))
            .fold(0, u64::wrapping_add)
    }
}

/// A worker's side.
pub struct Gate {
    lane: Arc<Lane>,
    lanes: Lanes,
    floor: Arc<AtomicU64>,
}

/// The records that were taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Every record of the stream up to here has been taken, now or before.
    pub cut: Lsn,
    /// The end of each record in the bytes taken.
    pub ends: Vec<usize>,
}

/// How taking ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Take {
    /// There is nothing.
    Nothing,
    /// A worker is inside its gate: try again soon. No record was taken.
    Soon,
    /// These records.
    Taken(Taken),
}

impl Intake {
    /// An intake with its workers' gates, in their order, above everything up to `floor`.
    pub fn new(workers: usize, floor: Lsn) -> (Intake, Vec<Gate>) {
        let lane = || Lane {
            passes: AtomicU64::new(0),
            last: AtomicU64::new(0),
            left: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            surplus: AtomicU64::new(0),
            pending: Mutex::default(),
        };
        let lanes: Lanes = (0..workers).map(|_| Arc::new(lane())).collect::<Vec<_>>().into();
        let shared = Arc::new(AtomicU64::new(floor.0));
        let gate = |lane: &Arc<Lane>| Gate { lane: lane.clone(), lanes: lanes.clone(), floor: shared.clone() };
        let gates = lanes.iter().map(gate).collect();
        (Intake { lanes, floor: shared, done: floor, wanted: Lsn::ZERO, round: None }, gates)
    }

    /// Has the next cut be at or above this, although no record may be: workers give no LSN at or below it any more.
    pub fn want(&mut self, cut: Lsn) {
        self.wanted = self.wanted.max(cut);
    }

    /// Takes every record up to a cut, which is as high as possible, and appends them to `bytes`.
    pub fn take(&mut self, bytes: &mut Vec<u8>) -> Take {
        let Some(mut round) = self.round.take().or_else(|| self.begin()) else { return Take::Nothing };
        round.inside.retain(|(lane, passes)| self.lanes[*lane].passes.load(Acquire) == *passes);
        if !round.inside.is_empty() {
            self.round = Some(round);
            return Take::Soon;
        }
        self.done = round.cut;
        Take::Taken(self.collect(round.cut, bytes))
    }

    fn begin(&self) -> Option<Round> {
        let cut = last_left(&self.lanes).max(self.wanted);
        if cut <= self.done {
            return None;
        }
        self.floor.store(cut.0, Relaxed);
        // A worker that enters and does not see this floor is seen to be inside.
        fence(SeqCst);
        let passes = self.lanes.iter().map(|lane| lane.passes.load(Acquire)).enumerate();
        Some(Round { cut, inside: passes.filter(|(_, passes)| passes % 2 == 1).collect() })
    }

    fn collect(&self, cut: Lsn, bytes: &mut Vec<u8>) -> Taken {
        let mut ends = Vec::new();
        for lane in self.lanes.iter() {
            let mut pending = lane.lock();
            let taken = pending.ends.partition_point(|(lsn, _)| *lsn <= cut);
            if pending.late.front().is_some_and(|late| late.lsn <= cut) {
                let (mixed, about) = pending.take_mixed(taken, cut);
                // The worker may leave more while these are encoded.
                drop(pending);
                let surplus = mixed.encode(bytes, &mut ends);
                lane.surplus.fetch_add(surplus, Release);
                lane.taken.fetch_add(about, Release);
                continue;
            }
            let Some(&(_, end)) = taken.checked_sub(1).and_then(|last| pending.ends.get(last)) else { continue };
            let before = bytes.len();
            if end >= LARGE_RECORD || bytes.capacity() == 0 {
                bytes.reserve_exact(end);
            }
            bytes.extend_from_slice(&pending.bytes[..end]);
            ends.extend(pending.ends.drain(..taken).map(|(_, end)| before + end));
            pending.bytes.drain(..end);
            pending.usual = end.min(AT_ONCE);
            // Late records have no bytes.
            if pending.bytes.is_empty() && pending.ends.is_empty() {
                empty(&mut pending.bytes);
                empty(&mut pending.ends);
            }
            lane.taken.fetch_add(end as u64, Release);
            pending.ends.iter_mut().for_each(|(_, other)| *other -= end);
        }
        Taken { cut, ends }
    }

    /// True if a record waits to be taken.
    pub fn has_records(&self) -> bool {
        self.round.is_some() || self.lanes.iter().any(|lane| lane.last() > self.done)
    }

    /// The waiting records, for other threads to ask.
    pub fn waiting(&self) -> Waiting {
        Waiting(self.lanes.clone())
    }
}

impl Pending {
    /// Takes the first so many records, which are all up to the cut. Returns about how many bytes they have.
    fn take_mixed(&mut self, count: usize, cut: Lsn) -> (Mixed, u64) {
        let ends: Vec<_> = self.ends.drain(..count).collect();
        let end = ends.last().map_or(0, |(_, end)| *end);
        let bytes: Vec<u8> = self.bytes.drain(..end).collect();
        self.ends.iter_mut().for_each(|(_, other)| *other -= end);
        let late = self.late.partition_point(|late| late.lsn <= cut);
        let late: VecDeque<_> = self.late.drain(..late).collect();
        if self.bytes.is_empty() {
            empty(&mut self.bytes);
        }
        let about = end as u64 + late.iter().map(|late| late.about).sum::<u64>();
        (Mixed { bytes, ends, late }, about)
    }
}

impl Gate {
    /// The worker is about to choose an LSN, which must be above the returned one. No cut passes until [`Self::exit`].
    pub fn enter(&mut self) -> Lsn {
        let passes = self.lane.passes.load(Relaxed);
        debug_assert!(passes.is_multiple_of(2), "inside already");
        self.lane.passes.store(passes + 1, Relaxed);
        // The writer sees that the worker is inside, or the worker sees its floor.
        fence(SeqCst);
        Lsn(self.floor.load(Relaxed).max(self.lane.last.load(Relaxed)))
    }

    /// Leaves an encoded record ([`crate::Record::encode`]) with this LSN. The worker is inside.
    pub fn leave(&mut self, lsn: Lsn, encode: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(lsn.0 > self.lane.last.load(Relaxed), "rule L1: above what the worker has left");
        let mut pending = self.lane.lock();
        let before = pending.bytes.len();
        pending.make_room();
        encode(&mut pending.bytes);
        let end = pending.bytes.len();
        pending.ends.push((lsn, end));
        drop(pending);
        self.count(lsn, (end - before) as u64);
    }

    /// As [`Self::leave`], for a record that takes long to encode: the writer encodes it when it takes it. `about`: its
    /// estimated bytes.
    pub fn leave_late(&mut self, lsn: Lsn, about: u64, encode: Late) {
        debug_assert!(lsn.0 > self.lane.last.load(Relaxed), "rule L1: above what the worker has left");
        let mut pending = self.lane.lock();
        let end = pending.bytes.len();
        pending.ends.push((lsn, end));
        pending.late.push_back(LateRecord { lsn, about, encode });
        drop(pending);
        self.count(lsn, about);
    }

    fn count(&mut self, lsn: Lsn, bytes: u64) {
        let left = self.lane.left.load(Relaxed).wrapping_add(bytes);
        self.lane.left.store(left, Release);
        self.lane.last.store(lsn.0, Release);
    }

    /// Instead of [`Self::leave`]: there is no record, but a version has this LSN, and the watermark must pass it.
    pub fn pass(&mut self, lsn: Lsn) {
        debug_assert!(lsn.0 > self.lane.last.load(Relaxed), "rule L1: above what the worker has left");
        self.lane.last.store(lsn.0, Release);
    }

    /// The stream's end: no version that was seen is above it. 0 before the first record.
    pub fn end(&self) -> Lsn {
        last_left(&self.lanes)
    }

    /// The worker has left its records.
    pub fn exit(&mut self) {
        let passes = self.lane.passes.load(Relaxed);
        debug_assert!(!passes.is_multiple_of(2), "not inside");
        self.lane.passes.store(passes + 1, Release);
    }
}

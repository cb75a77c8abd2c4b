//! The lengths of strings, and the numbers of elements of collections, in powers of two: INFO keysizes shows them.
//!
//! Keys in memory count; a key that only the store has counts when it is loaded. A worker notes its own changes at
//! once, under the key's latch; undone changes are noted again. So sums over the workers are exact when nothing is in
//! flight.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::entry::{Entry, Part};
use crate::keyspace::Keyspace;
use crate::local::{Counters, shift};
use crate::value::{Blob, Kind, count_elements};

/// Number of sizes that are told apart: bucket 0 is for empty ones, bucket n for 2^(n-1) to 2^n - 1.
pub const SIZES: usize = 50;

/// The types whose sizes are counted.
pub const SIZED_TYPES: [&str; 5] = ["string", "list", "set", "zset", "hash"];

/// One for each type, and one for streams, which has no meaning: to count them all at 0 is cheaper than to ask.
const ROWS: usize = SIZED_TYPES.len() + 1;

/// A worker's counts of a database: numbers may be negative, as a key may go where another worker is.
struct Sizes([AtomicI64; ROWS * SIZES]);

/// The counts of the databases that a worker has changed, by their physical numbers.
#[derive(Default)]
pub(crate) struct AllSizes(Box<[OnceLock<Box<Sizes>>]>);

impl AllSizes {
    pub(crate) fn new(databases: usize) -> Self {
        Self((0..databases).map(|_| OnceLock::new()).collect())
    }

    #[inline]
    fn of(&self, physical: u16) -> &Sizes {
        self.0[usize::from(physical)].get_or_init(|| Box::new(Sizes([const { AtomicI64::new(0) }; ROWS * SIZES])))
    }
}

/// The place of a value among the sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(u16);

#[inline]
fn bucket(len: u64) -> usize {
    // Of 2n + 1, which is never 0: no case of its own.
    ((len << 1 | 1).ilog2() as usize).min(SIZES - 1)
}

/// The bucket of an integer's text.
fn bucket_of_int(n: i64) -> usize {
    /// From these magnitudes on the text is longer than 1, 3, 7 and 15 bytes.
    const LONGER: [u64; 4] = [10, 1_000, 10_000_000, 1_000_000_000_000_000];
    const LONGER_NEGATIVE: [u64; 4] = [1, 100, 1_000_000, 100_000_000_000_000];
    let limits = if n < 0 { &LONGER_NEGATIVE } else { &LONGER };
    1 + limits.iter().filter(|limit| n.unsigned_abs() >= **limit).count()
}

impl Size {
    #[inline]
    fn at(kind: Kind, bucket: usize) -> Self {
        let row = (kind as usize).saturating_sub(Kind::Blob as usize);
        Self((row * SIZES + bucket) as u16)
    }

    /// Of what an entry holds.
    #[inline]
    pub(crate) fn of(entry: Entry) -> Self {
        match entry.inline_len() {
            Some(len) => Self::at(Kind::Short, bucket(len as u64)),
            None => Self::of_other(entry),
        }
    }

    fn of_other(entry: Entry) -> Self {
        let kind = entry.kind();
        let bucket = match kind {
            Kind::Int => bucket_of_int(entry.int()),
            Kind::Short | Kind::Raw => bucket(entry.inline().len() as u64),
            Kind::Blob => bucket(entry.blob().len() as u64),
            Kind::Stream => 0,
            _ => bucket(count_elements(entry).unwrap_or(0)),
        };
        Self::at(kind, bucket)
    }

    /// Of an integer.
    pub(crate) fn of_int(n: i64) -> Self {
        Self::at(Kind::Int, bucket_of_int(n))
    }

    /// Of a string that is about to be in an entry.
    pub(crate) fn of_part(part: &Part<'_>) -> Self {
        match part {
            Part::Int(n) => Self::of_int(*n),
            Part::Short(bytes) | Part::Raw(bytes) => Self::at(Kind::Short, bucket(bytes.len() as u64)),
            Part::Pointer(..) => unreachable!("a value with a pointer is counted with its entry"),
        }
    }
}

/// True if two lengths have the same bucket, in fewer steps than finding both.
#[inline]
pub(crate) fn are_alike(a: usize, b: usize) -> bool {
    // The highest bits are the same exactly if they vanish from one side and stay in the other.
    a ^ b <= a & b
}

/// True if two integers surely have texts of one bucket: most of a counter's steps.
#[inline]
pub(crate) fn are_alike_ints(a: i64, b: i64) -> bool {
    // From 16 on every limit is a multiple of eight.
    a >= 16 && a >> 3 == b >> 3
}

impl Counters {
    /// Counts a value of this size that has come or gone.
    #[inline]
    pub(crate) fn count_size(&self, physical: u16, size: Size, change: i64) {
        shift(&self.sizes.of(physical).0[usize::from(size.0)], change);
    }

    /// Counts a value whose size has changed.
    #[inline]
    pub(crate) fn count_resized(&self, physical: u16, from: Size, to: Size) {
        if from != to {
            self.count_size(physical, from, -1);
            self.count_size(physical, to, 1);
        }
    }

    /// A database was emptied, under every latch: afterwards the sum over `all`, of which this is one, is 0.
    pub(crate) fn forget_sizes(&self, all: &[Arc<Counters>], physical: u16) {
        for at in 0..ROWS * SIZES {
            let sum = sum_of(all, physical, at);
            if sum != 0 {
                shift(&self.sizes.of(physical).0[at], -sum);
            }
        }
    }
}

fn sum_of(all: &[Arc<Counters>], physical: u16, at: usize) -> i64 {
    let known = all.iter().filter_map(|counters| counters.sizes.0[usize::from(physical)].get());
    known.map(|sizes| sizes.0[at].load(Relaxed)).sum()
}

impl Keyspace {
    /// Of logical database `db`, how many values of each type ([`SIZED_TYPES`]) in memory have a size of each bucket
    /// ([`SIZES`]): bytes of strings, elements of collections. Workers are read one after the other.
    pub fn sizes(&self, db: u16) -> [[u64; SIZES]; SIZED_TYPES.len()] {
        let physical = self.physical(db);
        let mut sizes = [[0; SIZES]; SIZED_TYPES.len()];
        for (row, of_type) in sizes.iter_mut().enumerate() {
            for (bucket, number) in of_type.iter_mut().enumerate() {
                // A collection without elements is about to have some, or to go.
                let counts = bucket > 0 || row == 0;
                let sum = if counts { sum_of(self.counters(), physical, row * SIZES + bucket) } else { 0 };
                *number = sum.max(0) as u64;
            }
        }
        sizes
    }
}

/// A value that has a size.
pub trait Measured {
    /// Its kind.
    const MEASURED: Kind;

    /// Bytes or elements; 0 for a stream, whose size does not count.
    fn size(&self) -> u64;
}

impl Measured for Arc<Blob> {
    const MEASURED: Kind = Kind::Blob;

    #[inline]
    fn size(&self) -> u64 {
        self.len() as u64
    }
}

/// A value in the keyspace that is being changed. Its size is counted again when the change is over.
pub struct Changing<'a, T: Measured> {
    value: &'a mut T,
    /// The bucket that counts now.
    bucket: usize,
    counters: &'a Counters,
    physical: u16,
}

impl<'a, T: Measured> Changing<'a, T> {
    #[inline]
    pub(crate) fn new(value: &'a mut T, counters: &'a Counters, physical: u16) -> Self {
        let bucket = bucket(value.size());
        Self { value, bucket, counters, physical }
    }
}

impl<T: Measured> Deref for Changing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Measured> DerefMut for Changing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T: Measured> Drop for Changing<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let now = bucket(self.value.size());
        if now != self.bucket {
            let [from, to] = [self.bucket, now].map(|bucket| Size::at(T::MEASURED, bucket));
            self.counters.count_resized(self.physical, from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use object::{Limits, List, list::End};

    use super::*;
    use crate::Expiry;
    use crate::testing::Single;

    fn text_bucket(n: i64) -> usize {
        bucket(n.to_string().len() as u64)
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let lens = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, (1 << 48) - 1, 1 << 48, u64::MAX];
        assert_eq!(lens.map(bucket), [0, 1, 2, 2, 3, 3, 4, 10, 11, 48, 49, 49]);
        for (a, b) in (0..70usize).flat_map(|a| (0..70).map(move |b| (a, b))) {
            assert_eq!(are_alike(a, b), bucket(a as u64) == bucket(b as u64), "{a} {b}");
        }
    }

    #[test]
    fn integers_are_as_long_as_their_text() {
        let powers = (0..19).map(|power| 10i64.pow(power));
        let near = powers.flat_map(|n| [n - 1, n, n + 1]).flat_map(|n| [n, -n]);
        for n in near.chain([0, i64::MIN, i64::MAX]) {
            assert_eq!(bucket_of_int(n), text_bucket(n), "{n}");
            for other in [n.saturating_add(1), n.saturating_sub(1), n.saturating_add(7)] {
                assert!(!are_alike_ints(n, other) || text_bucket(n) == text_bucket(other), "{n} {other}");
            }
        }
    }

    /// (type, bucket, number) of what there is.
    fn shown(ks: &Keyspace, db: u16) -> Vec<(&'static str, usize, u64)> {
        let sizes = ks.sizes(db);
        let all = SIZED_TYPES.iter().zip(&sizes).flat_map(|(name, of_type)| {
            of_type
                .iter()
                .enumerate()
                .filter(|(_, number)| **number > 0)
                .map(|(bucket, number)| (*name, bucket, *number))
        });
        all.collect()
    }

    #[test]
    fn sizes_follow_every_change() {
        let ks = Keyspace::new(1, 2, 1);
        let mut single = Single::new(&ks);
        let limits = Limits::default();
        single.with(0, |db| {
            let (text, list) = (db.key(b"text"), db.key(b"list"));
            for (bytes, bucket) in
                [(&b""[..], 0), (b"12", 2), (b"1000", 3), (b"text", 3), (&[7; 40_000], 16), (b"-9", 2)]
            {
                db.set_string(&text, bytes, false, Expiry::Clear);
                assert_eq!(shown(&ks, 0), [("string", bucket, 1)]);
            }
            assert_eq!(db.int_mut(&text, |n| Some(n + 108)).and_then(|(n, _)| n), Some(99));
            assert_eq!(db.int_mut(&text, |n| Some(n + 1_000)).and_then(|(n, _)| n), Some(1_099));
            assert_eq!(shown(&ks, 0), [("string", 3, 1)]);
            if let Some(mut blob) = db.blob_mut(&text).unwrap() {
                *blob = Arc::new(vec![0; 70_000]);
            }
            assert_eq!(shown(&ks, 0), [("string", 17, 1)]);
            for _ in 0..5 {
                db.get_or_create::<List>(&list).unwrap().push(End::Back, b"x", &limits);
            }
            assert_eq!(shown(&ks, 0), [("string", 17, 1), ("list", 3, 1)]);
            let saved = db.save(&list);
            db.remove(&list);
            db.remove(&text);
            assert_eq!(shown(&ks, 0), []);
            db.put_back(&list, saved);
            db.get_mut::<List>(&list).unwrap().unwrap().drop_end(End::Front, 4, &limits);
            assert_eq!(shown(&ks, 0), [("list", 1, 1)]);
            db.edit::<List, _>(&list, |list| (true, list.push(End::Back, b"y", &limits))).unwrap();
            assert_eq!(shown(&ks, 0), [("list", 2, 1)]);
        });
    }

    #[test]
    fn what_one_worker_adds_another_takes_away() {
        let ks = Keyspace::new(2, 2, 1);
        let mut single = Single::new(&ks);
        single.with(1, |db| {
            for name in [&b"a"[..], b"b", b"c"] {
                db.set_string(&db.key(name), b"text", false, Expiry::Clear);
            }
        });
        let mut other = ks.local(1);
        let Ok(held) = ks.try_acquire(&crate::Need::All, |_| {}) else { panic!("nobody else is there") };
        let clock = crate::access::AccessClock::new(1);
        let mut db = crate::Db::new(&ks, &held, &mut other, &clock, 1, crate::Version(9));
        db.remove(&db.key(b"b"));
        assert_eq!((shown(&ks, 0), shown(&ks, 1)), (vec![], vec![("string", 3, 2)]));
        ks.swap_databases(&held, 0, 1);
        assert_eq!((shown(&ks, 0), shown(&ks, 1)), (vec![("string", 3, 2)], vec![]));
        let mut reclaim = ks.flush(&held, &mut other, Some(0));
        while !reclaim.step(&mut other, 10) {}
        ks.release(held, |_| {});
        assert_eq!((shown(&ks, 0), shown(&ks, 1)), (vec![], vec![]));
    }
}

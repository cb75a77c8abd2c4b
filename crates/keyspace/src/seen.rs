//! The uncommitted versions that a worker has seen: replies about them must wait (rule L7).
//!
//! Every lookup notes the version that it found, for an absent key the slot's last. Versions name their streams in
//! their low bits, so a note is compared with that stream's watermark alone.

use std::cell::Cell;

use smallvec::SmallVec;

/// Low bits of a version that name the stream of its record (rule L1).
pub const STREAM_BITS: u32 = 4;
/// Most streams. The number of one further stream is for versions that belong to no record: a block's, before it has
/// one, and all versions while there is no log.
pub const STREAMS: usize = (1 << STREAM_BITS) - 1;

/// The stream that a version names; [`STREAMS`] for a version without a record.
#[inline]
pub fn stream_of(version: u64) -> usize {
    version as usize & STREAMS
}

/// The lowest version above `floor` that names `stream`.
#[inline]
pub fn version_above(floor: u64, stream: usize) -> u64 {
    ((floor | STREAMS as u64) + 1) | stream as u64
}

/// The versions, at most one per stream, that must be committed before a reply is true for good.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Horizon(SmallVec<[u64; 2]>);

impl Horizon {
    /// True if there is nothing to wait for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The versions.
    pub fn versions(&self) -> &[u64] {
        &self.0
    }

    /// Extends it to `version`.
    pub fn extend(&mut self, version: u64) {
        match self.0.iter_mut().find(|other| stream_of(**other) == stream_of(version)) {
            Some(other) => *other = version.max(*other),
            None => self.0.push(version),
        }
    }

    /// Extends it by another.
    pub fn merge(&mut self, other: &Horizon) {
        other.0.iter().for_each(|version| self.extend(*version));
    }
}

/// A worker's notes.
pub(crate) struct Seen {
    /// The watermarks of the streams, as the worker knows them; without a log everything is committed.
    committed: [Cell<u64>; STREAMS + 1],
    /// The highest versions above those that the running command has seen.
    noted: [Cell<u64>; STREAMS + 1],
    any: Cell<bool>,
    /// The highest of all versions that were ever noted.
    all: [Cell<u64>; STREAMS + 1],
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            committed: std::array::from_fn(|_| Cell::new(u64::MAX)),
            noted: Default::default(),
            any: Cell::new(false),
            all: Default::default(),
        }
    }
}

impl Seen {
    #[inline]
    pub(crate) fn note(&self, version: u64) {
        let stream = stream_of(version);
        if version > self.committed[stream].get() {
            self.above(stream, version);
        }
    }

    #[cold]
    fn above(&self, stream: usize, version: u64) {
        let noted = &self.noted[stream];
        noted.set(noted.get().max(version));
        self.all[stream].set(self.all[stream].get().max(version));
        self.any.set(true);
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.get()
    }

    /// `marks`: the watermarks of the streams; none: there is no log.
    pub(crate) fn set_committed(&mut self, marks: impl ExactSizeIterator<Item = u64>) {
        if marks.len() == 0 {
            self.committed.iter().for_each(|committed| committed.set(u64::MAX));
        }
        let mut least = u64::MAX;
        for (stream, mark) in marks.enumerate() {
            self.committed[stream].set(mark);
            least = least.min(mark);
        }
        // A version without a record hides others below it, of whatever stream.
        self.committed[STREAMS].set(least);
    }

    /// The versions noted since the last time. `ends`: the end of every stream, for versions without a stream.
    pub(crate) fn take(&mut self, ends: impl Fn(&mut dyn FnMut(u64))) -> Horizon {
        self.any.set(false);
        self.horizon(self.noted.iter().map(Cell::take), ends)
    }

    /// All versions that were ever noted and are not known to be committed.
    pub(crate) fn everything(&self, ends: impl Fn(&mut dyn FnMut(u64))) -> Horizon {
        self.horizon(self.all.iter().map(Cell::get), ends)
    }

    fn horizon(&self, highest: impl Iterator<Item = u64>, ends: impl Fn(&mut dyn FnMut(u64))) -> Horizon {
        let mut horizon = Horizon::default();
        let above = highest.zip(&self.committed).filter(|(version, mark)| *version > mark.get());
        for (version, _) in above {
            if stream_of(version) < STREAMS {
                horizon.extend(version);
                continue;
            }
            ends(&mut |end| {
                if end > self.committed[stream_of(end)].get() {
                    horizon.extend(end);
                }
            });
        }
        horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_name_their_streams() {
        for floor in [0, 1, 15, 16, 1000, 12345] {
            for stream in 0..=STREAMS {
                let version = version_above(floor, stream);
                assert!(version > floor && version <= floor + 2 * (1 << STREAM_BITS));
                assert_eq!(stream_of(version), stream);
            }
        }
    }

    #[test]
    fn only_what_is_above_a_watermark_is_noted() {
        let mut seen = Seen::default();
        seen.note(u64::MAX >> 8);
        assert!(!seen.any(), "without a log everything is committed");
        seen.set_committed([0x100, 0x201].into_iter());
        seen.note(0x100);
        seen.note(0x1f1);
        assert!(!seen.any());
        seen.note(0x110);
        seen.note(0x301);
        seen.note(0x211);
        assert!(seen.any());
        assert_eq!(seen.take(|_| {}).versions(), [0x110, 0x301]);
        assert!(!seen.any() && seen.take(|_| {}).is_empty());
        assert_eq!(seen.everything(|_| {}).versions(), [0x110, 0x301]);
        seen.set_committed([0x110, 0x300].into_iter());
        assert_eq!(seen.everything(|_| {}).versions(), [0x301]);
    }

    #[test]
    fn a_version_without_a_record_stands_for_all_ends() {
        let mut seen = Seen::default();
        seen.set_committed([0x100, 0x201].into_iter());
        seen.note(0xff | STREAMS as u64);
        assert!(!seen.any(), "what it may hide is committed");
        seen.note(0x150 | STREAMS as u64);
        assert!(seen.any());
        let ends = |f: &mut dyn FnMut(u64)| [0x140, 0x1f1].into_iter().for_each(f);
        assert_eq!(seen.take(ends).versions(), [0x140]);
    }
}

//! The uncommitted versions that a worker has seen: replies about them must wait (rule L7).
//!
//! Every lookup notes the version that it found, for an absent key the slot's last. Versions name their streams in
//! their low bits, so a note is compared with that stream's watermark alone.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::version::{STREAMS, Version};

/// The versions, at most one per stream, that must be committed before a reply is true for good.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Horizon(SmallVec<[Version; 2]>);

impl Horizon {
    /// True if there is nothing to wait for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The versions.
    pub fn versions(&self) -> &[Version] {
        &self.0
    }

    /// Extends it to `version`.
    pub fn extend(&mut self, version: Version) {
        match self.0.iter_mut().find(|other| other.stream() == version.stream()) {
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
    committed: [Cell<Version>; STREAMS + 1],
    /// The highest versions above those that the running command has seen.
    noted: [Cell<Version>; STREAMS + 1],
    any: Cell<bool>,
    /// The highest of all versions that were ever noted.
    all: [Cell<Version>; STREAMS + 1],
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            committed: std::array::from_fn(|_| Cell::new(Version::MAX)),
            noted: Default::default(),
            any: Cell::new(false),
            all: Default::default(),
        }
    }
}

impl Seen {
    #[inline]
    pub(crate) fn note(&self, version: Version) {
        let stream = version.stream();
        if version > self.committed[stream].get() {
            self.above(stream, version);
        }
    }

    #[cold]
    fn above(&self, stream: usize, version: Version) {
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
    pub(crate) fn set_committed(&mut self, marks: impl ExactSizeIterator<Item = Version>) {
        if marks.len() == 0 {
            self.committed.iter().for_each(|committed| committed.set(Version::MAX));
        }
        let mut least = Version::MAX;
        for (stream, mark) in marks.enumerate() {
            self.committed[stream].set(mark);
            least = least.min(mark);
        }
        // A version without a record hides others below it, of whatever stream.
        self.committed[STREAMS].set(least);
    }

    /// The versions noted since the last time. `ends`: the end of every stream, for versions without a stream.
    pub(crate) fn take(&mut self, ends: impl Fn(&mut dyn FnMut(Version))) -> Horizon {
        self.any.set(false);
        self.horizon(self.noted.iter().map(Cell::take), ends)
    }

    /// All versions that were ever noted and are not known to be committed.
    pub(crate) fn everything(&self, ends: impl Fn(&mut dyn FnMut(Version))) -> Horizon {
        self.horizon(self.all.iter().map(Cell::get), ends)
    }

    fn horizon(&self, highest: impl Iterator<Item = Version>, ends: impl Fn(&mut dyn FnMut(Version))) -> Horizon {
        let mut horizon = Horizon::default();
        let above = highest.zip(&self.committed).filter(|(version, mark)| *version > mark.get());
        for (version, _) in above {
            if version.stream() < STREAMS {
                horizon.extend(version);
                continue;
            }
            ends(&mut |end| {
                if end > self.committed[end.stream()].get() {
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
    fn only_what_is_above_a_watermark_is_noted() {
        let mut seen = Seen::default();
        seen.note(Version(u64::MAX >> 8));
        assert!(!seen.any(), "without a log everything is committed");
        seen.set_committed([Version(0x100), Version(0x201)].into_iter());
        seen.note(Version(0x100));
        seen.note(Version(0x1f1));
        assert!(!seen.any());
        seen.note(Version(0x110));
        seen.note(Version(0x301));
        seen.note(Version(0x211));
        assert!(seen.any());
        assert_eq!(seen.take(|_| {}).versions(), [Version(0x110), Version(0x301)]);
        assert!(!seen.any() && seen.take(|_| {}).is_empty());
        assert_eq!(seen.everything(|_| {}).versions(), [Version(0x110), Version(0x301)]);
        seen.set_committed([Version(0x110), Version(0x300)].into_iter());
        assert_eq!(seen.everything(|_| {}).versions(), [Version(0x301)]);
    }

    #[test]
    fn a_version_without_a_record_stands_for_all_ends() {
        let mut seen = Seen::default();
        seen.set_committed([Version(0x100), Version(0x201)].into_iter());
        seen.note(Version(0xff | STREAMS as u64));
        assert!(!seen.any(), "what it may hide is committed");
        seen.note(Version(0x150 | STREAMS as u64));
        assert!(seen.any());
        let ends = |f: &mut dyn FnMut(Version)| [Version(0x140), Version(0x1f1)].into_iter().for_each(f);
        assert_eq!(seen.take(ends).versions(), [Version(0x140)]);
    }
}

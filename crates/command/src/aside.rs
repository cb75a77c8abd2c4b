//! Work on large values that is done aside: by a thread that holds no latch, while the connection waits.
//!
//! A handler whose result takes long hands out the work on clones of its values, which cost nothing, and changes
//! nothing ([`Outcome::Aside`]). When the work is done it runs again, and takes the result if the values are still the
//! same. Where a command cannot wait, as in a block, it does the work itself.

use std::any::Any;
use std::fmt;

use keyspace::Version;

use crate::ctx::{Ctx, Outcome};

/// From so many elements on, their work is done aside: about a millisecond's.
const MANY: u64 = if cfg!(test) { 3 } else { 10_000 };
/// From so many bytes of a value on, its work is done aside, if the cost grows with the bytes.
const LARGE: usize = if cfg!(test) { 200 } else { 256 * 1024 };

/// The result of work aside.
type Made = Box<dyn Any + Send>;

/// The values at some arguments, as far as they can be told apart: the physical database and the version of each, 0 if
/// it is absent.
type Seen = Box<[(u16, Version)]>;

/// Work to be done aside.
pub struct Aside {
    work: Box<dyn FnOnce() -> Made + Send>,
    seen: Seen,
}

/// Work that was done aside.
pub struct Prepared {
    made: Made,
    seen: Seen,
}

impl Aside {
    /// Does it.
    pub fn run(self) -> Prepared {
        Prepared { made: (self.work)(), seen: self.seen }
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
    }
}

impl Ctx<'_> {
    /// The result of the work on the keys at these arguments, if it was done aside and they have not changed.
    pub(crate) fn prepared<T: 'static>(&mut self, keys: impl Iterator<Item = usize>) -> Option<T> {
        let prepared = self.prepared.take()?;
        let same = *prepared.seen == *self.seen(keys);
        prepared.made.downcast().ok().filter(|_| same).map(|made| *made)
    }

    /// True if work on so many elements is to be done aside.
    pub(crate) fn works_aside(&self, elements: u64) -> bool {
        self.patient && elements >= MANY
    }

    /// True if work on so many bytes is to be done aside.
    pub(crate) fn works_aside_on_bytes(&self, bytes: usize) -> bool {
        self.patient && bytes >= LARGE
    }

    /// The outcome of a handler that wants this done on the keys at these arguments, whose values `work` has clones of.
    pub(crate) fn aside<T: Any + Send>(
        &self,
        keys: impl Iterator<Item = usize>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome {
        Outcome::Aside(Box::new(Aside { work: Box::new(move || Box::new(work())), seen: self.seen(keys) }))
    }

    fn seen(&self, keys: impl Iterator<Item = usize>) -> Seen {
        let of = |i| self.db.peek(&self.key(i)).map_or(Version::ZERO, |entry| entry.version());
        keys.map(|i| (self.db.physical(), of(i))).collect()
    }
}

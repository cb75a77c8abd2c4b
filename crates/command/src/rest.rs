//! Long replies written in steps: a million elements are not copied in one turn of a worker's loop.
//!
//! A handler whose reply is long takes a clone of the collection, which costs nothing until the original changes, and
//! returns the rest of the reply. The reply is of the moment at which the handler ran.

use std::fmt;

use resp::Reply;

/// Replies estimated to be longer than this are written in steps, in bytes: about 0.2 ms.
const LONG: u64 = if cfg!(test) { 256 } else { 256 * 1024 };
/// Bytes written in a step.
const STEP: usize = if cfg!(test) { 64 } else { 128 * 1024 };

/// The rest of a reply.
pub struct Rest(Box<dyn FnMut(&mut Reply<'_>) -> bool + Send>);

impl Rest {
    /// `write` writes a step; false: that was the last.
    pub fn new(write: impl FnMut(&mut Reply<'_>) -> bool + Send + 'static) -> Self {
        Self(Box::new(write))
    }

    /// Writes a step. False: that was the last.
    pub fn step(&mut self, out: &mut Reply<'_>) -> bool {
        (self.0)(out)
    }

    /// Writes all of it, where nothing may come in between (MULTI).
    pub fn finish(mut self, out: &mut Reply<'_>) {
        while self.step(out) {}
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest")
    }
}

/// True if `count` of the `len` elements of a collection with `memory` heap bytes make a long reply.
pub fn is_long(count: u64, len: u64, memory: usize) -> bool {
    (memory as u64 / len.max(1)).saturating_mul(count) > LONG
}

/// Writes elements until a step is full; returns how many, and whether there were no more.
pub fn write_step<T>(
    out: &mut Reply<'_>,
    elements: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Reply<'_>, T),
) -> (u64, bool) {
    let end = out.written() + STEP;
    let mut count = 0;
    for element in elements {
        write(out, element);
        count += 1;
        if out.written() >= end {
            return (count, false);
        }
    }
    (count, true)
}

//! Commands that visit keys of the whole database (KEYS, SCAN, RANDOMKEY): the engine walks, the command looks.
//!
//! A walk takes one slot's latch at a time and stops after a bounded time, so that it disturbs no other command. Inside
//! MULTI, where everything is held, it runs to its end.

use keyspace::{EntryRef, Kind, SLOTS};
use resp::Reply;

/// A point of the walk: slots in order, and within a slot the hash order of its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// The slot.
    pub slot: u16,
    /// Hash within the slot from which on keys were not visited.
    pub hash: u64,
}

/// A key that a walk comes to, in memory or not.
#[derive(Clone, Copy, Debug)]
pub struct Visited<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// Its type; for strings any kind of string.
    pub kind: Kind,
}

impl<'a> From<EntryRef<'a>> for Visited<'a> {
    fn from(entry: EntryRef<'a>) -> Self {
        Self { key: entry.key(), kind: entry.kind() }
    }
}

/// A command that visits keys one by one.
pub trait Walk: Send {
    /// The begin.
    fn start(&self) -> Position {
        Position::default()
    }

    /// The slot before which to end.
    fn end(&self) -> u16 {
        SLOTS as u16
    }

    /// Visits a key that has not expired.
    fn visit(&mut self, found: Visited<'_>);

    /// Visits an expired key. True: it is deleted now, as by a command that names it. `kept`: no command deletes
    /// expired keys at present.
    fn visit_expired(&mut self, found: Visited<'_>, kept: bool) -> bool {
        let _ = (found, kept);
        false
    }

    /// True if to stop at this position, before the next bucket. `buckets` have been visited since the start.
    fn enough(&self, at: Position, buckets: u64) -> bool;

    /// Where to go on after the end; called every time the end is reached, so it must be `None` at some time.
    fn wrap(&mut self) -> Option<Position> {
        None
    }

    /// Writes the reply, a long one in parts: true after the last. `next`: where the walk stopped, `None` if it came to
    /// the end.
    fn finish(&mut self, next: Option<Position>, out: &mut Reply<'_>) -> bool;
}

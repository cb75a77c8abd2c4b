//! The transactions of the model, and the servers that they need.

use txn::{Life, Member, NodeId, Part};

use crate::glue::program;

/// A server, the keys that are read there, and the keys that are appended to. Keys of two servers are different.
pub type Place = (usize, Vec<u16>, Vec<u16>);

#[derive(Clone, Debug)]
pub struct Transaction {
    pub coordinator: usize,
    pub id: u32,
    pub parts: Vec<Place>,
    /// Parts that a fetching transaction turns out to need as well, one after the other.
    pub further: Vec<Place>,
}

impl Transaction {
    pub fn new(coordinator: usize, id: u32, parts: Vec<Place>) -> Self {
        Self { coordinator, id, parts, further: Vec::new() }
    }

    /// All places that it needs.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.parts.iter().chain(&self.further)
    }
}

/// A server's part.
pub fn part_of(id: u32, (at, reads, writes): &Place) -> Part {
    let (locks, commands) = program(id, reads, writes);
    Part { member: Member::of(server(*at)), locks, commands, writes: !writes.is_empty() }
}

/// A server in its first life.
pub fn server(at: usize) -> Life {
    Life { node: NodeId(at as u64 + 1), incarnation: 1 }
}

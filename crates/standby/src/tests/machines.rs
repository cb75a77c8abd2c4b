//! Each machine alone.

mod copies;
mod follower;
mod leader;
mod owner;
mod switchover;

use quorum::{BlockId, Term};

use crate::{Change, Copies, NodeNumber, Process};

pub fn process(node: u32, life: u64) -> Process {
    Process { node: NodeNumber(node), life }
}

pub fn term(number: u32) -> Term {
    Term::new(number).expect("a term")
}

pub fn id(of: u32, sequence: u64) -> BlockId {
    BlockId { term: term(of), sequence }
}

/// A shard that node 1 owns in term 1.
pub fn owned() -> Copies {
    Copies::new(term(1), process(1, 1))
}

/// The same, with counted standbys at nodes 2 and 3.
pub fn counted() -> Copies {
    let mut copies = owned();
    for node in [2, 3] {
        let standby = process(node, 1);
        copies.apply(Change::Pin { standby }).expect("a pin");
        let count = Change::Count {
            term: term(1),
            by: process(1, 1),
            standby,
            covered: quorum::Cut(10),
            floor: quorum::Cut(5),
        };
        copies.apply(count).expect("a count");
    }
    copies
}

//! The keys of a slot: CLUSTER COUNTKEYSINSLOT, GETKEYSINSLOT.

use std::collections::VecDeque;

use keyspace::SLOTS;
use resp::Reply;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::families::Run;
use crate::spec::{Row, Spec, flags::*};
use crate::walk::{Position, Visited, Walk};

/// CLUSTER itself.
pub const CLUSTER: Spec = Spec {
    name: "cluster",
    arity: -2,
    flags: NEEDS_CLUSTER,
    group: "cluster",
    since: "3.0.0",
    complexity: "Depends on subcommand.",
    summary: "A container for Redis Cluster commands.",
    ..Spec::NEW
};

/// The rows of this file. The other subcommands are the node's.
pub const ROWS: &[Row<Run>] = &[Row {
    spec: CLUSTER,
    run: Run::Container,
    subcommands: &[
        Row {
            spec: Spec {
                name: "countkeysinslot",
                arity: 3,
                flags: STALE | NEEDS_CLUSTER,
                group: "cluster",
                since: "3.0.0",
                complexity: "O(N) where N is the number of keys in the slot",
                summary: "Returns the number of keys in a hash slot.",
                syntax: "slot",
                ..Spec::NEW
            },
            run: Run::Walk(count_keys),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "getkeysinslot",
                arity: 4,
                flags: STALE | NEEDS_CLUSTER,
                group: "cluster",
                since: "3.0.0",
                complexity: "O(N) where N is the number of requested keys",
                summary: "Returns the key names in a hash slot.",
                tips: &["nondeterministic_output"],
                syntax: "slot count",
                ..Spec::NEW
            },
            run: Run::Walk(get_keys),
            subcommands: &[],
        },
    ],
}];

/// The slot that an argument names.
pub fn slot_of_argument(argument: &[u8]) -> Option<u16> {
    let slot = keyspace::canonical_int(argument)?;
    u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS)
}

struct Keys {
    slot: u16,
    /// Names wanted; `None`: only their number is.
    most: Option<usize>,
    names: VecDeque<Vec<u8>>,
    count: usize,
    /// The reply has begun.
    begun: bool,
}

impl Walk for Keys {
    fn start(&self) -> Position {
        Position { slot: self.slot, hash: 0 }
    }

    fn end(&self) -> u16 {
        self.slot + 1
    }

    fn visit(&mut self, found: Visited<'_>) {
        if self.most.is_none_or(|most| self.count < most) {
            self.count += 1;
            if self.most.is_some() {
                self.names.push_back(found.key.to_vec());
            }
        }
    }

    fn enough(&self, _: Position, _: u64) -> bool {
        self.most.is_some_and(|most| self.count >= most)
    }

    fn finish(&mut self, _: Option<Position>, out: &mut Reply<'_>) -> bool {
        const AT_ONCE: usize = 10_000;
        if self.most.is_none() {
            out.count(self.count as u64);
            return true;
        }
        if !std::mem::replace(&mut self.begun, true) {
            out.array(self.count);
        }
        for _ in 0..AT_ONCE {
            let Some(name) = self.names.pop_front() else { return true };
            out.bulk(&name);
        }
        self.names.is_empty()
    }
}

fn count_keys(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    let slot = slot_of_argument(ctx.arg(2)).ok_or(Error::new("ERR Invalid slot"))?;
    Ok(Box::new(Keys { slot, most: None, names: VecDeque::new(), count: 0, begun: false }))
}

fn get_keys(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    let slot = slot_of_argument(ctx.arg(2));
    let most = keyspace::canonical_int(ctx.arg(3)).and_then(|most| usize::try_from(most).ok());
    let Some((slot, most)) = slot.zip(most) else { return Err(Error::new("ERR Invalid slot or number of keys")) };
    Ok(Box::new(Keys { slot, most: Some(most), names: VecDeque::new(), count: 0, begun: false }))
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keys_of_a_slot() {
        let mut bench = Bench::new();
        for i in 0..5 {
            bench.words(&format!("set {{tag}}{i} x"));
        }
        let slot = keyspace::slot_of(b"tag");
        assert_eq!(bench.words(&format!("cluster countkeysinslot {slot}")), ":5\r\n");
        assert!(bench.words(&format!("cluster getkeysinslot {slot} 3")).starts_with("*3\r\n"));
        assert!(bench.words(&format!("cluster getkeysinslot {slot} 100")).starts_with("*5\r\n"));
        assert_eq!(bench.words(&format!("cluster getkeysinslot {slot} 0")), "*0\r\n");
        assert_eq!(bench.words("cluster countkeysinslot 16384"), "-ERR Invalid slot\r\n");
        assert_eq!(bench.words("cluster getkeysinslot 0 -1"), "-ERR Invalid slot or number of keys\r\n");
    }
}

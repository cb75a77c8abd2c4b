//! The declarations of the commands of HyperLogLogs.

use super::super::row;
use super::{debug, pfadd, pfcount, pfmerge, selftest};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The common parts of these rows.
const HLL: Spec = Spec { group: "hyperloglog", since: "2.8.9", ..Spec::NEW };

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "pfadd",
            arity: -2,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            complexity: "O(1) to add every element.",
            summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
            syntax: "key [element [element ...]]",
            ..HLL
        },
        pfadd,
    ),
    row(
        Spec {
            name: "pfcount",
            arity: -2,
            flags: READONLY | MAY_REPLICATE,
            keys: &[KeySpec::range(1, -1, 1, RW | ACCESS)],
            complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the \
                         number of keys, and much bigger constant times, when called with multiple keys.",
            summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
            syntax: "key [key ...]",
            ..HLL
        },
        pfcount,
    ),
    row(
        Spec {
            name: "pfmerge",
            arity: -2,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | INSERT), KeySpec::range(2, -1, 1, RO | ACCESS)],
            complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
            summary: "Merges one or more HyperLogLog values into a single key.",
            syntax: "destkey [sourcekey [sourcekey ...]]",
            ..HLL
        },
        pfmerge,
    ),
    row(
        Spec {
            name: "pfdebug",
            arity: 3,
            flags: WRITE | DENYOOM | ADMIN,
            keys: &[KeySpec::one(2, RW | ACCESS)],
            complexity: "N/A",
            summary: "Internal commands for debugging HyperLogLog values.",
            syntax: "subcommand key",
            ..HLL
        },
        debug::pfdebug,
    ),
    row(
        Spec {
            name: "pfselftest",
            arity: 1,
            flags: ADMIN,
            complexity: "N/A",
            summary: "An internal command for testing HyperLogLog values.",
            ..HLL
        },
        selftest::pfselftest,
    ),
];

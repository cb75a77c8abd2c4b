//! The rows of sets.

use super::{algebra, members, random};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "sadd",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "set",
            complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
            summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
            syntax: "key member [member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(members::sadd),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "scard",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "set",
            summary: "Returns the number of members in a set.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(members::scard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sdiff",
            arity: -2,
            flags: READONLY,
            keys: &[KeySpec::range(1, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Returns the difference of multiple sets.",
            tips: &["nondeterministic_output_order"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sdiff),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sdiffstore",
            arity: -3,
            flags: WRITE | DENYOOM | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::range(2, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Stores the difference of multiple sets in a key.",
            syntax: "destination key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sdiffstore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sinter",
            arity: -2,
            flags: READONLY,
            keys: &[KeySpec::range(1, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
            summary: "Returns the intersect of multiple sets.",
            tips: &["nondeterministic_output_order"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sinter),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sintercard",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "set",
            since: "7.0.0",
            complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
            summary: "Returns the number of members of the intersect of multiple sets.",
            syntax: "numkeys key [key ...] [LIMIT limit]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sintercard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sunioncard",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "set",
            since: "8.10.0",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Returns the number of members of the union of multiple sets.",
            syntax: "numkeys key [key ...] [APPROX] [LIMIT limit]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sunioncard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sdiffcard",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "set",
            since: "8.10.0",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Returns the number of members of the difference between the first set and all successive sets.",
            syntax: "numkeys key [key ...] [LIMIT limit]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sdiffcard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sinterstore",
            arity: -3,
            flags: WRITE | DENYOOM | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::range(2, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
            summary: "Stores the intersect of multiple sets in a key.",
            syntax: "destination key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sinterstore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sismember",
            arity: 3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "set",
            summary: "Determines whether a member belongs to a set.",
            syntax: "key member",
            ..Spec::NEW
        },
        run: Run::Keyed(members::sismember),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "smembers",
            arity: 2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "set",
            complexity: "O(N) where N is the set cardinality.",
            summary: "Returns all members of a set.",
            tips: &["nondeterministic_output_order"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(members::smembers),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "smismember",
            arity: -3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "set",
            since: "6.2.0",
            complexity: "O(N) where N is the number of elements being checked for membership",
            summary: "Determines whether multiple members belong to a set.",
            syntax: "key member [member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(members::smismember),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "smove",
            arity: 4,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "set",
            summary: "Moves a member from one set to another.",
            syntax: "source destination member",
            ..Spec::NEW
        },
        run: Run::Keyed(members::smove),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "spop",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "set",
            complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
            summary: "Returns one or more random members from a set after removing them. Deletes the set if the last member was popped.",
            tips: &["nondeterministic_output"],
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(random::spop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "srandmember",
            arity: -2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "set",
            complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
            summary: "Get one or multiple random members from a set",
            tips: &["nondeterministic_output"],
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(random::srandmember),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "srem",
            arity: -3,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "set",
            complexity: "O(N) where N is the number of members to be removed.",
            summary: "Removes one or more members from a set. Deletes the set if the last member was removed.",
            syntax: "key member [member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(members::srem),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sscan",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "set",
            since: "2.8.0",
            complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
            summary: "Iterates over members of a set.",
            tips: &["nondeterministic_output"],
            syntax: "key cursor [MATCH pattern] [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(members::sscan),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sunion",
            arity: -2,
            flags: READONLY | COPIES,
            keys: &[KeySpec::range(1, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Returns the union of multiple sets.",
            tips: &["nondeterministic_output_order"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sunion),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sunionstore",
            arity: -3,
            flags: WRITE | DENYOOM | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::range(2, -1, 1, RO | ACCESS)],
            group: "set",
            complexity: "O(N) where N is the total number of elements in all given sets.",
            summary: "Stores the union of multiple sets in a key.",
            syntax: "destination key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(algebra::sunionstore),
        subcommands: &[],
    },
];

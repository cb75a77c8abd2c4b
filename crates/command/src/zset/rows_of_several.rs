//! The declarations of the commands that take from sorted sets or combine several.

use super::{combine, pop, range};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the commands that take members away or work on several sorted sets.
pub const ROWS_OF_SEVERAL: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "zrangestore",
            arity: -5,
            flags: WRITE | DENYOOM | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::one(2, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
            summary: "Stores a range of members from sorted set in a key.",
            syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrangestore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zpopmin",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "5.0.0",
            complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
            summary: "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::zpopmin),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zpopmax",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "5.0.0",
            complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
            summary: "Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::zpopmax),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zmpop",
            arity: -4,
            flags: WRITE | MOVABLE_KEYS,
            keys: &[KeySpec::counted(1, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "7.0.0",
            complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
            summary: "Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped.",
            syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::zmpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "bzpopmin",
            arity: -3,
            flags: WRITE | FAST | BLOCKING,
            keys: &[KeySpec::range(1, -2, 1, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "5.0.0",
            complexity: "O(log(N)) with N being the number of elements in the sorted set.",
            summary: "Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
            syntax: "key [key ...] timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::bzpopmin),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "bzpopmax",
            arity: -3,
            flags: WRITE | FAST | BLOCKING,
            keys: &[KeySpec::range(1, -2, 1, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "5.0.0",
            complexity: "O(log(N)) with N being the number of elements in the sorted set.",
            summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise.  Deletes the sorted set if the last element was popped.",
            syntax: "key [key ...] timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::bzpopmax),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "bzmpop",
            arity: -5,
            flags: WRITE | BLOCKING | MOVABLE_KEYS,
            keys: &[KeySpec::counted(2, RW | ACCESS | DELETE)],
            group: "sorted-set",
            since: "7.0.0",
            complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
            summary: "Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
            syntax: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::bzmpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zunion",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
            summary: "Returns the union of multiple sorted sets.",
            syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zunion),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zinter",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
            summary: "Returns the intersect of multiple sorted sets.",
            syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zinter),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zdiff",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
            summary: "Returns the difference between multiple sorted sets.",
            syntax: "numkeys key [key ...] [WITHSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zdiff),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zintercard",
            arity: -3,
            flags: READONLY | MOVABLE_KEYS,
            keys: &[KeySpec::counted(1, RO | ACCESS)],
            group: "sorted-set",
            since: "7.0.0",
            complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
            summary: "Returns the number of members of the intersect of multiple sorted sets.",
            syntax: "numkeys key [key ...] [LIMIT limit]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zintercard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zunionstore",
            arity: -4,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::counted(2, RO | ACCESS)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
            summary: "Stores the union of multiple sorted sets in a key.",
            syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zunionstore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zinterstore",
            arity: -4,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::counted(2, RO | ACCESS)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
            summary: "Stores the intersect of multiple sorted sets in a key.",
            syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zinterstore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zdiffstore",
            arity: -4,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, OW | UPDATE), KeySpec::counted(2, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
            summary: "Stores the difference of multiple sorted sets in a key.",
            syntax: "destination numkeys key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(combine::zdiffstore),
        subcommands: &[],
    },
];

//! The declarations of the commands on one sorted set.

use super::{add, random, range, read, remove, scan};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the commands that read or change one sorted set.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "zadd",
            arity: -4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
            summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
            syntax: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(add::zadd),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zincrby",
            arity: 4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(log(N)) where N is the number of elements in the sorted set.",
            summary: "Increments the score of a member in a sorted set.",
            syntax: "key increment member",
            ..Spec::NEW
        },
        run: Run::Keyed(add::zincrby),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrem",
            arity: -3,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
            summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
            syntax: "key member [member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(remove::zrem),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zremrangebyrank",
            arity: 4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
            summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.",
            syntax: "key start stop",
            ..Spec::NEW
        },
        run: Run::Keyed(remove::zremrangebyrank),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zremrangebyscore",
            arity: 4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
            summary: "Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.",
            syntax: "key min max",
            ..Spec::NEW
        },
        run: Run::Keyed(remove::zremrangebyscore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zremrangebylex",
            arity: 4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "sorted-set",
            since: "2.8.9",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
            summary: "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed.",
            syntax: "key min max",
            ..Spec::NEW
        },
        run: Run::Keyed(remove::zremrangebylex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zcard",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "sorted-set",
            since: "1.2.0",
            summary: "Returns the number of members in a sorted set.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zcard),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zscore",
            arity: 3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "1.2.0",
            summary: "Returns the score of a member in a sorted set.",
            syntax: "key member",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zscore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zmscore",
            arity: -3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(N) where N is the number of members being requested.",
            summary: "Returns the score of one or more members in a sorted set.",
            syntax: "key member [member ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zmscore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrank",
            arity: -3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(log(N))",
            summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
            syntax: "key member [WITHSCORE]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zrank),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrevrank",
            arity: -3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(log(N))",
            summary: "Returns the index of a member in a sorted set ordered by descending scores.",
            syntax: "key member [WITHSCORE]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zrevrank),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zcount",
            arity: 4,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.0.0",
            complexity: "O(log(N)) with N being the number of elements in the sorted set.",
            summary: "Returns the count of members in a sorted set that have scores within a range.",
            syntax: "key min max",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zcount),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zlexcount",
            arity: 4,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.8.9",
            complexity: "O(log(N)) with N being the number of elements in the sorted set.",
            summary: "Returns the number of members in a sorted set within a lexicographical range.",
            syntax: "key min max",
            ..Spec::NEW
        },
        run: Run::Keyed(read::zlexcount),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrange",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
            summary: "Returns members in a sorted set within a range of indexes.",
            syntax: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrange),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrevrange",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "1.2.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
            summary: "Returns members in a sorted set within a range of indexes in reverse order.",
            syntax: "key start stop [WITHSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrevrange),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrangebyscore",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "1.0.5",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
            summary: "Returns members in a sorted set within a range of scores.",
            syntax: "key min max [WITHSCORES] [LIMIT offset count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrangebyscore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrevrangebyscore",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.2.0",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
            summary: "Returns members in a sorted set within a range of scores in reverse order.",
            syntax: "key max min [WITHSCORES] [LIMIT offset count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrevrangebyscore),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrangebylex",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.8.9",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
            summary: "Returns members in a sorted set within a lexicographical range.",
            syntax: "key min max [LIMIT offset count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrangebylex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrevrangebylex",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.8.9",
            complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
            summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
            syntax: "key max min [LIMIT offset count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::zrevrangebylex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zrandmember",
            arity: -2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "6.2.0",
            complexity: "O(N) where N is the number of members returned",
            summary: "Returns one or more random members from a sorted set.",
            tips: &["nondeterministic_output"],
            syntax: "key [count [WITHSCORES]]",
            ..Spec::NEW
        },
        run: Run::Keyed(random::zrandmember),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "zscan",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "sorted-set",
            since: "2.8.0",
            complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
            summary: "Iterates over members and scores of a sorted set.",
            tips: &["nondeterministic_output"],
            syntax: "key cursor [MATCH pattern] [COUNT count] [NOSCORES]",
            ..Spec::NEW
        },
        run: Run::Keyed(scan::zscan),
        subcommands: &[],
    },
];

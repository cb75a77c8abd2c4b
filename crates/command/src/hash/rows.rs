//! The rows of hashes.

use super::{expire, extended, number, random, read, write};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "hdel",
            arity: -3,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the number of fields to be removed.",
            summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
            syntax: "key field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(write::hdel),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hexists",
            arity: 3,
            flags: READONLY | FAST | EXPIRES_FIELDS,
            keys: &[KeySpec::one(1, RO)],
            group: "hash",
            since: "2.0.0",
            summary: "Determines whether a field exists in a hash.",
            syntax: "key field",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hexists),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hexpire",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Set expiry for hash field using relative time to expire (seconds)",
            syntax: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hexpire),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hexpireat",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Set expiry for hash field using an absolute Unix timestamp (seconds)",
            syntax: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hexpireat),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hexpiretime",
            arity: -5,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hexpiretime),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hget",
            arity: 3,
            flags: READONLY | FAST | EXPIRES_FIELDS,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.0.0",
            summary: "Returns the value of a field in a hash.",
            syntax: "key field",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hget),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hgetall",
            arity: 2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the size of the hash.",
            summary: "Returns all fields and values in a hash.",
            tips: &["nondeterministic_output_order"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hgetall),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hincrby",
            arity: 4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            group: "hash",
            since: "2.0.0",
            summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist.",
            syntax: "key field increment",
            ..Spec::NEW
        },
        run: Run::Keyed(number::hincrby),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hincrbyfloat",
            arity: 4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            group: "hash",
            since: "2.6.0",
            summary: "Increments the floating point value of a field by a number. Uses 0 as initial value if the field doesn't exist.",
            syntax: "key field increment",
            ..Spec::NEW
        },
        run: Run::Keyed(number::hincrbyfloat),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hkeys",
            arity: 2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the size of the hash.",
            summary: "Returns all fields in a hash.",
            tips: &["nondeterministic_output_order"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hkeys),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hlen",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "hash",
            since: "2.0.0",
            summary: "Returns the number of fields in a hash.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hlen),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hmget",
            arity: -3,
            flags: READONLY | FAST | EXPIRES_FIELDS,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the number of fields being requested.",
            summary: "Returns the values of all fields in a hash.",
            syntax: "key field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hmget),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hmset",
            arity: -4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the number of fields being set.",
            summary: "Sets the values of multiple fields.",
            syntax: "key field value [field value ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(write::hmset),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hpersist",
            arity: -5,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Removes the expiration time for each specified field",
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hpersist),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hpexpire",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Set expiry for hash field using relative time to expire (milliseconds)",
            syntax: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hpexpire),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hpexpireat",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Set expiry for hash field using an absolute Unix timestamp (milliseconds)",
            syntax: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hpexpireat),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hpexpiretime",
            arity: -5,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hpexpiretime),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hpttl",
            arity: -5,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Returns the TTL in milliseconds of a hash field.",
            tips: &["nondeterministic_output"],
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::hpttl),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hrandfield",
            arity: -2,
            flags: READONLY | EXPIRES_FIELDS,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "6.2.0",
            complexity: "O(N) where N is the number of fields returned",
            summary: "Returns one or more random fields from a hash.",
            tips: &["nondeterministic_output"],
            syntax: "key [count [WITHVALUES]]",
            ..Spec::NEW
        },
        run: Run::Keyed(random::hrandfield),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hscan",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.8.0",
            complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
            summary: "Iterates over fields and values of a hash.",
            tips: &["nondeterministic_output"],
            syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hscan),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hset",
            arity: -4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.",
            summary: "Creates or modifies the value of a field in a hash.",
            syntax: "key field value [field value ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(write::hset),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hsetnx",
            arity: 4,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "hash",
            since: "2.0.0",
            summary: "Sets the value of a field in a hash only when the field doesn't exist.",
            syntax: "key field value",
            ..Spec::NEW
        },
        run: Run::Keyed(write::hsetnx),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hstrlen",
            arity: 3,
            flags: READONLY | FAST | EXPIRES_FIELDS,
            keys: &[KeySpec::one(1, RO)],
            group: "hash",
            since: "3.2.0",
            summary: "Returns the length of the value of a field.",
            syntax: "key field",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hstrlen),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "httl",
            arity: -5,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "7.4.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Returns the TTL in seconds of a hash field.",
            tips: &["nondeterministic_output"],
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(expire::httl),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hvals",
            arity: 2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "hash",
            since: "2.0.0",
            complexity: "O(N) where N is the size of the hash.",
            summary: "Returns all values in a hash.",
            tips: &["nondeterministic_output_order"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::hvals),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hgetdel",
            arity: -5,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "hash",
            since: "8.0.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Returns the value of a field and deletes it from the hash.",
            syntax: "key FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(extended::hgetdel),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hgetex",
            arity: -5,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            group: "hash",
            since: "8.0.0",
            complexity: "O(N) where N is the number of specified fields",
            summary: "Get the value of one or more fields of a given hash key, and optionally set their expiration.",
            syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(extended::hgetex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hsetex",
            arity: -6,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "hash",
            since: "8.0.0",
            complexity: "O(N) where N is the number of fields being set.",
            summary: "Set the value of one or more fields of a given hash key, and optionally set their expiration.",
            syntax: "key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(extended::hsetex),
        subcommands: &[],
    },
];

//! The declarations of the commands on streams without groups.

use super::{add, edit, range, read, references};
use crate::families::Run;
use crate::spec::{Begin, Find, KeySpec, Row, Spec, flags::*, key_flags::*};

/// The keys of XREAD as Redis declares them; see [`read::find_keys`].
pub(super) const fn after_streams(from: isize) -> KeySpec {
    KeySpec {
        begin: Begin::Keyword("STREAMS", from),
        find: Find::Range { last: -1, step: 1, limit: 2 },
        flags: RO | ACCESS,
    }
}

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "xadd",
            arity: -5,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
            summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
            tips: &["nondeterministic_output"],
            syntax: "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(add::xadd),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xtrim",
            arity: -4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are organized in macro nodes containing multiple entries that can be released with a single deallocation.",
            summary: "Deletes messages from the beginning of a stream.",
            tips: &["nondeterministic_output"],
            syntax: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
            ..Spec::NEW
        },
        run: Run::Keyed(add::xtrim),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xlen",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "stream",
            since: "5.0.0",
            summary: "Return the number of messages in a stream.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(range::xlen),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xrange",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
            summary: "Returns the messages from a stream within a range of IDs.",
            syntax: "key start end [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::xrange),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xrevrange",
            arity: -4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
            summary: "Returns the messages from a stream within a range of IDs in reverse order.",
            syntax: "key end start [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(range::xrevrange),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xdel",
            arity: -3,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
            summary: "Returns the number of messages after removing them from a stream.",
            syntax: "key id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(edit::xdel),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xdelex",
            arity: -5,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "stream",
            since: "8.2.0",
            complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
            summary: "Deletes one or multiple entries from the stream.",
            syntax: "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(references::xdelex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xsetid",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "stream",
            since: "5.0.0",
            summary: "An internal command for replicating stream values.",
            syntax: "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
            ..Spec::NEW
        },
        run: Run::Keyed(edit::xsetid),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xread",
            arity: -4,
            flags: READONLY | BLOCKING | MOVABLE_KEYS,
            keys: &[after_streams(1)],
            find_all_keys: Some(read::find_keys),
            group: "stream",
            since: "5.0.0",
            summary: "Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise.",
            syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::xread),
        subcommands: &[],
    },
];

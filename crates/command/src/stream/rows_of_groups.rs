//! The declarations of the commands of consumer groups, and of XINFO.

use super::rows::after_streams;
use super::{claim, groups, info, pending, read, references, release};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "xreadgroup",
            arity: -7,
            flags: WRITE | BLOCKING | MOVABLE_KEYS,
            keys: &[after_streams(4)],
            find_all_keys: Some(read::find_keys),
            group: "stream",
            since: "5.0.0",
            complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data.",
            summary: "Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise.",
            syntax: "GROUP group consumer [COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::xreadgroup),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xack",
            arity: -4,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(1) for each message ID processed.",
            summary: "Returns the number of messages that were successfully acknowledged by the consumer group member of a stream.",
            syntax: "key group id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(pending::xack),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xackdel",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE | DELETE)],
            group: "stream",
            since: "8.2.0",
            complexity: "O(1) for each message ID processed.",
            summary: "Acknowledges and deletes one or multiple messages for a stream consumer group.",
            syntax: "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(references::xackdel),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xnack",
            arity: -7,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "stream",
            since: "8.8.0",
            complexity: "O(1) for each message ID processed.",
            summary: "Releases claimed messages back to the group's PEL without acknowledging them, making them available for re-delivery.",
            syntax: "key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
            ..Spec::NEW
        },
        run: Run::Keyed(release::xnack),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xpending",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) time for iterating every consumer.",
            summary: "Returns the information and entries from a stream consumer group's pending entries list.",
            tips: &["nondeterministic_output"],
            syntax: "key group [[IDLE min-idle-time] start end count [consumer]]",
            ..Spec::NEW
        },
        run: Run::Keyed(pending::xpending),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xclaim",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "stream",
            since: "5.0.0",
            complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
            summary: "Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member.",
            tips: &["nondeterministic_output"],
            syntax: "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
            ..Spec::NEW
        },
        run: Run::Keyed(claim::xclaim),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xautoclaim",
            arity: -6,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "stream",
            since: "6.2.0",
            complexity: "O(1) if COUNT is small.",
            summary: "Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member.",
            tips: &["nondeterministic_output"],
            syntax: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
            ..Spec::NEW
        },
        run: Run::Keyed(claim::xautoclaim),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "xgroup",
            arity: -2,
            group: "stream",
            since: "5.0.0",
            complexity: "Depends on subcommand.",
            summary: "A container for consumer groups commands.",
            ..Spec::NEW
        },
        run: Run::Container,
        subcommands: &[
            Row {
                spec: Spec {
                    name: "create",
                    arity: -5,
                    flags: WRITE | DENYOOM,
                    keys: &[KeySpec::one(2, RW | INSERT)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Creates a consumer group.",
                    syntax: "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::create),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "createconsumer",
                    arity: 5,
                    flags: WRITE | DENYOOM,
                    keys: &[KeySpec::one(2, RW | INSERT)],
                    group: "stream",
                    since: "6.2.0",
                    summary: "Creates a consumer in a consumer group.",
                    syntax: "key group consumer",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::createconsumer),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "delconsumer",
                    arity: 5,
                    flags: WRITE,
                    keys: &[KeySpec::one(2, RW | DELETE)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Deletes a consumer from a consumer group.",
                    syntax: "key group consumer",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::delconsumer),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "destroy",
                    arity: 4,
                    flags: WRITE,
                    keys: &[KeySpec::one(2, RW | DELETE)],
                    group: "stream",
                    since: "5.0.0",
                    complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
                    summary: "Destroys a consumer group.",
                    syntax: "key group",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::destroy),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "help",
                    arity: 2,
                    flags: LOADING | STALE,
                    group: "stream",
                    since: "5.0.0",
                    summary: "Returns helpful text about the different subcommands.",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::help),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "setid",
                    arity: -5,
                    flags: WRITE,
                    keys: &[KeySpec::one(2, RW | UPDATE)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Sets the last-delivered ID of a consumer group.",
                    syntax: "key group <id | $> [ENTRIESREAD entries-read]",
                    ..Spec::NEW
                },
                run: Run::Keyed(groups::setid),
                subcommands: &[],
            },
        ],
    },
    Row {
        spec: Spec {
            name: "xinfo",
            arity: -2,
            group: "stream",
            since: "5.0.0",
            complexity: "Depends on subcommand.",
            summary: "A container for stream introspection commands.",
            ..Spec::NEW
        },
        run: Run::Container,
        subcommands: &[
            Row {
                spec: Spec {
                    name: "consumers",
                    arity: 4,
                    flags: READONLY,
                    keys: &[KeySpec::one(2, RO | ACCESS)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Returns a list of the consumers in a consumer group.",
                    tips: &["nondeterministic_output"],
                    syntax: "key group",
                    ..Spec::NEW
                },
                run: Run::Keyed(info::consumers),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "groups",
                    arity: 3,
                    flags: READONLY,
                    keys: &[KeySpec::one(2, RO | ACCESS)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Returns a list of the consumer groups of a stream.",
                    syntax: "key",
                    ..Spec::NEW
                },
                run: Run::Keyed(info::groups),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "help",
                    arity: 2,
                    flags: LOADING | STALE,
                    group: "stream",
                    since: "5.0.0",
                    summary: "Returns helpful text about the different subcommands.",
                    ..Spec::NEW
                },
                run: Run::Keyed(info::help),
                subcommands: &[],
            },
            Row {
                spec: Spec {
                    name: "stream",
                    arity: -3,
                    flags: READONLY,
                    keys: &[KeySpec::one(2, RO | ACCESS)],
                    group: "stream",
                    since: "5.0.0",
                    summary: "Returns information about a stream.",
                    syntax: "key [FULL [COUNT count]]",
                    ..Spec::NEW
                },
                run: Run::Keyed(info::stream),
                subcommands: &[],
            },
        ],
    },
];

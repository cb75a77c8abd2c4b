//! The rows of CLIENT.

use command::{Row, Spec, flags::*};

use super::super::{SessionRun, container, help, tracking};

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "client",
        arity: -2,
        group: "connection",
        since: "2.4.0",
        complexity: "Depends on subcommand.",
        summary: "A container for client connection commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: SUBCOMMANDS,
}];

const PLAIN: u32 = NOSCRIPT | LOADING | STALE;
const OPERATOR: u32 = ADMIN | PLAIN;
const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn sub(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    Row {
        spec: Spec { name, arity, flags, group: "connection", since, summary, syntax, ..Spec::NEW },
        run,
        subcommands: &[],
    }
}

/// A row with the fields that [`sub`] leaves out.
const fn with(mut row: Row<SessionRun>, complexity: &'static str, tips: &'static [&'static str]) -> Row<SessionRun> {
    if !complexity.is_empty() {
        row.spec.complexity = complexity;
    }
    row.spec.tips = tips;
    row
}

const TRACKING_SYNTAX: &str = "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] \
     [OPTOUT] [NOLOOP]";
const KILL_SYNTAX: &str = "<ip:port | [ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username \
     | ADDR ip:port | LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage]>";

const SUBCOMMANDS: &[Row<SessionRun>] = &[
    sub(
        "caching",
        3,
        PLAIN,
        "6.0.0",
        "<YES | NO>",
        "Instructs the server whether to track the keys in the next request.",
        tracking::caching,
    ),
    sub(
        "capa",
        -3,
        PLAIN,
        "8.0.0",
        "capability [capability ...]",
        "Takes note of what a client is capable of (Valkey).",
        super::capa,
    ),
    sub("getname", 2, PLAIN, "2.6.9", "", "Returns the name of the connection.", super::getname),
    sub(
        "getredir",
        2,
        PLAIN,
        "6.0.0",
        "",
        "Returns the client ID to which the connection's tracking notifications are redirected.",
        tracking::getredir,
    ),
    sub("help", 2, LOADING | STALE, "5.0.0", "", "Returns helpful text about the different subcommands.", help),
    sub("id", 2, PLAIN, "5.0.0", "", "Returns the unique client ID of the connection.", super::id),
    with(
        sub("info", 2, PLAIN, "6.2.0", "", "Returns information about the connection.", super::info),
        "",
        &["nondeterministic_output"],
    ),
    with(
        sub("kill", -3, OPERATOR, "2.4.0", KILL_SYNTAX, "Terminates open connections.", super::kill::kill),
        "O(N) where N is the number of client connections",
        &[],
    ),
    with(
        sub(
            "list",
            -2,
            OPERATOR,
            "2.4.0",
            "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
            "Lists open connections.",
            super::list,
        ),
        "O(N) where N is the number of client connections",
        &["nondeterministic_output"],
    ),
    sub(
        "no-evict",
        3,
        OPERATOR,
        "7.0.0",
        "<ON | OFF>",
        "Sets the client eviction mode of the connection.",
        super::no_evict,
    ),
    sub(
        "no-touch",
        3,
        PLAIN,
        "7.2.0",
        "<ON | OFF>",
        "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
        super::no_touch,
    ),
    sub("pause", -3, OPERATOR, "3.0.0", "timeout [WRITE | ALL]", "Suspends commands processing.", super::pause::pause),
    sub(
        "reply",
        3,
        PLAIN,
        "3.2.0",
        "<ON | OFF | SKIP>",
        "Instructs the server whether to reply to commands.",
        super::reply,
    ),
    with(
        sub(
            "setinfo",
            4,
            PLAIN,
            "7.2.0",
            "<LIB-NAME libname | LIB-VER libver>",
            "Sets information specific to the client or connection.",
            super::setinfo,
        ),
        "",
        TO_ALL,
    ),
    with(sub("setname", 3, PLAIN, "2.6.9", "connection-name", "Sets the connection name.", super::setname), "", TO_ALL),
    sub(
        "tracking",
        -3,
        PLAIN,
        "6.0.0",
        TRACKING_SYNTAX,
        "Controls server-assisted client-side caching for the connection.",
        tracking::tracking,
    ),
    sub(
        "trackinginfo",
        2,
        PLAIN,
        "6.2.0",
        "",
        "Returns information about server-assisted client-side caching for the connection.",
        tracking::trackinginfo,
    ),
    with(
        sub(
            "unblock",
            -3,
            OPERATOR,
            "5.0.0",
            "client-id [TIMEOUT | ERROR]",
            "Unblocks a client blocked by a blocking command from a different connection.",
            super::unblock,
        ),
        "O(log N) where N is the number of client connections",
        &[],
    ),
    with(
        sub(
            "unpause",
            2,
            OPERATOR,
            "6.2.0",
            "",
            "Resumes processing commands from paused clients.",
            super::pause::unpause,
        ),
        "O(N) Where N is the number of paused clients",
        &[],
    ),
];

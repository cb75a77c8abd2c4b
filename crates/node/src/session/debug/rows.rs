//! The rows of DEBUG.

use command::{Row, Spec, flags::*};

use super::super::{SessionRun, container, help};

const FLAGS: u32 = ADMIN | NOSCRIPT | LOADING | STALE | PROTECTED;

const fn sub(
    name: &'static str,
    arity: i32,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags: FLAGS, group: "server", summary, syntax, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const TURNS: &str =
    "Measures the CPU time of turns of the workers' loops; LONGEST answers the longest since START in microseconds.";
const NO_EFFECT: &str = "Accepted for tests written for Redis; without effect here.";

const DISTURB: &str = "Whether workers give way in the worst moments; only debug builds do.";

const SHUFFLE: &str = "Whether connections change workers all the time.";

const CHECKSUMS: &str = "Whether wrong checksums of RESTORE's payloads and of files are accepted.";

const SCRIPTS: &str = "Whether scripts may call commands that work on sessions.";

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "debug",
        arity: -2,
        flags: FLAGS,
        group: "server",
        complexity: "Depends on subcommand.",
        summary: "A container for debugging commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        sub("assert", 2, "", "Crashes as a failed assertion does.", super::assertion),
        sub(
            "change-repl-id",
            2,
            "",
            "Changes the replication id, which has no effect without replicas.",
            super::nothing,
        ),
        sub("config-rewrite-force-all", 2, "", "As CONFIG REWRITE, but writes every setting.", super::config_rewrite),
        sub("dict-resizing", 3, "<0 | 1>", NO_EFFECT, super::nothing),
        sub("disturb", 3, "<0 | 1>", DISTURB, super::disturb),
        sub("error", 3, "message", "Answers this error.", super::error),
        sub("help", 2, "", "Returns helpful text about the different subcommands.", help),
        sub("htstats", -3, "db [FULL]", "Answers how many keys a database has.", super::htstats),
        sub("log", 3, "message", "Writes a line to the log.", super::log),
        sub("panic", 2, "", "Crashes as a panic does.", super::panic),
        sub("pause-cron", 3, "<0 | 1>", NO_EFFECT, super::nothing),
        sub("protocol", 3, "type", "Answers a reply of the given type.", super::protocol),
        sub("quicklist-packed-threshold", 3, "size", NO_EFFECT, super::nothing),
        sub(
            "reload",
            -2,
            "[MERGE] [NOFLUSH] [NOSAVE]",
            "Writes dbfilename, deletes everything, and loads the file; nothing else is executed meanwhile.",
            super::reload,
        ),
        sub("replybuffer", 4, "<PEAK-RESET-TIME time | RESIZING <0 | 1>>", NO_EFFECT, super::nothing),
        sub("segfault", 2, "", "Crashes by writing to memory that may only be read.", super::segfault),
        sub("set-active-expire", 3, "<0 | 1>", "Whether keys expire without being accessed.", super::set_active_expire),
        sub("set-disable-deny-scripts", 3, "<0 | 1>", SCRIPTS, super::set_disable_deny_scripts),
        sub("set-skip-checksum-validation", 3, "<0 | 1>", CHECKSUMS, super::set_skip_checksum_validation),
        sub("shuffle-clients", 3, "<0 | 1>", SHUFFLE, super::shuffle_clients),
        sub("sleep", 3, "seconds", "Executes nothing for a while, for no client.", super::sleep),
        sub("stringmatch-len", -3, "[arg ...]", NO_EFFECT, super::nothing),
        sub("turns", 3, "<START | LONGEST | STOP>", TURNS, super::turns),
    ],
}];

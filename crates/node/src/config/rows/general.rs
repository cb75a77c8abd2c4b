//! The process: files, logging, databases, timers.

use super::common::int;
use crate::config::check;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

const SUPERVISOR: &str = "the process stays in the foreground: leave this to systemd or the container's runtime";
const SYSLOG: &str = "the log goes to standard output or `logfile`";
const PINNING: &str = "threads are not pinned: start the process with taskset";

pub(super) static SECTION: Section = Section {
    title: "General",
    rows: &[
        row(
            "databases",
            super::common::between(1, u16::MAX as i128),
            "16",
            "Number of databases; those beyond 0 take memory on first use.",
        )
        .immutable(),
        row("dir", Kind::Special(Special::Dir), "./", "Directory to work in; relative paths start there.")
            .protected()
            .deny_loading(),
        row("pidfile", Kind::OptionalText, "", "File to write the process id to.").immutable(),
        row("logfile", Kind::Text, "", "File to log to; empty for standard output.").immutable(),
        row(
            "loglevel",
            Kind::Enum(&["debug", "verbose", "notice", "warning", "nothing"]),
            "notice",
            "Least important messages to log.",
        ),
        row("hz", int(0), "10", "Background rounds per second (expiry, timeouts), 1 to 500.").clamp(1, 500),
        row("dynamic-hz", Kind::Bool, "yes", "More rounds with more clients.")
            .inert("the work of a round is bounded by itself"),
        row("crash-log-enabled", Kind::Bool, "yes", "Log a report when the process crashes."),
        row("crash-memcheck-enabled", Kind::Bool, "yes", "Test the memory after a crash.")
            .inert("the memory is not tested: other threads use it"),
        row("daemonize", Kind::Bool, "no", "Go on in the background.").immutable().inert(SUPERVISOR),
        row(
            "supervised",
            Kind::Enum(&["upstart", "systemd", "auto", "no"]),
            "no",
            "Whether to tell systemd when the server is ready and when it stops; `auto` if it asks. Upstart is not \
             told.",
        )
        .immutable(),
        row("syslog-enabled", Kind::Bool, "no", "Log to syslog.").immutable().inert(SYSLOG),
        row("syslog-ident", Kind::Text, "redis", "Name in syslog.").immutable().inert(SYSLOG),
        row(
            "syslog-facility",
            Kind::Enum(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]),
            "local0",
            "Facility in syslog.",
        )
        .immutable()
        .inert(SYSLOG),
        row("always-show-logo", Kind::Bool, "no", "Show Redis's logo at start.")
            .immutable()
            .inert("there is no logo")
            .harmless("yes"),
        row("set-proc-title", Kind::Bool, "yes", "Set the title of the process.").immutable(),
        row(
            "proc-title-template",
            Kind::Text,
            "{title} {listen-addr} {server-mode}",
            "Template of the title of the process.",
        )
        .check(check::title_template),
        row("locale-collate", Kind::Text, "", "Locale for comparing texts in SORT ... ALPHA.")
            .inert("texts are compared byte by byte"),
        row("ignore-warnings", Kind::Text, "", "Warnings about the system to leave out.")
            .inert("there are no such warnings"),
        row("disable-thp", Kind::Bool, "yes", "Turn transparent huge pages off for the process.").immutable(),
        row("server-cpulist", Kind::OptionalText, "", "Processors for the main thread.")
            .alias("server_cpulist")
            .immutable()
            .inert(PINNING),
        row("bio-cpulist", Kind::OptionalText, "", "Processors for background threads.")
            .alias("bio_cpulist")
            .immutable()
            .inert(PINNING),
        row("aof-rewrite-cpulist", Kind::OptionalText, "", "Processors for rewriting the append-only file.")
            .alias("aof_rewrite_cpulist")
            .immutable()
            .inert(PINNING),
        row("bgsave-cpulist", Kind::OptionalText, "", "Processors for saving snapshots.")
            .alias("bgsave_cpulist")
            .immutable()
            .inert(PINNING),
        row(
            "oom-score-adj",
            Kind::Enum(&["no", "yes", "relative", "absolute"]),
            "no",
            "Whether to set the score by which the kernel chooses a process to end when memory runs out.",
        ),
        row(
            "oom-score-adj-values",
            Kind::Special(Special::OomScores),
            "0 200 800",
            "The scores of a master, a replica and a child process.",
        ),
        row(
            "busy-reply-threshold",
            super::common::long(0),
            "5000",
            "Milliseconds after which other clients get -BUSY because of a running script.",
        )
        .cluster()
        .alias("lua-time-limit"),
        row(
            "lua-enable-deprecated-api",
            Kind::Bool,
            "no",
            "Whether scripts may use `getfenv`, `setfenv` and `newproxy`. A finalizer (`__gc`) never runs.",
        )
        .cluster()
        .alias("lua-enable-insecure-api")
        .immutable(),
        row(
            "busy-reply-scope",
            Kind::Enum(&["waiting", "all"]),
            "waiting",
            "Which clients get -BUSY while a script runs too long: those that need the script's keys (`waiting`), \
             or all, as in Redis (`all`).",
        )
        .cluster()
        .own(),
        row(
            "compatibility",
            Kind::Enum(&["redis", "valkey"]),
            "redis",
            "Which server's replies to give where Redis 8.8 and Valkey 9 differ; COMPATIBILITY.md lists these \
             differences.",
        )
        .cluster()
        .own(),
        row(
            "transaction-isolation",
            Kind::Enum(&["strict-serializable", "repeatable-read", "read-committed"]),
            "strict-serializable",
            "Isolation of a transaction whose BEGIN names none.",
        )
        .cluster()
        .own(),
        row(
            "transaction-idle-timeout",
            super::common::between(0, 1_000_000_000),
            "60",
            "Seconds without a command after which a transaction begun with BEGIN is rolled back; 0: never.",
        )
        .cluster()
        .own(),
    ],
};

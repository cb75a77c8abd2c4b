//! Slow log, latency, notifications.

use super::common::long;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

pub(super) static SECTION: Section = Section {
    title: "Slow log, latency, notifications",
    rows: &[
        row(
            "slowlog-log-slower-than",
            long(-1),
            "10000",
            "Microseconds from which a command is kept in SLOWLOG; 0 for all, -1 for none. Below 1000 short commands are timed one by \
             one; else only those that can take long.",
        )
        .alias("commandlog-execution-slower-than"),
        row("slowlog-max-len", long(0), "128", "Commands kept in SLOWLOG.").alias("commandlog-slow-execution-max-len"),
        row(
            "slowlog-entry-max-argc",
            super::common::int(2),
            "32",
            "Arguments kept of a command in SLOWLOG; the last one says how many more there were.",
        ),
        row("slowlog-entry-max-string-len", long(1), "128", "Bytes kept of an argument in SLOWLOG."),
        row(
            "latency-monitor-threshold",
            long(0),
            "0",
            "Milliseconds from which an event is kept for LATENCY; 0 for none.",
        ),
        row("latency-tracking", Kind::Bool, "yes", "Keep a histogram of the latency of every command."),
        row(
            "latency-tracking-info-percentiles",
            Kind::Special(Special::Percentiles),
            "50 99 99.9",
            "Percentiles that INFO latencystats shows; `\"\"` for none.",
        ),
        row(
            "notify-keyspace-events",
            Kind::Special(Special::Events),
            "",
            "Events to publish: K and E choose the channels, S, T, I and V those that name fields of hashes, `g$lshzxetdamnoc` the kinds, A most of them.",
        )
        .cluster(),
    ],
};

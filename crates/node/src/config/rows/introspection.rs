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
            "Microseconds from which a command is kept in SLOWLOG; 0 for all, -1 for none. Below 1000 every command \
             is timed; otherwise only commands that can take long.",
        )
        .alias("commandlog-execution-slower-than"),
        row("slowlog-max-len", long(0), "128", "The most commands that SLOWLOG keeps.")
            .alias("commandlog-slow-execution-max-len"),
        row(
            "slowlog-entry-max-argc",
            super::common::int(2),
            "32",
            "The most arguments that SLOWLOG keeps of a command. The last one says how many more there were.",
        ),
        row("slowlog-entry-max-string-len", long(1), "128", "The most bytes that SLOWLOG keeps of an argument."),
        row("latency-monitor-threshold", long(0), "0", "Milliseconds from which LATENCY keeps an event; 0 for none."),
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
            "Events to publish. K and E choose the channels; S, T, I and V the channels that name fields of hashes. \
             `g$lshzxetdamnoc` choose the kinds of events, A most of them.",
        )
        .cluster(),
    ],
};

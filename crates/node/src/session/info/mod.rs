//! INFO: the state of a node, in sections.

mod activity;
mod commands;
mod general;

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use command::{Error, Row, Spec, flags::*};
use keyspace::Counts;

use super::{Flow, SessionCtx, SessionRun};
use crate::config::Settings;
use crate::figures::stats::WorkerStats;
use crate::node::Node;

pub(crate) use commands::latencies;

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "info",
        arity: -1,
        flags: LOADING | STALE,
        group: "server",
        categories: &["dangerous"],
        summary: "Returns information and statistics about the server.",
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        syntax: "[section [section ...]]",
        ..Spec::NEW
    },
    run: info,
    subcommands: &[],
}];

/// Writes one section.
type Section = fn(&Report<'_>, &mut Text);

/// When a section is shown without being named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    /// Never.
    Named,
    /// By `all` and `everything`.
    All,
    /// By `default`, too.
    Default,
}

/// The sections in the order in which they are shown.
const SECTIONS: &[(&str, Shown, Section)] = &[
    ("server", Shown::Default, general::server),
    ("clients", Shown::Default, general::clients),
    ("memory", Shown::Default, general::memory),
    ("persistence", Shown::Default, general::persistence),
    ("stats", Shown::Default, activity::stats),
    ("replication", Shown::Default, activity::replication),
    ("threads", Shown::Default, activity::threads),
    ("cpu", Shown::Default, activity::cpu),
    ("hotkeys", Shown::Default, activity::hotkeys),
    ("modules", Shown::Default, activity::modules),
    ("commandstats", Shown::All, commands::commandstats),
    ("errorstats", Shown::Default, commands::errorstats),
    ("latencystats", Shown::All, commands::latencystats),
    ("cluster", Shown::Default, activity::cluster),
    ("keyspace", Shown::Default, activity::keyspace),
    ("keysizes", Shown::Default, activity::keysizes),
    ("workers", Shown::All, activity::workers),
    ("debug", Shown::Named, activity::debug),
];

/// The inputs of sections.
struct Report<'a> {
    node: &'a Node,
    settings: &'a Settings,
    /// Unix milliseconds.
    now: u64,
    /// The counts of each database.
    databases: Vec<Counts>,
}

impl Report<'_> {
    /// The sum of a counter over all workers.
    fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.node.stats.iter().map(|stats| counter(stats).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The sum of a counter of the keyspace over all workers.
    fn keys_sum(&self, counter: impl Fn(&keyspace::Counters) -> &AtomicU64) -> u64 {
        self.node.engine.keyspace.counters().iter().map(|c| counter(c).load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Lines of `name:value`.
#[derive(Default)]
struct Text(String);

impl Text {
    fn title(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        let _ = write!(self.0, "# {title}\r\n");
    }

    fn line(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.line(name, 0));
    }
}

/// All sections that `INFO everything` shows.
pub(crate) fn everything(node: &Node) -> String {
    let settings = node.config.settings();
    let databases = (0..settings.databases).map(|db| node.engine.keyspace.counts(db, None)).collect();
    let report = Report { node, settings: &settings, now: node.clock.unix_ms(), databases };
    let mut text = Text::default();
    for (_, _, section) in SECTIONS.iter().filter(|(_, shown, _)| *shown >= Shown::All) {
        section(&report, &mut text);
    }
    text.0
}

fn info(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let chosen = |name: &str, shown: Shown| {
        let asked_for = |word: &[u8]| match word.to_ascii_lowercase().as_slice() {
            b"default" => shown >= Shown::Default,
            b"all" | b"everything" => shown >= Shown::All,
            b"module_list" => name == "modules",
            word => word == name.as_bytes(),
        };
        match ctx.args.len() {
            1 => shown >= Shown::Default,
            _ => ctx.args.iter().skip(1).any(asked_for),
        }
    };
    // A CONFIG SET of the same turn counts already.
    let settings = ctx.node.config.settings();
    let databases = (0..settings.databases).map(|db| ctx.counts(db)).collect();
    let report = Report { node: ctx.node, settings: &settings, now: ctx.node.clock.unix_ms(), databases };
    let mut text = Text::default();
    for (name, shown, section) in SECTIONS {
        if chosen(name, *shown) {
            section(&report, &mut text);
        }
    }
    ctx.reply().verbatim(*b"txt", text.0);
    Ok(Flow::Done)
}

/// An amount of memory as people read it: `1.50M`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let unit = (bytes.ilog2() / 10).min(5);
    format!("{:.2}{}", bytes as f64 / (1u64 << (unit * 10)) as f64, UNITS[unit as usize])
}

/// `a / b`, or 0 where the quotient means nothing.
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_for_people() {
        let shown: Vec<_> = [0, 1023, 1024, 1536 << 10, 5 << 30, u64::MAX].into_iter().map(human).collect();
        assert_eq!(shown, ["0B", "1023B", "1.00K", "1.50M", "5.00G", "16384.00P"]);
    }
}

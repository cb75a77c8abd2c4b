//! INFO: the state of a node, in sections.

mod activity;
mod commands;
mod general;
mod log;
mod replication;
mod report;

use command::{Error, Row, Spec, flags::*};

use self::report::{Report, Text};
use super::{Flow, SessionCtx, SessionRun};
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
    ("log", Shown::Default, log::log),
    ("stats", Shown::Default, activity::stats),
    ("replication", Shown::Default, replication::replication),
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

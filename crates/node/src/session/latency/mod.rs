//! LATENCY: how long commands took, and events that took too long.

mod advice;

use command::{Error, Row, Spec, flags::*};

use super::info::latencies;
use super::{Flow, SessionCtx, SessionRun, container, help};
use crate::figures::histogram::Distribution;
use crate::table::Command;

const FLAGS: u32 = ADMIN | NOSCRIPT | LOADING | STALE;
const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

const fn sub(
    name: &'static str,
    arity: i32,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let (group, since, complexity) = ("server", "2.8.13", "O(1)");
    let spec = Spec { name, arity, flags: FLAGS, group, since, complexity, summary, syntax, tips: TIPS, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "latency",
        arity: -2,
        group: "server",
        since: "2.8.13",
        complexity: "Depends on subcommand.",
        summary: "A container for latency diagnostics commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        sub("doctor", 2, "", "Returns a human-readable latency analysis report.", advice::doctor),
        sub("graph", 3, "event", "Returns a latency graph for an event.", graph),
        Row {
            spec: Spec {
                name: "help",
                arity: 2,
                flags: LOADING | STALE,
                group: "server",
                since: "2.8.13",
                summary: "Returns helpful text about the different subcommands.",
                ..Spec::NEW
            },
            run: help,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "histogram",
                arity: -2,
                flags: FLAGS,
                group: "server",
                since: "7.0.0",
                complexity: "O(N) where N is the number of commands with latency information being retrieved.",
                summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
                tips: TIPS,
                syntax: "[command [command ...]]",
                ..Spec::NEW
            },
            run: histogram,
            subcommands: &[],
        },
        sub("history", 3, "event", "Returns timestamp-latency samples for an event.", history),
        sub("latest", 2, "", "Returns the latest latency samples for all events.", latest),
        Row {
            spec: Spec {
                tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
                ..sub("reset", -2, "[event [event ...]]", "Resets the latency data for one or more events.", reset).spec
            },
            run: reset,
            subcommands: &[],
        },
    ],
}];

fn history(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let series = ctx.node.latencies.find(ctx.arg(2)).map(|(_, series)| series).unwrap_or_default();
    let samples = series.samples();
    let mut reply = ctx.reply();
    reply.array(samples.len());
    for sample in samples {
        reply.array(2);
        reply.count(sample.time);
        reply.count(sample.millis);
    }
    Ok(Flow::Done)
}

fn latest(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let all = ctx.node.latencies.all();
    let mut reply = ctx.reply();
    reply.array(all.len());
    for (event, series) in all {
        reply.array(4);
        reply.bulk(event.name());
        reply.count(series.last().map_or(0, |sample| sample.time));
        reply.count(series.last().map_or(0, |sample| sample.millis));
        reply.count(series.longest);
    }
    Ok(Flow::Done)
}

fn graph(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let Some((event, series)) = ctx.node.latencies.find(ctx.arg(2)) else {
        return Err(Error::text([b"ERR No samples available for event '", ctx.arg(2), b"'"].concat()));
    };
    let text = series.graph(event.name(), ctx.engine.now().seconds());
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

fn reset(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let names: Vec<&[u8]> = ctx.args.iter().skip(2).collect();
    let named = |event: &str| names.iter().any(|name| name.eq_ignore_ascii_case(event.as_bytes()));
    let count = ctx.node.latencies.reset(|event| names.is_empty() || named(event));
    ctx.reply().count(count as u64);
    Ok(Flow::Done)
}

/// Histograms of all commands, or of the named ones. A container stands for its subcommands, too.
fn histogram(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let table = &node.table;
    let named: Vec<&Command> = if ctx.args.len() == 2 {
        table.all().iter().filter(|command| !command.is_hidden()).collect()
    } else {
        let found = ctx.args.iter().skip(2).filter_map(|name| table.find(name));
        found.flat_map(|c| std::iter::once(c).chain(c.shown_subcommands().iter().map(|&id| table.get(id)))).collect()
    };
    let mut shown: Vec<(&Command, Distribution)> = Vec::new();
    for command in named {
        let sum = latencies(&node, command.id);
        if sum.count() > 0 && !shown.iter().any(|(known, _)| known.id == command.id) {
            shown.push((command, sum));
        }
    }
    let mut reply = ctx.reply();
    reply.map(shown.len());
    for (command, sum) in shown {
        reply.bulk(&command.name);
        reply.map(2);
        reply.bulk("calls");
        reply.count(sum.count());
        reply.bulk("histogram_usec");
        let steps = sum.cumulative_by_micros();
        reply.map(steps.len());
        for (micros, count) in steps {
            reply.count(micros);
            reply.count(count);
        }
    }
    Ok(Flow::Done)
}

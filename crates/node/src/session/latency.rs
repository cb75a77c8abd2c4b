//! LATENCY: how long commands took. What Redis says of slow events comes with MONITOR and its like.

use command::{Error, Row, Spec, flags::*};

use super::info::latencies;
use super::{Flow, SessionCtx, container, help};
use crate::histogram::Distribution;
use crate::table::Command;

/// The rows of the family.
pub const ROWS: &[Row<super::SessionRun>] = &[Row {
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
                flags: ADMIN | NOSCRIPT | LOADING | STALE,
                group: "server",
                since: "7.0.0",
                complexity: "O(N) where N is the number of commands with latency information being retrieved.",
                summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                syntax: "[command [command ...]]",
                ..Spec::NEW
            },
            run: histogram,
            subcommands: &[],
        },
    ],
}];

/// Of all commands, or of those that are named; a container stands for its subcommands, too.
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

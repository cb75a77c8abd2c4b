//! The rows of all session commands, and the table of these and the rows of the data plane.

use std::sync::Arc;

use command::{Error, Row};

use super::{
    Flow, SessionCtx, SessionRun, acl, auth, backup, client, cluster, commands, config_command, connection, debug,
    hotkeys, info, interactive, latency, memory, monitor, multi, pubsub, replication, script, server, slowlog, waitaof,
};
use crate::clock::Clock;
use crate::config::Live;
use crate::node::{Facts, Node};
use crate::table::{Handler, SessionRow, Specified, Table};

/// The rows of every family of session commands.
const FAMILIES: &[&[Row<SessionRun>]] = &[
    acl::ROWS,
    auth::ROWS,
    backup::ROWS,
    client::ROWS,
    cluster::ROWS,
    commands::ROWS,
    config_command::ROWS,
    connection::ROWS,
    debug::ROWS,
    hotkeys::ROWS,
    info::ROWS,
    interactive::ROWS,
    latency::ROWS,
    memory::ROWS,
    monitor::ROWS,
    multi::ROWS,
    pubsub::ROWS,
    replication::ROWS,
    script::ROWS,
    server::ROWS,
    slowlog::ROWS,
    waitaof::ROWS,
];

/// Runs the handler of a session command. An error replaces the reply that the handler had begun.
pub(crate) fn run(ctx: &mut SessionCtx<'_>) -> Flow {
    let start = ctx.out.len();
    let ran = match ctx.command.handler {
        Handler::Session(row) => handler_of(row)(ctx),
        Handler::Data(_) => Err(Error::new("ERR this command is not one of sessions")),
    };
    match ran {
        Ok(flow) => flow,
        Err(error) => {
            ctx.out.truncate(start);
            ctx.engine.parts.truncate(start);
            ctx.reply().error(error.as_bytes());
            Flow::Done
        }
    }
}

/// The handler of a session command.
#[inline]
fn handler_of(row: SessionRow) -> SessionRun {
    let found = &FAMILIES[usize::from(row.family)][usize::from(row.row)];
    match row.sub {
        None => found.run,
        Some(sub) => found.subcommands[usize::from(sub)].run,
    }
}

impl Table {
    /// The table of this binary.
    pub fn new() -> Table {
        let mut specified = Vec::new();
        for (family, rows) in FAMILIES.iter().enumerate() {
            for (row, its) in rows.iter().enumerate() {
                let place = |sub: Option<usize>| SessionRow {
                    family: family as u8,
                    row: row as u8,
                    sub: sub.map(|sub| sub as u8),
                };
                let subs = its.subcommands.iter().enumerate().map(|(sub, row)| (&row.spec, place(Some(sub))));
                specified.push(Specified { spec: &its.spec, row: place(None), subs: subs.collect() });
            }
        }
        Table::of(&specified)
    }
}

impl Node {
    /// A node of `workers` workers; `seed` keys the hashes.
    pub fn new(config: Arc<Live>, clock: Arc<dyn Clock>, workers: usize, seed: u64, facts: Facts) -> Arc<Node> {
        Self::with_table(Table::new(), (config, clock), (workers, seed), facts)
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

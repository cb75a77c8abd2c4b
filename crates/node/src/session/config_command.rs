//! CONFIG.

use std::sync::Arc;

use std::sync::atomic::Ordering::Relaxed;

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};
use crate::config::Rights;
use crate::jobs::Task;

/// Flags of every subcommand that does something.
const ADMINISTRATION: u32 = ADMIN | NOSCRIPT | LOADING | STALE;
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "config",
        arity: -2,
        group: "server",
        since: "2.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for server configuration commands.",
        ..Spec::NEW
    },
    run: help,
    subcommands: &[
        Row {
            spec: Spec {
                name: "get",
                arity: -3,
                flags: ADMINISTRATION,
                group: "server",
                since: "2.0.0",
                complexity: "O(N) when N is the number of configuration parameters provided",
                summary: "Returns the effective values of configuration parameters.",
                syntax: "parameter [parameter ...]",
                ..Spec::NEW
            },
            run: get,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "set",
                arity: -4,
                flags: ADMINISTRATION,
                group: "server",
                since: "2.0.0",
                complexity: "O(N) when N is the number of configuration parameters provided",
                summary: "Sets configuration parameters in-flight.",
                syntax: "parameter value [parameter value ...]",
                tips: EVERYWHERE,
                ..Spec::NEW
            },
            run: set,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "rewrite",
                arity: 2,
                flags: ADMINISTRATION,
                group: "server",
                since: "2.8.0",
                summary: "Persists the effective configuration to file.",
                tips: EVERYWHERE,
                ..Spec::NEW
            },
            run: rewrite,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "resetstat",
                arity: 2,
                flags: ADMINISTRATION,
                group: "server",
                since: "2.0.0",
                summary: "Resets the server's statistics.",
                tips: EVERYWHERE,
                ..Spec::NEW
            },
            run: resetstat,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "help",
                arity: 2,
                flags: LOADING | STALE,
                group: "server",
                since: "5.0.0",
                summary: "Returns helpful text about the different subcommands.",
                ..Spec::NEW
            },
            run: help,
            subcommands: &[],
        },
    ],
}];

fn get(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let patterns: Vec<&[u8]> = ctx.args.iter().skip(2).collect();
    let found = ctx.node.config.get(&patterns);
    let mut reply = ctx.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(Flow::Done)
}

fn set(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let pairs: Vec<&[u8]> = ctx.args.iter().skip(2).collect();
    let peer = &ctx.session.client.peer;
    // The present ones: an earlier command of the same turn may have changed them.
    let settings = ctx.node.config.settings();
    let protected = settings.enable_protected_configs.admits(peer.unix || peer.loopback);
    let rights = Rights { protected, loading: false };
    let (changed, _) = ctx.node.config.would_set(&pairs, rights).map_err(|error| Error::text(error.text()))?;
    if changed.contains(&"appendonly") {
        if ctx.block.is_some() {
            return Err(Error::new("ERR CONFIG SET appendonly is not allowed in a transaction or script"));
        }
        let task = Task::Configure { pairs: pairs.iter().map(|word| word.to_vec()).collect(), rights };
        if let Some(job) = ctx.node.jobs.ask(task) {
            return Ok(Flow::Job(job));
        }
    }
    ctx.node.config.set(&pairs, rights).map_err(|error| Error::text(error.text()))?;
    // Other workers see it in their next turn; commands behind this one see it now.
    let settings = ctx.node.config.settings();
    ctx.engine.configure(Arc::new(settings.tunables.clone()), settings.notify_keyspace_events);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn rewrite(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    match ctx.node.config.rewrite(false) {
        Ok(()) => tracing::info!("CONFIG REWRITE executed with success."),
        Err(error) => {
            tracing::warn!("CONFIG REWRITE failed: {error}");
            return Err(Error::text(format!("ERR {error}")));
        }
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn resetstat(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.stats.reset();
    ctx.engine.local().counters().reset();
    ctx.node.scripts.evicted.store(0, Relaxed);
    ctx.node.slow_log.sums().clear();
    for worker in (0..ctx.node.workers()).filter(|worker| *worker != usize::from(ctx.engine.index())) {
        ctx.node.send(worker, crate::Message::ResetStats);
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

const HELP: [&str; 11] = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Print this help.",
];

fn help(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mut reply = ctx.reply();
    reply.array(HELP.len());
    for line in HELP {
        reply.simple(line);
    }
    Ok(Flow::Done)
}

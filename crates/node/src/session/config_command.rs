//! CONFIG.

use std::sync::Arc;

use std::sync::atomic::Ordering::Relaxed;

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};
use crate::cluster::{change_settings, check_settings};
use crate::config::{Rights, Shared, Wanted, find};
use crate::worker::jobs::{Job, Task};

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
    // The present settings: an earlier command of the same turn may have changed them.
    let settings = ctx.node.config.settings();
    let protected = settings.enable_protected_configs.admits(peer.unix || peer.loopback);
    let rights = Rights { protected, loading: false };
    let wanted = ctx.node.config.would_set(&pairs, rights).map_err(|error| Error::text(error.text()))?;
    if ctx.node.cluster().is_some_and(|cluster| cluster.administration().is_some()) && !wanted.of_cluster.is_empty() {
        return set_of_cluster(ctx, &pairs, rights, wanted);
    }
    if let Some(name) = takes_long(ctx, &wanted)
        && let Some(job) = set_elsewhere(ctx, name, &pairs, rights, Vec::new())?
    {
        return Ok(Flow::Job(job));
    }
    set_own(ctx, &pairs, rights)?;
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Settings some of which are the cluster's. All are checked; those of this node are set first.
fn set_of_cluster(ctx: &mut SessionCtx<'_>, pairs: &[&[u8]], rights: Rights, wanted: Wanted) -> Result<Flow, Error> {
    if ctx.block.is_some() {
        return Err(Error::new("ERR CONFIG SET of settings of the cluster is not allowed in a transaction or script"));
    }
    check_settings(&wanted.of_cluster)?;
    let is_own = |pair: &&[&[u8]]| find(pair[0]).is_some_and(|(_, row)| !row.is_of_cluster());
    let own: Vec<&[u8]> = pairs.chunks(2).filter(is_own).flatten().copied().collect();
    if let Some(name) = takes_long(ctx, &wanted)
        && let Some(job) = set_elsewhere(ctx, name, &own, rights, wanted.of_cluster.clone())?
    {
        return Ok(Flow::Job(job));
    }
    if !own.is_empty() {
        set_own(ctx, &own, rights)?;
    }
    let job = Job::elsewhere();
    change_settings(ctx.node, wanted.of_cluster, Arc::clone(&job));
    Ok(Flow::Job(job))
}

/// The setting that another thread has to change: the log is switched on or off, or the metadata have to know.
fn takes_long(ctx: &SessionCtx<'_>, wanted: &Wanted) -> Option<&'static str> {
    let in_cluster = ctx.node.cluster().is_some_and(|cluster| cluster.administration().is_some());
    let takes_long = |name: &&&str| {
        **name == "appendonly" || in_cluster && find(name.as_bytes()).is_some_and(|(_, row)| row.is_of_shard())
    };
    wanted.changed.iter().find(takes_long).copied()
}

/// Makes a thread change settings, if there is one, and settings of the cluster after that. `name` is one of them.
fn set_elsewhere(
    ctx: &SessionCtx<'_>,
    name: &str,
    pairs: &[&[u8]],
    rights: Rights,
    of_cluster: Vec<Shared>,
) -> Result<Option<Arc<Job>>, Error> {
    if ctx.block.is_some() {
        return Err(Error::text(format!("ERR CONFIG SET {name} is not allowed in a transaction or script")));
    }
    let pairs = pairs.iter().map(|word| word.to_vec()).collect();
    Ok(ctx.node.jobs.ask(Task::Configure { pairs, rights, of_cluster }))
}

fn set_own(ctx: &mut SessionCtx<'_>, pairs: &[&[u8]], rights: Rights) -> Result<(), Error> {
    ctx.node.config.set(pairs, rights).map_err(|error| Error::text(error.text()))?;
    // Other workers see it in their next turn, later commands of this turn see it now.
    let settings = ctx.node.config.settings();
    ctx.engine.configure(Arc::new(settings.tunables.clone()), settings.notify_keyspace_events);
    Ok(())
}

fn rewrite(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    match ctx.node.config.rewrite(&ctx.node.users.lines_of_configuration(ctx.settings), false) {
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
    ctx.node.slot_figures.reset();
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

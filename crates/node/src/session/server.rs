//! Small commands about the server as a whole: TIME, LASTSAVE, SHUTDOWN, and rows of others.

use std::sync::Arc;

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun, cluster, help, roles};
use crate::durability::checkpoints::Checkpoints;
use crate::durability::snapshots::AtEnd;
use crate::worker::jobs::Job;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags, group: "server", since, summary, syntax, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const fn categories(mut row: Row<SessionRun>, categories: &'static [&'static str]) -> Row<SessionRun> {
    row.spec.categories = categories;
    row
}

const fn random_output(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.tips = &["nondeterministic_output"];
    row
}

const fn random_order(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.tips = &["nondeterministic_output_order"];
    row
}

const REPLICA_OF: &str = "Configures a server as replica of another, or promotes it to a master.";
const REPLICA_FLAGS: u32 = NO_ASYNC_LOADING | ADMIN | NOSCRIPT | STALE;

const HELP: &str = "Returns helpful text about the different subcommands.";

const fn container(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    subcommands: &'static [Row<SessionRun>],
) -> Row<SessionRun> {
    let spec =
        Spec { name, arity: -2, group: "server", since, complexity: "Depends on subcommand.", summary, ..Spec::NEW };
    Row { spec, run: super::container, subcommands }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    container(
        "module",
        "4.0.0",
        "A container for module commands.",
        &[
            row("help", 2, LOADING | STALE, "5.0.0", "", HELP, help),
            random_order(row("list", 2, ADMIN | NOSCRIPT, "4.0.0", "", "Returns all loaded modules.", modules)),
        ],
    ),
    row("lolwut", -1, READONLY | FAST, "5.0.0", "[VERSION version]", "Displays the version.", lolwut),
    random_output(row("time", 1, LOADING | STALE | FAST, "2.6.0", "", "Returns the server time.", time)),
    categories(
        row("role", 1, NOSCRIPT | LOADING | STALE | FAST, "2.8.12", "", "Returns the replication role.", roles::role),
        &["admin", "dangerous"],
    ),
    random_output(categories(
        row(
            "lastsave",
            1,
            LOADING | STALE | FAST,
            "1.0.0",
            "",
            "Returns the Unix timestamp of the last successful save to disk.",
            lastsave,
        ),
        &["admin", "dangerous"],
    )),
    row(
        "bgsave",
        -1,
        NO_ASYNC_LOADING | ADMIN | NOSCRIPT,
        "1.0.0",
        "[SCHEDULE]",
        "Asynchronously saves the database(s) to disk.",
        bgsave,
    ),
    row(
        "save",
        1,
        NO_ASYNC_LOADING | ADMIN | NOSCRIPT | NO_MULTI,
        "1.0.0",
        "",
        "Synchronously saves the database(s) to disk.",
        save,
    ),
    row(
        "bgrewriteaof",
        1,
        NO_ASYNC_LOADING | ADMIN | NOSCRIPT,
        "1.0.0",
        "",
        "Asynchronously rewrites the append-only file to disk.",
        bgrewriteaof,
    ),
    row(
        "shutdown",
        -1,
        ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY,
        "1.0.0",
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        "Synchronously saves the database(s) to disk and shuts down the server.",
        shutdown,
    ),
    row(
        "failover",
        -1,
        ADMIN | NOSCRIPT | STALE | NO_MULTI,
        "6.2.0",
        "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        "Starts a coordinated failover from a server to one of its replicas.",
        cluster::of_owner,
    ),
    row("replicaof", 3, REPLICA_FLAGS, "5.0.0", "<host port | NO ONE>", REPLICA_OF, roles::replicaof),
    row("slaveof", 3, REPLICA_FLAGS, "1.0.0", "<host port | NO ONE>", REPLICA_OF, roles::replicaof),
];

/// There are no modules: what they do in Redis will be built in.
fn modules(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().array(0);
    Ok(Flow::Done)
}

fn lolwut(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().verbatim(*b"txt", concat!("Holdfast ver. ", env!("CARGO_PKG_VERSION"), "\n"));
    Ok(Flow::Done)
}

fn time(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    // A block is one moment.
    let micros = ctx.block.as_ref().map_or_else(|| ctx.node.clock.unix_us(), |block| block.micros);
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk((micros / 1_000_000).to_string());
    reply.bulk((micros % 1_000_000).to_string());
    Ok(Flow::Done)
}

/// Where nothing was saved since the start, that is the time of the last save, as in Redis.
fn lastsave(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let saved = |checkpoints: Arc<Checkpoints>| checkpoints.state().saved_at;
    let at = ctx.node.checkpoints().map_or_else(|| ctx.node.snapshots.state().saved_at, saved);
    ctx.reply().count(at.seconds());
    Ok(Flow::Done)
}

const NO_STORE: &str = "ERR there is no log to be made shorter: this server has 'appendonly no'";
const NO_THREAD: Error = Error::new("ERR this server has no thread that makes snapshots");
const RUNNING: &str = "ERR Background save already in progress";

/// Makes a checkpoint where there is a log, and else a file in Redis's format.
fn bgsave(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let schedule = match ctx.args.len() {
        1 => false,
        2 if ctx.is(1, "SCHEDULE") => true,
        _ => return Err(Error::SYNTAX),
    };
    let checkpoints = ctx.node.checkpoints();
    let began = |checkpoints: &Arc<Checkpoints>| checkpoints.state().began.is_some();
    let running = checkpoints.as_ref().map_or_else(|| ctx.node.snapshots.is_saving(), began);
    if running && !schedule {
        return Err(Error::new(RUNNING));
    }
    match checkpoints {
        Some(checkpoints) => drop(checkpoints.ask(false)),
        None => drop(ask_to_save(ctx, running)?),
    }
    ctx.reply().simple(if running { "Background saving scheduled" } else { "Background saving started" });
    Ok(Flow::Done)
}

fn ask_to_save(ctx: &SessionCtx<'_>, scheduled: bool) -> Result<Arc<Job>, Error> {
    let keyspace = &ctx.node.engine.keyspace;
    let keys = (0..ctx.settings.databases).map(|db| keyspace.len(db)).sum();
    ctx.node.snapshots.ask_to_save(scheduled, ctx.node.clock.unix_ms(), keys).ok_or(NO_THREAD)
}

fn save(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let Some(checkpoints) = ctx.node.checkpoints() else {
        if ctx.node.snapshots.is_saving() {
            return Err(Error::new(RUNNING));
        }
        return ask_to_save(ctx, false).map(Flow::Job);
    };
    if checkpoints.state().began.is_some() {
        return Err(Error::new(RUNNING));
    }
    let ticket = checkpoints.ask(true);
    Ok(Flow::Save(checkpoints, ticket))
}

/// A checkpoint also makes the log shorter.
fn bgrewriteaof(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let checkpoints = ctx.node.checkpoints().ok_or(Error::new(NO_STORE))?;
    checkpoints.ask(false);
    ctx.reply().simple("Background append only file rewriting started");
    Ok(Flow::Done)
}

fn shutdown(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (mut save, mut nosave, mut abort, mut other) = (false, false, false, false);
    for i in 1..ctx.args.len() {
        match ctx.arg(i) {
            word if word.eq_ignore_ascii_case(b"nosave") => nosave = true,
            word if word.eq_ignore_ascii_case(b"save") => save = true,
            word if word.eq_ignore_ascii_case(b"abort") => abort = true,
            word if word.eq_ignore_ascii_case(b"now") || word.eq_ignore_ascii_case(b"force") => other = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    if (save && nosave) || (abort && (save || nosave || other)) {
        return Err(Error::SYNTAX);
    }
    if abort {
        // A shutdown leaves no time in which it could be cancelled.
        return Err(Error::new("ERR No shutdown in progress."));
    }
    // Made before the process ends, and after all clients have gone.
    if save && let Some(checkpoints) = ctx.node.checkpoints() {
        checkpoints.ask(true);
    }
    ctx.node.snapshots.set_at_end(match (save, nosave) {
        (true, _) => AtEnd::Save,
        (_, true) => AtEnd::NoSave,
        _ => AtEnd::AsConfigured,
    });
    tracing::info!(client = ctx.session.client.id, "user requested shutdown");
    if other {
        ctx.node.stop();
    } else {
        ctx.node.stop_in_order();
    }
    Ok(Flow::Close)
}

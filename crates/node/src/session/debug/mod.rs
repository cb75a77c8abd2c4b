//! DEBUG: subcommands that tests of servers and clients rely on. `enable-debug-command` guards them. Subcommands about
//! keys are rows of the data plane (crate `command`).

mod rows;

use std::sync::atomic::Ordering::Relaxed;

use command::Error;
use keyspace::Counts;

use super::{Flow, SessionCtx};
use crate::client::Peer;
use crate::config::Settings;
use crate::crash::Crash;
use crate::worker::jobs::{Reload, Task};

pub use rows::ROWS;

/// True if a client may use DEBUG.
pub(crate) fn is_open(settings: &Settings, peer: &Peer) -> bool {
    settings.enable_debug_command.admits(peer.unix || peer.loopback)
}

/// The number at argument `i` as C's `atoi` reads it: 0 for a text that is none.
fn flag(ctx: &SessionCtx<'_>, i: usize) -> bool {
    keyspace::canonical_int(ctx.arg(i)).unwrap_or(0) != 0
}

/// The longest sleep: a day, in milliseconds.
const SLEEP_MAX_MS: f64 = 86_400_000.0;

fn sleep(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let seconds = std::str::from_utf8(ctx.arg(2)).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    // Times below a millisecond round up, so that a sleep is never too short.
    let ms = (seconds * 1000.0).ceil().clamp(0.0, SLEEP_MAX_MS);
    Ok(Flow::Sleep(ms as u64))
}

fn set_active_expire(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = flag(ctx, 2);
    ctx.node.active_expire.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn set_disable_deny_scripts(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = flag(ctx, 2);
    ctx.node.scripts.deny_nothing.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn set_skip_checksum_validation(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = flag(ctx, 2);
    ctx.node.engine.keyspace.skips_checksums.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

const NO_FILE: Error = Error::new(
    "ERR files are loaded where there is no log and no cluster; DEBUG RELOAD-VALUES dumps and restores every value",
);

fn reload(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mut how = Reload::default();
    for i in 2..ctx.args.len() {
        match ctx.arg(i).to_ascii_lowercase().as_slice() {
            b"merge" => how.merge = true,
            b"noflush" => how.no_flush = true,
            b"nosave" => how.no_save = true,
            _ => return Err(Error::new("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")),
        }
    }
    if ctx.node.durable().is_some() || ctx.settings.takes_part_in_cluster() {
        return Err(NO_FILE);
    }
    let job = ctx.node.snapshots.jobs.ask(Task::Reload(how));
    job.map(Flow::Job).ok_or(Error::new("ERR this server has no thread that makes snapshots"))
}

fn shuffle_clients(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = flag(ctx, 2);
    ctx.node.shuffling.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn disturb(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = flag(ctx, 2);
    ctx.node.engine.disturbed.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn error(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    Err(Error::text(ctx.arg(2)))
}

fn log(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let text = String::from_utf8_lossy(ctx.arg(2));
    tracing::warn!(cause = %text, "DEBUG LOG: {text}");
    ctx.reply().ok();
    Ok(Flow::Done)
}

const NO_CRASH: Error = Error::new("ERR this server cannot be made to crash");

fn segfault(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.node.crash(Crash::Segfault);
    Err(NO_CRASH)
}

fn panic(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.node.crash(Crash::Panic);
    Err(NO_CRASH)
}

fn assertion(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.node.crash(Crash::Assertion);
    Err(NO_CRASH)
}

/// For knobs of parts that Holdfast does not have: tests turn them before they test another thing.
fn nothing(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn config_rewrite(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let written = ctx.node.config.rewrite(&ctx.node.users.lines_of_configuration(ctx.settings), true);
    written.map_err(|error| Error::text(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {error}")))?;
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn turns(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let longest = ctx.node.stats.iter().map(|stats| &stats.longest_turn);
    if ctx.is(2, "longest") {
        let nanos = longest.map(|nanos| nanos.load(Relaxed)).max().unwrap_or(0);
        ctx.reply().integer((nanos / 1000) as i64);
        return Ok(Flow::Done);
    }
    let start = ctx.is(2, "start");
    if !start && !ctx.is(2, "stop") {
        return Err(Error::SYNTAX);
    }
    longest.for_each(|nanos| nanos.store(0, Relaxed));
    ctx.node.measuring.store(start, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// One reply of each kind, for tests of clients.
fn protocol(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let kind = ctx.arg(2).to_ascii_lowercase();
    let mut reply = ctx.reply();
    match kind.as_slice() {
        b"string" => reply.bulk("Hello World"),
        b"integer" => reply.integer(12345),
        // The digits Redis answers.
        b"double" => reply.double_text("3.141"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.integer(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk("key-popularity");
                reply.array(2);
                reply.bulk("key:123");
                reply.integer(90);
            }
            reply.bulk("Some real reply following the attribute");
        }
        b"push" => {
            if !reply.is_resp3() {
                return Err(Error::new("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk("server-cpu-usage");
            reply.integer(42);
            reply.bulk("Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(*b"txt", "This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(Error::new(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(Flow::Done)
}

/// Keys and expiring keys of a database. Redis describes its two hash tables here, and this server its own.
fn htstats(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let db = ctx.int(2)?;
    let db = u16::try_from(db).ok().filter(|&db| db < ctx.settings.databases);
    let db = db.ok_or(Error::new("ERR Out of range database"))?;
    let mut text = String::new();
    let Counts { keys, expires, .. } = ctx.counts(db);
    for (name, count) in [("Dictionary", keys), ("Expires", expires)] {
        text.push_str(&format!("[{name} HT]\nHash table 0 stats (main hash table):\n number of elements: {count}\n"));
    }
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

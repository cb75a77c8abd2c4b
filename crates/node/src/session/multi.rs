//! MULTI, DISCARD, WATCH, UNWATCH; EXEC is in `exec`.

use std::sync::atomic::Ordering::Relaxed;

use command::{Error, KeySpec, Row, Spec, flags::*, key_flags};
use engine::{Busy, Engine};

use super::exec::exec;
use super::{Flow, Session, SessionCtx, SessionRun};
use crate::figures::stats::add;

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    Row {
        spec: Spec {
            name: "multi",
            arity: 1,
            flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | IN_MULTI,
            group: "transactions",
            since: "1.2.0",
            summary: "Starts a transaction.",
            ..Spec::NEW
        },
        run: multi,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "exec",
            arity: 1,
            flags: NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG | IN_MULTI,
            group: "transactions",
            since: "1.2.0",
            complexity: "Depends on commands in the transaction",
            summary: "Executes all commands in a transaction.",
            ..Spec::NEW
        },
        run: exec,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "discard",
            arity: 1,
            flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | IN_MULTI,
            group: "transactions",
            since: "2.0.0",
            complexity: "O(N), when N is the number of queued commands",
            summary: "Discards a transaction.",
            ..Spec::NEW
        },
        run: discard,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "watch",
            arity: -2,
            flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | IN_MULTI,
            keys: &[KeySpec::range(1, -1, 1, key_flags::RO)],
            group: "transactions",
            since: "2.2.0",
            complexity: "O(1) for every key.",
            summary: "Monitors changes to keys to determine the execution of a transaction.",
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: watch,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "unwatch",
            arity: 1,
            flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
            group: "transactions",
            since: "2.2.0",
            summary: "Forgets about watched keys of a transaction.",
            ..Spec::NEW
        },
        run: unwatch,
        subcommands: &[],
    },
];

fn multi(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.session.multi.is_some() {
        return Err(Error::new("ERR MULTI calls can not be nested"));
    }
    ctx.session.multi = Some(ctx.session.spare_multi.take().unwrap_or_default());
    ctx.session.client.queued.store(0, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn discard(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.session.multi.take().is_none() {
        return Err(Error::new("ERR DISCARD without MULTI"));
    }
    ctx.leave_multi();
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn forget_watched(ctx: &mut SessionCtx<'_>) {
    let watched = ctx.session.take_watched();
    ctx.engine.unwatch_later(watched);
}

fn watch(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.session.multi.is_some() {
        return Err(Error::new("ERR WATCH inside MULTI is not allowed"));
    }
    let keys: Vec<&[u8]> = ctx.args.iter().skip(1).collect();
    if let Err(busy) = watch_keys(ctx.engine, ctx.session, &keys, ctx.token) {
        return Ok(Flow::Busy(busy));
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Watches keys of this node, or none of them if a latch is busy.
pub(crate) fn watch_keys(engine: &mut Engine, session: &mut Session, keys: &[&[u8]], token: u64) -> Result<(), Busy> {
    let before = session.watched.len();
    engine.watch(session.db, keys, &mut session.watched, token)?;
    let client = &session.client;
    client.watching.store(session.watched.len() as u32, Relaxed);
    let more: u64 = session.watched[before..].iter().map(|watched| watched.key.len() as u64).sum();
    add(&client.watched_bytes, more);
    Ok(())
}

fn unwatch(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    forget_watched(ctx);
    ctx.reply().ok();
    Ok(Flow::Done)
}

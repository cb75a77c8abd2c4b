//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::atomic::Ordering::Relaxed;

use command::{Error, KeySpec, Row, Spec, flags::*, key_flags};
use engine::Call;

use super::connection::database;
use super::{Flow, Multi, SessionCtx, SessionRun, run};
use crate::stats::add;
use crate::table::Handler;

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
    end(ctx);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Drops the block and the watched keys, if any (RESET).
pub(super) fn forget_block(ctx: &mut SessionCtx<'_>) {
    end(ctx);
}

/// What DISCARD and EXEC leave behind: no block, nothing watched.
fn end(ctx: &mut SessionCtx<'_>) {
    let watched = ctx.session.leave_multi();
    ctx.engine.unwatch_later(watched);
}

/// Keeps the memory of a block for the next.
fn keep(ctx: &mut SessionCtx<'_>, mut multi: Box<Multi>) {
    multi.clear();
    ctx.session.spare_multi = Some(multi);
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
    let before = ctx.session.watched.len();
    if let Err(busy) = ctx.engine.watch(ctx.session.db, &keys, &mut ctx.session.watched, ctx.token) {
        return Ok(Flow::Busy(busy));
    }
    let client = &ctx.session.client;
    client.watching.store(ctx.session.watched.len() as u32, Relaxed);
    let more: u64 = ctx.session.watched[before..].iter().map(|watched| watched.key.len() as u64).sum();
    add(&client.watched_bytes, more);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn unwatch(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    forget_watched(ctx);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn exec(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let Some(multi) = ctx.session.multi.take() else { return Err(Error::new("ERR EXEC without MULTI")) };
    if multi.aborted {
        keep(ctx, multi);
        end(ctx);
        return Err(Error::new("EXECABORT Transaction discarded because of previous errors."));
    }
    // SELECT inside the block decides where later commands look, and so what the latches are taken for.
    let mut db = ctx.session.db;
    let mut calls: Vec<Call<'_>> = Vec::with_capacity(multi.queue.len());
    for (queued, args) in multi.commands() {
        match ctx.node.table.get(queued.command).handler {
            Handler::Data(row) => calls.push(Call {
                row,
                args,
                first: queued.first(args),
                db,
                protocol: ctx.session.protocol,
                token: ctx.token,
                seat: None,
            }),
            Handler::Session(row) if row.spec.name == "select" => {
                db = args.get(1).and_then(|text| database(text, ctx.settings.databases).ok()).unwrap_or(db);
            }
            Handler::Session(_) => {}
        }
    }
    match ctx.engine.begin_block(&calls, &ctx.session.watched, ctx.token) {
        Err(busy) => {
            ctx.session.multi = Some(multi);
            return Ok(Flow::Busy(busy));
        }
        Ok(None) => {
            keep(ctx, multi);
            end(ctx);
            ctx.reply().null_array();
        }
        Ok(Some(mut block)) => {
            end(ctx);
            ctx.reply().array(multi.queue.len());
            let mut calls = calls.into_iter();
            let mut flow = Flow::Done;
            // Where the output became longer than it may be: the client will not see the rest, or anything.
            let mut overflow = None;
            // Milliseconds of DEBUG SLEEP.
            let mut asleep = 0;
            for (queued, args) in multi.commands() {
                let command = ctx.node.table.get(queued.command);
                let exact = ctx.meter.is_exact(command, args);
                let from = if exact { ctx.meter.settle() } else { 0 };
                let before = ctx.out.len();
                let mut slept = 0;
                let db_before = ctx.session.db;
                if ctx.session.no_touch {
                    ctx.engine.clock().set_touching(command.name == "touch");
                }
                match command.handler {
                    Handler::Data(_) => {
                        if let Some(mut call) = calls.next() {
                            call.db = ctx.session.db;
                            call.protocol = ctx.session.protocol;
                            ctx.engine.run_in_block(&mut block, &call, ctx.out);
                        }
                    }
                    Handler::Session(row) => {
                        let mut inner = SessionCtx {
                            node: ctx.node,
                            engine: ctx.engine,
                            session: ctx.session,
                            settings: ctx.settings,
                            stats: ctx.stats,
                            meter: ctx.meter,
                            monitored: ctx.monitored,
                            command,
                            args,
                            out: ctx.out,
                            token: ctx.token,
                            block: Some(&mut block),
                        };
                        match run(&mut inner, row.run) {
                            Flow::Done | Flow::Busy(_) => {}
                            Flow::Close => flow = Flow::Close,
                            // The block is one moment: its sleep follows it, but comes before who waits for its keys.
                            Flow::Sleep(ms) => {
                                ctx.reply().ok();
                                asleep += ms;
                                ctx.node.pauses.freeze(ctx.engine.now() + asleep);
                                slept = ms * 1_000_000;
                            }
                        }
                    }
                }
                if let Some(b'-') = ctx.out.get(before) {
                    add(&ctx.stats.commands[command.counted_as].failed, 1);
                    ctx.stats.count_error(&ctx.out[before + 1..]);
                }
                match overflow {
                    Some(end) => {
                        ctx.out.truncate(end);
                        ctx.engine.parts.truncate(end);
                    }
                    None => overflow = ctx.is_too_much().then_some(ctx.out.len()),
                }
                if ctx.monitored && command.is_shown_to_monitors() {
                    ctx.node.show_to_monitors(&ctx.session.client, db_before, args);
                }
                if exact {
                    let from = from.saturating_sub(slept);
                    ctx.meter.finish(command, args, &ctx.session.client, ctx.engine.now(), from);
                } else {
                    ctx.meter.ran(command.counted_as);
                }
            }
            ctx.engine.end_block(block, asleep);
            keep(ctx, multi);
            return Ok(flow);
        }
    }
    Ok(Flow::Done)
}

//! EVAL and EVALSHA, and SCRIPT, which manages the scripts that EVALSHA can run.

use std::sync::Arc;

use command::{Error, Row, flags::*};
use script::{Running, Source};

use super::super::{Flow, SessionCtx, SessionRun, help, tipped};
use super::kill;
use super::rows::sub;
use super::start::{numkeys, rules, start};
use crate::scripts::{Digest, Known};

pub(super) const SUBCOMMANDS: &[Row<SessionRun>] = &[
    sub("debug", 3, NOSCRIPT, "3.2.0", "<YES | SYNC | NO>", "Sets the debug mode of server-side Lua scripts.", debug),
    tipped(
        &["request_policy:all_shards", "response_policy:agg_logical_and"],
        sub(
            "exists",
            -3,
            NOSCRIPT,
            "2.6.0",
            "sha1 [sha1 ...]",
            "Determines whether server-side Lua scripts exist in the script cache.",
            exists,
        ),
    ),
    tipped(
        &["request_policy:all_nodes", "response_policy:all_succeeded"],
        sub(
            "flush",
            -2,
            NOSCRIPT,
            "2.6.0",
            "[ASYNC | SYNC]",
            "Removes all server-side Lua scripts from the script cache.",
            flush,
        ),
    ),
    sub("help", 2, LOADING | STALE, "5.0.0", "", "Returns helpful text about the different subcommands.", help),
    tipped(
        &["request_policy:all_shards", "response_policy:one_succeeded"],
        sub(
            "kill",
            2,
            NOSCRIPT | ALLOW_BUSY,
            "2.6.0",
            "",
            "Terminates a server-side Lua script during execution.",
            kill::script,
        ),
    ),
    sub("show", 3, NOSCRIPT | STALE, "8.0.0", "sha1", "Shows a script of the script cache (Valkey).", show),
    tipped(
        &["request_policy:all_nodes", "response_policy:all_succeeded"],
        sub(
            "load",
            3,
            NOSCRIPT | STALE,
            "2.6.0",
            "script",
            "Loads a server-side Lua script to the script cache.",
            load,
        ),
    ),
];

pub(super) fn eval(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let numkeys = numkeys(ctx, Error::NOT_INTEGER)?;
    let body = ctx.arg(1);
    let known = match ctx.machines.find_body(body, &ctx.node.scripts) {
        Some(known) => known,
        None => compile(ctx, body, false)?,
    };
    run(ctx, &known, numkeys)
}

pub(super) fn evalsha(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let numkeys = numkeys(ctx, Error::NOT_INTEGER)?;
    let known = digest(ctx.arg(1)).and_then(|digest| ctx.machines.find(&digest, &ctx.node.scripts));
    match known {
        Some(known) => run(ctx, &known, numkeys),
        None => Err(Error::new("NOSCRIPT No matching script. Please use EVAL.")),
    }
}

fn run(ctx: &mut SessionCtx<'_>, known: &Known, numkeys: usize) -> Result<Flow, Error> {
    let rules = rules(ctx, known.source.flags())?;
    ctx.node.scripts.used(known);
    start(ctx, numkeys, rules, None, |ctx| {
        let machine = ctx.machines.take(ctx.settings.lua_enable_deprecated_api).map_err(text)?;
        let seed = ctx.engine.rng().next_u64() as i32;
        let (keys, argv) = (ctx.args.iter().skip(3).take(numkeys), ctx.args.iter().skip(3 + numkeys));
        Running::eval(machine, &known.source, keys, argv, seed).map_err(|refused| {
            ctx.machines.put_back(refused.machine);
            text(refused.error)
        })
    })
}

/// Compiles a script and remembers it.
fn compile(ctx: &mut SessionCtx<'_>, body: &[u8], loaded: bool) -> Result<Arc<Known>, Error> {
    let source = Source::parse(body).map_err(text)?;
    let mut machine = ctx.machines.take(ctx.settings.lua_enable_deprecated_api).map_err(text)?;
    let compiled = machine.compile(&source);
    ctx.machines.put_back(machine);
    compiled.map_err(text)?;
    Ok(ctx.node.scripts.remember(source, loaded))
}

/// The digest in `text`, in upper or lower case.
pub(super) fn digest(text: &[u8]) -> Option<Digest> {
    let mut digest: Digest = text.try_into().ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}

pub(super) fn text(error: script::Error) -> Error {
    Error::text(error.text().as_bytes())
}

fn load(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let known = compile(ctx, ctx.arg(2), true)?;
    ctx.reply().bulk(known.source.sha());
    Ok(Flow::Done)
}

/// HOLDFAST TEXT: the owner of a shard gives its standby the text of a script that EVAL has run there.
pub(in crate::session) fn take_text(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    compile(ctx, ctx.arg(2), false)?;
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn show(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let known = digest(ctx.arg(2)).and_then(|digest| ctx.node.scripts.find(&digest));
    let known = known.ok_or(Error::new("NOSCRIPT No matching script."))?;
    ctx.reply().bulk(known.source.body());
    Ok(Flow::Done)
}

fn exists(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let known: Vec<bool> = (2..ctx.args.len())
        .map(|i| digest(ctx.arg(i)).is_some_and(|digest| node.scripts.find(&digest).is_some()))
        .collect();
    let mut reply = ctx.reply();
    reply.array(known.len());
    known.into_iter().for_each(|known| reply.integer(known.into()));
    Ok(Flow::Done)
}

fn flush(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mode_is_known = ctx.args.len() == 2 || ctx.args.len() == 3 && (ctx.is(2, "sync") || ctx.is(2, "async"));
    if !mode_is_known {
        return Err(Error::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.node.scripts.flush();
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn debug(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.is(2, "no") {
        ctx.reply().ok();
        return Ok(Flow::Done);
    }
    if ctx.is(2, "yes") || ctx.is(2, "sync") {
        return Err(Error::new(
            "ERR SCRIPT DEBUG is not supported: there is no Lua debugger in this version of Holdfast",
        ));
    }
    Err(Error::new("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}

//! FUNCTION: the libraries whose functions FCALL runs.

use std::sync::Arc;

use command::{Error, Row, flags::*};
use resp::Reply;
use script::{Library, load_library, restore_libraries};

use super::super::{Flow, SessionCtx, SessionRun, help, tipped};
use super::eval::text;
use super::kill;
use super::rows::sub;
use crate::cluster::change_libraries;
use crate::scripts::libraries::{Libraries, NotAdded};
use crate::worker::jobs::Done;

pub(super) const SUBCOMMANDS: &[Row<SessionRun>] = &[
    tipped(
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        sub("delete", 3, NOSCRIPT | WRITE, "7.0.0", "library-name", "Deletes a library and its functions.", delete),
    ),
    sub("dump", 2, NOSCRIPT, "7.0.0", "", "Dumps all libraries into a serialized binary payload.", dump),
    tipped(
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        sub("flush", -2, NOSCRIPT | WRITE, "7.0.0", "[ASYNC | SYNC]", "Deletes all libraries and functions.", flush),
    ),
    sub("help", 2, LOADING | STALE, "7.0.0", "", "Returns helpful text about the different subcommands.", help),
    tipped(
        &["request_policy:all_shards", "response_policy:one_succeeded"],
        sub("kill", 2, NOSCRIPT | ALLOW_BUSY, "7.0.0", "", "Terminates a function during execution.", kill::function),
    ),
    tipped(
        &["nondeterministic_output_order"],
        sub(
            "list",
            -2,
            NOSCRIPT,
            "7.0.0",
            "[LIBRARYNAME library-name-pattern] [WITHCODE]",
            "Returns information about all libraries.",
            list,
        ),
    ),
    tipped(
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        sub("load", -3, NOSCRIPT | WRITE | DENYOOM, "7.0.0", "[REPLACE] function-code", "Creates a library.", load),
    ),
    tipped(
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        sub(
            "restore",
            -3,
            NOSCRIPT | WRITE | DENYOOM,
            "7.0.0",
            "serialized-value [FLUSH | APPEND | REPLACE]",
            "Restores all libraries from a payload.",
            restore,
        ),
    ),
    tipped(
        &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        sub(
            "stats",
            2,
            NOSCRIPT | ALLOW_BUSY,
            "7.0.0",
            "",
            "Returns information about a function during execution.",
            stats,
        ),
    ),
];

/// A library from its code, tried on one of the worker's machines.
fn learn(ctx: &mut SessionCtx<'_>, code: &[u8]) -> Result<Library, Error> {
    let mut machine = ctx.machines.take(ctx.settings.lua_enable_deprecated_api).map_err(text)?;
    let library = load_library(&mut machine, code);
    ctx.machines.put_back(machine);
    library.map_err(text)
}

fn not_added(why: NotAdded, name: &str) -> Error {
    match why {
        NotAdded::Exists => Error::text(format!("ERR Library '{name}' already exists")),
        NotAdded::Function(function) => Error::text(format!("ERR Function {function} already exists")),
    }
}

/// Changes the libraries and answers `reply`. In a cluster they are the cluster's. On one server they are its own, for
/// all workers and for the log.
fn change(
    ctx: &mut SessionCtx<'_>,
    change: impl Fn(&mut Libraries) -> Result<(), Error> + Send + 'static,
    reply: Done,
) -> Result<Flow, Error> {
    if ctx.node.cluster().is_some_and(|cluster| cluster.administration().is_some()) {
        if ctx.block.is_some() {
            return Err(Error::new("ERR the libraries of a cluster cannot be changed in a block"));
        }
        return change_libraries(ctx.node, Box::new(change), reply).map(Flow::Job);
    }
    let node = ctx.node.clone();
    let logged = ctx.engine.is_logged();
    let change = || {
        let result = node.scripts.change_libraries(change);
        let now = (result.is_ok()).then(|| match logged {
            true => node.scripts.dump_libraries(),
            false => Vec::new(),
        });
        (result, now)
    };
    let changed = match &mut ctx.block {
        Some(block) => ctx.engine.change_libraries_in_block(&mut block.run, change),
        None => ctx.engine.change_libraries(ctx.token, change),
    };
    match changed {
        Err(busy) => Ok(Flow::Busy(busy)),
        Ok(result) => {
            result?;
            reply.write(&mut ctx.reply());
            Ok(Flow::Done)
        }
    }
}

/// True if the client sends the command to every node, as smart clients do: then the other nodes need not repeat it.
fn asks_every_node(ctx: &SessionCtx<'_>) -> bool {
    ctx.peers.is_cluster() && ctx.session.moves(ctx.settings.cluster_redirect)
}

/// True if exactly this library is there.
fn is_there(libraries: &Libraries, library: &Library) -> bool {
    libraries.get(library.name()).is_some_and(|there| there.code() == library.code())
}

fn load(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let last = ctx.args.len() - 1;
    let mut replace = false;
    for i in 2..last {
        if !ctx.is(i, "replace") {
            return Err(unknown("ERR Unknown option given: ", ctx.arg(i)));
        }
        replace = true;
    }
    if last < 2 {
        return Err(Error::new("ERR Function code is missing"));
    }
    let library = Arc::new(learn(ctx, ctx.arg(last))?);
    let name: Box<str> = library.name().into();
    let (reply, asks_all) = (Done::Bulk(name.as_bytes().to_vec()), asks_every_node(ctx));
    let add = move |libraries: &mut Libraries| {
        let replace = replace || asks_all && is_there(libraries, &library);
        libraries.add(Arc::clone(&library), replace).map_err(|why| not_added(why, &name))
    };
    change(ctx, add, reply)
}

fn unknown(what: &str, word: &[u8]) -> Error {
    Error::text([what.as_bytes(), word].concat())
}

fn delete(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let name = std::str::from_utf8(ctx.arg(2)).unwrap_or_default().to_owned();
    let asks_all = asks_every_node(ctx);
    let remove = move |libraries: &mut Libraries| match libraries.remove(&name) || asks_all {
        true => Ok(()),
        false => Err(Error::new("ERR Library not found")),
    };
    change(ctx, remove, Done::Ok)
}

/// The error for more arguments than the subcommand takes, where its arity does not tell.
fn too_many(ctx: &SessionCtx<'_>) -> Error {
    super::super::wrong_arguments("FUNCTION", &ctx.args[1])
}

fn flush(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len() > 3 {
        return Err(too_many(ctx));
    }
    let mode_is_known = ctx.args.len() == 2 || ctx.args.len() == 3 && (ctx.is(2, "sync") || ctx.is(2, "async"));
    if !mode_is_known {
        return Err(Error::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    let flush = |libraries: &mut Libraries| {
        *libraries = Libraries::default();
        Ok(())
    };
    change(ctx, flush, Done::Ok)
}

fn list(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (mut with_code, mut pattern) = (false, None);
    let mut i = 2;
    while i < ctx.args.len() {
        if !with_code && ctx.is(i, "withcode") {
            with_code = true;
        } else if pattern.is_none() && ctx.is(i, "libraryname") {
            i += 1;
            pattern = Some(ctx.args.get(i).ok_or(Error::new("ERR library name argument was not given"))?);
        } else {
            return Err(unknown("ERR Unknown argument ", ctx.arg(i)));
        }
        i += 1;
    }
    let libraries = ctx.node.scripts.libraries();
    let matches = |library: &Library| {
        pattern.is_none_or(|pattern| object::glob::matches_nocase(pattern, library.name().as_bytes()))
    };
    let shown: Vec<_> = libraries.all().filter(|library| matches(library)).collect();
    let mut reply = ctx.reply();
    reply.array(shown.len());
    shown.into_iter().for_each(|library| write_library(&mut reply, library, with_code));
    Ok(Flow::Done)
}

fn write_library(reply: &mut Reply<'_>, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name().as_bytes());
    reply.bulk(b"engine");
    reply.bulk(library.engine().as_bytes());
    reply.bulk(b"functions");
    reply.array(library.functions().len());
    for function in library.functions() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(library.code());
    }
}

fn dump(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let payload = ctx.node.scripts.dump_libraries();
    ctx.reply().bulk(&payload);
    Ok(Flow::Done)
}

fn restore(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len() > 4 {
        return Err(too_many(ctx));
    }
    let (mut flush, mut replace) = (false, false);
    match ctx.args.get(3) {
        None => {}
        Some(policy) if policy.eq_ignore_ascii_case(b"append") => {}
        Some(policy) if policy.eq_ignore_ascii_case(b"replace") => replace = true,
        Some(policy) if policy.eq_ignore_ascii_case(b"flush") => flush = true,
        Some(_) => {
            return Err(Error::new("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."));
        }
    }
    let restored = restore_libraries(ctx.arg(2)).map_err(text)?;
    let mut learnt = Vec::new();
    for library in restored {
        learnt.push(Arc::new(learn(ctx, &library)?));
    }
    let asks_all = asks_every_node(ctx);
    // All or nothing.
    let add = move |libraries: &mut Libraries| {
        let mut next = if flush { Libraries::default() } else { libraries.clone() };
        for library in &learnt {
            let replace = replace || asks_all && is_there(&next, library);
            next.add(Arc::clone(library), replace).map_err(|why| match why {
                NotAdded::Exists => Error::text(format!("ERR Library {} already exists", library.name())),
                other => not_added(other, library.name()),
            })?;
        }
        *libraries = next;
        Ok(())
    };
    change(ctx, add, Done::Ok)
}

fn stats(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let job = node.scripts.jobs().into_iter().find(|job| job.function.is_some());
    if job.is_none()
        && let Some(script) = node.scripts.slow_job()
    {
        return Err(Error::new(script.busy_error()));
    }
    let now = ctx.engine.now();
    let (libraries, functions) = node.scripts.libraries().count();
    let mut reply = ctx.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match job {
        None => reply.null(),
        Some(job) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(job.function.as_deref().unwrap_or_default().as_bytes());
            reply.bulk(b"command");
            reply.array(job.command.args().len());
            job.command.args().iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.integer(now.since(job.since) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.count(libraries as u64);
    reply.bulk(b"functions_count");
    reply.count(functions as u64);
    Ok(Flow::Done)
}

//! Connection commands: PING, ECHO, SELECT, QUIT.

use command::{Error, Row, Spec, flags::*};
use resp::Protocol;

use super::{Flow, SessionCtx, SessionRun};

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    Row {
        spec: Spec {
            name: "ping",
            arity: -1,
            flags: FAST,
            group: "connection",
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            summary: "Returns the server's liveliness response.",
            syntax: "[message]",
            ..Spec::NEW
        },
        run: ping,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "echo",
            arity: 2,
            flags: LOADING | STALE | FAST,
            group: "connection",
            summary: "Returns the given string.",
            syntax: "message",
            ..Spec::NEW
        },
        run: echo,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "select",
            arity: 2,
            flags: LOADING | STALE | FAST,
            group: "connection",
            summary: "Changes the selected database.",
            syntax: "index",
            ..Spec::NEW
        },
        run: select,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "quit",
            arity: -1,
            flags: ALLOW_BUSY | NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | IN_MULTI,
            group: "connection",
            summary: "Closes the connection.",
            ..Spec::NEW
        },
        run: quit,
        subcommands: &[],
    },
];

fn ping(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    // In a protocol where messages are arrays, this reply is one, too.
    if ctx.session.is_subscribed() && ctx.session.protocol == Protocol::Resp2 && ctx.args.len() <= 2 {
        let message = ctx.args.get(1).unwrap_or_default();
        let mut reply = ctx.reply();
        reply.array(2);
        reply.bulk("pong");
        reply.bulk(message);
        return Ok(Flow::Done);
    }
    match ctx.args.len() {
        1 => ctx.reply().pong(),
        2 => {
            let message = ctx.arg(1);
            ctx.reply().bulk(message);
        }
        _ => return Err(Error::arity("ping")),
    }
    Ok(Flow::Done)
}

fn echo(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let message = ctx.arg(1);
    ctx.reply().bulk(message);
    Ok(Flow::Done)
}

/// The database index in `text`, if it is one.
pub(crate) fn database(text: &[u8], databases: u16) -> Result<u16, Error> {
    let index = keyspace::canonical_int(text).ok_or(Error::NOT_INTEGER)?;
    command::check_i32(index)?;
    u16::try_from(index).ok().filter(|&db| db < databases).ok_or(Error::new("ERR DB index is out of range"))
}

fn select(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let db = database(ctx.arg(1), ctx.settings.databases)?;
    ctx.session.set_db(db);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn quit(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().ok();
    Ok(Flow::Close)
}

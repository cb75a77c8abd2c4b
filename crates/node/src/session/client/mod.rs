//! CLIENT: names, kinds and ends of connections.

mod kill;
mod line;
mod pause;
mod rows;

use std::sync::atomic::Ordering::Relaxed;

use command::Error;

use super::{Flow, Replies, SessionCtx};
use crate::client::Client;
use crate::cluster::Question;
use crate::worker::message::Message;

pub(crate) use kill::end as end_clients;
pub(crate) use line::{line_at, lines_of_all, own_line};
pub use rows::ROWS;

/// A client's name in the form in which it is stored, if it is a valid one.
pub(crate) fn check_name(name: &[u8]) -> Result<&[u8], Error> {
    if is_printable(name) {
        return Ok(name);
    }
    Err(Error::new("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// CLIENT LIST separates its fields by blanks: no field may hold one.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

pub(crate) fn set_name(client: &Client, name: &[u8]) {
    client.texts().name = name.to_vec();
}

fn id(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let id = ctx.session.client.id;
    ctx.reply().count(id);
    Ok(Flow::Done)
}

fn getname(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let name = ctx.session.client.texts().name.clone();
    ctx.reply().bulk_or_null((!name.is_empty()).then_some(name));
    Ok(Flow::Done)
}

fn setname(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let name = check_name(ctx.arg(2))?;
    set_name(&ctx.session.client, name);
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn setinfo(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (option, value) = (ctx.arg(2), ctx.arg(3));
    let is_name = option.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !option.eq_ignore_ascii_case(b"lib-ver") {
        return Err(Error::text([b"ERR Unrecognized option '", option, b"'"].concat()));
    }
    if !is_printable(value) {
        let why = b" cannot contain spaces, newlines or special characters.";
        return Err(Error::text([b"ERR ", option, &why[..]].concat()));
    }
    let mut texts = ctx.session.client.texts();
    let field = if is_name { &mut texts.lib_name } else { &mut texts.lib_version };
    *field = value.to_vec();
    drop(texts);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// The kind of connection that a word means (TYPE of LIST and KILL).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    /// With subscriptions.
    PubSub,
    /// Connections of replication: there are none.
    Replication,
}

impl Kind {
    fn of(client: &Client) -> Kind {
        if client.subscriptions() > 0 { Kind::PubSub } else { Kind::Normal }
    }
}

fn kind(word: &[u8]) -> Result<Kind, Error> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if is("normal") {
        return Ok(Kind::Normal);
    }
    if is("pubsub") {
        return Ok(Kind::PubSub);
    }
    if ["slave", "replica", "master"].into_iter().any(is) {
        return Ok(Kind::Replication);
    }
    Err(Error::text([b"ERR Unknown client type '", word, b"'"].concat()))
}

fn info(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mut text = line::own_line(ctx);
    text.push(b'\n');
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

fn list(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mut text = Vec::new();
    if ctx.args.len() == 4 && ctx.is(2, "TYPE") {
        let wanted = kind(ctx.arg(3))?;
        line::lines_of(ctx, |client| Kind::of(client) == wanted, &mut text);
    } else if ctx.args.len() > 3 && ctx.is(2, "ID") {
        for id in ctx.args.iter().skip(3) {
            let id = keyspace::canonical_int(id).ok_or(Error::new("ERR Invalid client ID"))?;
            line::line_of(ctx, id, &mut text);
        }
    } else if ctx.args.len() == 2 {
        line::lines_of(ctx, |_| true, &mut text);
    } else {
        return Err(Error::SYNTAX);
    }
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

/// ON or OFF at argument 2.
fn on_or_off(ctx: &SessionCtx<'_>) -> Result<bool, Error> {
    match (ctx.is(2, "ON"), ctx.is(2, "OFF")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(Error::SYNTAX),
    }
}

fn reply(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.is(2, "ON") {
        ctx.session.replies = Replies::On;
        ctx.reply().ok();
    } else if ctx.is(2, "OFF") {
        ctx.session.replies = Replies::Off;
    } else if ctx.is(2, "SKIP") {
        if ctx.session.replies != Replies::Off {
            ctx.session.replies = Replies::SkipNext;
        }
    } else {
        return Err(Error::SYNTAX);
    }
    Ok(Flow::Done)
}

fn no_evict(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = on_or_off(ctx)?;
    ctx.session.client.no_evict.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// A client says that it follows redirections to a primary. There are none, so nothing is remembered.
fn capa(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn no_touch(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let on = on_or_off(ctx)?;
    ctx.session.no_touch = on;
    ctx.session.client.no_touch.store(on, Relaxed);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Redis checks the number of these arguments itself, with this text.
fn too_many(subcommand: &str) -> Error {
    Error::text(format!("ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try CLIENT HELP."))
}

fn unblock(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let with_error = match ctx.args.get(3) {
        None => false,
        Some(_) if ctx.args.len() > 4 => return Err(too_many("unblock")),
        Some(word) if word.eq_ignore_ascii_case(b"timeout") => false,
        Some(word) if word.eq_ignore_ascii_case(b"error") => true,
        Some(_) => return Err(Error::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = ctx.int(2)?;
    let target = u64::try_from(id).ok().and_then(|id| ctx.node.clients().get(&id).cloned());
    if let Some(client) = target.as_ref().filter(|client| client.waits_elsewhere.load(Relaxed))
        && ctx.block.is_none()
    {
        let (question, verdict) = Question::new();
        let message = Message::UnblockElsewhere { token: client.token.load(Relaxed), with_error, question };
        ctx.node.send(usize::from(client.worker.load(Relaxed)), message);
        return Ok(Flow::Verdict(verdict));
    }
    let wait = target.as_ref().and_then(|client| client.seat.interrupt());
    let blocked = wait.is_some();
    if let Some((client, wait)) = target.zip(wait) {
        let message = Message::Unblock { token: client.token.load(Relaxed), wait, with_error };
        ctx.node.send(usize::from(client.worker.load(Relaxed)), message);
    }
    ctx.reply().integer(i64::from(blocked));
    Ok(Flow::Done)
}

//! XGROUP.

use object::Stream;
use object::stream::{Group, Id};

use super::effect::{CONSUMER_GONE, GROUP, GROUP_GONE, POSITION};
use super::read::enrolled;
use super::{id, no_group, now, subcommand_syntax};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::help::write_help;
use crate::notify::class;

const NO_KEY: Error = Error::new(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to \
     create an empty stream automatically.",
);

/// MKSTREAM and ENTRIESREAD.
struct Options {
    create: bool,
    entries_read: i64,
}

impl Options {
    /// ENTRIESREAD, bounded by the stream: no group has read more than was ever added.
    fn entries_read_of(&self, stream: Option<&Stream>) -> i64 {
        let added = stream.map_or(0, |stream| stream.log.marks().added);
        self.entries_read.min(i64::try_from(added).unwrap_or(i64::MAX))
    }
}

fn parse(ctx: &Ctx<'_>, may_create: bool) -> Result<Options, Error> {
    let mut options = Options { create: false, entries_read: -1 };
    let mut i = 5;
    while i < ctx.args.len() {
        if may_create && ctx.is(i, "mkstream") {
            options.create = true;
            i += 1;
        } else if ctx.is(i, "entriesread") && i + 1 < ctx.args.len() {
            options.entries_read = ctx.int(i + 1)?;
            if options.entries_read < -1 {
                return Err(Error::new("ERR value for ENTRIESREAD must be positive or -1"));
            }
            i += 2;
        } else {
            return Err(subcommand_syntax(ctx, "XGROUP"));
        }
    }
    Ok(options)
}

pub(super) fn create(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, true)?;
    let key = ctx.key(2);
    let stream = ctx.db.peek(&key).map(|entry| entry.collection::<Stream>()).transpose()?;
    if stream.is_none() && !options.create {
        return Err(NO_KEY);
    }
    if ctx.args.len() > 8 {
        return Err(subcommand_syntax(ctx, "XGROUP"));
    }
    let name = ctx.arg(3);
    let last = match ctx.arg(4) {
        b"$" => stream.map_or(Id::MIN, |stream| stream.log.marks().last),
        text => id::parse(text, 0)?,
    };
    if stream.is_some_and(|stream| stream.groups.get(name).is_some()) {
        return Err(Error::new("BUSYGROUP Consumer Group name already exists"));
    }
    let entries_read = options.entries_read_of(stream);
    let stream = ctx.db.stream_or_create(&key)?;
    stream.groups.create(name, Group::new(last, entries_read));
    ctx.effect(GROUP, &key, |w| {
        w.bytes(name);
        w.id(last);
        w.int(entries_read);
    });
    ctx.out.ok();
    ctx.notify(class::STREAM, "xgroup-create", &key);
    Ok(Outcome::Done)
}

/// Calls `change` with the group of a subcommand that needs one.
fn with_group<R>(ctx: &mut Ctx<'_>, change: impl FnOnce(&mut Group) -> R) -> Result<R, Error> {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let entry = ctx.db.peek(&key).ok_or(NO_KEY)?;
    if entry.collection::<Stream>()?.groups.get(name).is_none() {
        return Err(no_group(key.bytes, name));
    }
    let stream = ctx.db.stream_mut(&key)?;
    let group = stream.and_then(|stream| stream.groups.get_mut(name)).ok_or(NO_KEY)?;
    Ok(change(group))
}

pub(super) fn setid(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, false)?;
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let stream = ctx.db.peek(&key).ok_or(NO_KEY)?.collection::<Stream>()?;
    if stream.groups.get(name).is_none() {
        return Err(no_group(key.bytes, name));
    }
    if !matches!(ctx.args.len(), 5 | 7) {
        return Err(subcommand_syntax(ctx, "XGROUP"));
    }
    let last = match ctx.arg(4) {
        b"$" => stream.log.marks().last,
        text => id::parse_or_end(text, 0)?,
    };
    let entries_read = options.entries_read_of(Some(stream));
    with_group(ctx, |group| (group.last, group.entries_read) = (last, entries_read))?;
    ctx.quiet_effect(POSITION, &key, |w| {
        w.bytes(name);
        w.id(last);
        w.int(entries_read);
    });
    ctx.out.ok();
    ctx.notify(class::STREAM, "xgroup-setid", &key);
    Ok(Outcome::Done)
}

pub(super) fn destroy(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let stream = ctx.db.peek(&key).ok_or(NO_KEY)?.collection::<Stream>()?;
    let there = stream.groups.get(name).is_some();
    if there {
        if let Some(stream) = ctx.db.stream_mut(&key)? {
            stream.groups.destroy(name);
        }
        // Clients that wait for the group are told that it is gone.
        ctx.effect(GROUP_GONE, &key, |w| w.bytes(name));
        ctx.notify(class::STREAM, "xgroup-destroy", &key);
    }
    ctx.out.integer(i64::from(there));
    Ok(Outcome::Done)
}

pub(super) fn createconsumer(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (time, name) = (now(ctx), ctx.arg(4));
    let (_, new) = with_group(ctx, |group| group.enroll(name, time))?;
    if new {
        let (key, group) = (ctx.key(2), ctx.arg(3));
        enrolled(ctx, &key, group, name);
    }
    ctx.out.integer(i64::from(new));
    Ok(Outcome::Done)
}

pub(super) fn delconsumer(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let name = ctx.arg(4);
    let pending = with_group(ctx, |group| group.dismiss(name))?;
    if pending.is_some() {
        let (key, group) = (ctx.key(2), ctx.arg(3));
        ctx.quiet_effect(CONSUMER_GONE, &key, |w| {
            w.bytes(group);
            w.bytes(name);
        });
        ctx.notify(class::STREAM, "xgroup-delconsumer", &key);
    }
    ctx.out.count(pending.unwrap_or(0));
    Ok(Outcome::Done)
}

pub(super) fn help(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    write_help(
        &mut ctx.out,
        "XGROUP",
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
    );
    Ok(Outcome::Done)
}

//! XINFO.

use object::Stream;
use object::stream::{Group, Id};
use resp::Reply;

use super::range::write_entries;
use super::{no_group, now, subcommand_syntax, write_entry, write_id};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::help::write_help;

pub(super) fn stream(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    let stream = ctx.db.read_as::<Stream>(&key)?.ok_or(Error::NO_SUCH_KEY)?;
    let argc = ctx.args.len();
    let full = argc > 3;
    if full && (!matches!(argc, 4 | 6) || !ctx.is(3, "full") || argc == 6 && !ctx.is(4, "count")) {
        return Err(subcommand_syntax(ctx, "XINFO"));
    }
    let count = match argc {
        6 => match ctx.int(5)? {
            ..0 => 10,
            0 => usize::MAX,
            count => count as usize,
        },
        _ => 10,
    };
    let marks = stream.log.marks();
    let out = &mut ctx.out;
    out.map(if full { 9 } else { 10 });
    number(out, "length", marks.len as i64);
    // Redis's tree of nodes has one more for what their IDs have in common.
    number(out, "radix-tree-keys", stream.log.nodes() as i64);
    number(out, "radix-tree-nodes", stream.log.nodes() as i64 + 1);
    for (name, id) in [("last-generated-id", marks.last), ("max-deleted-entry-id", marks.max_deleted)] {
        out.bulk(name);
        write_id(out, id);
    }
    number(out, "entries-added", marks.added as i64);
    out.bulk("recorded-first-entry-id");
    write_id(out, marks.first);
    if full {
        out.bulk("entries");
        write_entries(out, stream.log.range(Id::MIN, Id::MAX).take(count));
        out.bulk("groups");
        out.array(stream.groups.len());
        stream.groups.iter().for_each(|(name, group)| write_group(out, stream, name, group, count));
        return Ok(Outcome::Done);
    }
    number(out, "groups", stream.groups.len() as i64);
    let first = stream.log.range(Id::MIN, Id::MAX).next();
    let last = stream.log.range_back(Id::MIN, Id::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        out.bulk(name);
        match entry {
            Some(entry) => write_entry(out, &entry),
            None => out.null(),
        }
    }
    Ok(Outcome::Done)
}

fn number(out: &mut Reply<'_>, name: &str, n: i64) {
    out.bulk(name);
    out.integer(n);
}

fn position(out: &mut Reply<'_>, stream: &Stream, group: &Group) {
    out.bulk("last-delivered-id");
    write_id(out, group.last);
    let read = Some(group.entries_read).filter(|read| *read != -1);
    for (name, n) in [("entries-read", read), ("lag", group.lag(&stream.log.marks()))] {
        out.bulk(name);
        match n {
            Some(n) => out.integer(n),
            None => out.null(),
        }
    }
}

fn write_group(out: &mut Reply<'_>, stream: &Stream, name: &[u8], group: &Group, count: usize) {
    out.map(8);
    out.bulk("name");
    out.bulk(name);
    position(out, stream, group);
    number(out, "pel-count", group.pending_len() as i64);
    number(out, "nacked-count", group.released_len() as i64);
    out.bulk("pending");
    out.array(count.min(group.pending_len() as usize));
    for delivery in group.pending_from(Id::MIN).take(count) {
        out.array(4);
        write_id(out, delivery.id);
        out.bulk(group.name(delivery.consumer));
        out.integer(delivery.time);
        out.integer(delivery.count as i64);
    }
    out.bulk("consumers");
    out.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        out.map(5);
        out.bulk("name");
        out.bulk(&consumer.name);
        number(out, "seen-time", consumer.seen);
        number(out, "active-time", consumer.active);
        number(out, "pel-count", consumer.pending_len() as i64);
        out.bulk("pending");
        out.array(count.min(consumer.pending_len() as usize));
        for id in consumer.pending_from(Id::MIN).take(count) {
            out.array(3);
            write_id(out, id);
            let delivery = group.delivery(id);
            out.integer(delivery.map_or(0, |delivery| delivery.time));
            out.integer(delivery.map_or(0, |delivery| delivery.count as i64));
        }
    }
}

pub(super) fn groups(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    let stream = ctx.db.read_as::<Stream>(&key)?.ok_or(Error::NO_SUCH_KEY)?;
    let out = &mut ctx.out;
    out.array(stream.groups.len());
    for (name, group) in stream.groups.iter() {
        out.map(6);
        out.bulk("name");
        out.bulk(name);
        number(out, "consumers", group.consumer_count() as i64);
        number(out, "pending", group.pending_len() as i64);
        position(out, stream, group);
    }
    Ok(Outcome::Done)
}

pub(super) fn consumers(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name, time) = (ctx.key(2), ctx.arg(3), now(ctx));
    let stream = ctx.db.read_as::<Stream>(&key)?.ok_or(Error::NO_SUCH_KEY)?;
    let group = stream.groups.get(name).ok_or_else(|| no_group(key.bytes, name))?;
    let out = &mut ctx.out;
    out.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        out.map(4);
        out.bulk("name");
        out.bulk(&consumer.name);
        number(out, "pending", consumer.pending_len() as i64);
        number(out, "idle", time.wrapping_sub(consumer.seen).max(0));
        number(out, "inactive", if consumer.active == -1 { -1 } else { time.wrapping_sub(consumer.active) });
    }
    Ok(Outcome::Done)
}

pub(super) fn help(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    write_help(
        &mut ctx.out,
        "XINFO",
        &[
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    );
    Ok(Outcome::Done)
}

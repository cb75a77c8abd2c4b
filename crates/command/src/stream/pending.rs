//! XACK and XPENDING.

use object::Stream;
use object::stream::{Delivery, Group, Id};

use super::effect::ACKNOWLEDGE;
use super::{id, ids, no_key_or_group, now, write_id};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

pub(super) fn xack(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let stream = ctx.db.read_as::<Stream>(&key)?;
    if stream.is_none_or(|stream| stream.groups.get(name).is_none()) {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }
    let mut ids = ids(ctx, 3)?;
    ctx.db.edit::<Stream, _>(&key, |stream| {
        match stream.groups.get_mut(name) {
            Some(group) => ids.retain(|id| group.acknowledge(*id)),
            None => ids.clear(),
        }
        (!ids.is_empty(), ())
    })?;
    ctx.out.count(ids.len() as u64);
    acknowledged(ctx, name, &ids);
    Ok(Outcome::Done)
}

/// The steps after entries of the key at argument 1 are no longer pending.
pub(super) fn acknowledged(ctx: &mut Ctx<'_>, group: &[u8], ids: &[Id]) {
    if !ids.is_empty() {
        let key = ctx.key(1);
        ctx.fx.dirty += ids.len() as u64 - 1;
        ctx.quiet_effect(ACKNOWLEDGE, &key, |w| {
            w.bytes(group);
            w.ids(ids);
        });
    }
}

/// The arguments of the longer form of XPENDING.
struct Filter<'a> {
    min_idle: i64,
    start: Id,
    end: Id,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn parse<'a>(ctx: &Ctx<'a>) -> Result<Option<Filter<'a>>, Error> {
    let argc = ctx.args.len();
    if argc == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&argc) {
        return Err(Error::SYNTAX);
    }
    let (mut at, mut min_idle) = (3, 0);
    if ctx.is(3, "idle") {
        min_idle = ctx.int(4)?;
        if argc < 8 {
            return Err(Error::SYNTAX);
        }
        at += 2;
    }
    let count = ctx.int(at + 2)?.max(0) as usize;
    let (start, end) = (id::parse_start(ctx.arg(at))?, id::parse_end(ctx.arg(at + 1))?);
    Ok(Some(Filter { min_idle, start, end, count, consumer: ctx.args.get(at + 3) }))
}

pub(super) fn xpending(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let filter = parse(ctx)?;
    let (key, name, time) = (ctx.key(1), ctx.arg(2), now(ctx));
    let group = ctx.db.read_as::<Stream>(&key)?.and_then(|stream| stream.groups.get(name));
    let group = group.ok_or_else(|| no_key_or_group(key.bytes, name))?;
    let out = &mut ctx.out;
    let Some(filter) = filter else {
        out.array(4);
        out.count(group.pending_len());
        match group.pending_ends() {
            Some((first, last)) => {
                write_id(out, first);
                write_id(out, last);
                let array = out.deferred_array();
                let owners = group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0);
                let mut count = 0;
                for (_, consumer) in owners {
                    out.array(2);
                    out.bulk(&consumer.name);
                    out.bulk_integer(consumer.pending_len() as i64);
                    count += 1;
                }
                out.finish(array, count);
            }
            None => {
                out.null();
                out.null();
                out.null_array();
            }
        }
        return Ok(Outcome::Done);
    };
    let array = out.deferred_array();
    let mut count = 0;
    each_pending(group, &filter, time, |delivery| {
        out.array(4);
        write_id(out, delivery.id);
        out.bulk(group.name(delivery.consumer));
        out.integer(if delivery.is_released() { -1 } else { time.wrapping_sub(delivery.time).max(0) });
        out.integer(delivery.count as i64);
        count += 1;
    });
    out.finish(array, count);
    Ok(Outcome::Done)
}

fn each_pending(group: &Group, filter: &Filter<'_>, time: i64, found: impl FnMut(Delivery)) {
    let within = |id: Id| id <= filter.end;
    let idle = |delivery: &Delivery| {
        filter.min_idle == 0 || delivery.is_released() || time.wrapping_sub(delivery.time) >= filter.min_idle
    };
    match filter.consumer {
        None => {
            let all = group.pending_from(filter.start).take_while(|delivery| within(delivery.id));
            all.filter(idle).take(filter.count).for_each(found);
        }
        Some(name) => {
            let Some(consumer) = group.find(name).and_then(|member| group.consumer(member)) else { return };
            let own = consumer.pending_from(filter.start).take_while(|id| within(*id));
            own.filter_map(|id| group.delivery(id)).filter(idle).take(filter.count).for_each(found);
        }
    }
}

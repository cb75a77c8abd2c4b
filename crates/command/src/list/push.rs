//! LPUSH, RPUSH, LPUSHX, RPUSHX.

use super::effect::{PUSH, end_byte};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;
use keyspace::Key;
use object::List;
use object::list::End;

pub(super) fn lpush(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    push(ctx, End::Front, false)
}

pub(super) fn rpush(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    push(ctx, End::Back, false)
}

pub(super) fn lpushx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    push(ctx, End::Front, true)
}

pub(super) fn rpushx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    push(ctx, End::Back, true)
}

fn push(ctx: &mut Ctx<'_>, end: End, only_if_present: bool) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    if only_if_present && ctx.db.peek(&key).is_none() {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }
    let args = ctx.args;
    let items = (2..args.len()).map(move |i| args.get(i).unwrap_or_default());
    let len = push_items(ctx, &key, end, items)?;
    ctx.out.count(len);
    Ok(Outcome::Done)
}

/// Pushes items one after the other, with effect and notification. Returns the length afterwards.
pub(super) fn push_items<'i, I>(ctx: &mut Ctx<'_>, key: &Key<'_>, end: End, items: I) -> Result<u64, Error>
where
    I: ExactSizeIterator<Item = &'i [u8]> + Clone,
{
    let mut list = ctx.db.get_or_create::<List>(key)?;
    list.push_all(end, items.clone(), &ctx.tunables.limits);
    let len = list.len();
    drop(list);
    // Redis counts elements as changes; one is counted with the effect.
    ctx.fx.dirty += items.len() as u64 - 1;
    ctx.effect(PUSH, key, |w| {
        w.u8(end_byte(end));
        w.varint(items.len() as u64);
        items.for_each(|item| w.bytes(item));
    });
    let event = if end == End::Front { "lpush" } else { "rpush" };
    ctx.notify(class::LIST, event, key);
    Ok(len)
}

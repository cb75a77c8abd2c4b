//! LMOVE, RPOPLPUSH.

use super::end_at;
use super::pop::popped;
use super::push::push_items;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use object::List;
use object::list::End;
use smallvec::SmallVec;

pub(super) fn lmove(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (from, to) = (end_at(ctx, 3)?, end_at(ctx, 4)?);
    if !transfer(ctx, from, to)? {
        ctx.out.null();
    }
    Ok(Outcome::Done)
}

pub(super) fn rpoplpush(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if !transfer(ctx, End::Back, End::Front)? {
        ctx.out.null();
    }
    Ok(Outcome::Done)
}

/// Moves an element from the list at argument 1 to the one at argument 2 and replies with it. False, and nothing is
/// written: there is no source.
pub(super) fn transfer(ctx: &mut Ctx<'_>, from: End, to: End) -> Result<bool, Error> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    match ctx.db.peek(&source) {
        Some(entry) => entry.collection::<List>()?,
        None => return Ok(false),
    };
    if let Some(entry) = ctx.db.peek(&destination) {
        entry.collection::<List>()?;
    }
    let Some(list) = ctx.db.get_mut::<List>(&source)? else { return Ok(false) };
    let popped_elem = list.pop(from, &ctx.tunables.limits, |elem| {
        let mut item = SmallVec::<[u8; 128]>::new();
        item.extend_from_slice(elem.as_bytes(&mut itoa::Buffer::new()));
        item
    });
    let Some(item) = popped_elem else { return Ok(false) };
    // A list whose only element moves from it to itself stays.
    let emptied = list.is_empty() && source.bytes != destination.bytes;
    push_items(ctx, &destination, to, std::iter::once(item.as_slice()))?;
    popped(ctx, &source, from, 1, emptied);
    // Redis counts a move as one change.
    ctx.fx.dirty -= 1;
    ctx.out.bulk(&item);
    Ok(true)
}

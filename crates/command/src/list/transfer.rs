//! LMOVE, LMOVEM, RPOPLPUSH.

use super::effect::{POP, end_byte};
use super::pop::popped;
use super::push::push_items;
use super::{end_at, write_elem};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;
use object::List;
use object::block::Elem;
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
    let Some(mut list) = ctx.db.get_mut::<List>(&source)? else { return Ok(false) };
    let popped_elem = list.pop(from, &ctx.tunables.limits, |elem| {
        let mut item = SmallVec::<[u8; 128]>::new();
        item.extend_from_slice(elem.as_bytes(&mut itoa::Buffer::new()));
        item
    });
    let Some(item) = popped_elem else { return Ok(false) };
    // A list whose only element moves from it to itself stays.
    let emptied = list.is_empty() && source.bytes != destination.bytes;
    drop(list);
    push_items(ctx, &destination, to, std::iter::once(item.as_slice()))?;
    popped(ctx, &source, from, 1, emptied);
    // Redis counts a move as one change.
    ctx.fx.dirty -= 1;
    ctx.out.bulk(&item);
    Ok(true)
}

/// The arguments of LMOVEM and BLMOVEM.
#[derive(Clone, Copy)]
pub(super) struct Several {
    from: End,
    to: End,
    count: u64,
    /// All of them or none.
    pub exactly: bool,
    /// One after the other: later elements lie nearer to the end.
    one_by_one: bool,
}

impl Several {
    /// Reads `<LEFT | RIGHT> <LEFT | RIGHT>` from argument 3 on, and from `options_at` on how many and in which order.
    pub(super) fn parse(ctx: &Ctx<'_>, options_at: usize) -> Result<Self, Error> {
        let (from, to) = (end_at(ctx, 3)?, end_at(ctx, 4)?);
        let one = Several { from, to, count: 1, exactly: false, one_by_one: false };
        let exactly = match ctx.args.len() - options_at {
            0 => return Ok(one),
            3 if ctx.is(options_at, "count") => false,
            3 if ctx.is(options_at, "exactly") => true,
            _ => return Err(Error::SYNTAX),
        };
        let count = ctx.at_least(options_at + 1, 1, Error::new("ERR count should be greater than 0"))?;
        let one_by_one = match options_at + 2 {
            i if ctx.is(i, "obo") => true,
            i if ctx.is(i, "bulk") => false,
            _ => return Err(Error::SYNTAX),
        };
        Ok(Several { count, exactly, one_by_one, ..one })
    }
}

pub(super) fn lmovem(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let what = Several::parse(ctx, 5)?;
    if !transfer_several(ctx, what)? {
        match what.exactly {
            true => ctx.out.null_array(),
            false => ctx.out.array(0),
        }
    }
    Ok(Outcome::Done)
}

/// Moves elements from the list at argument 1 to the one at argument 2 and replies with them in the order in which they
/// lie there. False, and nothing is written: there are too few.
pub(super) fn transfer_several(ctx: &mut Ctx<'_>, what: Several) -> Result<bool, Error> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let Some(list) = ctx.db.peek(&source).map(|entry| entry.collection::<List>()).transpose()? else {
        return Ok(false);
    };
    if what.exactly && list.len() < what.count {
        return Ok(false);
    }
    if let Some(entry) = ctx.db.peek(&destination) {
        entry.collection::<List>()?;
    }
    let count = what.count.min(list.len());
    let start = if what.from == End::Front { 0 } else { list.len() - count };
    let bytes: usize = list.range(start, count).map(|elem| elem.as_bytes(&mut itoa::Buffer::new()).len()).sum();
    // The elements between the lists, in the reply, in their new place, and in the log.
    if !headroom::has_room(4 * bytes, bytes) {
        return Err(Error::OOM);
    }
    let mut items: Vec<SmallVec<[u8; 24]>> =
        list.range(start, count).map(|elem| SmallVec::from_slice(elem.as_bytes(&mut itoa::Buffer::new()))).collect();
    if what.one_by_one && what.from == what.to {
        items.reverse();
    }
    ctx.out.array(items.len());
    items.iter().for_each(|item| write_elem(&mut ctx.out, Elem::Bytes(item)));
    if ctx.out.is_refused() {
        return Err(Error::OOM);
    }
    if what.to == End::Front {
        // They are pushed one after the other.
        items.reverse();
    }
    put_over(ctx, what, count, &items)?;
    Ok(true)
}

/// Takes `count` elements from one list and pushes `items` to the other, with effects and notifications.
fn put_over(ctx: &mut Ctx<'_>, what: Several, count: u64, items: &[SmallVec<[u8; 24]>]) -> Result<(), Error> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let Some(mut list) = ctx.db.get_mut::<List>(&source)? else { return Ok(()) };
    list.drop_end(what.from, count, &ctx.tunables.limits);
    let (same, emptied) = (source.bytes == destination.bytes, list.is_empty());
    drop(list);
    if same {
        ctx.effect(POP, &source, |w| {
            w.u8(end_byte(what.from));
            w.varint(count);
        });
    }
    push_items(ctx, &destination, what.to, items.iter().map(|item| item.as_slice()))?;
    if same {
        ctx.notify(class::LIST, if what.from == End::Front { "lpop" } else { "rpop" }, &source);
        ctx.fx.dirty -= 1;
    } else {
        popped(ctx, &source, what.from, count, emptied);
        ctx.fx.dirty -= count;
    }
    Ok(())
}

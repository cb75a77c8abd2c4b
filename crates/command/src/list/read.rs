//! LLEN, LINDEX, LRANGE, LPOS.

use super::{index_of, range_of, write_elem};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::rest::{Rest, is_long, write_step};
use object::List;
use object::block::Needle;
use resp::Reply;
use std::ops::Range;

pub(super) fn llen(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let len = ctx.db.read_as::<List>(&key)?.map_or(0, List::len);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn lindex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let Some(list) = ctx.db.read_as::<List>(&key)? else {
        ctx.out.null();
        return Ok(Outcome::Done);
    };
    let index = index_of(ctx.int(2)?, list.len());
    match index.and_then(|index| list.get(index)) {
        Some(elem) => write_elem(&mut ctx.out, elem),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn lrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let Some(list) = ctx.db.read_as::<List>(&key)? else {
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    let range = range_of(start, stop, list.len());
    Ok(show(&mut ctx.out, list, range))
}

/// Answers the elements at these indices.
pub(crate) fn show(out: &mut Reply<'_>, list: &List, range: Range<u64>) -> Outcome {
    let count = range.end - range.start;
    out.array(count as usize);
    if is_long(count, list.len(), list.memory()) {
        let (list, mut left) = (list.clone(), range);
        return Outcome::Rest(Rest::new(move |out| {
            let (written, done) = write_step(out, list.range(left.start, left.end - left.start), write_elem);
            left.start += written;
            !done
        }));
    }
    list.range(range.start, count).for_each(|elem| write_elem(out, elem));
    Outcome::Done
}

/// The options of LPOS.
struct Search {
    /// The first match to be returned, counted from 1.
    rank: u64,
    backwards: bool,
    /// How many matches to return, 0 for all; `None`: one, not in an array.
    count: Option<u64>,
    /// How many elements to compare, 0 for all.
    len_max: u64,
}

fn parse_lpos(ctx: &Ctx<'_>) -> Result<Search, Error> {
    const RANK_ZERO: Error = Error::new(
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list",
    );
    let mut search = Search { rank: 1, backwards: false, count: None, len_max: 0 };
    let mut i = 3;
    while i < ctx.args.len() {
        if i + 1 == ctx.args.len() {
            return Err(Error::SYNTAX);
        }
        if ctx.is(i, "rank") {
            let rank = ctx.negatable(i + 1)?;
            if rank == 0 {
                return Err(RANK_ZERO);
            }
            search.rank = rank.unsigned_abs();
            search.backwards = rank < 0;
        } else if ctx.is(i, "count") {
            search.count = Some(ctx.at_least(i + 1, 0, Error::new("ERR COUNT can't be negative"))?);
        } else if ctx.is(i, "maxlen") {
            search.len_max = ctx.at_least(i + 1, 0, Error::new("ERR MAXLEN can't be negative"))?;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 2;
    }
    Ok(search)
}

pub(super) fn lpos(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let search = parse_lpos(ctx)?;
    let key = ctx.key(1);
    let Some(list) = ctx.db.read_as::<List>(&key)? else {
        match search.count {
            Some(_) => ctx.out.array(0),
            None => ctx.out.null(),
        }
        return Ok(Outcome::Done);
    };
    let needle = Needle::new(ctx.arg(2));
    let len = list.len();
    let looked_at = if search.len_max == 0 { len } else { search.len_max };
    let elems = if search.backwards { list.range_back(len, looked_at) } else { list.range(0, looked_at) };
    let at = |i: usize| if search.backwards { len - 1 - i as u64 } else { i as u64 };
    let skipped = usize::try_from(search.rank - 1).unwrap_or(usize::MAX);
    let mut matches = elems.enumerate().filter(|(_, elem)| elem.is(&needle)).skip(skipped).map(|(i, _)| at(i));
    let Some(count) = search.count else {
        match matches.next() {
            Some(index) => ctx.out.count(index),
            None => ctx.out.null(),
        }
        return Ok(Outcome::Done);
    };
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let array = ctx.out.deferred_array();
    let mut found = 0;
    for index in matches.take(most) {
        ctx.out.count(index);
        found += 1;
    }
    ctx.out.finish(array, found);
    Ok(Outcome::Done)
}

//! HRANDFIELD.

use object::Hash;
use object::hash::Field;

use super::reclaim;
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::sample::{self, Sieve};

/// Fields of a hash up to this number are walked rather than looked up by rank one by one.
const WALKED_MAX: u64 = 128;

pub(super) fn hrandfield(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let count = if ctx.args.len() > 2 { Some(ctx.negatable(2)?) } else { None };
    let with_values = ctx.args.len() == 4 && ctx.is(3, "withvalues");
    if ctx.args.len() > 4 || (ctx.args.len() == 4 && !with_values) {
        return Err(Error::SYNTAX);
    }
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(Error::new("ERR value is out of range"));
    }
    let (key, now) = (ctx.key(1), ctx.now);
    // Ranks count expired fields too: they have to go first.
    let expired = ctx.db.read_as::<Hash>(&key)?.and_then(Hash::next_expiry).is_some_and(|next| next < now);
    if expired && !ctx.only_reads {
        reclaim(&mut ctx.db, &key, now, usize::MAX, ctx.fx, ctx.events);
    }
    let mut hash = ctx.db.peek(&key).map(|entry| entry.collection::<Hash>()).transpose()?;
    let without;
    if expired && ctx.only_reads {
        // A copy shares the leaves that do not change.
        let mut copy = hash.cloned().unwrap_or_default();
        copy.reclaim(now, usize::MAX, |_| {});
        without = copy;
        hash = Some(&without).filter(|copy| !copy.is_empty());
    }
    let len = hash.map_or(0, Hash::len);
    let Some(hash) = hash.filter(|_| count != Some(0)) else {
        match count {
            Some(_) => ctx.out.array(0),
            None => ctx.out.null(),
        }
        return Ok(Outcome::Done);
    };
    let Some(count) = count else {
        if let Some(field) = hash.nth(ctx.rng.below(len)) {
            bulk(&mut ctx.out, field.name);
        }
        return Ok(Outcome::Done);
    };
    let number = if count < 0 { count.unsigned_abs() } else { len.min(count as u64) };
    let (pairs, start) = (ctx.out.is_resp3(), ctx.out.written());
    ctx.out.array(number as usize * if with_values && !pairs { 2 } else { 1 });
    let out = &mut ctx.out;
    let mut show = |field: Field<'_>| {
        if with_values && pairs {
            out.array(2);
        }
        bulk(out, field.name);
        if with_values {
            bulk(out, field.value);
        }
        out.written()
    };
    if count < 0 {
        let walked: Vec<Field<'_>> = if len <= WALKED_MAX { hash.fields().collect() } else { Vec::new() };
        for _ in 0..number {
            let rank = ctx.rng.below(len);
            let field = walked.get(rank as usize).copied().or_else(|| hash.nth(rank));
            sample::check_size(field.map_or(start, &mut show), start)?;
        }
    } else if len <= WALKED_MAX || number > len / 4 {
        let mut sieve = Sieve::new(len, number);
        hash.fields().filter(|_| sieve.next(ctx.rng)).for_each(|field| _ = show(field));
    } else {
        for rank in sample::distinct(ctx.rng, len, number) {
            hash.nth(rank).map(&mut show);
        }
    }
    Ok(Outcome::Done)
}

//! HGET, HMGET, HGETALL, HKEYS, HVALS, HLEN, HSTRLEN, HEXISTS, HSCAN.

use object::Hash;
use object::hash::Field;
use resp::Reply;

use super::LastField::Silent;
use super::drop_expired;
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::rest::{Rest, is_long, write_step};
use crate::scan_options::{ScanOptions, Scanned, element_cursor};

pub(super) fn hget(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let found = ctx.db.read_as::<Hash>(&key)?.and_then(|hash| hash.find(name));
    match found {
        Some(field) if field.expired(ctx.now) => {
            ctx.out.null();
            drop_expired(ctx, &key, std::iter::once(name), Silent);
        }
        Some(field) => bulk(&mut ctx.out, field.value),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn hmget(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, names) = (ctx.key(1), ctx.args.iter().skip(2));
    let hash = ctx.db.read_as::<Hash>(&key)?;
    ctx.out.array(names.len());
    let mut expired = false;
    for name in names.clone() {
        match hash.and_then(|hash| hash.find(name)) {
            Some(field) if !field.expired(ctx.now) => bulk(&mut ctx.out, field.value),
            found => {
                expired |= found.is_some();
                ctx.out.null();
            }
        }
    }
    if expired {
        drop_expired(ctx, &key, names, Silent);
    }
    Ok(Outcome::Done)
}

pub(super) fn hexists(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let found = ctx.db.read_as::<Hash>(&key)?.and_then(|hash| hash.find(name));
    let expired = found.is_some_and(|field| field.expired(ctx.now));
    ctx.out.integer(i64::from(found.is_some() && !expired));
    if expired {
        drop_expired(ctx, &key, std::iter::once(name), Silent);
    }
    Ok(Outcome::Done)
}

pub(super) fn hstrlen(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let found = ctx.db.read_as::<Hash>(&key)?.and_then(|hash| hash.find(name));
    let expired = found.is_some_and(|field| field.expired(ctx.now));
    ctx.out.count(found.filter(|_| !expired).map_or(0, |field| field.value.str_len() as u64));
    if expired {
        drop_expired(ctx, &key, std::iter::once(name), Silent);
    }
    Ok(Outcome::Done)
}

pub(super) fn hlen(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let len = ctx.db.read_as::<Hash>(&key)?.map_or(0, Hash::len);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

/// Replies with every field that has not expired: names, values or both.
fn every(ctx: &mut Ctx<'_>, names: bool, values: bool) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let hash = ctx.db.read_as::<Hash>(&key)?;
    let len = hash.map_or(0, |hash| hash.live_len(ctx.now)) as usize;
    if names && values {
        ctx.out.map(len);
    } else {
        ctx.out.array(len);
    }
    let now = ctx.now;
    let write = move |out: &mut Reply<'_>, Field { name, value, .. }: Field<'_>| {
        if names {
            bulk(out, name);
        }
        if values {
            bulk(out, value);
        }
    };
    let Some(hash) = hash else { return Ok(Outcome::Done) };
    if is_long(hash.len(), hash.len(), hash.memory()) {
        let (hash, mut at) = (hash.clone(), 0);
        return Ok(Outcome::Rest(Rest::new(move |out| {
            let (seen, done) = write_step(out, hash.fields_from(at), |out, field| {
                if !field.expired(now) {
                    write(out, field);
                }
            });
            at += seen;
            !done
        })));
    }
    hash.iter(now).for_each(|field| write(&mut ctx.out, field));
    Ok(Outcome::Done)
}

pub(super) fn hgetall(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    every(ctx, true, true)
}

pub(super) fn hkeys(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    every(ctx, true, false)
}

pub(super) fn hvals(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    every(ctx, false, true)
}

pub(super) fn hscan(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, cursor) = (ctx.key(1), element_cursor(ctx)?);
    let hash = ctx.db.read_as::<Hash>(&key)?;
    ctx.out.array(2);
    let Some(hash) = hash else {
        // Redis does not look at the options of a scan of nothing.
        ctx.out.bulk("0");
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    let options = ScanOptions::parse(ctx, 3, Scanned::Hash)?;
    let mut shown = Vec::new();
    let next = hash.scan(cursor, options.count, |field| {
        if !field.expired(ctx.now) && options.matches(field.name) {
            shown.push(field);
        }
    });
    ctx.out.bulk_integer(next as i64);
    ctx.out.array(shown.len() * if options.no_values { 1 } else { 2 });
    for field in shown {
        bulk(&mut ctx.out, field.name);
        if !options.no_values {
            bulk(&mut ctx.out, field.value);
        }
    }
    Ok(Outcome::Done)
}

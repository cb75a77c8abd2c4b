//! Members one by one: SADD, SREM, SISMEMBER, SMISMEMBER, SCARD, SMEMBERS, SMOVE, SSCAN.

use object::Set;
use object::hashed::RECORD_BYTES_MAX;
use resp::Reply;

use super::effect::{ADD, REMOVE};
use super::{add_all, delete, look};
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::notify::class;
use crate::rest::{Rest, is_long, write_step};
use crate::scan_options::{ScanOptions, Scanned, element_cursor};

/// Refuses a member that no set can hold (4 GB; `proto-max-bulk-len` is far below by default).
fn check_length(member: &[u8]) -> Result<(), Error> {
    if member.len() > RECORD_BYTES_MAX {
        return Err(Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

pub(super) fn sadd(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, members) = (ctx.key(1), ctx.args.iter().skip(2));
    members.clone().try_for_each(check_length)?;
    let added = add_all(&mut ctx.db, &key, members.clone(), &ctx.tunables.limits)?;
    if added > 0 {
        ctx.fx.dirty += added - 1;
        ctx.effect(ADD, &key, |w| members.for_each(|member| w.bytes(member)));
        ctx.notify(class::SET, "sadd", &key);
    }
    ctx.out.count(added);
    Ok(Outcome::Done)
}

pub(super) fn srem(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, members) = (ctx.key(1), ctx.args.iter().skip(2));
    let done = ctx.db.edit::<Set, _>(&key, |set| {
        let removed = members.clone().filter(|member| set.remove(member)).count() as u64;
        (removed > 0, (removed, set.is_empty()))
    })?;
    let (removed, empty) = done.unwrap_or_default();
    if removed > 0 {
        ctx.fx.dirty += removed - 1;
        ctx.notify(class::SET, "srem", &key);
        if empty {
            delete(ctx, &key);
        } else {
            ctx.effect(REMOVE, &key, |w| members.for_each(|member| w.bytes(member)));
        }
    }
    ctx.out.count(removed);
    Ok(Outcome::Done)
}

pub(super) fn smove(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (source, target, member) = (ctx.key(1), ctx.key(2), ctx.arg(3));
    let Some(set) = look(ctx, &source)? else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    let found = set.contains(member);
    look(ctx, &target)?;
    ctx.out.integer(i64::from(found));
    if !found || source.bytes == target.bytes {
        return Ok(Outcome::Done);
    }
    let Some(mut set) = ctx.db.get_mut::<Set>(&source)? else { return Ok(Outcome::Done) };
    set.remove(member);
    let empty = set.is_empty();
    drop(set);
    ctx.notify(class::SET, "srem", &source);
    if empty {
        delete(ctx, &source);
    } else {
        ctx.effect(REMOVE, &source, |w| w.bytes(member));
    }
    if add_all(&mut ctx.db, &target, std::iter::once(member), &ctx.tunables.limits)? > 0 {
        ctx.effect(ADD, &target, |w| w.bytes(member));
        ctx.notify(class::SET, "sadd", &target);
    }
    Ok(Outcome::Done)
}

pub(super) fn sismember(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let found = ctx.db.read_as::<Set>(&key)?.is_some_and(|set| set.contains(ctx.arg(2)));
    ctx.out.integer(i64::from(found));
    Ok(Outcome::Done)
}

pub(super) fn smismember(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, members) = (ctx.key(1), ctx.args.iter().skip(2));
    let set = ctx.db.read_as::<Set>(&key)?;
    ctx.out.array(members.len());
    for member in members {
        ctx.out.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(Outcome::Done)
}

pub(super) fn scard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let len = ctx.db.read_as::<Set>(&key)?.map_or(0, Set::len);
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn smembers(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let set = ctx.db.read_as::<Set>(&key)?;
    Ok(show_all(&mut ctx.out, set))
}

/// Answers all members.
pub(super) fn show_all(out: &mut Reply<'_>, set: Option<&Set>) -> Outcome {
    out.set(set.map_or(0, Set::len) as usize);
    if let Some(set) = set.filter(|set| is_long(set.len(), set.len(), set.memory())) {
        let (set, mut at) = (set.clone(), 0);
        return Outcome::Rest(Rest::new(move |out| {
            let (written, done) = write_step(out, set.iter_from(at), bulk);
            at += written;
            !done
        }));
    }
    for member in set.into_iter().flat_map(Set::iter) {
        bulk(out, member);
    }
    Outcome::Done
}

pub(super) fn sscan(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, cursor) = (ctx.key(1), element_cursor(ctx)?);
    let set = ctx.db.read_as::<Set>(&key)?;
    ctx.out.array(2);
    let Some(set) = set else {
        // Redis does not look at the options of a scan of nothing.
        ctx.out.bulk("0");
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    let options = ScanOptions::parse(ctx, 3, Scanned::Set)?;
    let mut shown = Vec::new();
    let next = set.scan(cursor, options.count, |member| {
        if options.matches(member) {
            shown.push(member);
        }
    });
    ctx.out.bulk_integer(next as i64);
    ctx.out.array(shown.len());
    shown.into_iter().for_each(|member| bulk(&mut ctx.out, member));
    Ok(Outcome::Done)
}

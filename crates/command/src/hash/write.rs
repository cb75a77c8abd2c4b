//! HSET, HMSET, HSETNX, HDEL.

use object::Hash;
use object::hash::Expiry;

use super::LastField::Silent;
use super::effect::{REMOVE, SET, write_all};
use super::{State, check_length, drop_expired, look, settle};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

/// Sets the fields that follow the key; returns how many are new.
fn set_fields(ctx: &mut Ctx<'_>, command: &str) -> Result<u64, Error> {
    let words = ctx.args.iter().skip(2);
    if words.len() % 2 == 1 {
        return Err(Error::arity(command));
    }
    let pairs = || words.clone().step_by(2).zip(words.clone().skip(1).step_by(2));
    pairs().try_for_each(|(name, value)| check_length(name, value))?;
    let (key, limits) = (ctx.key(1), &ctx.tunables.limits);
    let mut hash = ctx.db.get_or_create::<Hash>(&key)?;
    let before = State::of(&hash);
    hash.expect(words.len() / 2, limits);
    let created = pairs().filter(|(name, value)| hash.set(name, value, Expiry::Clear, limits)).count();
    let after = State::of(&hash);
    drop(hash);
    ctx.fx.dirty += (words.len() / 2) as u64 - 1;
    ctx.effect(SET, &key, |w| write_all(w, words.clone()));
    ctx.notify_fields("hset", &key, words.step_by(2));
    settle(ctx, &key, before, after);
    Ok(created as u64)
}

pub(super) fn hset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let created = set_fields(ctx, "hset")?;
    ctx.out.count(created);
    Ok(Outcome::Done)
}

pub(super) fn hmset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    set_fields(ctx, "hmset")?;
    ctx.out.ok();
    Ok(Outcome::Done)
}

pub(super) fn hsetnx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let now = ctx.now;
    match look(ctx, &key)?.and_then(|hash| hash.find(name)) {
        Some(field) if field.expired(now) => drop_expired(ctx, &key, std::iter::once(name), Silent),
        Some(_) => {
            ctx.out.integer(0);
            return Ok(Outcome::Done);
        }
        None => {}
    }
    set_fields(ctx, "hsetnx")?;
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

pub(super) fn hdel(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, names) = (ctx.key(1), ctx.args.iter().skip(2));
    let (names_fields, mut gone) = (ctx.events.names_fields(), Vec::new());
    let done = ctx.db.edit::<Hash, _>(&key, |hash| {
        let before = State::of(hash);
        let mut removed = 0;
        for name in names.clone() {
            if hash.remove(name) {
                removed += 1;
                gone.extend(names_fields.then_some(name));
            }
        }
        (removed > 0, (removed, before, State::of(hash)))
    })?;
    let Some((removed @ 1.., before, after)) = done else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    ctx.fx.dirty += removed - 1;
    if !after.empty {
        ctx.effect(REMOVE, &key, |w| write_all(w, names));
    }
    ctx.notify_fields("hdel", &key, gone.into_iter());
    settle(ctx, &key, before, after);
    ctx.out.count(removed);
    Ok(Outcome::Done)
}

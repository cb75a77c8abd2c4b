//! HINCRBY, HINCRBYFLOAT.

use object::Hash;
use object::block::Elem;
use object::hash::Expiry;
use object::long_double::LongDouble;
use object::number::parse_i64;

use super::LastField::Silent;
use super::effect::{SET_KEEPING, write_all};
use super::{State, check_length, drop_expired, look, settle};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

/// Replaces the value of a field by the result of `add`; its expiry stays. Returns the new value's text.
fn change(
    ctx: &mut Ctx<'_>,
    event: &'static str,
    add: impl FnOnce(Option<Elem<'_>>) -> Result<Vec<u8>, Error>,
) -> Result<Vec<u8>, Error> {
    let (key, name, now) = (ctx.key(1), ctx.arg(2), ctx.now);
    let found = look(ctx, &key)?.and_then(|hash| hash.find(name));
    let expired = found.is_some_and(|field| field.expired(now));
    let text = add(found.filter(|_| !expired).map(|field| field.value))?;
    check_length(name, &text)?;
    if expired {
        drop_expired(ctx, &key, std::iter::once(name), Silent);
    }
    let mut hash = ctx.db.get_or_create::<Hash>(&key)?;
    let before = State::of(&hash);
    hash.set(name, &text, Expiry::Keep, &ctx.tunables.limits);
    let after = State::of(&hash);
    drop(hash);
    ctx.effect(SET_KEEPING, &key, |w| write_all(w, [name, &text]));
    ctx.notify_fields(event, &key, std::iter::once(name));
    settle(ctx, &key, before, after);
    Ok(text)
}

pub(super) fn hincrby(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let increment = ctx.int(3)?;
    let mut sum = 0;
    change(ctx, "hincrby", |old| {
        let old = match old {
            None => 0,
            Some(Elem::Int(old)) => old,
            Some(Elem::Bytes(text)) => parse_i64(text).ok_or(Error::new("ERR hash value is not an integer"))?,
        };
        sum = old.checked_add(increment).ok_or(Error::new("ERR increment or decrement would overflow"))?;
        Ok(itoa::Buffer::new().format(sum).into())
    })?;
    ctx.out.integer(sum);
    Ok(Outcome::Done)
}

pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let increment = LongDouble::parse(ctx.arg(3)).ok_or(Error::NOT_FLOAT)?;
    if !increment.is_finite() {
        return Err(Error::new("ERR value is NaN or Infinity"));
    }
    let text = change(ctx, "hincrbyfloat", |old| {
        let old = match old {
            None => LongDouble::ZERO,
            Some(old) => LongDouble::parse(old.as_bytes(&mut itoa::Buffer::new()))
                .ok_or(Error::new("ERR hash value is not a float"))?,
        };
        let sum = old.checked_add(increment).map_err(|_| Error::new("ERR increment would produce NaN or Infinity"))?;
        let mut text = Vec::new();
        sum.write(&mut text);
        Ok(text)
    })?;
    ctx.out.bulk(text);
    Ok(Outcome::Done)
}

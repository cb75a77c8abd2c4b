//! Reading and writing with an expiry at once: HGETEX, HSETEX, HGETDEL.

use object::Hash;
use object::hash::Expiry;

use super::effect::{SET, SET_EXPIRING, SET_KEEPING, write_all};
use super::expire::{Change, From, POSITIVE_INTEGER, Unit, fields_at, time};
use super::{State, check_length, drop_expired, look, settle};
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::notify::class;

/// EX, PX, EXAT, PXAT.
const TIMES: [(&str, Unit, From); 4] = [
    ("ex", Unit::Seconds, From::Now),
    ("px", Unit::Milliseconds, From::Now),
    ("exat", Unit::Seconds, From::Epoch),
    ("pxat", Unit::Milliseconds, From::Epoch),
];

/// What HGETEX does to the fields it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Nothing,
    Expire(Option<u64>),
}

pub(super) fn hgetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    look(ctx, &key)?;
    let (then, options) = if let Some((_, unit, from)) = TIMES.into_iter().find(|(word, ..)| ctx.is(2, word)) {
        (Then::Expire(Some(time(ctx, 3, unit, from, "hgetex")?)), 4)
    } else if ctx.is(2, "persist") {
        (Then::Expire(None), 3)
    } else {
        (Then::Nothing, 2)
    };
    let names = ctx.args.iter().skip(fields_at(ctx, options, POSITIVE_INTEGER)?);
    ctx.out.array(names.len());
    let mut change = Change::new();
    let states = ctx.db.edit::<Hash, _>(&key, |hash| {
        let before = State::of(hash);
        for name in names.clone() {
            match hash.find(name) {
                None => ctx.out.null(),
                Some(field) if field.expired(now) => {
                    ctx.out.null();
                    hash.remove(name);
                    change.expired.push(name);
                }
                Some(field) => {
                    bulk(&mut ctx.out, field.value);
                    match then {
                        Then::Nothing => {}
                        Then::Expire(None) if field.expiry.is_none() => {}
                        Then::Expire(at) => _ = change.apply(hash, name, at, now),
                    }
                }
            }
        }
        (!change.is_empty(), [before, State::of(hash)])
    })?;
    match states {
        None => names.for_each(|_| ctx.out.null()),
        Some(states) if !change.is_empty() => {
            let (at, event) = match then {
                Then::Expire(Some(at)) => (Some(at), "hexpire"),
                _ => (None, "hpersist"),
            };
            change.conclude(ctx, &key, at, event, states);
        }
        Some(_) => {}
    }
    Ok(Outcome::Done)
}

pub(super) fn hgetdel(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    look(ctx, &key)?;
    let names = ctx.args.iter().skip(fields_at(ctx, 2, POSITIVE_INTEGER)?);
    ctx.out.array(names.len());
    let mut change = Change::new();
    let states = ctx.db.edit::<Hash, _>(&key, |hash| {
        let before = State::of(hash);
        for name in names.clone() {
            let Some(field) = hash.find(name) else {
                ctx.out.null();
                continue;
            };
            if field.expired(now) {
                ctx.out.null();
                change.expired.push(name);
            } else {
                bulk(&mut ctx.out, field.value);
                change.deleted.push(name);
            }
            hash.remove(name);
        }
        (!change.is_empty(), [before, State::of(hash)])
    })?;
    match states {
        None => names.for_each(|_| ctx.out.null()),
        Some(states) if !change.is_empty() => change.conclude(ctx, &key, None, "hdel", states),
        Some(_) => {}
    }
    Ok(Outcome::Done)
}

/// FNX, FXX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum If {
    NoneExists,
    AllExist,
}

/// The options of HSETEX.
struct Options {
    condition: Option<If>,
    expiry: Expiry,
    /// Position of the first name.
    first: usize,
}

fn hsetex_options(ctx: &Ctx<'_>) -> Result<Options, Error> {
    let (mut condition, mut expiry) = (None, None);
    let mut i = 2;
    while i < ctx.args.len() {
        if ctx.is(i, "fields") {
            let given = ctx.args.len().saturating_sub(i + 2);
            if given < 2 {
                return Err(Error::arity("hsetex"));
            }
            let count = ctx.at_least(i + 1, 1, Error::new("ERR invalid number of fields"))?;
            if i32::try_from(count).is_err() {
                return Err(Error::new("ERR invalid number of fields"));
            }
            if !given.is_multiple_of(2) || count != given as u64 / 2 {
                return Err(Error::arity("hsetex"));
            }
            return Ok(Options { condition, expiry: expiry.unwrap_or(Expiry::Clear), first: i + 2 });
        }
        if let Some((_, unit, from)) = TIMES.into_iter().find(|(word, ..)| ctx.is(i, word)) {
            only_one(expiry.is_none())?;
            if i + 1 == ctx.args.len() {
                return Err(Error::new("ERR missing expire time"));
            }
            i += 1;
            expiry = Some(Expiry::At(time(ctx, i, unit, from, "hsetex")?));
        } else if ctx.is(i, "keepttl") {
            only_one(expiry.is_none())?;
            expiry = Some(Expiry::Keep);
        } else if ctx.is(i, "fnx") || ctx.is(i, "fxx") {
            if condition.is_some() {
                return Err(Error::new("ERR Only one of FXX or FNX arguments can be specified"));
            }
            condition = Some(if ctx.is(i, "fnx") { If::NoneExists } else { If::AllExist });
        } else {
            return Err(Error::text([b"ERR unknown argument: ", ctx.arg(i)].concat()));
        }
        i += 1;
    }
    Err(Error::arity("hsetex"))
}

fn only_one(is: bool) -> Result<(), Error> {
    let error = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    if is { Ok(()) } else { Err(Error::new(error)) }
}

pub(super) fn hsetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let Options { condition, expiry, first } = hsetex_options(ctx)?;
    let (key, now, limits) = (ctx.key(1), ctx.now, &ctx.tunables.limits);
    let words = ctx.args.iter().skip(first);
    let names = || words.clone().step_by(2);
    let pairs = || names().zip(words.clone().skip(1).step_by(2));
    pairs().try_for_each(|(name, value)| check_length(name, value))?;

    let hash = look(ctx, &key)?;
    let expired = hash.is_some_and(|hash| names().any(|name| hash.find(name).is_some_and(|field| field.expired(now))));
    let exists = |name| hash.is_some_and(|hash| hash.get(name, now).is_some());
    let refused = match condition {
        None => false,
        Some(If::NoneExists) => names().any(exists),
        Some(If::AllExist) => !names().all(exists),
    };
    // What has expired must not lend its time to what is set now.
    if expired {
        drop_expired(ctx, &key, names());
    }
    if refused {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }

    let past = matches!(expiry, Expiry::At(at) if at <= now);
    let hash = ctx.db.get_or_create::<Hash>(&key)?;
    let before = State::of(hash);
    hash.expect(words.len() / 2, limits);
    for (name, value) in pairs() {
        if past {
            hash.remove(name);
        } else {
            hash.set(name, value, expiry, limits);
        }
    }
    let after = State::of(hash);
    ctx.fx.dirty += (words.len() / 2) as u64 - 1;
    ctx.notify(class::HASH, "hset", &key);
    if past {
        // Set and gone at once. A hash that was made for it leaves no trace.
        if !after.empty {
            ctx.effect(super::effect::REMOVE, &key, |w| write_all(w, names()));
        }
        ctx.notify(class::HASH, "hdel", &key);
    } else {
        let effect = match expiry {
            Expiry::Clear => SET,
            Expiry::Keep => SET_KEEPING,
            Expiry::At(_) => SET_EXPIRING,
        };
        ctx.effect(effect, &key, |w| {
            if let Expiry::At(at) = expiry {
                w.varint(at);
            }
            write_all(w, words);
        });
        if let Expiry::At(_) = expiry {
            ctx.notify(class::HASH, "hexpire", &key);
        }
    }
    settle(ctx, &key, before, after);
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

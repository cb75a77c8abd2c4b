//! Reading and writing with an expiry at once: HGETEX, HSETEX, HGETDEL.

use clocks::UnixMs;
use object::Hash;
use object::hash::Expiry;

use super::LastField::Told;
use super::effect::{EXPIRE, SET, SET_EXPIRING, SET_KEEPING, write_all};
use super::expire::{Change, POSITIVE_INTEGER, fields_at, past_event};
use super::options::{Form, If, Options, Ttl};
use super::{State, check_length, drop_expired, look, settle};
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;

/// The action of HGETEX on the fields it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Nothing,
    Expire(Option<UnixMs>),
}

pub(super) fn hgetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    look(ctx, &key)?;
    let options = Options::parse(ctx, Form::Get, "hgetex")?;
    let then = match options.ttl {
        Ttl::Unsaid => Then::Nothing,
        Ttl::At(at) => Then::Expire(Some(at)),
        Ttl::Kept => Then::Expire(None),
    };
    let names = ctx.args.iter().skip(options.fields.first).take(options.fields.words);
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
            count_past(ctx, change.deleted.len() as u64);
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

pub(super) fn hsetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let Options { ttl, fields_if, key_if, fields } = Options::parse(ctx, Form::Set, "hsetex")?;
    let expiry = match ttl {
        Ttl::Unsaid => Expiry::Clear,
        Ttl::At(at) => Expiry::At(at),
        Ttl::Kept => Expiry::Keep,
    };
    let (key, now, limits) = (ctx.key(1), ctx.now, &ctx.tunables.limits);
    let words = ctx.args.iter().skip(fields.first).take(fields.words);
    let names = || words.clone().step_by(2);
    let pairs = || names().zip(words.clone().skip(1).step_by(2));
    pairs().try_for_each(|(name, value)| check_length(name, value))?;

    let hash = look(ctx, &key)?;
    let expired = hash.is_some_and(|hash| names().any(|name| hash.find(name).is_some_and(|field| field.expired(now))));
    let exists = |name| hash.is_some_and(|hash| hash.get(name, now).is_some());
    let refused_by_key = match key_if {
        None => false,
        Some(If::Absent) => hash.is_some(),
        Some(If::Present) => hash.is_none(),
    };
    let refused = match fields_if {
        None => refused_by_key,
        Some(If::Absent) => refused_by_key || names().any(exists),
        Some(If::Present) => refused_by_key || !names().all(exists),
    };
    if refused {
        if expired {
            drop_expired(ctx, &key, names(), Told);
        }
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }

    let past = matches!(expiry, Expiry::At(at) if at <= now);
    let mut hash = ctx.db.get_or_create::<Hash>(&key)?;
    let before = State::of(&hash);
    hash.expect(words.len() / 2, limits);
    // Expired fields must not lend their time to new ones. The hash is never empty meanwhile, so its key and its time
    // stay.
    let mut lapsed = Vec::new();
    if expired {
        lapsed.extend(names().filter(|name| hash.find(name).is_some_and(|field| field.expired(now))));
        lapsed.iter().for_each(|name| _ = hash.set_expiry(name, None));
    }
    for (name, value) in pairs() {
        if past {
            hash.remove(name);
        } else {
            hash.set(name, value, expiry, limits);
        }
    }
    let after = State::of(&hash);
    drop(hash);
    ctx.fx.dirty += (words.len() / 2) as u64 - 1;
    if expired && fields_if.is_some() {
        // Only a condition makes the command look for the fields that were there.
        keyspace::bump(&ctx.db.local().counters().expired_fields, lapsed.len() as u64);
        ctx.notify_fields("hexpired", &key, lapsed.iter().copied());
    }
    ctx.notify_fields("hset", &key, names());
    if past {
        // Set and gone at once. A hash that was made for it leaves no trace.
        if !after.empty {
            ctx.effect(super::effect::REMOVE, &key, |w| write_all(w, names()));
        }
        count_past(ctx, names().count() as u64);
        let event = past_event(ctx);
        if event == "hexpired" {
            ctx.notify_fields("hexpire", &key, names());
        }
        ctx.notify_fields(event, &key, names());
    } else {
        let effect = match expiry {
            Expiry::Clear => SET,
            Expiry::Keep => SET_KEEPING,
            Expiry::At(_) => SET_EXPIRING,
        };
        if effect == SET_KEEPING && expired {
            ctx.effect(EXPIRE, &key, |w| {
                w.varint(0);
                write_all(w, lapsed);
            });
            ctx.fx.dirty -= 1;
        }
        ctx.effect(effect, &key, |w| {
            if let Expiry::At(at) = expiry {
                w.varint(at.0);
            }
            write_all(w, words.clone());
        });
        if let Expiry::At(_) = expiry {
            ctx.notify_fields("hexpire", &key, names());
        }
    }
    settle(ctx, &key, before, after);
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

/// Counts fields whose new time is already over as expired, where their event says so.
fn count_past(ctx: &mut Ctx<'_>, fields: u64) {
    if past_event(ctx) == "hexpired" {
        keyspace::bump(&ctx.db.local().counters().expired_fields, fields);
    }
}

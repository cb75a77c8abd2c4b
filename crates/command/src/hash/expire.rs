//! The expiry of fields: HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST.

use clocks::UnixMs;
use keyspace::Key;
use object::Hash;
use object::hash::EXPIRY_MAX;

use super::effect::{EXPIRE, REMOVE, write_all};
use super::options::hexpire_options;
use super::{State, look, settle};
use crate::ctx::{Ctx, Outcome};
use crate::dialect::Difference;
use crate::error::Error;

/// There is no such field, or no such key.
const NO_FIELD: i64 = -2;
/// The field does not expire.
const NO_EXPIRY: i64 = -1;
/// NX, XX, GT or LT forbade it.
const REFUSED: i64 = 0;
const DONE: i64 = 1;
/// The time was in the past, so the field is gone.
const DELETED: i64 = 2;

/// The form of a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// The base of a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    Now,
    Epoch,
}

/// Argument `i` as a time.
pub(super) fn time(ctx: &Ctx<'_>, i: usize, unit: Unit, from: From, command: &str) -> Result<UnixMs, Error> {
    let too_late = || Error::text(format!("ERR invalid expire time in '{command}' command"));
    let given = ctx.int(i)?;
    let given = u64::try_from(given).map_err(|_| Error::new("ERR invalid expire time, must be >= 0"))?;
    let ms = match unit {
        Unit::Seconds => given.checked_mul(1000),
        Unit::Milliseconds => Some(given),
    };
    let base = if from == From::Now { ctx.now } else { UnixMs::ZERO };
    ms.and_then(|ms| base.checked_add(ms)).filter(|at| *at <= EXPIRY_MAX).ok_or_else(too_late)
}

/// The position of the first field of `FIELDS numfields field [field ...]` at argument `i`; the fields are the last
/// arguments. `bad_count` is the text for a number that is none or not positive.
pub(super) fn fields_at(ctx: &Ctx<'_>, i: usize, bad_count: &'static str) -> Result<usize, Error> {
    if !ctx.is(i, "fields") {
        return Err(Error::new("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let given = ctx.args.len().saturating_sub(i + 2) as u64;
    let count = ctx.args.get(i + 1).map(|_| ctx.at_least(i + 1, 1, Error::new(bad_count))).transpose()?;
    if count != Some(given) {
        return Err(Error::new("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(i + 2)
}

pub(super) const POSITIVE_INTEGER: &str = "ERR Number of fields must be a positive integer";

/// NX, XX, GT, LT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Always,
    IfNone,
    IfAny,
    IfLater,
    IfEarlier,
}

impl Condition {
    fn allows(self, old: Option<UnixMs>, new: UnixMs) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => old.is_none(),
            Condition::IfAny => old.is_some(),
            // No expiry is later than any.
            Condition::IfLater => old.is_some_and(|old| old < new),
            Condition::IfEarlier => old.is_none_or(|old| old > new),
        }
    }
}

/// The changes of the expiry of some fields.
pub(super) struct Change<'a> {
    /// Fields that expire at another time now, or do not expire.
    pub updated: Vec<&'a [u8]>,
    /// Fields that are gone, because the time was in the past or they were taken.
    pub deleted: Vec<&'a [u8]>,
    /// Fields that had expired before, met on the way and deleted.
    pub expired: Vec<&'a [u8]>,
}

impl<'a> Change<'a> {
    pub fn new() -> Self {
        Change { updated: Vec::new(), deleted: Vec::new(), expired: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.updated.is_empty() && self.deleted.is_empty() && self.expired.is_empty()
    }

    /// Gives a field that is there the expiry `at`; a time that has passed deletes it.
    pub fn apply(&mut self, hash: &mut Hash, name: &'a [u8], at: Option<UnixMs>, now: UnixMs) -> i64 {
        if at.is_some_and(|at| at <= now) {
            hash.remove(name);
            self.deleted.push(name);
            return DELETED;
        }
        hash.set_expiry(name, at);
        self.updated.push(name);
        DONE
    }

    /// Logs and notifies the change. `at` is the new expiry of the updated fields, `event` the name of the event.
    pub fn conclude(
        self,
        ctx: &mut Ctx<'_>,
        key: &Key<'_>,
        at: Option<UnixMs>,
        event: &'static str,
        states: [State; 2],
    ) {
        let [before, after] = states;
        let Change { updated, deleted, expired } = self;
        let steps = [&updated, &deleted, &expired].into_iter().filter(|names| !names.is_empty()).count();
        let fields = updated.len() + deleted.len();
        if !after.empty {
            if !updated.is_empty() {
                ctx.effect(EXPIRE, key, |w| {
                    w.varint(UnixMs::to_wire(at));
                    write_all(w, updated.iter().copied());
                });
            }
            for names in [&deleted, &expired].into_iter().filter(|names| !names.is_empty()) {
                ctx.effect(REMOVE, key, |w| write_all(w, names.iter().copied()));
            }
        }
        // One change for each field; an effect counts as one already.
        ctx.fx.dirty += fields.saturating_sub(steps) as u64;
        keyspace::bump(&ctx.db.local().counters().expired_fields, expired.len() as u64);
        let gone = if event == "hdel" { event } else { past_event(ctx) };
        let events = [(&expired, "hexpired"), (&deleted, gone), (&updated, event)];
        for (names, event) in events.into_iter().filter(|(names, _)| !names.is_empty()) {
            ctx.notify_fields(event, key, names.iter().copied());
        }
        settle(ctx, key, before, after);
    }
}

/// The event of fields that are gone because their new time is already over.
pub(super) fn past_event(ctx: &Ctx<'_>) -> &'static str {
    if ctx.tunables.dialect.is_valkey(Difference::PastFieldTime) { "hexpired" } else { "hdel" }
}

fn expire(ctx: &mut Ctx<'_>, command: &str, unit: Unit, from: From) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    look(ctx, &key)?;
    let at = time(ctx, 2, unit, from, command)?;
    let (condition, fields) = hexpire_options(ctx)?;
    let names = ctx.args.iter().skip(fields.first).take(fields.words);
    ctx.out.array(names.len());
    let mut change = Change::new();
    let states = ctx.db.edit::<Hash, _>(&key, |hash| {
        let before = State::of(hash);
        for name in names.clone() {
            let result = match hash.find(name).filter(|field| !field.expired(now)) {
                None => NO_FIELD,
                Some(field) if !condition.allows(field.expiry, at) => REFUSED,
                Some(_) => change.apply(hash, name, Some(at), now),
            };
            ctx.out.integer(result);
        }
        (!change.is_empty(), [before, State::of(hash)])
    })?;
    match states {
        None => names.for_each(|_| ctx.out.integer(NO_FIELD)),
        Some(_) if change.is_empty() => {}
        Some(states) => {
            // Redis counts these among the expired fields too.
            keyspace::bump(&ctx.db.local().counters().expired_fields, change.deleted.len() as u64);
            change.conclude(ctx, &key, Some(at), "hexpire", states);
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn hexpire(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    expire(ctx, "hexpire", Unit::Seconds, From::Now)
}

pub(super) fn hpexpire(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    expire(ctx, "hpexpire", Unit::Milliseconds, From::Now)
}

pub(super) fn hexpireat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    expire(ctx, "hexpireat", Unit::Seconds, From::Epoch)
}

pub(super) fn hpexpireat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    expire(ctx, "hpexpireat", Unit::Milliseconds, From::Epoch)
}

pub(super) fn hpersist(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    look(ctx, &key)?;
    let names = ctx.args.iter().skip(fields_at(ctx, 2, POSITIVE_INTEGER)?);
    ctx.out.array(names.len());
    let mut change = Change::new();
    let states = ctx.db.edit::<Hash, _>(&key, |hash| {
        let before = State::of(hash);
        for name in names.clone() {
            let result = match hash.find(name).filter(|field| !field.expired(now)) {
                None => NO_FIELD,
                Some(field) if field.expiry.is_none() => NO_EXPIRY,
                Some(_) => change.apply(hash, name, None, now),
            };
            ctx.out.integer(result);
        }
        (!change.is_empty(), [before, State::of(hash)])
    })?;
    match states {
        None => names.for_each(|_| ctx.out.integer(NO_FIELD)),
        Some(states) if !change.is_empty() => change.conclude(ctx, &key, None, "hpersist", states),
        Some(_) => {}
    }
    Ok(Outcome::Done)
}

/// Replies with the expiry of fields.
fn times(ctx: &mut Ctx<'_>, unit: Unit, from: From) -> Result<Outcome, Error> {
    let (key, now) = (ctx.key(1), ctx.now);
    let hash = ctx.db.read_as::<Hash>(&key)?;
    let names = ctx.args.iter().skip(fields_at(ctx, 2, POSITIVE_INTEGER)?);
    ctx.out.array(names.len());
    for name in names {
        let result = match hash.and_then(|hash| hash.find(name)).filter(|field| !field.expired(now)) {
            None => NO_FIELD,
            Some(field) => field.expiry.map_or(NO_EXPIRY, |at| {
                let ms = if from == From::Now { at.since(now) } else { at.0 };
                if unit == Unit::Seconds { ms.div_ceil(1000) as i64 } else { ms as i64 }
            }),
        };
        ctx.out.integer(result);
    }
    Ok(Outcome::Done)
}

pub(super) fn httl(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    times(ctx, Unit::Seconds, From::Now)
}

pub(super) fn hpttl(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    times(ctx, Unit::Milliseconds, From::Now)
}

pub(super) fn hexpiretime(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    times(ctx, Unit::Seconds, From::Epoch)
}

pub(super) fn hpexpiretime(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    times(ctx, Unit::Milliseconds, From::Epoch)
}

//! XNACK: pending entries go back to their group, for any consumer to claim.

use object::Stream;
use object::stream::{COUNT_MAX, Delivery, Id};

use super::effect::RELEASE;
use super::{id, no_key_or_group};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

/// The reason why an entry is released: it decides how often it counts as delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It was not tried: as if it had not been delivered.
    Silent,
    /// It was tried.
    Fail,
    /// It can never be processed.
    Fatal,
}

/// The options.
struct Options {
    mode: Mode,
    ids: std::ops::Range<usize>,
    /// RETRYCOUNT.
    count: Option<u64>,
    force: bool,
}

impl Options {
    /// How often an entry counts as delivered that counted `before` times.
    fn count_of(&self, before: u64) -> u64 {
        match (self.count, self.mode) {
            (Some(count), _) => count,
            (None, Mode::Silent) => before.saturating_sub(1),
            (None, Mode::Fail) => before,
            (None, Mode::Fatal) => COUNT_MAX,
        }
    }
}

fn parse(ctx: &Ctx<'_>) -> Result<Options, Error> {
    const COUNT: Error = Error::new("ERR numids must be a positive integer");
    let modes = [("silent", Mode::Silent), ("fail", Mode::Fail), ("fatal", Mode::Fatal)];
    let mode = modes.into_iter().find(|(word, _)| ctx.is(3, word)).map(|(_, mode)| mode);
    let mode = mode.ok_or(Error::new("ERR mode must be SILENT, FAIL, or FATAL"))?;
    let argc = ctx.args.len();
    let (mut ids, mut count, mut force, mut i) = (None, None, false, 4);
    while i < argc {
        let more = i + 1 < argc;
        if ctx.is(i, "ids") && more {
            let number = ctx.int(i + 1).ok().and_then(|number| i32::try_from(number).ok()).filter(|number| *number > 0);
            let (first, number) = (i + 2, number.ok_or(COUNT)? as usize);
            if number > argc - first {
                return Err(Error::new("ERR number of IDs doesn't match numids"));
            }
            ids = Some(first..first + number);
            i = first + number;
        } else if ctx.is(i, "force") {
            force = true;
            i += 1;
        } else if ctx.is(i, "retrycount") && more {
            let said = u64::try_from(ctx.int(i + 1)?);
            count = Some(said.map_err(|_| Error::new("ERR Invalid RETRYCOUNT value, must be >= 0"))?);
            i += 2;
        } else {
            return Err(Error::text([b"ERR Unrecognized XNACK option '", ctx.arg(i), b"'"].concat()));
        }
    }
    let ids = ids.ok_or(Error::new("ERR syntax error, expected IDS keyword"))?;
    Ok(Options { mode, ids, count, force })
}

pub(super) fn xnack(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let stream = ctx.db.peek(&key).map(|entry| entry.collection::<Stream>()).transpose()?;
    if stream.is_none_or(|stream| stream.groups.get(name).is_none()) {
        return Err(no_key_or_group(key.bytes, name));
    }
    let options = parse(ctx)?;
    let ids = options.ids.clone().map(|i| id::parse(ctx.arg(i), 0)).collect::<Result<Vec<_>, _>>()?;
    let released = ctx.db.edit::<Stream, _>(&key, |stream| {
        let released = release(stream, name, &ids, &options);
        (!released.is_empty(), released)
    })?;
    let released = released.unwrap_or_default();
    ctx.out.count(released.len() as u64);
    if !released.is_empty() {
        ctx.fx.dirty += released.len() as u64 - 1;
        // Commands that wait for entries to claim are served.
        ctx.effect(RELEASE, &key, |w| {
            w.bytes(name);
            w.varint(released.len() as u64);
            for delivery in &released {
                w.id(delivery.id);
                w.varint(delivery.count);
            }
        });
    }
    Ok(Outcome::Done)
}

fn release(stream: &mut Stream, name: &[u8], ids: &[Id], options: &Options) -> Vec<Delivery> {
    let Stream { log, groups } = stream;
    let Some(group) = groups.get_mut(name) else { return Vec::new() };
    let mut released = Vec::new();
    for id in ids {
        let before = match group.delivery(*id) {
            Some(delivery) => delivery.count,
            // As if it were pending, and had never been delivered.
            None if options.force && log.get(*id).is_some() => 0,
            None => continue,
        };
        let delivery = Delivery::released(*id, options.count_of(before));
        group.deliver(delivery);
        released.push(delivery);
    }
    released
}

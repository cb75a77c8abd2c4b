//! XCLAIM and XAUTOCLAIM: pending entries change their consumers.

use keyspace::Key;
use object::Stream;
use object::number::parse_i64;
use object::stream::{Delivery, Group, Id, Log, Member};

use super::effect::{CLAIM, POSITION};
use super::pending::acknowledged;
use super::read::enrolled;
use super::{id, no_key_or_group, now, write_entry, write_id};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

fn long_or(text: &[u8], error: &'static str) -> Result<i64, Error> {
    parse_i64(text).ok_or(Error::new(error))
}

/// The options of XCLAIM.
struct Options {
    min_idle: i64,
    ids: Vec<Id>,
    /// When the entries are to count as delivered, in unix milliseconds.
    time: i64,
    count: Option<u64>,
    force: bool,
    just_id: bool,
    /// The group has read at least so far.
    last: Id,
}

fn parse(ctx: &Ctx<'_>) -> Result<Options, Error> {
    let now = now(ctx);
    let min_idle = long_or(ctx.arg(4), "ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
    let argc = ctx.args.len();
    let mut options =
        Options { min_idle, ids: Vec::new(), time: -1, count: None, force: false, just_id: false, last: Id::MIN };
    let mut i = 5;
    while i < argc
        && let Ok(id) = id::parse(ctx.arg(i), 0)
    {
        options.ids.push(id);
        i += 1;
    }
    while i < argc {
        let more = i + 1 < argc;
        if ctx.is(i, "force") {
            options.force = true;
        } else if ctx.is(i, "justid") {
            options.just_id = true;
        } else if ctx.is(i, "idle") && more {
            i += 1;
            let idle = long_or(ctx.arg(i), "ERR Invalid IDLE option argument for XCLAIM")?;
            options.time = now.wrapping_sub(idle);
        } else if ctx.is(i, "time") && more {
            i += 1;
            options.time = long_or(ctx.arg(i), "ERR Invalid TIME option argument for XCLAIM")?;
        } else if ctx.is(i, "retrycount") && more {
            i += 1;
            let count = long_or(ctx.arg(i), "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            options.count = u64::try_from(count).ok();
        } else if ctx.is(i, "lastid") && more {
            i += 1;
            options.last = id::parse(ctx.arg(i), 0)?;
        } else {
            return Err(Error::text([b"ERR Unrecognized XCLAIM option '", ctx.arg(i), b"'"].concat()));
        }
        i += 1;
    }
    // Clients compute times by their own clocks: an odd time counts as now.
    if options.time < 0 || options.time > now {
        options.time = now;
    }
    Ok(options)
}

/// The stream of argument 1 with the group of argument 2, to be changed.
fn stream_of_group<'d>(ctx: &'d mut Ctx<'_>) -> Result<(&'d Log, &'d mut Group, resp::Reply<'d>), Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let stream = ctx.db.stream_mut(&key)?;
    let Some(Stream { log, groups }) = stream else { return Err(no_key_or_group(key.bytes, name)) };
    match groups.get_mut(name) {
        Some(group) => Ok((log, group, ctx.out.reborrow())),
        None => Err(no_key_or_group(key.bytes, name)),
    }
}

/// Fails as Redis does where key or group is missing.
fn check_group(ctx: &Ctx<'_>) -> Result<(), Error> {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let group = ctx.db.read_as::<Stream>(&key)?.and_then(|stream| stream.groups.get(name));
    group.map(|_| ()).ok_or_else(|| no_key_or_group(key.bytes, name))
}

/// The result of a claim.
#[derive(Default)]
struct Claimed {
    new_consumer: bool,
    deliveries: Vec<Delivery>,
    /// No longer pending, because they are no longer there.
    gone: Vec<Id>,
}

impl Claimed {
    /// Hands an entry over and answers it. `old`: its former consumer, if it had one.
    fn take(&mut self, group: &mut Group, delivery: Delivery) {
        group.deliver(delivery);
        self.deliveries.push(delivery);
    }
}

/// Begins a claim: the consumer is there, and was seen now.
fn begin(group: &mut Group, name: &[u8], time: i64) -> (Member, bool) {
    let (member, new) = group.enroll(name, time);
    if let Some(consumer) = group.consumer_mut(member) {
        consumer.seen = time;
    }
    (member, new)
}

/// True if a consumer has had an entry for less than `min_idle` milliseconds. An entry without one may be claimed at
/// any time.
fn is_too_young(delivery: &Delivery, min_idle: i64, now: i64) -> bool {
    min_idle > 0 && !delivery.is_released() && now.wrapping_sub(delivery.time) < min_idle
}

/// The further steps: effects and notifications.
fn finish(ctx: &mut Ctx<'_>, claimed: &Claimed) {
    let (key, group, consumer) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    if claimed.new_consumer {
        enrolled(ctx, &key, group, consumer);
    }
    acknowledged(ctx, group, &claimed.gone);
    if !claimed.deliveries.is_empty() {
        ctx.fx.dirty += claimed.deliveries.len() as u64 - 1;
        log_claim(ctx, &key, (group, consumer), &claimed.deliveries);
    }
}

/// Logs that pending entries have changed their consumer, now: `of` names the group and the new one.
pub(super) fn log_claim(ctx: &mut Ctx<'_>, key: &Key<'_>, of: (&[u8], &[u8]), deliveries: &[Delivery]) {
    let time = now(ctx);
    ctx.quiet_effect(CLAIM, key, |w| {
        w.bytes(of.0);
        w.bytes(of.1);
        w.int(time);
        w.varint(deliveries.len() as u64);
        for delivery in deliveries {
            w.id(delivery.id);
            w.int(delivery.time);
            w.varint(delivery.count);
        }
    });
}

pub(super) fn xclaim(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    check_group(ctx)?;
    let options = parse(ctx)?;
    let (time, name) = (now(ctx), ctx.arg(3));
    let mut claimed = Claimed::default();
    let (log, group, mut out) = stream_of_group(ctx)?;
    let moved = options.last > group.last;
    if moved {
        group.last = options.last;
    }
    let (member, new) = begin(group, name, time);
    claimed.new_consumer = new;
    let array = out.deferred_array();
    for id in &options.ids {
        let (entry, old) = (log.get(*id), group.delivery(*id));
        let Some(entry) = entry else {
            if group.acknowledge(*id) {
                claimed.gone.push(*id);
            }
            continue;
        };
        let old = match old {
            None if !options.force => continue,
            Some(old) if is_too_young(&old, options.min_idle, time) => continue,
            // A forced entry was delivered once.
            old => old.unwrap_or(Delivery::new(*id, time, 1, member)),
        };
        let count = match options.count {
            Some(count) => count,
            None if options.just_id => old.count,
            None => old.count_again(),
        };
        claimed.take(group, Delivery::new(*id, options.time, count, member));
        match options.just_id {
            true => write_id(&mut out, *id),
            false => write_entry(&mut out, &entry),
        }
    }
    out.finish(array, claimed.deliveries.len());
    if !claimed.deliveries.is_empty()
        && let Some(consumer) = group.consumer_mut(member)
    {
        consumer.active = time;
    }
    let (last, entries_read) = (group.last, group.entries_read);
    finish(ctx, &claimed);
    if moved {
        let (key, group) = (ctx.key(1), ctx.arg(2));
        ctx.quiet_effect(POSITION, &key, |w| {
            w.bytes(group);
            w.id(last);
            w.int(entries_read);
        });
    }
    Ok(Outcome::Done)
}

pub(super) fn xautoclaim(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    const COUNT: Error = Error::new("ERR COUNT must be > 0");
    /// Pending entries visited for each that may be claimed.
    const ATTEMPTS: u64 = 10;
    /// Entries visited together.
    const BATCH: usize = 64;
    let min_idle = long_or(ctx.arg(4), "ERR Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let mut cursor = Some(id::parse_start(ctx.arg(5))?);
    let (mut count, mut just_id) = (100, false);
    let mut i = 6;
    while i < ctx.args.len() {
        if ctx.is(i, "count") && i + 1 < ctx.args.len() {
            i += 1;
            let most = i64::MAX / size_of::<Id>() as i64;
            count = parse_i64(ctx.arg(i)).filter(|n| (1..=most).contains(n)).ok_or(COUNT)? as u64;
        } else if ctx.is(i, "justid") {
            just_id = true;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    check_group(ctx)?;
    let (time, name) = (now(ctx), ctx.arg(3));
    let mut claimed = Claimed::default();
    // The cursor is known when the entries are.
    let mut entries = Vec::new();
    let protocol = ctx.out.protocol();
    let (log, group, _) = stream_of_group(ctx)?;
    let mut out = resp::Reply::new(&mut entries, protocol);
    let (member, new) = begin(group, name, time);
    claimed.new_consumer = new;
    let mut attempts = count * ATTEMPTS;
    while let Some(start) = cursor
        && attempts > 0
        && count > 0
    {
        let batch: smallvec::SmallVec<[Delivery; BATCH]> = group.pending_from(start).take(BATCH).collect();
        if batch.is_empty() {
            cursor = None;
        }
        for delivery in batch {
            if attempts == 0 || count == 0 {
                break;
            }
            attempts -= 1;
            cursor = delivery.id.next();
            let Some(entry) = log.get(delivery.id) else {
                group.acknowledge(delivery.id);
                claimed.gone.push(delivery.id);
                count -= 1;
                continue;
            };
            if is_too_young(&delivery, min_idle, time) {
                continue;
            }
            let times = if just_id { delivery.count } else { delivery.count_again() };
            claimed.take(group, Delivery::new(delivery.id, time, times, member));
            match just_id {
                true => write_id(&mut out, delivery.id),
                false => write_entry(&mut out, &entry),
            }
            count -= 1;
        }
    }
    if !claimed.deliveries.is_empty()
        && let Some(consumer) = group.consumer_mut(member)
    {
        consumer.active = time;
    }
    let next = cursor.and_then(|start| group.pending_from(start).next()).map_or(Id::MIN, |delivery| delivery.id);
    ctx.out.array(3);
    write_id(&mut ctx.out, next);
    ctx.out.array(claimed.deliveries.len());
    ctx.out.raw(&entries);
    ctx.out.array(claimed.gone.len());
    claimed.gone.iter().for_each(|id| write_id(&mut ctx.out, *id));
    finish(ctx, &claimed);
    Ok(Outcome::Done)
}

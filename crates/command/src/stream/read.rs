//! XREAD and XREADGROUP.

use clocks::UnixMs;
use keyspace::{Key, Kind};
use object::number::parse_i64;
use object::stream::{Delivery, Entry, Group, Id, Log, Stream};
use resp::Reply;
use smallvec::SmallVec;

use super::claim::log_claim;
use super::effect::{AGAIN, CONSUMER, DELIVER};
use super::range::write_entries;
use super::{id, now, write_entry, write_entry_parts, write_id};
use crate::ctx::{Block, Ctx, Nil, Outcome};
use crate::error::Error;
use crate::notify::class;
use crate::spec::{KeyAt, key_flags};
use resp::Args;

/// The meaning of XREADGROUP's `>`: entries that no consumer has got yet. Redis takes the greatest ID for the same.
const NEW: Id = Id::MAX;

/// The options; keys and IDs come after them.
struct Options {
    /// Most entries of each stream.
    count: usize,
    /// BLOCK: the time limit.
    deadline: Option<Option<UnixMs>>,
    /// Position of the group's name; the consumer's follows.
    group: Option<usize>,
    noack: bool,
    /// CLAIM: entries that have been pending for so many milliseconds are read, too.
    claim: Option<i64>,
    /// Position of the first key.
    first: usize,
    /// Number of keys.
    keys: usize,
}

/// The keys of XREAD and XREADGROUP: half of the arguments after STREAMS, which may also be the name of a group.
pub(super) fn find_keys(args: Args<'_>, out: &mut Vec<KeyAt>) {
    let mut i = 1;
    while let Some(arg) = args.get(i) {
        let is = |word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
        if is("streams") {
            let rest = args.len() - i - 1;
            if rest.is_multiple_of(2) {
                out.extend(
                    (i + 1..i + 1 + rest / 2).map(|index| KeyAt { index, flags: key_flags::RO | key_flags::ACCESS }),
                );
            }
            return;
        }
        i += if is("block") || is("count") || is("claim") {
            2
        } else if is("group") {
            3
        } else if is("noack") {
            1
        } else {
            return;
        };
    }
}

fn parse(ctx: &Ctx<'_>, grouped: bool) -> Result<Options, Error> {
    let argc = ctx.args.len();
    let mut options =
        Options { count: usize::MAX, deadline: None, group: None, noack: false, claim: None, first: 0, keys: 0 };
    let mut i = 1;
    while i < argc {
        let more = argc - 1 - i;
        if ctx.is(i, "claim") && more > 0 {
            if !grouped {
                return Err(only_grouped("CLAIM"));
            }
            i += 1;
            options.claim = Some(min_idle(ctx.arg(i))?);
        } else if ctx.is(i, "block") && more > 0 {
            i += 1;
            options.deadline = Some(ctx.deadline_ms(i)?);
        } else if ctx.is(i, "count") && more > 0 {
            i += 1;
            options.count = match ctx.int(i)? {
                ..=0 => usize::MAX,
                count => count as usize,
            };
        } else if ctx.is(i, "streams") && more > 0 {
            if more % 2 == 1 {
                let (name, symbol) = if grouped { ("xreadgroup", "ID or '>'") } else { ("xread", "ID, '+', or '$'") };
                return Err(Error::text(format!(
                    "ERR Unbalanced '{name}' list of streams: for each stream key an {symbol} must be specified."
                )));
            }
            options.first = i + 1;
            options.keys = more / 2;
            break;
        } else if ctx.is(i, "group") && more >= 2 {
            if !grouped {
                return Err(only_grouped("GROUP"));
            }
            options.group = Some(i + 1);
            i += 2;
        } else if ctx.is(i, "noack") {
            if !grouped {
                return Err(only_grouped("NOACK"));
            }
            options.noack = true;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    if options.keys == 0 {
        return Err(Error::SYNTAX);
    }
    if grouped && options.group.is_none() {
        return Err(Error::new("ERR Missing GROUP option for XREADGROUP"));
    }
    Ok(options)
}

fn only_grouped(option: &str) -> Error {
    Error::text(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."))
}

fn min_idle(text: &[u8]) -> Result<i64, Error> {
    let idle = parse_i64(text).ok_or(Error::new("ERR min-idle-time is not an integer or out of range"))?;
    if idle < 0 { Err(Error::new("ERR min-idle-time must be a positive integer")) } else { Ok(idle) }
}

/// Waits until something can be read: XREADGROUP also runs again when a key goes, to report it, and at a time `again`.
fn wait(
    options: &Options,
    deadline: Option<UnixMs>,
    again: Option<UnixMs>,
    replaced: Vec<(usize, Vec<u8>)>,
) -> Outcome {
    Outcome::Block(Block {
        keys: (options.first..options.first + options.keys).collect(),
        kind: Kind::Stream,
        deadline,
        nil: Nil::Array,
        when_gone: options.group.is_some(),
        again,
        replaced,
    })
}

/// The array, in RESP3 the map, of streams with what is read from them; made with the first of them.
#[derive(Default)]
struct Streams {
    header: Option<resp::Deferred>,
    count: usize,
}

impl Streams {
    fn begin(&mut self, out: &mut Reply<'_>, key: &Key<'_>) {
        if self.header.is_none() {
            self.header = Some(if out.is_resp3() { out.deferred_map() } else { out.deferred_array() });
        }
        self.count += 1;
        if !out.is_resp3() {
            out.array(2);
        }
        out.bulk(key.bytes);
    }

    /// False: there is none, and nothing was written.
    fn finish(self, out: &mut Reply<'_>) -> bool {
        match self.header {
            Some(header) => {
                out.finish(header, self.count);
                true
            }
            None => false,
        }
    }
}

pub(super) fn xread(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, false)?;
    // Each after which ID.
    let mut after: SmallVec<[Id; 4]> = SmallVec::new();
    let mut replaced = Vec::new();
    for i in options.first..options.first + options.keys {
        let key = ctx.key(i);
        let stream = ctx.db.read_as::<Stream>(&key)?;
        let at = i + options.keys;
        after.push(match ctx.arg(at) {
            b"$" => {
                let last = stream.map_or(Id::MIN, |stream| stream.log.marks().last);
                // When it runs again, it still reads entries after the present ones.
                replaced.push((at, last.to_string().into_bytes()));
                last
            }
            // The last entry that is there: ones with greater IDs may have been deleted.
            b"+" => stream.and_then(|stream| stream.log.last_entry()?.previous()).unwrap_or(Id::MIN),
            b">" => {
                return Err(Error::new(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            text => id::parse(text, 0)?,
        });
    }
    let mut streams = Streams::default();
    for (i, after) in (options.first..).zip(after) {
        let key = ctx.key(i);
        let Some(stream) = ctx.db.peek(&key).map(|entry| entry.collection::<Stream>()).transpose()? else { continue };
        let Some(start) = after.next().filter(|_| stream.log.last_entry().is_some_and(|last| last > after)) else {
            continue;
        };
        streams.begin(&mut ctx.out, &key);
        write_entries(&mut ctx.out, stream.log.range(start, Id::MAX).take(options.count));
    }
    if streams.finish(&mut ctx.out) {
        return Ok(Outcome::Done);
    }
    Ok(match options.deadline {
        Some(deadline) => wait(&options, deadline, None, replaced),
        None => {
            ctx.out.null_array();
            Outcome::Done
        }
    })
}

pub(super) fn xreadgroup(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, true)?;
    let at = options.group.unwrap_or_default();
    let (group, consumer) = (ctx.arg(at), ctx.arg(at + 1));
    let mut after: SmallVec<[Id; 4]> = SmallVec::new();
    for i in options.first..options.first + options.keys {
        let key = ctx.key(i);
        let stream = ctx.db.read_as::<Stream>(&key)?;
        if stream.is_none_or(|stream| stream.groups.get(group).is_none()) {
            let parts: [&[u8]; 5] = [
                b"NOGROUP No such key '",
                key.bytes,
                b"' or consumer group '",
                group,
                b"' in XREADGROUP with GROUP option",
            ];
            return Err(Error::text(parts.concat()));
        }
        after.push(match ctx.arg(i + options.keys) {
            sign @ (b"$" | b"+") => {
                let sign = char::from(sign[0]);
                return Err(Error::text(format!(
                    "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                     consumer by specifying a proper ID, or use the > ID to get new messages. The {sign} ID would just \
                     return an empty result set."
                )));
            }
            b">" => NEW,
            text => id::parse(text, 0)?,
        });
    }
    let mut streams = Streams::default();
    let mut oldest = None;
    for (i, after) in (options.first..).zip(after) {
        let key = ctx.key(i);
        if after == NEW {
            let time = read_new(ctx, &key, group, consumer, &options, &mut streams)?;
            oldest = oldest.into_iter().chain(time).min();
        } else {
            read_history(ctx, &key, group, consumer, &options, after, &mut streams)?;
        }
    }
    if streams.finish(&mut ctx.out) {
        return Ok(Outcome::Done);
    }
    Ok(match options.deadline {
        Some(deadline) => wait(&options, deadline, look_again(ctx, &options, oldest), Vec::new()),
        None => {
            ctx.out.null_array();
            Outcome::Done
        }
    })
}

/// A consumer that was not there is one now.
pub(super) fn enrolled(ctx: &mut Ctx<'_>, key: &Key<'_>, group: &[u8], consumer: &[u8]) {
    let time = now(ctx);
    ctx.quiet_effect(CONSUMER, key, |w| {
        w.bytes(group);
        w.bytes(consumer);
        w.int(time);
    });
    ctx.notify(class::STREAM, "xgroup-createconsumer", key);
}

/// When an entry may have been pending for long enough to be claimed; `oldest`: since when the oldest has been.
fn look_again(ctx: &Ctx<'_>, options: &Options, oldest: Option<i64>) -> Option<UnixMs> {
    /// With nothing pending, an entry that is delivered meanwhile cannot be claimed earlier; more frequent checks are
    /// useless.
    const REST_MS: i64 = 10;
    let (time, idle) = (now(ctx), options.claim?);
    let at = oldest.map_or_else(|| time.saturating_add(idle.max(REST_MS)), |oldest| oldest.saturating_add(idle));
    u64::try_from(at.max(time.saturating_add(1))).ok().map(UnixMs)
}

/// Entries that have been pending for `min_idle` milliseconds and are there, the oldest first, and since when the
/// oldest of those that are there has been pending.
fn claimable(log: &Log, group: &mut Group, (min_idle, time, count): (i64, i64, usize)) -> (Vec<Delivery>, Option<i64>) {
    let mut there = group.oldest().filter(|delivery| log.get(delivery.id).is_some()).peekable();
    let oldest = there.peek().map(|delivery| delivery.time);
    (there.take_while(|delivery| delivery.idle(time) >= min_idle).take(count).collect(), oldest)
}

/// Writes an entry as CLAIM has it: with how long it was pending, and how often it was delivered before.
fn write_claimed(out: &mut Reply<'_>, entry: &Entry<'_>, idle: i64, count: u64) {
    out.array(4);
    write_entry_parts(out, entry);
    out.integer(idle);
    out.integer(count as i64);
}

/// Delivers entries that the group has not read yet, with CLAIM behind those that have been pending for too long.
/// Returns since when the oldest entry has been pending.
fn read_new(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    group_name: &[u8],
    name: &[u8],
    options: &Options,
    streams: &mut Streams,
) -> Result<Option<i64>, Error> {
    let time = now(ctx);
    // Looked up while the options were checked.
    let Some(stream) = ctx.db.stream_mut(key)? else { return Ok(None) };
    let Stream { log, groups } = stream;
    let Some(group) = groups.get_mut(group_name) else { return Ok(None) };
    let (member, new) = group.enroll(name, time);
    if let Some(consumer) = group.consumer_mut(member) {
        consumer.seen = time;
    }
    let (old, oldest) = match options.claim {
        Some(min_idle) => claimable(log, group, (min_idle, time, options.count)),
        None => (Vec::new(), None),
    };
    let before = group.last;
    let start = before.next().filter(|_| log.last_entry().is_some_and(|last| last > before));
    let (mut claimed, mut count) = (Vec::new(), 0);
    if !old.is_empty() || start.is_some() {
        streams.begin(&mut ctx.out, key);
        let marks = log.marks();
        let array = ctx.out.deferred_array();
        for delivery in old {
            let Some(entry) = log.get(delivery.id) else { continue };
            write_claimed(&mut ctx.out, &entry, delivery.idle(time), delivery.count);
            let delivery = Delivery::new(delivery.id, time, delivery.count_again(), member);
            group.deliver(delivery);
            claimed.push(delivery);
        }
        let left = options.count - claimed.len();
        for entry in start.into_iter().flat_map(|start| log.range(start, Id::MAX)).take(left) {
            group.advance(entry.id, &marks);
            match options.claim {
                Some(_) => write_claimed(&mut ctx.out, &entry, 0, 0),
                None => write_entry(&mut ctx.out, &entry),
            }
            if !options.noack {
                group.deliver(Delivery::new(entry.id, time, 1, member));
            }
            count += 1;
        }
        ctx.out.finish(array, claimed.len() + count);
        if (count > 0 && !options.noack || !claimed.is_empty())
            && let Some(consumer) = group.consumer_mut(member)
        {
            consumer.active = time;
        }
    }
    let (last, entries_read) = (group.last, group.entries_read);
    if new {
        enrolled(ctx, key, group_name, name);
    }
    if !claimed.is_empty() {
        log_claim(ctx, key, (group_name, name), &claimed);
    }
    if count > 0 {
        // The reading of a stream is one change, as Redis counts.
        ctx.fx.dirty -= u64::from(!claimed.is_empty());
        ctx.quiet_effect(DELIVER, key, |w| {
            w.bytes(group_name);
            w.bytes(name);
            w.int(time);
            w.u8(u8::from(options.noack));
            w.id(before);
            w.id(last);
            w.int(entries_read);
        });
    }
    Ok(oldest)
}

/// Answers the consumer's pending entries.
fn read_history(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    group_name: &[u8],
    name: &[u8],
    options: &Options,
    after: Id,
    streams: &mut Streams,
) -> Result<(), Error> {
    let time = now(ctx);
    let Some(stream) = ctx.db.stream_mut(key)? else { return Ok(()) };
    let Stream { log, groups } = stream;
    let Some(group) = groups.get_mut(group_name) else { return Ok(()) };
    let (member, new) = group.enroll(name, time);
    let mut ids = Vec::new();
    if let Some(consumer) = group.consumer_mut(member) {
        consumer.seen = time;
        let start = after.next().unwrap_or(Id::MIN);
        ids = consumer.pending_from(start).take(options.count).collect();
    }
    streams.begin(&mut ctx.out, key);
    ctx.out.array(ids.len());
    ids.retain(|id| {
        let entry = log.get(*id);
        match &entry {
            Some(entry) => {
                write_entry(&mut ctx.out, entry);
                if let Some(delivery) = group.delivery(*id) {
                    group.deliver(delivery.again(time));
                }
            }
            None => {
                // Deleted since: only its ID is known.
                ctx.out.array(2);
                write_id(&mut ctx.out, *id);
                ctx.out.null_array();
            }
        }
        entry.is_some()
    });
    if new {
        enrolled(ctx, key, group_name, name);
    }
    if !ids.is_empty() {
        ctx.quiet_effect(AGAIN, key, |w| {
            w.bytes(group_name);
            w.int(time);
            w.ids(&ids);
        });
        // Redis does not count this as a change of the data.
        ctx.fx.dirty -= 1;
    }
    Ok(())
}

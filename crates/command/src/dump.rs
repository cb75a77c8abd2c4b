//! DUMP and RESTORE: a value as bytes that other servers understand too (see [`object::rdb`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use keyspace::access::AccessClock;
use keyspace::{AnyCollection, Db, EntryRef, Expiry, INLINE_MAX, Key, Kind, Value};
use object::rdb::{self, Refused, ValueRef};
use object::{Hash, Limits, List, Set, Stream, ZSet};

use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "dump",
            arity: 2,
            flags: READONLY | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            categories: &["keyspace"],
            since: "2.6.0",
            complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects \
                         composing the value and M their average size. For small string values the time complexity is \
                         thus O(1)+O(1*M) where M is small, so simply O(1).",
            summary: "Returns a serialized representation of the value stored at a key.",
            tips: &["nondeterministic_output"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(dump),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "restore",
            arity: -4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, OW | UPDATE)],
            categories: &["keyspace", "dangerous"],
            since: "2.6.0",
            complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the \
                         number of Redis objects composing the value and M their average size. For small string values \
                         the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted \
                         set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is \
                         O(log(N)).",
            summary: "Creates a key from the serialized representation of a value.",
            syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
            ..Spec::NEW
        },
        run: Run::Keyed(restore),
        subcommands: &[],
    },
];

fn dump(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if let Some(payload) = ctx.prepared::<Arc<Vec<u8>>>(std::iter::once(1)) {
        ctx.out.bulk_shared(&payload);
        return Ok(Outcome::Done);
    }
    let key = ctx.key(1);
    match ctx.db.read(&key) {
        Some(entry) if ctx.works_aside_on_bytes(entry.memory()) => {
            let value = entry.to_value();
            return Ok(ctx.aside(std::iter::once(1), move || Arc::new(payload_of(&value))));
        }
        Some(entry) => ctx.out.bulk(payload(entry)?),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

/// A value as DUMP answers it.
fn payload_of(value: &Value) -> Vec<u8> {
    with_rdb_value(value, rdb::dump)
}

/// Calls `f` with a value in the form in which it is written for Redis.
pub fn with_rdb_value<R>(value: &Value, f: impl FnOnce(ValueRef<'_>) -> R) -> R {
    match value {
        Value::Int(number) => f(ValueRef::String(itoa::Buffer::new().format(*number).as_bytes())),
        Value::Short(text) | Value::Raw(text) => f(ValueRef::String(text)),
        Value::Blob(text) => f(ValueRef::String(text)),
        Value::Collection(collection) => f(match collection {
            AnyCollection::List(list) => ValueRef::List(list),
            AnyCollection::Set(set) => ValueRef::Set(set),
            AnyCollection::ZSet(zset) => ValueRef::ZSet(zset),
            AnyCollection::Hash(hash) => ValueRef::Hash(hash),
            AnyCollection::Stream(stream) => ValueRef::Stream(stream),
        }),
    }
}

/// The value in the form of DUMP's answer.
pub(crate) fn payload(entry: EntryRef<'_>) -> Result<Vec<u8>, Error> {
    Ok(match entry.kind() {
        Kind::Int | Kind::Short | Kind::Raw | Kind::Blob => {
            entry.string()?.with(|text| rdb::dump(ValueRef::String(text)))
        }
        Kind::List => rdb::dump(ValueRef::List(entry.collection::<List>()?)),
        Kind::Set => rdb::dump(ValueRef::Set(entry.collection::<Set>()?)),
        Kind::ZSet => rdb::dump(ValueRef::ZSet(entry.collection::<ZSet>()?)),
        Kind::Hash => rdb::dump(ValueRef::Hash(entry.collection::<Hash>()?)),
        Kind::Stream => rdb::dump(ValueRef::Stream(entry.collection::<Stream>()?)),
    })
}

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    /// Seconds since the last use.
    idle: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut i = 4;
        while i < ctx.args.len() {
            let argument = i + 1 < ctx.args.len();
            if ctx.is(i, "replace") {
                options.replace = true;
            } else if ctx.is(i, "absttl") {
                options.absolute = true;
            } else if ctx.is(i, "idletime") && argument && options.frequency.is_none() {
                i += 1;
                let invalid = |_| Error::new("ERR Invalid IDLETIME value, must be >= 0");
                options.idle = Some(u64::try_from(ctx.int(i)?).map_err(invalid)?);
            } else if ctx.is(i, "freq") && argument && options.idle.is_none() {
                i += 1;
                let invalid = |_| Error::new("ERR Invalid FREQ value, must be >= 0 and <= 255");
                options.frequency = Some(u8::try_from(ctx.int(i)?).map_err(invalid)?);
            } else {
                return Err(Error::SYNTAX);
            }
            i += 1;
        }
        Ok(options)
    }
}

fn restore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = Options::parse(ctx)?;
    let key = ctx.key(1);
    let present = ctx.db.peek(&key).is_some();
    if present && !options.replace {
        return Err(Error::new("BUSYKEY Target key name already exists."));
    }
    let ttl = u64::try_from(ctx.int(2)?).map_err(|_| Error::new("ERR Invalid TTL value, must be >= 0"))?;
    let value = match read_aside(ctx) {
        Reading::Done(value) => value?,
        Reading::Later(outcome) => return Ok(outcome),
        Reading::Here => {
            let unchecked = ctx.db.keyspace().skips_checksums.load(Relaxed);
            read(ctx.arg(3), &ctx.tunables.limits, unchecked)?.into()
        }
    };
    let expiry = match ttl {
        0 => Expiry::Clear,
        _ if options.absolute => Expiry::At(UnixMs(ttl)),
        _ => Expiry::At(ctx.now + ttl),
    };
    if matches!(expiry, Expiry::At(ms) if ms <= ctx.now) {
        // Restored and expired at once: only the replaced value is gone.
        if ctx.db.remove(&key) {
            ctx.effect(op::DELETE, &key, |_| {});
            ctx.notify(class::GENERIC, "del", &key);
        }
        keyspace::bump(&ctx.db.local().counters().expired, 1);
        ctx.out.ok();
        return Ok(Outcome::Done);
    }
    let before = ctx.kind_before(&key);
    ctx.db.count_as_new(&key);
    set(ctx, &key, value, expiry);
    if let Some(access) = access_of(ctx.db.clock(), options.idle, options.frequency) {
        ctx.db.set_access(&key, access);
    }
    ctx.image_effect(&key);
    ctx.notify(class::GENERIC, "restore", &key);
    ctx.tell_replaced(&key, before);
    ctx.out.ok();
    Ok(Outcome::Done)
}

/// `unchecked`: the checksum may be wrong.
fn read<'a>(payload: &'a [u8], limits: &Limits, unchecked: bool) -> Result<rdb::Value<'a>, Error> {
    let read = if unchecked { rdb::restore_unchecked } else { rdb::restore };
    read(payload, limits).map_err(|refused| match refused {
        Refused::Frame => Error::new("ERR DUMP payload version or checksum are wrong"),
        Refused::Value(corrupt) => {
            let (bytes, why) = (payload.len(), rdb::describe(payload, corrupt));
            tracing::warn!(cause = "restore", "A payload of {bytes} bytes is not restored: {why}");
            Error::new("ERR Bad data format")
        }
    })
}

/// A value from a payload.
enum Restored<'a> {
    Text(Cow<'a, [u8]>),
    Collection(AnyCollection),
}

impl<'a> From<rdb::Value<'a>> for Restored<'a> {
    fn from(value: rdb::Value<'a>) -> Self {
        Restored::Collection(match value {
            rdb::Value::String(text) => return Restored::Text(text),
            rdb::Value::List(list) => list.into(),
            rdb::Value::Set(set) => set.into(),
            rdb::Value::ZSet(zset) => zset.into(),
            rdb::Value::Hash(hash) => hash.into(),
            rdb::Value::Stream(stream) => stream.into(),
        })
    }
}

impl Restored<'_> {
    fn into_owned(self) -> Restored<'static> {
        match self {
            Restored::Text(text) => Restored::Text(Cow::Owned(text.into_owned())),
            Restored::Collection(collection) => Restored::Collection(collection),
        }
    }
}

/// The progress of reading a payload.
enum Reading {
    Done(Result<Restored<'static>, Error>),
    Later(Outcome),
    /// The handler reads it itself.
    Here,
}

/// The part of a payload's reading that was done aside.
enum Read {
    /// None: this is the beginning of it.
    Copied(Vec<u8>),
    Whole(Result<Restored<'static>, Error>),
}

/// A large payload is copied in so many parts, between which other commands run, and then read aside.
const PARTS: usize = 3;

/// Goes on with reading the payload of RESTORE aside, if it is large.
fn read_aside(ctx: &mut Ctx<'_>) -> Reading {
    let (payload, nothing) = (ctx.arg(3), std::iter::empty);
    let mut copied = match ctx.prepared(nothing()) {
        Some(Read::Whole(value)) => return Reading::Done(value),
        Some(Read::Copied(copied)) => copied,
        None => Vec::new(),
    };
    if !ctx.works_aside_on_bytes(payload.len()) {
        return Reading::Here;
    }
    let end = payload.len().min(copied.len() + payload.len().div_ceil(PARTS));
    copied.reserve_exact(payload.len() - copied.len());
    copied.extend_from_slice(&payload[copied.len()..end]);
    if end < payload.len() {
        return Reading::Later(ctx.aside(nothing(), move || Read::Copied(copied)));
    }
    let (limits, unchecked) = (ctx.tunables.limits.clone(), ctx.db.keyspace().skips_checksums.load(Relaxed));
    let work = move || Read::Whole(read(&copied, &limits, unchecked).map(|value| Restored::from(value).into_owned()));
    Reading::Later(ctx.aside(nothing(), work))
}

fn set(ctx: &mut Ctx<'_>, key: &Key<'_>, value: Restored<'_>, expiry: Expiry) {
    put_into(&mut ctx.db, key, value, expiry);
}

fn put_into(db: &mut Db<'_>, key: &Key<'_>, value: Restored<'_>, expiry: Expiry) {
    match value {
        Restored::Text(text) if text.len() > INLINE_MAX => {
            db.set_value(key, Value::Blob(Arc::new(text.into_owned())), expiry);
        }
        Restored::Text(text) => db.set_string(key, &text, false, expiry),
        Restored::Collection(collection) => db.set_value(key, Value::Collection(collection), expiry),
    }
}

/// Sets a key to what a file of Redis says about it: its value, the time at which it expires, the seconds since it was
/// last used, and how often it is used.
pub fn put_rdb_value(
    db: &mut Db<'_>,
    key: &Key<'_>,
    value: rdb::Value<'_>,
    expiry: Option<UnixMs>,
    (idle, frequency): (Option<u64>, Option<u8>),
) {
    put_into(db, key, value.into(), expiry.map_or(Expiry::Clear, Expiry::At));
    if let Some(access) = access_of(db.clock(), idle, frequency) {
        db.set_access(key, access);
    }
}

/// Each has a meaning under one kind of eviction policy only.
fn access_of(clock: &AccessClock, idle: Option<u64>, frequency: Option<u8>) -> Option<u32> {
    match (clock.is_lfu(), idle, frequency) {
        (false, Some(idle), _) => Some(clock.bits_for_idle(u32::try_from(idle).unwrap_or(u32::MAX).min(LONGEST_IDLE))),
        (true, _, Some(frequency)) => Some(clock.bits_for_frequency(frequency)),
        _ => None,
    }
}

/// Sets the value in a payload, whatever was there.
pub(crate) fn put(ctx: &mut Ctx<'_>, key: &Key<'_>, payload: &[u8], expiry: Expiry) -> Result<(), Error> {
    let value = read(payload, &ctx.tunables.limits, false)?;
    set(ctx, key, value.into(), expiry);
    Ok(())
}

/// Half of the range of the access clock: an older time would look like a future one.
const LONGEST_IDLE: u32 = (1 << 23) - 1;

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    const HELLO: &str = "000568656c6c6f0c00a804ebb69f1ebe43";

    fn restore(bench: &mut Bench, key: &str, ttl: &str, payload: &[u8], options: &str) -> String {
        let mut args: Vec<&[u8]> = vec![b"restore", key.as_bytes(), ttl.as_bytes(), payload];
        args.extend(options.split_ascii_whitespace().map(str::as_bytes));
        String::from_utf8_lossy(&bench.run(&args)).into_owned()
    }

    #[test]
    fn what_redis_dumps_is_restored_and_dumped_again() {
        let mut bench = Bench::new();
        for (key, encoding, payload) in [
            ("string", "embstr", HELLO),
            ("int", "int", "00c1d4fe0c000db2b2e304944067"),
            ("ints", "intset", "0b0e0200000003000000feff01002c010c00907c9ca20dbefe43"),
            ("set", "listpack", "140f0f00000003008161020101816202ff0c00fc4a5ef47c72389a"),
            ("hash", "listpack", "1013130000000400816602010181670282767603ff0c0008702bfa17b566b9"),
            ("zset", "listpack", "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0c00f2e4075b1b35ac74"),
        ] {
            let payload = hex(payload);
            assert_eq!(restore(&mut bench, key, "0", &payload, ""), "+OK\r\n", "{key}");
            let found = bench.inspect(|db| db.peek(&db.key(key.as_bytes())).unwrap().encoding());
            assert_eq!(found, encoding);
            let dumped = bench.run(&[b"dump", key.as_bytes()]);
            let header = format!("${}\r\n", payload.len());
            assert_eq!(dumped, [header.as_bytes(), &payload, b"\r\n"].concat(), "{key}");
        }
        assert_eq!(bench.words("dump none"), "$-1\r\n");
        assert_eq!(bench.notified().len(), 6);
        let image = |entry: &keyspace::EntryRef<'_>| {
            let mut image = Vec::new();
            entry.write_image(&mut image);
            image
        };
        assert_eq!(bench.replayed().image(image), bench.image(image));
    }

    /// Payloads of Redis 8.8: streams with a group, with an entry of a producer, and with an entry that a consumer gave
    /// back.
    #[test]
    fn streams_of_redis_8_8() {
        let mut bench = Bench::new();
        let pending = "1b0110000000000000000100000000000000011d1d0000000a0001010001010181660200010201000100018176020401ff0101010101
             000001010167010101010000000000000001000000000000000161488e13a20100000101016361488e13a201000061488e13a201000001000000
             0000000001000000000000000100406440640000000e009337ddcdd15586c4";
        let produced = "1b0110000001a2138e486c00000000000000001d1d0000000a0001010001010181660200010201000100018176020401ff01810000
             01a2138e486c0081000001a2138e486c000000010040644064010270310102693181000001a2138e486c0001000e00c452ec1a00286236";
        let given_back = "1b0110000000000000000100000000000000011d1d0000000a0001010001010181660200010201000100018176020401ff01010101
             01000001020167010101010000000000000001000000000000000161488e13a20100000101016361488e13a201000061488e13a2010000010000
             000000000001000000000000000100026732010101010000000000000001000000000000000100000000000000000001016371488e13a2010000
             71488e13a2010000000100000000000000010000000000000001406440640000000e00cdab9f9c666d767b";
        assert_eq!(restore(&mut bench, "x", "0", &hex(pending), ""), "+OK\r\n");
        assert_eq!(bench.words("xrange x - +"), "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
        assert!(bench.words("xpending x g").starts_with("*4\r\n:1\r\n$3\r\n1-1\r\n"));
        assert_eq!(restore(&mut bench, "y", "0", &hex(produced), ""), "+OK\r\n");
        assert_eq!(bench.words("xlen y"), ":1\r\n");
        assert_eq!(restore(&mut bench, "z", "0", &hex(given_back), ""), "+OK\r\n");
        let nobodys = "*1\r\n*4\r\n$3\r\n1-1\r\n$0\r\n\r\n:-1\r\n:0\r\n";
        assert_eq!(bench.words("xpending z g2 - + 9"), nobodys);
    }

    #[test]
    fn times_and_options() {
        let mut bench = Bench::new();
        let payload = hex(HELLO);
        let expiry = |bench: &mut Bench| bench.image(|_| Vec::new())[0].1;
        assert_eq!(restore(&mut bench, "k", "5000", &payload, ""), "+OK\r\n");
        assert_eq!(expiry(&mut bench), Some(bench.now + 5000));
        let busy = "-BUSYKEY Target key name already exists.\r\n";
        assert_eq!(restore(&mut bench, "k", "0", &payload, ""), busy);
        assert_eq!(restore(&mut bench, "k", "1000000000007", &payload, "REPLACE ABSTTL"), "+OK\r\n");
        assert_eq!(expiry(&mut bench), Some(bench.now + 7));
        assert_eq!(restore(&mut bench, "k", "0", &payload, "replace idletime 1000"), "+OK\r\n");
        assert_eq!(expiry(&mut bench), None);
        let idle = bench.inspect(|db| db.clock().idle_seconds(db.peek(&db.key(b"k")).unwrap().access()));
        assert_eq!(idle, 1000);
        bench.notified();
        assert_eq!(restore(&mut bench, "k", "1", &payload, "replace absttl"), "+OK\r\n");
        assert_eq!(bench.words("get k"), "$-1\r\n");
        assert_eq!(bench.notified(), ["del k"]);
        assert_eq!(restore(&mut bench, "k", "1", &payload, "absttl"), "+OK\r\n");
        assert!(bench.notified().is_empty());
    }

    #[test]
    fn large_payloads_are_made_and_read_aside() {
        let mut bench = Bench::new();
        bench.patient = true;
        for i in 0..300 {
            bench.words(&format!("hset hash field:{i} value:{i}"));
            bench.words(&format!("rpush list element:{i}"));
            bench.words(&format!("sadd set member:{i}"));
            bench.words(&format!("zadd zset {i} member:{i}"));
            bench.words(&format!("xadd stream {}-1 field value:{i}", i + 1));
        }
        bench.words("setrange string 20000 x");
        for key in ["hash", "list", "set", "zset", "stream", "string"] {
            let dumped = bench.run(&[b"dump", key.as_bytes()]);
            let start = dumped.windows(2).position(|two| two == b"\r\n").expect("a bulk string") + 2;
            let payload = &dumped[start..dumped.len() - 2];
            assert_eq!(restore(&mut bench, "again", "0", payload, "REPLACE"), "+OK\r\n", "{key}");
            assert_eq!(bench.run(&[b"dump", b"again"]), dumped, "{key}");
            assert_eq!(restore(&mut bench, "again", "0", payload, ""), "-BUSYKEY Target key name already exists.\r\n");
            let mut damaged = payload.to_vec();
            damaged[payload.len() / 2] ^= 1;
            let wrong = "-ERR DUMP payload version or checksum are wrong\r\n";
            assert_eq!(restore(&mut bench, "again", "0", &damaged, "replace"), wrong, "{key}");
            bench.words(&format!("rename again {key}2"));
        }
        let contents = bench.contents();
        assert_eq!(bench.replayed().contents(), contents);
    }

    #[test]
    fn errors() {
        let mut bench = Bench::new();
        let payload = hex(HELLO);
        for (ttl, options, error) in [
            ("-1", "", "ERR Invalid TTL value, must be >= 0"),
            ("x", "", "ERR value is not an integer or out of range"),
            ("0", "foo", "ERR syntax error"),
            ("0", "idletime", "ERR syntax error"),
            ("0", "idletime 1 freq 1", "ERR syntax error"),
            ("0", "idletime -1", "ERR Invalid IDLETIME value, must be >= 0"),
            ("0", "freq 256", "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ] {
            assert_eq!(restore(&mut bench, "k", ttl, &payload, options), format!("-{error}\r\n"));
        }
        let wrong = "-ERR DUMP payload version or checksum are wrong\r\n";
        assert_eq!(restore(&mut bench, "k", "0", &payload[..10], ""), wrong);
        assert_eq!(restore(&mut bench, "k", "0", b"", ""), wrong);
        // A correct frame around nothing of use.
        let mut empty_list = object::rdb::dump(object::rdb::ValueRef::List(&object::List::new()));
        assert_eq!(restore(&mut bench, "k", "0", &empty_list, ""), "-ERR Bad data format\r\n");
        empty_list[0] ^= 1;
        assert_eq!(restore(&mut bench, "k", "0", &empty_list, ""), wrong);
        assert_eq!(bench.words("exists k"), ":0\r\n");
        assert_eq!(bench.effects.dirty, 0);
    }
}

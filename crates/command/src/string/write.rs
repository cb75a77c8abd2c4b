//! Setting strings: SET with its options and its older relatives, MSET, MSETNX, MSETEX.

use clocks::UnixMs;
use keyspace::{Expiry, Key};

use super::compare::Condition;
use super::options::{Options, Ttl, Unit};
use super::{STRING, expire_at_once, put, row, write_str};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{Begin, Find, KeySpec, Row, Spec, flags::*, key_flags::*};

const SET_MANY: &str = "O(N) where N is the number of keys to set.";

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "set",
            arity: -3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE | VARIABLE_FLAGS)],
            // As in Redis: any such word counts, whatever stands before it. A user that may not read hears that first.
            vary_flags: Some(|args| {
                let has = |words: &[&str]| {
                    args.iter().skip(3).any(|arg| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes())))
                };
                match (has(&["get"]), has(&["ifeq", "ifne", "ifdeq", "ifdne"])) {
                    (true, _) => RW | ACCESS | UPDATE,
                    (false, true) => RW | UPDATE,
                    _ => OW | UPDATE,
                }
            }),
            summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
            syntax: "key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET] \
                     [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
            ..STRING
        },
        set,
    ),
    row(
        Spec {
            name: "setnx",
            arity: 3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, OW | INSERT)],
            summary: "Set the string value of a key only when the key doesn't exist.",
            syntax: "key value",
            ..STRING
        },
        setnx,
    ),
    row(
        Spec {
            name: "setex",
            arity: 4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, OW | UPDATE)],
            since: "2.0.0",
            summary: "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
            syntax: "key seconds value",
            ..STRING
        },
        setex,
    ),
    row(
        Spec {
            name: "psetex",
            arity: 4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, OW | UPDATE)],
            since: "2.6.0",
            summary: "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't \
                      exist.",
            syntax: "key milliseconds value",
            ..STRING
        },
        psetex,
    ),
    row(
        Spec {
            name: "getset",
            arity: 3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            summary: "Returns the previous string value of a key after setting it to a new value.",
            syntax: "key value",
            ..STRING
        },
        getset,
    ),
    row(
        Spec {
            name: "mset",
            arity: -3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::range(1, -1, 2, OW | UPDATE)],
            since: "1.0.1",
            complexity: SET_MANY,
            summary: "Atomically creates or modifies the string values of one or more keys.",
            tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
            syntax: "key value [key value ...]",
            ..STRING
        },
        mset,
    ),
    row(
        Spec {
            name: "msetnx",
            arity: -3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::range(1, -1, 2, OW | INSERT)],
            since: "1.0.1",
            complexity: SET_MANY,
            summary: "Atomically modifies the string values of one or more keys only when all keys don't exist.",
            syntax: "key value [key value ...]",
            ..STRING
        },
        msetnx,
    ),
    row(
        Spec {
            name: "msetex",
            arity: -4,
            flags: WRITE | DENYOOM | MOVABLE_KEYS,
            keys: &[KeySpec {
                begin: Begin::Index(1),
                find: Find::Count { at: 0, first: 1, step: 2 },
                flags: OW | UPDATE,
            }],
            since: "8.4.0",
            complexity: SET_MANY,
            summary: "Atomically sets multiple string keys with a shared expiration in a single operation. Supports flexible \
                      argument parsing where condition and expiration flags can appear in any order.",
            tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
            syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                     PXAT unix-time-milliseconds | KEEPTTL]",
            ..STRING
        },
        msetex,
    ),
];

fn set(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    if ctx.args.len() == 3 {
        let before = ctx.kind_before(&key);
        put(ctx, &key, ctx.arg(2), false, Expiry::Clear);
        ctx.tell_replaced(&key, before);
        ctx.notify(class::STRING, "set", &key);
        ctx.out.ok();
        return Ok(Outcome::Done);
    }
    let options = Options::parse_set(ctx.args)?;
    let done = set_with(ctx, &key, ctx.arg(2), &options, "set")?;
    if !options.get {
        match done {
            true => ctx.out.ok(),
            false => ctx.out.null(),
        }
    }
    Ok(Outcome::Done)
}

/// SET with its options, `command` named in the errors. Writes GET's reply. False: the condition does not hold.
fn set_with(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    value: &[u8],
    options: &Options<'_>,
    command: &str,
) -> Result<bool, Error> {
    let deadline = options.ttl.deadline(ctx.now, command)?;
    if options.get {
        match ctx.db.read_string(key)? {
            Some(before) => write_str(&mut ctx.out, before),
            None => ctx.out.null(),
        }
    }
    if let Some(condition) = options.condition
        && !condition.holds(ctx.db.peek(key))?
    {
        return Ok(false);
    }
    if deadline.is_some_and(|ms| ms <= ctx.now) {
        // Nothing is set for a time that is over, but the former value is gone.
        expire_at_once(ctx, key);
        return Ok(true);
    }
    put_until(ctx, key, value, options.ttl, deadline);
    ctx.notify(class::STRING, "set", key);
    if deadline.is_some() {
        ctx.notify(class::GENERIC, "expire", key);
    }
    Ok(true)
}

/// Sets one key and returns whether it replaces another value.
fn put_until(ctx: &mut Ctx<'_>, key: &Key<'_>, value: &[u8], ttl: Ttl<'_>, deadline: Option<UnixMs>) {
    let expiry = match deadline {
        Some(ms) => Expiry::At(ms),
        None if ttl == Ttl::Keep => Expiry::Keep,
        None => Expiry::Clear,
    };
    let before = ctx.kind_before(key);
    put(ctx, key, value, false, expiry);
    ctx.tell_replaced(key, before);
}

fn setnx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let options = Options { condition: Some(Condition::Absent), ..Options::default() };
    let done = set_with(ctx, &key, ctx.arg(2), &options, "setnx")?;
    ctx.out.integer(i64::from(done));
    Ok(Outcome::Done)
}

fn setex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    set_for(ctx, Unit::Seconds, "setex")
}

fn psetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    set_for(ctx, Unit::Milliseconds, "psetex")
}

fn set_for(ctx: &mut Ctx<'_>, unit: Unit, command: &str) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let options = Options { ttl: Ttl::Time(unit, ctx.arg(2)), ..Options::default() };
    set_with(ctx, &key, ctx.arg(3), &options, command)?;
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn getset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    set_with(ctx, &key, ctx.arg(2), &Options { get: true, ..Options::default() }, "getset")?;
    Ok(Outcome::Done)
}

fn mset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if ctx.args.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    put_pairs(ctx, 1, ctx.args.len(), Ttl::Unsaid, None);
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn msetnx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if ctx.args.len().is_multiple_of(2) {
        return Err(Error::arity("msetnx"));
    }
    let free = (1..ctx.args.len()).step_by(2).all(|i| ctx.db.peek(&ctx.key(i)).is_none());
    if free {
        put_pairs(ctx, 1, ctx.args.len(), Ttl::Unsaid, None);
    }
    ctx.out.integer(i64::from(free));
    Ok(Outcome::Done)
}

/// Sets the keys at arguments `from..to`, with their values.
fn put_pairs(ctx: &mut Ctx<'_>, from: usize, to: usize, ttl: Ttl<'_>, deadline: Option<UnixMs>) {
    for i in (from..to).step_by(2) {
        let key = ctx.key(i);
        put_until(ctx, &key, ctx.arg(i + 1), ttl, deadline);
        // MSETEX notifies of the time first, unlike SET.
        if deadline.is_some() {
            ctx.notify(class::GENERIC, "expire", &key);
        }
        ctx.notify(class::STRING, "set", &key);
    }
}

fn msetex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let count = keyspace::canonical_int(ctx.arg(1))
        .filter(|count| (1..=i64::from(i32::MAX)).contains(count))
        .ok_or(Error::new("ERR invalid numkeys value or out of range"))?;
    let end = 2 + 2 * count as usize;
    if end > ctx.args.len() {
        return Err(Error::new("ERR wrong number of key-value pairs"));
    }
    let options = Options::parse_msetex(ctx.args, end)?;
    let deadline = options.ttl.deadline(ctx.now, "msetex")?;
    if let Some(condition) = options.condition {
        for i in (2..end).step_by(2) {
            if !condition.holds(ctx.db.peek(&ctx.key(i)))? {
                ctx.out.integer(0);
                return Ok(Outcome::Done);
            }
        }
    }
    put_pairs(ctx, 2, end, options.ttl, deadline);
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use clocks::UnixMs;

    use crate::spec::{KeyAt, key_flags::*};
    use crate::testing::Bench;

    #[test]
    fn what_set_does_with_its_key_depends_on_its_options() {
        let row = super::ROWS.iter().find(|row| row.spec.name == "set").unwrap();
        for (options, flags) in [
            ("", OW | UPDATE),
            ("ex 5 nx", OW | UPDATE),
            ("ifeq x", RW | UPDATE),
            ("ex get get", RW | ACCESS | UPDATE),
            ("ifeq get", RW | ACCESS | UPDATE),
            ("ex get", RW | ACCESS | UPDATE),
        ] {
            let line = format!("set k v {options}");
            let mut batch = resp::Batch::new();
            assert!(batch.push_copy(line.split_ascii_whitespace().map(str::as_bytes)));
            let mut keys = Vec::new();
            assert!(row.spec.keys_of(batch.args(0, &[]), &mut keys));
            assert_eq!(keys, [KeyAt { index: 1, flags }], "{options}");
        }
    }

    fn expiries(bench: &mut Bench) -> Vec<Option<u64>> {
        bench
            .image(|_| Vec::new())
            .into_iter()
            .map(|(_, expiry, _)| expiry.map(|at| at.since(UnixMs(1_000_000_000_000))))
            .collect()
    }

    /// In the order of Redis 8.8.
    #[test]
    fn events() {
        let mut bench = Bench::new();
        bench.words("set k v");
        bench.notified();
        assert_eq!(bench.words("set k w exat 1 get"), "$1\r\nv\r\n");
        assert_eq!(bench.notified(), ["del k"], "nothing is set for a time that is over");
        assert_eq!((bench.words("set k w pxat 1"), bench.notified().len()), ("+OK\r\n".into(), 0));
        bench.words("rpush k x");
        bench.words("msetex 2 k v l w ex 5");
        assert_eq!(
            bench.notified(),
            ["rpush k", "overwritten k", "type_changed k", "expire k", "set k", "expire l", "set l"]
        );
    }

    #[test]
    fn set_sets_and_clears_the_expiry() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("set k v"), "+OK\r\n");
        assert_eq!(bench.notified(), ["set k"]);
        assert_eq!(bench.words("set k v ex 10"), "+OK\r\n");
        assert_eq!(bench.notified(), ["overwritten k", "set k", "expire k"]);
        assert_eq!(expiries(&mut bench), [Some(10_000)]);
        for (options, expiry) in [
            ("px 7", Some(7)),
            ("keepttl", Some(7)),
            ("exat 1000000001", Some(1000)),
            ("pxat 1000000000009", Some(9)),
            ("", None),
            ("KEEPTTL", None),
            ("ex 1 ex 2", Some(2000)),
        ] {
            assert_eq!(bench.words(&format!("set k v {options}")), "+OK\r\n", "{options}");
            assert_eq!(expiries(&mut bench), [expiry], "{options}");
        }
        bench.now += 2001;
        assert_eq!(bench.words("get k"), "$-1\r\n");
    }

    #[test]
    fn conditions_of_set() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("set k v xx"), "$-1\r\n");
        assert_eq!(bench.words("set k v nx"), "+OK\r\n");
        assert_eq!(bench.words("set k w nx"), "$-1\r\n");
        assert_eq!(bench.words("set k w nx get"), "$1\r\nv\r\n");
        assert_eq!(bench.words("set k w xx get"), "$1\r\nv\r\n");
        assert_eq!(bench.words("set other w nx get"), "$-1\r\n");
        assert_eq!(bench.words("get other"), "$1\r\nw\r\n");
        assert_eq!(bench.words("set k x ifeq nope"), "$-1\r\n");
        assert_eq!(bench.words("set k x ifeq w get"), "$1\r\nw\r\n");
        assert_eq!(bench.words("set k y ifne x"), "$-1\r\n");
        assert_eq!(bench.words("set k hello ifne y"), "+OK\r\n");
        assert_eq!(bench.words("set k z ifdeq 9555e8555c62dcfd"), "+OK\r\n");
        assert_eq!(bench.words("set none z ifdeq 12"), "$-1\r\n");
        assert_eq!(bench.words("set none z ifdne 12"), "+OK\r\n");
        assert_eq!(bench.words("set none z ifdne 12"), "-ERR must be exactly 16 hexadecimal characters\r\n");
        assert_eq!(bench.words("get k"), "$1\r\nz\r\n");
    }

    #[test]
    fn errors_of_set() {
        let mut bench = Bench::new();
        for options in [
            "ex",
            "nx xx",
            "xx nx",
            "ex 1 px 1",
            "keepttl ex 1",
            "ex 1 keepttl",
            "persist",
            "exat 1 pxat 1",
            "foo",
            "ifeq",
            "nx ifeq a",
            "ifeq a ifne a",
            "get nx ex",
            "waytoolongforanoption",
        ] {
            assert_eq!(bench.words(&format!("set k v {options}")), "-ERR syntax error\r\n", "{options}");
        }
        for time in ["ex 0", "px -1", "ex 9223372036854775807", "px 9223372036854775807", "exat 9223372036854776"] {
            let reply = bench.words(&format!("set k v {time}"));
            assert_eq!(reply, "-ERR invalid expire time in 'set' command\r\n", "{time}");
        }
        assert_eq!(bench.words("set k v ex 1.5"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("setex k 0 v"), "-ERR invalid expire time in 'setex' command\r\n");
        assert_eq!(bench.words("psetex k -1 v"), "-ERR invalid expire time in 'psetex' command\r\n");
        assert_eq!(bench.words("mset a 1 b"), "-ERR wrong number of arguments for 'mset' command\r\n");
        assert_eq!(bench.words("msetnx a 1 b"), "-ERR wrong number of arguments for 'msetnx' command\r\n");
        assert_eq!(bench.effects.dirty, 0);
    }

    #[test]
    fn the_older_relatives() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("setnx k a"), ":1\r\n");
        assert_eq!(bench.words("setnx k b"), ":0\r\n");
        assert_eq!(bench.words("getset k b"), "$1\r\na\r\n");
        assert_eq!(bench.words("getset new b"), "$-1\r\n");
        assert_eq!(bench.words("setex k 5 c"), "+OK\r\n");
        assert_eq!(bench.words("psetex new 5 c"), "+OK\r\n");
        assert_eq!(expiries(&mut bench), [Some(5000), Some(5)]);
        assert_eq!(bench.words("msetnx x 1 k 2"), ":0\r\n");
        assert_eq!(bench.words("msetnx x 1 x 2"), ":1\r\n");
        assert_eq!(bench.words("get x"), "$1\r\n2\r\n");
    }

    #[test]
    fn msetex_sets_all_or_none() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("msetex 2 a 1 b 2 xx"), ":0\r\n");
        assert_eq!(bench.words("msetex 2 a 1 b 2 nx ex 5"), ":1\r\n");
        assert_eq!(bench.words("msetex 2 a 1 c 2 nx"), ":0\r\n");
        assert_eq!(bench.words("msetex 1 a 7 keepttl"), ":1\r\n");
        assert_eq!(expiries(&mut bench), [Some(5000), Some(5000)]);
        assert_eq!(bench.words("mget a b c"), "*3\r\n$1\r\n7\r\n$1\r\n2\r\n$-1\r\n");
        assert_eq!(bench.words("msetex 0 a 1"), "-ERR invalid numkeys value or out of range\r\n");
        assert_eq!(bench.words("msetex x a 1"), "-ERR invalid numkeys value or out of range\r\n");
        assert_eq!(bench.words("msetex 2 a 1 b"), "-ERR wrong number of key-value pairs\r\n");
        assert_eq!(bench.words("msetex 9999999999 a 1 b"), "-ERR invalid numkeys value or out of range\r\n");
        assert_eq!(bench.words("msetex 1 a 1 nx xx"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("msetex 1 a 1 ifeq 1"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("msetex 1 a 1 ex 0"), "-ERR invalid expire time in 'msetex' command\r\n");
    }
}

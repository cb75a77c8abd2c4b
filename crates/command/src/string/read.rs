//! Reading strings: GET, MGET, GETEX, GETDEL, STRLEN, GETRANGE and SUBSTR.

use keyspace::Str;

use super::options::{Options, Ttl};
use super::{STRING, row, write_str};
use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

const SUBSTRING: &str = "O(N) where N is the length of the returned string. The complexity is ultimately determined by the \
                         returned length, but because creating a substring from an existing string is very cheap, it can \
                         be considered O(1) for small strings.";

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "get",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            summary: "Returns the string value of a key.",
            syntax: "key",
            ..STRING
        },
        get,
    ),
    row(
        Spec {
            name: "mget",
            arity: -2,
            flags: READONLY | FAST,
            keys: &[KeySpec::range(1, -1, 1, RO | ACCESS)],
            complexity: "O(N) where N is the number of keys to retrieve.",
            summary: "Atomically returns the string values of one or more keys.",
            tips: &["request_policy:multi_shard"],
            syntax: "key [key ...]",
            ..STRING
        },
        mget,
    ),
    row(
        Spec {
            name: "getex",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            since: "6.2.0",
            summary: "Returns the string value of a key after setting its expiration time.",
            syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
            ..STRING
        },
        getex,
    ),
    row(
        Spec {
            name: "getdel",
            arity: 2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            since: "6.2.0",
            summary: "Returns the string value of a key after deleting the key.",
            syntax: "key",
            ..STRING
        },
        getdel,
    ),
    row(
        Spec {
            name: "strlen",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            since: "2.2.0",
            summary: "Returns the length of a string value.",
            syntax: "key",
            ..STRING
        },
        strlen,
    ),
    row(
        Spec {
            name: "getrange",
            arity: 4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "2.4.0",
            complexity: SUBSTRING,
            summary: "Returns a substring of the string stored at a key.",
            syntax: "key start end",
            ..STRING
        },
        getrange,
    ),
    row(
        Spec {
            name: "substr",
            arity: 4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            complexity: SUBSTRING,
            summary: "Returns a substring from a string value.",
            syntax: "key start end",
            ..STRING
        },
        getrange,
    ),
];

fn get(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.db.read_string(&key)? {
        Some(value) => write_str(&mut ctx.out, value),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

fn mget(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    ctx.out.array(ctx.args.len() - 1);
    for i in 1..ctx.args.len() {
        let key = ctx.key(i);
        // Another type counts as absent here.
        match ctx.db.read_string(&key) {
            Ok(Some(value)) => write_str(&mut ctx.out, value),
            _ => ctx.out.null(),
        }
    }
    Ok(Outcome::Done)
}

fn getex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = Options::parse_getex(ctx.args)?;
    let key = ctx.key(1);
    let Some(value) = ctx.db.read_string(&key)? else {
        ctx.out.null();
        return Ok(Outcome::Done);
    };
    let deadline = options.ttl.deadline(ctx.now, "getex")?;
    write_str(&mut ctx.out, value);
    match deadline {
        Some(ms) if ms <= ctx.now => {
            ctx.db.remove(&key);
            ctx.effect(op::DELETE, &key, |_| {});
            ctx.notify(class::GENERIC, "del", &key);
        }
        Some(ms) => {
            ctx.db.set_expiry(&key, Some(ms));
            ctx.effect(op::EXPIRE, &key, |w| w.varint(ms.0));
            ctx.notify(class::GENERIC, "expire", &key);
        }
        None if options.ttl == Ttl::Persist && ctx.db.peek(&key).is_some_and(|entry| entry.expiry().is_some()) => {
            ctx.db.set_expiry(&key, None);
            ctx.effect(op::EXPIRE, &key, |w| w.varint(0));
            ctx.notify(class::GENERIC, "persist", &key);
        }
        None => {}
    }
    Ok(Outcome::Done)
}

fn getdel(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.db.read_string(&key)? {
        Some(value) => {
            write_str(&mut ctx.out, value);
            ctx.db.remove(&key);
            ctx.effect(op::DELETE, &key, |_| {});
            ctx.notify(class::GENERIC, "del", &key);
        }
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

fn strlen(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let len = ctx.db.read_string(&key)?.map_or(0, |value| value.len());
    ctx.out.count(len as u64);
    Ok(Outcome::Done)
}

fn getrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let value = ctx.db.read_string(&key)?.unwrap_or(Str::Bytes(b""));
    value.with(|text| ctx.out.bulk(slice(text, start, end)));
    Ok(Outcome::Done)
}

/// Bytes `start` to `end`, both included; negative ones count from the end. A place before the first byte means the
/// first byte, for `end` too, unless both count from the end and are the wrong way round.
fn slice(text: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = text.len() as i64;
    let absolute = |index: i64| if index < 0 { (index + len).max(0) } else { index };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    if start > end {
        return b"";
    }
    &text[start as usize..=end as usize]
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn several_keys_at_once() {
        let mut bench = Bench::new();
        bench.words("mset a 1 b xyz");
        assert_eq!(bench.words("mget a none b a"), "*4\r\n$1\r\n1\r\n$-1\r\n$3\r\nxyz\r\n$1\r\n1\r\n");
    }

    #[test]
    fn ranges_of_strings_and_integers() {
        let mut bench = Bench::new();
        bench.words("mset n 1234 s foobar");
        for (range, part) in [
            ("0 2", "123"),
            ("0 -1", "1234"),
            ("-3 -1", "234"),
            ("5 3", ""),
            ("3 5000", "4"),
            ("-5000 10000", "1234"),
            ("-1 -2", ""),
            ("0 -5000", "1"),
            ("0 -4", "1"),
            ("0 -5", "1"),
            ("1 -5", ""),
            ("-100 -99", "1"),
            ("-99 -100", ""),
            ("4 9", ""),
            ("-9223372036854775808 9223372036854775807", "1234"),
        ] {
            assert_eq!(
                bench.words(&format!("getrange n {range}")),
                format!("${}\r\n{part}\r\n", part.len()),
                "{range}"
            );
        }
        assert_eq!(bench.words("substr s 1 3"), "$3\r\noob\r\n");
        assert_eq!(bench.words("substr s 0 -100"), "$1\r\nf\r\n");
        assert_eq!(bench.run(&[b"set", b"empty", b""]), b"+OK\r\n");
        for range in ["0 -1", "0 -100", "-100 -99", "0 0"] {
            assert_eq!(bench.words(&format!("getrange empty {range}")), "$0\r\n\r\n", "{range}");
        }
        assert_eq!(bench.words("getrange none 0 1"), "$0\r\n\r\n");
        assert_eq!(bench.words("getrange s a 1"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("strlen n"), ":4\r\n");
        assert_eq!(bench.words("strlen none"), ":0\r\n");
    }

    #[test]
    fn getex_changes_the_expiry_only() {
        let mut bench = Bench::new();
        let expiry = |bench: &mut Bench| bench.image(|_| Vec::new())[0].1;
        bench.words("set k v");
        assert_eq!(bench.words("getex k ex 10"), "$1\r\nv\r\n");
        assert_eq!(expiry(&mut bench), Some(bench.now + 10_000));
        assert_eq!(bench.words("getex k pxat 1000000000005"), "$1\r\nv\r\n");
        assert_eq!(expiry(&mut bench), Some(bench.now + 5));
        let changes = bench.effects.dirty;
        assert_eq!(bench.words("getex k"), "$1\r\nv\r\n");
        assert_eq!(bench.effects.dirty, changes);
        assert_eq!(bench.words("getex k persist"), "$1\r\nv\r\n");
        assert_eq!(expiry(&mut bench), None);
        assert_eq!(bench.words("getex k persist"), "$1\r\nv\r\n");
        assert_eq!(bench.effects.dirty, changes + 1);
        assert_eq!(bench.words("getex none ex 0"), "$-1\r\n");
        assert_eq!(bench.words("getex k ex 0"), "-ERR invalid expire time in 'getex' command\r\n");
        assert_eq!(bench.words("getex k ex"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("getex k keepttl"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("getex k nx"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("getex k persist ex 10"), "-ERR syntax error\r\n");
        bench.notified();
        assert_eq!(bench.words("getex k exat 1"), "$1\r\nv\r\n");
        assert_eq!(bench.words("get k"), "$-1\r\n");
        assert_eq!(bench.notified(), ["del k"]);
        assert_eq!(bench.words("getdel k"), "$-1\r\n");
        bench.words("set k w");
        assert_eq!(bench.words("getdel k"), "$1\r\nw\r\n");
        assert_eq!(bench.words("getdel k"), "$-1\r\n");
    }
}

//! Strings as bitmaps: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP.

use keyspace::{Expiry, Str};
use object::bits::{self, Combine};
use std::borrow::Cow;

use super::edit::overwrite;
use super::{BITMAP, put, row};
use crate::ctx::{Ctx, Outcome};
use crate::dialect::Difference;
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "setbit",
            arity: 4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            since: "2.2.0",
            summary: "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
            syntax: "key offset value",
            ..BITMAP
        },
        setbit,
    ),
    row(
        Spec {
            name: "getbit",
            arity: 3,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "2.2.0",
            summary: "Returns a bit value by offset.",
            syntax: "key offset",
            ..BITMAP
        },
        getbit,
    ),
    row(
        Spec {
            name: "bitcount",
            arity: -2,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "2.6.0",
            complexity: "O(N)",
            summary: "Counts the number of set bits (population counting) in a string.",
            syntax: "key [start end [BYTE | BIT]]",
            ..BITMAP
        },
        bitcount,
    ),
    row(
        Spec {
            name: "bitpos",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "2.8.7",
            complexity: "O(N)",
            summary: "Finds the first set (1) or clear (0) bit in a string.",
            syntax: "key bit [start [end [BYTE | BIT]]]",
            ..BITMAP
        },
        bitpos,
    ),
    row(
        Spec {
            name: "bitop",
            arity: -4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(2, OW | UPDATE), KeySpec::range(3, -1, 1, RO | ACCESS)],
            since: "2.6.0",
            complexity: "O(N)",
            summary: "Performs bitwise operations on multiple strings, and stores the result.",
            syntax: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
            ..BITMAP
        },
        bitop,
    ),
];

/// A bit position that a string may have.
pub(super) fn bit_offset(ctx: &Ctx<'_>, offset: Option<i64>) -> Result<u64, Error> {
    offset
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < ctx.tunables.max_string)
        .ok_or(Error::new("ERR bit offset is not an integer or out of range"))
}

fn setbit(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let position = bit_offset(ctx, keyspace::canonical_int(ctx.arg(2)))?;
    let bit = match ctx.arg(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Error::new("ERR bit is not an integer or out of range")),
    };
    let key = ctx.key(1);
    let at = (position / 8) as usize;
    let present = match ctx.db.peek(&key) {
        Some(entry) => entry.string()?.with(|text| text.get(at).copied()),
        None => None,
    };
    let mut byte = [present.unwrap_or(0)];
    let was = bits::set(&mut byte, position % 8, bit) == Some(true);
    if present.is_none() || was != bit {
        overwrite(ctx, &key, at, &byte)?;
        ctx.notify(class::STRING, "setbit", &key);
    }
    ctx.out.integer(i64::from(was));
    Ok(Outcome::Done)
}

fn getbit(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let position = bit_offset(ctx, keyspace::canonical_int(ctx.arg(2)))?;
    let key = ctx.key(1);
    let bit = ctx.db.read_string(&key)?.is_some_and(|value| value.with(|text| bits::get(text, position)));
    ctx.out.integer(i64::from(bit));
    Ok(Outcome::Done)
}

/// `start` and `end` of BITCOUNT and BITPOS as given: bytes or bits, negative ones from the end.
struct Range {
    start: i64,
    end: Option<i64>,
    bits: bool,
}

impl Range {
    /// Bits `first..=last` of a string of `len` bytes; `None` if there are none.
    fn resolve(&self, len: usize) -> Option<(u64, u64)> {
        let total = if self.bits { len as i64 * 8 } else { len as i64 };
        let absolute = |index: i64| if index < 0 { (index + total).max(0) } else { index };
        let start = absolute(self.start);
        let end = self.end.map_or(total - 1, |end| absolute(end).min(total - 1));
        if start > end {
            return None;
        }
        let (start, end) = (start as u64, end as u64);
        Some(if self.bits { (start, end) } else { (start * 8, end * 8 + 7) })
    }
}

/// True if argument `i`, if there is one, says BIT rather than BYTE.
fn unit_is_bit(ctx: &Ctx<'_>, i: usize) -> Result<bool, Error> {
    match ctx.args.get(i) {
        None => Ok(false),
        Some(_) if ctx.is(i, "bit") => Ok(true),
        Some(_) if ctx.is(i, "byte") => Ok(false),
        Some(_) => Err(Error::SYNTAX),
    }
}

fn bitcount(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let range = match ctx.args.len() {
        2 => Range { start: 0, end: None, bits: false },
        3 if ctx.tunables.dialect.is_valkey(Difference::CountFrom) => {
            Range { start: ctx.int(2)?, end: None, bits: false }
        }
        4 | 5 => {
            let (start, end) = (ctx.int(2)?, ctx.int(3)?);
            Range { start, end: Some(end), bits: unit_is_bit(ctx, 4)? }
        }
        _ => return Err(Error::SYNTAX),
    };
    let key = ctx.key(1);
    let value = ctx.db.read_string(&key)?.unwrap_or(Str::Bytes(b""));
    // Backwards even before it is known how long the string is: cut at 0 both might meet.
    let backwards = matches!((range.start, range.end), (start @ ..0, Some(end @ ..0)) if start > end);
    let count = value.with(|text| match range.resolve(text.len()) {
        Some((first, last)) if !backwards => bits::count_range(text, first, last),
        _ => 0,
    });
    ctx.out.count(count);
    Ok(Outcome::Done)
}

fn bitpos(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let bit = match ctx.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(Error::new("ERR The bit argument must be 1 or 0.")),
    };
    let argc = ctx.args.len();
    if argc > 6 {
        return Err(Error::SYNTAX);
    }
    let start = if argc > 3 { ctx.int(3)? } else { 0 };
    let in_bits = argc == 6 && unit_is_bit(ctx, 5)?;
    let end = if argc > 4 { Some(ctx.int(4)?) } else { None };
    let range = Range { start, end, bits: in_bits };
    let key = ctx.key(1);
    let position = match ctx.db.read_string(&key)? {
        // An endless row of zeros.
        None if bit => -1,
        None => 0,
        Some(value) => value.with(|text| match range.resolve(text.len()) {
            None => -1,
            Some((first, last)) => match bits::position(text, bit, first, last) {
                Some(position) => position as i64,
                // Without an end the string goes on with zeros.
                None if !bit && end.is_none() => text.len() as i64 * 8,
                None => -1,
            },
        }),
    };
    ctx.out.integer(position);
    Ok(Outcome::Done)
}

fn bitop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let operation = match ctx.arg(1).to_ascii_lowercase().as_slice() {
        b"and" => Combine::And,
        b"or" => Combine::Or,
        b"xor" => Combine::Xor,
        b"not" => Combine::Not,
        b"diff" => Combine::Diff,
        b"diff1" => Combine::Diff1,
        b"andor" => Combine::AndOr,
        b"one" => Combine::One,
        _ => return Err(Error::SYNTAX),
    };
    let sources = ctx.args.len() - 3;
    let too_few = match operation {
        Combine::Not if sources > 1 => {
            return Err(Error::new("ERR BITOP NOT must be called with a single source key."));
        }
        Combine::Diff => "DIFF",
        Combine::Diff1 => "DIFF1",
        Combine::AndOr => "ANDOR",
        _ => "",
    };
    if sources < 2 && !too_few.is_empty() {
        return Err(Error::text(format!("ERR BITOP {too_few} must be called with at least two source keys.")));
    }
    let mut texts: Vec<Cow<'_, [u8]>> = Vec::with_capacity(sources);
    for i in 3..ctx.args.len() {
        texts.push(match ctx.db.read_string(&ctx.key(i))? {
            None => Cow::Borrowed(&[]),
            Some(Str::Bytes(text)) => Cow::Borrowed(text),
            Some(Str::Blob(text)) => Cow::Borrowed(text),
            Some(value @ Str::Int(_)) => Cow::Owned(value.to_vec()),
        });
    }
    let slices: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
    let longest = slices.iter().map(|text| text.len()).max().unwrap_or(0);
    // The result, the value, and what the log gets.
    if !headroom::has_room(3 * longest, longest) {
        return Err(Error::OOM);
    }
    let result = bits::combine(operation, &slices);
    let key = ctx.key(2);
    if !result.is_empty() {
        let before = ctx.kind_before(&key);
        put(ctx, &key, &result, true, Expiry::Clear);
        ctx.tell_replaced(&key, before);
        ctx.notify(class::STRING, "set", &key);
    } else if ctx.db.remove(&key) {
        ctx.effect(op::DELETE, &key, |_| {});
        ctx.notify(class::GENERIC, "del", &key);
    }
    ctx.out.count(result.len() as u64);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;
    use crate::testing::Bench;

    #[test]
    fn single_bits() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("setbit k 1 1"), ":0\r\n");
        assert_eq!(bench.words("get k"), "$1\r\n@\r\n");
        assert_eq!(bench.words("setbit k 1 1"), ":1\r\n");
        assert_eq!(bench.effects.dirty, 1);
        assert_eq!(bench.words("setbit k 90 0"), ":0\r\n");
        assert_eq!(bench.words("strlen k"), ":12\r\n");
        assert_eq!(bench.effects.dirty, 2);
        assert_eq!(bench.notified(), ["setbit k", "setbit k"]);
        bench.words("set n 1");
        assert_eq!(bench.words("getbit n 2"), ":1\r\n");
        assert_eq!(bench.words("getbit n 100"), ":0\r\n");
        assert_eq!(bench.words("getbit none 0"), ":0\r\n");
        assert_eq!(bench.words("setbit n 6 1"), ":0\r\n");
        assert_eq!(bench.words("get n"), "$1\r\n3\r\n");
        for offset in ["-1", "4294967296", "x", "1.0"] {
            let error = "-ERR bit offset is not an integer or out of range\r\n";
            assert_eq!(bench.words(&format!("setbit k {offset} 1")), error);
            assert_eq!(bench.words(&format!("getbit k {offset}")), error);
        }
        for bit in ["2", "-1", "x", "01"] {
            assert_eq!(bench.words(&format!("setbit k 0 {bit}")), "-ERR bit is not an integer or out of range\r\n");
        }
    }

    #[test]
    fn a_far_bit_makes_a_long_string() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("setbit k 4294967295 1"), ":0\r\n");
        assert_eq!(bench.words("strlen k"), ":536870912\r\n");
        assert_eq!(bench.words("getbit k 4294967295"), ":1\r\n");
        assert!(bench.effects.encoded.len() < 20);
        bench.words("set short abc");
        assert_eq!(bench.words("setbit short 4294967295 1"), ":0\r\n");
        assert_eq!(bench.words("getrange short 0 3"), "$4\r\nabc\0\r\n");
    }

    #[test]
    fn counts() {
        let mut bench = Bench::new();
        bench.words("set k foobar");
        for (range, count) in [
            ("", 26),
            ("0 0", 4),
            ("1 1", 6),
            ("0 -5", 10),
            ("-2 -1", 7),
            ("1 1 byte", 6),
            ("5 30 bit", 17),
            ("-3 -1 bit", 1),
            ("-1 -3", 0),
            ("-100 -200", 0),
            ("-200 -100", 4),
            ("9 5", 0),
        ] {
            assert_eq!(bench.words(&format!("bitcount k {range}")), format!(":{count}\r\n"), "{range}");
        }
        assert_eq!(bench.words("bitcount none"), ":0\r\n");
        assert_eq!(bench.words("bitcount none 0 -1"), ":0\r\n");
        assert_eq!(bench.words("bitcount k 0"), "-ERR syntax error\r\n");
        bench.tunables.dialect = Dialect::Valkey;
        assert_eq!(bench.words("bitcount k 0"), bench.words("bitcount k"));
        assert_eq!(bench.words("bitcount k -1"), bench.words("bitcount k -1 -1"));
        assert_eq!(bench.words("bitcount k 99"), ":0\r\n");
        assert_eq!(bench.words("bitcount none 0"), ":0\r\n");
        bench.tunables.dialect = Dialect::Redis;
        assert_eq!(bench.words("bitcount k 0 1 bites"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("bitcount k 0 1 bit x"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("bitcount k a b"), "-ERR value is not an integer or out of range\r\n");
    }

    #[test]
    fn positions() {
        let mut bench = Bench::new();
        bench.run(&[b"set", b"ones", b"\xff\xff\xff"]);
        bench.run(&[b"set", b"k", b"\xff\xf0\x00"]);
        bench.run(&[b"set", b"empty", b""]);
        for (query, position) in [
            ("ones 0", 24),
            ("ones 0 1", 24),
            ("ones 0 0 -1", -1),
            ("ones 0 3", -1),
            ("k 0", 12),
            ("k 1 2", -1),
            ("k 1 -1", -1),
            ("k 0 2", 16),
            ("k 0 0 11 bit", -1),
            ("k 0 0 12 bit", 12),
            ("k 1 11 12 bit", 11),
            ("k 1 12 -1 bit", -1),
            ("k 0 1 -1 byte", 12),
            ("empty 0", -1),
            ("empty 1", -1),
            ("none 0", 0),
            ("none 1", -1),
            ("none 0 5 9", 0),
        ] {
            assert_eq!(bench.words(&format!("bitpos {query}")), format!(":{position}\r\n"), "{query}");
        }
        assert_eq!(bench.words("bitpos k 2"), "-ERR The bit argument must be 1 or 0.\r\n");
        assert_eq!(bench.words("bitpos k 0 1 2 hello"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("bitpos k 0 1 2 bit x"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("bitpos k x"), "-ERR value is not an integer or out of range\r\n");
    }

    #[test]
    fn combinations() {
        let mut bench = Bench::new();
        bench.run(&[b"set", b"a", b"\xff\x0f"]);
        bench.run(&[b"set", b"b", b"\xaa"]);
        for (operation, result) in [
            ("and t a b", &b"\xaa\x00"[..]),
            ("or t a b", b"\xff\x0f"),
            ("xor t a b", b"\x55\x0f"),
            ("not t a", b"\x00\xf0"),
            ("diff t a b", b"\x55\x0f"),
            ("diff1 t a b", b"\x00\x00"),
            ("andor t a b", b"\xaa\x00"),
            ("one t a b", b"\x55\x0f"),
            ("OR t a none", b"\xff\x0f"),
        ] {
            assert_eq!(bench.words(&format!("bitop {operation}")), ":2\r\n", "{operation}");
            let reply = bench.run(&[b"get", b"t"]);
            assert_eq!(reply[4..6], *result, "{operation}");
        }
        bench.notified();
        assert_eq!(bench.words("bitop and t none nil"), ":0\r\n");
        assert_eq!(bench.words("exists t"), ":0\r\n");
        assert_eq!(bench.words("bitop and t none nil"), ":0\r\n");
        assert_eq!(bench.notified(), ["del t"]);
        assert_eq!(bench.words("bitop nand t a"), "-ERR syntax error\r\n");
        let not = bench.words("bitop not t a b");
        assert_eq!(not, "-ERR BITOP NOT must be called with a single source key.\r\n");
        for operation in ["DIFF", "DIFF1", "ANDOR"] {
            let reply = bench.words(&format!("bitop {operation} t a"));
            assert_eq!(reply, format!("-ERR BITOP {operation} must be called with at least two source keys.\r\n"));
        }
        bench.words("set n 12");
        assert_eq!(bench.words("bitop one n n"), ":2\r\n");
        assert_eq!(bench.words("get n"), "$2\r\n12\r\n");
    }
}

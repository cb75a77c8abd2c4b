//! Conditions on the value a key has (Redis 8.4): IFEQ and its like, DELEX, DIGEST.

use keyspace::{EntryRef, Str};
use xxhash_rust::xxh3::xxh3_64;

use super::{STRING, delete_if_present, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "digest",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "8.4.0",
            complexity: "O(N) where N is the length of the string value.",
            summary: "Returns the XXH3 hash of a string value.",
            syntax: "key",
            ..STRING
        },
        digest,
    ),
    row(
        Spec {
            name: "delex",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | DELETE | VARIABLE_FLAGS)],
            vary_flags: Some(|args| if args.len() > 2 { RW | DELETE } else { RM | DELETE }),
            since: "8.4.0",
            complexity: "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.",
            summary: "Conditionally removes the specified key based on value or digest comparison.",
            syntax: "key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
            ..STRING
        },
        delex,
    ),
    row(
        Spec {
            name: "delifeq",
            arity: 3,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RM | DELETE)],
            since: "9.0.0",
            summary: "Deletes a key if its string is the given one (Valkey).",
            syntax: "key value",
            ..STRING
        },
        delifeq,
    ),
];

/// A condition for the command.
#[derive(Clone, Copy)]
pub(super) enum Condition<'a> {
    /// NX: there is no such key.
    Absent,
    /// XX: there is such a key, of any type.
    Present,
    /// IFEQ: the string is this one.
    Equal(&'a [u8]),
    /// IFNE: there is no such key, or the string is another.
    NotEqual(&'a [u8]),
    /// IFDEQ: the string has this digest.
    DigestEqual(&'a [u8]),
    /// IFDNE: there is no such key, or the string has another digest.
    DigestNotEqual(&'a [u8]),
}

impl Condition<'_> {
    /// True if the condition holds. Comparing fails if the key has another type or the digest is malformed.
    pub(super) fn holds(self, entry: Option<EntryRef<'_>>) -> Result<bool, Error> {
        match self {
            Condition::Absent => Ok(entry.is_none()),
            Condition::Present => Ok(entry.is_some()),
            Condition::Equal(_) | Condition::DigestEqual(_) => match entry {
                Some(entry) => self.compare(entry.string()?),
                None => Ok(false),
            },
            Condition::NotEqual(_) | Condition::DigestNotEqual(_) => match entry {
                Some(entry) => self.compare(entry.string()?),
                None => Ok(true),
            },
        }
    }

    fn compare(self, value: Str<'_>) -> Result<bool, Error> {
        Ok(match self {
            Condition::Absent => false,
            Condition::Present => true,
            Condition::Equal(other) => value.with(|text| text == other),
            Condition::NotEqual(other) => value.with(|text| text != other),
            Condition::DigestEqual(digest) => has_digest(value, digest)?,
            Condition::DigestNotEqual(digest) => !has_digest(value, digest)?,
        })
    }
}

fn has_digest(value: Str<'_>, digest: &[u8]) -> Result<bool, Error> {
    if digest.len() != 16 {
        return Err(Error::new("ERR must be exactly 16 hexadecimal characters"));
    }
    Ok(value.with(digest_of).as_bytes().eq_ignore_ascii_case(digest))
}

/// The digest as Redis shows it: XXH3 of 64 bits, hexadecimal, leading zeros kept.
fn digest_of(text: &[u8]) -> String {
    format!("{:016x}", xxh3_64(text))
}

fn digest(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.db.read_string(&key)? {
        Some(value) => ctx.out.bulk(value.with(digest_of)),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

fn delex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if !matches!(ctx.args.len(), 2 | 4) {
        return Err(Error::arity("delex"));
    }
    let key = ctx.key(1);
    let Some(entry) = ctx.db.peek(&key) else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    if ctx.args.len() == 4 {
        let value =
            entry.string().map_err(|_| Error::new("ERR Key should be of string type if conditions are specified"))?;
        let other = ctx.arg(3);
        let condition = match ctx.arg(2).to_ascii_uppercase().as_slice() {
            b"IFEQ" => Condition::Equal(other),
            b"IFNE" => Condition::NotEqual(other),
            b"IFDEQ" => Condition::DigestEqual(other),
            b"IFDNE" => Condition::DigestNotEqual(other),
            _ => return Err(Error::new("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
        };
        if !condition.compare(value)? {
            ctx.out.integer(0);
            return Ok(Outcome::Done);
        }
    }
    delete_if_present(ctx, &key);
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

fn delifeq(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let equal = match ctx.db.peek(&key) {
        Some(entry) => Condition::Equal(ctx.arg(2)).compare(entry.string()?)?,
        None => false,
    };
    if equal {
        delete_if_present(ctx, &key);
    }
    ctx.out.integer(i64::from(equal));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn digests_are_those_of_redis() {
        let mut bench = Bench::new();
        bench.run(&[b"set", b"empty", b""]);
        bench.words("mset hello hello n 123 zero v8");
        for (key, digest) in [
            ("hello", "9555e8555c62dcfd"),
            ("empty", "2d06800538d394c2"),
            ("n", "404a763b3f4c8c9a"),
            ("zero", "0cc76dbb41381419"),
        ] {
            assert_eq!(bench.words(&format!("digest {key}")), format!("$16\r\n{digest}\r\n"));
        }
        assert_eq!(bench.words("digest none"), "$-1\r\n");
    }

    #[test]
    fn delifeq_deletes_an_equal_string() {
        let mut bench = Bench::new();
        bench.words("set k hello");
        bench.words("rpush l x");
        bench.notified();
        assert_eq!(bench.words("delifeq k hell"), ":0\r\n");
        assert_eq!(bench.words("delifeq none hello"), ":0\r\n");
        assert_eq!(bench.words("delifeq k hello"), ":1\r\n");
        assert_eq!(bench.notified(), ["del k"]);
        bench.words("set n 12");
        assert_eq!(bench.words("delifeq n 12"), ":1\r\n");
        assert!(bench.words("delifeq l x").starts_with("-WRONGTYPE"));
        assert_eq!(bench.replayed().words("exists k n"), ":0\r\n");
    }

    #[test]
    fn delex_deletes_what_it_expects() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("delex k ifeq x"), ":0\r\n");
        assert_eq!(bench.words("delex k nonsense x"), ":0\r\n");
        bench.words("set k hello");
        assert_eq!(bench.words("delex k ifeq x"), ":0\r\n");
        assert_eq!(bench.words("delex k ifne hello"), ":0\r\n");
        assert_eq!(bench.words("delex k ifdeq 0000000000000000"), ":0\r\n");
        assert_eq!(bench.words("delex k ifdne 9555E8555C62DCFD"), ":0\r\n");
        assert_eq!(bench.words("delex k ifdeq 9555"), "-ERR must be exactly 16 hexadecimal characters\r\n");
        assert_eq!(bench.words("delex k foo x"), "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE\r\n");
        assert_eq!(bench.words("delex k ifeq"), "-ERR wrong number of arguments for 'delex' command\r\n");
        assert_eq!(bench.words("delex k ifdeq 9555E8555C62DCFD"), ":1\r\n");
        assert_eq!(bench.words("exists k"), ":0\r\n");
        bench.words("set k 12");
        assert_eq!(bench.words("delex k ifeq 12"), ":1\r\n");
        bench.words("set k 12");
        assert_eq!(bench.words("delex k"), ":1\r\n");
    }
}

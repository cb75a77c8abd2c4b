//! Commands about all keys, or any: KEYS, SCAN, RANDOMKEY, DBSIZE.
//!
//! A SCAN cursor is a position of the walk, see [`super::cursor`]. Tables are ordered by hash whatever their size, so a
//! key that is there during the whole scan is returned exactly once.

use std::collections::VecDeque;

use keyspace::SLOTS;
use object::glob;
use resp::{Protocol, Reply};

use crate::ctx::Ctx;
use crate::dialect::Difference;
use crate::error::Error;
use crate::families::Run;
use crate::rng::Rng;
use crate::scan_options;
use crate::spec::{Row, Spec, flags::*};
use crate::walk::{Position, Visited, Walk};

use super::cursor::{can_name, cursor_of, position_of};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "keys",
            arity: 2,
            flags: READONLY,
            categories: &["keyspace", "dangerous"],
            complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in \
                         the database and the given pattern have limited length.",
            summary: "Returns all key names that match a pattern.",
            tips: &["request_policy:all_shards", "nondeterministic_output_order"],
            syntax: "pattern",
            ..Spec::NEW
        },
        run: Run::Walk(keys),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "scan",
            arity: -2,
            flags: READONLY,
            categories: &["keyspace"],
            since: "2.8.0",
            complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor \
                         to return back to 0. N is the number of keys in the database.",
            summary: "Iterates over the key names in the database.",
            tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
            syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
            ..Spec::NEW
        },
        run: Run::Walk(scan),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "randomkey",
            arity: 1,
            flags: READONLY,
            categories: &["keyspace"],
            summary: "Returns a random key name from the database.",
            tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
            ..Spec::NEW
        },
        run: Run::Walk(randomkey),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "dbsize",
            arity: 1,
            flags: READONLY | FAST,
            categories: &["keyspace"],
            group: "server",
            summary: "Returns the number of keys in the database.",
            tips: &["request_policy:all_shards", "response_policy:agg_sum"],
            ..Spec::NEW
        },
        run: Run::Walk(dbsize),
        subcommands: &[],
    },
];

/// A position from which there is nothing to visit.
const THE_END: Position = Position { slot: SLOTS as u16, hash: 0 };
/// Buckets that a walk may visit in vain before it answers. A database of a few keys, spread over slots that another
/// database fills, must not take a call per key.
const IDLE_BUCKETS: u64 = 4096;

/// True if keys may have a type of this name, in any case of letters.
fn is_type(name: &[u8]) -> bool {
    const TYPES: [&[u8]; 6] = [b"string", b"list", b"set", b"zset", b"hash", b"stream"];
    TYPES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The wanted keys.
struct Filter {
    /// `None`: every name.
    pattern: Option<Vec<u8>>,
    /// Type name as TYPE prints it, in lower case. No key has a type that is not known.
    kind: Option<Vec<u8>>,
}

impl Filter {
    fn named(pattern: &[u8]) -> Self {
        Self { pattern: (pattern != b"*").then(|| pattern.to_vec()), kind: None }
    }

    fn names(&self, key: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, key))
    }

    fn accepts(&self, found: Visited<'_>) -> bool {
        self.kind.as_ref().is_none_or(|kind| found.kind.type_name().as_bytes() == kind)
            && self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, found.key))
    }

    fn slot(&self) -> Option<u16> {
        self.pattern.as_ref().and_then(|pattern| slot_of_pattern(pattern))
    }
}

/// The only slot in which names can match: that of the pattern's hash tag, or of the one name it describes.
pub(super) fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let special = pattern.iter().position(|b| b"*?[\\".contains(b));
    let Some(literal) = special.map(|at| &pattern[..at]) else { return Some(keyspace::slot_of(pattern)) };
    let open = memchr::memchr(b'{', literal)?;
    let close = memchr::memchr(b'}', &literal[open..])?;
    (close > 1).then(|| keyspace::slot_of(literal))
}

/// Names are collected in pieces of this size, in bytes, so that millions of them never move.
const PIECE: usize = 256 * 1024;
/// Bytes of names that go into the reply at once.
const PART: usize = 1 << 20;

/// Names in the form of a reply.
#[derive(Default)]
struct Names {
    count: usize,
    /// Bulk strings, which are the same in every protocol.
    pieces: VecDeque<Vec<u8>>,
    /// The bytes before them have been written.
    begun: bool,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.count += 1;
        if self.pieces.back().is_none_or(|piece| piece.len() >= PIECE) {
            // The first is often the only one, and small.
            let room = if self.pieces.is_empty() { 0 } else { PIECE + PIECE / 16 };
            self.pieces.push_back(Vec::with_capacity(room));
        }
        if let Some(piece) = self.pieces.back_mut() {
            Reply::new(piece, Protocol::Resp2).bulk(name);
        }
    }

    /// Writes the next part. Before the first one it writes `head` and the number of names. True: it was the last.
    fn write(&mut self, out: &mut Reply<'_>, head: impl FnOnce(&mut Reply<'_>)) -> bool {
        if !self.begun {
            self.begun = true;
            head(out);
            out.array(self.count);
        }
        let mut written = 0;
        while written < PART
            && let Some(piece) = self.pieces.pop_front()
        {
            out.raw(&piece);
            written += piece.len();
        }
        self.pieces.is_empty()
    }
}

struct Keys {
    filter: Filter,
    /// See [`slot_of_pattern`].
    slot: Option<u16>,
    names: Names,
}

impl Walk for Keys {
    fn start(&self) -> Position {
        Position { slot: self.slot.unwrap_or(0), hash: 0 }
    }

    fn end(&self) -> u16 {
        self.slot.map_or(SLOTS as u16, |slot| slot + 1)
    }

    fn visit(&mut self, found: Visited<'_>) {
        if self.filter.accepts(found) {
            self.names.push(found.key);
        }
    }

    fn enough(&self, _: Position, _: u64) -> bool {
        false
    }

    fn finish(&mut self, _: Option<Position>, out: &mut Reply<'_>) -> bool {
        self.names.write(out, |_| {})
    }
}

fn keys(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    let filter = Filter::named(ctx.arg(1));
    Ok(Box::new(Keys { slot: filter.slot(), filter, names: Names::default() }))
}

struct Scan {
    start: Position,
    filter: Filter,
    /// See [`slot_of_pattern`].
    slot: Option<u16>,
    /// The slot from which on another node goes on.
    end: u16,
    count: u64,
    seen: u64,
    names: Names,
}

impl Walk for Scan {
    fn start(&self) -> Position {
        match self.slot {
            Some(slot) if self.start.slot < slot => Position { slot, hash: 0 },
            _ => self.start,
        }
    }

    fn end(&self) -> u16 {
        self.slot.map_or(self.end, |slot| self.end.min(slot + 1))
    }

    fn visit(&mut self, found: Visited<'_>) {
        self.seen += 1;
        if self.filter.accepts(found) {
            self.names.push(found.key);
        }
    }

    /// Redis checks the name, then whether the key has expired, and its type last.
    fn visit_expired(&mut self, found: Visited<'_>, _: bool) -> bool {
        self.seen += 1;
        self.filter.names(found.key)
    }

    fn enough(&self, at: Position, buckets: u64) -> bool {
        let is_long = self.seen >= self.count || buckets >= self.count.saturating_mul(10).max(IDLE_BUCKETS);
        is_long && can_name(at)
    }

    fn finish(&mut self, next: Option<Position>, out: &mut Reply<'_>) -> bool {
        let elsewhere = usize::from(self.end) < SLOTS && self.slot.is_none_or(|slot| slot >= self.end);
        let next = next.or(elsewhere.then_some(Position { slot: self.end, hash: 0 }));
        self.names.write(out, |out| {
            out.array(2);
            out.bulk(next.map_or(0, cursor_of).to_string());
        })
    }
}

fn scan(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    let from = position_of(scan_options::cursor(ctx, 1)?).ok_or(scan_options::INVALID_CURSOR)?;
    let (mut count, mut filter) = (10, Filter { pattern: None, kind: None });
    let mut i = 2;
    while i < ctx.args.len() {
        if i + 1 == ctx.args.len() {
            return Err(Error::SYNTAX);
        }
        if ctx.is(i, "count") {
            count = u64::try_from(ctx.int(i + 1)?).ok().filter(|&n| n > 0).ok_or(Error::SYNTAX)?;
        } else if ctx.is(i, "match") {
            filter.pattern = Filter::named(ctx.arg(i + 1)).pattern;
        } else if ctx.is(i, "type") {
            let kind = ctx.arg(i + 1);
            if ctx.tunables.dialect.is_valkey(Difference::UnknownType) && !is_type(kind) {
                return Err(Error::text([b"ERR unknown type name '", kind, b"'"].concat()));
            }
            filter.kind = Some(kind.to_ascii_lowercase());
        } else if ctx.is(i, "novalues") {
            return Err(Error::new("ERR NOVALUES option can only be used in HSCAN"));
        } else {
            return Err(Error::SYNTAX);
        }
        i += 2;
    }
    let empty = ctx.db.is_empty();
    let start = if empty { THE_END } else { from };
    Ok(Box::new(Scan {
        start,
        slot: filter.slot(),
        end: ctx.scan_end,
        filter,
        count,
        seen: 0,
        names: Names::default(),
    }))
}

/// Keys to choose among: one alone would be chosen the more often the fewer neighbours it has.
const CANDIDATES: u64 = 16;

struct RandomKey {
    rng: Rng,
    start: Position,
    wrapped: bool,
    seen: u64,
    chosen: Option<Vec<u8>>,
    /// An expired key that nothing may delete: the reply if no other key is found, since DBSIZE counts it too.
    lapsed: Option<Vec<u8>>,
}

impl Walk for RandomKey {
    fn start(&self) -> Position {
        self.start
    }

    fn visit(&mut self, found: Visited<'_>) {
        self.seen += 1;
        if self.rng.below(self.seen) == 0 {
            self.chosen = Some(found.key.to_vec());
        }
    }

    fn visit_expired(&mut self, found: Visited<'_>, kept: bool) -> bool {
        if kept && self.lapsed.is_none() {
            self.lapsed = Some(found.key.to_vec());
        }
        true
    }

    fn enough(&self, _: Position, _: u64) -> bool {
        self.seen >= CANDIDATES
    }

    fn wrap(&mut self) -> Option<Position> {
        (!std::mem::replace(&mut self.wrapped, true)).then(Position::default)
    }

    fn finish(&mut self, _: Option<Position>, out: &mut Reply<'_>) -> bool {
        out.bulk_or_null(self.chosen.as_ref().or(self.lapsed.as_ref()));
        true
    }
}

fn randomkey(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    let empty = ctx.db.is_empty();
    let anywhere = Position { slot: ctx.rng.below(SLOTS as u64) as u16, hash: ctx.rng.next_u64() };
    let start = if empty { THE_END } else { anywhere };
    let rng = Rng::new(ctx.rng.next_u64());
    Ok(Box::new(RandomKey { rng, start, wrapped: empty, seen: 0, chosen: None, lapsed: None }))
}

/// Not really a walk, but it wants what walks get: inside MULTI, everything held.
struct DbSize(u64);

impl Walk for DbSize {
    fn start(&self) -> Position {
        THE_END
    }

    fn visit(&mut self, _: Visited<'_>) {}

    fn enough(&self, _: Position, _: u64) -> bool {
        true
    }

    fn finish(&mut self, _: Option<Position>, out: &mut Reply<'_>) -> bool {
        out.count(self.0);
        true
    }
}

fn dbsize(ctx: &mut Ctx<'_>) -> Result<Box<dyn Walk>, Error> {
    Ok(Box::new(DbSize(ctx.db.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::collections::BTreeSet;

    #[test]
    fn keys_match_their_pattern() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("keys *"), "*0\r\n");
        bench.words("mset foo 1 far 2 {foo}bar 3 b{}ar 4");
        assert_eq!(bench.words("keys fo?"), "*1\r\n$3\r\nfoo\r\n");
        assert_eq!(bench.words("keys foo"), "*1\r\n$3\r\nfoo\r\n");
        assert_eq!(bench.words("keys {foo}b*"), "*1\r\n$8\r\n{foo}bar\r\n");
        assert_eq!(bench.words("keys b{}*"), "*1\r\n$5\r\nb{}ar\r\n");
        assert!(bench.words("keys *").starts_with("*4\r\n"));
        assert_eq!(bench.words("dbsize"), ":4\r\n");
        bench.words("pexpire foo 5");
        bench.now += 5;
        assert_eq!(bench.words("keys foo"), "*0\r\n");
    }

    #[test]
    fn only_sound_tags_name_a_slot() {
        let slot = |p: &str| Filter::named(p.as_bytes()).slot();
        assert_eq!(slot("*"), None);
        assert_eq!(slot("a{b}*"), Some(keyspace::slot_of(b"b")));
        assert_eq!(slot("a{b}"), Some(keyspace::slot_of(b"b")));
        assert_eq!(slot("abc"), Some(keyspace::slot_of(b"abc")));
        assert_eq!(slot("a{}{b}*"), None);
        assert_eq!(slot("a{b*}"), None);
        assert_eq!(slot("*{b}"), None);
    }

    /// All names a complete scan returns, in order, and the number of calls.
    fn scan_all(bench: &mut Bench, options: &str) -> (Vec<String>, usize) {
        let (mut names, mut calls, mut cursor) = (Vec::new(), 0, "0".to_owned());
        loop {
            let reply = bench.words(&format!("scan {cursor} {options}"));
            let mut lines = reply.split("\r\n").filter(|l| !l.starts_with(['*', '$']) && !l.is_empty());
            cursor = lines.next().unwrap().to_owned();
            names.extend(lines.map(str::to_owned));
            calls += 1;
            if cursor == "0" {
                return (names, calls);
            }
        }
    }

    #[test]
    fn scan_returns_each_key_once_in_portions() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("scan 0"), "*2\r\n$1\r\n0\r\n*0\r\n");
        let mut expected = BTreeSet::new();
        for i in 0..500 {
            bench.words(&format!("set key:{i} x"));
            bench.words(&format!("set {{tag}}:{i} x"));
            expected.extend([format!("key:{i}"), format!("{{tag}}:{i}")]);
        }
        for (options, at_least, at_most) in [("", 30, 100), ("count 100", 5, 10), ("count 5000", 1, 1)] {
            let (names, calls) = scan_all(&mut bench, options);
            assert_eq!(names.len(), 1000, "{options}");
            assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
            assert!((at_least..=at_most).contains(&calls), "{options}: {calls} calls");
        }
        let (names, _) = scan_all(&mut bench, "match {tag}:1? count 7");
        assert_eq!(names.len(), 10);
    }

    #[test]
    fn scan_of_a_sparse_database_takes_few_calls() {
        let mut bench = Bench::new();
        for i in 0..2000 {
            bench.words(&format!("set {i} x"));
        }
        bench.db = 1;
        bench.words("mset a 1 b 2 c 3");
        let (names, calls) = scan_all(&mut bench, "");
        assert_eq!(names.len(), 3);
        assert!(calls <= 5, "{calls} calls");
        bench.db = 2;
        assert_eq!(scan_all(&mut bench, ""), (Vec::new(), 1));
    }

    #[test]
    fn scan_options() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        bench.words("rpush l 1");
        assert_eq!(scan_all(&mut bench, "type LIST").0, ["l"]);
        assert_eq!(scan_all(&mut bench, "type stream").0, [""; 0]);
        assert_eq!(scan_all(&mut bench, "type what").0, [""; 0]);
        assert_eq!(bench.run(&[b"scan", b"0", b"type", b""]), b"*2\r\n$1\r\n0\r\n*0\r\n");
        assert_eq!(bench.words("scan x"), "-ERR invalid cursor\r\n");
        assert_eq!(bench.words("scan -1"), "-ERR invalid cursor\r\n");
        assert_eq!(bench.run(&[b"scan", b""]), b"-ERR invalid cursor\r\n");
        assert_eq!(bench.words("scan 18446744073709551616"), "-ERR invalid cursor\r\n");
        for lenient in [&b"+0"[..], b"-0", b" 0", b"000", b"+007", b"9007199254740991"] {
            assert!(bench.run(&[b"scan", lenient]).starts_with(b"*2\r\n"), "{}", lenient.escape_ascii());
        }
        assert_eq!(bench.words("scan 0 count 0"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("scan 0 count x"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("scan 0 count"), "-ERR syntax error\r\n");
        for not_ours in ["2", "9007199254740992", "9659095300802871296", "18446744073709551615"] {
            assert_eq!(bench.words(&format!("scan {not_ours}")), "-ERR invalid cursor\r\n");
        }
    }

    #[test]
    fn scan_deletes_what_has_expired_and_matches() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        bench.words("rpush l 1");
        bench.words("pexpire a 5");
        bench.words("pexpire l 5");
        bench.now += 6;
        assert_eq!(bench.words("dbsize"), ":2\r\n");
        assert_eq!(scan_all(&mut bench, "type string match b*").0, [""; 0]);
        assert_eq!(bench.words("dbsize"), ":2\r\n");
        assert_eq!(scan_all(&mut bench, "type string match l*").0, [""; 0]);
        assert_eq!(bench.words("dbsize"), ":1\r\n", "its type does not matter");
        assert_eq!(bench.words("randomkey"), "$-1\r\n");
        assert_eq!(bench.words("dbsize"), ":0\r\n");
    }

    #[test]
    fn random_keys_are_all_possible() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("randomkey"), "$-1\r\n");
        let names: BTreeSet<_> = (0..50).map(|i| format!("k{i}")).collect();
        for name in &names {
            bench.words(&format!("set {name} x"));
        }
        let drawn: BTreeSet<_> =
            (0..2000).map(|_| bench.words("randomkey").split("\r\n").nth(1).unwrap().to_owned()).collect();
        assert_eq!(drawn, names);
    }
}

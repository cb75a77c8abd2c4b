//! OBJECT: facts about a key besides its value.

use keyspace::{EntryRef, Str};

use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::help::write_help;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[Row {
    spec: Spec {
        name: "object",
        arity: -2,
        since: "2.2.3",
        complexity: "Depends on subcommand.",
        summary: "A container for object introspection commands.",
        ..Spec::NEW
    },
    run: Run::Container,
    subcommands: &[
        about("encoding", "2.2.3", "Returns the internal encoding of a Redis object.", encoding),
        about("freq", "4.0.0", "Returns the logarithmic access frequency counter of a Redis object.", freq),
        about("idletime", "2.2.3", "Returns the time since the last access to a Redis object.", idletime),
        about("refcount", "2.2.3", "Returns the reference count of a value of a key.", refcount),
        Row {
            spec: Spec {
                name: "help",
                arity: 2,
                flags: LOADING | STALE,
                categories: &["keyspace"],
                since: "6.2.0",
                summary: "Returns helpful text about the different subcommands.",
                ..Spec::NEW
            },
            run: Run::Keyed(help),
            subcommands: &[],
        },
    ],
}];

const KEY: &[KeySpec] = &[KeySpec::one(2, RO)];

const fn about(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: fn(&mut Ctx<'_>) -> Result<Outcome, Error>,
) -> Row<Run> {
    Row {
        spec: Spec {
            name,
            arity: 3,
            flags: READONLY,
            keys: KEY,
            categories: &["keyspace"],
            since,
            summary,
            tips: &["nondeterministic_output"],
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(run),
        subcommands: &[],
    }
}

/// Answers nil for an absent key, else the result of `tell`. Leaves no trace on the key.
fn tell(
    ctx: &mut Ctx<'_>,
    tell: impl FnOnce(EntryRef<'_>, &keyspace::access::AccessClock, &mut resp::Reply<'_>) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    match ctx.db.peek(&key) {
        Some(entry) => tell(entry, ctx.db.clock(), &mut ctx.out)?,
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

fn encoding(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell(ctx, |entry, _, out| {
        out.bulk(entry.encoding());
        Ok(())
    })
}

fn refcount(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    /// Integers below this are shared in Redis, with a count of references that stands for "many".
    const SHARED: std::ops::Range<i64> = 0..10_000;
    let shares = ctx.tunables.shares_integers;
    tell(ctx, |entry, _, out| {
        let shared = matches!(entry.string(), Ok(Str::Int(value)) if SHARED.contains(&value));
        // A client that shares any other value here copies it before a change, so no client can tell.
        out.integer(if shares && shared { i64::from(i32::MAX) } else { 1 });
        Ok(())
    })
}

fn idletime(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell(ctx, |entry, clock, out| {
        if clock.is_lfu() {
            return Err(Error::new(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
                 policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        out.count(clock.idle_seconds(entry.access()).into());
        Ok(())
    })
}

fn freq(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell(ctx, |entry, clock, out| {
        if !clock.is_lfu() {
            return Err(Error::new(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
                 between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        out.count(clock.frequency(entry.access()).into());
        Ok(())
    })
}

fn help(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    write_help(
        &mut ctx.out,
        "OBJECT",
        &[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    );
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn objects_are_described() {
        let mut bench = Bench::new();
        bench.words("mset a 1 b text");
        assert_eq!(bench.words("object encoding a"), "$3\r\nint\r\n");
        assert_eq!(bench.words("OBJECT ENCODING b"), "$6\r\nembstr\r\n");
        assert_eq!(bench.words("object encoding c"), "$-1\r\n");
        assert_eq!(bench.words("object refcount a"), ":2147483647\r\n");
        assert_eq!(bench.words("object refcount b"), ":1\r\n");
        bench.tunables.shares_integers = false;
        assert_eq!(bench.words("object refcount a"), ":1\r\n");
        assert_eq!(bench.words("object idletime a"), ":0\r\n");
        assert!(bench.words("object freq a").starts_with("-ERR An LFU maxmemory policy is not selected"));
        assert!(bench.words("object help").starts_with("*15\r\n+OBJECT <subcommand>"));
        assert!(bench.words("object encoding").starts_with("-ERR wrong number"));
    }
}

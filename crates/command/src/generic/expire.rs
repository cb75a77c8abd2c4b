//! Expiry of keys: EXPIRE and its kin, PERSIST, and the questions (TTL, EXPIRETIME and their kin).

use clocks::UnixMs;
use keyspace::Key;

use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    setter(
        "expire",
        "1.0.0",
        "Sets the expiration time of a key in seconds.",
        "key seconds [NX | XX | GT | LT]",
        expire,
    ),
    setter(
        "pexpire",
        "2.6.0",
        "Sets the expiration time of a key in milliseconds.",
        "key milliseconds [NX | XX | GT | LT]",
        pexpire,
    ),
    setter(
        "expireat",
        "1.2.0",
        "Sets the expiration time of a key to a Unix timestamp.",
        "key unix-time-seconds [NX | XX | GT | LT]",
        expireat,
    ),
    setter(
        "pexpireat",
        "2.6.0",
        "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        "key unix-time-milliseconds [NX | XX | GT | LT]",
        pexpireat,
    ),
    Row {
        spec: Spec {
            name: "persist",
            arity: 2,
            flags: WRITE | FAST,
            keys: CHANGED,
            since: "2.2.0",
            summary: "Removes the expiration time of a key.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(persist),
        subcommands: &[],
    },
    getter("ttl", "1.0.0", "Returns the expiration time in seconds of a key.", ttl),
    getter("pttl", "2.6.0", "Returns the expiration time in milliseconds of a key.", pttl),
    getter("expiretime", "7.0.0", "Returns the expiration time of a key as a Unix timestamp.", expiretime),
    getter(
        "pexpiretime",
        "7.0.0",
        "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        pexpiretime,
    ),
];

const CHANGED: &[KeySpec] = &[KeySpec::one(1, RW | UPDATE)];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(1, RO | ACCESS)];

type Handler = fn(&mut Ctx<'_>) -> Result<Outcome, Error>;

const fn setter(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: Handler,
) -> Row<Run> {
    Row {
        spec: Spec { name, arity: -3, flags: WRITE | FAST, keys: CHANGED, since, summary, syntax, ..Spec::NEW },
        run: Run::Keyed(run),
        subcommands: &[],
    }
}

const fn getter(name: &'static str, since: &'static str, summary: &'static str, run: Handler) -> Row<Run> {
    Row {
        spec: Spec {
            name,
            arity: 2,
            flags: READONLY | FAST,
            keys: LOOKED_AT,
            since,
            summary,
            tips: if matches!(name.as_bytes(), b"ttl" | b"pttl") { &["nondeterministic_output"] } else { &[] },
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(run),
        subcommands: &[],
    }
}

/// The condition on the present expiry.
#[derive(Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// Reads the options from argument 3 on.
    fn parse(ctx: &Ctx<'_>) -> Result<Condition, Error> {
        let mut c = Condition::default();
        for i in 3..ctx.args.len() {
            match ctx.arg(i).to_ascii_lowercase().as_slice() {
                b"nx" => c.nx = true,
                b"xx" => c.xx = true,
                b"gt" => c.gt = true,
                b"lt" => c.lt = true,
                _ => return Err(Error::text([b"ERR Unsupported option ", ctx.arg(i)].concat())),
            }
        }
        if c.nx && (c.xx || c.gt || c.lt) {
            return Err(Error::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if c.gt && c.lt {
            return Err(Error::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(c)
    }

    /// True if expiry `to` may replace `from`. No expiry counts as later than any.
    fn allows(&self, from: Option<UnixMs>, to: i64) -> bool {
        let from = from.map(|ms| i64::try_from(ms.0).unwrap_or(i64::MAX));
        !(self.nx && from.is_some()
            || self.xx && from.is_none()
            || self.gt && from.is_none_or(|ms| to <= ms)
            || self.lt && from.is_some_and(|ms| to >= ms))
    }
}

fn expire(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let now = ctx.now.0 as i64;
    set_expiry(ctx, "expire", now, 1000)
}

fn pexpire(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let now = ctx.now.0 as i64;
    set_expiry(ctx, "pexpire", now, 1)
}

fn expireat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    set_expiry(ctx, "expireat", 0, 1000)
}

fn pexpireat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    set_expiry(ctx, "pexpireat", 0, 1)
}

/// Sets the expiry to `base` plus argument 2 times `unit`, in milliseconds.
fn set_expiry(ctx: &mut Ctx<'_>, name: &str, base: i64, unit: i64) -> Result<Outcome, Error> {
    let condition = Condition::parse(ctx)?;
    let at = ctx.int(2)?.checked_mul(unit).and_then(|ms| ms.checked_add(base));
    let at = at.ok_or_else(|| Error::text(format!("ERR invalid expire time in '{name}' command")))?;
    let key = ctx.key(1);
    let Some(had) = ctx.db.peek(&key).map(|entry| entry.expiry()) else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    if !condition.allows(had, at) {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    }
    match u64::try_from(at) {
        Ok(at) if UnixMs(at) > ctx.now => apply(ctx, &key, Some(UnixMs(at)), "expire"),
        _ => {
            ctx.db.remove(&key);
            ctx.effect(op::DELETE, &key, |_| {});
            ctx.notify(class::GENERIC, "del", &key);
        }
    }
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

/// Changes the expiry of a present key.
fn apply(ctx: &mut Ctx<'_>, key: &Key<'_>, expiry: Option<UnixMs>, event: &'static str) {
    ctx.db.set_expiry(key, expiry);
    ctx.effect(op::EXPIRE, key, |w| w.varint(UnixMs::to_wire(expiry)));
    ctx.notify(class::GENERIC, event, key);
}

fn persist(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let had = ctx.db.peek(&key).is_some_and(|entry| entry.expiry().is_some());
    if had {
        apply(ctx, &key, None, "persist");
    }
    ctx.out.integer(i64::from(had));
    Ok(Outcome::Done)
}

/// Answers -2 without the key, -1 without an expiry, else the result of `show` for the expiry and the present time.
fn tell_expiry(ctx: &mut Ctx<'_>, show: fn(UnixMs, UnixMs) -> u64) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    // Redis counts this lookup, but it does not make the key younger.
    let bits = ctx.db.peek(&key).map(|entry| entry.access());
    let expiry = ctx.db.read(&key).map(|entry| entry.expiry());
    if let Some(bits) = bits {
        ctx.db.set_access(&key, bits);
    }
    match expiry {
        None => ctx.out.integer(-2),
        Some(None) => ctx.out.integer(-1),
        Some(Some(at)) => ctx.out.count(show(at, ctx.now)),
    }
    Ok(Outcome::Done)
}

/// Whole seconds, as Redis rounds them.
fn seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

fn ttl(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell_expiry(ctx, |at, now| seconds(at.since(now)))
}

fn pttl(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell_expiry(ctx, |at, now| at.since(now))
}

fn expiretime(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell_expiry(ctx, |at, _| seconds(at.0))
}

fn pexpiretime(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    tell_expiry(ctx, |at, _| at.0)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn expiry_is_set_and_told() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("expire a 10"), ":0\r\n");
        assert_eq!(bench.words("ttl a"), ":-2\r\n");
        bench.words("set a 1");
        assert_eq!(bench.words("ttl a"), ":-1\r\n");
        assert_eq!(bench.words("expire a 10"), ":1\r\n");
        assert_eq!(bench.words("pttl a"), ":10000\r\n");
        assert_eq!(bench.words("expiretime a"), ":1000000010\r\n");
        assert_eq!(bench.words("pexpiretime a"), ":1000000010000\r\n");
        assert_eq!(bench.words("persist a"), ":1\r\n");
        assert_eq!(bench.words("persist a"), ":0\r\n");
        assert_eq!(bench.notified(), ["set a", "expire a", "persist a"]);
        assert_eq!(bench.words("pexpireat a 1000000000001"), ":1\r\n");
        bench.now += 1;
        assert_eq!(bench.words("exists a"), ":1\r\n", "it lives through the millisecond of its expiry");
        bench.now += 1;
        assert_eq!(bench.words("exists a"), ":0\r\n");
    }

    #[test]
    fn the_past_deletes() {
        let mut bench = Bench::new();
        for command in ["expire a 0", "expire a -1", "pexpire a -5", "expireat a 1", "pexpireat a 1000000000000"] {
            bench.words("set a 1");
            bench.notified();
            assert_eq!(bench.words(command), ":1\r\n", "{command}");
            assert_eq!(bench.notified(), ["del a"], "{command}");
        }
    }

    #[test]
    fn conditions() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        for (command, reply) in [
            ("expire a 100 xx", 0),
            ("expire a 100 gt", 0),
            ("expire a 100 lt", 1),
            ("expire a 200 nx", 0),
            ("expire a 200 lt", 0),
            ("expire a 50 gt", 0),
            ("expire a 200 gt", 1),
            ("expire a 100 xx lt", 1),
            ("persist a", 1),
            ("expire a 100 nx", 1),
        ] {
            assert_eq!(bench.words(command), format!(":{reply}\r\n"), "{command}");
        }
        assert_eq!(
            bench.words("expire a 1 nx gt"),
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"
        );
        assert_eq!(bench.words("expire a 1 gt lt"), "-ERR GT and LT options at the same time are not compatible\r\n");
        assert_eq!(bench.words("expire a 1 ab"), "-ERR Unsupported option ab\r\n");
        assert_eq!(bench.words("expire a 9223372036854770"), "-ERR invalid expire time in 'expire' command\r\n");
        assert_eq!(bench.words("expire a 9223372036854776"), "-ERR invalid expire time in 'expire' command\r\n");
        assert_eq!(bench.words("expire a 1.5"), "-ERR value is not an integer or out of range\r\n");
    }
}

//! INCREX (Redis 8.8): adds to a number within bounds, and sets its expiry.

use clocks::UnixMs;
use keyspace::{Expiry, Key};
use object::long_double::LongDouble;
use object::number;

use super::options::{Ttl, Unit};
use super::{STRING, expire_at_once, put, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[row(
    Spec {
        name: "increx",
        arity: -2,
        flags: WRITE | DENYOOM | FAST,
        keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
        since: "8.8.0",
        summary: "Increments the numeric value of a key by a number and sets its expiration time. Uses 0 as initial value if \
                  the key doesn't exist.",
        syntax: "key [BYFLOAT increment | BYINT increment] [SATURATE] [LBOUND lowerbound] [UBOUND upperbound] [EX seconds | \
                 PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
        ..STRING
    },
    increx,
)];

/// The increment, and the bounds of the sum.
#[derive(Clone, Copy)]
enum Step {
    Int { by: i64, least: i64, most: i64 },
    Float { by: LongDouble, least: LongDouble, most: LongDouble },
}

struct Options<'a> {
    step: Step,
    /// A sum beyond a bound becomes that bound; without this it is refused.
    saturate: bool,
    ttl: Ttl<'a>,
    /// The time counts only if the key has none.
    only_without_ttl: bool,
}

/// The arguments in the order of the client, each at most once.
#[derive(Default)]
struct Given<'a> {
    int: Option<i64>,
    float: Option<LongDouble>,
    least: Option<&'a [u8]>,
    most: Option<&'a [u8]>,
    saturate: bool,
    ttl: Ttl<'a>,
    only_without_ttl: bool,
}

impl<'a> Given<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Self, Error> {
        let mut given = Given::default();
        let mut words = ctx.args.iter().skip(2);
        while let Some(word) = words.next() {
            let no_step = given.int.is_none() && given.float.is_none();
            let mut argument = || words.next().ok_or(Error::SYNTAX);
            match word.to_ascii_uppercase().as_slice() {
                b"BYINT" if no_step => {
                    let error = Error::new("ERR Increment is not an integer or out of range");
                    given.int = Some(number::parse_i64(argument()?).ok_or(error)?);
                }
                b"BYFLOAT" if no_step => {
                    let by = LongDouble::parse(argument()?).ok_or(Error::new("ERR Increment is not a valid float"))?;
                    if !by.is_finite() {
                        return Err(Error::new("ERR BYFLOAT increment cannot be Infinity"));
                    }
                    given.float = Some(by);
                }
                b"LBOUND" if given.least.is_none() => given.least = Some(argument()?),
                b"UBOUND" if given.most.is_none() => given.most = Some(argument()?),
                b"SATURATE" if !given.saturate => given.saturate = true,
                b"ENX" if !given.only_without_ttl && given.ttl != Ttl::Persist => given.only_without_ttl = true,
                b"PERSIST" if given.ttl == Ttl::Unsaid && !given.only_without_ttl => given.ttl = Ttl::Persist,
                b"EX" if given.ttl == Ttl::Unsaid => given.ttl = Ttl::Time(Unit::Seconds, argument()?),
                b"PX" if given.ttl == Ttl::Unsaid => given.ttl = Ttl::Time(Unit::Milliseconds, argument()?),
                b"EXAT" if given.ttl == Ttl::Unsaid => given.ttl = Ttl::Time(Unit::UnixSeconds, argument()?),
                b"PXAT" if given.ttl == Ttl::Unsaid => given.ttl = Ttl::Time(Unit::UnixMilliseconds, argument()?),
                _ => return Err(Error::SYNTAX),
            }
        }
        Ok(given)
    }

    /// The bounds are numbers of the increment's kind, wherever that stands.
    fn step(&self) -> Result<Step, Error> {
        const CROSSED: Error = Error::new("ERR LBOUND can't be greater than UBOUND");
        let Some(by) = self.float else {
            let bound = |text: Option<&[u8]>, none: i64, error| match text {
                Some(text) => number::parse_i64(text).ok_or(Error::new(error)),
                None => Ok(none),
            };
            let least = bound(self.least, i64::MIN, "ERR LBOUND is not an integer or out of range")?;
            let most = bound(self.most, i64::MAX, "ERR UBOUND is not an integer or out of range")?;
            let step = Step::Int { by: self.int.unwrap_or(1), least, most };
            return if least > most { Err(CROSSED) } else { Ok(step) };
        };
        let bound = |text: Option<&[u8]>, none: LongDouble, error| match text {
            Some(text) => LongDouble::parse(text).ok_or(Error::new(error)),
            None => Ok(none),
        };
        let least = bound(self.least, LongDouble::MAX.negated(), "ERR LBOUND is not a valid float")?;
        let most = bound(self.most, LongDouble::MAX, "ERR UBOUND is not a valid float")?;
        if most.is_below(least) { Err(CROSSED) } else { Ok(Step::Float { by, least, most }) }
    }
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Self, Error> {
        let given = Given::parse(ctx)?;
        let step = given.step()?;
        let Given { saturate, ttl, only_without_ttl, .. } = given;
        if only_without_ttl && ttl == Ttl::Unsaid {
            return Err(Error::new("ERR ENX flag requires an expiration"));
        }
        Ok(Options { step, saturate, ttl, only_without_ttl })
    }
}

/// The key's number afterwards and the added amount, as texts. `changed`: the sum was allowed.
struct Sum {
    value: Vec<u8>,
    added: Vec<u8>,
    changed: bool,
}

/// Adds within bounds. A sum beyond them is the present value, and nothing added, unless it becomes the bound.
fn add_int(present: i64, by: i64, bounds: [i64; 2], saturate: bool) -> Result<Sum, Error> {
    let [least, most] = bounds;
    let text = |n: i64| number::I64Text::new(n).as_bytes().to_vec();
    let value = match present.checked_add(by) {
        Some(sum) if (least..=most).contains(&sum) => sum,
        _ if !saturate => return Ok(Sum { value: text(present), added: text(0), changed: false }),
        Some(sum) => sum.clamp(least, most),
        None if by >= 0 => most,
        None => least,
    };
    let added = value.checked_sub(present).ok_or(Error::new("ERR applied increment would overflow"))?;
    Ok(Sum { value: text(value), added: text(added), changed: true })
}

/// As [`add_int`].
fn add_float(present: LongDouble, by: LongDouble, bounds: [LongDouble; 2], saturate: bool) -> Result<Sum, Error> {
    let [least, most] = bounds;
    let text = |n: LongDouble| {
        let mut text = Vec::new();
        n.write(&mut text);
        text
    };
    if !present.is_finite() {
        return Err(Error::new("ERR value cannot be Infinity"));
    }
    let sum = present.checked_add(by);
    let value = match sum {
        Ok(sum) if !sum.is_below(least) && !most.is_below(sum) => sum,
        _ if !saturate => return Ok(Sum { value: text(present), added: text(LongDouble::ZERO), changed: false }),
        Ok(sum) if most.is_below(sum) => most,
        Ok(_) => least,
        Err(_) if by.is_negative() => least,
        Err(_) => most,
    };
    let added = value.checked_add(present.negated());
    let added = added.map_err(|_| Error::new("ERR applied increment would be Infinity"))?;
    Ok(Sum { value: text(value), added: text(added), changed: true })
}

fn increx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = Options::parse(ctx)?;
    let deadline = options.ttl.deadline(ctx.now, "increx")?;
    let key = ctx.key(1);
    let entry = ctx.db.peek(&key);
    let had = entry.and_then(|entry| entry.expiry());
    let text = entry.map(|entry| entry.string()).transpose()?;
    let sum = match options.step {
        Step::Int { by, least, most } => {
            let present = text.map_or(Some(0), |text| text.with(number::parse_i64)).ok_or(Error::NOT_INTEGER)?;
            add_int(present, by, [least, most], options.saturate)?
        }
        Step::Float { by, least, most } => {
            let zero = LongDouble::ZERO;
            let present = text.map_or(Some(zero), |text| text.with(LongDouble::parse)).ok_or(Error::NOT_FLOAT)?;
            add_float(present, by, [least, most], options.saturate)?
        }
    };
    if sum.changed {
        let deadline = deadline.filter(|_| !options.only_without_ttl || had.is_none());
        change(ctx, &key, &sum, &options, deadline, had.is_some());
    }
    ctx.out.array(2);
    for text in [&sum.value, &sum.added] {
        match options.step {
            Step::Int { .. } => ctx.out.integer(number::parse_i64(text).unwrap_or_default()),
            Step::Float { .. } => ctx.out.double_text(text),
        }
    }
    Ok(Outcome::Done)
}

/// Stores the sum. A time that is over deletes the key.
fn change(ctx: &mut Ctx<'_>, key: &Key<'_>, sum: &Sum, options: &Options<'_>, deadline: Option<UnixMs>, had_ttl: bool) {
    let expiry = match deadline {
        Some(ms) if ms <= ctx.now => return expire_at_once(ctx, key),
        Some(ms) => Expiry::At(ms),
        None if options.ttl == Ttl::Persist => Expiry::Clear,
        None => Expiry::Keep,
    };
    put(ctx, key, &sum.value, false, expiry);
    let event = if matches!(options.step, Step::Int { .. }) { "incrby" } else { "incrbyfloat" };
    ctx.notify(class::STRING, event, key);
    if expiry == Expiry::Clear && had_ttl {
        ctx.notify(class::GENERIC, "persist", key);
    }
    if deadline.is_some() {
        ctx.notify(class::GENERIC, "expire", key);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use resp::Protocol;

    /// Runs lines of `command => reply`, the reply with blanks for line breaks. Each was tried on Redis 8.8.
    fn check(bench: &mut Bench, script: &str) {
        for line in script.lines().map(str::trim) {
            let (command, reply) = line.split_once(" => ").expect("command => reply");
            assert_eq!(bench.words(command).trim_end().replace("\r\n", " "), reply, "{command}");
        }
    }

    #[test]
    fn integers_and_their_bounds() {
        check(
            &mut Bench::new(),
            "increx k => *2 :1 :1
             increx k byint 10 => *2 :11 :10
             increx k ubound 12 byint 5 => *2 :11 :0
             increx k byint 5 ubound 12 saturate => *2 :12 :1
             increx k byint -50 saturate lbound -3 => *2 :-3 :-15
             increx k lbound 5 saturate => *2 :5 :8
             increx k byint 9223372036854775807 => *2 :5 :0
             increx k byint 9223372036854775807 saturate => *2 :9223372036854775807 :9223372036854775802
             increx k byint -9223372036854775808 => *2 :-1 :-9223372036854775808
             increx k lbound 9223372036854775807 saturate => -ERR applied increment would overflow
             increx k byint x => -ERR Increment is not an integer or out of range
             increx k byint 1 byint 1 => -ERR syntax error
             increx k byint 1 byfloat 1 => -ERR syntax error
             increx k byint => -ERR syntax error
             increx k lbound 2 ubound 1 => -ERR LBOUND can't be greater than UBOUND
             increx k lbound 1.5 => -ERR LBOUND is not an integer or out of range
             increx k ubound x => -ERR UBOUND is not an integer or out of range
             increx k enx => -ERR ENX flag requires an expiration
             increx k ex 0 => -ERR invalid expire time in 'increx' command
             increx k ex x => -ERR value is not an integer or out of range
             increx k ex 5 px 5 => -ERR syntax error
             increx k ex 5 persist => -ERR syntax error
             increx k persist enx => -ERR syntax error
             increx k what => -ERR syntax error
             get k => $2 -1
             set k x => +OK
             increx k => -ERR value is not an integer or out of range
             rpush l x => :1
             increx l => -WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }

    #[test]
    fn floats_and_their_bounds() {
        let mut bench = Bench::new();
        check(
            &mut bench,
            "increx k byfloat 1.5 => *2 $3 1.5 $3 1.5
             increx k byfloat 1 ubound 2 => *2 $3 1.5 $1 0
             increx k byfloat 1 ubound 2.25 saturate => *2 $4 2.25 $4 0.75
             increx k lbound 3 byfloat -9 saturate => *2 $1 3 $4 0.75
             increx k byfloat inf => -ERR BYFLOAT increment cannot be Infinity
             increx k byfloat x => -ERR Increment is not a valid float
             increx k byfloat 1 lbound x => -ERR LBOUND is not a valid float
             increx k byfloat 1 ubound nan => -ERR UBOUND is not a valid float
             increx k byfloat 1 lbound 1e3 ubound 9 => -ERR LBOUND can't be greater than UBOUND
             get k => $1 3
             set k inf => +OK
             increx k byfloat 1 => -ERR value cannot be Infinity",
        );
        bench.words("set k 3");
        bench.protocol = Protocol::Resp3;
        check(&mut bench, "increx k byfloat 0.25 => *2 ,3.25 ,0.25");
    }

    #[test]
    fn the_largest_floats() {
        let mut bench = Bench::new();
        bench.words("increx k byfloat 1e4932");
        let largest = bench.words("get k");
        assert_eq!(bench.words("increx k byfloat 1e4932"), format!("*2\r\n{largest}$1\r\n0\r\n"), "too large");
        assert!(
            bench
                .words("increx k byfloat 1e4932 saturate")
                .starts_with("*2\r\n$4933\r\n118973149535723176502126385303")
        );
        assert_eq!(
            bench.words("increx k byfloat -1 ubound -1e4932 saturate"),
            "-ERR applied increment would be Infinity\r\n"
        );
    }

    #[test]
    fn expiry_and_events() {
        let mut bench = Bench::new();
        let ttl = |bench: &mut Bench| bench.words("pttl k").trim_start_matches(':').trim_end().parse::<i64>().unwrap();
        bench.words("increx k px 5000");
        assert_eq!(bench.notified(), ["incrby k", "expire k"]);
        bench.words("increx k px 9000 enx");
        assert_eq!((ttl(&mut bench), bench.notified()), (5000, vec!["incrby k".into()]));
        bench.words("increx k byint 0");
        assert_eq!(ttl(&mut bench), 5000);
        bench.words("increx k ex 7 ubound 0");
        assert_eq!(ttl(&mut bench), 5000, "a refused increment leaves the time alone");
        bench.notified();
        bench.words("increx k ex 7 ubound 0 saturate");
        assert_eq!((ttl(&mut bench), bench.notified()), (7000, vec!["incrby k".into(), "expire k".into()]));
        bench.words("increx k byfloat 1.5 persist");
        assert_eq!((ttl(&mut bench), bench.notified()), (-1, vec!["incrbyfloat k".into(), "persist k".into()]));
        bench.words("increx k byfloat 1 persist");
        assert_eq!(bench.notified(), ["incrbyfloat k"]);
        let mut other = bench.replayed();
        assert_eq!(other.words("get k"), bench.words("get k"));
        assert_eq!(bench.words("increx k exat 1 byfloat 1"), "*2\r\n$3\r\n3.5\r\n$1\r\n1\r\n");
        assert_eq!(bench.notified(), ["del k"]);
        let changes = bench.effects.dirty;
        assert_eq!(bench.words("increx k pxat 1"), "*2\r\n:1\r\n:1\r\n");
        assert_eq!((bench.effects.dirty, bench.words("exists k")), (changes, ":0\r\n".into()));
    }
}

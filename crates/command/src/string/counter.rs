//! Strings as numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use keyspace::Expiry;
use object::long_double::LongDouble;
use object::number;

use super::{SET_INT, STRING, flag, put, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

const COUNTER: Spec = Spec { flags: WRITE | DENYOOM | FAST, keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)], ..STRING };

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "incr",
            arity: 2,
            summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
            syntax: "key",
            ..COUNTER
        },
        |ctx| increase(ctx, 1),
    ),
    row(
        Spec {
            name: "decr",
            arity: 2,
            summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
            syntax: "key",
            ..COUNTER
        },
        |ctx| increase(ctx, -1),
    ),
    row(
        Spec {
            name: "incrby",
            arity: 3,
            summary: "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
            syntax: "key increment",
            ..COUNTER
        },
        |ctx| increase(ctx, ctx.int(2)?),
    ),
    row(
        Spec {
            name: "decrby",
            arity: 3,
            summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
            syntax: "key decrement",
            ..COUNTER
        },
        decrby,
    ),
    row(
        Spec {
            name: "incrbyfloat",
            arity: 3,
            since: "2.6.0",
            summary: "Increment the floating point value of a key by a number. Uses 0 as initial value if the key doesn't \
                      exist.",
            syntax: "key increment",
            ..COUNTER
        },
        incrbyfloat,
    ),
];

fn increase(ctx: &mut Ctx<'_>, by: i64) -> Result<Outcome, Error> {
    const OVERFLOW: Error = Error::new("ERR increment or decrement would overflow");
    let key = ctx.key(1);
    let (sum, over) = match ctx.db.int_mut(&key, |present| present.checked_add(by)) {
        Some((sum, over)) => (sum.ok_or(OVERFLOW)?, over),
        None => {
            let present = match ctx.db.peek(&key) {
                Some(entry) => entry.string()?.with(number::parse_i64).ok_or(Error::NOT_INTEGER)?,
                None => 0,
            };
            let sum = present.checked_add(by).ok_or(OVERFLOW)?;
            let over = ctx.db.set_int(&key, sum, Expiry::Keep);
            (sum, over)
        }
    };
    ctx.effect(SET_INT, &key, |w| {
        w.int(sum);
        match flag::of(over) {
            0 => {}
            over => w.u8(over),
        }
    });
    ctx.notify(class::STRING, "incrby", &key);
    ctx.out.integer(sum);
    Ok(Outcome::Done)
}

fn decrby(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let by = ctx.int(2)?.checked_neg().ok_or(Error::new("ERR decrement would overflow"))?;
    increase(ctx, by)
}

fn incrbyfloat(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let present = match ctx.db.peek(&key) {
        Some(entry) => entry.string()?.with(LongDouble::parse).ok_or(Error::NOT_FLOAT)?,
        None => LongDouble::ZERO,
    };
    let by = LongDouble::parse(ctx.arg(2)).ok_or(Error::NOT_FLOAT)?;
    let sum = present.checked_add(by).map_err(|_| Error::new("ERR increment would produce NaN or Infinity"))?;
    let mut text = Vec::new();
    sum.write(&mut text);
    put(ctx, &key, &text, false, Expiry::Keep);
    ctx.notify(class::STRING, "incrbyfloat", &key);
    ctx.out.bulk(&text);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn integers() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("incr k"), ":1\r\n");
        assert_eq!(bench.words("decrby k 5"), ":-4\r\n");
        assert_eq!(bench.words("incrby k 17179869188"), ":17179869184\r\n");
        assert_eq!(bench.words("decr k"), ":17179869183\r\n");
        bench.words("set k 9223372036854775807 ex 5");
        assert_eq!(bench.words("incr k"), "-ERR increment or decrement would overflow\r\n");
        assert_eq!(bench.words("decr k"), ":9223372036854775806\r\n");
        assert_eq!(bench.image(|_| Vec::new())[0].1, Some(bench.now + 5000));
        assert_eq!(bench.words("decrby k -9223372036854775808"), "-ERR decrement would overflow\r\n");
        assert_eq!(bench.words("incrby k 1.5"), "-ERR value is not an integer or out of range\r\n");
        bench.run(&[b"set", b"k", b" 11"]);
        assert_eq!(bench.words("incr k"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("incr"), "-ERR wrong number of arguments for 'incr' command\r\n");
    }

    #[test]
    fn floats() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("incrbyfloat k 1"), "$1\r\n1\r\n");
        assert_eq!(bench.words("incrbyfloat k 0.25"), "$4\r\n1.25\r\n");
        bench.words("set k 3.0e3 ex 5");
        assert_eq!(bench.words("incrbyfloat k 200"), "$4\r\n3200\r\n");
        assert_eq!(bench.image(|_| Vec::new())[0].1, Some(bench.now + 5000));
        assert_eq!(bench.words("incrbyfloat k -1.5"), "$6\r\n3198.5\r\n");
        assert_eq!(bench.words("incrbyfloat k +inf"), "-ERR increment would produce NaN or Infinity\r\n");
        assert_eq!(bench.words("incrbyfloat k nan"), "-ERR value is not a valid float\r\n");
        bench.words("set k x");
        assert_eq!(bench.words("incrbyfloat k 1"), "-ERR value is not a valid float\r\n");
    }
}

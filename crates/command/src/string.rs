//! Strings: GET, SET and MSET, as the spine's first users; the family grows from here.

use keyspace::{Db, Expiry, Key, Str};
use object::{Corrupt, Limits};
use resp::Reply;

use crate::ctx::{Ctx, Outcome};
use crate::effects::{Reader, op};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "get",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "string",
            summary: "Returns the string value of a key.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(get),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "set",
            arity: -3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE | VARIABLE_FLAGS)],
            group: "string",
            summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
            syntax: "key value",
            ..Spec::NEW
        },
        run: Run::Keyed(set),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "mset",
            arity: -3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::range(1, -1, 2, OW | UPDATE)],
            group: "string",
            since: "1.0.1",
            complexity: "O(N) where N is the number of keys to set.",
            summary: "Atomically creates or modifies the string values of one or more keys.",
            syntax: "key value [key value ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(mset),
        subcommands: &[],
    },
];

/// Payload: flags (1 the value was changed in place, 2 an expiry follows as varint), the text.
const SET: u8 = op::STRINGS;

/// Applies an effect of this family.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, _: &Limits) -> Result<(), Corrupt> {
    match number {
        SET => {
            let flags = r.u8()?;
            let expiry = if flags & 2 != 0 { Expiry::At(r.varint()?) } else { Expiry::Clear };
            db.set_string(key, r.bytes()?, flags & 1 != 0, expiry);
            Ok(())
        }
        _ => Err(Corrupt("unknown string effect")),
    }
}

/// Writes a string value as a bulk reply.
#[inline]
pub(crate) fn write_str(out: &mut Reply<'_>, value: Str<'_>) {
    match value {
        Str::Bytes(b) => out.bulk(b),
        Str::Int(n) => out.bulk_integer(n),
        Str::Blob(b) => out.bulk(b.as_slice()),
    }
}

fn get(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.db.read_string(&key)? {
        Some(value) => write_str(&mut ctx.out, value),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

fn set_plain(ctx: &mut Ctx<'_>, key: &Key<'_>, value: &[u8]) {
    ctx.db.set_string(key, value, false, Expiry::Clear);
    ctx.effect(SET, key, |w| {
        w.u8(0);
        w.bytes(value);
    });
    ctx.notify(class::STRING, "set", key);
}

fn set(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if ctx.args.len() > 3 {
        return Err(Error::SYNTAX);
    }
    let key = ctx.key(1);
    set_plain(ctx, &key, ctx.arg(2));
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn mset(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if ctx.args.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    for i in (1..ctx.args.len()).step_by(2) {
        let key = ctx.key(i);
        set_plain(ctx, &key, ctx.arg(i + 1));
    }
    ctx.out.ok();
    Ok(Outcome::Done)
}

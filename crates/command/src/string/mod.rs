//! Strings, and commands on them: counters, bitmaps, bitfields, HyperLogLogs.

mod bitfield;
mod bitmap;
mod compare;
mod counter;
mod edit;
mod hll;
mod increx;
mod lcs;
mod options;
mod read;
#[cfg(test)]
mod tests;
mod write;

use clocks::UnixMs;
use keyspace::{Db, Expiry, Key, Str};
use object::{Corrupt, Limits};
use resp::Reply;

use crate::ctx::{Ctx, Outcome};
use crate::effects::{Before, Reader, op};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{Row, Spec};

pub(crate) use bitfield::ROWS as BITFIELD_ROWS;
pub(crate) use bitmap::ROWS as BITMAP_ROWS;
pub(crate) use compare::ROWS as COMPARE_ROWS;
pub(crate) use counter::ROWS as COUNTER_ROWS;
pub(crate) use edit::ROWS as EDIT_ROWS;
pub(crate) use hll::ROWS as HLL_ROWS;
pub(crate) use increx::ROWS as INCREX_ROWS;
pub(crate) use lcs::ROWS as LCS_ROWS;
pub(crate) use read::ROWS as READ_ROWS;
pub(crate) use write::ROWS as WRITE_ROWS;

/// The common parts of this family's rows.
const STRING: Spec = Spec { group: "string", ..Spec::NEW };
const BITMAP: Spec = Spec { group: "bitmap", ..Spec::NEW };

const fn row(spec: Spec, run: fn(&mut Ctx<'_>) -> Result<Outcome, Error>) -> Row<Run> {
    Row { spec, run: Run::Keyed(run), subcommands: &[] }
}

/// Sets the string. Payload: flags (see [`flag`]), the expiry as varint if `AT`, the text.
const SET: u8 = op::STRINGS;
/// Sets the string to an integer and keeps the expiry. Payload: the integer; what was there before ([`flag`]), if that
/// is known.
const SET_INT: u8 = op::STRINGS + 1;
/// Overwrites bytes in place, the string zero-padded to that offset first, and keeps the expiry. Payload: offset as
/// varint, the bytes, which may be none: then the string is only made that long.
const OVERWRITE: u8 = op::STRINGS + 2;

/// Raises registers of a HyperLogLog, made empty if absent, marks its cardinality as void, and keeps the expiry.
/// Payload: 1 if it is dense afterwards, else 0; pairs of register (varint) and value (byte), to the end.
const RAISE: u8 = op::STRINGS + 3;

/// Flags of [`SET`]; without `AT` and `KEEP` the expiry is cleared.
mod flag {
    /// The text came from a change in place: `OBJECT ENCODING` is "raw".
    pub(super) const RAW: u8 = 1;
    pub(super) const AT: u8 = 2;
    pub(super) const KEEP: u8 = 4;
    /// There was no such key.
    pub(super) const OVER_NOTHING: u8 = 8;
    /// The key was a string without an expiry, so short that a store has it as one record.
    pub(super) const OVER_PLAIN: u8 = 16;

    pub(super) fn of(over: keyspace::Over) -> u8 {
        match over {
            keyspace::Over::Nothing => OVER_NOTHING,
            keyspace::Over::Plain => OVER_PLAIN,
            keyspace::Over::Other => 0,
        }
    }
}

/// The former state that an effect names: replay need not read it.
pub(crate) fn before(number: u8, payload: &[u8]) -> Before {
    let flags = match number {
        SET => payload.first(),
        // The first byte of the integer without the high bit is its last.
        SET_INT => payload.iter().position(|byte| byte & 0x80 == 0).and_then(|end| payload.get(end + 1)),
        _ => None,
    };
    match flags {
        Some(flags) if flags & flag::OVER_NOTHING != 0 => Before::Nothing,
        Some(flags) if flags & flag::OVER_PLAIN != 0 => Before::Plain,
        _ => Before::Unknown,
    }
}

/// True if an effect of this family is applied, or has changed nothing.
pub(crate) fn is_atomic(number: u8) -> bool {
    matches!(number, SET | SET_INT | OVERWRITE)
}

/// Applies an effect of this family.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, _: &Limits) -> Result<(), Corrupt> {
    match number {
        SET => {
            let flags = r.u8()?;
            let expiry = match flags {
                _ if flags & flag::AT != 0 => Expiry::At(UnixMs(r.varint()?)),
                _ if flags & flag::KEEP != 0 => Expiry::Keep,
                _ => Expiry::Clear,
            };
            db.set_string(key, r.bytes()?, flags & flag::RAW != 0, expiry);
        }
        SET_INT => {
            db.set_int(key, r.int()?, Expiry::Keep);
        }
        OVERWRITE => {
            const BEYOND: Corrupt = Corrupt("offset in a string");
            let offset = usize::try_from(r.varint()?).map_err(|_| BEYOND)?;
            let bytes = r.bytes()?;
            let end = offset.checked_add(bytes.len()).filter(|end| isize::try_from(*end).is_ok()).ok_or(BEYOND)?;
            edit::in_place(db, key, end, |text| text[offset..end].copy_from_slice(bytes))
                .map_err(|_| Corrupt("a string effect on another type"))?;
        }
        RAISE => hll::replay(key, r, db)?,
        _ => return Err(Corrupt("unknown string effect")),
    }
    Ok(())
}

/// Writes a string value as a bulk reply.
#[inline]
pub(crate) fn write_str(out: &mut Reply<'_>, value: Str<'_>) {
    match value {
        Str::Bytes(b) => out.bulk(b),
        Str::Int(n) => out.bulk_integer(n),
        Str::Blob(b) => out.bulk_shared(b),
    }
}

/// Sets a string and notes it; the caller notifies.
#[inline]
fn put(ctx: &mut Ctx<'_>, key: &Key<'_>, text: &[u8], raw: bool, expiry: Expiry) {
    let over = ctx.db.replace_string(key, text, raw, expiry);
    ctx.effect(SET, key, |w| {
        let raw = if raw { flag::RAW } else { 0 };
        let over = flag::of(over);
        match expiry {
            Expiry::Clear => w.u8(raw | over),
            Expiry::Keep => w.u8(raw | over | flag::KEEP),
            Expiry::At(at) => {
                w.u8(raw | over | flag::AT);
                w.varint(at.0);
            }
        }
        w.bytes(text);
    });
}

/// Deletes a key, if it is there, and tells of it.
fn delete_if_present(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    if ctx.db.remove(key) {
        ctx.effect(op::DELETE, key, |_| {});
        ctx.notify(class::GENERIC, "del", key);
    }
}

/// Leaves a key as if it had been set and had expired since: it counts as an expired one.
fn expire_at_once(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    delete_if_present(ctx, key);
    keyspace::bump(&ctx.db.local().counters().expired, 1);
}

/// Checks that a string of `len` bytes may grow by `more`. Returns Redis's error if not (`proto-max-bulk-len`).
fn check_length(ctx: &Ctx<'_>, len: u64, more: u64) -> Result<(), Error> {
    match len.checked_add(more) {
        Some(total) if total <= ctx.tunables.max_string => Ok(()),
        _ => Err(Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)")),
    }
}

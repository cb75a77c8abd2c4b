//! The options of HGETEX, HSETEX and HEXPIRE, which may come in any order, before FIELDS and behind it.

use clocks::UnixMs;

use super::expire::{Condition, From, Unit, time};
use crate::ctx::Ctx;
use crate::dialect::Difference;
use crate::error::Error;

/// EX, PX, EXAT, PXAT.
const TIMES: [(&str, Unit, From); 4] = [
    ("ex", Unit::Seconds, From::Now),
    ("px", Unit::Milliseconds, From::Now),
    ("exat", Unit::Seconds, From::Epoch),
    ("pxat", Unit::Milliseconds, From::Epoch),
];

/// The command that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Get,
    Set,
}

/// The change of the expiry of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ttl {
    /// None is given.
    Unsaid,
    At(UnixMs),
    /// PERSIST of HGETEX, KEEPTTL of HSETEX.
    Kept,
}

/// A condition on the key or on the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum If {
    /// NX, FNX.
    Absent,
    /// XX, FXX.
    Present,
}

/// The fields named behind FIELDS; those of HSETEX with their values.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// Position of the first name.
    pub first: usize,
    /// Arguments that are names or values.
    pub words: usize,
}

/// The options of HGETEX and HSETEX.
pub(super) struct Options {
    pub ttl: Ttl,
    /// On the fields: FNX, FXX.
    pub fields_if: Option<If>,
    /// On the key: NX, XX (Valkey).
    pub key_if: Option<If>,
    pub fields: Fields,
}

const TWICE: Error = Error::new("ERR FIELDS keyword specified multiple times");
const TOO_FEW: Error = Error::new("ERR wrong number of arguments");
const NO_FIELDS: Error = Error::new("ERR missing FIELDS argument");

fn unknown(ctx: &Ctx<'_>, i: usize) -> Error {
    Error::text([b"ERR unknown argument: ", ctx.arg(i)].concat())
}

impl Fields {
    /// Reads `numfields` at argument `at` and checks that so many fields of `each` arguments follow.
    fn of(ctx: &Ctx<'_>, at: usize, each: usize, bad_count: &'static str) -> Result<Self, Error> {
        let count = ctx.at_least(at, 1, Error::new(bad_count))?;
        let count = i32::try_from(count).map_err(|_| Error::new(bad_count))?.unsigned_abs() as usize;
        let (first, words) = (at + 1, count.saturating_mul(each));
        if words > ctx.args.len() - first {
            return Err(TOO_FEW);
        }
        Ok(Fields { first, words })
    }

    fn end(self) -> usize {
        self.first + self.words
    }
}

impl Options {
    /// Reads the arguments of `command`, which is of this form.
    pub(super) fn parse(ctx: &Ctx<'_>, form: Form, command: &'static str) -> Result<Self, Error> {
        let (mut ttl, mut fields_if, mut key_if, mut fields) = (Ttl::Unsaid, None, None, None);
        let of_key = form == Form::Set && ctx.tunables.dialect.is_valkey(Difference::KeyCondition);
        let keeping = if form == Form::Get { "persist" } else { "keepttl" };
        let mut i = 2;
        while i < ctx.args.len() {
            if ctx.is(i, "fields") {
                if fields.is_some() {
                    return Err(TWICE);
                }
                if i + 1 == ctx.args.len() {
                    return Err(Error::arity(command));
                }
                let each = if form == Form::Get { 1 } else { 2 };
                let found = Fields::of(ctx, i + 1, each, "ERR invalid number of fields")?;
                fields = Some(found);
                i = found.end();
                continue;
            }
            if let Some((_, unit, from)) = TIMES.into_iter().find(|(word, ..)| ctx.is(i, word)) {
                one_ttl(ttl, form)?;
                i += 1;
                if i == ctx.args.len() {
                    return Err(Error::new("ERR missing expire time"));
                }
                ttl = Ttl::At(time(ctx, i, unit, from, command)?);
            } else if ctx.is(i, keeping) {
                one_ttl(ttl, form)?;
                ttl = Ttl::Kept;
            } else if form == Form::Set && (ctx.is(i, "fnx") || ctx.is(i, "fxx")) {
                if fields_if.is_some() {
                    return Err(Error::new("ERR Only one of FXX or FNX arguments can be specified"));
                }
                fields_if = Some(if ctx.is(i, "fnx") { If::Absent } else { If::Present });
            } else if of_key && (ctx.is(i, "nx") || ctx.is(i, "xx")) {
                if key_if.is_some() {
                    return Err(Error::new("ERR Only one of XX or NX arguments can be specified"));
                }
                key_if = Some(if ctx.is(i, "nx") { If::Absent } else { If::Present });
            } else {
                return Err(unknown(ctx, i));
            }
            i += 1;
        }
        Ok(Options { ttl, fields_if, key_if, fields: fields.ok_or(NO_FIELDS)? })
    }
}

fn one_ttl(before: Ttl, form: Form) -> Result<(), Error> {
    match (before, form) {
        (Ttl::Unsaid, _) => Ok(()),
        (_, Form::Get) => Err(Error::new("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified")),
        (_, Form::Set) => Err(Error::new("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")),
    }
}

/// Reads the arguments after the time of HEXPIRE and its like.
pub(super) fn hexpire_options(ctx: &Ctx<'_>) -> Result<(Condition, Fields), Error> {
    let words =
        [("nx", Condition::IfNone), ("xx", Condition::IfAny), ("gt", Condition::IfLater), ("lt", Condition::IfEarlier)];
    let (mut condition, mut several, mut fields) = (Condition::Always, false, None);
    let mut i = 3;
    while i < ctx.args.len() {
        if ctx.is(i, "fields") {
            if fields.is_some() {
                return Err(TWICE);
            }
            if i + 2 >= ctx.args.len() {
                return Err(Error::new("ERR FIELDS requires at least numfields and one field argument"));
            }
            let found = Fields::of(ctx, i + 1, 1, "ERR Parameter `numFields` should be greater than 0")?;
            fields = Some(found);
            i = found.end();
            continue;
        }
        let (_, given) = words.into_iter().find(|(word, _)| ctx.is(i, word)).ok_or_else(|| unknown(ctx, i))?;
        several |= condition != Condition::Always && condition != given;
        condition = given;
        i += 1;
    }
    let fields = fields.ok_or(NO_FIELDS)?;
    if several {
        return Err(Error::new("ERR Multiple condition flags specified"));
    }
    Ok((condition, fields))
}

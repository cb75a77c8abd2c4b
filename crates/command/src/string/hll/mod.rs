//! HyperLogLogs: PFADD, PFCOUNT, PFMERGE, and the commands by which tests inspect them. The values are strings, see
//! [`object::hll`].

mod debug;
mod rows;
mod selftest;
#[cfg(test)]
mod tests;

use keyspace::{Db, Expiry, Key};
use object::Corrupt;
use object::hll::{self, Damaged, Form, Hll, NotHll, REGISTERS, Registers, Trace};
use smallvec::SmallVec;

use super::edit::{in_place, overwrite};
use super::{RAISE, put};
use crate::ctx::{Ctx, Outcome};
use crate::effects::Reader;
use crate::error::Error;
use crate::notify::class;

pub(crate) use rows::ROWS;

impl From<NotHll> for Error {
    fn from(_: NotHll) -> Error {
        Error::new("WRONGTYPE Key is not a valid HyperLogLog string value.")
    }
}

impl From<Damaged> for Error {
    fn from(_: Damaged) -> Error {
        Error::new("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The registers that a command has raised.
type Traces = SmallVec<[Trace; 4]>;

/// The change of a HyperLogLog.
enum Change {
    None,
    /// It was dense already: these registers are raised where it lies.
    InPlace(Traces),
    /// It is this string now; these registers were raised.
    Whole(Hll<'static>, Traces),
}

fn pfadd(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let max = ctx.tunables.limits.hll_sparse_max_bytes;
    let elements = ctx.args.iter().skip(2);
    let (change, created) = match ctx.db.peek(&key) {
        None => {
            let (mut hll, traces) = add(Hll::new(), elements, max)?;
            hll.forget();
            (Change::Whole(hll.into_owned(), traces), true)
        }
        Some(entry) => (entry.string()?.with(|text| plan(text, elements, max))?, false),
    };
    let (dense, traces) = match change {
        Change::None => {
            ctx.out.integer(0);
            return Ok(Outcome::Done);
        }
        Change::InPlace(traces) => {
            in_place(&mut ctx.db, &key, hll::DENSE_LEN, |text| raise_dense(text, &traces))?;
            (true, traces)
        }
        Change::Whole(hll, traces) => {
            ctx.db.set_string(&key, hll.as_bytes(), true, Expiry::Keep);
            (hll.form() == Form::Dense, traces)
        }
    };
    ctx.fx.dirty += (traces.len() + usize::from(created)) as u64 - 1;
    ctx.effect(RAISE, &key, |w| {
        w.u8(u8::from(dense));
        for trace in traces {
            w.varint(trace.register.into());
            w.u8(trace.value);
        }
    });
    ctx.notify(class::STRING, "pfadd", &key);
    ctx.out.integer(1);
    Ok(Outcome::Done)
}

fn raise_dense(text: &mut [u8], traces: &[Trace]) {
    for trace in traces {
        hll::raise_dense(text, *trace);
    }
}

/// Finds the change that adding these elements makes.
fn plan<'a>(text: &[u8], elements: impl Iterator<Item = &'a [u8]>, max: usize) -> Result<Change, Error> {
    let hll = Hll::parse(text)?;
    if hll.form() == Form::Dense {
        let traces: Traces =
            elements.map(Trace::of).filter(|trace| hll.get_dense(trace.register) < trace.value).collect();
        return Ok(if traces.is_empty() { Change::None } else { Change::InPlace(traces) });
    }
    let (mut hll, traces) = add(hll, elements, max)?;
    if traces.is_empty() {
        return Ok(Change::None);
    }
    hll.forget();
    Ok(Change::Whole(hll.into_owned(), traces))
}

/// Adds elements; returns the raised registers.
fn add<'h, 'a>(
    mut hll: Hll<'h>,
    elements: impl Iterator<Item = &'a [u8]>,
    max: usize,
) -> Result<(Hll<'h>, Traces), Damaged> {
    let mut traces = Traces::new();
    for trace in elements.map(Trace::of) {
        if hll.raise(trace, max)? {
            traces.push(trace);
        }
    }
    Ok((hll, traces))
}

/// Replays [`RAISE`]. The named form makes it independent of `hll-sparse-max-bytes`.
pub(super) fn replay(key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>) -> Result<(), Corrupt> {
    const NONE: Corrupt = Corrupt("a HyperLogLog effect on something else");
    let dense = r.u8()? != 0;
    let mut traces = Traces::new();
    while !r.is_empty() {
        let register = u16::try_from(r.varint()?).ok().filter(|register| usize::from(*register) < REGISTERS);
        traces.push(Trace { register: register.ok_or(Corrupt("a register of a HyperLogLog"))?, value: r.u8()? });
    }
    let text = match db.peek(key) {
        None => Hll::new().into_bytes(),
        Some(entry) => entry.string().map_err(|_| NONE)?.to_vec(),
    };
    let mut hll = Hll::parse(&text).map_err(|_| NONE)?;
    if dense {
        hll.make_dense().map_err(|_| NONE)?;
    }
    for trace in traces {
        hll.raise(trace, usize::MAX).map_err(|_| NONE)?;
    }
    hll.forget();
    db.set_string(key, hll.as_bytes(), true, Expiry::Keep);
    Ok(())
}

fn pfcount(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if ctx.args.len() > 2 {
        let mut registers = [0; REGISTERS];
        merge(ctx, &mut registers)?;
        ctx.out.integer(hll::count(&registers));
        return Ok(Outcome::Done);
    }
    let key = ctx.key(1);
    let Some(text) = ctx.db.read_string(&key)? else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    let (cached, count) = text.with(|text| {
        let hll = Hll::parse(text)?;
        let cached = hll.cached();
        Ok::<_, Error>((cached, cached.map_or_else(|| hll.count(), Ok)?))
    })?;
    if cached.is_none() {
        overwrite(ctx, &key, hll::CARDINALITY_AT, &count.to_le_bytes())?;
    }
    ctx.out.integer(count);
    Ok(Outcome::Done)
}

/// Merges the HyperLogLogs of all keys of the command. Returns true if one of them is dense.
fn merge(ctx: &Ctx<'_>, registers: &mut Registers) -> Result<bool, Error> {
    let mut dense = false;
    for i in 1..ctx.args.len() {
        let Some(text) = ctx.db.read_string(&ctx.key(i))? else { continue };
        text.with(|text| {
            let hll = Hll::parse(text)?;
            dense |= hll.form() == Form::Dense;
            Ok::<_, Error>(hll.merge_into(registers)?)
        })?;
    }
    Ok(dense)
}

fn pfmerge(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let mut registers = [0; REGISTERS];
    let dense = merge(ctx, &mut registers)?;
    let key = ctx.key(1);
    let text = match ctx.db.peek(&key) {
        None => Hll::new().into_bytes(),
        Some(entry) => entry.string()?.to_vec(),
    };
    let mut hll = Hll::parse(text)?;
    if dense {
        hll.make_dense()?;
    }
    hll.raise_all(&registers, ctx.tunables.limits.hll_sparse_max_bytes)?;
    put(ctx, &key, hll.as_bytes(), true, Expiry::Keep);
    ctx.notify(class::STRING, "pfadd", &key);
    ctx.out.ok();
    Ok(Outcome::Done)
}

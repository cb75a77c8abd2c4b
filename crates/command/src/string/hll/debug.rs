//! PFDEBUG.

use keyspace::{Expiry, Key};
use object::hll::{Form, Hll, Opcode, REGISTERS};

use super::super::put;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;

pub(super) fn pfdebug(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    let text = match ctx.db.peek(&key) {
        None => return Err(Error::new("ERR The specified key does not exist")),
        Some(entry) => entry.string()?.to_vec(),
    };
    let hll = Hll::parse(&text)?;
    if ctx.is(1, "getreg") {
        make_dense(ctx, &key, &hll)?;
        let mut registers = [0; REGISTERS];
        hll.merge_into(&mut registers)?;
        ctx.out.array(REGISTERS);
        registers.iter().for_each(|value| ctx.out.integer((*value).into()));
    } else if ctx.is(1, "decode") {
        if hll.form() == Form::Dense {
            return Err(Error::new("ERR HLL encoding is not sparse"));
        }
        let words: Vec<String> = hll.opcodes().map(word).collect();
        ctx.out.bulk(words.join(" "));
    } else if ctx.is(1, "encoding") {
        ctx.out.simple(match hll.form() {
            Form::Dense => "dense",
            Form::Sparse => "sparse",
        });
    } else if ctx.is(1, "todense") {
        let converted = make_dense(ctx, &key, &hll)?;
        ctx.out.integer(converted.into());
    } else {
        return Err(Error::text([b"ERR Unknown PFDEBUG subcommand '", ctx.arg(1), b"'"].concat()));
    }
    Ok(Outcome::Done)
}

/// Makes the value at `key`, which is `hll`, dense. Returns true if it was sparse.
fn make_dense(ctx: &mut Ctx<'_>, key: &Key<'_>, hll: &Hll<'_>) -> Result<bool, Error> {
    if hll.form() == Form::Dense {
        return Ok(false);
    }
    let mut dense = hll.clone();
    dense.make_dense()?;
    put(ctx, key, dense.as_bytes(), true, Expiry::Keep);
    Ok(true)
}

/// An opcode as Redis shows it.
fn word(opcode: Opcode) -> String {
    match opcode {
        Opcode::Zeros(count) => format!("z:{count}"),
        Opcode::ManyZeros(count) => format!("Z:{count}"),
        Opcode::Value(value, count) => format!("v:{value},{count}"),
    }
}

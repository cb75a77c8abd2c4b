//! `bit`: Lua BitOp's functions on 32 bits.

use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// Pushes the table `bit`.
pub(crate) fn push(f: &mut Frame<'_>) {
    f.push_table(0, 12);
    f.push_native(|f: &mut Frame<'_>| one(f, |bits| bits));
    f.set_field(-2, "tobit");
    f.push_native(|f: &mut Frame<'_>| one(f, |bits| !bits));
    f.set_field(-2, "bnot");
    f.push_native(|f: &mut Frame<'_>| one(f, u32::swap_bytes));
    f.set_field(-2, "bswap");
    f.push_native(|f: &mut Frame<'_>| all(f, |a, b| a & b));
    f.set_field(-2, "band");
    f.push_native(|f: &mut Frame<'_>| all(f, |a, b| a | b));
    f.set_field(-2, "bor");
    f.push_native(|f: &mut Frame<'_>| all(f, |a, b| a ^ b));
    f.set_field(-2, "bxor");
    f.push_native(|f: &mut Frame<'_>| shift(f, |bits, n| bits << n));
    f.set_field(-2, "lshift");
    f.push_native(|f: &mut Frame<'_>| shift(f, |bits, n| bits >> n));
    f.set_field(-2, "rshift");
    f.push_native(|f: &mut Frame<'_>| shift(f, |bits, n| (bits.cast_signed() >> n).cast_unsigned()));
    f.set_field(-2, "arshift");
    f.push_native(|f: &mut Frame<'_>| shift(f, u32::rotate_left));
    f.set_field(-2, "rol");
    f.push_native(|f: &mut Frame<'_>| shift(f, u32::rotate_right));
    f.set_field(-2, "ror");
    f.push_native(to_hex);
    f.set_field(-2, "tohex");
}

/// The low 32 bits of a number, rounded to even.
fn bits(f: &mut Frame<'_>, at: c_int) -> Result<u32, Raised> {
    // The sum has no bits behind the point, and the whole number in its lowest.
    const WHOLE: f64 = 6_755_399_441_055_744.0;
    Ok((f.check_number(at)? + WHOLE).to_bits() as u32)
}

fn give(f: &mut Frame<'_>, bits: u32) -> Result<c_int, Raised> {
    f.push_number(f64::from(bits.cast_signed()));
    Ok(1)
}

fn one(f: &mut Frame<'_>, change: impl FnOnce(u32) -> u32) -> Result<c_int, Raised> {
    let bits = bits(f, 1)?;
    give(f, change(bits))
}

fn all(f: &mut Frame<'_>, join: impl Fn(u32, u32) -> u32) -> Result<c_int, Raised> {
    let mut joined = bits(f, 1)?;
    for at in 2..=f.args() {
        joined = join(joined, bits(f, at)?);
    }
    give(f, joined)
}

fn shift(f: &mut Frame<'_>, shift: impl FnOnce(u32, u32) -> u32) -> Result<c_int, Raised> {
    let (value, by) = (bits(f, 1)?, bits(f, 2)? & 31);
    give(f, shift(value, by))
}

fn to_hex(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let value = bits(f, 1)?;
    let digits = if f.args() < 2 { 8 } else { bits(f, 2)?.cast_signed() };
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let kept = text.len() - digits.unsigned_abs().min(8) as usize;
    f.push_bytes(&text[kept..]);
    Ok(1)
}

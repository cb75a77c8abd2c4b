//! `cmsgpack.pack`.

use crate::lua::{Frame, Kind, Raised};
use std::ffi::c_int;

/// Tables within each other; deeper ones become nil, so that circles end.
const DEPTH_MAX: usize = 16;

pub(super) fn pack(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() == 0 {
        return Err(f.bad_argument(0, "MessagePack pack needs input."));
    }
    let mut out = f.shared().buffer();
    let mut outcome = Ok(());
    for at in 1..=f.args() {
        f.push_copy(at);
        outcome = value(f, &mut out, 0);
        if outcome.is_err() {
            break;
        }
    }
    if outcome.is_ok() {
        f.push_bytes(&out);
    }
    f.shared().give_back(out);
    outcome.map(|()| 1)
}

/// Writes the value on top, which is removed.
fn value(f: &mut Frame<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Raised> {
    match f.kind(-1) {
        Kind::String => {
            let text = f.bytes(-1).unwrap_or_default();
            string(out, text);
            let len = text.len();
            f.charge(len / 16)?;
        }
        Kind::Boolean => out.push(if f.truth(-1) { 0xc3 } else { 0xc2 }),
        Kind::Number => number(out, f.number(-1).unwrap_or(0.0)),
        Kind::Table if depth < DEPTH_MAX => {
            if !f.room(8) {
                return Err(f.raise("stack overflow (in function mp_encode_lua_table_as_map)"));
            }
            table(f, out, depth)?;
        }
        _ => out.push(0xc0),
    }
    f.pop(1);
    if out.len() > f.shared().limit() {
        return Err(f.raise("not enough memory"));
    }
    f.charge(4)
}

/// The number of pairs of the table on top, and whether they are an array: keys from 1 to their number.
fn count(f: &mut Frame<'_>) -> Result<(usize, bool), Raised> {
    let (mut pairs, mut max, mut whole) = (0, 0.0f64, true);
    f.push_nil();
    while f.next(-2) {
        f.charge(2)?;
        f.pop(1);
        let key = if f.kind(-1) == Kind::Number { f.number(-1).unwrap_or(0.0) } else { 0.0 };
        whole &= key >= 1.0 && key.fract() == 0.0 && key <= f64::from(i32::MAX);
        max = max.max(key);
        pairs += 1;
    }
    Ok((pairs, whole && max == pairs as f64))
}

fn table(f: &mut Frame<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Raised> {
    let (pairs, array) = count(f)?;
    if array {
        header(out, pairs, 0x90, 0xdc);
        for index in 1..=i32::try_from(pairs).unwrap_or(i32::MAX) {
            f.push_element(-1, index);
            value(f, out, depth + 1)?;
        }
        return Ok(());
    }
    header(out, pairs, 0x80, 0xde);
    f.push_nil();
    while f.next(-2) {
        // Key, value, key: the copy is written first, then the value.
        f.push_copy(-2);
        value(f, out, depth + 1)?;
        value(f, out, depth + 1)?;
    }
    Ok(())
}

/// Of an array or a map: up to 15 in one byte, else 16 or 32 bits behind `wide` or the next.
fn header(out: &mut Vec<u8>, count: usize, fixed: u8, wide: u8) {
    match count {
        0..16 => out.push(fixed | count as u8),
        16..0x1_0000 => {
            out.push(wide);
            out.extend_from_slice(&(count as u16).to_be_bytes());
        }
        _ => {
            out.push(wide + 1);
            out.extend_from_slice(&(count as u32).to_be_bytes());
        }
    }
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..32 => out.push(0xa0 | len as u8),
        len @ 32..0x100 => out.extend_from_slice(&[0xd9, len as u8]),
        len @ 0x100..0x1_0000 => {
            out.push(0xda);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(0xdb);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

fn number(out: &mut Vec<u8>, number: f64) {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-BOUND..BOUND).contains(&number) {
        return integer(out, number as i64);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn integer(out: &mut Vec<u8>, number: i64) {
    let (code, width) = match number {
        -32..0x80 => return out.push(number as u8),
        0x80..0x100 => (0xcc, 1),
        0x100..0x1_0000 => (0xcd, 2),
        0x1_0000..0x1_0000_0000 => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(code);
    out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

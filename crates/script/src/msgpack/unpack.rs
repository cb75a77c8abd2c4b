//! `cmsgpack.unpack`, `unpack_one` and `unpack_limit`.

use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// Tables within each other: as much recursion as a script's stack holds.
const DEPTH_MAX: usize = 2_000;

pub(super) fn unpack(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let text = f.check_bytes(1)?;
    run(f, &mut Input { rest: text }, usize::MAX)
}

pub(super) fn unpack_one(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let offset = f.optional_integer(2, 0)?;
    limited(f, 1, offset)
}

pub(super) fn unpack_limit(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let limit = f.check_integer(2)?;
    let offset = f.optional_integer(3, 0)?;
    limited(f, limit, offset)
}

/// Up to `limit` values from `offset` on, and in front of them where the next begins, or -1.
fn limited(f: &mut Frame<'_>, limit: i64, offset: i64) -> Result<c_int, Raised> {
    let text = f.check_bytes(1)?;
    let len = text.len();
    let (Ok(count), Ok(start)) = (usize::try_from(limit), usize::try_from(offset)) else {
        return Err(f.raise(format!("Invalid request to unpack with offset of {offset} and limit of {len}.")));
    };
    if start > len {
        return Err(f.raise(format!("Start offset {offset} greater than input length {len}.")));
    }
    let mut input = Input { rest: &text[start..] };
    if count == 0 && start == 0 {
        return run(f, &mut input, usize::MAX);
    }
    let found = run(f, &mut input, count)?;
    let next = if input.rest.is_empty() { -1.0 } else { (len - input.rest.len()) as f64 };
    f.push_number(next);
    let first = f.args() + 1;
    f.insert(first);
    Ok(found + 1)
}

fn run(f: &mut Frame<'_>, input: &mut Input<'_>, limit: usize) -> Result<c_int, Raised> {
    let mut count = 0;
    while !input.rest.is_empty() && (count as usize) < limit {
        if let Err(error) = value(f, input, 0) {
            return Err(match error {
                Failure::Short => f.raise("Missing bytes in input."),
                Failure::Format => f.raise("Bad data format in input."),
                Failure::Deep => {
                    f.raise("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
                }
                Failure::Key => f.raise("table index is nil"),
                Failure::Raised(raised) => raised,
            });
        }
        count += 1;
    }
    Ok(count)
}

enum Failure {
    Short,
    Format,
    Deep,
    Key,
    Raised(Raised),
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Failure::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Failure::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A length of so many bytes.
    fn length(&mut self, width: usize) -> Result<usize, Failure> {
        Ok(self.take(width)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }
}

/// Pushes the value at the front.
fn value(f: &mut Frame<'_>, input: &mut Input<'_>, depth: usize) -> Result<(), Failure> {
    if depth > DEPTH_MAX || !f.room(6) {
        return Err(Failure::Deep);
    }
    f.charge(4).map_err(Failure::Raised)?;
    let [code] = input.array()?;
    match code {
        0x00..0x80 => f.push_number(f64::from(code)),
        0xe0.. => f.push_number(f64::from(code.cast_signed())),
        0x80..0x90 => map(f, input, usize::from(code & 15), depth)?,
        0x90..0xa0 => array(f, input, usize::from(code & 15), depth)?,
        0xa0..0xc0 => f.push_bytes(input.take(usize::from(code & 31))?),
        0xc0 => f.push_nil(),
        0xc2 => f.push_boolean(false),
        0xc3 => f.push_boolean(true),
        0xca => f.push_number(f64::from(f32::from_be_bytes(input.array()?))),
        0xcb => f.push_number(f64::from_be_bytes(input.array()?)),
        0xcc => f.push_number(f64::from(u8::from_be_bytes(input.array()?))),
        0xcd => f.push_number(f64::from(u16::from_be_bytes(input.array()?))),
        0xce => f.push_number(f64::from(u32::from_be_bytes(input.array()?))),
        // Above 2^63 it is negative, as in C.
        0xcf | 0xd3 => f.push_number(i64::from_be_bytes(input.array()?) as f64),
        0xd0 => f.push_number(f64::from(i8::from_be_bytes(input.array()?))),
        0xd1 => f.push_number(f64::from(i16::from_be_bytes(input.array()?))),
        0xd2 => f.push_number(f64::from(i32::from_be_bytes(input.array()?))),
        0xd9..=0xdb => {
            let len = input.length(1 << (code - 0xd9))?;
            f.push_bytes(input.take(len)?);
        }
        0xdc | 0xdd => {
            let len = input.length(2 << (code - 0xdc))?;
            array(f, input, len, depth)?;
        }
        0xde | 0xdf => {
            let len = input.length(2 << (code - 0xde))?;
            map(f, input, len, depth)?;
        }
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(Failure::Format),
    }
    Ok(())
}

fn array(f: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Result<(), Failure> {
    f.push_table(0, 0);
    for index in 1..=len {
        value(f, input, depth + 1)?;
        f.set_element(-2, i32::try_from(index).unwrap_or(i32::MAX));
    }
    Ok(())
}

fn map(f: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Result<(), Failure> {
    f.push_table(0, 0);
    for _ in 0..len {
        value(f, input, depth + 1)?;
        value(f, input, depth + 1)?;
        if !f.set(-3) {
            return Err(Failure::Key);
        }
    }
    Ok(())
}

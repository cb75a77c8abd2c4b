//! `struct`: C values in strings, as lua-struct 0.2 reads and writes them on a 64-bit little-endian machine.

use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// The widest integer.
const INTEGER_MAX: usize = 32;

/// Pushes the table `struct`.
pub(crate) fn push(f: &mut Frame<'_>) {
    f.push_table(0, 3);
    f.push_native(pack);
    f.set_field(-2, "pack");
    f.push_native(unpack);
    f.set_field(-2, "unpack");
    f.push_native(size);
    f.set_field(-2, "size");
}

/// A format that is read option by option.
struct Format<'a> {
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

/// An option, its size, and the bytes that align it.
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn of(f: &mut Frame<'a>) -> Result<Self, Raised> {
        // A string in C: a null byte ends it.
        let text = f.check_bytes(1)?;
        let rest = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Self { rest, big_endian: false, align: 1 })
    }

    /// The next option, at `position` in the data.
    fn next(&mut self, f: &mut Frame<'_>, position: usize) -> Result<Option<Item>, Raised> {
        let Some((&option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        f.charge(2)?;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(f, 1)?,
            b'i' | b'I' => {
                let size = self.number(f, 4)?;
                if size > INTEGER_MAX {
                    return Err(f.raise(format!("integral size {size} is larger than limit of {INTEGER_MAX}")));
                }
                size
            }
            _ => 0,
        };
        let padding = if size == 0 || option == b'c' {
            0
        } else {
            let align = size.min(self.align);
            align.wrapping_sub(position & (align - 1)) & (align - 1)
        };
        Ok(Some(Item { option, size, padding }))
    }

    fn number(&mut self, f: &mut Frame<'_>, default: usize) -> Result<usize, Raised> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut number = 0i32;
        while let Some((digit @ b'0'..=b'9', rest)) = self.rest.split_first() {
            let next = number.checked_mul(10).and_then(|tens| tens.checked_add(i32::from(digit - b'0')));
            number = next.ok_or_else(|| f.raise("integral size overflow"))?;
            self.rest = rest;
        }
        Ok(usize::try_from(number).unwrap_or(0))
    }

    /// An option that is no value.
    fn control(&mut self, f: &mut Frame<'_>, option: u8) -> Result<(), Raised> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(f, 8)?;
                if !align.is_power_of_two() {
                    return Err(f.raise(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let text = format!("invalid format option '{}'", char::from(option));
                return Err(f.bad_argument(1, &text));
            }
        }
        Ok(())
    }

    /// Appends bytes given least significant first.
    fn put(&self, out: &mut Vec<u8>, little: impl DoubleEndedIterator<Item = u8>) {
        if self.big_endian { out.extend(little.rev()) } else { out.extend(little) }
    }
}

fn pack(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let mut out = f.shared().buffer();
    let outcome = write(f, &mut out);
    if outcome.is_ok() {
        f.push_bytes(&out);
    }
    f.shared().give_back(out);
    outcome.map(|()| 1)
}

fn write(f: &mut Frame<'_>, out: &mut Vec<u8>) -> Result<(), Raised> {
    let mut format = Format::of(f)?;
    let mut arg = 2;
    while let Some(Item { option, size, padding }) = format.next(f, out.len())? {
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = f.check_number(arg)?;
                let value = if number < 0.0 { (number as i64).cast_unsigned() } else { number as u64 };
                let bytes = value.to_le_bytes();
                format.put(out, (0..size).map(|index| bytes.get(index).copied().unwrap_or(0)));
                arg += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let number = f.check_number(arg)? as f32;
                format.put(out, number.to_le_bytes().into_iter());
                arg += 1;
            }
            b'd' => {
                let number = f.check_number(arg)?;
                format.put(out, number.to_le_bytes().into_iter());
                arg += 1;
            }
            b'c' | b's' => {
                let text = f.check_bytes(arg)?;
                arg += 1;
                let size = if size == 0 { text.len() } else { size };
                let Some(text) = text.get(..size) else { return Err(f.bad_argument(arg, "string too short")) };
                out.extend_from_slice(text);
                if option == b's' {
                    out.push(0);
                }
                if out.len() > f.shared().limit() {
                    return Err(f.raise("not enough memory"));
                }
                f.charge(size / 16)?;
            }
            option => format.control(f, option)?,
        }
    }
    Ok(())
}

fn unpack(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let mut format = Format::of(f)?;
    let data = f.check_bytes(2)?;
    let position = f.optional_integer(3, 1)?;
    if position == 0 {
        return Err(f.bad_argument(3, "offset must be 1 or greater"));
    }
    // A negative one is huge in C, and behind the end.
    let mut at = usize::try_from(position - 1).unwrap_or(usize::MAX / 2);
    let mut results = 0;
    while let Some(Item { option, size, padding }) = format.next(f, at)? {
        at = at.saturating_add(padding);
        let Some(bytes) = at.checked_add(size).and_then(|end| data.get(at..end)) else {
            return Err(f.bad_argument(2, "data string too short"));
        };
        if !f.room(4) {
            return Err(f.raise("stack overflow (too many results)"));
        }
        let mut used = size;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                f.push_number(integer(bytes, format.big_endian, option.is_ascii_lowercase()));
                results += 1;
            }
            b'x' => {}
            b'f' => {
                f.push_number(f64::from(f32::from_le_bytes(ordered(bytes, format.big_endian))));
                results += 1;
            }
            b'd' => {
                f.push_number(f64::from_le_bytes(ordered(bytes, format.big_endian)));
                results += 1;
            }
            b'c' => {
                let mut text = bytes;
                if size == 0 {
                    let len = if results == 0 { None } else { f.number(-1) };
                    let Some(len) = len else { return Err(f.raise("format 'c0' needs a previous size")) };
                    f.pop(1);
                    results -= 1;
                    let len = if len < 0.0 { usize::MAX } else { len as usize };
                    let Some(found) = at.checked_add(len).and_then(|end| data.get(at..end)) else {
                        return Err(f.bad_argument(2, "data string too short"));
                    };
                    text = found;
                    used = len;
                }
                f.push_bytes(text);
                results += 1;
            }
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(f.raise("unfinished string in data"));
                };
                f.push_bytes(&rest[..len]);
                results += 1;
                used = len + 1;
            }
            option => format.control(f, option)?,
        }
        at += used;
    }
    f.push_number((at + 1) as f64);
    Ok(results + 1)
}

/// The bytes, least significant first; zeros where there are none.
fn ordered<const N: usize>(bytes: &[u8], big_endian: bool) -> [u8; N] {
    let mut little = [0; N];
    little.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    if big_endian {
        little.reverse();
    }
    little
}

/// The low 64 bits of an integer of any width.
fn integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !signed {
        return value as f64;
    }
    let unused = 64usize.saturating_sub(bytes.len() * 8) as u32;
    let shifted = if unused >= 64 { 0 } else { value << unused };
    (shifted.cast_signed() >> unused.min(63)) as f64
}

fn size(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let mut format = Format::of(f)?;
    let mut total = 0usize;
    while let Some(Item { option, size, padding }) = format.next(f, total)? {
        total = total.saturating_add(padding);
        match option {
            b's' => return Err(f.bad_argument(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(f.bad_argument(1, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(f, option)?,
            _ => {}
        }
        total = total.saturating_add(size);
    }
    f.push_number(total as f64);
    Ok(1)
}

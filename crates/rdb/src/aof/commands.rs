//! The commands of an append-only file, as clients send them.

use crate::Fault;
use crate::bytes::Bytes;
use object::Corrupt;
use std::io::Read;

/// Bytes of a line, at most: a number, or an annotation of Redis (`#TS:...`).
const LINE_MAX: usize = 1024;
/// Arguments that are made room for before they are read.
const ARGUMENTS_SEEN: usize = 64;

/// The next command; none at the end of the file. Annotations are passed over.
pub(super) fn command<R: Read>(bytes: &mut Bytes<R>) -> Result<Option<Vec<Vec<u8>>>, Fault> {
    loop {
        match bytes.peek()?.first() {
            None => return Ok(None),
            Some(b'#') => {
                bytes.line(LINE_MAX)?;
            }
            Some(_) => break,
        }
    }
    let count = number(bytes, b'*', "a command does not begin with its number of arguments")?;
    if count == 0 {
        return Err(Corrupt("a command without a name").into());
    }
    let mut arguments = Vec::with_capacity(ARGUMENTS_SEEN.min(usize::try_from(count).unwrap_or(usize::MAX)));
    for _ in 0..count {
        let length = number(bytes, b'$', "an argument does not begin with its length")?;
        let mut argument = Vec::new();
        bytes.read(&mut argument, length)?;
        if (bytes.byte()?, bytes.byte()?) != (b'\r', b'\n') {
            return Err(Corrupt("an argument is longer than it says").into());
        }
        arguments.push(argument);
    }
    Ok(Some(arguments))
}

/// A line that consists of a mark and a number.
fn number<R: Read>(bytes: &mut Bytes<R>, mark: u8, otherwise: &'static str) -> Result<u64, Fault> {
    let line = bytes.line(LINE_MAX)?;
    let digits = line.strip_prefix(&[mark]).ok_or(Corrupt(otherwise))?;
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Corrupt(otherwise).into());
    }
    Ok(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// The database that a SELECT names; none for another command.
pub(super) fn selected(arguments: &[Vec<u8>]) -> Result<Option<u64>, Fault> {
    match arguments {
        [name, db] if name.eq_ignore_ascii_case(b"select") => {
            let db = std::str::from_utf8(db).ok().and_then(|db| db.parse().ok());
            db.map(Some).ok_or_else(|| Corrupt("the number of a database").into())
        }
        _ => Ok(None),
    }
}

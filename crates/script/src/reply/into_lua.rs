//! A command's reply as a Lua value (Redis's `redisProtocolToLuaType`).

use crate::errors;
use crate::lua::Frame;

/// The pushed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// A value.
    Value,
    /// An error object: the reply is an error.
    Error,
    /// Something or nothing: the bytes are no reply.
    Malformed,
}

/// Aggregates around a value: no command nests as deep.
const DEPTH_MAX: usize = 64;

/// Pushes the reply.
pub(crate) fn into_lua(f: &mut Frame<'_>, bytes: &[u8]) -> Pushed {
    let error = matches!(bytes.first(), Some(b'-' | b'!'));
    match value(f, &mut Input(bytes), DEPTH_MAX) {
        Some(()) if error => Pushed::Error,
        Some(()) => Pushed::Value,
        None => Pushed::Malformed,
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The type byte and the rest of the line.
    fn line(&mut self) -> Option<(u8, &'a [u8])> {
        let (kind, rest) = self.0.split_first()?;
        let end = rest.iter().position(|byte| *byte == b'\r')?;
        let (line, rest) = rest.split_at(end);
        self.0 = rest.strip_prefix(b"\r\n")?;
        Some((*kind, line))
    }

    /// A string of so many bytes and its line break.
    fn string(&mut self, len: usize) -> Option<&'a [u8]> {
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest.strip_prefix(b"\r\n")?;
        Some(text)
    }
}

fn integer(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn value(f: &mut Frame<'_>, input: &mut Input<'_>, depth: usize) -> Option<()> {
    let (kind, line) = input.line()?;
    if !f.room(6) {
        return None;
    }
    let len = || integer(line).and_then(|len| usize::try_from(len).ok());
    match kind {
        b'$' | b'*' if line == b"-1" => f.push_boolean(false),
        b'$' => f.push_bytes(input.string(len()?)?),
        b':' => f.push_number(integer(line)? as f64),
        b'+' => object(f, "ok", line),
        b'-' => errors::push_reply(f, line),
        b'!' => errors::push_reply(f, input.string(len()?)?),
        b'_' => f.push_nil(),
        b'#' => f.push_boolean(line == b"t"),
        b',' => {
            let number = std::str::from_utf8(line).ok()?.parse().ok()?;
            f.push_table(0, 1);
            f.push_number(number);
            f.set_field(-2, "double");
        }
        b'(' => object(f, "big_number", line),
        b'=' => {
            let (format, text) = input.string(len()?)?.split_at_checked(4)?;
            f.push_table(0, 1);
            f.push_table(0, 2);
            f.push_bytes(text);
            f.set_field(-2, "string");
            f.push_bytes(&format[..3]);
            f.set_field(-2, "format");
            f.set_field(-2, "verbatim_string");
        }
        b'*' | b'>' => array(f, input, len()?, depth.checked_sub(1)?)?,
        b'~' => set(f, input, len()?, depth.checked_sub(1)?)?,
        b'%' => map(f, input, len()?, depth.checked_sub(1)?)?,
        b'|' => {
            for _ in 0..len()?.checked_mul(2)? {
                value(f, input, depth.checked_sub(1)?)?;
                f.pop(1);
            }
            value(f, input, depth.checked_sub(1)?)?;
        }
        _ => return None,
    }
    Some(())
}

/// A table with one field.
fn object(f: &mut Frame<'_>, name: &str, text: &[u8]) {
    f.push_table(0, 1);
    f.push_bytes(text);
    f.set_field(-2, name);
}

fn array(f: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Option<()> {
    f.push_table(len, 0);
    for index in 1..=i32::try_from(len).ok()? {
        value(f, input, depth)?;
        f.set_element(-2, index);
    }
    Some(())
}

fn set(f: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Option<()> {
    f.push_table(0, 1);
    f.push_table(0, len);
    for _ in 0..len {
        value(f, input, depth)?;
        f.push_boolean(true);
        f.set(-3);
    }
    f.set_field(-2, "set");
    Some(())
}

fn map(f: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Option<()> {
    f.push_table(0, 1);
    f.push_table(0, len);
    for _ in 0..len {
        value(f, input, depth)?;
        value(f, input, depth)?;
        f.set(-3);
    }
    f.set_field(-2, "map");
    Some(())
}

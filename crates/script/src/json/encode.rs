//! `cjson.encode`.

use super::{ARRAY_MARK, Config, DEPTH_MAX, Invalid, number};
use crate::lua::{Frame, Kind, Raised};
use std::ffi::c_int;

pub(super) fn encode(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() != 1 {
        return Err(f.bad_argument(1, "expected 1 argument"));
    }
    let config = *f.shared().json.borrow();
    let mut out = f.shared().buffer();
    f.push_copy(1);
    let outcome = value(f, &config, 0, &mut out);
    if outcome.is_ok() {
        f.push_bytes(&out);
    }
    f.shared().give_back(out);
    outcome.map(|()| 1)
}

fn refuse(f: &mut Frame<'_>, kind: Kind, reason: &str) -> Raised {
    f.raise(format!("Cannot serialise {}: {reason}", kind.name()))
}

/// Writes the value on top.
fn value(f: &mut Frame<'_>, config: &Config, depth: i64, out: &mut Vec<u8>) -> Result<(), Raised> {
    match f.kind(-1) {
        Kind::String => {
            let text = f.bytes(-1).unwrap_or_default();
            let len = text.len();
            string(text, out);
            f.charge(len / 8)?;
        }
        Kind::Number => {
            let value = f.number(-1).unwrap_or(0.0);
            number(f, config, value, out)?;
        }
        Kind::Boolean => out.extend_from_slice(if f.truth(-1) { b"true" } else { b"false" }),
        Kind::Table => {
            let depth = depth + 1;
            if depth > config.encode_max_depth.min(DEPTH_MAX) || !f.room(6) {
                return Err(f.raise(format!("Cannot serialise, excessive nesting ({depth})")));
            }
            if is_marked(f) {
                let len = i64::try_from(f.raw_length(-1)).unwrap_or(i64::MAX);
                array(f, config, depth, len, out)?;
                return f.charge(4);
            }
            match array_length(f, config)? {
                Some(len) if len > 0 => array(f, config, depth, len, out)?,
                _ => object(f, config, depth, out)?,
            }
        }
        Kind::Nil => out.extend_from_slice(b"null"),
        Kind::LightUserdata if f.is_null(-1) => out.extend_from_slice(b"null"),
        kind => return Err(refuse(f, kind, "type not supported")),
    }
    f.charge(4)
}

/// True if the metatable of the table on top says that it is an array.
fn is_marked(f: &mut Frame<'_>) -> bool {
    if !f.push_metatable(-1) {
        return false;
    }
    f.push_field(-1, ARRAY_MARK);
    let marked = f.truth(-1);
    f.pop(2);
    marked
}

/// The largest index of the table on top if all keys are positive whole numbers, else `None`.
fn array_length(f: &mut Frame<'_>, config: &Config) -> Result<Option<i64>, Raised> {
    let (mut max, mut items) = (0i64, 0i64);
    f.push_nil();
    while f.next(-2) {
        f.charge(2)?;
        let key = if f.kind(-2) == Kind::Number { f.number(-2) } else { None };
        let Some(key) = key.filter(|key| key.floor() == *key && *key >= 1.0) else {
            f.pop(2);
            return Ok(None);
        };
        max = max.max((key as i64).min(i64::from(i32::MAX)));
        items += 1;
        f.pop(1);
    }
    if config.sparse_ratio > 0 && max > items.saturating_mul(config.sparse_ratio) && max > config.sparse_safe {
        if !config.sparse_convert {
            return Err(refuse(f, Kind::Table, "excessively sparse array"));
        }
        return Ok(None);
    }
    Ok(Some(max))
}

fn array(f: &mut Frame<'_>, config: &Config, depth: i64, len: i64, out: &mut Vec<u8>) -> Result<(), Raised> {
    out.push(b'[');
    for index in 1..=i32::try_from(len).unwrap_or(i32::MAX) {
        if index > 1 {
            out.push(b',');
        }
        f.push_element(-1, index);
        value(f, config, depth, out)?;
        f.pop(1);
        bound(f, out)?;
    }
    out.push(b']');
    Ok(())
}

/// A sparse array, or a table in which one long string is often, is longer than its source.
fn bound(f: &mut Frame<'_>, out: &[u8]) -> Result<(), Raised> {
    if out.len() <= f.shared().limit() { Ok(()) } else { Err(f.raise("not enough memory")) }
}

fn object(f: &mut Frame<'_>, config: &Config, depth: i64, out: &mut Vec<u8>) -> Result<(), Raised> {
    out.push(b'{');
    let mut first = true;
    f.push_nil();
    while f.next(-2) {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        match f.kind(-2) {
            Kind::Number => {
                let key = f.number(-2).unwrap_or(0.0);
                out.push(b'"');
                number(f, config, key, out)?;
                out.extend_from_slice(b"\":");
            }
            Kind::String => {
                string(f.bytes(-2).unwrap_or_default(), out);
                out.push(b':');
            }
            kind => return Err(refuse(f, kind, "table key must be a number or string")),
        }
        value(f, config, depth, out)?;
        f.pop(1);
        bound(f, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn number(f: &mut Frame<'_>, config: &Config, number: f64, out: &mut Vec<u8>) -> Result<(), Raised> {
    if number.is_finite() {
        number::append(out, number, config.precision as usize);
        return Ok(());
    }
    match config.encode_invalid {
        Invalid::Refuse => return Err(refuse(f, Kind::Number, "must not be NaN or Inf")),
        Invalid::Null => out.extend_from_slice(b"null"),
        Invalid::Write if number.is_nan() => out.extend_from_slice(b"nan"),
        Invalid::Write if number > 0.0 => out.extend_from_slice(b"inf"),
        Invalid::Write => out.extend_from_slice(b"-inf"),
    }
    Ok(())
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut plain = 0;
    for (index, byte) in text.iter().enumerate() {
        let mut code = *b"\\u0000";
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'/' => b"\\/",
            0x08 => b"\\b",
            0x09 => b"\\t",
            0x0a => b"\\n",
            0x0c => b"\\f",
            0x0d => b"\\r",
            0..0x20 | 0x7f => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                code[4] = DIGITS[usize::from(byte >> 4)];
                code[5] = DIGITS[usize::from(byte & 15)];
                &code
            }
            _ => continue,
        };
        out.extend_from_slice(&text[plain..index]);
        out.extend_from_slice(escape);
        plain = index + 1;
    }
    out.extend_from_slice(&text[plain..]);
    out.push(b'"');
}

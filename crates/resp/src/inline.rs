//! One line split into arguments by Redis's quoting rules: inline commands and lines of the configuration file.

use crate::batch::Range;
use std::fmt;

/// The quotes of a line do not match, or a closing quote is not followed by a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnbalancedQuotes;

impl fmt::Display for UnbalancedQuotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unbalanced quotes")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// Splits a line into arguments as Redis does for inline commands and `redis.conf`.
///
/// Blanks separate. Between double quotes `\n \r \t \b \a \xHH` are escapes, any other escaped byte is itself. Between
/// single quotes only `\'` is an escape. A closing quote must be followed by a blank or the end. A NUL is a byte like
/// any other (Redis, whose lines are C strings, cannot see one).
///
/// # Errors
///
/// A quote is not closed, or what follows a closing quote is no blank.
pub fn split_args(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    split_into(line, &mut bytes, &mut ranges)?;
    Ok(ranges.iter().map(|range| bytes[range.start as usize..][..range.len as usize].to_vec()).collect())
}

/// Appends the unescaped arguments to `bytes` and their positions, relative to the former end of `bytes`, to `ranges`.
/// After an error both hold remains that the caller cuts off.
pub(crate) fn split_into(line: &[u8], bytes: &mut Vec<u8>, ranges: &mut Vec<Range>) -> Result<(), UnbalancedQuotes> {
    // Positions fit in 32 bits: unescaping never makes a line longer.
    debug_assert!(line.len() <= u32::MAX as usize);
    let base = bytes.len();
    let mut rest = line;
    loop {
        rest = skip_spaces(rest);
        if rest.is_empty() {
            return Ok(());
        }
        let start = bytes.len();
        rest = token(rest, bytes)?;
        ranges.push(Range { start: (start - base) as u32, len: (bytes.len() - start) as u32 });
    }
}

/// Unescapes one argument from the start of `line`; returns what follows it.
fn token<'a>(line: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = line;
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', inner @ ..] => return closed(double_quoted(inner, bytes)?),
            [b'\'', inner @ ..] => return closed(single_quoted(inner, bytes)?),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

/// A blank or nothing must follow a closing quote.
fn closed(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [] => return Err(UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(hex(*high) << 4 | hex(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [] => return Err(UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                bytes.push(b'\'');
                rest = tail;
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

/// The value of a hexadecimal digit; 0 for anything else.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

/// C's `isspace`: unlike `u8::is_ascii_whitespace` it includes the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    &line[spaces..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<String>, UnbalancedQuotes> {
        Ok(split_args(line.as_bytes())?.iter().map(|arg| arg.iter().map(|byte| *byte as char).collect()).collect())
    }

    #[test]
    fn plain_words_and_blanks() {
        assert_eq!(split("  set\tk \x0b v\r\n ").unwrap(), ["set", "k", "v"]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split(" \t ").unwrap(), Vec::<String>::new());
        // A vertical tab separates only where an argument would begin.
        assert_eq!(split("a\x0bb").unwrap(), ["a\x0bb"]);
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(split(r#""a b" 'c d' "" ''"#).unwrap(), ["a b", "c d", "", ""]);
        assert_eq!(split(r#""\n\r\t\b\a\\\"\q""#).unwrap(), ["\n\r\t\x08\x07\\\"q"]);
        assert_eq!(split(r#""\x41\xfF\x4""#).unwrap(), ["A\u{ff}x4"]);
        assert_eq!(split(r"'it\'s' '\n\x41'").unwrap(), ["it's", r"\n\x41"]);
        assert_eq!(split(r#"foo"bar" x\ny"#).unwrap(), ["foobar", r"x\ny"]);
    }

    #[test]
    fn unbalanced() {
        for line in [r#"""#, r#""a"#, "'", "'a", r#""a"b"#, "'a'b", r#""a\""#, r"'a\'", r#"set """k""" v"#, "\"a\\"] {
            assert_eq!(split(line), Err(UnbalancedQuotes), "{line}");
        }
    }
}

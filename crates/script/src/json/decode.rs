//! `cjson.decode`.

use super::{Config, DEPTH_MAX, number};
use crate::lua::{Frame, Raised};
use std::ffi::c_int;

pub(super) fn decode(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() != 1 {
        return Err(f.bad_argument(1, "expected 1 argument"));
    }
    let text = f.check_bytes(1)?;
    if let [a, b, ..] = text
        && (*a == 0 || *b == 0)
    {
        return Err(f.raise("JSON parser does not support UTF-16 or UTF-32"));
    }
    let config = *f.shared().json.borrow();
    let mut parser = Parser { text, at: 0, config, depth: 0, string: f.shared().buffer() };
    let outcome = whole(f, &mut parser);
    f.shared().give_back(parser.string);
    outcome.map(|()| 1)
}

fn whole(f: &mut Frame<'_>, parser: &mut Parser<'_>) -> Result<(), Raised> {
    let token = parser.token();
    value(f, parser, token)?;
    let token = parser.token();
    if token.sort == Sort::End { Ok(()) } else { Err(unexpected(f, "the end", &token)) }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    config: Config,
    depth: i64,
    /// The string read last.
    string: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sort {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// In [`Parser::string`].
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Sort {
    /// As errors call it.
    fn name(self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(what) => what,
        }
    }
}

struct Token {
    sort: Sort,
    /// Where it begins, or where it is wrong.
    at: usize,
}

fn unexpected(f: &mut Frame<'_>, expected: &str, token: &Token) -> Raised {
    f.raise(format!("Expected {expected} but found {} at character {}", token.sort.name(), token.at + 1))
}

impl Parser<'_> {
    /// The byte so far on; 0 behind the end, as in C.
    fn peek(&self, on: usize) -> u8 {
        self.text.get(self.at + on).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn token(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let one = match self.peek(0) {
            b'{' => Sort::ObjectBegin,
            b'}' => Sort::ObjectEnd,
            b'[' => Sort::ArrayBegin,
            b']' => Sort::ArrayEnd,
            b',' => Sort::Comma,
            b':' => Sort::Colon,
            0 => return Token { sort: Sort::End, at },
            b'"' => {
                let sort = self.read_string();
                let at = if matches!(sort, Sort::Error(_)) { self.at } else { at };
                return Token { sort, at };
            }
            _ => return Token { sort: self.word(), at },
        };
        self.at += 1;
        Token { sort: one, at }
    }

    fn word(&mut self) -> Sort {
        let first = self.peek(0);
        if first == b'-' || first.is_ascii_digit() {
            if !self.config.decode_invalid && self.is_invalid_number() {
                return Sort::Error("invalid number");
            }
            return self.number();
        }
        for (word, sort) in [("true", Sort::Boolean(true)), ("false", Sort::Boolean(false)), ("null", Sort::Null)] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return sort;
            }
        }
        let may_begin = matches!(first, b'i' | b'I' | b'n' | b'N' | b'+');
        if may_begin && self.config.decode_invalid && self.is_invalid_number() {
            return self.number();
        }
        Sort::Error("invalid token")
    }

    /// True if C reads a number that JSON does not allow.
    fn is_invalid_number(&self) -> bool {
        let mut rest = self.rest();
        if rest.first() == Some(&b'+') {
            return true;
        }
        rest = rest.strip_prefix(b"-").unwrap_or(rest);
        match rest {
            [b'0', next, ..] => next | 0x20 == b'x' || next.is_ascii_digit(),
            [b'0'] | [] => false,
            [first, ..] if *first <= b'9' => false,
            _ => rest.get(..3).is_some_and(|w| w.eq_ignore_ascii_case(b"inf") || w.eq_ignore_ascii_case(b"nan")),
        }
    }

    fn number(&mut self) -> Sort {
        match number::read(self.rest()) {
            Some((number, len)) => {
                self.at += len;
                Sort::Number(number)
            }
            None => Sort::Error("invalid number"),
        }
    }

    fn read_string(&mut self) -> Sort {
        self.string.clear();
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            self.string.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Sort::String;
                }
                b'\\' => {}
                _ => return Sort::Error("unexpected end of string"),
            }
            let byte = match self.peek(1) {
                b'u' => match self.unicode() {
                    Some(()) => continue,
                    None => return Sort::Error("invalid unicode escape code"),
                },
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 12,
                b'r' => b'\r',
                _ => return Sort::Error("invalid escape code"),
            };
            self.string.push(byte);
            self.at += 2;
        }
    }

    /// `\u` with four hexadecimal digits, or two of them for a surrogate pair.
    fn unicode(&mut self) -> Option<()> {
        let code = self.hex4(2)?;
        let (point, len) = match code & 0xfc00 {
            0xd800 => {
                if self.peek(6) != b'\\' || self.peek(7) != b'u' {
                    return None;
                }
                let low = self.hex4(8).filter(|low| low & 0xfc00 == 0xdc00)?;
                (0x1_0000 + ((code & 0x3ff) << 10 | low & 0x3ff), 12)
            }
            0xdc00 => return None,
            _ => (code, 6),
        };
        let mut utf8 = [0; 4];
        self.string.extend_from_slice(char::from_u32(point)?.encode_utf8(&mut utf8).as_bytes());
        self.at += len;
        Some(())
    }

    fn hex4(&self, on: usize) -> Option<u32> {
        (on..on + 4).try_fold(0, |code, on| Some(code << 4 | char::from(self.peek(on)).to_digit(16)?))
    }
}

/// Pushes the value that begins with the token.
fn value(f: &mut Frame<'_>, parser: &mut Parser<'_>, token: Token) -> Result<(), Raised> {
    match token.sort {
        Sort::String => {
            f.push_bytes(&parser.string);
            f.charge(parser.string.len() / 8)?;
        }
        Sort::Number(number) => f.push_number(number),
        Sort::Boolean(value) => f.push_boolean(value),
        Sort::Null => f.push_null(),
        Sort::ObjectBegin => object(f, parser)?,
        Sort::ArrayBegin => array(f, parser)?,
        _ => return Err(unexpected(f, "value", &token)),
    }
    f.charge(4)
}

/// Goes into an aggregate, and pushes its table.
fn descend(f: &mut Frame<'_>, parser: &mut Parser<'_>) -> Result<(), Raised> {
    parser.depth += 1;
    if parser.depth > parser.config.decode_max_depth.min(DEPTH_MAX) || !f.room(6) {
        let (depth, at) = (parser.depth, parser.at);
        return Err(f.raise(format!("Found too many nested data structures ({depth}) at character {at}")));
    }
    f.push_table(0, 0);
    Ok(())
}

fn object(f: &mut Frame<'_>, parser: &mut Parser<'_>) -> Result<(), Raised> {
    descend(f, parser)?;
    let mut token = parser.token();
    while token.sort != Sort::ObjectEnd {
        if token.sort != Sort::String {
            return Err(unexpected(f, "object key string", &token));
        }
        f.push_bytes(&parser.string);
        token = parser.token();
        if token.sort != Sort::Colon {
            return Err(unexpected(f, "colon", &token));
        }
        token = parser.token();
        value(f, parser, token)?;
        f.set(-3);
        token = parser.token();
        match token.sort {
            Sort::ObjectEnd => break,
            Sort::Comma => token = parser.token(),
            _ => return Err(unexpected(f, "comma or object end", &token)),
        }
        // Behind a comma there is another pair.
        if token.sort == Sort::ObjectEnd {
            return Err(unexpected(f, "object key string", &token));
        }
    }
    parser.depth -= 1;
    Ok(())
}

fn array(f: &mut Frame<'_>, parser: &mut Parser<'_>) -> Result<(), Raised> {
    descend(f, parser)?;
    if parser.config.mark_arrays {
        f.push_reference(f.shared().json_array.get());
        f.set_metatable(-2);
    }
    let mut token = parser.token();
    if token.sort != Sort::ArrayEnd {
        for index in 1.. {
            value(f, parser, token)?;
            f.set_element(-2, index);
            token = parser.token();
            match token.sort {
                Sort::ArrayEnd => break,
                Sort::Comma => token = parser.token(),
                _ => return Err(unexpected(f, "comma or array end", &token)),
            }
        }
    }
    parser.depth -= 1;
    Ok(())
}

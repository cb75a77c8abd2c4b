//! Reading replies, for a client, the load generator and the tests.

use crate::request::parse_integer;
use std::fmt;

/// One reply. Owned, for tests and tools; nothing on the server's own path builds one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, or RESP3's bulk error `!`: code and text.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `_`, or RESP2's `$-1` and `*-1`.
    Null,
    /// `#`
    Boolean(bool),
    /// `,`
    Double(f64),
    /// `(`: the digits.
    BigNumber(Vec<u8>),
    /// `=`: format and text.
    Verbatim([u8; 3], Vec<u8>),
    /// `*`
    Array(Vec<Value>),
    /// `%`, in the order sent.
    Map(Vec<(Value, Value)>),
    /// `~`, in the order sent.
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `|`: attributes, and the reply they belong to.
    Attribute(Vec<(Value, Value)>, Box<Value>),
}

/// Why bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadReply {
    /// No reply begins with this byte.
    UnknownType(u8),
    /// A line is not what its type asks for.
    BadLine,
    /// A line is longer than [`ReplyLimits::line_bytes_max`].
    LineTooLong,
    /// A string or an aggregate announces more than the limits allow.
    TooLarge,
    /// Aggregates are nested deeper than the limits allow.
    TooDeep,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) => write!(f, "unknown reply type '{}'", byte.escape_ascii()),
            Self::BadLine => f.write_str("malformed reply line"),
            Self::LineTooLong => f.write_str("reply line too long"),
            Self::TooLarge => f.write_str("reply too large"),
            Self::TooDeep => f.write_str("reply nested too deeply"),
        }
    }
}

impl std::error::Error for BadReply {}

/// The bounds of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Longest string in bytes.
    pub bulk_bytes_max: usize,
    /// Longest line (simple strings, errors, numbers), line break excluded.
    pub line_bytes_max: usize,
    /// Most elements of one aggregate; a pair counts two.
    pub elements_max: usize,
    /// Most aggregates around a value.
    pub depth_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self { bulk_bytes_max: 512 << 20, line_bytes_max: 1 << 20, elements_max: 1 << 28, depth_max: 128 }
    }
}

/// The scanner's finding about a complete reply, without building it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// `-` or `!` at the top: an error. One inside an array (`EXEC`) is not reported.
    Error,
    /// A null at the top.
    Null,
    /// A push message, which answers no request.
    Push,
    /// Anything else.
    Other,
}

/// Finds where each reply of a stream ends, in constant memory, and reads no byte twice except those of a line or
/// string cut in two. Attributes count as part of the reply they belong to.
#[derive(Debug, Clone)]
pub struct Scanner {
    limits: ReplyLimits,
    /// Bytes of the incomplete reply that have been scanned.
    scanned: usize,
    /// Values still to come before the reply is complete.
    pending: usize,
    /// Set at the reply's own first line.
    sort: Option<Sort>,
}

impl Scanner {
    /// A scanner at the start of a stream.
    pub const fn new(limits: ReplyLimits) -> Self {
        Self { limits, scanned: 0, pending: 1, sort: None }
    }

    /// Scans the reply at the front of `buffer`: its length in bytes and its sort, or `None` if it is incomplete. Then
    /// the next call must see the same bytes and further ones; else the bytes behind the reply.
    ///
    /// Nesting is not bounded here because it costs nothing. After an error the stream is lost.
    ///
    /// # Errors
    ///
    /// The bytes are no reply, or are longer than the limits allow.
    pub fn next(&mut self, buffer: &[u8]) -> Result<Option<(usize, Sort)>, BadReply> {
        loop {
            let rest = buffer.get(self.scanned..).unwrap_or_default();
            let Some((item, used)) = item(rest, &self.limits)? else { return Ok(None) };
            self.scanned += used;
            // Within attributes more than one value is pending.
            if self.sort.is_none() && self.pending == 1 {
                self.sort = match item {
                    Item::Error(_) => Some(Sort::Error),
                    Item::Null => Some(Sort::Null),
                    Item::Aggregate(b'>', _) => Some(Sort::Push),
                    Item::Aggregate(b'|', _) => None,
                    _ => Some(Sort::Other),
                };
            }
            self.pending = match item {
                // The value with the attributes is still to come.
                Item::Aggregate(b'|', count) => self.pending.saturating_add(count),
                Item::Aggregate(_, count) => (self.pending - 1).saturating_add(count),
                _ => self.pending - 1,
            };
            if self.pending == 0 {
                let reply = (self.scanned, self.sort.unwrap_or(Sort::Other));
                *self = Self::new(self.limits);
                return Ok(Some(reply));
            }
        }
    }
}

/// Scans one reply at the front of `buffer`, as [`Scanner::next`] does, from its start and with the default limits.
///
/// # Errors
///
/// Those of [`Scanner::next`].
pub fn skip_reply(buffer: &[u8]) -> Result<Option<(usize, Sort)>, BadReply> {
    Scanner::new(ReplyLimits::default()).next(buffer)
}

/// Decodes a stream of replies into values.
#[derive(Debug, Clone)]
pub struct ReplyDecoder {
    scanner: Scanner,
}

impl ReplyDecoder {
    /// A decoder at the start of a stream.
    pub const fn new(limits: ReplyLimits) -> Self {
        Self { scanner: Scanner::new(limits) }
    }

    /// Decodes the reply at the front of `buffer`: the value and its length in bytes, or `None` if it is incomplete.
    /// Then the next call must see the same bytes and further ones; else the bytes behind the reply.
    ///
    /// # Errors
    ///
    /// Those of [`Scanner::next`], and the reply may be nested more deeply than the limits allow.
    pub fn next(&mut self, buffer: &[u8]) -> Result<Option<(Value, usize)>, BadReply> {
        let Some((len, _)) = self.scanner.next(buffer)? else { return Ok(None) };
        let limits = self.scanner.limits;
        // The scanner has seen all of it, so nothing is missing.
        let mut rest = buffer.get(..len).unwrap_or_default();
        Ok(Some((value(&mut rest, &limits, limits.depth_max)?, len)))
    }
}

impl Default for ReplyDecoder {
    fn default() -> Self {
        Self::new(ReplyLimits::default())
    }
}

/// Decodes the value at the front of `rest`, which holds all of it, and moves `rest` behind it.
fn value(rest: &mut &[u8], limits: &ReplyLimits, depth: usize) -> Result<Value, BadReply> {
    let (item, used) = item(rest, limits)?.ok_or(BadReply::BadLine)?;
    *rest = &rest[used..];
    Ok(match item {
        Item::Simple(text) => Value::Simple(text.to_vec()),
        Item::Error(text) => Value::Error(text.to_vec()),
        Item::Integer(number) => Value::Integer(number),
        Item::Bulk(bytes) => Value::Bulk(bytes.to_vec()),
        Item::Null => Value::Null,
        Item::Boolean(value) => Value::Boolean(value),
        Item::Double(value) => Value::Double(value),
        Item::BigNumber(digits) => Value::BigNumber(digits.to_vec()),
        Item::Verbatim(format, text) => Value::Verbatim(format, text.to_vec()),
        Item::Aggregate(kind, count) => {
            let depth = depth.checked_sub(1).ok_or(BadReply::TooDeep)?;
            match kind {
                b'%' => Value::Map(pairs(rest, limits, depth, count)?),
                b'|' => {
                    let attributes = pairs(rest, limits, depth, count)?;
                    Value::Attribute(attributes, Box::new(value(rest, limits, depth)?))
                }
                b'~' => Value::Set(values(rest, limits, depth, count)?),
                b'>' => Value::Push(values(rest, limits, depth, count)?),
                _ => Value::Array(values(rest, limits, depth, count)?),
            }
        }
    })
}

fn values(rest: &mut &[u8], limits: &ReplyLimits, depth: usize, count: usize) -> Result<Vec<Value>, BadReply> {
    (0..count).map(|_| value(rest, limits, depth)).collect()
}

fn pairs(rest: &mut &[u8], limits: &ReplyLimits, depth: usize, count: usize) -> Result<Vec<(Value, Value)>, BadReply> {
    (0..count / 2).map(|_| Ok((value(rest, limits, depth)?, value(rest, limits, depth)?))).collect()
}

/// One line and, for strings, their bytes.
enum Item<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    Null,
    Boolean(bool),
    Double(f64),
    BigNumber(&'a [u8]),
    Verbatim([u8; 3], &'a [u8]),
    /// Its type byte and how many values follow: two for each pair.
    Aggregate(u8, usize),
}

/// The item at the front of `rest` and its length in bytes, or `None` if it is incomplete.
fn item<'a>(rest: &'a [u8], limits: &ReplyLimits) -> Result<Option<(Item<'a>, usize)>, BadReply> {
    let Some((&kind, body)) = rest.split_first() else { return Ok(None) };
    if !b"+-:$_#,(!=*%~>|".contains(&kind) {
        return Err(BadReply::UnknownType(kind));
    }
    let window = &body[..body.len().min(limits.line_bytes_max.saturating_add(1))];
    let line = match memchr::memchr(b'\r', window) {
        Some(end) => &window[..end],
        None if body.len() > limits.line_bytes_max => return Err(BadReply::LineTooLong),
        None => return Ok(None),
    };
    match body.get(line.len() + 1) {
        Some(b'\n') => {}
        Some(_) => return Err(BadReply::BadLine),
        None => return Ok(None),
    }
    // The type byte and the line break.
    let used = line.len() + 3;
    let item = match kind {
        b'+' => Item::Simple(line),
        b'-' => Item::Error(line),
        b':' => Item::Integer(parse_integer(line).ok_or(BadReply::BadLine)?),
        b'_' if line.is_empty() => Item::Null,
        b'#' if line == b"t" => Item::Boolean(true),
        b'#' if line == b"f" => Item::Boolean(false),
        b',' => Item::Double(parse_double(line).ok_or(BadReply::BadLine)?),
        b'(' if is_digits(line.strip_prefix(b"-").unwrap_or(line)) => Item::BigNumber(line),
        b'$' | b'*' if line == b"-1" => Item::Null,
        b'$' | b'!' | b'=' => {
            let len = length(line, limits.bulk_bytes_max)?;
            let Some(text) = rest.get(used..).and_then(|tail| tail.get(..len)) else { return Ok(None) };
            return match rest.get(used + len..).unwrap_or_default() {
                [b'\r', b'\n', ..] => Ok(Some((string(kind, text)?, used + len + 2))),
                [] | [b'\r'] => Ok(None),
                _ => Err(BadReply::BadLine),
            };
        }
        b'*' | b'~' | b'>' => Item::Aggregate(kind, length(line, limits.elements_max)?),
        b'%' | b'|' => Item::Aggregate(kind, length(line, limits.elements_max / 2)? * 2),
        _ => return Err(BadReply::BadLine),
    };
    Ok(Some((item, used)))
}

fn string(kind: u8, text: &[u8]) -> Result<Item<'_>, BadReply> {
    match (kind, text) {
        (b'$', _) => Ok(Item::Bulk(text)),
        (b'!', _) => Ok(Item::Error(text)),
        (_, [a, b, c, b':', text @ ..]) => Ok(Item::Verbatim([*a, *b, *c], text)),
        _ => Err(BadReply::BadLine),
    }
}

fn length(line: &[u8], max: usize) -> Result<usize, BadReply> {
    let length = parse_integer(line).and_then(|length| usize::try_from(length).ok()).ok_or(BadReply::BadLine)?;
    if length > max { Err(BadReply::TooLarge) } else { Ok(length) }
}

fn parse_double(line: &[u8]) -> Option<f64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, Reply};
    use proptest::prelude::*;

    fn one(bytes: &[u8]) -> Result<Option<(Value, usize)>, BadReply> {
        ReplyDecoder::default().next(bytes)
    }

    #[test]
    fn every_type() {
        let bulk = |text: &str| Value::Bulk(text.into());
        for (bytes, expected) in [
            ("+OK\r\n", Value::Simple("OK".into())),
            ("-ERR x\r\n", Value::Error("ERR x".into())),
            ("!5\r\nERR x\r\n", Value::Error("ERR x".into())),
            (":-12\r\n", Value::Integer(-12)),
            ("$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            ("$0\r\n\r\n", bulk("")),
            ("$-1\r\n", Value::Null),
            ("*-1\r\n", Value::Null),
            ("_\r\n", Value::Null),
            ("#t\r\n", Value::Boolean(true)),
            (",1.5\r\n", Value::Double(1.5)),
            (",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
            ("(-123\r\n", Value::BigNumber("-123".into())),
            ("=6\r\ntxt:hi\r\n", Value::Verbatim(*b"txt", "hi".into())),
            ("*2\r\n$1\r\na\r\n*0\r\n", Value::Array(vec![bulk("a"), Value::Array(vec![])])),
            ("%1\r\n+k\r\n:1\r\n", Value::Map(vec![(Value::Simple("k".into()), Value::Integer(1))])),
            ("~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
            (">1\r\n:1\r\n", Value::Push(vec![Value::Integer(1)])),
            (
                "|1\r\n:1\r\n:2\r\n-E\r\n",
                Value::Attribute(vec![(Value::Integer(1), Value::Integer(2))], Box::new(Value::Error("E".into()))),
            ),
        ] {
            assert_eq!(one(bytes.as_bytes()), Ok(Some((expected, bytes.len()))), "{bytes:?}");
            for cut in 0..bytes.len() {
                assert_eq!(one(&bytes.as_bytes()[..cut]), Ok(None), "{bytes:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn malformed() {
        for (bytes, expected) in [
            ("x", BadReply::UnknownType(b'x')),
            (":1x\r\n", BadReply::BadLine),
            ("+a\rb", BadReply::BadLine),
            ("$1\r\nabc", BadReply::BadLine),
            ("$-2\r\n", BadReply::BadLine),
            ("#x\r\n", BadReply::BadLine),
            ("_x\r\n", BadReply::BadLine),
            ("=2\r\nhi\r\n", BadReply::BadLine),
            ("$999999999999\r\n", BadReply::TooLarge),
            ("*999999999999\r\n", BadReply::TooLarge),
        ] {
            assert_eq!(one(bytes.as_bytes()), Err(expected), "{bytes:?}");
        }
        for nest in ["*1\r\n", "|0\r\n"] {
            let deep = nest.repeat(100_000) + ":1\r\n";
            assert_eq!(one(deep.as_bytes()), Err(BadReply::TooDeep));
            assert_eq!(skip_reply(deep.as_bytes()), Ok(Some((deep.len(), Sort::Other))));
        }
    }

    #[test]
    fn sorts() {
        for (bytes, sort) in [
            ("+OK\r\n", Sort::Other),
            ("-ERR\r\n", Sort::Error),
            ("$-1\r\n", Sort::Null),
            ("_\r\n", Sort::Null),
            (">1\r\n-E\r\n", Sort::Push),
            ("*2\r\n-E\r\n_\r\n", Sort::Other),
            ("|1\r\n-E\r\n_\r\n:1\r\n", Sort::Other),
            ("|1\r\n:1\r\n|1\r\n:1\r\n:1\r\n+x\r\n|0\r\n-E\r\n", Sort::Error),
        ] {
            assert_eq!(skip_reply(bytes.as_bytes()), Ok(Some((bytes.len(), sort))), "{bytes:?}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text =
            || proptest::collection::vec(any::<u8>().prop_filter("no break", |b| *b != b'\r' && *b != b'\n'), 0..12);
        let leaf = prop_oneof![
            text().prop_map(Value::Simple),
            text().prop_map(Value::Error),
            any::<i64>().prop_map(Value::Integer),
            proptest::collection::vec(any::<u8>(), 0..150).prop_map(Value::Bulk),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Boolean),
            any::<f64>().prop_filter("comparable", |value| !value.is_nan()).prop_map(Value::Double),
            any::<u128>().prop_map(|number| Value::BigNumber(number.to_string().into())),
            (any::<[u8; 3]>(), text()).prop_map(|(format, text)| Value::Verbatim(format, text)),
        ];
        leaf.prop_recursive(4, 40, 12, |inner| {
            let values = || proptest::collection::vec(inner.clone(), 0..12);
            let pairs = || proptest::collection::vec((inner.clone(), inner.clone()), 0..6);
            prop_oneof![
                values().prop_map(Value::Array),
                values().prop_map(Value::Set),
                values().prop_map(Value::Push),
                pairs().prop_map(Value::Map),
                (pairs(), inner.clone()).prop_map(|(pairs, value)| Value::Attribute(pairs, Box::new(value))),
            ]
        })
    }

    fn write(reply: &mut Reply, value: &Value) {
        match value {
            Value::Simple(text) => reply.simple(text),
            Value::Error(text) => reply.error(text),
            Value::Integer(number) => reply.integer(*number),
            Value::Bulk(bytes) => reply.bulk(bytes),
            Value::Null => reply.null(),
            Value::Boolean(value) => reply.boolean(*value),
            Value::Double(value) => reply.double(*value),
            Value::BigNumber(digits) => reply.big_number(digits),
            Value::Verbatim(format, text) => reply.verbatim(*format, text),
            Value::Array(values) => {
                reply.array(values.len());
                values.iter().for_each(|value| write(reply, value));
            }
            Value::Set(values) => {
                let deferred = reply.deferred_set();
                values.iter().for_each(|value| write(reply, value));
                reply.finish(deferred, values.len());
            }
            Value::Push(values) => {
                reply.push(values.len());
                values.iter().for_each(|value| write(reply, value));
            }
            Value::Map(pairs) => {
                let deferred = reply.deferred_map();
                write_pairs(reply, pairs);
                reply.finish(deferred, pairs.len());
            }
            Value::Attribute(pairs, value) => {
                assert!(reply.attribute(pairs.len()));
                write_pairs(reply, pairs);
                write(reply, value);
            }
        }
    }

    fn write_pairs(reply: &mut Reply, pairs: &[(Value, Value)]) {
        for (key, value) in pairs {
            write(reply, key);
            write(reply, value);
        }
    }

    proptest! {
        #[test]
        fn written_replies_read_back(values in proptest::collection::vec(any_value(), 1..4), step in 1usize..40) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(&mut Reply::new(&mut bytes, Protocol::Resp3), value));
            let (mut decoder, mut decoded, mut front, mut end) = (ReplyDecoder::default(), Vec::new(), 0, 0);
            while end < bytes.len() {
                end = bytes.len().min(end + step);
                while let Some((value, used)) = decoder.next(&bytes[front..end]).unwrap() {
                    decoded.push(value);
                    front += used;
                }
            }
            prop_assert_eq!(decoded, values);
            prop_assert_eq!(front, bytes.len());
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(prop_oneof![
            proptest::sample::select(&b"+-:$_#,(!=*%~>|0123456789\r\n\r\n"[..]), any::<u8>()], 0..200)) {
            if let Ok(Some((_, used))) = one(&bytes) {
                prop_assert!(used <= bytes.len());
            }
        }
    }
}

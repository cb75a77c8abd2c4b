//! Writing replies.

use std::sync::Arc;

use crate::double::append_double;
use crate::{Parts, ProtocolError};

/// The version of the protocol a client has chosen (`HELLO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// RESP2, spoken until `HELLO 3`.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// 2 or 3.
    pub const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends replies in one client's protocol to its output. Nothing here fails, unless the system limits memory and has
/// none for it: see [`Parts::take_refused`].
///
/// Types that RESP2 lacks are written as Redis writes them: maps and sets as flat arrays, doubles and big numbers as
/// bulk strings, booleans as `:1` and `:0`.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// Where long strings go that need not be copied.
    parts: Option<&'a mut Parts>,
    protocol: Protocol,
}

/// An aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
}

/// The header of an aggregate whose length is not known yet; to be given to [`Reply::finish`].
#[derive(Debug)]
#[must_use = "the reply is malformed until the length is written"]
pub struct Deferred {
    at: usize,
    kind: Kind,
}

/// A point in the output to which [`Reply::rewind`] goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(usize);

/// Bytes held for a deferred header: that of up to nine elements. A longer one moves what follows.
const DEFERRED: &[u8; 4] = b"*0\r\n";

impl<'a> Reply<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, parts: None, protocol }
    }

    /// A writer that appends to `out`, and puts long strings that are shared into `parts`.
    #[inline]
    pub fn sharing(out: &'a mut Vec<u8>, protocol: Protocol, parts: &'a mut Parts) -> Self {
        Self { out, parts: Some(parts), protocol }
    }

    /// A writer to the same output for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Reply<'_> {
        Reply { out: self.out, parts: self.parts.as_deref_mut(), protocol: self.protocol }
    }

    /// The client's protocol.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// True if the client speaks RESP3.
    #[inline]
    pub fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Changes the protocol of what follows (`HELLO`).
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Bytes in the output, including what was there before.
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Where the next reply will begin.
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.out.len())
    }

    /// Takes back all that was written since `position`.
    pub fn rewind(&mut self, position: Position) {
        self.out.truncate(position.0);
        if let Some(parts) = &mut self.parts {
            parts.truncate(position.0);
        }
    }

    /// All that was written since `position`, but for long strings that were shared.
    pub fn since(&self, position: Position) -> &[u8] {
        self.out.get(position.0..).unwrap_or_default()
    }

    /// Appends bytes that are a complete reply (or several) already.
    #[inline]
    pub fn raw(&mut self, encoded: &[u8]) {
        self.reserve(encoded.len());
        self.out.extend_from_slice(encoded);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// `+QUEUED`.
    #[inline]
    pub fn queued(&mut self) {
        self.raw(b"+QUEUED\r\n");
    }

    /// `+PONG`.
    #[inline]
    pub fn pong(&mut self) {
        self.raw(b"+PONG\r\n");
    }

    /// A simple string. Line breaks become blanks.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// An error: its code and text (`ERR syntax error`). Line breaks at the ends are cut, others become blanks.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'-', text.as_ref());
    }

    /// The answer to a malformed request: `-ERR Protocol error: ...`.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        self.raw(b"-ERR ");
        error.append_to(self.out);
        self.raw(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        self.reserve(text.len() + 3);
        self.out.push(kind);
        if memchr::memchr2(b'\r', b'\n', text).is_none() {
            self.out.extend_from_slice(text);
        } else {
            let start = text.iter().take_while(|byte| is_break(byte)).count();
            let tail = text[start..].iter().rev().take_while(|byte| is_break(byte)).count();
            let inner = &text[start..text.len() - tail];
            self.out.extend(inner.iter().map(|byte| if is_break(byte) { b' ' } else { *byte }));
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        match value {
            // 0 and 1 are most of all integers that are ever sent.
            0..=9 => self.raw(&[b':', b'0' + value as u8, b'\r', b'\n']),
            _ => self.number(b':', itoa::Buffer::new().format(value)),
        }
    }

    /// A length or count as an integer; above `i64::MAX` it is cut to that.
    #[inline]
    pub fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn number(&mut self, kind: u8, text: &str) {
        self.reserve(text.len() + 3);
        self.out.push(kind);
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, count: usize) {
        match count {
            0..=9 => self.raw(&[kind, b'0' + count as u8, b'\r', b'\n']),
            10..=99 => self.raw(&[kind, b'0' + (count / 10) as u8, b'0' + (count % 10) as u8, b'\r', b'\n']),
            100..=999 => {
                let (hundreds, tens) = (count / 100, count / 10 % 10);
                let digits = [hundreds, tens, count % 10].map(|digit| b'0' + digit as u8);
                self.raw(&[kind, digits[0], digits[1], digits[2], b'\r', b'\n']);
            }
            _ => self.number(kind, itoa::Buffer::new().format(count)),
        }
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if self.out.capacity() - self.out.len() < bytes.len() + 26 && !self.grow(bytes.len() + 26) {
            return;
        }
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Makes room for `more` bytes. False: the system has no memory for that, and the reply will be another one.
    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        let len = self.out.len() + more;
        // The old buffer, and the new one, which has room to grow.
        let room = len / 4;
        if let Some(parts) = &mut self.parts {
            if parts.refused.is_none() && !headroom::has_room_to_talk(self.out.capacity() + len + room, len) {
                parts.refused = Some(self.out.len());
            }
            if parts.refused.is_some() {
                return false;
            }
        }
        // A large buffer that doubles could take all that the system still gives.
        match len >= headroom::LARGE && headroom::is_limited() {
            true => self.out.reserve_exact(more + room),
            false => self.out.reserve(more),
        }
        true
    }

    /// Makes room for a few bytes, which are written in any case.
    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.out.capacity() - self.out.len() < more && !self.grow(more) {
            self.begin_again(more);
        }
    }

    /// A refused part will be replaced: its bytes do not matter, but it must not become longer.
    #[cold]
    fn begin_again(&mut self, more: usize) {
        const SOME: usize = 16 << 10;
        if let Some(parts) = &mut self.parts
            && let Some(at) = parts.refused
        {
            self.out.truncate(at);
            parts.truncate(at);
        }
        if self.out.capacity() - self.out.len() < more {
            self.out.reserve_exact(more + SOME);
        }
    }

    /// True if a part was left out for want of memory, so that the reply will be an error: nothing may be changed any
    /// more. See [`Parts::take_refused`].
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.refused.is_some())
    }

    /// A long bulk string, which is sent from where it is if this output can keep it.
    pub fn bulk_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        self.reserve(32);
        let Some(parts) = &mut self.parts else { return self.bulk(bytes.as_slice()) };
        let mut number = itoa::Buffer::new();
        self.out.push(b'$');
        self.out.extend_from_slice(number.format(bytes.len()).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        parts.push(self.out.len(), bytes.clone());
        self.out.extend_from_slice(b"\r\n");
    }

    /// A bulk string, or null.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A bulk string holding a decimal integer.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value));
    }

    /// A bulk string of the bytes that `write` appends. It must not shorten its buffer.
    pub fn bulk_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        self.reserve(64);
        self.out.extend_from_slice(DEFERRED);
        let start = self.out.len();
        write(self.out);
        let len = self.out.len().saturating_sub(start);
        self.patch(at, b'$', len);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Null: `$-1`, in RESP3 `_`.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"$-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// The null of commands that else return an array: `*-1`, in RESP3 `_`.
    #[inline]
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"*-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// The header of an array; `len` replies follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.aggregate(Kind::Array, len);
    }

    /// The header of a map; `pairs` keys, each with its value, follow. In RESP2 a flat array.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        self.aggregate(Kind::Map, pairs);
    }

    /// The header of a set; `len` replies follow. In RESP2 an array.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.aggregate(Kind::Set, len);
    }

    /// The header of a push message; `len` replies follow. In RESP2 an array.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.aggregate(Kind::Push, len);
    }

    /// The header of attributes; `pairs` keys, each with its value, follow, then the reply itself. RESP2 has none:
    /// false, and nothing is written, so the pairs must be left out.
    #[must_use]
    pub fn attribute(&mut self, pairs: usize) -> bool {
        if self.is_resp3() {
            self.header(b'|', pairs);
        }
        self.is_resp3()
    }

    #[inline]
    fn aggregate(&mut self, kind: Kind, len: usize) {
        let (byte, count) = self.shape(kind, len);
        self.header(byte, count);
    }

    #[inline]
    fn shape(&self, kind: Kind, len: usize) -> (u8, usize) {
        match (kind, self.protocol) {
            (Kind::Map, Protocol::Resp2) => (b'*', len.saturating_mul(2)),
            (_, Protocol::Resp2) | (Kind::Array, _) => (b'*', len),
            (Kind::Map, Protocol::Resp3) => (b'%', len),
            (Kind::Set, Protocol::Resp3) => (b'~', len),
            (Kind::Push, Protocol::Resp3) => (b'>', len),
        }
    }

    /// An array whose length [`Reply::finish`] will say. Costs nothing up to nine elements; else what follows is moved
    /// once. Nested ones are finished from the inside.
    pub fn deferred_array(&mut self) -> Deferred {
        self.defer(Kind::Array)
    }

    /// As [`Reply::deferred_array`], for a map.
    pub fn deferred_map(&mut self) -> Deferred {
        self.defer(Kind::Map)
    }

    /// As [`Reply::deferred_array`], for a set.
    pub fn deferred_set(&mut self) -> Deferred {
        self.defer(Kind::Set)
    }

    /// As [`Reply::deferred_array`], for a push message.
    pub fn deferred_push(&mut self) -> Deferred {
        self.defer(Kind::Push)
    }

    fn defer(&mut self, kind: Kind) -> Deferred {
        let at = self.out.len();
        self.reserve(DEFERRED.len());
        self.out.extend_from_slice(DEFERRED);
        Deferred { at, kind }
    }

    /// Writes the length of a deferred aggregate: elements, or pairs of a map.
    pub fn finish(&mut self, deferred: Deferred, len: usize) {
        let (byte, count) = self.shape(deferred.kind, len);
        self.patch(deferred.at, byte, count);
    }

    fn patch(&mut self, at: usize, kind: u8, count: usize) {
        let end = at + DEFERRED.len();
        if end > self.out.len() {
            debug_assert!(self.is_refused(), "the deferred header has been rewound");
            return;
        }
        if count <= 9 {
            self.out[at] = kind;
            self.out[at + 1] = b'0' + count as u8;
        } else {
            let mut number = itoa::Buffer::new();
            let digits = number.format(count).bytes();
            let before = self.out.len();
            self.reserve(24);
            self.out.splice(at..end, std::iter::once(kind).chain(digits).chain(*b"\r\n"));
            if let Some(parts) = &mut self.parts {
                parts.shift(end, self.out.len() - before);
            }
        }
    }

    /// A double: in RESP3 `,`, in RESP2 a bulk string; see [`append_double`] for the text.
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_double(value),
            Protocol::Resp3 => {
                self.reserve(40);
                self.out.push(b',');
                append_double(self.out, value);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A double that is a bulk string in either protocol.
    pub fn bulk_double(&mut self, value: f64) {
        self.bulk_with(|out| append_double(out, value));
    }

    /// A double whose text is given (coordinates, `INCRBYFLOAT`): in RESP3 `,`, in RESP2 a bulk string.
    pub fn double_text(&mut self, text: impl AsRef<[u8]>) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text.as_ref()),
        }
    }

    /// An integer of any size, given as decimal digits: in RESP3 `(`, in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: impl AsRef<[u8]>) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits.as_ref()),
        }
    }

    /// A boolean: in RESP3 `#t` and `#f`, in RESP2 `:1` and `:0`.
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// A text with its format (`txt`, `mkd`): in RESP3 `=`, in RESP2 a bulk string without the format.
    pub fn verbatim(&mut self, format: [u8; 3], text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.reserve(text.len() + 30);
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Reply)) -> (String, String) {
        let text = |protocol| {
            let mut out = Vec::new();
            write(&mut Reply::new(&mut out, protocol));
            String::from_utf8(out).unwrap()
        };
        (text(Protocol::Resp2), text(Protocol::Resp3))
    }

    fn check(write: impl Fn(&mut Reply), resp2: &str, resp3: &str) {
        assert_eq!(both(write), (resp2.to_string(), resp3.to_string()));
    }

    fn same(write: impl Fn(&mut Reply), text: &str) {
        check(write, text, text);
    }

    #[test]
    fn scalars() {
        same(|r| r.ok(), "+OK\r\n");
        same(|r| r.simple("hi\r\nthere\n"), "+hi  there\r\n");
        same(|r| r.error("ERR bad"), "-ERR bad\r\n");
        same(|r| r.error("\r\nERR a\r\nb\n\r\n"), "-ERR a  b\r\n");
        same(|r| r.error("\r\n"), "-\r\n");
        same(
            |r| r.protocol_error(&ProtocolError::ExpectedDollar(b'\n')),
            "-ERR Protocol error: expected '$', got ' '\r\n",
        );
        for (value, text) in [(0, ":0\r\n"), (9, ":9\r\n"), (10, ":10\r\n"), (-1, ":-1\r\n")] {
            same(|r| r.integer(value), text);
        }
        same(|r| r.integer(i64::MIN), ":-9223372036854775808\r\n");
        same(|r| r.count(u64::MAX), ":9223372036854775807\r\n");
        check(|r| r.boolean(true), ":1\r\n", "#t\r\n");
        check(|r| r.boolean(false), ":0\r\n", "#f\r\n");
        check(|r| r.null(), "$-1\r\n", "_\r\n");
        check(|r| r.null_array(), "*-1\r\n", "_\r\n");
        check(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
        check(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
        check(|r| r.double_text("3.10"), "$4\r\n3.10\r\n", ",3.10\r\n");
        check(|r| r.big_number("12345678901234567890"), "$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n");
    }

    #[test]
    fn strings() {
        same(|r| r.bulk(""), "$0\r\n\r\n");
        same(|r| r.bulk("a\r\nb"), "$4\r\na\r\nb\r\n");
        same(|r| r.bulk_integer(-12), "$3\r\n-12\r\n");
        check(|r| r.bulk_or_null(None::<&str>), "$-1\r\n", "_\r\n");
        for len in [9, 10, 99, 100, 12345] {
            let payload = "x".repeat(len);
            let expected = format!("${len}\r\n{payload}\r\n");
            same(|r| r.bulk(&payload), &expected);
            same(|r| r.bulk_with(|out| out.extend_from_slice(payload.as_bytes())), &expected);
        }
        check(|r| r.verbatim(*b"txt", "hello"), "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
    }

    #[test]
    fn aggregates() {
        same(|r| r.array(0), "*0\r\n");
        same(|r| r.array(123), "*123\r\n");
        check(|r| r.map(6), "*12\r\n", "%6\r\n");
        check(|r| r.set(10), "*10\r\n", "~10\r\n");
        check(|r| r.push(3), "*3\r\n", ">3\r\n");
        check(|r| assert_eq!(r.attribute(1), r.is_resp3()), "", "|1\r\n");
    }

    #[test]
    fn deferred_headers() {
        for len in [0, 1, 9, 10, 11, 100, 4321] {
            let elements = ":1\r\n".repeat(len);
            let resp3 = format!("+before\r\n*2\r\n~{len}\r\n{elements}+after\r\n");
            let write = |r: &mut Reply| {
                r.simple("before");
                let outer = r.deferred_array();
                let inner = r.deferred_set();
                (0..len).for_each(|_| r.integer(1));
                r.finish(inner, len);
                r.simple("after");
                r.finish(outer, 2);
            };
            check(write, &resp3.replace('~', "*"), &resp3);
        }
        let map = |r: &mut Reply| {
            let map = r.deferred_map();
            r.raw(b"....");
            r.finish(map, 5);
        };
        check(map, "*10\r\n....", "%5\r\n....");
    }

    #[test]
    fn long_strings_are_shared_where_they_can_be() {
        let long = Arc::new(vec![b'x'; 20_000]);
        let write = |reply: &mut Reply| {
            let array = reply.deferred_array();
            reply.bulk_shared(&long);
            let inner = reply.position();
            reply.bulk_shared(&long);
            reply.rewind(inner);
            reply.null();
            reply.reborrow().bulk_shared(&long);
            (0..10).for_each(|_| reply.integer(1));
            reply.finish(array, 13);
        };
        let (mut copied, mut out, mut parts) = (Vec::new(), Vec::new(), Parts::default());
        write(&mut Reply::new(&mut copied, Protocol::Resp2));
        write(&mut Reply::sharing(&mut out, Protocol::Resp2, &mut parts));
        assert_eq!((parts.len(), parts.is_empty(), Arc::strong_count(&long)), (40_000, false, 3));
        assert!(out.len() < 100);
        parts.copy_into(&mut out);
        assert!(out == copied);
        assert_eq!((parts.len(), parts.is_empty(), Arc::strong_count(&long)), (0, true, 1));
    }

    #[test]
    fn lengths_of_any_number_of_digits() {
        for len in (0..1200).chain([9_999, 10_000, 123_456]) {
            let (text, mut out) = ("x".repeat(len), Vec::new());
            Reply::new(&mut out, Protocol::Resp2).bulk(&text);
            assert!(out == format!("${len}\r\n{text}\r\n").as_bytes(), "{len}");
        }
    }

    #[test]
    fn rewinding() {
        let mut out = b"+old\r\n".to_vec();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        let position = reply.position();
        reply.array(2);
        reply.reborrow().integer(1);
        assert_eq!(reply.since(position), b"*2\r\n:1\r\n");
        reply.rewind(position);
        reply.error("ERR no");
        assert_eq!(out, b"+old\r\n-ERR no\r\n");
    }
}

//! The request decoder: commands out of a connection's query buffer, without copying and without reading anything
//! twice.

use crate::batch::{Batch, Range};
use crate::inline::split_into;
use crate::{Protocol, ProtocolError, Reply};

/// The beginning of TLS: a record of a handshake, and its version.
const TLS_RECORD: &[u8] = &[0x16, 3];
/// Longest line in bytes, line break excluded: inline commands and `*` and `$` headers (Redis's
/// `PROTO_INLINE_MAX_SIZE`).
pub const LINE_MAX: usize = 64 * 1024;

/// Positions have 32 bits, so one request spans at most this many bytes.
const REQUEST_MAX: usize = u32::MAX as usize;

/// Longest argument whatever the configuration says: it leaves room for the rest of its request.
const BULK_CEILING: usize = REQUEST_MAX - LINE_MAX;

const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_MAX: usize = 16 * 1024;

/// The bounds of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument in bytes (`proto-max-bulk-len`, 512 MB by default). Above 4 GB it counts as 4 GB.
    pub proto_max_bulk_len: usize,
    /// True if the client may send more than ten arguments and arguments above 16384 bytes. False while authentication
    /// is required and has not happened. Then decode one command at a time (`max_commands` 1), because it may be the
    /// one that authenticates.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { proto_max_bulk_len: 512 * 1024 * 1024, authenticated: true }
    }
}

/// How far [`Decoder::decode`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "consumed bytes must be dropped, and an error answered after the commands before it"]
pub struct Progress {
    /// Bytes from the start of the buffer that need not be kept: complete commands, empty lines and empty arrays.
    pub consumed: usize,
    /// Bytes that must still arrive before an argument of known length is complete, its line break included; 0 if no
    /// length is known.
    pub missing: usize,
    /// Set if what follows `consumed` is no request. The commands before it are in the batch and are to be executed.
    pub error: Option<ProtocolError>,
}

impl Progress {
    /// How many bytes to reserve beyond the `unread` bytes in the buffer: the missing ones, but at most three times the
    /// present ones. So memory follows arrived data and not an announced length.
    pub fn reserve_hint(&self, unread: usize) -> usize {
        const READ: usize = 16 * 1024;
        self.missing.min(unread.saturating_mul(3).max(READ))
    }
}

/// The state of one connection's request stream between reads: how far an incomplete request has been understood.
///
/// It is small and allocates only while an array request is incomplete. Its memory is then in proportion to the arrived
/// bytes, never to announced lengths.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The arguments of the incomplete request that have arrived, relative to its first byte.
    args: Vec<Range>,
    /// `Some` between reads if an array header has been read.
    cursor: Option<Cursor>,
}

/// How much of an array request has been read.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// Next byte to read: an argument's header, or its first byte if `bulk` is known.
    pos: usize,
    /// Arguments still to read.
    left: u32,
    /// Length of the argument at `pos` if its header has been read.
    bulk: Option<u32>,
}

/// The finding at a position.
enum Step {
    /// A command, ending before this position.
    Command(usize),
    /// Nothing to execute, ending before this position.
    Skip(usize),
    /// More bytes are needed, this many if known.
    Incomplete {
        missing: usize,
    },
    Error(ProtocolError),
}

/// Capacity for the arguments of an incomplete request that a connection keeps: the usual command cut by the end of a
/// read.
const ARGS_KEPT: usize = 8;

impl Decoder {
    /// A decoder at the start of a stream; allocates nothing.
    pub const fn new() -> Self {
        Self { args: Vec::new(), cursor: None }
    }

    /// Appends up to `max_commands` complete commands at the start of `buffer` to `batch`.
    ///
    /// `buffer` holds all bytes received and not yet consumed. Before the next call the caller drops exactly
    /// [`Progress::consumed`] bytes from its front (or calls [`Decoder::forget`]) and appends what has arrived. The
    /// bytes may be moved in between. An incomplete request is not read again from its start, only a header or
    /// inline line cut in two, of at most 64 KB, is.
    ///
    /// After an error the decoder is as new; its input is not: the connection is to be closed.
    pub fn decode(&mut self, buffer: &[u8], limits: &Limits, max_commands: usize, batch: &mut Batch) -> Progress {
        let buffer = &buffer[..buffer.len().min(REQUEST_MAX)];
        let bulk_max = limits.proto_max_bulk_len.min(BULK_CEILING);
        let mut consumed = 0;
        let mut commands = 0;
        while commands < max_commands && consumed < buffer.len() {
            let step = if buffer[consumed] != b'*' {
                inline(buffer, consumed, batch)
            } else if let Some(cursor) = self.cursor.take() {
                // Only at the front: a decoder that keeps a cursor has stopped at the start of its request.
                self.resume(buffer, cursor, bulk_max, limits.authenticated, batch)
            } else {
                self.begin(buffer, consumed, bulk_max, limits.authenticated, batch)
            };
            match step {
                Step::Command(end) => {
                    consumed = end;
                    commands += 1;
                }
                Step::Skip(end) => consumed = end,
                Step::Incomplete { .. } if consumed == 0 && buffer.len() == REQUEST_MAX => {
                    self.forget();
                    return Progress { consumed, missing: 0, error: Some(ProtocolError::InvalidBulkLength) };
                }
                Step::Incomplete { missing } => return Progress { consumed, missing, error: None },
                Step::Error(error) => {
                    self.forget();
                    return Progress { consumed, missing: 0, error: Some(error) };
                }
            }
        }
        Progress { consumed, missing: 0, error: None }
    }

    /// True if a request has been read in part and remembered.
    pub fn is_incomplete(&self) -> bool {
        self.cursor.is_some()
    }

    /// Bytes of the incomplete request before the argument that is arriving: its headers, and the arguments that are
    /// there.
    pub fn read_before(&self) -> usize {
        self.cursor.map_or(0, |cursor| cursor.pos)
    }

    /// Heap bytes held.
    pub fn memory(&self) -> usize {
        self.args.capacity() * size_of::<Range>()
    }

    /// Forgets an incomplete request. To be called when the next buffer does not start where the last call stopped.
    /// Then execution has stopped within the batch (a blocked client), and the commands behind it are to be decoded
    /// again later.
    pub fn forget(&mut self) {
        self.cursor = None;
        self.args = Vec::new();
    }

    /// An array request from its start at `at`.
    #[inline]
    fn begin(&mut self, buffer: &[u8], at: usize, bulk_max: usize, authenticated: bool, batch: &mut Batch) -> Step {
        let (count, pos) = match header(buffer, at) {
            Header::Number(count, pos) => (count, pos),
            Header::Incomplete => return Step::Incomplete { missing: 0 },
            Header::TooLong => return Step::Error(ProtocolError::MultibulkCountTooLong),
            Header::NotANumber => return Step::Error(ProtocolError::InvalidMultibulkLength),
        };
        if count > i64::from(i32::MAX) {
            return Step::Error(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !authenticated {
            return Step::Error(ProtocolError::UnauthenticatedMultibulkLength);
        }
        if count <= 0 {
            return Step::Skip(pos);
        }
        let first = batch.ranges.len();
        let mut cursor = Cursor { pos, left: count as u32, bulk: None };
        match read_args(buffer, &mut cursor, bulk_max, authenticated, &mut batch.ranges) {
            Ok(None) => {
                batch.push_wire(first, cursor.pos);
                Step::Command(cursor.pos)
            }
            Ok(Some(missing)) => {
                // The next buffer will start at this request.
                let cut = batch.ranges.drain(first..).map(|range| Range { start: range.start - at as u32, ..range });
                self.args.clear();
                self.args.extend(cut);
                cursor.pos -= at;
                self.cursor = Some(cursor);
                Step::Incomplete { missing }
            }
            Err(error) => {
                batch.ranges.truncate(first);
                Step::Error(error)
            }
        }
    }

    /// The array request at the front of the buffer, from where it was left.
    #[cold]
    fn resume(
        &mut self,
        buffer: &[u8],
        mut cursor: Cursor,
        bulk_max: usize,
        authenticated: bool,
        batch: &mut Batch,
    ) -> Step {
        match read_args(buffer, &mut cursor, bulk_max, authenticated, &mut self.args) {
            Ok(None) => {
                let first = batch.ranges.len();
                batch.ranges.append(&mut self.args);
                self.args.shrink_to(ARGS_KEPT);
                batch.push_wire(first, cursor.pos);
                Step::Command(cursor.pos)
            }
            Ok(Some(missing)) => {
                self.cursor = Some(cursor);
                Step::Incomplete { missing }
            }
            Err(error) => Step::Error(error),
        }
    }
}

/// Reads arguments until none is left (`None`) or the buffer ends (`Some`: bytes missing, if known).
#[inline]
fn read_args(
    buffer: &[u8],
    cursor: &mut Cursor,
    bulk_max: usize,
    authenticated: bool,
    args: &mut Vec<Range>,
) -> Result<Option<usize>, ProtocolError> {
    // A local copy stays in registers.
    let Cursor { mut pos, mut left, mut bulk } = *cursor;
    if bulk.is_none() {
        while left > 0
            && let Some(range) = short_bulk(buffer, pos).filter(|range| range.len as usize <= bulk_max)
        {
            args.push(range);
            pos = (range.start + range.len) as usize + 2;
            left -= 1;
        }
    }
    let outcome = loop {
        if left == 0 {
            break None;
        }
        let len = match bulk.take() {
            Some(len) => len as usize,
            None => match header(buffer, pos) {
                // The first byte is checked only when the line is complete, as in Redis.
                Header::Number(..) | Header::NotANumber if buffer[pos] != b'$' => {
                    return Err(ProtocolError::ExpectedDollar(buffer[pos]));
                }
                Header::Number(len, next) => {
                    let len = usize::try_from(len).ok().filter(|len| *len <= bulk_max);
                    let Some(len) = len else { return Err(ProtocolError::InvalidBulkLength) };
                    if len > UNAUTHENTICATED_BULK_MAX && !authenticated {
                        return Err(ProtocolError::UnauthenticatedBulkLength);
                    }
                    pos = next;
                    len
                }
                Header::Incomplete => break Some(0),
                Header::TooLong => return Err(ProtocolError::BulkCountTooLong),
                Header::NotANumber => return Err(ProtocolError::InvalidBulkLength),
            },
        };
        // Like Redis, this does not check the two bytes behind an argument. No overflow: both are below 4 GiB.
        let end = pos + len + 2;
        if end > buffer.len() {
            bulk = Some(len as u32);
            break Some(end - buffer.len());
        }
        args.push(Range { start: pos as u32, len: len as u32 });
        pos = end;
        left -= 1;
    };
    *cursor = Cursor { pos, left, bulk };
    Ok(outcome)
}

/// A whole bulk string at `at` of at most 999 bytes, which any client may send. `None`: it is to be read step by step.
#[inline(always)]
fn short_bulk(buffer: &[u8], at: usize) -> Option<Range> {
    let &[kind, first, second, third, fourth, ..] = buffer.get(at..)?.first_chunk::<6>()?;
    let (a, b, c) = (first.wrapping_sub(b'0'), second.wrapping_sub(b'0'), third.wrapping_sub(b'0'));
    if kind != b'$' || a > 9 {
        return None;
    }
    let (len, header) = if second == b'\r' {
        (u32::from(a), 4)
    } else if third == b'\r' && a > 0 && b <= 9 {
        (u32::from(a) * 10 + u32::from(b), 5)
    } else if fourth == b'\r' && a > 0 && b <= 9 && c <= 9 {
        (u32::from(a) * 100 + u32::from(b) * 10 + u32::from(c), 6)
    } else {
        return None;
    };
    let start = at + header;
    (start + len as usize + 2 <= buffer.len()).then_some(Range { start: start as u32, len })
}

/// A `*` or `$` line.
enum Header {
    /// Its number and the position behind the line.
    Number(i64, usize),
    Incomplete,
    TooLong,
    NotANumber,
}

/// Reads the line at `at`: a type byte, a decimal number, CR and one byte that is not checked.
#[inline(always)]
fn header(buffer: &[u8], at: usize) -> Header {
    // Nearly every header has one to three digits and no sign.
    if let Some(&[_, first, second, third, fourth]) = buffer.get(at..).and_then(|rest| rest.first_chunk::<5>()) {
        let (a, b, c) = (first.wrapping_sub(b'0'), second.wrapping_sub(b'0'), third.wrapping_sub(b'0'));
        if second == b'\r' && a <= 9 {
            return Header::Number(i64::from(a), at + 4);
        }
        if third == b'\r' && a.wrapping_sub(1) < 9 && b <= 9 {
            return Header::Number(i64::from(a) * 10 + i64::from(b), at + 5);
        }
        if fourth == b'\r' && a.wrapping_sub(1) < 9 && b <= 9 && c <= 9 && at + 6 <= buffer.len() {
            return Header::Number(i64::from(a) * 100 + i64::from(b) * 10 + i64::from(c), at + 6);
        }
    }
    long_header(buffer, at)
}

#[inline(never)]
fn long_header(buffer: &[u8], at: usize) -> Header {
    let Some(rest) = buffer.get(at..).filter(|rest| !rest.is_empty()) else { return Header::Incomplete };
    let line = &rest[..rest.len().min(LINE_MAX + 1)];
    match memchr::memchr(b'\r', line) {
        Some(end) if end + 2 > rest.len() => Header::Incomplete,
        Some(end) => match line.get(1..end).and_then(parse_integer) {
            Some(number) => Header::Number(number, at + end + 2),
            None => Header::NotANumber,
        },
        None if rest.len() > LINE_MAX => Header::TooLong,
        None => Header::Incomplete,
    }
}

/// A decimal 64-bit integer in its only form: no blanks, no `+`, no leading zeros, no `-0` (Redis's `string2ll`).
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Towards the negative, where i64::MIN is.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// The inline command at `at`.
#[cold]
fn inline(buffer: &[u8], at: usize, batch: &mut Batch) -> Step {
    let rest = &buffer[at..];
    // The client would wait for an answer until the random bytes of its greeting happen to be a line.
    if rest.starts_with(TLS_RECORD) {
        return Step::Error(ProtocolError::Tls);
    }
    let window = &rest[..rest.len().min(LINE_MAX + 1)];
    let Some(newline) = memchr::memchr(b'\n', window) else {
        return match rest.len() > LINE_MAX {
            true => Step::Error(ProtocolError::InlineTooLong),
            false => Step::Incomplete { missing: 0 },
        };
    };
    let end = at + newline + 1;
    let line = &window[..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (first, offset) = (batch.ranges.len(), batch.scratch.len());
    match split_into(line, &mut batch.scratch, &mut batch.ranges) {
        Ok(()) if batch.ranges.len() == first => Step::Skip(end),
        Ok(()) => {
            batch.push_scratch(first, end, offset);
            Step::Command(end)
        }
        Err(_) => {
            batch.ranges.truncate(first);
            batch.scratch.truncate(offset);
            Step::Error(ProtocolError::UnbalancedQuotes)
        }
    }
}

/// Appends a request as clients send it: an array of bulk strings.
pub fn append_request<T: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[T]) {
    let mut request = Reply::new(out, Protocol::Resp2);
    request.array(args.len());
    args.iter().for_each(|arg| request.bulk(arg));
}

#[cfg(test)]
mod tests;

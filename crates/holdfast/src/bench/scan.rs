//! Counts replies without keeping them: where a reply ends, and whether it is an error or nil.
//!
//! The scanner takes bytes as they come from the socket, cut anywhere, RESP2 and RESP3 alike. It keeps a few bytes of
//! state per connection, so thousands of connections share one read buffer.

/// The kind of a complete reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Anything but the two below.
    #[default]
    Value,
    /// `$-1`, `*-1` or `_`.
    Nil,
    /// `-...` or `!...`.
    Error,
}

/// Counts of replies, nested values included: a nil in an EXEC's array counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Errors.
    pub errors: u64,
    /// Nils.
    pub nils: u64,
}

/// Bytes that no RESP reply has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotResp(pub u8);

/// Aggregates nested deeper than this are refused; no command of Redis answers with more.
const DEPTH_MAX: usize = 64;
/// Bytes of an error message that are kept.
const MESSAGE_MAX: usize = 160;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before a type byte.
    Type,
    /// In a line whose text does not matter.
    Line(Kind),
    /// In an error's line.
    Message,
    /// In a length: of a string (`$`), or of an aggregate.
    Length { of: u8, value: u64, negative: bool },
    /// In a string's bytes and its line end.
    Body { left: u64, error: bool },
}

/// An aggregate whose elements are being read.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: u64,
    /// An attribute precedes its reply, a push stands outside of replies: their end is no reply's end.
    silent: bool,
}

/// The state of one connection's replies.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    open: Vec<Open>,
    /// The last complete reply.
    last: Kind,
    /// The last error's message, as far as it is kept.
    message: Vec<u8>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { state: State::Type, open: Vec::new(), last: Kind::Value, message: Vec::new() }
    }
}

impl Scanner {
    /// Takes the next bytes and returns how many replies were completed in them.
    ///
    /// # Errors
    /// The byte that cannot stand where it stands.
    pub fn feed(&mut self, mut bytes: &[u8], tally: &mut Tally) -> Result<u64, NotResp> {
        let mut complete = 0;
        while let Some(&byte) = bytes.first() {
            match &mut self.state {
                State::Type => {
                    self.state = start(byte, &mut self.message)?;
                    bytes = &bytes[1..];
                }
                State::Line(kind) => {
                    let kind = *kind;
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { break };
                    bytes = &bytes[end + 1..];
                    complete += self.end_of_value(kind, tally);
                }
                State::Message => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let text = &bytes[..end.unwrap_or(bytes.len())];
                    let room = MESSAGE_MAX.saturating_sub(self.message.len());
                    self.message.extend_from_slice(&text[..text.len().min(room)]);
                    let Some(end) = end else { break };
                    bytes = &bytes[end + 1..];
                    complete += self.end_of_value(Kind::Error, tally);
                }
                State::Length { of, value, negative } => {
                    bytes = &bytes[1..];
                    match byte {
                        b'0'..=b'9' => *value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
                        b'-' => *negative = true,
                        b'\r' => {}
                        b'\n' => {
                            let (of, value, negative) = (*of, *value, *negative);
                            complete += self.length_read(of, value, negative, tally)?;
                        }
                        _ => return Err(NotResp(byte)),
                    }
                }
                State::Body { left, error } => {
                    let step = (*left).min(bytes.len() as u64);
                    if *error {
                        let room = MESSAGE_MAX.saturating_sub(self.message.len());
                        self.message.extend_from_slice(&bytes[..(step as usize).min(room)]);
                    }
                    *left -= step;
                    bytes = &bytes[step as usize..];
                    if *left == 0 {
                        let kind = if *error { Kind::Error } else { Kind::Value };
                        complete += self.end_of_value(kind, tally);
                    }
                }
            }
        }
        Ok(complete)
    }

    /// The kind of the last complete reply.
    pub fn last(&self) -> Kind {
        self.last
    }

    /// The last error's message, without its line end; empty if there was none.
    pub fn message(&self) -> String {
        String::from_utf8_lossy(&self.message).trim_end().to_owned()
    }

    fn length_read(&mut self, of: u8, value: u64, negative: bool, tally: &mut Tally) -> Result<u64, NotResp> {
        if negative {
            return Ok(self.end_of_value(Kind::Nil, tally));
        }
        let elements = match of {
            b'$' | b'=' | b'!' => {
                self.state = State::Body { left: value.saturating_add(2), error: of == b'!' };
                return Ok(0);
            }
            b'%' | b'|' => value.saturating_mul(2),
            _ => value,
        };
        let silent = matches!(of, b'|' | b'>');
        self.state = State::Type;
        if elements == 0 {
            return Ok(if silent { 0 } else { self.end_of_value(Kind::Value, tally) });
        }
        if self.open.len() == DEPTH_MAX {
            return Err(NotResp(of));
        }
        self.open.push(Open { left: elements, silent });
        Ok(0)
    }

    /// A value is complete, and with it perhaps the aggregates around it. Returns the replies completed: 0 or 1.
    fn end_of_value(&mut self, mut kind: Kind, tally: &mut Tally) -> u64 {
        self.state = State::Type;
        match kind {
            Kind::Value => {}
            Kind::Nil => tally.nils += 1,
            Kind::Error => tally.errors += 1,
        }
        while let Some(around) = self.open.last_mut() {
            around.left -= 1;
            if around.left > 0 {
                return 0;
            }
            let silent = around.silent;
            self.open.pop();
            if silent {
                return 0;
            }
            kind = Kind::Value;
        }
        self.last = kind;
        1
    }
}

fn start(byte: u8, message: &mut Vec<u8>) -> Result<State, NotResp> {
    Ok(match byte {
        b'+' | b':' | b'#' | b',' | b'(' => State::Line(Kind::Value),
        b'_' => State::Line(Kind::Nil),
        b'-' => {
            message.clear();
            State::Message
        }
        b'!' => {
            message.clear();
            State::Length { of: byte, value: 0, negative: false }
        }
        b'$' | b'=' | b'*' | b'~' | b'%' | b'>' | b'|' => State::Length { of: byte, value: 0, negative: false },
        _ => return Err(NotResp(byte)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes whole and cut at every place: the result must be the same.
    fn scan(bytes: &[u8]) -> (u64, Tally, Kind) {
        let whole = scan_in(&[bytes]);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(scan_in(&[head, tail]), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(scan_in(&single), whole, "byte by byte");
        whole
    }

    fn scan_in(pieces: &[&[u8]]) -> (u64, Tally, Kind) {
        let mut scanner = Scanner::default();
        let mut tally = Tally::default();
        let replies = pieces.iter().map(|piece| scanner.feed(piece, &mut tally).unwrap()).sum();
        (replies, tally, scanner.last())
    }

    #[test]
    fn resp2_replies() {
        assert_eq!(scan(b"+OK\r\n"), (1, Tally::default(), Kind::Value));
        assert_eq!(scan(b"$3\r\na\nb\r\n:12\r\n"), (2, Tally::default(), Kind::Value));
        assert_eq!(scan(b"$-1\r\n"), (1, Tally { errors: 0, nils: 1 }, Kind::Nil));
        assert_eq!(scan(b"$0\r\n\r\n"), (1, Tally::default(), Kind::Value));
        assert_eq!(scan(b"-ERR no\r\n"), (1, Tally { errors: 1, nils: 0 }, Kind::Error));
        assert_eq!(scan(b"*0\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n+x\r\n"), (3, Tally::default(), Kind::Value));
    }

    #[test]
    fn a_transaction() {
        let bytes = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n-WRONGTYPE x\r\n";
        assert_eq!(scan(bytes), (4, Tally { errors: 1, nils: 1 }, Kind::Value));
        assert_eq!(scan(b"+OK\r\n*-1\r\n"), (2, Tally { errors: 0, nils: 1 }, Kind::Nil));
        let aborted = b"+OK\r\n-ERR unknown\r\n-EXECABORT discarded\r\n";
        assert_eq!(scan(aborted), (3, Tally { errors: 2, nils: 0 }, Kind::Error));
    }

    #[test]
    fn resp3_replies() {
        assert_eq!(scan(b"_\r\n"), (1, Tally { errors: 0, nils: 1 }, Kind::Nil));
        assert_eq!(scan(b"%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n(123\r\n"), (2, Tally::default(), Kind::Value));
        assert_eq!(scan(b"=5\r\ntxt:a\r\n!3\r\nERR\r\n"), (2, Tally { errors: 1, nils: 0 }, Kind::Error));
        // A push and an attribute are no replies.
        assert_eq!(scan(b">2\r\n+a\r\n+b\r\n+OK\r\n"), (1, Tally::default(), Kind::Value));
        assert_eq!(scan(b"|1\r\n+ttl\r\n:1\r\n+OK\r\n"), (1, Tally::default(), Kind::Value));
    }

    #[test]
    fn keeps_the_message_of_an_error() {
        let mut scanner = Scanner::default();
        let mut tally = Tally::default();
        for piece in [b"+OK\r\n-NOAU".as_slice(), b"TH Authentication required.\r\n+OK\r\n"] {
            scanner.feed(piece, &mut tally).unwrap();
        }
        assert_eq!(scanner.message(), "NOAUTH Authentication required.");
    }

    #[test]
    fn refuses_what_is_not_resp() {
        let mut scanner = Scanner::default();
        assert_eq!(scanner.feed(b"HTTP/1.1", &mut Tally::default()), Err(NotResp(b'H')));
        let mut scanner = Scanner::default();
        assert_eq!(scanner.feed(b"$x", &mut Tally::default()), Err(NotResp(b'x')));
        let mut scanner = Scanner::default();
        assert_eq!(scanner.feed(&b"*1\r\n".repeat(100), &mut Tally::default()), Err(NotResp(b'*')));
    }
}

//! Both ends of a connection between an owner and an acceptor: its greeting, its messages, and the bytes that the socket
//! does not take at once.
//!
//! ```text
//! greeting := length u32 · magic "HOLDCOPY" · version u16 (1) · acceptor 16 bytes       owner
//! probe    := length u32 · magic "HOLDPROB" · version u16 (1) · acceptor 16 bytes       standby
//! answer   := length u32 · version u16 (1) · taken u8 · reason, or extents               acceptor
//! extents  := nothing, or: streams u16 · (base · id of the last block) each
//! message  := length u32 · message of `quorum`                                          both, later
//! ```
//! A probe is answered when something was put on the acceptor's disk, and nothing follows. A build that does not know
//! probes ends the connection.
//!
//! A length is of what follows it. All this comes behind the handshake of a connection between nodes.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorum::{AcceptorId, Base, BlockId, Cut, Extent, Order, Reply, Report, Request, ShardId, Term};
use socket2::{SockRef, Socket, TcpKeepalive};

const MAGIC: &[u8; 8] = b"HOLDCOPY";
const PROBE: &[u8; 8] = b"HOLDPROB";
const VERSION: u16 = 1;

/// Bytes of the longest message: a block has a fraction of this.
const MESSAGE_MAX: usize = 128 << 20;

/// Bytes of the longest greeting or answer.
const GREETING_MAX: usize = 1024;

/// Bytes that wait for a socket. An owner sends no more ahead by its windows, so a connection with more is broken.
const WAITING_MAX: usize = 256 << 20;

/// How long the other end has for its greeting.
const PATIENCE: Duration = Duration::from_secs(5);

/// After so long a silence the other end is probed, and after so long without an acknowledgement it is given up.
const SILENCE: Duration = Duration::from_secs(5);

/// Linux's `MSG_DONTWAIT` and `MSG_NOSIGNAL`.
const AT_ONCE: i32 = 0x40 | 0x4000;

/// A socket of a connection, for reading.
pub struct Incoming {
    socket: Socket,
    buffer: Vec<u8>,
    from: usize,
}

impl Incoming {
    /// The two directions of a connection.
    pub fn split(socket: OwnedFd) -> io::Result<(Self, Arc<Outgoing>)> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(false)?;
        let options = SockRef::from(&socket);
        let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(Duration::from_secs(1)).with_retries(3);
        // With TLS it is a local one, which has no such options: those of the real one are set behind it.
        let _ = options.set_tcp_keepalive(&keepalive);
        let _ = options.set_tcp_user_timeout(Some(SILENCE));
        let _ = options.set_tcp_nodelay(true);
        let outgoing = Outgoing { socket: socket.try_clone()?, waiting: Mutex::default(), work: Condvar::new() };
        Ok((Self { socket, buffer: Vec::new(), from: 0 }, Arc::new(outgoing)))
    }

    /// The next message.
    pub fn next(&mut self) -> io::Result<&[u8]> {
        self.next_of(MESSAGE_MAX)
    }

    fn next_of(&mut self, most: usize) -> io::Result<&[u8]> {
        self.fill(4)?;
        let length = match self.buffer.get(self.from..).and_then(<[u8]>::first_chunk::<4>) {
            Some(length) => u32::from_le_bytes(*length) as usize,
            None => 0,
        };
        if length > most {
            return Err(invalid("a message that is too long"));
        }
        self.fill(4 + length)?;
        let begin = self.from + 4;
        self.from = begin + length;
        Ok(self.buffer.get(begin..self.from).unwrap_or_default())
    }

    /// Has at least so many bytes in memory. It is never larger than twice what has come.
    fn fill(&mut self, size: usize) -> io::Result<()> {
        while self.buffer.len() - self.from < size {
            if self.from > 0 {
                self.buffer.drain(..self.from);
                self.from = 0;
            }
            let had = self.buffer.len();
            let more = (size - had).min(had.max(64 << 10)).max(64 << 10);
            self.buffer.resize(had + more, 0);
            let read = self.socket.read(self.buffer.get_mut(had..).unwrap_or_default());
            self.buffer.truncate(had + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The owner's side of the greeting. Returns what the acceptor has of each stream; nothing if it is of a build that does
    /// not say so.
    pub fn greet(&mut self, out: &Outgoing, acceptor: AcceptorId) -> io::Result<Vec<Extent>> {
        self.greet_as(MAGIC, out, acceptor)
    }

    fn greet_as(&mut self, magic: &[u8; 8], out: &Outgoing, acceptor: AcceptorId) -> io::Result<Vec<Extent>> {
        self.socket.set_read_timeout(Some(PATIENCE))?;
        out.send(greeting(magic, acceptor), None);
        let answer = self.next_of(GREETING_MAX)?;
        let (version, rest) = answer.split_first_chunk::<2>().ok_or_else(|| invalid("no answer to a greeting"))?;
        let (taken, why) = rest.split_first().ok_or_else(|| invalid("no answer to a greeting"))?;
        let extents = match (u16::from_le_bytes(*version), taken) {
            (VERSION, 1) => extents(why).ok_or_else(|| invalid("no extents of streams"))?,
            (VERSION, _) => return Err(io::Error::other(String::from_utf8_lossy(why).into_owned())),
            _ => return Err(invalid("another version of the messages about copies")),
        };
        self.socket.set_read_timeout(None)?;
        Ok(extents)
    }

    /// The acceptor's side: the name of the acceptor that is asked for, and true if it is asked by a probe.
    pub fn greeted(&mut self) -> io::Result<(AcceptorId, bool)> {
        self.socket.set_read_timeout(Some(PATIENCE))?;
        let greeting = self.next_of(GREETING_MAX)?;
        let acceptor = greeted(greeting).ok_or_else(|| invalid("no greeting of an owner"))?;
        self.socket.set_read_timeout(None)?;
        Ok(acceptor)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn greeting(magic: &[u8; 8], acceptor: AcceptorId) -> Vec<u8> {
    let body = [magic.as_slice(), VERSION.to_le_bytes().as_slice(), &acceptor.0].concat();
    framed(&body)
}

fn greeted(body: &[u8]) -> Option<(AcceptorId, bool)> {
    let (magic, rest) = body.split_first_chunk::<8>()?;
    let rest = rest.strip_prefix(&VERSION.to_le_bytes()).filter(|_| magic == MAGIC || magic == PROBE)?;
    Some((AcceptorId(rest.try_into().ok()?), magic == PROBE))
}

/// The acceptor's answer to a greeting: what it has of each stream, or the reason why it is not taken.
pub fn answer(taken: Result<&[Extent], &str>) -> Vec<u8> {
    let mut body = VERSION.to_le_bytes().to_vec();
    body.push(u8::from(taken.is_ok()));
    match taken {
        Err(why) => body.extend_from_slice(&why.as_bytes()[..why.floor_char_boundary(GREETING_MAX / 2)]),
        Ok([]) => {}
        Ok(extents) => {
            body.extend_from_slice(&(extents.len() as u16).to_le_bytes());
            for Extent { base, last } in extents {
                put_id(&mut body, base.id);
                body.extend_from_slice(&base.cut.0.to_le_bytes());
                put_id(&mut body, *last);
            }
        }
    }
    framed(&body)
}

fn put_id(out: &mut Vec<u8>, id: BlockId) {
    out.extend_from_slice(&id.term.get().to_le_bytes());
    out.extend_from_slice(&id.sequence.to_le_bytes());
}

/// The extents in the rest of an answer.
fn extents(from: &[u8]) -> Option<Vec<Extent>> {
    let Some((count, mut rest)) = from.split_first_chunk::<2>() else { return from.is_empty().then(Vec::new) };
    let number = |rest: &mut &[u8]| {
        let (number, after) = rest.split_first_chunk::<8>()?;
        *rest = after;
        Some(u64::from_le_bytes(*number))
    };
    let id = |rest: &mut &[u8]| {
        let (term, after) = rest.split_first_chunk::<4>()?;
        *rest = after;
        Some(BlockId { term: Term::new(u32::from_le_bytes(*term))?, sequence: number(rest)? })
    };
    let extent = |_| {
        let base = Base { id: id(&mut rest)?, cut: Cut(number(&mut rest)?) };
        Some(Extent { base, last: id(&mut rest)? })
    };
    (0..u16::from_le_bytes(*count)).map(extent).collect()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

/// Asks an acceptor whether it is there, can be read, and promises anything, behind the handshake of a connection. Returns
/// what it has of each stream; nothing if it is of a build that does not say so. It waits for some seconds.
///
/// # Errors
/// The reason why not, in words: there is no such folder, its disk has failed, or no answer comes.
pub fn ask(socket: OwnedFd, shard: ShardId, acceptor: AcceptorId) -> Result<Vec<Extent>, String> {
    let ask = || {
        let (mut incoming, out) = Incoming::split(socket)?;
        let extents = incoming.greet(&out, acceptor)?;
        incoming.socket.set_read_timeout(Some(PATIENCE))?;
        // Every acceptor of a log has promised more, and says so.
        let (head, tail) = request_bytes(&Request { shard, term: Term::ZERO, order: Order::Seal });
        out.send(head, tail);
        let reply = Reply::decode(incoming.next()?).map_err(io::Error::other)?;
        Ok::<_, io::Error>((reply.report, extents))
    };
    match ask() {
        Ok((Report::Failed, _)) => Err("its disk has failed".to_owned()),
        Ok((_, extents)) => Ok(extents),
        Err(why) => Err(why.to_string()),
    }
}

/// Has an acceptor put something on its disk, behind the handshake of a connection. It waits for some seconds.
///
/// # Errors
/// The reason why it has not, in words: its disk hangs or has failed, there is no such folder, or no answer comes.
pub fn probe(socket: OwnedFd, acceptor: AcceptorId) -> Result<(), String> {
    let probe = || {
        let (mut incoming, out) = Incoming::split(socket)?;
        incoming.greet_as(PROBE, &out, acceptor)
    };
    probe().map(drop).map_err(|why: io::Error| why.to_string())
}

/// The bytes of a message with its length: a part before a body that is not copied, that body, and the part behind it.
pub type Tail = Option<(Arc<[u8]>, [u8; 4])>;

/// A message of an owner, with its length.
pub fn request_bytes(request: &quorum::Request) -> (Vec<u8>, Tail) {
    let mut head = vec![0; 4];
    let tail = request.encode_around(&mut head);
    let length = head.len() - 4 + tail.as_ref().map_or(0, |(body, sum)| body.len() + sum.len());
    head[..4].copy_from_slice(&(length as u32).to_le_bytes());
    (head, tail)
}

/// A message of an acceptor, with its length.
pub fn reply_bytes(reply: &quorum::Reply) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    reply.encode(&mut bytes);
    let length = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// A piece of a message that waits.
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<(Piece, usize)>,
    bytes: usize,
    is_closed: bool,
    /// The writing thread has taken a piece.
    is_writing: bool,
}

/// A socket of a connection, for writing.
pub struct Outgoing {
    socket: Socket,
    waiting: Mutex<Waiting>,
    work: Condvar,
}

impl Outgoing {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message. Bytes that the socket does not take at once are left to the thread that calls [`Self::run`].
    pub fn send(&self, head: Vec<u8>, tail: Tail) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return;
        }
        let mut sent = 0;
        let is_idle = waiting.pieces.is_empty() && !waiting.is_writing;
        if is_idle {
            let (body, sum) = tail.as_ref().map_or((&[][..], &[][..]), |(body, sum)| (&body[..], &sum[..]));
            let parts = [IoSlice::new(&head), IoSlice::new(body), IoSlice::new(sum)];
            match self.socket.send_vectored_with_flags(&parts, AT_ONCE) {
                Ok(count) => sent = count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return self.close_locked(&mut waiting),
            }
        }
        let tail = tail.map(|(body, sum)| [Piece::Shared(body), Piece::Own(sum.to_vec())]);
        for piece in [Piece::Own(head)].into_iter().chain(tail.into_iter().flatten()) {
            let length = piece.bytes().len();
            if sent < length {
                waiting.bytes += length - sent;
                waiting.pieces.push_back((piece, sent));
            }
            sent = sent.saturating_sub(length);
        }
        if waiting.bytes > WAITING_MAX {
            return self.close_locked(&mut waiting);
        }
        if is_idle && !waiting.pieces.is_empty() {
            self.work.notify_one();
        }
    }

    /// Sends what waits, until the connection ends.
    pub fn run(&self) {
        let mut waiting = self.lock();
        while !waiting.is_closed {
            let Some((piece, from)) = waiting.pieces.pop_front() else {
                waiting = self.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let rest = piece.bytes().get(from..).unwrap_or_default();
            waiting.bytes -= rest.len();
            waiting.is_writing = true;
            drop(waiting);
            let written = io::Write::write_all(&mut &self.socket, rest);
            waiting = self.lock();
            waiting.is_writing = false;
            if written.is_err() {
                self.close_locked(&mut waiting);
            }
        }
    }

    /// Ends the connection.
    pub fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, waiting: &mut Waiting) {
        waiting.is_closed = true;
        waiting.pieces.clear();
        // It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_greeting() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let of = AcceptorId([0xac; 16]);
        let whole = greeting(MAGIC, of);
        assert_eq!(hex(&whole), concat!("1a000000", "484f4c44434f5059", "0100", "acacacacacacacacacacacacacacacac"));
        assert_eq!(greeted(&whole[4..]), Some((of, false)));
        let probe = greeting(PROBE, of);
        assert_eq!(hex(&probe), concat!("1a000000", "484f4c4450524f42", "0100", "acacacacacacacacacacacacacacacac"));
        assert_eq!(greeted(&probe[4..]), Some((of, true)));
        assert_eq!(greeted(&whole[5..]), None);
        assert_eq!(hex(&answer(Ok(&[]))), concat!("03000000", "0100", "01"));
        assert_eq!(hex(&answer(Err("no"))), concat!("05000000", "0100", "00", "6e6f"));
        let id = |term, sequence| BlockId { term: Term::new(term).unwrap(), sequence };
        let extent = Extent { base: Base { id: id(2, 3), cut: Cut(4) }, last: id(5, 6) };
        let whole = answer(Ok(&[extent]));
        let of_stream = ("02000000", "0300000000000000", "0400000000000000", "05000000", "0600000000000000");
        let (base, place, cut, term, last) = of_stream;
        assert_eq!(hex(&whole), ["25000000", "0100", "01", "0100", base, place, cut, term, last].concat());
        assert_eq!(extents(&whole[7..]), Some(vec![extent]));
        assert_eq!((extents(&[]), extents(&whole[7..20])), (Some(Vec::new()), None));
    }
}

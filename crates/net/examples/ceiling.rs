//! The ceiling: a server that stores nothing and answers a constant, for `bench/compare --ceiling`.
//!
//! One thread, one epoll, one read and one write per connection and turn: every server must pay that for its sockets.
//! It finds the ends of commands (so that pipelines cost it their bytes) and knows the first letter of a command's
//! name. `G` is answered with a value of 128 bytes, MULTI and EXEC with a block's replies, everything else with `+OK`.
//!
//! `ceiling --port PORT`; other arguments are ignored.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(usize::MAX);
const BUFFER: usize = 64 << 10;

/// A connection.
struct Conn {
    socket: TcpStream,
    /// Received bytes of a command that is not complete.
    rest: Vec<u8>,
    /// Replies not yet sent.
    out: Vec<u8>,
    /// Replies to the commands queued since MULTI.
    block: Option<(usize, Vec<u8>)>,
}

/// The number after `mark` at the beginning of `bytes`, and the end of its line.
fn number(bytes: &[u8], mark: u8) -> Option<(usize, usize)> {
    if bytes.first() != Some(&mark) {
        return None;
    }
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let digits = bytes[1..end].iter().take_while(|b| b.is_ascii_digit());
    Some((digits.fold(0usize, |n, d| n.saturating_mul(10).saturating_add(usize::from(d - b'0'))), end + 1))
}

/// The first two letters of the first command's name and its length in bytes, if it is complete.
fn command(bytes: &[u8]) -> Option<([u8; 2], usize)> {
    if bytes.first().is_some_and(|&b| b != b'*') {
        // A command as a person types it.
        let end = bytes.iter().position(|&b| b == b'\n')?;
        return (end > 0).then(|| ([bytes[0], bytes[1]], end + 1));
    }
    let (arguments, mut at) = number(bytes, b'*')?;
    let mut name = [0; 2];
    for i in 0..arguments {
        let (len, line) = number(&bytes[at..], b'$')?;
        let end = at.checked_add(line)?.checked_add(len)?.checked_add(2)?;
        if end > bytes.len() {
            return None;
        }
        if let (0, Some(&[first, second])) = (i, bytes.get(at + line..at + line + 2)) {
            name = [first, second];
        }
        at = end;
    }
    Some((name, at))
}

impl Conn {
    /// Answers the complete commands in `input`; returns the bytes used.
    fn answer(&mut self, input: &[u8], value: &[u8]) -> usize {
        let mut used = 0;
        while let Some((name, len)) = command(&input[used..]) {
            used += len;
            let reply: &[u8] = if name[0] == b'G' { value } else { b"+OK\r\n" };
            match (&name, self.block.take()) {
                (b"MU", _) => {
                    self.block = Some((0, Vec::new()));
                    self.out.extend_from_slice(b"+OK\r\n");
                }
                (b"EX", Some((count, replies))) => {
                    self.out.extend_from_slice(format!("*{count}\r\n").as_bytes());
                    self.out.extend_from_slice(&replies);
                }
                (_, Some((count, mut replies))) => {
                    replies.extend_from_slice(reply);
                    self.block = Some((count + 1, replies));
                    self.out.extend_from_slice(b"+QUEUED\r\n");
                }
                (b"PI", None) => self.out.extend_from_slice(b"+PONG\r\n"),
                (_, None) => self.out.extend_from_slice(reply),
            }
        }
        used
    }

    /// Reads until there is no more, answers, sends. Returns false if the connection has ended.
    fn serve(&mut self, buffer: &mut [u8], value: &[u8]) -> bool {
        loop {
            let read = match self.socket.read(buffer) {
                Ok(0) => return false,
                Ok(n) => n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let full = read == buffer.len();
            if self.rest.is_empty() {
                let used = self.answer(&buffer[..read], value);
                self.rest.extend_from_slice(&buffer[used..read]);
            } else {
                let mut input = std::mem::take(&mut self.rest);
                input.extend_from_slice(&buffer[..read]);
                let used = self.answer(&input, value);
                input.drain(..used);
                self.rest = input;
            }
            if !full {
                break;
            }
        }
        self.send()
    }

    fn send(&mut self) -> bool {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(n) if n == self.out.len() => self.out.clear(),
                Ok(n) => drop(self.out.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let port = arguments.windows(2).find(|pair| pair[0] == "--port").and_then(|pair| pair[1].parse::<u16>().ok());
    let port = port.ok_or_else(|| io::Error::other("ceiling --port PORT"))?;
    let mut listener = TcpListener::bind(([127, 0, 0, 1], port).into())?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(256);
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut buffer = vec![0; BUFFER];
    let value = [b"$128\r\n".as_slice(), &[b'v'; 128], b"\r\n"].concat();
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut socket, _)) = listener.accept() {
                    socket.set_nodelay(true)?;
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut socket, Token(conns.len()), interest)?;
                    conns.push(Some(Conn { socket, rest: Vec::new(), out: Vec::new(), block: None }));
                }
                continue;
            }
            if let Some(place) = conns.get_mut(event.token().0)
                && let Some(conn) = place
                && !(if event.is_readable() { conn.serve(&mut buffer, &value) } else { conn.send() })
            {
                *place = None;
            }
        }
    }
}

//! One connection to the server: connecting, logging in, and the state of its batch.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::nodes::{Address, Nodes};
use super::options::Options;
use super::scan::{Kind, Scanner, Tally};
use crate::client::explained;
use crate::tls;

/// A stream socket of either family.
#[derive(Debug)]
pub enum Stream {
    /// `--host` and `--port`.
    Tcp(TcpStream),
    /// The same, with `--tls`.
    Tls(Box<tls::Stream>),
    /// `--unix-socket`.
    Unix(UnixStream),
}

impl Stream {
    /// Connects, which may take so long.
    ///
    /// # Errors
    /// In words for the user.
    pub fn open(address: &Address, options: &tls::TlsOptions, patience: Duration) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot connect to {address}: {error}");
        let (host, port) = match address {
            Address::Unix(path) => return UnixStream::connect(path).map(Self::Unix).map_err(fail),
            Address::Tcp(host, port) => (host.as_str(), *port),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs().map_err(fail)? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(fail)?;
                    if !options.tls {
                        return Ok(Self::Tcp(stream));
                    }
                    stream.set_read_timeout(Some(patience)).map_err(fail)?;
                    let stream = options.connect(host, stream);
                    let stream = stream.map_err(|why| format!("cannot connect to {host}:{port}: {why}"))?;
                    return Ok(Self::Tls(Box::new(stream)));
                }
                Err(error) => last = error,
            }
        }
        Err(fail(last))
    }

    /// True if a read may give less than has come.
    pub fn reads_short(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// How long a read of a socket that blocks may take.
    ///
    /// # Errors
    /// The system's.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Tls(stream) => stream.sock.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Tls(stream) => stream.sock.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Tls(stream) => stream.sock.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.flush(),
            _ => Ok(()),
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The load that is measured.
    Load,
    /// `--against`.
    Against,
    /// One of `--subscribers`: it reads what comes.
    Subscriber,
}

/// A connection and the batch that it waits for.
#[derive(Debug)]
pub struct Connection {
    /// The socket, non-blocking.
    pub stream: Stream,
    /// Its purpose.
    pub role: Role,
    /// Which of the nodes it leads to.
    pub node: usize,
    /// The state of the replies.
    pub scanner: Scanner,
    /// Replies that are still to come; 0 when idle.
    pub expected: u64,
    /// Commands of the batch.
    pub commands: u32,
    /// When the batch was sent (or was to be sent, with `--rate`).
    pub since: Instant,
    /// When the batch was sent, with `--timeout`.
    pub sent: Instant,
    /// Its batches that were answered while it was measured.
    pub batches: u64,
    /// How often the batch was sent again.
    pub tries: u32,
    /// A reply to the batch was an error.
    pub has_failed: bool,
    /// The server has closed it, and it is made again.
    pub is_lost: bool,
    /// The batch, kept only where it may have to be sent again.
    pub batch: Vec<u8>,
    /// Bytes that the socket has not taken yet.
    unsent: Vec<u8>,
}

impl Connection {
    /// Connects to one of the nodes and logs in. With `probe` it also asks for a first reply, to find out that the
    /// server wants a password.
    ///
    /// # Errors
    /// In words for the user: refused, wrong password, no RESP.
    pub fn open(options: &Options, nodes: &Nodes, node: usize, probe: bool, now: Instant) -> Result<Self, String> {
        Self::open_at(options, &nodes.addresses[node], node, probe, now)
    }

    /// As [`Self::open`], where that node is now.
    ///
    /// # Errors
    /// As there.
    pub fn open_at(
        options: &Options,
        address: &Address,
        node: usize,
        probe: bool,
        now: Instant,
    ) -> Result<Self, String> {
        let mut stream = Stream::open(address, &options.target.tls, options.dial_patience())?;
        log_in(&mut stream, options, probe)?;
        stream.set_nonblocking().map_err(|error| format!("cannot make a socket non-blocking: {error}"))?;
        Ok(Self {
            stream,
            role: Role::Load,
            node,
            scanner: Scanner::default(),
            expected: 0,
            commands: 0,
            since: now,
            sent: now,
            batches: 0,
            tries: 0,
            has_failed: false,
            is_lost: false,
            batch: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Writes as much as the socket takes and keeps the rest for [`Self::flush`].
    ///
    /// # Errors
    /// The socket's, but for "not now".
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = write_some(&mut self.stream, bytes)?;
        if written < bytes.len() {
            self.unsent.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Writes what was left over.
    ///
    /// # Errors
    /// As [`Self::send`].
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.unsent.is_empty() {
            let written = write_some(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..written);
        }
        // Ciphertext may wait, too.
        match self.stream.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }
}

fn write_some(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Says who the client is, as the options ask for. With `probe` it also asks for a first reply.
///
/// # Errors
/// In words for the user.
pub fn log_in(stream: &mut Stream, options: &Options, probe: bool) -> Result<(), String> {
    let login = options.target.login()?;
    let mut steps: Vec<Vec<&str>> = Vec::new();
    if let Some(words) = &login {
        steps.push(words.iter().map(String::as_str).collect());
    }
    if options.resp3 {
        steps.push(vec!["HELLO", "3"]);
    }
    let db = options.db.to_string();
    if options.db != 0 {
        steps.push(vec!["SELECT", &db]);
    }
    if probe {
        steps.push(vec!["PING"]);
    }
    let fail = |error: io::Error| format!("the server did not answer while connecting: {error}");
    stream.set_timeout(Some(options.patience())).map_err(fail)?;
    for step in steps {
        let mut request = format!("*{}\r\n", step.len()).into_bytes();
        for argument in &step {
            request.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
        }
        stream.write_all(&request).map_err(fail)?;
        let mut scanner = Scanner::default();
        let mut buffer = [0; 4096];
        loop {
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count.map_err(fail)?,
            };
            if count == 0 {
                return Err(format!("the server closed the connection at {}", step[0]));
            }
            let replies = scanner.feed(&buffer[..count], &mut Tally::default());
            if replies.map_err(|byte| not_resp(byte.0))? > 0 {
                break;
            }
        }
        if scanner.last() == Kind::Error {
            let message = explained(scanner.message().to_owned());
            return Err(format!("the server refused {}: {message}", step[0]));
        }
    }
    stream.set_timeout(None).map_err(fail)
}

/// The error for bytes that are no reply.
pub fn not_resp(byte: u8) -> String {
    format!("the server's reply is not RESP: unexpected byte {:?}", char::from(byte))
}

//! The TLS state of one connection, between ciphertext and plaintext.
//!
//! Nothing of it grows without a bound: ciphertext waits for the rest of a record only, plaintext never waits here, and
//! what could not be sent is at most one batch.

use std::io::IoSlice;
use std::sync::Arc;

use membership::certificates::common_name;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, ServerConfig};

use super::{Buffer, Greeting, HANDSHAKE_BYTES};

/// Bytes of a record's head: its type, its version, its length.
const HEAD: usize = 5;
/// The first byte of a connection that begins with TLS: a record of the handshake. No command begins with it.
const RECORD: u8 = 0x16;
/// Bytes of plaintext in a full record.
const FULL: usize = 16 * 1024;
/// Bytes that encryption adds to a record at most.
const OVERHEAD: usize = 64;
/// Bytes of ciphertext that wait for the rest of a record, beyond a handshake: a record, and messages over several.
const PARTIAL_MAX: usize = 128 * 1024;

/// Records in a row that the library may want to send by itself.
const ANSWERS_MAX: usize = 64;

/// The news of a connection.
pub enum Heard<'a> {
    /// The handshake is done; the common name in the client's certificate, if the client has shown one.
    Open(Option<&'a [u8]>),
    /// Plaintext.
    Data(&'a [u8]),
}

/// The sort of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Its first byte is not TLS's.
    Plain,
    /// It is in its handshake.
    Greets,
    /// The handshake is done.
    Open,
}

enum State {
    /// Nothing has come. `either`: it may turn out to be plain.
    Fresh { config: Arc<ServerConfig>, either: bool },
    /// The connection of the library.
    Begun(Box<UnbufferedServerConnection>),
}

/// The TLS state of one connection.
pub struct Session {
    state: State,
    open: bool,
    /// Its handshake counts as one under way.
    greeting: Option<Arc<Greeting>>,
    /// It waits for a turn that may take a step of its handshake.
    pub queued: bool,
    /// The client has said that it sends no more.
    ended: bool,
    /// Ciphertext that is not a whole record, or not a whole message of the handshake.
    partial: Vec<u8>,
    /// Ciphertext that the socket had no room for.
    pub unsent: Buffer,
}

impl Session {
    /// For a connection that has sent nothing yet. `either`: its first byte says whether it speaks TLS.
    pub fn new(config: Arc<ServerConfig>, either: bool) -> Self {
        let state = State::Fresh { config, either };
        Self {
            state,
            open: false,
            greeting: None,
            queued: false,
            ended: false,
            partial: Vec::new(),
            unsent: Buffer::default(),
        }
    }

    /// True if the handshake is done.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// True if the first byte says whether it speaks TLS, and has not come.
    pub fn may_be_plain(&self) -> bool {
        matches!(self.state, State::Fresh { either: true, .. }) && self.greeting.is_none()
    }

    /// True if its handshake counts as one under way, or is done.
    pub fn greets(&self) -> bool {
        self.open || self.greeting.is_some()
    }

    /// Its handshake counts from now on until it is done.
    pub fn begin_greeting(&mut self, greeting: Arc<Greeting>) {
        self.greeting = Some(greeting);
    }

    /// True if the client has said that it sends no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True if another worker could take it.
    pub fn is_at_rest(&self) -> bool {
        self.open && self.partial.is_empty() && self.unsent.is_empty()
    }

    /// Decides by the first byte. A connection that is [`Sort::Plain`] needs no session.
    pub fn sort(&self, bytes: &[u8]) -> Sort {
        match &self.state {
            State::Fresh { .. } if self.may_be_plain() && bytes.first() != Some(&RECORD) => Sort::Plain,
            State::Begun(_) if self.open => Sort::Open,
            State::Begun(_) | State::Fresh { .. } => Sort::Greets,
        }
    }

    /// Keeps ciphertext of a handshake for [`Self::greet`]. False: no more may be read before that.
    pub fn keep(&mut self, bytes: &[u8]) -> bool {
        self.partial.extend_from_slice(bytes);
        self.open || self.partial.len() <= HANDSHAKE_BYTES
    }

    /// Takes the ciphertext that was kept.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn greet(&mut self, out: &mut Buffer, hear: impl FnMut(Heard<'_>)) -> Result<(), Error> {
        let mut kept = std::mem::take(&mut self.partial);
        self.take(&mut kept, out, hear)
    }

    /// Takes ciphertext that has come, and decrypts it in place. What is to be sent in answer goes to `out`.
    ///
    /// # Errors
    /// The client does not speak TLS as it should, or its certificate is refused: the connection is to be closed when
    /// `out` is sent, which tells the reason.
    pub fn take(
        &mut self,
        mut incoming: &mut [u8],
        out: &mut Buffer,
        mut hear: impl FnMut(Heard<'_>),
    ) -> Result<(), Error> {
        if let State::Fresh { .. } = self.state
            && self.partial.is_empty()
            && incoming.first().is_some_and(|first| *first != RECORD)
        {
            // The client would not understand an alert.
            return Err(Error::General("the client does not speak TLS".to_owned()));
        }
        while !self.partial.is_empty() && !incoming.is_empty() {
            let missing = missing(&self.partial).min(incoming.len());
            let (piece, rest) = std::mem::take(&mut incoming).split_at_mut(missing);
            incoming = rest;
            self.partial.extend_from_slice(piece);
            let mut partial = std::mem::take(&mut self.partial);
            let taken = self.process(&mut partial, out, &mut hear)?;
            partial.drain(..taken);
            self.partial = partial;
            self.check_partial()?;
        }
        if !incoming.is_empty() {
            let taken = self.process(incoming, out, &mut hear)?;
            self.partial = incoming[taken..].to_vec();
        }
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        self.check_partial()
    }

    fn check_partial(&self) -> Result<(), Error> {
        let most = if self.open { PARTIAL_MAX } else { HANDSHAKE_BYTES };
        let fits = self.partial.len() <= most;
        if fits { Ok(()) } else { Err(Error::General("a message of the handshake is too long".to_owned())) }
    }

    fn begin(&mut self) -> Result<&mut UnbufferedServerConnection, Error> {
        if let State::Fresh { config, .. } = &self.state {
            self.state = State::Begun(Box::new(UnbufferedServerConnection::new(Arc::clone(config))?));
        }
        match &mut self.state {
            State::Begun(connection) => Ok(connection),
            State::Fresh { .. } => Err(Error::HandshakeNotComplete),
        }
    }

    /// Decrypts whole records. Returns how many bytes they had.
    fn process(
        &mut self,
        bytes: &mut [u8],
        out: &mut Buffer,
        hear: &mut impl FnMut(Heard<'_>),
    ) -> Result<usize, Error> {
        let (mut open, mut ended, mut at) = (self.open, self.ended, 0);
        let mut early = Vec::new();
        let connection = self.begin()?;
        let result = loop {
            let UnbufferedStatus { discard, state } = connection.process_tls_records(&mut bytes[at..]);
            let mut more = 0;
            let mut done = false;
            match state {
                Err(why) => {
                    tell(connection, &mut bytes[at + discard..], out);
                    break Err(why);
                }
                // Plaintext that comes together with the end of the handshake is passed on after it.
                Ok(ConnectionState::ReadTraffic(mut traffic)) if !open => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        more += record.discard;
                        early.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        more += record.discard;
                        hear(Heard::Data(record.payload));
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => ended = true,
                // No early data is accepted.
                Ok(ConnectionState::ReadEarlyData(_)) => break Err(Error::HandshakeNotComplete),
                // Blocked, closed, or at rest.
                Ok(_) => done = true,
            }
            at += discard + more;
            if !open && !connection.is_handshaking() {
                open = true;
                let certificate = connection.peer_certificates().and_then(<[_]>::first);
                hear(Heard::Open(certificate.and_then(|certificate| common_name(certificate))));
                if !early.is_empty() {
                    hear(Heard::Data(&std::mem::take(&mut early)));
                }
            }
            if done {
                break Ok(at);
            }
        };
        (self.open, self.ended) = (open, ended);
        if open {
            self.greeting = None;
        }
        result
    }

    /// Encrypts the next bytes of the pieces, and says how many there were. Records are as large as can be.
    ///
    /// # Errors
    /// The library cannot encrypt, or the handshake is not done.
    pub fn seal(&mut self, pieces: &[IoSlice<'_>], plain: &mut Vec<u8>, out: &mut Buffer) -> Result<usize, Error> {
        let mut sealed = 0;
        plain.clear();
        for piece in pieces {
            let mut rest: &[u8] = piece;
            sealed += rest.len();
            // Full records straight from where they are.
            if plain.is_empty() && rest.len() >= FULL {
                let whole = rest.len() - rest.len() % FULL;
                self.encrypt(&rest[..whole], out)?;
                rest = &rest[whole..];
            }
            while !rest.is_empty() {
                let n = rest.len().min(FULL - plain.len());
                plain.extend_from_slice(&rest[..n]);
                rest = &rest[n..];
                if plain.len() == FULL {
                    self.encrypt(plain, out)?;
                    plain.clear();
                }
            }
        }
        if !plain.is_empty() {
            self.encrypt(plain, out)?;
        }
        Ok(sealed)
    }

    fn encrypt(&mut self, bytes: &[u8], out: &mut Buffer) -> Result<(), Error> {
        if !self.open {
            return Err(Error::HandshakeNotComplete);
        }
        let State::Begun(connection) = &mut self.state else { return Err(Error::HandshakeNotComplete) };
        // Answers to requests for new keys go first; the library bounds them.
        for _ in 0..ANSWERS_MAX {
            // Not an empty buffer: the library may remember places in this one.
            let UnbufferedStatus { discard, state } = connection.process_tls_records(&mut self.partial);
            match state? {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, out)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.ended = true,
                ConnectionState::WriteTraffic(mut traffic) => {
                    let room = bytes.len() + (bytes.len() / FULL + 4) * OVERHEAD;
                    let n = traffic.encrypt(bytes, out.room(room)).map_err(|why| Error::General(why.to_string()))?;
                    out.wrote(n);
                    self.partial.drain(..discard);
                    return Ok(());
                }
                _ => break,
            }
            self.partial.drain(..discard);
        }
        Err(Error::General("TLS cannot encrypt now".to_owned()))
    }

    /// Tells the client that nothing more follows.
    pub fn close(&mut self, out: &mut Buffer) {
        if let State::Begun(connection) = &mut self.state
            && self.open
            && let Ok(ConnectionState::WriteTraffic(mut traffic)) =
                connection.process_tls_records(&mut self.partial).state
            && let Ok(n) = traffic.queue_close_notify(out.room(256))
        {
            out.wrote(n);
        }
    }
}

/// Writes the alert that tells the client the fault. `rest`: the bytes that the library has not discarded.
fn tell(connection: &mut UnbufferedServerConnection, mut rest: &mut [u8], out: &mut Buffer) {
    // As long as the library has something to send, it looks at no input. It must not look at any again.
    while connection.wants_write() {
        let UnbufferedStatus { discard, state } = connection.process_tls_records(rest);
        let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
        if encode(&mut data, out).is_err() {
            return;
        }
        rest = &mut rest[discard..];
    }
}

fn encode<T>(data: &mut rustls::unbuffered::EncodeTlsData<'_, T>, out: &mut Buffer) -> Result<(), Error> {
    let mut least = 1024;
    loop {
        match data.encode(out.room(least)) {
            Ok(n) => {
                out.wrote(n);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if size.required_size > least => least = size.required_size,
            Err(why) => return Err(Error::General(why.to_string())),
        }
    }
}

/// Bytes that the last record lacks, or its head. Whole records lack the head of the next.
fn missing(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&[_, _, _, high, low]) = bytes.get(at..at + HEAD) {
        at += HEAD + usize::from(u16::from_be_bytes([high, low]));
    }
    if at > bytes.len() { at - bytes.len() } else { at + HEAD - bytes.len() }
}

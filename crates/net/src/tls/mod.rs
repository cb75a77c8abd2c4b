//! TLS for clients: the configuration of listeners, and the state of one connection.
//!
//! A [`Session`] takes ciphertext and gives plaintext, and the other way round; it knows no socket. Drivers keep it in
//! their [`Socket`](crate::socket::Socket), so a plain connection pays for one look at an empty pointer a read.

mod buffer;
mod configuration;
mod greetings;
mod session;
#[cfg(test)]
mod session_test;
mod store;
mod suites;
#[cfg(test)]
pub mod testing;

use node::{Node, Token, UnixMs};

use crate::socket::Socket;

pub use buffer::Buffer;
pub use configuration::Tls;
pub use greetings::{Greeting, Greetings};
pub use session::{Heard, Session, Sort};

/// Bytes of output that are encrypted at once: four records of full size.
pub const SEAL_BYTES: usize = 64 * 1024;
/// Bytes of ciphertext that are read at once: as many records.
pub const READ_BYTES: usize = 4 * (16 * 1024 + 256 + 5);
/// Bytes of ciphertext before the end of a handshake. The longest message of it is a client's chain of certificates.
pub const HANDSHAKE_BYTES: usize = 32 * 1024;
/// Milliseconds that a handshake may take.
pub const HANDSHAKE_MS: u64 = 10_000;
/// Milliseconds after which a handshake gives way if there are many.
pub const CROWDED_MS: u64 = 2_000;
/// Between two lines in the log about handshakes that failed.
const COMPLAIN_MS: u64 = 1_000;

/// The buffers of a driver for all its connections that speak TLS. They take memory only where there are any.
#[derive(Default)]
pub struct Kit {
    /// Where ciphertext is read to.
    pub read: Vec<u8>,
    /// Ciphertext to send.
    pub sealed: Buffer,
    /// Where small pieces of output become one record.
    pub plain: Vec<u8>,
    /// Handshakes under way.
    pub greetings: Greetings,
    /// Steps of handshakes that this turn may still take.
    pub steps_left: usize,
    /// Steps that every turn may take.
    steps: usize,
    /// Handshakes that may be under way: so many that others still get in.
    most: usize,
    /// The moment before which no failed handshake is logged, and how many there were since the last line.
    silent_until: UnixMs,
    unsaid: u64,
}

impl Kit {
    /// Begins a turn.
    pub fn turn(&mut self) {
        self.steps_left = self.steps;
    }

    /// Takes over the settings.
    pub fn follow(&mut self, node: &Node) {
        let settings = node.config.settings();
        self.steps = settings.max_new_tls_connections_per_cycle;
        self.most = (settings.maxclients as usize / 2 / node.workers()).max(16);
    }

    /// Notes that the handshake of a connection begins.
    pub fn begin(&mut self, token: Token, session: &mut Session, now: UnixMs) {
        if !session.greets() {
            session.begin_greeting(self.greetings.begin(token, now));
        }
    }

    /// The next connection whose handshake is to end.
    pub fn overdue(&mut self, now: UnixMs) -> Option<Token> {
        self.greetings.overdue(now, self.most)
    }

    /// Logs that a handshake has failed, as Redis does, but not each of many.
    pub fn complain(&mut self, now: UnixMs, socket: &Socket, why: &str) {
        if now < self.silent_until {
            self.unsaid += 1;
            return;
        }
        self.silent_until = now + COMPLAIN_MS;
        let others = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            n => format!(", and {n} others since the last line"),
        };
        tracing::warn!("Error accepting a client connection: {why} ({}){others}", socket.addresses());
    }
}

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

use node::Node;

pub use buffer::Buffer;
pub use configuration::Tls;
pub use greetings::Greetings;
pub use session::{Heard, Session, Sort};

/// Bytes of output that are encrypted at once: four records of full size.
pub const SEAL_BYTES: usize = 64 * 1024;
/// Bytes of ciphertext that are read at once: as many records.
pub const READ_BYTES: usize = 4 * (16 * 1024 + 256 + 5);
/// Bytes of ciphertext before the end of a handshake. The longest message of it is a client's chain of certificates.
pub const HANDSHAKE_BYTES: usize = 32 * 1024;
/// Milliseconds that a handshake may take.
pub const HANDSHAKE_MS: u64 = 10_000;

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
}

impl Kit {
    /// Begins a turn.
    pub fn turn(&mut self) {
        self.steps_left = self.steps;
    }

    /// Takes over the settings.
    pub fn follow(&mut self, node: &Node) {
        self.steps = node.config.settings().max_new_tls_connections_per_cycle;
    }
}

/// Handshakes that may be under way at a worker: so many that others still get in.
pub fn most_greetings(node: &Node) -> usize {
    (node.config.settings().maxclients as usize / 2 / node.workers()).max(16)
}

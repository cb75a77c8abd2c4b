//! HTTP where commands are expected. A page in somebody's browser can have it send a request to a server that only the browser's machine may speak to, with commands
//! as its body: cross protocol scripting. Every line of a request is an inline command here, and errors keep nobody from going on; so, as with Redis, a request
//! ends at its first line or at the header that it cannot be without.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::execute::Next;

/// Between two lines of the log about it, in milliseconds: whoever does it may do it often.
const TOLD_MS: u64 = 60_000;

/// When it was said last, in Unix milliseconds; 0: never.
#[derive(Default)]
pub(crate) struct Told(AtomicU64);

impl Told {
    /// Whether it is to be said now; it is said then.
    fn is_due(&self, now: u64) -> bool {
        let last = self.0.load(Relaxed);
        let is_due = last == 0 || now.abs_diff(last) > TOLD_MS;
        is_due && self.0.compare_exchange(last, now.max(1), Relaxed, Relaxed).is_ok()
    }
}

/// Whether what is called is no command but a request of HTTP, whose body would be commands.
pub(crate) fn is_request(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

impl Worker {
    /// Closes the connection: nothing that it has sent behind this is executed.
    pub(crate) fn close_to_http(&mut self, conn: &mut Conn) -> Next {
        if self.node.http.is_due(self.engine.now()) {
            tracing::warn!(
                client = conn.session.client.id,
                address = conn.session.client.peer.address,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands. This is likely due to an attacker \
                 attempting to use Cross Protocol Scripting to compromise this server. Connection aborted."
            );
        }
        self.end_session(conn);
        Next::Stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_minute() {
        let told = Told::default();
        let said: Vec<u64> = (0..200_000).step_by(1000).filter(|now| told.is_due(*now)).collect();
        assert_eq!(said, [0, 61_000, 122_000, 183_000]);
    }
}

//! Large arguments: what they lack is read straight into the query buffer instead of being copied there from provided buffers.
//!
//! The multishot receive is cancelled, and a poll takes its place until the argument has arrived. Reads are plain system calls, so
//! that the kernel never holds on to a query buffer.

use std::io;

use node::Token;

use super::Uring;

/// With less lacking it is not worth the calls.
const LEAST: usize = 64 * 1024;

/// Whether a connection whose argument lacks so many bytes is polled and read from.
pub fn is_worth_a_poll(lacking: usize) -> bool {
    lacking >= LEAST
}

impl Uring {
    /// Cancels the receives of those who were found to be sending a large argument.
    pub(super) fn switch_to_polls(&mut self) -> io::Result<()> {
        let mut filled = std::mem::take(&mut self.filled);
        for place in filled.drain(..) {
            let Some(conn) = self.conns[place as usize].as_mut() else { continue };
            let settled = !conn.receiving || conn.polling || conn.switching || conn.doomed;
            if !settled && is_worth_a_poll(self.worker.lacks(conn.token)) {
                conn.switching = true;
                self.cancel_receive(place)?;
            }
        }
        self.filled = filled;
        Ok(())
    }

    /// Reads from a connection that has something to read: no more than the argument lacks, the rest comes the usual way.
    pub(super) fn read(&mut self, place: u32, token: Token) -> io::Result<()> {
        let most = self.worker.lacks(token).min(self.read_left);
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        if let Some(to) = conn.moving.take() {
            return self.hand_over(place, token, to);
        }
        if most == 0 {
            // Next turn, or the usual way.
            self.rearm.push(place);
            return Ok(());
        }
        let Some(buffer) = self.worker.space(token) else {
            // The worker says when it can do with more.
            conn.held = true;
            return Ok(());
        };
        match conn.socket.read_into(buffer, most) {
            Ok(0) => {
                conn.ended = true;
                self.worker.ended(token);
                return Ok(());
            }
            Ok(n) => {
                self.read_left -= n;
                self.worker.received(token, n);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return self.doom(place),
        }
        self.rearm.push(place);
        Ok(())
    }
}

//! Large arguments: the driver reads the rest of one straight into the query buffer, without a copy from provided
//! buffers.
//!
//! It cancels the multishot receive, and polls until the argument has arrived. It reads by plain system calls, so the
//! kernel never holds on to a query buffer.

use std::io;

use node::Token;

use super::Uring;

/// Fewer missing bytes are not worth the calls.
const LEAST: usize = 64 * 1024;

/// True if it pays to poll a connection whose argument lacks so many bytes.
pub fn is_worth_a_poll(lacking: usize) -> bool {
    lacking >= LEAST
}

impl Uring {
    /// Cancels the receives of connections that send a large argument.
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

    /// Reads from a ready connection, but only the bytes that the argument lacks. Others arrive by a receive.
    pub(super) fn read(&mut self, place: u32, token: Token) -> io::Result<()> {
        let most = self.worker.lacks(token).min(self.read_left);
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        if let Some(to) = conn.moving.take() {
            return self.hand_over(place, token, to);
        }
        if most == 0 {
            // The rest comes in the next turn, or by a receive.
            self.rearm.push(place);
            return Ok(());
        }
        let Some(buffer) = self.worker.space(token) else {
            // The worker says when it can take more.
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

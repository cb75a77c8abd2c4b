//! Finds reset connections that the kernel has not reported.
//!
//! If data and a reset arrive before the ring looks at a socket, the multishot receive delivers the data. Then it waits
//! for a wake-up that is over already (Linux 6.18; "missing EOF on wakeup race"). So the driver polls a connection once
//! when it has gone quiet after it sent something.

use std::io;

use super::Uring;

/// Milliseconds between two rounds.
pub const ROUND_MS: u64 = 1000;

/// The time since a connection last sent something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quiet {
    /// So long ago that the connection has been polled since.
    #[default]
    Looked,
    /// Before the last round began.
    Before,
    /// Since the last round.
    Recently,
}

impl Uring {
    /// Polls connections that have been quiet since the last round. If one has news, its receive is armed anew, which
    /// begins with a check.
    pub(super) fn look_at_quiet(&mut self) -> io::Result<()> {
        let mut polls: Vec<libc::pollfd> = Vec::new();
        let mut places: Vec<u32> = Vec::new();
        for (place, conn) in self.conns.iter_mut().enumerate() {
            let Some(conn) = conn else { continue };
            conn.quiet = match conn.quiet {
                Quiet::Looked => continue,
                Quiet::Recently => Quiet::Before,
                Quiet::Before => {
                    if conn.receiving && !conn.doomed {
                        polls.push(libc::pollfd { fd: conn.socket.fd(), events: libc::POLLRDHUP, revents: 0 });
                        places.push(place as u32);
                    }
                    Quiet::Looked
                }
            };
        }
        if polls.is_empty() {
            return Ok(());
        }
        // SAFETY: the pointer is to as many entries as are named; nothing is waited for.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 0) };
        for (poll, place) in polls.iter().zip(places) {
            if poll.revents != 0 {
                self.cancel_receive(place)?;
            }
        }
        Ok(())
    }
}

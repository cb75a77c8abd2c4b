//! Finds reset connections of which the kernel has not told.
//!
//! When data and a reset arrive before the ring looks at a socket, the multishot receive delivers the data and then
//! waits for a wake-up that has been already (Linux 6.18; "missing EOF on wakeup race"). So the driver looks once at a
//! connection that has gone quiet after it sent something.

use std::io;

use super::Uring;

/// Between two looks.
pub const ROUND_MS: u64 = 1000;

/// How long ago a connection sent something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quiet {
    /// Long enough ago that it has been looked at.
    #[default]
    Looked,
    /// Before the last round.
    Before,
    /// Since the last round.
    Recently,
}

impl Uring {
    /// Looks at connections that have been quiet since the last round. If there is news of one, its receive is armed
    /// anew: a new receive begins with a look.
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

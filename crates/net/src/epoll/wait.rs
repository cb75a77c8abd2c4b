//! Waiting for events.
//!
//! `mio` registers sockets and wakes the driver. It waits through the C library, which makes the wait a cancellation
//! point for the thread: two atomic operations for each turn, as for `recv` (see `socket.rs`).

use std::io;
use std::os::fd::AsRawFd;

use mio::Poll;

/// One event, with the meaning that `mio` gives to its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Event(libc::epoll_event);

impl Event {
    /// The number that the socket was registered with.
    pub(super) fn token(self) -> usize {
        self.0.u64 as usize
    }

    fn has(self, bits: i32) -> bool {
        self.0.events & bits as u32 != 0
    }

    /// There is something to read, or an error to be found by reading.
    pub(super) fn is_readable(self) -> bool {
        self.has(libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLERR)
    }

    /// The socket has room.
    pub(super) fn is_writable(self) -> bool {
        self.has(libc::EPOLLOUT)
    }

    /// The peer sends nothing more.
    pub(super) fn is_read_closed(self) -> bool {
        self.has(libc::EPOLLHUP) || self.has(libc::EPOLLIN) && self.has(libc::EPOLLRDHUP)
    }
}

/// Room for events.
pub(super) struct Events {
    room: Box<[Event]>,
    len: usize,
}

impl Events {
    pub(super) fn new(most: usize) -> Self {
        Self { room: vec![Event(libc::epoll_event { events: 0, u64: 0 }); most].into(), len: 0 }
    }

    /// The events of the last wait.
    pub(super) fn all(&self) -> &[Event] {
        &self.room[..self.len]
    }

    /// Waits for events, at most `ms` milliseconds.
    ///
    /// # Errors
    ///
    /// The system call has failed; [`io::ErrorKind::Interrupted`]: by a signal.
    pub(super) fn wait(&mut self, poll: &Poll, ms: u64) -> io::Result<()> {
        let ms = i32::try_from(ms).unwrap_or(i32::MAX);
        let (fd, at, most) = (poll.as_raw_fd(), self.room.as_mut_ptr(), self.room.len());
        let mask = std::ptr::null::<libc::sigset_t>();
        self.len = 0;
        // SAFETY: the kernel writes at most `most` events, which `Event` has the layout of, and no signal mask is given.
        let n = unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, at, most as i32, ms, mask, size_of::<u64>()) };
        self.len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        Ok(())
    }
}

//! Wakes a worker that waits in its io_uring, by an eventfd that is read through the ring.
//!
//! With DEFER_TASKRUN only events of the ring end the wait.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The descriptor that wakes the worker.
pub struct Waker(OwnedFd);

impl Waker {
    /// Makes a waker.
    ///
    /// # Errors
    ///
    /// The system gives no file descriptor.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: a plain system call; the result is checked and owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new and ours.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The descriptor, to be read through the ring.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Ends the wait, now or the next one.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes eight bytes from the stack; the counter cannot overflow in any real time.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }
}

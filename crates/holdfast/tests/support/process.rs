//! Actions on a process or a socket that take a system call.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Sends SIGTERM to a child that has not been waited for.
pub fn terminate(pid: u32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid as i32, libc::SIGTERM) };
}

/// Sets the limit of open files of a running process. Returns the former limit.
pub fn limit_files(pid: u32, most: u64) -> u64 {
    let pid = pid as i32;
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to valid values of ours for the time of the calls, or null.
    let failed = unsafe {
        let read = libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut old);
        let new = libc::rlimit { rlim_cur: most, ..old };
        read | libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut())
    };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    old.rlim_cur
}

/// Makes the close of a socket a reset.
pub fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option is a `linger`, and of its size.
    unsafe {
        let value = (&raw const linger).cast();
        let size = size_of::<libc::linger>() as u32;
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size);
    }
}

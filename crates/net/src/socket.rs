//! Stream sockets, TCP and unix, as drivers use them.

use std::io::{self, IoSlice};
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use node::{Detached, Outgoing, Peer, SLICES, Token};

use crate::tls::Session;

/// Bytes sent to one connection before the others get their turn.
pub const SEND_BYTES: usize = 1 << 20;
/// Bytes received from one connection before the others get their turn.
pub const READ_BYTES: usize = 1 << 20;
/// Bytes received in one turn: about half a millisecond, more on a busy machine.
pub const READ_BYTES_PER_TURN: usize = 2 << 20;
/// Bytes sent in one turn.
pub const SEND_BYTES_PER_TURN: usize = 2 << 20;

/// A connected, non-blocking stream socket.
pub struct Socket {
    fd: OwnedFd,
    /// Its TLS state. None: it is plain.
    pub tls: Option<Box<Session>>,
}

/// `recv` without a cancellation point for the thread. In a process with threads the point costs two atomic operations
/// a call, a hundredth of a GET.
///
/// # Safety
/// `room` bytes at `at` may be written.
unsafe fn recv(fd: RawFd, at: *mut u8, room: usize) -> libc::c_long {
    // SAFETY: the caller's promise. The arguments are those of recvfrom(2), without a place for the sender's address.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, room, 0, std::ptr::null::<u8>(), std::ptr::null::<u8>()) }
}

/// `send`, in the same way.
///
/// # Safety
/// There are `len` bytes at `at`.
unsafe fn send(fd: RawFd, at: *const u8, len: usize) -> libc::c_long {
    // SAFETY: the caller's promise. The arguments are those of sendto(2), without an address, as the socket is
    // connected.
    unsafe { libc::syscall(libc::SYS_sendto, fd, at, len, libc::MSG_NOSIGNAL, std::ptr::null::<u8>(), 0) }
}

impl Socket {
    /// Takes over a connected stream and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// The stream cannot be made non-blocking.
    pub fn new(stream: impl IntoRawFd) -> io::Result<Socket> {
        // SAFETY: the stream owned the descriptor and has given it up.
        let fd = unsafe { OwnedFd::from_raw_fd(stream.into_raw_fd()) };
        // SAFETY: plain fcntl calls on a descriptor we own.
        let ok = unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            flags >= 0 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
        };
        if ok { Ok(Socket { fd, tls: None }) } else { Err(io::Error::last_os_error()) }
    }

    /// True if another worker could take it.
    pub fn is_at_rest(&self) -> bool {
        self.tls.as_ref().is_none_or(|session| session.is_at_rest())
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads at most `most` bytes into the spare room of `buffer` by one system call. Returns their number, 0 at the
    /// end of the stream.
    ///
    /// # Errors
    ///
    /// The system call has failed; [`io::ErrorKind::WouldBlock`]: nothing has come.
    pub fn read_into(&self, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let spare = buffer.spare_capacity_mut();
        let room = spare.len().min(most);
        // SAFETY: the kernel writes at most `room` bytes to the spare room.
        let n = unsafe { recv(self.fd(), spare.as_mut_ptr().cast(), room) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel has initialised `n` bytes behind the length.
        unsafe { buffer.set_len(buffer.len() + n) };
        Ok(n)
    }

    /// Reads into a slice by one system call. Returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_into`].
    pub fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most the length of the slice.
        let n = unsafe { recv(self.fd(), to.as_mut_ptr(), to.len()) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Sends as many of `bytes` as it can by one system call.
    ///
    /// # Errors
    ///
    /// The system call has failed; [`io::ErrorKind::WouldBlock`]: there is no room.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the kernel reads at most `bytes.len()` bytes.
        let n = unsafe { send(self.fd(), bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Sends as much of `out` as it can, but at most `most` bytes, by one system call.
    ///
    /// # Errors
    ///
    /// Those of [`Self::send`].
    pub fn send_out(&self, out: &Outgoing, most: usize) -> io::Result<usize> {
        if out.is_plain() {
            let bytes = out.plain();
            return self.send(&bytes[..bytes.len().min(most)]);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = out.slices(&mut slices, most);
        // SAFETY: all zeros is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_mut_ptr().cast();
        message.msg_iovlen = count as _;
        // SAFETY: `IoSlice` has the layout of `iovec`; there are `count` of them, and the kernel only reads.
        let n = unsafe { libc::sendmsg(self.fd(), &raw const message, libc::MSG_NOSIGNAL) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// The addresses of both ends, as log lines have them.
    pub fn addresses(&self) -> String {
        // SAFETY: the descriptor is ours and open; `ManuallyDrop` leaves it so.
        let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(self.fd()) });
        let text = |address: io::Result<SocketAddr>| address.map_or_else(|_| "?".to_owned(), |a| a.to_string());
        format!("addr={} laddr={}", text(stream.peer_addr()), text(stream.local_addr()))
    }

    /// Ends sending: even waiting bytes are not sent. The descriptor stays open.
    pub fn end_sending(&self) {
        // SAFETY: a plain system call on our descriptor; that it is closed already is no harm.
        unsafe { libc::shutdown(self.fd(), libc::SHUT_WR) };
    }

    fn set_option(&self, level: i32, name: i32, value: i32) {
        // SAFETY: the option is an int. A socket without the option returns an error, which changes nothing.
        unsafe {
            libc::setsockopt(self.fd(), level, name, (&raw const value).cast(), size_of::<i32>() as u32);
        }
    }

    /// Makes the connection end when the peer acknowledges nothing for `ms` milliseconds.
    pub fn give_up_after(&self, ms: i32) {
        self.set_option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms);
    }

    /// Sends small replies at once, and finds dead peers after about `keepalive` seconds (0: never).
    pub fn tune_tcp(&self, keepalive: u32) {
        self.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        if keepalive > 0 {
            let idle = i32::try_from(keepalive).unwrap_or(i32::MAX);
            self.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
            self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle);
            self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (idle / 3).max(1));
            self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3);
        }
    }
}

/// The most descriptors of the process. `u64::MAX` if the system does not say.
pub fn most_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain system call that fills `limit`.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if read { limit.rlim_cur } else { u64::MAX }
}

/// The lowest free descriptor, if any. `open` is one that is in use.
pub fn first_free(open: RawFd) -> Option<RawFd> {
    // SAFETY: a plain system call; nobody else knows the new descriptor.
    let free = unsafe { libc::fcntl(open, libc::F_DUPFD_CLOEXEC, 0) };
    if free < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and ours.
    drop(unsafe { OwnedFd::from_raw_fd(free) });
    Some(free)
}

/// A socket on its way to a worker's driver.
pub enum Incoming {
    /// A client has connected.
    Client {
        /// The socket.
        socket: Socket,
        /// The address of the client.
        peer: Peer,
    },
    /// A client that another worker had before.
    Moved {
        /// The socket.
        socket: Socket,
        /// Its session.
        session: Box<Detached>,
    },
    /// Another node's link, whose handshake is done.
    Link {
        /// The socket.
        socket: Socket,
        /// The other node.
        from: String,
    },
    /// A link that the worker has asked for.
    Dialed {
        /// The worker's name for it.
        token: Token,
        /// The socket, whose handshake is done; `None`: the link could not be connected.
        socket: Option<Socket>,
    },
}

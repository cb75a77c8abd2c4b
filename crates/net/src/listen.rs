//! Listeners and the acceptor: the one thread that accepts connections and deals them out to workers.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use node::Peer;

use crate::socket::{Incoming, Socket};
use crate::tls::{Session, Tls};

/// The language of a listener's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// The protocol as it is.
    Plain,
    /// The protocol within TLS.
    Tls,
    /// Either: a client's first byte tells which.
    Either,
}

/// One listening socket.
pub enum Listener {
    /// On an address and port. True if it is for smart clients.
    Tcp(TcpListener, bool, Speaks),
    /// On a path, which is removed when the listener goes.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on an address and port, for clients without TLS. `smart`: for smart clients.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn tcp(address: &SocketAddr, backlog: i32, smart: bool) -> io::Result<Listener> {
        Self::speaking(address, backlog, smart, Speaks::Plain)
    }

    /// As [`Self::tcp`], for clients of this language.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn speaking(address: &SocketAddr, backlog: i32, smart: bool, speaks: Speaks) -> io::Result<Listener> {
        Ok(Listener::Tcp(bind_tcp(address, backlog)?, smart, speaks))
    }

    /// The language of its clients.
    pub fn speaks(&self) -> Speaks {
        match self {
            Listener::Tcp(_, _, speaks) => *speaks,
            Listener::Unix(..) => Speaks::Plain,
        }
    }

    /// Listens on a unix socket. A socket file left behind by a server that is gone is replaced.
    ///
    /// # Errors
    ///
    /// The socket file there cannot be replaced, or the path cannot be listened on.
    pub fn unix(path: &Path, mode: u32, backlog: i32) -> io::Result<Listener> {
        if path.metadata().is_ok_and(|m| m.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        if mode != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        // SAFETY: a plain system call on a descriptor of ours: it only changes the backlog that `bind` chose.
        unsafe { libc::listen(listener.as_raw_fd(), backlog) };
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener, path.to_path_buf()))
    }

    /// The address that it listens on; a unix socket has none.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener, ..) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    /// True if it is for smart clients.
    pub fn is_smart(&self) -> bool {
        matches!(self, Listener::Tcp(_, true, _))
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> i32 {
        match self {
            Listener::Tcp(l, ..) => l.as_raw_fd(),
            Listener::Unix(l, _) => l.as_raw_fd(),
        }
    }

    /// Accepts one connection.
    ///
    /// # Errors
    ///
    /// No connection waits ([`io::ErrorKind::WouldBlock`]), or it cannot be accepted or set up.
    pub(crate) fn accept(&self, keepalive: u32, tls: &Tls) -> io::Result<Incoming> {
        match self {
            Listener::Tcp(listener, smart, speaks) => {
                let (stream, from) = listener.accept()?;
                let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                let loopback = from.ip().to_canonical().is_loopback();
                let mut socket = Socket::new(stream)?;
                socket.tune_tcp(keepalive);
                socket.tls = session(*speaks, tls)?;
                let (address, fd) = (from.to_string(), socket.fd());
                let tls = *speaks == Speaks::Tls;
                let peer = Peer { address, local, unix: false, loopback, tls, fd, smart: *smart };
                Ok(Incoming::Client { socket, peer })
            }
            Listener::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                let address = format!("{}:0", path.display());
                let socket = Socket::new(stream)?;
                let (local, fd) = (address.clone(), socket.fd());
                let peer = Peer { address, local, unix: true, loopback: true, fd, ..Peer::default() };
                Ok(Incoming::Client { socket, peer })
            }
        }
    }
}

/// The TLS state of a new connection. None: it is plain.
fn session(speaks: Speaks, tls: &Tls) -> io::Result<Option<Box<Session>>> {
    match (speaks, tls.config()) {
        (Speaks::Plain, _) | (Speaks::Either, None) => Ok(None),
        (_, Some(config)) => Ok(Some(Box::new(Session::new(config, speaks == Speaks::Either)))),
        // TLS has been turned off a moment ago.
        (Speaks::Tls, None) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sockets that the parent of this process has opened. They listen while no process is there to accept.
static INHERITED: OnceLock<Vec<TcpListener>> = OnceLock::new();

/// Has every later listener on an address of one of these take that socket. Once; the sockets are in non-blocking mode.
pub fn inherit(listeners: Vec<TcpListener>) {
    let _ = INHERITED.set(listeners);
}

fn inherited(address: &SocketAddr) -> Option<&'static TcpListener> {
    let is_there = |listener: &&TcpListener| listener.local_addr().is_ok_and(|at| at == *address);
    INHERITED.get()?.iter().find(is_there)
}

/// Binds with SO_REUSEADDR and the configured backlog, which `TcpListener::bind` does not offer.
fn bind_tcp(address: &SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    if let Some(listener) = inherited(address) {
        return listener.try_clone();
    }
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: a plain system call; the result is checked and owned below.
    let fd = unsafe { libc::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    let one = 1i32;
    // SAFETY: an int option on our descriptor.
    unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, (&raw const one).cast(), 4);
        if !address.is_ipv4() {
            libc::setsockopt(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, (&raw const one).cast(), 4);
        }
    }
    let (storage, len) = raw_address(address);
    // SAFETY: `storage` holds an address of `len` bytes.
    let failed = unsafe { libc::bind(fd, (&raw const storage).cast(), len) != 0 || libc::listen(fd, backlog) != 0 };
    if failed { Err(io::Error::last_os_error()) } else { Ok(listener) }
}

fn raw_address(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

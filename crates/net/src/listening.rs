//! The listeners of a node, and changing them while it runs (CONFIG SET port, bind).

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use node::config::Settings;

use crate::listen::Listener;

/// The listeners that the acceptor accepts from; clones share them.
#[derive(Clone)]
pub struct Listening(Arc<Shared>);

struct Shared {
    listeners: Mutex<Vec<Listener>>,
    /// Where the acceptor waits.
    registry: Registry,
}

/// Opens the listeners that the settings name.
///
/// # Errors
/// The first address that cannot be listened on, unless it is marked with `-` and missing on this machine.
pub fn listeners(settings: &Settings) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for (address, optional) in addresses(settings)? {
        listeners.extend(open(address, optional, settings.tcp_backlog)?);
    }
    if let Some(path) = &settings.unixsocket {
        let path = String::from_utf8_lossy(path).into_owned();
        let listener = Listener::unix(Path::new(&path), settings.unixsocketperm, settings.tcp_backlog);
        listeners.push(listener.map_err(|error| named(&error, &path))?);
    }
    Ok(listeners)
}

/// The addresses that `bind` and `port` name, and whether each may be missing.
fn addresses(settings: &Settings) -> io::Result<Vec<(SocketAddr, bool)>> {
    let mut found = Vec::new();
    if settings.port == 0 {
        return Ok(found);
    }
    for bind in &settings.bind {
        let (host, optional) = match bind.strip_prefix('-') {
            Some(host) => (host, true),
            None => (bind.as_str(), false),
        };
        let host = match host {
            "*" => "0.0.0.0",
            "::*" => "::",
            host => host,
        };
        match (host, settings.port).to_socket_addrs() {
            Ok(addresses) => found.extend(addresses.map(|address| (address, optional))),
            Err(_) if optional => {}
            Err(error) => return Err(named(&error, host)),
        }
    }
    // A name may stand for an address that another one stands for, too.
    let mut seen = Vec::new();
    found.retain(|(address, _)| {
        let new = !seen.contains(address);
        seen.push(*address);
        new
    });
    Ok(found)
}

fn open(address: SocketAddr, optional: bool, backlog: i32) -> io::Result<Option<Listener>> {
    match Listener::tcp(&address, backlog) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if optional && error.kind() != io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(named(&error, &address.to_string())),
    }
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {what}: {error}"))
}

impl Listening {
    /// Takes listeners to accept from; `registry` is that of the acceptor.
    pub(crate) fn new(listeners: Vec<Listener>, registry: Registry) -> io::Result<Listening> {
        listeners.iter().try_for_each(|listener| watch(&registry, listener))?;
        Ok(Listening(Arc::new(Shared { listeners: Mutex::new(listeners), registry })))
    }

    /// The listeners, locked: none is closed while the acceptor accepts.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens no more.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    /// Listens where the settings say instead. Listeners that stay are not touched.
    ///
    /// # Errors
    /// An address cannot be listened on: everything is as it was before, as far as the system allows.
    pub fn change(&self, settings: &Settings) -> io::Result<()> {
        let wanted = addresses(settings)?;
        let mut listeners = self.lock();
        let stays = |listener: &Listener| match listener.address() {
            Some(address) => wanted.iter().any(|(wanted, _)| *wanted == address),
            // Unix sockets do not change.
            None => true,
        };
        let before = addresses_of(&listeners);
        // Closed before others are opened: `*` and one of the machine's addresses exclude each other.
        listeners.retain(stays);
        let kept = addresses_of(&listeners);
        let missing = wanted.into_iter().filter(|(address, _)| !kept.contains(address));
        let opened = self.add(&mut listeners, missing, settings.tcp_backlog);
        if opened.is_err() {
            listeners.retain(|listener| listener.address().is_none_or(|address| kept.contains(&address)));
            let closed = before.into_iter().filter(|address| !kept.contains(address)).map(|address| (address, false));
            if let Err(error) = self.add(&mut listeners, closed, settings.tcp_backlog) {
                tracing::error!("could not go back to listening as before: {error}");
            }
        }
        opened
    }

    fn add(
        &self,
        listeners: &mut Vec<Listener>,
        addresses: impl Iterator<Item = (SocketAddr, bool)>,
        backlog: i32,
    ) -> io::Result<()> {
        for (address, optional) in addresses {
            if let Some(listener) = open(address, optional, backlog)? {
                watch(&self.0.registry, &listener)?;
                listeners.push(listener);
            }
        }
        Ok(())
    }
}

/// Closing a listener ends its watch by itself.
fn watch(registry: &Registry, listener: &Listener) -> io::Result<()> {
    // All listeners are looked at in every round, so one token is enough.
    registry.register(&mut SourceFd(&listener.fd()), Token(0), Interest::READABLE)
}

fn addresses_of(listeners: &[Listener]) -> Vec<SocketAddr> {
    listeners.iter().filter_map(Listener::address).collect()
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(addresses_of(&self.lock())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(bind: &[&str], port: u16) -> Settings {
        Settings { bind: bind.iter().map(|bind| bind.to_string()).collect(), port, ..Settings::default() }
    }

    /// A port that was free a moment ago.
    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn listening(settings: &Settings) -> (Listening, mio::Poll) {
        let poll = mio::Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        (Listening::new(listeners(settings).unwrap(), registry).unwrap(), poll)
    }

    #[test]
    fn changes_and_stays_when_that_fails() {
        let (first, second) = (free_port(), free_port());
        let (listening, _poll) = listening(&settings(&["127.0.0.1"], first));
        let open = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        listening.change(&settings(&["127.0.0.1", "-203.0.113.1"], second)).unwrap();
        assert!(open(second) && !open(first));
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let error = listening.change(&settings(&["127.0.0.1"], taken.local_addr().unwrap().port())).unwrap_err();
        assert!(error.to_string().contains("cannot listen on 127.0.0.1:"), "{error}");
        assert!(open(second));
        assert!(listening.change(&settings(&["203.0.113.1"], second)).is_err());
        assert!(open(second));
        listening.change(&settings(&["*", "-::*"], second)).unwrap();
        assert!(open(second), "from one address to all of them");
        listening.change(&settings(&["127.0.0.1"], 0)).unwrap();
        assert!(!open(second));
    }
}

//! The listeners of a node, and changing them while it runs (CONFIG SET port, bind).

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use node::config::Settings;

use crate::listen::{Listener, Speaks};
use crate::tls::Tls;

/// The listeners that the acceptor accepts from; clones share them.
#[derive(Clone)]
pub struct Listening(Arc<Shared>);

struct Shared {
    listeners: Mutex<Vec<Listener>>,
    /// The registry of the acceptor's poll.
    registry: Registry,
    /// TLS for those that speak it.
    tls: Tls,
    /// The port for smart clients. Other nodes know it, so it stays when `port` changes. 0: none.
    smart_port: u16,
}

/// An address to listen on.
struct Place {
    address: SocketAddr,
    /// True if the address may be missing on this machine.
    optional: bool,
    /// True if it is for smart clients.
    smart: bool,
    speaks: Speaks,
}

impl Place {
    fn is_of(&self, listener: &Listener) -> bool {
        listener.address() == Some(self.address)
            && listener.is_smart() == self.smart
            && listener.speaks() == self.speaks
    }
}

/// Opens the listeners that the settings name.
///
/// # Errors
/// The server cannot listen on an address. One that is marked with `-` may be missing on this machine.
pub fn listeners(settings: &Settings) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for place in places(settings, settings.port_for_smart_clients())? {
        listeners.extend(open(&place, settings.tcp_backlog)?);
    }
    if let Some(path) = &settings.unixsocket {
        let path = String::from_utf8_lossy(path).into_owned();
        let listener = Listener::unix(Path::new(&path), settings.unixsocketperm, settings.tcp_backlog);
        listeners.push(listener.map_err(|error| named(&error, &path))?);
    }
    Ok(listeners)
}

/// The places that `bind` names, at `port`, `tls-port` and the port for smart clients.
fn places(settings: &Settings, smart_port: u16) -> io::Result<Vec<Place>> {
    let place = |smart, speaks| move |(address, optional)| Place { address, optional, smart, speaks };
    let plain = addresses(settings, settings.port)?.into_iter().map(place(false, Speaks::Plain));
    let tls = addresses(settings, settings.tls_port)?.into_iter().map(place(false, Speaks::Tls));
    let smart = addresses(settings, smart_port)?.into_iter().map(place(true, of_smart_clients(settings)));
    Ok(plain.chain(tls).chain(smart).collect())
}

/// Smart clients know one port. It speaks what the ports of other clients speak.
fn of_smart_clients(settings: &Settings) -> Speaks {
    match (settings.port, settings.tls_port) {
        (_, 0) => Speaks::Plain,
        (0, _) => Speaks::Tls,
        _ => Speaks::Either,
    }
}

/// The addresses that `bind` names, with a port. True if an address may be missing.
fn addresses(settings: &Settings, port: u16) -> io::Result<Vec<(SocketAddr, bool)>> {
    let mut found = Vec::new();
    if port == 0 {
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
        match (host, port).to_socket_addrs() {
            Ok(addresses) => found.extend(addresses.map(|address| (address, optional))),
            Err(_) if optional => {}
            Err(error) => return Err(named(&error, host)),
        }
    }
    // Two names may stand for the same address.
    let mut seen = Vec::new();
    found.retain(|(address, _)| {
        let new = !seen.contains(address);
        seen.push(*address);
        new
    });
    Ok(found)
}

fn open(place: &Place, backlog: i32) -> io::Result<Option<Listener>> {
    match Listener::speaking(&place.address, backlog, place.smart, place.speaks) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if place.optional && error.kind() != io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => {
            let which = if place.smart { " (cluster-client-port names another port for smart clients)" } else { "" };
            Err(named(&error, &format!("{}{which}", place.address)))
        }
    }
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {what}: {error}"))
}

impl Listening {
    /// Takes listeners to accept from; `registry` is that of the acceptor.
    pub(crate) fn new(listeners: Vec<Listener>, registry: Registry, tls: Tls) -> io::Result<Listening> {
        listeners.iter().try_for_each(|listener| watch(&registry, listener))?;
        let smart = listeners.iter().filter(|listener| listener.is_smart()).find_map(Listener::address);
        let smart_port = smart.map_or(0, |address| address.port());
        Ok(Listening(Arc::new(Shared { listeners: Mutex::new(listeners), registry, tls, smart_port })))
    }

    /// The listeners, locked: none is closed while the acceptor accepts.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// TLS for those that speak it.
    pub(crate) fn tls(&self) -> &Tls {
        &self.0.tls
    }

    /// Has new connections use the present settings and files of TLS.
    ///
    /// # Errors
    /// The setting or file that cannot be used, and why. Then everything is as before.
    pub fn change_tls(&self, settings: &Settings) -> Result<(), String> {
        self.0.tls.change(settings)
    }

    /// Closes all listeners.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    /// Listens at the addresses that the settings name now. Listeners that stay are not touched.
    ///
    /// # Errors
    /// The server cannot listen on an address. Then everything is as before, as far as the system allows.
    pub fn change(&self, settings: &Settings) -> io::Result<()> {
        let wanted = places(settings, self.0.smart_port)?;
        let mut listeners = self.lock();
        let is_at = |listener: &Listener, places: &[Place]| match listener.address() {
            Some(_) => places.iter().any(|place| place.is_of(listener)),
            // Unix sockets do not change.
            None => true,
        };
        let before = places_of(&listeners);
        // Listeners are closed before others are opened: `*` and one of the machine's addresses exclude each other.
        listeners.retain(|listener| is_at(listener, &wanted));
        let kept = places_of(&listeners);
        let is_kept = |place: &Place| {
            kept.iter().any(|k| (k.address, k.smart, k.speaks) == (place.address, place.smart, place.speaks))
        };
        let missing = wanted.into_iter().filter(|place| !is_kept(place));
        let opened = self.add(&mut listeners, missing, settings.tcp_backlog);
        if opened.is_err() {
            listeners.retain(|listener| is_at(listener, &kept));
            let closed = before.into_iter().filter(|place| !is_kept(place));
            if let Err(error) = self.add(&mut listeners, closed, settings.tcp_backlog) {
                tracing::error!("could not go back to listening as before: {error}");
            }
        }
        opened
    }

    fn add(&self, listeners: &mut Vec<Listener>, places: impl Iterator<Item = Place>, backlog: i32) -> io::Result<()> {
        for place in places {
            if let Some(listener) = open(&place, backlog)? {
                watch(&self.0.registry, &listener)?;
                listeners.push(listener);
            }
        }
        Ok(())
    }
}

/// Adds a listener to the acceptor's poll. Closing the listener removes it.
fn watch(registry: &Registry, listener: &Listener) -> io::Result<()> {
    // All listeners are looked at in every round, so one token is enough.
    registry.register(&mut SourceFd(&listener.fd()), Token(0), Interest::READABLE)
}

fn places_of(listeners: &[Listener]) -> Vec<Place> {
    let place = |listener: &Listener| {
        let (smart, speaks) = (listener.is_smart(), listener.speaks());
        Some(Place { address: listener.address()?, optional: false, smart, speaks })
    };
    listeners.iter().filter_map(place).collect()
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().filter_map(Listener::address)).finish()
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
        (Listening::new(listeners(settings).unwrap(), registry, crate::tls::testing::off()).unwrap(), poll)
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

    #[test]
    fn the_port_for_smart_clients_stays() {
        let (first, second, smart) = (free_port(), free_port(), free_port());
        let node = |port| Settings {
            cluster_enabled: true,
            cluster_client_port: smart.into(),
            ..settings(&["127.0.0.1"], port)
        };
        let (listening, _poll) = listening(&node(first));
        let smart_ones = || {
            let listeners = listening.lock();
            let smart = listeners.iter().filter(|listener| listener.is_smart());
            smart.map(|listener| listener.address().unwrap().port()).collect::<Vec<_>>()
        };
        assert_eq!((smart_ones(), listening.lock().len()), (vec![smart], 2));
        listening.change(&node(second)).unwrap();
        assert_eq!((smart_ones(), listening.lock().len()), (vec![smart], 2));
        assert!(listening.change(&node(smart)).is_err(), "it is taken");
        assert_eq!((smart_ones(), listening.lock().len()), (vec![smart], 2));
        listening.change(&node(0)).unwrap();
        assert_eq!((smart_ones(), listening.lock().len()), (vec![smart], 1));
    }
}

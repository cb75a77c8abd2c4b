//! Links between nodes: those that workers request, and those that other nodes open. The control thread connects them
//! and does the handshake. Then a worker's driver gets the socket, as it gets those of clients.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use membership::NodeId;
use node::cluster::Dial;
use node::{Node, Token};

use crate::lane::Lane;
use crate::socket::{Incoming, Socket};

/// Seconds of silence after which the system probes a node.
const KEEPALIVE_S: u32 = 5;

/// Milliseconds after which a node is given up whose kernel acknowledges nothing. Connections that wait for its reply
/// are closed then. If no other node reaches it either, its lease of two seconds is over by then.
const SILENCE_MS: i32 = 5_000;

type OnDial = Box<dyn Fn(NodeId, u64) + Send + Sync>;

/// Takes requests of workers for links, and hands them the sockets of links.
#[derive(Clone)]
pub struct Links(Arc<Shared>);

struct Shared {
    node: Arc<Node>,
    lanes: Arc<[Lane]>,
    on_dial: OnceLock<OnDial>,
    /// Links that are being connected, by their tags: the worker, and its token for the link.
    wanted: Mutex<BTreeMap<u64, (usize, Token)>>,
    next_tag: AtomicU64,
    /// Links of other nodes that were given to workers.
    given: AtomicUsize,
}

impl Links {
    /// Makes the links of a node that is about to be started.
    pub fn new(node: Arc<Node>) -> Links {
        let lanes = (0..node.workers()).map(|_| Lane::default()).collect();
        let (on_dial, wanted) = (OnceLock::new(), Mutex::default());
        let (next_tag, given) = (AtomicU64::new(1), AtomicUsize::new(0));
        Links(Arc::new(Shared { node, lanes, on_dial, wanted, next_tag, given }))
    }

    pub(crate) fn lanes(&self) -> &Arc<[Lane]> {
        &self.0.lanes
    }

    /// Sets the function that connects a link to a node. It reports the outcome with the same tag, by [`Self::dialed`]
    /// or [`Self::failed`]. It can be set once.
    pub fn on_dial(&self, dial: impl Fn(NodeId, u64) + Send + Sync + 'static) {
        let _ = self.0.on_dial.set(Box::new(dial));
    }

    /// Requests a link for a worker. The worker's lane gets an answer in any case.
    pub(crate) fn dial(&self, worker: usize, dial: &Dial) {
        let Some(on_dial) = self.0.on_dial.get() else {
            return self.0.lanes[worker].put(Incoming::Dialed { token: dial.token, socket: None });
        };
        let tag = self.0.next_tag.fetch_add(1, Relaxed);
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(tag, (worker, dial.token));
        on_dial(dial.node, tag);
    }

    fn wanted(&self, tag: u64) -> Option<(usize, Token)> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner).remove(&tag)
    }

    /// Takes a requested link that is connected and has done its handshake, over TCP or a stream that relays it.
    pub fn dialed(&self, tag: u64, stream: impl IntoRawFd) {
        let Some((worker, token)) = self.wanted(tag) else { return };
        self.0.lanes[worker].put(Incoming::Dialed { token, socket: tuned(stream).ok() });
    }

    /// A requested link cannot be connected.
    pub fn failed(&self, tag: u64, why: &str) {
        let Some((worker, token)) = self.wanted(tag) else { return };
        tracing::debug!(why, "no link to a node");
        self.0.lanes[worker].put(Incoming::Dialed { token, socket: None });
    }

    /// Takes a link that another node has opened and whose handshake is done.
    ///
    /// # Errors
    ///
    /// The socket cannot be set up.
    pub fn take(&self, stream: impl IntoRawFd, from: &str) -> io::Result<()> {
        let socket = tuned(stream)?;
        let active = self.0.node.active_workers.load(Relaxed).clamp(1, self.0.lanes.len());
        let worker = self.0.given.fetch_add(1, Relaxed) % active;
        self.0.lanes[worker].put(Incoming::Link { socket, from: from.into() });
        Ok(())
    }
}

fn tuned(stream: impl IntoRawFd) -> io::Result<Socket> {
    let socket = Socket::new(stream)?;
    socket.tune_tcp(KEEPALIVE_S);
    socket.give_up_after(SILENCE_MS);
    Ok(socket)
}

//! With `--reconnect`: connections that a server has closed are made again, on a thread of their own.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use mio::{Registry, Token, Waker};

use super::clock;
use super::connection::Connection;
use super::nodes::Nodes;
use super::options::Options;

/// The event by which the thread says that it has made a connection.
pub const WAKES: Token = Token(usize::MAX);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// A worker's side.
pub struct Again {
    lost: Sender<(usize, usize)>,
    made: Receiver<(usize, Connection)>,
}

impl Again {
    /// Of a worker whose events these are. Something has to run the other side, which ends with this value.
    ///
    /// # Errors
    /// The system has no event for it.
    pub fn new<'a>(
        options: &'a Options,
        nodes: &'a Nodes,
        registry: &Registry,
    ) -> Result<(Self, Reconnects<'a>), String> {
        let waker = Waker::new(registry, WAKES).map_err(|error| format!("cannot make an event: {error}"))?;
        let ((lost, of), (tell, made)) = (channel(), channel());
        Ok((Self { lost, made }, Reconnects { options, nodes, lost: of, made: tell, waker }))
    }

    /// A connection to a node has to be made again.
    pub fn lost(&self, index: usize, node: usize) {
        // The other side ends after this one.
        let _ = self.lost.send((index, node));
    }

    /// The next connection that was made.
    pub fn made(&self) -> Option<(usize, Connection)> {
        self.made.try_recv().ok()
    }
}

/// The thread's side.
pub struct Reconnects<'a> {
    options: &'a Options,
    nodes: &'a Nodes,
    lost: Receiver<(usize, usize)>,
    made: Sender<(usize, Connection)>,
    waker: Waker,
}

impl Reconnects<'_> {
    /// Makes connections until the worker ends.
    pub fn run(self) {
        let (mut wanted, mut first) = (Vec::new(), 0);
        for tries in 0.. {
            if wanted.is_empty() {
                match self.lost.recv() {
                    Ok(lost) => wanted.push(lost),
                    Err(_) => return,
                }
            }
            loop {
                match self.lost.try_recv() {
                    Ok(lost) => wanted.push(lost),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.try_all(&mut wanted, tries, &mut first);
            if !wanted.is_empty() {
                thread::park_timeout(PAUSE);
            }
        }
    }

    fn try_all(&self, wanted: &mut Vec<(usize, usize)>, tries: usize, first: &mut usize) {
        let (now, mut dead) = (self.nodes.now(self.options, first), BTreeSet::new());
        wanted.retain(|(index, node)| {
            // Who knows nothing of slots takes any of them.
            let at = if self.nodes.slots.is_empty() { (node + tries) % now.len() } else { *node };
            if dead.contains(&at) {
                return true;
            }
            match Connection::open_at(self.options, &now[at], *node, false, clock::now()) {
                Ok(connection) => {
                    let _ = self.made.send((*index, connection));
                    // One that is not woken looks by itself.
                    let _ = self.waker.wake();
                    false
                }
                Err(_) => {
                    dead.insert(at);
                    true
                }
            }
        });
    }
}

//! The threads of a node: one per worker with its driver, one that accepts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Poll, Waker};
use node::{Mailbox, Node, Worker};

use crate::epoll::Epoll;
use crate::inbox::Inbox;
use crate::listen::Listener;
use crate::listening::Listening;

/// A node that serves.
pub struct Server {
    threads: Vec<JoinHandle<io::Result<()>>>,
    node: Arc<Node>,
    listening: Listening,
}

impl Server {
    /// Starts all workers and the acceptor. `seed` feeds the workers' chance.
    pub fn start(node: Arc<Node>, listeners: Vec<Listener>, seed: u64) -> io::Result<Server> {
        let mut threads = Vec::new();
        let mut lanes = Vec::new();
        for index in 0..node.workers() {
            let inbox = Arc::new(Inbox::default());
            let worker = Worker::new(node.clone(), index, seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9));
            let (driver, waker) = Epoll::new(worker, inbox.clone())?;
            let waker = Arc::new(waker);
            lanes.push((inbox, waker.clone()));
            node.open_mailbox(index, Mailbox::new(Box::new(move || drop(waker.wake()))));
            let builder = std::thread::Builder::new().name(format!("worker-{index}"));
            threads.push(builder.spawn(move || driver.run())?);
        }
        let acceptor = node.clone();
        let poll = Poll::new()?;
        let listening = Listening::new(listeners, poll.registry().try_clone()?)?;
        let listeners = listening.clone();
        let builder = std::thread::Builder::new().name("acceptor".into());
        threads.push(builder.spawn(move || accept(&acceptor, poll, &listeners, &lanes))?);
        Ok(Server { threads, node, listening })
    }

    /// Where it listens, to change that.
    pub fn listening(&self) -> Listening {
        self.listening.clone()
    }

    /// Waits until the node has stopped.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error),
                Err(_) => result = Err(io::Error::other("a thread of the server has panicked")),
            }
            self.node.stop();
        }
        result
    }
}

type Lane = (Arc<Inbox>, Arc<Waker>);

/// Accepts connections until the node stops, and gives each to the worker with the fewest.
fn accept(node: &Node, mut poll: Poll, listeners: &Listening, lanes: &[Lane]) -> io::Result<()> {
    let mut events = Events::with_capacity(64);
    while !node.stopping.load(Relaxed) {
        match poll.poll(&mut events, Some(Duration::from_millis(100))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        }
        let keepalive = node.config.settings().tcp_keepalive;
        // All of them, always: an edge that was met with too few descriptors does not come again.
        for listener in listeners.lock().iter() {
            loop {
                match listener.accept(keepalive) {
                    Ok(incoming) => {
                        let least = |i: &usize| node.stats[*i].clients.load(Relaxed) + lanes[*i].0.len() as u64;
                        let index = (0..lanes.len()).min_by_key(least).unwrap_or(0);
                        lanes[index].0.put(incoming);
                        lanes[index].1.wake()?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

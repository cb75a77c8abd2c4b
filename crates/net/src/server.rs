//! The threads of a node: one for each worker with its driver, and one that accepts.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::Poll;
use node::config::IoDriver;
use node::{Mailbox, Node, Worker};

use crate::accept::Acceptor;
use crate::epoll::Epoll;
use crate::links::Links;
use crate::listen::Listener;
use crate::listening::Listening;
use crate::tls::Tls;
use crate::uring::{self, Uring};

/// How workers talk to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// epoll.
    Epoll,
    /// io_uring.
    Uring,
}

impl Driver {
    /// Its name in `io-driver`.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Epoll => "epoll",
            Driver::Uring => "io_uring",
        }
    }

    /// Chooses the driver: the one that the setting names, otherwise io_uring where the kernel allows it.
    ///
    /// # Errors
    ///
    /// The setting names io_uring, and the kernel does not allow it.
    pub fn choose(setting: IoDriver) -> io::Result<Driver> {
        if setting == IoDriver::Epoll {
            return Ok(Driver::Epoll);
        }
        match uring::available() {
            Ok(()) => Ok(Driver::Uring),
            Err(_) if setting == IoDriver::Auto => Ok(Driver::Epoll),
            Err(error) => {
                Err(io::Error::new(error.kind(), format!("io-driver io_uring: this kernel does not allow it: {error}")))
            }
        }
    }
}

/// Stops the node when a thread leaves its loop for any reason. Its connections would wait for ever otherwise.
struct StopsWithMe(Arc<Node>);

impl Drop for StopsWithMe {
    fn drop(&mut self) {
        self.0.stop();
    }
}

type Wake = Arc<dyn Fn() + Send + Sync>;

/// A node that serves.
pub struct Server {
    threads: Vec<JoinHandle<io::Result<()>>>,
    node: Arc<Node>,
}

impl Server {
    /// Starts all workers and the acceptor. `seed` feeds the random numbers of workers. `links` are those to other
    /// nodes. Before the first connection `open` gets the value that changes the addresses of the server.
    ///
    /// # Errors
    ///
    /// A thread cannot be started, its driver cannot be made, or the settings of TLS cannot be used.
    pub fn start(
        node: Arc<Node>,
        listeners: Vec<Listener>,
        driver: Driver,
        seed: u64,
        links: &Links,
        open: impl FnOnce(Listening),
    ) -> io::Result<Server> {
        let lanes = links.lanes().clone();
        let mut threads = Vec::new();
        for index in 0..node.workers() {
            // A worker is made and dropped in its own thread: scripts under way cannot move.
            let (shared, seed) = (node.clone(), seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9));
            let worker = move || Worker::new(shared, index, seed);
            let (lane, stops) = (links.clone(), StopsWithMe(node.clone()));
            let builder = std::thread::Builder::new().name(format!("worker-{index}"));
            let (wake, thread): (Wake, _) = match driver {
                Driver::Epoll => {
                    let (poll, waker) = Epoll::poll()?;
                    let run = move || {
                        let _stops = stops;
                        Epoll::new(poll, worker(), lane).run()
                    };
                    (Arc::new(move || drop(waker.wake())), builder.spawn(run)?)
                }
                Driver::Uring => {
                    let waker = Arc::new(uring::Waker::new()?);
                    let own = waker.clone();
                    let run = move || {
                        let _stops = stops;
                        Uring::new(worker(), lane, own)?.run()
                    };
                    (Arc::new(move || waker.wake()), builder.spawn(run)?)
                }
            };
            let other = wake.clone();
            lanes[index].on_wake(Box::new(move || other()))?;
            node.open_mailbox(index, Mailbox::new(Box::new(move || wake())));
            threads.push(thread);
        }
        // The lanes may have got sockets before they had a driver.
        lanes.iter().for_each(crate::lane::Lane::wake);
        let automatic = node.config.settings().workers == 0;
        let poll = Poll::new()?;
        let tls = Tls::new(node.clock.clone());
        tls.change(&node.config.settings())
            .map_err(|why| io::Error::other(format!("Failed to configure TLS: {why}")))?;
        let listening = Listening::new(listeners, poll.registry().try_clone()?, tls)?;
        let closed = listening.clone();
        node.when_stopping(Box::new(move || closed.close()));
        open(listening.clone());
        let acceptor = Acceptor::new(node.clone(), poll, listening, lanes, automatic);
        let builder = std::thread::Builder::new().name("acceptor".into());
        let stops = StopsWithMe(node.clone());
        let run = move || {
            let _stops = stops;
            acceptor.run()
        };
        threads.push(builder.spawn(run)?);
        Ok(Server { threads, node })
    }

    /// Waits until the node has stopped.
    ///
    /// # Errors
    ///
    /// A thread has failed or panicked: the error of the last one that has.
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

//! With `--reconnect`: connections that a server has closed are made again, on threads of their own.

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use mio::{Registry, Token, Waker};

use super::clock;
use super::connection::Connection;
use super::nodes::Nodes;
use super::options::Options;

/// The event by which a thread says that it has made a connection.
pub const WAKES: Token = Token(usize::MAX);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// A worker's side. The other one ends with it.
pub struct Again {
    news: Sender<News>,
    made: Receiver<(usize, Connection)>,
}

impl Again {
    /// Of a worker whose events these are. Something has to run the other side.
    ///
    /// # Errors
    /// The system has no event for it.
    pub fn new<'a>(
        options: &'a Options,
        nodes: &'a Nodes,
        registry: &Registry,
    ) -> Result<(Self, Reconnects<'a>), String> {
        let waker = Waker::new(registry, WAKES).map_err(|error| format!("cannot make an event: {error}"))?;
        let ((news, comes), (tell, made)) = (channel(), channel());
        let dialer = Dialer { options, nodes, first: AtomicUsize::new(0), made: tell, waker, news: news.clone() };
        Ok((Self { news, made }, Reconnects { dialer, news: comes }))
    }

    /// A connection to a node has to be made again.
    pub fn lost(&self, index: usize, node: usize) {
        // The other side ends after this one.
        let _ = self.news.send(News::Lost(Lost { index, node, tries: 0 }));
    }

    /// The next connection that was made.
    pub fn made(&self) -> Option<(usize, Connection)> {
        self.made.try_recv().ok()
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let _ = self.news.send(News::Ends);
    }
}

/// A connection to be made.
#[derive(Clone, Copy)]
struct Lost {
    index: usize,
    /// The node that it belongs to.
    node: usize,
    tries: usize,
}

enum News {
    Lost(Lost),
    /// A node was dialed. These were not made.
    Dialed(usize, Vec<Lost>),
    Ends,
}

/// The threads' side.
pub struct Reconnects<'a> {
    dialer: Dialer<'a>,
    news: Receiver<News>,
}

impl Reconnects<'_> {
    /// Makes connections until the worker ends. One thread dials each node: one that is silent holds up no other.
    pub fn run(self) {
        let Self { dialer, news } = &self;
        let places = dialer.nodes.addresses.len();
        // For each node: the connections that wait for it, and whether a thread dials it.
        let mut waiting: Vec<(Vec<Lost>, bool)> = iter::repeat_with(Default::default).take(places).collect();
        thread::scope(|scope| {
            loop {
                let Ok(first) = news.recv() else { return };
                for news in iter::once(first).chain(news.try_iter()) {
                    match news {
                        News::Lost(lost) => waiting[dialer.place(lost)].0.push(lost),
                        News::Dialed(at, left) => {
                            waiting[at].1 = false;
                            for lost in left {
                                waiting[dialer.place(lost)].0.push(lost);
                            }
                        }
                        News::Ends => return,
                    }
                }
                for (at, (lost, is_dialed)) in waiting.iter_mut().enumerate() {
                    if !lost.is_empty() && !*is_dialed {
                        *is_dialed = true;
                        let lost = std::mem::take(lost);
                        scope.spawn(move || dialer.dial(at, lost));
                    }
                }
            }
        });
    }
}

/// The parts that the threads share.
struct Dialer<'a> {
    options: &'a Options,
    nodes: &'a Nodes,
    /// The named node that is asked first where the slots are.
    first: AtomicUsize,
    made: Sender<(usize, Connection)>,
    waker: Waker,
    news: Sender<News>,
}

impl Dialer<'_> {
    /// The node to dial. A client that knows nothing of slots takes any of them, one after the other.
    fn place(&self, lost: Lost) -> usize {
        if self.nodes.slots.is_empty() { (lost.node + lost.tries) % self.nodes.addresses.len() } else { lost.node }
    }

    /// Makes connections to one node, up to the first failure, and tells which are left.
    fn dial(&self, at: usize, mut lost: Vec<Lost>) {
        let mut first = self.first.load(Relaxed);
        let address = &self.nodes.now(self.options, &mut first)[at];
        self.first.store(first, Relaxed);
        let mut made = 0;
        for Lost { index, node, .. } in &lost {
            let Ok(connection) = Connection::open_at(self.options, address, *node, false, clock::now()) else { break };
            made += 1;
            let _ = self.made.send((*index, connection));
            // A worker that is not woken looks by itself.
            let _ = self.waker.wake();
        }
        lost.drain(..made);
        if !lost.is_empty() {
            thread::park_timeout(PAUSE);
            lost.iter_mut().for_each(|lost| lost.tries += 1);
        }
        let _ = self.news.send(News::Dialed(at, lost));
    }
}

//! The acceptor's thread. It accepts connections, deals them out, and keeps as many workers active as the load needs.
//!
//! It accepts faster than workers refuse clients beyond the limit, so descriptors could run out. The last ones are not
//! for connections ([`crate::descriptors`]): a connection that gets one waits until others have gone.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::{Events, Poll};
use node::{MonoNs, Node};

use crate::descriptors::first_spare;
use crate::governor::{Governor, Observed};
use crate::lane::{Lane, Shed};
use crate::listen::Listener;
use crate::listening::Listening;
use crate::socket::{Incoming, first_free, most_files};

/// The time between two measurements of the load.
const ROUND: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    node: Arc<Node>,
    poll: Poll,
    listeners: Listening,
    lanes: Arc<[Lane]>,
    /// `None`: all workers are active always (`workers N`).
    governor: Option<Governor>,
    last: Figures,
    /// Connections have taken all descriptors that are for them.
    waits: bool,
    /// Monotonic nanoseconds before which a failure to accept is not logged again.
    silent_until: MonoNs,
}

/// The time between two shuffles: about the time that drivers take to carry one out.
const SHUFFLE: Duration = Duration::from_millis(25);

/// The time between two looks for free descriptors.
const LOOK: Duration = Duration::from_millis(5);

/// Nanoseconds between two complaints about connections that cannot be accepted.
const COMPLAIN_NS: u64 = 1_000_000_000;

/// Running totals, to take differences of.
#[derive(Clone, Copy, Default)]
struct Figures {
    at: MonoNs,
    cpu_ns: u64,
    idle_ns: u64,
    commands: u64,
    reads: u64,
}

impl Acceptor {
    pub(crate) fn new(node: Arc<Node>, poll: Poll, listeners: Listening, lanes: Arc<[Lane]>, automatic: bool) -> Self {
        let governor = automatic.then(|| Governor::new(lanes.len()));
        let active = governor.as_ref().map_or(lanes.len(), Governor::active);
        node.active_workers.store(active, Relaxed);
        Self {
            node,
            poll,
            listeners,
            lanes,
            governor,
            last: Figures::default(),
            waits: false,
            silent_until: MonoNs::default(),
        }
    }

    fn active(&self) -> usize {
        self.governor.as_ref().map_or(self.lanes.len(), Governor::active)
    }

    /// Accepts until the node stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.node.stopping.load(Relaxed) {
            let shuffling = self.node.shuffling.load(Relaxed);
            let patience = if shuffling { SHUFFLE } else { ROUND };
            match self.poll.poll(&mut events, Some(if self.waits { LOOK } else { patience })) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let keepalive = self.node.config.settings().tcp_keepalive;
            // Every listener is tried each time: an edge that was met with too few descriptors does not come again.
            let listeners = self.listeners.clone();
            for listener in listeners.lock().iter() {
                self.accept_all(listener, keepalive);
            }
            match shuffling {
                true => self.shuffle(),
                false => self.govern(),
            }
        }
        Ok(())
    }

    fn accept_all(&mut self, listener: &Listener, keepalive: u32) {
        let spare = first_spare(most_files());
        // Descriptors from `spare` on are not for connections.
        let is_spare = |fd: RawFd| u64::try_from(fd).is_ok_and(|fd| fd >= spare);
        loop {
            if self.waits {
                self.waits = first_free(listener.fd()).is_none_or(is_spare);
                if self.waits {
                    return self.complain(&io::Error::from_raw_os_error(libc::EMFILE));
                }
            }
            match listener.accept(keepalive, self.listeners.tls()) {
                Ok(incoming) => {
                    // The system gives the lowest free number: all below it are in use.
                    self.waits = matches!(&incoming, Incoming::Client { socket, .. } if is_spare(socket.fd()));
                    let load = |i: &usize| self.connections(*i);
                    let least = (0..self.active()).min_by_key(load).unwrap_or(0);
                    self.lanes[least].put(incoming);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client left before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return self.complain(&error),
            }
        }
    }

    /// Logs that a connection could not be accepted (mostly for lack of descriptors), but not at every try.
    fn complain(&mut self, error: &io::Error) {
        let now = self.node.clock.monotonic_ns();
        if now >= self.silent_until {
            self.silent_until = now + COMPLAIN_NS;
            tracing::warn!(%error, "cannot accept connections");
        }
    }

    fn connections(&self, lane: usize) -> usize {
        self.node.stats[lane].clients.load(Relaxed) as usize + self.lanes[lane].waiting()
    }

    /// Adjusts the number of active workers, and the connections to it.
    fn govern(&mut self) {
        let now = self.node.clock.monotonic_ns();
        let elapsed = now.since(self.last.at);
        if elapsed < ROUND.as_nanos() as u64 {
            return;
        }
        let figures = self.figures(now);
        let last = std::mem::replace(&mut self.last, figures);
        if let Some(governor) = &mut self.governor
            && last.at > MonoNs::default()
        {
            let per = |now: u64, then: u64| now.saturating_sub(then) as f64 / elapsed as f64;
            governor.round(Observed {
                busy: per(figures.cpu_ns, last.cpu_ns),
                idle: per(figures.idle_ns, last.idle_ns),
                rate: per(figures.commands, last.commands) * 1e9,
                depth: per(figures.commands, last.commands) / per(figures.reads, last.reads).max(1e-9),
            });
            self.node.active_workers.store(governor.active(), Relaxed);
        }
        self.balance();
    }

    /// Orders every worker to give half of its connections to the next one, for tests (DEBUG SHUFFLE-CLIENTS).
    fn shuffle(&self) {
        for i in 0..self.lanes.len() {
            let to = (i + 1) % self.lanes.len();
            if to != i {
                self.lanes[i].order(Shed { to, count: self.connections(i).div_ceil(2) });
            }
        }
    }

    fn figures(&self, at: MonoNs) -> Figures {
        Figures {
            at,
            cpu_ns: self.lanes.iter().map(|l| l.cpu_ns.load(Relaxed)).sum(),
            idle_ns: machine_idle_ns(),
            commands: self.node.stats.iter().map(|s| s.processed.load(Relaxed)).sum(),
            reads: self.node.stats.iter().map(|s| s.reads.load(Relaxed)).sum(),
        }
    }

    /// Moves connections away from inactive workers, and from workers with clearly more than their share.
    fn balance(&self) {
        let active = self.active();
        let counts: Vec<usize> = (0..self.lanes.len()).map(|i| self.connections(i)).collect();
        let share = counts.iter().sum::<usize>().div_ceil(active);
        for (i, &count) in counts.iter().enumerate() {
            let least = (0..active).min_by_key(|&j| counts[j]).unwrap_or(0);
            let surplus = if i >= active { count } else { count.saturating_sub(share) };
            let room = share.saturating_sub(counts[least]);
            let worth_it = i >= active || surplus > 1 + share / 8;
            if surplus > 0 && worth_it && room > 0 && least != i {
                self.lanes[i].order(Shed { to: least, count: surplus.min(room) });
            }
        }
    }
}

/// Idle time of all processors together since boot, in nanoseconds; 0 if the system does not say.
fn machine_idle_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut words = stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(4);
    let ticks: u64 = words.by_ref().take(2).filter_map(|w| w.parse::<u64>().ok()).sum();
    ticks * 10_000_000
}

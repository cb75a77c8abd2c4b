//! One thread of the load generator: an event loop over its connections.
//!
//! Each connection has one batch under way. A turn over a ready connection is one read, a scan of what came, and, when
//! the batch is answered, one write of the next. Requests are built in one buffer and replies read into one buffer per
//! thread, so that they stay in the cache.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::os::fd::AsRawFd;

use super::clock;
use super::connection::{Connection, Role, not_resp};
use super::nodes::Nodes;
use super::options::Options;
use super::reconnect::{self, Again};
use super::scan::Kind;
use super::stats::{Stats, Timeline};
use super::workload::Source;

const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 1024;
/// A thread looks this often whether it has to stop.
const IDLE_TURN: Duration = Duration::from_millis(50);
/// How long replies are awaited once it is time to stop.
const DRAIN: Duration = Duration::from_secs(2);

/// The main thread's orders, which all threads read.
#[derive(Debug, Default)]
pub struct Control {
    phase: AtomicU8,
}

/// The phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Run, but count nothing.
    WarmUp,
    /// Run and count.
    Measure,
    /// Send nothing more.
    Stop,
}

impl Control {
    /// Goes to a phase.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn get(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

/// A running count of one thread's answered commands, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    /// Commands answered since the thread began, the warm-up's too.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Spreads batches over time for `--rate`.
#[derive(Debug)]
struct Pacer {
    next: Instant,
    interval: Duration,
}

/// A thread of the run, with all that it needs.
#[derive(Debug)]
pub struct Worker<'a> {
    /// Its connections.
    pub connections: Vec<Connection>,
    /// Where its batches come from.
    pub source: Source,
    /// The main thread's wishes.
    pub control: &'a Control,
    /// Where it says how far it is.
    pub progress: &'a Progress,
    /// Commands to send while measuring, if there is a limit.
    pub quota: Option<u64>,
    /// Time between two batches, with `--rate`.
    pub interval: Option<Duration>,
    /// How often a transaction is sent again.
    pub retries: u32,
    /// With `--reconnect`.
    pub again: Option<(&'a Options, &'a Nodes)>,
    /// How long a batch may have no reply.
    pub patience: Option<Duration>,
    /// Milliseconds of an interval of the timeline.
    pub timeline: Option<u64>,
}

impl Worker<'_> {
    /// Runs until told to stop, the quota is used up or the source is empty; gives the connections back.
    ///
    /// # Errors
    /// In words for the user: the server closed a connection, or sent what is no reply.
    pub fn run(self) -> Result<(Vec<Connection>, Stats), String> {
        let poll = Poll::new().map_err(|error| format!("cannot create an epoll instance: {error}"))?;
        for (index, connection) in self.connections.iter().enumerate() {
            let fd = connection.stream.as_raw_fd();
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = poll.registry().register(&mut SourceFd(&fd), Token(index), interest);
            registered.map_err(|error| format!("cannot watch a socket: {error}"))?;
        }
        let now = clock::now();
        let again = match self.again {
            None => None,
            Some((options, nodes)) => Some(Again::new(options, nodes, poll.registry())?),
        };
        let mut turn = Loop {
            again: None,
            transactions: self.source.transactions(),
            looked: now,
            pacer: self.interval.map(|interval| Pacer { next: now, interval }),
            idle: (0..self.connections.len())
                .rev()
                .filter(|at| self.connections[*at].role != Role::Subscriber)
                .collect(),
            stats: Stats::new(),
            request: Vec::with_capacity(READ_BYTES),
            read: vec![0; READ_BYTES],
            sent: 0,
            commands: 0,
            measuring: false,
            ending: false,
            stopped: false,
            worker: self,
        };
        let ran = thread::scope(|scope| {
            turn.again = again.map(|(again, reconnects)| {
                scope.spawn(move || reconnects.run());
                again
            });
            let ran = turn.run(poll);
            // The thread ends with it.
            turn.again = None;
            ran
        });
        ran?;
        Ok((turn.worker.connections, turn.stats))
    }
}

/// The state of a running thread.
struct Loop<'a> {
    worker: Worker<'a>,
    again: Option<Again>,
    /// True if batches end with EXEC's reply.
    transactions: bool,
    pacer: Option<Pacer>,
    /// When it was last checked whether batches have waited for too long.
    looked: Instant,
    /// Connections without a batch.
    idle: Vec<usize>,
    stats: Stats,
    request: Vec<u8>,
    read: Vec<u8>,
    /// Commands sent while measuring.
    sent: u64,
    /// Commands answered in all.
    commands: u64,
    measuring: bool,
    /// No new batch is sent.
    ending: bool,
    /// Nothing is sent at all, retries neither.
    stopped: bool,
}

impl Loop<'_> {
    fn run(&mut self, mut poll: Poll) -> Result<(), String> {
        let mut events = Events::with_capacity(EVENTS);
        let mut drained_by = None;
        loop {
            match self.worker.control.get() {
                Phase::WarmUp => {}
                Phase::Measure => self.measure(),
                Phase::Stop => {
                    self.ending = true;
                    self.stopped = true;
                    drained_by.get_or_insert_with(|| clock::now() + DRAIN);
                }
            }
            self.take_again(&poll)?;
            self.use_idle()?;
            if self.ending && (!self.is_busy() || drained_by.is_some_and(|end| clock::now() >= end)) {
                return Ok(());
            }
            match poll.poll(&mut events, Some(self.timeout())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| format!("epoll failed: {error}"))?,
            }
            for event in &events {
                let index = event.token().0;
                if index != reconnect::WAKES.0 {
                    self.ready(index).or_else(|why| self.lose(index, why))?;
                }
            }
            if let Some(patience) = self.worker.patience {
                self.give_up(patience)?;
            }
            self.worker.progress.0.store(self.commands, Ordering::Relaxed);
        }
    }

    /// Gives up connections whose batches have had no reply for so long.
    fn give_up(&mut self, patience: Duration) -> Result<(), String> {
        let now = clock::now();
        if now.saturating_duration_since(self.looked) < IDLE_TURN.min(patience / 4) {
            return Ok(());
        }
        self.looked = now;
        for index in 0..self.worker.connections.len() {
            let Connection { role, expected, is_lost, sent, .. } = self.worker.connections[index];
            if role == Role::Load && expected > 0 && !is_lost && now.saturating_duration_since(sent) >= patience {
                let why = self.closed(index, &format!("the server has not answered within {patience:?}"));
                self.lose(index, why)?;
            }
        }
        Ok(())
    }

    /// True if replies are still to come. Those to `--against` may never come.
    fn is_busy(&self) -> bool {
        self.worker.connections.iter().any(|connection| connection.role == Role::Load && connection.expected > 0)
    }

    /// Counting begins: what was counted during the warm-up is forgotten.
    fn measure(&mut self) {
        if !self.measuring {
            self.measuring = true;
            self.stats = Stats::new();
            let timeline = |step| Timeline::new(step, clock::now(), clock::unix_ms());
            self.stats.timeline = self.worker.timeline.map(timeline);
            self.worker.connections.iter_mut().for_each(|connection| connection.batches = 0);
        }
    }

    /// Gives batches to idle connections: at once, or as many as are due with `--rate`.
    fn use_idle(&mut self) -> Result<(), String> {
        let due_by = if self.pacer.is_some() { Some(clock::now()) } else { None };
        while !self.ending
            && let Some(&index) = self.idle.last()
        {
            let since = match (&mut self.pacer, due_by) {
                (Some(pacer), Some(now)) => {
                    if pacer.next > now {
                        break;
                    }
                    let since = pacer.next;
                    pacer.next += pacer.interval;
                    since
                }
                _ => clock::now(),
            };
            self.idle.pop();
            self.issue(index, since).or_else(|why| self.lose(index, why))?;
        }
        Ok(())
    }

    /// With `--rate` below a millisecond ahead it spins: epoll's timeouts are no finer.
    fn timeout(&self) -> Duration {
        match &self.pacer {
            Some(pacer) if !self.ending && !self.idle.is_empty() => {
                let ahead = pacer.next.saturating_duration_since(clock::now());
                if ahead < Duration::from_millis(2) {
                    Duration::ZERO
                } else {
                    ahead.min(IDLE_TURN) - Duration::from_millis(1)
                }
            }
            _ => IDLE_TURN,
        }
    }

    /// Sends the next batch. If there is none, that is the end of sending; or only of this connection's, if there is
    /// none for it.
    #[inline]
    fn issue(&mut self, index: usize, since: Instant) -> Result<(), String> {
        if self.measuring && self.worker.quota.is_some_and(|quota| self.sent >= quota) {
            self.ending = true;
            return Ok(());
        }
        self.request.clear();
        let Connection { role, node, .. } = self.worker.connections[index];
        let Some(batch) = self.worker.source.next(role == Role::Against, node, &mut self.request) else {
            // Of a load; other nodes may lack keys yet.
            self.ending = self.worker.source.is_used_up();
            return Ok(());
        };
        if self.measuring {
            self.sent += u64::from(batch.commands);
        }
        let connection = &mut self.worker.connections[index];
        connection.expected = u64::from(batch.replies);
        connection.commands = batch.commands;
        connection.since = since;
        if self.worker.patience.is_some() {
            // With `--rate` it may be later than its time.
            connection.sent = clock::now();
        }
        connection.tries = 0;
        connection.has_failed = false;
        if self.transactions && self.worker.retries > 0 {
            connection.batch.clear();
            connection.batch.extend_from_slice(&self.request);
        }
        self.stats.bytes_out += self.request.len() as u64;
        connection.send(&self.request).map_err(|error| format!("writing to the server failed: {error}"))
    }

    fn ready(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.worker.connections[index];
        if connection.is_lost {
            return Ok(());
        }
        connection.flush().map_err(|error| format!("writing to the server failed: {error}"))?;
        loop {
            let connection = &mut self.worker.connections[index];
            let count = match connection.stream.read(&mut self.read) {
                Ok(0) => return Err(self.closed(index, "the server closed a connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.closed(index, &format!("reading from the server failed: {error}"))),
            };
            self.stats.bytes_in += count as u64;
            let emptied = count < self.read.len() && !connection.stream.reads_short();
            if connection.role == Role::Subscriber {
                if emptied {
                    return Ok(());
                }
                continue;
            }
            let errors = self.stats.tally.errors;
            let replies = connection.scanner.feed(&self.read[..count], &mut self.stats.tally);
            let replies = replies.map_err(|byte| not_resp(byte.0))?;
            if self.stats.tally.errors > errors {
                let message = connection.scanner.message();
                connection.has_failed = true;
                let has_moved = message.starts_with("MOVED ");
                self.stats.message(message);
                if has_moved && self.again.is_some() {
                    return Err("the slot has moved".to_owned());
                }
            }
            if replies > 0 {
                let Some(left) = connection.expected.checked_sub(replies) else {
                    return Err(self.closed(index, "the server sent more replies than it got commands"));
                };
                connection.expected = left;
                if left == 0 {
                    self.answered(index)?;
                }
            }
            // Edge-triggered: a read that was not filled has emptied the socket, and the next bytes raise an event.
            if emptied {
                return Ok(());
            }
        }
    }

    /// A batch has all its replies.
    #[inline]
    fn answered(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.worker.connections[index];
        if self.transactions && connection.scanner.last() != Kind::Value {
            if connection.tries < self.worker.retries && !self.stopped {
                connection.tries += 1;
                connection.sent = clock::now();
                connection.expected = u64::from(connection.commands) + 2;
                self.stats.retried += 1;
                self.stats.bytes_out += connection.batch.len() as u64;
                let batch = std::mem::take(&mut connection.batch);
                let sent = connection.send(&batch);
                connection.batch = batch;
                return sent.map_err(|error| format!("writing to the server failed: {error}"));
            }
            self.stats.failed += 1;
        }
        let now = clock::now();
        connection.batches += 1;
        let commands = connection.commands;
        self.commands += u64::from(commands);
        let latency = now.saturating_duration_since(connection.since);
        self.stats.record(commands, latency, now, connection.has_failed);
        if self.ending || self.pacer.is_some() {
            self.idle.push(index);
        } else {
            self.issue(index, now)?;
        }
        Ok(())
    }

    /// A connection is of no use any more: it is made again, if it may be.
    fn lose(&mut self, index: usize, why: String) -> Result<(), String> {
        let (Some(again), connection) = (&self.again, &mut self.worker.connections[index]) else { return Err(why) };
        if !std::mem::replace(&mut connection.is_lost, true) {
            if connection.expected > 0 {
                self.stats.lost += u64::from(connection.commands);
            }
            connection.expected = 0;
            self.idle.retain(|idle| *idle != index);
            again.lost(index, connection.node);
        }
        Ok(())
    }

    /// Takes connections that were made again.
    fn take_again(&mut self, poll: &Poll) -> Result<(), String> {
        while let Some((index, made)) = self.again.as_ref().and_then(Again::made) {
            let connection = &mut self.worker.connections[index];
            let Connection { role, batches, .. } = *connection;
            *connection = made;
            (connection.role, connection.batches) = (role, batches);
            let fd = connection.stream.as_raw_fd();
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = poll.registry().register(&mut SourceFd(&fd), Token(index), interest);
            registered.map_err(|error| format!("cannot watch a socket: {error}"))?;
            self.stats.reconnects += 1;
            self.idle.push(index);
        }
        Ok(())
    }

    fn closed(&self, index: usize, what: &str) -> String {
        let message = self.worker.connections[index].scanner.message();
        let message = if message.is_empty() { String::new() } else { format!("; its last error was: {message}") };
        format!("{what} after {} commands of this thread{message}", self.commands)
    }
}

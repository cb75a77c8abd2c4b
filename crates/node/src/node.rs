//! The state that the workers of one node share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ::membership::control::CopyReport;
use clocks::UnixMs;
use keyspace::{Keyspace, Waiter};

use crate::client::Client;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::Live;
use crate::crash::Crash;
use crate::durability::checkpoints::Checkpoints;
use crate::durability::durable::Durable;
use crate::durability::followed::{CopyOfData, Present};
use crate::durability::snapshots::Snapshots;
use crate::figures::hotkeys::HotKeys;
use crate::figures::latency::{Event, Latencies};
use crate::figures::sampler::{Sample, Sampler};
use crate::figures::slots::SlotFigures;
use crate::figures::slowlog::SlowLog;
use crate::figures::stats::WorkerStats;
use crate::limits::address_space::AddressSpace;
use crate::limits::resident::Resident;
use crate::push::monitor::Monitors;
use crate::push::pubsub::PubSub;
use crate::push::trackers::Trackers;
use crate::scripts::Scripts;
use crate::table::Table;
use crate::transactions::doubts::Doubts;
use crate::transactions::slow::SlowScripts;
use crate::users::UserTable;
use crate::worker::jobs::Jobs;
use crate::worker::message::{Mailbox, Message};
use crate::worker::pause::Pauses;
use crate::worker::told::Told;

/// The version of Valkey whose answers `compatibility valkey` gives.
pub const VALKEY_VERSION: &str = "9.0.0";

/// Bytes by which the memory that a worker reports may lag behind, other threads' share included.
const ABOUT: u64 = 32 << 10;

/// Clients that are looked at while no other thread may register one.
const CLIENTS_AT_ONCE: usize = 64;

/// Threads that read the store for keys that are not in memory: as many reads are under way at once.
pub const LOADERS: usize = 4;

/// One `holdfast server` process.
pub struct Node {
    /// The data.
    pub engine: Arc<engine::Shared>,
    /// The configuration.
    pub config: Arc<Live>,
    /// The command table.
    pub table: Table,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Counters by worker.
    pub stats: Box<[Arc<WorkerStats>]>,
    /// Facts of this process for INFO.
    pub facts: Facts,
    mailboxes: Box<[OnceLock<Mailbox>]>,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_client: AtomicU64,
    connected: AtomicU64,
    /// How many workers are active, the first ones. The others have no connections, and leave the expiry sweep to
    /// these.
    pub active_workers: AtomicUsize,
    /// The expiry sweep runs (DEBUG SET-ACTIVE-EXPIRE).
    pub active_expire: AtomicBool,
    /// The CPU time of every turn is measured (DEBUG TURNS): the longest is in [`WorkerStats::longest_turn`].
    pub measuring: AtomicBool,
    /// Connections change workers all the time (DEBUG SHUFFLE-CLIENTS).
    pub shuffling: AtomicBool,
    /// The last log line about HTTP.
    pub(crate) http: Told,
    /// SLOWLOG.
    pub slow_log: Arc<SlowLog>,
    /// LATENCY.
    pub latencies: Arc<Latencies>,
    /// HOTKEYS.
    pub(crate) hot_keys: Arc<HotKeys>,
    /// CLUSTER SLOT-STATS.
    pub(crate) slot_figures: Arc<SlotFigures>,
    /// Rates of the last moments.
    pub sampler: Sampler,
    /// Highest `used_memory` seen.
    peak_memory: AtomicU64,
    /// Unix milliseconds when that was.
    peak_memory_ms: AtomicU64,
    /// `used_memory` before the first key.
    startup_memory: AtomicU64,
    /// Resident memory beyond that.
    pub(crate) resident: Resident,
    /// The state of the address space.
    pub(crate) address_space: AddressSpace,
    /// MONITOR.
    pub monitors: Monitors,
    /// CLIENT PAUSE, DEBUG SLEEP.
    pub pauses: Pauses,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Clients that cache.
    pub trackers: Trackers,
    /// Scripts and libraries of functions.
    pub scripts: Scripts,
    /// The users, and what they were denied.
    pub(crate) users: UserTable,
    /// Jobs, which take long.
    pub jobs: Jobs,
    /// Snapshots in Redis's format.
    pub snapshots: Snapshots,
    /// The log and its checkpoints, if there is one.
    durable: RwLock<Option<(Arc<Durable>, Arc<Checkpoints>)>>,
    /// Transactions over nodes that are in doubt, and for how long that may be.
    pub(crate) doubts: Doubts,
    /// Scripts that run on copies of its keys for too long.
    pub(crate) slow_scripts: SlowScripts,
    /// Its data follow those of another node: workers only read them (rule S2). Set before workers begin.
    pub follows: AtomicBool,
    /// The copy of those data, while it follows.
    copy: Present,
    /// The cluster that it is a node of, if any.
    cluster: OnceLock<Arc<Cluster>>,
    /// Set once the node shuts down; drivers leave their loops.
    pub stopping: AtomicBool,
    /// Called when it stops, before any worker knows.
    before_stop: OnceLock<Box<dyn Fn() + Send + Sync>>,
    on_stop: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Makes the process crash.
    crash: OnceLock<fn(Crash)>,
}

/// Facts of this process for INFO, which the core cannot find by itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Random hexadecimal identity of this start (40 characters).
    pub run_id: String,
    /// Process id.
    pub pid: u32,
    /// Fills with random bytes that nobody can guess; false: it could not.
    pub random: Option<fn(&mut [u8]) -> bool>,
    /// Operating system, as `uname` says.
    pub os: String,
    /// When the server started.
    pub started: UnixMs,
    /// Path of the binary.
    pub executable: String,
    /// "epoll" or "io_uring".
    pub driver: String,
    /// Bytes of heap in use, by the global allocator's count.
    pub memory: Option<fn() -> u64>,
    /// The same bytes but for 8 KB per thread, at hardly any cost.
    pub memory_about: Option<fn() -> u64>,
    /// Resident bytes.
    pub resident: Option<fn() -> u64>,
    /// Bytes that the system has swapped out, at the cost of some tens of microseconds.
    pub swapped: Option<fn() -> u64>,
    /// Makes the allocator give free memory back within milliseconds from now on, at the price of page faults when it
    /// is used again.
    pub give_back_soon: Option<fn()>,
    /// Makes the allocator give free memory back at once; takes up to some milliseconds.
    pub give_back: Option<fn()>,
    /// Bytes that count by the limit of the address space that `headroom` knows.
    pub mapped: Option<fn() -> u64>,
    /// Bytes that may be resident of the process and its fellows (a control group's limit); 0 for no limit.
    pub resident_max: u64,
    /// User and system CPU time of the process in microseconds.
    pub cpu: Option<fn() -> (u64, u64)>,
    /// User and system CPU time of the calling thread in microseconds.
    pub thread_cpu: Option<fn() -> (u64, u64)>,
    /// Physical memory in bytes.
    pub system_memory: u64,
}

impl Node {
    /// A node of `workers` workers that knows these commands; `seed` keys the hashes.
    pub(crate) fn with_table(
        table: Table,
        (config, clock): (Arc<Live>, Arc<dyn Clock>),
        (workers, seed): (usize, u64),
        facts: Facts,
    ) -> Arc<Node> {
        let databases = usize::from(config.settings().databases);
        let table = table.renamed(config.renames().clone());
        let commands = table.all().len();
        let users = UserTable::new(&table);
        let started = facts.started;
        Arc::new(Node {
            engine: Arc::new(engine::Shared::new(Keyspace::new(workers + LOADERS + 2, databases, seed))),
            config,
            table,
            clock,
            stats: (0..workers).map(|_| Arc::new(WorkerStats::new(commands))).collect(),
            facts,
            mailboxes: (0..workers).map(|_| OnceLock::new()).collect(),
            clients: Mutex::default(),
            next_client: AtomicU64::new(1),
            connected: AtomicU64::new(0),
            active_workers: AtomicUsize::new(workers),
            active_expire: AtomicBool::new(true),
            measuring: AtomicBool::new(false),
            shuffling: AtomicBool::new(false),
            http: Told::default(),
            slow_log: Arc::default(),
            latencies: Arc::default(),
            hot_keys: Arc::default(),
            slot_figures: Arc::default(),
            sampler: Sampler::default(),
            peak_memory: AtomicU64::new(0),
            peak_memory_ms: AtomicU64::new(0),
            startup_memory: AtomicU64::new(0),
            resident: Resident::default(),
            address_space: AddressSpace::default(),
            monitors: Monitors::default(),
            pauses: Pauses::default(),
            pubsub: PubSub::default(),
            trackers: Trackers::default(),
            scripts: Scripts::default(),
            users,
            jobs: Jobs::default(),
            snapshots: Snapshots::new(started),
            durable: RwLock::default(),
            doubts: Doubts::default(),
            slow_scripts: SlowScripts::default(),
            follows: AtomicBool::new(false),
            copy: Present::default(),
            cluster: OnceLock::new(),
            stopping: AtomicBool::new(false),
            before_stop: OnceLock::new(),
            on_stop: OnceLock::new(),
            crash: OnceLock::new(),
        })
    }

    /// Bytes in use for data and everything else (`used_memory`): heap of entries and global allocator. Memory of Lua
    /// does not count: it has a limit of its own, and no key is evicted for it.
    pub fn used_memory(&self) -> u64 {
        // Lua allocates from the global allocator, so it is part of that count only.
        let all = self.facts.memory.map_or(0, |f| f().saturating_sub(script::memory() as u64));
        all + self.engine.keyspace.heap().in_pages() as u64
    }

    /// True if more memory is in use than `limit` bytes: exact near the limit, else to a thousandth of it, at hardly
    /// any cost.
    #[inline]
    pub fn uses_more_than(&self, limit: u64) -> bool {
        let error = ABOUT * self.mailboxes.len() as u64;
        if limit / 1024 < error {
            return self.used_memory() > limit;
        }
        let about = self.facts.memory_about.map_or(0, |f| f()) + self.engine.keyspace.heap().in_pages_about() as u64;
        about.saturating_sub(script::memory() as u64) > limit
    }

    /// Highest `used_memory` seen, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let used = self.used_memory();
        let before = self.peak_memory.fetch_max(used, Relaxed);
        if used > before {
            self.peak_memory_ms.store(self.clock.unix_ms().0, Relaxed);
        }
        before.max(used)
    }

    /// When that was.
    pub fn peak_memory_at(&self) -> UnixMs {
        UnixMs(self.peak_memory_ms.load(Relaxed))
    }

    /// `used_memory` before there was data, in bytes.
    pub fn startup_memory(&self) -> u64 {
        self.startup_memory.load(Relaxed)
    }

    /// Notes that there is no data yet: the present use is what a server needs without any. Later calls change nothing.
    pub fn note_startup_memory(&self) {
        let _ = self.startup_memory.compare_exchange(0, self.used_memory(), Relaxed, Relaxed);
    }

    /// The bytes of `used_memory` that are not data: the needs of a server without any, its clients, and the store's
    /// own memory.
    pub fn memory_overhead(&self) -> u64 {
        let clients = self.client_memory();
        let store = self.checkpoints().and_then(|checkpoints| checkpoints.store()).map_or(0, |store| {
            let figures = store.figures();
            figures.cache_bytes + figures.pinned_bytes + figures.bytes_unflushed
        });
        self.startup_memory() + clients + store
    }

    /// Notes the rates and peaks of INFO. One worker calls it now and then.
    pub(crate) fn sample(&self, now: UnixMs) {
        let sum = |counter: fn(&WorkerStats) -> &AtomicU64| -> u64 {
            self.stats.iter().map(|stats| counter(stats).load(Relaxed)).fold(0, u64::wrapping_add)
        };
        self.sampler.push(Sample {
            at: now,
            commands: sum(|s| &s.processed),
            bytes_in: sum(|s| &s.bytes_in),
            bytes_out: sum(|s| &s.bytes_out),
            turns: sum(|s| &s.turns),
            turn_nanos: sum(|s| &s.turn_nanos),
        });
        self.peak_memory();
        self.look_at_limits();
        let limit = self.resident_bound(&self.config.settings());
        if limit > 0 {
            // It asks the system, so only where it is needed.
            self.look_at_resident(limit, now);
        }
        self.note_startup_memory();
    }

    /// Index of the part of the keyspace that is neither a worker's nor a loader's ([`Keyspace::local`]).
    pub fn spare_local(&self) -> usize {
        self.workers() + LOADERS
    }

    /// Index of the part with which the thread of snapshots loads a file.
    pub fn local_of_snapshots(&self) -> usize {
        self.spare_local() + 1
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// Gives worker `index` its mailbox. Once, before anybody sends to it.
    pub fn open_mailbox(&self, index: usize, mailbox: Mailbox) {
        assert!(self.mailboxes[index].set(mailbox).is_ok(), "one mailbox per worker");
    }

    /// Sends a message to a worker. It is lost if the worker has no mailbox yet: then no other thread can know of its
    /// connections.
    pub fn send(&self, worker: usize, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(worker).and_then(OnceLock::get) {
            mailbox.send(message);
        }
    }

    /// As [`Self::send`], by worker `from` in its turn.
    pub(crate) fn send_from(&self, from: usize, worker: usize, message: Message) {
        match self.mailbox(worker) {
            Some(mailbox) if worker == from => mailbox.send_own(message),
            _ => self.send(worker, message),
        }
    }

    pub(crate) fn mailbox(&self, worker: usize) -> Option<&Mailbox> {
        self.mailboxes.get(worker).and_then(OnceLock::get)
    }

    /// The clients of all workers, by id.
    pub fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with all of them, few at a time: a worker that registers a client waits for few.
    pub(crate) fn each_client(&self, mut f: impl FnMut(&Client)) {
        let mut from = 0;
        loop {
            let clients = self.clients();
            let mut last = None;
            for (id, client) in clients.range(from..).take(CLIENTS_AT_ONCE) {
                f(client);
                last = Some(*id);
            }
            drop(clients);
            let Some(last) = last else { return };
            from = last + 1;
        }
    }

    /// Bytes that all clients take.
    pub(crate) fn client_memory(&self) -> u64 {
        let mut sum = 0;
        self.each_client(|client| sum += client.memory());
        sum
    }

    /// Number of connections.
    pub fn connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }

    /// A new client id, if fewer than `max` clients are connected.
    pub(crate) fn admit(&self, max: u64) -> Option<u64> {
        if self.connected.fetch_add(1, Relaxed) >= max {
            self.connected.fetch_sub(1, Relaxed);
            return None;
        }
        Some(self.next_client.fetch_add(1, Relaxed))
    }

    pub(crate) fn register(&self, client: Arc<Client>) {
        self.clients().insert(client.id, client);
    }

    /// Forgets a client. Its worker and the client that kills it may both call this; the first call counts.
    pub(crate) fn dismiss(&self, id: u64) {
        if self.clients().remove(&id).is_some() {
            self.connected.fetch_sub(1, Relaxed);
        }
    }

    /// The users in the files of a node of a cluster, for a cluster that has none: as bytes, for
    /// [`crate::cluster::join`].
    pub fn users_of_files(&self) -> Option<Arc<[u8]>> {
        self.users.seed()
    }

    /// Waits until every worker has taken the messages that this thread has sent before, or for this time: a script
    /// may keep a worker busy. No worker may call it.
    pub fn until_workers_have_heard(&self, most: std::time::Duration) {
        let (heard, waiting) = std::sync::mpsc::sync_channel(0);
        (0..self.workers()).for_each(|worker| self.send(worker, Message::Reached(heard.clone())));
        drop(heard);
        // It is never sent, but dropped.
        let _ = waiting.recv_timeout(most);
    }

    /// True if a client that does not log in may run commands, as the user `default`.
    pub fn lets_strangers_in(&self) -> bool {
        self.users.lets_in(self.config.settings().requirepass.as_ref())
    }

    /// Ends a client: it is gone for every other client at once, and its worker closes it when it hears of it.
    pub(crate) fn end_client(&self, client: &Client) {
        self.dismiss(client.id);
        client.seat.close();
        self.send(usize::from(client.worker.load(Relaxed)), Message::Kill { token: client.token.load(Relaxed) });
    }

    /// Notes that the node has a log and makes checkpoints, or no longer does. Workers that have begun hear it by
    /// messages: see `switching`.
    pub fn set_log(&self, log: Option<(Arc<Durable>, Arc<Checkpoints>)>) {
        *self.durable.write().unwrap_or_else(PoisonError::into_inner) = log;
    }

    fn kept(&self) -> Option<(Arc<Durable>, Arc<Checkpoints>)> {
        self.durable.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state of its checkpoints, if it makes any.
    pub fn checkpoints(&self) -> Option<Arc<Checkpoints>> {
        Some(self.kept()?.1)
    }

    /// The log, if there is one. Workers have it at hand.
    pub fn durable(&self) -> Option<Arc<Durable>> {
        Some(self.kept()?.0)
    }

    /// Turns of all workers since the start. It may have begun anew.
    pub fn turns(&self) -> u64 {
        self.stats.iter().map(|stats| stats.turns.load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The troubles of a node that serves, in words; empty: none.
    pub fn trouble(&self) -> String {
        let refusal = match self.durable() {
            Some(durable) => durable.refusal(),
            None => self.refusal_of_snapshots().map(str::to_owned),
        };
        let words = |why: String| {
            let codes = ["MISCONF ", "CLUSTERDOWN "];
            codes.iter().find_map(|code| why.strip_prefix(code)).unwrap_or(&why).to_owned()
        };
        let refusal = refusal.map(|why| format!("refuses writes: {}", words(why)));
        let loss = self.durable().and_then(|durable| durable.log().own_loss());
        let loss =
            loss.map(|why| format!("a disk of its own log has failed, and the log goes on with its copies: {why}"));
        let around = self.durable().and_then(|durable| durable.log().around()).filter(|_| loss.is_none());
        let around = around
            .map(|why| format!("its own log's disk takes nothing for now, and the log goes on with its copies: {why}"));
        refusal.into_iter().chain(loss).chain(around).collect::<Vec<_>>().join("; ")
    }

    /// Its log has waited so many nanoseconds for other copies: LATENCY shows that from `latency-monitor-threshold` on.
    pub fn waited_for_copies(&self, nanos: u64) {
        let (least, millis) = (self.config.settings().latency_monitor_threshold, nanos / 1_000_000);
        if least > 0 && millis >= least {
            self.latencies.add(Event::LogCopies, self.clock.unix_ms().seconds(), millis);
        }
    }

    /// The copies of its log, as it reports them to its cluster.
    pub fn reported_copies(&self) -> Vec<CopyReport> {
        let copies = self.durable().and_then(|durable| durable.copies());
        copies.map_or_else(Vec::new, |of| of.copies.into_iter().map(|copy| copy.report).collect())
    }

    /// Makes it a node of a cluster. Once, before it has workers.
    pub fn join(&self, cluster: Arc<Cluster>) {
        assert!(self.cluster.set(cluster).is_ok(), "a node of one cluster");
    }

    /// The cluster that it is a node of, if any.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.get()
    }

    /// Notes the copy of another node's data that follows now, or that none does.
    pub fn set_copy(&self, copy: Option<Arc<dyn CopyOfData>>) {
        self.copy.set(copy);
    }

    /// The copy of another node's data that follows now, if one does.
    pub(crate) fn copy(&self) -> Option<Arc<dyn CopyOfData>> {
        self.copy.get()
    }

    /// An id for a client that is not registered.
    pub(crate) fn next_client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Relaxed)
    }

    /// True if it shuts down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Wakes a connection whose latch is free now.
    pub fn wake(&self, waiter: Waiter) {
        self.send(usize::from(waiter.worker), Message::Unpark(waiter.token));
    }

    /// Makes the workers look that wait for the log: a watermark has moved, or the log has failed.
    pub fn log_moved(&self) {
        // A worker sees the watermark, or this thread sees that it waits (rule K2).
        fence(SeqCst);
        for mailbox in self.mailboxes.iter().filter_map(OnceLock::get) {
            mailbox.nudge();
        }
    }

    /// Asks all workers to stop. A client that sees its connection closed by that finds no open port.
    pub fn stop(&self) {
        if let Some(close) = self.on_stop.get() {
            close();
        }
        self.stopping.store(true, Relaxed);
        self.look_all();
    }

    /// Stops when all is done that comes before, on other threads: [`Self::before_stopping`].
    pub fn stop_in_order(&self) {
        match self.before_stop.get() {
            Some(leave) => leave(),
            None => self.stop(),
        }
    }

    /// Sets what is called in place of [`Self::stop`] when the node is to stop in order, and stops it some time later. Once.
    pub fn before_stopping(&self, leave: Box<dyn Fn() + Send + Sync>) {
        let _ = self.before_stop.set(leave);
    }

    /// Sets what is called when the node stops: closing its listeners. Once.
    pub fn when_stopping(&self, close: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_stop.set(close);
    }

    /// Makes all workers check the state that they share.
    pub fn look_all(&self) {
        for worker in 0..self.workers() {
            self.send(worker, Message::Look);
        }
    }

    /// Sets what makes the process crash. Once.
    pub fn on_crash(&self, crash: fn(Crash)) {
        let _ = self.crash.set(crash);
    }

    /// Makes the process crash. It returns if there is no way set.
    pub(crate) fn crash(&self, kind: Crash) {
        if let Some(crash) = self.crash.get() {
            crash(kind);
        }
    }
}

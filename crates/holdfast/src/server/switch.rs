//! `CONFIG SET appendonly`: the log is switched on and off while clients are served (rule L13).
//!
//! On: the switch begins a new generation of the log (`engine::checkpoint::begin_generation`) and makes a checkpoint
//! of everything. Once that is durable, replies wait for the log. Commands answered meanwhile are in the log, and
//! committed before the switch is answered. If the switch fails, or the process ends before, the disks hold the old
//! data.
//!
//! The new generation replaces only data that this process has loaded or logged itself, because memory holds its newest
//! state. Other data on the disks (appendonly was off at the start) was confirmed to clients and is in no memory. The
//! switch refuses if there is such data.
//!
//! Off: from one moment on nothing is logged. Records before it are committed and answered before the log is closed.
//! The log stays on the disks: a later start finds the data of that moment, and says so.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use command::Generation;
use engine::checkpoint::{Checkpointer, Clearing, begin_generation, highest, leave_mark, note_streams};
use loggroup::Driver;
use node::config::Settings;
use node::{Checkpoints, Halted, Logging, Node};
use redolog::{Disk, Fsync, Gate, Log, Lsn, Opened, Recovery, State};

use super::backup::{self, Sources};
use super::checkpoints;
use super::durable::{Disks, Ended, Kept, Running, fetch_from, fsync, limit_loads, note_places, run};
use super::places::Places;
use super::standby::Standbys;
use super::warm_up::WARM_UP;

/// For so long the end of the log waits until transactions over nodes are decided, in milliseconds.
const DECIDED_MS: u64 = 5_000;
/// Between two looks at whether something has happened.
const LOOK: Duration = Duration::from_micros(500);
/// Between two looks at whether everything is in memory.
const WARM_LOOK: Duration = Duration::from_millis(5);
/// Between two attempts at a moment without scripts: twice as long every time.
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(100);

/// The log and its checkpoints, if they are on.
pub struct Switch {
    pub(super) node: Arc<Node>,
    seed: u64,
    kept: Mutex<Option<Kept>>,
    /// Held by whoever holds checkpoints back: a backup, or a copy of the store.
    copying: Mutex<()>,
    /// Above the number of every freeze of data in memory.
    epoch: AtomicU64,
    /// Incarnations of logs of this process: it has loaded them, begun them, or found them empty.
    own: Mutex<BTreeSet<u64>>,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("log", &self.log()).finish_non_exhaustive()
    }
}

impl Switch {
    /// For a node that hashes with `seed`. `kept` is its log and store, if it started with any.
    pub fn new(node: Arc<Node>, seed: u64, kept: Option<Kept>) -> Self {
        let own = Mutex::new(kept.iter().flat_map(|kept| kept.log.incarnations()).collect());
        Self { node, seed, kept: Mutex::new(kept), copying: Mutex::default(), epoch: AtomicU64::new(0), own }
    }

    /// The node leads the log of a shard that it has followed.
    pub(super) fn leads(&self, kept: Kept) {
        kept.log.incarnations().into_iter().for_each(|incarnation| self.owns(incarnation));
        *self.kept() = Some(kept);
    }

    /// The copies of the log, if it has any.
    pub(super) fn copies(&self) -> Option<Arc<Driver>> {
        self.kept().as_ref()?.copies.clone()
    }

    /// Has all workers write nothing more, at a moment when nothing is under way. Clients are not served meanwhile. Returns
    /// the end of each stream; none: something is under way for so many milliseconds.
    ///
    /// # Errors
    /// The log is off, or the server stops.
    pub(super) fn rest(&self, patience_ms: u64) -> Result<Option<Vec<Lsn>>, String> {
        let end = self.node.clock.boot_ns().ms() + patience_ms;
        loop {
            if let Some(halted) = self.node.halt().map_err(|_| STOPPING)? {
                let transactions = &self.node.engine.transactions;
                if !transactions.any() && transactions.outcomes().prepared().next().is_none() {
                    self.tell(&Logging::Rests(true))?;
                    let ends = self.kept().as_ref().map(|kept| kept.gates.iter().map(Gate::end).collect::<Vec<_>>());
                    drop(halted);
                    return ends.ok_or("appendonly is off".to_owned()).map(Some);
                }
            }
            if self.node.clock.boot_ns().ms() >= end {
                return Ok(None);
            }
            thread::park_timeout(RETRY_MIN);
        }
    }

    /// Workers write again.
    ///
    /// # Errors
    /// The server stops.
    pub(super) fn go_on(&self) -> Result<(), String> {
        let _halted = self.halt()?;
        self.tell(&Logging::Rests(false))
    }

    /// The node leads its log no more, and follows it: workers rest, and everything is committed.
    ///
    /// # Errors
    /// The log is off, or has failed, or the server stops.
    pub(super) fn follows(&self) -> Result<Ended, String> {
        let halted = self.halt()?;
        let kept = self.kept().take().ok_or("appendonly is off")?;
        self.tell(&Logging::Ends)?;
        self.node.follows.store(true, SeqCst);
        self.node.engine.end_watches();
        drop(halted);
        self.node.set_log(None);
        let ended = kept.end();
        self.tell(&Logging::Forgotten)?;
        ended
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log, if it is on.
    pub fn log(&self) -> Option<Log> {
        self.kept().as_ref().map(|kept| kept.log.clone())
    }

    /// The log, if it is on, is kept as the settings say, and loaders read as much at once.
    pub fn follow(&self, settings: &Settings) {
        limit_loads(&self.node, settings);
        if let Some(log) = self.log() {
            log.set_fsync(fsync(settings.appendfsync));
        }
    }

    /// Ends everything, when the workers have ended.
    pub fn stop(&self) {
        let kept = self.kept().take();
        if let Some(kept) = kept {
            kept.stop();
        }
    }

    /// Switches the log on. Returns once all data, and all later replies, are as durable as the settings promise.
    pub fn on(&self, settings: &Settings) -> Result<(), String> {
        let before = self.node.clock.monotonic_ns();
        let dir = Path::new(OsStr::from_bytes(&self.node.config.settings().dir)).join(OsStr::from_bytes(&settings.dir));
        let disks = Disks::open(settings, &dir, self.node.clock.clone()).map_err(|error| error.to_string())?;
        let Disks { log, node: id, store, header, places, .. } = disks;
        self.must_not_replace(log.recovery(), header.is_some(), &places)?;
        let highest = header.as_ref().map(|header| highest(&*store, header)).transpose();
        let above = highest.map_err(|error| error.to_string())?.unwrap_or_default();
        if header.is_some() {
            tracing::warn!(
                cause = "replaced",
                "The data in {} from before appendonly was switched off are replaced with the present data",
                places.store.display()
            );
        }
        let running = run(log, id, above, &self.node, settings, Fsync::Always);
        self.owns(incarnation_of(&running, &places));
        let Running { log, durable, gates: [for_checkpoints, mut gates] } =
            running.map_err(|error| error.to_string())?;
        let databases = header.as_ref().map(|header| &header.databases);
        let noted = note_streams(&*store, log.streams()).map_err(|error| error.to_string());
        note_places(&*store, &places);
        let begun = noted.and_then(|()| self.begin(&log, &mut gates, databases, &durable));
        if let Err(why) = begun {
            self.give_up(&log);
            return Err(why);
        }
        let state = Arc::new(Checkpoints::new(store.clone(), self.node.facts.started, None));
        let epoch = self.epoch.load(Relaxed);
        let checkpointer = Checkpointer::anew(self.node.engine.clone(), store, self.seed, header.as_ref(), epoch);
        let node = Arc::clone(&self.node);
        let thread = checkpoints::start(
            node,
            log.clone(),
            for_checkpoints,
            checkpointer,
            state.clone(),
            durable.tail().clone(),
            None,
        );
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => {
                self.give_up(&log);
                return Err(error.to_string());
            }
        };
        let (readers, node) = (Vec::new(), Arc::clone(&self.node));
        let (log_of, checkpoints) = (log.clone(), state.clone());
        let mut kept =
            Kept { log: log_of, gates, checkpoints, thread, readers, places, node, copies: None, standbys: None };
        if let Err(why) = self.complete(&kept, id) {
            self.give_up(&log);
            state.cancel();
            self.epoch.fetch_max(kept.stop(), Relaxed);
            self.clear();
            return Err(why);
        }
        log.set_fsync(fsync(settings.appendfsync));
        match kept.checkpoints.store().map(|store| fetch_from(&self.node, &store)) {
            Some(Ok(readers)) => kept.readers = readers,
            Some(Err(error)) => tracing::warn!(cause = "no key leaves", "No key leaves memory for the store: {error}"),
            None => {}
        }
        self.node.set_log(Some((durable, state)));
        *self.kept() = Some(kept);
        let ms = self.node.clock.monotonic_ns().since(before) / 1_000_000;
        tracing::info!(cause = "on", "appendonly is on: everything is in a checkpoint and in the log, after {ms} ms");
        Ok(())
    }

    /// Notes that the log of this incarnation belongs to this process. That stays so if beginning a later one fails.
    fn owns(&self, incarnation: u64) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(incarnation);
    }

    /// Refuses to replace data that this process has not loaded or written.
    fn must_not_replace<D: Disk>(
        &self,
        there: &Recovery<D>,
        has_checkpoint: bool,
        places: &Places,
    ) -> Result<(), String> {
        let is_own = self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(&there.incarnation());
        if is_own || !has_checkpoint && !there.has_records() {
            self.owns(there.incarnation());
            return Ok(());
        }
        let folder = places.data().unwrap_or(&places.store).display();
        let why = format!(
            "the data in {folder} is not loaded, as appendonly was off at the start, and would be lost: restart with appendonly yes to have it, or move it away first"
        );
        tracing::warn!(cause = "stays off", "appendonly stays off: {why}");
        Err(why)
    }

    /// Writes a backup of one moment to this directory, which is new or empty.
    pub fn back_up(&self, folder: &Path) -> Result<(), String> {
        let _copying = self.copying();
        // Nobody switches meanwhile: it is the same thread that does. Others need to know the log.
        let taken = self.kept().as_mut().map(|kept| {
            (kept.log.clone(), kept.checkpoints.clone(), kept.places.clone(), std::mem::take(&mut kept.gates))
        });
        let (log, checkpoints, places, mut gates) = taken.ok_or("appendonly is off")?;
        let sources = Sources { log: &log, gates: &mut gates, checkpoints: &checkpoints, places: &places };
        let written = backup::write(self, sources, folder);
        if let Some(kept) = self.kept().as_mut() {
            kept.gates = gates;
        }
        written
    }

    /// Makes a checkpoint, and copies the store as it is then to this directory, which is new.
    pub fn copy_store(&self, folder: &Path) -> Result<(), String> {
        let _copying = self.copying();
        let kept = self.kept().as_ref().map(|kept| (kept.log.clone(), kept.checkpoints.clone()));
        let (log, checkpoints) = kept.ok_or("appendonly is off")?;
        // A store covers an idle stream up to its last record. Other streams may have given up records behind that.
        let newest = log.marks().all().max().unwrap_or_default();
        log.want_passed(newest);
        self.wait_for(&log, || log.marks().all().all(|mark| mark >= newest))?;
        backup::copy_store(self, &log, &checkpoints, folder)
    }

    fn copying(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The standbys of the shard, if the log has copies.
    pub fn standbys(&self) -> Option<Arc<Standbys>> {
        self.kept().as_ref().and_then(|kept| kept.standbys.clone())
    }

    /// The directory of the store, if the log is on.
    pub fn store_folder(&self) -> Option<PathBuf> {
        self.kept().as_ref().map(|kept| kept.places.store.clone())
    }

    /// Begins a generation: from one moment on everything is logged.
    fn begin(
        &self,
        log: &Log,
        gates: &mut [Gate],
        stored: Option<&keyspace::Databases>,
        durable: &Arc<node::Durable>,
    ) -> Result<(), String> {
        let begun = leave_mark(gates, Generation::Begins(self.node.clock.unix_ms()));
        log.ring(0);
        // Without it what follows would seem to go on from what was there before.
        self.wait_for(log, || log.synced(0) >= begun)?;
        loop {
            let halted = self.halt()?;
            let wake = |waiter| self.node.wake(waiter);
            if begin_generation(&self.node.engine, gates, begun, stored, wake).is_some() {
                self.tell(&Logging::Begins(durable.clone()))?;
                break;
            }
            drop(halted);
            thread::park_timeout(LOOK);
        }
        (0..log.streams()).for_each(|stream| log.ring(stream));
        Ok(())
    }

    /// Makes everything durable, and has everybody wait for the log, whose data are called `id`.
    fn complete(&self, kept: &Kept, id: [u8; 16]) -> Result<(), String> {
        let Kept { log, gates, checkpoints, .. } = kept;
        let ticket = checkpoints.ask(true);
        self.wait_for(log, || checkpoints.outcome(ticket).is_some())?;
        if checkpoints.outcome(ticket) == Some(false) {
            return Err(checkpoints.state().failed.unwrap_or_default());
        }
        // Before anything is promised, and no sooner: until then a start may find what was there before.
        if let Some(metadata) = self.node.cluster().and_then(|cluster| cluster.administration()) {
            let (heard, hears) = channel();
            metadata.has_data(id, Box::new(move |kept| drop(heard.send(kept))));
            hears.recv().map_err(|_| STOPPING)??;
        }
        self.tell(&Logging::Promises)?;
        // Replies before this moment went out without waiting.
        let ends: Vec<_> = gates.iter().map(Gate::end).collect();
        (0..log.streams()).for_each(|stream| log.ring(stream));
        self.wait_for(log, || log.marks().all().zip(&ends).all(|(mark, end)| mark >= *end))
    }

    /// Waits until `happened`. Fails if the log has no room or has failed, or if the server stops.
    pub(super) fn wait_for(&self, log: &Log, happened: impl Fn() -> bool) -> Result<(), String> {
        while !happened() {
            match log.state() {
                State::Running => {}
                State::Full(lack) => return Err(lack.to_string()),
                State::Failed(why) => return Err(why),
            }
            if self.node.is_stopping() {
                return Err(STOPPING.into());
            }
            thread::park_timeout(LOOK);
        }
        Ok(())
    }

    /// All workers stand still, and no script is under way.
    pub(super) fn halt(&self) -> Result<Halted<'_>, String> {
        let mut retry = RETRY_MIN;
        loop {
            if let Some(halted) = self.node.halt().map_err(|_| STOPPING)? {
                return Ok(halted);
            }
            thread::park_timeout(retry);
            retry = (2 * retry).min(RETRY_MAX);
        }
    }

    pub(super) fn tell(&self, logging: &Logging) -> Result<(), String> {
        self.node.tell_logging(logging).map_err(|_| STOPPING.to_owned())
    }

    /// The log that was being switched on is off again, before anybody waits for it.
    fn give_up(&self, log: &Log) {
        // A server that stops has no workers who would care.
        if let Ok(halted) = self.halt() {
            let _ = self.tell(&Logging::Ends).and_then(|()| self.tell(&Logging::Forgotten));
            drop(halted);
        }
        log.stop();
    }

    /// True if the warm-up reads the store into memory.
    fn is_warming_up(&self) -> bool {
        let is_it = |reader: &JoinHandle<()>| reader.thread().name() == Some(WARM_UP) && !reader.is_finished();
        self.kept().as_ref().is_some_and(|kept| kept.readers.iter().any(is_it))
    }

    /// Switches the log off. Returns once all records are committed and answered, and the disks are no longer used.
    ///
    /// # Errors
    /// Some keys are only in the store, or a transaction over nodes is not decided in time. The log stays on.
    pub fn off(&self) -> Result<(), String> {
        while self.node.engine.keyspace.may_have_cold() && self.is_warming_up() {
            if self.node.is_stopping() {
                return Err(STOPPING.into());
            }
            thread::park_timeout(WARM_LOOK);
        }
        match &*self.kept() {
            None => return Ok(()),
            Some(kept) if kept.copies.is_some() => return Err("the log has copies at other members".into()),
            Some(_) => {}
        }
        // A change of settings before all workers stand still finds the log, which may stay.
        let halted = self.halt_decided();
        self.node.pauses.let_go();
        self.node.look_all();
        let halted = halted?;
        let Some(mut kept) = self.kept().take() else { return Ok(()) };
        if let Ok(halted) = halted {
            if self.node.engine.keyspace.may_have_cold() {
                *self.kept() = Some(kept);
                return Err("some keys are not in memory, but only in the store".into());
            }
            self.node.engine.source.set(None);
            if kept.log.takes_writes() {
                leave_mark(&mut kept.gates, Generation::Ends(self.node.clock.unix_ms()));
            }
            let _ = self.tell(&Logging::Ends);
            drop(halted);
        }
        kept.checkpoints.cancel();
        self.node.set_log(None);
        let epoch = kept.stop();
        self.epoch.fetch_max(epoch, Relaxed);
        let _ = self.tell(&Logging::Forgotten);
        self.clear();
        tracing::info!(cause = "off", "appendonly is off: log and store stay as they are now");
        Ok(())
    }

    /// Halts all workers at a moment without undecided transactions on this node, or gives up as the server stops. If
    /// the log ended with an undecided one, a start would wait for its outcome for ever: the other nodes forget what
    /// this node has acknowledged. Nothing is written until the caller calls [`Pauses::let_go`](node::Pauses::let_go).
    fn halt_decided(&self) -> Result<Result<Halted<'_>, String>, String> {
        let mut until = None;
        loop {
            let halted = self.halt();
            let is_decided = self.node.engine.transactions.outcomes().prepared().next().is_none();
            if halted.is_err() || is_decided {
                return Ok(halted);
            }
            drop(halted);
            let now = self.node.clock.unix_ms();
            if now >= *until.get_or_insert(now + DECIDED_MS) {
                return Err("transactions over nodes that are prepared here are not decided yet".into());
            }
            self.node.pauses.hold(until.unwrap_or(now));
            thread::park_timeout(LOOK);
        }
    }

    /// Nothing is kept for a store any more.
    fn clear(&self) {
        let mut clearing = Clearing::begin(&self.node.engine);
        while let Some(done) = clearing.step(&self.node.engine, |waiter| self.node.wake(waiter)) {
            if self.node.is_stopping() {
                return;
            }
            if !done {
                thread::park_timeout(LOOK);
            }
        }
    }
}

/// The incarnation of a begun log, or of the files there if beginning it failed halfway. 0: none.
fn incarnation_of(running: &Result<Running, Box<dyn Error>>, places: &Places) -> u64 {
    match running {
        Ok(running) => running.log.incarnations()[1],
        Err(_) => Opened::to_read(&places.logs).map_or(0, |there| there.recovery().incarnation()),
    }
}

const STOPPING: &str = "the server stops";

//! The data of the server on its disks: read before it listens, log and store.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::checkpoint::{Checkpointer, Header, StoreSource, Unloadable, header};
use log::{Fsync, Limits, Log, Opened};
use node::config::{AppendFsync, Settings};
use node::{Checkpoints, Clock, Durable, Node};
use store::{Embedded, Store};

use super::{checkpoints, loaders};

/// What a setting means to the log.
pub fn fsync(setting: AppendFsync) -> Fsync {
    match setting {
        AppendFsync::Always => Fsync::Always,
        AppendFsync::Everysec => Fsync::Everysec,
        AppendFsync::No => Fsync::No,
    }
}

/// Log and store, opened, and nothing of them read into memory.
pub struct Disks {
    log: Opened,
    node: [u8; 16],
    store: Arc<dyn Store>,
    header: Option<Header>,
}

/// What keeps the data on the disks while the server runs.
pub struct Kept {
    /// The log.
    pub log: Log,
    checkpoints: Arc<Checkpoints>,
    thread: JoinHandle<()>,
    loaders: Vec<JoinHandle<()>>,
    node: Arc<Node>,
}

impl Disks {
    /// Opens the directories that the settings name.
    pub fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Disks, Box<dyn Error>> {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let folders: Vec<PathBuf> = settings.log_dirs.iter().map(|bytes| path(bytes)).collect();
        for folder in &folders {
            fs::create_dir_all(folder)
                .map_err(|error| format!("can't make the directory {} of the log: {error}", folder.display()))?;
        }
        let log = match settings.log_pace {
            None => Opened::new(&folders, &[])?,
            Some(pace) => {
                let clock = Arc::clone(&clock);
                Opened::slow(&folders, &[], pace, &(Arc::new(move || clock.monotonic_ns()) as log::Clock))?
            }
        };
        for (file, at) in log.recovery().torn() {
            tracing::warn!(
                "{file}: cut at byte {at}; what stood there was not known to be on the disk and was never confirmed"
            );
        }
        let folder = path(&settings.store_dir);
        let node = match log.recovery().node() {
            Some(node) => node,
            None => match store::node_of(&folder)? {
                Some(node) => node,
                None => random()?,
            },
        };
        let store = store::Settings {
            node,
            at_least: 0,
            limits: limits(settings.maxmemory),
            clock: Arc::new(move || Duration::from_nanos(clock.monotonic_ns())),
        };
        let store: Arc<dyn Store> = Arc::new(Embedded::open(&folder, &store)?);
        let header = header(&*store)?;
        node::check_disks(&log, header.as_ref(), &folder.display().to_string())?;
        Ok(Disks { log, node, store, header })
    }

    /// The seed that the keys lie in the order of; `None` if there are none.
    pub fn seed(&self) -> Option<u64> {
        self.header.as_ref().map(|header| header.seed)
    }

    /// Loads what the store has, does again what the log says since, and gives both to the node, which hashes with `seed` and whose
    /// workers have not begun.
    pub fn start(mut self, node: &Arc<Node>, seed: u64, settings: &Settings) -> Result<Kept, Box<dyn Error>> {
        let began = node.clock.monotonic_ns();
        let log = &mut self.log;
        let recovered = node::recover(node, &*self.store, |apply| log.replay(apply))?;
        let keyspace = &node.engine.keyspace;
        let there: u64 = (0..settings.databases).map(|db| keyspace.len(db)).sum();
        let (keys, highest, bytes) = (recovered.keys(), recovered.highest(), recovered.bytes);
        let ms = (node.clock.monotonic_ns() - began) / 1_000_000;
        tracing::info!(
            "DB loaded from disk: {there} keys in {ms} ms, {keys} of a checkpoint and then {} records of the log",
            recovered.records
        );

        let clock = Arc::clone(node);
        let log_settings = log::Settings {
            limits: Limits::of(settings.log_segment_size),
            fsync: fsync(settings.appendfsync),
            clock: Arc::new(move || clock.clock.monotonic_ns()),
            seed: u64::from_ne_bytes(*random()?.first_chunk().unwrap_or(&[0; 8])),
        };
        // The last gate is the checkpointer's.
        let (log, mut gates) = self.log.start(self.node, highest, node.workers() + 1, log_settings)?;
        let gate = gates.pop().unwrap_or_default();
        node.open_log(Durable::new(log.clone(), gates));
        let watcher: Weak<Node> = Arc::downgrade(node);
        log.on_moved(Box::new(move || {
            if let Some(node) = watcher.upgrade() {
                node.log_moved();
            }
        }));
        let loaded = recovered.loaded;
        let saved = loaded.as_ref().map(|loaded| (loaded.header.saved_at, keys));
        let state = Arc::new(Checkpoints::new(self.store.clone(), node.facts.started_ms, saved));
        node.open_checkpoints(state.clone());
        let report = |why: &Unloadable| tracing::warn!("A key cannot be read from the store: {why}");
        let _ = node.engine.source.set(Arc::new(StoreSource { store: self.store.clone(), report }));
        let checkpointer = Checkpointer::new(node.engine.clone(), self.store, seed, loaded);
        let thread = checkpoints::start(Arc::clone(node), log.clone(), gate, checkpointer, state.clone(), bytes)?;
        let loaders = loaders::start(node)?;
        Ok(Kept { log, checkpoints: state, thread, loaders, node: Arc::clone(node) })
    }
}

impl Kept {
    /// Ends it all, when the workers have ended.
    pub fn stop(self) {
        self.node.engine.requests.close();
        let loaded = self.loaders.into_iter().map(JoinHandle::join).all(|joined| joined.is_ok());
        if !loaded {
            tracing::warn!("A thread that reads the store has panicked");
        }
        self.checkpoints.stop();
        if self.thread.join().is_err() {
            tracing::warn!("The thread of the checkpoints has panicked");
        }
        if let log::State::Failed(reason) = self.log.stop() {
            tracing::warn!("The log has failed, and what it did not confirm may be lost: {reason}");
        }
    }
}

/// What the store may use for itself: a small part of what there is for data.
fn limits(maxmemory: u64) -> store::Limits {
    const LEAST: u64 = 1 << 20;
    let most = store::Limits::default();
    if maxmemory == 0 {
        return most;
    }
    let part = maxmemory / 32;
    store::Limits { memory: part.clamp(LEAST, most.memory), cache: part.clamp(LEAST, most.cache), ..most }
}

/// From the system's source of randomness.
fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

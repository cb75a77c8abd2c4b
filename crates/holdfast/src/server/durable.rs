//! The log of the server: opened and replayed before it listens.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use engine::Replay;
use log::{Fsync, Limits, Log, Opened};
use node::config::{AppendFsync, Settings};
use node::{Durable, Node};

/// What a setting means to the log.
pub fn fsync(setting: AppendFsync) -> Fsync {
    match setting {
        AppendFsync::Always => Fsync::Always,
        AppendFsync::Everysec => Fsync::Everysec,
        AppendFsync::No => Fsync::No,
    }
}

/// Opens the log, does again what it says, and gives it to the node, whose workers have not begun.
pub fn open(node: &Arc<Node>, settings: &Settings) -> Result<Log, Box<dyn Error>> {
    let folders: Vec<PathBuf> = settings.log_dirs.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
    for folder in &folders {
        fs::create_dir_all(folder)
            .map_err(|error| format!("can't make the directory {} of the log: {error}", folder.display()))?;
    }
    let began = node.clock.monotonic_ns();
    let mut opened = Opened::new(&folders, &[])?;
    for (file, at) in opened.recovery().torn() {
        tracing::warn!(
            "{file}: cut at byte {at}; what stood there was not known to be on the disk and was never confirmed"
        );
    }
    let mut replay = Replay::new(&node.engine, settings.tunables.limits.clone(), node.clock.unix_ms());
    let mut outcome = Ok(());
    opened.replay(|record| {
        if outcome.is_ok() {
            outcome = replay.apply(record.lsn, record.effects);
        }
    })?;
    outcome?;
    let records = replay.records;
    replay.finish();
    let keys: u64 = (0..settings.databases).map(|db| node.engine.keyspace.len(db)).sum();
    let ms = (node.clock.monotonic_ns() - began) / 1_000_000;
    tracing::info!("DB loaded from the log: {keys} keys, {records} records in {ms} ms");

    let (mut identity, mut seed) = ([0; 16], [0; 8]);
    let mut random = fs::File::open("/dev/urandom")?;
    random.read_exact(&mut identity)?;
    random.read_exact(&mut seed)?;
    let clock = Arc::clone(node);
    let settings = log::Settings {
        limits: Limits::of(settings.log_segment_size),
        fsync: fsync(settings.appendfsync),
        clock: Arc::new(move || clock.clock.monotonic_ns()),
        seed: u64::from_ne_bytes(seed),
    };
    let (log, gates) = opened.start(identity, 0, node.workers(), settings)?;
    node.open_log(Durable::new(log.clone(), gates));
    let watcher: Weak<Node> = Arc::downgrade(node);
    log.on_moved(Box::new(move || {
        if let Some(node) = watcher.upgrade() {
            node.log_moved();
        }
    }));
    Ok(log)
}

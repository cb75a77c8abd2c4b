//! A start without changes to the data, so that `holdfast check` never contradicts a start.
//!
//! It runs the code of a start: it opens log and store, checks that they belong together, and applies the tail of the
//! log to the store. The log is opened for reading only. Opening a store tidies up, so that happens on a *mirror*: a
//! folder with copies of its small files and links to its tables.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use node::config::{Live, Renames, Settings, Values};
use node::{Clock, Facts, Node};
use redolog::Opened;
use store::{Embedded, Store};

use super::clock::SystemClock;
use super::durable::{Disks, identity_of, no_log};
use super::places::Places;

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("holdfast-check-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The data that a server would have after a start with this log, whose folders exist, and this store.
///
/// # Errors
/// Why it does not start, or why that cannot be found out.
pub fn rehearse(folders: &[PathBuf], store: &Path) -> Result<Found, Box<dyn Error>> {
    let scratch = Scratch::new().map_err(|error| format!("no folder for temporary files can be made: {error}"))?;
    let mirror = scratch.0.join("store");
    start(folders, store, &mirror).map_err(|error| {
        // The mirror is nobody's business.
        error.to_string().replace(&*mirror.to_string_lossy(), &store.to_string_lossy()).into()
    })
}

fn start(folders: &[PathBuf], store_folder: &Path, mirror: &Path) -> Result<Found, Box<dyn Error>> {
    let places = Places { logs: folders.to_vec(), store: store_folder.into() };
    let opened = Opened::to_read(folders);
    let mirrored = store::mirror(store_folder, mirror);
    let log = opened.map_err(|damage| no_log(&damage, &places, mirror))?;
    let node = identity_of(&log, store_folder)?;
    mirrored?;
    let clock = Arc::new(SystemClock::new());
    let ticks = clock.clone();
    let settings = store::Settings {
        node,
        at_least: 0,
        limits: store::Limits::default(),
        clock: Arc::new(move || Duration::from_nanos(ticks.monotonic_ns().0)),
    };
    let store: Arc<dyn Store> = Arc::new(Embedded::open(mirror, &settings)?);
    let mut disks = Disks::together(log, node, store, places)?;
    let node = a_node(&disks, clock)?;
    let recovered = disks.recover(&node)?;
    let databases = node.config.settings().databases;
    let keys = (0..databases).map(|db| node.engine.keyspace.len(db)).sum();
    Ok(Found { id: disks.id(), keys, records: recovered.replayed.records })
}

/// The data that a start finds.
pub struct Found {
    /// The identity of log and store.
    pub id: [u8; 16],
    /// Keys in all databases.
    pub keys: u64,
    /// Records of the log that are applied.
    pub records: u64,
}

/// A node without clients, with as many databases as the store needs.
fn a_node(disks: &Disks, clock: Arc<SystemClock>) -> Result<Arc<Node>, Box<dyn Error>> {
    let mut values = Values::default();
    let needed = disks.header.as_ref().map_or(0, |header| header.databases.spaces.len());
    if needed > usize::from(Settings::of(&values).databases) {
        values.set("databases", needed.to_string().as_bytes())?;
    }
    let seed = disks.seed().unwrap_or(1);
    if !object::hashed::hand_in_seed(seed) {
        return Err("the hash seed of large values is set already".into());
    }
    let facts = Facts { started: clock.unix_ms(), ..Facts::default() };
    Ok(Node::new(Arc::new(Live::new(values, None, Renames::default())), clock, 1, seed, facts))
}

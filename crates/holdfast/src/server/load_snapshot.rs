//! A start with `appendonly no` loads the snapshot that an earlier run has left, or Redis.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::put_rdb_value;
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Local, Need, Version};
use node::config::Settings;
use node::{Node, Reload};
use object::Limits;
use rdb::{Entry, Item, Reader};

use super::flushed::Delay;
use super::places::Places;

const BUFFER: usize = 1 << 20;

/// Loads `dbfilename`, if it is there. The workers have not started.
pub fn load(node: &Node, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let path = path_of(settings);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    node.note_startup_memory();
    let local = node.engine.keyspace.local(0);
    let loaded = hold(node).and_then(|held| {
        let loaded = read(node, settings, file, Loading::new(node, settings, (&held, local), VERSION, false));
        node.engine.keyspace.release(held, |_| {});
        loaded
    });
    loaded.map_err(|why| {
        let why = format!("{} cannot be loaded: {why}. Move it away to start without its data", path.display());
        tracing::error!("Fatal error loading the DB: {why}");
        why
    })?;
    Ok(())
}

/// DEBUG RELOAD: loads `dbfilename` while no worker does anything.
pub fn reload(node: &Node, how: Reload) -> Result<(), Box<dyn Error>> {
    let (settings, keyspace) = (node.config.settings(), &node.engine.keyspace);
    let path = path_of(&settings);
    let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let held = hold(node)?;
    let mut version = VERSION;
    keyspace.last_versions(&held, |last| version = version.max(last));
    // Clients that watch a key see that it is another one.
    let version = version.above(keyspace::STREAMS);
    let mut local = keyspace.local(node.local_of_snapshots());
    if !how.no_flush {
        let mut emptied = keyspace.flush(&held, &mut local, None);
        while !emptied.step(&mut local, EMPTIED_AT_ONCE) {}
        local.publish_counts();
    }
    let loading = Loading::new(node, &settings, (&held, local), version, how.merge);
    let loaded = read(node, &settings, file, loading);
    keyspace.release(held, |waiter| node.wake(waiter));
    loaded
}

fn path_of(settings: &Settings) -> PathBuf {
    Path::new(OsStr::from_bytes(&settings.dir)).join(OsStr::from_bytes(&settings.dbfilename))
}

fn hold(node: &Node) -> Result<Held, Box<dyn Error>> {
    node.engine.keyspace.try_acquire(&Need::All, |_| {}).map_err(|_| "a command is under way".into())
}

fn read(node: &Node, settings: &Settings, file: File, mut loading: Loading<'_>) -> Result<(), Box<dyn Error>> {
    let before = node.clock.monotonic_ns();
    let mut reader = Reader::new(BufReader::with_capacity(BUFFER, file))?;
    if !settings.rdbchecksum || node.engine.keyspace.skips_checksums.load(Relaxed) {
        reader = reader.without_checksum();
    }
    let (mut expired, mut codes) = (0, Vec::new());
    let all = loop {
        match reader.next_item() {
            Ok(Some(Item::Entry(entry))) if entry.expiry.is_some_and(|at| at <= loading.now) => expired += 1,
            Ok(Some(Item::Entry(entry))) => {
                if let Err(why) = loading.take(entry) {
                    break Err(why);
                }
            }
            Ok(Some(Item::Function(code))) => codes.push(code),
            Ok(Some(_)) => {}
            Ok(None) => break loading.put_taken(),
            Err(error) => break loading.put_taken().and(Err(error.into())),
        }
    };
    let Loading { held, mut local, version, loaded, empty, .. } = loading;
    local.publish_counts();
    node.engine.keyspace.raise(held, version);
    drop(local);
    node.snapshots.note(|state| state.loaded = (loaded, expired));
    all?;
    node.scripts.load_code(&codes).map_err(|why| format!("a library of functions: {why}"))?;
    let ms = node.clock.monotonic_ns().since(before) / 1_000_000;
    tracing::info!(
        "DB loaded from disk: {loaded} keys of {}, after {ms} ms; {expired} had expired, empty keys skipped: {empty}",
        path_of(settings).display()
    );
    Ok(())
}

/// All keys of a file get the same, below all versions that workers give.
const VERSION: Version = Version(1 << 8);
/// Entries that are freed in one step.
const EMPTIED_AT_ONCE: usize = 1000;
/// Keys without elements that are named.
const NAMED_MAX: u64 = 10;
/// Keys whose places in the tables are fetched while others are decoded.
const TOGETHER: usize = 32;
/// Bytes of values that are put before more keys are read.
const BYTES_TOGETHER: usize = 256 << 10;

struct Loading<'a> {
    node: &'a Node,
    held: &'a Held,
    local: Local,
    clock: AccessClock,
    limits: Limits,
    now: UnixMs,
    databases: u16,
    version: Version,
    /// Keys take the place of others.
    merges: bool,
    delay: Delay,
    /// Keys that are read and not put yet, and the bytes of their values.
    taken: Vec<Entry>,
    bytes: usize,
    loaded: u64,
    /// Collections without elements, which some versions of Redis have written.
    empty: u64,
}

impl<'a> Loading<'a> {
    fn new(
        node: &'a Node,
        settings: &Settings,
        (held, local): (&'a Held, Local),
        version: Version,
        merges: bool,
    ) -> Self {
        let now = node.clock.unix_ms();
        let mut clock = AccessClock::new(1);
        clock.set(now, settings.maxmemory_policy.tracks(), settings.lfu_log_factor, settings.lfu_decay_time);
        let (limits, databases) = (settings.tunables.limits.clone(), settings.databases);
        let (delay, taken) = (Delay(settings.key_load_delay), Vec::with_capacity(TOGETHER));
        Self {
            node,
            held,
            local,
            clock,
            limits,
            now,
            databases,
            version,
            merges,
            delay,
            taken,
            bytes: 0,
            loaded: 0,
            empty: 0,
        }
    }

    /// Puts a key, soon.
    fn take(&mut self, entry: Entry) -> Result<(), Box<dyn Error>> {
        self.bytes += entry.value_len();
        self.taken.push(entry);
        if self.taken.len() < TOGETHER && self.bytes < BYTES_TOGETHER { Ok(()) } else { self.put_taken() }
    }

    /// Puts what was taken. The tables are larger than the processor's caches, and a miss costs as much as to decode a
    /// small value.
    fn put_taken(&mut self) -> Result<(), Box<dyn Error>> {
        let keyspace = &self.node.engine.keyspace;
        let place = |entry: &Entry| {
            let key = keyspace.hasher().key(&entry.key);
            (key.slot, key.hash)
        };
        self.local.begin_turn();
        self.taken.iter().for_each(|entry| keyspace.prefetch_slot(place(entry).0));
        for (slot, hash) in self.taken.iter().map(place) {
            keyspace.prefetch_bucket(&self.local, slot, hash);
        }
        self.local.end_turn();
        self.bytes = 0;
        let mut taken = std::mem::take(&mut self.taken);
        for entry in taken.drain(..) {
            self.put(&entry)?;
            self.delay.wait(|| false);
        }
        self.taken = taken;
        Ok(())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Box<dyn Error>> {
        let number = u16::try_from(entry.db).ok().filter(|db| *db < self.databases);
        let Some(number) = number else {
            return Err(format!("it has keys in database {}, and 'databases' is {}", entry.db, self.databases).into());
        };
        let name = entry.key.escape_ascii();
        let value = match entry.value(&self.limits) {
            Err(error) if error.is_empty_collection() => {
                if self.empty < NAMED_MAX {
                    tracing::info!("The file is loaded, skipping empty key: {name}");
                }
                self.empty += 1;
                return Ok(());
            }
            value => value?,
        };
        let keyspace = &self.node.engine.keyspace;
        let mut db = Db::new(keyspace, self.held, &mut self.local, &self.clock, number, self.version);
        let key = db.key(&entry.key);
        if !self.merges && db.peek(&key).is_some() {
            return Err(format!("at byte {}: the key '{name}' stands there twice", entry.offset).into());
        }
        put_rdb_value(&mut db, &key, value, entry.expiry, (entry.idle, entry.frequency));
        self.loaded += 1;
        Ok(())
    }
}

/// Refuses a start that would serve no data beside a file with data that it does not load. A node of a cluster only logs
/// that.
pub fn check_ignored(settings: &Settings, dir: &Path) -> Result<(), String> {
    let names = [&settings.dbfilename[..], b"appendonlydir"].map(OsStr::from_bytes);
    let there: BTreeSet<_> = names.iter().map(|name| dir.join(name)).filter(|path| path.exists()).collect();
    let ignored = |path: &&std::path::PathBuf| settings.appendonly || path.is_dir();
    let Some(path) = there.iter().find(ignored) else { return Ok(()) };
    let path = path.display();
    let is_empty = Places::of(settings, dir).hold_nothing();
    if !settings.appendonly || !is_empty || settings.takes_part_in_cluster() {
        tracing::warn!("{path} is not loaded; `holdfast import` puts such data into a running server");
        return Ok(());
    }
    Err(format!(
        "{path} is not loaded with `appendonly yes`, and this server has no other data: it would serve an empty database. Move {path} away, \
         start again, and put it into the running server with `holdfast import`. Or start with `appendonly no`, \
         which loads {}, and then say CONFIG SET appendonly yes",
        String::from_utf8_lossy(&settings.dbfilename)
    ))
}

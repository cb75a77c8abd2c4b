//! A start with `appendonly no` loads the snapshot that an earlier run has left, or Redis.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clocks::UnixMs;
use command::put_rdb_value;
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Local, Need, Version};
use node::Node;
use node::config::Settings;
use object::Limits;
use rdb::{Entry, Item, Reader};

use super::places::Places;

const BUFFER: usize = 1 << 20;

/// Loads `dbfilename`, if it is there. The workers have not started.
pub fn load(node: &Node, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let path = Path::new(OsStr::from_bytes(&settings.dir)).join(OsStr::from_bytes(&settings.dbfilename));
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    node.note_startup_memory();
    let before = node.clock.monotonic_ns();
    let (loaded, expired) = read(node, settings, file)
        .map_err(|why| format!("{} cannot be loaded: {why}. Move it away to start without its data", path.display()))?;
    node.snapshots.note(|state| state.loaded = (loaded, expired));
    let ms = node.clock.monotonic_ns().since(before) / 1_000_000;
    tracing::info!("DB loaded from disk: {loaded} keys of {}, after {ms} ms; {expired} had expired", path.display());
    Ok(())
}

fn read(node: &Node, settings: &Settings, file: File) -> Result<(u64, u64), Box<dyn Error>> {
    let mut reader = Reader::new(BufReader::with_capacity(BUFFER, file))?;
    let keyspace = &node.engine.keyspace;
    let held = keyspace.try_acquire(&Need::All, |_| {}).map_err(|_| "the server runs already")?;
    let mut loading = Loading::new(node, settings, &held);
    let (mut loaded, mut expired, mut codes) = (0, 0, Vec::new());
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Entry(entry) if entry.expiry.is_some_and(|at| at <= loading.now) => expired += 1,
            Item::Entry(entry) => loaded += u64::from(loading.put(&entry)?),
            Item::Function(code) => codes.push(code),
            _ => {}
        }
    }
    node.scripts.load_code(&codes).map_err(|why| format!("a library of functions: {why}"))?;
    loading.local.publish_counts();
    keyspace.raise(&held, VERSION);
    drop(loading);
    keyspace.release(held, |_| {});
    Ok((loaded, expired))
}

/// All keys of a file get the same, below all versions that workers give.
const VERSION: Version = Version(1 << 8);

struct Loading<'a> {
    node: &'a Node,
    held: &'a Held,
    local: Local,
    clock: AccessClock,
    limits: Limits,
    now: UnixMs,
    databases: u16,
}

impl<'a> Loading<'a> {
    fn new(node: &'a Node, settings: &Settings, held: &'a Held) -> Self {
        let now = node.clock.unix_ms();
        let mut clock = AccessClock::new(1);
        clock.set(now, settings.maxmemory_policy.tracks(), settings.lfu_log_factor, settings.lfu_decay_time);
        let (local, limits) = (node.engine.keyspace.local(0), settings.tunables.limits.clone());
        Self { node, held, local, clock, limits, now, databases: settings.databases }
    }

    /// False: the key is a collection without elements, which some versions of Redis have written.
    fn put(&mut self, entry: &Entry) -> Result<bool, Box<dyn Error>> {
        let number = u16::try_from(entry.db).ok().filter(|db| *db < self.databases);
        let Some(number) = number else {
            return Err(format!("it has keys in database {}, and 'databases' is {}", entry.db, self.databases).into());
        };
        let value = match entry.value(&self.limits) {
            Err(error) if error.is_empty_collection() => return Ok(false),
            value => value?,
        };
        let keyspace = &self.node.engine.keyspace;
        let mut db = Db::new(keyspace, self.held, &mut self.local, &self.clock, number, VERSION);
        let key = db.key(&entry.key);
        if db.peek(&key).is_some() {
            let name = entry.key.escape_ascii();
            return Err(format!("at byte {}: the key '{name}' stands there twice", entry.offset).into());
        }
        put_rdb_value(&mut db, &key, value, entry.expiry, (entry.idle, entry.frequency));
        Ok(true)
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

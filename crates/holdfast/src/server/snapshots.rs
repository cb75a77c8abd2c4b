//! The thread that writes snapshots in Redis's format: `dbfilename` where nothing is logged, and files that are sent to
//! clients.
//!
//! A snapshot is of one moment (`engine::SnapshotWalk`). It goes to a temporary file, which gets its name when it is
//! complete and on the disk. A file that is sent has no name from the beginning.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clocks::UnixMs;
use command::{Difference, with_rdb_value};
use engine::{OfDatabase, Progress, SnapshotWalk, Spoiled};
use keyspace::access::AccessClock;
use keyspace::{Horizon, Kept};
use node::config::Settings;
use node::{Done, Node, Outcome, Parts, Reload, Sent, Task};
use rdb::{EntryRef, Target, Writer, Written};

use super::cut;
use super::flushed::{Delay, Flushed};
use super::load_snapshot;
use super::switch::Switch;

/// Between two looks at whether there is something to do.
const LOOK: Duration = Duration::from_millis(100);
/// A busy latch is free in so long, unless a script holds it.
const BUSY: Duration = Duration::from_micros(50);
/// Attempts at a moment in which no latch is held, before all workers are made to stand still for it.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(300);
/// So often a snapshot is begun again because a database was emptied meanwhile.
const SPOILED_MAX: u32 = 5;
const BUFFER: usize = 1 << 20;
/// Keys between two words about the progress.
const TELL_KEYS: u64 = 512;
const STOPPING: &str = "the server stops";
/// Begins the names of files that are not complete, before a process id.
const TEMPORARY: &str = "temp-";

type OfFile = Writer<BufWriter<Flushed>>;

/// Starts the thread, which ends when the server stops.
pub fn start(node: Arc<Node>, switch: Arc<Switch>) -> io::Result<JoinHandle<()>> {
    node.snapshots.jobs.open();
    let run = move || {
        node.snapshots.jobs.serve();
        while !node.is_stopping() {
            let Some(job) = node.snapshots.jobs.take() else {
                if node.save_is_due(node.clock.unix_ms()) {
                    let _ = save(&node, Some(&switch));
                }
                thread::park_timeout(LOOK);
                continue;
            };
            job.end(match &job.task {
                Some(Task::Save) => save(&node, Some(&switch)).map(|()| Done::Ok).map_err(|_| b"ERR".into()),
                Some(Task::Reload(how)) => reload(&node, &switch, *how).map(|()| Done::Ok),
                Some(Task::Send { parts, full_resync }) => send(&node, &switch, *parts, *full_resync),
                Some(Task::Cut(cut)) => {
                    cut::serve(&node, &switch, cut, &job);
                    continue;
                }
                _ => Ok(Done::Ok),
            });
        }
    };
    thread::Builder::new().name("snapshots".into()).spawn(run)
}

/// Writes `dbfilename`. Without `switch` no worker runs any more.
pub fn save(node: &Arc<Node>, switch: Option<&Switch>) -> Result<(), String> {
    let settings = node.config.settings();
    let dir = Path::new(OsStr::from_bytes(&settings.dir));
    let (name, temporary) = (dir.join(OsStr::from_bytes(&settings.dbfilename)), temporary(dir, std::process::id()));
    node.snapshots.begun(node.clock.unix_ms());
    let changes = node.changes();
    let written = save_as(node, switch, &temporary, &name);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    let written = match written {
        Err(Unwritten::Needless) => {
            node.snapshots.given_up();
            return Err("everything was deleted meanwhile".into());
        }
        Err(Unwritten::Failed(why)) => {
            tracing::warn!(cause = "save", "A snapshot in {} has failed: {why}", name.display());
            Err(why)
        }
        Ok(()) => Ok(()),
    };
    node.snapshots.ended(written.clone(), changes, node.clock.unix_ms());
    written
}

/// DEBUG RELOAD: no worker does anything until it has ended.
fn reload(node: &Arc<Node>, switch: &Switch, how: Reload) -> Result<(), Vec<u8>> {
    let halted = switch.halt().map_err(|why| format!("ERR {why}"))?;
    if !how.no_save {
        save(node, None).map_err(|_| b"ERR".to_vec())?;
    }
    let loaded = load_snapshot::reload(node, how);
    drop(halted);
    loaded.map_err(|why| {
        tracing::error!("DEBUG RELOAD has failed, and what it has loaded is served: {why}");
        b"ERR Error trying to load the RDB dump, check server logs.".to_vec()
    })
}

fn temporary(dir: &Path, process: u32) -> PathBuf {
    dir.join(format!("{TEMPORARY}{process}.rdb"))
}

/// Removes what killed processes have left in `dir`.
pub fn tidy_up(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY)?.strip_suffix(".rdb")?.parse().ok());
        let Some(number): Option<u64> = number else { continue };
        let process = number as u32;
        if process == std::process::id() || !Path::new("/proc").join(process.to_string()).exists() {
            tracing::info!("{} is removed: it is an incomplete snapshot", entry.path().display());
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Why there is no file.
enum Unwritten {
    /// FLUSHALL came, and nobody needs the file.
    Needless,
    Failed(String),
}

impl From<String> for Unwritten {
    fn from(why: String) -> Self {
        Unwritten::Failed(why)
    }
}

impl Unwritten {
    fn into_text(self) -> String {
        match self {
            Unwritten::Needless => "everything was deleted meanwhile".into(),
            Unwritten::Failed(why) => why,
        }
    }
}

fn save_as(node: &Arc<Node>, switch: Option<&Switch>, temporary: &Path, name: &Path) -> Result<(), Unwritten> {
    let told = |error: io::Error| format!("{}: {error}", temporary.display());
    let before = node.clock.monotonic_ns();
    let file = File::create(temporary).map_err(told)?;
    // Where there are `save` points, the file is to become empty, too.
    let is_needed = !node.config.settings().save.is_empty();
    let (made, _) = write(node, switch, &file, Parts::ALL, is_needed)?;
    file.sync_all().map_err(told)?;
    let bytes = file.metadata().map_err(told)?.len();
    fs::rename(temporary, name).map_err(|error| format!("{}: {error}", name.display()))?;
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(|error| format!("{}: {error}", parent.display()))?;
    let ms = node.clock.monotonic_ns().since(before) / 1_000_000;
    let Made { keys, held } = made;
    tracing::info!(
        cause = "saved",
        "DB saved on disk: {keys} keys in {bytes} bytes, after {ms} ms; clients waited {} us for its moment",
        held / 1000
    );
    Ok(())
}

/// SYNC and PSYNC.
fn send(node: &Arc<Node>, switch: &Switch, parts: Parts, full_resync: bool) -> Outcome {
    send_as(node, full_resync, |file| {
        let written = write(node, Some(switch), file, parts, true).map_err(Unwritten::into_text);
        written.map(|(_, seen)| seen)
    })
}

/// Answers with a file that `write` has written. It returns the changes that the file has seen.
pub(super) fn send_as(
    node: &Arc<Node>,
    full_resync: bool,
    write: impl FnOnce(&File) -> Result<Horizon, String>,
) -> Outcome {
    let made = || {
        let settings = node.config.settings();
        let dir = Path::new(OsStr::from_bytes(&settings.dir));
        let name = dir.join(format!("{TEMPORARY}{}.rdb", u64::from(std::process::id()) + (1 << 32)));
        let told = |error: io::Error| format!("{}: {error}", name.display());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&name).map_err(told)?;
        // Whatever ends this process, nothing is left of it.
        fs::remove_file(&name).map_err(told)?;
        let seen = write(&file)?;
        while !node.is_safe(&seen) {
            if node.is_stopping() {
                return Err(STOPPING.to_owned());
            }
            thread::park_timeout(PAUSE);
        }
        let len = file.metadata().map_err(told)?.len();
        Ok(Arc::new(Sent { head: node.head_of_snapshot(full_resync, len), file, len }))
    };
    made().map(Done::Sent).map_err(|why: String| {
        tracing::warn!(cause = "sync", "A snapshot for a client has failed: {why}");
        failed(&why)
    })
}

/// The error of a client whose snapshot could not be made.
pub(super) fn failed(why: &str) -> Vec<u8> {
    format!("ERR a snapshot could not be made: {}", why.replace(['\r', '\n'], " ")).into_bytes()
}

/// A snapshot that was written.
struct Made {
    keys: u64,
    /// Nanoseconds that workers may have waited for its moment.
    held: u64,
}

/// Writes a snapshot of the present moment. Returns also the changes that it has seen. `is_needed`: also after FLUSHALL.
fn write(
    node: &Arc<Node>,
    switch: Option<&Switch>,
    file: &File,
    parts: Parts,
    is_needed: bool,
) -> Result<(Made, Horizon), Unwritten> {
    let failed = |error: io::Error| Unwritten::Failed(error.to_string());
    for _ in 0..SPOILED_MAX {
        let (walk, moment, ()) = begin(node, switch, || ())?;
        match write_walk(node, file, (walk, &moment), parts, switch.is_some()) {
            Ok(keys) => return Ok((Made { keys, held: moment.held }, moment.seen)),
            Err(Failed::Spoiled(Spoiled::AllEmptied)) if !is_needed => return Err(Unwritten::Needless),
            Err(Failed::Spoiled(Spoiled::Emptied | Spoiled::AllEmptied)) => {}
            Err(why) => return Err(why.to_string().into()),
        }
        file.set_len(0).map_err(failed)?;
        io::Seek::rewind(&mut &*file).map_err(failed)?;
    }
    Err(format!("FLUSHALL or FLUSHDB emptied a database in each of {SPOILED_MAX} attempts").into())
}

/// Writes a snapshot of the moment at which its walk began. Returns the number of its keys.
pub(super) fn write_walk(
    node: &Arc<Node>,
    file: &File,
    (walk, moment): (SnapshotWalk, &Moment),
    parts: Parts,
    is_serving: bool,
) -> Result<u64, Failed> {
    let mut writing = Writing::begin(node, file, moment, parts)?;
    writing.all(walk, parts.keys, is_serving)?;
    let keys = writing.keys;
    writing.out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(keys)
}

/// The facts that a snapshot notes at its moment.
pub(super) struct Moment {
    libraries: Vec<Arc<[u8]>>,
    pub(super) seen: Horizon,
    at: UnixMs,
    /// Nanoseconds that workers may have waited for it.
    held: u64,
}

/// Begins a snapshot of the present moment, at which `also` is called.
pub(super) fn begin<R>(
    node: &Arc<Node>,
    switch: Option<&Switch>,
    also: impl Fn() -> R,
) -> Result<(SnapshotWalk, Moment, R), String> {
    let mut attempts = 0;
    loop {
        let before = node.clock.monotonic_ns();
        let halted = match switch {
            Some(switch) if attempts >= ATTEMPTS => Some(switch.halt()?),
            _ => None,
        };
        let at_moment = |held: &keyspace::Held| {
            let mut seen = Horizon::default();
            node.engine.keyspace.last_versions(held, |version| seen.extend(version));
            let libraries = node.scripts.libraries().all().map(|library| library.code().clone()).collect();
            (Moment { libraries, seen, at: node.clock.unix_ms(), held: 0 }, also())
        };
        let begun = SnapshotWalk::begin(&node.engine, |waiter| node.wake(waiter), at_moment);
        drop(halted);
        if let Some((walk, (mut moment, also))) = begun {
            moment.held = node.clock.monotonic_ns().since(before);
            return Ok((walk, moment, also));
        }
        attempts += 1;
        thread::park_timeout(PAUSE);
    }
}

/// Why a snapshot could not be written.
pub(super) enum Failed {
    Io(io::Error),
    Spoiled(Spoiled),
    Stopping,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Io(error) => error.fmt(f),
            Failed::Spoiled(Spoiled::Emptied | Spoiled::AllEmptied) => f.write_str("a database was emptied meanwhile"),
            Failed::Spoiled(Spoiled::Unreadable) => f.write_str("the store cannot be read"),
            Failed::Stopping => f.write_str(STOPPING),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Io(error)
    }
}

/// A file being written.
struct Writing<'a> {
    node: &'a Node,
    out: OfFile,
    clock: AccessClock,
    /// True for idle times, and for frequencies, that are written: those that the eviction policy uses.
    access: (bool, bool),
    delay: Delay,
    keys: u64,
}

impl<'a> Writing<'a> {
    fn begin(node: &'a Node, file: &File, moment: &Moment, parts: Parts) -> io::Result<Self> {
        let settings = node.config.settings();
        let is_valkey = settings.compatibility.is_valkey(Difference::ServerName);
        let target = if is_valkey { Target::Valkey9 } else { Target::Redis88 };
        let file = Flushed { file: file.try_clone()?, in_parts: settings.rdb_save_incremental_fsync, unflushed: 0 };
        let out = Writer::new(BufWriter::with_capacity(BUFFER, file), target)?;
        let mut out = out.compress(settings.rdbcompression).checksum(settings.rdbchecksum);
        let (name, version) = if is_valkey {
            (&b"valkey-ver"[..], node::VALKEY_VERSION)
        } else {
            (&b"redis-ver"[..], node::REDIS_VERSION)
        };
        out.aux(name, version.as_bytes())?;
        out.aux(b"redis-bits", b"64")?;
        out.aux(b"ctime", moment.at.seconds().to_string().as_bytes())?;
        out.aux(b"used-mem", node.used_memory().to_string().as_bytes())?;
        out.aux(b"aof-base", b"0")?;
        if parts.functions {
            for code in &moment.libraries {
                out.function(code)?;
            }
        }
        let (clock, access) = access_of(&settings, moment.at);
        let delay = Delay(settings.rdb_key_save_delay);
        Ok(Self { node, out, clock, access, delay, keys: 0 })
    }

    fn all(&mut self, mut walk: SnapshotWalk, keys: bool, is_serving: bool) -> Result<(), Failed> {
        if !keys {
            return Ok(());
        }
        let databases: Vec<OfDatabase> = walk.databases().to_vec();
        let logical = |physical: u16| databases.iter().find(|of| of.physical == physical).map_or(0, |of| of.logical);
        let total = databases.iter().map(|of| of.keys).sum();
        self.tell(&walk, total);
        for of in databases.iter().filter(|of| of.keys > 0) {
            // A reader makes room for as many keys.
            self.out.database(of.logical.into(), of.keys, of.expires)?;
        }
        let (mut kept, mut told) = (Vec::new(), 0);
        loop {
            let progress = walk.step(&mut kept, |waiter| self.node.wake(waiter)).map_err(Failed::Spoiled)?;
            for kept in kept.drain(..) {
                self.entry(logical(kept.physical), &kept)?;
                self.delay.wait(|| is_serving && self.node.is_stopping() || walk.is_spoiled());
                if self.keys >= told + TELL_KEYS {
                    told = self.keys;
                    self.tell(&walk, total);
                }
            }
            match progress {
                Progress::Done => {
                    self.tell(&walk, total);
                    return Ok(());
                }
                _ if is_serving && self.node.is_stopping() => return Err(Failed::Stopping),
                Progress::Busy => thread::park_timeout(BUSY),
                Progress::More => {}
            }
        }
    }

    fn tell(&self, walk: &SnapshotWalk, total: u64) {
        self.node.snapshots.note(|state| (state.keys, state.copied) = ((self.keys, total), walk.copied()));
    }

    fn entry(&mut self, db: u16, kept: &Kept) -> io::Result<()> {
        let (idle, frequency) = self.access;
        let written = with_rdb_value(&kept.value, |value| {
            self.out.entry(EntryRef {
                expiry: kept.expiry,
                idle: idle.then(|| self.clock.idle_seconds(kept.access).into()),
                frequency: frequency.then(|| self.clock.frequency(kept.access).min(255) as u8),
                ..EntryRef::new(db.into(), &kept.key, value)
            })
        })?;
        self.keys += 1;
        if let Written::CannotHold(why) = written {
            // Only a server that takes Valkey's place has such keys.
            let key = kept.key.escape_ascii();
            tracing::warn!(
                cause = "left out",
                "A snapshot leaves out the key '{key}': its format cannot hold {}",
                why.0
            );
        }
        Ok(())
    }
}

fn access_of(settings: &Settings, now: UnixMs) -> (AccessClock, (bool, bool)) {
    let policy = settings.maxmemory_policy;
    let mut clock = AccessClock::new(1);
    clock.set(now, policy.tracks(), settings.lfu_log_factor, settings.lfu_decay_time);
    (clock, (policy.is_lru(), policy.is_lfu()))
}

/// Writes what is in memory when the server stops, if that is wanted.
pub fn at_end(node: &Arc<Node>) -> Result<(), String> {
    if node.saves_at_end() {
        tracing::info!("Saving the final RDB snapshot before exiting.");
        save(node, None)?;
    }
    Ok(())
}

//! A backup of a running server, of one moment.
//!
//! The server makes a checkpoint and allows no other until the backup is done. Then it halts all workers for a moment
//! and leaves a record in each stream: all earlier changes lie below that record. The backup copies the store as the
//! checkpoint left it (by links to tables where possible). It copies the part of the log that the store lacks, cut at
//! the moment. So a start with the backup finds everything that was done before the moment, and nothing else.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clocks::UnixMs;
use engine::checkpoint::{header, moment};
use node::Checkpoints;
use redolog::{Gate, Log};
use store::Store;

use super::places::Places;
use super::switch::Switch;
use crate::backup::manifest::{Entry, Manifest, read_all, sync};

/// Attempts at a moment in which no latch is held, before everybody is made to stand still for it.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(300);

/// Checkpoints go on when it ends.
struct Hold<'a>(&'a Checkpoints);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The contents of a backup.
pub struct Sources<'a> {
    pub log: &'a Log,
    pub gates: &'a mut [Gate],
    pub checkpoints: &'a Checkpoints,
    pub places: &'a Places,
}

/// Writes a backup to `folder`, which is new or empty. After an error nothing is left there.
pub fn write(switch: &Switch, sources: Sources<'_>, folder: &Path) -> Result<(), String> {
    if let Some(data) = sources.places.around(folder) {
        return Err(format!(
            "{} is in {}, where the data itself is: a backup goes elsewhere",
            folder.display(),
            data.display()
        ));
    }
    let told = |error: io::Error| format!("{}: {error}", folder.display());
    redolog::make_folders(folder).map_err(told)?;
    if let Some(entry) = fs::read_dir(folder).map_err(told)?.next() {
        let name = entry.map_err(told)?.file_name();
        return Err(format!("{} is not empty: it holds {}", folder.display(), name.display()));
    }
    let written = write_to(switch, sources, folder);
    if written.is_err() {
        // The remaining files are no backup.
        let _ = fs::remove_dir_all(folder);
    }
    written
}

fn write_to(switch: &Switch, sources: Sources<'_>, folder: &Path) -> Result<(), String> {
    let Sources { log, gates, checkpoints, places } = sources;
    let folders = &places.logs;
    let (_hold, store) = checkpointed(switch, log, checkpoints)?;
    let header = header(&*store).map_err(|error| error.to_string())?.ok_or("the store has no checkpoint")?;
    let made = switch.node.clock.unix_ms();
    let (ends, held) = find_moment(switch, gates)?;
    (0..log.streams()).for_each(|stream| log.ring(stream));
    switch.wait_for(log, || log.marks().all().zip(&ends).all(|(mark, end)| mark >= *end))?;

    store.backup(&folder.join("store")).map_err(|error| error.to_string())?;
    let copies: Vec<PathBuf> = (0..folders.len()).map(|stream| folder.join(format!("log-{stream}"))).collect();
    redolog::copy(folders, &copies, &header.covered, &ends).map_err(|error| error.to_string())?;
    let manifest = describe(folder, made, folders.len()).map_err(|error| format!("{}: {error}", folder.display()))?;
    manifest.write(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if let Some(parent) = folder.parent() {
        // Its name is durable, too.
        sync(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    }
    let bytes: u64 = manifest.files.iter().map(|file| file.size).sum();
    let (files, held) = (manifest.files.len(), held / 1000);
    // Tables that are links share theirs with the store, as long as that has them; what is empty of the log's files
    // takes none.
    let sizes = manifest.files.iter().map(|file| fs::metadata(folder.join(&file.path)).map(|file| file.blocks() * 512));
    let taken = sizes.sum::<io::Result<u64>>().unwrap_or(bytes);
    tracing::info!(
        cause = "backup",
        "Backup: {files} files of {bytes} bytes, which take {taken} on the disk, in {}; clients waited {held} us for its moment",
        folder.display()
    );
    Ok(())
}

/// Makes a checkpoint. There is no other before the value is dropped that comes with the store.
fn checkpointed<'a>(
    switch: &Switch,
    log: &Log,
    checkpoints: &'a Checkpoints,
) -> Result<(Hold<'a>, Arc<dyn Store>), String> {
    let hold = Hold(checkpoints);
    let ticket = checkpoints.hold();
    switch.wait_for(log, || checkpoints.outcome(ticket).is_some())?;
    if checkpoints.outcome(ticket) == Some(false) {
        return Err(checkpoints.state().failed.unwrap_or_default());
    }
    let store = checkpoints.store().ok_or("there is no store any more")?;
    Ok((hold, store))
}

/// Makes a checkpoint, and copies the store as it is then to `folder`, which is made: by links to tables where possible.
pub fn copy_store(switch: &Switch, log: &Log, checkpoints: &Checkpoints, folder: &Path) -> Result<(), String> {
    let (_hold, store) = checkpointed(switch, log, checkpoints)?;
    store.backup(folder).map(drop).map_err(|error| error.to_string())
}

/// Returns the LSN in each stream of the record that stands for the moment, and how long workers may have waited, in
/// ns.
fn find_moment(switch: &Switch, gates: &mut [Gate]) -> Result<(Vec<redolog::Lsn>, u64), String> {
    let nanos = || switch.node.clock.monotonic_ns();
    let mut attempts = 0;
    loop {
        let before = nanos();
        let halted = if attempts < ATTEMPTS { None } else { Some(switch.halt()?) };
        let ends = moment(&switch.node.engine, gates, |waiter| switch.node.wake(waiter));
        drop(halted);
        if let Some(ends) = ends {
            return Ok((ends, nanos().since(before)));
        }
        attempts += 1;
        thread::park_timeout(PAUSE);
    }
}

/// Everything that is in the folder.
fn describe(folder: &Path, made: UnixMs, streams: usize) -> io::Result<Manifest> {
    let mut manifest = Manifest { made: made.0, streams, files: Vec::new() };
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if entry.file_name() == "lock" {
                fs::remove_file(entry.path())?;
            } else {
                let (crc, size) = read_all(&entry.path(), |_| Ok(()))?;
                manifest.files.push(Entry { crc, size, path });
            }
        }
    }
    manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(manifest)
}

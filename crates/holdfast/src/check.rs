//! `holdfast check DIR` verifies every checksum of the data of a stopped server, of its part in a cluster, or of a
//! backup. It prints its findings and changes nothing.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use membership::control::Control;
use membership::handshake::Party;
use redolog::counted;

use crate::backup::{is_backup, verify};
use crate::server::rehearsal::{Found, rehearse};

/// Verifies the log and the store of a stopped server, or a backup. Fails if a file is damaged.
#[derive(Args)]
pub struct Options {
    /// The server's `dir`, or the directory of a backup.
    dir: PathBuf,
    /// The server's `log-dirs`, if they are not in `dir`.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    log_dirs: Vec<PathBuf>,
    /// The server's `store-dir`, if it is not in `dir`.
    #[arg(long, value_name = "DIR")]
    store_dir: Option<PathBuf>,
}

/// Prints the findings.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (dir, data) = (&options.dir, options.dir.join("holdfast"));
    if is_backup(dir) {
        if options.log_dirs.is_empty() && options.store_dir.is_none() {
            return verify(dir);
        }
        return Err(format!(
            "{} is a backup, which holds log and store itself: it needs no --log-dirs and --store-dir",
            dir.display()
        )
        .into());
    }
    let mut folders = options.log_dirs.clone();
    if folders.is_empty() {
        folders.push(data.join("log"));
    }
    let store = options.store_dir.clone().unwrap_or_else(|| data.join("store"));
    for folder in &folders {
        if !folder.is_dir() {
            return Err(format!("{}: no such directory; {}", folder.display(), hint(dir)).into());
        }
    }
    let cluster = dir.join("cluster");
    let Some(Found { keys, records, .. }) = check_data(&folders, &store, Some(&cluster), "a server with this data")?
    else {
        return Err(
            "there is damage: a server starts with this data, and answers errors where it cannot read it".into()
        );
    };
    println!(
        "everything is as it was written: a server that starts with it has {}, and applies {} of the log",
        counted(keys, "key"),
        counted(records, "record")
    );
    Ok(())
}

/// Verifies a log and a store, prints their contents, and tries whether a server starts with them. A node of a cluster
/// starts with its folder `cluster`, too. `server` names it in messages. `None`: it starts, although there is damage.
pub fn check_data(
    logs: &[PathBuf],
    store: &Path,
    cluster: Option<&Path>,
    server: &str,
) -> Result<Option<Found>, Box<dyn Error>> {
    let log = redolog::check(logs)?;
    print!("{log}");
    let is_whole = check_store(store)? && log.is_sound();
    let found = rehearse(logs, store).map_err(|why| format!("{server} does not start: {why}"))?;
    if let Some(folder) = cluster {
        let party = Control::look(folder, found.id).map_err(|why| format!("{server} does not start: {why}"))?;
        if let Some(Party { node, .. }) = party {
            println!("{}: node {node} of a cluster", folder.display());
        }
    }
    Ok(is_whole.then_some(found))
}

/// Guesses which directory the user meant instead of this one.
fn hint(dir: &Path) -> String {
    let is_there = |name: &str| dir.join(name).is_dir();
    if is_there("store") && is_there("log") {
        return format!("{} has log and store of a server itself: the directory above it is meant", dir.display());
    }
    if is_there("store") && is_there("log-0") {
        return format!("{} looks like a backup that was never completed: it lacks the file BACKUP", dir.display());
    }
    format!(
        "is {} the `dir` of a server, or a backup? --log-dirs and --store-dir name folders elsewhere",
        dir.display()
    )
}

/// Prints the contents of the store. Returns whether all of it is intact.
fn check_store(store: &Path) -> Result<bool, Box<dyn Error>> {
    let is_empty = !store.is_dir() || fs::read_dir(store)?.next().is_none();
    if is_empty {
        println!("{}: no store yet", store.display());
        return Ok(true);
    }
    let found = store::check(store)?;
    let (files, bytes) = (counted(found.files, "file"), counted(found.bytes, "byte"));
    println!("{}: {files}, {bytes} verified", store.display());
    for finding in &found.findings {
        let at = finding.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
        let word = if finding.damage { "DAMAGED" } else { "left over" };
        println!("{}{at}: {word}: {}", finding.file.display(), finding.what);
    }
    Ok(found.is_whole())
}

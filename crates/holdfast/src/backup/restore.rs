//! `holdfast restore`: verifies every checksum of a backup and puts it where a server finds it.
//!
//! The log comes first, in each stream from its last segment to its first, and then the store, whose identity comes
//! last. So of a restore that was cut short no server starts: the beginning of the log is missing, or else the store.

use std::cmp::Reverse;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::server::rehearsal::rehearse;

use super::manifest::{Entry, Manifest, read_all, sync};
use super::verify::verify_files;

/// Verifies a backup and makes data for a server of it. The server must not run.
#[derive(Args)]
pub struct Options {
    /// The backup's directory.
    backup: PathBuf,
    /// The server's `dir`. It must hold no data of a server.
    dir: PathBuf,
    /// The server's `log-dirs`, if they are not in `dir`; as many as when the backup was made.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    log_dirs: Vec<PathBuf>,
    /// The server's `store-dir`, if it is not in `dir`.
    #[arg(long, value_name = "DIR")]
    store_dir: Option<PathBuf>,
}

/// Restores, and says what was found.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let manifest = Manifest::read(&options.backup)?;
    let data = options.dir.join("holdfast");
    let mut logs = options.log_dirs.clone();
    if logs.is_empty() {
        logs.push(data.join("log"));
    }
    if logs.len() != manifest.streams {
        let why = "the log of the backup has {} streams: name as many directories with --log-dirs";
        return Err(why.replace("{}", &manifest.streams.to_string()).into());
    }
    let store = options.store_dir.clone().unwrap_or_else(|| data.join("store"));
    for folder in logs.iter().chain([&store]) {
        if !is_empty(folder)? {
            return Err(format!("{} is not empty: data is never overwritten", folder.display()).into());
        }
    }
    // Before anything is written.
    let bytes = verify_files(&options.backup, &manifest)?;
    let mut files = manifest.files.clone();
    files.sort_by_key(|entry| (order(&entry.path), Reverse(entry.path.clone())));
    for entry in &files {
        let to =
            place(&entry.path, &logs, &store).ok_or_else(|| format!("{}: belongs nowhere", entry.path.display()))?;
        copy(&options.backup.join(&entry.path), &to, entry)?;
    }
    let log = redolog::check(&logs)?;
    let found = store::check(&store)?;
    if !log.is_sound() || !found.is_whole() {
        return Err(format!("the restored data is damaged: {log}").into());
    }
    rehearse(&logs, &store).map_err(|why| format!("a server does not start with the restored data: {why}"))?;
    println!(
        "{} files, {bytes} bytes, of unix time {}, are verified and restored: {} of the log, beside a checkpoint that has some of them",
        files.len(),
        manifest.moment(),
        redolog::counted(log.survive, "record")
    );
    Ok(())
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
    }
}

/// The rank of a file; files are ordered by it and then by name, the last first.
fn order(path: &Path) -> u8 {
    let text = path.to_string_lossy();
    match () {
        () if text.starts_with("log-") => 0,
        () if text.starts_with("store/tree/tables/") => 1,
        () if text.starts_with("store/tree/v") => 2,
        () if text.starts_with("store/tree/") => 3,
        () => 4,
    }
}

/// Where a file goes.
fn place(path: &Path, logs: &[PathBuf], store: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let first = parts.next()?.as_os_str().to_str()?.to_owned();
    let rest = parts.as_path();
    if rest.as_os_str().is_empty() {
        return None;
    }
    match first.strip_prefix("log-") {
        Some(number) => Some(logs.get(number.parse::<usize>().ok()?)?.join(rest)),
        None => (first == "store").then(|| store.join(rest)),
    }
}

fn copy(from: &Path, to: &Path, entry: &Entry) -> Result<(), String> {
    let folder = to.parent().unwrap_or(to);
    let copied = redolog::make_folders(folder).and_then(|()| {
        let mut file = File::create_new(to)?;
        let found = read_all(from, |bytes| file.write_all(bytes))?;
        file.sync_all()?;
        sync(folder)?;
        Ok(found)
    });
    let found = copied.map_err(|error| format!("{}: {error}", to.display()))?;
    if found != (entry.crc, entry.size) {
        return Err(format!("{} has changed while it was read", from.display()));
    }
    Ok(())
}

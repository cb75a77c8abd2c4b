//! A backup, verified where it lies: for `holdfast check`, which changes nothing, and for `holdfast restore` before it writes anything.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::check::check_store;
use crate::server::rehearsal::{Found, rehearse};

use super::manifest::{Entry, Manifest, NAME, read_all};

/// Whether this is the directory of a backup that is complete, and not of a server.
pub fn is_backup(folder: &Path) -> bool {
    folder.join(NAME).is_file() && !folder.join("holdfast").exists()
}

/// Verifies a backup as `holdfast restore` does, and prints what was found.
pub fn verify(folder: &Path) -> Result<(), Box<dyn Error>> {
    let manifest = Manifest::read(folder)?;
    let bytes = verify_files(folder, &manifest)?;
    println!(
        "{}: a backup of unix time {}: {} files, {bytes} bytes",
        folder.display(),
        manifest.moment(),
        manifest.files.len()
    );
    let logs: Vec<PathBuf> = (0..manifest.streams).map(|stream| folder.join(format!("log-{stream}"))).collect();
    let store = folder.join("store");
    let log = log::check(&logs)?;
    print!("{log}");
    let is_whole = check_store(&store)? && log.is_sound();
    match rehearse(&logs, &store) {
        Ok(Found { keys, records }) if is_whole => {
            println!(
                "everything is as it was written: a server of which this is restored has {keys} keys, and applies {records} records of the log"
            );
            Ok(())
        }
        Ok(_) => Err("there is damage: `holdfast restore` refuses this backup".into()),
        Err(why) => Err(format!("a server of which this is restored does not start: {why}").into()),
    }
}

/// Compares all files of a backup with what its list says of them: their bytes.
pub(super) fn verify_files(backup: &Path, manifest: &Manifest) -> Result<u64, String> {
    manifest.files.iter().try_for_each(|entry| verify_file(backup, entry))?;
    Ok(manifest.files.iter().map(|entry| entry.size).sum())
}

fn verify_file(backup: &Path, entry: &Entry) -> Result<(), String> {
    let path = backup.join(&entry.path);
    let found = read_all(&path, |_| Ok(())).map_err(|error| format!("{}: {error}", path.display()))?;
    if found != (entry.crc, entry.size) {
        return Err(format!("{} is damaged: its checksum does not match", path.display()));
    }
    Ok(())
}

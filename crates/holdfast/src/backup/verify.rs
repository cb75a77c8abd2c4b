//! A backup, verified where it lies: for `holdfast check`, which changes nothing, and for `holdfast restore` before it
//! writes anything.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use redolog::counted;

use crate::check::check_data;
use crate::server::rehearsal::Found;

use super::manifest::{Entry, Manifest, NAME, read_all};

/// True if this is the directory of a backup that is complete, and not of a server.
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
    for place in logs.iter().chain([&store]) {
        refuse_strangers(folder, place, &manifest)?;
    }
    let Some(Found { keys, records, .. }) = check_data(&logs, &store, None, "a server of which this is restored")?
    else {
        return Err("there is damage: `holdfast restore` refuses this backup".into());
    };
    println!(
        "everything is as it was written: a server of which this is restored has {}, and applies {} of the log",
        counted(keys, "key"),
        counted(records, "record")
    );
    Ok(())
}

/// Looks for files that are no part of the backup: a restore leaves them out, but log and store cannot be looked at
/// without them.
fn refuse_strangers(backup: &Path, place: &Path, manifest: &Manifest) -> Result<(), Box<dyn Error>> {
    let unreadable = |error| format!("{}: {error}", place.display());
    for entry in fs::read_dir(place).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            refuse_strangers(backup, &path, manifest)?;
        } else if !manifest.files.iter().any(|file| backup.join(&file.path) == path) {
            return Err(format!(
                "{} is no part of the backup, whose files are whole, and `holdfast restore` leaves it out: remove it, and check again",
                path.display()
            )
            .into());
        }
    }
    Ok(())
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

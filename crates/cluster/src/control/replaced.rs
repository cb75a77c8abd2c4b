//! A small file that is replaced as a whole, on a full disk as well: a second file keeps room for the next one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// The file that keeps room. Its bytes say nothing.
pub const RESERVE: &str = "reserve";

/// Bytes it has, or a multiple of that.
const RESERVE_MIN: usize = 64 << 10;

/// Replaces `file` of `folder`, which is durable when this returns. Without room on the disk it takes what is kept for that.
///
/// # Errors
/// Those of the disk; then the file is the one of before.
pub fn write(folder: &Path, file: &str, bytes: &[u8]) -> io::Result<()> {
    let reserve = folder.join(RESERVE);
    match replace(folder, file, bytes) {
        Err(error) if is_lack(&error) && reserve.exists() => {
            fs::remove_file(&reserve)?;
            replace(folder, file, bytes)?;
        }
        replaced => replaced?,
    }
    // The next start may find the disk full, and cannot do without a write either.
    let wanted = (2 * bytes.len()).next_multiple_of(RESERVE_MIN);
    let kept = fs::metadata(&reserve).map_or(0, |kept| usize::try_from(kept.len()).unwrap_or(usize::MAX));
    if kept < wanted {
        // A part of it is better than nothing.
        let _ = fill(&reserve, wanted - kept);
    }
    Ok(())
}

/// Whether an error says that there is no room on the disk now.
pub fn is_lack(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn replace(folder: &Path, file: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{file}.new"));
    let written = File::create(&new).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    if let Err(error) = written {
        // What there is of it would take room.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    fs::rename(&new, folder.join(file))?;
    File::open(folder)?.sync_all()
}

fn fill(path: &Path, more: usize) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(&vec![0; more])?;
    file.sync_all()
}

//! The files of a folder: real ones, and in tests those of lives that end between any two steps.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// The file that keeps room on the disk. Its bytes say nothing.
const RESERVE: &str = "reserve";

/// Bytes it has, or a multiple of that.
const RESERVE_MIN: usize = 64 << 10;

/// Only the server may read the files: the cluster's settings hold its password.
const MODE: u32 = 0o600;

/// The operations on files that the folder of the metadata needs.
pub trait Files: Send {
    /// The bytes of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes a file, or replaces its bytes. They are durable then; the name need not be.
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file another name, which may be that of another file.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Makes the names of all files durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Keeps room for so many bytes that are written later, if there is any.
    fn reserve(&mut self, bytes: usize);
    /// Gives the room back. False: none was kept.
    fn release(&mut self) -> bool;
}

/// True if an error says that there is no room on the disk now.
pub fn is_lack(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The files of a real folder.
pub struct Real(pub PathBuf);

impl Files for Real {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        fs::read_dir(&self.0)?.map(name).collect()
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(name);
        let mut file = File::options().create(true).write(true).truncate(true).mode(MODE).open(&path)?;
        // One that was there may have had another mode.
        let written = file.set_permissions(Permissions::from_mode(MODE));
        let written = written.and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
        if written.is_err() {
            // An incomplete file would take room.
            let _ = fs::remove_file(&path);
        }
        written
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&mut self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn reserve(&mut self, bytes: usize) {
        let path = self.0.join(RESERVE);
        let wanted = bytes.next_multiple_of(RESERVE_MIN);
        let kept = fs::metadata(&path).map_or(0, |kept| usize::try_from(kept.len()).unwrap_or(usize::MAX));
        if kept < wanted {
            // A part of it is better than nothing.
            let file = File::options().create(true).append(true).open(&path);
            let _ = file.and_then(|mut file| file.write_all(&vec![0; wanted - kept]).and_then(|()| file.sync_all()));
        }
    }

    fn release(&mut self) -> bool {
        fs::remove_file(self.0.join(RESERVE)).is_ok()
    }
}

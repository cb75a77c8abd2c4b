//! What the log needs of a disk: files of a fixed size in one folder. Handed in, so that a simulated one can lose, tear and
//! reorder what was not synced.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A folder of files. After [`Disk::sync`] its names are durable.
pub trait Disk: Send + Sync + 'static {
    /// A file of it.
    type File: File;

    /// Names of the files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Makes a file of `size` bytes, all of them written, so that writing to it later needs no room and changes nothing but its
    /// contents.
    fn create(&self, name: &str, size: u64) -> io::Result<Self::File>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file. After [`File::sync`] its contents are durable.
pub trait File: Send + Sync + 'static {
    /// Bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads `buffer.len()` bytes at `at`; fails if there are fewer.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `at`.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the file system.
pub struct Folder(PathBuf);

/// Bytes written at once when a file is made.
const CHUNK: usize = 1 << 20;

impl Folder {
    /// The folder at `path`, made if it is not there.
    pub fn new(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self(path.into()))
    }
}

impl Disk for Folder {
    type File = fs::File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<fs::File> {
        fs::File::options().read(true).write(true).open(self.0.join(name))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<fs::File> {
        let file = fs::File::options().read(true).write(true).create_new(true).open(self.0.join(name))?;
        let zeros = vec![0; CHUNK];
        for at in (0..size).step_by(CHUNK) {
            let left = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
            file.write_all_at(&zeros[..left], at)?;
        }
        file.sync_all()?;
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.0)?.sync_all()
    }
}

impl File for fs::File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

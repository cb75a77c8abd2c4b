//! The log's view of a disk: files of a fixed size in one folder. It is handed in, so that a simulated disk can lose,
//! tear and reorder unsynced bytes.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::aligned::Aligned;
use crate::device::Device;

/// Places, lengths and memory of [`File::write_through`] are multiples of so many bytes.
pub const PAGE: usize = 4096;

/// A folder of files. After [`Disk::sync`] its names are durable.
pub trait Disk: Send + Sync + 'static {
    /// A file of it.
    type File: File;

    /// Names of the files.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// The file is not there, or cannot be opened.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Makes a file of `size` bytes, all of them written and synced, so that later writes need no room and change
    /// nothing but its contents. After an error nothing is left of it.
    ///
    /// # Errors
    ///
    /// There is no room, the file is there already, or the disk has failed.
    fn create(&self, name: &str, size: u64) -> io::Result<Self::File>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// The file is not there, or the disk has failed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The file is not there, or the disk has failed.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    ///
    /// # Errors
    ///
    /// The disk has failed: it is unknown which names are durable.
    fn sync(&self) -> io::Result<()>;
    /// The name of a file of it, for people.
    fn describe(&self, name: &str) -> String {
        name.into()
    }
}

/// A file. After [`File::sync`] its contents are durable.
pub trait File: Send + Sync + 'static {
    /// Bytes.
    ///
    /// # Errors
    /// The disk has failed.
    fn size(&self) -> io::Result<u64>;
    /// Reads `buffer.len()` bytes at `at`; fails if there are fewer.
    ///
    /// # Errors
    /// There are fewer bytes, or the disk has failed.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    ///
    /// The disk has failed: it is unknown which of the bytes are written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes written bytes durable.
    ///
    /// # Errors
    ///
    /// The disk has failed: it is unknown what is durable, and a later sync does not tell either (rule L9).
    fn sync(&self) -> io::Result<()>;
    /// Writes all of `bytes` at `at`, and they are durable. Other writes may stay in the cache. Place, length and
    /// memory are multiples of [`PAGE`].
    ///
    /// # Errors
    ///
    /// As for [`File::write`] and [`File::sync`].
    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes)?;
        self.sync()
    }
    /// The way for a thread that must not wait for a hanging disk to do the work of [`File::write_through`].
    fn direct(&self) -> Direct {
        Direct::No
    }
}

/// See [`File::direct`].
pub enum Direct {
    /// By writing to this descriptor, which is open as long as the file.
    Descriptor(RawFd),
    /// By calling it: such a file does not hang.
    Here,
    /// Not at all.
    No,
}

/// A folder of the file system.
pub struct Folder {
    path: PathBuf,
    /// The folder itself, for its names, unless it is only read. It is always open, so that no descriptor is lacking
    /// when a name has to be synced.
    names: Option<fs::File>,
    device: Option<Arc<Device>>,
    /// Its files are written past the cache. New ones are, too: that is less work, and no reader wants them in the
    /// cache.
    past_cache: Arc<AtomicBool>,
}

/// Makes the folder at `path`, and those above it, if they are not there. Makes their names durable, because the
/// contents of a folder are lost with its name.
///
/// # Errors
///
/// A folder can neither be opened nor made, or not be synced.
pub fn make_folders(path: &Path) -> io::Result<()> {
    make_folders_with(path, |folder| fs::File::open(folder)?.sync_all())
}

fn make_folders_with(path: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_named = |path: &&Path| !path.as_os_str().is_empty();
    let parent = |path: &Path| path.parent().filter(is_named).map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let missing: Vec<&Path> = path.ancestors().filter(is_named).take_while(|folder| !folder.exists()).collect();
    // The process that made the last existing folder may have ended before its name was durable.
    let there = path.ancestors().filter(is_named).nth(missing.len());
    if let Some(there) = there.filter(|there| there.parent().is_some()) {
        match if_known(sync(&parent(there))) {
            // Then it belongs to another user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !folder.is_dir() => return Err(error),
            _ => if_known(sync(&parent(folder)))?,
        }
    }
    // A file is no folder.
    fs::create_dir_all(path)
}

/// The result of syncing a folder. A file system without such a sync has names on the disk when it reports them, or not
/// at all.
fn if_known(synced: io::Result<()>) -> io::Result<()> {
    let is_unknown =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported);
    synced.or_else(|error| if is_unknown(&error) { Ok(()) } else { Err(error) })
}

/// Bytes that are written at once when a file is made.
const CHUNK: usize = 1 << 20;

impl Folder {
    /// The folder at `path`, made if it is not there.
    ///
    /// # Errors
    /// The folder can neither be opened nor made, or its name not be synced.
    pub fn new(path: &Path) -> io::Result<Self> {
        make_folders(path)?;
        Ok(Self { names: Some(fs::File::open(path)?), ..Self::to_read(path) })
    }

    /// The folder at `path`, which must be there and is not to be changed.
    pub fn to_read(path: &Path) -> Self {
        Self { path: path.into(), names: None, device: None, past_cache: Arc::default() }
    }

    pub(crate) fn on(self, device: Arc<Device>) -> Self {
        Self { device: Some(device), ..self }
    }

    fn writes(&self) -> bool {
        self.names.is_some()
    }

    fn file(&self, file: fs::File, path: &Path) -> PlainFile {
        let mut options = fs::File::options();
        options.write(true).custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        let direct = self.writes().then(|| options.open(path).ok()).flatten();
        let (refused, past_cache) = (AtomicBool::new(false), self.past_cache.clone());
        PlainFile { file, direct, refused, past_cache, device: self.device.clone() }
    }

    fn fill(&self, path: &Path, size: u64) -> io::Result<fs::File> {
        let file = fs::File::options().read(true).write(true).create_new(true).open(path)?;
        let mut zeros = Aligned::default();
        zeros.clear(CHUNK);
        zeros.append(|bytes| bytes.resize(bytes.len() + CHUNK, 0));
        let mut direct = None;
        if self.past_cache.load(Relaxed) {
            direct = fs::File::options().write(true).custom_flags(libc::O_DIRECT).open(path).ok();
        }
        for at in (0..size).step_by(CHUNK) {
            let left = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
            let part = &zeros.bytes()[..left];
            if let Some(file) = &direct {
                match file.write_all_at(part, at) {
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => direct = None,
                    done => {
                        done?;
                        continue;
                    }
                }
            }
            file.write_all_at(part, at)?;
            // In small steps: other threads wait for the same disk.
            if (at / CHUNK as u64) % 4 == 3 {
                file.sync_data()?;
            }
        }
        file.sync_all()?;
        Ok(file)
    }
}

impl Disk for Folder {
    type File = PlainFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<PlainFile> {
        let path = self.path.join(name);
        let file = fs::File::options().read(true).write(self.writes()).open(&path)?;
        Ok(self.file(file, &path))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<PlainFile> {
        let path = self.path.join(name);
        match self.fill(&path, size) {
            Ok(file) => Ok(self.file(file, &path)),
            Err(error) => {
                if error.kind() != io::ErrorKind::AlreadyExists {
                    let _ = fs::remove_file(&path);
                }
                Err(error)
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.names.as_ref().map_or(Ok(()), fs::File::sync_all)
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// A file of the file system, written through the cache or past it. On ext4 and a virtual disk `O_DIRECT` with
/// `O_DSYNC` takes 30 to 42 us of CPU for 200 to 16,000 bytes. A write and an `fdatasync` take 38 to 83 us, and more
/// time above 2,000 bytes.
pub struct PlainFile {
    file: fs::File,
    direct: Option<fs::File>,
    /// Some file systems accept the flag and then refuse to write.
    refused: AtomicBool,
    past_cache: Arc<AtomicBool>,
    device: Option<Arc<Device>>,
}

impl PlainFile {
    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn put_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = self.direct.as_ref().filter(|_| !self.refused.load(Relaxed)) {
            match direct.write_all_at(bytes, at) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.refused.store(true, Relaxed),
                done => {
                    self.past_cache.store(done.is_ok(), Relaxed);
                    return done;
                }
            }
        }
        self.file.write_all_at(bytes, at)?;
        self.flush()
    }
}

impl File for PlainFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(device) = &self.device {
            device.write(bytes.len());
        }
        self.past_cache.store(false, Relaxed);
        self.file.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        match &self.device {
            Some(device) => device.sync(0, || self.flush()),
            None => self.flush(),
        }
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.device {
            Some(device) => device.sync(bytes.len(), || self.put_through(at, bytes)),
            None => self.put_through(at, bytes),
        }
    }

    fn direct(&self) -> Direct {
        let direct = self.direct.as_ref().filter(|_| self.device.is_none() && !self.refused.load(Relaxed));
        direct.map_or(Direct::No, |file| Direct::Descriptor(file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_directory_share_its_slow_device() {
        let pace = crate::Pace { sync: 1000, bytes: 1 };
        let devices = crate::Devices::new(pace, Arc::new(|| 0));
        let device = |folder: &str, directory: &str| {
            devices.slow(Folder::to_read(Path::new(folder)), Path::new(directory)).device.expect("slow")
        };
        assert!(Arc::ptr_eq(&device("a/shard-1", "a"), &device("a/shard-2", "a")));
        assert!(!Arc::ptr_eq(&device("a/shard-1", "a"), &device("b/shard-1", "b")));
        devices.share(Path::new("a/copies"), Path::new("a"));
        assert!(Arc::ptr_eq(&device("a/copies/shard-1", "a/copies"), &device("a", "a")));
    }

    #[test]
    fn names_of_new_folders_are_durable_before_anything_is_in_them() {
        let top = std::env::temp_dir().join(format!("holdfast-log-folders-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir(&top).expect("a folder");
        let (above, path) = (top.join("a"), top.join("a/b"));
        let made = |path: &Path| {
            let mut synced = Vec::new();
            make_folders_with(path, |folder| {
                // Files that are synced later are not there yet.
                let below = fs::read_dir(folder)?.count();
                synced.push((folder.to_path_buf(), folder == above.as_path() && below > 0));
                Ok(())
            })
            .expect("made");
            synced
        };
        let of = |folder: &Path| (folder.to_path_buf(), folder == above.as_path());
        let outside = top.parent().expect("not the root").to_path_buf();
        assert_eq!(made(&path), [(outside, false), of(&top), of(&above)]);
        assert!(path.is_dir());
        // The process that made it may have been killed before it was synced.
        assert_eq!(made(&path), [of(&above)]);
        // Some file systems have no such sync. A process that may not read the folder above did not make this one.
        let refused_by = |path: &Path, kind: io::ErrorKind| {
            make_folders_with(path, |_| Err(kind.into())).err().map(|error| error.kind())
        };
        let deeper = |name: &str| top.join(name).join("c/d");
        assert_eq!(refused_by(&deeper("e"), io::ErrorKind::InvalidInput), None);
        assert_eq!(refused_by(&deeper("f"), io::ErrorKind::Unsupported), None);
        assert!(deeper("e").is_dir() && deeper("f").is_dir());
        assert_eq!(refused_by(&deeper("e"), io::ErrorKind::PermissionDenied), None);
        assert_eq!(refused_by(&deeper("g"), io::ErrorKind::PermissionDenied), Some(io::ErrorKind::PermissionDenied));
        assert_eq!(refused_by(&deeper("e"), io::ErrorKind::Other), Some(io::ErrorKind::Other));
        fs::write(top.join("file"), "").expect("a file");
        assert!(make_folders(&top.join("file")).is_err() && make_folders(&top.join("file/x")).is_err());
        fs::remove_dir_all(&top).expect("removed");
    }
}

//! The directories of a log-server. A directory that cannot be used is a trouble of the log-server, not its end: the
//! others go on.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use membership::control::{Made, Wanted};
use membership::meta::DEFAULT_DIR;

use super::super::copies;

/// The file that a running log-server holds locked in each directory.
const LOCK: &str = "log-server.lock";

/// A directory.
struct Folder {
    path: PathBuf,
    /// Held while the process runs; an error says why the directory cannot be used.
    lock: Result<File, String>,
}

/// All directories.
pub struct Folders(Vec<Folder>);

impl Folders {
    /// Makes the directories that are not there, and locks all of them.
    ///
    /// # Errors
    /// No directory can be used, one is named twice, or another process has one.
    pub fn open(paths: Vec<PathBuf>) -> Result<Self, String> {
        for (at, path) in paths.iter().enumerate() {
            if paths[..at].contains(path) {
                return Err(format!("{} is named twice", path.display()));
            }
        }
        let mut folders = Vec::new();
        for path in paths {
            let lock = match lock(&path) {
                Err(TryLockError::WouldBlock) => {
                    return Err(format!("{} belongs to another log-server that runs", path.display()));
                }
                Err(TryLockError::Error(why)) => Err(format!("{}: {why}", path.display())),
                Ok(lock) => Ok(lock),
            };
            if let Err(why) = &lock {
                tracing::warn!("A directory for copies of logs cannot be used: {why}");
            }
            folders.push(Folder { path, lock });
        }
        match folders.iter().find_map(|folder| folder.lock.as_ref().err()) {
            Some(why) if folders.iter().all(|folder| folder.lock.is_err()) => {
                Err(format!("no directory for copies of logs can be used: {why}"))
            }
            _ => Ok(Self(folders)),
        }
    }

    /// Their names, for people.
    pub fn names(&self) -> String {
        self.0.iter().map(|folder| folder.path.display().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Opens the folders for a copy of a shard's log, or makes them. By default its streams are spread over all directories
    /// that can be used. `is_known`: see [`copies::make`].
    ///
    /// # Errors
    /// The directory is not one of this log-server, or cannot be used.
    pub fn make(&self, wanted: &Wanted, is_known: bool) -> Result<Made, String> {
        let usable = |folder: &&Folder| folder.lock.is_ok();
        if wanted.dir == DEFAULT_DIR {
            let all: Vec<PathBuf> = self.0.iter().filter(usable).map(|folder| folder.path.clone()).collect();
            return copies::make(&all, wanted, is_known);
        }
        let is_it = |folder: &&Folder| folder.path == Path::new(&wanted.dir);
        let folder = self.0.iter().find(is_it).ok_or("this log-server has no such directory (`--dirs`)")?;
        folder.lock.as_ref().map_err(String::clone)?;
        copies::make(std::slice::from_ref(&folder.path), wanted, is_known)
    }

    /// The directories that cannot be used, in words; empty: none.
    pub fn trouble(&self) -> String {
        let troubles: Vec<&str> =
            self.0.iter().filter_map(|folder| folder.lock.as_ref().err()).map(String::as_str).collect();
        if troubles.is_empty() { String::new() } else { format!("cannot keep copies of logs: {}", troubles.join("; ")) }
    }
}

fn lock(path: &Path) -> Result<File, TryLockError> {
    redolog::make_folders(path).map_err(TryLockError::Error)?;
    let file = File::create(path.join(LOCK)).map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_used_is_told_and_the_others_serve() -> std::io::Result<()> {
        let root = std::env::temp_dir().join(format!("holdfast-folders-{}", std::process::id()));
        std::fs::create_dir_all(&root)?;
        std::fs::write(root.join("file"), "")?;
        let (good, bad) = (root.join("a/b"), root.join("file/c"));
        let folders = Folders::open(vec![good.clone(), bad.clone()]).unwrap();
        assert!(folders.trouble().contains("file/c"), "{}", folders.trouble());
        assert!(Folders::open(vec![good.clone()]).is_err_and(|why| why.contains("belongs to another")));
        drop(folders);
        assert_eq!(Folders::open(vec![good.clone()]).unwrap().trouble(), "");
        assert!(Folders::open(vec![bad]).is_err_and(|why| why.contains("no directory")));
        assert!(Folders::open(vec![good.clone(), good]).is_err_and(|why| why.contains("twice")));
        std::fs::remove_dir_all(&root)
    }
}

//! The file system, for the process that owns it: reading files, expanding patterns, replacing the file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::load::Files;

/// Most paths that a pattern may name.
const MATCHES_MAX: usize = 10_000;

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for component in pattern.components() {
            found = match component {
                Component::Normal(name) if object::glob::is_pattern(name.as_bytes()) => expand(&found, name)?,
                other => found.into_iter().map(|path| path.join(other)).collect(),
            };
        }
        found.retain(|path| path.exists());
        Ok(found)
    }
}

/// The entries of the directories whose names match. Those that begin with a dot match only a pattern with a dot.
fn expand(directories: &[PathBuf], pattern: &OsStr) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in directories {
        let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        // As glob(3), skip directories that cannot be listed.
        let Ok(entries) = fs::read_dir(listed) else {
            continue;
        };
        let mut names: Vec<OsString> = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let hidden = name.as_bytes().starts_with(b".") && !pattern.as_bytes().starts_with(b".");
            if !hidden && object::glob::matches(pattern.as_bytes(), name.as_bytes()) {
                names.push(name);
            }
        }
        names.sort();
        found.extend(names.into_iter().map(|name| directory.join(name)));
        if found.len() > MATCHES_MAX {
            return Err(io::Error::other("the pattern names too many files"));
        }
    }
    Ok(found)
}

/// Between the name of a file and the process that replaces it, in the name of its successor.
const SUCCESSOR: &str = ".tmp-";

/// Replaces a file as a whole: a reader sees the old content or the new, also after a crash. Successors that a killed
/// process has left are removed.
///
/// A link is followed, and the mode of an existing file is kept. A new file is for its owner alone, and so is the
/// successor from the beginning: it may hold passwords.
///
/// # Errors
///
/// The system's error; the old file is then unchanged.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    // Two threads would write the same successor.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    remove_successors(path);
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!("{SUCCESSOR}{}", std::process::id()));
    let temporary = target.with_file_name(name);
    let written = write_new(&temporary, content, fs::metadata(&target).ok()).and_then(|_locked| {
        fs::rename(&temporary, &target)?;
        let directory = target.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes a file that its lock shows to be in use: for as long as the returned file is open.
fn write_new(path: &Path, content: &[u8], like: Option<fs::Metadata>) -> io::Result<File> {
    // A file that a crash left behind would block `create_new`, which follows no link that others planted.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // Where there are no locks, another server may remove it; the rename reports that.
    let _ = file.try_lock();
    file.write_all(content)?;
    if let Some(like) = like {
        file.set_permissions(like.permissions())?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Removes the successors of a file that killed processes have left. Those that a live one writes are locked.
pub fn remove_successors(path: &Path) {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some(name) = target.file_name() else { return };
    let begin = [name.as_bytes(), SUCCESSOR.as_bytes()].concat();
    let is_successor = |name: &OsStr| {
        let number = name.as_bytes().strip_prefix(&begin[..]);
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_successor(&entry.file_name())) {
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let left = OpenOptions::new().write(true).open(entry.path());
        if left.is_ok_and(|file| file.try_lock().is_ok()) {
            // It is tried again by the next one that replaces the file.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory of its own for a test, removed afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("holdfast-config-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn patterns_name_files_in_order() {
        let scratch = Scratch::new("glob");
        for name in ["b.conf", "a.conf", ".hidden.conf", "other"] {
            fs::write(scratch.0.join(name), name).unwrap();
        }
        fs::create_dir(scratch.0.join("sub")).unwrap();
        fs::write(scratch.0.join("sub/c.conf"), "").unwrap();
        let names = |pattern: &str| -> Vec<String> {
            let found = Disk.matching(&scratch.0.join(pattern)).unwrap();
            found.iter().map(|path| path.strip_prefix(&scratch.0).unwrap().display().to_string()).collect()
        };
        assert_eq!(names("*.conf"), ["a.conf", "b.conf"]);
        assert_eq!(names("*/c.conf"), ["sub/c.conf"]);
        assert_eq!(names("[ab].c?nf"), ["a.conf", "b.conf"]);
        assert!(names("*.none").is_empty() && names("none/*").is_empty());
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_leaves_nothing_behind() {
        let scratch = Scratch::new("replace");
        let path = scratch.0.join("h.conf");
        replace_file(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = scratch.0.join("link.conf");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace_file(&link, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
        assert!(replace_file(&scratch.0.join("no/h.conf"), b"").is_err());
    }

    #[test]
    fn successors_are_for_the_owner_alone_and_those_of_killed_processes_go() {
        let scratch = Scratch::new("successors");
        let path = scratch.0.join("users.acl");
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let live = write_new(&scratch.0.join("users.acl.tmp-7"), b"live", None).unwrap();
        for name in ["users.acl.tmp-1", "users.acl.tmp-22", "users.acl.tmp-x", "users.acl.tmp-", "other.tmp-1"] {
            drop(write_new(&scratch.0.join(name), b"left", None).unwrap());
        }
        let mode = live.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        replace_file(&path, b"one").unwrap();
        let stay = ["other.tmp-1", "users.acl", "users.acl.tmp-", "users.acl.tmp-7", "users.acl.tmp-x"];
        assert_eq!(names(), stay, "another process is at one of them");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(live);
        remove_successors(&path);
        assert_eq!(names(), ["other.tmp-1", "users.acl", "users.acl.tmp-", "users.acl.tmp-x"]);
    }

    #[test]
    fn threads_that_replace_a_file_at_once_do_not_mix() {
        let scratch = Scratch::new("at-once");
        let path = scratch.0.join("users.acl");
        std::thread::scope(|scope| {
            for letter in [b'a', b'b', b'c'] {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace_file(path, &[letter; 10_000]).unwrap();
                        let text = fs::read(path).unwrap();
                        assert!(text.len() == 10_000 && text.iter().all(|byte| *byte == text[0]));
                    }
                });
            }
        });
    }
}

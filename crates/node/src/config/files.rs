//! The file system, for the process that owns it: reading files, expanding patterns, replacing the file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

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

/// Replaces a file as a whole: a reader sees the old content or the new, also after a crash.
///
/// A link is followed, and the mode of an existing file is kept, because it may hold passwords.
///
/// # Errors
///
/// The system's error; the old file is then unchanged.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = target.with_file_name(name);
    let written = write_new(&temporary, content, fs::metadata(&target).ok()).and_then(|()| {
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

fn write_new(path: &Path, content: &[u8], like: Option<fs::Metadata>) -> io::Result<()> {
    // A file that a crash left behind would block `create_new`, which follows no link that others planted.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Some(like) = like {
        file.set_permissions(like.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()
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
}

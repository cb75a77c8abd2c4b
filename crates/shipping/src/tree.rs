//! The files below a folder, by paths that both ends understand alike.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::wire::{TEXT_MAX, wrong};

/// Folders within folders.
const DEPTH_MAX: usize = 8;

/// A file: its path below the folder, with `/`, and its bytes.
pub(crate) type Entry = (String, u64);

/// All files below a folder, sorted by their paths. Empty folders are none.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| wrong("a file's name is no text"))?;
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let size = entry.metadata()?.len();
                found.push((path, size));
            } else {
                return Err(wrong("something is neither a file nor a folder"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The place of a path that the other end has named, in `folder`.
///
/// # Errors
/// It leads elsewhere, or is no path.
pub(crate) fn place(folder: &Path, path: &str) -> io::Result<PathBuf> {
    let is_name = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0']);
    let parts: Vec<&str> = path.split('/').collect();
    if path.len() > TEXT_MAX || parts.len() > DEPTH_MAX || !parts.iter().copied().all(is_name) {
        return Err(wrong("the path of a file leads elsewhere"));
    }
    Ok(parts.iter().fold(folder.to_owned(), |place, part| place.join(part)))
}

/// Puts the names of everything below a folder on the disk.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        }
    }
    fs::File::open(folder)?.sync_all()
}

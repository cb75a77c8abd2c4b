//! A file that gets its name when it is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file `NAME.part`. It is removed with this value, unless it was finished.
pub struct Part {
    name: PathBuf,
    part: PathBuf,
    file: File,
}

impl Part {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    /// It exists, or cannot be created.
    pub fn new(name: PathBuf) -> Result<Self, String> {
        if name.exists() {
            return Err(format!("{} is there already: name another file, or remove it", name.display()));
        }
        let mut part = name.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(|error| told(&part, &error))?;
        Ok(Self { name, part, file })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, once it is on the disk.
    ///
    /// # Errors
    /// The system's error.
    pub fn finish(self) -> Result<(), String> {
        self.file.sync_all().map_err(|error| told(&self.part, &error))?;
        fs::rename(&self.part, &self.name).map_err(|error| told(&self.name, &error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A file that was finished has no such name any more.
        let _ = fs::remove_file(&self.part);
    }
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

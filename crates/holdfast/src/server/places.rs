//! The directories of the data. No two settings may name the same one, and nothing else may be in them or go there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use node::config::Settings;

use super::standby::Note;

/// Where log and store are.
#[derive(Clone)]
pub struct Places {
    /// Of each stream of the log.
    pub logs: Vec<PathBuf>,
    pub store: PathBuf,
}

impl Places {
    /// As the settings name them, seen from `dir`.
    pub fn of(settings: &Settings, dir: &Path) -> Self {
        let path = |bytes: &[u8]| dir.join(OsStr::from_bytes(bytes));
        Self { logs: settings.log_dirs.iter().map(|bytes| path(bytes)).collect(), store: path(&settings.store_dir) }
    }

    /// The same, but that the log of a shard whose data came from another node is the copy that this node keeps.
    ///
    /// # Errors
    /// The note about that cannot be read. In words.
    pub fn of_data(settings: &Settings, dir: &Path) -> Result<Self, String> {
        let named = Self::of(settings, dir);
        match Note::read(dir)? {
            None => Ok(named),
            Some(note) => Ok(Self { logs: note.logs, ..named }),
        }
    }

    /// Makes the directories of the log, and checks that all directories can be used.
    pub fn make(&self) -> Result<(), String> {
        let mut made: Vec<(PathBuf, &Path)> = Vec::new();
        for folder in &self.logs {
            let failed = |error: io::Error| {
                let folder = folder.display();
                format!("log-dirs names {folder}, which is not there and cannot be made: {error}; is its disk mounted?")
            };
            if !folder.exists() {
                tracing::info!("{} is made for the log", folder.display());
            }
            redolog::make_folders(folder).map_err(failed)?;
            let real = fs::canonicalize(folder).map_err(failed)?;
            if let Some((_, other)) = made.iter().find(|(other, _)| *other == real) {
                return Err(format!(
                    "log-dirs names the same directory twice, as {} and as {}: each stream of the log needs one of its own",
                    other.display(),
                    folder.display()
                ));
            }
            if folder.join("STORE").exists() {
                return Err(format!("log-dirs names {}, which holds a store", folder.display()));
            }
            made.push((real, folder));
        }
        self.check_store(&made)?;
        // The store makes its own.
        let Some(above) = self.store.parent() else { return Ok(()) };
        redolog::make_folders(above)
            .map_err(|error| format!("can't make the directory {} of the store: {error}", above.display()))
    }

    fn check_store(&self, logs: &[(PathBuf, &Path)]) -> Result<(), String> {
        let store = self.store.display();
        let Ok(real) = fs::canonicalize(&self.store) else { return Ok(()) };
        if logs.iter().any(|(log, _)| *log == real) {
            return Err(format!("store-dir and log-dirs both name {store}: the store needs a directory of its own"));
        }
        if !real.is_dir() {
            return Err(format!("store-dir names {store}, which is no directory"));
        }
        if real.join("STORE").exists() {
            return Ok(());
        }
        let names = names(&real).map_err(|error| format!("store-dir: {store}: {error}"))?;
        let what = match names.iter().find(|name| *name != "STORE.new") {
            None => return Ok(()),
            Some(_) if names.iter().any(|name| name == "BACKUP") => {
                "a backup: `holdfast restore` makes data of it".to_owned()
            }
            Some(_) if names.iter().any(|name| name.ends_with(".log")) => "a log".to_owned(),
            Some(name) => format!("{name}, and is no store"),
        };
        Err(format!(
            "store-dir names {store}, which holds {what}; a store needs an empty directory, or one that is not there yet"
        ))
    }

    /// Which of them this path, which need not be there, is, or is in.
    pub fn around(&self, path: &Path) -> Option<&Path> {
        let real = real(path)?;
        let all = self.logs.iter().chain([&self.store]);
        all.map(PathBuf::as_path).find(|folder| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)))
    }

    /// As names that are right wherever the next start is made.
    pub fn log_names(&self) -> Vec<Vec<u8>> {
        let name = |folder: &PathBuf| std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        self.logs.iter().map(|folder| name(folder).into_os_string().into_vec()).collect()
    }

    /// Adds the suspicious directories to `why`, if that says that the log is not whole. `before`: those of the last
    /// start.
    pub fn explain(&self, why: &str, before: &[Vec<u8>]) -> String {
        let empty: Vec<_> = self.logs.iter().filter(|folder| !holds_log(folder)).collect();
        let names = self.log_names();
        let mut text = why.to_owned();
        if before.len() != names.len() || !empty.is_empty() {
            for lost in before.iter().filter(|name| !names.contains(name)) {
                text += &format!("; log-dirs lacks {}, which the last start had", String::from_utf8_lossy(lost));
            }
        }
        for folder in empty {
            text += &format!("; {} holds nothing of a log: is its disk mounted?", folder.display());
        }
        text
    }

    /// True if no directory holds data. One that cannot be read may hold some: the start says then why it cannot.
    pub fn hold_nothing(&self) -> bool {
        let lacks = |folder: &PathBuf, ending: &str| match names(folder) {
            Ok(names) => !names.iter().any(|name| name.ends_with(ending)),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        self.logs.iter().all(|folder| lacks(folder, ".log")) && lacks(&self.store, "STORE")
    }

    /// True if there is a log in one of the directories.
    pub fn has_log(&self) -> bool {
        self.logs.iter().any(|folder| holds_log(folder))
    }

    /// Where there is data, if anywhere.
    pub fn data(&self) -> Option<&Path> {
        let log = self.logs.iter().find(|folder| holds_log(folder));
        log.or(Some(&self.store).filter(|store| store.join("STORE").exists())).map(PathBuf::as_path)
    }
}

fn holds_log(folder: &Path) -> bool {
    names(folder).is_ok_and(|names| names.iter().any(|name| name.ends_with(".log")))
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Where a path leads: as far as it is there, links are followed.
fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|ancestor| ancestor.exists())?;
    let rest = path.strip_prefix(there).ok()?;
    Some(fs::canonicalize(there).ok()?.join(rest))
}

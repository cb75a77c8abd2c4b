//! The folder of a node's state of its cluster. See [`super::kept`] and [`super::shelf`] for its files.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, Real, is_lack};
use super::kept::{DataId, Kept};
use super::shelf::{self, Shelf};
use crate::NodeId;
use crate::codec::Malformed;
use crate::meta::ChangeId;

/// Name of the file with the node's identity.
pub const FILE: &str = "state";

/// The end of the name of an incomplete file.
const NEW: &str = ".new";

/// The reason why a node cannot know its identity.
#[derive(Debug)]
pub struct KeptError {
    file: PathBuf,
    what: String,
}

impl std::fmt::Display for KeptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for KeptError {}

fn error(file: &Path, what: String) -> KeptError {
    KeptError { file: file.to_owned(), what }
}

fn system(file: &Path) -> impl Fn(io::Error) -> KeptError {
    move |what| error(file, what.to_string())
}

/// The metadata that a folder holds, if it holds any, and the changes whose files of libraries are whole.
type Known = Option<(Kept, BTreeSet<ChangeId>)>;

/// Reads the metadata that a folder holds. An error names the file.
fn read_all(files: &dyn Files) -> Result<Known, (String, String)> {
    let bytes = match files.read(FILE) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err((FILE.to_owned(), why.to_string())),
    };
    let mut shelf = Shelf::new();
    let mut failed = None;
    let mut find = |change: &ChangeId| {
        if let Some(known) = shelf.get(change) {
            return Ok(Arc::clone(known));
        }
        let name = shelf::file_of(change);
        let libraries = match files.read(&name) {
            Ok(bytes) => shelf::decode(change, &bytes),
            Err(why) => {
                failed = Some((name.clone(), why.to_string()));
                Err(Malformed("a file of libraries"))
            }
        };
        let libraries = libraries.inspect_err(|Malformed(what)| {
            failed.get_or_insert_with(|| (name, format!("damaged: expected {what}")));
        })?;
        shelf.insert(*change, Arc::clone(&libraries));
        Ok(libraries)
    };
    let kept = Kept::decode(&bytes, &mut find);
    let kept = kept.map_err(|Malformed(what)| {
        let (name, why) = failed.take().unwrap_or_else(|| (FILE.to_owned(), format!("damaged: expected {what}")));
        (name, format!("{why}. Nothing was changed; without this folder the node would be a new one"))
    })?;
    Ok(Some((kept, shelf.into_keys().collect())))
}

/// The folder, locked while it is open.
pub struct Folder {
    files: Box<dyn Files>,
    /// Changes whose libraries have files.
    shelved: BTreeSet<ChangeId>,
    _lock: Option<File>,
}

impl Folder {
    /// Opens or makes the folder, and counts this start. A new one gets a new name of the node. `data`: the data on its
    /// disks, if there are any. A node of a cluster does not go on without its data, because it has told others that
    /// they are durable. `knows`: the data hold transactions over nodes. In a new node these are of another node's
    /// life, and stay so until it says otherwise.
    pub fn open(
        path: &Path,
        data: Option<DataId>,
        knows: bool,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(Self, Kept), KeptError> {
        fs::create_dir_all(path).map_err(system(path))?;
        let lock_path = path.join("lock");
        let lock =
            File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(system(&lock_path))?;
        lock.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => error(&lock_path, "another server uses this folder".to_owned()),
            TryLockError::Error(why) => system(&lock_path)(why),
        })?;
        let (mut folder, kept) = Self::begin(Box::new(Real(path.to_owned())), path, data, knows, random)?;
        folder._lock = Some(lock);
        Ok((folder, kept))
    }

    /// As [`Self::open`], with these files, which no other process uses.
    fn begin(
        files: Box<dyn Files>,
        path: &Path,
        data: Option<DataId>,
        knows: bool,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(Self, Kept), KeptError> {
        let known = Self::known(&*files, path, data)?;
        let fresh = || (Kept { node: NodeId::random(random), inherited: true, ..Kept::default() }, BTreeSet::new());
        let (mut kept, shelved) = known.unwrap_or_else(fresh);
        kept.data = data.or(kept.data);
        kept.incarnation += 1;
        kept.inherited &= knows;
        let mut folder = Self { files, shelved, _lock: None };
        folder.write(&kept.encode(), &kept.shelf()).map_err(system(&path.join(FILE)))?;
        folder.tidy();
        Ok((folder, kept))
    }

    /// Reads the folder's metadata and changes nothing; `None`: the folder is no node's. `data` names the data on the
    /// node's disks, and refuses as in [`Self::open`].
    pub fn read(path: &Path, data: Option<DataId>) -> Result<Option<Kept>, KeptError> {
        let known = Self::known(&Real(path.to_owned()), path, data)?;
        Ok(known.map(|(kept, _)| kept))
    }

    fn known(files: &dyn Files, path: &Path, data: Option<DataId>) -> Result<Known, KeptError> {
        let known = read_all(files).map_err(|(name, why)| error(&path.join(name), why))?;
        let kept = known.as_ref().map(|(kept, _)| kept);
        let is_gone =
            |kept: &&Kept| kept.cluster.is_some() && data.is_some() && kept.data.is_some() && kept.data != data;
        if kept.filter(is_gone).is_some() {
            let why = "the data that this node of a cluster had is gone: its log and its store are new, or those of another. Bring them back, or, if they are lost, \
                       remove this folder: then it joins as a new node, and `holdfast cluster forget --lose-data` takes out the old one";
            return Err(error(path, why.to_owned()));
        }
        Ok(known)
    }

    /// Replaces the file, which names the libraries of `shelf`; all of it is durable when it returns.
    pub fn write(&mut self, state: &[u8], shelf: &Shelf) -> io::Result<()> {
        let new: Vec<_> = shelf.iter().filter(|(change, _)| !self.shelved.contains(*change)).collect();
        for (change, libraries) in &new {
            self.replace(&shelf::file_of(change), &shelf::encode(change, libraries))?;
        }
        if !new.is_empty() {
            // The file that names them must not be there before they are.
            self.files.sync()?;
            self.shelved.extend(new.iter().map(|(change, _)| **change));
        }
        self.replace(FILE, state)?;
        self.files.sync()?;
        let gone: Vec<ChangeId> = self.shelved.iter().filter(|change| !shelf.contains_key(*change)).copied().collect();
        for change in gone {
            // If it fails, the next start removes it.
            let _ = self.files.remove(&shelf::file_of(&change));
            self.shelved.remove(&change);
        }
        // The next start may find the disk full, and needs a write as well.
        self.files.reserve(2 * state.len() + shelf.values().map(|libraries| libraries.len()).max().unwrap_or(0));
        Ok(())
    }

    /// Replaces a file. Without room on the disk it takes the reserved room.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}{NEW}");
        match self.files.write(&new, bytes) {
            Err(error) if is_lack(&error) && self.files.release() => self.files.write(&new, bytes)?,
            written => written?,
        }
        self.files.rename(&new, name)
    }

    /// Removes the rests of lives that ended while they wrote.
    fn tidy(&mut self) {
        let wanted: BTreeSet<String> = self.shelved.iter().map(shelf::file_of).collect();
        for name in self.files.names().unwrap_or_default() {
            if name.ends_with(NEW) || name.starts_with(shelf::PREFIX) && !wanted.contains(&name) {
                let _ = self.files.remove(&name);
            }
        }
    }
}

#[cfg(test)]
#[path = "folder_test.rs"]
mod tests;

//! A copy of one state in another folder.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::AbstractTree;

use super::Shared;
use super::view::View;
use crate::identity::{self, Identity};
use crate::sections::{CURRENT, Manifest, TABLES, TREE, file_names, manifest_path, read_manifest, table_path};
use crate::{Error, Generation};

/// A manifest, the bytes of its files, and what keeps its tables.
struct Pinned {
    manifest: Manifest,
    /// The contents of `current` and the manifest.
    bytes: [Vec<u8>; 2],
    _view: Arc<View>,
}

impl Shared {
    /// Flushes and copies. The file that makes the folder a store comes last: without it, the copy is unfinished and
    /// refused.
    ///
    /// # Errors
    ///
    /// The store or the disk has failed, or the folder is not empty.
    pub fn backup(&self, folder: &Path) -> Result<Generation, Error> {
        let from = self.tree_folder();
        let to = folder.join(TREE);
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, &e))?;
        if let Some(name) = file_names(folder)?.first() {
            return Err(Error::refused(folder, format!("it is not empty: it holds {name}")));
        }
        let Some(Identity { node }) = identity::read(&self.folder)? else {
            return Err(Error::damaged(&self.folder.join(identity::FILE), "it is missing"));
        };
        self.flush()?;
        let Pinned { manifest, bytes, _view } = self.pin()?;
        let tables = to.join(TABLES);
        fs::create_dir_all(&tables).map_err(|e| Error::io(&tables, &e))?;
        for table in &manifest.tables {
            link_or_copy(&table_path(from, table.id), &table_path(&to, table.id))?;
        }
        let [current, list] = bytes;
        put(&manifest_path(&to, manifest.id), &list)?;
        put(&to.join(CURRENT), &current)?;
        for folder in [&tables, &to, folder] {
            File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io(folder, &e))?;
        }
        identity::write(folder, &Identity { node })?;
        Ok(manifest.id)
    }

    /// The manifest that counts now.
    fn pin(&self) -> Result<Pinned, Error> {
        let tree = self.tree_folder();
        loop {
            let (view, _) = self.view();
            let held: BTreeSet<u64> = view.tables().map(lsm_tree::Table::id).collect();
            // While this is held, no other manifest begins to count.
            let history = self.tree.get_version_history_lock();
            let manifest = read_manifest(tree)?;
            let bytes = [read(&tree.join(CURRENT))?, read(&manifest_path(tree, manifest.id))?];
            drop(history);
            if manifest.tables.iter().all(|table| held.contains(&table.id)) {
                return Ok(Pinned { manifest, bytes, _view: view });
            }
            // A compaction has just ended and readers do not see it yet.
            self.refresh();
        }
    }
}

/// Makes a folder that a store opens as it would open `folder`, in any state: with links to its tables and copies of
/// all else. Opening the mirror changes nothing in `folder`, which no store may use.
///
/// # Errors
///
/// The disk has failed to link or to copy a file.
pub fn mirror(folder: &Path, to: &Path) -> Result<(), Error> {
    if !folder.try_exists().map_err(|e| Error::io(folder, &e))? {
        return Ok(());
    }
    let folder = folder.canonicalize().map_err(|e| Error::io(folder, &e))?;
    mirror_folder(&folder, to, &folder.join(TREE).join(TABLES))
}

fn mirror_folder(folder: &Path, to: &Path, tables: &Path) -> Result<(), Error> {
    fs::create_dir(to).map_err(|e| Error::io(to, &e))?;
    for name in file_names(folder)? {
        let (from, to) = (folder.join(&name), to.join(&name));
        if from.is_dir() {
            mirror_folder(&from, &to, tables)?;
        } else if folder == tables {
            std::os::unix::fs::symlink(&from, &to).map_err(|e| Error::io(&to, &e))?;
        } else {
            fs::copy(&from, &to).map_err(|e| Error::io(&from, &e))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::io(path, &e))
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = File::create_new(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|e| Error::io(path, &e))
}

/// Tables never change, so a second name is as good as a copy where the file system allows it.
fn link_or_copy(from: &Path, to: &Path) -> Result<(), Error> {
    let linked = fs::hard_link(from, to);
    if linked.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return linked.map_err(|e| Error::io(from, &e));
    }
    if linked.is_ok() {
        return Ok(());
    }
    fs::copy(from, to).and_then(|_| File::open(to)?.sync_all()).map_err(|e| Error::io(to, &e))
}

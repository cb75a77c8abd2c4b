//! The streams of a shard, spread over several directories, each on a disk of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quorum::{AcceptorId, ShardId};

use super::identity::Identity;
use super::{Place, Unusable, folder_of, stream_in};

/// The directories of an acceptor's parts.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    /// Of its name and its promise.
    pub own: PathBuf,
    /// Of each stream.
    pub streams: Vec<PathBuf>,
}

impl Spread {
    /// Finds the parts that are there, whatever the order of the directories is. Others are dealt out in turns: shards
    /// begin at different directories.
    ///
    /// # Errors
    /// There is no directory, or one cannot be read.
    pub fn of(directories: &[PathBuf], shard: ShardId, streams: u16) -> Result<Self, Unusable> {
        let first = shard.0 as usize;
        let dealt = |turn: usize| {
            let none = || Unusable::Io(io::Error::other("no directory for copies of logs"));
            directories.get((first + turn) % directories.len().max(1)).ok_or_else(none)
        };
        let is_there = |directory: &&PathBuf| folder_of(directory, shard).join(super::identity::NAME).exists();
        let own = match directories.iter().find(is_there) {
            Some(own) => own,
            None => dealt(0)?,
        };
        let mut of_streams = Vec::new();
        for stream in 0..streams {
            let mut found = None;
            for directory in directories {
                if has_segments(&stream_in(&folder_of(directory, shard), stream))? {
                    found = Some(directory);
                    break;
                }
            }
            of_streams.push(match found {
                Some(found) => found.clone(),
                None => dealt(stream.into())?.clone(),
            });
        }
        Ok(Self { own: own.clone(), streams: of_streams })
    }

    /// Opens the folders, and makes those that are not there.
    ///
    /// # Errors
    /// As for [`Place::at`].
    pub fn place(&self, shard: ShardId) -> Result<Place<redolog::Folder>, Unusable> {
        let of_streams = (0..).zip(&self.streams).map(|(at, directory)| stream_in(&folder_of(directory, shard), at));
        Place::of(&folder_of(&self.own, shard), &of_streams.collect::<Vec<_>>())
    }
}

/// Removes what an acceptor has in these directories. Folders of another acceptor of the shard stay.
///
/// # Errors
/// A folder cannot be read or removed.
pub(crate) fn remove_folders(directories: &[PathBuf], shard: ShardId, id: AcceptorId) -> io::Result<()> {
    let mut mine = Vec::new();
    for folder in directories.iter().map(|directory| folder_of(directory, shard)).filter(|folder| folder.exists()) {
        match Identity::read(&redolog::Folder::to_read(&folder)) {
            Ok(Some(identity)) if identity.acceptor == id => mine.insert(0, folder),
            Ok(None) => mine.push(folder),
            _ => {}
        }
    }
    let named = mine.first().map(|folder| folder.join(super::identity::NAME)).filter(|name| name.exists());
    let Some(name) = named else { return Ok(()) };
    fs::remove_file(&name)?;
    fs::File::open(name.parent().unwrap_or(&name))?.sync_all()?;
    mine.iter().try_for_each(fs::remove_dir_all)
}

fn has_segments(folder: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        if entry?.path().extension().is_some_and(|extension| extension == "log") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    const LIMITS: redolog::Limits = redolog::Limits { segment: 16384, spares: 0, reserve: 0, block: 4000 };

    #[test]
    fn streams_are_spread_and_found_again() {
        let root = std::env::temp_dir().join(format!("holdfast-spread-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let directories: Vec<PathBuf> = ["a", "b", "c"].map(|name| root.join(name)).to_vec();
        let (shard, id) = (ShardId(7), AcceptorId([5; 16]));
        let spread = Spread::of(&directories, shard, 5).unwrap();
        let names = |spread: &Spread| -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().unwrap().display().to_string();
            [&spread.own].into_iter().chain(&spread.streams).map(name).collect()
        };
        assert_eq!(names(&spread), ["b", "b", "c", "a", "b", "c"]);
        drop(Folder::make(spread.place(shard).unwrap(), shard, id, LIMITS).unwrap_or_else(|why| panic!("{why}")));

        // Directories may be named in another order, and another one may be added.
        let other: Vec<PathBuf> = ["d", "c", "a", "b"].map(|name| root.join(name)).to_vec();
        let again = Spread::of(&other, shard, 5).unwrap();
        assert_eq!(again, spread);
        let folder = Folder::open(again.place(shard).unwrap(), shard, LIMITS).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(folder.acceptor(), id);
        drop(folder);

        // It is removed from all of them, and another acceptor is not.
        remove_folders(&other, shard, AcceptorId([6; 16])).unwrap();
        assert_eq!(Spread::of(&other, shard, 5).unwrap(), spread);
        let alone = [root.join("e")];
        let place = Spread::of(&alone, shard, 1).unwrap().place(shard).unwrap();
        drop(Folder::make(place, shard, AcceptorId([6; 16]), LIMITS).unwrap_or_else(|why| panic!("{why}")));
        remove_folders(&alone, shard, AcceptorId([6; 16])).unwrap();
        assert!(root.join("e").is_dir() && !root.join("e/shard-7").exists());

        // One that is lost is missed (rule G9).
        fs::remove_dir_all(root.join("c")).unwrap();
        let lost = Folder::open(Spread::of(&directories, shard, 5).unwrap().place(shard).unwrap(), shard, LIMITS);
        assert!(matches!(lost, Err(Unusable::Lost(_))));
        assert!(Spread::of(&[], shard, 1).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}

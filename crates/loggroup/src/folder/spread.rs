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
    /// begin at different directories. Of several parts of one stream it takes the one that its acceptor has written:
    /// others come from a disk that was away.
    ///
    /// # Errors
    /// There is no directory, or one cannot be read. Or one part is in several, and none is known to be the right one.
    pub fn of(directories: &[PathBuf], shard: ShardId, streams: u16) -> Result<Self, Unusable> {
        let first = shard.0 as usize;
        let dealt = |turn: usize| {
            let none = || Unusable::Io(io::Error::other("no directory for copies of logs"));
            directories.get((first + turn) % directories.len().max(1)).ok_or_else(none)
        };
        let folder = |directory: &PathBuf| folder_of(directory, shard);
        let mut named = directories.iter().filter(|directory| folder(directory).join(super::identity::NAME).exists());
        let own = match (named.next(), named.next()) {
            (Some(one), Some(other)) => return Err(twice("the name of an acceptor", &folder(one), &folder(other))),
            (Some(own), None) => own,
            (None, _) => dealt(0)?,
        };
        let mut of_streams = Vec::new();
        for stream in 0..streams {
            let part = |directory: &PathBuf| stream_in(&folder(directory), stream);
            let mut found = Vec::new();
            for directory in directories {
                if has_segments(&part(directory))? {
                    found.push(directory);
                }
            }
            of_streams.push(match &found[..] {
                [] => dealt(stream.into())?.clone(),
                [one] => (*one).clone(),
                [one, other, ..] => {
                    let name = Identity::read(&redolog::Folder::to_read(&folder(own)))?.map(|named| named.acceptor.0);
                    let of = |directory: &PathBuf| {
                        let holder = redolog::newest_holder(&redolog::Folder::to_read(&part(directory)));
                        holder.unwrap_or_default().map(|(acceptor, _)| acceptor)
                    };
                    let mut right = found.iter().filter(|directory| name.is_some() && of(directory) == name);
                    match (right.next(), right.next()) {
                        (Some(right), None) => (*right).clone(),
                        _ => return Err(twice("a stream", &part(one), &part(other))),
                    }
                }
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

fn twice(what: &str, one: &Path, other: &Path) -> Unusable {
    Unusable::Lost(format!("{what} is twice there, in {} and in {}", one.display(), other.display()))
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
        drop(lost);
        // Its place gets another one, of which nothing is left over.
        crate::put_aside(&directories, shard, None).unwrap_or_else(|why| panic!("{why}"));
        let place = || Spread::of(&directories, shard, 5).unwrap().place(shard).unwrap();
        assert!(matches!(Folder::open(place(), shard, LIMITS), Err(Unusable::Empty)));
        let new = Folder::make(place(), shard, AcceptorId([8; 16]), LIMITS).unwrap_or_else(|why| panic!("{why}"));
        assert!(new.found().unwrap().iter().all(|found| found.life.0 == 1));
        drop(new);
        assert!(Spread::of(&[], shard, 1).is_err());
        fs::remove_dir_all(&root).unwrap();
    }

    fn open(directories: &[PathBuf]) -> Result<AcceptorId, Unusable> {
        let spread = Spread::of(directories, ShardId(0), 2)?;
        Folder::open(spread.place(ShardId(0))?, ShardId(0), LIMITS).map(|folder| folder.acceptor())
    }

    fn make(directories: &[PathBuf], id: u8) -> Result<AcceptorId, Unusable> {
        let spread = Spread::of(directories, ShardId(0), 2)?;
        let id = AcceptorId([id; 16]);
        Folder::make(spread.place(ShardId(0))?, ShardId(0), id, LIMITS).map(|folder| folder.acceptor())
    }

    /// Rule G9: a disk was away while its acceptor was replaced. When it is back it does not speak for the new one.
    #[test]
    fn a_disk_that_was_away_does_not_speak_for_another() {
        let root = std::env::temp_dir().join(format!("holdfast-away-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let all: Vec<PathBuf> = ["a", "b", "c"].map(|name| root.join(name)).to_vec();
        let (name, stream, away) = (root.join("a/shard-0"), root.join("b/shard-0"), root.join("away"));
        make(&all, 1).unwrap_or_else(|why| panic!("{why}"));
        assert!(name.join("acceptor").exists() && stream.join("stream-1").exists());
        fs::rename(&stream, &away).unwrap();
        assert!(matches!(open(&all), Err(Unusable::Lost(_))));

        // The new one's stream is below the mount point.
        fs::remove_dir_all(&name).unwrap();
        make(&all, 2).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(open(&all).unwrap(), AcceptorId([2; 16]));
        fs::remove_dir_all(&stream).unwrap();
        fs::rename(&away, &stream).unwrap();
        assert!(matches!(open(&all), Err(Unusable::Lost(_))), "the blocks of another acceptor");

        // It is in another directory, as that disk could not be used: it is known.
        fs::rename(&stream, &away).unwrap();
        fs::remove_dir_all(&name).unwrap();
        make(&[all[0].clone(), all[2].clone()], 3).unwrap_or_else(|why| panic!("{why}"));
        assert!(root.join("c/shard-0/stream-1").exists());
        fs::rename(&away, &stream).unwrap();
        assert_eq!(open(&all).unwrap(), AcceptorId([3; 16]));
        fs::remove_file(name.join("acceptor")).unwrap();
        assert!(matches!(open(&all), Err(Unusable::Lost(_))), "a stream is twice there");
        fs::create_dir_all(root.join("c/shard-0")).unwrap();
        for place in [&name, &root.join("c/shard-0")] {
            fs::write(place.join("acceptor"), "").unwrap();
        }
        assert!(matches!(open(&all), Err(Unusable::Lost(_))), "two names");
        fs::remove_dir_all(&root).unwrap();
    }
}

//! The folder of an acceptor: the copies of a shard's streams, its promise, and its name.
//!
//! ```text
//! shard-N/acceptor      the name, made last: a folder without it is not one
//! shard-N/promise       the highest term that it has promised
//! shard-N/stream-M/     segments, as `redolog` has them
//! ```
//!
//! Where there are several directories, each has a folder `shard-N` with some of the streams (`spread.rs`).
//!
//! A folder that lost anything is no acceptor any more: it does not vote (rule G9).

mod aside;
mod blocks;
mod checked;
mod identity;
mod promise;
mod spread;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use quorum::{AcceptorId, Base, BlockId, Cut, FolderLife, Found, History, Run, ShardId, StreamId, Term};
use redolog::{Chain, Damage, Disk, Holder, Limits, Lsn, Name, Replica};

pub use self::aside::put_aside;
pub(crate) use self::blocks::{check, decoded, encoded};
pub(crate) use self::checked::named;
pub use self::checked::{Checked, check_copy};
pub use self::identity::Cluster;
pub(crate) use self::identity::{Identity, NAME};
pub(crate) use self::promise::Promise;
pub(crate) use self::spread::{Spread, remove_folders};

/// The disks of a folder: of its own files, and of each stream.
pub struct Place<D> {
    /// Where its name and its promise are.
    pub own: D,
    /// Where the segments of each stream are.
    pub streams: Vec<D>,
    /// No other process uses the folders while these are open.
    pub locks: Vec<std::fs::File>,
}

impl Place<redolog::Folder> {
    /// The folder `shard-N` in a directory, made if it is not there.
    ///
    /// # Errors
    /// It can neither be opened nor made, or another process uses it.
    pub fn at(directory: &Path, shard: ShardId, streams: u16) -> Result<Self, Unusable> {
        let own = folder_of(directory, shard);
        let of_streams: Vec<_> = (0..streams).map(|stream| stream_in(&own, stream)).collect();
        Self::of(&own, &of_streams)
    }

    /// A folder whose streams lie elsewhere: in the directories of an owner's own log.
    ///
    /// # Errors
    /// As for [`Self::at`].
    pub fn of(own: &Path, of_streams: &[std::path::PathBuf]) -> Result<Self, Unusable> {
        let (mut locks, mut streams) = (Vec::new(), Vec::new());
        let disk = redolog::Folder::new(own)?;
        locks.push(redolog::lock_folder(own)?);
        for stream in of_streams {
            streams.push(redolog::Folder::new(stream)?);
            locks.push(redolog::lock_folder(stream)?);
        }
        Ok(Self { own: disk, streams, locks })
    }

    /// The same folders on the slow devices of these directories.
    pub(crate) fn on(self, devices: &redolog::Devices, own: &Path, of_streams: &[PathBuf]) -> Self {
        let slow = |(folder, directory): (_, &PathBuf)| devices.slow(folder, directory);
        let streams = self.streams.into_iter().zip(of_streams).map(slow).collect();
        Self { own: devices.slow(self.own, own), streams, locks: self.locks }
    }
}

fn folder_of(directory: &Path, shard: ShardId) -> PathBuf {
    directory.join(format!("shard-{}", shard.0))
}

fn stream_in(folder: &Path, stream: u16) -> PathBuf {
    folder.join(format!("stream-{stream}"))
}

/// The folder `shard-N` of a copy, if this is that of one of its streams.
pub(crate) fn folder_above(stream: &Path) -> Option<&Path> {
    let has = |path: &Path, begin: &str| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    stream.parent().filter(|above| has(stream, "stream-") && has(above, "shard-"))
}

/// The directories of the streams of a shard's copy in these directories, in their order: those of its log, once its node
/// owns the shard.
///
/// # Errors
/// A directory cannot be read, or a stream is in several of them.
pub fn logs_of_copy(directories: &[PathBuf], shard: ShardId, streams: u16) -> Result<Vec<PathBuf>, Unusable> {
    let spread = Spread::of(directories, shard, streams)?;
    Ok((0..).zip(&spread.streams).map(|(at, directory)| stream_in(&folder_of(directory, shard), at)).collect())
}

/// The reason why a folder cannot be used.
#[derive(Debug)]
pub enum Unusable {
    /// There is no acceptor.
    Empty,
    /// Something that was there is gone, or is another's. The folder does not vote, and its place gets a new acceptor
    /// (rule G9).
    Lost(String),
    /// A stream is damaged: the same.
    Damaged(Damage),
    /// Segments of an earlier version, whose blocks no copy can have.
    Old(PathBuf),
    /// The disk cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is no folder of an acceptor"),
            Self::Lost(what) => f.write_str(what),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Old(log) => write!(
                f,
                "the log in {} has segments of version 3, which cannot be copied: restart its node, and have BGSAVE make a checkpoint there",
                log.display()
            ),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unusable {}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Damage> for Unusable {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Io(error) => Self::Io(error),
            damage => Self::Damaged(damage),
        }
    }
}

/// The folder of an acceptor, open.
pub struct Folder<D: Disk> {
    pub(crate) shard: ShardId,
    pub(crate) acceptor: AcceptorId,
    cluster: Option<Cluster>,
    pub(crate) promise: Promise<D>,
    pub(crate) streams: Vec<Replica<D>>,
    pub(crate) locks: Vec<std::fs::File>,
}

impl<D: Disk> Folder<D> {
    /// Opens the folder of an acceptor that is there.
    ///
    /// # Errors
    /// There is none, it is another shard's, or it lost something.
    pub fn open(place: Place<D>, shard: ShardId, limits: Limits) -> Result<Self, Unusable> {
        let identity = Identity::read(&place.own)?.ok_or(Unusable::Empty)?;
        let Identity { acceptor, shard: of, streams, cluster } = identity;
        if of != shard || usize::from(streams) != place.streams.len() {
            return Err(Unusable::Lost(format!(
                "{} is of shard {}, which has {streams} streams, not of shard {} with {}",
                place.own.describe("acceptor"),
                of.0,
                shard.0,
                place.streams.len()
            )));
        }
        let (locks, promise) = (place.locks, Promise::open(place.own, acceptor, shard)?);
        let streams = open_streams(place.streams, shard, acceptor, limits)?;
        if let Some(lost) = streams.iter().position(Replica::is_empty) {
            return Err(Unusable::Lost(format!("the files of stream {lost} are gone")));
        }
        // A disk that comes back with the blocks of an acceptor of before would speak in this one's name.
        if let Some(other) = streams.iter().find(|stream| stream.is_of_another()) {
            return Err(of_another(other));
        }
        Ok(Self { shard, acceptor, cluster, promise, streams, locks })
    }

    /// The same, if it is a copy of a log of this cluster, or does not say of which.
    ///
    /// # Errors
    /// It is one of another cluster.
    pub(crate) fn of_cluster(self, cluster: Option<Cluster>) -> Result<Self, Unusable> {
        match (self.cluster, cluster) {
            (Some(of), Some(cluster)) if of != cluster => Err(of_another_cluster()),
            _ => Ok(self),
        }
    }

    /// Makes the folder of a new acceptor. Streams may be there: the log of a shard that has had no copies so far. Their
    /// files are not changed.
    ///
    /// # Errors
    /// There is an acceptor already, or the blocks of one that has lost its name. Or the disk has no room, or has failed.
    pub fn make(place: Place<D>, shard: ShardId, acceptor: AcceptorId, limits: Limits) -> Result<Self, Unusable> {
        Self::make_in(None, place, shard, acceptor, limits)
    }

    /// As [`Self::make`], in a cluster.
    pub(crate) fn make_in(
        cluster: Option<Cluster>,
        place: Place<D>,
        shard: ShardId,
        acceptor: AcceptorId,
        limits: Limits,
    ) -> Result<Self, Unusable> {
        if Identity::read(&place.own)?.is_some() {
            return Err(Unusable::Lost(format!("{} is there already", place.own.describe("acceptor"))));
        }
        let count = place.streams.len() as u16;
        let mut streams = open_streams(place.streams, shard, acceptor, limits)?;
        let has_blocks = |stream: &Replica<D>| stream.last() != (Name::default(), Lsn::ZERO);
        if let Some(other) = streams.iter().find(|stream| stream.is_of_another() && has_blocks(stream)) {
            return Err(of_another(other));
        }
        for stream in streams.iter_mut().filter(|stream| stream.is_empty() || stream.is_of_another()) {
            // So that a stream without files is one that lost them. An earlier try may have begun it.
            stream.begin(stream.life() + 1, redolog::Keep::UpTo(Name::default()))?;
        }
        let identity = Identity { acceptor, shard, streams: count, cluster };
        let own = identity.write(place.own, |own| Promise::make(own, acceptor, shard))?;
        let (locks, promise) = (place.locks, Promise::open(own, acceptor, shard)?);
        Ok(Self { shard, acceptor, cluster, promise, streams, locks })
    }

    /// Names a folder whose streams are there and may be written meanwhile: the acceptor that is there, or a new one. No
    /// stream is opened.
    pub(crate) fn name(own: D, new: Identity) -> Result<AcceptorId, Unusable> {
        match Identity::read(&own)? {
            Some(there) if there.cluster.is_some_and(|of| new.cluster.is_some_and(|cluster| of != cluster)) => {
                Err(of_another_cluster())
            }
            Some(there) if there.shard == new.shard && there.streams == new.streams => Ok(there.acceptor),
            Some(there) => Err(Unusable::Lost(format!(
                "{} is of shard {}, which has {} streams",
                own.describe("acceptor"),
                there.shard.0,
                there.streams
            ))),
            None => {
                new.write(own, |own| Promise::make(own, new.acceptor, new.shard))?;
                Ok(new.acceptor)
            }
        }
    }

    /// Its acceptor.
    #[must_use]
    pub fn acceptor(&self) -> AcceptorId {
        self.acceptor
    }

    /// The term that it has promised.
    #[must_use]
    pub fn promised(&self) -> Term {
        self.promise.term()
    }

    /// The streams as a start finds them.
    ///
    /// # Errors
    /// The names of a stream's blocks contradict one another.
    pub(crate) fn found(&self) -> Result<Vec<Found>, Unusable> {
        self.streams.iter().map(found).collect()
    }
}

/// The shard whose acceptor is in a folder; none: there is no acceptor.
///
/// # Errors
/// Its name cannot be read, or is damaged.
pub(crate) fn shard_of<D: Disk>(own: &D) -> Result<Option<ShardId>, Unusable> {
    Ok(Identity::read(own)?.map(|of| of.shard))
}

fn open_streams<D: Disk>(
    disks: Vec<D>,
    shard: ShardId,
    acceptor: AcceptorId,
    limits: Limits,
) -> Result<Vec<Replica<D>>, Unusable> {
    let streams = disks.len() as u16;
    let open = |(disk, stream)| {
        let holder = Holder { acceptor: acceptor.0, shard: shard.0, stream, streams };
        Replica::open(disk, holder, limits).map_err(Unusable::from)
    };
    disks.into_iter().zip(0..).map(open).collect()
}

fn of_another_cluster() -> Unusable {
    Unusable::Lost("a copy of the log of another cluster is there: remove it, or name another directory".to_owned())
}

fn of_another<D: Disk>(stream: &Replica<D>) -> Unusable {
    Unusable::Lost(format!("{} has the blocks of another acceptor: is another disk there?", stream.describe()))
}

fn found<D: Disk>(stream: &Replica<D>) -> Result<Found, Unusable> {
    let Some((life, chain, end)) = stream.found() else {
        // It was made a moment ago.
        let (last, end) = stream.last();
        let base = Base { id: block_id(last)?, cut: Cut(end.0) };
        return Ok(Found { life: FolderLife(stream.life()), history: History::new(base) });
    };
    Ok(Found { life: FolderLife(life), history: history(chain, end)? })
}

fn history(chain: &Chain, end: Lsn) -> Result<History, Unusable> {
    let contradicts = || Unusable::Lost("the names of its blocks contradict one another".into());
    let base = Base { id: block_id(chain.base())?, cut: Cut(end.0) };
    let run = |run: &redolog::Run| Some(Run { first: run.first, term: Term::new(run.term)? });
    let runs = chain.runs().iter().map(run).collect::<Option<Vec<_>>>().ok_or_else(contradicts)?;
    History::from_runs(base, runs, chain.last().sequence).ok_or_else(contradicts)
}

fn block_id(name: Name) -> Result<BlockId, Unusable> {
    let term = Term::new(name.term).ok_or_else(|| Unusable::Lost(format!("a block of term {}", name.term)))?;
    Ok(BlockId { term, sequence: name.sequence })
}

/// The name of a block as the log has it.
pub(crate) fn name_of(id: BlockId) -> Name {
    Name { term: id.term.get(), sequence: id.sequence }
}

/// A stream's number as the log has it.
pub(crate) fn number_of(stream: StreamId) -> usize {
    usize::from(stream.0)
}

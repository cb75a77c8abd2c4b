//! Verifies the folders of an acceptor that no process uses, and changes nothing (`holdfast check`).

use std::io;
use std::path::{Path, PathBuf};

use quorum::{AcceptorId, ShardId, Term};
use redolog::{Limits, Report};

use super::identity::Identity;
use super::{Folder, Place, Promise, Spread, Unusable, folder_of, stream_in};

/// The findings about an acceptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Its name.
    pub acceptor: AcceptorId,
    /// The highest term that it has promised.
    pub promised: Term,
    /// Its streams.
    pub log: Report,
    /// The reason why it does not vote: something is damaged, or gone.
    pub lost: Option<String>,
}

/// Verifies every checksum of the copy of a shard's log that lies in these directories.
///
/// # Errors
/// There is no acceptor, its name or its promise cannot be read, a stream is gone, or a process uses it.
pub fn check_copy(directories: &[PathBuf], shard: ShardId) -> Result<Checked, Unusable> {
    let own = folder_of(&Spread::of(directories, shard, 0)?.own, shard);
    let (Identity { acceptor, shard: of, streams, .. }, promised) = named(&own).map_err(|why| match why {
        Unusable::Empty => Unusable::Lost("its files acceptor and promise are not here".to_owned()),
        why => why,
    })?;
    if of != shard {
        return Err(Unusable::Lost(format!("it is a copy of shard {}", of.0)));
    }
    let spread = Spread::of(directories, shard, streams)?.streams;
    let of_streams: Vec<PathBuf> =
        (0..).zip(&spread).map(|(at, directory)| stream_in(&folder_of(directory, shard), at)).collect();
    if let Some(gone) = of_streams.iter().position(|stream| !stream.is_dir()) {
        return Err(Unusable::Lost(format!("stream-{gone} is gone")));
    }
    // It fails where it cannot read: damage is in the report.
    let log = redolog::check(&of_streams).map_err(|why| io::Error::other(why.to_string()))?;
    let streams = of_streams.iter().map(|stream| redolog::Folder::to_read(stream)).collect();
    let place = Place { own: redolog::Folder::to_read(&own), streams, locks: Vec::new() };
    let opened = Folder::open(place, shard, Limits::default()).and_then(|folder| folder.found());
    let lost = opened.err().map(|why| why.to_string());
    Ok(Checked { acceptor, promised, log, lost })
}

/// The acceptor of a folder, and its promise.
///
/// # Errors
/// There is none, or one of the files cannot be read.
pub(crate) fn named(folder: &Path) -> Result<(Identity, Term), Unusable> {
    let disk = redolog::Folder::to_read(folder);
    let identity = Identity::read(&disk)?.ok_or(Unusable::Empty)?;
    let promise = Promise::open(disk, identity.acceptor, identity.shard)?;
    Ok((identity, promise.term()))
}

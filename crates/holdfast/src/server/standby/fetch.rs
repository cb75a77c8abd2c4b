//! A node without data gets a checkpoint of the shard that it stands by for, from the shard's owner.
//!
//! ```text
//! dial the owner -> receive beside the store -> verify -> the note goes -> the store goes -> rename -> the note is written
//! ```
//! A start that finds the note finds a whole store. One that does not begins anew.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shipping::{Ask, Progress};
use socket2::Socket;

use super::note::Note;

/// The longest time for which the owner may send nothing: it makes a checkpoint first.
const PATIENCE: Duration = Duration::from_secs(600);

/// A fetch of a shard's data.
pub struct Fetch<'a> {
    /// The node's directory.
    pub dir: &'a Path,
    /// The node's store.
    pub store: &'a Path,
    /// The identity of the node's data, which the copy gets in place of the owner's.
    pub id: [u8; 16],
    /// The note that is written when all is there.
    pub note: &'a Note,
    /// The bytes that have come.
    pub progress: &'a Progress,
}

impl Fetch<'_> {
    /// Fetches the store on a connection to the owner. A node's data of before are gone when this succeeds.
    ///
    /// # Errors
    /// The owner refuses, the connection ends, what came is damaged, or the disk has no room, or has failed. In words. The
    /// data of before are there, or the node has none.
    pub fn run(&self, socket: OwnedFd) -> Result<(), String> {
        let coming = beside(self.store, "coming");
        self.receive(Socket::from(socket), &coming).map_err(|why| why.to_string())?;
        let report = store::check(&coming).map_err(|why| why.to_string())?;
        if !report.is_whole() {
            let what = report.findings.iter().find(|finding| finding.damage).map(|finding| finding.what.clone());
            return Err(format!("what has come is damaged: {}", what.unwrap_or_default()));
        }
        self.take(&coming).map_err(|why| why.to_string())
    }

    fn receive(&self, socket: Socket, coming: &Path) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        remove(coming)?;
        let (mut from, mut to) = (socket.try_clone()?, socket);
        shipping::ask(&mut to, Ask { shard: self.note.shard.0 })?;
        shipping::receive(coming, (&mut from, &mut to), self.progress)
    }

    /// Has the folder be the node's store.
    fn take(&self, coming: &Path) -> io::Result<()> {
        store::adopt(coming, self.id).map_err(|why| io::Error::other(why.to_string()))?;
        Note::remove(self.dir)?;
        let former = put_aside(self.store)?;
        fs::rename(coming, self.store)?;
        if let Some(parent) = self.store.parent() {
            fs::File::open(parent)?.sync_all()?;
        }
        self.note.write(self.dir)?;
        remove(&former)
    }
}

/// Puts a store aside, in place of one that was put aside before. Returns where it is, if there was one.
///
/// # Errors
/// It cannot be moved.
fn put_aside(store: &Path) -> io::Result<PathBuf> {
    let former = beside(store, "former");
    remove(&former)?;
    if store.exists() {
        fs::rename(store, &former)?;
    }
    Ok(former)
}

/// A folder beside the store.
fn beside(store: &Path, what: &str) -> PathBuf {
    let name = store.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    store.with_file_name(format!("{name}-{what}"))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

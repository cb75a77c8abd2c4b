//! What a node keeps of its cluster: one small file, replaced as a whole. So nothing in it can be torn: any damage stops the start.
//!
//! It holds the identity and Raft's vote, log and snapshot together, as a node that has lost one of them must not go on with the others
//! (it might vote twice). All of it is a few kilobytes that change when nodes come and go, beside libraries of functions,
//! which have a bound.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::replaced;
use super::types::{Entry, LogId, Snapshot, Vote, Wire, snapshot_without_client_ports};
use crate::codec::{Malformed, Reader, crc, put_count};
use crate::handshake::Party;
use crate::{ClusterId, NodeId};

/// Name of the file.
pub const FILE: &str = "state";

const MAGIC: &[u8; 8] = b"HOLDMETA";

/// The format that this code writes. It reads versions 1 to 3 as well: version 1 does not say whose the data are, versions
/// 1 and 2 do not name them, and in all three the members of a snapshot have no port for smart clients.
const VERSION: u32 = 4;

/// Most entries of a log: it is cut long before.
const ENTRIES_MAX: usize = 1 << 20;

/// Why a node cannot know who it is.
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

/// What a log and a store are called that belong together.
pub type DataId = [u8; 16];

/// What is kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub node: NodeId,
    /// How often the node has started.
    pub incarnation: u64,
    pub cluster: Option<ClusterId>,
    /// What the node's data say of transactions over nodes is of another node's life.
    pub inherited: bool,
    /// The name of the data on the node's disks, when it last had any.
    pub data: Option<DataId>,
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
    pub snapshot: Option<Snapshot>,
    /// By index, without holes.
    pub entries: BTreeMap<u64, Entry>,
}

impl Kept {
    /// As the handshake says it.
    pub fn party(&self) -> Party {
        Party { cluster: self.cluster, node: self.node, incarnation: self.incarnation }
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        self.node.put(&mut out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.push(u8::from(self.cluster.is_some()));
        self.cluster.unwrap_or_default().put(&mut out);
        out.push(u8::from(self.inherited));
        out.push(u8::from(self.data.is_some()));
        out.extend_from_slice(&self.data.unwrap_or_default());
        self.vote.put(&mut out);
        self.committed.put(&mut out);
        self.purged.put(&mut out);
        self.snapshot.put(&mut out);
        put_count(&mut out, self.entries.len());
        self.entries.values().for_each(|entry| entry.put(&mut out));
        let sum = crc(&[&out[12..]]);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// What the bytes of the file say.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        if from.array()? != *MAGIC {
            return Err(Malformed("the file of a node's cluster"));
        }
        let sum = from.u32()?;
        if crc(&[&bytes[12..]]) != sum {
            return Err(Malformed("a checksum that matches"));
        }
        let version = from.u32()?;
        if !(1..=VERSION).contains(&version) {
            return Err(Malformed("version 1 to 4 of this file"));
        }
        let (node, incarnation) = (NodeId::read(&mut from)?, from.u64()?);
        let (belongs, cluster) = (from.flag()?, ClusterId::read(&mut from)?);
        let inherited = version > 1 && from.flag()?;
        let (named, data) = if version > 2 { (from.flag()?, from.array()?) } else { (false, DataId::default()) };
        let mut kept = Self {
            node,
            incarnation,
            cluster: belongs.then_some(cluster),
            inherited,
            data: named.then_some(data),
            vote: Option::read(&mut from)?,
            committed: Option::read(&mut from)?,
            purged: Option::read(&mut from)?,
            snapshot: match version {
                4.. => Option::read(&mut from)?,
                _ if from.flag()? => Some(snapshot_without_client_ports(&mut from)?),
                _ => None,
            },
            entries: BTreeMap::new(),
        };
        for _ in 0..from.count(ENTRIES_MAX)? {
            let entry = Entry::read(&mut from)?;
            if kept.entries.last_key_value().is_some_and(|(last, _)| entry.log_id.index != last + 1) {
                return Err(Malformed("entries without holes"));
            }
            kept.entries.insert(entry.log_id.index, entry);
        }
        from.end()?;
        Ok(kept)
    }
}

fn error(file: &Path, what: String) -> KeptError {
    KeptError { file: file.to_owned(), what }
}

fn system(file: &Path) -> impl Fn(io::Error) -> KeptError {
    move |what| error(file, what.to_string())
}

/// The folder of the file, locked while it is open.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder, and counts this start. A new one gets a new name of the node. `data`: what is on its disks, if anything is; a node of a
    /// cluster does not go on without what it had, as it has told others that it is durable. `knows`: the data say something of transactions over nodes,
    /// which where the node is new is of another's life, and stays so until it says otherwise.
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
        let fresh = || Kept { node: NodeId::random(random), inherited: true, ..Kept::default() };
        let mut kept = Self::read(path, data)?.unwrap_or_else(fresh);
        kept.data = data.or(kept.data);
        kept.incarnation += 1;
        kept.inherited &= knows;
        let folder = Self { path: path.to_owned(), _lock: lock };
        folder.write(&kept.encode()).map_err(system(&path.join(FILE)))?;
        Ok((folder, kept))
    }

    /// What the folder has, which is looked at only; `None`: it is no node's. With what is on the node's disks, as for [`Self::open`], which refuses what
    /// this refuses.
    pub fn read(path: &Path, data: Option<DataId>) -> Result<Option<Kept>, KeptError> {
        let file = path.join(FILE);
        let kept = match fs::read(&file) {
            Ok(bytes) => Kept::decode(&bytes).map_err(|Malformed(what)| {
                let why = "Nothing was changed; without this folder the node would be a new one";
                error(&file, format!("damaged: expected {what}. {why}"))
            })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(system(&file)(why)),
        };
        if kept.cluster.is_some() && data.is_some() && kept.data.is_some() && kept.data != data {
            let why = "the data that this node of a cluster had is gone: its log and its store are new, or those of another. Bring them back, or, if they are lost, \
                       remove this folder: then it joins as a new node, and `holdfast cluster forget --lose-data` takes out the old one";
            return Err(error(path, why.to_owned()));
        }
        Ok(Some(kept))
    }

    /// Replaces the file; durable when it returns.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        replaced::write(&self.path, FILE, bytes)
    }
}

#[cfg(test)]
#[path = "kept_test.rs"]
mod tests;

//! A node's state of its cluster: one small file, replaced as a whole. So nothing in it can be torn: any damage stops
//! the start.
//!
//! It holds the identity and Raft's vote, log and snapshot together. A node that has lost one of them must not go on
//! with the others, because it might vote twice. All of it is a few kilobytes that change when nodes come and go, and
//! when a setting of the cluster changes. Libraries of functions are apart: see [`super::shelf`].

use std::collections::BTreeMap;

use super::shelf::{self, Find, Shelf};
use super::types::{Entry, LogId, Snapshot, Vote, Wire, earlier_snapshot};
use crate::codec::{Malformed, Reader, crc, put_count};
use crate::handshake::Party;
use crate::{ClusterId, NodeId};

const MAGIC: &[u8; 8] = b"HOLDMETA";

/// The format that this code writes. It reads versions 1 to 4 as well. Version 1 does not say whose the data are,
/// versions 1 and 2 do not name them. In versions 1 to 3 the members of a snapshot have no port for smart clients, and
/// all four hold the libraries of functions.
const VERSION: u32 = 5;

/// Most entries of a log: it is cut long before.
const ENTRIES_MAX: usize = 1 << 20;

/// The common name of a log and a store that belong together.
pub type DataId = [u8; 16];

/// The state.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub node: NodeId,
    /// How often the node has started.
    pub incarnation: u64,
    pub cluster: Option<ClusterId>,
    /// The node's data hold transactions over nodes of another node's life.
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
        out.push(u8::from(self.snapshot.is_some()));
        if let Some(snapshot) = &self.snapshot {
            shelf::put_snapshot(&mut out, snapshot);
        }
        put_count(&mut out, self.entries.len());
        self.entries.values().for_each(|entry| shelf::put_entry(&mut out, entry));
        let sum = crc(&[&out[12..]]);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The libraries that the file names.
    pub fn shelf(&self) -> Shelf {
        let of_snapshot = self.snapshot.iter().map(|snapshot| (snapshot.snapshot.change, &snapshot.snapshot.libraries));
        let all = of_snapshot.chain(self.entries.values().filter_map(shelf::of_entry));
        all.filter(|(_, libraries)| !libraries.is_empty())
            .map(|(change, libraries)| (change, libraries.clone()))
            .collect()
    }

    /// The state in the bytes of the file. `find` finds the libraries that it names.
    pub fn decode(bytes: &[u8], find: Find<'_>) -> Result<Self, Malformed> {
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
            return Err(Malformed("version 1 to 5 of this file"));
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
            snapshot: match (from.flag()?, version) {
                (false, _) => None,
                (true, 5..) => Some(shelf::read_snapshot(&mut from, find)?),
                (true, _) => Some(earlier_snapshot(&mut from, version == 4)?),
            },
            entries: BTreeMap::new(),
        };
        for _ in 0..from.count(ENTRIES_MAX)? {
            let entry = shelf::read_entry(&mut from, find)?;
            if kept.entries.last_key_value().is_some_and(|(last, _)| entry.log_id.index != last + 1) {
                return Err(Malformed("entries without holes"));
            }
            kept.entries.insert(entry.log_id.index, entry);
        }
        from.end()?;
        Ok(kept)
    }
}

#[cfg(test)]
#[path = "kept_test.rs"]
mod tests;

//! What a process with a copy of a shard's data says of itself with each renewal, at [`level::STANDBYS`] and above.

use quorum::Cut;
use standby::{Health, NodeNumber, Process};

use super::agent::Agent;
use super::types::Wire;
use crate::codec::{Malformed, Reader, put_count};
use crate::map::Map;
use crate::meta::{NODES_MAX, Shard};
use crate::{BootNs, NodeId, Term, level};

/// How far a standby is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Following {
    /// The end of what its acceptor has: of all streams the lowest.
    pub log: Cut,
    /// Its store has everything up to here durably: the owner's log keeps what is above that (rule G12).
    pub covered: Cut,
    /// Bytes of the log that it has not applied.
    pub behind_bytes: u64,
    /// By how many milliseconds what it has applied is older than what is committed.
    pub behind_ms: u64,
    /// All bytes of records that its process has applied.
    pub applied_bytes: u64,
    /// `replica-priority`: the lowest goes first, and 0 never takes over.
    pub priority: u32,
}

impl Wire for Following {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { log, covered, behind_bytes, behind_ms, applied_bytes, priority } = self;
        for number in [log.0, covered.0, *behind_bytes, *behind_ms, *applied_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&priority.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            log: Cut(from.u64()?),
            covered: Cut(from.u64()?),
            behind_bytes: from.u64()?,
            behind_ms: from.u64()?,
            applied_bytes: from.u64()?,
            priority: from.u32()?,
        })
    }
}

/// A standby of this node's shard, as the leader of the metadata has told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeardStandby {
    /// Its process.
    pub process: Process,
    /// How far that is.
    pub following: Following,
    /// When it said so, or somewhat earlier, by this node's clock.
    pub at: BootNs,
}

/// A lease of the owner of a shard that has standbys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardLease {
    /// The term of the shard that the lease is for.
    pub term: Term,
    /// The pinned standbys that have renewed within a lease's time, and how many milliseconds ago each has.
    pub standbys: Vec<(Process, u64, Following)>,
}

impl Wire for ShardLease {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.term.get().to_le_bytes());
        put_count(out, self.standbys.len());
        for (Process { node, life }, ago_ms, following) in &self.standbys {
            out.extend_from_slice(&node.0.to_le_bytes());
            out.extend_from_slice(&life.to_le_bytes());
            out.extend_from_slice(&ago_ms.to_le_bytes());
            following.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let term = Term::new(from.u32()?).ok_or(Malformed("a term"))?;
        let count = from.count(NODES_MAX)?;
        let one = |from: &mut Reader<'_>| {
            let process = Process { node: NodeNumber(from.u32()?), life: from.u64()? };
            Ok((process, from.u64()?, Following::read(from)?))
        };
        Ok(Self { term, standbys: (0..count).map(|_| one(from)).collect::<Result<_, _>>()? })
    }
}

/// How well a process is, and how far. The default: it knows of nothing that is wrong, and follows nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// How well it is.
    pub health: Health,
    /// How far it is, if it follows.
    pub following: Option<Following>,
}

/// A standby's own writes reach a majority of the acceptors.
const REACHES: u8 = 1;
/// Its disk has failed.
const FAILED: u8 = 2;
/// It follows.
const FOLLOWS: u8 = 4;

impl Wire for Standing {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { health: Health { stuck_ms, stalled_ms, reaches_majority, disk_failed }, following } = self;
        out.extend_from_slice(&stuck_ms.to_le_bytes());
        out.extend_from_slice(&stalled_ms.to_le_bytes());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.push(flag(*reaches_majority, REACHES) | flag(*disk_failed, FAILED) | flag(following.is_some(), FOLLOWS));
        if let Some(following) = following {
            following.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (stuck_ms, stalled_ms, flags) = (from.u64()?, from.u64()?, from.u8()?);
        if flags & !(REACHES | FAILED | FOLLOWS) != 0 {
            return Err(Malformed("the flags of a copy"));
        }
        let (reaches_majority, disk_failed) = (flags & REACHES != 0, flags & FAILED != 0);
        let health = Health { stuck_ms, stalled_ms, reaches_majority, disk_failed };
        let following = match flags & FOLLOWS {
            0 => None,
            _ => Some(Following::read(from)?),
        };
        Ok(Self { health, following })
    }
}

/// True if a node has a copy of the data of a shard that has standbys: as its owner, or as one of them.
fn has_copy(map: &Map, id: NodeId) -> bool {
    let Some(number) = map.index_of(id).map(|index| map.node(index).number) else { return false };
    let is_wanted = |shard: &Shard| shard.standbys.get(&NodeNumber(number)).is_some_and(|standby| standby.is_wanted);
    map.shards().iter().any(|shard| shard.has_standbys() && (shard.owner == id || is_wanted(shard)))
}

impl Agent {
    /// The standing of this process, if a leader needs it.
    pub fn standing(&self) -> Option<Standing> {
        let map = self.machine.map();
        (map.level() >= level::STANDBYS && has_copy(&map, self.me())).then(|| (self.standing)())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let health = Health { stuck_ms: 0x102, stalled_ms: 3, reaches_majority: true, disk_failed: false };
        let following = Following {
            log: Cut(0x405),
            covered: Cut(8),
            behind_bytes: 6,
            behind_ms: 7,
            applied_bytes: 9,
            priority: 100,
        };
        let (alone, follows) = (Standing { health, following: None }, Standing { health, following: Some(following) });
        let bytes = [&b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"[..], b"\x01"].concat();
        assert_eq!(alone.to_bytes(), bytes);
        let bytes = [
            &b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x05"[..],
            b"\x05\x04\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
            b"\x09\0\0\0\0\0\0\0\x64\0\0\0",
        ]
        .concat();
        assert_eq!(follows.to_bytes(), bytes);
        for standing in [alone, follows, Standing::default()] {
            assert_eq!(Standing::whole(&standing.to_bytes()), Ok(standing));
        }
        let process = Process { node: NodeNumber(3), life: 4 };
        let lease = ShardLease { term: Term::new(2).unwrap(), standbys: vec![(process, 5, following)] };
        let heard = b"\x02\0\0\0\x01\0\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        assert_eq!(lease.to_bytes(), [&heard[..], &bytes[17..]].concat());
        assert_eq!(ShardLease::whole(&lease.to_bytes()), Ok(lease));
        let mut unknown = bytes;
        unknown[16] = 8;
        assert!(Standing::whole(&unknown).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..60)) {
            if let Ok(standing) = Standing::whole(&bytes) {
                prop_assert_eq!(standing.to_bytes(), &bytes[..]);
            }
            if let Ok(lease) = ShardLease::whole(&bytes) {
                prop_assert_eq!(lease.to_bytes(), bytes);
            }
        }
    }
}

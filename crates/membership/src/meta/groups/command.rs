//! Changes of groups, the reasons why one is refused, and both as bytes.

use std::fmt;

use quorum::{AcceptorId, ShardId, Term};

use super::super::shards::{ACCEPTORS_MAX, term};
use super::{DIR_MAX, GROUP_NAME_MAX, Group, PLACES_MAX, Place, places, put_places};
use crate::Map;
use crate::NodeId;
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::meta::{CopiesRefusal, NODES_MAX, Refusal};

/// A change of groups and of what lies in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupCommand {
    /// There is a group.
    Add(Group),
    /// Shards use a group.
    Use {
        /// The group. Empty: none of their own, so that they use the default group if there is one.
        name: String,
        /// The shards. Empty: all.
        shards: Vec<ShardId>,
    },
    /// Another place takes the place of one. Both may be the same: then what is there now is given up for a new folder.
    Replace {
        /// The group.
        name: String,
        /// The present place.
        old: Place,
        /// The new one.
        new: Place,
    },
    /// A process has made a folder.
    Report(Report),
    /// The owner of a shard has brought the pending acceptors up.
    Settle(Settle),
    /// A node takes over a shard whose owner is lost.
    Recover(Recover),
}

/// A process has made a folder for a copy of a shard's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The shard.
    pub shard: ShardId,
    /// Where the folder is.
    pub place: Place,
    /// The life of the process: how often its member has started.
    pub incarnation: u64,
    /// The folder's name.
    pub id: AcceptorId,
    /// The number of streams in it.
    pub streams: u16,
}

/// The owner of a shard has brought the pending acceptors up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settle {
    /// The shard.
    pub shard: ShardId,
    /// The owner.
    pub id: NodeId,
    /// Its life: how often it has started.
    pub incarnation: u64,
    /// The term in which it sealed the settled and the pending acceptors.
    pub term: Term,
    /// The pending acceptors, in their order.
    pub acceptors: Vec<AcceptorId>,
}

/// A node takes over a shard whose owner is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recover {
    /// The shard.
    pub shard: ShardId,
    /// The node, which owns no slots.
    pub to: NodeId,
}

/// The reason why a change of groups is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupRefusal {
    /// No group may have this name.
    BadName,
    /// A group has as many places.
    BadPlaces,
    /// A place is no absolute path.
    BadDir(String),
    /// There is such a group, with other places.
    Exists(String),
    /// There is no such group.
    NoGroup(String),
    /// There is no such shard.
    NoShard(ShardId),
    /// The group, or the shard, has no such place.
    NoPlace(Place),
    /// The group has the place.
    Twice(Place),
    /// The member is lost.
    Lost(NodeId),
    /// The member has a place in this group.
    InGroup(NodeId, String),
    /// The place belongs to another folder than the reported one.
    OtherFolder(Place),
    /// The folder belongs to another place.
    SameFolder(Place),
    /// The log of the shard has another number of streams.
    OtherStreams(ShardId, u16),
    /// The pending acceptors of the shard are others.
    OtherAcceptors(ShardId),
    /// The node owns the shard.
    Owns(NodeId, ShardId),
    /// The owner of the shard has its only copy.
    OneCopy(ShardId),
    /// Another node has taken over the node's shard.
    HasLost(NodeId),
    /// The node has a copy of the log of the shard.
    HasCopy(NodeId, ShardId),
    /// A copy at the member still counts for the log of the shard.
    Counts(NodeId, ShardId),
}

impl From<GroupRefusal> for Refusal {
    fn from(why: GroupRefusal) -> Self {
        Self::Group(why)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.dir.starts_with('/') { "" } else { "/" };
        write!(f, "{}{slash}{}", self.member, self.dir)
    }
}

impl fmt::Display for GroupRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName => {
                write!(f, "the name of a group is 1 to {GROUP_NAME_MAX} letters, digits, dashes, dots and underscores")
            }
            Self::BadPlaces => write!(f, "a group has 1 to {PLACES_MAX} places"),
            Self::BadDir(dir) => write!(f, "{dir:?} is neither an absolute path nor `-`"),
            Self::Exists(name) => write!(f, "there is a group {name} with other places"),
            Self::NoGroup(name) => write!(f, "there is no group {name}"),
            Self::NoShard(shard) => write!(f, "there is no shard {}", shard.0),
            Self::NoPlace(place) => write!(f, "no copy belongs at {place}"),
            Self::Twice(place) => write!(f, "the group would have the place {place} twice"),
            Self::Lost(id) => write!(f, "member {id} is lost"),
            Self::InGroup(id, name) => write!(
                f,
                "member {id} has a place in the group {name}: `holdfast cluster group replace` gives it to another one first"
            ),
            Self::OtherFolder(place) => write!(
                f,
                "another folder was at {place}, and what it had is not in this one: `holdfast cluster group replace` puts this one in its place"
            ),
            Self::SameFolder(place) => write!(f, "the folder at {place} is a copy of another place's"),
            Self::OtherStreams(shard, 0) => {
                write!(f, "the owner of shard {} has not said how many streams its log has", shard.0)
            }
            Self::OtherStreams(shard, streams) => write!(f, "the log of shard {} has {streams} streams", shard.0),
            Self::OtherAcceptors(shard) => write!(f, "other acceptors of shard {} are pending", shard.0),
            Self::Owns(id, shard) => write!(f, "node {id} owns shard {}", shard.0),
            Self::OneCopy(shard) => {
                write!(f, "the log of shard {} has no copies on other machines: nothing can be recovered", shard.0)
            }
            Self::HasLost(id) => write!(
                f,
                "another node has taken over the shard of node {id}: started with an empty folder it is a new node, which can take one over"
            ),
            Self::HasCopy(id, shard) => write!(
                f,
                "node {id} has a copy of the log of shard {}, from which it is read: recover it on a node without one, such as a new node with an empty dir",
                shard.0
            ),
            Self::Counts(id, shard) => write!(
                f,
                "a copy at member {id} counts for the log of shard {} until another one takes its place: `holdfast cluster group show` shows when",
                shard.0
            ),
        }
    }
}

impl Refusal {
    /// The reason as operators read it: where groups, places and copies are refused, members are named by their addresses
    /// for clients.
    pub fn in_words(&self, map: &Map) -> String {
        let text = self.to_string();
        match self {
            Self::Group(_) => map.members().fold(text, |text, member| {
                text.replace(&member.id.to_string(), &format!("{}:{}", member.host, member.port))
            }),
            Self::Copies { why: CopiesRefusal::HasStandby(number), .. } => {
                let standby = map.nodes().iter().find(|node| node.number == *number);
                standby.map_or(text.clone(), |node| {
                    text.replace(&format!("node {number} "), &format!("{}:{} ", node.host, node.port))
                })
            }
            _ => text,
        }
    }
}

impl fmt::Display for GroupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(group) => write!(f, "a group {} of {} places", group.name, group.places.len()),
            Self::Use { name, shards } => write!(f, "{} shards use the group {name:?}", shards.len()),
            Self::Replace { name, old, new } => write!(f, "in the group {name} {new} replaces {old}"),
            Self::Report(Report { shard, place, .. }) => write!(f, "a folder at {place} for shard {}", shard.0),
            Self::Settle(settle) => write!(f, "shard {} has {} acceptors", settle.shard.0, settle.acceptors.len()),
            Self::Recover(Recover { shard, to }) => write!(f, "node {to} takes over shard {}", shard.0),
        }
    }
}

fn put_shard(out: &mut Vec<u8>, shard: ShardId) {
    out.extend_from_slice(&shard.0.to_le_bytes());
}

fn shard(from: &mut Reader<'_>) -> Result<ShardId, Malformed> {
    from.u32().map(ShardId)
}

fn name(from: &mut Reader<'_>) -> Result<String, Malformed> {
    from.text(GROUP_NAME_MAX).map(str::to_owned)
}

impl GroupCommand {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(Group { name, places }) => {
                out.push(1);
                put_bytes(out, name.as_bytes());
                put_places(out, places);
            }
            Self::Use { name, shards } => {
                out.push(2);
                put_bytes(out, name.as_bytes());
                put_count(out, shards.len());
                shards.iter().for_each(|shard| put_shard(out, *shard));
            }
            Self::Replace { name, old, new } => {
                out.push(3);
                put_bytes(out, name.as_bytes());
                old.put(out);
                new.put(out);
            }
            Self::Report(Report { shard, place, incarnation, id, streams }) => {
                out.push(4);
                put_shard(out, *shard);
                place.put(out);
                out.extend_from_slice(&incarnation.to_le_bytes());
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&streams.to_le_bytes());
            }
            Self::Settle(Settle { shard, id, incarnation, term, acceptors }) => {
                out.push(5);
                put_shard(out, *shard);
                id.put(out);
                out.extend_from_slice(&incarnation.to_le_bytes());
                out.extend_from_slice(&term.get().to_le_bytes());
                put_count(out, acceptors.len());
                acceptors.iter().for_each(|acceptor| out.extend_from_slice(&acceptor.0));
            }
            Self::Recover(Recover { shard, to }) => {
                out.push(6);
                put_shard(out, *shard);
                to.put(out);
            }
        }
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            1 => Self::Add(Group { name: name(from)?, places: places(from)? }),
            2 => {
                let (name, count) = (name(from)?, from.count(NODES_MAX)?);
                Self::Use { name, shards: (0..count).map(|_| shard(from)).collect::<Result<_, _>>()? }
            }
            3 => Self::Replace { name: name(from)?, old: Place::read(from)?, new: Place::read(from)? },
            4 => Self::Report(Report {
                shard: shard(from)?,
                place: Place::read(from)?,
                incarnation: from.u64()?,
                id: AcceptorId(from.array()?),
                streams: from.u16()?,
            }),
            5 => {
                let (shard, id, incarnation, term) = (shard(from)?, NodeId::read(from)?, from.u64()?, term(from)?);
                let count = from.count(ACCEPTORS_MAX)?;
                let acceptors = (0..count).map(|_| from.array().map(AcceptorId)).collect::<Result<_, _>>()?;
                Self::Settle(Settle { shard, id, incarnation, term, acceptors })
            }
            6 => Self::Recover(Recover { shard: shard(from)?, to: NodeId::read(from)? }),
            _ => return Err(Malformed("a change of groups")),
        })
    }
}

impl GroupRefusal {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::BadName => out.push(1),
            Self::BadPlaces => out.push(2),
            Self::BadDir(dir) => {
                out.push(3);
                put_bytes(out, &dir.as_bytes()[..dir.floor_char_boundary(DIR_MAX)]);
            }
            Self::Exists(name) => {
                out.push(4);
                put_bytes(out, name.as_bytes());
            }
            Self::NoGroup(name) => {
                out.push(5);
                put_bytes(out, name.as_bytes());
            }
            Self::NoShard(shard) => {
                out.push(6);
                put_shard(out, *shard);
            }
            Self::NoPlace(place) => {
                out.push(7);
                place.put(out);
            }
            Self::Twice(place) => {
                out.push(8);
                place.put(out);
            }
            Self::Lost(id) => {
                out.push(9);
                id.put(out);
            }
            Self::InGroup(id, name) => {
                out.push(10);
                id.put(out);
                put_bytes(out, name.as_bytes());
            }
            Self::OtherFolder(place) => {
                out.push(11);
                place.put(out);
            }
            Self::SameFolder(place) => {
                out.push(12);
                place.put(out);
            }
            Self::OtherAcceptors(shard) => {
                out.push(13);
                put_shard(out, *shard);
            }
            Self::Owns(id, shard) => {
                out.push(14);
                id.put(out);
                put_shard(out, *shard);
            }
            Self::OneCopy(shard) => {
                out.push(15);
                put_shard(out, *shard);
            }
            Self::OtherStreams(shard, streams) => {
                out.push(16);
                put_shard(out, *shard);
                out.extend_from_slice(&streams.to_le_bytes());
            }
            Self::HasLost(id) => {
                out.push(17);
                id.put(out);
            }
            Self::HasCopy(id, shard) => {
                out.push(18);
                id.put(out);
                put_shard(out, *shard);
            }
            Self::Counts(id, shard) => {
                out.push(19);
                id.put(out);
                put_shard(out, *shard);
            }
        }
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            1 => Self::BadName,
            2 => Self::BadPlaces,
            3 => Self::BadDir(from.text(DIR_MAX)?.to_owned()),
            4 => Self::Exists(name(from)?),
            5 => Self::NoGroup(name(from)?),
            6 => Self::NoShard(shard(from)?),
            7 => Self::NoPlace(Place::read(from)?),
            8 => Self::Twice(Place::read(from)?),
            9 => Self::Lost(NodeId::read(from)?),
            10 => Self::InGroup(NodeId::read(from)?, name(from)?),
            11 => Self::OtherFolder(Place::read(from)?),
            12 => Self::SameFolder(Place::read(from)?),
            13 => Self::OtherAcceptors(shard(from)?),
            14 => Self::Owns(NodeId::read(from)?, shard(from)?),
            15 => Self::OneCopy(shard(from)?),
            16 => Self::OtherStreams(shard(from)?, from.u16()?),
            17 => Self::HasLost(NodeId::read(from)?),
            18 => Self::HasCopy(NodeId::read(from)?, shard(from)?),
            19 => Self::Counts(NodeId::read(from)?, shard(from)?),
            _ => return Err(Malformed("the refusal of a change of groups")),
        })
    }
}

//! Responses to commands, the reasons why one is refused, and both as bytes.

use std::fmt;

use super::command::{VERSION, WITH_LEVELS, WITH_SETTINGS, WITH_SHARDS, WITHOUT_LEVELS};
use super::configuration::{CONFIGURATION_MAX, CONFIGURED_MAX};
use super::groups::GroupRefusal;
use super::standbys::CopiesRefusal;
use super::{LIBRARIES_MAX, TEXT_MAX, shards};
use crate::codec::{Malformed, Reader, put_bytes};
use crate::{NodeId, ShardId, Term};

/// The reason why a command changed nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is a cluster.
    AlreadyFormed,
    /// There is no cluster.
    NotFormed,
    /// The cluster has no such node.
    Unknown(NodeId),
    /// A later life of the node is known.
    EarlierLife {
        /// The node.
        id: NodeId,
        /// Its incarnation, as known.
        known: u64,
    },
    /// The node's slots must go first.
    OwnsSlots {
        /// The node.
        id: NodeId,
        /// How many.
        slots: u32,
    },
    /// No node would be left.
    LastNode,
    /// Two nodes claim one place, or have one name.
    SameAddress,
    /// Too many nodes or settings.
    TooMany,
    /// A setting of the node is not that of the cluster.
    Disagrees {
        /// The setting.
        name: String,
        /// The cluster's.
        ours: String,
        /// The node's.
        theirs: String,
    },
    /// A node does not speak the level of all members.
    LowLevel {
        /// The node.
        id: NodeId,
        /// The highest level of its build, as far as known.
        has: u16,
        /// The cluster's level, or the intended one.
        needs: u16,
    },
    /// The cluster's level has no room for the command.
    EarlierLevel {
        /// The cluster's level.
        has: u16,
        /// The level that the command needs.
        needs: u16,
    },
    /// The node owns no such shard.
    NotOwner {
        /// The node.
        id: NodeId,
        /// The shard.
        shard: ShardId,
    },
    /// The shard has another term than the process knows.
    OtherTerm {
        /// The shard.
        shard: ShardId,
        /// Its term.
        term: Term,
    },
    /// The shard's log has copies: it cannot be switched off.
    HasCopies(ShardId),
    /// The change of groups cannot be.
    Group(GroupRefusal),
    /// It does not fit the copies of a shard's data.
    Copies {
        /// The shard.
        shard: ShardId,
        /// The reason.
        why: CopiesRefusal,
    },
    /// The libraries have changed since.
    Superseded {
        /// Their version.
        version: u64,
    },
    /// The cluster has no settings yet.
    Unconfigured,
    /// The settings are more, or have more bytes, than a cluster keeps.
    ConfigurationTooLarge {
        /// How many bytes.
        bytes: u64,
    },
    /// The libraries have more bytes than a cluster keeps.
    LibrariesTooLarge {
        /// How many.
        bytes: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyFormed => write!(f, "the cluster has been formed"),
            Self::NotFormed => write!(f, "the cluster has not been formed"),
            Self::Unknown(id) => write!(f, "the cluster has no node {id}"),
            Self::EarlierLife { id, known } => {
                write!(
                    f,
                    "node {id} is known to have started {known} times: its folder is an old copy, or it runs twice"
                )
            }
            Self::OwnsSlots { id, slots } => write!(f, "node {id} owns {slots} slots"),
            Self::LastNode => write!(f, "no other node could own the slots"),
            Self::SameAddress => write!(f, "two nodes have the same address or name"),
            Self::TooMany => write!(f, "more than a cluster may have"),
            Self::Disagrees { name, ours, theirs } => {
                write!(f, "{name} is {theirs} at this node and {ours} in the cluster")
            }
            Self::LowLevel { id, has, needs } => {
                write!(f, "the build of node {id} speaks up to level {has}, and level {needs} is needed")
            }
            Self::EarlierLevel { has, needs } => write!(
                f,
                "the cluster is at level {has}, and this needs level {needs}: when all nodes run this build, `holdfast cluster finalize` raises it"
            ),
            Self::Group(why) => write!(f, "{why}"),
            Self::NotOwner { id, shard } => write!(f, "node {id} does not own shard {}", shard.0),
            Self::HasCopies(shard) => write!(
                f,
                "the log of shard {} has copies: take its group away with `holdfast cluster group use - {}`, or have it use a group of one place if there is a group `default`, and restart the node",
                shard.0, shard.0
            ),
            Self::OtherTerm { shard, term } => write!(f, "the term of shard {} is {}", shard.0, term.get()),
            Self::Copies { shard, why } => write!(f, "shard {}: {why}", shard.0),
            Self::Superseded { version } => write!(f, "the libraries have been changed: they are of version {version}"),
            Self::Unconfigured => write!(f, "the cluster has no settings yet"),
            Self::ConfigurationTooLarge { bytes } => write!(
                f,
                "the cluster's settings would have {bytes} bytes, and may have {CONFIGURATION_MAX} in at most {CONFIGURED_MAX} settings"
            ),
            Self::LibrariesTooLarge { bytes } => {
                write!(f, "the libraries have {bytes} bytes, and those of a cluster may have {LIBRARIES_MAX} together")
            }
        }
    }
}

/// The response to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// It is so.
    Done {
        /// The version of the map then.
        version: u64,
        /// The highest epoch then.
        epoch: u64,
    },
    /// Nothing was changed.
    Refused(Refusal),
}

impl Response {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Refused(Refusal::LowLevel { .. }) => WITH_LEVELS,
            Self::Refused(
                Refusal::EarlierLevel { .. } | Refusal::Group(_) | Refusal::NotOwner { .. } | Refusal::OtherTerm { .. },
            ) => WITH_SHARDS,
            Self::Refused(Refusal::HasCopies(_)) => WITH_SETTINGS,
            Self::Refused(Refusal::Copies { .. }) => VERSION,
            _ => WITHOUT_LEVELS,
        });
        let why = match self {
            Self::Done { version, epoch } => {
                out.push(0);
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&epoch.to_le_bytes());
                return;
            }
            Self::Refused(why) => why,
        };
        match why {
            Refusal::AlreadyFormed => out.push(1),
            Refusal::NotFormed => out.push(2),
            Refusal::Unknown(id) => {
                out.push(3);
                id.put(out);
            }
            Refusal::EarlierLife { id, known } => {
                out.push(4);
                id.put(out);
                out.extend_from_slice(&known.to_le_bytes());
            }
            Refusal::OwnsSlots { id, slots } => {
                out.push(5);
                id.put(out);
                out.extend_from_slice(&slots.to_le_bytes());
            }
            Refusal::LastNode => out.push(7),
            Refusal::SameAddress => out.push(8),
            Refusal::TooMany => out.push(10),
            Refusal::Disagrees { name, ours, theirs } => {
                out.push(11);
                [name, ours, theirs].into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
            }
            Refusal::Superseded { version } => {
                out.push(12);
                out.extend_from_slice(&version.to_le_bytes());
            }
            Refusal::LibrariesTooLarge { bytes } => {
                out.push(13);
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Refusal::LowLevel { id, has, needs } => {
                out.push(16);
                id.put(out);
                out.extend_from_slice(&has.to_le_bytes());
                out.extend_from_slice(&needs.to_le_bytes());
            }
            Refusal::NotOwner { id, shard } => {
                out.push(17);
                id.put(out);
                out.extend_from_slice(&shard.0.to_le_bytes());
            }
            Refusal::OtherTerm { shard, term } => {
                out.push(18);
                out.extend_from_slice(&shard.0.to_le_bytes());
                out.extend_from_slice(&term.get().to_le_bytes());
            }
            Refusal::HasCopies(shard) => {
                out.push(21);
                out.extend_from_slice(&shard.0.to_le_bytes());
            }
            Refusal::Group(why) => {
                out.push(20);
                why.put(out);
            }
            Refusal::Copies { shard, why } => {
                out.push(22);
                out.extend_from_slice(&shard.0.to_le_bytes());
                why.put(out);
            }
            Refusal::EarlierLevel { has, needs } => {
                out.push(19);
                out.extend_from_slice(&has.to_le_bytes());
                out.extend_from_slice(&needs.to_le_bytes());
            }
            Refusal::Unconfigured => out.push(14),
            Refusal::ConfigurationTooLarge { bytes } => {
                out.push(15);
                out.extend_from_slice(&bytes.to_le_bytes());
            }
        }
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none, or of a version that this build does not read.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if !(1..=VERSION).contains(&from.u8()?) {
            return Err(Malformed("a response of version 1 to 9"));
        }
        let text = |from: &mut Reader<'_>| from.text(TEXT_MAX).map(str::to_owned);
        let why = match from.u8()? {
            0 => return Ok(Self::Done { version: from.u64()?, epoch: from.u64()? }),
            1 => Refusal::AlreadyFormed,
            2 => Refusal::NotFormed,
            3 => Refusal::Unknown(NodeId::read(from)?),
            4 => Refusal::EarlierLife { id: NodeId::read(from)?, known: from.u64()? },
            5 => Refusal::OwnsSlots { id: NodeId::read(from)?, slots: from.u32()? },
            7 => Refusal::LastNode,
            8 => Refusal::SameAddress,
            10 => Refusal::TooMany,
            11 => Refusal::Disagrees { name: text(from)?, ours: text(from)?, theirs: text(from)? },
            12 => Refusal::Superseded { version: from.u64()? },
            13 => Refusal::LibrariesTooLarge { bytes: from.u64()? },
            14 => Refusal::Unconfigured,
            16 => Refusal::LowLevel { id: NodeId::read(from)?, has: from.u16()?, needs: from.u16()? },
            15 => Refusal::ConfigurationTooLarge { bytes: from.u64()? },
            21 => Refusal::HasCopies(ShardId(from.u32()?)),
            22 => Refusal::Copies { shard: ShardId(from.u32()?), why: CopiesRefusal::read(from)? },
            20 => Refusal::Group(GroupRefusal::read(from)?),
            19 => Refusal::EarlierLevel { has: from.u16()?, needs: from.u16()? },
            17 => Refusal::NotOwner { id: NodeId::read(from)?, shard: ShardId(from.u32()?) },
            18 => Refusal::OtherTerm { shard: ShardId(from.u32()?), term: shards::term(from)? },
            _ => return Err(Malformed("a response")),
        };
        Ok(Self::Refused(why))
    }
}

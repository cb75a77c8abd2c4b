//! Commands to the metadata, and commands as bytes.

use std::sync::Arc;

use super::configuration::{self, Setting};
use super::groups::GroupCommand;
use super::shards::{Lead, SetShard};
use super::standbys::ChangeCopies;
use super::{LIBRARIES_MAX, NODES_MAX, SETTINGS_MAX, TEXT_MAX};
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::{ClusterId, NodeId, level};

/// The newest format of commands and responses. All others are read as well. Version 1 lacks libraries. In versions 1
/// and 2 a node has no port for smart clients. In the first three a cluster has no settings, in the first four no
/// level, in the first five no machines, in the first six no shards, in the first seven no settings of shards. Only the
/// last has standbys.
pub(super) const VERSION: u8 = 9;

/// The format of commands about the settings of a shard.
pub(super) const WITH_SETTINGS: u8 = 8;

/// The format of commands about shards, groups and log-servers.
pub(super) const WITH_SHARDS: u8 = 7;

/// The format of commands that name a machine.
const WITH_MACHINES: u8 = 6;

/// The format of commands that say a level and no machine: nodes of a build before there were machines read it.
pub(super) const WITH_LEVELS: u8 = 5;

/// The format of commands without levels: nodes of a build before there were levels read it.
pub(super) const WITHOUT_LEVELS: u8 = 4;

/// A node's data about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Describe {
    /// Its name.
    pub id: NodeId,
    /// How often it has started.
    pub incarnation: u64,
    /// Where clients and nodes find it: a name or an address, at most [`TEXT_MAX`] bytes.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// The port for nodes.
    pub bus_port: u16,
    /// The port for smart clients; 0: none of its own.
    pub client_port: u16,
}

impl Describe {
    /// True if another node, which is found there, no longer could be.
    pub fn displaces(&self, other: NodeId, host: &str, bus_port: u16) -> bool {
        other != self.id && (host, bus_port) == (&*self.host, self.bus_port)
    }

    /// Its place for clients: nodes are numbered in this order when a cluster is formed.
    pub fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        put_bytes(out, self.host.as_bytes());
        out.extend_from_slice(&self.port.to_le_bytes());
        out.extend_from_slice(&self.bus_port.to_le_bytes());
        out.extend_from_slice(&self.client_port.to_le_bytes());
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none, or of a version that this build does not read.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let node = Self::read_without_client_port(from)?;
        Ok(Self { client_port: from.u16()?, ..node })
    }

    /// The next one in `from`, as it was before nodes had a port for smart clients.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read_without_client_port(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: NodeId::read(from)?,
            incarnation: from.u64()?,
            host: from.text(TEXT_MAX)?.to_owned(),
            port: from.u16()?,
            bus_port: from.u16()?,
            client_port: 0,
        })
    }
}

/// The kind of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// It has keys, and may own slots.
    #[default]
    Data,
    /// A log-server: it holds copies of logs, and may vote.
    Log,
}

/// The changes of the metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// There is a cluster now, of these nodes, each of which gets one range of slots.
    Form {
        /// Its name.
        cluster: ClusterId,
        /// Its nodes.
        nodes: Vec<Describe>,
        /// The settings that nodes must agree on.
        settings: Vec<(String, String)>,
        /// The level that all of them speak; 0 is [`level::FIRST`].
        level: u16,
    },
    /// A node comes. It owns nothing.
    Join {
        /// The node.
        node: Describe,
        /// Its settings: none may contradict the cluster's.
        settings: Vec<(String, String)>,
        /// The highest level of its build; 0: unknown. The leader sets it, once the cluster has a level.
        level: u16,
    },
    /// A log-server comes, at [`level::SHARDS`] alone. It never owns anything.
    JoinLog {
        /// The log-server.
        node: Describe,
        /// Its settings: none may contradict the cluster's.
        settings: Vec<(String, String)>,
        /// As for a node that comes.
        level: u16,
    },
    /// A node has started again, perhaps elsewhere.
    Alive {
        /// The node.
        node: Describe,
        /// Its settings.
        settings: Vec<(String, String)>,
        /// As for a node that comes.
        level: u16,
    },
    /// A node that owns nothing goes.
    Leave {
        /// The node.
        id: NodeId,
    },
    /// A node is lost for ever, with its data: the others get its slots.
    Forget {
        /// The node.
        id: NodeId,
    },
    /// A node says on which machine it runs. It does so at [`level::MACHINES`] alone.
    Locate {
        /// The node.
        id: NodeId,
        /// Its life: how often it has started.
        incarnation: u64,
        /// The name of the machine, at most [`TEXT_MAX`] bytes.
        machine: String,
    },
    /// A process asks for the next term of its node's shard (rule G1), at [`level::SHARDS`] alone.
    Lead(Lead),
    /// The owner of a shard says by which settings the shard is run, at [`level::SHARD_SETTINGS`] alone.
    SetShard(SetShard),
    /// Log groups change, or what lies in them, at [`level::SHARDS`] alone.
    Group(GroupCommand),
    /// The copies of a shard's data change, at [`level::STANDBYS`] alone.
    Copies(ChangeCopies),
    /// The cluster's level rises (rule U1).
    Raise {
        /// The new level; 0: the highest that all members speak, which the leader sets with `heard`.
        level: u16,
        /// The levels of the members, as the leader has heard them.
        heard: Vec<Heard>,
    },
    /// A setting that nodes must agree on.
    Set {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// Settings that are the cluster's. Of two such changes the later one holds.
    Configure {
        /// These are the initial ones: nothing is changed if the cluster has some.
        first: bool,
        /// Names and values.
        settings: Vec<Setting>,
    },
    /// Other libraries of functions, which replace all others.
    Libraries {
        /// The version that they were made from: if there is another by now, nothing is changed.
        known: u64,
        /// The name of this change, so that a caller that does not know its outcome may ask for it again.
        change: ChangeId,
        /// All of them: bytes that the metadata do not interpret.
        payload: Arc<[u8]>,
    },
}

/// The level of a node, as the leader has heard it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The node.
    pub id: NodeId,
    /// Its life: how often it has started.
    pub incarnation: u64,
    /// The highest level that its build speaks.
    pub level: u16,
}

/// The name of a change of the libraries.
pub type ChangeId = [u8; 16];

mod tag {
    pub const FORM: u8 = 1;
    pub const JOIN: u8 = 2;
    pub const ALIVE: u8 = 3;
    pub const LEAVE: u8 = 4;
    pub const FORGET: u8 = 5;
    // 6 is not used: slots do not move yet.
    pub const SET: u8 = 7;
    pub const LIBRARIES: u8 = 8;
    pub const CONFIGURE: u8 = 9;
    pub const RAISE: u8 = 10;
    pub const LOCATE: u8 = 11;
    pub const LEAD: u8 = 12;
    pub const JOIN_LOG: u8 = 13;
    pub const GROUP: u8 = 14;
    pub const SET_SHARD: u8 = 15;
    pub const COPIES: u8 = 16;
}

fn put_settings(out: &mut Vec<u8>, settings: &[(String, String)]) {
    put_count(out, settings.len());
    for (name, value) in settings {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn settings(from: &mut Reader<'_>) -> Result<Vec<(String, String)>, Malformed> {
    let count = from.count(SETTINGS_MAX)?;
    (0..count).map(|_| Ok((from.text(TEXT_MAX)?.to_owned(), from.text(TEXT_MAX)?.to_owned()))).collect()
}

fn heard(from: &mut Reader<'_>) -> Result<Vec<Heard>, Malformed> {
    let count = from.count(NODES_MAX)?;
    let one =
        |from: &mut Reader<'_>| Ok(Heard { id: NodeId::read(from)?, incarnation: from.u64()?, level: from.u16()? });
    (0..count).map(|_| one(from)).collect()
}

impl Command {
    /// True if it must be asked for only once: after an unknown outcome, a second time would not be the same.
    pub fn is_asked_once(&self) -> bool {
        matches!(self, Self::Libraries { .. } | Self::Configure { .. })
    }

    /// The level that the cluster must have before the command may be in the metadata's log. Commands that say a level
    /// themselves are written as the cluster's level has them.
    pub fn needs(&self) -> u16 {
        match self {
            Self::Copies(_) => level::STANDBYS,
            Self::SetShard(_) => level::SHARD_SETTINGS,
            Self::Lead(_) | Self::JoinLog { .. } | Self::Group(_) => level::SHARDS,
            Self::Locate { .. } => level::MACHINES,
            _ => level::FIRST,
        }
    }

    /// The format that it is written in: the oldest that holds all of it (rule U1).
    fn version(&self) -> u8 {
        match self {
            Self::Form { level, .. } | Self::Join { level, .. } | Self::Alive { level, .. }
                if *level > level::FIRST =>
            {
                WITH_LEVELS
            }
            Self::Raise { .. } => WITH_LEVELS,
            Self::Locate { .. } => WITH_MACHINES,
            Self::Lead(_) | Self::JoinLog { .. } | Self::Group(_) => WITH_SHARDS,
            Self::SetShard(_) => WITH_SETTINGS,
            Self::Copies(_) => VERSION,
            _ => WITHOUT_LEVELS,
        }
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let version = self.version();
        let put_level = |out: &mut Vec<u8>, level: u16| {
            if version >= WITH_LEVELS {
                out.extend_from_slice(&level.to_le_bytes());
            }
        };
        out.push(version);
        match self {
            Self::Form { cluster, nodes, settings, level } => {
                out.push(tag::FORM);
                cluster.put(out);
                put_count(out, nodes.len());
                nodes.iter().for_each(|node| node.put(out));
                put_settings(out, settings);
                put_level(out, *level);
            }
            Self::Join { node, settings, level } => {
                out.push(tag::JOIN);
                node.put(out);
                put_settings(out, settings);
                put_level(out, *level);
            }
            Self::JoinLog { node, settings, level } => {
                out.push(tag::JOIN_LOG);
                node.put(out);
                put_settings(out, settings);
                put_level(out, *level);
            }
            Self::Alive { node, settings, level } => {
                out.push(tag::ALIVE);
                node.put(out);
                put_settings(out, settings);
                put_level(out, *level);
            }
            Self::Raise { level, heard } => {
                out.push(tag::RAISE);
                out.extend_from_slice(&level.to_le_bytes());
                put_count(out, heard.len());
                for one in heard {
                    one.id.put(out);
                    out.extend_from_slice(&one.incarnation.to_le_bytes());
                    out.extend_from_slice(&one.level.to_le_bytes());
                }
            }
            Self::Locate { id, incarnation, machine } => {
                out.push(tag::LOCATE);
                id.put(out);
                out.extend_from_slice(&incarnation.to_le_bytes());
                put_bytes(out, machine.as_bytes());
            }
            Self::Group(change) => {
                out.push(tag::GROUP);
                change.put(out);
            }
            Self::SetShard(ask) => {
                out.push(tag::SET_SHARD);
                ask.put(out);
            }
            Self::Copies(ask) => {
                out.push(tag::COPIES);
                ask.put(out);
            }
            Self::Lead(ask) => {
                out.push(tag::LEAD);
                ask.put(out);
            }
            Self::Leave { id } => {
                out.push(tag::LEAVE);
                id.put(out);
            }
            Self::Forget { id } => {
                out.push(tag::FORGET);
                id.put(out);
            }
            Self::Set { name, value } => {
                out.push(tag::SET);
                put_bytes(out, name.as_bytes());
                put_bytes(out, value.as_bytes());
            }
            Self::Configure { first, settings } => {
                out.push(tag::CONFIGURE);
                out.push(u8::from(*first));
                configuration::put(out, settings);
            }
            Self::Libraries { known, change, payload } => {
                out.push(tag::LIBRARIES);
                out.extend_from_slice(&known.to_le_bytes());
                out.extend_from_slice(change);
                put_bytes(out, payload);
            }
        }
    }

    /// The next one in `from`.
    ///
    /// # Errors
    /// The bytes are none, or of a version that this build does not read.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = from.u8()?;
        if !(1..=VERSION).contains(&version) {
            return Err(Malformed("a command of version 1 to 9"));
        }
        let level = |from: &mut Reader<'_>| if version < WITH_LEVELS { Ok(0) } else { from.u16() };
        let node = if version < 3 { Describe::read_without_client_port } else { Describe::read };
        Ok(match from.u8()? {
            tag::FORM => {
                let cluster = ClusterId::read(from)?;
                let count = from.count(NODES_MAX)?;
                let nodes = (0..count).map(|_| node(from)).collect::<Result<_, _>>()?;
                Self::Form { cluster, nodes, settings: settings(from)?, level: level(from)? }
            }
            tag::JOIN => Self::Join { node: node(from)?, settings: settings(from)?, level: level(from)? },
            tag::ALIVE => Self::Alive { node: node(from)?, settings: settings(from)?, level: level(from)? },
            tag::LEAVE => Self::Leave { id: NodeId::read(from)? },
            tag::FORGET => Self::Forget { id: NodeId::read(from)? },
            tag::RAISE if version >= WITH_LEVELS => Self::Raise { level: from.u16()?, heard: heard(from)? },
            tag::LOCATE if version >= WITH_MACHINES => Self::Locate {
                id: NodeId::read(from)?,
                incarnation: from.u64()?,
                machine: from.text(TEXT_MAX)?.to_owned(),
            },
            tag::GROUP if version >= WITH_SHARDS => Self::Group(GroupCommand::read(from)?),
            tag::JOIN_LOG if version >= WITH_SHARDS => {
                Self::JoinLog { node: node(from)?, settings: settings(from)?, level: level(from)? }
            }
            tag::LEAD if version >= WITH_SHARDS => Self::Lead(Lead::read(from)?),
            tag::SET_SHARD if version >= WITH_SETTINGS => Self::SetShard(SetShard::read(from)?),
            tag::COPIES if version >= VERSION => Self::Copies(ChangeCopies::read(from)?),
            tag::SET => Self::Set { name: from.text(TEXT_MAX)?.to_owned(), value: from.text(TEXT_MAX)?.to_owned() },
            tag::CONFIGURE => Self::Configure { first: from.flag()?, settings: configuration::read(from)? },
            tag::LIBRARIES => Self::Libraries {
                known: from.u64()?,
                change: from.array()?,
                payload: from.bytes(LIBRARIES_MAX)?.into(),
            },
            _ => return Err(Malformed("a command")),
        })
    }
}

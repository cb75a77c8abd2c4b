//! The whole state as bytes, with a version and a checksum.

use std::collections::BTreeMap;
use std::sync::Arc;

use standby::NodeNumber;

use super::{
    ChangeId, Configuration, Groups, Kind, Libraries, Member, NODES_MAX, SETTINGS_MAX, Shards, State, TEXT_MAX, spread,
};
use crate::SLOTS;
use crate::codec::{Malformed, Reader, crc, put_bytes, put_count};
use crate::{ClusterId, NodeId, ShardId, level};

/// The newest format of snapshots. All others are read as well. Version 1 has no libraries, in versions 1 and 2 a
/// member has no port for smart clients. In the first three libraries are among the other bytes and a cluster has no
/// settings, in the first four no levels. Before version 6 there
/// are no machines. The last three have shards, the last two have their settings and the nodes that have lost theirs, and
/// only the last has standbys.
const VERSION: u32 = if cfg!(feature = "next-level") { WITH_STANDBYS + 1 } else { WITH_STANDBYS };

/// The format below [`level::STANDBYS`].
pub(super) const WITH_HEIRS: u32 = 8;

/// The format from which on a shard has standbys.
pub(super) const WITH_STANDBYS: u32 = 9;

/// The format below [`level::HEIRS`] and [`level::SHARD_SETTINGS`], which are one.
const WITH_SHARDS: u32 = 7;

/// The format below [`level::SHARDS`].
const WITH_MACHINES: u32 = 6;

/// The format below [`level::MACHINES`].
const WITH_LEVELS: u32 = 5;

/// The format at [`level::FIRST`]: nodes of a build before there were levels read it (rule U1).
const WITHOUT_LEVELS: u32 = 4;

/// A snapshot. Libraries are apart from the rest: they are large, and most changes leave them as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// All but the libraries; it says how long those are, and their checksum.
    pub state: Vec<u8>,
    /// The change that made the libraries.
    pub change: ChangeId,
    /// The libraries: empty where there are none, and where `state` is of version 1 to 3.
    pub libraries: Arc<[u8]>,
}

impl State {
    /// The state as bytes: `docs/formats.md`, "The cluster's metadata".
    pub fn snapshot(&self) -> Image {
        let format = match self.level {
            level if level >= level::MADE_UP => VERSION,
            level if level >= level::STANDBYS => WITH_STANDBYS,
            level if level >= level::HEIRS => WITH_HEIRS,
            level if level >= level::SHARDS => WITH_SHARDS,
            level if level >= level::MACHINES => WITH_MACHINES,
            level if level > level::FIRST => WITH_LEVELS,
            _ => WITHOUT_LEVELS,
        };
        let mut out = vec![0; 4];
        out.extend_from_slice(&format.to_le_bytes());
        out.push(u8::from(self.cluster.is_some()));
        self.cluster.unwrap_or_default().put(&mut out);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.next_number.to_le_bytes());
        if format >= WITH_LEVELS {
            out.extend_from_slice(&self.level.to_le_bytes());
        }
        put_count(&mut out, self.members.len());
        for (id, member) in &self.members {
            id.put(&mut out);
            out.extend_from_slice(&member.number.to_le_bytes());
            out.extend_from_slice(&member.epoch.to_le_bytes());
            out.extend_from_slice(&member.incarnation.to_le_bytes());
            out.push(u8::from(member.lost));
            put_bytes(&mut out, member.host.as_bytes());
            out.extend_from_slice(&member.port.to_le_bytes());
            out.extend_from_slice(&member.bus_port.to_le_bytes());
            out.extend_from_slice(&member.client_port.to_le_bytes());
            if format >= WITH_LEVELS {
                out.extend_from_slice(&member.level.to_le_bytes());
            }
            if format >= WITH_MACHINES {
                put_bytes(&mut out, member.machine.as_bytes());
            }
            if format >= WITH_SHARDS {
                out.push(u8::from(member.kind == Kind::Log));
            }
        }
        put_count(&mut out, self.settings.len());
        for (name, value) in &self.settings {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
        if format >= WITH_SHARDS {
            self.shards.put(&mut out, format);
            self.groups.put(&mut out);
        }
        // Below the level of shards a node's shard has the node's number.
        let runs = spread::runs(&self.owners);
        put_count(&mut out, runs.len());
        for (_, end, owner) in runs {
            out.extend_from_slice(&end.get().to_le_bytes());
            out.extend_from_slice(&owner.to_le_bytes());
        }
        self.libraries.put_apart(&mut out);
        self.configuration.put(&mut out);
        let sum = crc(&[&out[4..]]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        Image { state: out, change: self.libraries.change, libraries: Arc::clone(&self.libraries.payload) }
    }

    /// The state from this image of [`State::snapshot`].
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of a version that this build does not read, or of a level that it does not speak.
    pub fn restore(image: &Image) -> Result<Self, Malformed> {
        let bytes = &image.state;
        let mut from = Reader::new(bytes);
        let sum = from.u32()?;
        if crc(&[&bytes[4..]]) != sum {
            return Err(Malformed("a checksum that matches"));
        }
        let format = from.u32()?;
        if !(1..=VERSION).contains(&format) {
            return Err(Malformed("a snapshot of version 1 to 9"));
        }
        let (formed, cluster) = (from.flag()?, ClusterId::read(&mut from)?);
        let (version, epoch, next_number) = (from.u64()?, from.u64()?, from.u32()?);
        let level = if format > WITHOUT_LEVELS { from.u16()? } else { level::FIRST };
        if level > level::HIGHEST {
            return Err(Malformed("a level that this build speaks"));
        }
        let count = from.count(NODES_MAX)?;
        let members = (0..count).map(|_| member(&mut from, format)).collect::<Result<BTreeMap<_, _>, _>>()?;
        if members.values().any(|member| member.number >= next_number) {
            return Err(Malformed("numbers of nodes below the next one"));
        }
        let count = from.count(SETTINGS_MAX)?;
        let setting = |from: &mut Reader<'_>| Ok((from.text(TEXT_MAX)?.to_owned(), from.text(TEXT_MAX)?.to_owned()));
        let settings = (0..count).map(|_| setting(&mut from)).collect::<Result<BTreeMap<_, _>, _>>()?;
        let shards = shards(&mut from, format, next_number, &members)?;
        let groups = if format >= WITH_SHARDS { Groups::read(&mut from)? } else { Groups::default() };
        let mut owners = Vec::with_capacity(SLOTS);
        for _ in 0..from.count(SLOTS)? {
            let (end, owner) = (usize::from(from.u16()?), from.u32()?);
            if end >= SLOTS || end < owners.len() || !(owner == 0 || shards.all.contains_key(&ShardId(owner))) {
                return Err(Malformed("ranges of slots, each of a shard"));
            }
            owners.resize(end + 1, owner);
        }
        let libraries = match format {
            1 => Libraries::default(),
            2 | 3 => Libraries::read(&mut from)?,
            _ => Libraries::read_apart(&mut from, image)?,
        };
        let configuration = if format > 3 { Configuration::read(&mut from)? } else { Configuration::default() };
        from.end()?;
        if owners.len() != SLOTS {
            return Err(Malformed("all slots"));
        }
        let owners = owners.into_boxed_slice();
        Ok(Self {
            cluster: formed.then_some(cluster),
            version,
            epoch,
            level,
            next_number,
            members,
            settings,
            configuration,
            libraries,
            shards,
            groups,
            owners,
        })
    }
}

/// The shards; those that nodes are where a snapshot has none.
fn shards(
    from: &mut Reader<'_>,
    format: u32,
    next_number: u32,
    members: &BTreeMap<NodeId, Member>,
) -> Result<Shards, Malformed> {
    let shards = match format {
        WITH_SHARDS.. => Shards::read(from, format)?,
        _ => Shards::of_nodes(next_number, &members.iter().map(|(id, member)| (member.number, *id)).collect()),
    };
    let owns = |owner: &NodeId| members.get(owner).is_some_and(|member| member.kind == Kind::Data);
    if shards.all.values().any(|shard| !owns(&shard.owner)) {
        return Err(Malformed("shards, each of a node"));
    }
    let nodes = members.iter().filter(|(_, member)| member.kind == Kind::Data);
    shards.check_standbys(&nodes.map(|(id, member)| (NodeNumber(member.number), *id)).collect())?;
    Ok(shards)
}

fn member(from: &mut Reader<'_>, format: u32) -> Result<(NodeId, Member), Malformed> {
    let id = NodeId::read(from)?;
    let member = Member {
        number: from.u32()?,
        epoch: from.u64()?,
        incarnation: from.u64()?,
        lost: from.flag()?,
        host: from.text(TEXT_MAX)?.to_owned(),
        port: from.u16()?,
        bus_port: from.u16()?,
        client_port: if format > 2 { from.u16()? } else { 0 },
        level: if format > WITHOUT_LEVELS { from.u16()? } else { level::FIRST },
        machine: if format >= WITH_MACHINES { from.text(TEXT_MAX)?.to_owned() } else { String::new() },
        kind: if format >= WITH_SHARDS && from.flag()? { Kind::Log } else { Kind::Data },
    };
    Ok((id, member))
}

/// The state as it was written before version 4, when its libraries were among the other bytes, and clusters had no
/// settings.
#[cfg(test)]
pub(crate) fn of_version_3(state: &State) -> Vec<u8> {
    let state = State { configuration: Configuration::default(), level: level::FIRST, ..state.clone() };
    let mut bytes = state.snapshot().state;
    let about_libraries = 4 + 4;
    let no_configuration = 8 + 4;
    bytes.truncate(bytes.len() - about_libraries - no_configuration);
    put_bytes(&mut bytes, &state.libraries.payload);
    bytes[4] = 3;
    let sum = crc(&[&bytes[4..]]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

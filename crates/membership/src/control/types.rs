//! Raft's types for this cluster, and its messages as bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use openraft::vote::leader_id_std::{CommittedLeaderId, LeaderId};
use openraft::{EntryPayload, Membership, OptionalSend, RaftTypeConfig, StoredMembership};

use crate::NodeId;
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::frame;
use crate::meta::{Command, Describe, Image, LIBRARIES_MAX, NODES_MAX, Response, State, configuration};

/// The types of this group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Types;

impl RaftTypeConfig for Types {
    type D = Command;
    type R = Response;
    type NodeId = NodeId;
    type Node = Describe;
    type Term = u64;
    type LeaderId = LeaderId<u64, NodeId>;
    type Vote = Vote;
    type Payload = EntryPayload<Command, NodeId, Describe>;
    type Entry = Entry;
    type Responder<T>
        = openraft::impls::OneshotResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type AsyncRuntime = openraft_rt_tokio::TokioRuntime;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub type LogId = openraft::LogId<CommittedLeaderId<u64>>;
pub type Vote = openraft::Vote<LeaderId<u64, NodeId>>;
pub type Entry = openraft::Entry<CommittedLeaderId<u64>, EntryPayload<Command, NodeId, Describe>>;
pub type Members = Membership<NodeId, Describe>;
pub type StoredMembers = StoredMembership<CommittedLeaderId<u64>, NodeId, Describe>;
pub type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId<u64>, NodeId, Describe>;
pub type Snapshot = openraft::Snapshot<CommittedLeaderId<u64>, NodeId, Describe, Image>;
pub type AppendRequest = openraft::raft::AppendEntriesRequest<Types>;
pub type AppendResponse = openraft::raft::AppendEntriesResponse<Types>;
pub type VoteRequest = openraft::raft::VoteRequest<Types>;
pub type VoteResponse = openraft::raft::VoteResponse<Types>;
pub type GiveWay = openraft::raft::TransferLeaderRequest<Types>;

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form { cluster, nodes, .. } => write!(f, "form {cluster} of {} nodes", nodes.len()),
            Self::Join { node, .. } => write!(f, "join {}", node.id),
            Self::JoinLog { node, .. } => write!(f, "join the log-server {}", node.id),
            Self::Alive { node, .. } => write!(f, "alive {} ({})", node.id, node.incarnation),
            Self::Raise { level, .. } => write!(f, "raise the level to {level}"),
            Self::Locate { id, machine, .. } => write!(f, "locate {id} on {machine}"),
            Self::Group(change) => write!(f, "{change}"),
            Self::Copies(ask) => write!(f, "{ask}"),
            Self::Lead(ask) => {
                write!(f, "the term after {} of shard {} to {}", ask.known.get(), ask.shard.0, ask.id)
            }
            Self::SetShard(ask) => write!(f, "settings of shard {}: {:?}", ask.shard.0, ask.settings),
            Self::Leave { id } => write!(f, "leave {id}"),
            Self::Forget { id } => write!(f, "forget {id}"),
            Self::Set { name, value } => write!(f, "set {name} {value}"),
            Self::Configure { settings, .. } => write!(f, "configure {}", configuration::names(settings)),
            Self::Libraries { known, payload, .. } => {
                write!(f, "libraries of {} bytes behind version {known}", payload.len())
            }
        }
    }
}

/// Values that can be written and read back.
pub trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// All of `bytes` is one of these.
    fn whole(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let read = Self::read(&mut from)?;
        from.end()?;
        Ok(read)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.flag()? { T::read(from).map(Some) } else { Ok(None) }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Wire for LogId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.leader_id.term.to_le_bytes());
        out.extend_from_slice(&self.index.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(CommittedLeaderId::new(from.u64()?), from.u64()?))
    }
}

impl Wire for Vote {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.leader_id.term.to_le_bytes());
        self.leader_id.voted_for.put(out);
        out.push(u8::from(self.committed));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (term, node, committed) = (from.u64()?, NodeId::read(from)?, from.flag()?);
        Ok(if committed { Self::new_committed(term, node) } else { Self::new(term, node) })
    }
}

impl Wire for Members {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(out, self.get_joint_config().len());
        for config in self.get_joint_config() {
            put_count(out, config.len());
            config.iter().for_each(|id| id.put(out));
        }
        put_count(out, self.nodes().count());
        self.nodes().for_each(|(_, node)| node.put(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        members(from, Describe::read)
    }
}

/// How a member is read.
type ReadNode = fn(&mut Reader<'_>) -> Result<Describe, Malformed>;

fn members(from: &mut Reader<'_>, read: ReadNode) -> Result<Members, Malformed> {
    let mut configs = Vec::new();
    for _ in 0..from.count(NODES_MAX)? {
        let count = from.count(NODES_MAX)?;
        configs.push((0..count).map(|_| NodeId::read(from)).collect::<Result<BTreeSet<_>, _>>()?);
    }
    let count = from.count(NODES_MAX)?;
    let node = |from: &mut Reader<'_>| read(from).map(|node| (node.id, node));
    let nodes = (0..count).map(|_| node(from)).collect::<Result<BTreeMap<_, _>, _>>()?;
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Members::default());
    }
    Members::new(configs, nodes).map_err(|_| Malformed("voters that are members"))
}

impl Wire for StoredMembers {
    fn put(&self, out: &mut Vec<u8>) {
        self.log_id().put(out);
        self.membership().put(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        stored_members(from, Describe::read)
    }
}

fn stored_members(from: &mut Reader<'_>, read: ReadNode) -> Result<StoredMembers, Malformed> {
    Ok(StoredMembers::new(Option::read(from)?, members(from, read)?))
}

impl Wire for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        self.log_id.put(out);
        match &self.payload {
            EntryPayload::Blank => out.push(0),
            EntryPayload::Normal(command) => {
                out.push(1);
                command.put(out);
            }
            EntryPayload::Membership(members) => {
                out.push(3);
                members.put(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let log_id = LogId::read(from)?;
        let payload = match from.u8()? {
            0 => EntryPayload::Blank,
            1 => EntryPayload::Normal(Command::read(from)?),
            // As they were before nodes had a port for smart clients.
            2 => EntryPayload::Membership(members(from, Describe::read_without_client_port)?),
            3 => EntryPayload::Membership(Members::read(from)?),
            _ => return Err(Malformed("an entry of the log")),
        };
        Ok(Self { log_id, payload })
    }
}

impl Wire for Snapshot {
    fn put(&self, out: &mut Vec<u8>) {
        self.meta.last_log_id.put(out);
        self.meta.last_membership.put(out);
        put_bytes(out, &self.snapshot.state);
        out.extend_from_slice(&self.snapshot.change);
        put_bytes(out, &self.snapshot.libraries);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let meta = SnapshotMeta { last_log_id: Option::read(from)?, last_membership: StoredMembers::read(from)? };
        let state = from.bytes(frame::BODY_MAX)?.to_vec();
        let (change, libraries) = (from.array()?, from.bytes(LIBRARIES_MAX)?.into());
        Ok(Self { meta, snapshot: Image { state, change, libraries } })
    }
}

/// A snapshot as it was written when its libraries were among the other bytes. `client_ports`: nodes had a port for
/// smart clients.
pub fn earlier_snapshot(from: &mut Reader<'_>, client_ports: bool) -> Result<Snapshot, Malformed> {
    let node = if client_ports { Describe::read } else { Describe::read_without_client_port };
    let meta = SnapshotMeta { last_log_id: Option::read(from)?, last_membership: stored_members(from, node)? };
    let image = Image { state: from.bytes(frame::BODY_MAX)?.to_vec(), ..Image::default() };
    Ok(Snapshot { meta, snapshot: State::restore(&image)?.snapshot() })
}

impl Wire for AppendRequest {
    fn put(&self, out: &mut Vec<u8>) {
        self.vote.put(out);
        self.prev_log_id.put(out);
        self.leader_commit.put(out);
        put_count(out, self.entries.len());
        self.entries.iter().for_each(|entry| entry.put(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (vote, prev_log_id, leader_commit) = (Vote::read(from)?, Option::read(from)?, Option::read(from)?);
        let count = from.count(frame::BODY_MAX)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(Entry::read(from)?);
        }
        Ok(Self { vote, prev_log_id, entries, leader_commit })
    }
}

impl Wire for GiveWay {
    fn put(&self, out: &mut Vec<u8>) {
        self.from_leader().put(out);
        self.to_node_id().put(out);
        self.last_log_id().copied().put(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(Vote::read(from)?, NodeId::read(from)?, Option::read(from)?))
    }
}

impl Wire for AppendResponse {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Success => out.push(0),
            Self::PartialSuccess(up_to) => {
                out.push(1);
                up_to.put(out);
            }
            Self::Conflict => out.push(2),
            Self::HigherVote(vote) => {
                out.push(3);
                vote.put(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Success,
            1 => Self::PartialSuccess(Option::read(from)?),
            2 => Self::Conflict,
            3 => Self::HigherVote(Vote::read(from)?),
            _ => return Err(Malformed("an answer to entries")),
        })
    }
}

impl Wire for VoteRequest {
    fn put(&self, out: &mut Vec<u8>) {
        self.vote.put(out);
        self.last_log_id.put(out);
        out.push(u8::from(self.leadership_transfer));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { vote: Vote::read(from)?, last_log_id: Option::read(from)?, leadership_transfer: from.flag()? })
    }
}

impl Wire for VoteResponse {
    fn put(&self, out: &mut Vec<u8>) {
        self.vote.put(out);
        out.push(u8::from(self.vote_granted));
        self.last_log_id.put(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { vote: Vote::read(from)?, vote_granted: from.flag()?, last_log_id: Option::read(from)? })
    }
}

//! Raft's messages over control links.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{SnapshotResponse, TransferLeaderResponse};

use super::links::{Links, Op, Reply};
use super::storage::Machine;
use super::types::{AppendRequest, AppendResponse, GiveWay, Snapshot, Types, Vote, VoteRequest, VoteResponse, Wire};
use crate::NodeId;
use crate::meta::{Describe, Image};

/// Makes clients.
#[derive(Clone)]
pub struct Network {
    pub links: Arc<Links>,
    pub machine: Machine,
    /// The term in which each node has acknowledged its last entry of the log from this one.
    pub acknowledged: Arc<Mutex<BTreeMap<NodeId, (u64, u64)>>>,
}

/// Asks one node.
pub struct Client {
    network: Network,
    target: Describe,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: NodeId, node: &Describe) -> Client {
        Client { network: self.clone(), target: Describe { id: target, ..node.clone() } }
    }
}

impl Client {
    /// The place of the node: by the map, which knows where it was started last, or by the membership.
    fn place(&self) -> (String, u16) {
        let map = self.network.machine.map();
        let known = map.member(self.target.id);
        known.map_or((self.target.host.clone(), self.target.bus_port), |node| (node.host.clone(), node.bus_port))
    }

    /// Notes the entries that the node has acknowledged. Raft does not recognize nodes that have forgotten some: such a
    /// node does not count as there until it has found out ([`super::past`]).
    fn look_at(&self, response: &AppendResponse, term: u64, before: u64, last: u64) -> Result<(), RPCError<Types>> {
        let mut acknowledged = self.network.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let known = acknowledged.get(&self.target.id).filter(|known| known.0 == term).map_or(0, |known| known.1);
        let upto = match response {
            AppendResponse::Success => last,
            AppendResponse::PartialSuccess(upto) => upto.map_or(0, |id| id.index),
            AppendResponse::Conflict if before > 0 && before <= known => {
                let why = format!("it has forgotten entries up to {known}, which it has acknowledged");
                return Err(RPCError::Unreachable(Unreachable::from_string(why)));
            }
            AppendResponse::Conflict | AppendResponse::HigherVote(_) => return Ok(()),
        };
        acknowledged.insert(self.target.id, (term, upto.max(known)));
        Ok(())
    }

    async fn ask<T: Wire>(&self, op: Op, body: Vec<u8>, option: &RPCOption) -> Result<T, RPCError<Types>> {
        let (host, port) = self.place();
        let reply = self.network.links.ask(self.target.id, (&host, port), op, body, option.hard_ttl()).await;
        match reply {
            Ok(Reply::Done(answer)) => {
                T::whole(&answer).map_err(|why| RPCError::Network(NetworkError::new(&io::Error::other(why))))
            }
            Ok(Reply::Failed(why)) | Err(why) => Err(RPCError::Unreachable(Unreachable::from_string(why))),
            Ok(Reply::NotLeader(_)) => {
                Err(RPCError::Unreachable(Unreachable::from_string("an answer to another request")))
            }
        }
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = Image;

    async fn append_entries(
        &mut self,
        rpc: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendResponse, RPCError<Types>> {
        let term = rpc.vote.leader_id().term;
        let before = rpc.prev_log_id.map_or(0, |id| id.index);
        let last = rpc.entries.last().map_or(before, |entry| entry.log_id.index);
        let response = self.ask(Op::Append, rpc.to_bytes(), &option).await?;
        self.look_at(&response, term, before, last)?;
        Ok(response)
    }

    async fn vote(&mut self, rpc: VoteRequest, option: RPCOption) -> Result<VoteResponse, RPCError<Types>> {
        self.ask(Op::Vote, rpc.to_bytes(), &option).await
    }

    async fn pre_vote(&mut self, rpc: VoteRequest, option: RPCOption) -> Result<VoteResponse, RPCError<Types>> {
        self.ask(Op::PreVote, rpc.to_bytes(), &option).await
    }

    async fn transfer_leader(
        &mut self,
        rpc: GiveWay,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        self.ask::<()>(Op::GiveWay, rpc.to_bytes(), &option).await.map(Ok)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let mut body = vote.to_bytes();
        snapshot.put(&mut body);
        match self.ask::<Vote>(Op::Snapshot, body, &option).await {
            Ok(vote) => Ok(SnapshotResponse::new(vote)),
            Err(RPCError::Network(why)) => Err(StreamingError::Network(why)),
            Err(why) => Err(StreamingError::Unreachable(Unreachable::new(&why))),
        }
    }
}

//! Connections that others open.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::{Either, select};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::agent::Agent;
use super::forming::Founding;
use super::links::{Op, Reply};
use super::stream::Stream;
use super::types::{AppendRequest, GiveWay, Snapshot, Vote, VoteRequest, Wire};
use super::wire;
use super::{DataLink, Hooks};
use crate::codec::Reader;
use crate::frame::{self, Kind};
use crate::handshake::{Peer, Refusal, Role};

/// Most connections that have not proved anything yet.
const STRANGERS_MAX: usize = 64;

/// Requests of one link that are being answered.
const REQUESTS_MAX: usize = 64;

/// Connections that have not proved anything yet, the oldest first. If there is one too many, the oldest is closed: a
/// node proves itself within moments, and a silent one keeps no other out.
#[derive(Default)]
struct Strangers {
    next: u64,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
}

impl Strangers {
    /// Adds a connection: its number, and a signal that ends it.
    fn add(&mut self) -> (u64, oneshot::Receiver<()>) {
        let (stays, closes) = oneshot::channel();
        self.next += 1;
        self.waiting.push_back((self.next, stays));
        if self.waiting.len() > STRANGERS_MAX {
            self.waiting.pop_front();
        }
        (self.next, closes)
    }

    fn remove(&mut self, number: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != number);
    }
}

/// Takes connections until the runtime ends.
pub async fn accept(agent: Arc<Agent>, listener: TcpListener, hooks: Hooks) {
    let hooks = Arc::new(hooks);
    let strangers: Arc<Mutex<Strangers>> = Arc::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (agent, hooks, strangers) = (Arc::clone(&agent), Arc::clone(&hooks), Arc::clone(&strangers));
                let (number, closes) = strangers.lock().unwrap_or_else(PoisonError::into_inner).add();
                tokio::spawn(async move {
                    let met = match select(pin!(meet(&agent, &hooks, stream)), closes).await {
                        Either::Left((met, _)) => met,
                        Either::Right(_) => None,
                    };
                    strangers.lock().unwrap_or_else(PoisonError::into_inner).remove(number);
                    if let Some((stream, peer)) = met {
                        serve(agent, stream, peer, &hooks).await;
                    }
                });
            }
            Err(why) => {
                tracing::warn!("a node's connection cannot be taken: {why}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn meet(agent: &Agent, hooks: &Hooks, socket: TcpStream) -> Option<(Stream, Peer)> {
    let from = socket.peer_addr().map_or_else(|_| "a node".to_owned(), |address| address.ip().to_string());
    let mut nonce = [0; 32];
    (agent.random)(&mut nonce);
    let me = agent.disk.kept().party();
    let host = wire::Host { me, secret: &agent.settings.secret, tls: agent.links.tls(), nonce };
    let proven = OnceLock::new();
    let judge = |peer: &Peer| {
        let _ = proven.set(peer.party.node.to_string());
        if peer.role != Role::Control && (hooks.is_leaving)() {
            return Err(Refusal::Other("this node shuts down".to_owned()));
        }
        if peer.role == Role::Data
            && let Err(why) = (agent.may_serve)()
        {
            // No worker takes commands yet. The other node waits, and tries again.
            return Err(Refusal::Other(why));
        }
        judge(agent, peer)
    };
    match wire::accept(socket, host, judge).await {
        Ok(met) => {
            // Nor another one that has its address.
            agent.volatile().refused.forget(&met.1.party.node.to_string());
            Some(met)
        }
        Err(why @ (wire::NoLink::Handshake(_) | wire::NoLink::Tls(_))) => {
            // It comes again and again: one line is enough. The name that it gives counts only if it knows the secret.
            if agent.volatile().refused.is_new(proven.get().unwrap_or(&from), &why.to_string()) {
                tracing::warn!(cause = %why, "a node at {from} was refused: {why}");
            }
            None
        }
        Err(_) => None,
    }
}

/// Checks that a node that knows the secret may have its connection: commands are for members, and an earlier life of a
/// node gets nothing.
fn judge(agent: &Agent, peer: &Peer) -> Result<(), Refusal> {
    let node = peer.party.node;
    agent.levels.hear(peer)?;
    match agent.machine.look(|applied| applied.state.incarnation(node)) {
        Some(known) if peer.party.incarnation < known => Err(Refusal::EarlierLife { node, known }),
        None if peer.role != Role::Control => Err(Refusal::UnknownNode(node)),
        _ => Ok(()),
    }
}

async fn serve(agent: Arc<Agent>, stream: Stream, peer: Peer, hooks: &Hooks) {
    if peer.role == Role::Log {
        match agent.carried(stream) {
            Ok(socket) => (hooks.on_log)(socket),
            Err(why) => tracing::warn!("a connection for copies of a log cannot be used: {why}"),
        }
        return;
    }
    if peer.role == Role::Store {
        match agent.carried(stream) {
            Ok(socket) => (hooks.on_store)(socket, peer.party),
            Err(why) => tracing::warn!("a connection for a copy of the store cannot be used: {why}"),
        }
        return;
    }
    if peer.role == Role::Data {
        match agent.carried(stream) {
            Ok(socket) => (hooks.on_data)(DataLink { socket, peer, dialed: None }),
            Err(why) => tracing::warn!("a data link cannot be used: {why}"),
        }
        return;
    }
    let (reader, writer) = tokio::io::split(stream);
    let (replies, receiver) = mpsc::channel(REQUESTS_MAX);
    let (reading, writing) = (pin!(requests(agent, peer, reader, replies)), pin!(responses(writer, receiver)));
    select(reading, writing).await;
}

async fn requests(agent: Arc<Agent>, peer: Peer, mut reader: ReadHalf<Stream>, replies: mpsc::Sender<Vec<u8>>) {
    let at_once = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Ok((Kind::Request, body)) = wire::read(&mut reader, frame::BODY_MAX).await {
        let Ok(permit) = Arc::clone(&at_once).acquire_owned().await else { return };
        let (agent, replies) = (Arc::clone(&agent), replies.clone());
        tokio::spawn(async move {
            let mut from = Reader::new(&body);
            let Ok(number) = from.u64() else { return };
            let reply = match from.u8().map(Op::of) {
                Ok(Some(op)) => agent.hear(&peer, op, &body[9..]).await,
                _ => Reply::Failed("a request that this version does not know".to_owned()),
            };
            let mut out = Vec::new();
            let at = frame::begin(&mut out);
            out.extend_from_slice(&number.to_le_bytes());
            reply.put(&mut out);
            if out.len() <= frame::BODY_MAX {
                frame::finish(&mut out, at, Kind::Response);
                let _ = replies.send(out).await;
            }
            drop(permit);
        });
    }
}

async fn responses(mut writer: WriteHalf<Stream>, mut replies: mpsc::Receiver<Vec<u8>>) {
    while let Some(reply) = replies.recv().await {
        if writer.write_all(&reply).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

impl Agent {
    /// Answers the requests of another node.
    async fn hear(self: &Arc<Self>, peer: &Peer, op: Op, body: &[u8]) -> Reply {
        match op {
            Op::Append | Op::Vote | Op::PreVote | Op::Snapshot | Op::GiveWay => match self.belong(peer).await {
                Ok(()) => self.hear_raft(op, body).await.unwrap_or_else(Reply::Failed),
                Err(why) => Reply::Failed(why),
            },
            Op::Form => match Founding::whole(body) {
                Ok(founding) => self.hear_founding(peer, &founding),
                Err(why) => Reply::Failed(why.to_string()),
            },
            Op::Ended => self.hear_of_end(peer).await,
            _ => self.answer(op, body, peer.highest).await,
        }
    }

    /// Raft talks to members of this node's cluster. A node that has found a cluster belongs to it from then on,
    /// durably before it has answered anything.
    async fn belong(&self, peer: &Peer) -> Result<(), String> {
        let theirs = peer.party.cluster.ok_or("a node that belongs to no cluster does not vote")?;
        match self.cluster() {
            Some(ours) if ours == theirs => Ok(()),
            Some(_) => Err("another cluster".to_owned()),
            None if self.volatile().tentative == Some(theirs) => {
                self.disk.change(|kept| kept.cluster = Some(theirs)).await.map_err(|why| why.to_string())?;
                self.links.reset();
                tracing::info!("this node belongs to cluster {theirs} now");
                Ok(())
            }
            None => Err("this node belongs to no cluster yet".to_owned()),
        }
    }

    async fn hear_raft(&self, op: Op, body: &[u8]) -> Result<Reply, String> {
        let malformed = |why: crate::Malformed| why.to_string();
        Ok(Reply::Done(match op {
            Op::Append => {
                let rpc = AppendRequest::whole(body).map_err(malformed)?;
                self.raft.append_entries(rpc).await.map_err(|why| why.to_string())?.to_bytes()
            }
            Op::Vote => {
                let rpc = VoteRequest::whole(body).map_err(malformed)?;
                self.raft.vote(rpc).await.map_err(|why| why.to_string())?.to_bytes()
            }
            Op::PreVote => {
                let rpc = VoteRequest::whole(body).map_err(malformed)?;
                self.raft.pre_vote(rpc).await.map_err(|why| why.to_string())?.to_bytes()
            }
            Op::GiveWay => {
                let rpc = GiveWay::whole(body).map_err(malformed)?;
                let heard = self.raft.handle_transfer_leader(rpc).await.map_err(|why| why.to_string())?;
                heard.map_err(|why| why.to_string())?;
                Vec::new()
            }
            _ => {
                let mut from = Reader::new(body);
                let vote = Vote::read(&mut from).map_err(malformed)?;
                let snapshot = Snapshot::read(&mut from).map_err(malformed)?;
                let answer = self.raft.install_full_snapshot(vote, snapshot).await;
                answer.map_err(|why| why.to_string())?.vote.to_bytes()
            }
        }))
    }
}

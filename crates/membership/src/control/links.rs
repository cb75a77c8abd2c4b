//! Requests to other nodes, over one control link to each.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::Random;
use super::disk::Disk;
use super::levels::Levels;
use super::stream::Stream;
use super::tls::Tls;
use super::told::Told;
use super::types::Wire;
use super::wire::{self, NoLink};
use crate::NodeId;
use crate::codec::{Malformed, Reader, put_bytes};
use crate::frame::{self, Kind};
use crate::handshake::{Failed, Peer, Role};
use crate::meta::Describe;

/// Calls that wait for one link.
const CALLS_MAX: usize = 256;

/// Bytes of the longest reason of a failure.
const REASON_MAX: usize = 1024;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Op {
    /// Raft: entries of the log, or a heartbeat.
    Append = 1,
    /// Raft: a vote.
    Vote = 2,
    /// Raft: asks if there would be a vote.
    PreVote = 3,
    /// Raft: a snapshot.
    Snapshot = 4,
    /// Your identity, and your cluster?
    Who = 5,
    /// Let us form a cluster.
    Form = 6,
    /// A command to the metadata.
    Command = 7,
    /// A renewal of a lease.
    Renew = 8,
    /// The state of the cluster.
    Status = 9,
    /// The knowledge about a node that has started.
    Past = 10,
    /// The process that the handshake names has ended: its parent says so.
    Ended = 11,
    /// Raft: the leader gives way to a node.
    GiveWay = 12,
    /// The owner of a shard gives it up, to the leader.
    Yield = 13,
    /// Give your shard up to a standby.
    SwitchOver = 14,
}

impl Op {
    pub fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Append,
            2 => Self::Vote,
            3 => Self::PreVote,
            4 => Self::Snapshot,
            5 => Self::Who,
            6 => Self::Form,
            7 => Self::Command,
            8 => Self::Renew,
            9 => Self::Status,
            10 => Self::Past,
            11 => Self::Ended,
            12 => Self::GiveWay,
            13 => Self::Yield,
            14 => Self::SwitchOver,
            _ => return None,
        })
    }
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The answer.
    Done(Vec<u8>),
    /// Only the leader of the metadata can answer: perhaps this node.
    NotLeader(Option<Describe>),
    /// There is none, for a reason in words.
    Failed(String),
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done(answer) => {
                out.push(0);
                put_bytes(out, answer);
            }
            Self::NotLeader(leader) => {
                out.push(1);
                leader.put(out);
            }
            Self::Failed(why) => {
                out.push(2);
                put_bytes(out, &why.as_bytes()[..why.floor_char_boundary(REASON_MAX)]);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Done(from.bytes(frame::BODY_MAX)?.to_vec()),
            1 => Self::NotLeader(Option::read(from)?),
            2 => Self::Failed(from.text(REASON_MAX)?.to_owned()),
            _ => return Err(Malformed("a response")),
        })
    }
}

impl Wire for Describe {
    fn put(&self, out: &mut Vec<u8>) {
        Self::put(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(from)
    }
}

struct Call {
    op: Op,
    body: Vec<u8>,
    reply: oneshot::Sender<Reply>,
}

/// A control link that this node has opened.
#[derive(Clone)]
struct Link {
    calls: mpsc::Sender<Call>,
    place: (String, u16),
}

/// All of them.
pub struct Links {
    disk: Disk,
    secret: Arc<[u8]>,
    tls: Option<Arc<Tls>>,
    random: Random,
    levels: Levels,
    open: Mutex<BTreeMap<NodeId, Link>>,
    /// The places where TLS has failed, and the reasons.
    refused: Mutex<Told>,
}

impl Links {
    pub fn new(disk: Disk, secret: Arc<[u8]>, tls: Option<Arc<Tls>>, random: Random, levels: Levels) -> Self {
        Self { disk, secret, tls, random, levels, open: Mutex::default(), refused: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<NodeId, Link>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all links: this node's data in a handshake have changed.
    pub fn reset(&self) {
        self.open().clear();
    }

    /// The TLS of connections, if they use it.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// True if there is a link to the node.
    pub fn is_open(&self, id: NodeId) -> bool {
        self.open().get(&id).is_some_and(|link| !link.calls.is_closed())
    }

    /// Connects for `role`.
    pub async fn dial(&self, place: (&str, u16), role: Role) -> Result<(Stream, Peer), NoLink> {
        let mut nonce = [0; 32];
        (self.random)(&mut nonce);
        let me = self.disk.kept().party();
        let dialed = wire::dial(place, self.tls.as_ref(), me, &self.secret, role, &nonce).await;
        self.tell(place, &dialed);
        let (stream, peer) = dialed?;
        self.levels.hear(&peer).map_err(Failed::Refused)?;
        Ok((stream, peer))
    }

    /// Logs the reason of a refusal by TLS when it is new.
    fn tell(&self, place: (&str, u16), dialed: &Result<(Stream, Peer), NoLink>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let at = format!("{}:{}", place.0, place.1);
        match dialed {
            Err(NoLink::Tls(why)) if refused.is_new(&at, why) => {
                tracing::warn!(cause = at, "no connection to the node at {at}: {why}");
            }
            Ok(_) => refused.forget(&at),
            Err(_) => {}
        }
    }

    /// Asks the node at `place`, over a connection of its own. Also returns its identity, and this node's own address
    /// on that connection.
    pub async fn ask_at(
        &self,
        place: (&str, u16),
        op: Op,
        body: &[u8],
        within: Duration,
    ) -> Result<(Reply, Peer, String), String> {
        let asking = async {
            let (stream, peer) = self.dial(place, Role::Control).await.map_err(|why| why.to_string())?;
            let local = stream.local_addr().map_err(|why| why.to_string())?.ip().to_string();
            Ok((ask_on(stream, op, body).await?, peer, local))
        };
        timeout(within, asking).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    /// Asks the node `id`, which is at `place`.
    pub async fn ask(
        &self,
        id: NodeId,
        place: (&str, u16),
        op: Op,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Reply, String> {
        let asking = async {
            let link = self.link(id, place).await?;
            let (reply, answer) = oneshot::channel();
            let gone = |_| "the connection was closed".to_owned();
            link.calls.send(Call { op, body, reply }).await.map_err(|_| gone(()))?;
            answer.await.map_err(|_| gone(()))
        };
        timeout(within, asking).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    async fn link(&self, id: NodeId, place: (&str, u16)) -> Result<Link, String> {
        let known = self.open().get(&id).cloned();
        if let Some(link) =
            known.filter(|link| !link.calls.is_closed() && (link.place.0.as_str(), link.place.1) == place)
        {
            return Ok(link);
        }
        let (stream, peer) = self.dial(place, Role::Control).await.map_err(|why| why.to_string())?;
        if peer.party.node != id {
            return Err(format!("another node, {}, is at {}:{}", peer.party.node, place.0, place.1));
        }
        let (calls, receiver) = mpsc::channel(CALLS_MAX);
        let link = Link { calls, place: (place.0.to_owned(), place.1) };
        tokio::spawn(carry(stream, receiver));
        self.open().insert(id, link.clone());
        Ok(link)
    }
}

/// Asks over a connection that is for nothing else.
pub async fn ask_on(stream: Stream, op: Op, body: &[u8]) -> Result<Reply, String> {
    let (calls, receiver) = mpsc::channel(1);
    let (reply, answer) = oneshot::channel();
    let call = Call { op, body: body.to_vec(), reply };
    calls.try_send(call).map_err(|_| "no answer".to_owned())?;
    let link = pin!(carry(stream, receiver));
    match select(link, answer).await {
        futures_util::future::Either::Right((Ok(reply), _)) => Ok(reply),
        _ => Err("the connection was closed".to_owned()),
    }
}

/// How long a node that owes an answer may be silent.
const SILENCE: Duration = Duration::from_secs(2);

/// The requests without an answer.
#[derive(Default)]
struct Owed {
    replies: BTreeMap<u64, oneshot::Sender<Reply>>,
    /// Since when the node is silent although it owes an answer.
    since: Option<Instant>,
}

type Pending = Mutex<Owed>;

fn lock(pending: &Pending) -> MutexGuard<'_, Owed> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries calls until there are no more callers, the connection ends, or the other node is silent.
async fn carry(stream: Stream, calls: mpsc::Receiver<Call>) {
    let (reader, writer) = tokio::io::split(stream);
    let pending = Pending::default();
    let (sending, receiving) = (pin!(send(writer, calls, &pending)), pin!(receive(reader, &pending)));
    let silence = pin!(silence(&pending));
    select(silence, select(sending, receiving)).await;
}

async fn silence(pending: &Pending) {
    loop {
        tokio::time::sleep(SILENCE / 4).await;
        if lock(pending).since.is_some_and(|since| since.elapsed() > SILENCE) {
            return;
        }
    }
}

async fn send(mut writer: WriteHalf<Stream>, mut calls: mpsc::Receiver<Call>, pending: &Pending) {
    let mut next = 0u64;
    let mut out = Vec::new();
    while let Some(call) = calls.recv().await {
        let at = frame::begin(&mut out);
        out.extend_from_slice(&next.to_le_bytes());
        out.push(call.op as u8);
        out.extend_from_slice(&call.body);
        if out.len() > frame::BODY_MAX {
            let _ = call.reply.send(Reply::Failed("a request that is too long".to_owned()));
            out.clear();
            continue;
        }
        frame::finish(&mut out, at, Kind::Request);
        {
            let mut pending = lock(pending);
            // The caller has gone.
            pending.replies.retain(|_, reply| !reply.is_closed());
            pending.replies.insert(next, call.reply);
            pending.since.get_or_insert_with(Instant::now);
        }
        next += 1;
        if writer.write_all(&out).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        out.clear();
    }
}

async fn receive(mut reader: ReadHalf<Stream>, pending: &Pending) {
    while let Ok((Kind::Response, body)) = wire::read(&mut reader, frame::BODY_MAX).await {
        let mut from = Reader::new(&body);
        let (Ok(number), Ok(reply)) = (from.u64(), Reply::read(&mut from)) else { return };
        let mut pending = lock(pending);
        let waiting = pending.replies.remove(&number);
        pending.since = (!pending.replies.is_empty()).then(Instant::now);
        drop(pending);
        if let Some(waiting) = waiting {
            let _ = waiting.send(reply);
        }
    }
}

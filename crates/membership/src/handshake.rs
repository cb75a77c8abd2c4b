//! The handshake: how two nodes find out, before all else, that they belong together.
//!
//! ```text
//! initiator -> acceptor   hello      who I am, which versions I speak, what the connection is for, a nonce
//! acceptor -> initiator   challenge  who I am, which versions I speak, a nonce
//! initiator -> acceptor   proof      HMAC of both under the shared secret
//! acceptor -> initiator   welcome    the version to speak, HMAC of both in the other direction; or refused: why
//! ```
//! Pure: bytes of [`Kind::Handshake`] frames go in and out. The initiator proves first, so that a listener learns
//! nothing to try secrets on. The later bytes are encrypted and authenticated only if all of this goes over TLS
//! (`tls-cluster`).

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::codec::{Malformed, Reader, put_bytes};
use crate::frame::{Kind, begin, finish};
use crate::{ClusterId, NodeId, level};

/// Versions of the protocol that this code speaks: the lowest and the highest. Before 5 nodes had no port for smart
/// clients. Before 6 owners did not tell the clients of other nodes of changes (CLIENT TRACKING). Before 7 a cluster
/// had no settings. Before 8 a transaction could not ask for further keys within an attempt. Before 9 the metadata had
/// no level, and origins did not say for which user they forward commands. Before 10 the metadata did not know the
/// machines of nodes. Before 11 there were no shards, and before 13 no standbys. What 9 and later ones have is used at those
/// levels only.
pub const VERSIONS: (u16, u16) = (level::FIRST, level::HIGHEST);

/// Bytes of the longest body of a handshake: a side that has not proved anything may not send more.
pub const BODY_MAX: usize = 1024;

/// Bytes of the longest reason in words.
const REASON_MAX: usize = 512;

const MAGIC: &[u8; 8] = b"HOLDBUS1";

/// A number used once, from a good source of randomness.
pub type Nonce = [u8; 32];

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// Requests about the cluster: metadata, leases, joining.
    Control = 1,
    /// Commands of clients.
    Data = 2,
    /// Copies of a log: the initiator owns it, and the other end has acceptors.
    Log = 3,
    /// A checkpoint of a shard's store: the initiator wants one, and the other end owns the shard.
    Store = 4,
}

/// A node's data about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Party {
    /// Its cluster; none if it does not belong to one yet.
    pub cluster: Option<ClusterId>,
    /// Its name.
    pub node: NodeId,
    /// How often it has started.
    pub incarnation: u64,
}

/// The node at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its identity.
    pub party: Party,
    /// The purpose of the connection.
    pub role: Role,
    /// The version of the protocol that both speak.
    pub version: u16,
    /// The highest version that it speaks: its level.
    pub highest: u16,
}

/// The reason why a node refuses another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// They do not prove the same secret.
    WrongSecret,
    /// They belong to two clusters.
    AnotherCluster {
        /// The cluster of the refusing node.
        ours: Option<ClusterId>,
        /// The cluster of the other one.
        theirs: Option<ClusterId>,
    },
    /// There is no version that both speak.
    NoCommonVersion {
        /// The versions of the refusing node, lowest and highest.
        ours: (u16, u16),
        /// Those of the other one.
        theirs: (u16, u16),
    },
    /// The node does not speak what the cluster does.
    LowLevel {
        /// The node.
        node: NodeId,
        /// The cluster's level.
        needs: u16,
        /// The node's.
        has: u16,
    },
    /// The cluster has no such node.
    UnknownNode(NodeId),
    /// The node has started again since: this is one of its earlier lives, or a copy of its folder.
    EarlierLife {
        /// The node.
        node: NodeId,
        /// Its incarnation, as known.
        known: u64,
    },
    /// Another reason, in words.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |f: &mut fmt::Formatter<'_>, id: &Option<ClusterId>| match id {
            Some(id) => write!(f, "{id}"),
            None => write!(f, "none"),
        };
        match self {
            Self::WrongSecret => write!(f, "wrong secret: both nodes need the same cluster-secret"),
            Self::AnotherCluster { ours, theirs } => {
                write!(f, "another cluster: this node belongs to ")?;
                name(f, ours)?;
                write!(f, ", the other to ")?;
                name(f, theirs)
            }
            Self::NoCommonVersion { ours, theirs } => write!(
                f,
                "no common protocol version: this node speaks {} to {}, the other {} to {}",
                ours.0, ours.1, theirs.0, theirs.1
            ),
            Self::LowLevel { node, needs, has } => write!(
                f,
                "the cluster is at level {needs}, and the build of node {node} speaks up to {has}: it needs a newer one"
            ),
            Self::UnknownNode(node) => write!(f, "unknown node: the cluster has no node {node}"),
            Self::EarlierLife { node, known } => write!(
                f,
                "node {node} is known to have started {known} times: its folder is an old copy, or it runs twice"
            ),
            Self::Other(why) => write!(f, "{why}"),
        }
    }
}

/// The reason why a handshake ended without a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failed {
    /// This side refused. The bytes left to send tell the other one.
    Refused(Refusal),
    /// The other side refused, in its words.
    ByPeer(String),
    /// The other side does not speak this protocol.
    Malformed(Malformed),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "{why}"),
            Self::ByPeer(why) => write!(f, "the other node says: {why}"),
            Self::Malformed(what) => write!(f, "not a handshake: {what}"),
        }
    }
}

impl std::error::Error for Failed {}

impl From<Malformed> for Failed {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

impl From<Refusal> for Failed {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

mod step {
    pub const HELLO: u8 = 1;
    pub const CHALLENGE: u8 = 2;
    pub const PROOF: u8 = 3;
    pub const WELCOME: u8 = 4;
    pub const REFUSED: u8 = 5;
}

/// The content of hello and challenge.
struct Greeting {
    versions: (u16, u16),
    party: Party,
}

fn put_greeting(out: &mut Vec<u8>, me: &Party, nonce: &Nonce) {
    out.extend_from_slice(&VERSIONS.0.to_le_bytes());
    out.extend_from_slice(&VERSIONS.1.to_le_bytes());
    out.push(u8::from(me.cluster.is_some()));
    me.cluster.unwrap_or_default().put(out);
    me.node.put(out);
    out.extend_from_slice(&me.incarnation.to_le_bytes());
    out.extend_from_slice(nonce);
}

fn greeting(from: &mut Reader<'_>) -> Result<Greeting, Malformed> {
    let versions = (from.u16()?, from.u16()?);
    let (belongs, cluster) = (from.flag()?, ClusterId::read(from)?);
    let party = Party { cluster: belongs.then_some(cluster), node: NodeId::read(from)?, incarnation: from.u64()? };
    from.array::<32>()?;
    Ok(Greeting { versions, party })
}

fn common_version(theirs: (u16, u16)) -> Result<u16, Refusal> {
    let version = VERSIONS.1.min(theirs.1);
    let lowest = VERSIONS.0.max(theirs.0);
    if version < lowest { Err(Refusal::NoCommonVersion { ours: VERSIONS, theirs }) } else { Ok(version) }
}

/// Checks that the two may have a connection for `role`: commands are for members of one cluster, and two clusters have
/// nothing to say to each other. A node without a cluster may ask to join one.
fn same_cluster(me: &Party, peer: &Party, role: Role) -> Result<(), Refusal> {
    let fits = match (me.cluster, peer.cluster) {
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => role == Role::Control,
    };
    if fits { Ok(()) } else { Err(Refusal::AnotherCluster { ours: me.cluster, theirs: peer.cluster }) }
}

/// The proof of one side: that it knows the secret, in this very conversation.
fn mac(secret: &[u8], side: &[u8], hello: &[u8], challenge: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(side);
    mac.update(&(hello.len() as u64).to_le_bytes());
    mac.update(hello);
    mac.update(challenge);
    mac
}

const INITIATOR: &[u8] = b"holdfast bus: initiator";
const ACCEPTOR: &[u8] = b"holdfast bus: acceptor";

fn send(out: &mut Vec<u8>, step: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let at = begin(out);
    let body = out.len();
    out.push(step);
    write(out);
    finish(out, at, Kind::Handshake);
    out[body..].to_vec()
}

/// Leaves in `out` that the other side is refused, and the reason.
pub(crate) fn refuse(out: &mut Vec<u8>, why: &Refusal) {
    let text = why.to_string();
    let end = text.floor_char_boundary(REASON_MAX);
    send(out, step::REFUSED, |out| put_bytes(out, &text.as_bytes()[..end]));
}

fn refused(from: &mut Reader<'_>) -> Failed {
    match from.text(REASON_MAX) {
        Ok(why) => Failed::ByPeer(why.to_owned()),
        Err(malformed) => Failed::Malformed(malformed),
    }
}

/// The side that has opened the connection.
pub struct Initiator<'a> {
    me: Party,
    secret: &'a [u8],
    role: Role,
    hello: Vec<u8>,
    challenge: Option<(Vec<u8>, Greeting)>,
}

impl<'a> Initiator<'a> {
    /// Begins: leaves the first frame in `out`.
    pub fn new(me: Party, secret: &'a [u8], role: Role, nonce: &Nonce, out: &mut Vec<u8>) -> Self {
        let hello = send(out, step::HELLO, |out| {
            out.extend_from_slice(MAGIC);
            out.push(role as u8);
            put_greeting(out, &me, nonce);
        });
        Self { me, secret, role, hello, challenge: None }
    }

    /// Takes the body of the next frame; may leave one in `out`. Gives the peer when all is said.
    ///
    /// # Errors
    /// There is no connection: one of the two refuses, or the body is no step of a handshake.
    pub fn step(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Option<Peer>, Failed> {
        let mut from = Reader::new(body);
        match (from.u8()?, &self.challenge) {
            (step::REFUSED, _) => Err(refused(&mut from)),
            (step::CHALLENGE, None) => {
                let greeting = greeting(&mut from)?;
                from.end()?;
                let proof = mac(self.secret, INITIATOR, &self.hello, body).finalize().into_bytes();
                send(out, step::PROOF, |out| out.extend_from_slice(&proof));
                self.challenge = Some((body.to_vec(), greeting));
                Ok(None)
            }
            (step::WELCOME, Some((challenge, greeting))) => {
                let version = from.u16()?;
                let proof = from.array::<32>()?;
                from.end()?;
                let expected = mac(self.secret, ACCEPTOR, &self.hello, challenge);
                expected.verify_slice(&proof).map_err(|_| Refusal::WrongSecret)?;
                if version != common_version(greeting.versions)? {
                    return Err(Malformed("the highest common version").into());
                }
                same_cluster(&self.me, &greeting.party, self.role)?;
                let highest = greeting.versions.1;
                Ok(Some(Peer { party: greeting.party, role: self.role, version, highest }))
            }
            _ => Err(Malformed("the next step of a handshake").into()),
        }
    }
}

/// The side that has taken the connection.
pub struct Acceptor<'a> {
    me: Party,
    secret: &'a [u8],
    nonce: Nonce,
    asked: Option<Asked>,
}

/// The initiator's request.
struct Asked {
    hello: Vec<u8>,
    challenge: Vec<u8>,
    peer: Peer,
}

impl<'a> Acceptor<'a> {
    /// Waits for the first frame.
    pub fn new(me: Party, secret: &'a [u8], nonce: Nonce) -> Self {
        Self { me, secret, nonce, asked: None }
    }

    /// Takes the body of the next frame; leaves the bytes to send in `out`, also if it fails. `judge` decides about a
    /// side that has proved the secret. Returns the peer at the end.
    ///
    /// # Errors
    ///
    /// There is no connection: one of the two refuses, or the body is no step of a handshake.
    pub fn step(
        &mut self,
        body: &[u8],
        judge: impl FnOnce(&Peer) -> Result<(), Refusal>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Failed> {
        let stepped = self.take(body, judge, out);
        if let Err(Failed::Refused(why)) = &stepped {
            refuse(out, why);
        }
        stepped
    }

    fn take(
        &mut self,
        body: &[u8],
        judge: impl FnOnce(&Peer) -> Result<(), Refusal>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Failed> {
        let mut from = Reader::new(body);
        match (from.u8()?, &self.asked) {
            (step::HELLO, None) => {
                if from.array()? != *MAGIC {
                    return Err(Malformed("a node of holdfast").into());
                }
                let role = match from.u8()? {
                    1 => Role::Control,
                    2 => Role::Data,
                    3 => Role::Log,
                    4 => Role::Store,
                    _ => return Err(Malformed("a role").into()),
                };
                let greeting = greeting(&mut from)?;
                from.end()?;
                let version = common_version(greeting.versions)?;
                let challenge = send(out, step::CHALLENGE, |out| put_greeting(out, &self.me, &self.nonce));
                let highest = greeting.versions.1;
                let peer = Peer { party: greeting.party, role, version, highest };
                self.asked = Some(Asked { hello: body.to_vec(), challenge, peer });
                Ok(None)
            }
            (step::PROOF, Some(asked)) => {
                let proof = from.array::<32>()?;
                from.end()?;
                let expected = mac(self.secret, INITIATOR, &asked.hello, &asked.challenge);
                expected.verify_slice(&proof).map_err(|_| Refusal::WrongSecret)?;
                same_cluster(&self.me, &asked.peer.party, asked.peer.role)?;
                judge(&asked.peer)?;
                let proof = mac(self.secret, ACCEPTOR, &asked.hello, &asked.challenge).finalize().into_bytes();
                send(out, step::WELCOME, |out| {
                    out.extend_from_slice(&asked.peer.version.to_le_bytes());
                    out.extend_from_slice(&proof);
                });
                Ok(Some(asked.peer))
            }
            _ => Err(Malformed("the next step of a handshake").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::read;

    fn party(cluster: Option<u8>, node: u8) -> Party {
        Party { cluster: cluster.map(|c| ClusterId([c; 20])), node: NodeId([node; 20]), incarnation: 3 }
    }

    type Ended = Result<Peer, Failed>;

    /// Lets two sides speak until both know.
    fn converse(a: (Party, &[u8]), b: (Party, &[u8]), role: Role, judged: Result<(), Refusal>) -> (Ended, Ended) {
        let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
        let mut initiator = Initiator::new(a.0, a.1, role, &[1; 32], &mut to_b);
        let mut acceptor = Acceptor::new(b.0, b.1, [2; 32]);
        let (mut at_a, mut at_b) = (None, None);
        for _ in 0..4 {
            for frame in [std::mem::take(&mut to_b)].iter().filter(|bytes| !bytes.is_empty()) {
                let body = read(frame).unwrap().unwrap().body;
                at_b = acceptor.step(body, |_| judged.clone(), &mut to_a).transpose().or(at_b);
            }
            for frame in [std::mem::take(&mut to_a)].iter().filter(|bytes| !bytes.is_empty()) {
                let body = read(frame).unwrap().unwrap().body;
                at_a = initiator.step(body, &mut to_b).transpose().or(at_a);
            }
        }
        (at_a.unwrap(), at_b.unwrap())
    }

    #[test]
    fn two_of_one_cluster_come_to_speak() {
        for role in [Role::Control, Role::Data, Role::Log, Role::Store] {
            let (a, b) = (party(Some(7), 1), party(Some(7), 2));
            let (at_a, at_b) = converse((a, b"secret"), (b, b"secret"), role, Ok(()));
            assert_eq!(at_a, Ok(Peer { party: b, role, version: level::HIGHEST, highest: level::HIGHEST }));
            assert_eq!(at_b, Ok(Peer { party: a, role, version: level::HIGHEST, highest: level::HIGHEST }));
        }
    }

    #[test]
    fn who_belongs_to_no_cluster_may_ask_but_carries_no_commands() {
        let (a, b) = (party(None, 1), party(Some(7), 2));
        let (at_a, at_b) = converse((a, b""), (b, b""), Role::Control, Ok(()));
        assert!(at_a.is_ok() && at_b.is_ok());
        let (at_a, at_b) = converse((a, b""), (b, b""), Role::Data, Ok(()));
        let why = Refusal::AnotherCluster { ours: b.cluster, theirs: None };
        assert_eq!(at_b, Err(Failed::Refused(why.clone())));
        assert_eq!(at_a, Err(Failed::ByPeer(why.to_string())));
    }

    #[test]
    fn refusals_are_told_in_words() {
        let (a, b) = (party(Some(7), 1), party(Some(8), 2));
        let (at_a, at_b) = converse((a, b"secret"), (b, b"another"), Role::Control, Ok(()));
        assert_eq!(at_b, Err(Failed::Refused(Refusal::WrongSecret)));
        assert_eq!(at_a.unwrap_err().to_string(), format!("the other node says: {}", Refusal::WrongSecret));
        let (at_a, _) = converse((a, b"secret"), (b, b"secret"), Role::Control, Ok(()));
        assert!(at_a.unwrap_err().to_string().contains("another cluster: this node belongs to 0808"));
        let unknown = Refusal::UnknownNode(a.node);
        let (at_a, at_b) = converse((a, b""), (party(Some(7), 2), b""), Role::Data, Err(unknown.clone()));
        assert_eq!(at_b, Err(Failed::Refused(unknown)));
        assert!(at_a.unwrap_err().to_string().contains("unknown node"));
        let (highest, above) = (level::HIGHEST, level::HIGHEST + 1);
        assert_eq!(
            common_version((above, above + 1)).unwrap_err().to_string(),
            format!("no common protocol version: this node speaks 8 to {highest}, the other {above} to {}", above + 1)
        );
    }

    #[test]
    fn a_build_without_levels_is_spoken_with_until_the_cluster_leaves_it_behind() {
        assert_eq!(common_version((5, level::FIRST)), Ok(level::FIRST));
        let (a, b) = (party(Some(7), 1), party(Some(7), 2));
        let low = Refusal::LowLevel { node: a.node, needs: 10, has: 9 };
        let (at_a, at_b) = converse((a, b""), (b, b""), Role::Control, Err(low.clone()));
        assert_eq!(at_b, Err(Failed::Refused(low)));
        assert!(at_a.unwrap_err().to_string().contains("the cluster is at level 10, and the build of node 0101"));
    }

    #[test]
    fn a_proof_is_of_one_conversation() {
        let (a, b) = (party(Some(7), 1), party(Some(7), 2));
        let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
        let mut initiator = Initiator::new(a, b"secret", Role::Data, &[1; 32], &mut to_b);
        let hello = read(&to_b).unwrap().unwrap().body.to_vec();
        let mut acceptor = Acceptor::new(b, b"secret", [2; 32]);
        acceptor.step(&hello, |_| Ok(()), &mut to_a).unwrap();
        let mut proof = Vec::new();
        initiator.step(read(&to_a).unwrap().unwrap().body, &mut proof).unwrap();
        let proof = read(&proof).unwrap().unwrap().body.to_vec();
        let mut later = Acceptor::new(b, b"secret", [3; 32]);
        let mut out = Vec::new();
        later.step(&hello, |_| Ok(()), &mut out).unwrap();
        assert_eq!(later.step(&proof, |_| Ok(()), &mut out), Err(Failed::Refused(Refusal::WrongSecret)));
        assert!(acceptor.step(&proof, |_| Ok(()), &mut out).unwrap().is_some());
    }

    #[test]
    fn golden_bytes() {
        let mut out = Vec::new();
        Initiator::new(party(Some(7), 1), b"", Role::Data, &[5; 32], &mut out);
        let body = read(&out).unwrap().unwrap().body;
        let (start, highest) = (&b"\x01HOLDBUS1\x02\x08\0"[..], level::HIGHEST.to_le_bytes());
        let golden = [start, &highest, b"\x01", &[7; 20], &[1; 20], b"\x03\0\0\0\0\0\0\0", &[5; 32]];
        assert_eq!(body, golden.concat());
    }

    /// A fault that a step suffers on its way.
    #[derive(Clone, Debug)]
    enum Damage {
        /// Cut, as far as it is so long.
        Cut(usize),
        /// More behind it.
        Longer(Vec<u8>),
        /// A byte is another, counted round and round.
        Byte(usize, u8),
        /// Nothing of it is left.
        Replaced(Vec<u8>),
    }

    fn damage() -> impl Strategy<Value = Damage> {
        let bytes = || prop::collection::vec(any::<u8>(), 1..120);
        prop_oneof![
            (0usize..120).prop_map(Damage::Cut),
            bytes().prop_map(Damage::Longer),
            (any::<usize>(), 1u8..).prop_map(|(at, with)| Damage::Byte(at, with)),
            bytes().prop_map(Damage::Replaced),
        ]
    }

    fn damaged(body: &[u8], damage: &Damage) -> Vec<u8> {
        let mut body = body.to_vec();
        match damage {
            Damage::Cut(length) => body.truncate(*length),
            Damage::Longer(more) => body.extend(more),
            Damage::Byte(at, with) => {
                let at = at % body.len();
                body[at] ^= with;
            }
            Damage::Replaced(with) => body.clone_from(with),
        }
        body
    }

    proptest! {
        /// Each step of a conversation may arrive damaged. Neither side panics, and the one that got damaged bytes has
        /// no peer.
        #[test]
        fn no_damage_panics_or_is_believed(
            damages in prop::collection::vec(prop::option::of(damage()), 4),
            secret in prop::sample::select(vec![&b""[..], b"secret"]),
        ) {
            let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
            let mut initiator = Initiator::new(party(Some(7), 1), secret, Role::Data, &[1; 32], &mut to_b);
            let mut acceptor = Acceptor::new(party(Some(7), 2), secret, [2; 32]);
            let mut is_whole = true;
            let mut sent = std::mem::take(&mut to_b);
            for (turn, damage) in damages.iter().enumerate() {
                let Some(frame) = read(&sent).unwrap() else { break };
                let body = damage.as_ref().map_or_else(|| frame.body.to_vec(), |damage| damaged(frame.body, damage));
                is_whole &= body == frame.body;
                let (peer, out) = match turn % 2 {
                    0 => (acceptor.step(&body, |_| Ok(()), &mut to_a), &mut to_a),
                    _ => (initiator.step(&body, &mut to_b), &mut to_b),
                };
                prop_assert!(is_whole || !matches!(peer, Ok(Some(_))), "step {turn}: {damage:?}");
                prop_assert!(!is_whole || peer.is_ok());
                prop_assert!(turn < 2 || !is_whole || matches!(peer, Ok(Some(_))));
                sent = std::mem::take(out);
            }
        }
    }
}

//! The network between the nodes: links, each of which keeps its bytes in order, as TCP does. Bytes under way take
//! time, are held up while the nodes do not reach each other, and may be lost with their link. No byte comes twice. A
//! message of a transaction may, because its sender repeats it when it hears nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use membership::frame::{self, HEADER, Kind};
use node::Token;
use redolog::simulated::Chance;
use txn::Message;

use super::agenda::Time;

/// One end of a link: node, worker, the worker's name for it.
pub type End = (usize, usize, Token);

/// Bytes before a message in the body of its frame: the sender.
const SPEAKER: usize = 16;

/// The bytes under way.
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The end of the link.
    End,
}

/// One direction.
#[derive(Default)]
struct Pipe {
    pieces: VecDeque<(Time, Piece)>,
    /// When the last of them arrives.
    last: Time,
    /// Nothing more is sent.
    has_ended: bool,
    /// It waits until the nodes reach each other.
    is_stalled: bool,
    /// Frames that will come once more.
    echo: Vec<u8>,
    /// The beginning of a frame whose end has not been sent.
    begun: Vec<u8>,
}

struct Wire {
    ends: [Option<End>; 2],
    /// By the end that sends.
    pipes: [Pipe; 2],
    nodes: [usize; 2],
}

/// See the module's text.
#[derive(Default)]
pub struct Network {
    links: BTreeMap<u64, Wire>,
    ends: BTreeMap<End, (u64, usize)>,
    next: u64,
    /// Which nodes do not reach each other.
    pub blocked: BTreeSet<(usize, usize)>,
    /// Between whom it takes longer, by so many microseconds.
    pub slow: BTreeMap<(usize, usize), Time>,
    /// One message of a transaction in so many comes twice; 0: none.
    echoes: u64,
    /// A planted mistake: a transaction that its coordinator calls finished is not finished (rule T5).
    forges_finished: bool,
    /// Messages that came twice.
    pub echoed: u64,
}

impl Network {
    /// Neither end has sent anything yet.
    pub fn new(echoes: u64, forges_finished: bool) -> Self {
        Self { echoes, forges_finished, ..Self::default() }
    }

    /// How long it takes from one node to another, microseconds.
    pub fn latency(&self, from: usize, to: usize, chance: &mut Chance) -> Time {
        let slow = self.slow.get(&(from, to)).copied().unwrap_or(0);
        let jitter = if chance.below(40) == 0 { 5_000 } else { 300 };
        slow + 40 + chance.below(jitter)
    }

    /// True if one reaches the other and is answered.
    pub fn reach(&self, a: usize, b: usize) -> bool {
        a == b || !self.blocked.contains(&(a, b)) && !self.blocked.contains(&(b, a))
    }

    /// A link whose first end is there, of these nodes.
    pub fn open(&mut self, from: End, to: End) -> u64 {
        let link = self.next;
        self.next += 1;
        let wire = Wire { ends: [Some(from), Some(to)], pipes: Default::default(), nodes: [from.0, to.0] };
        self.links.insert(link, wire);
        self.ends.insert(from, (link, 0));
        self.ends.insert(to, (link, 1));
        link
    }

    /// True if a worker's connection is an end of a link.
    pub fn is_end(&self, end: End) -> bool {
        self.ends.contains_key(&end)
    }

    /// Links by their numbers, and their nodes.
    pub fn links(&self) -> Vec<(u64, [usize; 2])> {
        self.links.iter().map(|(link, wire)| (*link, wire.nodes)).collect()
    }

    /// An end sends bytes. When they may arrive.
    pub fn send(&mut self, end: End, bytes: Vec<u8>, now: Time, chance: &mut Chance) -> Option<(Time, u64, usize)> {
        let &(link, side) = self.ends.get(&end)?;
        let [from, to] = self.nodes_of(link, side)?;
        let at = now + self.latency(from, to, chance);
        let (echoes, forges) = (self.echoes, self.forges_finished);
        let pipe = &mut self.links.get_mut(&link)?.pipes[side];
        if pipe.has_ended {
            return None;
        }
        let bytes = pipe.pass(bytes, (echoes, forges), &mut self.echoed, chance);
        Some((pipe.put(at, Piece::Bytes(bytes)), link, side))
    }

    /// The node to which this side of a link sends.
    pub fn target(&self, link: u64, side: usize) -> Option<usize> {
        self.nodes_of(link, side).map(|[_, to]| to)
    }

    fn nodes_of(&self, link: u64, side: usize) -> Option<[usize; 2]> {
        let nodes = self.links.get(&link)?.nodes;
        Some([nodes[side], nodes[1 - side]])
    }

    /// An end was closed by its node. When the other end may hear of it.
    pub fn close(&mut self, end: End, now: Time, chance: &mut Chance) -> Option<(Time, u64, usize)> {
        let (link, side) = self.ends.remove(&end)?;
        let [from, to] = self.nodes_of(link, side)?;
        let at = now + self.latency(from, to, chance);
        let wire = self.links.get_mut(&link)?;
        wire.ends[side] = None;
        wire.pipes[1 - side] = Pipe { has_ended: true, ..Pipe::default() };
        let pipe = &mut wire.pipes[side];
        if std::mem::replace(&mut pipe.has_ended, true) {
            self.forget(link);
            return None;
        }
        Some((pipe.put(at, Piece::End), link, side))
    }

    fn forget(&mut self, link: u64) {
        if self.links.get(&link).is_some_and(|wire| wire.ends == [None, None]) {
            self.links.remove(&link);
        }
    }

    /// The bytes of one side that have arrived by now, and where. After the end of a link there are none.
    pub fn arrive(&mut self, link: u64, side: usize, now: Time) -> Option<(End, Vec<Piece>)> {
        let [from, to] = self.nodes_of(link, side)?;
        let is_blocked = self.blocked.contains(&(from, to));
        let wire = self.links.get_mut(&link)?;
        let pipe = &mut wire.pipes[side];
        if is_blocked {
            pipe.is_stalled = true;
            return None;
        }
        let count = pipe.pieces.iter().take_while(|(at, _)| *at <= now).count();
        let pieces: Vec<Piece> = pipe.pieces.drain(..count).map(|(_, piece)| piece).collect();
        let end = wire.ends[1 - side]?;
        if pieces.iter().any(|piece| matches!(piece, Piece::End)) {
            wire.ends[1 - side] = None;
            wire.pipes[1 - side].has_ended = true;
            self.ends.remove(&end);
            self.forget(link);
        }
        Some((end, pieces))
    }

    /// A link breaks. Each end gets a prefix of the bytes under way to it, and learns of the break within this many
    /// microseconds. Returns when bytes may arrive, by side.
    pub fn cut(&mut self, link: u64, within: Time, now: Time, chance: &mut Chance) -> Vec<(Time, u64, usize)> {
        let Some(wire) = self.links.get_mut(&link) else { return Vec::new() };
        let mut arrivals = Vec::new();
        for (side, pipe) in wire.pipes.iter_mut().enumerate() {
            if !std::mem::replace(&mut pipe.has_ended, true) {
                pipe.shorten(chance);
                arrivals.push((pipe.put(now + 1 + chance.below(within), Piece::End), link, side));
            }
        }
        arrivals
    }

    /// A node is off: no bytes reach it any more. The other nodes learn within this many microseconds that its links
    /// have ended.
    pub fn off(&mut self, node: usize, within: Time, now: Time, chance: &mut Chance) -> Vec<(Time, u64, usize)> {
        let mut arrivals = Vec::new();
        for (link, wire) in &mut self.links {
            for side in 0..2 {
                let Some(end) = wire.ends[side].filter(|end| end.0 == node) else { continue };
                self.ends.remove(&end);
                wire.ends[side] = None;
                wire.pipes[1 - side] = Pipe { has_ended: true, ..Pipe::default() };
                let pipe = &mut wire.pipes[side];
                if !std::mem::replace(&mut pipe.has_ended, true) {
                    pipe.shorten(chance);
                    arrivals.push((pipe.put(now + 1 + chance.below(within), Piece::End), *link, side));
                }
            }
        }
        self.links.retain(|_, wire| wire.ends != [None, None]);
        arrivals
    }

    /// All nodes reach each other again. Returns the bytes that were held up, as the sides of links.
    pub fn heal(&mut self) -> Vec<(u64, usize)> {
        self.blocked.clear();
        let mut stalled = Vec::new();
        for (link, wire) in &mut self.links {
            for (side, pipe) in wire.pipes.iter_mut().enumerate() {
                if std::mem::take(&mut pipe.is_stalled) {
                    stalled.push((*link, side));
                }
            }
        }
        stalled
    }
}

impl Pipe {
    /// Sends bytes that arrive at this time, or together with those before them. Returns when.
    fn put(&mut self, at: Time, piece: Piece) -> Time {
        self.last = self.last.max(at);
        self.pieces.push_back((self.last, piece));
        self.last
    }

    /// Only a prefix of the bytes under way arrives.
    fn shorten(&mut self, chance: &mut Chance) {
        let keep = chance.below(self.pieces.len() as u64 + 1) as usize;
        self.pieces.truncate(keep);
        if let Some((_, Piece::Bytes(bytes))) = self.pieces.back_mut() {
            bytes.truncate(chance.below(bytes.len() as u64 + 1) as usize);
        }
    }

    /// Passes on the bytes that an end sends.
    fn pass(
        &mut self,
        bytes: Vec<u8>,
        (echoes, forges): (u64, bool),
        echoed: &mut u64,
        chance: &mut Chance,
    ) -> Vec<u8> {
        if echoes == 0 && !forges {
            return bytes;
        }
        let mut out = std::mem::take(&mut self.echo);
        self.begun.extend_from_slice(&bytes);
        let all = std::mem::take(&mut self.begun);
        let mut rest = &all[..];
        while let Ok(Some(read)) = frame::read(rest) {
            let said = &rest[..read.size];
            rest = &rest[read.size..];
            if read.kind != Kind::Transactions {
                out.extend_from_slice(said);
                continue;
            }
            match forges.then(|| forged(read.body)).flatten() {
                Some(other) => out.extend_from_slice(&other),
                None => out.extend_from_slice(said),
            }
            if echoes > 0 && chance.below(echoes) == 0 {
                *echoed += 1;
                if chance.below(2) == 0 { out.extend_from_slice(said) } else { self.echo.extend_from_slice(said) }
            }
        }
        self.begun.extend_from_slice(rest);
        out
    }
}

/// A frame with the message of this body, in which all transactions of its coordinator are called finished.
fn forged(body: &[u8]) -> Option<Vec<u8>> {
    let (speaker, message) = body.split_at_checked(SPEAKER)?;
    let message = match Message::decode(message).ok()? {
        Message::Commit { tx, .. } => Message::Commit { tx, finished: tx.sequence + 1 },
        _ => return None,
    };
    let mut out = Vec::with_capacity(HEADER + body.len() + 8);
    let at = frame::begin(&mut out);
    out.extend_from_slice(speaker);
    message.encode(&mut out);
    frame::finish(&mut out, at, Kind::Transactions);
    Some(out)
}

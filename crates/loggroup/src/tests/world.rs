//! Three acceptors over real folders on simulated disks, their owners, and a network that loses, delays and repeats.

use std::collections::{BTreeMap, BTreeSet};

use quorum::{
    Acceptor, AcceptorId, Block, BlockId, Cut, Done, Event, History, Keep, Limits as OwnerLimits, Op, Output, Owner,
    Reply, Report, Request, StreamId,
};
use redolog::simulated::{Chance, Simulated};
use redolog::{Lsn, Replica};

use super::made::{LIMITS, SHARD, body, lsn, term};
use crate::folder::{Promise, check};
use crate::local::{Came, Departed, Task, carry_out, read};
use crate::{Folder, Place};

/// A mistake of a disk's side, made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    None,
    /// P2: a promise is told before it is on the disk.
    PromiseNotSynced,
    /// P5: a folder that was wiped is taken for the acceptor that it was.
    Amnesia,
    /// P26: a write is told while it is under way.
    TellsInFlight,
    /// P35: a start tells what the page cache alone has.
    StartsUnsynced,
    /// The folder keeps blocks that a new life drops.
    DropsNothing,
}

/// How often each fault may happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub plant: Plant,
    pub streams: u16,
    pub terms: u32,
    pub writes: u32,
    pub through: bool,
    pub restarts: u32,
    pub powers: u32,
    pub wipes: u32,
    pub lossy: bool,
}

enum Packet {
    To(usize, Request),
    From(usize, Reply),
}

/// A process of an acceptor.
struct Live {
    acceptor: Acceptor,
    promise: Promise<Simulated>,
    hands: Vec<Replica<Simulated>>,
    ops: Vec<Op>,
    /// Writes that have departed, and whether they were told already.
    flights: Vec<(u16, Departed<Simulated>, bool)>,
}

struct Node {
    id: AcceptorId,
    own: Simulated,
    streams: Vec<Simulated>,
    live: Option<Live>,
    is_gone: bool,
}

struct Host {
    owner: Owner,
    leads: bool,
    bases: Vec<Lsn>,
    replayed: Vec<Vec<Block>>,
    marks: Vec<u64>,
    writes: u32,
}

pub struct World {
    plan: Plan,
    nodes: Vec<Node>,
    hosts: Vec<Host>,
    network: Vec<Packet>,
    chance: Chance,
    clock: u64,
    restarts: u32,
    powers: u32,
    wipes: u32,
    /// The acceptors that the newest owner has to connect to anew: messages were lost.
    cut_off: BTreeSet<usize>,
    /// All blocks that owners made, each with the one before it.
    made: BTreeMap<(StreamId, BlockId), (BlockId, Block)>,
    committed: BTreeMap<(StreamId, u64), BlockId>,
    pub broken: Option<String>,
    pub led: usize,
}

/// Replies of one connection come in order, and those of an earlier one not at all. So no answer to a seal says less than
/// the owner has heard before.
fn is_stale(owner: &Owner, from: AcceptorId, reply: &Reply) -> bool {
    let Report::Sealed { histories } = &reply.report else { return false };
    let mut known = owner.lags().filter(|lag| lag.acceptor == from);
    known.any(|lag| {
        let last = owner.history(lag.stream).map_or(0, |history| history.last().sequence);
        let answer = histories.get(usize::from(lag.stream.0)).map_or(0, |history| history.last().sequence);
        answer < last.saturating_sub(lag.blocks)
    })
}

fn stream_ids(count: u16) -> impl Iterator<Item = StreamId> {
    (0..count).map(StreamId)
}

impl World {
    pub fn new(plan: Plan, seed: u64) -> Self {
        let nodes = (0..3u8).map(|at| Node {
            id: AcceptorId([at + 1; 16]),
            own: Simulated::default(),
            streams: Vec::new(),
            live: None,
            is_gone: false,
        });
        let mut world = Self {
            plan,
            nodes: nodes.collect(),
            hosts: Vec::new(),
            network: Vec::new(),
            chance: Chance(seed),
            clock: 1,
            restarts: plan.restarts,
            powers: plan.powers,
            wipes: plan.wipes,
            cut_off: BTreeSet::new(),
            made: BTreeMap::new(),
            committed: BTreeMap::new(),
            broken: None,
            led: 0,
        };
        for at in 0..3 {
            world.make(at);
            world.start(at);
        }
        world
    }

    fn break_on(&mut self, why: impl Into<String>) {
        self.broken.get_or_insert(why.into());
    }

    fn place(&self, at: usize) -> Place<Simulated> {
        Place { own: self.nodes[at].own.clone(), streams: self.nodes[at].streams.clone(), locks: Vec::new() }
    }

    fn make(&mut self, at: usize) {
        self.nodes[at].own = Simulated::default();
        self.nodes[at].streams = (0..self.plan.streams).map(|_| Simulated::default()).collect();
        Folder::make(self.place(at), SHARD, self.nodes[at].id, LIMITS).unwrap_or_else(|why| panic!("{why}"));
    }

    fn start(&mut self, at: usize) {
        let opened = Folder::open(self.place(at), SHARD, LIMITS);
        let found = opened.and_then(|folder| Ok((folder.found()?, folder)));
        let (found, folder) = match found {
            Ok(found) => found,
            Err(why) => return self.break_on(format!("a folder does not open: {why}")),
        };
        for (found, stream) in found.iter().zip(stream_ids(self.plan.streams)) {
            self.check_chain(stream, &found.history);
        }
        let Folder { mut promise, streams: hands, .. } = folder;
        promise.lies = self.plan.plant == Plant::PromiseNotSynced;
        if self.plan.plant == Plant::StartsUnsynced {
            self.nodes[at].streams.iter().for_each(Simulated::forget_to_sync);
        }
        let mut out = Vec::new();
        let acceptor = Acceptor::open(SHARD, promise.term(), found, &mut out);
        self.nodes[at].live = Some(Live { acceptor, promise, hands, ops: Vec::new(), flights: Vec::new() });
        self.outputs(at, out);
    }

    /// Names that follow one another do so in the logs of owners, too.
    fn check_chain(&mut self, stream: StreamId, history: &History) {
        for sequence in history.base().id.sequence + 1..=history.last().sequence {
            let (Some(before), Some(id)) = (history.at(sequence - 1), history.at(sequence)) else { continue };
            if self.made.get(&(stream, id)).is_none_or(|(known, _)| *known != before) {
                self.break_on("a folder has a chain that never was");
            }
        }
    }

    fn outputs(&mut self, at: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Reply(reply) => self.network.push(Packet::From(at, reply)),
                Output::Disk(op) => self.nodes[at].live.iter_mut().for_each(|live| live.ops.push(op.clone())),
            }
        }
    }

    fn done(&mut self, at: usize, done: Done) {
        let mut out = Vec::new();
        if let Some(live) = &mut self.nodes[at].live {
            live.acceptor.done(done, &mut out);
        }
        self.outputs(at, out);
    }

    /// The disk takes the next operation of some stream, or of the promise.
    fn operate(&mut self, at: usize) {
        let Some(live) = &mut self.nodes[at].live else { return };
        if live.ops.is_empty() {
            return;
        }
        // Operations of one stream keep their order.
        let of = |op: &Op| match op {
            Op::Promise(_) => None,
            Op::Write { stream, .. } | Op::Sync { stream, .. } | Op::Begin { stream, .. } => Some(*stream),
            Op::Read { stream, .. } | Op::Cut { stream, .. } => Some(*stream),
        };
        let chosen = self.chance.below(live.ops.len() as u64) as usize;
        let which = of(&live.ops[chosen]);
        let first = live.ops.iter().position(|op| of(op) == which).unwrap_or(chosen);
        let op = live.ops.remove(first);
        match self.carry_out(at, &op) {
            Ok(Some(done)) => self.done(at, done),
            Ok(None) => {}
            Err(_) if self.is_dead(at) => self.power_fails(at),
            Err(error) => self.break_on(format!("an operation failed: {error}")),
        }
    }

    fn is_dead(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        node.own.is_dead() || node.streams.iter().any(Simulated::is_dead)
    }

    fn carry_out(&mut self, at: usize, op: &Op) -> std::io::Result<Option<Done>> {
        let plant = self.plan.plant;
        let streams = self.nodes[at].streams.clone();
        let Some(live) = &mut self.nodes[at].live else { return Ok(None) };
        let (stream, task) = match op.clone() {
            Op::Promise(term) => {
                live.promise.put(term)?;
                return Ok(Some(Done::Promised(term)));
            }
            Op::Read { stream, term, from, upto } => {
                let mut reader = live.hands[usize::from(stream.0)].reader();
                return read(&mut reader, (SHARD, stream), (term, from, upto)).map(Some);
            }
            Op::Cut { .. } => return Ok(None),
            Op::Write { stream, life, through, block } => (stream, Task::Write { life, through, block }),
            Op::Sync { stream, life, upto } => (stream, Task::Sync { life, upto }),
            Op::Begin { stream, life, keep } => {
                let last = live.acceptor.history(stream).map_or(BlockId::default(), History::last);
                (stream, Task::Begin { life, keep, last })
            }
        };
        let hand = &mut live.hands[usize::from(stream.0)];
        let task = match task {
            Task::Begin { life, keep: Keep::UpTo(_), .. } if plant == Plant::DropsNothing => {
                let name = hand.last().0;
                let last = BlockId { term: term(name.term), sequence: name.sequence };
                Task::Begin { life, keep: Keep::UpTo(last.sequence), last }
            }
            task => task,
        };
        match carry_out(hand, (SHARD, stream), &task)? {
            Came::Done(done) => {
                if matches!(task, Task::Begin { .. }) && plant == Plant::StartsUnsynced {
                    streams[usize::from(stream.0)].sync_again();
                }
                Ok(Some(done))
            }
            Came::Departed(departed) => {
                let (life, sequence) = (departed.life, departed.sequence);
                if plant == Plant::TellsInFlight {
                    departed.flight.begin()?;
                    live.flights.push((stream.0, departed, true));
                    return Ok(Some(Done::Written { stream, life, sequence }));
                }
                live.flights.push((stream.0, departed, false));
                Ok(None)
            }
            Came::Later => {
                live.ops.insert(0, op.clone());
                Ok(None)
            }
        }
    }

    /// A write returns.
    fn land(&mut self, at: usize) {
        let Some(live) = &mut self.nodes[at].live else { return };
        if live.flights.is_empty() {
            return;
        }
        let which = self.chance.below(live.flights.len() as u64) as usize;
        let (stream, departed, was_told) = live.flights.swap_remove(which);
        let Departed { flight, life, sequence } = departed;
        let written = flight.write();
        live.hands[usize::from(stream)].land(flight);
        match written {
            Ok(()) if was_told => {}
            Ok(()) => self.done(at, Done::Written { stream: StreamId(stream), life, sequence }),
            Err(_) => self.power_fails(at),
        }
    }

    fn power_fails(&mut self, at: usize) {
        self.cut_off.insert(at);
        // Writes under way are there in part.
        if let Some(live) = self.nodes[at].live.take() {
            for (_, departed, _) in &live.flights {
                if self.chance.below(2) == 0 {
                    let _ = departed.flight.begin();
                }
            }
        }
        let Self { nodes, chance, .. } = self;
        nodes[at].own.crash(chance);
        nodes[at].streams.iter().for_each(|disk| disk.crash(chance));
        self.start(at);
    }

    fn restart(&mut self, at: usize) {
        self.cut_off.insert(at);
        if let Some(live) = self.nodes[at].live.take() {
            for (_, departed, _) in &live.flights {
                let _ = departed.flight.begin();
            }
        }
        self.nodes[at].streams.iter().chain([&self.nodes[at].own]).for_each(Simulated::kill);
        self.start(at);
    }

    /// A folder is gone. A new one has another name, so it is in no set (rule G9).
    fn wipe(&mut self, at: usize) {
        self.nodes[at].live = None;
        if self.plan.plant == Plant::Amnesia {
            self.make(at);
            return self.start(at);
        }
        self.nodes[at].is_gone = true;
    }

    fn give_term(&mut self) {
        self.cut_off.clear();
        let given = self.hosts.len() as u32 + 1;
        let mut out = Vec::new();
        let limits =
            OwnerLimits { window_blocks: 3, read_blocks: 3, through: self.plan.through, ..OwnerLimits::default() };
        let set = self.nodes.iter().map(|node| node.id).collect();
        let streams = usize::from(self.plan.streams);
        let known = vec![History::default(); streams];
        let owner = Owner::new((SHARD, term(given)), set, None, known, limits, &mut out);
        self.hosts.push(Host {
            owner,
            leads: false,
            bases: vec![Lsn(0); streams],
            replayed: vec![Vec::new(); streams],
            marks: vec![0; streams],
            writes: self.plan.writes,
        });
        self.events(given as usize - 1, out);
    }

    fn events(&mut self, host: usize, out: Vec<Event>) {
        for event in out {
            match event {
                Event::Send { to, request, .. } => {
                    if let Some(at) = self.nodes.iter().position(|node| node.id == to) {
                        self.network.push(Packet::To(at, request));
                    }
                }
                Event::Chosen => self.hosts[host].replayed.iter_mut().for_each(Vec::clear),
                Event::Replay { stream, block } => {
                    if self.made.get(&(stream, block.id)).is_none_or(|(_, known)| *known != block) {
                        self.break_on("a block is not what its owner made");
                    }
                    self.hosts[host].replayed[usize::from(stream.0)].push(block);
                }
                Event::Sealed { bases } => {
                    self.hosts[host].bases = bases.iter().map(|base| Lsn(base.cut.0)).collect();
                    self.begin(host);
                }
                Event::Leads => {
                    self.hosts[host].leads = true;
                    self.led += 1;
                    self.check_led(host);
                }
                Event::Synced { stream, id, .. } => self.commit(host, stream, id),
                _ => {}
            }
        }
    }

    fn begin(&mut self, host: usize) {
        let Host { replayed, bases, .. } = &self.hosts[host];
        let ends = replayed.iter().zip(bases).map(|(blocks, base)| blocks.last().map_or(*base, |last| Lsn(last.cut.0)));
        let cuts: Vec<Cut> = ends.map(|end| Cut(end.0)).collect();
        let mut out = Vec::new();
        if self.hosts[host].owner.begin(&cuts, &mut out).is_err() {
            return;
        }
        for (stream, cut) in stream_ids(self.plan.streams).zip(cuts) {
            let history = self.hosts[host].owner.history(stream).cloned().unwrap_or_default();
            let id = history.last();
            let before = history.at(id.sequence - 1).unwrap_or_default();
            let block = Block { id, cut, is_start: true, body: std::sync::Arc::default() };
            self.made.insert((stream, id), (before, block));
        }
        self.events(host, out);
    }

    fn check_led(&mut self, host: usize) {
        let owner = &self.hosts[host].owner;
        let lacks = self.committed.iter().any(|((stream, sequence), id)| {
            owner.history(*stream).is_none_or(|history| *sequence > history.base().id.sequence && !history.has(*id))
        });
        if lacks {
            self.break_on("something acknowledged is lost");
        }
    }

    fn commit(&mut self, host: usize, stream: StreamId, id: BlockId) {
        let history = self.hosts[host].owner.history(stream).cloned().unwrap_or_default();
        let mark = &mut self.hosts[host].marks[usize::from(stream.0)];
        let from = std::mem::replace(mark, id.sequence).max(history.base().id.sequence) + 1;
        for sequence in from..=id.sequence {
            let Some(id) = history.at(sequence) else { continue };
            if *self.committed.entry((stream, sequence)).or_insert(id) != id {
                self.break_on("two blocks are committed at one place");
            }
        }
        let later = self.hosts.iter().skip(host + 1).filter(|later| later.leads);
        if later.filter_map(|later| later.owner.history(stream)).any(|history| !history.has(id)) {
            self.break_on("something is acknowledged that a later term does not have");
        }
    }

    fn append(&mut self, host: usize) {
        let stream = StreamId(self.chance.below(self.plan.streams.into()) as u16);
        let Host { owner, leads, writes, .. } = &mut self.hosts[host];
        if !*leads || *writes == 0 {
            return;
        }
        *writes -= 1;
        self.clock += 1;
        let before = owner.history(stream).map_or(BlockId::default(), History::last);
        let id = BlockId { term: owner.term(), sequence: before.sequence + 1 };
        let cut = lsn(stream, self.clock);
        let long = vec![self.clock as u8; [3, 700, 3000][self.chance.below(3) as usize]];
        let body = body(stream, before, id, cut, &long);
        let block = Block { id, cut: Cut(cut.0), is_start: false, body: body.clone() };
        let mut out = Vec::new();
        if owner.append(stream, Cut(cut.0), body, &mut out).is_ok() {
            self.made.insert((stream, id), (before, block));
        }
        self.events(host, out);
    }

    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let which = self.chance.below(self.network.len() as u64) as usize;
        let packet = self.network.swap_remove(which);
        if self.plan.lossy && self.chance.below(20) == 0 {
            let (Packet::To(at, _) | Packet::From(at, _)) = packet;
            self.cut_off.insert(at);
            return;
        }
        match packet {
            Packet::To(at, request) => {
                if let quorum::Order::Append { stream, before, block, .. } = &request.order
                    && let Err(why) = check(SHARD, *stream, *before, block)
                {
                    return self.break_on(why.0);
                }
                let mut out = Vec::new();
                if let Some(live) = &mut self.nodes[at].live {
                    live.acceptor.request(request, &mut out);
                }
                self.outputs(at, out);
            }
            Packet::From(at, reply) => {
                let (id, of) = (self.nodes[at].id, reply.term.get() as usize);
                let mut out = Vec::new();
                let host = of.checked_sub(1).and_then(|host| self.hosts.get_mut(host));
                if let Some(host) = host.filter(|host| !is_stale(&host.owner, id, &reply)) {
                    host.owner.reply(id, reply, &mut out);
                    self.events(of - 1, out);
                }
            }
        }
    }

    fn reconnect(&mut self) {
        let Some(host) = self.newest() else { return };
        let at = self.chance.below(3) as usize;
        self.connect(host, at);
    }

    fn connect(&mut self, host: usize, at: usize) {
        if host + 1 == self.hosts.len() {
            self.cut_off.remove(&at);
        }
        let (id, mut out) = (self.nodes[at].id, Vec::new());
        self.hosts[host].owner.lost(id, &mut out);
        self.hosts[host].owner.connected(id, &mut out);
        self.events(host, out);
    }

    /// Mostly the newest term, sometimes one of before.
    fn newest(&mut self) -> Option<usize> {
        let count = self.hosts.len();
        let back = if self.chance.below(4) == 0 { self.chance.below(count.max(1) as u64) as usize } else { 0 };
        count.checked_sub(1 + back)
    }

    fn sync(&mut self) {
        if let Some(host) = self.newest() {
            self.sync_of(host);
        }
    }

    fn sync_of(&mut self, host: usize) {
        let mut out = Vec::new();
        for stream in stream_ids(self.plan.streams) {
            self.hosts[host].owner.sync(stream, &mut out);
        }
        self.events(host, out);
    }

    pub fn step(&mut self) {
        let at = self.chance.below(3) as usize;
        let is_gone = self.nodes[at].is_gone;
        match self.chance.below(200) {
            0..70 => self.deliver(),
            70..110 => self.operate(at),
            110..140 => self.land(at),
            140..160 => {
                if let Some(host) = self.newest() {
                    self.append(host);
                }
            }
            160..172 => self.sync(),
            172..184 => self.reconnect(),
            184..188 if (self.hosts.len() as u32) < self.plan.terms => self.give_term(),
            188..191 if self.restarts > 0 && !is_gone => {
                self.restarts -= 1;
                self.restart(at);
            }
            191..194 if self.powers > 0 && !is_gone => {
                self.powers -= 1;
                if self.chance.below(2) == 0 {
                    return self.power_fails(at);
                }
                // In the middle of a later operation.
                let (which, after) = (self.chance.below(4) as usize, self.chance.below(12));
                self.nodes[at].streams.get(which).unwrap_or(&self.nodes[at].own).fail_power_after(after);
            }
            194..196 if self.wipes > 0 && !is_gone => {
                self.wipes -= 1;
                self.wipe(at);
            }
            _ => {}
        }
    }

    /// No fault happens any more, and broken connections of the newest owner are made again. It leads, and every
    /// acceptor that is not gone has all of its log on the disk.
    pub fn calms(&mut self) {
        let host =
            self.hosts.len().checked_sub(1).filter(|_| self.nodes.iter().filter(|node| node.is_gone).count() < 2);
        let Some(host) = host.filter(|_| self.broken.is_none()) else { return };
        self.plan.lossy = false;
        // A disk may still lose its power in an operation.
        for _ in 0..8 {
            for at in std::mem::take(&mut self.cut_off) {
                self.connect(host, at);
            }
            self.come_to_rest();
            // Blocks that were sent behind an order are synced by the next one.
            self.sync_of(host);
            self.come_to_rest();
        }
        let Host { owner, leads, .. } = &self.hosts[host];
        let is_gone = |id: AcceptorId| self.nodes.iter().any(|node| node.id == id && node.is_gone);
        let lag = owner.lags().find(|lag| !is_gone(lag.acceptor) && (lag.blocks > 0 || !lag.answers));
        if !leads || lag.is_some() {
            self.break_on(format!("an acceptor does not come to the end of the log: {lag:?}"));
        }
    }

    fn come_to_rest(&mut self) {
        let works = |node: &Node| node.live.as_ref().is_some_and(|live| live.ops.len() + live.flights.len() > 0);
        for _ in 0..50_000 {
            if self.network.is_empty() && !self.nodes.iter().any(works) {
                return;
            }
            let at = self.chance.below(3) as usize;
            match self.chance.below(3) {
                0 => self.deliver(),
                1 => self.operate(at),
                _ => self.land(at),
            }
        }
        self.break_on("there is always something to do");
    }

    pub fn acknowledged(&self) -> usize {
        self.committed.len()
    }
}

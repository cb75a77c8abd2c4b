//! A shard with its acceptors, owners, disks and network, and what must hold whatever happens.

mod calm;
mod ghosts;
mod lines;
mod set_back;
mod standbys;
mod steps;

use std::collections::BTreeSet;

pub use self::ghosts::{Ghosts, Record, merge};
pub use self::lines::Lines;
pub use self::steps::{Kind, Step};
use super::folder::{Folder, Lies};
use crate::planted::{Mistake, Planted};
use crate::{
    Acceptor, AcceptorId, Base, Block, Cut, Event, History, Limits, Mark, Op, Order, Output, Owner, Reply, Report,
    Request, ShardId, Stage, StreamId, Term,
};

pub const SHARD: ShardId = ShardId(1);

/// A mistake that is made on purpose: inside of a machine, or in what surrounds the machines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plant {
    None,
    Inside(Mistake),
    /// P1: acceptors take appends of lower terms.
    TakesLowerTerms,
    /// P2: a promise is told before it is on the disk.
    PromiseNotSynced,
    /// P4: a shard is served as soon as it is sealed.
    ServesEarly,
    /// P5: a folder that was wiped is taken for the acceptor that it was.
    Amnesia,
    /// P21: a version that others see has no record.
    VersionsWithoutRecords,
    /// P23: a change of acceptors seals the new set only.
    SealsNewOnly,
    /// P31: a term is given to a second process.
    TermTwice,
    /// P34: every other owner acknowledges what a majority has written, and clients rely on what is on the disk.
    SettingsDiffer,
    /// P35: an acceptor that has started tells what the page cache alone has.
    StartsUnsynced,
}

/// The parts of a world, and how often each fault may happen.
#[derive(Clone, Debug)]
pub struct Plan {
    pub acceptors: usize,
    /// Acceptors that may come in.
    pub spare: usize,
    pub streams: usize,
    pub terms: u32,
    /// Records of each term.
    pub writes: u8,
    /// Blocks are written past the cache.
    pub through: bool,
    /// Writes take time. Otherwise they are done at once.
    pub slow_writes: bool,
    /// Promises, syncs and new lives take time, too.
    pub slow_disk: bool,
    /// Replies arrive at once, and so does what changes nothing.
    pub prompt: bool,
    pub restarts: u8,
    pub powers: u8,
    pub repeats: u8,
    pub losses: u8,
    pub reconnects: u8,
    pub cuts: u8,
    pub bootstraps: u8,
    pub changes: u8,
    /// Terms that are given to the process that has the one before.
    pub again: u8,
    pub wipes: u8,
    /// Folders that an operator sets back to an earlier state.
    pub set_backs: u8,
    pub failures: u8,
    /// Folders that have no room for more blocks for a while.
    pub lacks: u8,
    pub limits: Limits,
    /// Owners say how far they are where no append says so.
    pub advances: bool,
    /// Standbys read from the acceptors, and owners say how far these may go.
    pub standbys: bool,
    /// How much more often terms are given.
    pub hurry: u64,
    pub plant: Plant,
}

impl Plan {
    /// Three acceptors, nothing that fails.
    pub fn new(terms: u32, streams: usize) -> Self {
        Self {
            acceptors: 3,
            spare: 0,
            streams,
            terms,
            writes: 1,
            through: true,
            slow_writes: false,
            slow_disk: false,
            prompt: true,
            restarts: 0,
            powers: 0,
            repeats: 0,
            losses: 0,
            reconnects: 0,
            cuts: 0,
            bootstraps: 0,
            changes: 0,
            again: 0,
            wipes: 0,
            set_backs: 0,
            failures: 0,
            lacks: 0,
            limits: Limits { window_blocks: 8, read_blocks: 8, ..Limits::default() },
            advances: false,
            standbys: false,
            hurry: 1,
            plant: Plant::None,
        }
    }

    fn lies(&self) -> Lies {
        Lies { promise: self.plant == Plant::PromiseNotSynced, life: self.plant == Plant::StartsUnsynced }
    }

    /// The planted mistake P34.
    fn acknowledges_early(&self, term: Term) -> bool {
        self.plant == Plant::SettingsDiffer && term.get().is_multiple_of(2)
    }

    fn planted(&self) -> Planted {
        if let Plant::Inside(mistake) = self.plant { Planted(Some(mistake)) } else { Planted(None) }
    }
}

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    To(usize, Request),
    From(usize, Reply),
}

/// An acceptor's process, its folder, and operations under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Machine {
    pub acceptor: Option<Acceptor>,
    pub folder: Folder,
    pub ops: Vec<Op>,
    /// The folder has no room: writes wait.
    pub is_full: bool,
    /// The term whose seal this process has answered last.
    pub sealed: Option<Term>,
    /// It was sent an order while it had a seal to answer. So late is an order of an earlier connection alone.
    pub has_dropped: bool,
    /// How far a standby that reads here may have gone, for each stream.
    pub followed: Vec<Mark>,
    /// A copy of the folder that an operator has made.
    pub copy: Option<Folder>,
    /// The folder is such a copy.
    pub is_set_back: bool,
}

/// A process that owns the shard in a term, or has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Host {
    pub owner: Owner,
    /// Which process: records tell.
    pub process: u8,
    /// All blocks of its log, for each stream.
    pub log: Vec<Vec<Block>>,
    /// The records that its memory had when it began.
    pub began_with: BTreeSet<Record>,
    /// The highest LSN that it has seen.
    pub clock: u64,
    pub writes_left: u8,
    pub leads: bool,
    pub may_settle: bool,
    /// The place up to which it was told that all is committed, for each stream.
    pub marks: Vec<u64>,
}

/// How often something may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Left {
    pub restarts: u8,
    pub powers: u8,
    pub repeats: u8,
    pub losses: u8,
    pub reconnects: u8,
    pub cuts: u8,
    pub bootstraps: u8,
    pub changes: u8,
    pub again: u8,
    pub wipes: u8,
    pub set_backs: u8,
    pub failures: u8,
    pub lacks: u8,
    pub marks: u8,
    pub twice: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub machines: Vec<Machine>,
    pub hosts: Vec<Host>,
    /// The last term that the metadata gave.
    pub given: u32,
    pub settled: Vec<usize>,
    pub pending: Option<Vec<usize>>,
    pub network: BTreeSet<Packet>,
    pub left: Left,
    pub ghosts: Ghosts,
    /// What is under way since faults have stopped.
    pub lines: Option<Lines>,
}

pub fn name_of(acceptor: usize) -> AcceptorId {
    AcceptorId([acceptor as u8; 16])
}

fn names(set: &[usize]) -> Vec<AcceptorId> {
    set.iter().map(|at| name_of(*at)).collect()
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let (ops, is_full, sealed) = (Vec::new(), false, None);
        let folder = Folder::new(plan.streams);
        let followed = vec![Mark::default(); plan.streams];
        let (acceptor, copy, has_dropped, is_set_back) = (None, None, false, false);
        let machine = Machine { acceptor, folder, ops, is_full, sealed, has_dropped, followed, copy, is_set_back };
        let mut world = Self {
            machines: vec![machine; plan.acceptors + plan.spare],
            hosts: Vec::new(),
            given: 0,
            settled: (0..plan.acceptors).collect(),
            pending: None,
            network: BTreeSet::new(),
            left: Left {
                restarts: plan.restarts,
                powers: plan.powers,
                repeats: plan.repeats,
                losses: plan.losses,
                reconnects: plan.reconnects,
                cuts: plan.cuts,
                bootstraps: plan.bootstraps,
                changes: plan.changes,
                again: plan.again,
                wipes: plan.wipes,
                set_backs: plan.set_backs,
                failures: plan.failures,
                lacks: plan.lacks,
                marks: if plan.standbys { 20 } else { 0 },
                twice: u8::from(plan.plant == Plant::TermTwice),
            },
            ghosts: Ghosts::default(),
            lines: None,
        };
        for at in 0..world.machines.len() {
            world.start(plan, at);
            // The first start of empty folders is of no interest.
            while !world.machines[at].ops.is_empty() {
                world.land(plan, at, 0);
            }
        }
        world
    }

    /// One whose first term leads, with all acceptors, and where nothing is under way.
    pub fn led(plan: &Plan) -> Self {
        let mut world = Self::new(plan);
        world.give(plan, false);
        loop {
            if let Some(packet) = world.network.pop_first() {
                world.deliver(plan, packet);
            } else if let Some(at) = world.machines.iter().position(|machine| !machine.ops.is_empty()) {
                world.land(plan, at, 0);
            } else if !world.hosts[0].leads {
                // Blocks that were written to the cache have to be synced.
                let mut events = Vec::new();
                (0..plan.streams as u16).for_each(|at| world.hosts[0].owner.sync(StreamId(at), &mut events));
                world.events(plan, 0, events);
            } else {
                return world;
            }
        }
    }

    fn start(&mut self, plan: &Plan, at: usize) {
        let machine = &mut self.machines[at];
        machine.ops.clear();
        (machine.acceptor, machine.is_full, machine.sealed) = (None, false, None);
        let found = machine.folder.found();
        let names_of = |stream: u16| machine.folder.blocks(StreamId(stream)).map(|block| block.id).collect();
        let chains: Vec<Vec<_>> = (0..plan.streams as u16).map(names_of).collect();
        let (promised, found) = match found {
            Ok(found) => found,
            Err(why) => return self.ghosts.break_on(why),
        };
        self.ghosts.check_chains(&chains);
        let mut out = Vec::new();
        let mut acceptor = Acceptor::open(SHARD, promised, found, &mut out);
        acceptor.planted = plan.planted();
        acceptor.want_marks(plan.standbys, &mut out);
        self.machines[at].followed.fill(Mark::default());
        self.machines[at].acceptor = Some(acceptor);
        self.outputs(plan, at, out);
    }

    fn outputs(&mut self, plan: &Plan, at: usize, out: Vec<Output>) {
        self.follow(plan, at);
        for output in out {
            if let Output::Reply(Reply { term, report: Report::Sealed { .. }, .. }) = &output {
                self.machines[at].sealed = Some(*term);
            }
            match output {
                Output::Reply(reply) if plan.prompt => self.reach_owner(plan, at, reply),
                Output::Reply(reply) => {
                    let apart = matches!(reply.report, Report::Blocks { .. });
                    self.send(Packet::From(at, reply), apart);
                }
                Output::Disk(op) => {
                    let is_slow = match &op {
                        Op::Write { .. } => plan.slow_writes || self.machines[at].is_full,
                        Op::Read { .. } | Op::Cut { .. } => false,
                        _ => plan.slow_disk,
                    };
                    self.machines[at].ops.push(op);
                    if !is_slow {
                        self.land(plan, at, self.machines[at].ops.len() - 1);
                    }
                }
            }
        }
    }

    /// An operation of a disk is done.
    pub fn land(&mut self, plan: &Plan, at: usize, op: usize) {
        let machine = &mut self.machines[at];
        let op = machine.ops.remove(op);
        let done = machine.folder.carry_out(op, plan.lies());
        let mut out = Vec::new();
        if let (Some(done), Some(acceptor)) = (done, &mut machine.acceptor) {
            acceptor.done(done, &mut out);
        }
        self.outputs(plan, at, out);
    }

    pub fn deliver(&mut self, plan: &Plan, packet: Packet) {
        match packet {
            Packet::To(at, request) => self.reach_acceptor(plan, at, request),
            Packet::From(at, reply) => self.reach_owner(plan, at, reply),
        }
    }

    fn reach_acceptor(&mut self, plan: &Plan, at: usize, mut request: Request) {
        let Machine { acceptor: Some(acceptor), sealed, has_dropped, .. } = &mut self.machines[at] else { return };
        if request.order == Order::Seal && request.term >= acceptor.promised() {
            // The acceptor says nothing before it has answered.
            *sealed = None;
        } else if sealed.is_none() {
            *has_dropped = true;
        }
        let (mut out, sent) = (Vec::new(), request.term);
        let lower = plan.plant == Plant::TakesLowerTerms && matches!(request.order, Order::Append { .. });
        if lower {
            request.term = sent.max(acceptor.promised());
        }
        acceptor.request(request, &mut out);
        if lower {
            self.outputs_of_lower(plan, at, sent, out);
        } else {
            self.outputs(plan, at, out);
        }
    }

    /// With the planted mistake P1: what is done for an owner is told to that owner.
    fn outputs_of_lower(&mut self, plan: &Plan, at: usize, sent: Term, mut out: Vec<Output>) {
        while !out.is_empty() {
            let mut next = Vec::new();
            for output in out {
                match output {
                    Output::Reply(reply) => self.reach_owner(plan, at, Reply { term: sent, ..reply }),
                    Output::Disk(op) => {
                        let machine = &mut self.machines[at];
                        let done = machine.folder.carry_out(op, plan.lies());
                        if let (Some(done), Some(acceptor)) = (done, &mut machine.acceptor) {
                            acceptor.done(done, &mut next);
                        }
                    }
                }
            }
            out = next;
        }
    }

    fn reach_owner(&mut self, plan: &Plan, at: usize, reply: Reply) {
        if self.is_stale(at, &reply) {
            return;
        }
        // The last one: with the planted mistake P31 a term has two.
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(|h| self.hosts[*h].owner.term() == reply.term).collect();
        for host in hosts {
            let mut events = Vec::new();
            let is_answer = matches!(reply.report, Report::Sealed { .. });
            self.hosts[host].owner.reply(name_of(at), reply.clone(), &mut events);
            self.ghosts.is_set_back_known |= self.machines[at].is_set_back && is_answer;
            self.events(plan, host, events);
        }
    }

    pub fn events(&mut self, plan: &Plan, host: usize, events: Vec<Event>) {
        let mut is_told = false;
        for event in events {
            match event {
                Event::Send { to, request, apart } => {
                    let (to, is_read) = (usize::from(to.0[0]), matches!(request.order, Order::Read { .. }));
                    if plan.prompt && is_read {
                        self.reach_acceptor(plan, to, request);
                    } else {
                        self.send(Packet::To(to, request), apart);
                    }
                }
                Event::Chosen => self.hosts[host].log.iter_mut().for_each(Vec::clear),
                Event::Replay { stream, block } => self.hosts[host].log[stream.index()].push(block),
                Event::Sealed { bases } => self.seal(plan, host, &bases),
                Event::Leads => self.lead(host),
                Event::MaySettle => self.hosts[host].may_settle = true,
                Event::Received { stream, id, .. } if plan.acknowledges_early(self.hosts[host].owner.term()) => {
                    let mark = &mut self.hosts[host].marks[stream.index()];
                    *mark = (*mark).max(id.sequence);
                    is_told = true;
                }
                Event::Synced { stream, id, .. } => {
                    self.check_copies(host, stream, id.sequence);
                    let mark = &mut self.hosts[host].marks[stream.index()];
                    *mark = (*mark).max(id.sequence);
                    is_told = true;
                }
                Event::Received { .. } | Event::Fenced { .. } => {}
            }
        }
        if is_told {
            self.ghosts.commit(&self.hosts[host]);
            self.ghosts.acknowledge(&self.hosts[host]);
        }
    }

    /// Merges what was taken over, as a start does (rule L5), and begins the term.
    fn seal(&mut self, plan: &Plan, host: usize, bases: &[Base]) {
        let Host { owner, log, began_with, clock, .. } = &mut self.hosts[host];
        for (log, base) in log.iter_mut().zip(bases) {
            log.retain(|block| block.id.sequence > base.id.sequence);
        }
        let (applied, ends, highest) = merge(log, bases, &self.ghosts.store);
        *clock = (*clock).max(highest);
        *began_with = applied;
        let cuts: Vec<Cut> = ends.into_iter().map(Cut).collect();
        let mut events = Vec::new();
        let begun = owner.begin(&cuts, &mut events);
        assert!(begun.is_ok(), "all blocks are here");
        for (stream, cut) in (0..).map(StreamId).zip(cuts) {
            let id = self.hosts[host].owner.history(stream).expect("a stream").last();
            let block = Block { id, cut, is_start: true, body: std::sync::Arc::default() };
            self.note_block(host, stream, block);
        }
        if plan.plant == Plant::ServesEarly {
            self.lead(host);
        }
        self.events(plan, host, events);
    }

    fn lead(&mut self, host: usize) {
        self.hosts[host].leads = true;
        self.ghosts.lead(&self.hosts[host]);
    }

    /// A block of a host's own term.
    fn note_block(&mut self, host: usize, stream: StreamId, block: Block) {
        let owner = &self.hosts[host].owner;
        let before = owner.history(stream).and_then(|history| history.at(block.id.sequence - 1));
        self.ghosts.make(stream, &block, before.unwrap_or_default());
        self.hosts[host].log[stream.index()].push(block);
    }

    /// Gives the next term, or the last one once more.
    pub fn give(&mut self, plan: &Plan, is_twice: bool) {
        self.given += u32::from(!is_twice);
        let term = Term::new(self.given).expect("a term");
        let (settled, pending) = self.sets(plan);
        let known = vec![History::default(); plan.streams];
        let mut events = Vec::new();
        let mut owner = Owner::new((SHARD, term), settled, pending, known, plan.limits, &mut events);
        owner.planted = plan.planted();
        let process = self.hosts.len() as u8;
        self.hosts.push(Host {
            owner,
            process,
            log: vec![Vec::new(); plan.streams],
            began_with: BTreeSet::new(),
            clock: 0,
            writes_left: plan.writes,
            leads: false,
            may_settle: false,
            marks: vec![0; plan.streams],
        });
        let host = self.hosts.len() - 1;
        self.events(plan, host, events);
    }

    fn sets(&self, plan: &Plan) -> (Vec<AcceptorId>, Option<Vec<AcceptorId>>) {
        match &self.pending {
            Some(pending) if plan.plant == Plant::SealsNewOnly => (names(pending), None),
            pending => (names(&self.settled), pending.as_deref().map(names)),
        }
    }

    /// Gives the next term to the process that has the present one.
    pub fn give_again(&mut self, plan: &Plan, host: usize) {
        self.given += 1;
        let term = Term::new(self.given).expect("a term");
        let (settled, pending) = self.sets(plan);
        let mut events = Vec::new();
        let before = &self.hosts[host];
        let Ok(owner) = Owner::again(before.owner.clone(), term, settled, pending, &mut events) else { return };
        // Its memory is its log, and what it knows to be committed stays so.
        self.hosts[host] = Host { owner, writes_left: plan.writes, leads: false, may_settle: false, ..before.clone() };
        self.events(plan, host, events);
    }

    /// Appends a record that stands on the last one of another stream, or on nothing.
    pub fn write(&mut self, plan: &Plan, host: usize, stream: StreamId, stands: bool) {
        let Host { owner, log, clock, process, began_with, .. } = &self.hosts[host];
        let (term, lsn) = (owner.term(), clock + 1);
        let others = log.iter().enumerate().filter(|(at, _)| *at != stream.index());
        let made = others.flat_map(|(at, log)| log.iter().filter_map(move |block| Record::of(at as u16, block)));
        let on = made.filter(|record| record.term == term || began_with.contains(record)).max_by_key(|r| r.lsn);
        let on = on.filter(|_| stands).map(|record| (record.stream, record.lsn, record.term));
        let record = Record { lsn, stream: stream.0, term, process: *process, on };
        let block = Block { id: Default::default(), cut: Cut(lsn), is_start: false, body: record.body() };
        let mut events = Vec::new();
        let host_of = &mut self.hosts[host];
        let Ok(id) = host_of.owner.append(stream, block.cut, block.body.clone(), &mut events) else { return };
        host_of.clock = lsn;
        host_of.writes_left -= 1;
        self.ghosts.give_version(lsn, term);
        self.note_block(host, stream, Block { id, ..block });
        self.events(plan, host, events);
    }

    /// Shows a version that has no record: the planted mistake P21.
    pub fn show(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.clock += 1;
        host.writes_left -= 1;
        self.ghosts.give_version(host.clock, host.owner.term());
        self.ghosts.show_version(host.clock, host.owner.term());
    }

    /// An acceptor's process ends and starts again. Of what was under way and of what the cache has, the bits of `kept`
    /// say what stays.
    pub fn restart(&mut self, plan: &Plan, at: usize, has_power: bool, kept: u64) {
        // A process says that it has failed for its own life alone: a connection to it ends with it.
        let fails =
            |packet: &Packet| matches!(packet, Packet::From(from, r) if *from == at && r.report == Report::Failed);
        self.network.retain(|packet| !fails(packet));
        let machine = &mut self.machines[at];
        for (bit, op) in std::mem::take(&mut machine.ops).into_iter().enumerate() {
            if kept >> (bit % 16) & 1 == 1 {
                machine.folder.carry_out(op, Lies { promise: true, life: true });
            }
        }
        if !has_power {
            machine.folder.power_fails(kept >> 16);
        }
        self.start(plan, at);
        // The process that owns the shard finds its connection closed, and makes another one: sooner or later.
        if let Some(host) = self.hosts.len().checked_sub(1).filter(|_| kept >> 62 & 1 == 1) {
            self.connect(plan, host, at);
        }
    }

    /// A host has another connection to an acceptor.
    pub fn connect(&mut self, plan: &Plan, host: usize, to: usize) {
        let mut events = Vec::new();
        self.hosts[host].owner.lost(name_of(to), &mut events);
        self.hosts[host].owner.connected(name_of(to), &mut events);
        self.events(plan, host, events);
    }

    /// Forgets blocks whose records every copy has in its store.
    pub fn cut(&mut self, plan: &Plan, host: usize, stream: StreamId) {
        let Host { owner, log, marks, began_with, .. } = &mut self.hosts[host];
        let kept = log[stream.index()].iter().take_while(|block| block.id.sequence <= marks[stream.index()]);
        let known = kept.take_while(|block| {
            let is_void = |record: &Record| record.term < owner.term() && !began_with.contains(record);
            Record::of(stream.0, block).is_none_or(|r| self.ghosts.acknowledged.contains(&r) || is_void(&r))
        });
        let Some(last) = known.last() else { return };
        let base = Base { id: last.id, cut: last.cut };
        let mut events = Vec::new();
        if owner.cut(stream, base, &mut events).is_err() {
            return;
        }
        let acknowledged = &self.ghosts.acknowledged;
        let gone = log[stream.index()].iter().filter(|block| block.id.sequence <= base.id.sequence);
        let gone = gone.filter_map(|block| Record::of(stream.0, block)).filter(|record| acknowledged.contains(record));
        self.ghosts.store.extend(gone.collect::<Vec<_>>());
        self.events(plan, host, events);
    }

    pub fn settle(&mut self, plan: &Plan, host: usize) {
        if let Some(pending) = self.pending.take() {
            self.settled = pending;
        }
        let mut events = Vec::new();
        self.hosts[host].may_settle = false;
        self.hosts[host].owner.settled(&mut events);
        self.events(plan, host, events);
    }

    /// A disk fails.
    pub fn fail(&mut self, plan: &Plan, at: usize) {
        self.machines[at].ops.clear();
        let mut out = Vec::new();
        if let Some(acceptor) = &mut self.machines[at].acceptor {
            acceptor.done(crate::Done::Failed, &mut out);
        }
        self.outputs(plan, at, out);
    }

    /// A folder has no room for more, or has room again. What was asked of it waits meanwhile.
    pub fn set_room(&mut self, plan: &Plan, at: usize, is_full: bool) {
        let (machine, mut out) = (&mut self.machines[at], Vec::new());
        machine.is_full = is_full;
        if let Some(acceptor) = &mut machine.acceptor {
            acceptor.room(is_full, &mut out);
        }
        self.outputs(plan, at, out);
    }

    /// An owner knows of each acceptor that follows it whether that has room, where replies arrive at once.
    pub fn check_room(&mut self, plan: &Plan) {
        let Some(host) = self.hosts.last().filter(|_| plan.prompt && plan.lacks > 0) else { return };
        let (term, mut is_wrong) = (host.owner.term(), false);
        for (at, machine) in self.machines.iter().enumerate() {
            let is_told = machine.sealed == Some(term) && !machine.acceptor.as_ref().is_none_or(Acceptor::is_failed);
            is_wrong |= is_told && host.owner.knows_full(name_of(at)).is_some_and(|known| known != machine.is_full);
        }
        if is_wrong {
            self.ghosts.break_on("an owner does not know whether an acceptor has room");
        }
    }

    /// All faults are over: every acceptor has room and is connected once more, and what is under way arrives. Returns
    /// false if a majority answers the last owner, and that one still has no room for a block of some stream.
    pub fn comes_to_rest(&mut self, plan: &Plan) -> bool {
        let Some(host) = self.hosts.len().checked_sub(1) else { return true };
        for at in 0..self.machines.len() {
            if self.machines[at].is_full {
                self.set_room(plan, at, false);
            }
        }
        (0..self.machines.len()).for_each(|at| self.connect(plan, host, at));
        loop {
            if let Some(packet) = self.network.pop_first() {
                self.deliver(plan, packet);
            } else if let Some(at) = self.machines.iter().position(|machine| !machine.ops.is_empty()) {
                self.land(plan, at, 0);
            } else {
                break;
            }
        }
        let owner = &self.hosts[host].owner;
        let silent: Vec<_> = owner.silent().collect();
        let answers =
            |set: &Vec<usize>| set.iter().filter(|at| !silent.contains(&name_of(**at))).count() * 2 > set.len();
        let has_majority = answers(&self.settled) && self.pending.as_ref().is_none_or(answers);
        let has_room = (0..plan.streams as u16).all(|stream| owner.has_room(StreamId(stream)));
        owner.stage() != Stage::Leading || !has_majority || has_room
    }

    pub fn is_newest(&self, host: usize) -> bool {
        self.hosts[host].owner.term().get() == self.given
    }
}

//! Standbys read from acceptors over simulated disks, while owners come and go, processes restart and the power fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use quorum::{
    AcceptorId, Base, BlockId, Cut, Event, History, Limits as OwnerLimits, Order, Owner, Reply, Request, StreamId,
};
use redolog::simulated::{Chance, Simulated};

use super::made::{LIMITS, SHARD, body, lsn, term};
use crate::local::{Mistake, Planted};
use crate::{Caller, Folder, Heard, Job, Local, Place, Port, Tap, TapEnded, TapStepped};

/// How often each fault may happen.
#[derive(Clone, Copy, Debug)]
struct Plan {
    mistake: Option<Mistake>,
    streams: u16,
    terms: u32,
    through: bool,
    lossy: bool,
    restarts: u32,
    /// Most bytes of blocks that are kept in memory for a standby.
    recent: usize,
    cuts: bool,
}

/// A record: its number is in its effects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Made {
    lsn: u64,
    stream: StreamId,
    block: BlockId,
    number: u64,
}

struct Live {
    local: Local<Simulated>,
    /// Writes that have begun.
    air: Vec<Job<Simulated>>,
    tap: Option<Tap<Simulated>>,
}

struct Node {
    own: Simulated,
    streams: Vec<Simulated>,
    live: Option<Live>,
    /// What its store covers durably.
    stored: u64,
    /// The present life of its memory: where it began, and what it has applied.
    life: (u64, Vec<(u64, u64)>),
}

struct Host {
    owner: Owner,
    leads: bool,
    clock: u64,
    ends: Vec<u64>,
    /// Where the last block ends that is committed, over all streams.
    committed: u64,
}

struct World {
    plan: Plan,
    nodes: Vec<Node>,
    hosts: Vec<Host>,
    callers: BTreeMap<(usize, usize), Caller<Simulated>>,
    /// Replies, each with the node that it is of.
    heard: Arc<Mutex<Vec<(usize, Reply)>>>,
    requests: Vec<(usize, Request)>,
    cut_off: BTreeSet<usize>,
    chance: Chance,
    made: BTreeMap<u64, Made>,
    committed: BTreeMap<(StreamId, u64), BlockId>,
    /// Lives that have ended.
    lives: Vec<(u64, Vec<(u64, u64)>)>,
    restarts: u32,
    broken: Option<String>,
    led: usize,
}

fn name_of(at: usize) -> AcceptorId {
    AcceptorId([at as u8 + 1; 16])
}

impl World {
    fn new(plan: Plan, seed: u64) -> Self {
        let node = |_| Node {
            own: Simulated::default(),
            streams: (0..plan.streams).map(|_| Simulated::default()).collect(),
            live: None,
            stored: 0,
            life: (0, Vec::new()),
        };
        let mut world = Self {
            plan,
            nodes: (0..3).map(node).collect(),
            hosts: Vec::new(),
            callers: BTreeMap::new(),
            heard: Arc::default(),
            requests: Vec::new(),
            cut_off: BTreeSet::new(),
            chance: Chance(seed),
            made: BTreeMap::new(),
            committed: BTreeMap::new(),
            lives: Vec::new(),
            restarts: plan.restarts,
            broken: None,
            led: 0,
        };
        for at in 0..3 {
            Folder::make(world.place(at), SHARD, name_of(at), LIMITS).unwrap_or_else(|why| panic!("{why}"));
            world.start(at);
        }
        world
    }

    fn place(&self, at: usize) -> Place<Simulated> {
        Place { own: self.nodes[at].own.clone(), streams: self.nodes[at].streams.clone(), locks: Vec::new() }
    }

    fn break_on(&mut self, why: impl Into<String>) {
        self.broken.get_or_insert(why.into());
    }

    fn start(&mut self, at: usize) {
        match Folder::open(self.place(at), SHARD, LIMITS).and_then(Local::by_hand) {
            Ok(local) => self.nodes[at].live = Some(Live { local, air: Vec::new(), tap: None }),
            Err(why) => return self.break_on(format!("a folder does not open: {why}")),
        }
        self.tap(at);
    }

    /// A standby's process begins with what its store has.
    fn tap(&mut self, at: usize) {
        let Node { live, stored, life, .. } = &mut self.nodes[at];
        let Some(live) = live else { return };
        live.tap = None;
        self.lives.push(std::mem::replace(life, (*stored, Vec::new())));
        match live.local.tap_with(Cut(*stored), Cut(*stored), self.plan.recent) {
            Ok(mut tap) => {
                tap.planted = Planted(self.plan.mistake);
                live.tap = Some(tap);
            }
            Err(why) => self.break_on(format!("a standby cannot begin: {why}")),
        }
    }

    /// The standby takes a step. True if there was something to do.
    fn follow(&mut self, at: usize) -> bool {
        let Node { live: Some(Live { tap: Some(tap), .. }), life, .. } = &mut self.nodes[at] else { return false };
        let mut batch = Vec::new();
        let stepped = tap.step(&mut |records| {
            batch.extend(records.iter().map(|record| {
                let number = record.effects.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                (record.lsn.0, number, record.stream)
            }));
        });
        life.1.extend(batch.iter().map(|(lsn, number, _)| (*lsn, *number)));
        let known = |(lsn, number, stream): &(u64, u64, u16)| {
            let made = self.made.get(number);
            made.filter(|made| made.lsn == *lsn && made.stream.0 == *stream).copied()
        };
        let is_committed = |made: &Made| self.committed.get(&(made.stream, made.block.sequence)) == Some(&made.block);
        let is_right = batch.iter().all(|record| known(record).is_some_and(|made| is_committed(&made)));
        let follower = tap.follower();
        let is_sound = follower.applied().0 == life.1.last().map_or(follower.applied().0, |(lsn, _)| *lsn)
            && follower.flushable() == follower.applied();
        if !is_right {
            self.break_on("a standby applies what is not committed");
        }
        if !is_sound && self.plan.mistake.is_none() {
            self.break_on("a standby does not know what it has applied");
        }
        match stepped {
            Ok(stepped) => stepped != TapStepped::Idle,
            Err(TapEnded::StartAgain) => {
                self.break_on("a standby has applied what the log does not have");
                false
            }
            Err(why) => {
                self.break_on(format!("a standby ends: {why}"));
                false
            }
        }
    }

    /// Its store has what it has applied, and its process may start again.
    fn store(&mut self, at: usize) {
        if let Some(Live { tap: Some(tap), .. }) = &mut self.nodes[at].live {
            let covered = tap.follower().checkpoint().unwrap_or_default().min(tap.follower().flushable());
            tap.follower().durable(covered);
            self.nodes[at].stored = self.nodes[at].stored.max(covered.0);
        }
    }

    /// A process of an acceptor ends and starts again; or the power fails.
    fn restart(&mut self, at: usize, power: bool) {
        self.callers.retain(|(_, node), _| *node != at);
        self.nodes[at].live = None;
        let Self { nodes, chance, .. } = self;
        for disk in nodes[at].streams.iter().chain([&nodes[at].own]) {
            if power { disk.crash(chance) } else { disk.kill() }
        }
        self.cut_off.insert(at);
        self.start(at);
    }

    fn give_term(&mut self) {
        let given = self.hosts.len() as u32 + 1;
        self.cut_off.clear();
        let ring_bytes = if self.chance.below(2) == 0 { 0 } else { 1 << 20 };
        let limits = OwnerLimits {
            window_blocks: 3,
            read_blocks: 3,
            through: self.plan.through,
            ring_bytes,
            ..OwnerLimits::default()
        };
        let (mut out, set) = (Vec::new(), (0..3).map(name_of).collect());
        let known = vec![History::default(); self.plan.streams.into()];
        let owner = Owner::new((SHARD, term(given)), set, None, known, limits, &mut out);
        self.hosts.push(Host { owner, leads: false, clock: 0, ends: vec![0; self.plan.streams.into()], committed: 0 });
        self.events(given as usize - 1, out);
    }

    fn events(&mut self, host: usize, out: Vec<Event>) {
        for event in out {
            match event {
                Event::Send { to, request, .. } => self.requests.push((usize::from(to.0[0]) - 1, request)),
                Event::Chosen => self.hosts[host].ends.fill(0),
                Event::Replay { stream, block } => self.hosts[host].ends[usize::from(stream.0)] = block.cut.0,
                Event::Sealed { bases } => self.begin(host, &bases),
                Event::Leads => {
                    self.hosts[host].leads = true;
                    self.led += 1;
                }
                Event::Synced { stream, id, cut } => {
                    let committed = &mut self.hosts[host].committed;
                    *committed = cut.0.max(*committed);
                    self.commit(host, stream, id);
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, host: usize, bases: &[Base]) {
        let Host { owner, ends, clock, .. } = &mut self.hosts[host];
        ends.iter_mut().zip(bases).for_each(|(end, base)| *end = (*end).max(base.cut.0));
        // Rule L1: above everything in the log.
        *clock = ends.iter().map(|end| end >> 4).max().unwrap_or(0);
        let (mut out, cuts) = (Vec::new(), ends.iter().copied().map(Cut).collect::<Vec<_>>());
        let begun = owner.begin(&cuts, &mut out);
        assert!(begun.is_ok(), "all blocks are here");
        self.events(host, out);
    }

    fn commit(&mut self, host: usize, stream: StreamId, id: BlockId) {
        let history = self.hosts[host].owner.history(stream).cloned().unwrap_or_default();
        for sequence in history.base().id.sequence + 1..=id.sequence {
            let Some(id) = history.at(sequence) else { continue };
            if *self.committed.entry((stream, sequence)).or_insert(id) != id {
                self.break_on("two blocks are committed at one place");
            }
        }
    }

    fn append(&mut self, host: usize) {
        let stream = StreamId(self.chance.below(self.plan.streams.into()) as u16);
        let Host { owner, leads: true, clock, .. } = &mut self.hosts[host] else { return };
        *clock += 1;
        let before = owner.history(stream).map_or(BlockId::default(), History::last);
        let block = BlockId { term: owner.term(), sequence: before.sequence + 1 };
        let (cut, number) = (lsn(stream, *clock), self.made.len() as u64 + 1);
        let mut effects = number.to_le_bytes().to_vec();
        effects.resize(8 + [3, 700, 3000][self.chance.below(3) as usize], 7);
        let mut out = Vec::new();
        if owner.append(stream, Cut(cut.0), body(stream, before, block, cut, &effects), &mut out).is_ok() {
            self.made.insert(number, Made { lsn: cut.0, stream, block, number });
        }
        self.events(host, out);
    }

    fn with_owner(&mut self, host: usize, f: impl FnOnce(&mut Owner, &mut Vec<Event>)) {
        let mut out = Vec::new();
        f(&mut self.hosts[host].owner, &mut out);
        self.events(host, out);
    }

    /// The owner tells standbys how far they may go. Idle streams pass what is committed in others.
    fn mark(&mut self, host: usize) {
        let (streams, passed) = (self.plan.streams, Cut(self.hosts[host].committed));
        self.with_owner(host, |owner, out| {
            (0..streams).for_each(|stream| owner.quiet(StreamId(stream), passed));
            owner.tell_marks(out);
        });
    }

    /// The log gives up what all stores have (rule G12).
    fn cut(&mut self, host: usize) {
        let floor = self.nodes.iter().map(|node| node.stored).min().unwrap_or(0);
        let stream = StreamId(self.chance.below(self.plan.streams.into()) as u16);
        let owner = &self.hosts[host].owner;
        let Some(history) = owner.history(stream) else { return };
        let is_kept = |made: &&Made| made.stream == stream && made.lsn <= floor && history.has(made.block);
        let last = self.made.values().filter(is_kept).max_by_key(|made| made.block.sequence).copied();
        if let Some(last) = last.filter(|last| last.block.sequence <= owner.synced(stream)) {
            let base = Base { id: last.block, cut: Cut(last.lsn) };
            self.with_owner(host, |owner, out| _ = owner.cut(stream, base, out));
        }
    }

    fn deliver(&mut self) -> bool {
        let replies = self.heard.lock().unwrap_or_else(PoisonError::into_inner).len();
        let all = self.requests.len() + replies;
        if all == 0 {
            return false;
        }
        let which = self.chance.below(all as u64) as usize;
        let is_lost = self.plan.lossy && self.chance.below(20) == 0;
        if which < self.requests.len() {
            // Those of one connection come in order.
            let (to, of) = (self.requests[which].0, self.requests[which].1.term);
            let first = self.requests.iter().position(|(at, request)| *at == to && request.term == of).unwrap_or(which);
            let (at, request) = self.requests.remove(first);
            if is_lost {
                self.cut_off.insert(at);
            } else {
                self.reach(at, request);
            }
            return true;
        }
        let (at, reply) = {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let which = which - self.requests.len();
            let (of, term) = (heard[which].0, heard[which].1.term);
            let first = heard.iter().position(|(at, reply)| *at == of && reply.term == term);
            heard.remove(first.unwrap_or(which))
        };
        if is_lost {
            self.cut_off.insert(at);
        } else if let Some(host) = (reply.term.get() as usize).checked_sub(1).filter(|host| *host < self.hosts.len()) {
            self.with_owner(host, |owner, out| owner.reply(name_of(at), reply, out));
        }
        true
    }

    fn reach(&mut self, at: usize, request: Request) {
        let key = (request.term.get() as usize - 1, at);
        let Some(live) = &self.nodes[at].live else { return };
        if request.order == Order::Seal || !self.callers.contains_key(&key) {
            let heard = self.heard.clone();
            let caller = live.local.caller(Arc::new(move |_, what| {
                if let Heard::Reply(reply) = what {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push((at, reply));
                }
            }));
            self.callers.insert(key, caller);
        }
        self.callers[&key].send(request);
    }

    /// A disk does something. False: there is nothing.
    fn work(&mut self, at: usize) -> bool {
        let Self { nodes, chance, .. } = self;
        let Some(live) = &mut nodes[at].live else { return false };
        let in_air = live.air.len() as u64;
        if in_air > 0 && chance.below(2) == 0 {
            let job = live.air.swap_remove(chance.below(in_air) as usize);
            live.air.extend(live.local.carry_out(job));
            return true;
        }
        let job = live.local.job(true).or_else(|| live.air.pop());
        let works = job.is_some();
        if let Some(job) = job {
            live.air.extend(live.local.carry_out(job));
        }
        works
    }

    fn connect(&mut self, host: usize, at: usize) {
        self.with_owner(host, |owner, out| {
            owner.lost(name_of(at), out);
            owner.connected(name_of(at), out);
        });
    }

    fn step(&mut self) {
        let at = self.chance.below(3) as usize;
        let newest = self.hosts.len().checked_sub(1);
        let host = newest.filter(|newest| *newest == 0 || self.chance.below(4) > 0).or(newest.map(|newest| newest / 2));
        match (self.chance.below(200), host) {
            (0..70, _) => drop(self.deliver()),
            (70..120, _) => drop(self.work(at)),
            (120..160, _) => drop(self.follow(at)),
            (160..172, Some(host)) => self.append(host),
            (172..182, Some(host)) => self.mark(host),
            (182..184, Some(host)) if !self.plan.through => {
                let streams = self.plan.streams;
                self.with_owner(host, |owner, out| (0..streams).for_each(|at| owner.sync(StreamId(at), out)));
            }
            (184..187, _) => self.store(at),
            (187..189, Some(host)) if self.plan.cuts => self.cut(host),
            (189..191, _) => self.tap(at),
            (191..193, _) if self.restarts > 0 => {
                self.restarts -= 1;
                let power = self.chance.below(2) == 0;
                self.restart(at, power);
            }
            (193..198, Some(_)) => {
                if let (Some(host), Some(at)) = (newest, self.cut_off.pop_first()) {
                    self.connect(host, at);
                }
            }
            (198.., _) | (_, None) if self.hosts.len() < self.plan.terms as usize => self.give_term(),
            _ => {}
        }
    }

    fn rest(&mut self) {
        for _ in 0..100_000 {
            let went = [self.deliver(), self.work(0), self.work(1), self.work(2)];
            if !went.contains(&true) {
                return;
            }
        }
        self.break_on("there is always something to do");
    }

    /// Faults stop. The newest owner leads, and every standby comes to the end of its log.
    fn calms(&mut self) {
        let Some(host) = self.hosts.len().checked_sub(1).filter(|_| self.broken.is_none()) else { return };
        self.plan.lossy = false;
        for _ in 0..6 {
            for at in std::mem::take(&mut self.cut_off) {
                self.connect(host, at);
            }
            self.rest();
            let streams = self.plan.streams;
            self.with_owner(host, |owner, out| (0..streams).for_each(|at| owner.sync(StreamId(at), out)));
            self.rest();
        }
        if !self.hosts[host].leads {
            return self.break_on("the newest owner does not lead");
        }
        self.mark(host);
        self.rest();
        for at in 0..3 {
            for _ in 0..100_000 {
                if !self.follow(at) {
                    break;
                }
            }
        }
        let all = self.committed_records();
        for at in 0..3 {
            let (from, applied) = &self.nodes[at].life;
            if !all.iter().filter(|(lsn, _)| lsn > from).eq(applied) && self.broken.is_none() {
                let why =
                    format!("a standby does not come to the end of the log: {at}, {} of {}", applied.len(), all.len());
                self.break_on(why);
            }
        }
    }

    fn committed_records(&self) -> BTreeSet<(u64, u64)> {
        let is_committed = |made: &&Made| self.committed.get(&(made.stream, made.block.sequence)) == Some(&made.block);
        self.made.values().filter(is_committed).map(|made| (made.lsn, made.number)).collect()
    }

    /// Every life of a standby has applied the records of the log that follow one another, in the order of their LSNs.
    fn check_lives(&mut self) {
        let all = self.committed_records();
        let present = self.nodes.iter().map(|node| node.life.clone());
        let lives: Vec<_> = self.lives.iter().cloned().chain(present).collect();
        for (from, applied) in lives {
            let last = applied.last().map_or(from, |(lsn, _)| *lsn);
            if !all.iter().filter(|(lsn, _)| from < *lsn && *lsn <= last).eq(&applied) {
                self.break_on("a standby has no prefix of the log");
            }
        }
    }
}

fn plan_of(seed: u64, mistake: Option<Mistake>) -> Plan {
    let mut chance = Chance(seed ^ 0x0074_6170);
    let mut some = |most: u64| chance.below(most) as u32;
    Plan {
        mistake,
        streams: 1 + some(3) as u16,
        terms: 1 + some(5),
        through: some(3) > 0,
        lossy: some(2) == 0,
        restarts: some(5),
        recent: [0, 2000, 1 << 20][some(3) as usize],
        cuts: some(2) == 0,
    }
}

fn walk(seed: u64, mistake: Option<Mistake>) -> World {
    let mut world = World::new(plan_of(seed, mistake), seed);
    for _ in 0..2500 {
        world.step();
        if world.broken.is_some() {
            break;
        }
    }
    if mistake.is_none() {
        world.calms();
    }
    world.check_lives();
    world
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// `HOLDFAST_SEED=n` walks once; `HOLDFAST_SEEDS=n` walks more often.
#[test]
fn walks_of_standbys() {
    if let Some(seed) = number_of("HOLDFAST_SEED") {
        assert_eq!(walk(seed, None).broken, None);
        return;
    }
    let seeds = number_of("HOLDFAST_SEEDS").unwrap_or(60);
    let (mut led, mut applied) = (0, 0);
    for seed in 0..seeds {
        let world = walk(seed, None);
        assert_eq!(world.broken, None, "HOLDFAST_SEED={seed}: {:?}", world.plan);
        led += world.led;
        applied += world.lives.iter().map(|(_, applied)| applied.len()).sum::<usize>();
    }
    eprintln!("{seeds} walks, {led} terms led, {applied} records applied");
    // Otherwise nothing was looked at.
    assert!(led as u64 > seeds && applied as u64 > 10 * seeds);
}

fn finds(mistake: Mistake, expected: &[&str]) {
    for seed in 0..500 {
        if let Some(why) = walk(seed, Some(mistake)).broken {
            eprintln!("{mistake:?}: {why}, seed {seed}");
            assert!(expected.iter().any(|known| why.starts_with(known)), "{mistake:?}: {why}");
            return;
        }
    }
    panic!("{mistake:?} was not noticed");
}

const UNCOMMITTED: &str = "a standby applies what is not committed";
const PREFIX: &str = "a standby has no prefix of the log";
const LOST: &str = "a standby has applied what the log does not have";

#[test]
fn p10_a_standby_takes_what_is_not_committed() {
    finds(Mistake::TakesUncommitted, &[UNCOMMITTED, LOST, PREFIX]);
}

#[test]
fn p11_a_standby_applies_streams_apart() {
    finds(Mistake::AppliesStreamsApart, &[PREFIX]);
}

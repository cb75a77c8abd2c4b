//! A machine that is on: the server's own code without its threads and sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use command::{Digest, effects};
use engine::checkpoint::{Checkpointer, Step, WarmUp, Warmth, World, header};
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Need, SLOTS, Waiter};
use log::simulated::{Chance, Open, Simulated};
use log::{After, Flight, Fsync, Limits, Log, Lsn, Opened, Stepped};
use node::config::{Live, Renames, Values};
use node::{Checkpoints, Durable, Facts, Mailbox, Node, Outgoing, Output, Outside, Peer, SLICES, Token, Worker};
use store::{Platter, Store};

use crate::hardware::Hardware;
use crate::plan::{Plan, Planted};

/// What keys and members are hashed with: one for the whole process.
pub const HASH_SEED: u64 = 7;
/// Databases of the node.
pub const DATABASES: u16 = 5;

const LIMITS: Limits = Limits { segment: 16384, spares: 1, reserve: 4096, block: 4096 };

/// Settings other than the defaults: thresholds so low that short histories cross them.
const SETTINGS: [(&str, &str); 8] = [
    ("databases", "5"),
    ("list-max-listpack-size", "4"),
    ("hash-max-listpack-entries", "4"),
    ("set-max-listpack-entries", "4"),
    ("set-max-intset-entries", "4"),
    ("zset-max-listpack-entries", "4"),
    ("stream-node-max-entries", "3"),
    ("protected-mode", "no"),
];

/// A record that a start has found in the log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Found {
    /// Its position.
    pub lsn: Lsn,
    /// Its stream.
    pub stream: u16,
    /// What it did.
    pub effects: Vec<u8>,
}

/// What a start has found.
#[derive(Clone, Default, Debug)]
pub struct Start {
    /// Records of the log, in the order of replay.
    pub found: Vec<Found>,
    /// Where each stream begins and ends.
    pub bases: Vec<Lsn>,
    /// See [`Self::bases`].
    pub ends: Vec<Lsn>,
    /// C(s) of every slot; nothing if the store is empty.
    pub covered: Vec<Lsn>,
    /// The highest LSN that the store names.
    pub highest: Lsn,
    /// All that memory holds then.
    pub digests: Digests,
}

/// Why a machine does not start.
#[derive(Debug)]
pub enum NoStart {
    /// The power has failed.
    Power,
    /// The server refuses.
    Refused(String),
}

/// What the checkpointer sees, and what it asks for.
pub struct Watched {
    inner: Outside,
    platter: Platter,
    planted: Planted,
    /// The log was cut, and the durable store had less.
    pub cuts_too_far: Option<String>,
    /// The log was cut since this was looked at.
    pub has_cut: bool,
}

impl World for Watched {
    fn left(&self) -> Vec<Lsn> {
        self.inner.left()
    }

    fn committed(&self) -> Vec<Lsn> {
        if self.planted == Planted::EarlyStore { self.inner.left() } else { self.inner.committed() }
    }

    fn want(&mut self, ends: &[Lsn]) {
        self.inner.want(ends);
    }

    fn cut(&mut self, covered: &[Lsn]) {
        self.has_cut = true;
        let early = self.inner.left();
        let covered = if self.planted == Planted::EarlyTruncate { &early[..] } else { covered };
        let store = store::Simulated::open(&self.platter, 0).ok();
        let durable = store.and_then(|store| header(&store).ok().flatten()).map_or(Vec::new(), |header| header.covered);
        if durable.len() != covered.len() || covered.iter().zip(&durable).any(|(cut, has)| cut > has) {
            self.cuts_too_far = Some(format!("the log is cut to {covered:?}, the store has {durable:?}"));
        }
        self.inner.cut(covered);
    }

    fn wake(&mut self, waiter: Waiter) {
        self.inner.wake(waiter);
    }

    fn libraries(&self) -> Vec<u8> {
        self.inner.libraries()
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }

    fn nanos(&self) -> u64 {
        self.inner.nanos()
    }
}

/// A stream of the log.
pub struct Stream {
    stepped: Stepped<Simulated>,
    /// Blocks on their way to the disk.
    flights: Vec<Flight<Open>>,
    /// It was stopped, or has failed.
    pub has_ended: bool,
}

/// What a worker did to a connection.
pub enum Sent {
    /// These bytes have left the machine.
    Bytes(Vec<u8>),
    /// It was closed.
    Closed,
}

/// See the module's text.
pub struct Machine {
    /// The node.
    pub node: Arc<Node>,
    /// Its workers.
    pub workers: Vec<Worker>,
    woken: Vec<Arc<AtomicBool>>,
    /// The log.
    pub log: Log,
    /// Its streams.
    pub streams: Vec<Stream>,
    /// The checkpointer.
    pub checkpointer: Checkpointer,
    /// What it sees.
    pub outside: Watched,
}

impl Machine {
    /// Starts a machine with what its disks have, as the server starts.
    pub fn start(hardware: &Hardware, plan: &Plan, chance: &mut Chance) -> Result<(Machine, Start), NoStart> {
        Self::try_start(hardware, plan, chance).map_err(|why| match hardware.is_dead() {
            true => NoStart::Power,
            false => NoStart::Refused(why.to_string()),
        })
    }

    fn try_start(
        hardware: &Hardware,
        plan: &Plan,
        chance: &mut Chance,
    ) -> Result<(Machine, Start), Box<dyn std::error::Error>> {
        // Of all worlds of the process the same.
        object::hashed::hand_in_seed(HASH_SEED);
        let everything = vec![Lsn::MAX; plan.streams];
        let durable = if plan.planted == Planted::WrongCut { &everything[..] } else { &[] };
        let mut log = Opened::of(hardware.disks.clone(), durable)?;
        let store: Arc<dyn Store> = Arc::new(store::Simulated::open(&hardware.platter, 0)?);
        let header = header(&*store)?;
        node::check_disks(&log, header.as_ref(), "the platter")?;
        let mut values = Values::default();
        for (name, value) in SETTINGS {
            values.set(name, value.as_bytes())?;
        }
        let live = Arc::new(Live::new(values, None, Renames::default()));
        let started_ms = hardware.clock.unix_ms();
        let facts = Facts { started_ms, ..Facts::default() };
        let node = Node::new(live, hardware.clock.clone(), plan.workers, HASH_SEED, facts);
        let mut start = Start { bases: log.recovery().bases(), ..Start::default() };
        let recovered = node::recover(&node, &*store, |apply| {
            log.replay(|record| {
                start.found.push(Found { lsn: record.lsn, stream: record.stream, effects: record.effects.into() });
                if plan.planted == Planted::LostExpiry {
                    let effects = without_expiry(&node.engine.keyspace, record.effects);
                    apply(log::Recovered { effects: &effects, ..record });
                } else {
                    apply(record);
                }
            })
        })?;
        // What the invariants compare is in memory.
        let mut warm = WarmUp::new(node.engine.clone(), store.clone(), node.spare_local());
        while warm.step(|_| {})? != Warmth::Done {}
        drop(warm);
        start.digests = digests(&node.engine.keyspace);
        start.ends = log.ends()?;
        start.highest = recovered.highest();
        start.covered = recovered.loaded.as_ref().map_or(Vec::new(), |loaded| loaded.covered.to_vec());

        let clock = hardware.clock.clone();
        let fsync = if plan.planted == Planted::GatesOff { Fsync::No } else { plan.fsync };
        let settings = log::Settings {
            limits: LIMITS,
            fsync,
            clock: Arc::new(move || clock.nanos()),
            seed: chance.bits() & 0xffff,
        };
        let (log, mut gates, streams) = log.start_by_hand([5; 16], recovered.highest(), plan.workers + 1, settings)?;
        let gate = gates.pop().unwrap_or_default();
        let checkpoints = Arc::new(Checkpoints::new(store.clone(), started_ms, None));
        node.set_log(Some((Arc::new(Durable::new(log.clone(), gates)), checkpoints)));
        let watcher = Arc::downgrade(&node);
        log.on_moved(Box::new(move || {
            if let Some(node) = watcher.upgrade() {
                node.log_moved();
            }
        }));
        let checkpointer = Checkpointer::new(node.engine.clone(), store, HASH_SEED, recovered.loaded);
        let inner = Outside { node: node.clone(), log: log.clone(), gates: gate };
        let outside = Watched {
            inner,
            platter: hardware.platter.clone(),
            planted: plan.planted,
            cuts_too_far: None,
            has_cut: false,
        };
        let mut workers = Vec::new();
        let mut woken = Vec::new();
        for index in 0..plan.workers {
            workers.push(Worker::new(node.clone(), index, chance.bits()));
            let flag = Arc::new(AtomicBool::new(true));
            woken.push(flag.clone());
            node.open_mailbox(index, Mailbox::new(Box::new(move || flag.store(true, Relaxed))));
        }
        let streams =
            streams.into_iter().map(|stepped| Stream { stepped, flights: Vec::new(), has_ended: false }).collect();
        Ok((Machine { node, workers, woken, log, streams, checkpointer, outside }, start))
    }

    /// A new connection to a worker.
    pub fn connect(&mut self, worker: usize) -> Option<Token> {
        let now = self.node.clock.unix_ms();
        self.workers[worker].accept(Peer { loopback: true, ..Peer::default() }, now).ok()
    }

    /// A turn of a worker, as its driver takes it. `sent` hears what leaves the machine.
    pub fn turn(&mut self, worker: usize, mut sent: impl FnMut(Token, Sent)) {
        let now = self.node.clock.unix_ms();
        if self.woken[worker].swap(false, Relaxed) {
            self.workers[worker].read_mail();
        }
        let worker = &mut self.workers[worker];
        worker.turn(now);
        while worker.next_thirsty().is_some() {}
        while let Some(token) = worker.next_output() {
            loop {
                let bytes = match worker.output(token) {
                    Output::Idle => break,
                    Output::Close => {
                        sent(token, Sent::Closed);
                        break;
                    }
                    Output::Last(bytes) => {
                        let bytes = bytes.to_vec();
                        worker.closed(token);
                        sent(token, Sent::Bytes(bytes));
                        sent(token, Sent::Closed);
                        break;
                    }
                    Output::Send(out) => bytes_of(out),
                };
                worker.sent(token, bytes.len());
                sent(token, Sent::Bytes(bytes));
            }
        }
    }

    /// Whether a worker has anything to do.
    pub fn wants_turn(&self, worker: usize) -> bool {
        self.woken[worker].load(Relaxed) || self.workers[worker].has_work()
    }

    /// A step of one of a stream's threads. `apart`: a block that it hands out is written later, by [`Self::land`]; what comes of the step,
    /// nothing if it is that.
    pub fn step_stream(&mut self, stream: usize, late: bool, apart: bool) -> Option<After> {
        let stream = &mut self.streams[stream];
        if stream.has_ended {
            return None;
        }
        let step = if apart || !stream.flights.is_empty() {
            stream.stepped.step_apart(late)
        } else {
            log::Step::Then(stream.stepped.step(late))
        };
        match step {
            log::Step::Write(flight) => {
                stream.flights.push(flight);
                None
            }
            log::Step::Then(after) => {
                stream.has_ended = after == After::End;
                Some(after)
            }
        }
    }

    /// How many blocks of a stream are on their way to the disk.
    pub fn in_flight(&self, stream: usize) -> usize {
        self.streams[stream].flights.len()
    }

    /// One of a stream's blocks is written. A step of the stream follows.
    pub fn land(&mut self, stream: usize, which: usize) {
        let stream = &mut self.streams[stream];
        let flight = stream.flights.remove(which);
        let written = flight.write();
        stream.stepped.land(flight, written);
    }

    /// The machine stops: of blocks on their way some are written, as a whole or in part, though nobody heard of that.
    pub fn interrupt_flights(&mut self, disks: &[Simulated], chance: &mut Chance) {
        for (stream, disk) in self.streams.iter_mut().zip(disks).filter(|(_, disk)| !disk.is_dead()) {
            for flight in stream.flights.drain(..) {
                match chance.below(3) {
                    0 => {}
                    1 => drop(flight.write()),
                    _ => {
                        disk.fail_power_after(0);
                        let _ = flight.write();
                        disk.kill();
                    }
                }
            }
        }
    }

    /// A job of a stream's helper. False: it has none.
    pub fn help_stream(&mut self, stream: usize, helper: usize) -> bool {
        self.streams[stream].stepped.help(helper)
    }

    /// A step of the checkpointer; the text of an error.
    pub fn step_checkpointer(&mut self) -> Result<Step, String> {
        self.checkpointer.step(&mut self.outside).map_err(|error| error.to_string())
    }

    /// Watermarks of the streams.
    pub fn marks(&self) -> Vec<Lsn> {
        self.log.marks().all().collect()
    }

    /// It stops: all that memory holds.
    pub fn into_digests(self) -> Digests {
        drop(self.workers);
        digests(&self.node.engine.keyspace)
    }
}

/// Of each key the digest of what it holds: database, name.
pub type Digests = BTreeMap<(u16, Vec<u8>), Digest>;

/// All that a keyspace holds that nobody uses.
///
/// # Panics
/// If it has workers.
pub fn digests(keyspace: &Keyspace) -> Digests {
    let mut digests = Digests::new();
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { return digests };
    let (mut local, clock) = (keyspace.local(0), AccessClock::new(7));
    for number in 0..DATABASES {
        let db = Db::new(keyspace, &held, &mut local, &clock, number, 1);
        let mut slot = keyspace.next_occupied(0);
        while let Some(at) = slot {
            let mut from = Some(0);
            while let Some(hash) = from {
                from = db.walk(at, hash, |entry| {
                    digests.insert((number, entry.key().to_vec()), Digest::of_entry(entry, 0));
                });
            }
            slot = if usize::from(at) + 1 < SLOTS { keyspace.next_occupied(at + 1) } else { None };
        }
    }
    keyspace.release(held, |_| {});
    digests
}

fn bytes_of(out: &Outgoing) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let count = out.slices(&mut slices, usize::MAX);
    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
}

/// The slots that a record's effects change; `None`: all of them.
pub fn slots_of(encoded: &[u8]) -> Option<BTreeSet<u16>> {
    let mut slots = BTreeSet::new();
    for mut effect in effects::decode(encoded).flatten() {
        if matches!(effect.barrier(), Ok(Some(_))) {
            return None;
        }
        slots.insert(if effect.libraries().is_some() { 0 } else { keyspace::slot_of(effect.key) });
    }
    Some(slots)
}

/// A planted mistake: the effects without those that give a key its time.
fn without_expiry(keyspace: &Keyspace, encoded: &[u8]) -> Vec<u8> {
    let mut kept = effects::Effects { recording: true, ..Default::default() };
    for effect in effects::decode(encoded).flatten().filter(|effect| effect.op != effects::op::EXPIRE) {
        let payload = effect.payload.0;
        kept.push(effect.op, effect.db, &keyspace.hasher().key(effect.key), |w| w.0.extend_from_slice(payload));
    }
    kept.encoded
}

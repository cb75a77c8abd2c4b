//! A start, as the server's, from the contents of the disks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clocks::UnixMs;
use command::effects;
use engine::checkpoint::{Checkpointer, WarmUp, header, note_streams, streams_begun};
use keyspace::Keyspace;
use loggroup::Driver;
use node::cluster::Cluster;
use node::config::{Live, Renames, Values};
use node::{Checkpoints, Durable, Facts, Mailbox, Node, Outside, Worker};
use redolog::simulated::Chance;
use redolog::{Fsync, Limits, Lsn, Opened, Watermarks};
use store::Store;

use super::checkpoints::Rounds;
use super::fetching::Fetching;
use super::memory::{self, Digests, Memory};
use super::promise::{Process, name_of};
use super::streams::Stream;
use super::watched::Watched;
use super::{HASH_SEED, Keys, Machine};
use crate::hardware::{Hardware, SEGMENT};
use crate::plan::{Plan, Planted};

/// Of the log.
pub const LIMITS: Limits = Limits { segment: SEGMENT, spares: 1, reserve: 3000, block: 4096 };

/// Values of so many bytes are written into records by the log: few are longer.
const LATE_FROM: usize = 100;

/// Settings other than the defaults: thresholds so low that short histories cross them.
const SETTINGS: [(&str, &str); 9] = [
    ("databases", "5"),
    ("list-max-listpack-size", "4"),
    ("hash-max-listpack-entries", "4"),
    ("set-max-listpack-entries", "4"),
    ("set-max-intset-entries", "4"),
    ("zset-max-listpack-entries", "4"),
    ("stream-node-max-entries", "3"),
    ("protected-mode", "no"),
    ("enable-debug-command", "yes"),
];

/// A record that a start has found in the log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Found {
    /// Its position.
    pub lsn: Lsn,
    /// Its stream.
    pub stream: u16,
    /// Its effects.
    pub effects: Vec<u8>,
}

/// The findings of a start.
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
    /// All that there is then.
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

type Failure = Box<dyn std::error::Error>;

impl Machine {
    /// Starts a machine with what its disks have, as the server starts.
    ///
    /// # Errors
    ///
    /// The power has failed meanwhile, or the start refuses what the disks have.
    pub fn start(hardware: &Hardware, plan: &Plan, chance: &mut Chance) -> Result<(Machine, Start), NoStart> {
        let cluster = hardware.seat.as_ref().map(|seat| seat.begin_life(hardware.clock.boot_ns()));
        Self::start_as(hardware, plan, chance, (cluster, None))
    }

    /// As [`Self::start`], of a process that has its part in a cluster already, with a log that copies have brought up to
    /// date.
    ///
    /// # Errors
    ///
    /// As for [`Self::start`].
    pub fn start_as(
        hardware: &Hardware,
        plan: &Plan,
        chance: &mut Chance,
        (cluster, copies): (Option<Arc<Cluster>>, Option<&Arc<Driver>>),
    ) -> Result<(Machine, Start), NoStart> {
        Self::try_start(hardware, plan, chance, (cluster, copies)).map_err(|why| match hardware.is_dead() {
            true => NoStart::Power,
            false => NoStart::Refused(why.to_string()),
        })
    }

    fn try_start(
        hardware: &Hardware,
        plan: &Plan,
        chance: &mut Chance,
        (cluster, copies): (Option<Arc<Cluster>>, Option<&Arc<Driver>>),
    ) -> Result<(Machine, Start), Failure> {
        // Of all worlds of the process the same.
        object::hashed::hand_in_seed(HASH_SEED);
        let everything = vec![Lsn::MAX; plan.streams];
        let durable = if plan.planted == Planted::WrongCut { &everything[..] } else { &[] };
        let mut log = Opened::of(hardware.disks.clone(), durable)?;
        let store: Arc<dyn Store> = Arc::new(store::Simulated::open(&hardware.platter, 0)?);
        let header = header(&*store)?;
        node::check_disks(&log, header.as_ref(), streams_begun(&*store)?, "the platter")?;
        let started = hardware.clock.unix_ms();
        let node = node(hardware, plan, started)?;
        let mut start = Start { bases: log.recovery().bases(), ..Start::default() };
        log.replay(|record| {
            start.found.push(Found { lsn: record.lsn, stream: record.stream, effects: record.effects.into() });
        })?;
        let told = told(&start.found, plan, &node.engine.keyspace);
        let recovered = node::recover(&node, &*store, |apply| {
            told.iter().for_each(|Found { lsn, stream, effects }| {
                apply(redolog::Recovered { lsn: *lsn, stream: *stream, effects });
            });
            Ok(())
        })?;
        // The contents that the invariants compare are in memory: in this machine's, or in one beside it.
        if plan.is_cold {
            let records = told.iter().map(|found| (found.lsn, &found.effects[..]));
            start.digests = Memory::recover(&store, records, started)?.digests();
        } else {
            memory::warm_up(&node.engine, &store, node.spare_local())?;
            start.digests = memory::digests(&node.engine.keyspace);
        }
        start.ends = log.ends()?;
        start.highest = recovered.highest();
        start.covered = recovered.loaded.as_ref().map_or(Vec::new(), |loaded| loaded.covered.to_vec());

        if let Some(copies) = copies {
            copies.lead(&mut log)?;
        }
        let clock = hardware.clock.clone();
        let fsync = if plan.planted == Planted::GatesOff { Fsync::No } else { plan.fsync };
        let settings = redolog::Settings {
            limits: LIMITS,
            fsync,
            clock: Arc::new(move || clock.nanos()),
            seed: chance.bits() & 0xffff,
        };
        let (log, mut gates, streams) = log.start_by_hand([5; 16], recovered.highest(), plan.workers + 2, settings)?;
        if let Some(copies) = copies {
            copies.attach(&log);
        }
        note_streams(&*store, log.streams())?;
        let gate = gates.pop().unwrap_or_default();
        let backup_gates = gates.pop().unwrap_or_default();
        let checkpoints = Arc::new(Checkpoints::new(store.clone(), started, None));
        // Everything is on the disk, they say.
        let pretended =
            (plan.planted == Planted::SkippedPrefix).then(|| Arc::new(Watermarks::new(&vec![Lsn::MAX; plan.streams])));
        let marks = pretended.clone().unwrap_or_else(|| log.marks().clone());
        marks.copy_promised(log.marks());
        node.set_log(Some((Arc::new(Durable::with_marks(log.clone(), gates, marks, LATE_FROM)), checkpoints.clone())));
        let watcher = Arc::downgrade(&node);
        log.on_moved(Box::new(move || {
            if let Some(node) = watcher.upgrade() {
                node.log_moved();
            }
        }));
        let fetching = Fetching::begin(&node, &store, plan.planted);
        let process = Process::new(log.clone(), plan.fsync);
        node.config.set_host(Box::new(process.clone()));
        let warm_up = (plan.is_cold && plan.warms_up)
            .then(|| WarmUp::new(node.engine.clone(), store.clone(), node.spare_local()));
        let checkpointer = Checkpointer::new(node.engine.clone(), store.clone(), HASH_SEED, recovered.loaded);
        let inner = Outside { node: node.clone(), log: log.clone(), gates: gate, floor: None };
        let outside = Watched {
            inner,
            platter: hardware.platter.clone(),
            planted: plan.planted,
            keeps_log: plan.keeps_log,
            cuts_too_far: None,
            has_cut: false,
        };
        if let Some(cluster) = &cluster {
            node.join(cluster.clone());
        }
        let mut workers = Vec::new();
        let mut woken = Vec::new();
        for index in 0..plan.workers {
            workers.push(Worker::new(node.clone(), index, chance.bits()));
            let flag = Arc::new(AtomicBool::new(true));
            woken.push(flag.clone());
            node.open_mailbox(index, Mailbox::new(Box::new(move || flag.store(true, Relaxed))));
        }
        let streams = streams.into_iter().map(Stream::new).collect();
        let rounds = Rounds::new(checkpoints);
        let machine = Machine {
            _keys: Keys(node.clone()),
            node,
            workers,
            woken,
            cluster,
            dials: Vec::new(),
            log,
            pretended,
            streams,
            store,
            process,
            checkpointer,
            rounds,
            outside,
            backup_gates,
            fetching,
            warm_up,
        };
        Ok((machine, start))
    }
}

fn node(hardware: &Hardware, plan: &Plan, started: UnixMs) -> Result<Arc<Node>, Failure> {
    let mut values = Values::default();
    for (name, value) in SETTINGS {
        values.set(name, value.as_bytes())?;
    }
    values.set("appendfsync", name_of(plan.fsync).as_bytes())?;
    values.set("maxmemory", plan.maxmemory.to_string().as_bytes())?;
    values.set("cluster-takeover-wait", plan.takeover_wait_ms.to_string().as_bytes())?;
    if plan.lock_timeout_ms > 0 {
        values.set("cluster-lock-timeout", plan.lock_timeout_ms.to_string().as_bytes())?;
    }
    let live = Arc::new(Live::new(values, None, Renames::default()));
    let facts = Facts { started, ..Facts::default() };
    Ok(Node::new(live, hardware.clock.clone(), plan.workers, HASH_SEED, facts))
}

/// The records that are replayed: all that were found, in their order, unless a mistake is planted.
fn told(found: &[Found], plan: &Plan, keyspace: &Keyspace) -> Vec<Found> {
    let mut told = found.to_vec();
    match plan.planted {
        Planted::LostExpiry => {
            told.iter_mut().for_each(|found| found.effects = without_expiry(keyspace, &found.effects));
        }
        Planted::WrongOrder => told.sort_by_key(|found| (found.stream, found.lsn)),
        _ => {}
    }
    if let Some(forgets) = plan.forgets {
        told.iter_mut().for_each(|found| found.effects = forgets.of(keyspace, &found.effects));
    }
    told
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

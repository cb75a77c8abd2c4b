//! A copy of a shard's data follows the shard's log: the node's own acceptor has the blocks, and their committed records
//! are applied to memory (rules S1 to S3).

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::checkpoint::{Checkpointer, Loaded, header, restore};
use engine::follow::{Applied, Applier, Logged, Step};
use loggroup::{Following, Local};
use membership::ShardId;
use node::{CopyFigures, CopyOfData, Known, MonoNs, Node};
use quorum::Cut;
use redolog::{Lsn, Recovered};
use standby::{Behind, Memory};

use super::super::durable::{Stored, fetch_from};

/// A busy latch is free in so long, unless a script holds it.
const BUSY: Duration = Duration::from_micros(50);

/// Loaders read keys of the next record in about so long.
const LOADING: Duration = Duration::from_micros(200);

/// After so many waits for loaders the keys are read at once: loaders may be waiting for memory.
const PATIENT: u32 = 500;

/// Allocations of deleted keys that are freed behind a batch.
const GARBAGE: usize = 1000;

/// Threads that read the store.
pub type Readers = Vec<JoinHandle<()>>;

/// The data of a node that stands by, before they follow.
pub struct Copy {
    shard: ShardId,
    applier: Applier,
    applied: Arc<Applied>,
    /// Memory has everything up to here, and the store up to there.
    begins: Lsn,
    covered: Lsn,
    /// The store may have parts of records up to here.
    highest: Lsn,
    checkpointer: Checkpointer,
}

impl Copy {
    /// Reads which keys the store has, and starts threads that read them. The node hashes with `seed`, and its workers have not started.
    ///
    /// # Errors
    /// The store cannot be read, or has no checkpoint.
    pub fn open(
        node: &Arc<Node>,
        stored: &Stored,
        (shard, streams): (ShardId, u16),
        seed: u64,
    ) -> Result<(Self, Readers), Box<dyn Error>> {
        let (store, at) = (stored.store(), node.spare_local());
        let loaded: Option<Loaded> = {
            let mut local = node.engine.keyspace.local(at);
            restore(&**store, &node.engine.keyspace, &mut local)?
        };
        let Some(loaded) = loaded else { return Err("the copy of the store has no checkpoint".into()) };
        let limits = node.config.settings().tunables.limits.clone();
        let applier = Applier::new(node.engine.clone(), at as u16, limits, Some(&loaded), usize::from(streams));
        let covered =
            (0..usize::from(streams)).map(|stream| loaded.header.covered.get(stream).copied().unwrap_or_default());
        let (applied, covered) = (Arc::clone(applier.applied()), covered.min().unwrap_or_default());
        let (readers, highest) = (fetch_from(node, store)?, loaded.highest);
        let checkpointer = Checkpointer::new(node.engine.clone(), Arc::clone(store), seed, Some(loaded));
        Ok((Self { shard, applier, applied, begins: covered, covered, highest, checkpointer }, readers))
    }

    /// Of memory that has led the log so far: it has everything up to `last`, and its store is as `stored`.
    ///
    /// # Errors
    /// The store cannot be read, or has no checkpoint.
    pub fn of_owner(
        node: &Arc<Node>,
        stored: &Stored,
        (shard, streams): (ShardId, u16),
        last: Lsn,
        checkpointer: Checkpointer,
    ) -> Result<Self, Box<dyn Error>> {
        let Some(header) = header(&**stored.store())? else { return Err("the store has no checkpoint".into()) };
        let streams = usize::from(streams);
        let covered = (0..streams).map(|stream| header.covered.get(stream).copied().unwrap_or_default());
        let covered = covered.min().unwrap_or_default();
        let limits = node.config.settings().tunables.limits.clone();
        let applier = Applier::after(node.engine.clone(), node.spare_local() as u16, limits, last, streams);
        let applied = Arc::clone(applier.applied());
        Ok(Self { shard, applier, applied, begins: last, covered, highest: last, checkpointer })
    }
}

/// A copy that follows.
pub struct Follow {
    shard: ShardId,
    following: Following,
    applied: Arc<Applied>,
    /// None: the process leads what it has followed.
    applier: Arc<Mutex<Option<Applier>>>,
    highest: Lsn,
    state: Arc<State>,
}

/// The part of a copy that other threads see.
#[derive(Default)]
pub struct State {
    /// Its store has everything up to here durably.
    covered: AtomicU64,
    /// A record could not be applied: memory is as of no moment, and nobody may read it.
    has_failed: AtomicBool,
}

impl Follow {
    /// Begins to follow, from the acceptor of this node.
    ///
    /// # Errors
    /// The log begins behind what the store has, the acceptor has stopped, or the system has no thread.
    pub fn begin(
        node: &Arc<Node>,
        copy: Copy,
        acceptor: &Local<redolog::Folder>,
    ) -> Result<(Self, Checkpointer), Box<dyn Error>> {
        let Copy { shard, applier, applied, begins, covered, highest, checkpointer } = copy;
        let tap = acceptor.tap(Cut(begins.0), Cut(covered.0))?;
        let state = Arc::new(State { covered: AtomicU64::new(covered.0), ..State::default() });
        let applier = Arc::new(Mutex::new(Some(applier)));
        let (applies, fails, waker) = (Arc::clone(&applier), Arc::clone(&state), Arc::clone(node));
        let apply = move |records: &[Recovered<'_>]| {
            if fails.has_failed.load(SeqCst) {
                return;
            }
            let mut applier = lock(&applies);
            let Some(applier) = applier.as_mut() else { return };
            if let Err(why) = apply(applier, records, &waker) {
                tracing::error!(cause = "standby", "A record of the log of shard {} cannot be applied: {why}", shard.0);
                fails.has_failed.store(true, SeqCst);
            }
        };
        let clock = Arc::clone(&node.clock);
        let following = Following::start(tap, Arc::new(move || clock.monotonic_ns().0), apply)?;
        Ok((Self { shard, following, applied, applier, highest, state }, checkpointer))
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The records that are applied.
    pub fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// The LSN up to which its store has all records durably.
    pub fn covered(&self) -> Cut {
        Cut(self.state.covered.load(SeqCst))
    }

    /// How far it is behind what is committed.
    pub fn behind(&self) -> Behind {
        self.following.behind()
    }

    /// The end of what the acceptor has: of all streams the lowest.
    pub fn end(&self) -> Cut {
        self.following.log()
    }

    /// True if a record could not be applied: memory is as of no moment.
    pub fn has_failed(&self) -> bool {
        self.state.has_failed.load(SeqCst)
    }

    /// True if it does not go on: the process has to start again.
    pub fn has_ended(&self) -> bool {
        self.has_failed() || self.following.has_ended()
    }

    /// Waits until memory has all records up to here, and no other one comes at or below.
    ///
    /// # Errors
    /// It does not go on, or the server stops.
    pub fn wait_for(&self, upto: Lsn, node: &Node) -> Result<(), &'static str> {
        while Lsn(self.following.passed().0) < upto {
            if self.has_ended() {
                return Err("its copy of the data follows the log no more");
            }
            if node.is_stopping() {
                return Err("the server stops");
            }
            thread::park_timeout(BUSY);
        }
        Ok(())
    }

    /// Follows no more. Returns what is applied, and what applies the rest; none: it has failed, or has ended before.
    pub fn stop(&self) -> Option<(Memory, Applier)> {
        let has_ended = self.following.stop().is_some() || self.has_failed();
        let (memory, applier) = (self.following.memory()?, lock(&self.applier).take()?);
        (!has_ended).then_some((memory, applier))
    }

    /// New records have LSNs above this: the store may have parts of records up to there.
    pub fn highest(&self) -> Lsn {
        self.highest
    }

    /// A checkpoint has made the store cover this.
    pub fn covers(&self, upto: Lsn) {
        self.state.covered.fetch_max(upto.0, SeqCst);
        self.following.between(move |follower| follower.durable(Cut(upto.0)));
    }

    /// Has memory be as of one moment, once all records have come of which the store had parts. An idle log brings no
    /// record that would say so.
    pub fn settle(&self) {
        if self.applied.is_whole() {
            return;
        }
        let applier = Arc::clone(&self.applier);
        self.following.between(move |follower| {
            if let (Ok(passed), Some(applier)) = (follower.passed(), lock(&applier).as_mut()) {
                applier.passed(Lsn(passed.0));
            }
        });
    }
}

impl CopyOfData for Follow {
    fn shard(&self) -> ShardId {
        self.shard
    }

    fn figures(&self) -> CopyFigures {
        let (Behind { bytes, ms, .. }, known) = (self.behind(), self.following.known());
        CopyFigures {
            passed: Lsn(self.following.passed().0),
            behind_bytes: bytes,
            behind_ms: ms,
            known_at: MonoNs(known.at),
            heard_at: MonoNs(known.heard_at),
        }
    }

    fn readable(&self) -> Option<Known> {
        let is_whole = self.applied.is_whole() && !self.has_ended();
        let known = self.following.known();
        (is_whole && known.at > 0).then_some(Known { term: known.term, at: MonoNs(known.at) })
    }
}

fn lock(applier: &Mutex<Option<Applier>>) -> MutexGuard<'_, Option<Applier>> {
    applier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Applies records, which come in the order of their LSNs.
///
/// # Errors
/// As for [`Applier::step`].
fn apply(
    applier: &mut Applier,
    records: &[Recovered<'_>],
    node: &Node,
) -> Result<(), engine::checkpoint::Unreplayable> {
    let records: Vec<Logged<'_>> = records.iter().map(|record| (record.lsn, record.effects)).collect();
    let (mut at, mut waits) = (0, 0);
    while let Some(rest) = records.get(at..).filter(|rest| !rest.is_empty()) {
        // The metadata have the libraries of functions, and give them to every node.
        match applier.step(rest, &mut |waiter| node.wake(waiter), &mut |_| {})? {
            Step::Applied(count) => (at, waits) = (at + count, 0),
            Step::Busy => thread::park_timeout(BUSY),
            Step::Loading => {
                waits += 1;
                if waits >= PATIENT {
                    applier.insist();
                }
                thread::park_timeout(LOADING);
            }
        }
    }
    applier.step_garbage(GARBAGE);
    Ok(())
}

//! A store in memory that a crash takes back to its last flush, and a machine that runs, crashes and recovers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use clocks::{MonoMs, UnixMs};
use command::{Digest, Generation, Rng, Tunables};
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Mark, Need, SLOTS, Version, Waiter};
use object::saved::object_of;
use redolog::{Gate, Intake, Lsn, Take, Watermarks};
use store::{Batch, Entries, Error, Figures, Op, Range, Snapshot, Store};

use super::hand::Hand;
use crate::checkpoint::counts::Counts;
use crate::checkpoint::format;
use crate::checkpoint::load::load;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{
    Checkpointer, Clearing, Replay, StoreSource, WarmUp, Warmth, World, begin_generation, header, leave_mark, restore,
};
use crate::cold::Loader;
use crate::{Engine, Link, Shared};

pub(crate) const DATABASES: usize = 3;
pub(crate) const NOW: UnixMs = UnixMs(1_000_000_000_000);

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Maps {
    now: Map,
    durable: Map,
    retired: Vec<Vec<u8>>,
    /// True if the next writes fail.
    full: bool,
}

/// See the module's text.
#[derive(Clone, Default)]
pub(crate) struct Model(Arc<Mutex<Maps>>);

impl Model {
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().expect("no test panics here")
    }

    /// The contents that a crash would leave now.
    pub(crate) fn crashed(&self) -> Model {
        let durable = self.maps().durable.clone();
        Model(Arc::new(Mutex::new(Maps { now: durable.clone(), durable, ..Maps::default() })))
    }

    pub(crate) fn fill_up(&self, full: bool) {
        self.maps().full = full;
    }

    /// Number of leaves, and of objects without an entry.
    pub(crate) fn leaves(&self) -> (usize, usize) {
        let maps = self.maps();
        let entries = maps.now.iter().filter(|(key, _)| format::is_entry(key));
        let named: BTreeSet<_> = entries
            .filter_map(|(key, value)| {
                let record = format::record_of(value).expect("our own value");
                object_of(record).map(|object| format::object_prefix(key, object))
            })
            .collect();
        let leaves: Vec<_> = maps.now.keys().filter(|key| key[0] == 2).map(|key| key[..15].to_vec()).collect();
        let objects: BTreeSet<_> = leaves.iter().collect();
        (leaves.len(), objects.into_iter().filter(|object| !named.iter().any(|named| named[..] == object[..])).count())
    }

    /// Its contents of these spaces.
    pub(crate) fn counts(&self, spaces: &[keyspace::Space]) -> Counts {
        let (maps, hasher) = (self.maps(), keyspace::KeyHasher::new(7));
        let mut counts = Counts::default();
        for (stored_key, value) in maps.now.iter().filter(|(key, _)| format::is_entry(key)) {
            let (bytes, stored) = format::read_entry(stored_key, value).expect("our own value");
            let space = u32::from_be_bytes(stored_key[1..5].try_into().expect("four bytes"));
            if let (format::Stored::Entry(head, _), true) = (stored, spaces.contains(&space)) {
                let mark = Mark::live(head.expiry.is_some(), head.field_expiry.is_some(), false);
                counts.change(hasher.key(&bytes).slot, space, Mark::NONE, mark, head.earliest());
            }
        }
        counts
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.maps().now.keys().filter(|key| key[0] == 1).count()
    }
}

struct Frozen(Map);

impl Snapshot for Frozen {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, (low, high): Range<'_>) -> Entries<'_> {
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (low, high);
        Box::new(self.0.range::<[u8], _>(range).map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}

impl Store for Model {
    fn write(&self, batch: &Batch) -> Result<(), Error> {
        let mut maps = self.maps();
        if maps.full {
            return Err(Error::NoSpace("so the test wants it".into()));
        }
        for op in batch.ops() {
            match op {
                Op::Put(key, value) => {
                    assert!(!maps.retired.iter().any(|prefix| key.starts_with(prefix)), "a retired prefix");
                    maps.now.insert(key.into(), value.into());
                }
                Op::Delete(key) => drop(maps.now.remove(key)),
                Op::Retire(prefix) => {
                    maps.now.retain(|key, _| !key.starts_with(prefix));
                    maps.retired.push(prefix.into());
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<store::Generation, Error> {
        let mut maps = self.maps();
        maps.durable = maps.now.clone();
        Ok(1)
    }

    fn generation(&self) -> store::Generation {
        1
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.maps().now.get(key).cloned())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen(self.maps().now.clone()))
    }

    fn backup(&self, _: &Path) -> Result<store::Generation, Error> {
        self.flush()
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }

    fn fault(&self) -> Option<Error> {
        None
    }
}

/// The log, as on a slow disk.
#[derive(Default)]
pub(crate) struct Log {
    /// All records that were left and not cut, in order.
    pub(crate) records: Vec<(Lsn, Vec<u8>)>,
    /// The position up to which it is committed.
    pub(crate) committed: Lsn,
    /// The position up to which it has been cut.
    pub(crate) cut: Lsn,
    /// The highest LSN taken.
    pub(crate) left: Lsn,
    /// The gate through which workers leave more meanwhile.
    pub(crate) gate: Option<Gate>,
    pub(crate) woken: Vec<Waiter>,
}

impl Log {
    /// Takes the records that were left.
    pub(crate) fn take(&mut self, intake: &mut Intake) {
        let mut body = Vec::new();
        let Take::Taken(taken) = intake.take(&mut body) else { return };
        let mut records: Vec<_> = redolog::Record::all(&body).map(|record| record.expect("our own encoding")).collect();
        records.sort_by_key(|record| record.lsn);
        self.records.extend(records.into_iter().map(|record| (record.lsn, record.effects.into())));
        self.left = taken.cut;
    }
}

impl World for Log {
    fn left(&self) -> Vec<Lsn> {
        vec![self.gate.as_ref().map_or(self.left, Gate::end)]
    }

    fn committed(&self) -> Vec<Lsn> {
        vec![self.committed]
    }

    fn cut(&mut self, covered: &[Lsn]) {
        self.cut = covered[0];
    }

    fn wake(&mut self, waiter: Waiter) {
        self.woken.push(waiter);
    }

    fn libraries(&self) -> Vec<u8> {
        Vec::new()
    }

    fn now(&self) -> UnixMs {
        NOW
    }

    fn nanos(&self) -> u64 {
        0
    }
}

/// A server without sockets and threads.
pub(crate) struct Machine {
    pub(crate) hand: Hand,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) store: Model,
    pub(crate) log: Log,
    warm: WarmUp,
    /// True if it began with the contents of a store.
    pub(crate) has_restarted: bool,
    intake: Intake,
    /// A gate that no worker uses.
    own: Gate,
    planted: Planted,
    tunables: Arc<Tunables>,
}

/// Thresholds so low that short histories cross them.
pub(crate) fn tunables() -> Arc<Tunables> {
    let mut tunables = Tunables { max_string: 1 << 20, databases: DATABASES as u16, ..Tunables::default() };
    tunables.limits.list_max_listpack_size = 4;
    tunables.limits.hash_max_listpack_entries = 4;
    tunables.limits.set_max_listpack_entries = 4;
    tunables.limits.set_max_intset_entries = 4;
    tunables.limits.zset_max_listpack_entries = 4;
    tunables.limits.stream_node_max_entries = 3;
    Arc::new(tunables)
}

impl Machine {
    pub(crate) fn new(seed: u64, planted: Planted) -> Machine {
        Self::recovered(Model::default(), Log::default(), seed, planted).expect("there is nothing")
    }

    /// Starts with the contents of a store and a log. The error is a text.
    pub(crate) fn recovered(store: Model, mut log: Log, seed: u64, planted: Planted) -> Result<Machine, String> {
        let hashes = header(&store).map_err(|error| error.to_string())?.map_or(7, |header| header.seed);
        let keyspace = Keyspace::new(4, DATABASES, hashes);
        let other = Keyspace::new(1, DATABASES, hashes);
        let loaded = load(&store, &other, &mut other.local(0)).map_err(|error| error.to_string())?;
        let mut local = keyspace.local(0);
        let restored = restore(&store, &keyspace, &mut local).map_err(|error| error.to_string())?;
        if let (Some(restored), Some(loaded)) = (&restored, &loaded) {
            if !loaded.counts.agree(&restored.counts) {
                return Err(format!("the store has {:?}, not {:?}", loaded.counts, restored.counts));
            }
            if restored.highest < loaded.highest {
                return Err(format!("the store has version {}, above {}", loaded.highest, restored.highest));
            }
        }
        let tunables = tunables();
        let from = restored.as_ref().map(|restored| (restored, &store as &dyn Store));
        let mut replay = Replay::new(&keyspace, local, tunables.limits.clone(), from, NOW);
        for (lsn, effects) in &log.records {
            replay.record(*lsn, effects).map_err(|error| error.to_string())?;
        }
        let replayed = replay.finish().map_err(|error| error.to_string())?;
        log.records.retain(|(lsn, _)| replayed.void_from.is_none_or(|void| *lsn < void));
        let highest = replayed.last.max(restored.as_ref().map_or(Lsn(0), |restored| restored.highest));
        let shared = Arc::new(Shared::new(keyspace));
        let has_restarted = restored.is_some();
        let mut checkpointer = Checkpointer::new(shared.clone(), Arc::new(store.clone()), hashes, restored);
        checkpointer.planted = planted;
        let mut engine = Engine::new(shared, 0, seed);
        engine.configure(tunables.clone(), 0);
        let (intake, mut gates) = Intake::new(2, highest);
        let own = gates.pop().expect("two of them");
        engine.log_to(Some(Link {
            gates,
            marks: Arc::new(Watermarks::new(&[highest])),
            promises: true,
            late_from: 16,
            keeps_versions: false,
        }));
        engine.begin_turn(NOW);
        (log.committed, log.left) = (highest, highest);
        let source = StoreSource { store: Arc::new(store.clone()), report: |why| panic!("{why}") };
        engine.shared.source.set(Some(Arc::new(source)));
        let hand =
            Hand { rng: Rng::new(seed), loader: Loader::new(engine.shared.clone(), 2), engine, now: MonoMs::ZERO };
        let warm = WarmUp::new(hand.engine.shared.clone(), Arc::new(store.clone()), 3);
        Ok(Machine { hand, checkpointer, store, log, warm, has_restarted, intake, own, planted, tunables })
    }

    /// From now on nothing is logged, and nothing is kept for a store.
    pub(crate) fn switch_off(&mut self) {
        self.hand.engine.log_to(None);
        let shared = self.hand.engine.shared.clone();
        let mut clearing = Clearing::begin(&shared);
        while let Some(done) = clearing.step(&shared, |_| {}) {
            assert!(done, "nobody else is there");
        }
        assert_eq!(shared.keyspace.tombstones(), 0);
    }

    /// Begins a new generation, whose checkpoint is to be made.
    pub(crate) fn switch_on(&mut self) {
        let shared = self.hand.engine.shared.clone();
        let highest = self.log.left;
        let (intake, mut gates) = Intake::new(2, highest);
        let mut own = gates.split_off(1);
        self.intake = intake;
        let begun = leave_mark(&mut own, Generation::Begins(NOW));
        self.take();
        self.log.committed = self.log.left;
        let stored = header(&self.store).expect("a store that can be read");
        let databases = stored.as_ref().map(|header| &header.databases);
        let passed = begin_generation(&shared, &mut own, begun, databases, |_| {});
        assert!(passed.is_some_and(|passed| passed[0] > begun), "nobody else is there");
        self.hand.engine.log_to(Some(Link {
            gates,
            marks: Arc::new(Watermarks::new(&[highest])),
            promises: false,
            late_from: 16,
            keeps_versions: false,
        }));
        self.own = own.remove(0);
        let (epoch, store) = (self.checkpointer.epoch(), Arc::new(self.store.clone()));
        self.checkpointer = Checkpointer::anew(shared, store, 7, stored.as_ref(), epoch);
    }

    /// The machine stops once everything that it has left is committed, and starts again.
    pub(crate) fn restart(mut self, seed: u64) -> Result<Machine, String> {
        self.take();
        let log = Log { records: self.log.records, cut: self.log.cut, ..Log::default() };
        Self::recovered(self.store.crashed(), log, seed, self.planted)
    }

    /// The log takes the records that were left.
    pub(crate) fn take(&mut self) {
        self.log.take(&mut self.intake);
    }

    /// Commits some of the records that were left.
    pub(crate) fn commit_some(&mut self) {
        let open = self.log.records.iter().map(|(lsn, _)| *lsn).filter(|lsn| *lsn > self.log.committed);
        let open: Vec<Lsn> = open.chain((self.log.left > self.log.committed).then_some(self.log.left)).collect();
        if !open.is_empty() {
            self.log.committed = open[self.hand.rng.below(open.len() as u64) as usize];
        }
    }

    /// The machine stops, and starts again with the contents of its disks. `cut`: the log has dropped all that it may.
    /// The result must be that of the history up to the surviving records.
    pub(crate) fn crash(mut self, history: &mut Vec<(Lsn, Vec<u8>)>, seed: u64) -> Result<Machine, String> {
        let committed = self.log.committed;
        history.retain(|(lsn, _)| *lsn <= committed);
        let wanted = digest_of(history, &self.tunables);
        // Files are given up whole: some of the cut records still exist.
        let below: Vec<Lsn> = self.log.records.iter().map(|(lsn, _)| *lsn).filter(|lsn| *lsn <= self.log.cut).collect();
        let first = self.hand.rng.below(below.len() as u64 + 1) as usize;
        let cut = below.get(first).map_or(self.log.cut, |lsn| lsn.before());
        let survived = self.log.records.into_iter().filter(|(lsn, _)| *lsn <= committed && *lsn > cut);
        let records: Vec<_> = survived.collect();
        let again = || {
            let log = Log { records: records.clone(), cut: self.log.cut, ..Log::default() };
            Self::recovered(self.store.crashed(), log, seed, self.planted)
        };
        // The test must not decide which keys are read: it checks another start.
        if again()?.digest() != wanted {
            return Err("another state".into());
        }
        again()
    }

    /// Reads all of the store, even keys that were read before.
    pub(crate) fn warm_up_whole(&mut self) {
        self.warm.begin_again();
        while self.warm_up() {}
    }

    /// Reads a little of the store into memory. Returns false if all of it has been read.
    pub(crate) fn warm_up(&mut self) -> bool {
        self.warm.step(|_| {}).expect("our own") != Warmth::Done
    }

    /// Runs rounds until one has begun and ended without a change in between.
    pub(crate) fn checkpoint(&mut self) {
        use crate::checkpoint::Step;
        for _ in 0..2 {
            self.take();
            self.log.committed = self.log.left;
            self.checkpointer.begin(&mut self.log);
            while self.checkpointer.step(&mut self.log).expect("no failure is planted") != Step::Done {}
        }
    }

    /// Checks that the checkpointer's counts of the store's contents are right at the end of a round.
    pub(crate) fn counts_are_right(&self) -> Result<(), String> {
        let counts = self.checkpointer.counts();
        let spaces = (0..SLOTS as u16).flat_map(|slot| counts.of(slot).map(|(space, _)| space));
        let spaces: BTreeSet<_> = spaces.chain(self.spaces()).collect();
        let there = self.store.counts(&spaces.into_iter().collect::<Vec<_>>());
        if there.agree(&counts) { Ok(()) } else { Err(format!("the store has {there:?}, not {counts:?}")) }
    }

    /// The spaces of the databases.
    fn spaces(&self) -> Vec<keyspace::Space> {
        let keyspace = &self.hand.engine.shared.keyspace;
        let held = keyspace.try_one(0).expect("nobody else is there");
        let spaces = keyspace.databases_now(&held).spaces;
        keyspace.release(held, |_| {});
        spaces
    }

    /// The digest of everything. All keys are in memory afterwards.
    pub(crate) fn digest(&mut self) -> Digest {
        while self.warm_up() {}
        let shared = self.hand.engine.shared.clone();
        digest(&shared.keyspace, 1)
    }
}

pub(crate) fn digest(keyspace: &Keyspace, worker: usize) -> Digest {
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
    let (mut local, clock) = (keyspace.local(worker), AccessClock::new(7));
    let digest = Digest::of_everything(&mut Db::new(keyspace, &held, &mut local, &clock, 0, Version(1)), UnixMs(0));
    keyspace.release(held, |_| {});
    digest
}

/// The digest that a history gives.
pub(crate) fn digest_of(history: &[(Lsn, Vec<u8>)], tunables: &Tunables) -> Digest {
    let keyspace = Keyspace::new(2, DATABASES, 7);
    let mut replay = Replay::new(&keyspace, keyspace.local(0), tunables.limits.clone(), None, NOW);
    for (lsn, effects) in history {
        replay.record(*lsn, effects).expect("our own record");
    }
    let _ = replay.finish().expect("our own records");
    digest(&keyspace, 1)
}

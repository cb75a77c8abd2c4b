//! An owner whose records go through a log of two streams, and a standby that follows it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use clocks::{MonoMs, UnixMs};
use command::{Digest, Rng};
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Need, Version, Waiter};
use quorum::{BlockId, Cut, StreamId, Term};
use redolog::{Intake, Lsn, Take, Watermarks};
use standby::{Block, Follower};

use crate::checkpoint::tests::hand::{Hand, names};
use crate::checkpoint::tests::model::{DATABASES, Model, NOW, digest, digest_of, tunables};
use crate::checkpoint::{Checkpointer, Replay, Step as Round, StoreSource, WarmUp, Warmth, World, restore};
use crate::cold::Loader;
use crate::follow::{Applied, Applier, Figures, Step};
use crate::{Engine, Link, Shared};

pub(super) const STREAMS: usize = 2;

/// Mistakes that the test must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mistake {
    None,
    /// P8: the store is flushed up to what is applied (rule G7).
    FlushesAhead,
    /// P10: what was read is applied, committed or not (rule S1).
    AppliesUncommitted,
    /// P11: one stream is applied after the other (rule S1).
    AppliesStreamsApart,
    /// A checkpoint begins before memory is as of one moment (rule S2).
    CoversParts,
    /// Readers delete expired keys (rule S2).
    ReadersExpire,
}

/// The shard's log: of each stream its blocks, and how far they are committed and on the disks of a majority.
pub(super) struct Log {
    blocks: [Vec<Block>; STREAMS],
    committed: [u64; STREAMS],
    synced: [u64; STREAMS],
    pub(super) records: BTreeMap<Lsn, Vec<u8>>,
    /// Those that were lost, too: a standby may have read them.
    ever: BTreeMap<Lsn, Vec<u8>>,
}

/// A process that owns the shard.
pub(super) struct Owner {
    pub(super) hand: Hand,
    intakes: Vec<Intake>,
    term: Term,
}

impl Owner {
    /// One whose memory is what a log gives, and whose LSNs are above another one.
    fn new(records: &BTreeMap<Lsn, Vec<u8>>, above: Lsn, term: Term, seed: u64) -> Self {
        let keyspace = Keyspace::new(3, DATABASES, 7);
        let mut replay = Replay::new(&keyspace, keyspace.local(0), tunables().limits.clone(), None, NOW);
        for (lsn, effects) in records {
            replay.record(*lsn, effects).expect("our own record");
        }
        let replayed = replay.finish().expect("our own records");
        let shared = Arc::new(Shared::new(keyspace));
        shared.transactions.restore(replayed.outcomes);
        let mut engine = Engine::new(shared, 0, seed);
        engine.configure(tunables(), 0);
        let (intakes, gates): (Vec<_>, Vec<_>) = (0..STREAMS).map(|_| Intake::new(1, above)).unzip();
        engine.log_to(Some(Link {
            gates: gates.into_iter().flatten().collect(),
            marks: Arc::new(Watermarks::new(&[above; STREAMS])),
            promises: true,
            late_from: 16,
            keeps_versions: true,
        }));
        engine.begin_turn(NOW);
        let loader = Loader::new(engine.shared.clone(), 2);
        Self { hand: Hand { rng: Rng::new(seed), loader, engine, now: MonoMs::ZERO }, intakes, term }
    }

    pub(super) fn digest(&self) -> Digest {
        digest(&self.hand.engine.shared.keyspace, 1)
    }
}

/// A process that stands by.
pub(super) struct Standby {
    pub(super) applier: Applier,
    pub(super) shared: Arc<Shared>,
    pub(super) store: Model,
    checkpointer: Checkpointer,
    follower: Follower,
    loader: Loader,
    warm: WarmUp,
    reader: Engine,
    /// Of each stream, the blocks that it has read.
    read: [usize; STREAMS],
    libraries: Vec<u8>,
}

/// The disks, as the standby's checkpointer sees them.
struct Disks<'a> {
    applied: &'a Applied,
    on_disk: Lsn,
    libraries: &'a [u8],
    mistake: Mistake,
}

impl World for Disks<'_> {
    fn left(&self) -> Vec<Lsn> {
        self.applied.ends()
    }

    fn committed(&self) -> Vec<Lsn> {
        match self.mistake {
            Mistake::FlushesAhead => self.applied.ends(),
            _ => vec![self.on_disk; STREAMS],
        }
    }

    fn applied(&self) -> Option<Vec<Lsn>> {
        match self.mistake {
            Mistake::CoversParts => Some(vec![self.applied.last(); STREAMS]),
            _ => self.applied.to_cover(),
        }
    }

    fn cut(&mut self, _: &[Lsn]) {}

    fn wake(&mut self, _: Waiter) {}

    fn libraries(&self) -> Vec<u8> {
        self.libraries.to_vec()
    }

    fn now(&self) -> UnixMs {
        NOW
    }

    fn nanos(&self) -> u64 {
        0
    }
}

impl Standby {
    /// Starts with the contents of a store, and reads the log from where its cover ends, or from earlier.
    fn new(store: Model, log: &Log, rng: &mut Rng) -> Result<Self, String> {
        let shared = Arc::new(Shared::new(Keyspace::new(5, DATABASES, 7)));
        let mut local = shared.keyspace.local(0);
        let loaded = restore(&store, &shared.keyspace, &mut local).map_err(|error| error.to_string())?;
        drop(local);
        // A value that is being written has leaves of several times: no harm, if memory has the key by then.
        let source = StoreSource { store: Arc::new(store.clone()), report: |_| {} };
        shared.source.set(Some(Arc::new(source)));
        let libraries = loaded.as_ref().map_or_else(Vec::new, |loaded| loaded.header.libraries.clone());
        let applier = Applier::new(shared.clone(), 4, tunables().limits.clone(), loaded.as_ref(), STREAMS);
        let applied = Cut(applier.applied().last().0);
        let covers = |block: &Block| block.cut <= applied && block.records.iter().all(|lsn| *lsn <= applied);
        let mut read = [0; STREAMS];
        let begins: Vec<(BlockId, Cut)> = (0..STREAMS)
            .map(|stream| {
                let blocks = &log.blocks[stream];
                let covered = blocks.iter().take_while(|block| covers(block)).count();
                read[stream] = covered.saturating_sub(rng.below(3) as usize);
                read[stream].checked_sub(1).map_or_else(Default::default, |last| (blocks[last].id, blocks[last].cut))
            })
            .collect();
        let follower = Follower::new(applied, applied, &begins).map_err(|gap| gap.to_string())?;
        let checkpointer = Checkpointer::new(shared.clone(), Arc::new(store.clone()), 7, loaded);
        let mut reader = Engine::new(shared.clone(), 0, 9);
        reader.configure(tunables(), 0);
        reader.only_read(true);
        reader.begin_turn(NOW);
        Ok(Self {
            applier,
            checkpointer,
            follower,
            loader: Loader::new(shared.clone(), 2),
            warm: WarmUp::new(shared.clone(), Arc::new(store.clone()), 3),
            reader,
            read,
            libraries,
            shared,
            store,
        })
    }

    /// Fetches the requested keys.
    fn serve(&mut self, now: MonoMs) {
        let requests = self.shared.requests.take(100, Duration::ZERO).expect("nobody closes it");
        self.loader.serve(requests, now, |_| {});
    }

    /// The digest of everything. All keys are in memory afterwards.
    pub(super) fn digest(&mut self) -> Digest {
        self.warm.begin_again();
        while self.warm.step(|_| {}).expect("our own") != Warmth::Done {}
        digest(&self.shared.keyspace, 1)
    }

    /// Sends some keys to the store, which has them as they are.
    fn evict(&mut self, rng: &mut Rng) {
        let keyspace = &self.shared.keyspace;
        let held = keyspace.try_acquire(&Need::All, |_| {}).expect("nobody else is there");
        let (mut local, clock) = (keyspace.local(1), AccessClock::new(7));
        for logical in 0..DATABASES as u16 {
            let mut db = Db::new(keyspace, &held, &mut local, &clock, logical, Version::ZERO);
            for name in names().filter(|_| rng.below(3) == 0) {
                db.evict(&db.key(name.as_bytes()));
            }
        }
        local.publish_counts();
        keyspace.release(held, |_| {});
    }

    /// Reads keys, expired or not. Before memory is as of one moment, nobody may read.
    fn look(&mut self, rng: &mut Rng, now: UnixMs, mistake: Mistake) {
        if !self.applier.applied().is_whole() {
            return;
        }
        self.reader.only_read(mistake != Mistake::ReadersExpire);
        self.reader.end_turn();
        self.reader.begin_turn(now);
        let names: Vec<String> = names().filter(|_| rng.below(8) == 0).collect();
        let words = ["mget"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
        if words.len() > 1 {
            // Or it waits for keys that are cold.
            let _ = crate::testing::try_run(&mut self.reader, 0, &words);
        }
    }
}

/// The machines, and what is to be.
pub(super) struct Shard {
    pub(super) owner: Owner,
    pub(super) standby: Standby,
    pub(super) log: Log,
    pub(super) rng: Rng,
    mistake: Mistake,
    /// Commands are acknowledged before a majority has them on the disk: `everysec`.
    is_lax: bool,
    now: MonoMs,
    time: UnixMs,
    /// The owner's digest behind records.
    digests: BTreeMap<Lsn, Digest>,
    seed: u64,
    transactions: u64,
    pub(super) stats: Stats,
}

/// How often things have happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Stats {
    pub(super) compared: u64,
    pub(super) rounds: u64,
    pub(super) takeovers: u64,
    pub(super) restarts: u64,
    pub(super) lost: u64,
    pub(super) figures: Figures,
}

impl Shard {
    pub(super) fn new(seed: u64, mistake: Mistake) -> Self {
        let mut rng = Rng::new(seed);
        let mut log = Log {
            blocks: Default::default(),
            committed: [0; STREAMS],
            synced: [0; STREAMS],
            records: BTreeMap::new(),
            ever: BTreeMap::new(),
        };
        let term = Term::new(1).expect("few terms");
        let owner = Owner::new(&log.records, Lsn::ZERO, term, seed);
        log.start(term, Lsn::ZERO);
        let standby = Standby::new(Model::default(), &log, &mut rng).expect("there is nothing");
        Self {
            owner,
            standby,
            log,
            rng,
            mistake,
            is_lax: seed % 2 == 1,
            now: MonoMs::ZERO,
            time: NOW,
            digests: BTreeMap::new(),
            seed,
            transactions: 0,
            stats: Stats::default(),
        }
    }

    /// The owner executes something.
    pub(super) fn act(&mut self) {
        let owner = &mut self.owner.hand;
        match self.rng.below(20) {
            0 => {
                self.transactions += 1;
                let tx = txn::TxnId { sequence: self.transactions, ..txn::TxnId::default() };
                assert!(owner.engine.refuse(tx, 0).is_ok(), "nobody else is there");
            }
            1 => {
                let libraries = vec![self.rng.below(200) as u8; 3];
                assert!(owner.engine.change_libraries(0, || ((), Some(libraries))).is_ok(), "nobody else is there");
            }
            // Keys expire.
            2 => self.time += 40_000,
            _ => owner.act(),
        }
        self.time += 1;
        owner.engine.end_turn();
        owner.engine.begin_turn(self.time);
    }

    /// The log takes what the owner has left, in a block of each stream that has something.
    pub(super) fn take(&mut self) {
        let mut last = Lsn::ZERO;
        for stream in 0..STREAMS {
            let mut body = Vec::new();
            let Take::Taken(taken) = self.owner.intakes[stream].take(&mut body) else { continue };
            let mut records: Vec<_> = redolog::Record::all(&body).map(|record| record.expect("our own")).collect();
            records.sort_by_key(|record| record.lsn);
            last = records.last().map_or(last, |record| record.lsn.max(last));
            let records = records.iter().map(|record| {
                self.log.records.insert(record.lsn, record.effects.to_vec());
                self.log.ever.insert(record.lsn, record.effects.to_vec());
                Cut(record.lsn.0)
            });
            let records = records.collect();
            self.log.push(stream, self.owner.term, Cut(taken.cut.0), false, records);
        }
        if last > Lsn::ZERO {
            self.digests.insert(last, self.owner.digest());
        }
    }

    /// A majority has more of a stream.
    pub(super) fn sync(&mut self) {
        let stream = self.rng.below(STREAMS as u64) as usize;
        let all = self.log.blocks[stream].len() as u64;
        let (committed, synced) = (&mut self.log.committed[stream], &mut self.log.synced[stream]);
        let more = |of: u64, rng: &mut Rng| of + rng.below(all - of + 1);
        *synced = more(*synced, &mut self.rng);
        *committed = if self.is_lax { more((*committed).max(*synced), &mut self.rng) } else { *synced };
    }

    /// The standby reads blocks, and hears what is committed.
    pub(super) fn read(&mut self) {
        let follower = &mut self.standby.follower;
        for stream in 0..STREAMS {
            let (blocks, id) = (&self.log.blocks[stream], StreamId(stream as u16));
            let read = &mut self.standby.read[stream];
            let more = blocks.len() - *read;
            let upto = *read + self.rng.below(more as u64 + 1) as usize;
            blocks[*read..upto].iter().for_each(|block| follower.block(id, block.clone()));
            *read = upto;
            let at = |count: u64| count.checked_sub(1).map(|last| blocks[last as usize].id);
            at(self.log.committed[stream]).into_iter().for_each(|upto| follower.committed(id, upto));
            at(self.log.synced[stream]).into_iter().for_each(|upto| follower.synced(id, upto));
            if let Some(last) = blocks.last().filter(|_| self.rng.below(3) == 0) {
                // One worker gives LSNs in one order: later ones are above all that there are.
                let cut = self.log.records.last_key_value().map_or(Cut(0), |(lsn, _)| Cut(lsn.0));
                follower.quiet(id, last.id, cut);
            }
        }
    }

    /// The standby applies some of what it may.
    pub(super) fn follow(&mut self) -> Result<(), String> {
        let most = 1 + self.rng.below(40) as usize;
        let passed = self.standby.follower.passed().map_err(|busy| busy.to_string())?;
        self.standby.applier.passed(Lsn(passed.0));
        let mut next: VecDeque<Lsn> = match self.mistake {
            Mistake::AppliesUncommitted => self.all_read().into_iter().take(most).collect(),
            _ => self.standby.follower.next(most).iter().map(|apply| Lsn(apply.lsn.0)).collect(),
        };
        if self.mistake == Mistake::AppliesStreamsApart {
            next.make_contiguous().sort_by_key(|lsn| (lsn.stream(), *lsn));
        }
        while !next.is_empty() {
            let records: Vec<(Lsn, Vec<u8>)> =
                next.iter().map(|lsn| (*lsn, self.log.ever.get(lsn).cloned().expect("it was read"))).collect();
            let records: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
            let Standby { applier, libraries, .. } = &mut self.standby;
            let step = applier.step(&records, &mut |_| {}, &mut |dumped| *libraries = dumped.to_vec());
            match step.map_err(|why| why.to_string())? {
                Step::Applied(count) => {
                    next.drain(..count);
                    self.check()?;
                }
                Step::Busy => return Err("nobody else has latches".into()),
                Step::Loading if self.rng.below(4) == 0 => self.standby.applier.insist(),
                Step::Loading => {
                    self.now = self.now + 1;
                    self.standby.serve(self.now);
                }
            }
            if self.rng.below(3) == 0 {
                self.round()?;
            }
            if self.rng.below(8) == 0 {
                self.standby.look(&mut self.rng, self.time, self.mistake);
            }
        }
        self.standby.follower.done();
        while self.standby.applier.step_garbage(1000) {}
        Ok(())
    }

    /// Everything that was read and is not applied.
    fn all_read(&self) -> Vec<Lsn> {
        let applied = self.standby.applier.applied().last();
        let read = |stream: usize| self.log.blocks[stream][..self.standby.read[stream]].iter();
        let mut all: Vec<Lsn> =
            (0..STREAMS).flat_map(read).flat_map(|block| &block.records).map(|lsn| Lsn(lsn.0)).collect();
        all.retain(|lsn| *lsn > applied);
        all.sort();
        all
    }

    /// Between two batches the standby has what the owner had, and nothing that is not committed.
    fn check(&mut self) -> Result<(), String> {
        let applied = self.standby.applier.applied().clone();
        let last = applied.last();
        let committed = |lsn: &Lsn| {
            let stream = usize::from(lsn.stream());
            let blocks = &self.log.blocks[stream][..self.log.committed[stream] as usize];
            blocks.iter().any(|block| block.records.contains(&Cut(lsn.0)))
        };
        if let Some((lsn, _)) = self.log.records.range(..=last).next_back().filter(|(lsn, _)| !committed(lsn)) {
            return Err(format!("{lsn} is applied and not committed"));
        }
        // Below `always` what was called committed may be lost: it starts again when it hears of that.
        if !self.log.records.contains_key(&last) || !applied.is_whole() || self.rng.below(4) > 0 {
            return Ok(());
        }
        let wanted = self.digests.get(&last).copied().unwrap_or_else(|| {
            let records: Vec<_> = self.log.records.range(..=last).map(|(lsn, bytes)| (*lsn, bytes.clone())).collect();
            digest_of(&records, &tunables())
        });
        self.stats.compared += 1;
        if self.standby.digest() != wanted {
            return Err(format!("another state behind {last}"));
        }
        if self.rng.below(2) == 0 {
            self.standby.evict(&mut self.rng);
        }
        Ok(())
    }

    /// The standby's checkpointer does something.
    pub(super) fn round(&mut self) -> Result<(), String> {
        let Standby { checkpointer, applier, follower, libraries, .. } = &mut self.standby;
        let applied = applier.applied().clone();
        let on_disk = Lsn(follower.flushable().0);
        let mut disks = Disks { applied: &applied, on_disk, libraries, mistake: self.mistake };
        if !checkpointer.is_running() {
            checkpointer.begin(&mut disks);
        }
        for _ in 0..self.rng.below(6) {
            if checkpointer.step(&mut disks).map_err(|error| error.to_string())? == Round::Done {
                self.stats.rounds += 1;
            }
        }
        Ok(())
    }

    /// The standby loses its power, and starts again.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let store = self.standby.store.crashed();
        let figures = self.standby.applier.figures();
        let sum = &mut self.stats.figures;
        sum.skipped += figures.skipped;
        sum.fetched += figures.fetched;
        sum.asked += figures.asked;
        sum.effects += figures.effects;
        self.stats.restarts += 1;
        self.standby = Standby::new(store, &self.log, &mut self.rng)?;
        Ok(())
    }

    /// The owner's machine is lost. A successor takes a part of the log, with all that a majority has.
    pub(super) fn take_over(&mut self) -> Result<(), String> {
        self.take();
        let lowest = self.log.last_of(self.log.synced);
        let highest = self.log.records.last_key_value().map_or(Lsn::ZERO, |(lsn, _)| *lsn);
        let ends: Vec<Lsn> = self.log.records.range(lowest..).map(|(lsn, _)| *lsn).chain([lowest]).collect();
        let end = ends[self.rng.below(ends.len() as u64) as usize];
        self.stats.takeovers += 1;
        self.stats.lost += (end < highest) as u64;
        self.log.records.retain(|lsn, _| *lsn <= end);
        self.digests.retain(|lsn, _| *lsn <= end);
        let term = Term::new(self.owner.term.get() + 1).expect("few terms");
        self.owner = Owner::new(&self.log.records, highest, term, self.seed * 100 + self.stats.takeovers);
        for stream in 0..STREAMS {
            // Blocks that have nothing of it may be dropped, or stay: the start block says that they are void.
            let has_none = |block: &&Block| block.records.iter().all(|lsn| lsn.0 > end.0) && !block.is_start;
            let blocks = &mut self.log.blocks[stream];
            let (synced, void) = (self.log.synced[stream], blocks.iter().rev().take_while(has_none).count());
            let dropped = self.rng.below(void.min(blocks.len() - synced as usize) as u64 + 1) as usize;
            blocks.truncate(blocks.len() - dropped);
            let keeps = blocks.len();
            self.log.committed[stream] = self.log.committed[stream].min(keeps as u64);
            if self.standby.read[stream] > keeps {
                self.standby.follower.dropped(StreamId(stream as u16), keeps as u64);
                self.standby.read[stream] = keeps;
            }
        }
        self.log.start(term, end);
        self.restart_if_lost()
    }

    /// A standby that has applied what the log has no more starts again (rule S8).
    pub(super) fn restart_if_lost(&mut self) -> Result<(), String> {
        if self.standby.follower.must_start_again() { self.restart() } else { Ok(()) }
    }

    /// Everything is committed, read and applied: both have the same.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.take();
        self.is_lax = false;
        for _ in 0..2 {
            let all = std::array::from_fn(|stream| self.log.blocks[stream].len() as u64);
            (self.log.committed, self.log.synced) = (all, all);
            for _ in 0..50 {
                self.read();
                self.restart_if_lost()?;
                self.follow()?;
            }
        }
        let last = self.log.records.last_key_value().map_or(Lsn::ZERO, |(lsn, _)| *lsn);
        let applied = self.standby.applier.applied();
        if last > Lsn::ZERO && applied.last() != last {
            return Err(format!("it has applied up to {}, not {last}", applied.last()));
        }
        if self.standby.digest() != self.owner.digest() {
            return Err("another state in the end".into());
        }
        let [ours, theirs] = [&self.standby.shared, &self.owner.hand.engine.shared]
            .map(|shared| shared.transactions.outcomes().records().cloned().collect::<Vec<_>>());
        if ours != theirs {
            return Err(format!("outcomes {ours:?}, not {theirs:?}"));
        }
        Ok(())
    }
}

impl Log {
    fn push(&mut self, stream: usize, term: Term, cut: Cut, is_start: bool, records: Vec<Cut>) {
        let blocks = &mut self.blocks[stream];
        let id = BlockId { term, sequence: blocks.len() as u64 + 1 };
        blocks.push(Block { id, cut, is_start, records });
    }

    /// The start blocks of a term, which are committed before anything else is.
    fn start(&mut self, term: Term, end: Lsn) {
        for stream in 0..STREAMS {
            self.push(stream, term, Cut(end.0), true, Vec::new());
        }
        let all = std::array::from_fn(|stream| self.blocks[stream].len() as u64);
        (self.committed, self.synced) = (all, all);
    }

    /// The last record of the first blocks of each stream, so many, that still counts.
    fn last_of(&self, counts: [u64; STREAMS]) -> Lsn {
        let blocks = (0..STREAMS).flat_map(|stream| &self.blocks[stream][..counts[stream] as usize]);
        let records = blocks.flat_map(|block| &block.records).map(|lsn| Lsn(lsn.0));
        records.filter(|lsn| self.records.contains_key(lsn)).max().unwrap_or_default()
    }
}

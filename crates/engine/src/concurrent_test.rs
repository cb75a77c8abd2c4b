//! Several engines work on one keyspace at once. Their effects, in the order of their versions, give its contents
//! (rules L1 and L3). If several streams are cut anywhere, the rest is a prefix of every slot's history (L4, L5).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;
use command::{Digest, Rng, Row, Run, Tunables, effects};
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Need, Version};
use redolog::{Intake, Lsn, Take, Watermarks};
use resp::{Batch, Protocol};

use crate::testing::row;
use crate::{Again, Begin, BlockRun, Call, Ending, Engine, Link, Ran, Seat, Shared, WatchedKey};

const BEGIN: u64 = 1_000_000_000_000;
const DATABASES: usize = 3;
const KEYS: [&str; 6] = ["a", "b", "c", "{a}d", "{a}e", "f"];

/// Commands of all kinds. `K` is a key, `D` a database, `N` a small number.
const LINES: &[&str] = &[
    "set K N",
    "set K N px N",
    "mset K N K N K N",
    "del K K",
    "append K N",
    "rename K K",
    "copy K K replace",
    "copy K K db D replace",
    "move K D",
    "pexpire K N",
    "persist K",
    "get K",
    "mget K K K",
    "del K",
    "rpush K N N",
    "lpop K",
    "lmove K K left right",
    "sort K by nosort store K",
    "blpop K K 0",
    "blmove K K left right 0",
    "rpush K N",
    "del K K K",
    "sadd K N N N",
    "spop K",
    "smove K K N",
    "sunionstore K K K",
    "zadd K N a N b",
    "zpopmin K",
    "bzpopmin K K 0",
    "zunionstore K 2 K K",
    "hset K a N b N",
    "hpexpire K N fields 1 a",
    "hgetall K",
    "incrby K N",
    "flushdb",
    "flushall",
    "swapdb D D",
];

/// The result of one command or block.
struct Record {
    lsn: Lsn,
    dependencies: Vec<Lsn>,
    effects: Vec<u8>,
}

impl Record {
    fn stream(&self) -> usize {
        keyspace::Version(self.lsn.0).stream()
    }

    /// The slots that it changed.
    fn slots(&self) -> BTreeSet<u16> {
        let effects = effects::decode(&self.effects).map(|effect| effect.expect("our own encoding"));
        // A barrier is in the history of every slot.
        effects
            .flat_map(|effect| {
                let all = effect.is_barrier();
                KEYS.iter()
                    .map(|key| keyspace::slot_of(key.as_bytes()))
                    .filter(move |slot| all || *slot == keyspace::slot_of(effect.key))
            })
            .collect()
    }
}

/// One worker, without a loop.
struct Hand {
    engine: Engine,
    rng: Rng,
}

impl Hand {
    fn words(&mut self) -> (&'static Row<Run>, Vec<String>) {
        let n = LINES.len() as u64;
        // Barriers are few.
        let most = if self.rng.below(50) == 0 { n } else { n - 3 };
        let line = LINES[self.rng.below(most) as usize];
        let words: Vec<String> = line
            .split(' ')
            .map(|word| match word {
                "K" => KEYS[self.rng.below(KEYS.len() as u64) as usize].into(),
                "D" => self.rng.below(DATABASES as u64).to_string(),
                "N" => (1 + self.rng.below(9)).to_string(),
                word => word.into(),
            })
            .collect();
        (row(&words[0]), words)
    }

    fn record(&mut self) {
        assert!(self.engine.fx.encoded.is_empty(), "what was changed is in the log when the latches are back");
        self.engine.wakes.clear();
        self.engine.served.clear();
        self.engine.published.clear();
        while self.engine.step_garbage(100) {}
    }

    /// Runs a command, which may wait for a moment.
    fn single(&mut self) {
        let (row, words) = self.words();
        let mut batch = Batch::new();
        assert!(batch.push_copy(words.iter().map(String::as_bytes)));
        let (seat, mut out) = (Seat::default(), Vec::new());
        let db = self.rng.below(DATABASES as u64) as u16;
        let call = Call {
            row,
            args: batch.args(0, &[]),
            first: None,
            db,
            protocol: Protocol::Resp2,
            token: 0,
            seat: Some(&seat),
            caller: crate::Caller::default(),
        };
        let ran = loop {
            match self.engine.run(&call, &mut out) {
                Ran::Busy(_) => std::thread::yield_now(),
                ran => break ran,
            }
        };
        self.record();
        if let Ran::Blocked(blocked) = ran {
            (0..self.rng.below(20)).for_each(|_| std::thread::yield_now());
            if blocked.leave() == Ending::Ended {
                while !self.engine.forget(&blocked) {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Runs a block, sometimes with a watch, and mostly with several databases.
    fn block(&mut self) {
        let parts: Vec<_> = (0..1 + self.rng.below(4)).map(|_| self.words()).collect();
        let mut batch = Batch::new();
        parts.iter().for_each(|(_, words)| assert!(batch.push_copy(words.iter().map(String::as_bytes))));
        let calls: Vec<Call<'_>> = parts
            .iter()
            .enumerate()
            .map(|(i, (row, _))| {
                let db = self.rng.below(DATABASES as u64) as u16;
                Call {
                    row,
                    args: batch.args(i, &[]),
                    first: None,
                    db,
                    protocol: Protocol::Resp2,
                    token: 0,
                    seat: None,
                    caller: crate::Caller::default(),
                }
            })
            .collect();
        let mut watched: Vec<WatchedKey> = Vec::new();
        if self.rng.below(3) == 0 {
            let key = KEYS[self.rng.below(KEYS.len() as u64) as usize].as_bytes();
            while self.engine.watch(0, &[key], &mut watched, 0).is_err() {
                std::thread::yield_now();
            }
            self.record();
        }
        self.run_block(&calls, &watched);
        self.record();
        self.engine.unwatch_later(watched);
        while self.engine.has_leftovers() {
            self.engine.unwatch_leftovers();
        }
    }
}

impl Hand {
    /// Runs a block, sometimes as a script does: with the latches of its first command, taking others as it needs them.
    /// It undoes everything when one is busy, or for no reason.
    fn run_block(&mut self, calls: &[Call<'_>], watched: &[WatchedKey]) {
        let may_widen = self.rng.below(2) == 0;
        let mut again: Option<Again> = None;
        loop {
            let known = if may_widen { &calls[..1] } else { calls };
            let begin = Begin { calls: known, watched, may_widen, again: again.as_ref(), ..Begin::default() };
            let mut block = match self.engine.begin_block(&begin, 0) {
                Ok(None) => return,
                Ok(Some(block)) => block,
                Err(_) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            match self.run_commands(calls, &mut block) {
                Ok(()) => return self.engine.end_block(block, 0),
                Err(need) => again = Some(self.engine.undo_block(block, need)),
            }
        }
    }

    /// Runs the commands of a block. `Err`: the block is to be undone, and needs this.
    fn run_commands(&mut self, calls: &[Call<'_>], block: &mut BlockRun) -> Result<(), Need> {
        let mut out = Vec::new();
        for call in calls {
            self.engine.widen_block(block, call).map_err(|busy| busy.need)?;
            self.engine.run_in_block(block, call, &mut out);
            if block.can_be_undone() && self.rng.below(16) == 0 {
                return Err(Need::Slots(block.held().slots().into()));
            }
        }
        Ok(())
    }
}

/// The records taken from the log.
#[derive(Default)]
struct Taken {
    records: Vec<Record>,
    cut: Lsn,
}

impl Taken {
    /// Takes the records between the last cut and the next.
    fn take(&mut self, intake: &mut Intake) {
        let mut body = Vec::new();
        let Take::Taken(taken) = intake.take(&mut body) else { return };
        for record in redolog::Record::all(&body).map(|record| record.expect("our own encoding")) {
            assert!(self.cut < record.lsn && record.lsn <= taken.cut);
            let redolog::Record { lsn, dependencies, effects } = record;
            self.records.push(Record { lsn, dependencies, effects: effects.into() });
        }
        self.cut = taken.cut;
    }
}

fn digest(shared: &Keyspace) -> Digest {
    let held = shared.try_acquire(&Need::All, |_| {}).expect("nobody else is there");
    let (mut local, clock) = (shared.local(3), AccessClock::new(7));
    let digest = Digest::of_everything(&mut Db::new(shared, &held, &mut local, &clock, 0, Version(1)), UnixMs(0));
    shared.release(held, |_| {});
    digest
}

fn replay(records: &[Record], tunables: &Tunables) -> Digest {
    let keyspace = Keyspace::new(4, DATABASES, 7);
    let held = keyspace.try_acquire(&Need::All, |_| {}).expect("nobody else is there");
    let (mut local, clock) = (keyspace.local(0), AccessClock::new(7));
    for record in records {
        for effect in effects::decode(&record.effects) {
            let mut effect = effect.expect("our own encoding");
            if let Some(barrier) = effect.barrier().expect("our own encoding") {
                if let Some(mut reclaim) = barrier.carry_out(&keyspace, &held, &mut local) {
                    while !reclaim.step(&mut local, 100) {}
                }
                continue;
            }
            let mut db = Db::new(&keyspace, &held, &mut local, &clock, effect.db, Version(1));
            effects::replay(&mut effect, &mut db, &tunables.limits).expect("our own effect");
        }
    }
    keyspace.release(held, |_| {});
    digest(&keyspace)
}

/// Cuts each stream at one of its records, and then as recovery does: the rest must be a prefix of every slot's
/// history.
fn check_cut(records: &[Record], at: Vec<usize>) {
    let mut ends: Vec<Lsn> = at.iter().map(|at| records[*at].lsn).collect();
    let survives = |record: &Record, ends: &[Lsn]| record.lsn <= ends[record.stream()];
    while let Some(lost) = records.iter().find(|record| {
        let kept = |dependency: &Lsn| *dependency <= ends[usize::from(dependency.stream())];
        survives(record, &ends) && !record.dependencies.iter().all(kept)
    }) {
        ends[lost.stream()] = lost.lsn.before();
    }
    let mut gone: BTreeSet<u16> = BTreeSet::new();
    for record in records {
        if !survives(record, &ends) {
            gone.extend(record.slots());
        } else {
            assert!(record.slots().is_disjoint(&gone), "something survived what came before it");
        }
    }
}

#[test]
fn effects_in_the_order_of_versions_give_what_is_there() {
    let tunables = Arc::new(Tunables { max_string: 1 << 20, databases: DATABASES as u16, ..Tunables::default() });
    for seed in 0..20 {
        let shared = Arc::new(Shared::new(Keyspace::new(4, DATABASES, 7)));
        shared.disturbed.store(true, Relaxed);
        let time = AtomicU64::new(BEGIN);
        let streams = 1 + seed as usize % 3;
        let marks = Arc::new(Watermarks::new(&vec![Lsn::ZERO; streams]));
        let (mut intakes, gates): (Vec<_>, Vec<_>) = (0..streams).map(|_| Intake::new(3, Lsn(0))).unzip();
        let mut logs: Vec<Taken> = intakes.iter().map(|_| Taken::default()).collect();
        let mut links: Vec<Link> = (0..3)
            .map(|_| Link {
                gates: Vec::new(),
                marks: marks.clone(),
                promises: true,
                late_from: 16,
                keeps_versions: false,
            })
            .collect();
        for gates in gates {
            links.iter_mut().zip(gates).for_each(|(link, gate)| link.gates.push(gate));
        }
        let mut take = || logs.iter_mut().zip(&mut intakes).for_each(|(log, intake)| log.take(intake));
        std::thread::scope(|scope| {
            let hands: Vec<_> = links
                .into_iter()
                .zip(0..)
                .map(|(link, i)| {
                    let (shared, tunables, time) = (shared.clone(), tunables.clone(), &time);
                    scope.spawn(move || {
                        let engine = Engine::new(shared, i, seed * 10 + u64::from(i));
                        let mut hand = Hand { engine, rng: Rng::new(seed * 100 + u64::from(i)) };
                        hand.engine.configure(tunables, 0);
                        hand.engine.log_to(Some(link));
                        for _ in 0..40 {
                            // Turns last a while, and their times differ.
                            hand.engine.begin_turn(UnixMs(time.fetch_add(hand.rng.below(3), Relaxed)));
                            for _ in 0..hand.rng.below(12) {
                                if hand.rng.below(3) == 0 { hand.block() } else { hand.single() }
                            }
                            hand.engine.end_turn();
                        }
                    })
                })
                .collect();
            while hands.iter().any(|hand| !hand.is_finished()) {
                take();
                std::thread::yield_now();
            }
        });
        take();
        take();
        let mut records: Vec<Record> = logs.into_iter().flat_map(|log| log.records).collect();
        records.sort_by_key(|record| record.lsn);
        assert!(records.len() > 100, "something happens");
        assert_eq!(digest(&shared.keyspace), replay(&records, &tunables), "seed {seed}");
        let mut rng = Rng::new(seed);
        for _ in 0..20 {
            check_cut(&records, (0..streams).map(|_| rng.below(records.len() as u64) as usize).collect());
        }
    }
}

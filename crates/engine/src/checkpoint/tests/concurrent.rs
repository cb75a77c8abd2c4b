//! Several workers and a checkpointer on threads of their own: at any stop, the disks yield all committed changes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::MonoMs;
use command::Rng;
use keyspace::Keyspace;
use redolog::{Intake, Lsn, Watermarks};

use super::hand::Hand;
use super::model::{DATABASES, Log, Machine, Model, NOW, digest_of, tunables};
use crate::checkpoint::round::Planted;
use crate::checkpoint::{Checkpointer, Step};
use crate::cold::Loader;
use crate::{Engine, Link, Shared};

const WORKERS: u16 = 3;

/// The machine stops at some moments; the contents of its disks then are checked afterwards.
fn live(seed: u64) -> usize {
    let shared = Arc::new(Shared::new(Keyspace::new(2 * usize::from(WORKERS), DATABASES, 7)));
    shared.disturbed.store(true, Relaxed);
    let (mut intake, mut gates) = Intake::new(usize::from(WORKERS) + 1, Lsn(0));
    let store = Model::default();
    let mut checkpointer = Checkpointer::new(shared.clone(), Arc::new(store.clone()), 7, None);
    let mut rng = Rng::new(seed);
    let mut log = Log { gate: gates.pop(), ..Log::default() };
    let mut stops = Vec::new();
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let hands: Vec<_> = gates
            .into_iter()
            .zip(0..WORKERS)
            .map(|(gate, index)| {
                let shared = shared.clone();
                scope.spawn(move || {
                    let loader = Loader::new(shared.clone(), usize::from(WORKERS + index));
                    let mut engine = Engine::new(shared, index, seed * 10 + u64::from(index));
                    engine.configure(tunables(), 0);
                    engine.log_to(Some(Link {
                        gates: vec![gate],
                        marks: Arc::new(Watermarks::new(&[Lsn(0)])),
                        promises: true,
                        late_from: 16,
                        keeps_versions: false,
                    }));
                    let rng = Rng::new(seed * 100 + u64::from(index));
                    let mut hand = Hand { engine, rng, loader, now: MonoMs::ZERO };
                    for turn in 0..100 {
                        hand.engine.begin_turn(NOW + turn);
                        (0..hand.rng.below(8)).for_each(|_| hand.act());
                        hand.engine.end_turn();
                    }
                })
            })
            .collect();
        while hands.iter().any(|hand| !hand.is_finished()) {
            log.take(&mut intake);
            if rng.below(3) > 0 {
                log.committed = log.left;
            }
            checkpointer.begin(&mut log);
            for _ in 0..rng.below(30) {
                match checkpointer.step(&mut log).expect("no failure is planted") {
                    Step::Done => rounds += 1,
                    Step::More => {}
                    _ => std::thread::yield_now(),
                }
            }
            if rng.below(100) == 0 {
                stops.push((store.crashed(), log.records.clone(), log.committed, log.cut));
            }
        }
    });
    log.take(&mut intake);
    log.take(&mut intake);
    log.committed = log.left;
    stops.push((store.crashed(), log.records, log.committed, log.cut));
    for (store, mut records, committed, cut) in stops {
        records.retain(|(lsn, _)| *lsn <= committed);
        let wanted = digest_of(&records, &tunables());
        records.retain(|(lsn, _)| *lsn > cut);
        let log = Log { records, cut, ..Log::default() };
        let recovered = Machine::recovered(store, log, seed, Planted::None);
        let mut recovered = recovered.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert_eq!(recovered.digest(), wanted, "seed {seed}");
    }
    rounds
}

#[test]
fn workers_go_on_meanwhile() {
    let rounds: usize = (0..12).map(live).sum();
    assert!(rounds > 0, "something happens");
}

//! One worker, one checkpointer, and crashes between any two steps of either.

use redolog::Lsn;

use super::evicted::Evicted;
use super::model::{DATABASES, Machine, NOW, digest_of, tunables};
use crate::checkpoint::Step;
use crate::checkpoint::round::Planted;
use crate::testing::row;
use crate::{Begin, Call, Caller};

/// A history with crashes. Returns the number of finished rounds, of leaves that the store had then, and of keys that
/// came back from it; or the fault.
fn live(seed: u64, planted: Planted, steps: usize) -> Result<[usize; 3], String> {
    let mut machine = Machine::new(seed, planted);
    let mut history = Vec::new();
    let (mut rounds, mut leaves) = (0, 0);
    let (mut evicted, mut returned) = (Evicted::default(), 0);
    for step in 0..steps {
        match machine.hand.rng.below(11) {
            10 => drop(machine.warm_up()),
            0..5 => {
                returned += evicted.fetch_all(&mut machine).map_err(|wrong| format!("step {step}: {wrong}"))?;
                machine.hand.act();
            }
            5 => machine.commit_some(),
            6 if machine.checkpointer.is_running() || machine.hand.rng.below(3) > 0 => {
                machine.checkpointer.begin(&mut machine.log);
            }
            _ => {
                let full = machine.hand.rng.below(300) == 0;
                machine.store.fill_up(full);
                match machine.checkpointer.step(&mut machine.log) {
                    Ok(Step::Done) => {
                        (rounds, leaves) = (rounds + 1, leaves + machine.store.leaves().0);
                        machine.counts_are_right().map_err(|wrong| format!("step {step}: {wrong}"))?;
                    }
                    Ok(_) => {}
                    Err(error) => assert!(full, "{error}"),
                }
            }
        }
        if seed % 2 == 1 {
            evicted.evict_some(&mut machine);
        }
        machine.hand.engine.end_turn();
        machine.hand.engine.begin_turn(NOW + step as u64);
        let known = machine.log.records.len();
        machine.take();
        history.extend_from_slice(&machine.log.records[known..]);
        if machine.hand.rng.below(150) == 0 {
            let recovered = machine.crash(&mut history, seed * 1000 + step as u64);
            machine = recovered.map_err(|wrong| format!("step {step}: {wrong}"))?;
            evicted = Evicted::default();
        }
    }
    machine.store.fill_up(false);
    machine.warm_up_whole();
    machine.checkpoint();
    let keyspace = &machine.hand.engine.shared.keyspace;
    let keys: u64 = (0..DATABASES as u16).map(|db| keyspace.len(db)).sum();
    if (machine.store.len() as u64, keyspace.tombstones()) != (keys, 0) {
        return Err(format!(
            "{} entries and {} tombstones for {keys} keys",
            machine.store.len(),
            keyspace.tombstones()
        ));
    }
    if machine.store.leaves().1 > 0 {
        return Err("leaves of nobody".into());
    }
    Ok([rounds, leaves, returned])
}

fn seeds() -> u64 {
    std::env::var("CHECKPOINT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

/// Rules C1 to C4, and L12: databases are flushed and swapped between the rounds.
#[test]
fn what_was_committed_comes_back() {
    let mut sums = [0; 3];
    for seed in 0..seeds() {
        let figures = live(seed, Planted::None, 1500).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure as u64);
    }
    let least = [2, 10, 10].map(|each| each * seeds());
    assert!(sums.iter().zip(least).all(|(sum, least)| *sum > least), "something happens: {sums:?}");
}

/// Rule L12. Files of the log are given up whole: a checkpoint must know for every later one that the log may still
/// have an old swap.
#[test]
fn a_swap_is_not_done_twice() {
    let mut machine = Machine::new(1, Planted::None);
    let mut history = Vec::new();
    for (life, db) in [(1, 0), (2, 1), (3, 0), (4, 0)] {
        let known = machine.log.records.len();
        machine.hand.run(db, &["set", "k", &life.to_string()]);
        if life == 2 {
            machine.hand.run(0, &["swapdb", "0", "1"]);
        }
        machine.take();
        history.extend_from_slice(&machine.log.records[known..]);
        machine.checkpoint();
        machine.log.cut = Lsn(0);
        machine = machine.crash(&mut history, life).unwrap_or_else(|wrong| panic!("life {life}: {wrong}"));
    }
}

/// Rule L3: a record that swaps databases changes one key under two numbers, and two keys under one. Earlier and later
/// changes of other records, which are replayed by slots, come in between.
#[test]
fn a_block_around_a_swap_is_done_again() {
    let mut machine = Machine::new(1, Planted::None);
    for key in ["a", "b", "c"] {
        machine.hand.run(0, &["set", key, "1"]);
    }
    let lines = [(0, "zadd z 1 a"), (0, "swapdb 0 1"), (0, "zadd z 2 b"), (1, "zadd z 3 c"), (1, "zrem z a")];
    let mut batch = resp::Batch::new();
    lines.iter().for_each(|(_, line)| assert!(batch.push_copy(line.split(' ').map(str::as_bytes))));
    let call = |(i, (db, line)): (usize, &(u16, &str))| Call {
        row: row(line.split(' ').next().expect("a name")),
        args: batch.args(i, &[]),
        first: None,
        db: *db,
        protocol: resp::Protocol::Resp2,
        token: 0,
        seat: None,
        caller: Caller::default(),
    };
    let calls: Vec<Call<'_>> = lines.iter().enumerate().map(call).collect();
    let engine = &mut machine.hand.engine;
    let begin = Begin { calls: &calls, ..Begin::default() };
    let mut block = engine.begin_block(&begin, 0).ok().flatten().expect("nobody else is there");
    calls.iter().for_each(|call| engine.run_in_block(&mut block, call, &mut Vec::new()));
    engine.end_block(block, 0);
    for key in ["d", "e"] {
        machine.hand.run(0, &["set", key, "1"]);
    }
    machine.take();
    assert_eq!(machine.log.records.len(), 6);
    assert_eq!(machine.digest(), digest_of(&machine.log.records, &tunables()));
}

#[test]
fn planted_mistakes_are_noticed() {
    for planted in
        [Planted::LateStart, Planted::EarlyDrop, Planted::NoWait, Planted::EarlyCut, Planted::DeafWalk, Planted::Forget]
    {
        // A mistake may also end in a panic.
        let noticed = (0..400).any(|seed| !matches!(std::panic::catch_unwind(|| live(seed, planted, 1500)), Ok(Ok(_))));
        assert!(noticed, "{planted:?}");
    }
}

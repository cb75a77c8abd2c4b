//! Readers on other threads see a prefix of the log: all of some first records, and nothing of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

use keyspace::Keyspace;
use redolog::Lsn;

use super::rules::records_of;
use crate::checkpoint::tests::model::{DATABASES, NOW, tunables};
use crate::follow::{Applier, Step};
use crate::testing::{run, with_call};
use crate::{Begin, Engine, Shared};

const ROUNDS: u64 = 1500;
const READERS: u16 = 2;

/// In each round `p` is set, then `q`, and then `r` and `s` together; all are in slots of their own.
fn history() -> Vec<(Lsn, Vec<u8>)> {
    let lines: Vec<String> =
        (1..=ROUNDS).flat_map(|n| [format!("set p {n}"), format!("set q {n}"), format!("mset r {n} s {n}")]).collect();
    records_of(&lines.iter().map(|line| (NOW, line.as_str())).collect::<Vec<_>>())
}

/// The numbers in replies that are integers or absent.
fn numbers(replies: &str) -> Vec<u64> {
    let values = replies.split("\r\n").filter(|part| !part.starts_with(['*', '$']) || *part == "$-1");
    let values = values.filter(|part| !part.is_empty());
    values.map(|value| if value == "$-1" { 0 } else { value.parse().expect("a number") }).collect()
}

/// True if these are the values of `p`, `q`, `r` and `s` at one moment.
fn is_prefix(values: &[u64]) -> bool {
    let [p, q, r, s] = values[..] else { return false };
    r == s && q >= r && p >= q && p <= r + 1
}

/// One reader, which looks in every way: all keys at once, one after the other in a block that takes latches as it
/// goes, and one after the other by themselves. Returns what was no prefix.
fn read(engine: &mut Engine, turn: u64) -> Result<(), String> {
    match turn % 3 {
        0 => {
            let values = numbers(&run(engine, 0, &["mget", "p", "q", "r", "s"]));
            if is_prefix(&values) { Ok(()) } else { Err(format!("at once: {values:?}")) }
        }
        1 => {
            let begin = Begin { may_widen: true, ..Begin::default() };
            let block = engine.begin_block(&begin, 0).map_err(|_| ()).ok().flatten();
            let Some(mut block) = block else { return Ok(()) };
            let mut out = Vec::new();
            for key in ["s", "q", "r", "p"] {
                let widened = with_call(0, &["get", key], |call| {
                    let widened = engine.widen_block(&mut block, call);
                    if widened.is_ok() {
                        engine.run_in_block(&mut block, call, &mut out);
                    }
                    widened
                });
                if let Err(busy) = widened {
                    drop(engine.undo_block(block, busy.need));
                    return Ok(());
                }
                std::thread::yield_now();
            }
            engine.end_block(block, 0);
            let values = numbers(&String::from_utf8_lossy(&out));
            let [s, q, r, p] = values[..] else { return Err(format!("{values:?}")) };
            if is_prefix(&[p, q, r, s]) { Ok(()) } else { Err(format!("in a block: {:?}", [p, q, r, s])) }
        }
        // What comes later is not older.
        _ => {
            let values: Vec<u64> =
                ["s", "q", "p"].iter().flat_map(|key| numbers(&run(engine, 0, &["get", key]))).collect();
            if values.is_sorted() { Ok(()) } else { Err(format!("one after the other: {values:?}")) }
        }
    }
}

/// How readers and an applier get on. `apart`: the effects of a batch are applied slot by slot, each under its own latch.
fn live(records: &[(Lsn, Vec<u8>)], apart: bool) -> Result<u64, String> {
    let shared = Arc::new(Shared::new(Keyspace::new(usize::from(READERS) + 1, DATABASES, 7)));
    shared.disturbed.store(true, Relaxed);
    let mut applier = Applier::new(shared.clone(), READERS, tunables().limits.clone(), None, 1);
    applier.apart = apart;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (shared, ended) = (&shared, &ended);
        let readers: Vec<_> = (0..READERS)
            .map(|index| {
                scope.spawn(move || {
                    let mut engine = Engine::new(shared.clone(), index, 1);
                    engine.configure(tunables(), 0);
                    engine.only_read(true);
                    let (mut turn, mut found) = (u64::from(index), Ok(()));
                    while !ended.load(Relaxed) && found.is_ok() {
                        engine.begin_turn(NOW);
                        found = read(&mut engine, turn);
                        engine.end_turn();
                        engine.wakes.clear();
                        turn += 1;
                    }
                    found.map(|()| turn)
                })
            })
            .collect();
        let mut rest: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
        rest.reverse();
        let mut failed = None;
        while !rest.is_empty() && failed.is_none() {
            let window: Vec<_> = rest.iter().rev().take(20).copied().collect();
            match applier.step(&window, &mut |_| {}, &mut |_| {}) {
                Ok(Step::Applied(count)) => rest.truncate(rest.len() - count),
                Ok(_) => std::thread::yield_now(),
                Err(why) => failed = Some(why.to_string()),
            }
        }
        ended.store(true, Relaxed);
        let found = readers.into_iter().map(|reader| reader.join().map_err(|_| "a reader has panicked".to_owned())?);
        let turns = found.collect::<Result<Vec<_>, _>>()?;
        failed.map_or(Ok(turns.iter().sum()), Err)
    })
}

#[test]
fn readers_see_prefixes() {
    let records = history();
    let turns: u64 = (0..4).map(|_| live(&records, false).unwrap_or_else(|wrong| panic!("{wrong}"))).sum();
    assert!(turns > 0, "somebody reads");
}

/// The mistake of rule S3: without the latches of all its slots, a batch shows later records before earlier ones.
#[test]
fn batches_that_are_applied_apart_are_noticed() {
    let records = history();
    assert!((0..200).any(|_| live(&records, true).is_err()));
}

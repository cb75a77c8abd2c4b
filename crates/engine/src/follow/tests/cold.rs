//! Keys that only the store has.

use std::sync::Arc;
use std::time::Duration;

use clocks::MonoMs;
use keyspace::Keyspace;
use redolog::Lsn;

use crate::Shared;
use crate::checkpoint::tests::model::{DATABASES, Machine, Model, digest, digest_of, tunables};
use crate::checkpoint::{StoreSource, WarmUp, Warmth, restore};
use crate::cold::{Loader, Request};
use crate::follow::{Applier, Step};

const KEYS: usize = 30;

/// A store with keys, all of them cold, and the records of later commands.
struct Cold {
    applier: Applier,
    shared: Arc<Shared>,
    store: Model,
    records: Vec<(Lsn, Vec<u8>)>,
    all: Vec<(Lsn, Vec<u8>)>,
}

fn cold(line: &str) -> Cold {
    let mut machine = Machine::new(1, Default::default());
    for key in 0..KEYS {
        machine.hand.run(0, &["set", &format!("k{key}"), &format!("{key}")]);
    }
    machine.checkpoint();
    let known = machine.log.records.len();
    for key in 0..KEYS {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('K', &format!("k{key}"))).collect();
        machine.hand.run(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    machine.take();
    let (all, store) = (machine.log.records.clone(), machine.store.crashed());
    let shared = Arc::new(Shared::new(Keyspace::new(4, DATABASES, 7)));
    let mut local = shared.keyspace.local(0);
    let loaded = restore(&store, &shared.keyspace, &mut local).expect("a store that can be read").expect("a round");
    drop(local);
    let source = StoreSource { store: Arc::new(store.clone()), report: |why| panic!("{why}") };
    shared.source.set(Some(Arc::new(source)));
    let applier = Applier::new(shared.clone(), 3, tunables().limits.clone(), Some(&loaded), 1);
    Cold { applier, shared, store, records: all[known..].to_vec(), all }
}

impl Cold {
    /// Applies everything; `wait` is called when keys are missing.
    fn follow(&mut self, mut wait: impl FnMut(&mut Applier, &Shared)) {
        let records = self.records.clone();
        let mut rest: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
        while !rest.is_empty() {
            match self.applier.step(&rest, &mut |_| {}, &mut |_| {}).expect("our own records") {
                Step::Applied(count) => drop(rest.drain(..count)),
                Step::Loading => wait(&mut self.applier, &self.shared),
                Step::Busy => panic!("nobody else is there"),
            }
        }
        let mut warm = WarmUp::new(self.shared.clone(), Arc::new(self.store.clone()), 2);
        while warm.step(|_| {}).expect("our own") != Warmth::Done {}
        assert!(digest(&self.shared.keyspace, 0) == digest_of(&self.all, &tunables()));
    }
}

/// Loaders can read all of them side by side before the first record is applied.
#[test]
fn keys_are_asked_for_ahead() {
    let mut cold = cold("append K x");
    let mut loader = Loader::new(cold.shared.clone(), 1);
    let mut most = 0;
    cold.follow(|_, shared| {
        most = most.max(shared.requests.len());
        let requests = shared.requests.take(100, Duration::ZERO).expect("nobody closes it");
        loader.serve(requests, MonoMs(1), |_| {});
    });
    drop(loader);
    let figures = cold.applier.figures();
    assert_eq!((most, figures.asked, figures.fetched), (KEYS, KEYS as u64, 0));
}

/// Memory may be so tight that loaders wait for a checkpoint, and that for the end of a batch.
#[test]
fn a_batch_that_insists_waits_for_no_loader() {
    let mut cold = cold("append K x");
    cold.follow(|applier, _| applier.insist());
    let figures = cold.applier.figures();
    assert_eq!((figures.asked, figures.fetched), (KEYS as u64, KEYS as u64));
    // Loaders answer later: what they bring is older than what is there.
    let mut loader = Loader::new(cold.shared.clone(), 1);
    let requests = cold.shared.requests.take(100, Duration::ZERO).expect("nobody closes it");
    assert!(requests.iter().any(|request| matches!(request, Request::Key { .. })));
    loader.serve(requests, MonoMs(1), |_| {});
    assert!(digest(&cold.shared.keyspace, 0) == digest_of(&cold.all, &tunables()));
}

#[test]
fn what_is_overwritten_is_not_read() {
    for line in ["set K y", "set newK y"] {
        let mut cold = cold(line);
        cold.follow(|_, _| panic!("{line} waits"));
        assert_eq!((cold.applier.figures().asked, cold.applier.figures().fetched), (0, 0), "{line}");
    }
}

//! CPU time of a standby for each record that it applies, on one thread.
//!
//! `cargo run --release -p engine --example follow [KEYS]` (1,000,000 unless said otherwise): an engine executes SET of so
//! many keys with values of 100 bytes, in random order, then again, then MSET of ten keys each; the records are applied.

#![allow(clippy::disallowed_methods, reason = "a stopwatch needs the clock")]

use std::sync::Arc;
use std::time::Instant;

use clocks::UnixMs;
use command::{FAMILIES, Row, Run, Tunables};
use engine::follow::{Applier, Step};
use engine::{Call, Caller, Engine, Link, Ran, Shared};
use keyspace::Keyspace;
use object::Limits;
use redolog::{Intake, Lsn, Record, Take, Watermarks};
use resp::{Batch, Protocol};

/// As the server has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU time of this thread, in nanoseconds.
fn thread_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Owner {
    engine: Engine,
    intake: Intake,
    rows: [&'static Row<Run>; 2],
}

impl Owner {
    fn new() -> Self {
        let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 16, 7))), 0, 1);
        engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 16, ..Tunables::default() }), 0);
        let (intake, gates) = Intake::new(1, Lsn(0));
        let marks = Arc::new(Watermarks::new(&[Lsn(0)]));
        engine.log_to(Some(Link { gates, marks, promises: true, late_from: engine::LATE_FROM, keeps_versions: true }));
        engine.begin_turn(UnixMs(1_000_000_000_000));
        let row = |name: &str| {
            let mut rows = FAMILIES.iter().flat_map(|rows| rows.iter());
            rows.find(|row| row.spec.name == name).expect("it is a command")
        };
        Self { engine, intake, rows: ["set", "mset"].map(row) }
    }

    fn run(&mut self, row: &'static Row<Run>, words: &[&[u8]]) {
        let mut batch = Batch::new();
        assert!(batch.push_copy(words.iter().copied()), "it fits");
        let (args, mut out) = (batch.args(0, &[]), Vec::new());
        let (protocol, caller) = (Protocol::Resp2, Caller::default());
        let call = Call { row, args, first: None, db: 0, protocol, token: 0, seat: None, caller };
        assert!(matches!(self.engine.run(&call, &mut out), Ran::Done), "nobody else is there");
        self.engine.take_seen();
    }

    /// The records since the last call.
    fn take(&mut self) -> Vec<(Lsn, Vec<u8>)> {
        let mut bytes = Vec::new();
        assert!(matches!(self.intake.take(&mut bytes), Take::Taken(_)), "nobody is inside");
        let records = Record::all(&bytes).map(|record| record.expect("our own"));
        records.map(|record| (record.lsn, record.effects.to_vec())).collect()
    }
}

fn apply(applier: &mut Applier, records: &[(Lsn, Vec<u8>)], what: &str) {
    const WINDOW: usize = 4096;
    let records: Vec<(Lsn, &[u8])> = records.iter().map(|(lsn, bytes)| (*lsn, &bytes[..])).collect();
    let (began, cpu, before, mut at) = (Instant::now(), thread_cpu(), applier.figures(), 0);
    while at < records.len() {
        let window = &records[at..records.len().min(at + WINDOW)];
        match applier.step(window, &mut |_| {}, &mut |_| {}).expect("our own records") {
            Step::Applied(count) => at += count,
            step => panic!("{step:?}, though nobody else is there"),
        }
    }
    while applier.step_garbage(1000) {}
    let (cpu, elapsed, now) = (thread_cpu() - cpu, began.elapsed(), applier.figures());
    let (count, effects) = (now.records - before.records, now.effects - before.effects);
    println!(
        "{what}: {count} records, {effects} effects in {} batches: {} ns of CPU a record, {} an effect; {elapsed:.1?}",
        now.batches - before.batches,
        cpu / count.max(1),
        cpu / effects.max(1),
    );
}

fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(1_000_000);
    let mut owner = Owner::new();
    let [set, mset] = owner.rows;
    let shared = Arc::new(Shared::new(Keyspace::new(1, 16, 7)));
    let mut applier = Applier::new(shared, 0, Limits::default(), None, 1);
    // In another order each time: a step that has no factor in common with their number visits all keys.
    let name = |n: u64, step: u64| format!("key:{:012}", n.wrapping_mul(step) % keys).into_bytes();
    for (step, what) in [(7_919, "SET of new keys"), (104_729, "SET of keys that are there")] {
        (0..keys).for_each(|n| owner.run(set, &[b"set", &name(n, step), &[b'v'; 100]]));
        apply(&mut applier, &owner.take(), what);
    }
    for n in 0..keys / 10 {
        let names: Vec<Vec<u8>> = (0..10).map(|i| name(10 * n + i, 1_299_709)).collect();
        let value: &[u8] = &[b'w'; 100];
        let words: Vec<&[u8]> =
            [&b"mset"[..]].into_iter().chain(names.iter().flat_map(|key| [&key[..], value])).collect();
        owner.run(mset, &words);
    }
    apply(&mut applier, &owner.take(), "MSET of ten keys");
}

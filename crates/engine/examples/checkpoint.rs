//! Figures of checkpoints: how long latches are held, what is written, how much memory it takes.
//!
//! `cargo run --release -p engine --example checkpoint [KEYS] [MEMBERS]` (1,000,000 of each unless said otherwise): so
//! many keys of 100 bytes, and sets and sorted sets of so many members, half of the keys in one slot.

#![allow(clippy::disallowed_methods, reason = "a stopwatch needs the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clocks::UnixMs;
use engine::Shared;
use engine::checkpoint::{Checkpointer, Step, World};
use keyspace::access::AccessClock;
use keyspace::{Db, Expiry, Keyspace, Local, Version, Waiter};
use object::{Limits, Set, ZSet};
use redolog::Lsn;
use store::{Embedded, Store};

/// As the server has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// There is no log: everything is committed.
struct Alone;

/// CPU time of this thread: how long others use the core says nothing of how much there was to do.
fn thread_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl World for Alone {
    fn left(&self) -> Vec<Lsn> {
        vec![Lsn::ZERO]
    }

    fn committed(&self) -> Vec<Lsn> {
        vec![Lsn::ZERO]
    }

    fn cut(&mut self, _: &[Lsn]) {}

    fn wake(&mut self, _: Waiter) {}

    fn libraries(&self) -> Vec<u8> {
        Vec::new()
    }

    fn now(&self) -> UnixMs {
        UnixMs(0)
    }

    fn nanos(&self) -> u64 {
        thread_cpu()
    }
}

fn change(keyspace: &Keyspace, local: &mut Local, key: &[u8], version: Version, f: impl FnOnce(&mut Db<'_>)) {
    let (clock, slot) = (AccessClock::new(1), keyspace::slot_of(key));
    let held = keyspace.try_one(slot).expect("nobody else is there");
    f(&mut Db::new(keyspace, &held, local, &clock, 0, version));
    keyspace.raise_slot(&held, slot, version);
    local.publish_counts();
    keyspace.release(held, |_| {});
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0) / 1024
}

fn round(checkpointer: &mut Checkpointer, store: &dyn Store, what: &str) {
    let (began, mut alone) = (Instant::now(), Alone);
    let (before, taken) = (checkpointer.figures(), store.figures());
    let (mut longest, mut resident_max) = (Duration::ZERO, resident());
    checkpointer.begin(&mut alone);
    loop {
        let since = Instant::now();
        let step = checkpointer.step(&mut alone).expect("the disk has room");
        longest = longest.max(since.elapsed());
        if checkpointer.figures().holds.is_multiple_of(1024) {
            resident_max = resident_max.max(resident());
        }
        if step == Step::Done {
            break;
        }
    }
    let (after, written) = (checkpointer.figures(), store.figures());
    println!(
        "{what}: {} ms, {} slots, {} changes, {} bytes taken, {} flushed; {} holds, {} of them long, the longest so far {} us of CPU; the longest step {} ms; resident up to {resident_max} MB",
        began.elapsed().as_millis(),
        after.slots,
        after.changes,
        written.bytes_taken - taken.bytes_taken,
        written.bytes_flushed - taken.bytes_flushed,
        after.holds - before.holds,
        after.long_holds - before.long_holds,
        after.longest_hold / 1000,
        longest.as_millis(),
    );
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|n| n.parse::<u64>().expect("a number"));
    let (keys, members) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(1_000_000));
    let folder = std::env::temp_dir().join(format!("holdfast-checkpoint-{}", std::process::id()));
    let began = Instant::now();
    let settings = store::Settings {
        node: [7; 16],
        at_least: 0,
        limits: store::Limits::default(),
        clock: Arc::new(move || began.elapsed()),
    };
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&folder, &settings).expect("a new folder"));
    let shared = Arc::new(Shared::new(Keyspace::new(1, 1, 7)));
    let keyspace = &shared.keyspace;
    let mut local = keyspace.local(0);
    let name =
        |n: u64| if n.is_multiple_of(2) { format!("key:{n:08}") } else { format!("{{one}}:{n:08}") }.into_bytes();
    let value = [b'v'; 100];
    let mut version = Version::ZERO;
    let mut next = || {
        version.0 += 16;
        version
    };
    for n in 0..keys {
        let key = name(n);
        change(keyspace, &mut local, &key, next(), |db| db.set_string(&db.key(&key), &value, false, Expiry::Clear));
    }
    let limits = Limits::default();
    for n in 0..members {
        let member = format!("member:{n:08}");
        change(keyspace, &mut local, b"set", next(), |db| {
            let _ = db.get_or_create::<Set>(&db.key(b"set")).map(|mut set| set.add(member.as_bytes(), &limits));
        });
        change(keyspace, &mut local, b"zset", next(), |db| {
            let _ =
                db.get_or_create::<ZSet>(&db.key(b"zset")).map(|mut z| z.insert(n as f64, member.as_bytes(), &limits));
        });
    }
    println!("{keys} keys, {members} members: resident {} MB", resident());
    let mut checkpointer = Checkpointer::new(shared.clone(), store.clone(), 7, None);
    round(&mut checkpointer, &*store, "everything");
    round(&mut checkpointer, &*store, "nothing");
    for n in 0..keys / 100 {
        let key = name(n * 97 % keys);
        change(keyspace, &mut local, &key, next(), |db| db.set_string(&db.key(&key), b"new", false, Expiry::Clear));
    }
    round(&mut checkpointer, &*store, "one key in a hundred");
    for n in [members / 3, members / 2] {
        let member = format!("member:{n:08}");
        change(keyspace, &mut local, b"zset", next(), |db| {
            let _ = db.get_or_create::<ZSet>(&db.key(b"zset")).map(|mut z| z.insert(-1.0, member.as_bytes(), &limits));
        });
        round(&mut checkpointer, &*store, "one member of a sorted set");
    }
    for n in 0..keys / 2 {
        let key = name(n);
        change(keyspace, &mut local, &key, next(), |db| {
            db.remove(&db.key(&key));
        });
    }
    println!("{} tombstones", keyspace.tombstones());
    round(&mut checkpointer, &*store, "half of the keys deleted");
    assert_eq!(keyspace.tombstones(), 0);
    drop(store);
    let _ = std::fs::remove_dir_all(&folder);
}

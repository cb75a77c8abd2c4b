//! The stage: actors with a client each, their shared state, and the end of the play.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use resp::Value;

use crate::support::attack::{PATIENCE, Raw, Server};

/// The actions of an actor until [`World::is_over`].
pub type Actor = fn(&World<'_>, Chance);

/// Seconds of torture.
fn seconds() -> u64 {
    std::env::var("HOLDFAST_TORTURE").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

pub struct World<'a> {
    pub server: &'a Server,
    over: AtomicBool,
    seed: u64,
    /// Steps taken, by actor.
    steps: Mutex<BTreeMap<&'static str, u64>>,
    /// Ids of clients that may be killed or interrupted.
    victims: Mutex<Vec<String>>,
    /// Elements pushed to queues, and those that came out of them.
    pub pushed: Mutex<Vec<u64>>,
    pub popped: Mutex<Vec<u64>>,
    /// Sums that actors add their share to, by name.
    sums: Mutex<BTreeMap<String, u64>>,
    next: AtomicU64,
}

impl<'a> World<'a> {
    pub fn new(server: &'a Server) -> Self {
        let chosen = std::env::var("HOLDFAST_SEED").ok().and_then(|text| text.parse().ok());
        let seed = chosen.unwrap_or_else(|| std::process::id().into());
        println!("HOLDFAST_SEED={seed}");
        World {
            server,
            over: AtomicBool::new(false),
            seed,
            steps: Mutex::default(),
            victims: Mutex::default(),
            pushed: Mutex::default(),
            popped: Mutex::default(),
            sums: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Lets all actors act for the given time, then waits until all have ended.
    pub fn play(&self, cast: &[(&'static str, usize, Actor)]) {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (n, &(name, count, act)) in cast.iter().enumerate() {
                for i in 0..count {
                    let chance = Chance::new(self.seed ^ (n as u64) << 32 ^ i as u64);
                    let name = format!("{name} {i}");
                    let builder = std::thread::Builder::new().name(name.clone());
                    threads.push((name, builder.spawn_scoped(scope, move || act(self, chance)).unwrap()));
                }
            }
            let end = Instant::now() + Duration::from_secs(seconds());
            while Instant::now() < end && threads.iter().all(|(_, thread)| !thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.over.store(true, Relaxed);
            let deadline = Instant::now() + 2 * PATIENCE;
            while threads.iter().any(|(_, thread)| !thread.is_finished()) {
                if Instant::now() >= deadline {
                    let stuck: Vec<_> =
                        threads.iter().filter(|(_, t)| !t.is_finished()).map(|(name, _)| name).collect();
                    eprintln!("stuck: {stuck:?}");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let failed: Vec<_> = threads.into_iter().filter_map(|(n, t)| t.join().is_err().then_some(n)).collect();
            assert!(failed.is_empty(), "failed: {failed:?}");
        });
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    pub fn client(&self) -> Raw {
        self.server.connect()
    }

    /// A client that others may kill, with its id; it ceases to be a victim with [`World::spare`].
    pub fn victim(&self) -> (Raw, String) {
        let mut client = self.client();
        let id = client.id();
        lock(&self.victims).push(id.clone());
        (client, id)
    }

    pub fn spare(&self, id: &str) {
        lock(&self.victims).retain(|other| other != id);
    }

    /// One of the victims, if there are any.
    pub fn a_victim(&self, chance: &mut Chance) -> Option<String> {
        let victims = lock(&self.victims);
        (!victims.is_empty()).then(|| victims[chance.below(victims.len() as u64) as usize].clone())
    }

    /// A number that no other actor has.
    pub fn unique(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub fn step(&self, actor: &'static str) {
        *lock(&self.steps).entry(actor).or_default() += 1;
    }

    pub fn add(&self, sum: impl Into<String>, n: u64) {
        *lock(&self.sums).entry(sum.into()).or_default() += n;
    }

    pub fn sum(&self, name: &str) -> u64 {
        lock(&self.sums).get(name).copied().unwrap_or(0)
    }

    pub fn falls_to(&self, field: &str, most: u64) {
        let mut client = self.client();
        let deadline = Instant::now() + PATIENCE;
        while client.info(field) > most {
            assert!(Instant::now() < deadline, "{field} stays at {}, above {most}", client.info(field));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The numbers of steps, for people.
    pub fn summary(&self) -> String {
        format!("{:?}", lock(&self.steps))
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Random numbers from a seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// All of `0..n` in some order.
    pub fn shuffled(&mut self, n: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (0..n).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i as u64 + 1) as usize);
        }
        all
    }
}

pub fn int(value: &Value) -> i64 {
    match value {
        Value::Integer(n) => *n,
        Value::Bulk(text) => std::str::from_utf8(text).unwrap().parse().unwrap(),
        Value::Null => 0,
        other => panic!("not a number: {other:?}"),
    }
}

pub fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("not an array: {other:?}"),
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::UnixMs;
use command::Tunables;
use keyspace::Keyspace;
use keyspace::access::Tracks;
use proptest::prelude::*;

use super::*;
use crate::Shared;
use crate::testing::run;

const NOW: UnixMs = UnixMs(1_000_000_000_000);
const ORDERS: [Order; 3] = [Order::Access, Order::Random, Order::Expiry];

struct Bench {
    engine: Engine,
    shared: Arc<Shared>,
}

impl Bench {
    fn new(databases: usize, seed: u64) -> Self {
        let shared = Arc::new(Shared::new(Keyspace::new(1, databases, seed)));
        let mut bench = Self { engine: Engine::new(shared.clone(), 0, seed), shared };
        let tunables = Tunables { max_string: 1 << 20, databases: databases as u16, ..Tunables::default() };
        bench.engine.configure(Arc::new(tunables), 0);
        bench.at(0, false);
        bench
    }

    /// Begins a new turn, so many seconds later.
    fn at(&mut self, seconds: u64, lfu: bool) {
        self.tracking(seconds, if lfu { Tracks::Frequency } else { Tracks::Use });
    }

    fn tracking(&mut self, seconds: u64, tracks: Tracks) {
        self.engine.end_turn();
        self.engine.begin_turn(NOW + seconds * 1000);
        self.engine.clock().set(NOW + seconds * 1000, tracks, 10, 1);
    }

    fn run(&mut self, db: u16, words: &[&str]) -> String {
        run(&mut self.engine, db, words)
    }

    fn has(&mut self, db: u16, key: &str) -> bool {
        self.run(db, &["exists", key]) == ":1\r\n"
    }

    /// Seconds for which a key has not been used, or not been changed.
    fn idle(&mut self, name: &str) -> Option<u32> {
        let shared = self.shared.clone();
        let key = shared.keyspace.hasher().key(name.as_bytes());
        let held = self.engine.acquire_one(key.slot)?;
        let view = self.engine.view(&held, 0);
        let idle = view.peek(&key).map(|entry| view.clock().idle_seconds(entry.access()));
        self.engine.release(held);
        idle
    }

    /// Evicts until `left` keys are left in all databases.
    fn shrink(&mut self, policy: Policy, left: u64) -> Room {
        let shared = self.shared.clone();
        let above = || (0..shared.keyspace.databases() as u16).map(|db| shared.keyspace.len(db)).sum::<u64>() > left;
        self.engine.make_room(Some(policy), above, || true)
    }

    fn evicted(&self) -> u64 {
        self.engine.local.counters().evicted.load(std::sync::atomic::Ordering::Relaxed)
    }
}

fn policy(volatile: bool, order: Order) -> Policy {
    Policy { volatile, order, samples: 5, to_store: false }
}

/// With five samples a round, the default, a fifth of the keys that should go escape: fewer than one of five is such a
/// key.
fn thorough(volatile: bool, order: Order) -> Policy {
    Policy { volatile, order, samples: 20, to_store: false }
}

/// The share of the keys 0..n that are gone, among those in each quarter.
fn gone_by_quarter(bench: &mut Bench, n: usize) -> [f64; 4] {
    let mut gone = [0.0; 4];
    for i in 0..n {
        if !bench.has(0, &format!("key:{i}")) {
            gone[i * 4 / n] += 4.0 / n as f64;
        }
    }
    gone
}

#[test]
fn no_more_goes_than_must() {
    for order in ORDERS {
        for volatile in [false, true] {
            let mut bench = Bench::new(1, 7);
            for i in 0..500 {
                bench.run(0, &["set", &format!("key:{i}"), "v", "ex", "1000"]);
            }
            assert_eq!(bench.shrink(policy(volatile, order), 123), Room::Enough);
            assert_eq!((bench.shared.keyspace.len(0), bench.evicted()), (123, 377), "{order:?}");
        }
    }
}

#[test]
fn keys_without_expiry_stay_where_they_must_and_then_there_is_no_room() {
    for order in ORDERS {
        let mut bench = Bench::new(2, 7);
        for i in 0..300 {
            bench.run(i % 2, &["set", &format!("stays:{i}"), "v"]);
        }
        // Few among many: a sample alone may find none.
        for i in 0..10 {
            bench.run(i % 2, &["set", &format!("goes:{i}"), "v", "ex", "1000"]);
        }
        let mut rounds = 0;
        let room = loop {
            match bench.shrink(policy(true, order), 0) {
                Room::Soon => rounds += 1,
                room => break room,
            }
            assert!(rounds < 1000, "the search ends");
        };
        assert_eq!((room, bench.evicted()), (Room::None, 10), "{order:?}");
        assert!((0..300).all(|i| bench.has(i % 2, &format!("stays:{i}"))));
    }
}

#[test]
fn every_database_gives() {
    let mut bench = Bench::new(16, 7);
    for i in 0..1600 {
        bench.run(i % 16, &["set", &format!("key:{i}"), "v"]);
    }
    assert_eq!(bench.shrink(policy(false, Order::Random), 800), Room::Enough);
    assert!((0..16).all(|db| bench.shared.keyspace.len(db) < 100));
    assert_eq!(bench.shrink(policy(false, Order::Random), 0), Room::Enough);
}

#[test]
fn nothing_goes_without_a_policy_or_without_need_and_little_without_time() {
    let mut bench = Bench::new(1, 7);
    for i in 0..100 {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
    }
    assert_eq!(bench.engine.make_room(None, || true, || true), Room::None);
    assert_eq!(bench.engine.make_room(Some(policy(false, Order::Access)), || false, || true), Room::Enough);
    assert_eq!(bench.evicted(), 0);
    assert_eq!(bench.engine.make_room(Some(policy(false, Order::Access)), || true, || false), Room::Soon);
    assert_eq!(bench.evicted(), EVICTIONS_PER_LOOK as u64);
}

#[test]
fn the_least_recently_used_go() {
    let mut bench = Bench::new(1, 7);
    let n = 2000;
    for i in 0..n {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
    }
    // The last keys are used last; the first half is not used at all.
    for i in n / 2..n {
        bench.at(10 + i as u64, false);
        bench.run(0, &["get", &format!("key:{i}")]);
    }
    assert_eq!(bench.shrink(thorough(false, Order::Access), n as u64 / 2), Room::Enough);
    let [a, b, c, d] = gone_by_quarter(&mut bench, n);
    assert!(a + b > 1.8 && d < 0.02, "{a} {b} {c} {d}");
}

#[test]
fn the_least_recently_modified_go() {
    let mut bench = Bench::new(1, 7);
    bench.tracking(0, Tracks::Change);
    let n = 2000;
    for i in 0..n {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
    }
    // The last keys are modified last. All are read after that, the first half last.
    for i in n / 2..n {
        bench.tracking(10 + i as u64, Tracks::Change);
        bench.run(0, &["append", &format!("key:{i}"), "w"]);
    }
    for i in (0..n).rev() {
        bench.tracking(10 + 3 * n as u64 - i as u64, Tracks::Change);
        bench.run(0, &["get", &format!("key:{i}")]);
        bench.run(0, &["touch", &format!("key:{i}")]);
    }
    assert_eq!(bench.shrink(thorough(false, Order::Access), n as u64 / 2), Room::Enough);
    let [a, b, c, d] = gone_by_quarter(&mut bench, n);
    assert!(a + b > 1.8 && d < 0.02, "{a} {b} {c} {d}");
}

/// Every change of a key makes it younger, and nothing else does.
#[test]
fn a_change_of_any_kind_is_the_last_one() {
    let changes = [
        "set k 1",
        "set k x",
        "append k 1",
        "setrange k 1 abc",
        "setbit k 15 0",
        "expire k 1000",
        "persist k",
        "del k;set k 5",
        "incr k",
        "incrbyfloat k 1.5",
        "getex k ex 1000",
        "copy other k replace",
        "rename k l;rename l k",
        "del k;lpush k a",
        "rpush k b",
        "lset k 0 c",
        "rpop k",
        "del k;sadd k a",
        "sadd k b",
        "srem k b",
        "del k;zadd k 1 a",
        "zincrby k 1 a",
        "del k;hset k f 1",
        "hset k f 2",
        "hincrby k f 1",
        "hexpire k 100 fields 1 f",
        "del k;xadd k 1-1 f v",
        "xadd k 2-1 f v",
        "xdel k 1-1",
        "del k;pfadd k a",
        "pfadd k b",
    ];
    let reads = [
        ("set k 1", "get k;strlen k;exists k;touch k;ttl k;type k;dump k;set k 1 nx;persist k;lpush k a"),
        ("rpush k a b", "lrange k 0 -1;llen k;lset k 99 x;lrem k 0 nobody;linsert k before nobody x;incr k"),
        ("hset k f 1", "hget k f;hgetall k;hsetnx k f 2;hdel k nobody;hincrby k f x"),
        ("sadd k a", "sismember k a;smembers k;sadd k a;srem k nobody"),
        ("zadd k 1 a", "zscore k a;zrange k 0 -1;zadd k nx 5 a;zrem k nobody"),
        ("xadd k 1-1 f v", "xrange k - +;xlen k;xread streams k 0;xdel k 9-9"),
    ];
    let mut bench = Bench::new(1, 7);
    bench.run(0, &["set", "other", "a string that is longer"]);
    let mut now = 0;
    let mut idle_after = |commands: &str| {
        now += 10;
        bench.tracking(now, Tracks::Change);
        for command in commands.split(';') {
            let reply = bench.run(0, &command.split(' ').collect::<Vec<_>>());
            assert!(!reply.starts_with("-ERR unknown") && !reply.contains("maximum allowed"), "{command}: {reply}");
        }
        bench.idle("k")
    };
    for change in changes {
        assert_eq!(idle_after(change), Some(0), "{change}");
    }
    for (made, reads) in reads {
        assert_eq!(idle_after(&format!("del k;{made}")), Some(0), "{made}");
        for (i, read) in reads.split(';').enumerate() {
            assert_eq!(idle_after(read), Some(10 * (i as u32 + 1)), "{read}");
        }
    }
}

#[test]
fn the_least_frequently_used_go() {
    let mut bench = Bench::new(1, 7);
    bench.at(0, true);
    let n = 1000;
    for i in 0..n {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
        for _ in 0..i * 200 / n {
            bench.run(0, &["get", &format!("key:{i}")]);
        }
    }
    assert_eq!(bench.shrink(thorough(false, Order::Access), n as u64 / 2), Room::Enough);
    let [a, b, c, d] = gone_by_quarter(&mut bench, n);
    assert!(a > 0.85 && b > c && c > d && d < 0.3, "{a} {b} {c} {d}");
}

#[test]
fn those_that_expire_soonest_go() {
    let mut bench = Bench::new(1, 7);
    let n = 2000;
    for i in 0..n {
        bench.run(0, &["set", &format!("key:{i}"), "v", "px", &format!("{}", 1_000_000 + i)]);
    }
    assert_eq!(bench.shrink(thorough(true, Order::Expiry), n as u64 / 2), Room::Enough);
    let [a, b, c, d] = gone_by_quarter(&mut bench, n);
    assert!(a > 0.9 && a + b > 1.7 && d < 0.1, "{a} {b} {c} {d}");
}

#[test]
fn chance_prefers_nobody() {
    let mut bench = Bench::new(1, 7);
    let n = 4000;
    for i in 0..n {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
    }
    assert_eq!(bench.shrink(policy(false, Order::Random), n as u64 / 2), Room::Enough);
    let gone = gone_by_quarter(&mut bench, n);
    assert!(gone.iter().all(|share| (0.44..0.56).contains(share)), "{gone:?}");
}

/// A key that is used after it was sampled no longer has the score in the pool.
#[test]
fn who_was_used_since_it_was_sampled_stays() {
    let mut bench = Bench::new(1, 7);
    for i in 0..30 {
        bench.run(0, &["set", &format!("key:{i}"), "v"]);
    }
    bench.at(1000, false);
    bench.shrink(policy(false, Order::Access), 29);
    let pooled: Vec<String> =
        bench.engine.pool.best.iter().map(|c| String::from_utf8(c.key.to_vec()).expect("text")).collect();
    assert!(!pooled.is_empty());
    for key in &pooled {
        bench.run(0, &["get", key]);
    }
    let others = 29 - pooled.len() as u64;
    bench.shrink(policy(false, Order::Access), 29 - others / 2);
    assert!(pooled.iter().all(|key| bench.has(0, key)));
}

proptest! {
    #[test]
    fn the_pool_keeps_the_best(scores in prop::collection::vec((0u64..50, 0u16..3, 0u8..60), 0..200)) {
        let mut pool = Pool::default();
        let mut model: BTreeMap<(u16, u8), u64> = BTreeMap::new();
        for &(score, db, key) in &scores {
            // Of a known key the higher score stands; of one that fell out the new one.
            let known = pool.best.iter().any(|c| c.db == db && *c.key == [key]);
            pool.offer(score, db, &[key]);
            if known {
                let stands = model.entry((db, key)).or_default();
                *stands = score.max(*stands);
            } else {
                model.insert((db, key), score);
                if model.len() > POOL {
                    let worst = *model.values().min().expect("not empty");
                    // Of equal keys the newcomer goes if it is one of them.
                    let goes = if score == worst { (db, key) } else {
                        let kept: Vec<_> = pool.best.iter().map(|c| (c.db, c.key[0])).collect();
                        *model.keys().find(|name| !kept.contains(name)).expect("one too many")
                    };
                    prop_assert_eq!(model[&goes], worst);
                    model.remove(&goes);
                }
            }
            let mut expected: Vec<u64> = model.values().copied().collect();
            expected.sort_unstable();
            let got: Vec<u64> = pool.best.iter().map(|c| c.score).collect();
            prop_assert_eq!(got, expected, "ascending, the best {} of all", POOL);
        }
    }
}

proptest! {
    // Each makes a keyspace.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// With any keys and any sequence of policies, only keys that may go are evicted, and as many as have to be.
    #[test]
    fn only_what_may_go_goes(
        keys in prop::collection::vec((0u16..3, any::<bool>(), 0u64..100), 1..120),
        rounds in prop::collection::vec((any::<bool>(), 0usize..3, any::<bool>(), 1u64..40), 1..6),
        samples in 1usize..20,
        seed in any::<u64>(),
    ) {
        let mut bench = Bench::new(3, seed);
        let mut volatile_left = 0;
        for (i, (db, volatile, extra)) in keys.iter().enumerate() {
            let (key, px) = (format!("key:{i}"), format!("{}", 1_000_000 + extra));
            match volatile {
                true => bench.run(*db, &["set", &key, "v", "px", &px]),
                false => bench.run(*db, &["set", &key, "v"]),
            };
            volatile_left += u64::from(*volatile);
        }
        let mut left = keys.len() as u64;
        for (volatile, order, lfu, step) in rounds {
            bench.at(1, lfu);
            let target = left.saturating_sub(step);
            let policy = Policy { volatile, order: ORDERS[order], samples, to_store: false };
            let may_go = if volatile { volatile_left } else { left };
            let goes = (left - target).min(may_go);
            let mut room = Room::Soon;
            for _ in 0..1000 {
                room = bench.shrink(policy, target);
                if room != Room::Soon {
                    break;
                }
            }
            prop_assert_eq!(room, if goes == left - target { Room::Enough } else { Room::None });
            let now: u64 = (0..3).map(|db| bench.shared.keyspace.len(db)).sum();
            prop_assert_eq!(now, left - goes);
            let volatile_now: u64 = (0..3).map(|db| bench.shared.keyspace.expires(db)).sum();
            if volatile {
                prop_assert_eq!(volatile_now, volatile_left - goes);
            }
            (left, volatile_left) = (now, volatile_now);
        }
    }
}

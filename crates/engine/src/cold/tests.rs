//! An engine whose keys are evicted at every opportunity answers like one with all keys in memory.

mod large;
mod snapshots;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use clocks::{MonoMs, UnixMs};
use command::{Position, Tunables};
use keyspace::{Fetched, Key, KeyHasher, Keyspace, Mark, Need, Record, Space, Unreadable, Value, Version, slot_of};
use proptest::prelude::*;
use resp::{Batch, Protocol};
use txn::locks::Mode;
use txn::{HybridTime, Life, Lock, NodeId, Origin, Stamp, TxnId};

use super::{Listed, Loader, Names, Source, Span};
use crate::testing::row;
use crate::{Begin, Call, Caller, Engine, Locked, Order, Policy, Ran, Room, Shared, Stayed, Step, Swept};

type StoredKey = (Space, Box<[u8]>);

/// The stored state of a key, as in [`Fetched`].
type Kept = (Value, Option<UnixMs>, u32, Version);

/// A store.
#[derive(Default)]
struct Shelf {
    kept: Mutex<BTreeMap<StoredKey, Kept>>,
    broken: std::sync::atomic::AtomicBool,
    /// Long strings that were read.
    read: Mutex<Vec<Weak<Vec<u8>>>>,
}

impl Source for Shelf {
    fn fetch_within(
        &self,
        space: Space,
        key: &Key<'_>,
        has_room: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Fetched>, Unreadable> {
        let kept = self.kept.lock().unwrap().get(&(space, key.bytes.into())).cloned();
        let bytes = match &kept {
            Some((Value::Blob(text), ..)) => text.len() as u64,
            _ => 0,
        };
        if !has_room(bytes) || self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Unreadable);
        }
        Ok(kept.map(|(mut value, expiry, access, version)| {
            if let Value::Blob(text) = &mut value {
                *text = Arc::new(text.to_vec());
                self.read.lock().unwrap().push(Arc::downgrade(text));
            }
            let mark = Mark::live(expiry.is_some(), value.field_expiry().is_some(), false);
            Fetched::There(Record { value, expiry, access, version, mark })
        }))
    }

    fn list(&self, space: Space, span: Span) -> Result<Names, Unreadable> {
        if self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Unreadable);
        }
        let kept = self.kept.lock().unwrap();
        let hasher = KeyHasher::new(SEED);
        let mut all: Vec<(Position, Listed)> = Vec::new();
        for ((_, key), (value, expiry, ..)) in kept.iter().filter(|((there, _), _)| *there == space) {
            let place = Position { slot: slot_of(key), hash: hasher.hash(key) >> 32 << 32 };
            if place >= span.from && place.slot < span.end {
                let fields = value.field_expiry();
                let listed = Listed { slot: place.slot, key: key.clone(), kind: value.kind(), expiry: *expiry, fields };
                all.push((place, listed));
            }
        }
        all.sort_by_key(|(place, _)| *place);
        // Few at once, so that walks have to ask often.
        let until = all.get(2).map(|(place, _)| *place).filter(|_| span.most < 1000);
        let names = all.into_iter().filter(|(place, _)| until.is_none_or(|until| *place < until));
        Ok(Names { names: names.map(|(_, listed)| listed).collect(), until })
    }
}

const SEED: u64 = 7;

struct Cold {
    engine: Engine,
    loader: Loader,
    shelf: Arc<Shelf>,
    now: MonoMs,
    waited: u64,
    /// True if the engine is told, as workers do it, that the command has waited.
    tells: bool,
}

impl Cold {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(Keyspace::new(6, 3, SEED)));
        let shelf = Arc::new(Shelf::default());
        shared.source.set(Some(shelf.clone()));
        let mut engine = Engine::new(shared.clone(), 0, 1);
        engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 3, ..Tunables::default() }), 0);
        engine.begin_turn(UnixMs(1000));
        Self { engine, loader: Loader::new(shared, 1), shelf, now: MonoMs::ZERO, waited: 0, tells: false }
    }

    fn serve(&mut self) {
        let requests = self.engine.shared.requests.take(100, Duration::ZERO).unwrap();
        self.loader.serve(requests, self.now, |_| {});
    }

    /// Runs commands: one by itself, several as a block that may be undone.
    fn run(&mut self, block: bool, words: &[Vec<String>]) -> Vec<String> {
        let mut again = None;
        for _ in 0..100 {
            match if block { self.try_block(words, &mut again) } else { self.try_one(&words[0]) } {
                Some(replies) => {
                    self.engine.waited &= !self.tells;
                    return replies;
                }
                None => {
                    self.engine.waited |= self.tells;
                    self.waited += 1;
                    self.serve();
                }
            }
        }
        panic!("{words:?} never runs");
    }

    fn try_one(&mut self, words: &[String]) -> Option<Vec<String>> {
        let (mut batch, mut out) = (Batch::new(), Vec::new());
        let call = call(&mut batch, words);
        match self.engine.run(&call, &mut out) {
            Ran::Done => Some(vec![String::from_utf8_lossy(&out).into_owned()]),
            Ran::Busy(busy) => {
                assert!(busy.awaited);
                None
            }
            Ran::Walking(mut walking) => {
                drop(batch);
                loop {
                    match self.engine.step_walk(&mut walking, 7, &mut out) {
                        Step::Done => break Some(vec![String::from_utf8_lossy(&out).into_owned()]),
                        Step::Awaited => {
                            self.waited += 1;
                            self.serve();
                        }
                        Step::More => {}
                        Step::Busy(slot) => panic!("slot {slot} is busy"),
                    }
                }
            }
            Ran::Blocked(_) => panic!("{words:?} waits"),
        }
    }

    /// Deletes expired keys.
    fn sweep(&mut self) {
        for _ in 0..2 {
            while self.engine.sweep(1, || true) == Swept::Part {}
            self.serve();
            while self.loader.is_busy() {
                self.serve();
            }
        }
        assert!(self.engine.shared.requests.is_empty(), "nobody asks again and again");
    }

    /// The names that SCAN gives to a client with cursors in doubles, while everything may be evicted.
    fn scan(&mut self, db: u16, options: &str, evict: bool) -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), "0".to_string());
        loop {
            let reply = self.run(false, &one(&format!("{db} scan {cursor} {options}"))).concat();
            let mut words = reply.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with(['*', '$']));
            let next: f64 = words.next().and_then(|cursor| cursor.parse().ok()).expect("a cursor");
            cursor = format!("{next:.0}");
            names.extend(words.map(String::from));
            if cursor == "0" {
                names.sort();
                return names;
            }
            if evict {
                self.evict();
            }
        }
    }

    fn try_block(&mut self, all: &[Vec<String>], again: &mut Option<crate::Again>) -> Option<Vec<String>> {
        let begin = Begin { may_widen: true, again: again.as_ref(), ..Begin::default() };
        let mut block = self.engine.begin_block(&begin, 7).ok()??;
        let mut replies = Vec::new();
        for words in all {
            let (mut batch, mut out) = (Batch::new(), Vec::new());
            let call = call(&mut batch, words);
            if let Err(busy) = self.engine.widen_block(&mut block, &call) {
                assert!(busy.awaited);
                *again = Some(self.engine.undo_block(block, busy.need));
                return None;
            }
            self.engine.run_in_block(&mut block, &call, &mut out);
            replies.push(String::from_utf8_lossy(&out).into_owned());
        }
        self.engine.end_block(block, 0);
        Some(replies)
    }

    /// Puts everything on the shelf.
    fn checkpoint(&mut self) {
        let keyspace = &self.engine.shared.keyspace;
        let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        let mut kept = self.shelf.kept.lock().unwrap();
        keyspace.begin_round();
        for slot in NAMES.map(|name| slot_of(name.as_bytes())) {
            keyspace.tombstones_after(&held, slot, None, usize::MAX, |physical, key, _| {
                kept.remove(&(keyspace.space(&held, physical), key.into()));
            });
            for physical in keyspace.tables_of(&held, slot) {
                let space = keyspace.space(&held, physical);
                let mut from = Some(0);
                while let Some(hash) = from {
                    let mut epochs = || NonZeroU64::MIN;
                    let above = keyspace.covered(slot);
                    (from, _) =
                        keyspace.copy_changed(&held, (slot, physical), hash, above, &mut epochs, |entry, _, _| {
                            let value = (entry.to_value(), entry.expiry(), entry.access(), entry.version());
                            kept.insert((space, entry.key().into()), value);
                        });
                }
            }
            keyspace.set_covered(slot, keyspace.last_version_of(&held, std::iter::once(slot)));
            keyspace.begin_round();
            keyspace.drop_tombstones(&held, slot, None, usize::MAX);
        }
        keyspace.release(held, |_| {});
    }

    /// Evicts everything that can leave memory.
    fn evict(&mut self) -> usize {
        let shared = self.engine.shared.clone();
        let Ok(held) = shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        let mut evicted = 0;
        for db in 0..3 {
            for name in NAMES {
                let mut view = self.engine.view(&held, db);
                let key = view.key(name.as_bytes());
                evicted += usize::from(view.evict(&key));
            }
        }
        shared.keyspace.release(held, |_| {});
        evicted
    }
}

fn call<'a>(batch: &'a mut Batch, words: &[String]) -> Call<'a> {
    let (db, words) = words.split_first().expect("a database comes first");
    assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
    let args = batch.args(0, &[]);
    let (db, row) = (db.parse().expect("a database"), row(&words[0]));
    let row = row.subcommands.iter().find(|sub| words.get(1).is_some_and(|word| word == sub.spec.name)).unwrap_or(row);
    Call { row, args, first: None, db, protocol: Protocol::Resp2, token: 7, seat: None, caller: Caller::default() }
}

const NAMES: [&str; 14] =
    ["a", "b", "{a}c", "{b}d", "e", "f", "{a}g", "{a}h", "{a}i", "{a}j", "order", "key:1", "key:3", "{b}c"];

fn words_of(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn words() -> impl Strategy<Value = Vec<String>> {
    let key = || proptest::sample::select(&NAMES[..]);
    let one = |name: &'static str| key().prop_map(move |key| vec![name.to_string(), key.into()]);
    let two = |name: &'static str| (key(), key()).prop_map(move |(a, b)| vec![name.to_string(), a.into(), b.into()]);
    let with = |name: &'static str, more: &'static str| {
        key().prop_map(move |key| {
            let more = more.split_whitespace().map(String::from);
            [name.to_string(), key.into()].into_iter().chain(more).collect()
        })
    };
    let command = prop_oneof![
        3 => with("set", "text"),
        2 => one("get"),
        2 => one("incr"),
        2 => (key(), 0..1000u32).prop_map(|(key, n)| vec!["pfadd".to_string(), key.into(), n.to_string()]),
        2 => one("pfcount"),
        2 => with("append", "more"),
        2 => with("rpush", "one two"),
        1 => one("lpop"),
        2 => with("sadd", "x y"),
        2 => with("hset", "f 1 g 2"),
        1 => with("zadd", "1 x 2 y"),
        2 => with("pexpire", "200"),
        1 => with("hpexpire", "300 fields 1 f"),
        1 => one("pttl"),
        2 => one("del"),
        1 => one("type"),
        2 => two("rename"),
        1 => two("mget"),
        1 => two("sunionstore"),
        2 => Just(words_of("sort order by {*}c get # get {*}h get {*}g->f alpha")),
        1 => Just(words_of("sort order by nosort get {*}c get {*}j store e")),
        1 => Just(words_of("rpush order a b c a")),
        1 => Just(words_of("debug populate 6")),
        1 => Just(words_of("debug digest exact")),
        1 => with("move", "1"),
        1 => two("copy").prop_map(|mut words| { words.extend(["db", "1", "replace"].map(String::from)); words }),
        1 => Just(vec!["flushdb".to_string()]),
        1 => Just(vec!["swapdb".to_string(), "0".to_string(), "1".to_string()]),
    ];
    (0..2u16, command).prop_map(|(db, words)| std::iter::once(db.to_string()).chain(words).collect())
}

#[derive(Clone, Debug)]
enum Act {
    Command(Vec<String>),
    Block(Vec<Vec<String>>),
    Checkpoint,
    Evict,
    Time(u64),
    Sweep,
    Scan(u16, &'static str),
    Keys(u16, bool),
}

impl Act {
    /// True if expired keys count unless they were deleted: which command finds and deletes them is left to chance.
    fn shows_expired(&self) -> bool {
        let all = match self {
            Act::Command(words) => std::slice::from_ref(words),
            Act::Block(all) => all,
            _ => &[],
        };
        all.iter().any(|words| words.iter().any(|word| word == "digest"))
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => words().prop_map(Act::Command),
        3 => proptest::collection::vec(words(), 1..5).prop_map(Act::Block),
        4 => Just(Act::Checkpoint),
        6 => Just(Act::Evict),
        3 => (1..400u64).prop_map(Act::Time),
        2 => Just(Act::Sweep),
        2 => (0..2u16, proptest::sample::select(&["", "count 1", "match {a}* count 2", "type hash count 1"][..]))
            .prop_map(|(db, options)| Act::Scan(db, options)),
        2 => (0..2u16, any::<bool>()).prop_map(|(db, block)| Act::Keys(db, block)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_memory(acts in proptest::collection::vec(act(), 1..80), tells in any::<bool>()) {
        let (mut cold, mut warm) = (Cold::new(), Cold::new());
        cold.tells = tells;
        for act in acts {
            if act.shows_expired() {
                cold.sweep();
                warm.sweep();
            }
            match act {
                Act::Command(words) => {
                    let all = [words];
                    prop_assert_eq!(cold.run(false, &all), warm.run(false, &all), "{:?}", all);
                }
                Act::Block(all) => prop_assert_eq!(cold.run(true, &all), warm.run(true, &all), "{:?}", all),
                Act::Checkpoint => cold.checkpoint(),
                Act::Evict => drop(cold.evict()),
                Act::Sweep => {
                    cold.sweep();
                    warm.sweep();
                    let dbsize = [one("0 dbsize"), one("1 dbsize")].concat();
                    prop_assert_eq!(cold.run(true, &dbsize), warm.run(true, &dbsize));
                }
                Act::Scan(db, options) => {
                    prop_assert_eq!(cold.scan(db, options, true), warm.scan(db, options, false), "{}", options);
                }
                Act::Keys(db, block) => {
                    let keys = |one_of: &mut Cold| {
                        let reply = one_of.run(block, &one(&format!("{db} keys *"))).concat();
                        let mut words: Vec<_> = reply.split("\r\n").map(String::from).collect();
                        words.sort();
                        words
                    };
                    let keys = (keys(&mut cold), keys(&mut warm));
                    prop_assert_eq!(&keys.0, &keys.1);
                    // RANDOMKEY deletes an expired key if it finds one.
                    cold.sweep();
                    warm.sweep();
                    let random = cold.run(false, &one(&format!("{db} randomkey"))).concat();
                    prop_assert!(random == "$-1\r\n" || random.split("\r\n").all(|word| word.starts_with('$') || keys.1.iter().any(|key| key == word)));
                }
                Act::Time(ms) => {
                    cold.now = cold.now + ms;
                    cold.serve();
                    for one in [&mut cold, &mut warm] {
                        let now = one.engine.now() + ms;
                        one.engine.end_turn();
                        one.engine.begin_turn(now);
                    }
                }
            }
        }
        prop_assert_eq!(warm.waited, 0);
        cold.sweep();
        warm.sweep();
        for db in 0..3u16 {
            let len = |cold: &Cold| (cold.engine.shared.keyspace.len(db), cold.engine.shared.keyspace.expires(db));
            prop_assert_eq!(len(&cold), len(&warm));
            for name in NAMES {
                let dump = [vec![db.to_string(), "dump".into(), name.into()]];
                prop_assert_eq!(cold.run(false, &dump), warm.run(false, &dump));
            }
        }
    }
}

fn one(words: &str) -> Vec<Vec<String>> {
    vec![words_of(words)]
}

#[test]
fn a_key_that_was_evicted_is_waited_for_once() {
    let mut cold = Cold::new();
    cold.run(false, &one("0 set a text"));
    assert_eq!(cold.evict(), 0, "the store does not have it");
    cold.checkpoint();
    assert_eq!(cold.evict(), 1);
    assert_eq!(cold.engine.shared.keyspace.len(0), 1);
    assert_eq!(cold.run(false, &one("0 get a")), ["$4\r\ntext\r\n"]);
    assert_eq!(cold.run(false, &one("0 get {a}c")), ["$-1\r\n"]);
    assert_eq!(cold.waited, 1, "nothing is cold any more");
    assert_eq!(cold.evict(), 0, "who has waited may not have looked yet");
    cold.now = cold.now + 1000;
    cold.serve();
    assert_eq!(cold.evict(), 1);
    assert_eq!(cold.run(false, &one("0 get {a}c")), ["$-1\r\n"]);
    assert_eq!(cold.waited, 2, "an absent key of a slot with cold ones");
}

#[test]
fn a_store_that_cannot_be_read_is_an_error_for_those_who_need_it() {
    let mut cold = Cold::new();
    cold.run(false, &one("0 set a text"));
    cold.run(false, &one("0 set b text"));
    cold.checkpoint();
    assert_eq!(cold.evict(), 2);
    cold.run(false, &one("0 get b"));
    cold.shelf.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = "-IOERR The key could not be read from the store\r\n";
    assert_eq!(cold.run(false, &one("0 set a other")), [error]);
    assert_eq!(
        cold.run(true, &[one("0 incr e"), one("0 get a"), one("0 get b")].concat()),
        [":1\r\n", error, "$4\r\ntext\r\n"]
    );
    cold.shelf.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    cold.now = cold.now + 1000;
    cold.serve();
    assert_eq!(cold.run(false, &one("0 get a")), ["$4\r\ntext\r\n"]);
    assert_eq!(slot_of(b"a"), slot_of(b"{a}c"));
}

fn to_store() -> Policy {
    Policy { volatile: false, order: Order::Access, samples: 5, to_store: true }
}

#[test]
fn what_the_store_has_makes_room_and_nothing_else() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    for n in 0..100 {
        cold.run(false, &one(&format!("0 set {{a}}{n} text")));
    }
    let in_memory = || shared.keyspace.len(0) - shared.keyspace.cold_keys();
    assert_eq!(cold.engine.make_room(Some(to_store()), || in_memory() > 10, || true), Room::Dirty);
    assert_eq!(in_memory(), 100);
    cold.checkpoint();
    for n in 0..20 {
        cold.run(false, &one(&format!("0 append {{a}}{n} more")));
    }
    assert_eq!(cold.engine.make_room(Some(to_store()), || in_memory() > 40, || true), Room::Enough);
    assert_eq!(in_memory(), 40);
    assert_eq!(cold.engine.make_room(Some(to_store()), || in_memory() > 10, || true), Room::Dirty);
    assert_eq!((in_memory(), shared.keyspace.len(0)), (20, 100), "what was changed since stays");
    for n in 0..100 {
        let text = if n < 20 { "$8\r\ntextmore\r\n" } else { "$4\r\ntext\r\n" };
        assert_eq!(cold.run(false, &one(&format!("0 get {{a}}{n}"))), [text]);
    }
}

/// A command has waited for a key and has used it: the key need not stay in memory any more.
#[test]
fn what_was_fetched_may_go_when_it_was_used() {
    let mut cold = Cold::new();
    for words in ["0 set a text", "0 set b text", "0 set e text"] {
        cold.run(false, &one(words));
    }
    cold.checkpoint();
    assert_eq!(cold.evict(), 3);
    cold.tells = true;
    assert_eq!(cold.run(false, &one("0 get a")), ["$4\r\ntext\r\n"]);
    assert_eq!(cold.evict(), 1);
    assert_eq!(cold.run(true, &[one("0 get b"), one("0 get e")].concat()), ["$4\r\ntext\r\n", "$4\r\ntext\r\n"]);
    assert_eq!(cold.evict(), 2, "a block's keys");
    assert_eq!(cold.run(false, &one("0 set f text")), ["+OK\r\n"]);
    cold.checkpoint();
    assert_eq!(cold.evict(), 1, "what was not there, and written since");
    // The absence stays known for a while, as no command need ask again.
    let waited = cold.waited;
    for _ in 0..2 {
        assert_eq!(cold.run(false, &one("0 get {a}c")), ["$-1\r\n"]);
    }
    assert_eq!(cold.waited, waited + 1);
}

/// Samples without a victim say nothing about the keys that they have missed.
#[test]
fn all_leave_that_can_and_it_is_known_why_others_stay() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    let in_memory = || shared.keyspace.len(0) - shared.keyspace.cold_keys();
    let has_known = |cold: &Cold| cold.engine.shared.keyspace.has_known_before(cold.engine.shared.keyspace.next_load());
    let stayed = |changed, fetched| (Room::None, Stayed { changed, fetched, locked: false });
    for n in 0..200 {
        cold.run(false, &one(&format!("0 set {{a}}{n} text")));
    }
    assert_eq!(cold.engine.evict_all(1, || true, || true), stayed(true, false));
    cold.checkpoint();
    assert_eq!(cold.engine.evict_all(1, || true, || true), stayed(false, false));
    assert_eq!(in_memory(), 0);
    // Fetched for commands that have not been heard of since: nearly all keys in memory.
    for n in 0..190 {
        cold.run(false, &one(&format!("0 get {{a}}{n}")));
    }
    cold.run(false, &one("0 set b text"));
    assert_eq!(cold.engine.evict_all(2, || true, || true), stayed(true, true));
    cold.checkpoint();
    let before = shared.keyspace.next_load();
    assert!(!shared.keyspace.has_known_before(0) && has_known(&cold));
    // In steps: each call goes on behind the last one, and a call for another purpose begins again.
    let mut steps = 0;
    let last = loop {
        match cold.engine.evict_all(3, || true, || false) {
            (Room::Soon, _) => steps += 1,
            last => break last,
        }
        assert!(steps < 1000, "it comes to its end");
    };
    assert_eq!((last, in_memory()), (stayed(false, true), 190));
    assert!(steps > 1);
    cold.engine.make_room(Some(to_store()), || in_memory() > 0, || true);
    assert_eq!(in_memory(), 190, "samples do not find more");
    cold.now = cold.now + 1000;
    cold.serve();
    assert!(!shared.keyspace.has_known_before(before));
    assert_eq!(cold.engine.evict_all(4, || in_memory() > 50, || true), (Room::Enough, Stayed::default()));
    assert!(in_memory() <= 50);
    assert_eq!(cold.engine.evict_all(4, || true, || true), stayed(false, false));
    assert_eq!((in_memory(), shared.keyspace.len(0)), (0, 201));
}

/// PFCOUNT stores its result: that changes the key like a write.
#[test]
fn what_a_reader_writes_down_is_a_change() {
    let mut cold = Cold::new();
    for n in 1..=3 {
        cold.run(false, &one(&format!("0 pfadd a {n}")));
        assert_eq!(cold.run(false, &one("0 pfcount a")), [format!(":{n}\r\n")]);
        assert_eq!(cold.evict(), 0, "the store does not have it");
        cold.checkpoint();
        cold.now = cold.now + 1000;
        cold.serve();
        assert_eq!(cold.evict(), 1);
        assert_eq!(cold.run(false, &one("0 pfcount a")), [format!(":{n}\r\n")]);
    }
}

/// An attempt of a transaction over nodes, whose keys leave memory whenever it has waited for them.
#[test]
fn an_attempt_that_insists_does_not_wait_for_keys() {
    let mut cold = Cold::new();
    for line in ["0 set a one", "0 set b two", "0 set e gone px 1"] {
        cold.run(false, &one(line));
    }
    cold.checkpoint();
    assert!(cold.evict() > 0);
    let life = Life { node: NodeId(1), incarnation: 1 };
    let tx = TxnId { origin: Origin { life, lane: 0 }, sequence: 1, attempt: 1 };
    let stamp = Stamp { time: HybridTime(1), node: NodeId(1), lane: 0 };
    let names = ["a", "b", "e", "f"];
    let locks =
        Lock::normalized(names.map(|key| Lock { db: 0, key: key.as_bytes().into(), mode: Mode::Exclusive }).into());
    let mut asked = false;
    for _ in 0..5 {
        assert!(
            matches!(cold.engine.lock_attempt((tx, (stamp, false), &locks), || true, &mut asked, 9), Err(busy) if busy.awaited)
        );
        cold.serve();
        // The time for its keys is over, and memory is full.
        cold.now = cold.now + 1000;
        cold.serve();
        cold.evict();
    }
    cold.engine.insists = true;
    cold.engine.begin_turn(UnixMs(2000));
    let mut look = |cold: &mut Cold| {
        let Ok(Locked::Block(block)) = cold.engine.lock_attempt((tx, (stamp, false), &locks), || true, &mut asked, 9)
        else {
            panic!("it has its locks")
        };
        *block
    };
    // A compared key need not be in memory, either.
    let block = look(&mut cold);
    let is_at = |cold: &mut Cold, block: &crate::BlockRun, key: &str, version: Version| {
        cold.engine.is_at(block, (0, key.as_bytes()), version).unwrap()
    };
    for key in ["a", "b"] {
        assert!(!is_at(&mut cold, &block, key, Version::ZERO), "{key} is there");
    }
    for key in ["e", "f"] {
        assert!(is_at(&mut cold, &block, key, Version::ZERO), "{key} is not there");
    }
    let mut found = Vec::new();
    assert!(cold.engine.look(&block, &locks, (&Default::default(), 1 << 20), &mut found).unwrap());
    let version = Version(u64::from_le_bytes(found[..8].try_into().unwrap()));
    assert!(is_at(&mut cold, &block, "a", version));
    let _ = cold.engine.hold_attempt(block);
    cold.serve();
    cold.now = cold.now + 1000;
    cold.serve();
    assert!(cold.evict() > 0);
    cold.shelf.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let block = look(&mut cold);
    assert!(cold.engine.is_at(&block, (0, b"a"), version).is_err(), "it cannot be known");
    cold.engine.drop_attempt(block, tx, &locks);
}

//! Clients cache their reads while others change the keys, on several engines at once: a cached value that was not
//! invalidated is current.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use clocks::UnixMs;
use command::{Rng, Tunables, flags};
use keyspace::{Keyspace, Need};
use resp::{Batch, Protocol};

use crate::testing::row;
use crate::{Again, Begin, BlockRun, Call, Caller, Ending, Engine, Invalidation, Ran, Seat, Shared, Swept};

const BEGIN: u64 = 1_000_000_000_000;
const DATABASES: usize = 2;
const CLIENTS: u64 = 3;
const SEEDS: u64 = 200;
const KEYS: [&str; 7] = ["a", "b", "c", "{a}d", "{a}e", "f", "g"];

/// Commands that read. `K` is a key, `D` a database, `N` a small number.
const READS: &[&str] =
    &["get K", "mget K K K", "lrange K 0 -1", "llen K", "hgetall K", "smembers K", "exists K K", "type K", "strlen K"];
const WRITES: &[&str] = &[
    "set K N",
    "set K N px N",
    "mset K N K N",
    "append K N",
    "del K K",
    "rename K K",
    "copy K K db D replace",
    "move K D",
    "pexpire K N",
    "rpush K N",
    "lpop K",
    "blpop K K 0",
    "blmove K K left right 0",
    "sadd K N N",
    "hset K a N",
    "hsetex K px N fields 1 a N",
    "hpexpire K N fields 1 a",
    "setbit K N 1",
    "flushdb",
    "flushall",
    "swapdb D D",
];

type Line = (u16, Vec<String>);
type Mail = Mutex<Vec<Invalidation>>;

/// One client on a worker of its own, without a loop.
struct Hand<'a> {
    engine: Engine,
    rng: Rng,
    client: u64,
    /// The commands that it has cached, with their replies.
    cache: BTreeMap<Line, Vec<u8>>,
    mail: &'a [Mail],
}

impl Hand<'_> {
    fn line(&mut self) -> Line {
        let line = match self.rng.below(100) {
            0 => WRITES[WRITES.len() - 1 - self.rng.below(3) as usize],
            1..50 => WRITES[self.rng.below(WRITES.len() as u64 - 3) as usize],
            _ => READS[self.rng.below(READS.len() as u64) as usize],
        };
        let mut word = |word: &str| match word {
            "K" => KEYS[self.rng.below(KEYS.len() as u64) as usize].into(),
            "D" => self.rng.below(DATABASES as u64).to_string(),
            "N" => (1 + self.rng.below(9)).to_string(),
            word => word.into(),
        };
        let words = line.split(' ').map(&mut word).collect();
        (self.rng.below(DATABASES as u64) as u16, words)
    }

    fn batch(lines: &[Line]) -> Batch {
        let mut batch = Batch::new();
        lines.iter().for_each(|(_, words)| assert!(batch.push_copy(words.iter().map(String::as_bytes))));
        batch
    }

    fn call<'c>(&self, batch: &'c Batch, i: usize, db: u16, seat: Option<&'c Seat>) -> Call<'c> {
        let args = batch.args(i, &[]);
        let row = row(std::str::from_utf8(&args[0]).expect("a name"));
        let caller = Caller { client: self.client, caches: true };
        Call { row, args, first: None, db, protocol: Protocol::Resp3, token: 0, seat, caller }
    }

    fn keep(&mut self, line: Line, reply: Vec<u8>) {
        if row(&line.1[0]).spec.has(flags::READONLY) {
            self.cache.insert(line, reply);
        }
    }

    /// Delivers invalidations to others, a little later than latches go back, and then takes its own. Those that come
    /// with the reply or before it are heard after it.
    fn tell(&mut self) {
        self.engine.give_way();
        for invalidation in self.engine.take_invalidated() {
            for (i, mail) in self.mail.iter().enumerate() {
                let concerns = match &invalidation {
                    Invalidation::Key { readers, .. } => readers.contains(&(i as u64 + 1)),
                    Invalidation::All => true,
                };
                if concerns {
                    mail.lock().expect("no panic").push(invalidation.clone());
                }
            }
        }
        let mail = &self.mail[self.client as usize - 1];
        for invalidation in std::mem::take(&mut *mail.lock().expect("no panic")) {
            match invalidation {
                Invalidation::All => self.cache.clear(),
                Invalidation::Key { key, .. } => {
                    self.cache.retain(|(_, words), _| !words.iter().skip(1).any(|word| *word.as_bytes() == *key));
                }
            }
        }
        self.engine.wakes.clear();
        self.engine.served.clear();
        self.engine.published.clear();
        while self.engine.step_garbage(100) {}
    }

    fn single(&mut self, line: Line) {
        let (seat, mut out) = (Seat::default(), Vec::new());
        let batch = Self::batch(std::slice::from_ref(&line));
        let call = self.call(&batch, 0, line.0, Some(&seat));
        let ran = loop {
            match self.engine.run(&call, &mut out) {
                Ran::Busy(_) => std::thread::yield_now(),
                ran => break ran,
            }
        };
        if let Ran::Blocked(blocked) = ran {
            self.tell();
            (0..self.rng.below(20)).for_each(|_| std::thread::yield_now());
            if blocked.leave() == Ending::Ended {
                while !self.engine.forget(&blocked) {
                    std::thread::yield_now();
                }
            }
        } else {
            self.keep(line, out);
        }
        self.tell();
    }

    fn read(&mut self, line: &Line) -> Vec<u8> {
        let (batch, mut reply) = (Self::batch(std::slice::from_ref(line)), Vec::new());
        let call = self.call(&batch, 0, line.0, None);
        assert!(matches!(self.engine.run(&call, &mut reply), Ran::Done));
        reply
    }

    /// Runs a block, sometimes as a script does: it takes latches as it needs them, and may be undone.
    fn block(&mut self) {
        let lines: Vec<Line> = (0..1 + self.rng.below(5)).map(|_| self.line()).collect();
        let batch = Self::batch(&lines);
        let calls: Vec<_> = lines.iter().enumerate().map(|(i, line)| self.call(&batch, i, line.0, None)).collect();
        let may_widen = self.rng.below(2) == 0;
        let mut again: Option<Again> = None;
        loop {
            let known = if may_widen { &calls[..1] } else { &calls[..] };
            let begin = Begin { calls: known, may_widen, again: again.as_ref(), ..Begin::default() };
            let Ok(Some(mut block)) = self.engine.begin_block(&begin, 0) else {
                std::thread::yield_now();
                continue;
            };
            match self.run_commands(&calls, &mut block) {
                Ok(replies) => {
                    self.engine.end_block(block, 0);
                    lines.into_iter().zip(replies).for_each(|(line, reply)| self.keep(line, reply));
                    return self.tell();
                }
                Err(need) => again = Some(self.engine.undo_block(block, need)),
            }
        }
    }

    fn run_commands(&mut self, calls: &[Call<'_>], block: &mut BlockRun) -> Result<Vec<Vec<u8>>, Need> {
        let mut replies = Vec::new();
        for call in calls {
            self.engine.widen_block(block, call).map_err(|busy| busy.need)?;
            let mut out = Vec::new();
            self.engine.run_in_block(block, call, &mut out);
            replies.push(out);
            if block.can_be_undone() && self.rng.below(16) == 0 {
                return Err(Need::Slots(block.held().slots().into()));
            }
        }
        Ok(replies)
    }
}

#[test]
fn whatever_is_cached_and_was_not_invalidated_is_there() {
    let tunables = Arc::new(Tunables { max_string: 1 << 20, databases: DATABASES as u16, ..Tunables::default() });
    let mut compared = 0;
    for seed in 0..SEEDS {
        let shared = Arc::new(Shared::new(Keyspace::new(CLIENTS as usize, DATABASES, 7)));
        shared.disturbed.store(true, Relaxed);
        let time = AtomicU64::new(BEGIN);
        let mail: Vec<Mail> = (0..CLIENTS).map(|_| Mail::default()).collect();
        let mut hands: Vec<Hand<'_>> = std::thread::scope(|scope| {
            let hands: Vec<_> = (0..CLIENTS)
                .map(|i| {
                    let (shared, tunables, time, mail) = (shared.clone(), tunables.clone(), &time, &mail);
                    scope.spawn(move || {
                        let engine = Engine::new(shared, i as u16, seed * 10 + i);
                        let rng = Rng::new(seed * 100 + i);
                        let mut hand = Hand { engine, rng, client: i + 1, cache: BTreeMap::new(), mail };
                        hand.engine.configure(tunables, 0);
                        for _ in 0..6 {
                            hand.engine.begin_turn(UnixMs(time.fetch_add(hand.rng.below(3), Relaxed)));
                            for _ in 0..hand.rng.below(12) {
                                if hand.rng.below(3) == 0 {
                                    hand.block();
                                } else {
                                    let line = hand.line();
                                    hand.single(line);
                                }
                            }
                            // The sweep expires keys, and tracking forgets keys if there are too many.
                            let _ = hand.engine.sweep(CLIENTS as u16, || true);
                            let most = if hand.rng.below(16) == 0 { 2 } else { 1000 };
                            let _ = hand.engine.forget_reads(most, 3);
                            hand.tell();
                            hand.engine.end_turn();
                        }
                        hand
                    })
                })
                .collect();
            hands.into_iter().map(|hand| hand.join().expect("no panic")).collect()
        });
        // Expired keys are deleted, and all invalidations are delivered. Then each client checks its cache.
        let lines: Vec<_> = hands.iter().flat_map(|hand| hand.cache.keys().cloned()).collect();
        // In every other round no key is left that could still expire.
        let end = time.load(Relaxed) + seed % 2 * 10;
        for hand in &mut hands {
            hand.engine.begin_turn(UnixMs(end));
        }
        lines.iter().for_each(|line| drop(hands[0].read(line)));
        // Reads find expired keys. Fields that HGETALL only passes over exist until the sweep finds them.
        for hand in &mut hands {
            while hand.engine.sweep(CLIENTS as u16, || true) == Swept::Part {}
        }
        (0..2).for_each(|_| hands.iter_mut().for_each(Hand::tell));
        for hand in &mut hands {
            for (line, cached) in std::mem::take(&mut hand.cache) {
                assert_eq!(hand.read(&line), cached, "seed {seed}: client {} of {line:?}", hand.client);
                compared += 1;
            }
            hand.engine.end_turn();
        }
        let tracking = &shared.tracking;
        assert!(tracking.items() >= tracking.keys());
        for hand in &mut hands {
            while !hand.engine.forget_reads(0, 100) {}
        }
        assert_eq!((tracking.keys(), tracking.items(), tracking.next_slot(0)), (0, 0, None), "seed {seed}");
        assert_eq!(tracking.claimed.load(Relaxed), 0);
    }
    assert!(compared > 100, "{compared} comparisons");
}

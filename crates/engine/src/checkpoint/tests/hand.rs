//! One worker, without a loop, that runs random commands of all families.

use std::time::Duration;

use clocks::MonoMs;
use command::Rng;
use keyspace::Need;

use super::model::DATABASES;
use crate::cold::Loader;
use crate::testing::{row, try_run};
use crate::{Again, Begin, Call, Caller, Engine};

/// Most keys share a slot by their tag, so that a walk takes many holds.
const KEYS: u64 = 40;

/// `K` is a key, `D` a database, `N` a small number, `V` a value, `B` the key of a large value, `W` a long element. The
/// last three are rare.
const LINES: &[&str] = &[
    "set K V",
    "set K V",
    "set K V px 100000",
    "set K N",
    "mset K V K V K V",
    "del K K",
    "del K",
    "del K",
    "append K V",
    "incr K",
    "setrange K N V",
    "rename K K",
    "copy K K replace",
    "copy K K db D replace",
    "move K D",
    "pexpire K 100000",
    "persist K",
    "get K",
    "rpush K V V V",
    "rpush K V N V N V",
    "lpush K V",
    "lset K 0 V",
    "lset K -1 V",
    "linsert K before N V",
    "lpop K",
    "ltrim K 1 -2",
    "lmove K K left right",
    "sort K by nosort store K",
    "sadd K N N V",
    "srem K N",
    "spop K",
    "smove K K N",
    "sunionstore K K K",
    "zadd K N a N b N V",
    "zincrby K N a",
    "zpopmin K",
    "zunionstore K 2 K K",
    "hset K a N b V N V",
    "hincrby K a N",
    "hdel K a",
    "hpexpire K 100000 fields 1 a",
    "xadd K * a V",
    "xtrim K maxlen N",
    "xgroup create K g 0 mkstream",
    "bitop xor K K K",
    "pfadd K V N",
    "rpush B W W W W W W W W",
    "lpush B W",
    "lset B 1 W",
    "lpop B",
    "ltrim B 0 5",
    "sadd B W W W W W W W W",
    "srem B W W",
    "zadd B N W N W N W N W N W N W N W",
    "zincrby B N W",
    "hset B W W W W W W W W",
    "hset B a W",
    "hdel B W W",
    "hpexpire B 100000 fields 1 a",
    "xadd B * a W b W",
    "xadd B * a W c W",
    "xtrim B maxlen 7",
    "rename B B",
    "copy B B replace",
    "copy B B db D replace",
    "del B",
    "flushdb",
    "flushall",
    "swapdb D D",
];

/// Every possible key.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let large = ["l", "s", "z", "h", "x"].iter().map(|kind| format!("{{t}}{kind}"));
    (0..KEYS).map(name).chain(large)
}

fn name(n: u64) -> String {
    if n.is_multiple_of(8) { format!("k{n}") } else { format!("{{t}}{n}") }
}

/// See the module's text.
pub(crate) struct Hand {
    pub(crate) engine: Engine,
    pub(crate) rng: Rng,
    /// Fetches the keys that the engine waits for.
    pub(crate) loader: Loader,
    pub(crate) now: MonoMs,
}

impl Hand {
    /// Fetches the requested keys.
    pub(crate) fn serve(&mut self) {
        self.now = self.now + 1;
        let requests = self.engine.shared.requests.take(100, Duration::ZERO).expect("nobody closes it");
        self.loader.serve(requests, self.now, |_| {});
    }

    /// Runs a command in database `db`.
    pub(crate) fn run(&mut self, db: u16, words: &[&str]) -> String {
        loop {
            match try_run(&mut self.engine, db, words) {
                Some(reply) => return reply,
                None => self.serve(),
            }
        }
    }

    fn words(&mut self) -> Vec<String> {
        let n = LINES.len() as u64;
        let most = if self.rng.below(20) == 0 { n } else { n - 3 };
        let line = LINES[self.rng.below(most) as usize];
        line.split(' ')
            .map(|word| match word {
                "K" => name(self.rng.below(KEYS)),
                // Large values of every kind, of few elements each.
                "B" => {
                    let kind = match line.split(' ').next() {
                        Some("rename" | "copy" | "del") => ["l", "s", "z", "h", "x"][self.rng.below(5) as usize],
                        Some("rpush") => "l",
                        _ => &line[..1],
                    };
                    format!("{{t}}{kind}")
                }
                "W" => self.rng.below(30).to_string().repeat(1500),
                "D" => self.rng.below(DATABASES as u64).to_string(),
                "N" => (1 + self.rng.below(9)).to_string(),
                "V" => "v".repeat(1 + self.rng.below(60) as usize),
                word => word.into(),
            })
            .collect()
    }

    /// A command or a block of them.
    pub(crate) fn act(&mut self) {
        if self.rng.below(5) == 0 {
            self.block();
        } else {
            let words = self.words();
            let db = if self.rng.below(4) == 0 { self.rng.below(3) as u16 } else { 0 };
            self.run(db, &words.iter().map(String::as_str).collect::<Vec<_>>());
        }
        self.engine.published.clear();
        self.engine.served.clear();
        self.engine.wakes.clear();
        while self.engine.step_garbage(1000) {}
        self.engine.take_seen();
    }

    /// Commands of one record, sometimes as a script runs them, and sometimes undone.
    fn block(&mut self) {
        let parts: Vec<Vec<String>> = (0..1 + self.rng.below(5)).map(|_| self.words()).collect();
        let mut batch = resp::Batch::new();
        parts.iter().for_each(|words| assert!(batch.push_copy(words.iter().map(String::as_bytes))));
        let db = self.rng.below(2) as u16;
        let call = |(i, words): (usize, &Vec<String>)| Call {
            row: row(&words[0]),
            args: batch.args(i, &[]),
            first: None,
            db,
            protocol: resp::Protocol::Resp2,
            token: 0,
            seat: None,
            caller: Caller::default(),
        };
        let calls: Vec<Call<'_>> = parts.iter().enumerate().map(call).collect();
        let may_widen = self.rng.below(2) == 0;
        let mut again: Option<Again> = None;
        loop {
            let known = if may_widen { &calls[..1] } else { &calls };
            let begin = Begin { calls: known, may_widen, again: again.as_ref(), ..Begin::default() };
            let mut block = match self.engine.begin_block(&begin, 0) {
                Ok(block) => block.expect("nothing is watched"),
                Err(_) => {
                    self.serve();
                    continue;
                }
            };
            let mut out = Vec::new();
            let mut need = None;
            for call in &calls {
                if let Err(busy) = self.engine.widen_block(&mut block, call) {
                    need = Some(busy.need);
                    break;
                }
                self.engine.run_in_block(&mut block, call, &mut out);
                if block.can_be_undone() && self.rng.below(16) == 0 {
                    need = Some(Need::Slots(block.held().slots().into()));
                    break;
                }
            }
            let Some(need) = need else { return self.engine.end_block(block, 0) };
            again = Some(self.engine.undo_block(block, need));
            self.serve();
            if self.rng.below(4) == 0 {
                return;
            }
        }
    }
}

//! Random histories on holdfast and on a real redis-server: every reply must be the same.
//!
//! The reference is the program that `REDIS_SERVER` names; without it nothing is compared. Cases are few and their
//! seeds fixed unless `DIFFERENTIAL_CASES` asks for more, which are then new every time:
//!
//! ```sh
//! REDIS_SERVER=~/redis/src/redis-server DIFFERENTIAL_CASES=2000 cargo test --test differential
//! ```
#![allow(clippy::disallowed_methods, reason = "tests wait for real servers")]

mod bend;
mod lines;
mod pair;
#[path = "../../../acl/tests/differential/peer.rs"]
mod peer;

use std::cell::RefCell;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use resp::Value;

use bend::bend;
use lines::{LINES, fill, needed};
use pair::{comparable, start, version};
use peer::{Peer, show};

/// A line of the table, and the choices for its placeholders.
#[derive(Clone, Debug)]
struct Step {
    family: usize,
    line: usize,
    picks: Vec<u8>,
    /// How its words are bent, three picks each; mostly not at all.
    bent: Vec<u8>,
}

/// A history stays with two families most of the time, so that their commands meet on the same keys.
fn history() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let families = (0..LINES.len(), 0..LINES.len());
    (any::<bool>(), families).prop_flat_map(|(resp3, (a, b))| {
        let family = prop_oneof![6 => Just(a), 3 => Just(b), 1 => 0..LINES.len()];
        let bent = prop_oneof![
            3 => Just(Vec::new()),
            2 => prop::collection::vec(any::<u8>(), 3),
            1 => prop::collection::vec(any::<u8>(), 6..=9),
        ];
        let step = (family, any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 10), bent).prop_map(
            |(family, line, picks, bent)| Step { family, line: line.index(LINES[family].len()), picks, bent },
        );
        (Just(resp3), prop::collection::vec(step, 1..80))
    })
}

struct Servers {
    redis: Peer,
    ours: Peer,
}

impl Servers {
    fn both(&mut self, args: &[Vec<u8>]) -> (Value, Value) {
        (comparable(&args[0], self.redis.call(args)), comparable(&args[0], self.ours.call(args)))
    }

    /// True if both servers have the command, and the reference is as new as the line wants it.
    fn know(&mut self, line: &str) -> bool {
        let (version, line) = needed(line);
        if version.is_some_and(|version| self::version(&mut self.redis) < version) {
            return false;
        }
        let name = line.split(' ').next().unwrap_or_default();
        [&mut self.redis, &mut self.ours].into_iter().all(|peer| match peer.words(name) {
            Value::Error(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                !text.starts_with("ERR unknown command") && !text.contains("is not supported by this version")
            }
            _ => true,
        })
    }

    /// Type, contents, time of expiry and, if asked for, encoding of a key.
    fn describe(&mut self, key: &str, encoding: bool) -> Vec<(String, Value, Value)> {
        let kind = match self.redis.words(&format!("type {key}")) {
            Value::Simple(kind) => String::from_utf8_lossy(&kind).into_owned(),
            _ => String::new(),
        };
        let mut queries = vec![format!("type {key}"), format!("pexpiretime {key}")];
        // The place where a list turns back depends on how Redis has cut it into nodes.
        if encoding && kind != "string" && kind != "list" {
            queries.push(format!("object encoding {key}"));
        }
        queries.push(match kind.as_str() {
            "string" => format!("get {key}"),
            "list" => format!("lrange {key} 0 -1"),
            "set" => format!("smembers {key}"),
            "hash" => format!("hgetall {key}"),
            "zset" => format!("zrange {key} 0 -1 withscores"),
            "stream" => format!("xinfo stream {key} full count 0"),
            _ => format!("exists {key}"),
        });
        let ask = |query: String| {
            let args: Vec<Vec<u8>> = query.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let (redis, ours) = self.both(&args);
            (query, redis, ours)
        };
        queries.into_iter().map(ask).collect()
    }
}

fn shown(args: &[Vec<u8>]) -> String {
    args.iter().map(|arg| format!("\"{}\"", arg.escape_ascii())).collect::<Vec<_>>().join(" ")
}

/// Runs a history on both. An error tells it up to the first difference.
fn compare(servers: &mut Servers, known: &[Vec<bool>], resp3: bool, steps: &[Step]) -> Result<(), TestCaseError> {
    let hello = if resp3 { "hello 3" } else { "hello 2" };
    for peer in [&mut servers.redis, &mut servers.ours] {
        peer.words("reset");
        peer.words("flushall");
        let reply = peer.words(hello);
        prop_assert!(!matches!(reply, Value::Error(_)), "{hello}: {reply:?}");
    }
    let mut told = vec![hello.to_string()];
    for step in steps {
        if !known[step.family][step.line] {
            continue;
        }
        let Some(args) = bend(fill(LINES[step.family][step.line], &step.picks), &step.bent) else { continue };
        told.push(shown(&args));
        let (redis, ours) = servers.both(&args);
        prop_assert!(redis == ours, "after\n  {}\nredis: {}\nours:  {}", told.join("\n  "), show(&redis), show(&ours));
    }
    for peer in [&mut servers.redis, &mut servers.ours] {
        peer.words("reset");
    }
    // SORT leaves sorted sets in the large form in Redis.
    let encodings = !told.iter().any(|line| line.starts_with("\"sort"));
    for key in ["a", "b", "c", "kk", "k1"] {
        for (query, redis, ours) in servers.describe(key, encodings) {
            // EXPIRE counts from the moment it arrives.
            let near = match (&redis, &ours) {
                (Value::Integer(redis), Value::Integer(ours)) => redis.abs_diff(*ours) < 10_000,
                _ => false,
            };
            prop_assert!(
                near || redis == ours,
                "after\n  {}\n{query}\nredis: {}\nours:  {}",
                told.join("\n  "),
                show(&redis),
                show(&ours)
            );
        }
    }
    Ok(())
}

#[test]
fn replies_are_those_of_redis() {
    let Some(reference) = std::env::var_os("REDIS_SERVER").map(PathBuf::from) else {
        eprintln!("nothing compared: REDIS_SERVER does not name a redis-server");
        return;
    };
    let ours = PathBuf::from(env!("CARGO_BIN_EXE_holdfast"));
    let mut servers = {
        // Nodes so small that trimming finds some to drop.
        let narrow = ["--stream-node-max-entries", "3"];
        let ours_args = [["server"].as_slice(), &narrow].concat();
        Servers { redis: start(&reference, &narrow), ours: start(&ours, &ours_args) }
    };
    let known: Vec<Vec<bool>> =
        LINES.iter().map(|lines| lines.iter().map(|line| servers.know(line)).collect()).collect();
    let servers = RefCell::new(servers);
    let config = |cases| Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 20_000,
        ..Config::default()
    };
    let mut runner = match std::env::var("DIFFERENTIAL_CASES") {
        Ok(cases) => TestRunner::new(config(cases.parse().expect("a number of cases"))),
        Err(_) => TestRunner::new_with_rng(config(150), TestRng::from_seed(RngAlgorithm::ChaCha, &[42; 32])),
    };
    let outcome = runner.run(&history(), |(resp3, steps)| compare(&mut servers.borrow_mut(), &known, resp3, &steps));
    if let Err(error) = outcome {
        panic!("{}", error.to_string().split("\nminimal failing input").next().unwrap_or_default());
    }
}

//! Effects say all that commands did: replayed into an empty keyspace they give the same contents (rule L3).

use proptest::prelude::*;

use super::Bench;
use super::history::{LINES, fill};
use crate::families::FAMILIES;
use crate::spec::flags;

/// A line of the table, and what its placeholders become.
#[derive(Clone, Debug)]
struct Step {
    family: usize,
    line: usize,
    picks: Vec<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    (0..LINES.len(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 9))
        .prop_map(|(family, line, picks)| Step { family, line: line.index(LINES[family].len()), picks })
}

/// Thresholds so low that short histories cross them.
pub(super) fn narrow(bench: &mut Bench) {
    let limits = &mut bench.tunables.limits;
    limits.list_max_listpack_size = 4;
    limits.hash_max_listpack_entries = 4;
    limits.hash_max_listpack_value = 30;
    limits.set_max_intset_entries = 3;
    limits.set_max_listpack_entries = 4;
    limits.set_max_listpack_value = 30;
    limits.zset_max_listpack_entries = 4;
    limits.zset_max_listpack_value = 30;
    limits.stream_node_max_entries = 3;
}

/// The replies of DUMP for a value of each kind.
pub(super) fn payloads() -> Vec<Vec<u8>> {
    let mut bench = Bench::new();
    ["set k0 text", "rpush k0 a 1 b", "hset k0 f1 v f2 2", "zadd k0 1 f1 2 f2", "sadd k0 f1 f2 9", "xadd k0 1-1 f1 v"]
        .iter()
        .filter(|line| known(line))
        .map(|line| {
            bench.words("del k0");
            bench.words(line);
            let reply = bench.run(&[b"dump", b"k0"]);
            let start = reply.windows(2).position(|w| w == b"\r\n").expect("a bulk string") + 2;
            reply[start..reply.len() - 2].to_vec()
        })
        .collect()
}

pub(super) fn known(line: &str) -> bool {
    let name = line.split(' ').next().unwrap_or_default();
    FAMILIES.iter().any(|rows| rows.iter().any(|row| row.spec.name == name))
}

/// Runs a history and checks, step by step, that what changed and what was said to change agree.
fn run(steps: &[Step], late_from: Option<usize>) -> (Bench, Vec<String>) {
    let payloads = payloads();
    let mut bench = Bench::new();
    bench.effects.late_from = late_from;
    bench.patient = late_from.is_some();
    narrow(&mut bench);
    let mut told = Vec::new();
    let mut before = bench.digest_alive();
    for step in steps {
        let line = LINES[step.family][step.line];
        let words = fill(line, &step.picks, bench.now, &payloads);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let shown: Vec<_> = words.iter().map(|w| w.escape_ascii().to_string()).collect();
        match words[0] {
            b"@wait" => {
                bench.now += keyspace::canonical_int(words[1]).expect("a number") as u64;
                before = bench.digest_alive();
                told.push(shown.join(" "));
                continue;
            }
            b"@db" => {
                bench.db = keyspace::canonical_int(words[1]).expect("a number") as u16;
                told.push(shown.join(" "));
                continue;
            }
            _ if !known(line) => continue,
            _ => {}
        }
        let (logged, dirty) = (bench.effects.encoded.len(), bench.effects.dirty);
        let reply = bench.run(&words);
        let now = bench.digest_alive();
        told.push(format!("{} -> {}", shown.join(" "), reply.escape_ascii()));
        let history = || told.join("\n");
        if reply.starts_with(b"-") {
            assert_eq!(before, now, "an error changed something:\n{}", history());
        }
        if bench.effects.encoded.len() == logged {
            assert_eq!(before, now, "changed without an effect:\n{}", history());
            assert_eq!(bench.effects.dirty, dirty, "counted a change without an effect:\n{}", history());
        }
        before = now;
    }
    (bench, told)
}

/// As many cases as `PROPTEST_CASES` says; few without it.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 96;
    }
    config
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn effects_say_it_all(steps in prop::collection::vec(step(), 1..120), late in prop::option::of(0usize..500)) {
        let (mut bench, told) = run(&steps, late);
        let mut other = bench.replayed();
        prop_assert_eq!(bench.contents(), other.contents(), "{}", told.join("\n"));
        bench.check_counts();
        other.check_counts();
    }
}

#[test]
fn every_writing_command_has_a_line() {
    for row in FAMILIES.iter().flat_map(|rows| rows.iter()).filter(|row| row.spec.has(flags::WRITE)) {
        let has_line = LINES.iter().flat_map(|lines| lines.iter()).any(|l| l.split(' ').next() == Some(row.spec.name));
        assert!(has_line, "testing/history.rs has no line for {}", row.spec.name);
    }
}

/// Families that have lines before they have commands.
const TO_COME: [&str; 2] = ["pf", "geo"];

#[test]
fn every_line_has_a_command() {
    for line in LINES.iter().flat_map(|lines| lines.iter()).filter(|line| !line.starts_with('@')) {
        assert!(known(line) || TO_COME.iter().any(|name| line.starts_with(name)), "no command for: {line}");
    }
}

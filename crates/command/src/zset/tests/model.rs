//! Random histories: replies as a model's, and the same contents when replayed from their effects.

use crate::testing::Bench;
use keyspace::{EntryRef, Kind};
use object::ZSet;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Scores by member, by key. Scores are whole numbers here, which Redis prints as such.
type Model = BTreeMap<String, BTreeMap<String, i64>>;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("k"), Just("l"), Just("m")].prop_map(String::from)
}

fn member() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0u8..9).prop_map(|n| format!("m{n}")),
        1 => (0u8..2).prop_map(|n| n.to_string().repeat(80)),
    ]
}

fn score() -> impl Strategy<Value = String> {
    (-5i64..6).prop_map(|n| n.to_string())
}

fn bound() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => score(),
        3 => score().prop_map(|s| format!("({s}")),
        1 => Just("-inf".to_string()),
        1 => Just("+inf".to_string()),
    ]
}

fn words(fixed: &[&str], rest: impl IntoIterator<Item = String>) -> Vec<String> {
    fixed.iter().map(|w| w.to_string()).chain(rest).collect()
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let int = || (-12i64..12).prop_map(|n| n.to_string());
    let flags = prop::sample::subsequence(vec!["xx", "gt", "ch"], 0..=3);
    let pairs = prop::collection::vec((score(), member()), 1..6);
    let range = prop_oneof![Just("zrangebyscore"), Just("zrevrangebyscore")];
    let combine = prop_oneof![Just("zunion"), Just("zinter"), Just("zunionstore"), Just("zinterstore")];
    let aggregate = prop_oneof![Just("sum"), Just("min"), Just("max")];
    prop_oneof![
        8 => (key(), flags, pairs).prop_map(|(k, f, p)| {
            let pairs = p.into_iter().flat_map(|(s, m)| [s, m]);
            words(&["zadd", &k], f.into_iter().map(String::from).chain(pairs))
        }),
        2 => (key(), score(), member()).prop_map(|(k, s, m)| words(&["zadd", &k, "nx", &s, &m], [])),
        2 => (key(), score(), member()).prop_map(|(k, s, m)| words(&["zadd", &k, "lt", "incr", &s, &m], [])),
        2 => (key(), score(), member()).prop_map(|(k, s, m)| words(&["zincrby", &k, &s, &m], [])),
        3 => (key(), prop::collection::vec(member(), 1..4)).prop_map(|(k, m)| words(&["zrem", &k], m)),
        1 => (key(), int(), int()).prop_map(|(k, a, b)| words(&["zremrangebyrank", &k, &a, &b], [])),
        1 => (key(), bound(), bound()).prop_map(|(k, a, b)| words(&["zremrangebyscore", &k, &a, &b], [])),
        2 => (key(), any::<bool>(), 0u8..4).prop_map(|(k, min, n)| {
            words(&[if min { "zpopmin" } else { "zpopmax" }, &k, &n.to_string()], [])
        }),
        1 => key().prop_map(|k| words(&["zcard", &k], [])),
        2 => (key(), member()).prop_map(|(k, m)| words(&["zrank", &k, &m], [])),
        2 => (key(), member()).prop_map(|(k, m)| words(&["zrevrank", &k, &m], [])),
        2 => (key(), member()).prop_map(|(k, m)| words(&["zscore", &k, &m], [])),
        2 => (key(), bound(), bound()).prop_map(|(k, a, b)| words(&["zcount", &k, &a, &b], [])),
        2 => (key(), int(), int()).prop_map(|(k, a, b)| words(&["zrange", &k, &a, &b], [])),
        2 => (key(), int(), int()).prop_map(|(k, a, b)| words(&["zrevrange", &k, &a, &b], [])),
        3 => (range, key(), bound(), bound(), 0u8..4, -1i8..4).prop_map(|(c, k, a, b, skip, take)| {
            words(&[c, &k, &a, &b, "limit", &skip.to_string(), &take.to_string()], [])
        }),
        1 => (key(), key(), bound(), bound())
            .prop_map(|(k, l, a, b)| words(&["zrangestore", &k, &l, &a, &b, "byscore"], [])),
        2 => (combine, key(), key(), key(), 1i8..4, aggregate).prop_map(|(c, d, k, l, w, a)| {
            let to: &[&str] = if c.ends_with("store") { &[c, &d] } else { &[c] };
            words(&[to, &["2", &k, &l, "weights", "1", &w.to_string(), "aggregate", a]].concat(), [])
        }),
        1 => (key(), key(), key()).prop_map(|(d, k, l)| words(&["zdiffstore", &d, "2", &k, &l], [])),
        1 => (key(), key()).prop_map(|(k, l)| words(&["zintercard", "2", &k, &l], [])),
        1 => key().prop_map(|k| words(&["del", &k], [])),
    ]
}

fn bulk(s: impl ToString) -> String {
    let s = s.to_string();
    format!("${}\r\n{s}\r\n", s.len())
}

fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("*{}\r\n{}", items.len(), items.concat())
}

fn int(n: impl ToString) -> String {
    format!(":{}\r\n", n.to_string())
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

/// Members with scores in order.
fn sorted(model: &Model, key: &str) -> Vec<(i64, String)> {
    let mut all: Vec<_> = model.get(key).into_iter().flatten().map(|(m, s)| (*s, m.clone())).collect();
    all.sort();
    all
}

fn remove(model: &mut Model, key: &str, members: &[(i64, String)]) {
    if let Some(set) = model.get_mut(key) {
        set.retain(|m, _| !members.iter().any(|(_, gone)| gone == m));
    }
}

fn is_inside(score: i64, min: &str, max: &str) -> bool {
    let score = score as f64;
    let value = |b: &str| b.trim_start_matches('(').parse::<f64>().expect("a bound");
    let above = if min.starts_with('(') { score > value(min) } else { score >= value(min) };
    let below = if max.starts_with('(') { score < value(max) } else { score <= value(max) };
    above && below
}

/// The slice that Redis's inclusive range means.
fn slice(start: &str, stop: &str, len: usize) -> (usize, usize) {
    let at = |s: &str| if number(s) < 0 { number(s) + len as i64 } else { number(s) };
    let (start, stop) = (at(start).max(0), at(stop).min(len as i64 - 1));
    if start > stop { (0, 0) } else { (start as usize, stop as usize + 1) }
}

/// Runs a command in the plainest way there is; returns its RESP2 reply.
fn run(model: &mut Model, words: &[String]) -> String {
    let w: Vec<&str> = words.iter().map(String::as_str).collect();
    let members = |all: Vec<(i64, String)>| array(all.into_iter().map(|(_, m)| bulk(m)));
    let reply = match w[..] {
        ["zadd", key, "lt", "incr", by, member] => {
            let set = model.entry(key.into()).or_default();
            let new = set.get(member).map_or(number(by), |old| old + number(by));
            if set.get(member).is_some_and(|old| new >= *old) {
                "$-1\r\n".into()
            } else {
                set.insert(member.into(), new);
                bulk(new)
            }
        }
        ["zadd", key, "nx", score, member] => {
            let set = model.entry(key.into()).or_default();
            let new = !set.contains_key(member);
            set.entry(member.into()).or_insert(number(score));
            int(u8::from(new))
        }
        ["zadd", key, ..] => {
            let flags: Vec<_> = w[2..].iter().take_while(|f| ["xx", "gt", "ch"].contains(f)).collect();
            let (mut added, mut changed) = (0, 0);
            for pair in w[2 + flags.len()..].chunks(2) {
                let set = model.entry(key.into()).or_default();
                let score = number(pair[0]);
                match set.get(pair[1]) {
                    None if flags.contains(&&"xx") => {}
                    None => {
                        added += 1;
                        set.insert(pair[1].into(), score);
                    }
                    Some(old) if score == *old || flags.contains(&&"gt") && score < *old => {}
                    Some(_) => {
                        changed += 1;
                        set.insert(pair[1].into(), score);
                    }
                }
            }
            int(if flags.contains(&&"ch") { added + changed } else { added })
        }
        ["zincrby", key, by, member] => {
            let score = model.entry(key.into()).or_default().entry(member.into()).or_insert(0);
            *score += number(by);
            bulk(*score)
        }
        ["zrem", key, ..] => {
            let removed = |m: &&&str| model.get_mut(key).is_some_and(|set| set.remove(**m).is_some());
            int(w[2..].iter().filter(removed).count())
        }
        ["zremrangebyrank", key, a, b] => {
            let all = sorted(model, key);
            let (from, to) = slice(a, b, all.len());
            remove(model, key, &all[from..to]);
            int(to - from)
        }
        ["zremrangebyscore", key, a, b] => {
            let before = model.get(key).map_or(0, BTreeMap::len);
            model.get_mut(key).into_iter().for_each(|set| set.retain(|_, s| !is_inside(*s, a, b)));
            int(before - model.get(key).map_or(0, BTreeMap::len))
        }
        ["zpopmin" | "zpopmax", key, n] => {
            let mut all = sorted(model, key);
            if w[0] == "zpopmax" {
                all.reverse();
            }
            all.truncate(number(n) as usize);
            remove(model, key, &all);
            array(all.into_iter().flat_map(|(s, m)| [bulk(m), bulk(s)]))
        }
        ["zcard", key] => int(model.get(key).map_or(0, BTreeMap::len)),
        ["zrank" | "zrevrank", key, member] => {
            let mut all = sorted(model, key);
            if w[0] == "zrevrank" {
                all.reverse();
            }
            all.iter().position(|(_, m)| m == member).map_or("$-1\r\n".into(), int)
        }
        ["zscore", key, member] => model.get(key).and_then(|set| set.get(member)).map_or("$-1\r\n".into(), bulk),
        ["zcount", key, a, b] => int(sorted(model, key).iter().filter(|(s, _)| is_inside(*s, a, b)).count()),
        ["zrange" | "zrevrange", key, a, b] => {
            let mut all = sorted(model, key);
            if w[0] == "zrevrange" {
                all.reverse();
            }
            let (from, to) = slice(a, b, all.len());
            members(all[from..to].to_vec())
        }
        ["zrangebyscore" | "zrevrangebyscore", key, a, b, _, skip, take] => {
            let mut all = sorted(model, key);
            let (min, max) = if w[0] == "zrangebyscore" { (a, b) } else { (b, a) };
            all.retain(|(s, _)| is_inside(*s, min, max));
            if w[0] == "zrevrangebyscore" {
                all.reverse();
            }
            let take = usize::try_from(number(take)).unwrap_or(usize::MAX);
            members(all.into_iter().skip(number(skip) as usize).take(take).collect())
        }
        ["zrangestore", to, from, a, b, _] => {
            let all: BTreeMap<_, _> =
                sorted(model, from).into_iter().filter(|(s, _)| is_inside(*s, a, b)).map(|(s, m)| (m, s)).collect();
            let reply = int(all.len());
            model.insert(to.into(), all);
            reply
        }
        ["zintercard", _, k, l] => {
            int(sorted(model, k).iter().filter(|(_, m)| model.get(l).is_some_and(|l| l.contains_key(m))).count())
        }
        ["zdiffstore", to, _, k, l] => {
            let mut all = model.get(k).cloned().unwrap_or_default();
            all.retain(|m, _| !model.get(l).is_some_and(|l| l.contains_key(m)));
            let reply = int(all.len());
            model.insert(to.into(), all);
            reply
        }
        ["zunion" | "zinter", _, k, l, _, v, x, _, how] => {
            members(combined(model, w[0] == "zunion", [(k, v), (l, x)], how).into_iter().map(|(m, s)| (s, m)).collect())
        }
        ["zunionstore" | "zinterstore", to, _, k, l, _, v, x, _, how] => {
            let all = combined(model, w[0] == "zunionstore", [(k, v), (l, x)], how);
            let reply = int(all.len());
            model.insert(to.into(), all.into_iter().collect());
            reply
        }
        ["del", key] => int(u8::from(model.remove(key).is_some())),
        _ => panic!("not in the model: {words:?}"),
    };
    model.retain(|_, set| !set.is_empty());
    reply
}

/// Members with scores, in the order of the scores.
fn combined(model: &Model, union: bool, inputs: [(&str, &str); 2], how: &str) -> Vec<(String, i64)> {
    let mut all: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (key, weight) in inputs {
        for (s, m) in sorted(model, key) {
            all.entry(m).or_default().push(s * number(weight));
        }
    }
    all.retain(|_, scores| union || scores.len() == 2);
    let one = |scores: Vec<i64>| match how {
        "sum" => scores.iter().sum(),
        "min" => scores.into_iter().min().expect("one"),
        _ => scores.into_iter().max().expect("one"),
    };
    let mut result: Vec<_> = all.into_iter().map(|(m, scores)| (m, one(scores))).collect();
    result.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    result
}

fn contents(entry: &EntryRef<'_>) -> Vec<u8> {
    assert_eq!(entry.kind(), Kind::ZSet);
    let set = entry.collection::<ZSet>().expect("a sorted set");
    set.iter(0..set.len(), false)
        .flat_map(|(m, s)| format!("{} {s};", String::from_utf8_lossy(m)).into_bytes())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn histories(commands in prop::collection::vec(command(), 1..80), large: bool) {
        let mut bench = Bench::new();
        if large {
            bench.tunables.limits.zset_max_listpack_entries = 3;
        }
        let mut model = Model::new();
        for words in commands {
            let args: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
            let (changes, effects) = (bench.effects.dirty, bench.effects.encoded.len());
            let before = model.clone();
            let reply = String::from_utf8(bench.run(&args)).expect("text");
            prop_assert_eq!(reply, run(&mut model, &words), "{:?}", words);
            if before != model {
                prop_assert!(bench.effects.dirty > changes, "{words:?}");
            } else if bench.effects.dirty == changes {
                prop_assert_eq!(bench.effects.encoded.len(), effects);
            }
        }
        let image: Vec<_> = model
            .keys()
            .map(|key| {
                let text: String = sorted(&model, key).iter().map(|(s, m)| format!("{m} {s};")).collect();
                (key.clone().into_bytes(), None, text.into_bytes())
            })
            .collect();
        prop_assert_eq!(&bench.image(contents), &image);
        prop_assert_eq!(&bench.replayed().image(contents), &image);
    }

    #[test]
    fn damaged_effects_never_panic(at: usize, to: u8) {
        let mut bench = Bench::new();
        for line in [
            "zadd z 1 a 2 b 3 c",
            "zincrby z 5 a",
            "zrem z b",
            "zadd z 4 d 5 e",
            "zpopmin z 2",
            "zunionstore y 2 z z",
            "zrangestore x y 0 -1",
        ] {
            bench.words(line);
        }
        let at = at % bench.effects.encoded.len();
        bench.effects.encoded[at] = to;
        let encoded = std::mem::take(&mut bench.effects.encoded);
        Bench::new().replay(&encoded);
    }
}

//! Random histories: replies as a model's, and the same contents when replayed from their effects.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::EntryRef;
use object::Set;
use proptest::prelude::*;

use crate::testing::Bench;

type Model = BTreeMap<String, BTreeSet<String>>;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("k"), Just("l"), Just("m")].prop_map(String::from)
}

fn member() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (-9..9i64).prop_map(|n| n.to_string()),
        3 => (0..6u8).prop_map(|n| format!("member{n}")),
        1 => Just("m".repeat(70)),
    ]
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let members = || prop::collection::vec(member(), 1..6);
    let keys = || prop::collection::vec(key(), 1..10);
    let word = |words: &'static [&'static str]| prop::sample::select(words).prop_map(String::from);
    prop_oneof![
        8 => (key(), members()).prop_map(|(k, m)| [vec!["sadd".into(), k], m].concat()),
        3 => (key(), members()).prop_map(|(k, m)| [vec!["srem".into(), k], m].concat()),
        2 => (key(), members()).prop_map(|(k, m)| [vec!["smismember".into(), k], m].concat()),
        2 => (key(), key(), member()).prop_map(|(k, l, m)| vec!["smove".into(), k, l, m]),
        1 => key().prop_map(|k| vec!["scard".into(), k]),
        2 => (word(&["sinter", "sunion", "sdiff"]), keys()).prop_map(|(c, k)| [vec![c], k].concat()),
        3 => (word(&["sinterstore", "sunionstore", "sdiffstore"]), key(), keys()).prop_map(|(c, d, k)| [vec![c, d], k].concat()),
        1 => (keys(), 0..4u8).prop_map(|(k, limit)| {
            [vec!["sintercard".into(), k.len().to_string()], k, vec!["limit".into(), limit.to_string()]].concat()
        }),
        2 => (key(), prop::option::of(0..9u8)).prop_map(|(k, n)| [vec!["spop".into(), k], n.map(|n| n.to_string()).into_iter().collect()].concat()),
        1 => (key(), -5..9i64).prop_map(|(k, n)| vec!["srandmember".into(), k, n.to_string()]),
        1 => key().prop_map(|k| vec!["del".into(), k]),
    ]
}

/// A reply with its elements, where their order does not matter.
#[derive(PartialEq, Debug)]
enum Answer {
    Int(i64),
    Ints(Vec<i64>),
    /// Sorted.
    Members(Vec<String>),
}

fn parse(reply: &[u8]) -> Answer {
    let text = std::str::from_utf8(reply).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        [one] if one.starts_with(':') => Answer::Int(one[1..].parse().expect("a number")),
        ["$-1"] => Answer::Members(Vec::new()),
        [_, ints @ ..] if lines[0].starts_with('*') && ints.first().is_some_and(|line| line.starts_with(':')) => {
            Answer::Ints(ints.iter().map(|line| line[1..].parse().expect("a number")).collect())
        }
        [first, rest @ ..] => {
            let bulks = if first.starts_with('*') { rest } else { &lines };
            let mut members: Vec<String> = bulks.chunks(2).map(|bulk| bulk[1].to_string()).collect();
            members.sort();
            Answer::Members(members)
        }
        [] => panic!("no reply"),
    }
}

fn combined(model: &Model, how: &str, keys: &[String]) -> BTreeSet<String> {
    let set = |key: &String| model.get(key).cloned().unwrap_or_default();
    let sets = keys.iter().map(set);
    sets.reduce(|a, b| match how {
        "sinter" => &a & &b,
        "sunion" => &a | &b,
        _ => &a - &b,
    })
    .unwrap_or_default()
}

/// Applies the command to the model and checks the answer.
fn check(model: &mut Model, command: &[String], answer: &Answer) {
    let (verb, rest) = (command[0].as_str(), &command[1..]);
    let sorted = |set: &BTreeSet<String>| Answer::Members(set.iter().cloned().collect());
    let expected = match verb {
        "del" => Answer::Int(i64::from(model.remove(&rest[0]).is_some())),
        "sadd" => {
            let set = model.entry(rest[0].clone()).or_default();
            Answer::Int(rest[1..].iter().filter(|member| set.insert((*member).clone())).count() as i64)
        }
        "srem" => {
            let set = model.entry(rest[0].clone()).or_default();
            Answer::Int(rest[1..].iter().filter(|member| set.remove(*member)).count() as i64)
        }
        "smismember" => {
            let set = model.get(&rest[0]);
            Answer::Ints(rest[1..].iter().map(|m| i64::from(set.is_some_and(|set| set.contains(m)))).collect())
        }
        "scard" => Answer::Int(model.get(&rest[0]).map_or(0, BTreeSet::len) as i64),
        "smove" => {
            let found = model.get_mut(&rest[0]).is_some_and(|set| set.remove(&rest[2]));
            if found {
                model.entry(rest[1].clone()).or_default().insert(rest[2].clone());
            }
            Answer::Int(i64::from(found))
        }
        "sinter" | "sunion" | "sdiff" => sorted(&combined(model, verb, rest)),
        "sinterstore" | "sunionstore" | "sdiffstore" => {
            let set = combined(model, verb.trim_end_matches("store"), &rest[1..]);
            let len = set.len();
            model.insert(rest[0].clone(), set);
            Answer::Int(len as i64)
        }
        "sintercard" => {
            let keys = &rest[1..rest.len() - 2];
            let limit: usize = rest[rest.len() - 1].parse().expect("a number");
            let len = combined(model, "sinter", keys).len();
            Answer::Int(if limit == 0 { len } else { len.min(limit) } as i64)
        }
        "spop" | "srandmember" => {
            let Answer::Members(shown) = answer else { panic!("{command:?}: {answer:?}") };
            let set = model.entry(rest[0].clone()).or_default();
            let count: i64 = rest.get(1).map_or(1, |n| n.parse().expect("a number"));
            let len = if count < 0 && !set.is_empty() { -count } else { count.clamp(0, set.len() as i64) };
            assert_eq!(shown.len() as i64, len, "{command:?}");
            assert!(shown.iter().all(|member| set.contains(member)));
            assert!(count < 0 || shown.is_sorted_by(|a, b| a < b), "distinct");
            if verb == "spop" {
                shown.iter().for_each(|member| _ = set.remove(member));
            }
            Answer::Members(shown.clone())
        }
        other => panic!("{other}"),
    };
    assert_eq!(answer, &expected, "{command:?}");
    model.retain(|_, set| !set.is_empty());
}

/// The contents of a set, in no particular encoding.
fn contents(entry: &EntryRef<'_>) -> Vec<u8> {
    let set = entry.collection::<Set>().expect("only sets here");
    let mut members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    members.sort();
    members.join(&b","[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_histories(
        commands in prop::collection::vec(command(), 1..60),
        (ints, entries) in prop_oneof![Just((0usize, 0usize)), Just((4, 6)), Just((512, 128))],
    ) {
        let (mut bench, mut model) = (Bench::new(), Model::new());
        bench.tunables.limits.set_max_intset_entries = ints;
        bench.tunables.limits.set_max_listpack_entries = entries;
        for command in commands {
            let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
            check(&mut model, &command, &parse(&bench.run(&args)));
        }
        let image = bench.image(contents);
        let expected = model.iter().map(|(key, set)| {
            let mut members: Vec<&[u8]> = set.iter().map(|member| member.as_bytes()).collect();
            members.sort();
            (key.clone().into_bytes(), None, members.join(&b","[..]))
        });
        prop_assert_eq!(&image, &expected.collect::<Vec<_>>());
        prop_assert_eq!(&bench.replayed().image(contents), &image);
    }
}

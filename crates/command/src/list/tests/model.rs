//! Random histories: replies as a model's, and the same contents when replayed from their effects.

use crate::testing::Bench;
use keyspace::{EntryRef, Kind};
use object::List;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<String, Vec<String>>;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("k"), Just("l"), Just("m")].prop_map(String::from)
}

fn elem() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => (0u8..4).prop_map(|n| n.to_string()),
        5 => (0u8..4).prop_map(|n| format!("element-{n}")),
        1 => (0u8..2).prop_map(|n| n.to_string().repeat(3000)),
    ]
}

fn side() -> impl Strategy<Value = String> {
    prop_oneof![Just("left"), Just("right")].prop_map(String::from)
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let int = || (-12i64..12).prop_map(|n| n.to_string());
    let push = prop_oneof![Just("lpush"), Just("rpush"), Just("lpushx"), Just("rpushx")];
    let pop = prop_oneof![Just("lpop"), Just("rpop")];
    let place = prop_oneof![Just("before"), Just("after")];
    prop_oneof![
        6 => (push, key(), proptest::collection::vec(elem(), 1..8))
            .prop_map(|(c, k, e)| [vec![c.to_string(), k], e].concat()),
        3 => (pop, key(), proptest::option::of(0u8..6)).prop_map(|(c, k, n)| {
            let mut words = vec![c.to_string(), k];
            words.extend(n.map(|n| n.to_string()));
            words
        }),
        1 => (key(), key(), side(), 1u8..5)
            .prop_map(|(k, l, s, n)| vec!["lmpop".into(), "2".into(), k, l, s, "count".into(), n.to_string()]),
        2 => (key(), int()).prop_map(|(k, i)| vec!["lindex".into(), k, i]),
        2 => (key(), int(), elem()).prop_map(|(k, i, e)| vec!["lset".into(), k, i, e]),
        2 => (key(), place, elem(), elem()).prop_map(|(k, p, e, f)| vec!["linsert".into(), k, p.into(), e, f]),
        2 => (key(), -4i64..4, elem()).prop_map(|(k, n, e)| vec!["lrem".into(), k, n.to_string(), e]),
        1 => (key(), int(), int()).prop_map(|(k, i, j)| vec!["ltrim".into(), k, i, j]),
        1 => (key(), int(), int()).prop_map(|(k, i, j)| vec!["lrange".into(), k, i, j]),
        1 => key().prop_map(|k| vec!["llen".into(), k]),
        2 => (key(), key(), side(), side()).prop_map(|(k, l, s, t)| vec!["lmove".into(), k, l, s, t]),
        1 => (key(), elem(), prop_oneof![-3i64..0, 1i64..4], 0u8..4, 0u8..9).prop_map(|(k, e, r, n, m)| {
            let options = [("rank", r.to_string()), ("count", n.to_string()), ("maxlen", m.to_string())];
            [vec!["lpos".into(), k, e], options.into_iter().flat_map(|(o, v)| [o.to_string(), v]).collect()].concat()
        }),
        1 => key().prop_map(|k| vec!["del".into(), k]),
    ]
}

fn bulk(s: &str) -> String {
    format!("${}\r\n{s}\r\n", s.len())
}

fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("*{}\r\n{}", items.len(), items.concat())
}

fn int(n: impl ToString) -> String {
    format!(":{}\r\n", n.to_string())
}

/// The slice bounds that Redis's inclusive range means.
fn bounds(start: &str, stop: &str, len: usize) -> (usize, usize) {
    let at = |s: &str| {
        let i: i64 = s.parse().expect("a number");
        if i < 0 { i + len as i64 } else { i }
    };
    let (start, stop) = (at(start).max(0), at(stop).min(len as i64 - 1));
    if start > stop { (0, 0) } else { (start as usize, stop as usize + 1) }
}

fn place(index: &str, len: usize) -> Option<usize> {
    let i: i64 = index.parse().expect("a number");
    let i = if i < 0 { i + len as i64 } else { i };
    usize::try_from(i).ok().filter(|i| *i < len)
}

fn take(list: &mut Vec<String>, left: bool) -> String {
    if left { list.remove(0) } else { list.pop().expect("not empty") }
}

fn give(list: &mut Vec<String>, left: bool, item: String) {
    if left { list.insert(0, item) } else { list.push(item) }
}

/// Runs a command in the plainest way there is; returns its RESP2 reply.
fn run(model: &mut Model, words: &[String]) -> String {
    let w: Vec<&str> = words.iter().map(String::as_str).collect();
    let reply = match w[..] {
        ["lpush" | "rpush" | "lpushx" | "rpushx", key, ..] => {
            if w[0].ends_with('x') && !model.contains_key(key) {
                return int(0);
            }
            let list = model.entry(key.into()).or_default();
            words[2..].iter().for_each(|e| give(list, w[0].starts_with('l'), e.clone()));
            int(list.len())
        }
        ["lpop" | "rpop", key] => match model.get_mut(key) {
            Some(list) => bulk(&take(list, w[0] == "lpop")),
            None => "$-1\r\n".into(),
        },
        ["lpop" | "rpop", key, n] => match model.get_mut(key) {
            Some(list) => {
                let n = n.parse::<usize>().expect("a number").min(list.len());
                array((0..n).map(|_| bulk(&take(list, w[0] == "lpop"))).collect::<Vec<_>>())
            }
            None => "*-1\r\n".into(),
        },
        ["lmpop", _, k, l, side, _, n] => match [k, l].into_iter().find(|key| model.contains_key(*key)) {
            Some(key) => {
                let list = model.get_mut(key).expect("found");
                let n = n.parse::<usize>().expect("a number").min(list.len());
                array([bulk(key), array((0..n).map(|_| bulk(&take(list, side == "left"))).collect::<Vec<_>>())])
            }
            None => "*-1\r\n".into(),
        },
        ["lindex", key, i] => match model.get(key).and_then(|list| list.get(place(i, list.len())?)) {
            Some(item) => bulk(item),
            None => "$-1\r\n".into(),
        },
        ["lset", key, i, item] => match model.get_mut(key) {
            Some(list) => match place(i, list.len()) {
                Some(i) => {
                    list[i] = item.into();
                    "+OK\r\n".into()
                }
                None => "-ERR index out of range\r\n".into(),
            },
            None => "-ERR no such key\r\n".into(),
        },
        ["linsert", key, place, pivot, item] => match model.get_mut(key) {
            Some(list) => match list.iter().position(|e| e == pivot) {
                Some(i) => {
                    list.insert(i + usize::from(place == "after"), item.into());
                    int(list.len())
                }
                None => int(-1),
            },
            None => int(0),
        },
        ["lrem", key, n, item] => match model.get_mut(key) {
            Some(list) => {
                let n: i64 = n.parse().expect("a number");
                let mut at: Vec<usize> = (0..list.len()).filter(|i| list[*i] == item).collect();
                if n < 0 {
                    at.reverse();
                }
                at.truncate(if n == 0 { usize::MAX } else { n.unsigned_abs() as usize });
                at.sort();
                at.iter().rev().for_each(|i| drop(list.remove(*i)));
                int(at.len())
            }
            None => int(0),
        },
        ["ltrim", key, i, j] => {
            if let Some(list) = model.get_mut(key) {
                let (from, to) = bounds(i, j, list.len());
                *list = list[from..to].to_vec();
            }
            "+OK\r\n".into()
        }
        ["lrange", key, i, j] => {
            let list = model.get(key).map_or(&[] as &[String], Vec::as_slice);
            let (from, to) = bounds(i, j, list.len());
            array(list[from..to].iter().map(|e| bulk(e)))
        }
        ["llen", key] => int(model.get(key).map_or(0, Vec::len)),
        ["lmove", from, to, s, t] => match model.get_mut(from) {
            Some(list) => {
                let item = take(list, s == "left");
                give(model.entry(to.into()).or_default(), t == "left", item.clone());
                bulk(&item)
            }
            None => "$-1\r\n".into(),
        },
        ["lpos", key, item, _, rank, _, n, _, most] => {
            let list = model.get(key).map_or(&[] as &[String], Vec::as_slice);
            let [rank, n, most] = [rank, n, most].map(|v| v.parse::<i64>().expect("a number"));
            let mut order: Vec<usize> = (0..list.len()).collect();
            if rank < 0 {
                order.reverse();
            }
            order.truncate(if most == 0 { usize::MAX } else { most as usize });
            order.retain(|i| list[*i] == item);
            let n = if n == 0 { usize::MAX } else { n as usize };
            array(order.into_iter().skip(rank.unsigned_abs() as usize - 1).take(n).map(int))
        }
        ["del", key] => int(u8::from(model.remove(key).is_some())),
        _ => panic!("not in the model: {words:?}"),
    };
    model.retain(|_, list| !list.is_empty());
    reply
}

fn contents(entry: &EntryRef<'_>) -> Vec<u8> {
    assert_eq!(entry.kind(), Kind::List);
    let list = entry.collection::<List>().expect("a list");
    list.iter().flat_map(|elem| [elem.to_vec(), vec![b' ']].concat()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn histories(commands in proptest::collection::vec(command(), 1..80)) {
        let mut bench = Bench::new();
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
            .iter()
            .map(|(key, list)| (key.clone().into_bytes(), None, list.iter().flat_map(|e| [e, " "].concat().into_bytes()).collect::<Vec<u8>>()))
            .collect();
        prop_assert_eq!(&bench.image(contents), &image);
        prop_assert_eq!(&bench.replayed().image(contents), &image);
    }

    #[test]
    fn damaged_effects_never_panic(at: usize, to: u8) {
        let mut bench = Bench::new();
        for line in ["rpush l a b c 1", "lpop l", "lset l 0 x", "linsert l after x y", "lrem l 1 c", "rpush l 2 3", "ltrim l 1 -1"] {
            bench.words(line);
        }
        let at = at % bench.effects.encoded.len();
        bench.effects.encoded[at] = to;
        let encoded = std::mem::take(&mut bench.effects.encoded);
        let mut empty = Bench::new();
        empty.replay(&encoded);
    }
}

//! Random histories: replies as a model's, and the same contents when replayed from their effects.

use std::collections::BTreeMap;

use clocks::UnixMs;
use keyspace::EntryRef;
use object::Hash;
use proptest::prelude::*;

use crate::testing::Bench;

/// Key to name to value and expiry.
type Model = BTreeMap<String, BTreeMap<String, (String, Option<UnixMs>)>>;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("k"), Just("l")].prop_map(String::from)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![6 => (0..8u8).prop_map(|n| n.to_string()), 2 => (0..3u8).prop_map(|n| format!("field{n}")), 1 => Just("n".repeat(70))]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![4 => (-9..9i64).prop_map(|n| n.to_string()), 2 => Just("text".into()), 1 => Just("v".repeat(70))]
}

#[derive(Clone, Debug)]
enum Step {
    Run(Vec<String>),
    Wait(u64),
}

fn words(parts: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    parts.into_iter().map(Into::into).collect()
}

fn fields(head: Vec<String>, names: Vec<String>) -> Vec<String> {
    [head, words(["fields".to_string(), names.len().to_string()]), names].concat()
}

fn step() -> impl Strategy<Value = Step> {
    let names = || prop::collection::vec(name(), 1..4);
    let pairs = || prop::collection::vec((name(), value()), 1..4);
    let flat = |pairs: Vec<(String, String)>| pairs.into_iter().flat_map(|(n, v)| [n, v]).collect::<Vec<_>>();
    let command = prop_oneof![
        8 => (key(), pairs()).prop_map(move |(k, p)| [words(["hset".into(), k]), flat(p)].concat()),
        2 => (key(), name(), value()).prop_map(|(k, n, v)| words(["hsetnx".into(), k, n, v])),
        4 => (key(), names()).prop_map(|(k, n)| [words(["hdel".into(), k]), n].concat()),
        3 => (key(), names()).prop_map(|(k, n)| [words(["hmget".into(), k]), n].concat()),
        2 => (key(), name()).prop_map(|(k, n)| words(["hget".into(), k, n])),
        1 => (key(), name()).prop_map(|(k, n)| words(["hexists".into(), k, n])),
        1 => (key(), name()).prop_map(|(k, n)| words(["hstrlen".into(), k, n])),
        3 => (key(), name(), -3..3i64).prop_map(|(k, n, i)| words(["hincrby".into(), k, n, i.to_string()])),
        4 => (key(), 0..40u64, prop_oneof![2 => Just(""), 1 => Just("nx"), 1 => Just("xx"), 1 => Just("gt"), 1 => Just("lt")], names())
            .prop_map(|(k, ms, condition, n)| {
                let mut head = words(["hpexpire".into(), k, ms.to_string()]);
                head.extend((!condition.is_empty()).then(|| condition.to_string()));
                fields(head, n)
            }),
        1 => (key(), names()).prop_map(|(k, n)| fields(words(["hpersist".into(), k]), n)),
        1 => (key(), names()).prop_map(|(k, n)| fields(words(["hpttl".into(), k]), n)),
        2 => (key(), prop::option::of(0..40u64), names()).prop_map(|(k, ms, n)| {
            let option = ms.map_or(words(["persist"]), |ms| words(["px".to_string(), ms.to_string()]));
            fields([words(["hgetex".into(), k]), option].concat(), n)
        }),
        1 => (key(), names()).prop_map(|(k, n)| fields(words(["hgetdel".into(), k]), n)),
        3 => (key(), prop_oneof![Just(None), Just(Some("fnx")), Just(Some("fxx"))], prop_oneof![Just(None), Just(Some(None)), (0..40u64).prop_map(|ms| Some(Some(ms)))], pairs())
            .prop_map(move |(k, condition, expiry, p)| {
                let mut all = words(["hsetex".into(), k]);
                all.extend(condition.map(String::from));
                match expiry {
                    None => {}
                    Some(None) => all.push("keepttl".into()),
                    Some(Some(ms)) => all.extend(["px".to_string(), ms.to_string()]),
                }
                all.extend(["fields".to_string(), p.len().to_string()]);
                [all, flat(p)].concat()
            }),
        1 => key().prop_map(|k| words(["hrandfield".into(), k, "0".into()])),
        1 => key().prop_map(|k| words(["del".into(), k])),
    ];
    prop_oneof![9 => command.prop_map(Step::Run), 1 => (0..20u64).prop_map(Step::Wait)]
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1\r\n".into(), |value| format!("${}\r\n{value}\r\n", value.len()))
}

fn int(n: i64) -> String {
    format!(":{n}\r\n")
}

fn array(items: Vec<String>) -> String {
    format!("*{}\r\n{}", items.len(), items.concat())
}

/// The expected reply: simple and slow. Expired fields are dropped where Redis drops them.
fn expected(model: &mut Model, command: &[String], now: UnixMs) -> String {
    let (verb, key) = (command[0].as_str(), &command[1]);
    if verb == "del" {
        return int(i64::from(model.remove(key).is_some()));
    }
    let hash = model.entry(key.clone()).or_default();
    let passed = |at: &Option<UnixMs>| at.is_some_and(|at| at < now);
    let listed = command.iter().position(|word| word == "fields").map(|i| &command[i + 2..]);
    let drop_if_passed = |hash: &mut BTreeMap<String, (String, Option<UnixMs>)>, name: &String| {
        if hash.get(name).is_some_and(|(_, at)| passed(at)) {
            hash.remove(name);
        }
    };
    let reply = match verb {
        "hset" => {
            let new =
                command[2..].chunks(2).filter(|p| hash.insert(p[0].clone(), (p[1].clone(), None)).is_none()).count();
            int(new as i64)
        }
        "hsetnx" => {
            drop_if_passed(hash, &command[2]);
            let new = !hash.contains_key(&command[2]);
            if new {
                hash.insert(command[2].clone(), (command[3].clone(), None));
            }
            int(i64::from(new))
        }
        "hdel" => int(command[2..].iter().filter(|name| hash.remove(*name).is_some()).count() as i64),
        "hmget" | "hget" | "hexists" | "hstrlen" => {
            command[2..].iter().for_each(|name| drop_if_passed(hash, name));
            let mut found = command[2..].iter().map(|name| hash.get(name).map(|(value, _)| value.as_str()));
            match verb {
                "hmget" => array(found.map(bulk).collect()),
                "hget" => bulk(found.next().flatten()),
                "hexists" => int(i64::from(found.next().flatten().is_some())),
                _ => int(found.next().flatten().map_or(0, str::len) as i64),
            }
        }
        "hincrby" => {
            let old = hash.get(&command[2]).filter(|(_, at)| !passed(at)).cloned();
            match old.as_ref().map_or(Ok(0), |(value, _)| value.parse::<i64>()) {
                Err(_) => "-ERR hash value is not an integer\r\n".into(),
                Ok(n) => {
                    let sum = n + command[3].parse::<i64>().expect("a number");
                    hash.insert(command[2].clone(), (sum.to_string(), old.and_then(|(_, at)| at)));
                    int(sum)
                }
            }
        }
        "hpexpire" => {
            let at = now + command[2].parse::<u64>().expect("a number");
            let results = listed.expect("fields").iter().map(|name| {
                let Some((_, old)) = hash.get_mut(name).filter(|(_, old)| !passed(old)) else { return int(-2) };
                let allowed = match command[3].as_str() {
                    "nx" => old.is_none(),
                    "xx" => old.is_some(),
                    "gt" => old.is_some_and(|old| old < at),
                    "lt" => old.is_none_or(|old| old > at),
                    _ => true,
                };
                if !allowed {
                    return int(0);
                }
                *old = Some(at);
                if at <= now {
                    hash.remove(name);
                    return int(2);
                }
                int(1)
            });
            array(results.collect())
        }
        "hpersist" => {
            let results =
                listed.expect("fields").iter().map(|name| match hash.get_mut(name).filter(|(_, at)| !passed(at)) {
                    None => int(-2),
                    Some((_, None)) => int(-1),
                    Some((_, at)) => {
                        *at = None;
                        int(1)
                    }
                });
            array(results.collect())
        }
        "hpttl" => {
            let results =
                listed.expect("fields").iter().map(|name| match hash.get(name).filter(|(_, at)| !passed(at)) {
                    None => int(-2),
                    Some((_, at)) => int(at.map_or(-1, |at| at.since(now) as i64)),
                });
            array(results.collect())
        }
        "hgetex" => {
            let at = (command[2] == "px").then(|| now + command[3].parse::<u64>().expect("a number"));
            let results = listed.expect("fields").iter().map(|name| {
                drop_if_passed(hash, name);
                let Some((value, old)) = hash.get_mut(name) else { return bulk(None) };
                let reply = bulk(Some(value));
                *old = at;
                if at.is_some_and(|at| at <= now) {
                    hash.remove(name);
                }
                reply
            });
            array(results.collect())
        }
        "hgetdel" => {
            let results = listed.expect("fields").iter().map(|name| {
                drop_if_passed(hash, name);
                bulk(hash.remove(name).as_ref().map(|(value, _)| value.as_str()))
            });
            array(results.collect())
        }
        "hsetex" => {
            let pairs = listed.expect("fields");
            pairs.chunks(2).for_each(|pair| drop_if_passed(hash, &pair[0]));
            let there = pairs.chunks(2).filter(|pair| hash.contains_key(&pair[0])).count();
            if (command[2] == "fnx" && there > 0) || (command[2] == "fxx" && there < pairs.len() / 2) {
                int(0)
            } else {
                let keep = command.iter().take(4).any(|word| word == "keepttl");
                let ms = command.iter().take(4).position(|word| word == "px").map(|i| command[i + 1].parse::<u64>());
                let at = ms.map(|ms| now + ms.expect("a number"));
                for pair in pairs.chunks(2) {
                    let old = hash.get(&pair[0]).and_then(|(_, old)| *old).filter(|_| keep);
                    hash.insert(pair[0].clone(), (pair[1].clone(), at.or(old)));
                    if at.is_some_and(|at| at <= now) {
                        hash.remove(&pair[0]);
                    }
                }
                int(1)
            }
        }
        "hrandfield" => {
            hash.retain(|_, (_, at)| !passed(at));
            array(Vec::new())
        }
        other => panic!("{other}"),
    };
    if hash.is_empty() {
        model.remove(key);
    }
    reply
}

/// The contents of a hash, in no particular encoding.
fn contents(entry: &EntryRef<'_>) -> Vec<u8> {
    let hash = entry.collection::<Hash>().expect("only hashes here");
    let mut fields: Vec<String> = hash
        .fields()
        .map(|f| {
            let text = |elem: object::block::Elem<'_>| String::from_utf8_lossy(&elem.to_vec()).into_owned();
            format!("{}={}@{:?}", text(f.name), text(f.value), f.expiry)
        })
        .collect();
    fields.sort();
    fields.join(",").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_histories(steps in prop::collection::vec(step(), 1..60), entries in prop_oneof![Just(0usize), Just(5), Just(512)]) {
        let (mut bench, mut model) = (Bench::new(), Model::new());
        bench.tunables.limits.hash_max_listpack_entries = entries;
        for step in steps {
            match step {
                Step::Wait(ms) => bench.now += ms,
                Step::Run(command) => {
                    let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
                    let reply = String::from_utf8(bench.run(&args)).expect("text");
                    prop_assert_eq!(&reply, &expected(&mut model, &command, bench.now), "{:?}", command);
                }
            }
        }
        let image = bench.image(contents);
        let lines = model.iter().map(|(key, hash)| {
            let mut fields: Vec<String> = hash.iter().map(|(n, (v, at))| format!("{n}={v}@{at:?}")).collect();
            fields.sort();
            (key.clone().into_bytes(), None, fields.join(",").into_bytes())
        });
        prop_assert_eq!(&image, &lines.collect::<Vec<_>>());
        let mut replayed = bench.replayed();
        prop_assert_eq!(&replayed.image(contents), &image);
        let volatile = |bench: &mut Bench, key: &[u8]| bench.inspect(|db| db.may_expire(keyspace::slot_of(key)));
        for (key, hash) in &model {
            let expires = hash.values().any(|(_, at)| at.is_some());
            prop_assert_eq!(volatile(&mut bench, key.as_bytes()), expires);
            prop_assert_eq!(volatile(&mut replayed, key.as_bytes()), expires);
        }
    }
}

//! Client-side caching over nodes: which clients hear of a change, behind which replies, and that no cache keeps
//! outdated values.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::Map;
use membership::map::Range;
use resp::Value;

use crate::net::{Net, even_map, key_of, keys, random, shown};

/// A client of a node, with tracking on.
fn tracker(net: &mut Net, node: usize, how: &str) -> usize {
    let client = net.connect(node);
    net.ask(client, "HELLO 3");
    let how = if how.is_empty() { String::new() } else { format!(" {how}") };
    assert_eq!(net.say(client, &format!("CLIENT TRACKING ON{how}")), "OK");
    client
}

fn forgets(keys: &[&str]) -> String {
    format!(">[invalidate [{}]]", keys.join(" "))
}

const EVERYTHING: &str = ">[invalidate nil]";

#[test]
fn who_has_read_a_key_of_another_node_hears_of_its_change_once() {
    for workers in [1, 2] {
        let (mut net, [writer, ..], [a, b, c]) = Net::three(workers, 3);
        let reader = tracker(&mut net, 0, "");
        let silent = tracker(&mut net, 0, "NOLOOP");
        for key in [&a, &b, &c] {
            for client in [reader, silent] {
                assert_eq!(net.say(client, &format!("GET {key}")), "nil");
            }
            net.say(writer, &format!("SET {key} 1"));
            net.say(writer, &format!("SET {key} 2"));
            for client in [reader, silent] {
                assert_eq!(net.heard(client), [forgets(&[key])], "{key}");
                assert_eq!(net.say(client, &format!("GET {key}")), "2");
            }
            // A client hears of its own change behind the reply, unless it does not want to.
            assert_eq!(net.say(silent, &format!("SET {key} 3")), "OK");
            assert_eq!(net.heard(reader), [forgets(&[key])]);
            net.say(reader, &format!("GET {key}"));
            net.send(reader, &format!("SET {key} 4"));
            assert_eq!(net.heard(reader), ["OK".into(), forgets(&[key])]);
            assert!(net.heard(silent).is_empty(), "what it has changed itself it does not hear of");
        }
        // A client that does not track any more hears nothing.
        for key in [&a, &b, &c] {
            net.say(reader, &format!("GET {key}"));
        }
        assert_eq!(net.say(reader, "CLIENT TRACKING OFF"), "OK");
        for key in [&a, &b, &c] {
            net.say(writer, &format!("SET {key} 5"));
        }
        assert!(net.heard(reader).is_empty());
        assert_eq!(net.say(reader, &format!("GET {b}")), "5");
        assert!(net.say(writer, "INFO clients").contains("tracking_clients:1\r\n"));
    }
}

#[test]
fn a_flush_and_an_expiry_are_heard_of_and_a_key_goes_when_there_are_too_many() {
    let (mut net, [writer, ..], [a, b, c]) = Net::three(1, 3);
    let reader = tracker(&mut net, 0, "");
    net.say(writer, &format!("SET {b} 1 PX 100"));
    net.say(reader, &format!("GET {b}"));
    net.sleep(200);
    net.sleep(200);
    assert_eq!(net.heard(reader), [forgets(&[&b])], "its time has come");
    net.pipeline(reader, &[&format!("GET {a}"), &format!("GET {b}"), &format!("GET {c}")]);
    net.say(writer, "FLUSHALL");
    let heard = net.heard(reader);
    assert!(!heard.is_empty() && heard.iter().all(|one| one == EVERYTHING), "{heard:?}");
    for node in 0..3 {
        let other = net.connect(node);
        net.say(other, "CONFIG SET tracking-table-max-keys 1");
    }
    let many = [key_of(1, 3, "x"), key_of(1, 3, "y")];
    many.iter().for_each(|key| net.send(reader, &format!("GET {key}")));
    let heard = net.heard(reader);
    assert_eq!(heard[..2], ["nil", "nil"]);
    assert!(heard[2..] == [forgets(&[&many[0]])] || heard[2..] == [forgets(&[&many[1]])], "{heard:?}");
}

#[test]
fn prefixes_are_heard_of_from_all_nodes_and_from_the_answer_on() {
    for workers in [1, 2] {
        let (mut net, [writer, ..], _) = Net::three(workers, 3);
        let of = |node: usize, name: &str| key_of(node, 3, name);
        let all = tracker(&mut net, 0, "BCAST");
        let users = tracker(&mut net, 1, "BCAST PREFIX user: NOLOOP");
        for node in 0..3 {
            let (user, other) = (of(node, "user:1"), of(node, "other"));
            net.say(writer, &format!("SET {user} 1"));
            assert_eq!(net.heard(users), [forgets(&[&user])]);
            assert_eq!(net.heard(all), [forgets(&[&user])]);
            net.say(users, &format!("SET {user} 1"));
            net.say(users, &format!("SET {other} 1"));
            assert!(net.heard(users).is_empty());
            assert_eq!(net.heard(all), [forgets(&[&user]), forgets(&[&other])]);
        }
        // Changes of keys of several nodes at once count, too.
        let three: Vec<String> = (0..3).map(|node| of(node, "user:2")).collect();
        net.say(users, &format!("MSET {} 1 {} 1 {} 1", three[0], three[1], three[2]));
        assert!(net.heard(users).is_empty());
        let mut heard = net.heard(all);
        heard.sort();
        let mut expected: Vec<String> = three.iter().map(|key| forgets(&[key])).collect();
        expected.sort();
        assert_eq!(heard, expected);
        // One more prefix, and none.
        assert_eq!(net.say(users, "CLIENT TRACKING ON BCAST PREFIX group: NOLOOP"), "OK");
        let group = of(2, "group:1");
        net.say(writer, &format!("SET {group} 1"));
        assert_eq!(net.heard(users), [forgets(&[&group])]);
        assert_eq!(net.say(users, "CLIENT TRACKING OFF"), "OK");
        net.say(writer, &format!("SET {group} 1"));
        assert!(net.heard(users).is_empty());
        assert!(net.say(users, &format!("GET {group}")) == "1");
    }
}

#[test]
fn clients_choose_what_is_remembered_wherever_it_is_read() {
    for workers in [1, 2] {
        let (mut net, [writer, ..], [a, b, c]) = Net::three(workers, 3);
        let (opted_in, opted_out) = (tracker(&mut net, 0, "OPTIN"), tracker(&mut net, 0, "OPTOUT"));
        for key in [&a, &b, &c] {
            let other = format!("{key}x");
            net.pipeline(opted_in, &[&format!("GET {other}"), "CLIENT CACHING YES", &format!("GET {key}"), "PING"]);
            net.pipeline(opted_out, &[&format!("GET {key}"), "CLIENT CACHING NO", &format!("GET {other}")]);
            net.say(writer, &format!("SET {other} 1"));
            net.say(writer, &format!("SET {key} 1"));
            assert_eq!(net.heard(opted_in), [forgets(&[key])]);
            assert_eq!(net.heard(opted_out), [forgets(&[key])]);
        }
        // For a block it holds as a whole, on one node or on several.
        for block in [[&b, &b], [&a, &c]] {
            let [one, two] = block;
            net.pipeline(
                opted_in,
                &["CLIENT CACHING YES", "MULTI", &format!("GET {one}"), &format!("GET {two}"), "EXEC"],
            );
            net.say(opted_in, &format!("GET {two}"));
            net.say(writer, &format!("SET {one} 1"));
            assert_eq!(net.heard(opted_in), [forgets(&[one])]);
            net.pipeline(opted_in, &["MULTI", &format!("GET {one}"), &format!("GET {two}"), "EXEC"]);
            net.say(writer, &format!("SET {one} 1"));
            assert!(net.heard(opted_in).is_empty(), "of the second block nothing is remembered");
        }
    }
}

#[test]
fn another_connection_hears_of_what_is_redirected_to_it() {
    let (mut net, [writer, ..], [_, b, _]) = Net::three(2, 3);
    let listener = net.connect(0);
    let id = net.say(listener, "CLIENT ID");
    net.ask(listener, "SUBSCRIBE __redis__:invalidate");
    let reader = net.connect(0);
    assert_eq!(net.say(reader, &format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    net.say(reader, &format!("GET {b}"));
    net.say(writer, &format!("SET {b} 1"));
    assert_eq!(net.heard(listener), [format!("[message __redis__:invalidate [{b}]]")]);
    assert!(net.heard(reader).is_empty());
    net.say(reader, &format!("GET {b}"));
    net.cut(0, 1);
    assert_eq!(net.heard(listener), ["[message __redis__:invalidate nil]"]);
}

/// The map after the third node of three has taken the second's slots.
fn moved(version: u64) -> Arc<Map> {
    let even = even_map(3, 1);
    let ranges =
        even.ranges().iter().map(|range| Range { node: if range.node == 1 { 2 } else { range.node }, ..*range });
    Arc::new(Map::new(even.cluster(), version, 2, even.nodes().to_vec(), ranges.collect()))
}

#[test]
fn a_link_that_ends_and_slots_that_move_make_clients_forget_everything() {
    for how in ["", "BCAST"] {
        let (mut net, [_, writer, _], [a, b, _]) = Net::three(1, 3);
        let reader = tracker(&mut net, 0, how);
        net.pipeline(reader, &[&format!("GET {a}"), &format!("GET {b}")]);
        net.unreachable.push(1);
        net.cut(0, 1);
        assert_eq!(net.heard(reader), [EVERYTHING]);
        net.say(writer, &format!("SET {b} 1"));
        (0..5).for_each(|_| net.sleep(200));
        assert!(net.heard(reader).is_empty());
        net.unreachable.clear();
        (0..5).for_each(|_| net.sleep(200));
        if how == "BCAST" {
            assert_eq!(net.heard(reader), [EVERYTHING], "meanwhile it may have missed something");
        } else {
            assert_eq!(net.say(reader, &format!("GET {b}")), "1");
        }
        net.say(writer, &format!("SET {b} 2"));
        assert_eq!(net.heard(reader), [forgets(&[&b])]);
        net.say(reader, &format!("GET {b}"));
        net.cluster(0).set_map(moved(2));
        let heard = net.heard(reader);
        assert!(!heard.is_empty() && heard.iter().all(|one| one == EVERYTHING), "{heard:?}");
        // A map that moves no slot invalidates nothing.
        net.cluster(0).set_map(moved(3));
        assert!(net.heard(reader).is_empty());
    }
}

#[test]
fn who_has_no_lease_for_long_has_clients_forget_everything() {
    let (mut net, _, [a, ..]) = Net::three(1, 3);
    let reader = tracker(&mut net, 0, "");
    net.say(reader, &format!("GET {a}"));
    net.lease(0, 0);
    (0..30).for_each(|_| net.sleep(200));
    assert_eq!(net.heard(reader), [EVERYTHING]);
}

#[test]
fn what_a_slow_client_must_forget_is_bounded_where_it_is_kept() {
    let (mut net, [writer, ..], _) = Net::three(1, 3);
    let reader = tracker(&mut net, 0, "");
    net.stalled.push(1);
    net.say(reader, "PING");
    net.stalled.clear();
    let long = "x".repeat(60_000);
    let names: Vec<String> = (0..60).map(|i| key_of(1, 3, &format!("{long}{i}"))).collect();
    names.iter().for_each(|name| drop(net.ask(reader, &format!("EXISTS {name}"))));
    let other = net.connect(1);
    net.stalled.push(0);
    let blow = names.iter().map(|name| format!("SET {name} 1")).collect::<Vec<_>>();
    net.pipeline(other, &blow.iter().map(String::as_str).collect::<Vec<_>>());
    net.stalled.clear();
    let heard = net.heard(reader);
    assert_eq!(heard.last().map(String::as_str), Some(EVERYTHING), "{}", heard.len());
    let last = names.last().unwrap();
    assert_eq!(net.say(reader, &format!("GET {last}")), "1");
    net.say(writer, &format!("SET {last} 2"));
    assert_eq!(net.heard(reader), [forgets(&[last])]);
}

#[test]
fn what_a_transaction_over_nodes_reads_is_remembered_behind_its_reply() {
    let all: [(&[&str], usize); 6] = [
        (&["MGET A B C"], 1),
        (&["MULTI", "GET A", "GET B", "GET C", "EXEC"], 5),
        (&["EVAL return{redis.call('get',KEYS[1]),redis.call('get',KEYS[2]),redis.call('get',KEYS[3])} 3 A B C"], 1),
        (&["EVAL return{redis.call('get',ARGV[1]),redis.call('get',ARGV[2]),redis.call('get',ARGV[3])} 0 A B C"], 1),
        (&["SINTERCARD 3 A B C"], 1),
        (&["MULTI", "EVAL return{redis.call('get',KEYS[1]),redis.call('get',KEYS[2])} 2 A B", "GET C", "EXEC"], 4),
    ];
    for (workers, (commands, replies)) in [1, 2].into_iter().flat_map(|w| all.map(|commands| (w, commands))) {
        let (mut net, [writer, ..], names) = Net::three(workers, 5);
        let reader = tracker(&mut net, 0, "");
        let named = |command: &str| {
            let word = |word: &str| match word {
                "A" | "B" | "C" => names[usize::from(word.as_bytes()[0] - b'A')].clone(),
                other => other.to_owned(),
            };
            command.split(' ').map(word).collect::<Vec<_>>().join(" ")
        };
        let commands: Vec<String> = commands.iter().map(|command| named(command)).collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let heard = net.pipeline(reader, &commands);
        assert_eq!(heard.len(), replies, "{commands:?}: {heard:?}");
        assert!(!heard.iter().any(|one| matches!(one, Value::Error(_))), "{heard:?}");
        for name in &names {
            net.say(writer, &format!("SET {name} 1"));
            assert_eq!(net.heard(reader), [forgets(&[name])], "{commands:?}");
        }
    }
}

#[test]
fn what_a_transaction_has_shown_is_forgotten_when_it_is_over() {
    let (mut net, [writer, ..], [a, b, c]) = Net::three(1, 3);
    let reader = tracker(&mut net, 0, "");
    for end in ["COMMIT", "ROLLBACK"] {
        net.say(writer, &format!("MSET {a} 1 {b} 1 {c} 1"));
        net.heard(reader);
        net.pipeline(reader, &["BEGIN", &format!("GET {a}"), &format!("SET {b} 2"), &format!("GET {b}")]);
        assert!(net.heard(reader).is_empty());
        net.say(writer, &format!("SET {c} 3"));
        net.send(reader, end);
        let heard = net.heard(reader);
        assert_eq!(heard[0], "OK");
        for key in [&a, &b] {
            assert!(
                heard.iter().any(|one| one.starts_with(">[invalidate [") && one.contains(key.as_str())),
                "{heard:?}"
            );
        }
        assert_eq!(net.say(reader, &format!("GET {b}")), if end == "COMMIT" { "2" } else { "1" });
    }
}

/// A client with a cache, as libraries have one. Values are numbers that only rise.
struct Cache {
    client: usize,
    /// Requests under way, in order: the keys of each reply, if those may be kept.
    asked: Vec<Vec<String>>,
    values: BTreeMap<String, u64>,
    log: Vec<String>,
}

fn numbers(value: &Value, out: &mut Vec<u64>) {
    match value {
        Value::Bulk(text) => out.push(std::str::from_utf8(text).unwrap().parse().unwrap()),
        Value::Null => out.push(0),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, out)),
        _ => {}
    }
}

impl Cache {
    fn new(net: &mut Net, node: usize, how: &str) -> Cache {
        let client = net.connect(node);
        net.send(client, "HELLO 3");
        net.send(client, format!("CLIENT TRACKING ON {how}").trim_end());
        Cache { client, asked: vec![Vec::new(); 2], values: BTreeMap::new(), log: Vec::new() }
    }

    /// Takes the replies. A cached value must not be older than another of its pair: keys with the same tag are always
    /// changed together, on one node. (`strict` is false for keys with a prefix: their invalidations come together, and
    /// so perhaps behind a reply.)
    fn hear(&mut self, net: &mut Net, pairs: &[[String; 2]], strict: bool) {
        for value in net.replies(self.client) {
            self.log.push(shown(&value));
            if let Value::Push(parts) = &value {
                match &parts[1] {
                    Value::Array(keys) => keys.iter().for_each(|key| match key {
                        Value::Bulk(key) => drop(self.values.remove(std::str::from_utf8(key).unwrap())),
                        other => panic!("{other:?}"),
                    }),
                    _ => self.values.clear(),
                }
                continue;
            }
            let keys = self.asked.remove(0);
            let mut found = Vec::new();
            numbers(&value, &mut found);
            if keys.is_empty() || found.len() != keys.len() {
                continue;
            }
            for (key, found) in keys.iter().zip(found) {
                let [one, other] = pairs.iter().find(|pair| pair.contains(key)).unwrap();
                let twin = if key == one { other } else { one };
                if let Some(kept) = self.values.get(twin).filter(|_| strict && !keys.contains(twin)) {
                    assert!(
                        *kept >= found,
                        "{} {key} is {found}, and {twin} is still kept as {kept}: {:#?}",
                        self.client,
                        self.log
                    );
                }
                self.values.insert(key.clone(), found);
            }
        }
    }
}

/// Caches take their replies. A client that is owed a reply by a link that ends is closed, and begins again with an
/// empty cache.
fn hear(net: &mut Net, caches: &mut [Cache], pairs: &[[String; 2]], how: &str) {
    for (i, cache) in caches.iter_mut().enumerate() {
        cache.hear(net, pairs, how != "BCAST");
        if net.clients[cache.client].closed {
            *cache = Cache::new(net, i % 3, how);
        }
    }
}

/// Clients of all nodes cache what they read, alone, in blocks, by MGET and by scripts over nodes. Meanwhile others
/// change the keys, links end and slots move. A cached value is never older than others shown of the same moment, and
/// in the end it is current.
fn caches_are_right(seed: u64, workers: usize, how: &str, logged: bool) {
    let mut net = match logged {
        true => Net::logged(3, workers, seed, "always"),
        false => Net::new(3, workers, seed),
    };
    let mut chance = random(seed);
    let tags: [String; 6] = keys(3);
    let pairs: Vec<[String; 2]> = tags.iter().map(|tag| [format!("{{{tag}}}1"), format!("{{{tag}}}2")]).collect();
    let names: Vec<String> = pairs.iter().flatten().cloned().collect();
    let mut caches: Vec<Cache> = (0..4).map(|i| Cache::new(&mut net, i % 3, how)).collect();
    let mut writers = [0, 1, 2].map(|node| net.connect(node));
    let (mut version, mut is_moved) = (1, false);
    for _ in 0..250 {
        match chance(10) {
            0..5 => {
                let cache = chance(caches.len());
                let cache = &mut caches[cache];
                for _ in 0..chance(4) + 1 {
                    let [x, y] = [chance(names.len()), chance(names.len())].map(|at| names[at].clone());
                    let [get, both] = [format!("GET {x}"), format!("MGET {x} {y}")];
                    match chance(6) {
                        0..3 => {
                            net.send(cache.client, &get);
                            cache.asked.push(vec![x]);
                        }
                        3 => {
                            net.send(cache.client, &both);
                            cache.asked.push(vec![x, y]);
                        }
                        4 => {
                            ["MULTI", &get, &format!("GET {y}"), "EXEC"].iter().for_each(|c| net.send(cache.client, c));
                            cache.asked.extend([vec![], vec![], vec![], vec![x, y]]);
                        }
                        _ => {
                            let script = "return{redis.call('get',KEYS[1]),redis.call('get',ARGV[1])}";
                            net.send_words(cache.client, &["EVAL", script, "1", &x, &y]);
                            cache.asked.push(vec![x, y]);
                        }
                    }
                }
            }
            5..9 => {
                let writer = writers[chance(3)];
                let [one, two] = &pairs[chance(pairs.len())];
                let [three, four] = &pairs[chance(pairs.len())];
                let (one, two) = (format!("INCR {one}"), format!("INCR {two}"));
                net.send(writer, "MULTI");
                net.send(writer, &one);
                net.send(writer, &two);
                if chance(3) == 0 {
                    net.send(writer, &format!("INCR {three}"));
                    net.send(writer, &format!("INCR {four}"));
                }
                net.send(writer, "EXEC");
            }
            _ => match chance(4) {
                0 if !is_moved => {
                    let [a, b] = [chance(3), chance(3)];
                    net.cut(a, b);
                }
                1 => {
                    net.sleep(50);
                }
                2 if chance(8) == 0 => {
                    version += 1;
                    is_moved = true;
                    let map = moved(version);
                    (0..3).for_each(|node| net.cluster(node).set_map(map.clone()));
                }
                _ => net.run(),
            },
        }
        net.turns(chance(4));
        hear(&mut net, &mut caches, &pairs, how);
        for (node, writer) in writers.iter_mut().enumerate() {
            if net.clients[*writer].closed {
                *writer = net.connect(node);
            }
        }
    }
    for _ in 0..40 {
        net.sleep(100);
        hear(&mut net, &mut caches, &pairs, how);
    }
    let operator = net.connect(0);
    for cache in &caches {
        assert!(cache.asked.is_empty(), "everybody is answered, seed {seed}: {:?} {:#?}", cache.asked, cache.log);
        for (key, value) in &cache.values {
            let there = net.say(operator, &format!("GET {key}"));
            let there: u64 = if there == "nil" { 0 } else { there.parse().unwrap() };
            assert_eq!(there, *value, "{key}, seed {seed}: {:#?}", cache.log);
        }
    }
}

#[test]
fn no_cache_keeps_what_is_not_there_any_more() {
    let seeds: u64 = std::env::var("HOLDFAST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(9);
    for seed in 1..=seeds {
        let how = ["", "NOLOOP", "BCAST"][seed as usize % 3];
        caches_are_right(seed, 1 + seed as usize % 2, how, seed % 4 == 0);
    }
}

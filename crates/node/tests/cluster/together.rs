//! Blocks over nodes of a worker's clients that want the same keys: one transaction runs several of them.

use std::sync::atomic::Ordering::Relaxed;

use membership::Map;

use crate::net::{Net, even_map, key_of, random, shown};

/// Adds to all its keys. Returns the new value of the first.
const ADDS: &str = "local n = redis.call('incr', KEYS[1])
    for i = 2, #KEYS do redis.call('incr', KEYS[i]) end
    return n";

/// A number of INFO.
fn figure(net: &mut Net, client: usize, name: &str) -> usize {
    let info = net.say(client, "INFO stats");
    let line = info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
    line.expect("a line of INFO").parse().expect("a number")
}

fn joined(net: &mut Net, client: usize) -> usize {
    figure(net, client, "transactions_over_nodes_joined")
}

fn adds(net: &mut Net, client: usize, keys: &[String]) {
    let count = keys.len().to_string();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    net.send_words(client, &[&["EVAL", ADDS, &count], &keys[..]].concat());
}

/// The value of all these keys, which is the same.
fn each(net: &mut Net, client: usize, keys: &[String]) -> usize {
    let all = net.say(client, &format!("MGET {}", keys.join(" ")));
    let mut all = all.trim_matches(['[', ']']).split(' ').map(|n| n.parse().unwrap_or(0));
    let first = all.next().expect("a key");
    assert!(all.all(|other| other == first), "they have the same");
    first
}

/// Lets refused attempts be tried again.
fn settle(net: &mut Net) {
    for _ in 0..100 {
        net.sleep(5);
    }
}

/// Three nodes, so many clients of the first, and keys of each node.
fn with_clients(workers: usize, clients: usize) -> (Net, Vec<usize>, Vec<String>) {
    let (mut net, [first, ..], keys) = Net::three(workers, 4);
    let mut all = vec![first];
    all.extend((1..clients).map(|_| net.connect(0)));
    (net, all, keys.to_vec())
}

/// One attempt for the first block, and one for all that came meanwhile.
#[test]
fn clients_that_want_the_same_keys_have_one_transaction() {
    let (mut net, clients, keys) = with_clients(1, 8);
    clients.iter().for_each(|client| adds(&mut net, *client, &keys));
    net.run();
    let mut said: Vec<String> = clients.iter().flat_map(|client| net.replies(*client)).map(|v| shown(&v)).collect();
    said.sort();
    assert_eq!(said, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(each(&mut net, clients[0], &keys), 8);
    assert_eq!(figure(&mut net, clients[0], "transactions_over_nodes_retries"), 0);
    assert_eq!(figure(&mut net, clients[0], "transactions_over_nodes"), 8 + 1, "with MGET");
    assert!(joined(&mut net, clients[0]) >= 6);
    assert!(net.is_quiet(), "nothing is left");
}

/// The script runs in a transaction of its own, behind earlier commands.
#[test]
fn a_script_that_asks_about_all_keys_keeps_its_place_in_a_pipeline() {
    const ASKS: &str = "redis.call('dbsize') redis.call('incr', KEYS[2]) return redis.call('incr', KEYS[1])";
    let (mut net, clients, keys) = with_clients(1, 1);
    adds(&mut net, clients[0], &keys[..2]);
    net.send_words(clients[0], &["EVAL", ASKS, "2", &keys[0], &keys[1]]);
    adds(&mut net, clients[0], &keys[..2]);
    net.run();
    settle(&mut net);
    let said: Vec<String> = net.replies(clients[0]).iter().map(shown).collect();
    assert_eq!(said, ["1", "2", "3"]);
    assert!(net.is_quiet(), "nothing is left");
}

/// Later commands over nodes in a pipeline are part of the same transaction. All other commands wait for the replies.
#[test]
fn a_pipeline_is_executed_in_its_order() {
    for workers in [1, 2] {
        let (mut net, clients, keys) = with_clients(workers, 3);
        let at_home = key_of(0, 3, "home");
        for client in &clients {
            for _ in 0..5 {
                adds(&mut net, *client, &keys);
            }
            net.send(*client, &format!("INCR {at_home}"));
            net.send(*client, &format!("GET {}", keys[1]));
            adds(&mut net, *client, &keys);
            net.send(*client, &format!("MSET {} 100 {} 100 {} 100", keys[0], keys[1], keys[2]));
            adds(&mut net, *client, &keys);
        }
        settle(&mut net);
        for client in &clients {
            let said: Vec<i64> = net.replies(*client).iter().filter_map(|value| shown(value).parse().ok()).collect();
            assert_eq!(said.len(), 9, "{said:?}");
            assert!(said[..5].is_sorted_by(|a, b| a < b), "{said:?}");
            assert!(said[6] >= said[4] || said[6] > 100, "what it has done is seen: {said:?}");
            assert!(said[8] > 100, "{said:?}");
        }
        assert!(each(&mut net, clients[0], &keys) > 100);
        assert!(joined(&mut net, clients[0]) >= 8);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script's changes before its error stay, and the other scripts notice nothing.
#[test]
fn a_script_of_several_fails() {
    let (mut net, clients, keys) = with_clients(1, 5);
    let fails = "redis.call('incr', KEYS[1]) return redis.call('lpush', KEYS[2], 1)";
    for (n, client) in clients.iter().enumerate() {
        match n {
            2 => net.send_words(*client, &["EVAL", fails, "3", &keys[0], &keys[1], &keys[2]]),
            _ => adds(&mut net, *client, &keys),
        }
    }
    net.run();
    let said: Vec<String> = clients.iter().flat_map(|client| net.replies(*client)).map(|v| shown(&v)).collect();
    assert!(said[2].starts_with("-WRONGTYPE"), "{said:?}");
    assert_eq!((&*said[0], &*said[1], &*said[3], &*said[4]), ("1", "2", "4", "5"));
    assert_eq!(net.say(clients[0], &format!("MGET {}", keys.join(" "))), "[5 4 4]");
    assert!(joined(&mut net, clients[0]) >= 3);
    assert!(net.is_quiet(), "nothing is left");
}

/// A script that finds out about keys widens the attempt of all.
#[test]
fn a_script_of_several_needs_further_keys() {
    for workers in [1, 2] {
        let (mut net, clients, keys) = with_clients(workers, 6);
        let further: Vec<String> = (0..6).map(|i| key_of(i % 3, 3, &format!("further{i}"))).collect();
        let curious = "for _, key in ipairs(ARGV) do redis.call('incr', key) end return redis.call('incr', KEYS[1])";
        for (n, client) in clients.iter().enumerate() {
            let mut words = vec!["EVAL", curious, "1", &keys[n % 3]];
            words.extend(further[n..].iter().map(String::as_str));
            net.send_words(*client, &words);
            adds(&mut net, *client, &keys);
        }
        settle(&mut net);
        clients.iter().for_each(|client| assert_eq!(net.replies(*client).len(), 2));
        assert_eq!(each(&mut net, clients[0], &keys), 6 + 2);
        let all = net.say(clients[0], &format!("MGET {}", further.join(" ")));
        assert_eq!(all, "[1 2 3 4 5 6]");
        assert!(joined(&mut net, clients[0]) >= 4);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script that has not begun does not run, and the others do not wait for it.
#[test]
fn a_client_of_several_goes() {
    for who in 0..5 {
        let (mut net, clients, keys) = with_clients(1, 5);
        net.stalled = vec![2];
        clients.iter().for_each(|client| adds(&mut net, *client, &keys));
        net.run();
        net.leave(clients[who]);
        net.run();
        net.stalled.clear();
        net.sleep(200);
        let others: Vec<usize> = (0..5).filter(|other| *other != who).collect();
        let said: Vec<String> =
            others.iter().flat_map(|other| net.replies(clients[*other])).map(|v| shown(&v)).collect();
        assert_eq!(said, ["1", "2", "3", "4"], "{who}");
        net.sleep(3000);
        assert_eq!(each(&mut net, clients[others[0]], &keys), 4);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A client goes at any time, with others or alone: its script happens or not, and all others happen.
#[test]
fn a_client_goes_while_others_run() {
    for turns in 0..60 {
        let (mut net, clients, keys) = with_clients(1 + turns % 2, 6);
        for client in &clients {
            adds(&mut net, *client, &keys);
            adds(&mut net, *client, &keys);
        }
        net.turns(turns / 2);
        net.leave(clients[turns % 6]);
        net.run();
        settle(&mut net);
        net.sleep(3000);
        let others = (0..6).filter(|other| *other != turns % 6);
        others.for_each(|other| {
            let said: Vec<String> = net.replies(clients[other]).iter().map(shown).collect();
            assert_eq!(said.len(), 2, "{turns}: {said:?}");
        });
        let done = each(&mut net, clients[(turns + 1) % 6], &keys);
        assert!((10..=12).contains(&done), "{turns}: {done}");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Scripts that declare none of their keys run again in another transaction, with the keys that they were found to
/// need.
#[test]
fn a_client_goes_while_scripts_run_that_declare_nothing() {
    let undeclared = "for _, key in ipairs(ARGV) do redis.call('incr', key) end return 1";
    for turns in 0..60 {
        let (mut net, clients, keys) = with_clients(1 + turns % 2, 6);
        for client in &clients {
            for _ in 0..2 {
                net.send_words(*client, &["EVAL", undeclared, "0", &keys[0], &keys[1], &keys[2]]);
            }
        }
        net.turns(turns / 2);
        net.leave(clients[turns % 6]);
        net.run();
        settle(&mut net);
        net.sleep(3000);
        let others = (0..6).filter(|other| *other != turns % 6);
        others.for_each(|other| assert_eq!(net.replies(clients[other]).len(), 2, "{turns}"));
        let done = each(&mut net, clients[(turns + 1) % 6], &keys);
        assert!((10..=12).contains(&done), "{turns}: {done}");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A node fails while scripts that declare none of their keys wait for each other. Each of them hears that, however
/// often it was tried with others and alone. A worker whose blocks wait for the node has nothing to do meanwhile.
#[test]
fn scripts_that_declare_nothing_hear_that_a_node_has_failed() {
    let undeclared = "for _, key in ipairs(ARGV) do redis.call('incr', key) end return 1";
    let mut failed = 0;
    for turns in 0..40 {
        let (mut net, clients, keys) = with_clients(1, 6);
        // A link is out of reach once it was open.
        adds(&mut net, clients[0], &keys);
        settle(&mut net);
        net.replies(clients[0]);
        for client in &clients {
            net.send_words(*client, &["EVAL", undeclared, "0", &keys[2], &keys[0], &keys[1]]);
        }
        net.turns(turns / 2);
        net.unreachable = vec![2];
        net.cut(0, 2);
        net.cut(1, 2);
        settle(&mut net);
        (0..20).for_each(|_| net.sleep(500));
        for client in &clients {
            for said in net.replies(*client).iter().map(shown) {
                assert!(said == "1" || said.starts_with("-CLUSTERDOWN"), "{turns}: {said}");
                failed += usize::from(said != "1");
            }
        }
    }
    assert!(failed > 0, "the node fails in time");
}

/// A killed script takes no other with it.
#[test]
fn a_script_of_several_is_killed() {
    let (mut net, clients, keys) = with_clients(1, 4);
    let far = key_of(2, 3, "far");
    let curious = "redis.call('incr', KEYS[1]) redis.call('incr', KEYS[2]) return redis.call('incr', ARGV[1])";
    net.send_words(clients[0], &["EVAL", curious, "2", &keys[0], &keys[1], &far]);
    for client in &clients[1..] {
        adds(&mut net, *client, &keys[..2]);
    }
    net.stalled = vec![2];
    net.run();
    let other = net.connect(1);
    net.send(other, "SCRIPT KILL");
    net.run();
    let error = net.heard(clients[0]).join(",");
    assert!(error.starts_with("-ERR Script killed by user with SCRIPT KILL."), "{error}");
    let mut said: Vec<String> = clients[1..].iter().flat_map(|c| net.replies(*c)).map(|v| shown(&v)).collect();
    said.sort();
    assert_eq!(said, ["1", "2", "3"]);
    net.stalled.clear();
    net.sleep(3000);
    assert_eq!(net.say(clients[1], &format!("MGET {} {} {far}", keys[0], keys[1])), "[3 3 nil]");
    assert!(net.is_quiet(), "nothing is left");
}

/// Clients of all nodes, scripts and plain commands: each is done once, and none waits for ever.
#[test]
fn several_nodes_want_the_same_keys() {
    for seed in 0..6 {
        let (mut net, [a, b, c], keys) = Net::three(1 + seed as usize % 2, 4 + seed);
        let mut clients = vec![a, b, c];
        clients.extend((0..9).map(|n| net.connect(n % 3)));
        let (mut chance, mut plain) = (random(seed + 1), 0);
        let mut sent = vec![0; clients.len()];
        for _ in 0..200 {
            let n = chance(clients.len());
            sent[n] += 1;
            match chance(8) {
                0 => {
                    plain += 1;
                    net.send(clients[n], &format!("INCR {}", keys[0]));
                }
                _ => adds(&mut net, clients[n], &keys),
            }
            net.turns(chance(3));
        }
        settle(&mut net);
        for (n, client) in clients.iter().enumerate() {
            assert_eq!(net.replies(*client).len(), sent[n], "{seed}: {n}");
        }
        let all = net.say(a, &format!("MGET {}", keys.join(" ")));
        assert_eq!(all, format!("[200 {0} {0}]", 200 - plain), "{seed}");
        assert!(joined(&mut net, a) > 5, "{seed}");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// The clients' node loses its power: all of a transaction has happened, or nothing. Every acknowledged one has.
#[test]
fn the_node_of_several_clients_fails() {
    let mut outcomes = std::collections::BTreeSet::new();
    for turns in 0..40 {
        let mut net = Net::logged(3, 1, 5, "always");
        let clients: Vec<usize> = (0..6).map(|_| net.connect(0)).collect();
        let other = net.connect(1);
        let keys: Vec<String> = (0..3).map(|i| key_of(i, 3, "k")).collect();
        clients.iter().for_each(|client| adds(&mut net, *client, &keys));
        net.turns(turns);
        let told = clients.iter().map(|client| net.replies(*client).len()).sum::<usize>();
        let even = even_map(3, 2);
        let mut nodes = even.nodes().to_vec();
        nodes[0].incarnation = 2;
        net.power_fails(0, Map::new(even.cluster(), even.version(), 1, nodes, even.ranges().to_vec()));
        net.run();
        for _ in 0..20 {
            net.sleep(500);
        }
        let done = each(&mut net, other, &keys);
        assert!(done >= told, "{turns}: {done} of {told}");
        outcomes.insert(done);
        assert!(net.is_quiet(), "nothing is left");
    }
    // The first block alone, and the others together.
    assert!(outcomes.len() >= 2 && outcomes.iter().all(|done| [0, 1, 6].contains(done)), "{outcomes:?}");
}

/// All blocks of a transaction see keys at one time. So none begins long after that time: a key that it sets for a
/// short while would be over for the clients at once.
#[test]
fn a_key_that_is_set_behind_slow_scripts_lives_as_long_as_it_shall() {
    const SLOW: &str = "for _ = 1, 4000000 do end redis.call('incr', KEYS[1]) return redis.call('incr', KEYS[2])";
    const SETS: &str = "redis.call('incr', KEYS[2]) redis.call('set', KEYS[1], 1, 'px', 300)
        return redis.call('pttl', KEYS[1])";
    let (mut net, clients, keys) = with_clients(1, 1);
    let client = clients[0];
    // A slice of a script fills a turn.
    net.clock.step.store(2_000_000, Relaxed);
    for script in [SLOW, SLOW, SETS] {
        net.send_words(client, &["EVAL", script, "2", &keys[0], &keys[1]]);
    }
    net.send(client, &format!("GET {}", keys[0]));
    let (mut said, mut passed) = (Vec::new(), 0);
    while said.len() < 4 && passed < 10_000 {
        net.turns(1);
        net.clock_only(4);
        passed += 4;
        said.extend(net.replies(client).iter().map(shown));
    }
    assert_eq!(said, ["1", "2", "300", "1"], "after {passed} ms");
    assert!(passed > 600, "the scripts are slow: {passed} ms");
    net.clock.step.store(100, Relaxed);
    settle(&mut net);
    assert!(net.is_quiet(), "nothing is left");
}

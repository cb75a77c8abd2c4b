//! Commands that wait for keys of several nodes.

use crate::net::{Net, even_map, key_of, random};

/// Three nodes, a client of each that waits or pushes, and a key of each.
fn three(workers: usize, seed: u64) -> (Net, [usize; 3], [String; 3]) {
    Net::three(workers, seed)
}

/// The one reply that a client has got, or none.
fn heard(net: &mut Net, client: usize) -> Option<String> {
    let mut replies = net.heard(client);
    assert!(replies.len() < 2, "{replies:?}");
    replies.pop()
}

/// A command of the first client waits, and is answered when another client has done something.
#[track_caller]
fn is_served(workers: usize, before: &[&str], waits: &str, serves: &str, answer: &str) {
    for server in [0, 1, 2] {
        let (mut net, clients, keys) = three(workers, 3 + server as u64);
        let named = |text: &str| {
            text.split(' ')
                .map(|word| match word {
                    "a" => keys[0].clone(),
                    "b" => keys[1].clone(),
                    "c" => keys[2].clone(),
                    word => word.to_owned(),
                })
                .collect::<Vec<_>>()
                .join(" ")
        };
        for command in before {
            net.ask(clients[1], &named(command));
        }
        let client = net.connect(server);
        net.send(client, &named(waits));
        assert_eq!(heard(&mut net, client), None, "{waits}");
        for _ in 0..5 {
            net.sleep(1000);
        }
        assert_eq!(heard(&mut net, client), None, "{waits}");
        assert!(net.is_quiet(), "who waits locks nothing");
        net.ask(clients[2], &named(serves));
        let shown = keys
            .iter()
            .zip(["a", "b", "c"])
            .fold(heard(&mut net, client), |text, (key, name)| text.map(|text| text.replace(key.as_str(), name)));
        assert_eq!(shown.as_deref(), Some(answer), "{waits}, {serves}");
        assert_eq!(net.say(client, "PING"), "PONG");
        assert!(net.is_quiet(), "nothing is left");
        for node in 0..3 {
            let asker = net.connect(node);
            assert!(net.say(asker, "INFO clients").contains("blocked_clients:0"), "nobody waits");
        }
    }
}

#[test]
fn they_are_served_by_any_of_their_keys() {
    for workers in [1, 2] {
        is_served(workers, &[], "BLPOP a b c 0", "RPUSH b x y", "[b x]");
        is_served(workers, &[], "BRPOP a b c 0", "RPUSH c x y", "[c y]");
        is_served(workers, &[], "BLMOVE a b LEFT RIGHT 0", "RPUSH a x y", "x");
        is_served(workers, &[], "BLMOVEM a b LEFT LEFT 0 EXACTLY 2 OBO", "RPUSH a x y", "[y x]");
        is_served(workers, &[], "BRPOPLPUSH c a 0", "RPUSH c x y", "y");
        is_served(workers, &[], "BLMPOP 0 3 a b c LEFT COUNT 2", "RPUSH c x y z", "[c [x y]]");
        is_served(workers, &[], "BZPOPMIN a b 0", "ZADD b 1 x 2 y", "[b x 1]");
        is_served(workers, &[], "BZPOPMAX a b c 0", "ZADD a 1 x 2 y", "[a y 2]");
        is_served(workers, &[], "BZMPOP 0 2 b c MAX", "ZADD c 1 x 2 y", "[c [[y 2]]]");
        is_served(
            workers,
            &["XADD a 1-1 f v"],
            "XREAD BLOCK 0 STREAMS a b $ $",
            "XADD a 2-1 f w",
            "[[a [[2-1 [f w]]]]]",
        );
        is_served(
            workers,
            &["XADD a 1-1 f v"],
            "XREAD BLOCK 0 STREAMS a b $ $",
            "XADD b 2-1 f w",
            "[[b [[2-1 [f w]]]]]",
        );
        let groups = ["XGROUP CREATE a g $ MKSTREAM", "XGROUP CREATE c g $ MKSTREAM"];
        let group = "XREADGROUP GROUP g one BLOCK 0 STREAMS a c > >";
        is_served(workers, &groups, group, "XADD c 2-1 f w", "[[c [[2-1 [f w]]]]]");
    }
}

#[test]
fn what_ends_a_wait_otherwise() {
    let groups = ["XGROUP CREATE a g $ MKSTREAM", "XGROUP CREATE c g $ MKSTREAM"];
    let group = "XREADGROUP GROUP g one BLOCK 0 STREAMS a c > >";
    is_served(
        1,
        &groups,
        group,
        "DEL c",
        "-NOGROUP No such key 'c' or consumer group 'g' in XREADGROUP with GROUP option",
    );
    // A wait times out.
    let (mut net, [client, other, _], [a, b, _]) = three(1, 3);
    for command in [
        format!("BLPOP {a} {b} 2"),
        format!("BLMOVE {a} {b} LEFT LEFT 2"),
        format!("XREAD BLOCK 2000 STREAMS {a} {b} 0 0"),
    ] {
        net.send(client, &command);
        net.run();
        net.sleep(1999);
        assert_eq!(heard(&mut net, client), None);
        net.sleep(3);
        assert_eq!(heard(&mut net, client).as_deref(), Some("nil"));
    }
    net.ask(other, &format!("RPUSH {a} x"));
    assert_eq!(net.say(other, &format!("LLEN {a}")), "1");
    net.ask(other, &format!("DEL {a}"));
    // Another client ends the wait.
    let id = net.say(client, "CLIENT ID");
    for (how, answer) in [("TIMEOUT", "nil"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        net.send(client, &format!("BLPOP {a} {b} 0"));
        net.run();
        let admin = net.connect(0);
        assert_eq!(waited(&mut net, admin, &format!("CLIENT UNBLOCK {id} {how}")), "1");
        assert_eq!(heard(&mut net, client).as_deref(), Some(answer));
        assert_eq!(waited(&mut net, admin, &format!("CLIENT UNBLOCK {id}")), "0");
    }
    // A key gets another type.
    net.send(client, &format!("BLPOP {a} {b} 0"));
    net.run();
    net.ask(other, &format!("SET {a} 1"));
    assert_eq!(heard(&mut net, client), None, "it sleeps on until there is something to take");
    net.ask(other, &format!("RPUSH {b} x"));
    let answer = heard(&mut net, client);
    assert_eq!(answer.as_deref(), Some("-WRONGTYPE Operation against a key holding the wrong kind of value"));
}

/// A reply that comes after a moment.
fn waited(net: &mut Net, client: usize, command: &str) -> String {
    net.send(client, command);
    net.run();
    net.sleep(3);
    heard(net, client).expect("an answer")
}

#[test]
fn the_first_key_that_has_something_is_taken() {
    let (mut net, [client, other, _], [a, b, c]) = three(1, 3);
    net.send(client, &format!("BLPOP {a} {b} {c} 0"));
    net.run();
    net.send(other, "MULTI");
    for key in [&c, &b] {
        net.send(other, &format!("RPUSH {key} x"));
    }
    net.send(other, "EXEC");
    assert_eq!(net.heard(other).pop().as_deref(), Some("[1 1]"));
    assert_eq!(heard(&mut net, client), Some(format!("[{b} x]")));
    assert_eq!(net.say(other, &format!("MGET {b} {c}")), "[nil nil]");
    assert_eq!(net.say(other, &format!("EXISTS {b} {c}")), "1");
}

#[test]
fn who_has_gone_takes_nothing() {
    let (mut net, [client, other, _], [a, b, _]) = three(2, 3);
    net.send(client, &format!("BLPOP {a} {b} 0"));
    net.run();
    net.leave(client);
    net.run();
    for key in [&a, &b] {
        assert_eq!(net.say(other, &format!("RPUSH {key} x")), "1");
        net.run();
        assert_eq!(net.say(other, &format!("LLEN {key}")), "1");
    }
    assert!(net.is_quiet(), "nothing is left");
    assert!(net.say(other, "INFO clients").contains("blocked_clients:0"), "nobody waits");
}

#[test]
fn links_that_end_while_somebody_waits_are_opened_again() {
    for who in [1, 2] {
        let (mut net, [client, other, _], [a, b, c]) = three(1, 3);
        net.send(client, &format!("BLPOP {a} {b} {c} 0"));
        net.run();
        net.cut(0, who);
        for _ in 0..10 {
            net.sleep(100);
        }
        assert_eq!(heard(&mut net, client), None, "it waits");
        assert!(!net.clients[client].closed);
        net.ask(other, &format!("RPUSH {} x", [&a, &b, &c][who]));
        assert_eq!(heard(&mut net, client), Some(format!("[{} x]", [&a, &b, &c][who])));
    }
    // The reply names a node that is gone.
    let (mut net, [client, other, _], [a, b, _]) = three(1, 3);
    net.send(client, &format!("BLPOP {a} {b} 0"));
    net.run();
    net.unreachable = vec![1];
    net.cut(0, 1);
    for _ in 0..10 {
        net.sleep(100);
    }
    let answer = heard(&mut net, client).unwrap_or_default();
    assert!(answer.starts_with("-CLUSTERDOWN"), "{answer}");
    net.unreachable.clear();
    net.ask(other, &format!("RPUSH {b} x"));
    assert_eq!(net.say(other, &format!("LLEN {b}")), "1");
}

/// Its end may be seen before or after the waiting command begins: nothing is taken for it.
#[test]
fn nothing_is_taken_for_a_client_that_has_ended() {
    for begins_first in [true, false] {
        for over_nodes in [true, false] {
            let (mut net, [_, other, _], [a, b, _]) = three(1, 3);
            net.ask(other, &format!("SET x:{b} 1"));
            let client = net.connect(0);
            if begins_first {
                net.send(client, "PING");
            } else {
                // The client first waits for another reply.
                net.send(client, &format!("GET {}", key_of(1, 3, "other")));
            }
            net.send(client, &format!("BLPOP {b}{} 0", if over_nodes { format!(" {a}") } else { String::new() }));
            if begins_first {
                net.run();
            }
            net.end(client);
            net.run();
            net.sleep(100);
            let heard = net.heard(client);
            assert_eq!(heard, [if begins_first { "PONG" } else { "nil" }], "{begins_first} {over_nodes}");
            assert!(net.clients[client].closed);
            assert_eq!(net.say(other, &format!("RPUSH {b} x")), "1");
            net.run();
            assert_eq!(net.say(other, &format!("LLEN {b}")), "1", "{begins_first} {over_nodes}");
            assert!(net.say(other, "INFO clients").contains("blocked_clients:0"));
        }
    }
}

#[test]
fn a_new_map_has_everybody_look_again() {
    let (mut net, [client, other, _], [a, b, _]) = three(1, 3);
    net.send(client, &format!("BLPOP {a} {b} 0"));
    net.run();
    for node in 0..3 {
        net.cluster(node).set_map(std::sync::Arc::new(even_map(3, 2)));
    }
    net.sleep(10);
    assert_eq!(heard(&mut net, client), None, "it waits");
    net.ask(other, &format!("RPUSH {b} x"));
    assert_eq!(heard(&mut net, client), Some(format!("[{b} x]")));
}

/// Many clients wait for lists at three nodes, and many push, while links end and clients go. Each pushed element is
/// there or was popped, once.
#[test]
fn everything_that_is_pushed_is_popped_once() {
    for seed in 1..12 {
        let mut net = Net::new(3, 1 + seed as usize % 2, seed);
        let lists = [0, 1, 2].map(|i| key_of(i, 3, "list"));
        let mut chance = random(seed);
        let pusher = net.connect(1);
        let mut poppers: Vec<usize> = (0..4).map(|i| net.connect(i % 3)).collect();
        let wait = |net: &mut Net, client: usize, first: usize| {
            let keys = [0, 1, 2].map(|i| lists[(first + i) % 3].as_str());
            net.send(client, &format!("BLPOP {} {} {} 0", keys[0], keys[1], keys[2]));
        };
        (0..4).for_each(|i| wait(&mut net, poppers[i], i));
        let (mut popped, mut pushed, mut lost) = (Vec::new(), 0, 0);
        for id in 0..60 {
            if chance(3) > 0 {
                // The list is of its own node: the client is answered whatever ends.
                net.send(pusher, &format!("RPUSH {} {id}", lists[1]));
                pushed += 1;
            } else {
                net.turns(chance(30));
                net.cut(chance(3), chance(3));
            }
            if chance(10) == 0 {
                net.turns(chance(30));
                let i = chance(4);
                net.leave(poppers[i]);
                lost += 1;
                let heard = net.heard(poppers[i]);
                popped.extend(heard);
                poppers[i] = net.connect(i % 3);
                wait(&mut net, poppers[i], i);
            }
            for _ in 0..chance(4) {
                net.sleep(200);
            }
            for (i, popper) in poppers.iter_mut().enumerate() {
                let (heard, closed) = (net.heard(*popper), net.clients[*popper].closed);
                let answered = !heard.is_empty();
                popped.extend(heard);
                if closed {
                    lost += 1;
                    *popper = net.connect(i % 3);
                }
                if answered || closed {
                    wait(&mut net, *popper, i);
                }
            }
        }
        for _ in 0..60 {
            net.sleep(200);
        }
        let mut rest: Vec<String> = poppers.iter().flat_map(|popper| net.heard(*popper)).collect();
        popped.append(&mut rest);
        let mut seen: Vec<String> =
            popped.iter().filter_map(|reply| Some(reply.strip_suffix(']')?.rsplit(' ').next()?.to_owned())).collect();
        let reader = net.connect(2);
        let left = net.say(reader, &format!("LRANGE {} 0 -1", lists[1]));
        seen.extend(left.trim_matches(['[', ']']).split(' ').filter(|id| !id.is_empty()).map(str::to_owned));
        let total = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), total, "seed {seed}: popped once: {popped:?}");
        // A client whose connection ended may have been served without hearing of it: nothing else may be missing.
        assert!(total + lost >= pushed, "seed {seed}: {total} of {pushed}, {lost} clients lost");
        assert!(net.is_quiet(), "seed {seed}: nothing is left");
    }
}

/// A waiting client gets the reply that one node would give, with any commands of the others.
#[test]
fn a_wait_over_nodes_is_as_one_at_a_node() {
    for seed in 1..12 {
        let mut nets = [Net::new(1, 1, seed), Net::new(3, 1 + seed as usize % 2, seed)];
        let names = [0, 1, 2].map(|i| key_of(i, 3, "k"));
        let mut chance = random(seed);
        let clients = nets.each_mut().map(|net| (net.connect(0), net.connect(0)));
        let mut history = Vec::new();
        for step in 0..60 {
            let key = names[chance(3)].clone();
            let pair = format!("{key} {}", names[chance(3)]);
            let waits = match chance(9) {
                0 => format!("BLPOP {pair} 5"),
                1 => format!("BRPOP {pair} {key} 3"),
                2 => format!("BLMOVE {pair} LEFT RIGHT 4"),
                3 => format!("BLMPOP 2 2 {pair} RIGHT COUNT 2"),
                4 => format!("BZPOPMIN {pair} 5"),
                5 => format!("BZMPOP 1 2 {pair} MAX"),
                6 => format!("XREAD BLOCK 3000 STREAMS {pair} $ $"),
                7 => format!("XREAD COUNT 1 BLOCK 3000 STREAMS {pair} 0 5"),
                _ => format!("XREADGROUP GROUP g me BLOCK 2000 STREAMS {pair} > >"),
            };
            let mut rounds: Vec<Vec<String>> = vec![Vec::new(); 2];
            let mut others: Vec<String> = Vec::new();
            for _ in 0..chance(6) {
                let key = names[chance(3)].clone();
                others.push(match chance(12) {
                    0 | 1 => format!("RPUSH {key} {step} y"),
                    2 => format!("ZADD {key} {step} z"),
                    3 | 4 => format!("XADD {key} * f {step}"),
                    5 => format!("XGROUP CREATE {key} g $ MKSTREAM"),
                    6 | 7 => format!("DEL {key}"),
                    8 => format!("SET {key} {step}"),
                    9 => format!("PEXPIRE {key} 700"),
                    10 => format!("LPOP {key}"),
                    _ => format!("RENAME {key} {}", names[chance(3)]),
                });
            }
            for (net, ((waiter, other), heard)) in nets.iter_mut().zip(clients.iter().zip(&mut rounds)) {
                net.send(*waiter, &waits);
                heard.extend(net.heard(*waiter));
                for command in &others {
                    let answer = net.say(*other, command);
                    let after = net.heard(*waiter);
                    heard.push(format!("{command}: {answer}; {after:?}"));
                    net.sleep(500);
                    heard.extend(net.heard(*waiter));
                }
                for _ in 0..6 {
                    net.sleep(1001);
                    heard.extend(net.heard(*waiter));
                }
            }
            history.push(waits);
            history.extend(others);
            assert_eq!(rounds[0], rounds[1], "seed {seed}: {history:#?}");
        }
        assert!(nets[1].is_quiet(), "seed {seed}: nothing is left");
    }
}

/// A wait ends in time even while a node does not answer.
#[test]
fn a_wait_ends_in_time_while_a_node_is_silent() {
    let (mut net, [client, other, _], [a, b, c]) = three(1, 3);
    net.send(client, &format!("BLPOP {a} {b} {c} 5"));
    net.run();
    net.stalled = vec![2];
    net.ask(other, &format!("SADD {b} x"));
    net.ask(other, &format!("DEL {b}"));
    net.ask(other, &format!("RPUSH {b} x"));
    assert_eq!(heard(&mut net, client), None, "it cannot know what is at the third node");
    for _ in 0..6 {
        net.sleep(1000);
    }
    assert_eq!(heard(&mut net, client).as_deref(), Some("nil"));
    net.stalled.clear();
    for _ in 0..10 {
        net.sleep(1000);
    }
    assert_eq!(net.say(other, &format!("LRANGE {b} 0 -1")), "[x]");
    assert!(net.is_quiet(), "nothing is left");
}

/// Expired keys may stay for a while, with CLIENT PAUSE for as long as it lasts.
#[test]
fn keys_whose_time_has_passed_wake_nobody() {
    let (mut net, [client, other, third], [a, b, _]) = three(1, 3);
    for key in [&a, &b] {
        net.ask(other, &format!("XADD {key} 1-1 f old"));
        net.ask(other, &format!("PEXPIRE {key} 10"));
    }
    for pauses in [client, other, third] {
        net.ask(pauses, "CLIENT PAUSE 600000 WRITE");
    }
    net.clock_only(20);
    net.send(client, &format!("XREAD BLOCK 60000 STREAMS {a} {b} 0 0"));
    assert_eq!(heard(&mut net, client), None, "there is nothing");
    net.sleep(1000);
    assert_eq!(heard(&mut net, client), None, "there is nothing");
    for unpauses in [other, third] {
        net.ask(unpauses, "CLIENT UNPAUSE");
    }
    net.ask(third, &format!("XADD {b} 1-1 f new"));
    let new = heard(&mut net, client).expect("there is something");
    assert!(new.contains("new") && !new.contains("old"), "{new}");
    assert!(net.is_quiet(), "nothing is left");
}

#[test]
fn a_wait_that_claims_ends_when_an_entry_is_old_enough() {
    for server in [0, 1, 2] {
        let (mut net, clients, [a, b, _]) = three(2, 31 + server as u64);
        for key in [&a, &b] {
            net.ask(clients[1], &format!("XADD {key} 1-1 f v"));
            net.ask(clients[1], &format!("XGROUP CREATE {key} g 0"));
            net.ask(clients[1], &format!("XREADGROUP GROUP g c STREAMS {key} >"));
        }
        let client = net.connect(server);
        for (keys, ids) in [(vec![&a], ">"), (vec![&a, &b], "> >"), (vec![&b, &a], "> >")] {
            // These have been read since the last round.
            let words: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            net.send(client, &format!("XREADGROUP GROUP g d BLOCK 0 CLAIM 3000 STREAMS {} {ids}", words.join(" ")));
            let mut rounds = 0;
            let reply = loop {
                if let Some(reply) = heard(&mut net, client) {
                    break reply;
                }
                assert!(net.is_quiet(), "who waits locks nothing");
                net.sleep(1000);
                rounds += 1;
                assert!(rounds < 8, "nothing was claimed");
            };
            assert!(reply.starts_with("[["), "{reply}");
            assert!(keys.iter().any(|key| reply.contains(key.as_str())) && reply.contains("1-1 [f v]"), "{reply}");
        }
        // Entries that are given back are claimed at once, at any node.
        net.send(client, &format!("XREADGROUP GROUP g d BLOCK 0 CLAIM 900000 STREAMS {a} {b} > >"));
        assert_eq!(heard(&mut net, client), None);
        assert_eq!(net.say(clients[2], &format!("XNACK {b} g FAIL IDS 1 1-1")), "1");
        assert!(heard(&mut net, client).is_some_and(|reply| reply.contains(&b) && !reply.contains(&a)));
        assert!(net.is_quiet(), "nothing is left");
    }
}

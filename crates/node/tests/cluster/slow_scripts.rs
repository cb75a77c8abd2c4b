//! Scripts that run for long on copies of keys of several nodes.

use std::sync::atomic::Ordering::Relaxed;

use crate::net::{Net, keys, shown};

const KILLED: &str = "-ERR Script killed by user with SCRIPT KILL.";
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL";
const WRITES: &str = "redis.call('set', KEYS[1], 1) while true do end";
const READS: &str = "redis.call('get', KEYS[1]) while true do end";

/// The next reply to a client, while a script runs and time passes.
fn hears(net: &mut Net, client: usize) -> String {
    for _ in 0..5000 {
        net.turns(5);
        if let Some(reply) = net.replies(client).first() {
            return shown(reply);
        }
    }
    panic!("it hears nothing");
}

fn asks(net: &mut Net, client: usize, command: &str) -> String {
    net.send(client, command);
    hears(net, client)
}

/// The reply to a client that kills a script, as soon as the script can be seen.
fn kill(net: &mut Net, client: usize, command: &str) -> String {
    let mut replies = (0..5000).map(|_| asks(net, client, command));
    replies.find(|reply| !reply.starts_with("-NOTBUSY")).expect("it is seen")
}

#[test]
fn they_are_killed_from_any_node_also_after_they_have_written() {
    for workers in [1, 2] {
        let mut net = Net::new(3, workers, 8);
        let (client, other) = (net.connect(0), net.connect(2));
        let [a, b, _] = keys(3);
        net.clock.step.store(100_000, Relaxed);
        for script in [READS, WRITES] {
            net.send_words(client, &["EVAL", script, "2", &a, &b]);
            assert_eq!(kill(&mut net, other, "SCRIPT KILL"), "OK");
            let error = hears(&mut net, client);
            assert!(error.starts_with(KILLED), "{error}");
        }
        let library = "#!lua name=l
            redis.register_function('ends_never', function(keys) redis.call('set', keys[1], 1) while true do end end)";
        net.keeps_libraries();
        assert_eq!(net.arrange(other, &["FUNCTION", "LOAD", library]), "l");
        net.send(client, &format!("FCALL ends_never 2 {a} {b}"));
        let error = kill(&mut net, other, "SCRIPT KILL");
        assert!(error.starts_with("-BUSY") && error.contains("FUNCTION KILL"), "{error}");
        assert_eq!(kill(&mut net, other, "FUNCTION KILL"), "OK");
        let error = hears(&mut net, client);
        assert!(error.starts_with(KILLED), "{error}");
        // None of the block is done.
        for command in ["MULTI", &format!("SET {b} 1")] {
            net.ask(client, command);
        }
        net.send_words(client, &["EVAL", WRITES, "2", &a, &b]);
        net.send(client, "EXEC");
        assert_eq!(hears(&mut net, client), "QUEUED");
        assert_eq!(kill(&mut net, other, "SCRIPT KILL"), "OK");
        let error = hears(&mut net, client);
        assert!(error.starts_with(KILLED), "{error}");
        assert_eq!(net.say(other, &format!("EXISTS {a} {b}")), "0");
        // Of the transaction, this command is not done.
        net.ask(client, "BEGIN");
        net.ask(client, &format!("SET {b} 2"));
        net.send_words(client, &["EVAL", WRITES, "2", &a, &b]);
        assert_eq!(kill(&mut net, other, "SCRIPT KILL"), "OK");
        let error = hears(&mut net, client);
        assert!(error.starts_with(KILLED), "{error}");
        assert_eq!(net.say(client, "COMMIT"), "OK");
        assert_eq!(net.say(other, &format!("MGET {a} {b}")), "[nil 2]");
        assert!(net.say(other, "SCRIPT KILL").starts_with("-NOTBUSY"));
        net.clock.step.store(100, Relaxed);
        net.sleep(3000);
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_has_written_to_keys_themselves_is_not_killed() {
    let mut net = Net::new(3, 1, 8);
    let (client, other) = (net.connect(0), net.connect(2));
    let [a, _, _] = keys(3);
    net.clock.step.store(100_000, Relaxed);
    net.send_words(client, &["EVAL", WRITES, "1", &a]);
    let error = kill(&mut net, other, "SCRIPT KILL");
    assert!(error.starts_with("-UNKILLABLE"), "{error}");
}

/// Commands that need a slow script's keys, at any node, hear -BUSY; others are served.
#[test]
fn who_needs_their_keys_hears_that_they_are_busy() {
    for workers in [1, 2] {
        let mut net = Net::with(3, workers, 8, &[("busy-reply-threshold", "300")]);
        let clients = [0, 1, 2].map(|node| net.connect(node));
        let [a, b, c] = keys(3);
        let runs = net.connect(0);
        let transaction = net.connect(2);
        net.ask(transaction, "BEGIN");
        net.ask(transaction, &format!("SET {a} 2"));
        net.clock.step.store(100_000, Relaxed);
        let undeclared = "redis.call('set', ARGV[1], 1) redis.call('set', KEYS[1], 1) while true do end";
        for (script, words) in [(WRITES, vec!["2", &a, &b]), (undeclared, vec!["1", &a, &b])] {
            while !net.is_quiet() {
                net.turns(1);
            }
            // They wait before the script counts as slow; after that no command does.
            net.send_words(runs, &[&["EVAL", script], &words[..]].concat());
            while !net.node(1).engine.transactions.any() {
                net.turns(1);
            }
            for command in [format!("GET {a}"), format!("SET {b} q"), "DBSIZE".into(), format!("MSET {a} 1 {c} 2")] {
                clients.iter().for_each(|client| net.send(*client, &command));
                for client in clients {
                    let reply = hears(&mut net, client);
                    assert!(reply.starts_with(BUSY), "{command}: {reply}");
                }
            }
            for command in ["KEYS *", "FLUSHALL", "RANDOMKEY"] {
                let reply = asks(&mut net, clients[1], command);
                assert!(reply.contains("busy running a script"), "{command}: {reply}");
            }
            for client in clients {
                assert_eq!(asks(&mut net, client, &format!("EXISTS {c}")), "0");
            }
            assert_eq!(kill(&mut net, clients[2], "SCRIPT KILL"), "OK");
            let error = hears(&mut net, runs);
            assert!(error.starts_with(KILLED), "{error}");
            net.run();
            for client in clients {
                assert_eq!(asks(&mut net, client, &format!("MGET {a} {b}")), "[nil nil]", "they are free");
            }
        }
        assert_eq!(net.say(transaction, "COMMIT"), "OK");
        assert_eq!(net.say(clients[0], "DBSIZE"), "1");
        net.clock.step.store(100, Relaxed);
        net.sleep(3000);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script that began before may still run.
#[test]
fn kills_are_for_nodes_without_leases_too() {
    for mode in ["forward", "moved"] {
        let mut net = Net::with(3, 1, 4, &[("cluster-redirect", mode)]);
        net.lease(1, 0);
        for node in [0, 1] {
            let client = net.connect(node);
            for command in ["SCRIPT KILL", "FUNCTION KILL"] {
                assert_eq!(net.say(client, command), "-NOTBUSY No scripts in execution right now.", "{mode} {command}");
            }
        }
    }
}

//! Scripts that run on copies of keys of several nodes, and for long.

use std::sync::atomic::Ordering::Relaxed;

use crate::net::{Net, keys, shown};

const KILLED: &str = "-ERR Script killed by user with SCRIPT KILL.";
const WRITES: &str = "redis.call('set', KEYS[1], 1) while true do end";
const READS: &str = "redis.call('get', KEYS[1]) while true do end";

/// What a client hears next, while a script runs and time passes.
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

/// Kills a script as soon as it can be seen.
fn kill(net: &mut Net, client: usize, command: &str) {
    for _ in 0..5000 {
        let reply = asks(net, client, command);
        if reply == "OK" {
            return;
        }
        assert_eq!(reply, "-NOTBUSY No scripts in execution right now.");
    }
    panic!("it is never seen");
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
            kill(&mut net, other, "SCRIPT KILL");
            let error = hears(&mut net, client);
            assert!(error.starts_with(KILLED), "{error}");
        }
        let library = "#!lua name=l
            redis.register_function('ends_never', function(keys) redis.call('set', keys[1], 1) while true do end end)";
        assert_eq!(net.say_words(other, &["FUNCTION", "LOAD", library]), "l");
        net.send(client, &format!("FCALL ends_never 2 {a} {b}"));
        net.turns(100);
        let error = asks(&mut net, other, "SCRIPT KILL");
        assert!(error.starts_with("-BUSY") && error.contains("FUNCTION KILL"), "{error}");
        kill(&mut net, other, "FUNCTION KILL");
        let error = hears(&mut net, client);
        assert!(error.starts_with(KILLED), "{error}");
        // Nothing of a block is done.
        for command in ["MULTI", &format!("SET {b} 1")] {
            net.ask(client, command);
        }
        net.send_words(client, &["EVAL", WRITES, "2", &a, &b]);
        net.send(client, "EXEC");
        assert_eq!(hears(&mut net, client), "QUEUED");
        kill(&mut net, other, "SCRIPT KILL");
        let error = hears(&mut net, client);
        assert!(error.starts_with(KILLED), "{error}");
        assert_eq!(net.say(other, &format!("EXISTS {a} {b}")), "0");
        // Of a transaction, nothing of this command.
        net.ask(client, "BEGIN");
        net.ask(client, &format!("SET {b} 2"));
        net.send_words(client, &["EVAL", WRITES, "2", &a, &b]);
        kill(&mut net, other, "SCRIPT KILL");
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
    net.turns(100);
    let error = asks(&mut net, other, "SCRIPT KILL");
    assert!(error.starts_with("-UNKILLABLE"), "{error}");
}

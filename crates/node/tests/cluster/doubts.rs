//! Healthy nodes' keys that are locked by transactions whose outcome depends on a node that does not answer (rule T4).

use keyspace::access::AccessClock;
use keyspace::{Db, Expiry};

use crate::net::{Net, key_of, shown};

/// Many rounds of looking for doubts: longer than `cluster-lock-timeout`.
fn looks(net: &mut Net) {
    (0..14).for_each(|_| net.sleep(500));
}

/// Three nodes. The second stopped after it had been told of a block over all of them, so the parts that the others
/// have prepared are in doubt. Returns the client of that block, a client of each node, and a key of each.
pub fn doubtful(workers: usize, settings: &[(&str, &str)]) -> (Net, usize, [usize; 3], [String; 3]) {
    let mut net = Net::with(3, workers, 2, settings);
    let [begun, a, b, c] = [0, 0, 1, 2].map(|node| net.connect(node));
    let keys = [0, 1, 2].map(|i| key_of(i, 3, "k"));
    let [x, y, z] = &keys;
    assert_eq!(net.say(begun, &format!("MSET {x} 0 {y} 0 {z} 0")), "OK");
    net.sleep(3000);
    assert!(net.is_quiet());
    net.stalled = vec![1];
    net.send(begun, &format!("MSET {x} 1 {y} 1 {z} 1"));
    net.run();
    (net, begun, [a, b, c], keys)
}

fn is_doubt(reply: &str) -> bool {
    reply.contains("CLUSTERDOWN The command was not executed") && reply.contains("10.0.0.2:7001")
}

#[test]
fn who_needs_keys_in_doubt_waits_for_a_while_and_hears_why() {
    for workers in [1, 2] {
        let (mut net, begun, [a, _, c], [x, y, z]) = doubtful(workers, &[]);
        let near = key_of(2, 3, "other");
        let clients: Vec<usize> = (0..4).map(|i| net.connect(if i % 2 == 0 { 2 } else { 0 })).collect();
        let commands =
            [format!("GET {z}"), format!("INCR {z}"), format!("MSET {x} 2 {z} 2"), format!("DEL {x} {near}")];
        for (client, command) in clients.iter().zip(&commands) {
            net.send(*client, command);
        }
        for client in [a, c] {
            assert_eq!(net.say(client, "CLUSTER REDIRECT moved"), "OK");
        }
        net.send(c, "DBSIZE");
        for _ in 0..7 {
            net.sleep(500);
            assert!([&clients[..], &[a, c]].concat().iter().all(|client| net.replies(*client).is_empty()), "they wait");
        }
        looks(&mut net);
        for (client, command) in clients.iter().zip(&commands) {
            let heard = net.heard(*client);
            assert!(heard.len() == 1 && is_doubt(&heard[0]), "{command}: {heard:?}");
        }
        let heard = net.heard(c);
        assert!(heard.len() == 1 && is_doubt(&heard[0]), "{heard:?}");
        // From now on no client waits.
        for command in [format!("SET {z} 3"), "KEYS *".into(), "FLUSHALL".into(), format!("EVAL return(1) 1 {z}")] {
            let reply = net.say(c, &command);
            assert!(is_doubt(&reply), "{command}: {reply}");
        }
        net.send_words(c, &["EVAL", "return redis.call('get', ARGV[1])", "1", &near, &z]);
        let heard = net.heard(c);
        assert!(heard.len() == 1 && is_doubt(&heard[0]), "of a script that has not declared it: {heard:?}");
        let block = net.pipeline(c, &["MULTI", &format!("SET {near} 1"), &format!("GET {z}"), "EXEC"]);
        assert!(is_doubt(&shown(&block[3])), "{block:?}");
        assert_eq!(net.say(c, &format!("EXISTS {near}")), "0", "other keys are served, and nothing was done");
        let rename = net.say(clients[0], &format!("RENAME {z} {x}"));
        assert!(is_doubt(&rename), "{rename}");
        let info = net.say(c, "INFO stats");
        assert!(info.contains("transactions_over_nodes_in_doubt:1") && !info.contains("refused_in_doubt:0"), "{info}");
        assert!(!net.clients[begun].closed && net.heard(begun).is_empty(), "it may come to it");
        // Only the outcome has given the locks back.
        net.stalled.clear();
        looks(&mut net);
        assert_eq!(net.heard(begun), ["OK"]);
        assert_eq!(net.say(clients[0], &format!("MGET {x} {y} {z} {near}")), "[1 1 1 nil]");
        assert!(net.is_quiet());
        assert!(net.say(c, "INFO stats").contains("transactions_over_nodes_in_doubt:0"));
    }
}

/// The client hears what the other nodes have done, although the stopped node's part is unknown.
#[test]
fn flushall_does_not_wait_for_a_node_that_has_stopped() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(0);
    let keys = [0, 1, 2].map(|i| key_of(i, 3, "k"));
    assert_eq!(net.say(client, &format!("MSET {} 1 {} 1 {} 1", keys[0], keys[1], keys[2])), "OK");
    net.sleep(3000);
    net.stalled = vec![1];
    net.send(client, "FLUSHALL");
    net.run();
    assert!(net.heard(client).is_empty());
    net.hears_of_silent(0, &[1]);
    net.unreachable = vec![1];
    looks(&mut net);
    let expected = "-ERR 2 of 3 nodes have executed it, of the others the first says: the node at 10.0.0.2:7001 has not answered: nobody knows whether it has executed the command";
    assert_eq!(net.heard(client), [expected]);
    assert!(!net.clients[client].closed);
    net.unreachable.clear();
    net.stalled.clear();
    looks(&mut net);
    let left: usize = net.say(client, "DBSIZE").parse().unwrap();
    assert!(left <= 1, "{left}");
}

#[test]
fn without_a_limit_they_wait() {
    let (mut net, _, [_, _, c], [_, _, z]) = doubtful(1, &[("cluster-lock-timeout", "0")]);
    net.send(c, &format!("INCR {z}"));
    (0..4).for_each(|_| looks(&mut net));
    assert!(net.heard(c).is_empty());
}

/// A damaged store has another value than the one that a transaction was prepared for. Its keys stay locked, and no
/// client waits for them.
#[test]
fn who_needs_keys_of_what_cannot_be_done_hears_so() {
    let mut net = Net::new(3, 1, 2);
    let [begun, owner, client] = [0, 2, 1].map(|node| net.connect(node));
    let [x, z] = [0, 2].map(|i| key_of(i, 3, "list"));
    let shared = net.node(2).engine.clone();
    // A loader's place: there is no loader.
    let (keyspace, mut local, clock) = (&shared.keyspace, shared.keyspace.local(1), AccessClock::new(1));
    let mut become_other = |text: Option<&[u8]>| {
        let key = keyspace.hasher().key(z.as_bytes());
        let held = keyspace.try_one(key.slot).expect("nobody has it");
        let mut db = Db::new(keyspace, &held, &mut local, &clock, 0, keyspace::Version(1));
        db.remove(&key);
        if let Some(text) = text {
            db.set_string(&key, text, false, Expiry::Clear);
        }
        local.publish_counts();
        keyspace.release(held, |_| {});
    };
    assert_eq!(net.say(owner, &format!("RPUSH {z} 0")), "1");
    ["MULTI", &format!("RPUSH {x} 1"), &format!("RPUSH {z} 1"), "EXEC"].iter().for_each(|words| net.send(begun, words));
    while net.replies(begun).iter().all(|reply| !shown(reply).starts_with('[')) {
        net.turns(1);
    }
    become_other(Some(b"text"));
    net.send(client, &format!("LLEN {z}"));
    looks(&mut net);
    let damaged = "-CLUSTERDOWN The command was not executed: its keys are locked by a committed transaction that cannot be applied, because a key is damaged";
    assert_eq!(net.heard(client), [damaged]);
    for command in [format!("SET {z} 1"), format!("MSET {x} 2 {z} 2"), "DBSIZE".into()] {
        assert_eq!(net.say(client, &command), damaged, "{command}");
    }
    assert_eq!(net.say(owner, &format!("LLEN {x}")), "1");
    assert!(net.say(owner, "INFO stats").contains("transactions_over_nodes_in_doubt:1"));
    become_other(None);
    looks(&mut net);
    assert_eq!(net.say(client, &format!("LRANGE {z} 0 -1")), "[1]");
    assert!(net.is_quiet() && net.say(owner, "INFO stats").contains("transactions_over_nodes_in_doubt:0"));
}

/// A command that waits for a node that answers is not refused: the node may be at work.
#[test]
fn a_transaction_that_a_node_has_yet_to_come_to_is_no_doubt() {
    let mut net = Net::new(3, 1, 2);
    let [begun, slow, other] = [0, 1, 2].map(|node| net.connect(node));
    let [x, y, z] = [0, 1, 2].map(|i| key_of(i, 3, "k"));
    assert_eq!(net.say(begun, &format!("MSET {x} 0 {y} 0 {z} 0")), "OK");
    net.sleep(3000);
    assert_eq!(net.say(slow, "CLIENT PAUSE 20000 WRITE"), "OK");
    net.send(begun, &format!("MSET {x} 1 {y} 1 {z} 1"));
    net.run();
    net.send(other, &format!("INCR {z}"));
    looks(&mut net);
    assert!(net.heard(other).is_empty(), "it waits");
    looks(&mut net);
    looks(&mut net);
    assert_eq!(net.heard(other), ["2"]);
    assert_eq!(net.heard(begun), ["OK"]);
}

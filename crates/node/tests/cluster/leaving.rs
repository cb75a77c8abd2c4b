//! Nodes that shut down: executed commands are answered, others are refused, and other nodes know which.

use crate::net::{Net, key_of, keys};

const REFUSED: &str = "-CLUSTERDOWN The node at 10.0.0.2:7001 cannot be reached: the command was not executed there";

#[test]
fn what_an_owner_has_executed_is_answered_before_it_ends_and_what_it_has_not_is_refused() {
    for seed in 1..10 {
        let mut net = Net::logged(3, 1 + seed as usize % 2, seed, "always");
        let keys: [String; 3] = keys(3);
        let clients: Vec<usize> = (0..4).map(|i| net.connect(i % 2 * 2)).collect();
        let waits = net.connect(0);
        net.send(waits, &format!("BLPOP {} 0", key_of(1, 3, "list")));
        clients.iter().for_each(|client| assert_eq!(net.say(*client, &format!("INCRBY {} 0", keys[1])), "0"));
        net.run();
        net.hang_log(1, true);
        for client in &clients[..2] {
            assert!(net.pipeline(*client, &[&format!("INCR {}", keys[1])]).is_empty());
        }
        net.node(1).stop();
        net.run();
        for client in &clients {
            assert!(net.pipeline(*client, &[&format!("INCR {}", keys[1])]).is_empty(), "seed {seed}");
        }
        net.hang_log(1, false);
        let mut replies: Vec<Vec<String>> = clients.iter().map(|client| net.heard(*client)).collect();
        replies.sort();
        let refused = REFUSED.to_owned();
        let alone = vec![refused.clone()];
        let expected =
            [alone.clone(), alone, vec!["1".to_owned(), refused.clone()], vec!["2".to_owned(), refused.clone()]];
        assert_eq!(replies, expected, "seed {seed}");
        assert_eq!(net.heard(waits), [refused], "seed {seed}: who waits there waits no more");
        assert!(net.clients.iter().all(|client| !client.closed), "seed {seed}");
        net.sleep(20);
        assert_eq!(net.say(clients[0], &format!("SET {} x", keys[1])), REFUSED);
        assert_eq!(net.say(clients[0], &format!("SET {} x", keys[2])), "OK");
    }
}

#[test]
fn a_block_that_an_owner_has_not_executed_is_refused_as_a_whole() {
    let mut net = Net::logged(2, 1, 1, "always");
    let (key, client) = (key_of(1, 2, "k"), net.connect(0));
    assert_eq!(net.say(client, &format!("SET {key} before")), "OK");
    net.hang_log(1, true);
    assert!(net.pipeline(client, &[&format!("SET {key} after")]).is_empty());
    net.node(1).stop();
    net.run();
    let block = [format!("WATCH {key}"), "MULTI".into(), format!("APPEND {key} x"), "EXEC".into()];
    assert!(net.pipeline(client, &block.each_ref().map(String::as_str)).is_empty());
    net.hang_log(1, false);
    net.run();
    // The next words go over another link, if there is one.
    net.sleep(20);
    assert_eq!(net.heard(client), ["OK", REFUSED, "OK", "QUEUED", REFUSED]);
    assert!(!net.clients[client].closed);
}

#[test]
fn clients_of_a_node_that_shuts_down_are_answered_by_others_first() {
    let mut net = Net::logged(2, 1, 3, "always");
    let (key, client, waits) = (key_of(1, 2, "k"), net.connect(0), net.connect(0));
    net.send(waits, &format!("BLPOP {} 0", key_of(1, 2, "list")));
    assert_eq!(net.say(client, "PING"), "PONG");
    net.hang_log(1, true);
    assert!(net.pipeline(client, &[&format!("INCR {key}")]).is_empty());
    net.node(0).stop();
    assert!(net.pipeline(client, &["PING"]).is_empty(), "nothing more is executed");
    assert!(!net.clients[client].closed && !net.clients[waits].closed);
    net.hang_log(1, false);
    assert_eq!(net.heard(client), ["1"]);
    assert!(net.clients[client].closed && net.clients[waits].closed);
}

#[test]
fn nobody_waits_long_for_a_node_that_shuts_down() {
    let mut net = Net::logged(2, 1, 3, "always");
    let (key, client) = (key_of(1, 2, "k"), net.connect(0));
    assert_eq!(net.say(client, &format!("INCR {key}")), "1");
    net.hang_log(1, true);
    assert!(net.pipeline(client, &[&format!("INCR {key}")]).is_empty());
    net.node(1).stop();
    net.run();
    net.sleep(2_500);
    assert!(!net.clients[client].closed);
    net.sleep(600);
    assert!(net.clients[client].closed, "nobody knows whether it was executed");
}

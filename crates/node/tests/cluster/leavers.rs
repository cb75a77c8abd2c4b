//! Clients close their connections while a command of theirs waits, for any reason: they are gone, and it is not
//! executed.

use std::sync::Arc;

use membership::Map;
use membership::map::Node as Member;

use crate::net::{Net, even_map, key_of};

/// Longer than a command of a client that has gone goes on waiting.
const LONG_MS: u64 = 300;

/// The client's ID, as CLIENT LIST shows it.
fn id(net: &mut Net, client: usize) -> String {
    format!("id={} ", net.say(client, "CLIENT ID"))
}

/// True if another client of the same node finds it in the list.
fn is_listed(net: &mut Net, other: usize, id: &str) -> bool {
    net.say(other, "CLIENT LIST").lines().any(|line| line.starts_with(id))
}

#[test]
fn who_closes_during_a_pause_is_gone_at_once() {
    let mut net = Net::new(2, 1, 3);
    let (client, other) = (net.connect(0), net.connect(0));
    let (id, key) = (id(&mut net, client), key_of(0, 2, "k"));
    assert_eq!(net.say(other, "CLIENT PAUSE 100000 WRITE"), "OK");
    net.send(client, &format!("SET {key} 1"));
    net.run();
    assert!(is_listed(&mut net, other, &id), "it waits");
    net.end(client);
    net.run();
    assert!(net.clients[client].closed && !is_listed(&mut net, other, &id), "no time has passed");
    assert!(net.say(other, "INFO clients").contains("blocked_clients:0"));
    assert_eq!(net.say(other, "CLIENT UNPAUSE"), "OK");
    net.sleep(LONG_MS);
    assert_eq!(net.say(other, &format!("GET {key}")), "nil");
}

#[test]
fn so_is_who_closes_during_a_pause_of_another_node() {
    let mut net = Net::new(2, 1, 3);
    let (client, other, there) = (net.connect(0), net.connect(0), net.connect(1));
    let (id, key) = (id(&mut net, client), key_of(1, 2, "k"));
    assert_eq!(net.say(there, "CLIENT PAUSE 100000 WRITE"), "OK");
    net.send(client, &format!("SET {key} 1"));
    net.run();
    net.end(client);
    net.sleep(LONG_MS);
    assert!(net.clients[client].closed && !is_listed(&mut net, other, &id));
    net.run();
    assert_eq!(net.say(there, "CLIENT UNPAUSE"), "OK");
    net.sleep(LONG_MS);
    assert_eq!(net.say(there, &format!("GET {key}")), "nil");
}

/// A command has keys of several nodes, one of which holds its part back. The part is withdrawn, so the command does
/// nothing.
#[test]
fn so_is_who_closes_while_another_node_holds_back_a_part() {
    let mut net = Net::new(3, 1, 3);
    let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    let [one, two, three] = &keys;
    let (client, other, there) = (net.connect(0), net.connect(0), net.connect(1));
    let id = id(&mut net, client);
    assert_eq!(net.say(there, "CLIENT PAUSE 100000 WRITE"), "OK");
    net.send(client, &format!("MSET {one} 1 {two} 1 {three} 1"));
    net.run();
    net.end(client);
    net.sleep(LONG_MS);
    assert!(net.clients[client].closed && !is_listed(&mut net, other, &id));
    net.run();
    assert_eq!(net.say(other, &format!("MGET {one} {three}")), "[nil nil]", "the keys of the others are free");
    assert_eq!(net.say(there, "CLIENT UNPAUSE"), "OK");
    net.sleep(LONG_MS);
    assert_eq!(net.say(other, &format!("MGET {one} {two} {three}")), "[nil nil nil]");
}

#[test]
fn who_closes_while_the_log_has_too_much_to_write_is_gone() {
    let mut net = Net::logged(1, 1, 3, "always");
    let [writer, waiting, hasty, other] = [0; 4].map(|node| net.connect(node));
    assert_eq!(net.say(other, "CONFIG SET log-backlog 65536"), "OK");
    let ids = [writer, waiting].map(|client| id(&mut net, client));
    net.hang_log(0, true);
    net.send(writer, &format!("SET large {}", "x".repeat(1 << 20)));
    net.run();
    net.send(waiting, "SET k 1");
    net.run();
    [writer, waiting].into_iter().for_each(|client| net.end(client));
    net.sleep(LONG_MS - 1);
    assert!(is_listed(&mut net, other, &ids[1]), "it goes on waiting for a moment");
    net.send(hasty, "SET hasty 1");
    net.run();
    net.end(hasty);
    net.sleep(1);
    assert!(net.clients[waiting].closed && !ids.iter().any(|id| is_listed(&mut net, other, id)));
    net.hang_log(0, false);
    assert_eq!(net.heard(writer), ["OK"], "it was executed, and may be heard of");
    assert_eq!(net.heard(hasty), ["OK"], "a moment is not long");
    net.sleep(LONG_MS);
    assert_eq!(net.say(other, "MGET k hasty"), "[nil 1]");
    assert!([writer, waiting, hasty].iter().all(|client| net.clients[*client].closed));
}

#[test]
fn who_closes_while_a_link_is_full_is_gone() {
    let mut net = Net::new(2, 1, 3);
    let (key, free) = (key_of(1, 2, "k"), key_of(1, 2, "free"));
    let other = net.connect(0);
    assert_eq!(net.say(other, &format!("GET {key}")), "nil", "there is a link");
    let clients: Vec<usize> = (0..8).map(|_| net.connect(0)).collect();
    let clients: Vec<(usize, String)> = clients.into_iter().map(|client| (client, id(&mut net, client))).collect();
    net.stalled = vec![1];
    let large = "x".repeat(3 << 20);
    for (client, _) in &clients {
        net.send(*client, &format!("APPEND {key} {large}"));
    }
    net.run();
    let last = net.connect(0);
    net.send(last, &format!("SET {free} 1"));
    net.run();
    net.end(last);
    clients.iter().for_each(|(client, _)| net.end(*client));
    net.sleep(LONG_MS);
    assert!(!clients.iter().any(|(_, id)| is_listed(&mut net, other, id)));
    net.stalled.clear();
    (0..10).for_each(|_| net.sleep(LONG_MS));
    assert_eq!(net.say(other, &format!("GET {free}")), "nil");
    let length: usize = net.say(other, &format!("STRLEN {key}")).parse().unwrap();
    assert!(length < 8 * large.len(), "those that have not left are not executed: {length}");
}

#[test]
fn who_closes_while_an_owner_waits_for_the_map_is_gone() {
    let mut net = Net::new(2, 1, 2);
    let (client, other, there) = (net.connect(0), net.connect(0), net.connect(1));
    let (id, far) = (id(&mut net, client), key_of(1, 2, "k"));
    let even = even_map(2, 2);
    let nodes = even.nodes().iter().map(|node| Member { epoch: 2, ..node.clone() }).collect();
    let newer = Arc::new(Map::new(even.cluster(), 2, 2, nodes, even.ranges().to_vec()));
    net.cluster(0).set_map(newer.clone());
    net.send(client, &format!("SET {far} 1"));
    net.run();
    net.end(client);
    net.sleep(LONG_MS);
    assert!(!is_listed(&mut net, other, &id));
    net.run();
    net.cluster(1).set_map(newer);
    net.sleep(LONG_MS);
    assert_eq!(net.say(there, &format!("GET {far}")), "nil");
}

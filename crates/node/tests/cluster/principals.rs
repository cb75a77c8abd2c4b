//! Forwarded commands name their user to owners, at a level at which all nodes do (rule U1).

use std::sync::Arc;

use membership::items::Principal;
use membership::level;
use node::Table;
use node::config::{Arguments, Disk, load};

use crate::net::{Net, even_map};

/// Gives all nodes the same two users.
fn two_users(net: &Net) -> [Principal; 2] {
    let mut lines = || Ok(b"user a on nopass ~* &* +@all\nuser b on nopass ~* &* +@all".to_vec());
    let loaded = load(&Arguments::parse(&[b"-".to_vec()]), &Disk, &mut lines).unwrap();
    for node in 0..3 {
        let users = node::users::configured(&Table::new(), &loaded).unwrap();
        node::users::begin(net.node(node), users).unwrap();
    }
    [Principal { user: 1, revision: 1 }, Principal { user: 2, revision: 1 }]
}

/// The users whose commands run at a node for others.
fn users(net: &Net, node: usize) -> Vec<Principal> {
    let mut all = net.principals(node);
    all.sort_by_key(|principal| principal.user);
    all
}

#[test]
fn owners_know_for_whom_commands_are_forwarded() {
    let (mut net, [client, other, _], [_, b, _]) = Net::three(1, 3);
    let [first, second] = two_users(&net);
    assert!(net.acts_as(client, first));
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert_eq!(users(&net, 1), [first], "from when its connection is opened there");
    assert!(net.acts_as(client, second));
    assert_eq!(net.say(client, &format!("GET {b}")), "1");
    assert_eq!(users(&net, 1), [second], "and when it is another one");
    // No client has become another user at the owner of the keys.
    assert_eq!(net.say(other, &format!("GET {b}")), "1");
    assert_eq!(users(&net, 1), [second]);
    net.send(client, &format!("BLPOP {{{b}}}l 0"));
    net.run();
    assert!(!net.acts_as(client, first), "a client that is owed replies does not become another user");
}

#[test]
fn below_the_level_nobody_is_told() {
    let (mut net, [client, ..], [_, b, _]) = Net::three(1, 3);
    for node in 0..3 {
        net.cluster(node).set_map(Arc::new(even_map(3, 2).with_level(level::PRINCIPALS - 1)));
    }
    let [first, second] = two_users(&net);
    assert!(net.acts_as(client, first));
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert_eq!(users(&net, 1), [Principal::default()]);
    for node in 0..3 {
        net.cluster(node).set_map(Arc::new(even_map(3, 3)));
    }
    assert!(net.acts_as(client, second));
    assert_eq!(net.say(client, &format!("GET {b}")), "1");
    assert_eq!(users(&net, 1), [second], "a connection that was there before hears it as well");
}

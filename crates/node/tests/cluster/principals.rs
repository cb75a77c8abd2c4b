//! For whom commands are forwarded: owners know it, at a level at which all nodes speak of it (rule U1).

use std::sync::Arc;

use membership::items::Principal;
use membership::level;

use crate::net::{Net, even_map};

/// The users of which commands run at a node for others.
fn users(net: &Net, node: usize) -> Vec<Principal> {
    let mut all = net.principals(node);
    all.sort_by_key(|principal| principal.user);
    all
}

#[test]
fn owners_know_for_whom_commands_are_forwarded() {
    let (mut net, [client, other, _], [_, b, _]) = Net::three(1, 3);
    let [first, second] = [Principal { user: 7, revision: 3 }, Principal { user: 8, revision: 4 }];
    assert!(net.acts_as(client, first));
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert_eq!(users(&net, 1), [first], "from when its connection is opened there");
    assert!(net.acts_as(client, second));
    assert_eq!(net.say(client, &format!("GET {b}")), "1");
    assert_eq!(users(&net, 1), [second], "and when it is another one");
    // Nobody has become another user at the node that owns the keys.
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
    assert!(net.acts_as(client, Principal { user: 7, revision: 3 }));
    assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
    assert_eq!(users(&net, 1), [Principal::default()]);
    for node in 0..3 {
        net.cluster(node).set_map(Arc::new(even_map(3, 3)));
    }
    let now = Principal { user: 7, revision: 4 };
    assert!(net.acts_as(client, now));
    assert_eq!(net.say(client, &format!("GET {b}")), "1");
    assert_eq!(users(&net, 1), [now], "a connection that was there before hears it as well");
}

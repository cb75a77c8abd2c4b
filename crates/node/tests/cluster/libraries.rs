//! Libraries of functions belong to the cluster: they are in its metadata.

use crate::net::Net;

fn library(name: &str, value: u32) -> String {
    format!("#!lua name={name}\nredis.register_function('{name}', function() return {value} end)")
}

/// FUNCTION DUMP of one library.
fn dumped(name: &str, value: u32) -> Vec<u8> {
    let mut machine = script::Machine::new(script::Limits::default()).unwrap();
    script::dump_libraries([&script::load_library(&mut machine, library(name, value).as_bytes()).unwrap()])
}

#[test]
fn all_nodes_have_what_any_has_been_asked_to_change() {
    let mut net = Net::new(3, 1, 3);
    net.keeps_libraries();
    let clients = [0, 1, 2].map(|node| net.connect(node));
    let called = |net: &mut Net, name: &str| clients.map(|client| net.say(client, &format!("FCALL {name} 0")));
    assert_eq!(net.arrange(clients[0], &["FUNCTION", "LOAD", &library("a", 1)]), "a");
    assert_eq!(net.arrange(clients[1], &["FUNCTION", "LOAD", &library("b", 2)]), "b");
    assert_eq!((called(&mut net, "a"), called(&mut net, "b")), (["1"; 3].map(Into::into), ["2"; 3].map(Into::into)));
    // A change that Redis refuses is refused at once, and does nothing.
    let refused = |net: &mut Net, words: &[&str]| net.say_words(clients[2], words);
    let again = refused(&mut net, &["FUNCTION", "LOAD", &library("a", 3)]);
    assert_eq!(again, "-ERR Library 'a' already exists");
    assert_eq!(refused(&mut net, &["FUNCTION", "DELETE", "c"]), "-ERR Library not found");
    let function = library("c", 3).replace("'c'", "'a'");
    assert_eq!(refused(&mut net, &["FUNCTION", "LOAD", &function]), "-ERR Function a already exists");
    assert!(refused(&mut net, &["FUNCTION", "LOAD", "#!lua name=d\n)"]).starts_with("-ERR Error compiling function"));
    assert_eq!(called(&mut net, "a"), ["1"; 3]);
    assert_eq!(net.arrange(clients[2], &["FUNCTION", "LOAD", "REPLACE", &library("a", 4)]), "a");
    assert_eq!(called(&mut net, "a"), ["4"; 3]);
    assert_eq!(net.arrange(clients[1], &["FUNCTION", "DELETE", "a"]), "OK");
    assert_eq!(called(&mut net, "a"), ["-ERR Function not found"; 3]);
    assert_eq!(net.arrange(clients[1], &["FUNCTION", "FLUSH"]), "OK");
    assert_eq!(called(&mut net, "b"), ["-ERR Function not found"; 3]);
}

#[test]
fn a_change_is_made_from_what_others_have_made_meanwhile() {
    let mut net = Net::new(2, 1, 3);
    let librarian = net.keeps_libraries();
    let client = net.connect(0);
    librarian.changes(dumped("b", 2));
    assert_eq!(net.arrange(client, &["FUNCTION", "LOAD", &library("a", 1)]), "a");
    assert_eq!(net.say(client, "FCALL a 0"), "1");
    assert_eq!(net.say(client, "FCALL b 0"), "2", "it is not lost");
    librarian.changes(dumped("c", 3));
    let again = net.arrange(client, &["FUNCTION", "LOAD", &library("c", 4)]);
    assert_eq!(again, "-ERR Library 'c' already exists");
    librarian.fails("no majority");
    assert_eq!(net.arrange(client, &["FUNCTION", "FLUSH"]), "-ERR no majority");
    assert_eq!(net.say(client, "FCALL c 0"), "3");
}

#[test]
fn who_has_no_lease_neither_changes_libraries_nor_calls_functions() {
    let mut net = Net::new(2, 1, 3);
    net.keeps_libraries();
    let client = net.connect(0);
    assert_eq!(net.arrange(client, &["FUNCTION", "LOAD", &library("a", 1)]), "a");
    net.lease(0, 0);
    let load = library("b", 2);
    for words in [&["FUNCTION", "LOAD", &load][..], &["FCALL", "a", "0"], &["FCALL", "b", "0"], &["FCALL_RO", "a", "0"]]
    {
        let reply = net.say_words(client, words);
        assert!(reply.starts_with("-CLUSTERDOWN this node has no lease"), "{words:?}: {reply}");
    }
    for words in [&["MULTI"][..], &["FCALL", "a", "0"], &["EXEC"]] {
        net.send_words(client, words);
    }
    let reply = net.heard(client).pop().unwrap();
    assert!(reply.contains("CLUSTERDOWN this node has no lease"), "{reply}");
    net.lease(0, u64::MAX);
    assert_eq!(net.say(client, "FCALL a 0"), "1");
}

#[test]
fn they_are_not_changed_in_blocks() {
    for nodes in [1, 2] {
        let mut net = Net::new(nodes, 1, 3);
        net.keeps_libraries();
        let client = net.connect(0);
        for words in [&["MULTI"][..], &["FUNCTION", "FLUSH"], &["EXEC"]] {
            net.send_words(client, words);
        }
        let reply = net.heard(client).pop().unwrap();
        let why = if nodes == 1 { "cannot be changed in a block" } else { "works on more than its keys" };
        assert!(reply.contains(why), "{nodes} nodes: {reply}");
    }
}

/// Smart clients ask each node for the same change.
#[test]
fn smart_clients_ask_every_node_for_the_same_change() {
    let mut net = Net::new(3, 1, 2);
    net.keeps_libraries();
    let clients = [0, 1, 2].map(|node| net.connect_smart(node));
    for client in clients {
        assert_eq!(net.arrange(client, &["FUNCTION", "LOAD", &library("a", 1)]), "a");
    }
    let other = net.arrange(clients[0], &["FUNCTION", "LOAD", &library("a", 2)]);
    assert_eq!(other, "-ERR Library 'a' already exists");
    assert_eq!(clients.map(|client| net.say(client, "FCALL a 0")), ["1"; 3]);
    for client in clients {
        assert_eq!(net.arrange(client, &["FUNCTION", "DELETE", "a"]), "OK");
    }
    assert!(net.say(clients[0], "FCALL a 0").starts_with("-ERR Function not found"));
}

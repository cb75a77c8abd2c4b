//! Smart clients: they use a port of their own, find the owner of a key by themselves, and ask every node.

use resp::Value;

use crate::net::{Net, key_of};

/// A smart client of each node, and a plain one.
fn clients(net: &mut Net) -> ([usize; 3], usize) {
    ([0, 1, 2].map(|node| net.connect_smart(node)), net.connect(0))
}

fn fill(net: &mut Net, client: usize, keys: usize) {
    for i in 0..keys {
        assert_eq!(net.say(client, &format!("SET key:{i} v")), "OK");
    }
}

/// All keys that a scan finds, repeated ones included.
fn scan(net: &mut Net, client: usize) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let Value::Array(reply) = net.ask(client, &format!("SCAN {cursor} COUNT 7")) else { panic!("a page") };
        let [Value::Bulk(next), Value::Array(page)] = &reply[..] else { panic!("{reply:?}") };
        keys.extend(page.iter().map(|key| format!("{key:?}")));
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn each_node_answers_smart_clients_for_itself_and_others_for_all() {
    let mut net = Net::new(3, 1, 2);
    let (smart, simple) = clients(&mut net);
    fill(&mut net, simple, 100);
    let sizes = smart.map(|client| net.say(client, "DBSIZE").parse::<usize>().unwrap());
    assert!(sizes.iter().sum::<usize>() == 100 && sizes.iter().all(|size| *size > 0), "{sizes:?}");
    assert_eq!(net.say(simple, "DBSIZE"), "100");
    let found: Vec<Vec<String>> = smart.iter().map(|client| scan(&mut net, *client)).collect();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
    assert_eq!(scan(&mut net, simple).len(), 100);
    for (client, size) in smart.into_iter().zip(sizes) {
        let Value::Array(keys) = net.ask(client, "KEYS *") else { panic!("keys") };
        assert_eq!(keys.len(), size);
    }
    let (near, far) = (net.connect_smart(0), net.connect_smart(1));
    net.ask(near, "SUBSCRIBE news");
    net.ask(far, "SUBSCRIBE news");
    assert_eq!(smart.map(|client| net.say(client, "PUBSUB NUMSUB news")), ["[news 1]", "[news 1]", "[news 0]"]);
    assert_eq!(net.say(simple, "PUBSUB NUMSUB news"), "[news 2]");
    assert_eq!(net.say(smart[2], "PUBLISH news hello"), "2");
    assert_eq!(net.say(smart[1], "FLUSHALL"), "OK");
    assert_eq!(net.say(simple, "DBSIZE"), (sizes[0] + sizes[2]).to_string(), "one node's slots alone");
    assert_eq!(net.say(smart[1], "DBSIZE"), "0");
}

#[test]
fn a_smart_client_is_told_where_a_key_is() {
    let mut net = Net::new(3, 1, 2);
    let (smart, simple) = clients(&mut net);
    let (near, far) = (key_of(0, 3, "k"), key_of(2, 3, "k"));
    let slot = keyspace::slot_of(far.as_bytes());
    let moved = format!("-MOVED {slot} 10.0.0.3:8002");
    assert_eq!(net.say(simple, &format!("SET {far} 1")), "OK");
    for command in ["GET", "WATCH"] {
        assert_eq!(net.say(smart[0], &format!("{command} {far}")), moved);
    }
    assert_eq!(net.say(smart[0], &format!("EVAL return(1) 1 {far}")), moved);
    assert_eq!(net.say(smart[0], &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "0", "what this node has of it");
    assert_eq!(net.say(smart[2], &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "1");
    assert_eq!(net.say(smart[0], &format!("MGET {near} {far}")), "[nil 1]", "keys of several nodes need no other map");
    // RESET undoes it. CLUSTER REDIRECT is for this connection alone.
    assert_eq!(net.say(smart[0], "CLUSTER REDIRECT forward"), "OK");
    assert_eq!(net.say(smart[0], &format!("GET {far}")), "1");
    assert_eq!(net.say(smart[0], "RESET"), "RESET");
    assert_eq!(net.say(smart[0], &format!("GET {far}")), moved);
}

#[test]
fn blocks_and_scripts_of_smart_clients_run_over_nodes() {
    let mut net = Net::new(3, 1, 2);
    let (smart, _) = clients(&mut net);
    let [a, b, c] = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    for (command, reply) in
        [("MULTI", "OK"), ("INCR a", "QUEUED"), ("INCR b", "QUEUED"), ("INCR c", "QUEUED"), ("EXEC", "[1 1 1]")]
    {
        let command = command.replace(" a", &format!(" {a}")).replace(" b", &format!(" {b}"));
        assert_eq!(net.say(smart[0], &command.replace(" c", &format!(" {c}"))), reply, "{command}");
    }
    // A block that begins with a key of another node is meant for that node.
    assert_eq!(net.say(smart[0], "MULTI"), "OK");
    assert!(net.say(smart[0], &format!("INCR {b}")).starts_with("-MOVED"));
    assert!(net.say(smart[0], "EXEC").starts_with("-EXECABORT"));
    // A block of a client that watches a key of this node is not.
    for (command, reply) in
        [(format!("WATCH {a}"), "OK"), ("MULTI".into(), "OK"), (format!("INCR {b}"), "QUEUED"), ("EXEC".into(), "[2]")]
    {
        assert_eq!(net.say(smart[0], &command), reply, "{command}");
    }
    let script = "return{redis.call('incr',KEYS[1]),redis.call('incr',KEYS[2])}";
    assert_eq!(net.say(smart[0], &format!("EVAL {script} 2 {a} {b}")), "[2 3]");
    let script = format!("return{{redis.call('incr','{b}'),redis.call('incr','{c}')}}");
    assert_eq!(net.say(smart[0], &format!("EVAL {script} 0")), "[4 2]", "keys that it has not declared");
}

//! HOTKEYS and CLUSTER SLOT-STATS: every node tells of its own keys and slots, whichever node their clients talk to.

use resp::Value;

use crate::net::{Net, key_of, keys, shown};

/// A field of HOTKEYS GET.
fn found(net: &mut Net, client: usize, field: &str) -> String {
    let Value::Array(all) = net.ask(client, "HOTKEYS GET") else { panic!("a list") };
    let Some(Value::Array(fields)) = all.first() else { panic!("a map in it: {all:?}") };
    let at = fields.chunks(2).find(|pair| shown(&pair[0]) == field);
    at.map_or_else(|| panic!("no {field} in {fields:?}"), |pair| shown(&pair[1]))
}

/// The names of the keys with most bytes, sorted.
fn hot(net: &mut Net, client: usize) -> Vec<String> {
    let text = found(net, client, "by-net-bytes");
    let words = text.trim_matches(['[', ']']).split(' ').filter(|word| !word.is_empty());
    let mut names: Vec<String> = words.step_by(2).map(str::to_owned).collect();
    names.sort();
    names
}

fn tracking(net: &mut Net) -> [usize; 3] {
    let clients = [0, 1, 2].map(|node| net.connect(node));
    for client in clients {
        assert_eq!(net.say(client, "HOTKEYS START METRICS 2 CPU NET"), "OK");
    }
    clients
}

#[test]
fn the_owner_of_a_key_tells_of_it() {
    let mut net = Net::new(3, 2, 5);
    let [zero, one, two] = tracking(&mut net);
    let key = key_of(1, 3, "hot");
    for client in [zero, one, two] {
        for _ in 0..5 {
            assert_eq!(net.say(client, &format!("SET {key} value")), "OK");
        }
    }
    assert_eq!([hot(&mut net, zero), hot(&mut net, one), hot(&mut net, two)], [vec![], vec![key.clone()], vec![]]);
    // The request and "+OK": 15 times.
    let bytes = 15 * ("*3\r\n$3\r\nSET\r\n$5\r\nvalue\r\n".len() + format!("${}\r\n{key}\r\n", key.len()).len() + 5);
    assert_eq!(found(&mut net, one, "by-net-bytes"), format!("[{key} {bytes}]"));
    assert_eq!(found(&mut net, one, "total-net-bytes"), bytes.to_string());
    assert_eq!(found(&mut net, zero, "selected-slots"), "[[0 5460]]");
    assert_eq!(found(&mut net, two, "selected-slots"), "[[10922 16383]]");
}

#[test]
fn parts_of_transactions_are_told_by_the_owners_of_their_keys() {
    let mut net = Net::new(3, 2, 5);
    let clients = tracking(&mut net);
    let all: [String; 3] = keys(3);
    let [a, b, c] = &all;
    assert_eq!(net.say(clients[0], &format!("MSET {a} 1 {b} 2 {c} 3")), "OK");
    assert_eq!(clients.map(|client| hot(&mut net, client)), all.clone().map(|key| vec![key]));
    for client in clients {
        assert_eq!(net.say(client, "HOTKEYS STOP"), "OK");
        assert_eq!(net.say(client, "HOTKEYS START METRICS 1 NET"), "OK");
    }
    for line in ["MULTI", &format!("INCR {a}"), &format!("INCR {c}"), "EXEC"] {
        net.send(clients[1], line);
    }
    assert_eq!(net.heard(clients[1]).last().map(String::as_str), Some("[2 4]"));
    assert_eq!(clients.map(|client| hot(&mut net, client)), [vec![a.clone()], vec![], vec![c.clone()]]);
    // A script over nodes runs at one of them, which tells of its own keys alone.
    for client in clients {
        assert_eq!(net.say(client, "HOTKEYS STOP"), "OK");
        assert_eq!(net.say(client, "HOTKEYS START METRICS 1 NET"), "OK");
    }
    assert_eq!(net.say_words(clients[0], &["EVAL", "return redis.call('GET', KEYS[2])", "2", a, c]), "4");
    assert_eq!(clients.map(|client| hot(&mut net, client)), [vec![a.clone()], vec![], vec![]]);
}

#[test]
fn slots_are_selected_among_the_nodes_own() {
    let mut net = Net::new(3, 1, 5);
    let client = net.connect(0);
    for (slots, reply) in [
        ("2 0 5461", "-ERR slot 5461 not handled by this node"),
        ("2 0", "-ERR not enough slot numbers provided"),
        ("2 0 0", "-ERR duplicate slot number"),
        ("1 0 SLOTS 1 5", "-ERR SLOTS parameter already specified"),
        ("1 -1", "-ERR Invalid or out of range slot"),
        ("1 16384", "-ERR Invalid or out of range slot"),
        ("0", "-ERR SLOTS count must be between 1 and 16384"),
        ("6 10 5 1 0 6 2 SAMPLE 1", "OK"),
    ] {
        assert_eq!(net.say(client, &format!("HOTKEYS START METRICS 1 NET SLOTS {slots}")), reply, "{slots}");
    }
    assert_eq!(found(&mut net, client, "selected-slots"), "[[0 2] [5 6] [10]]");
    let in_slot = |net: &mut Net, low: u16, high: u16| {
        let range = low..=high;
        let name = (0..).map(|n: u32| format!("{{{n}}}k")).find(|k| range.contains(&keyspace::slot_of(k.as_bytes())));
        let name = name.expect("a name");
        assert_eq!(net.say(client, &format!("SET {name} x")), "OK");
        name
    };
    let selected = in_slot(&mut net, 5, 6);
    in_slot(&mut net, 11, 1000);
    assert_eq!(hot(&mut net, client), [selected]);
    let bytes = |net: &mut Net, field: &str| found(net, client, field).parse::<u64>().expect("a number");
    let (some, all) =
        (bytes(&mut net, "net-bytes-all-commands-selected-slots"), bytes(&mut net, "net-bytes-all-commands-all-slots"));
    assert!(some > 0 && some < all, "{some} of {all}");
}

/// The reply of CLUSTER SLOT-STATS about the slot of a key.
fn stats(net: &mut Net, client: usize, key: &str) -> String {
    let slot = keyspace::slot_of(key.as_bytes());
    net.say(client, &format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}"))
}

#[test]
fn slots_have_statistics_at_their_owners() {
    let mut net = Net::with(3, 2, 5, &[("cluster-slot-stats-enabled", "net")]);
    let clients = [0, 1, 2].map(|node| net.connect(node));
    let [zero, one, two] = clients;
    let key = key_of(1, 3, "k");
    let slot = keyspace::slot_of(key.as_bytes());
    let request = |words: &[&str]| {
        let mut bytes = Vec::new();
        resp::append_request(&mut bytes, words);
        bytes.len()
    };
    let told = |keys: u64, bytes_in: usize, bytes_out: usize| {
        format!("[[{slot} [key-count {keys} network-bytes-in {bytes_in} network-bytes-out {bytes_out}]]]")
    };
    assert_eq!(net.say(zero, &format!("SET {key} value")), "OK");
    let (mut bytes_in, mut bytes_out) = (request(&["SET", &key, "value"]), 5);
    assert_eq!(stats(&mut net, one, &key), told(1, bytes_in, bytes_out));
    assert_eq!([stats(&mut net, zero, &key), stats(&mut net, two, &key)], ["[]", "[]"]);
    // A block counts as a whole, with MULTI and EXEC.
    for line in ["MULTI", &format!("GET {key}"), &format!("STRLEN {key}"), "EXEC"] {
        net.send(one, line);
    }
    net.heard(one);
    let block: [&[&str]; 4] = [&["MULTI"], &["GET", &key], &["STRLEN", &key], &["EXEC"]];
    bytes_in += block.iter().map(|words| request(words)).sum::<usize>();
    bytes_out += "*2\r\n$5\r\nvalue\r\n:5\r\n".len();
    assert_eq!(stats(&mut net, one, &key), told(1, bytes_in, bytes_out));
    // A command that waits counts when it has ended.
    assert_eq!(net.say(one, &format!("DEL {key}")), "1");
    (bytes_in, bytes_out) = (bytes_in + request(&["DEL", &key]), bytes_out + 4);
    let waiter = net.connect(1);
    net.send(waiter, &format!("BLPOP {key} 0"));
    net.run();
    assert_eq!(stats(&mut net, one, &key), told(0, bytes_in, bytes_out));
    assert_eq!(net.say(one, &format!("RPUSH {key} x")), "1");
    bytes_in += request(&["RPUSH", &key, "x"]) + request(&["BLPOP", &key, "0"]);
    bytes_out += 4 + "*2\r\n".len() + format!("${}\r\n{key}\r\n", key.len()).len() + "$1\r\nx\r\n".len();
    assert_eq!(net.heard(waiter), [format!("[{key} x]")]);
    assert_eq!(stats(&mut net, one, &key), told(0, bytes_in, bytes_out));
    assert_eq!(net.say(one, "CONFIG RESETSTAT"), "OK");
    assert_eq!(stats(&mut net, one, &key), told(0, 0, 0));
}

#[test]
fn long_replies_count_as_they_are_written() {
    let mut net = Net::with(2, 1, 5, &[("cluster-slot-stats-enabled", "net")]);
    let client = net.connect(0);
    let key = key_of(0, 2, "long");
    // From 256 KB on a reply is written in steps.
    for _ in 0..40 {
        net.send_words(client, &[&["RPUSH", &key][..], &["0123456789"; 1000]].concat());
    }
    net.heard(client);
    assert_eq!(net.say(client, "HOTKEYS START METRICS 1 NET"), "OK");
    assert_eq!(net.say(client, "CONFIG RESETSTAT"), "OK");
    let Value::Array(all) = net.ask(client, &format!("LRANGE {key} 0 -1")) else { panic!("a list") };
    assert_eq!(all.len(), 40_000);
    let reply = "*40000\r\n".len() + 40_000 * "$10\r\n0123456789\r\n".len();
    let told = stats(&mut net, client, &key);
    assert!(told.ends_with(&format!("network-bytes-out {reply}]]]")), "{told}, not {reply}");
    let mut request = Vec::new();
    resp::append_request(&mut request, &["LRANGE", &key, "0", "-1"]);
    assert_eq!(found(&mut net, client, "by-net-bytes"), format!("[{key} {}]", request.len() + reply));
}

#[test]
fn slots_are_ordered_and_arguments_checked() {
    let mut net = Net::with(3, 1, 5, &[("cluster-slot-stats-enabled", "no")]);
    let client = net.connect(0);
    let named = |n: u32| key_of(0, 3, &format!("{n}"));
    for (name, keys) in [(named(1), 3), (named(2), 1)] {
        for i in 0..keys {
            assert_eq!(net.say(client, &format!("SET {{{name}}}{i} x")), "OK");
        }
    }
    let Value::Array(all) = net.ask(client, "CLUSTER SLOT-STATS ORDERBY key-count") else { panic!("a list") };
    assert_eq!(all.len(), 5461, "the slots of this node alone");
    let Value::Array(top) = net.ask(client, "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2 DESC") else { panic!() };
    let ends: Vec<String> = top.iter().map(shown).collect();
    assert!(ends.len() == 2 && ends[0].ends_with("[key-count 3]]") && ends[1].ends_with("[key-count 1]]"), "{ends:?}");
    assert_eq!(net.say(client, "CLUSTER SLOT-STATS ORDERBY key-count ASC LIMIT 1"), "[[0 [key-count 0]]]");
    for (words, reply) in [
        ("SLOTSRANGE 5 3", "-ERR Start slot number 5 is greater than end slot number 3"),
        ("SLOTSRANGE -1 3", "-ERR Invalid or out of range slot"),
        ("SLOTSRANGE 0 16384", "-ERR Invalid or out of range slot"),
        ("SLOTSRANGE 0", "-ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP."),
        ("ORDERBY cpu-usec", "-ERR Unrecognized sort metric for ORDERBY."),
        ("ORDERBY memory-bytes", "-ERR Unrecognized sort metric for ORDERBY."),
        ("ORDERBY key-count LIMIT 0", "-ERR Limit has to lie in between 1 and 16384 (maximum number of slots)."),
        ("ORDERBY key-count ASC DESC", "-ERR Multiple filters of the same type are disallowed."),
        ("ORDERBY key-count LIMIT 1 LIMIT 1", "-ERR Multiple filters of the same type are disallowed."),
        ("ORDERBY key-count LIMIT", "-ERR syntax error"),
    ] {
        assert_eq!(net.say(client, &format!("CLUSTER SLOT-STATS {words}")), reply, "{words}");
    }
}

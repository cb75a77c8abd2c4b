//! Nodes count, log and show each command of a client once, and nothing that nodes say to each other.

use crate::net::{Net, key_of};

/// Calls of a command, at all nodes together.
fn calls(net: &mut Net, watchers: [usize; 3], command: &str) -> u64 {
    let of = |stats: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    watchers.map(|client| of(&net.say(client, "INFO commandstats"))).iter().sum()
}

/// Commands that nodes have counted together, except those of `watchers`.
fn processed(net: &mut Net, watchers: [usize; 3]) -> u64 {
    let of = |stats: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
        line.trim_end().parse::<u64>().unwrap()
    };
    watchers.map(|client| of(&net.say(client, "INFO stats"))).iter().sum()
}

#[test]
fn each_command_of_a_client_counts_once() {
    let mut net = Net::with(3, 1, 2, &[("notify-keyspace-events", "KEA")]);
    let watchers = [0, 1, 2].map(|node| net.connect(node));
    let (client, listener) = (net.connect(0), net.connect(1));
    net.ask(listener, "PSUBSCRIBE *");
    let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    let [a, b, c] = &keys;
    let before = processed(&mut net, watchers);
    let mut sent = 0;
    let mut say = |net: &mut Net, command: String, counts: u64| {
        let reply = net.say(client, &command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        sent += counts;
    };
    for key in &keys {
        say(&mut net, format!("SET {key} v"), 1);
        say(&mut net, format!("EVAL return(redis.call('get',KEYS[1])) 1 {key}"), 2);
    }
    // Other nodes follow the client's database and protocol, and do not count that.
    for (command, counts) in [
        ("SELECT 1".to_owned(), 1),
        (format!("GET {c}"), 1),
        ("SELECT 0".to_owned(), 1),
        (format!("MSET {a} 1 {b} 2 {c} 3"), 1),
        (format!("MGET {a} {b} {c}"), 1),
        (format!("SUNION {{x}}1 {{x}}2 {a}s {b}s"), 1),
        ("DBSIZE".to_owned(), 1),
        ("KEYS *".to_owned(), 1),
        ("PUBLISH news hello".to_owned(), 1),
        ("SCRIPT LOAD return(1)".to_owned(), 1),
        (format!("WATCH {b} {c}"), 1),
        ("UNWATCH".to_owned(), 1),
    ] {
        say(&mut net, command, counts);
    }
    // A block of another node, one of all nodes, and one of this node.
    for keys in [vec![b, b], vec![a, b, c], vec![a, a]] {
        say(&mut net, "MULTI".to_owned(), 1);
        keys.iter().for_each(|key| say(&mut net, format!("INCR {key}"), 1));
        say(&mut net, "EXEC".to_owned(), 1);
    }
    net.sleep(1);
    // The nodes' count between the two reports of each. The second report does not count itself.
    let counted = processed(&mut net, watchers) - before - 3;
    for (command, count) in [
        ("set", 3),
        ("get", 4),
        ("eval", 3),
        ("mset", 1),
        ("mget", 1),
        ("sunion", 1),
        ("dbsize", 1),
        ("keys", 1),
        ("publish", 1),
        ("script|load", 1),
        ("watch", 1),
        ("unwatch", 1),
        ("multi", 3),
        ("exec", 3),
        ("incr", 7),
        ("select", 2),
        ("hello", 0),
    ] {
        assert_eq!(calls(&mut net, watchers, command), count, "{command}");
    }
    assert_eq!(counted, sent);
}

#[test]
fn what_nodes_tell_each_other_is_neither_logged_nor_shown() {
    let settings = [("notify-keyspace-events", "KEA"), ("slowlog-log-slower-than", "0")];
    let mut net = Net::with(3, 1, 2, &settings);
    let (client, watchers) = (net.connect(0), [0, 1, 2].map(|node| net.connect(node)));
    let monitors = [0, 1, 2].map(|node| net.connect(node));
    for monitor in monitors {
        net.ask(monitor, "MONITOR");
    }
    let keys = [0, 1, 2].map(|node| key_of(node, 3, "k"));
    for key in &keys {
        assert_eq!(net.say(client, &format!("SET {key} v")), "OK");
    }
    assert_eq!(net.say(client, "EVAL return(redis.call('publish','news','hello')) 0"), "0");
    assert_eq!(net.say(client, "PUBLISH mine hello"), "0");
    assert_eq!(net.say(client, &format!("EVAL return(1) 1 {}", keys[1])), "1");
    for key in [&keys[1], &keys[2]] {
        for command in ["MULTI".to_owned(), format!("INCR {key}n"), format!("INCR {key}n"), "EXEC".to_owned()] {
            net.say(client, &command);
        }
    }
    net.sleep(1);
    let shown = monitors.map(|monitor| net.heard(monitor).join("\n").to_lowercase());
    for (words, count) in
        [("\"set\"", 3), ("\"publish\" \"mine\"", 1), ("\"incr\"", 4), ("\"exec\"", 2), ("\"eval\"", 2), ("__key", 0)]
    {
        assert_eq!(shown[0].matches(words).count(), count, "{words}: {}", shown[0]);
    }
    assert_eq!([&shown[1], &shown[2]], ["", ""], "it is the client's node that shows them");
    let logs = watchers.map(|client| net.say(client, "SLOWLOG GET 100").to_lowercase());
    for (node, log) in logs.iter().enumerate() {
        assert!(!log.contains("__key") && !log.contains("[select"), "{node}: {log}");
        assert_eq!(log.matches("[publish mine hello]").count(), usize::from(node == 0), "{node}: {log}");
        assert_eq!(log.matches(&format!("[set {} v]", keys[node])).count(), 1, "{node}: {log}");
    }
}

#[test]
fn exec_is_shown_as_the_client_typed_it() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 6);
    let monitor = net.connect(0);
    net.ask(monitor, "MONITOR");
    // Here, at another node, over nodes that each do their part, and over nodes on copies.
    let blocks = [(&a, "INCR", ""), (&b, "INCR", ""), (&b, "MSET", " 1"), (&b, "RENAME", "")];
    for (key, command, value) in blocks {
        let other = if command == "INCR" { String::new() } else { format!("{value} {c}{value}") };
        for word in ["EXEC", "exec", "eXec"] {
            assert_eq!(net.say(client, &format!("SET {b} 1")), "OK");
            net.say(client, "MULTI");
            net.say(client, &format!("{command} {key}{other}"));
            let reply = net.say(client, word);
            assert!(reply.starts_with('['), "{command}: {reply}");
            let shown = net.heard(monitor).join("\n");
            assert_eq!(shown.matches(&format!("\"{word}\"")).count(), 1, "{command}: {shown}");
            assert_eq!(shown.to_lowercase().matches("\"exec\"").count(), 1, "{command}: {shown}");
        }
    }
}

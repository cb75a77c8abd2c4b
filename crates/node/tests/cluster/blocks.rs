//! MULTI, WATCH and scripts whose keys are those of one other node.

use crate::net::{Net, key_of};

#[test]
fn a_block_of_another_nodes_keys_runs_there() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(0);
    let (a, b) = (key_of(1, 3, "a"), key_of(1, 3, "b"));
    for command in
        ["MULTI".to_owned(), format!("SET {a} 1"), format!("INCRBY {b} 5"), "PING".into(), format!("GET {a}")]
    {
        net.ask(client, &command);
    }
    assert_eq!(net.say(client, "EXEC"), "[OK 5 PONG 1]");
    // Several of them, without waiting.
    let mut commands = Vec::new();
    for i in 0..50 {
        let key = key_of(i % 3, 3, "counter");
        commands.extend(["MULTI".to_owned(), format!("INCR {key}"), format!("INCR {key}"), "EXEC".into()]);
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let replies: Vec<String> = net.pipeline(client, &commands).iter().map(crate::net::shown).collect();
    for i in 0..50 {
        let n = i / 3 * 2;
        assert_eq!(
            replies[i * 4..i * 4 + 4],
            ["OK".into(), "QUEUED".to_owned(), "QUEUED".into(), format!("[{} {}]", n + 1, n + 2)]
        );
    }
}

#[test]
fn a_block_that_selects_a_database_elsewhere_selects_it_here() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let set = format!("SET {far} 4");
    net.pipeline(client, &["MULTI", "SELECT 4", &set, "EXEC"]);
    assert_eq!(net.say(client, &format!("GET {far}")), "4");
    net.ask(client, &format!("SET {near} 4"));
    net.ask(client, "SELECT 0");
    assert_eq!(net.say(client, &format!("EXISTS {near}")), "0");
}

#[test]
fn a_broken_block_says_so() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let (set, get) = (format!("SET {far} 1"), format!("GET {near}"));
    let replies = net.pipeline(client, &["MULTI", &set, &get, "EXEC", "PING"]);
    assert!(crate::net::shown(&replies[3]).starts_with("-EXECABORT"), "{replies:?}");
    assert_eq!(crate::net::shown(&replies[4]), "PONG");
    let replies = net.pipeline(client, &["MULTI", &set, "SET", "EXEC"]);
    assert!(crate::net::shown(&replies[3]).starts_with("-EXECABORT"), "{replies:?}");
    assert_eq!(net.say(client, &format!("EXISTS {far}")), "0");
}

#[test]
fn watched_keys_of_another_node_break_a_block() {
    let mut net = Net::new(3, 2, 8);
    let (client, other) = (net.connect(0), net.connect(2));
    let (watched, key) = (key_of(1, 3, "w"), key_of(1, 3, "k"));
    let block = ["MULTI".to_owned(), format!("SET {key} 1")];
    let block: Vec<&str> = block.iter().map(String::as_str).collect();
    // Untouched.
    assert_eq!(net.say(client, &format!("WATCH {watched}")), "OK");
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "[OK]");
    // Touched.
    net.ask(client, &format!("WATCH {watched}"));
    net.ask(other, &format!("SET {watched} x"));
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "nil");
    // Watched no more.
    for end in ["UNWATCH", "DISCARD"] {
        net.ask(client, &format!("WATCH {watched}"));
        net.ask(other, &format!("INCR {key}"));
        net.ask(other, &format!("SET {watched} y"));
        if end == "DISCARD" {
            net.ask(client, "MULTI");
        }
        assert_eq!(net.say(client, end), "OK");
        net.pipeline(client, &block);
        assert_eq!(net.say(client, "EXEC"), "[OK]");
    }
    // A watch that was lost counts as touched.
    net.ask(client, &format!("WATCH {watched}"));
    net.cut(0, 1);
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "nil");
    net.sleep(100);
    net.pipeline(client, &block);
    assert_eq!(net.say(client, "EXEC"), "[OK]");
}

#[test]
fn a_script_runs_where_its_keys_are() {
    let mut net = Net::new(2, 1, 8);
    let client = net.connect(0);
    let (far, near) = (key_of(1, 2, "far"), key_of(0, 2, "near"));
    let eval = |net: &mut Net, words: &[&str]| {
        let mut bytes = Vec::new();
        resp::append_request(&mut bytes, words);
        net.send_raw(client, &bytes);
        net.heard(client).join(",")
    };
    assert_eq!(eval(&mut net, &["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", &far, "v"]), "OK");
    assert_eq!(eval(&mut net, &["EVAL", "return redis.call('get', KEYS[1])", "1", &far]), "v");
    let undeclared = eval(&mut net, &["EVAL", "return redis.call('get', ARGV[1])", "0", &far]);
    assert!(undeclared.contains("several nodes"), "{undeclared}");
    assert_eq!(eval(&mut net, &["EVAL", "return redis.call('exists', ARGV[1])", "0", &near]), "0");
    let both = eval(&mut net, &["EVAL", "return 1", "2", &far, &near]);
    assert!(both.starts_with("-ERR the keys belong to several nodes"), "{both}");
}

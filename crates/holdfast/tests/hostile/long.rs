//! Long replies: strings that are sent from their place, collections that are written in steps.

use resp::Value;

use crate::support::attack::{How, Raw, Server, bulk, bytes, request, simple, text};
use crate::{falls_to, ok};

const LARGE: usize = 3_000_000;

fn large(byte: &str) -> String {
    byte.repeat(LARGE)
}

/// A client reads the value at the moment of its command, with any commands right behind it.
pub fn long_strings_are_of_their_moment(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    let middle = "m".repeat(20_000);
    assert_eq!(client.call(&["MSET", "a", &large("a"), "b", &middle]), ok());
    let commands: [&[&str]; 14] = [
        &["GET", "a"],
        &["SETRANGE", "a", "0", "X"],
        &["MGET", "a", "b", "none", "a"],
        &["APPEND", "a", "Z"],
        &["MULTI"],
        &["GET", "b"],
        &["INCR", "b"],
        &["GET", "a"],
        &["SET", "b", "new", "GET"],
        &["EXEC"],
        &["CLIENT", "REPLY", "SKIP"],
        &["GET", "a"],
        &["GETDEL", "a"],
        &["EXISTS", "a"],
    ];
    let all: Vec<u8> = commands.iter().flat_map(|command| request(command)).collect();
    client.send(&all);
    let (first, second) = (large("a"), format!("X{}", &large("a")[1..]));
    let third = format!("{second}Z");
    assert!(client.reply() == bulk(&first));
    assert_eq!(client.reply(), Value::Integer(LARGE as i64));
    assert!(client.reply() == Value::Array(vec![bulk(&second), bulk(&middle), Value::Null, bulk(&second)]));
    assert_eq!(client.reply(), Value::Integer(LARGE as i64 + 1));
    (0..5).for_each(|_| drop(client.reply()));
    let Value::Array(block) = client.reply() else { panic!("no array") };
    assert!(block[0] == bulk(&middle) && matches!(block[1], Value::Error(_)));
    assert!(block[2] == bulk(&third) && block[3] == bulk(&middle));
    assert!(client.reply() == bulk(&third));
    assert_eq!(client.reply(), Value::Integer(0));
    server.is_well();
}

/// Strings that no client reads are freed with the connection and with the key.
pub fn long_strings_are_let_go_of(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let before = server.info("used_memory");
    let mut readers: Vec<Raw> = Vec::new();
    for i in 0..5 {
        let mut client = server.connect();
        client.call(&["SET", "large", &large("x")]);
        // They are sent from their place: 20 cost no more than one.
        (0..20).for_each(|_| client.command(&["GET", "large"]));
        if i % 2 == 0 {
            // The others leave in the middle of the first.
            assert!(client.reply() == bulk(large("x")));
        }
        readers.push(client);
    }
    server.connect().call(&["DEL", "large"]);
    drop(readers);
    server.wait_alone();
    falls_to(&server, "used_memory", before + (2 << 20));
    server.is_well();
}

/// Buffers of its connection and of the log keep nothing of a large value, and the allocator gives free memory back on
/// request.
pub fn what_was_large_is_given_back(how: How) {
    // The store has memory of its own.
    let no_checkpoints = ["--checkpoint-interval", "0", "--checkpoint-log-size", "1gb", "--checkpoint-log-max", "10gb"];
    let settings = [&["--appendonly", "yes"][..], &no_checkpoints].concat();
    let Some(server) = Server::start(how, &settings) else { return };
    let mut client = server.connect();
    assert_eq!(client.call(&["SET", "key", "value"]), ok());
    let (used, resident) = (client.info("used_memory"), server.rss());
    for key in ["a", "b"] {
        assert_eq!(client.call(&["SET", key, &"x".repeat(100 << 20)]), ok());
    }
    // Memory that the start needed may have been given back meanwhile.
    assert!(client.info("used_memory") > used + (190 << 20));
    assert_eq!(client.call(&["DEL", "a", "b"]), Value::Integer(2));
    falls_to(&server, "used_memory", used + (10 << 20));
    assert_eq!(client.call(&["MEMORY", "PURGE"]), ok());
    assert!(server.rss() < resident + (60 << 20), "{} MB, and {} MB before", server.rss() >> 20, resident >> 20);
}

fn fill(client: &mut Raw, n: usize) {
    for start in (0..n).step_by(1000) {
        let mut push = vec!["RPUSH".to_string(), "list".into()];
        let mut add = vec!["SADD".to_string(), "set".into()];
        let mut set = vec!["HSET".to_string(), "hash".into()];
        let mut score = vec!["ZADD".to_string(), "zset".into()];
        for i in start..start + 1000 {
            push.push(format!("element:{i:08}"));
            add.push(format!("element:{i:08}"));
            set.extend([format!("field:{i:08}"), format!("value:{i:08}")]);
            score.extend([i.to_string(), format!("element:{i:08}")]);
        }
        for command in [push, add, set, score] {
            client.call(&command);
        }
    }
}

fn array(reply: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = reply else { panic!("no array") };
    elements.iter().map(bytes).collect()
}

/// Replies of collections are of their moment, too, complete, and in the order of the commands.
pub fn long_collections_are_of_their_moment(how: How) {
    const N: usize = 50_000;
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    fill(&mut client, N);
    let commands: [&[&str]; 12] = [
        &["LRANGE", "list", "0", "-1"],
        &["DEL", "list"],
        &["SMEMBERS", "set"],
        &["DEL", "set"],
        &["HGETALL", "hash"],
        &["HSET", "hash", "field:00000000", "changed"],
        &["HVALS", "hash"],
        &["ZRANGE", "zset", "1", "-1", "WITHSCORES"],
        &["ZREVRANGE", "zset", "0", "-2"],
        &["CLIENT", "REPLY", "SKIP"],
        &["HKEYS", "hash"],
        &["PING"],
    ];
    let all: Vec<u8> = commands.iter().flat_map(|command| request(command)).collect();
    client.send(&all);
    let named = |name: &str| (0..N).map(|i| format!("{name}:{i:08}").into_bytes()).collect::<Vec<_>>();
    let sorted = |mut found: Vec<Vec<u8>>| {
        found.sort_unstable();
        found
    };
    assert!(array(client.reply()) == named("element"));
    assert_eq!(client.reply(), Value::Integer(1));
    assert!(sorted(array(client.reply())) == named("element"));
    assert_eq!(client.reply(), Value::Integer(1));
    let fields = array(client.reply());
    assert!(fields.chunks(2).all(|pair| pair[0][5..] == pair[1][5..] && pair[0].starts_with(b"field")));
    assert!(sorted(fields.into_iter().step_by(2).collect()) == named("field"));
    assert_eq!(client.reply(), Value::Integer(0));
    assert_eq!(array(client.reply()).iter().filter(|value| *value == b"changed").count(), 1);
    let pairs = array(client.reply());
    assert!(pairs.chunks(2).zip(1..N).all(|(pair, i)| pair[1] == i.to_string().into_bytes()));
    assert_eq!(pairs.len(), 2 * (N - 1));
    assert!(array(client.reply()) == named("element").into_iter().skip(1).rev().collect::<Vec<_>>());
    assert_eq!(client.reply(), simple("PONG"));
    assert!(text(&client.call(&["INFO", "commandstats"])).contains("cmdstat_lrange:calls=1,"));
    server.is_well();
}

/// A collection's reply is made as far as it is read: a client that does not read costs little, and others go on.
pub fn long_collections_wait_for_their_reader(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    let long = "x".repeat(1000);
    for start in (0..20_000).step_by(500) {
        let members: Vec<String> = (start..start + 500).map(|i| format!("{i}{long}")).collect();
        let command = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str));
        client.call(&command.collect::<Vec<_>>());
    }
    let before = server.info("used_memory");
    let mut readers: Vec<Raw> = (0..10).map(|_| server.connect()).collect();
    for reader in &mut readers {
        reader.command(&["SMEMBERS", "set"]);
        reader.command(&["PING"]);
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let grown = server.info("used_memory").saturating_sub(before);
    assert!(grown < 10 * (3 << 20), "{grown} bytes for what nobody reads");
    server.is_well();
    client.call(&["DEL", "set"]);
    for reader in readers.iter_mut().take(5) {
        assert_eq!(array(reader.reply()).len(), 20_000);
        assert_eq!(reader.reply(), simple("PONG"));
    }
    drop(readers);
    server.is_well();
    falls_to(&server, "used_memory", before);
}

//! A system limit on the address space of the process gives error replies, and does not end it.

use std::collections::BTreeMap;

use crate::support::{Client, Scratch, Server, random};

/// KB of address space.
const LIMIT: u64 = 512 << 10;

fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.call("info");
    let at = text.find(&format!(" {name}:")).unwrap_or_else(|| panic!("no {name} in {text}"));
    text[at + name.len() + 2..].split_whitespace().next().unwrap().parse().unwrap()
}

/// Acknowledged values: the number of a value and its length.
type Confirmed = BTreeMap<String, (u64, usize)>;

/// Writes values of many sizes, by many commands, until `refusals` of them have been refused; at most `most` bytes.
/// Returns the acknowledged bytes.
fn fill(server: &Server, seed: u64, refusals: usize, most: usize, confirmed: &mut Confirmed) -> usize {
    const SIZES: [usize; 8] = [20, 100, 1000, 5000, 20_000, 100_000, 1_000_000, 6_000_000];
    let mut number = random(seed);
    let (mut refused, mut bytes, mut client) = (0, 0, server.client());
    let script = client.call("script load \"return redis.call('set',KEYS[1],ARGV[1])\"");
    let script = script.split(' ').next_back().unwrap().to_string();
    for n in 0.. {
        if refused >= refusals || bytes >= most {
            break;
        }
        let size = SIZES[number(SIZES.len() as u64) as usize];
        let size = if n % 5 == 2 { size.min(1_000_000) } else { size };
        let key = format!("{seed}:{n}");
        let value = |size: usize| format!("{n}:{}", "v".repeat(size));
        let (command, length) = match n % 5 {
            0 => (format!("append {key} {}", value(size)), value(size).len()),
            1 => (format!("setrange {key} {size} {n}:"), size + value(0).len()),
            2 => (format!("mset {key} {} {key}:b {}", value(size), value(size)), value(size).len()),
            3 => (format!("evalsha {script} 1 {key} {}", value(size)), value(size).len()),
            _ => (format!("set {key} {}", value(size)), value(size).len()),
        };
        let Some(reply) = client.try_call(&command) else {
            // There was no memory for the request.
            (client, refused) = (server.client(), refused + 1);
            continue;
        };
        if reply.contains("OOM") {
            assert!(reply.starts_with('-'), "{reply}");
            refused += 1;
        } else {
            assert!(!reply.starts_with('-'), "{reply}");
            confirmed.insert(key, (n, length));
            bytes += length;
        }
    }
    bytes
}

/// Asserts that all acknowledged values are there.
fn compare(client: &mut Client, confirmed: &Confirmed, every: usize) {
    for (key, (n, length)) in confirmed.iter().step_by(every) {
        assert_eq!(client.call(&format!("strlen {key}")), format!(":{length}"), "{key}");
        if *length < 50_000 && *n % 5 != 1 {
            let reply = client.call(&format!("get {key}"));
            assert!(reply.starts_with(&format!("${length} {n}:")), "{key}: {reply:.40}");
        }
    }
}

/// Commands that would take far more memory than there is.
fn too_large(client: &mut Client) {
    for command in [
        "setrange far 500000000 x",
        "setbit far 4294967295 1",
        "bitfield far set u8 4000000000 1",
        "eval \"return #string.rep('x', 500000000)\" 0",
        "eval \"local s = 'x' for i = 1, 29 do s = s .. s end return #s\" 0",
    ] {
        let reply = client.reply_to(command);
        assert!(reply.starts_with('-'), "{command}: {reply:.60}");
        assert!(reply.contains("OOM") || reply.contains("memory"), "{command}: {reply}");
    }
    assert_eq!(client.call("exists far"), ":0");
}

#[test]
fn without_a_store() {
    let server = Server::within(LIMIT, &["--workers", "2"]);
    let mut client = server.client();
    assert_eq!(info(&mut client, "address_space_limit"), LIMIT << 10);
    too_large(&mut client);
    let mut confirmed = Confirmed::new();
    let bytes = fill(&server, 7, 40, usize::MAX, &mut confirmed);
    assert!(bytes > 40 << 20, "refused after {bytes} bytes");
    compare(&mut client, &confirmed, 3);
    // Small values find room for longer.
    let value = "v".repeat(1000);
    let refused = (0..100_000).map(|n| client.call(&format!("set small:{n} {value}"))).find(|reply| reply != "+OK");
    assert!(refused.is_some_and(|reply| reply.starts_with("-OOM")), "{}", client.call("info"));
    too_large(&mut client);
    // Deleted data make room again.
    assert_eq!(client.call("flushall sync"), "+OK");
    assert!(fill(&server, 8, 10, 30 << 20, &mut Confirmed::new()) >= 30 << 20);
    assert!(server.peak_virtual() <= LIMIT << 10);
}

/// Most threads are started after the first measurement, so their memory once counted as room for data.
#[test]
fn what_threads_take_is_no_room_for_data() {
    let server = Server::within(LIMIT, &["--workers", "12"]);
    let mut client = server.client();
    let limit = LIMIT << 10;
    let is_counted = |client: &mut Client| {
        let of = ["address_space_mapped", "address_space_reserve", "used_memory", "maxmemory_usable"];
        let [mapped, reserve, used, usable] = of.map(|name| info(client, name));
        usable + limit / 8 * 3 + (mapped - reserve - used) <= limit + (4 << 20)
    };
    let counted = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        is_counted(&mut client)
    });
    assert!(counted, "{}", client.call("info"));
}

#[test]
fn with_a_store() {
    let dir = Scratch::new();
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec", "--workers", "2"];
    let mut confirmed = Confirmed::new();
    {
        let server = Server::within(LIMIT, &settings);
        let mut client = server.client();
        // More data than fit: keys leave for the store.
        let bytes = fill(&server, 11, 1000, 300 << 20, &mut confirmed);
        assert!(bytes > 40 << 20, "refused after {bytes} bytes");
        too_large(&mut client);
        compare(&mut client, &confirmed, 5);
        assert_eq!(client.call("wait 0 0"), ":0");
        while client.reply_to("save") != "+OK" {
            // One command is under way.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    let server = Server::start(&settings);
    compare(&mut server.client(), &confirmed, 1);
}

#[test]
fn a_store_that_has_more_than_there_is_room_for() {
    // No key is large enough to be asked for by itself, and together they are more than the limit.
    const KEYS: usize = 2600;
    const SIZE: usize = 220_000;
    let dir = Scratch::new();
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "no", "--workers", "2"];
    let names = (0..KEYS).map(|n| format!("key:{n}")).collect::<Vec<_>>();
    {
        let server = Server::start(&settings);
        let mut client = server.client();
        for name in &names {
            assert_eq!(client.call(&format!("setrange {name} {} x", SIZE - 1)), format!(":{SIZE}"));
        }
        while client.reply_to("save") != "+OK" {
            // One command is under way.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    let server = Server::within(LIMIT, &settings);
    let mut client = server.client();
    // Keys that fit are read into memory in the background.
    while server.has_thread("warm-up") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(client.call("ping"), "+PONG");
    // Commands that need more keys at once than can ever fit.
    let reply = client.call(&format!("mget {}", names.join(" ")));
    assert!(reply.starts_with("-OOM"), "{reply:.60}");
    let lengths = names.iter().map(|name| format!("strlen {name};")).collect::<String>();
    client.send(&format!("multi;{lengths}exec"));
    for n in 0..=KEYS {
        let reply = client.reply();
        assert!(reply.starts_with('+'), "{n}: {reply}");
    }
    let reply = client.reply();
    assert!(reply.starts_with(&format!("*{KEYS} :{SIZE} ")) && reply.contains("-OOM"), "{reply:.60}");
    for name in names.iter().step_by(100) {
        assert_eq!(client.call(&format!("strlen {name}")), format!(":{SIZE}"));
    }
    assert!(server.peak_virtual() <= LIMIT << 10);
}

#[test]
fn an_eviction_policy_makes_room() {
    let server = Server::within(LIMIT, &["--workers", "2", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    assert!(fill(&server, 13, 30, 300 << 20, &mut Confirmed::new()) >= 300 << 20, "refused");
    assert!(!client.call("info stats").contains(" evicted_keys:0 "));
}

/// As in Redis: CLIENT PAUSE WRITE keeps the data as it is.
#[test]
fn no_key_is_evicted_while_writes_are_paused() {
    let server = Server::start(&["--workers", "2", "--appendonly", "no", "--maxmemory-policy", "allkeys-random"]);
    let (mut client, mut writer) = (server.client(), server.client());
    let value = "v".repeat(100_000);
    for n in 0..200 {
        assert_eq!(client.call(&format!("set key:{n} {value}")), "+OK");
    }
    assert_eq!(client.call("client pause 100000 write"), "+OK");
    assert_eq!(client.call("config set maxmemory 10mb"), "+OK");
    writer.send("set another 1");
    for n in 0..200 {
        assert_eq!(client.call(&format!("strlen key:{n}")), ":100000");
    }
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    assert_eq!(client.call("client unpause"), "+OK");
    assert_eq!(writer.reply(), "+OK");
    assert!(info(&mut client, "evicted_keys") > 0);
}

#[test]
fn collections_and_pipelines() {
    let server = Server::within(LIMIT, &["--workers", "2"]);
    let mut client = server.client();
    let mut n = 0;
    // A long element, so that few commands fill the room.
    let item = "i".repeat(2000);
    let refused = loop {
        let line = format!(
            "rpush list {item}{n};sadd set {item}{n};zadd zset {n} {item}{n};hset hash {n} {item};xadd stream * f {item}{n}"
        );
        client.send(&vec![line; 20].join(";"));
        n += 1;
        let replies: Vec<String> = (0..100).map(|_| client.reply()).collect();
        if let Some(refused) = replies.iter().find(|reply| reply.contains("OOM")) {
            break refused.clone();
        }
    };
    assert!(refused.starts_with("-OOM"), "{refused}");
    // Replies that may be longer than the remaining room, to clients that do not wait for them.
    for command in ["lrange list 0 -1", "smembers set", "hgetall hash", "xrange stream - +"] {
        server.client().send(&format!("{command};{command};{command}"));
        assert_eq!(client.call("ping"), "+PONG");
    }
    for command in ["dump list", "copy list other"] {
        assert!(client.reply_to(command).starts_with("-OOM"), "{command}");
    }
    assert!(client.call("lrange list 0 9").starts_with("*10 "));
}

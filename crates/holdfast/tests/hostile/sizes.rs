//! Large values, large keyspaces, many waiters: others still get their turn.

use std::time::{Duration, Instant};

use resp::Value;

use crate::support::attack::{How, Raw, Server, long, simple, text};
use crate::{error, falls_to, ok};

pub fn large_values(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let size = if long() { 512 << 20 } else { 64 << 20 };
    let mut client = server.connect();
    let before = server.rss();
    let mut value = vec![b'x'; size];
    value[size / 2] = b'y';
    assert_eq!(client.call(&[b"SET", &b"large"[..], &value]), ok());
    let peak = server.rss() - before;
    assert!(peak < 5 * size as u64, "{peak} bytes for a value of {size}");
    assert_eq!(client.call(&["STRLEN", "large"]), Value::Integer(size as i64));
    assert_eq!(client.call(&["GET", "large"]), Value::Bulk(value));
    assert_eq!(client.call(&["DEL", "large"]), Value::Integer(1));
    falls_to(&server, "used_memory", 16 << 20);
    server.is_well();
}

pub fn too_large_values(how: How) {
    let Some(server) = Server::start(how, &["--proto-max-bulk-len", "2mb"]) else { return };
    let mut client = server.connect();
    let most = "x".repeat(2 << 20);
    assert_eq!(client.call(&["SET", "k", &most]), ok());
    let refusal = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    for command in [
        &["APPEND", "k", "x"][..],
        &["SETRANGE", "k", "2097152", "x"],
        &["SETRANGE", "new", "2097152", "x"],
        &["SETRANGE", "new", "9223372036854775807", "x"],
        &["SETRANGE", "new", "2147483647", "x"],
    ] {
        assert_eq!(client.call(command), error(refusal), "{command:?}");
    }
    for command in [&["SETBIT", "new", "16777216", "1"][..], &["SETBIT", "new", "4294967296", "1"]] {
        assert_eq!(client.call(command), error("ERR bit offset is not an integer or out of range"), "{command:?}");
    }
    assert_eq!(client.call(&["SETRANGE", "k", "2097151", "y"]), Value::Integer(2 << 20));
    assert_eq!(client.call(&["EXISTS", "new"]), Value::Integer(0));
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097153\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: invalid bulk length\r\n");
    server.is_well();
}

pub fn walks_and_flushes_let_others_run(how: How) {
    let Some(server) = Server::start(How { workers: "1", ..how }, &[]) else { return };
    let mut busy = server.connect();
    let keys = if long() { 1_000_000 } else { 100_000 };
    busy.call(&["DEBUG", "POPULATE", &keys.to_string()]);
    let mut other = server.connect();
    other.call(&["PING"]);
    busy.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // More walks if another process had the processor during the first.
    for walks in [10, 20, 40, 80] {
        let begin = Instant::now();
        (0..walks).for_each(|_| busy.command(&["KEYS", "nothing*"]));
        std::thread::sleep(Duration::from_millis(5));
        let pings = Instant::now();
        for _ in 0..5 {
            other.call(&["PING"]);
        }
        let (pings, mut took) = (pings.elapsed(), Duration::ZERO);
        for _ in 0..walks {
            assert_eq!(busy.reply(), Value::Array(Vec::new()));
            took = begin.elapsed();
        }
        if pings < took / 2 {
            return;
        }
        assert!(walks < 80, "5 PINGs took {pings:?}, {walks} walks {took:?}");
    }
}

pub fn many_who_wait_for_one_key(how: How) {
    let Some(server) = Server::start(how, &["--maxclients", "12000"]) else { return };
    let count = if long() { 5_000 } else { 400 };
    let mut waiting: Vec<Raw> = (0..count).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send("BLPOP jobs urgent 0\r\n"));
    server.wait_info("blocked_clients", count as u64);
    let mut pusher = server.connect();
    let before = server.cpu();
    for i in 0..count {
        assert_eq!(pusher.call(&["RPUSH", "jobs", &i.to_string()]), Value::Integer(1));
    }
    let spent = server.cpu() - before;
    // In the order in which they began to wait, which only they know.
    let jobs = waiting.iter_mut().map(|client| match client.reply() {
        Value::Array(reply) => text(&reply[1]).parse::<usize>().unwrap(),
        other => panic!("{other:?}"),
    });
    let mut jobs: Vec<usize> = jobs.collect();
    jobs.sort_unstable();
    assert!(jobs.into_iter().eq(0..count));
    assert!(spent < Duration::from_millis(count as u64 * 4), "{spent:?} for {count} pushes");
}

/// Large arguments sent in pieces, one behind another and with small commands between, from several connections at
/// once. Some clients leave in the middle. All arguments that were sent arrive whole.
pub fn large_arguments_in_pieces(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    std::thread::scope(|scope| {
        for n in 0..6usize {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                let value = |round: usize| {
                    let size = [300_000, 70_000, 1_500_000, 131_072][(n + round) % 4] + round;
                    (0..size).map(|i| (i * (2 * n + 3) + round) as u8).collect::<Vec<u8>>()
                };
                let key = format!("large:{n}");
                for round in 0..5 {
                    let (first, second) = (value(round), value(round + 1));
                    let mut bytes = Vec::new();
                    resp::append_request(&mut bytes, &[b"SET", key.as_bytes(), &first]);
                    resp::append_request(&mut bytes, &[&b"PING"[..]]);
                    resp::append_request(&mut bytes, &[b"GETSET", key.as_bytes(), &second]);
                    resp::append_request(&mut bytes, &[b"STRLEN", key.as_bytes()]);
                    for piece in bytes.chunks(90_001 * (round + 1)) {
                        client.send(piece);
                        std::thread::sleep(Duration::from_millis(round as u64 % 3));
                    }
                    assert_eq!(client.reply(), ok());
                    assert_eq!(client.reply(), simple("PONG"));
                    assert!(client.reply() == Value::Bulk(first), "another value in round {round}");
                    assert_eq!(client.reply(), Value::Integer(second.len() as i64));
                }
                let mut leaver = server.connect();
                leaver.send(b"*3\r\n$3\r\nSET\r\n$4\r\nleft\r\n$2000000\r\n");
                leaver.send(&value(n)[..60_000]);
                std::thread::sleep(Duration::from_millis(5));
                leaver.send(&value(n)[..70_000]);
            });
        }
    });
    assert_eq!(server.connect().call(&["EXISTS", "left"]), Value::Integer(0));
    server.is_well();
}

//! Input of clients: too slow, too much, too little, or nonsense.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use resp::Value;

use crate::support::attack::{How, Raw, Server, bulk, long, request, simple, text};
use crate::{error, falls_to, ok};

pub fn slow_connections(how: How) {
    let Some(server) = Server::start(how, &["--maxclients", "12000"]) else { return };
    let count = if long() { 10_000 } else { 500 };
    let before = server.info("used_memory");
    let mut slow: Vec<Raw> = (0..count).map(|_| server.connect()).collect();
    server.wait_info("connected_clients", count as u64 + 1);
    let command = request(&["ECHO", "slowly does it"]);
    for (i, byte) in command.iter().enumerate() {
        slow.iter_mut().for_each(|client| client.send([*byte]));
        if i == command.len() / 2 {
            server.is_well();
            // Each worker keeps some buffers for reuse, however many connections there are.
            let spares = 2 * 256 * (16 << 10);
            let each = server.info("used_memory").saturating_sub(before + spares) / count as u64;
            assert!(each < 3_000, "{each} bytes for a connection with half a command");
        }
    }
    for client in &mut slow {
        assert_eq!(client.reply(), bulk("slowly does it"));
    }
    server.is_well();
    drop(slow);
    server.wait_alone();
    falls_to(&server, "used_memory", before + (10 << 20));
}

pub fn half_sent_commands(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let before = server.info("used_memory");
    let halves: [&[u8]; 9] = [
        b"*",
        b"*3\r\n",
        b"*3\r\n$3\r\nSE",
        b"*3\r\n$3\r\nSET\r",
        b"*2\r\n$3\r\nGET\r\n$",
        b"PING",
        b"GET \"a",
        b"\r",
        b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$100\r\nx",
    ];
    let mut clients: Vec<Raw> = (0..180).map(|_| server.connect()).collect();
    clients.iter_mut().enumerate().for_each(|(i, client)| client.send(halves[i % halves.len()]));
    for client in clients.iter_mut().skip(8).step_by(9) {
        assert_eq!(client.reply(), simple("PONG"));
        client.is_silent();
    }
    server.is_well();
    assert!(server.info("used_memory") < before + (4 << 20));
    drop(clients);
    server.wait_alone();
}

pub fn giant_lengths(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let before = server.rss();
    let patient: [&[u8]; 5] = [
        b"*1000000000\r\n",
        b"*2147483647\r\n$3\r\nDEL\r\n$1\r\na\r\n",
        b"*2\r\n$3\r\nGET\r\n$536870912\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nabc",
        b"*1000000000\r\n$536870912\r\n",
    ];
    let mut waiting: Vec<Raw> = (0..200).map(|_| server.connect()).collect();
    waiting.iter_mut().enumerate().for_each(|(i, client)| client.send(patient[i % patient.len()]));
    waiting.iter_mut().for_each(|client| client.is_silent_now());
    let refused: [(&[u8], &str); 8] = [
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*2\r\n$3\r\nGET\r\n$536870913\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$-1\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$9223372036854775808\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n:1\r\n", "expected '$', got ':'"),
        (b"GET \"a\r\n", "unbalanced quotes in request"),
    ];
    for (bytes, wanted) in refused {
        let mut client = server.connect();
        client.send(bytes);
        assert_eq!(client.rest(), format!("-ERR Protocol error: {wanted}\r\n"));
    }
    // No request, so no reply.
    let mut client = server.connect();
    client.send("*0\r\n*-1\r\n*-2147483648\r\n\r\n\r\nPING\r\n");
    assert_eq!(client.reply(), simple("PONG"));
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for lengths that were only announced");
    server.is_well();
}

pub fn strangers_send_little(how: How) {
    let Some(server) = Server::start(how, &["--requirepass", "secret"]) else { return };
    for (bytes, wanted) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "unauthenticated bulk length"),
        // The second command is measured after the first has failed.
        (b"*2\r\n$4\r\nAUTH\r\n$3\r\nbad\r\n*1000\r\n", "unauthenticated multibulk length"),
    ] {
        let mut client = server.connect();
        client.send(bytes);
        let rest = client.rest();
        assert!(rest.ends_with(&format!("-ERR Protocol error: {wanted}\r\n")), "{rest}");
    }
    // Allowed requests add up to little, and a pipeline of them is not hoarded.
    let before = server.rss();
    let mut client = server.connect();
    let mut flood = Vec::new();
    (0..2000).for_each(|_| flood.extend(request(&["SET", "k", &"v".repeat(10_000)])));
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&flood));
    for _ in 0..2000 {
        assert_eq!(client.reply(), error("NOAUTH Authentication required."));
    }
    sender.join().unwrap().unwrap();
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for a stranger");
    // A client that has sent the password may send more in the same packet.
    let mut both = request(&["AUTH", "secret"]);
    both.extend(request(&["SET", "k", &"v".repeat(100_000)]));
    client.send(both);
    assert_eq!([client.reply(), client.reply()], [ok(), ok()]);
}

/// A web page can make a visitor's browser send such requests to servers in the visitor's network, and each of their
/// lines would be a command.
pub fn requests_of_http_end_the_connection(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let behind = "SET http 1\r\n*3\r\n$3\r\nSET\r\n$4\r\nhttp\r\n$1\r\n2\r\n";
    let of_get = "-ERR wrong number of arguments for 'get' command\r\n";
    for (bytes, wanted) in [
        ("POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nContent-Length: 12\r\n\r\n", ""),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\n", of_get),
        ("\r\nhOsT: a\r\n", ""),
        ("*1\r\n$4\r\npost\r\n", ""),
        ("PING\r\nMULTI\r\nPOST /\r\n", "+PONG\r\n+OK\r\n"),
    ] {
        let mut client = server.connect();
        client.send(format!("{bytes}{behind}EXEC\r\n{behind}"));
        assert_eq!(client.rest(), wanted, "{bytes}");
    }
    let mut client = server.connect();
    assert_eq!(client.call(&["EXISTS", "http"]), Value::Integer(0));
    // A request that only looks similar is an error like any other.
    for name in ["POSTS", "Host", "PUT"] {
        client.send(format!("{name} / HTTP/1.1\r\n"));
        assert!(matches!(client.reply(), Value::Error(text) if text.starts_with(b"ERR unknown command")), "{name}");
    }
    server.is_well();
}

/// Clients that connect after the reply that sets a password need it, at every worker: one that had slept knew the
/// former settings.
pub fn strangers_need_the_password_of_now(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.call(&["CONFIG", "SET", "requirepass", "secret"]), ok());
        let mut strangers: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
        strangers.iter_mut().for_each(|stranger| stranger.send("PING\r\n"));
        for stranger in &mut strangers {
            assert_eq!(stranger.reply(), error("NOAUTH Authentication required."));
        }
        assert_eq!(client.call(&["CONFIG", "SET", "requirepass", ""]), ok());
        assert_eq!(server.connect().call(&["PING"]), simple("PONG"));
    }
    // With a password, too, a request of HTTP hears nothing.
    assert_eq!(client.call(&["CONFIG", "SET", "requirepass", "secret"]), ok());
    let mut stranger = server.connect();
    stranger.send("POST / HTTP/1.1\r\nSET http 1\r\n");
    assert_eq!(stranger.rest(), "");
}

pub fn long_lines(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    client.send(format!("PING {}\r\n", "x".repeat(60_000)));
    assert_eq!(text(&client.reply()).len(), 60_000);
    for (line, wanted) in [
        ("x".repeat(70_000), "too big inline request"),
        (format!("*{}", "1".repeat(70_000)), "too big mbulk count string"),
        (format!("*1\r\n${}", "1".repeat(70_000)), "too big bulk count string"),
    ] {
        let mut client = server.connect();
        // The server may close before all of it is sent.
        let _ = client.stream.write_all(line.as_bytes());
        let rest = client.rest();
        assert_eq!(rest, format!("-ERR Protocol error: {wanted}\r\n"));
    }
    // A line that comes byte by byte is examined again and again: that must stay cheap.
    let mut client = server.connect();
    let before = server.cpu();
    (0..20_000).for_each(|_| client.send("y"));
    client.send("\r\n");
    assert!(text(&client.reply()).starts_with("ERR unknown command 'yyyy"));
    let took = server.cpu() - before;
    assert!(took < Duration::from_secs(10), "{took:?} for a slow line");
}

pub fn a_pipeline_of_100_000(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    let one = request(&["INCR", "counter"]);
    let all: Vec<u8> = one.iter().copied().cycle().take(one.len() * 100_000).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&all));
    for i in 1..=100_000 {
        assert_eq!(client.reply(), Value::Integer(i));
    }
    sender.join().unwrap().unwrap();
}

pub fn a_pipeline_longer_than_the_query_buffer(how: How) {
    let Some(server) = Server::start(how, &["--client-query-buffer-limit", "1mb"]) else { return };
    let before = server.rss();
    let mut client = server.connect();
    let count = 2_000_000;
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let part = b"PING\r\n".repeat(10_000);
        (0..count / 10_000).try_for_each(|_| writer.write_all(&part))
    });
    let (mut seen, mut buffer) = (0, vec![0; 1 << 16]);
    let mut peak = 0;
    while seen < count * 7 {
        match client.stream.read(&mut buffer) {
            Ok(n @ 1..) => seen += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => panic!("{other:?} after {seen} bytes"),
        }
        if seen % (1 << 20) < buffer.len() {
            peak = peak.max(server.rss());
        }
    }
    sender.join().unwrap().unwrap();
    let grown = peak.saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for a long pipeline");
    assert_eq!(server.info("client_query_buffer_limit_disconnections"), 0);
}

pub fn the_query_buffer_has_a_limit(how: How) {
    let Some(server) = Server::start(how, &["--client-query-buffer-limit", "1mb"]) else { return };
    let before = server.rss();
    let large = "x".repeat(3 << 20);
    let mut client = server.connect();
    let _ = client.stream.write_all(&request(&["SET", "k", &large]));
    assert!(client.is_closed());
    // Queued commands count.
    let mut client = server.connect();
    client.command(&["MULTI"]);
    let part = request(&["SET", "k", &"x".repeat(10_000)]);
    for _ in 0..1000 {
        if client.stream.write_all(&part).is_err() {
            break;
        }
    }
    assert!(client.is_closed());
    // So do bytes of a client that waits.
    let mut client = server.connect();
    client.command(&["BLPOP", "none", "0"]);
    let _ = client.stream.write_all(&request(&["SET", "k", &large]));
    let _ = client.stream.write_all(&request(&["SET", "k", &large]));
    assert!(client.is_closed());
    server.wait_alone();
    assert_eq!(server.info("client_query_buffer_limit_disconnections"), 3);
    assert_eq!(server.connect().call(&["GET", "k"]), Value::Null);
    // The bytes include the allocator's and the kernel's rings.
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

//! Replies that clients do not read.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use resp::Value;

use crate::support::attack::{How, Raw, Server, long, request, text};
use crate::{falls_to, ok};

fn ask_and_never_read(client: &mut Raw, command: &[u8], most: usize) {
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    for _ in 0..most {
        if client.stream.write_all(command).is_err() {
            return;
        }
    }
}

pub fn who_never_reads_is_cut_off(how: How) {
    let limit = ["--client-output-buffer-limit", "normal 4mb 0 0"];
    let Some(server) = Server::start(how, &limit) else { return };
    server.connect().call(&["SET", "large", &"x".repeat(100_000)]);
    let before = server.rss();
    for _ in 0..3 {
        let mut client = server.connect();
        ask_and_never_read(&mut client, &request(&["GET", "large"]), 10_000);
        server.wait_alone();
        server.is_well();
    }
    // On a slow machine a client may give up writing before the server closes it.
    assert!(server.info("client_output_buffer_limit_disconnections") >= 1);
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes for those who do not read");
}

pub fn who_never_reads_can_be_killed(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    server.connect().call(&["SET", "large", &"x".repeat(1_000_000)]);
    let mut client = server.connect();
    let id = client.id();
    ask_and_never_read(&mut client, &request(&["GET", "large"]), 50);
    let mut killer = server.connect();
    assert_eq!(killer.call(&["CLIENT", "KILL", "ID", &id]), Value::Integer(1));
    assert!(client.is_closed());
    falls_to(&server, "used_memory", 20 << 20);
    // Another CLIENT KILL finds no client.
    assert_eq!(killer.call(&["CLIENT", "KILL", "ID", &id]), Value::Integer(0));
}

pub fn who_read_too_slowly_for_too_long_is_cut_off(how: How) {
    let limit = ["--client-output-buffer-limit", "normal 0 1mb 1"];
    let Some(server) = Server::start(how, &limit) else { return };
    server.connect().call(&["SET", "large", &"x".repeat(1_000_000)]);
    let mut client = server.connect();
    ask_and_never_read(&mut client, &request(&["GET", "large"]), 20);
    // The client sends no more requests, and is noticed all the same.
    server.wait_info("client_output_buffer_limit_disconnections", 1);
    server.wait_alone();
}

pub fn a_pipeline_of_large_replies_stops_at_the_limit(how: How) {
    let limit = ["--client-output-buffer-limit", "normal 8mb 0 0"];
    let Some(server) = Server::start(how, &limit) else { return };
    server.connect().call(&["SET", "large", &"x".repeat(1_000_000)]);
    let before = server.info("total_commands_processed");
    let large = request(&["GET", "large"]);
    for (i, block) in [false, true].into_iter().enumerate() {
        let mut client = server.connect();
        let mut all = Vec::new();
        if block {
            all.extend(request(&["MULTI"]));
        }
        (0..1000).for_each(|_| all.extend(&large));
        if block {
            all.extend(request(&["EXEC"]));
        }
        client.send(&all);
        server.wait_info("client_output_buffer_limit_disconnections", i as u64 + 1);
        server.wait_alone();
    }
    assert!(server.info("total_commands_processed") - before < 2500);
    let peak = server.info("used_memory_peak");
    assert!(peak < 64 << 20, "{peak} bytes at the peak");
    // Without a limit, replies of one packet leave while later ones are made.
    let mut admin = server.connect();
    assert_eq!(admin.call(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]), ok());
    // The slowest of many, several times: another process may have the processor now and then.
    let mut client = server.connect();
    let mut slowest = || {
        (0..200).for_each(|_| client.send(&large));
        let mut worst = Duration::ZERO;
        for _ in 0..200 {
            let begin = Instant::now();
            admin.call(&["PING"]);
            worst = worst.max(begin.elapsed());
            assert_eq!(text(&client.reply()).len(), 1_000_000);
        }
        worst
    };
    let best = (0..5).map(|_| slowest()).find(|worst| *worst < Duration::from_secs(1));
    assert!(best.is_some(), "a PING takes more than a second");
}

pub fn large_replies_are_not_moved_about(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let size = if long() { 256 << 20 } else { 48 << 20 };
    let mut client = server.connect();
    assert_eq!(client.call(&["SETRANGE", "large", &(size - 1).to_string(), "x"]), Value::Integer(size));
    let before = server.cpu();
    client.command(&["GET", "large"]);
    client.command(&["PING"]);
    let wanted = format!("${size}\r\n\r\n+PONG\r\n").len() + size as usize;
    let (mut seen, mut buffer) = (0, vec![0; 64 << 10]);
    while seen < wanted {
        let n = match client.stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            n => n.unwrap(),
        };
        assert!(n > 0);
        seen += n;
    }
    let spent = server.cpu() - before;
    let most = Duration::from_millis(if long() { 3000 } else { 1000 });
    assert!(spent < most, "{spent:?} of CPU for {size} bytes");
}

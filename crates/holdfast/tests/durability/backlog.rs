//! A disk that is far slower than its clients: the backlog of the log is bounded, writers wait, readers are served, and
//! nothing is lost.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server};

const LIMIT: u64 = 1 << 20;

fn field(client: &mut Client, name: &str) -> u64 {
    let info = client.call("info persistence");
    let line = info.split_whitespace().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
}

#[test]
fn what_waits_for_a_slow_disk_is_bounded() {
    for driver in ["epoll", "io_uring"] {
        let dir = Scratch::new();
        let path = dir.path().display().to_string();
        // Each sync takes so long that the clients are far ahead of it.
        let server = Server::start(&[
            "--dir",
            &path,
            "--appendonly",
            "yes",
            "--workers",
            "2",
            "--io-driver",
            driver,
            "--log-backlog",
            "1mb",
            "--log-pace",
            "50000us 8mb",
        ]);
        let mut reader = server.client();
        assert_eq!(reader.call("get nothing"), "$-1");
        let (writers, values, value) = (4, 150, "v".repeat(16 << 10));
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let mut client = server.client();
                let value = value.clone();
                thread::spawn(move || {
                    // All at once: the client does not wait for a reply before the next command.
                    for i in 0..values {
                        client.send(&format!("set key:{writer}:{i} {value}"));
                    }
                    for _ in 0..values {
                        assert_eq!(client.reply(), "+OK");
                    }
                })
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(240);
        let (mut most, mut seen_waiting) = (0, false);
        while threads.iter().any(|thread| !thread.is_finished()) {
            assert!(Instant::now() < until);
            most = most.max(field(&mut reader, "log_backlog"));
            if field(&mut reader, "log_waiting_clients") > 0 {
                seen_waiting = true;
                assert_eq!(reader.call("get nothing"), "$-1");
            }
            thread::sleep(Duration::from_millis(5));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(seen_waiting, "{driver}: nobody had to wait");
        // Commands that workers execute before they check again are above the limit.
        assert!(most > LIMIT / 2 && most < 2 * LIMIT, "{driver}: {most} bytes waited");
        assert_eq!(reader.call("dbsize"), format!(":{}", writers * values));
        assert_eq!(field(&mut reader, "log_waiting_clients"), 0);
        drop(server);
        let again = Server::start(&["--dir", &path, "--appendonly", "yes"]);
        assert_eq!(again.client().call("dbsize"), format!(":{}", writers * values));
    }
}

/// A client sends on while its first reply waits for the disk. The replies do not fill memory without end.
#[test]
fn replies_that_wait_for_a_slow_disk_are_bounded() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    let settings = ["--dir", &path, "--appendonly", "yes", "--workers", "1", "--log-pace", "3000000us 100mb"];
    let server = Server::start(&settings);
    let (mut client, mut other) = (server.client(), server.client());
    let value = "v".repeat(8 << 10);
    client.send(&format!("set key {value}"));
    // Their replies are sixteen times the limit.
    let reads = 2000;
    client.send(&vec!["get key"; reads].join(";"));
    let mut most = 0;
    while !other.call("info persistence").contains("records=1,") {
        let list = other.call("client list");
        let sizes = list.split_whitespace().filter_map(|word| word.strip_prefix("omem=")?.parse::<u64>().ok());
        most = most.max(sizes.max().unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(most < 4 << 20, "{most} bytes of replies waited");
    assert_eq!(client.reply(), "+OK");
    for _ in 0..reads {
        assert_eq!(client.reply().len(), value.len() + 6);
    }
}

/// Eviction writes to the log. If the log is busy, a command that needs room waits, too, and is not refused.
#[test]
fn eviction_waits_for_a_slow_disk() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    let durable = ["--dir", &path, "--appendonly", "yes", "--workers", "2"];
    let slow = ["--log-backlog", "1mb", "--log-pace", "20000us 32mb"];
    let full = ["--maxmemory", "48mb", "--maxmemory-policy", "allkeys-lru"];
    let server = Server::start(&[&durable[..], &slow[..], &full[..]].concat());
    let value = "v".repeat(16 << 10);
    let threads: Vec<_> = (0..4)
        .map(|writer| {
            let (mut client, value) = (server.client(), value.clone());
            thread::spawn(move || {
                for first in (0..1200).step_by(60) {
                    // Replies that wait to be read take memory, too.
                    (first..first + 60).for_each(|i| client.send(&format!("set key:{writer}:{i} {value}")));
                    (0..60).for_each(|_| assert_eq!(client.reply(), "+OK"));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut client = server.client();
    assert!(!client.call("info stats").contains(" evicted_keys:0 "), "there was room for all");
    assert!(field(&mut client, "log_waiting_clients") == 0);
}

/// Memory is full of values that the store does not have, as the checkpoint waits for a slow log. A client that closes
/// while its command waits for room is gone, and the command is not executed when there is room.
#[test]
fn a_client_that_closes_while_it_waits_for_room_is_gone() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    let settings = ["--dir", &path, "--appendonly", "yes", "--appendfsync", "always", "--workers", "1"];
    let slow =
        ["--maxmemory", "48mb", "--log-pace", "3000000us 100mb", "--log-backlog", "1gb", "--log-stall-timeout", "0"];
    let server = Server::start(&[&settings[..], &slow].concat());
    let mut other = server.client();
    let waiting = |other: &mut Client| -> u64 {
        let info = other.call("info");
        let line = info.split_whitespace().find_map(|line| line.strip_prefix("clients_waiting_for_room:"));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{info}"))
    };
    // Writes ahead of its replies, as long as there is a server.
    let mut filler = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    thread::spawn(move || {
        let value = "v".repeat(60_000);
        (0..).all(|n| filler.write_all(format!("set key:{n} {value}\r\n").as_bytes()).is_ok())
    });
    // There may be room just while the client leaves: then the round proves nothing.
    for round in 0..20 {
        let key = format!("waiting:{round}");
        let mut leaver = server.client();
        let id = format!("id={} ", leaver.call("client id").trim_start_matches(':'));
        while waiting(&mut other) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        leaver.send(&format!("set {key} x"));
        drop(leaver);
        while other.call("client list").contains(&id) || waiting(&mut other) > 1 {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(other.call("config set maxmemory 1gb"), "+OK");
        while waiting(&mut other) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(other.call("config set maxmemory 48mb"), "+OK");
        if other.call(&format!("exists {key}")) == ":0" {
            return;
        }
    }
    panic!("what a client has left is executed");
}

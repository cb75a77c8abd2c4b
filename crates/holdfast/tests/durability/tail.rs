//! The log's tail, which a start replays, is bounded: clients that write faster than checkpoints are made wait, readers
//! are served, and none waits for ever.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server};

const MB: u64 = 1 << 20;

/// A line of INFO.
fn field(client: &mut Client, name: &str) -> u64 {
    let info = client.call("info persistence");
    let line = info.split_whitespace().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
}

fn start(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--log-segment-size", "256kb", "--workers", "2"];
    Server::start(&[&settings, more].concat())
}

#[test]
fn the_tail_is_bounded_under_load() {
    for driver in ["epoll", "io_uring"] {
        let dir = Scratch::new();
        // Checkpoints are made as slowly as the setting allows, if no command waits.
        let server = start(&dir, &["--checkpoint-log-max", "2mb", "--checkpoint-cpu", "1", "--io-driver", driver]);
        let mut reader = server.client();
        let (writers, batches, batch) = (4, 60, 50);
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let mut client = server.client();
                let value = "v".repeat(1000);
                thread::spawn(move || {
                    for i in 0..batches {
                        let lines: Vec<String> = (0..batch)
                            .map(|n| match n % 5 {
                                0 => format!(
                                    "eval \"return redis.call('set', KEYS[1], ARGV[1])\" 1 k:{writer}:{i}:{n} {value}"
                                ),
                                1 => format!("multi;set k:{writer}:{i}:{n} {value};exec"),
                                _ => format!("set k:{writer}:{i}:{n} {value}"),
                            })
                            .collect();
                        let lines = lines.join(";");
                        client.send(&lines);
                        for _ in 0..=lines.matches(';').count() {
                            let reply = client.reply_within(Duration::from_secs(60)).expect("a reply");
                            assert!(!reply.starts_with('-'), "{reply}");
                        }
                    }
                })
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(240);
        let (mut most, mut total) = (0, 0);
        while threads.iter().any(|thread| !thread.is_finished()) {
            assert!(Instant::now() < until);
            assert_eq!(reader.call("get nothing"), "$-1");
            most = most.max(field(&mut reader, "log_tail"));
            total += 1;
            thread::sleep(Duration::from_millis(2));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(total > 0);
        // 12 MB were written. Commands that workers execute before they check again are above the bound.
        assert!(most > MB / 2 && most < 3 * MB, "{driver}: a tail of {most} bytes");
        assert!(field(&mut reader, "rdb_saves") >= 5, "{driver}");
        assert_eq!(reader.call("dbsize"), format!(":{}", writers * batches * batch));
        assert_eq!(field(&mut reader, "log_waiting_clients"), 0);
        drop(server);
        let again = start(&dir, &["--checkpoint-log-max", "1gb"]);
        let mut client = again.client();
        assert_eq!(client.call("dbsize"), format!(":{}", writers * batches * batch));
        assert!(field(&mut client, "log_tail") < 3 * MB, "{driver}");
    }
}

/// A small bound holds from the first write on, and for the tail that a start replays, with log segments of any size.
#[test]
fn a_small_bound_holds() {
    let dir = Scratch::new();
    let settings = ["--checkpoint-log-max", "4mb", "--log-segment-size", "64mb"];
    let server = start(&dir, &settings);
    let lines: Vec<String> = (0..100).map(|n| format!("set k:{n} {}", "v".repeat(10_000))).collect();
    let (lines, count) = (lines.join(";"), lines.len());
    let (mut client, mut reader) = (server.client(), server.client());
    let mut most = 0;
    for _ in 0..24 {
        client.send(&lines);
        most = most.max(field(&mut reader, "log_tail"));
        for _ in 0..count {
            assert_eq!(client.reply_within(Duration::from_secs(60)).expect("a reply"), "+OK");
        }
        most = most.max(field(&mut reader, "log_tail"));
    }
    assert!(most < 5 * MB, "a tail of {most} bytes");
    assert!(field(&mut reader, "rdb_saves") >= 3);
    drop(server);
    let again = start(&dir, &["--checkpoint-log-max", "1gb"]);
    let tail = field(&mut again.client(), "log_tail");
    assert!(tail < 5 * MB, "{tail} bytes are replayed");
}

/// Writes until the server refuses. Returns the bytes written, and the error.
fn write_until_refused(client: &mut Client, prefix: &str, most: u64) -> (u64, Option<String>) {
    let value = "v".repeat(10_000);
    for n in 0..most / 10_000 {
        let reply = client.call(&format!("set {prefix}{n} {value}"));
        if reply != "+OK" {
            return (n, Some(reply));
        }
    }
    (most / 10_000, None)
}

#[test]
fn who_would_wait_for_ever_is_refused() {
    let dir = Scratch::new();
    let server = start(&dir, &["--checkpoint-log-max", "2mb", "--checkpoint-interval", "0"]);
    let mut client = server.client();
    assert_eq!(client.call("set before 1"), "+OK");
    client.saves();
    // From now on no checkpoint ends.
    fs::rename(dir.path().join("holdfast/store"), dir.path().join("elsewhere")).unwrap();
    let (written, refused) = write_until_refused(&mut client, "a", 20 * MB);
    let refused = refused.expect("to be refused");
    assert!(refused.starts_with("-MISCONF The log has grown to checkpoint-log-max"), "{refused}");
    assert!((100..400).contains(&written), "{written} values of 10 kB were written");
    // Commands that do not write are served, and blocks report it in time.
    assert_eq!(client.call("get before"), "$1 1");
    assert_eq!(client.call("multi"), "+OK");
    assert!(client.call("set a 1").starts_with("-MISCONF"));
    assert!(client.call("exec").starts_with("-EXECABORT"));
    assert!(client.call("eval \"return redis.call('set', 'a', 1)\" 0").starts_with("-MISCONF"));
    assert_eq!(field(&mut client, "log_waiting_clients"), 0);
    // The bound may be any size, or absent.
    assert_eq!(
        client.call("config set checkpoint-log-max 1mb"),
        "-ERR CONFIG SET failed (possibly related to argument 'checkpoint-log-max') - argument must be 0, or at least 2mb"
    );
    assert_eq!(client.call("config set checkpoint-log-max 0"), "+OK");
    assert_eq!(client.call("config get checkpoint-log-max"), "*2 $18 checkpoint-log-max $1 0");
    // The bound is lifted after a moment.
    for _ in 0..6000 {
        if client.call("set after 1") == "+OK" {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(write_until_refused(&mut client, "b", 4 * MB).1, None);
    assert_eq!(client.call("config set checkpoint-log-max 8mb"), "+OK");
    assert!(write_until_refused(&mut client, "c", 20 * MB).1.expect("to be refused").starts_with("-MISCONF"));
    assert_eq!(client.call("get after"), "$1 1");
}

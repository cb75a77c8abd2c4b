//! Long scripts through the real binary: their clients leave or are killed, others want what they have, the server stops.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod support;

use std::time::{Duration, Instant};

use support::{Client, Server};

const DRIVERS: [&str; 2] = ["epoll", "io_uring"];

fn start(driver: &str, workers: &str, more: &[&str]) -> Server {
    Server::start(&[&["--workers", workers, "--io-driver", driver], more].concat())
}

/// Holds `held` and runs until it is killed.
const FOREVER: &str = "eval \"redis.call('get', KEYS[1]) while true do end\" 1 held";

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Asks until the answer is `expected`.
fn becomes(client: &mut Client, line: &str, expected: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = client.call(line);
        if answer == expected {
            return;
        }
        assert!(Instant::now() < until, "{line}: {answer}");
        pause(10);
    }
}

#[test]
fn a_killed_client_leaves_its_script_to_end() {
    for driver in DRIVERS {
        let server = start(driver, "1", &[]);
        let (mut slow, mut other) = (server.client(), server.client());
        let id = slow.call("client id").trim_start_matches(':').to_owned();
        slow.send("eval \"for i = 1, 20000000 do end redis.call('set', KEYS[1], 'done')\" 1 held");
        pause(30);
        assert_eq!(other.call(&format!("client kill id {id}")), ":1");
        assert!(slow.is_closed());
        assert!(!other.call("client list").contains(&format!("id={id} ")));
        becomes(&mut other, "get held", "$4 done");
    }
}

#[test]
fn a_block_whose_client_left_watches_nothing_any_more() {
    let server = start("epoll", "1", &["--busy-reply-threshold", "60000"]);
    let (mut slow, mut holder, mut other) = (server.client(), server.client(), server.client());
    holder.send(FOREVER);
    pause(30);
    // It begins, is suspended, and then needs what the other script has.
    slow.call("watch a b");
    slow.send("multi;set a 1;eval \"for i = 1, 3000000 do end return redis.call('get', 'held')\" 0;exec");
    pause(20);
    drop(slow);
    pause(2000);
    assert_eq!(other.call("script kill"), "+OK");
    assert!(holder.reply().starts_with("-ERR Script killed"));
    becomes(&mut other, "get held", "$-1");
    let info = other.call("info clients");
    assert!(info.contains("watching_clients:0 "), "{info}");
    // Nothing of it was done: its client had gone when it would have run again.
    assert_eq!(other.call("get a"), "$-1");
}

#[test]
fn what_looks_at_all_keys_waits_for_a_script_and_nobody_else_does() {
    for driver in DRIVERS {
        let server = start(driver, "1", &["--busy-reply-threshold", "60000"]);
        let (mut slow, mut other) = (server.client(), server.client());
        assert_eq!(other.call("set held x"), "+OK");
        slow.send(FOREVER);
        pause(30);
        let lines = ["keys *", "scan 0", "get held", "set held y", "debug object held"];
        let mut waiting: Vec<Client> = lines
            .iter()
            .map(|line| {
                let mut client = server.client();
                client.send(line);
                client
            })
            .collect();
        pause(50);
        for n in 1..20 {
            assert_eq!(other.call("incr free"), format!(":{n}"));
        }
        assert_eq!(other.call("script kill"), "+OK");
        assert!(slow.reply().starts_with("-ERR Script killed"));
        for (client, line) in waiting.iter_mut().zip(lines) {
            assert!(client.reply_within(Duration::from_secs(10)).is_some(), "{line}");
        }
    }
}

#[test]
fn who_needs_everything_is_told_when_a_script_takes_too_long() {
    let server = start("epoll", "2", &["--busy-reply-threshold", "200"]);
    let (mut slow, mut all, mut other) = (server.client(), server.client(), server.client());
    slow.send(FOREVER);
    pause(30);
    assert!(all.call("flushall").starts_with("-BUSY"));
    assert!(all.call("swapdb 0 1").starts_with("-BUSY"));
    assert!(all.call("get held").starts_with("-BUSY"));
    assert_eq!(other.call("set free 1"), "+OK");
    assert_eq!(other.call("script kill"), "+OK");
    assert_eq!(all.call("flushall"), "+OK");
    assert_eq!(other.call("dbsize"), ":0");
}

#[test]
fn the_server_stops_in_the_middle_of_scripts() {
    for driver in DRIVERS {
        let mut server = start(driver, "2", &["--busy-reply-threshold", "20"]);
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        clients[0].send(FOREVER);
        clients[1].send("multi;set b 1;eval \"while true do end\" 0;exec");
        clients[2].send("eval \"redis.call('set', 'c', 1) while true do end\" 0");
        pause(100);
        clients[3].send("shutdown nosave");
        assert!(clients[3].is_closed());
        assert!(server.ends_well(), "{driver}");
    }
}

#[test]
fn a_script_that_has_not_written_can_be_killed_in_a_block_that_has() {
    let server = start("epoll", "1", &["--busy-reply-threshold", "20"]);
    let (mut slow, mut other) = (server.client(), server.client());
    slow.send("multi;set a 1;eval \"while true do end\" 0;incr a;exec");
    pause(80);
    assert_eq!(other.call("script kill"), "+OK");
    (0..4).for_each(|_| drop(slow.reply()));
    let reply = slow.reply();
    assert!(reply.starts_with("*3 +OK -ERR Script killed") && reply.ends_with(" :2"), "{reply}");
}

#[test]
fn settings_may_change_in_the_middle() {
    let server = start("epoll", "1", &["--proto-max-bulk-len", "2mb"]);
    let (mut slow, mut other) = (server.client(), server.client());
    let long = "x".repeat(1_200_000);
    slow.send(&format!("eval \"for i = 1, 10000000 do end return #ARGV[1]\" 1 held {long}"));
    pause(30);
    assert_eq!(other.call("config set proto-max-bulk-len 1mb"), "+OK");
    assert_eq!(slow.reply(), ":1200000");
    assert_eq!(other.call("get held"), "$-1");
}

/// Blocks that watch what they change themselves, with scripts that use keys they do not declare: a block that was undone
/// and runs again must not find its own traces.
#[test]
fn blocks_that_run_again_keep_their_watches() {
    let server = start("epoll", "3", &[]);
    let rounds = 150u64;
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|n| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut done = 0;
                    for round in 0..rounds {
                        let own = format!("own{n}");
                        client.call(&format!("watch {own} shared{}", round % 2));
                        client.send(&format!(
                            "multi;incr {own};eval \"redis.call('incr', 'sum') redis.call('incr', ARGV[1]) \
                             return redis.call('incr', 'sum')\" 0 k{};exec",
                            (n + round) % 3
                        ));
                        (0..3).for_each(|_| drop(client.reply()));
                        let reply = client.reply();
                        // Nobody changes what it watches.
                        assert!(reply.starts_with("*2 :"), "{reply}");
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut client = server.client();
    assert_eq!(client.call("mget sum own0 own3"), format!("*3 $4 {} $3 {rounds} $3 {rounds}", done * 2));
    let sum =
        client.call("eval \"return redis.call('get', 'k0') + redis.call('get', 'k1') + redis.call('get', 'k2')\" 0");
    assert_eq!(sum, format!(":{done}"));
}

#[test]
fn a_block_that_runs_again_is_refused_if_what_it_watches_has_changed() {
    let server = start("epoll", "2", &["--busy-reply-threshold", "60000"]);
    let (mut holder, mut block, mut other) = (server.client(), server.client(), server.client());
    holder.send(FOREVER);
    pause(30);
    block.call("watch w");
    block.send("multi;set mine 1;eval \"return redis.call('get', 'held')\" 0;exec");
    (0..3).for_each(|_| drop(block.reply()));
    block.waits();
    assert_eq!(other.call("get mine"), "$-1");
    assert_eq!(other.call("set w 1"), "+OK");
    assert_eq!(other.call("script kill"), "+OK");
    assert_eq!(block.reply(), "*-1");
    assert_eq!(other.call("get mine"), "$-1");
}

//! Long scripts through the real binary: their clients leave or are killed, others want their keys, the server stops.

use std::time::{Duration, Instant};

use crate::support::{Client, Server};

const DRIVERS: [&str; 2] = ["epoll", "io_uring"];

fn start(driver: &str, workers: &str, more: &[&str]) -> Server {
    Server::start(&[&["--workers", workers, "--io-driver", driver], more].concat())
}

/// Holds `held` and runs until it is killed.
const FOREVER: &str = "eval \"redis.call('get', KEYS[1]) while true do end\" 1 held";

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Starts a script that holds `held` until it is killed.
fn hold(server: &Server) -> Client {
    let mut holder = server.client();
    holder.send(FOREVER);
    // A client that asks for the key is answered until the script has it, and waits from then on.
    let parked = server.parked();
    loop {
        let mut probe = server.client();
        probe.send("get held");
        while probe.reply_within(Duration::from_millis(5)).is_none() {
            if server.parked() > parked {
                return holder;
            }
        }
    }
}

/// Waits until a script has met another's key.
fn waits_for_what_is_held(client: &mut Client) {
    let until = Instant::now() + Duration::from_secs(60);
    while !client.call("info workers").contains("script_reruns=1") {
        assert!(Instant::now() < until);
        pause(10);
    }
    pause(50);
}

/// Asks until the reply is the expected one.
fn until(client: &mut Client, line: &str, is_it: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = client.call(line);
        if is_it(&answer) {
            return;
        }
        assert!(Instant::now() < end, "{line}: {answer}");
        pause(10);
    }
}

/// Asks until the reply is `expected`.
fn becomes(client: &mut Client, line: &str, expected: &str) {
    until(client, line, |answer| answer == expected);
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
    let (mut slow, mut other) = (server.client(), server.client());
    let mut holder = hold(&server);
    // The script begins, is suspended, and then needs the other script's key.
    slow.call("watch a b");
    let id = slow.call("client id").trim_start_matches(':').to_owned();
    slow.send("multi;set a 1;eval \"for i = 1, 3000000 do end return redis.call('get', 'held')\" 0;exec");
    slow.resets();
    waits_for_what_is_held(&mut other);
    until(&mut other, "client list", |list| !list.contains(&format!("id={id} ")));
    assert_eq!(other.call("script kill"), "+OK");
    assert!(holder.reply().starts_with("-ERR Script killed"));
    becomes(&mut other, "get held", "$-1");
    let info = other.call("info clients");
    assert!(info.contains("watching_clients:0 "), "{info}");
    // Nothing of it was done: its client had gone when it would have run again.
    assert_eq!(other.call("get a"), "$-1");
}

#[test]
fn a_client_that_closes_while_a_script_has_its_key_is_gone() {
    for driver in DRIVERS {
        let server = start(driver, "2", &["--busy-reply-threshold", "60000"]);
        let (mut other, mut waiting) = (server.client(), server.client());
        let id = format!("id={} ", waiting.call("client id").trim_start_matches(':'));
        let mut holder = hold(&server);
        let parked = server.parked();
        waiting.send("set held x");
        while server.parked() == parked {
            pause(5);
        }
        drop(waiting);
        until(&mut other, "client list", |list| !list.contains(&id));
        assert_eq!(other.call("script kill"), "+OK");
        assert!(holder.reply().starts_with("-ERR Script killed"));
        becomes(&mut other, "get held", "$-1");
        assert_eq!(other.call("get held"), "$-1");
    }
}

#[test]
fn what_looks_at_all_keys_waits_for_a_script_and_nobody_else_does() {
    for driver in DRIVERS {
        let server = start(driver, "1", &["--busy-reply-threshold", "60000", "--enable-debug-command", "local"]);
        let mut other = server.client();
        assert_eq!(other.call("set held x"), "+OK");
        let mut slow = hold(&server);
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
            assert!(client.reply_within(Duration::from_secs(60)).is_some(), "{line}");
        }
    }
}

#[test]
fn who_needs_everything_is_told_when_a_script_takes_too_long() {
    let server = start("epoll", "2", &["--busy-reply-threshold", "200"]);
    let (mut all, mut other) = (server.client(), server.client());
    let _slow = hold(&server);
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

/// Commands of all families that change existing keys.
const CHANGES: &[&str] = &[
    "set s x",
    "append s yy",
    "setrange s 30 z",
    "getset s q",
    "incr n",
    "incrbyfloat n 0.5",
    "getdel n",
    "getex s px 100000",
    "persist volatile",
    "expire s 1000",
    "mset s 1 m 2",
    "setbit bits 9 1",
    "bitop not bits2 bits",
    "bitfield bits set u8 0 200",
    "rename l l2",
    "copy h h2",
    "copy h elsewhere db 3",
    "move volatile 2",
    "lpush l2 a b c",
    "lmove l2 l3 left right",
    "rpoplpush l2 l4",
    "lmpop 1 l3 left",
    "linsert l2 before b z",
    "ltrim l2 1 2",
    "sadd u 1 2 3",
    "spop u",
    "smove u u2 2",
    "sunionstore u3 u set",
    "zadd z 5 e",
    "zincrby z 2 e",
    "zpopmin z",
    "zmpop 1 z max",
    "zunionstore z2 2 z set",
    "zrangestore z3 z 0 -1",
    "zremrangebyrank z 0 0",
    "hset h f 1",
    "hincrby h f 5",
    "hdel h a",
    "hexpire h 1000 fields 1 f",
    "hpersist h fields 1 f",
    "xadd st 9-1 k v",
    "xgroup create st other 0",
    "xreadgroup group g c streams st >",
    "xack st g 1-1",
    "xtrim st maxlen 1",
    "xdel st 9-1",
    "pfadd pf a b",
    "pfmerge pf2 pf",
    "geoadd geo 13.3 38.1 p 15 37.5 c",
    "geosearchstore geo2 geo fromlonlat 15 37 byradius 200 km",
    "georadius geo 15 37 200 km store geo3",
    "sort l2 alpha store sorted",
    "sort set by nosort store sorted2",
    "unlink set",
    "del h2",
    "select 5",
    "set there 1",
    "select 0",
];

#[test]
fn what_is_undone_leaves_nothing() {
    let server = start("epoll", "2", &["--busy-reply-threshold", "60000", "--enable-debug-command", "local"]);
    let mut other = server.client();
    for line in [
        "set s start",
        "set n 41",
        "set volatile 1 px 1000000",
        "set bits xyz",
        "rpush l 1 2 3",
        "sadd set a b c",
        "sadd u 9",
        "zadd z 1 a 2 b 3 c",
        "hset h a 1 b 2",
        "xadd st 1-1 k v",
        "xadd st 2-1 k v",
        "xgroup create st g 0",
        "pfadd pf z",
    ] {
        assert!(!other.call(line).starts_with('-'), "{line}");
    }
    let before = other.call("debug digest exact");
    let calls: String = CHANGES
        .iter()
        .map(|line| {
            let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
            format!("redis.call({}) ", words.join(", "))
        })
        .collect();
    let script = format!("eval \"{calls} return redis.call('get', 'held')\" 0");
    for block in [script.clone(), format!("multi;incr n;{script};set after 1;exec")] {
        let (mut holder, mut undone) = (hold(&server), server.client());
        let id = undone.call("client id").trim_start_matches(':').to_owned();
        undone.send(&block);
        waits_for_what_is_held(&mut other);
        assert_eq!(other.call(&format!("client kill id {id}")), ":1");
        assert_eq!(other.call("get after"), "$-1");
        assert_eq!(other.call("script kill"), "+OK");
        holder.reply();
        assert_eq!(other.call("debug digest exact"), before);
        assert_eq!(other.call("config resetstat"), "+OK");
    }
    // The same without a hindrance: no command fails by itself.
    let reply = other.call(&script);
    assert_eq!(reply, "$-1");
    assert_ne!(other.call("debug digest exact"), before);
}

/// Blocks that watch the keys that they change, with scripts that use undeclared keys. A block that was undone and runs
/// again must not see its own changes.
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
                        // No other client changes its watched keys.
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
    let (mut block, mut other) = (server.client(), server.client());
    let _holder = hold(&server);
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

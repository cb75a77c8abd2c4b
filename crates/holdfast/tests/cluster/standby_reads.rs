//! Reads at a standby, and what it leaves to its owner.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::standby_views::field;
use crate::standbys::{Copied, PATIENCE};
use crate::support::Client;

/// A client of the standby that hears where else it is to read, if not there.
fn reader(copied: &Copied) -> Client {
    let mut client = copied.nodes.client(1);
    assert_eq!(client.call("cluster redirect moved"), "+OK");
    assert_eq!(client.call("readonly"), "+OK");
    client
}

/// The reply of the standby itself. A machine that is busy may keep it from hearing how old its copy is.
fn read(client: &mut Client, command: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = client.call(command);
        if !reply.starts_with("-MOVED") && !reply.starts_with("-EXECABORT") {
            return reply;
        }
        assert!(Instant::now() < end, "{command}: {reply}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Until the standby itself answers this.
fn reads(client: &mut Client, command: &str, expected: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = read(client, command);
        if reply == expected {
            return;
        }
        assert!(Instant::now() < end, "{command}: {reply}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_connection_that_only_reads_reads_the_copy() {
    let mut copied = Copied::new();
    copied.sets(0, 20);
    copied.stands_by();
    let (moved, count) = (format!("-MOVED 12182 127.0.0.1:{}", copied.nodes.ports[0] + 1000), copied.count);
    let mut owner = copied.nodes.client(0);
    assert_eq!(owner.call("set foo 1"), "+OK");
    let mut client = reader(&copied);
    reads(&mut client, "get foo", "$1 1");
    reads(&mut client, "mget foo key:1 absent", "*3 $1 1 $1 1 $-1");
    reads(&mut client, "dbsize", &format!(":{}", count + 1));
    assert!(read(&mut client, "keys key:*").starts_with(&format!("*{count} ")));
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let page = read(&mut client, &format!("scan {cursor} count 7"));
        let words: Vec<&str> = page.split(' ').collect();
        seen += words.iter().filter(|word| word.starts_with("key:") || **word == "foo").count();
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, count as usize + 1);
    // Blocks and scripts that only read.
    for command in [
        "eval_ro \"return redis.call('get', KEYS[1])\" 1 foo",
        "eval \"#!lua flags=no-writes\\nreturn redis.call('get', KEYS[1])\" 1 foo",
    ] {
        reads(&mut client, command, "$1 1");
    }
    let end = Instant::now() + PATIENCE;
    loop {
        assert_eq!(client.call("multi"), "+OK");
        let queued = [client.call("get foo"), client.call("strlen foo")];
        let reply = client.call("exec");
        if queued.iter().all(|reply| reply == "+QUEUED") && reply == "*2 $1 1 :1" {
            break;
        }
        assert!(Instant::now() < end, "{queued:?}: {reply}");
    }
    // Everything else is the owner's.
    for command in
        ["set foo 2", "getset foo 2", "getex foo", "blpop foo 1", "sort foo store bar", "eval \"return 1\" 1 foo"]
    {
        assert_eq!(client.call(command), moved, "{command}");
    }
    assert_eq!(owner.call("get foo"), "$1 1");
    // So is all that a client reads that watches or caches: it would not hear of changes.
    assert_eq!(client.call("hello 3").split(' ').next(), Some("%7"));
    assert_eq!(client.call("client tracking on"), "+OK");
    assert_eq!(client.call("get foo"), moved);
    assert_eq!(client.call("client tracking off"), "+OK");
    reads(&mut client, "get foo", "$1 1");
    assert_eq!(client.call("readwrite"), "+OK");
    assert_eq!(client.call("get foo"), moved);
    assert_eq!(client.call("readonly"), "+OK");
    reads(&mut client, "get foo", "$1 1");
    // The standby's knowledge of the log's end may be no older than this.
    let mut admin = copied.nodes.client(1);
    assert_eq!(admin.call("config set replica-max-staleness 0"), "+OK");
    let end = Instant::now() + PATIENCE;
    while client.call("get foo") != moved {
        assert!(Instant::now() < end, "it may not answer");
    }
    let mut smart = Client::at(copied.nodes.ports[1] + 1000);
    for command in ["dbsize", "keys *", "scan 0", "randomkey"] {
        let reply = smart.call(command);
        assert_eq!(reply, "-MASTERDOWN the copy of the data that this node has is not up to date", "{command}");
    }
    // A client that does not care where keys are gets the owner's reply.
    let mut regular = copied.nodes.client(1);
    assert_eq!((regular.call("readonly"), regular.call("get foo")), ("+OK".into(), "$1 1".into()));
    assert_eq!(regular.call("set foo 3"), "+OK");
    assert_eq!(regular.call("get foo"), "$1 3");
    assert_eq!(admin.call("config set replica-max-staleness 1000"), "+OK");
    reads(&mut client, "get foo", "$1 3");
    let end = Instant::now() + PATIENCE;
    while smart.call("dbsize") != format!(":{}", count + 1) {
        assert!(Instant::now() < end, "a smart client counts the keys of the copy");
    }
    assert_eq!(client.call("reset"), "+RESET");
    assert_eq!((client.call("cluster redirect moved"), client.call("get foo")), ("+OK".into(), moved));
}

/// Rule S3: readers at a standby see a prefix of what was written, in blocks, in one command and one after the other.
#[test]
fn readers_see_prefixes() {
    let copied = Copied::new();
    copied.stands_by();
    let (ended, rounds) = (AtomicBool::new(false), 300);
    std::thread::scope(|scope| {
        let write = || {
            let mut client = copied.nodes.client(0);
            for n in 1..=rounds {
                for command in [format!("set p {n}"), format!("set q {n}"), format!("mset r {n} s {n}")] {
                    assert_eq!(client.call(&command), "+OK");
                }
            }
            ended.store(true, SeqCst);
        };
        let look = || {
            let mut client = reader(&copied);
            let number = |word: &str| word.parse::<u64>().unwrap_or(0);
            let (mut last, mut looks) = (0, 0);
            while !ended.load(SeqCst) {
                let reply = client.call("mget p q r s");
                if reply.starts_with("-MOVED") {
                    continue;
                }
                let values: Vec<u64> = reply
                    .split(' ')
                    .skip(1)
                    .filter(|word| !word.starts_with('$') || *word == "$-1")
                    .map(number)
                    .collect();
                let [p, q, r, s] = values[..] else { panic!("{reply}") };
                assert!(r == s && q >= r && p >= q && p <= r + 1 && p >= last, "{reply} after {last}");
                (last, looks) = (p, looks + 1);
            }
            looks
        };
        let reader = scope.spawn(look);
        scope.spawn(write);
        assert!(reader.join().unwrap() > 0, "the standby has answered");
    });
    let mut client = reader(&copied);
    reads(&mut client, "mget p q r s", &format!("*4 $3 {rounds} $3 {rounds} $3 {rounds} $3 {rounds}"));
}

/// Rule S2: nothing that is applied is told, serves a client, or expires; clients of the standby hear it once, of the owner.
#[test]
fn a_standby_tells_wakes_and_expires_nothing() {
    let copied = Copied::with("enable-debug-command local\n");
    copied.stands_by();
    let mut owner = copied.nodes.client(0);
    assert_eq!(owner.call("flushall"), "+OK");
    for at in 0..3 {
        let reply = copied.nodes.client(at).call("config set notify-keyspace-events KEA");
        assert_eq!(reply, "+OK", "{at}");
    }
    let mut events = copied.nodes.client(1);
    assert!(events.call("psubscribe __keyevent@0__:*").starts_with("*3 $10 psubscribe"));
    let mut tracks = copied.nodes.client(1);
    tracks.call("hello 3");
    assert_eq!(tracks.call("client tracking on bcast prefix t:"), "+OK");
    let mut waits = copied.nodes.client(1);
    assert_eq!(waits.call("readonly"), "+OK");
    waits.send("blpop queue 0");
    copied.nodes.until(0, "info clients", |info| info.contains("blocked_clients:1"));

    // Expired keys are hidden, and stay until the owner deletes them.
    let mut client = reader(&copied);
    assert_eq!(owner.call("debug set-active-expire 0"), "+OK");
    assert_eq!(owner.call("set gone 1 px 50"), "+OK");
    reads(&mut client, "dbsize", ":1");
    reads(&mut client, "get gone", "$-1");
    assert_eq!(field(&copied, 1, "stats", "expired_keys"), "0");
    reads(&mut client, "dbsize", ":1");
    assert_eq!(owner.call("get gone"), "$-1");
    reads(&mut client, "dbsize", ":0");

    for n in 0..20 {
        assert_eq!(owner.call(&format!("set t:{n} {n}")), "+OK");
    }
    assert_eq!(owner.call("rpush queue a b"), ":2");
    assert_eq!(waits.reply(), "*2 $5 queue $1 a");
    assert_eq!(owner.call("set last 1"), "+OK");
    reads(&mut client, "get last", "$1 1");
    reads(&mut client, "lrange queue 0 -1", "*1 $1 b");
    let mut heard = Vec::new();
    while !heard.last().is_some_and(|event: &String| event.ends_with("set $4 last")) {
        heard.push(events.reply());
    }
    let of = |kind: &str| heard.iter().filter(|event| event.contains(&format!("__:{kind} "))).count();
    assert_eq!(["set", "rpush", "lpop", "expired", "expire"].map(of), [22, 1, 1, 1, 1], "{heard:?}");
    assert!(events.reply_within(Duration::from_millis(300)).is_none(), "nothing is told twice");
    let mut invalidated = Vec::new();
    while let Some(news) = tracks.reply_within(Duration::from_millis(500)) {
        invalidated.push(news);
    }
    let of_keys: Vec<usize> = (0..20)
        .map(|n| invalidated.iter().filter(|news| news.split(' ').any(|word| word == format!("t:{n}"))).count())
        .collect();
    assert_eq!(of_keys, [1; 20], "{invalidated:?}");
    for name in ["expired_keys", "expired_keys_active", "evicted_keys"] {
        assert_eq!(field(&copied, 1, "stats", name), "0", "{name}");
    }
}

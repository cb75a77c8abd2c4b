//! Acknowledged writes survive the end of the process, whatever ends it.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Client, Scratch, Server, random};

/// A server on this directory; dropping it kills it.
fn server(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--log-segment-size", "1mb", "--enable-debug-command", "yes"];
    Server::start(&[&settings, more].concat())
}

/// Changes of all kinds, some of which fail or change nothing.
fn change(client: &mut Client, rng: &mut impl FnMut(u64) -> u64) {
    for _ in 0..400 {
        if rng(100) == 0 {
            // Later changes are made to keys that have left memory.
            client.saves();
            client.call("debug evict");
        }
        let (a, b, n) = (rng(30), rng(30), rng(1000));
        let line = match rng(24) {
            0 | 1 => format!("set k{a} {n}"),
            2 => format!("incrby c{a} {n}"),
            3 => format!("append s{a} x{n}"),
            4 => format!("rpush l{a} {n} {b}"),
            5 => format!("lpop l{a}"),
            6 => format!("sadd s{{t}}{a} {n} {b}"),
            7 => format!("spop s{{t}}{a}"),
            8 => format!("zadd z{a} {n} m{b}"),
            9 => format!("zpopmin z{a}"),
            10 => format!("hset h{a} f{b} {n}"),
            11 => format!("hpexpire h{a} 100000{n} fields 1 f{b}"),
            12 => format!("xadd x{a} * f {n}"),
            13 => format!("rename k{a} k{b}"),
            14 => format!("copy l{a} l{b} replace"),
            15 => format!("del k{a} l{b}"),
            16 => format!("pexpire k{a} 100000{n}"),
            17 => format!("setrange big{a} {} {n}", rng(40_000)),
            18 => format!("pfadd p{a} {n} {b}"),
            19 => format!("multi;set m{a} {n};incr c{a};lpush k{a} x;exec"),
            20 => format!("eval \"redis.call('set', 'e{a}', {n}) return redis.call('incr', 'c{b}')\" 0"),
            21 => format!("move k{a} 3"),
            22 => format!("setnx k{a} {n};lmove l{a} l{b} left right"),
            _ => format!("sinterstore s{{t}}d s{{t}}{a} s{{t}}{b};bitop or bits k{a} k{b}"),
        };
        client.send(&line);
        for _ in 0..=line.matches(';').count() {
            client.reply();
        }
    }
    match rng(8) {
        0 => drop(client.call("flushdb")),
        1 => drop(client.call("swapdb 0 3")),
        2 | 3 => {
            client.saves();
            client.call("debug evict");
        }
        4 => drop(client.call("debug evict")),
        _ => {}
    }
}

/// The newest segment of the only stream.
fn newest_segment(dir: &Scratch) -> PathBuf {
    let files = std::fs::read_dir(dir.path().join("holdfast/log")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let segments = names.filter(|name| name.ends_with(".log") && !name.starts_with("spare"));
    dir.path().join("holdfast/log").join(segments.max().unwrap())
}

/// All data: names and their number as walks see them, then their values.
fn image(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in ["select 3", "select 0"] {
        client.call(db);
        all.push(client.call("dbsize"));
        let mut names: Vec<String> = client.call("keys *").split(' ').map(String::from).collect();
        names.sort();
        all.append(&mut names);
    }
    all.push(client.call("debug digest exact"));
    all
}

#[test]
fn what_was_confirmed_is_there_after_a_kill() {
    for (streams, promise) in [(1, "always"), (3, "always"), (1, "everysec"), (2, "no")] {
        let dir = Scratch::new();
        let dirs: Vec<String> = (0..streams).map(|i| format!("stream-{i}")).collect();
        let mut settings = vec!["--appendfsync", promise, "--log-dirs"];
        settings.extend(dirs.iter().map(String::as_str));
        let mut rng = random(77 + streams);
        let mut before = Vec::new();
        for life in 0..4 {
            let server = server(&dir, &settings);
            let mut client = server.client();
            if life > 0 {
                assert_eq!(image(&mut client), before, "{streams} streams, {promise}, life {life}");
            }
            change(&mut client, &mut rng);
            before = image(&mut client);
        }
        let server = server(&dir, &settings);
        assert_eq!(image(&mut server.client()), before, "{streams} streams, {promise}");
    }
}

/// A record that is longer than a block is written in parts, and read as a whole.
#[test]
fn a_record_longer_than_a_block_is_kept() {
    let dir = Scratch::new();
    let script =
        "for i = 1, 40 do redis.call('rpush', 'a', i .. string.rep('x', 1000000)) end return redis.call('llen', 'a')";
    let mut before = Vec::new();
    for round in 0..4 {
        let server = server(&dir, &[]);
        let mut client = server.client();
        if round > 0 {
            assert_eq!(image(&mut client), before, "round {round}");
        }
        assert_eq!(client.call("del a b"), if round == 0 { ":0" } else { ":1" });
        assert_eq!(client.call(&format!("eval \"{script}\" 0")), ":40");
        assert_eq!(client.call("rename a b"), "+OK");
        if round == 1 {
            client.saves();
        }
        before = image(&mut client);
    }
}

#[test]
fn pipelines_are_answered_in_order_and_kept() {
    let dir = Scratch::new();
    for life in 0..3 {
        let server = server(&dir, &["--workers", "2"]);
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for (i, client) in clients.iter_mut().enumerate() {
            let lines: Vec<String> = (0..100).map(|n| format!("incr n;set k{i} {n};get k{i};get none")).collect();
            client.send(&lines.join(";"));
        }
        for client in &mut clients {
            let mut last = life * 800;
            for n in 0..100 {
                let counted: i64 = client.reply()[1..].parse().unwrap();
                assert!(counted > last);
                last = counted;
                let digits = n.to_string().len();
                assert_eq!(client.reply(), "+OK");
                assert_eq!(client.reply(), format!("${digits} {n}"));
                assert_eq!(client.reply(), "$-1");
            }
        }
        assert_eq!(
            server.client().call("get n"),
            format!("${} {}", ((life + 1) * 800).to_string().len(), (life + 1) * 800)
        );
    }
}

#[test]
fn what_others_hear_of_comes_as_well() {
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--notify-keyspace-events", "KEA"]);
    let (mut waiter, mut listener, mut caching, mut writer) =
        (server.client(), server.client(), server.client(), server.client());
    listener.send("psubscribe *");
    listener.reply();
    caching.call("hello 3");
    caching.call("client tracking on");
    caching.call("get k");
    waiter.send("blpop l 0");
    server.blocked_clients(1);
    assert_eq!(writer.call("rpush l 1"), ":1");
    assert_eq!(waiter.reply(), "*2 $1 l $1 1");
    for expected in ["rpush", "lpop", "del"] {
        assert!(listener.reply().contains(expected));
        assert!(listener.reply().contains(expected));
    }
    assert_eq!(writer.call("set k 1"), "+OK");
    assert_eq!(caching.reply(), ">2 $10 invalidate *1 $1 k");
    writer.send("multi;set k 2;publish c hello;exec");
    (0..4).for_each(|_| drop(writer.reply()));
    let heard: Vec<String> = (0..5).map(|_| listener.reply()).collect();
    assert!(heard.iter().any(|line| line.ends_with("$5 hello")), "{heard:?}");
    writer.send("set k 3;publish c again;quit");
    assert_eq!([(); 3].map(|()| writer.reply()), ["+OK", ":1", "+OK"]);
    assert!(writer.is_closed());
}

#[test]
fn a_second_server_on_the_same_log_is_refused() {
    let dir = Scratch::new();
    let first = server(&dir, &[]);
    let mut client = first.client();
    assert_eq!(client.call("set a 1"), "+OK");
    let path = dir.path().display().to_string();
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes"]);
    assert!(error.contains("used by another server"), "{error}");
    assert_eq!(client.call("get a"), "$1 1");
}

#[test]
fn waitaof_tells_what_is_on_the_disk() {
    for (promise, timeout, expected) in [("always", 0, ":1"), ("everysec", 0, ":1"), ("no", 30, ":0")] {
        let dir = Scratch::new();
        let server = server(&dir, &["--appendfsync", promise]);
        let mut client = server.client();
        client.send(&format!("set a 1;waitaof 1 0 {timeout};get a"));
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), format!("*2 {expected} :0"), "{promise}");
        assert_eq!(client.reply(), "$1 1");
        assert_eq!(client.call("waitaof 2 1 0"), "-ERR value is out of range, value must between 0 and 1");
        assert_eq!(client.call("waitaof 1 0 -1"), "-ERR timeout is negative");
        client.send("multi;set a 2;waitaof 1 0 0;exec");
        (0..3).for_each(|_| drop(client.reply()));
        assert!(client.reply().starts_with("*2 +OK *2 :"), "a block does not wait");
        // A client that waits for ever can be unblocked.
        let mut other = server.client();
        if promise == "no" {
            other.send("set b 1;waitaof 1 0 0");
            assert_eq!(other.reply(), "+OK");
            server.blocked_clients(1);
            client.call("client kill type normal skipme yes");
            assert!(other.is_closed());
            server.blocked_clients(0);
        }
    }
}

#[test]
fn libraries_of_functions_are_kept() {
    let dir = Scratch::new();
    let code = |name: &str, n: u32| {
        format!("\"#!lua name={name}\\nredis.register_function('{name}', function() return {n} end)\"")
    };
    let library = |name: &str, n: u32| format!("function load replace {}", code(name, n));
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        assert_eq!(client.call(&library("a", 1)), "$1 a");
        assert_eq!(client.call(&library("b", 2)), "$1 b");
        assert_eq!(client.call("function delete b"), "+OK");
        client.send(&format!("multi;set k 1;{};fcall c 0;exec", library("c", 3)));
        (0..4).for_each(|_| drop(client.reply()));
        assert_eq!(client.reply(), "*3 +OK $1 c :3");
    }
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        client.send("fcall a 0;fcall c 0;get k;fcall b 0");
        assert_eq!([(); 3].map(|()| client.reply()), [":1", ":3", "$1 1"]);
        assert!(client.reply().starts_with("-ERR Function not found"));
        // From a checkpoint, and from records after it.
        client.saves();
        assert_eq!(client.call(&library("a", 10)), "$1 a");
    }
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        client.send("fcall a 0;fcall c 0;function flush;save");
        assert_eq!([(); 4].map(|()| client.reply()), [":10", ":3", "+OK", "+OK"]);
    }
    let server = server(&dir, &[]);
    assert_eq!(server.client().call("function list"), "*0");
}

#[test]
fn damage_is_found_by_check_and_stops_the_start() {
    let check = |dir: &Scratch| {
        let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("check").arg(dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    };
    let dir = Scratch::new();
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        for n in 0..200 {
            assert_eq!(client.call(&format!("set k{n} {n}")), "+OK");
        }
        let (good, text) = check(&dir);
        assert!(!good && text.contains("used by"), "{text}");
    }
    let (good, text) = check(&dir);
    assert!(good && text.contains("everything is as it was written"), "{text}");
    // A byte of a record in the middle, which had been synced.
    let segment = newest_segment(&dir);
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(4).position(|window| window == b"k100").unwrap();
    bytes[at + 1] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let (good, text) = check(&dir);
    assert!(!good && text.contains("DAMAGED") && text.contains(".log"), "{text}");
    let path = dir.path().display().to_string();
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes", "--log-segment-size", "1mb"]);
    assert!(error.contains(".log") && error.contains("at byte"), "{error}");
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "nothing is changed");
}

/// After a kill, a missing newest segment is noticed, in a start and in a stream.
#[test]
fn a_missing_newest_segment_stops_the_start() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    for life in 0..3 {
        {
            let server = server(&dir, &[]);
            let mut client = server.client();
            for n in 0..life * 40 {
                assert_eq!(client.call(&format!("set k{n} {}", "x".repeat(50_000))), "+OK");
            }
        }
        let segment = newest_segment(&dir);
        let aside = segment.with_extension("aside");
        std::fs::rename(&segment, &aside).unwrap();
        let error = Server::refused(&["--dir", &path, "--appendonly", "yes", "--log-segment-size", "1mb"]);
        assert!(error.contains(&segment.display().to_string()) && error.contains("missing"), "{error}");
        std::fs::rename(&aside, &segment).unwrap();
    }
}

/// Several threads apply the log. If one of them cannot read the store, the start reports it, whatever the others and
/// the log's barriers do.
#[test]
fn a_start_that_cannot_read_the_store_says_so() {
    let dir = Scratch::new();
    {
        let server = server(&dir, &["--warm-up-cpu", "1"]);
        let mut client = server.client();
        let mut rng = random(3);
        for n in 0..200 {
            let value: String = (0..80).map(|_| format!("{:04x}", rng(1 << 16))).collect();
            assert_eq!(client.call(&format!("rpush k{n} {value}")), ":1");
        }
        client.saves();
        for n in 0..200 {
            assert_eq!(client.call(&format!("rpush k{n} y")), ":2");
        }
        assert_eq!(client.call("flushall"), "+OK");
        assert_eq!(client.call("set k 1"), "+OK");
    }
    let tables = dir.path().join("holdfast/store/tree/tables");
    for table in std::fs::read_dir(&tables).unwrap() {
        let path = table.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // Entries in the middle, not those that are read when the store is opened, as most are of the table that the
        // store begins with.
        if bytes.len() < 20_000 {
            continue;
        }
        let (from, end) = (bytes.len() / 3, bytes.len() / 3 * 2);
        bytes[from..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).unwrap();
    }
    let path = dir.path().display().to_string();
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes", "--log-segment-size", "1mb"]);
    assert!(error.contains("cannot be applied") && !error.contains("panicked"), "{error}");
}

/// A command that changes nothing may still give its key another form, and a version: no reply waits for that version
/// to reach the log.
#[test]
fn what_changes_nothing_keeps_nobody_waiting() {
    let dir = Scratch::new();
    let server = server(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.call("set k 10"), "+OK");
    assert_eq!(client.call("bitfield k incrby u8 5 0 overflow fail incrby u8 0 255"), "*2 :38 $-1");
    assert_eq!(server.client().call("get k"), "$2 10");
    assert_eq!(client.call("setrange k 0 10"), ":2");
    assert_eq!(server.client().call("get k"), "$2 10");
}

//! Checkpoints of a running server: after any end of the process, a start finds everything in them and in the log, and
//! the log stays short.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::{Client, Scratch, Server, random};

/// A server on this directory; dropping it kills it.
fn server(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = [
        "--dir",
        &dir,
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
        "--log-segment-size",
        "64kb",
        "--checkpoint-cpu",
        "100",
        "--enable-debug-command",
        "yes",
    ];
    Server::start(&[&settings, more].concat())
}

/// A line of INFO.
fn info(client: &mut Client, name: &str) -> String {
    let text = client.call("info persistence");
    let at = text.find(&format!(" {name}:")).unwrap_or_else(|| panic!("no {name} in {text}"));
    text[at + name.len() + 2..].split_whitespace().next().unwrap().into()
}

fn until(client: &mut Client, name: &str, wanted: impl Fn(&str) -> bool) {
    for _ in 0..12_000 {
        if wanted(&info(client, name)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{name} stays {}", info(client, name));
}

/// Changes that leave some keys, many of one slot, and delete others.
fn change(client: &mut Client, rng: &mut impl FnMut(u64) -> u64, n: usize) {
    let mut lines = Vec::new();
    for _ in 0..n {
        let (a, b) = (rng(400), rng(1000));
        lines.push(match rng(12) {
            0..3 => format!("set k{a} {b}"),
            3 => format!("set {{t}}{a} {}", "v".repeat(b as usize)),
            4 => format!("del k{a} {{t}}{b}"),
            5 => format!("rpush l{a} {b} {b}"),
            6 => format!("lpop l{a}"),
            7 => format!("hset h{a} f{b} {b}"),
            8 => format!("sadd big {b} x{b} y{a}"),
            9 => format!("zadd bigger {b} m{b}{a}"),
            10 => format!("multi;incr n;set e{a} {b} ex 1000;del h{b};exec"),
            _ => format!("rename k{a} {{t}}{b};append {{t}}{b} x"),
        });
    }
    let lines = lines.join(";");
    client.send(&lines);
    (0..=lines.matches(';').count()).for_each(|_| drop(client.reply()));
}

#[test]
fn checkpoints_and_the_log_since_make_what_was_there() {
    let dir = Scratch::new();
    let mut rng = random(11);
    let mut before = String::new();
    for life in 0..8 {
        // Checkpoints by themselves, now and then: after few bytes, and all the time.
        let log = if life % 2 == 0 { "1mb" } else { "1gb" };
        let server = server(&dir, &["--workers", "2", "--checkpoint-log-size", log]);
        let mut client = server.client();
        if life > 0 {
            assert_eq!(client.call("debug digest exact"), before, "life {life}");
        }
        for part in 0..4 {
            change(&mut client, &mut rng, 300);
            match (life + part) % 4 {
                0 => assert!(client.call("bgsave schedule").starts_with("+Background saving ")),
                1 if life > 3 => assert_eq!(client.call("flushall"), "+OK"),
                1 => assert_eq!(client.call("swapdb 0 1"), "+OK"),
                _ => {}
            }
        }
        // The server is killed in the middle of a checkpoint, or after it.
        if life % 3 == 0 {
            until(&mut client, "rdb_bgsave_in_progress", |running| running == "0");
            client.saves();
            assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "0");
            change(&mut client, &mut rng, 30);
        }
        before = client.call("debug digest exact");
    }
    let server = server(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.call("debug digest exact"), before);
    client.saves();
    assert_eq!(info(&mut client, "tombstones"), "0");
}

/// The log does not grow beyond the setting, and a client sees its own writes.
#[test]
fn the_log_is_cut() {
    let dir = Scratch::new();
    let server = server(&dir, &["--checkpoint-log-size", "1mb"]);
    let mut client = server.client();
    let value = "v".repeat(2000);
    let mut part = 0;
    // 12 MB, and more if that is written before the disk has taken two checkpoints.
    while part < 30 || part < 300 && info(&mut client, "rdb_saves").parse::<u64>().unwrap() < 2 {
        part += 1;
        let lines: Vec<String> = (0..200).map(|n| format!("set key:{n} {value}{part}")).collect();
        client.send(&lines.join(";"));
        (0..200).for_each(|_| assert_eq!(client.reply(), "+OK"));
        std::thread::sleep(Duration::from_millis(20));
    }
    until(&mut client, "rdb_bgsave_in_progress", |running| running == "0");
    client.saves();
    until(&mut client, "aof_current_size", |size| size.parse::<u64>().unwrap() < 4 << 20);
    assert!(info(&mut client, "rdb_saves").parse::<u64>().unwrap() > 2);
}

#[test]
fn shutdown_save_leaves_nothing_to_the_log() {
    let dir = Scratch::new();
    let mut first = server(&dir, &[]);
    let mut client = first.client();
    change(&mut client, &mut random(5), 500);
    let digest = client.call("debug digest exact");
    client.send("shutdown save");
    assert!(client.is_closed());
    assert!(first.ends_well());
    drop(first);
    let second = server(&dir, &[]);
    let mut client = second.client();
    assert_eq!(client.call("debug digest exact"), digest);
    let keys: u64 = client.call("dbsize")[1..].parse().unwrap();
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), keys.to_string());
    assert_eq!(client.call("lastsave"), format!(":{}", info(&mut client, "rdb_last_save_time")));
}

fn remove(path: &Path) {
    fs::remove_dir_all(path).unwrap();
}

/// Log and store belong together: without one of them acknowledged writes would be lost.
#[test]
fn half_of_it_is_refused() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    {
        let server = server(&dir, &["--checkpoint-log-size", "1mb"]);
        let mut client = server.client();
        change(&mut client, &mut random(9), 3000);
        client.saves();
        change(&mut client, &mut random(10), 3000);
        client.send("select 9;set a 1");
        assert_eq!([client.reply(), client.reply()], ["+OK", "+OK"]);
        client.saves();
    }
    let copy = Scratch::new();
    fs::rename(dir.path().join("holdfast/store"), copy.path().join("store")).unwrap();
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes"]);
    assert!(error.contains("a checkpoint that the store"), "{error}");
    remove(&dir.path().join("holdfast/store"));
    fs::rename(copy.path().join("store"), dir.path().join("holdfast/store")).unwrap();
    let more = Server::refused(&["--dir", &path, "--appendonly", "yes", "--databases", "4"]);
    assert!(more.contains("databases"), "{more}");
    remove(&dir.path().join("holdfast/log"));
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes"]);
    assert!(error.contains("the log are empty"), "{error}");
}

#[test]
fn without_a_log_there_are_no_checkpoints() {
    let dir = Scratch::new();
    let server = Server::start(&["--dir", &dir.path().display().to_string()]);
    let mut client = server.client();
    assert!(client.call("bgrewriteaof").starts_with("-ERR there is no log"));
    assert_eq!(client.call("bgsave soon"), "-ERR syntax error");
}

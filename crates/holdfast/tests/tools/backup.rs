//! `holdfast backup` of a busy server, and `holdfast restore`: the restored data are those of one moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use crate::support::{Client, Scratch, Server, random};

const ACCOUNTS: u64 = 40;
const EACH: i64 = 1000;

/// A server on this directory; dropping it kills it.
fn server(dir: &Path, more: &[&str]) -> Server {
    let dir = dir.display().to_string();
    let settings = ["--dir", &dir, "--log-segment-size", "1mb", "--workers", "2", "--enable-debug-command", "yes"];
    Server::start(&[&settings[..], &["--appendonly", "yes"], more].concat())
}

fn holdfast(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.trim().to_owned())
}

fn number(reply: &str) -> i64 {
    reply.rsplit([' ', ':']).next().unwrap().parse().unwrap_or(0)
}

/// Moves amounts between accounts, and counts in one key and then in another, until it is told to stop.
fn work(mut client: Client, who: u64, stop: &AtomicBool) {
    let mut rng = random(100 + who);
    let mut n = 0;
    while !stop.load(SeqCst) {
        let (from, to, amount) = (rng(ACCOUNTS), rng(ACCOUNTS), rng(50));
        client.send(&format!("multi;decrby account:{from} {amount};incrby account:{to} {amount};exec"));
        (0..4).for_each(|_| drop(client.reply()));
        n += 1;
        assert_eq!(client.call(&format!("set first:{who} {n}")), "+OK");
        assert_eq!(client.call(&format!("set second:{who} {n}")), "+OK");
        client.send(&format!("rpush list:{who} {n};sadd big:{who} {n} x{n};del list:{};zadd z {n} {who}:{n}", rng(9)));
        (0..4).for_each(|_| drop(client.reply()));
    }
}

#[test]
fn a_backup_is_of_one_moment() {
    for streams in [1, 3] {
        let dir = Scratch::new();
        let logs: Vec<String> = (0..streams).map(|i| format!("stream-{i}")).collect();
        let settings: Vec<&str> = ["--log-dirs"].into_iter().chain(logs.iter().map(String::as_str)).collect();
        let server = server(dir.path(), &settings);
        let mut client = server.client();
        for account in 0..ACCOUNTS {
            assert_eq!(client.call(&format!("set account:{account} {EACH}")), "+OK");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..4)
            .map(|who| {
                let (client, stop) = (server.client(), stop.clone());
                thread::spawn(move || work(client, who, &stop))
            })
            .collect();
        let port = server.port().to_string();
        for backup in 0..4 {
            let name = format!("backups/{backup}");
            let least: Vec<i64> = (0..4).map(|who| number(&client.call(&format!("get second:{who}")))).collect();
            let (good, text) = holdfast(&["backup", "--port", &port, &name]);
            assert!(good, "{text}");
            let most: Vec<i64> = (0..4).map(|who| number(&client.call(&format!("get first:{who}")))).collect();
            let restored = Scratch::new();
            let path = |name: &str| restored.path().join(name).display().to_string();
            let from = dir.path().join(&name).display().to_string();
            let mut words = vec!["restore".to_owned(), from, path("."), "--log-dirs".to_owned()];
            words.extend(logs.iter().map(|log| path(log)));
            let (good, text) = holdfast(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(good, "{text}");
            let again = self::server(restored.path(), &settings);
            let mut there = again.client();
            let sum: i64 = (0..ACCOUNTS).map(|n| number(&there.call(&format!("get account:{n}")))).sum();
            assert_eq!(sum, ACCOUNTS as i64 * EACH, "backup {backup}, {streams} streams");
            for who in 0..4 {
                let first = number(&there.call(&format!("get first:{who}")));
                let second = number(&there.call(&format!("get second:{who}")));
                assert!(first == second || first == second + 1, "{first} was set before {second}");
                let (least, most) = (least[who], most[who] + 1);
                assert!((least..=most).contains(&first), "{first} is not in {least} to {most}");
            }
        }
        stop.store(true, SeqCst);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}

/// A directory with a backup and no running server, and the digest of the backup's data.
fn made(dir: &Scratch) -> (PathBuf, String) {
    let server = server(dir.path(), &[]);
    let mut client = server.client();
    let mut lines = Vec::new();
    for n in 0..300 {
        lines.push(format!("set k{n} {n};rpush l{} {n};hset h f{n} {n};sadd {{t}}big m{n} n{n}", n % 7));
    }
    lines.push("set e 1 ex 10000;select 3;set other 1;swapdb 3 4;select 0".into());
    let lines = lines.join(";");
    client.send(&lines);
    (0..=lines.matches(';').count()).for_each(|_| drop(client.reply()));
    client.saves();
    assert_eq!(client.call("incr k1"), ":2");
    let digest = client.call("debug digest exact");
    assert_eq!(client.call("holdfast backup b"), "+OK");
    // Later changes are not in the backup.
    client.send("set k1 x;del l1;flushdb;save");
    (0..4).for_each(|_| drop(client.reply()));
    (dir.path().join("b"), digest)
}

#[test]
fn what_was_there_is_restored_and_goes_on() {
    let dir = Scratch::new();
    let (backup, digest) = made(&dir);
    let (from, to) = (backup.display().to_string(), Scratch::new());
    let target = to.path().display().to_string();
    let (good, text) = holdfast(&["restore", &from, &target]);
    assert!(good && text.contains("are verified and restored"), "{text}");
    for life in 0..3 {
        let server = server(to.path(), &[]);
        let mut client = server.client();
        if life == 0 {
            assert_eq!(client.call("debug digest exact"), digest);
        }
        assert_eq!(client.call("incr lives"), format!(":{}", life + 1));
        assert_eq!(client.call("get k1"), "$1 2");
        if life == 1 {
            client.saves();
            assert_eq!(client.call("holdfast backup second"), "+OK");
        }
    }
    // Existing data are not replaced.
    let (good, text) = holdfast(&["restore", &from, &target]);
    assert!(!good && text.contains("is not empty"), "{text}");
}

/// All files below a directory.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let (mut paths, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_check_verifies_a_backup_where_it_lies() {
    let dir = Scratch::new();
    let (backup, _) = made(&dir);
    let from = backup.display().to_string();
    let contents = || files_of(&backup).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>();
    let before = contents();
    let (good, text) = holdfast(&["check", &from]);
    assert!(good && text.contains(": a backup of unix time "), "{text}");
    // 300 strings, a hash, 7 lists, a set, `e` and the keys of another database.
    assert!(text.contains("a server of which this is restored has 311 keys"), "{text}");
    assert!(contents() == before, "nothing is changed");
    // A stranger's file among the data is named; one beside log and store does not matter.
    for (name, is_in_the_way) in [("notes", false), ("log-0/0.log", true), ("store/tree/notes", true)] {
        fs::write(backup.join(name), "of somebody's").unwrap();
        let (good, text) = holdfast(&["check", &from]);
        let told = format!("{} is no part of the backup", backup.join(name).display());
        assert!(good != is_in_the_way && text.contains(&told) == is_in_the_way, "{name}: {text}");
        let to = Scratch::new();
        let (good, text) = holdfast(&["restore", &from, &to.path().display().to_string()]);
        assert!(good, "{name}: {text}");
        fs::remove_file(backup.join(name)).unwrap();
    }
    let (good, text) = holdfast(&["check", &from, "--log-dirs", &from]);
    assert!(!good && text.contains("it needs no --log-dirs"), "{text}");
    let (good, text) = holdfast(&["check", &dir.path().join("holdfast").display().to_string()]);
    assert!(!good && text.contains("the directory above it is meant"), "{text}");
    fs::remove_file(backup.join("BACKUP")).unwrap();
    let (good, text) = holdfast(&["check", &from]);
    assert!(!good && text.contains("looks like a backup that was never completed"), "{text}");
}

/// Any damage is found before anything is written.
#[test]
fn a_damaged_backup_is_not_restored() {
    let dir = Scratch::new();
    let (backup, _) = made(&dir);
    let from = backup.display().to_string();
    let found = files_of(&backup);
    assert!(found.len() >= 6, "{found:?}");
    let mut rng = random(3);
    for path in found {
        let good = fs::read(&path).unwrap();
        for damage in 0..3 {
            let mut bytes = good.clone();
            match damage {
                0 => bytes[rng(good.len() as u64) as usize] ^= 1 << rng(8),
                1 => bytes.truncate(good.len() - 1 - rng(good.len() as u64 - 1) as usize),
                _ => bytes.clear(),
            }
            // Tables are linked with those of the server.
            fs::remove_file(&path).unwrap();
            if damage < 2 {
                fs::write(&path, &bytes).unwrap();
            }
            let to = Scratch::new();
            let (restored, text) = holdfast(&["restore", &from, &to.path().display().to_string()]);
            assert!(!restored && !text.is_empty(), "{}, damage {damage}", path.display());
            assert!(fs::read_dir(to.path()).unwrap().next().is_none(), "nothing is written: {text}");
            let (whole, text) = holdfast(&["check", &from]);
            assert!(!whole && !text.is_empty(), "{}, damage {damage}: {text}", path.display());
            fs::write(&path, &good).unwrap();
        }
    }
    let to = Scratch::new();
    let (good, text) = holdfast(&["restore", &from, &to.path().display().to_string()]);
    assert!(good, "{text}");
}

#[test]
fn what_is_no_place_for_a_backup_is_refused() {
    let (dir, other) = (Scratch::new(), Scratch::new());
    let server = server(dir.path(), &[]);
    let mut client = server.client();
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/file"), "x").unwrap();
    for (path, why) in [
        ("full".to_owned(), "is not empty: it holds file"),
        ("full/file/x".to_owned(), "the backup has failed: "),
        ("../x".to_owned(), "enable-protected-configs"),
        (other.path().join("x").display().to_string(), "enable-protected-configs"),
    ] {
        let reply = client.call(&format!("holdfast backup {path}"));
        assert!(reply.starts_with("-ERR ") && reply.contains(why), "{path}: {reply}");
    }
    assert!(dir.path().join("full/file").exists());
    client.send("multi;holdfast backup x;discard");
    assert_eq!(client.reply(), "+OK");
    assert!(client.reply().contains("not allowed inside a transaction"));
    assert_eq!(client.reply(), "+OK");
    let (good, text) = holdfast(&["backup", "--port", &server.port().to_string(), "full"]);
    assert!(!good && text.contains("is not empty"), "{text}");
    // The log goes on being cut after a backup that failed.
    client.saves();
    let without = Server::start(&["--dir", &other.path().display().to_string(), "--appendonly", "no"]);
    assert!(without.client().call("holdfast backup x").contains("needs 'appendonly yes'"));
}

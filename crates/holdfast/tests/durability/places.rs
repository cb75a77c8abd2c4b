//! The directories of the data: each has one use, backups go elsewhere, and data that are not loaded are reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Scratch, Server};

fn settings(dir: &Scratch, more: &[&str]) -> Vec<String> {
    let file = dir.path().join("log.txt").display().to_string();
    let dir = dir.path().display().to_string();
    let own = ["--dir", &dir, "--logfile", &file, "--workers", "2", "--log-segment-size", "1mb", "--appendonly", "yes"];
    own.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn start(dir: &Scratch, more: &[&str]) -> Server {
    Server::start(&settings(dir, more).iter().map(String::as_str).collect::<Vec<_>>())
}

fn refused(dir: &Scratch, more: &[&str]) -> String {
    Server::refused(&settings(dir, more).iter().map(String::as_str).collect::<Vec<_>>())
}

fn logged(dir: &Scratch) -> String {
    fs::read_to_string(dir.path().join("log.txt")).unwrap()
}

#[test]
fn no_two_settings_name_one_directory() {
    let dir = Scratch::new();
    fs::create_dir(dir.path().join("a")).unwrap();
    symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
    let whole = dir.path().join("a").display().to_string();
    for second in ["a", "./a", "a/../a", "link", &whole] {
        let error = refused(&dir, &["--log-dirs", "a", second]);
        assert!(error.contains("log-dirs names the same directory twice"), "{second}: {error}");
        let error = refused(&dir, &["--log-dirs", "a", "--store-dir", second]);
        assert!(error.contains("store-dir and log-dirs both name"), "{second}: {error}");
    }
    assert_eq!(start(&dir, &["--log-dirs", "a", "b"]).client().call("set a 1"), "+OK");
}

#[test]
fn a_directory_of_another_kind_is_no_store() {
    let dir = Scratch::new();
    for (name, file, word) in [
        ("letters", "letter.txt", "letter.txt, and is no store"),
        ("backup", "BACKUP", "a backup: `holdfast restore`"),
        ("log", "0000000000000001.log", "a log"),
    ] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join(file), "x").unwrap();
        let error = refused(&dir, &["--store-dir", name]);
        assert!(error.contains("store-dir names") && error.contains(word), "{error}");
        assert_eq!(fs::read_dir(dir.path().join(name)).unwrap().count(), 1, "nothing is changed");
    }
    fs::write(dir.path().join("file"), "x").unwrap();
    assert!(refused(&dir, &["--store-dir", "file"]).contains("which is no directory"));
    drop(start(&dir, &["--store-dir", "store"]));
    assert!(refused(&dir, &["--log-dirs", "store", "--store-dir", "other"]).contains("which holds a store"));
}

#[test]
fn no_backup_goes_where_the_data_is() {
    let dir = Scratch::new();
    let server = start(&dir, &["--log-dirs", "one", "two", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    assert_eq!(client.call("set a 1"), "+OK");
    symlink(dir.path().join("two"), dir.path().join("link")).unwrap();
    let whole = dir.path().join("one/x").display().to_string();
    for name in ["holdfast/store/backup", "one/backup", "two/new/backup", "link/backup", "holdfast/store", &whole] {
        let reply = client.call(&format!("holdfast backup {name}"));
        assert!(reply.contains("where the data itself is: a backup goes elsewhere"), "{name}: {reply}");
    }
    assert!(!dir.path().join("two/new").exists());
    assert_eq!(client.call("holdfast backup holdfast/backup"), "+OK");
    assert!(logged(&dir).contains("on the disk, in"), "{}", logged(&dir));
    client.saves();
}

/// One backup is made, or one after the other; acknowledged writes are whole.
#[test]
fn two_backups_at_once() {
    let dir = Scratch::new();
    let server = start(&dir, &[]);
    let mut client = server.client();
    for n in 0..300 {
        assert_eq!(client.call(&format!("set key:{n} {n}")), "+OK");
    }
    for round in 0..5 {
        let mut both = [server.client(), server.client()];
        both.iter_mut()
            .zip(["a", "b"])
            .for_each(|(client, name)| client.send(&format!("holdfast backup {name}{round}")));
        let mut good = 0;
        for (client, name) in both.iter_mut().zip(["a", "b"]) {
            let reply = client.reply_within(Duration::from_secs(60)).expect("an answer");
            let folder = dir.path().join(format!("{name}{round}"));
            assert_eq!(folder.exists(), reply == "+OK", "{reply}");
            if reply != "+OK" {
                assert_eq!(reply, "-ERR another backup is under way");
                continue;
            }
            good += 1;
            let to = Scratch::new();
            let restore =
                Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("restore").arg(&folder).arg(to.path()).output();
            assert!(restore.unwrap().status.success());
            assert_eq!(start(&to, &[]).client().call("dbsize"), ":300");
        }
        assert!(good >= 1);
    }
}

#[test]
fn what_is_not_loaded_is_said() {
    let dir = Scratch::new();
    {
        let server = start(&dir, &[]);
        assert_eq!(server.client().call("set a 1"), "+OK");
        assert!(!logged(&dir).contains("is not loaded"));
    }
    let snapshot = dir.path().join("dump.rdb");
    fs::write(&snapshot, "REDIS0011").unwrap();
    let error = refused(&dir, &["--appendonly", "no"]);
    assert!(error.contains("dump.rdb cannot be loaded: at byte 9"), "{error}");
    fs::remove_file(&snapshot).unwrap();
    {
        let server = start(&dir, &["--appendonly", "no"]);
        assert_eq!(server.client().call("dbsize"), ":0");
        assert!(logged(&dir).contains("appendonly is off: the data in"), "{}", logged(&dir));
    }
    let server = start(&dir, &[]);
    assert_eq!(server.client().call("get a"), "$1 1");
}

/// The server is told to stop while a script holds a key for ever, and a checkpoint waits for that key.
#[test]
fn a_stop_waits_for_nobody_who_has_ended() {
    for driver in ["epoll", "io_uring"] {
        let dir = Scratch::new();
        let mut server = start(&dir, &["--io-driver", driver, "--busy-reply-threshold", "20"]);
        let mut client = server.client();
        assert_eq!(client.call("set before 1"), "+OK");
        let mut slow = server.client();
        slow.send("eval \"redis.call('set', KEYS[1], 1) while true do end\" 1 held");
        thread::sleep(Duration::from_millis(100));
        let mut saver = server.client();
        saver.send("save");
        thread::sleep(Duration::from_millis(100));
        let pid = server.id().to_string();
        let began = Instant::now();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(server.ends_well(), "{driver}");
        assert!(began.elapsed() < Duration::from_secs(60), "{driver}");
        drop(server);
        let again = start(&dir, &[]);
        let mut client = again.client();
        assert_eq!(client.call("get before"), "$1 1");
        assert_eq!(client.call("exists held"), ":0", "the script never ended");
    }
}

/// A log is gone, or one of its streams. Only the log had the acknowledged writes, and one stream had none yet.
#[test]
fn a_log_that_is_gone_stops_the_start() {
    let names = ["s0", "s1"];
    let settings = [&["--checkpoint-interval", "0", "--log-dirs"], &names[..]].concat();
    for gone in [&names[..1], &names[1..], &names[..]] {
        for saves in [false, true] {
            let dir = Scratch::new();
            {
                let server = start(&dir, &settings);
                let mut client = server.client();
                assert_eq!(client.call("set k v"), "+OK");
                if saves {
                    client.saves();
                }
            }
            for name in gone {
                fs::rename(dir.path().join(name), dir.path().join(format!("{name}-aside"))).unwrap();
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            let error = refused(&dir, &settings);
            assert!(error.contains("would be lost") || error.contains("holds nothing"), "{gone:?}, {saves}: {error}");
            for name in names {
                let hint = format!("{} holds nothing of a log: is its disk mounted?", dir.path().join(name).display());
                assert_eq!(error.contains(&hint), gone.contains(&name), "{name}: {error}");
            }
            for name in gone {
                // The start has only locked it.
                fs::remove_dir_all(dir.path().join(name)).unwrap();
                fs::rename(dir.path().join(format!("{name}-aside")), dir.path().join(name)).unwrap();
            }
            assert_eq!(start(&dir, &settings).client().call("get k"), "$1 v");
            for (given, lost) in [(["s0", "s0"], "s1"), (["s1", "s1"], "s0"), (["s0", "s2"], "s1")] {
                let given = if given[0] == given[1] { &given[..1] } else { &given[..] };
                let error = refused(&dir, &[&["--log-dirs"], given].concat());
                let hint = format!("log-dirs lacks {}, which the last start had", dir.path().join(lost).display());
                assert!(error.contains(&hint), "{given:?}: {error}");
            }
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = Scratch::new();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = refused(&dir, &["--log-dirs", "file/log"]);
    let wanted =
        format!("log-dirs names {}, which is not there and cannot be made", dir.path().join("file/log").display());
    assert!(error.contains(&wanted) && error.contains("is its disk mounted?"), "{error}");
}

/// A first start was killed between the beginnings of the store and of the log.
#[test]
fn a_first_start_that_was_cut_short_is_gone_on_with() {
    let dir = Scratch::new();
    drop(start(&dir, &[]));
    fs::remove_dir_all(dir.path().join("holdfast/log")).unwrap();
    assert!(refused(&dir, &[]).contains("would be lost"));
    fs::remove_dir_all(dir.path().join("holdfast/store/tree")).unwrap();
    assert_eq!(start(&dir, &[]).client().call("set k v"), "+OK");
    assert_eq!(start(&dir, &[]).client().call("get k"), "$1 v");
}

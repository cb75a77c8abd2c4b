//! `holdfast check` of damaged data predicts a start with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server, random};

const KEYS: u64 = 300;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn settings(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let words =
        ["--dir", &dir, "--appendonly", "yes", "--log-segment-size", "1mb", "--warm-up-cpu", "1", "--workers", "1"];
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn start(dir: &Path) -> Result<Server, String> {
    let settings = settings(dir);
    Server::try_start(&settings.iter().map(String::as_str).collect::<Vec<_>>())
}

fn read(folder: &Path, below: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, below, files);
        } else {
            files.insert(path.strip_prefix(below).unwrap().into(), fs::read(&path).unwrap());
        }
    }
}

fn put_back(dir: &Path, files: &Files) {
    let _ = fs::remove_dir_all(dir.join("holdfast"));
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn files(dir: &Path) -> Files {
    let mut files = Files::new();
    read(&dir.join("holdfast"), dir, &mut files);
    files.retain(|name, _| !name.ends_with("lock") && !name.to_string_lossy().contains("spare-"));
    files
}

/// Adds data of every kind, some of it in a checkpoint. `round` selects the data.
fn change(client: &mut Client, round: u64) {
    let mut rng = random(round + 7);
    for n in 0..KEYS {
        let key = rng(KEYS);
        let value: String = (0..300).map(|_| format!("{:04x}", rng(1 << 16))).collect();
        let line =
            if n % 3 == 0 { format!("rpush list:{key} {value}") } else { format!("set key:{key} {round}{value}") };
        assert!(!client.call(&line).starts_with('-'));
        if n == KEYS / 2 {
            client.saves();
        }
    }
}

/// The values of all keys, read one by one.
fn image(client: &mut Client) -> Vec<String> {
    let keys = (0..KEYS).flat_map(|key| [format!("get key:{key}"), format!("lrange list:{key} 0 -1")]);
    keys.chain(["dbsize".into()]).map(|line| client.call(&line)).collect()
}

/// The result of `holdfast check`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Whole,
    Damaged,
    Unstartable,
}

fn check(dir: &Path) -> (Verdict, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("check").arg(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let verdict = match output.status.success() {
        true => Verdict::Whole,
        false if text.contains("a server starts with this data") => Verdict::Damaged,
        false => Verdict::Unstartable,
    };
    (verdict, text.into_owned())
}

/// Ways to damage a file: the name of the way, and the new contents of the file; `None`: it is removed.
fn ways(bytes: &[u8], older: Option<&Vec<u8>>) -> Vec<(String, Option<Vec<u8>>)> {
    let mut ways = vec![("removed".into(), None), ("emptied".into(), Some(Vec::new()))];
    ways.push(("cut in half".into(), Some(bytes[..bytes.len() / 2].to_vec())));
    ways.extend(older.filter(|older| older.as_slice() != bytes).map(|older| ("older".into(), Some(older.clone()))));
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    for part in [0, 1, 2, 3] {
        let at = used * part / 3;
        let mut turned = bytes.to_vec();
        turned[at] ^= 0x10;
        ways.push((format!("byte {at} turned"), Some(turned)));
    }
    ways
}

#[test]
fn a_check_says_what_a_start_does() {
    let dir = Scratch::new();
    let dir = dir.path();
    let mut older = Files::new();
    let mut whole = Vec::new();
    for round in 0..3 {
        let server = start(dir).unwrap_or_else(|error| panic!("{error}"));
        let mut client = server.client();
        change(&mut client, round);
        whole = image(&mut client);
        drop(server);
        if round == 1 {
            older = files(dir);
        }
    }
    let files = files(dir);
    assert!(files.len() >= 8, "{:?}", files.keys());
    assert_eq!(check(dir).0, Verdict::Whole, "{}", check(dir).1);
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::new());
    for (name, bytes) in &files {
        for (way, damaged) in ways(bytes, older.get(name)) {
            put_back(dir, &files);
            match &damaged {
                Some(damaged) => fs::write(dir.join(name), damaged).unwrap(),
                None => fs::remove_file(dir.join(name)).unwrap(),
            }
            let (verdict, text) = check(dir);
            let started = start(dir);
            let what = format!(
                "{} {way}: {verdict:?}, and a start {}",
                name.display(),
                match &started {
                    Ok(_) => "works".into(),
                    Err(error) => format!("says {error}"),
                }
            );
            *seen.entry(format!("{verdict:?}")).or_insert(0) += 1;
            if started.is_ok() != (verdict != Verdict::Unstartable) {
                wrong.push(format!("{what}\n{text}"));
                continue;
            }
            let Ok(server) = started else { continue };
            let found = image(&mut server.client());
            // The last sync is not known to have happened: damage there looks like a torn end.
            let is_torn = text.contains("is torn at byte");
            let differs = found.iter().zip(&whole).any(|(now, then)| now != then && !now.starts_with('-'));
            if !is_torn && (differs || verdict == Verdict::Whole && found != whole) {
                wrong.push(format!("{what}: and answers are wrong\n{text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(seen.len(), 3, "each verdict was seen: {seen:?}");
}

/// Whole folders that are missing, or are those of another time.
#[test]
fn a_check_says_what_a_start_does_with_other_folders() {
    let (here, other) = (Scratch::new(), Scratch::new());
    let mut whole = Vec::new();
    for dir in [&other, &here] {
        let server = start(dir.path()).unwrap_or_else(|error| panic!("{error}"));
        let mut client = server.client();
        change(&mut client, 1);
        whole = image(&mut client);
    }
    let (files, others) = (files(here.path()), files(other.path()));
    let is_of = |name: &Path, folder: &str| name.starts_with(format!("holdfast/{folder}"));
    for folder in ["log", "store"] {
        for replaced in [false, true] {
            let mut mixed: Files = files.clone();
            mixed.retain(|name, _| !is_of(name, folder));
            mixed.extend(
                others.iter().filter(|(name, _)| replaced && is_of(name, folder)).map(|(n, b)| (n.clone(), b.clone())),
            );
            put_back(here.path(), &mixed);
            fs::create_dir_all(here.path().join("holdfast").join(folder)).unwrap();
            let (verdict, text) = check(here.path());
            let error = match start(here.path()) {
                // A log that goes back to the beginning needs no store.
                Ok(server) if folder == "store" && !replaced => {
                    assert_eq!(verdict, Verdict::Whole, "{text}");
                    assert_eq!(image(&mut server.client()), whole);
                    continue;
                }
                Ok(_) => panic!("{folder}, replaced {replaced}: it starts; the check says {text}"),
                Err(error) => error,
            };
            assert_eq!(verdict, Verdict::Unstartable, "{folder}, replaced {replaced}: {text}");
            let said = error.trim().lines().last().unwrap_or_default().to_owned();
            assert!(!said.is_empty() && text.contains(&said), "check: {text}\nstart: {error}");
        }
    }
}

/// A node that does not start with the files about its cluster: they are damaged, or beside another node's data.
#[test]
fn a_check_says_what_a_start_of_a_node_does() {
    let (here, other) = (Scratch::new(), Scratch::new());
    let node = |dir: &Scratch| {
        let mut settings = settings(dir.path());
        settings.extend(["--cluster-enabled", "yes"].map(str::to_owned));
        settings
    };
    let begin = |dir: &Scratch| {
        let settings = node(dir);
        Server::start(&settings.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for dir in [&here, &other] {
        let server = begin(dir);
        let end = Instant::now() + Duration::from_secs(120);
        while server.client().call("set k v") != "+OK" {
            assert!(Instant::now() < end, "it forms a cluster of itself");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let (verdict, text) = check(here.path());
    assert_eq!(verdict, Verdict::Whole, "{text}");
    assert!(text.contains("/cluster: node "), "{text}");
    assert!(text.contains(" has 1 key, and") && !text.contains(" 1 records"), "{text}");
    drop(begin(&here));
    let agree = |way: &str, expected: &str| {
        let (verdict, text) = check(here.path());
        let settings = node(&here);
        let said = Server::refused(&settings.iter().map(String::as_str).collect::<Vec<_>>());
        let said = said.trim().lines().last().unwrap_or_default().to_owned();
        assert_eq!(verdict, Verdict::Unstartable, "{way}: {text}");
        assert!(said.contains(expected), "{way}: a start says {said}");
        let (_, why) = text.trim().rsplit_once("does not start: ").unwrap_or_else(|| panic!("{way}: {text}"));
        assert!(said.ends_with(why), "{way}: a start says {said}, the check {why}");
    };
    let file = here.path().join("cluster/state");
    let state = fs::read(&file).unwrap();
    for (way, damaged) in ways(&state, None).into_iter().filter_map(|(way, damaged)| Some((way, damaged?))) {
        fs::write(&file, &damaged).unwrap();
        agree(&way, "cluster/state: damaged: expected ");
    }
    fs::write(&file, &state).unwrap();
    assert_eq!(check(here.path()).0, Verdict::Whole);
    put_back(here.path(), &files(other.path()));
    agree("another's data", "the data that this node of a cluster had is gone");
}

//! `holdfast import` of RDB files and append-only files into a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rdb::{EntryRef, Target, ValueRef, Writer, Written};

use crate::support::{Scratch, Server};

/// Runs `holdfast import`. Returns true if it succeeded, and its output.
fn import(server: &Server, words: &[&str]) -> (bool, String) {
    let port = server.port().to_string();
    let all = [&["import", "--port", &port][..], words].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(all).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.trim().to_owned())
}

fn set_of(members: &[&str]) -> object::Set {
    let mut set = object::Set::new();
    for member in members {
        set.add(member.as_bytes(), &object::Limits::default());
    }
    set
}

/// A file with keys in two databases, a library, and a key that expires.
fn dump(folder: &Path) -> PathBuf {
    let set = set_of(&["a", "b", "3"]);
    let mut writer = Writer::new(Vec::new(), Target::Redis72).unwrap();
    writer.function(b"#!lua name=lib\nredis.register_function('f', function() return 7 end)").unwrap();
    for n in 0..2000 {
        let (key, value) = (format!("key:{n}"), format!("value {n}"));
        let entry = EntryRef::new(0, key.as_bytes(), ValueRef::String(value.as_bytes()));
        assert_eq!(writer.entry(entry).unwrap(), Written::Yes);
    }
    let expires = EntryRef {
        expiry: Some(clocks::UnixMs(4_102_444_800_000)),
        ..EntryRef::new(3, b"expires", ValueRef::String(b"v"))
    };
    assert_eq!(writer.entry(expires).unwrap(), Written::Yes);
    assert_eq!(writer.entry(EntryRef::new(3, b"set", ValueRef::Set(&set))).unwrap(), Written::Yes);
    let path = folder.join("dump.rdb");
    fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

#[test]
fn a_dump_is_imported() {
    let scratch = Scratch::new();
    let file = dump(scratch.path());
    let file = file.to_str().unwrap();
    let server = Server::start(&[]);
    let mut client = server.client();

    let (good, said) = import(&server, &["--dry-run", file]);
    assert!(good && said.contains("1 sets, 2001 strings, 1 libraries of functions"), "{said}");
    assert_eq!(client.call("DBSIZE"), ":0");

    client.call("SET key:5 mine");
    let (good, said) = import(&server, &[file]);
    assert!(good && said.contains("2001 keys, 1 libraries"), "{said}");
    assert!(said.contains("1 keys or libraries existed"), "{said}");
    assert_eq!(client.call("GET key:5"), "$4 mine");
    assert_eq!(client.call("GET key:1999"), "$10 value 1999");
    assert_eq!(client.call("FCALL f 0"), ":7");
    assert_eq!(client.call("DBSIZE"), ":2000");
    client.call("SELECT 3");
    assert_eq!(client.call("PEXPIRETIME expires"), ":4102444800000");
    assert_eq!(client.call("SCARD set"), ":3");
    client.call("SELECT 0");

    let (good, said) = import(&server, &["--replace", "--db", "0", file]);
    assert!(good && said.contains("2000 keys, 1 libraries"), "{said}");
    assert_eq!(client.call("GET key:5"), "$7 value 5");

    // The library is the first step, and the key behind the skipped ones is the last.
    client.call("FLUSHALL");
    let (good, said) = import(&server, &["--skip", "2002", file]);
    assert!(good && said.contains(": 1 keys are imported"), "{said}");
}

#[test]
fn an_import_says_how_to_go_on() {
    let scratch = Scratch::new();
    let file = dump(scratch.path());
    let whole = fs::read(&file).unwrap();
    let cut = scratch.path().join("cut.rdb");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let server = Server::start(&[]);
    let (good, said) = import(&server, &[cut.to_str().unwrap()]);
    assert!(!good && said.contains("the file ends too early"), "{said}");
    let done = said.split("--skip ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let keys: u64 = server.client().call("DBSIZE")[1..].parse().unwrap();
    assert_eq!(done, (keys + 1).to_string());
    let (good, said) = import(&server, &["--skip", &done, file.to_str().unwrap()]);
    assert!(good && !said.contains("existed"), "{said}");
    assert_eq!(server.client().call("DBSIZE"), ":2000");

    // A key that the server refuses.
    let refused = scratch.path().join("refused.rdb");
    fs::write(&refused, b"REDIS0011\xfe\x00\x02\x03bad\x02\x01a\x01a\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0").unwrap();
    let (good, said) = import(&server, &[refused.to_str().unwrap()]);
    assert!(!good && said.contains("refused: key 'bad'"), "{said}");
    assert!(said.ends_with("--skip 0 tries them again, --skip 2 goes on behind them"), "{said}");
}

/// A step that may succeed later is not lost: the import tells where to begin to have it again.
#[test]
fn refused_keys_are_tried_again() {
    let scratch = Scratch::new();
    let file = dump(scratch.path());
    let file = file.to_str().unwrap();
    let server = Server::start(&[]);
    let mut client = server.client();
    client.call("acl setuser default resetkeys %RW~key:1* ~expires ~set");
    let (good, said) = import(&server, &[file]);
    assert!(!good && said.contains("refused: key 'key:0': NOPERM"), "{said}");
    client.call("acl setuser default allkeys");
    let skips: Vec<&str> = said.split("--skip ").skip(1).map(|rest| rest.split(' ').next().unwrap()).collect();
    assert_eq!(skips[0], "1", "the library was the first step: {said}");
    let (good, said) = import(&server, &["--skip", skips[0], file]);
    assert!(good && said.contains(" existed "), "{said}");
    assert_eq!(client.call("DBSIZE"), ":2000");
    // Commands that were refused are not: those behind them would happen twice.
    let aof = scratch.path().join("commands.aof");
    fs::write(&aof, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$4\r\nINCR\r\n$5\r\nkey:1\r\n").unwrap();
    let (good, said) = import(&server, &[aof.to_str().unwrap()]);
    assert!(!good && said.contains("refused: INCR: ERR value is not an integer"), "{said}");
    assert!(said.ends_with("up to step 2; --skip 2 goes on behind them"), "{said}");
}

/// Values of types that Holdfast does not have are named, and passed over if the user wants that.
#[test]
fn modules_are_refused_or_passed_over() {
    let scratch = Scratch::new();
    // The types array and gcra of Redis 8.8, and a value of the module type `abcdefghi`.
    let module = b"\x07\x01m\x81\x69\xb7\x1d\x79\xf8\x21\x88\x01\x01\x07\x00";
    let foreign = [(&b"\x1d\x01k\x05"[..], "the type gcra"), (module, "the module type abcdefghi")];
    let server = Server::start(&[]);
    for (value, name) in foreign {
        let file = scratch.path().join("foreign.rdb");
        let bytes = [b"REDIS0014\xfe\x00\x00\x01a\x01v", value, b"\x00\x01b\x01v\xff\0\0\0\0\0\0\0\0"].concat();
        fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        for words in [&[file][..], &["--dry-run", file]] {
            let (good, said) = import(&server, words);
            assert!(!good && said.contains(&format!("a value of {name} cannot be read (--skip-modules")), "{said}");
        }
        assert_eq!(server.client().call("flushall"), "+OK");
        let (good, said) = import(&server, &["--skip-modules", file]);
        assert!(good && said.contains("2 keys") && said.contains("1 values or data of modules"), "{said}");
        assert_eq!(server.client().call("mget a b"), "*2 $1 v $1 v");
        let (good, said) = import(&server, &["--dry-run", "--skip-modules", file]);
        assert!(good && said.contains("2 strings, 1 values and data of modules"), "{said}");
    }
}

/// On a terminal a bar shows the progress; a pipe gets none.
#[test]
fn a_terminal_gets_a_progress_bar() {
    let scratch = Scratch::new();
    let file = dump(scratch.path());
    let server = Server::start(&[]);
    let (good, said) = import(&server, &[file.to_str().unwrap()]);
    assert!(good && !said.contains('█') && !said.contains('░'), "{said}");
    let line = format!("{} import --replace -p {} {}", env!("CARGO_BIN_EXE_holdfast"), server.port(), file.display());
    let Ok(output) = Command::new("script").args(["-qc", &line, "/dev/null"]).env("TERM", "xterm").output() else {
        return eprintln!("there is no `script` that would give a terminal");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains('░') && said.contains(" of ") && said.contains("2002 keys"), "{said}");
}

/// Keys of a database that the server does not have go to no other database.
#[test]
fn keys_stay_in_their_database() {
    let scratch = Scratch::new();
    let file = dump(scratch.path());
    let server = Server::start(&["--databases", "2"]);
    let (good, said) = import(&server, &[file.to_str().unwrap()]);
    assert!(!good && said.contains("DB index is out of range") && said.contains("--skip 2001"), "{said}");
    let mut client = server.client();
    assert_eq!(client.call("DBSIZE"), ":2000");
    assert_eq!(client.call("EXISTS expires set"), ":0");

    let commands = "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n\
        *2\r\n$4\r\nINCR\r\n$1\r\nm\r\n*1\r\n$4\r\nEXEC\r\n";
    let file = scratch.path().join("block.aof");
    fs::write(&file, commands).unwrap();
    let (good, said) = import(&server, &[file.to_str().unwrap()]);
    assert!(!good && said.contains("DB index is out of range"), "{said}");
    assert_eq!(client.call("EXISTS n m"), ":0");
}

/// Each connection of an import is in a database of its own at a time.
#[test]
fn connections_keep_databases_apart() {
    const KEYS: usize = 9000;
    let scratch = Scratch::new();
    let mut writer = Writer::new(Vec::new(), Target::Redis72).unwrap();
    for n in 0..KEYS {
        // Databases change within batches, and differ from one batch to the next.
        let (key, db) = (format!("key:{n}"), (n / 700 % 3) as u64);
        let entry = EntryRef::new(db, key.as_bytes(), ValueRef::String(b"v"));
        assert_eq!(writer.entry(entry).unwrap(), Written::Yes);
    }
    let file = scratch.path().join("dump.rdb");
    fs::write(&file, writer.finish().unwrap()).unwrap();
    for connections in ["1", "3", "9"] {
        let server = Server::start(&[]);
        let (good, said) = import(&server, &["--connections", connections, file.to_str().unwrap()]);
        assert!(good && said.contains("9000 keys are imported"), "{said}");
        let mut client = server.client();
        for db in 0..3 {
            client.call(&format!("SELECT {db}"));
            let here: Vec<usize> = (0..KEYS).filter(|n| n / 700 % 3 == db).collect();
            assert_eq!(client.call("DBSIZE"), format!(":{}", here.len()));
            for n in here.iter().step_by(100) {
                assert_eq!(client.call(&format!("GET key:{n}")), "$1 v");
            }
        }
        let connected = client.call("INFO stats");
        let least = connections.parse::<usize>().unwrap() + 1;
        assert!(connected.contains(&format!("total_connections_received:{least}")), "{connected}");
    }
}

#[test]
fn append_only_files_are_imported() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("appendonlydir");
    fs::create_dir(&folder).unwrap();
    fs::rename(dump(scratch.path()), folder.join("a.1.base.rdb")).unwrap();
    let line = |words: &[&str]| {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect::<Vec<_>>();
        format!("*{}\r\n{}", words.len(), words.concat())
    };
    let block =
        [line(&["MULTI"]), line(&["INCR", "n"]), line(&["SELECT", "3"]), line(&["SADD", "set", "c"]), line(&["EXEC"])];
    let text = line(&["DEL", "key:1"]) + &block.concat() + &line(&["SET", "later", "x"]);
    fs::write(folder.join("a.1.incr.aof"), &text.as_bytes()[..text.len() - 2]).unwrap();
    let manifest = "file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\n";
    fs::write(folder.join("a.manifest"), manifest).unwrap();

    let server = Server::start(&[]);
    let (good, said) = import(&server, &[folder.to_str().unwrap()]);
    assert!(good && said.contains("2002 keys, 1 libraries of functions, 2 commands and blocks"), "{said}");
    assert!(said.contains("the file ends in the middle of a command"), "{said}");
    let mut client = server.client();
    assert_eq!(client.call("EXISTS key:1"), ":0");
    assert_eq!(client.call("GET n"), "$1 1");
    client.call("SELECT 3");
    assert_eq!(client.call("SCARD set"), ":4");
    assert_eq!(client.call("EXISTS later"), ":0");
}

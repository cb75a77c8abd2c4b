//! SAVE, BGSAVE, `save` points, SYNC: files in Redis's format, each of one moment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use object::Limits;
use rdb::{Item, Reader, Value};

use crate::support::{Client, Scratch, Server};

fn server(dir: &Scratch, more: &[&str]) -> Server {
    let path = dir.path().display().to_string();
    Server::start(&[&["--dir", &path, "--appendonly", "no"], more].concat())
}

/// The strings of a file, and how many other keys and libraries it has.
fn read(bytes: &[u8]) -> (BTreeMap<String, String>, usize, usize) {
    let (mut strings, mut others, mut libraries) = (BTreeMap::new(), 0, 0);
    let mut reader = Reader::new(bytes).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => match entry.value(&Limits::default()).unwrap() {
                Value::String(text) => {
                    let key = String::from_utf8_lossy(&entry.key).into_owned();
                    assert!(strings.insert(key, String::from_utf8_lossy(&text).into_owned()).is_none());
                }
                _ => others += 1,
            },
            Item::Function(_) => libraries += 1,
            _ => {}
        }
    }
    (strings, others, libraries)
}

fn field(client: &mut Client, name: &str) -> String {
    let info = client.call("info persistence");
    let field = info.split_whitespace().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    field.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

fn until(client: &mut Client, name: &str, is: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is(&field(client, name)) {
        assert!(Instant::now() < end, "{name} is {}", field(client, name));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn leftovers(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("temp-")).collect()
}

fn load_library(client: &mut Client) {
    let code = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    client.send_raw(format!("*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n${}\r\n{code}\r\n", code.len()).as_bytes());
    assert_eq!(client.reply(), "$3 lib");
}

/// The file that a command is answered with.
fn sent(server: &Server, before: &str, command: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(format!("{before}{command}\r\n").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with('$') {
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert!(!line.starts_with('-'), "{line}");
    }
    let mut file = vec![0; line[1..].trim().parse().unwrap()];
    stream.read_exact(&mut file).unwrap();
    file
}

#[test]
fn what_is_saved_is_there_after_a_start() {
    let dir = Scratch::new();
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        client.call("set text hello");
        client.call("set expires soon px 4102444800000");
        client.call("set gone v px 1");
        client.call("rpush list a b c");
        client.call("hset hash f 1 g 2");
        client.call("hpexpireat hash 4102444800000 fields 1 f");
        client.call("select 5");
        client.call("xadd stream 1-1 f v");
        load_library(&mut client);
        assert_eq!(client.call("save"), "+OK");
        assert_eq!(field(&mut client, "rdb_saves"), "1");
        // `gone` may go after the moment.
        assert!(["0", "1"].contains(&&*field(&mut client, "rdb_changes_since_last_save")));
        assert_eq!(client.call("lastsave"), format!(":{}", field(&mut client, "rdb_last_save_time")));
        client.call("set later v");
        assert_eq!(client.call("bgsave"), "+Background saving started");
        until(&mut client, "rdb_saves", |saves| saves == "2");
        client.call("set lost v");
    }
    assert!(leftovers(dir.path()).is_empty());
    let (strings, others, libraries) = read(&fs::read(dir.path().join("dump.rdb")).unwrap());
    assert!(strings.len() >= 3 && others == 3 && libraries == 1, "{strings:?} {others} {libraries}");
    let server = server(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.call("get text"), "$5 hello");
    assert_eq!(client.call("exists gone lost"), ":0");
    assert_eq!(client.call("lrange list 0 -1"), "*3 $1 a $1 b $1 c");
    assert_eq!(client.call("hpexpiretime hash fields 2 f g"), "*2 :4102444800000 :-1");
    client.call("select 5");
    assert_eq!(client.call("xlen stream"), ":1");
    assert_eq!(client.call("get later"), "$1 v");
    assert_eq!(client.call("fcall f 0"), ":7");
    assert!(field(&mut client, "rdb_last_load_keys_loaded").parse::<u64>().unwrap() >= 6);
}

#[test]
fn save_points_and_the_end_save_and_a_cache_does_not() {
    let dir = Scratch::new();
    let file = dir.path().join("other.rdb");
    {
        let mut server = server(&dir, &["--save", "1 2", "--dbfilename", "other.rdb"]);
        let mut client = server.client();
        client.call("set a 1");
        client.call("set b 1");
        until(&mut client, "rdb_saves", |saves| saves == "1");
        assert_eq!(read(&fs::read(&file).unwrap()).0.len(), 2);
        client.call("set c 1");
        client.send("shutdown");
        assert!(server.ends_well());
    }
    assert_eq!(read(&fs::read(&file).unwrap()).0.len(), 3);
    {
        let mut server = server(&dir, &["--save", "1 2", "--dbfilename", "other.rdb"]);
        let mut client = server.client();
        assert_eq!(client.call("dbsize"), ":3");
        client.call("set d 1");
        client.send("shutdown nosave");
        assert!(server.ends_well());
    }
    assert_eq!(read(&fs::read(&file).unwrap()).0.len(), 3);
    let mut server = server(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.call("config get save"), "*2 $4 save $0");
    client.call("set e 1");
    client.send("shutdown");
    assert!(server.ends_well());
    assert!(!dir.path().join("dump.rdb").exists());
}

#[test]
fn what_is_incomplete_is_removed_and_a_failure_is_told() {
    let dir = Scratch::new();
    // No process has this number.
    fs::write(dir.path().join("temp-4194305.rdb"), b"REDIS0014").unwrap();
    let server = server(&dir, &[]);
    assert!(leftovers(dir.path()).is_empty());
    let mut client = server.client();
    // A folder does not give way to a file.
    fs::create_dir(dir.path().join("dump.rdb")).unwrap();
    assert!(client.call("save").starts_with("-ERR"));
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "err");
    assert!(leftovers(dir.path()).is_empty());
    fs::remove_dir(dir.path().join("dump.rdb")).unwrap();
    assert_eq!(client.call("save"), "+OK");
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
}

#[test]
fn a_damaged_file_stops_the_start() {
    let dir = Scratch::new();
    fs::write(dir.path().join("dump.rdb"), b"REDIS0014\x00\x01k").unwrap();
    let path = dir.path().display().to_string();
    let error = Server::refused(&["--dir", &path, "--appendonly", "no"]);
    assert!(error.contains("dump.rdb cannot be loaded: at byte 12"), "{error}");
}

#[test]
fn data_of_redis_are_not_passed_over_unseen() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    {
        let server = server(&dir, &[]);
        let mut client = server.client();
        client.call("set a 1");
        assert_eq!(client.call("save"), "+OK");
    }
    let error = Server::refused(&["--dir", &path, "--appendonly", "yes"]);
    assert!(error.contains("holdfast import") && error.contains("dump.rdb"), "{error}");
    {
        let server = server(&dir, &[]);
        assert_eq!(server.client().call("config set appendonly yes"), "+OK");
    }
    let server = Server::start(&["--dir", &path, "--appendonly", "yes"]);
    assert_eq!(server.client().call("get a"), "$1 1");
}

/// Transactions write the same number to many keys. A file has it in all of them.
fn is_of_one_moment(server: &Server, mut snapshot: impl FnMut() -> Vec<u8>) {
    const KEYS: usize = 40;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = server.client();
            let mut n = 0;
            while !ended.load(Relaxed) {
                n += 1;
                client.call("multi");
                (0..KEYS).for_each(|key| drop(client.call(&format!("set {{{key}}}n {n}"))));
                client.call("exec");
            }
            n
        });
        let mut seen = Vec::new();
        for _ in 0..10 {
            let (mut strings, ..) = read(&snapshot());
            strings.retain(|key, _| key.ends_with("}n"));
            let numbers: std::collections::BTreeSet<&String> = strings.values().collect();
            assert!(numbers.len() <= 1 && (strings.is_empty() || strings.len() == KEYS), "{strings:?}");
            seen.extend(numbers.into_iter().cloned());
        }
        ended.store(true, Relaxed);
        let written = writer.join().unwrap();
        assert!(!seen.is_empty() && written > 10, "{seen:?}");
    });
}

/// Keys for the walk to be busy with.
fn fill(server: &Server) {
    let mut client = server.client();
    client.call("config set enable-debug-command yes");
    for n in 0..3000 {
        client.send(&format!("set filler:{n} {n}"));
    }
    (0..3000).for_each(|_| drop(client.reply()));
}

#[test]
fn a_file_is_of_one_moment() {
    let dir = Scratch::new();
    let server = server(&dir, &[]);
    fill(&server);
    let mut client = server.client();
    is_of_one_moment(&server, || {
        assert_eq!(client.call("save"), "+OK");
        fs::read(dir.path().join("dump.rdb")).unwrap()
    });
}

#[test]
fn what_is_sent_is_of_one_moment_where_all_is_logged() {
    let dir = Scratch::new();
    let path = dir.path().display().to_string();
    let server = Server::start(&["--dir", &path, "--appendonly", "yes"]);
    fill(&server);
    is_of_one_moment(&server, || sent(&server, "", "SYNC"));
    assert!(leftovers(dir.path()).is_empty());
}

#[test]
fn clients_get_what_they_ask_for() {
    let dir = Scratch::new();
    let server = server(&dir, &[]);
    let mut client = server.client();
    client.call("set a 1");
    load_library(&mut client);
    let count = |file: Vec<u8>| {
        let (strings, _, libraries) = read(&file);
        (strings.len(), libraries)
    };
    assert_eq!(count(sent(&server, "REPLCONF capa eof\r\nREPLCONF rdb-only 1\r\n", "SYNC")), (1, 1));
    assert_eq!(count(sent(&server, "REPLCONF listening-port 1 capa psync2\r\n", "PSYNC ? -1")), (1, 1));
    assert_eq!(count(sent(&server, "REPLCONF rdb-filter-only functions\r\n", "SYNC")), (0, 1));
    assert_eq!(count(sent(&server, "REPLCONF rdb-filter-only \"\"\r\n", "SYNC")), (0, 0));
    assert_eq!(client.call("replconf nonsense 1"), "-ERR Unrecognized REPLCONF option: nonsense");
    assert_eq!(client.call("replconf rdb-filter-only keys"), "-ERR Unsupported rdb-filter-only option: keys");
    client.call("acl setuser reader on nopass ~* &* +@all -@admin");
    client.call("auth reader x");
    for command in ["sync", "psync ? -1", "replconf capa eof", "save"] {
        assert!(client.call(command).starts_with("-NOPERM"), "{command}");
    }
}

#[test]
fn failures_refuse_writes_until_one_succeeds() {
    let dir = Scratch::new();
    let server = server(&dir, &["--save", "3600 1", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    client.call("set x 1");
    // A file cannot take the place of a directory with something in it.
    fs::create_dir_all(dir.path().join("taken/full")).unwrap();
    assert_eq!(client.call("config set dbfilename taken"), "+OK");
    for failures in ["1", "2"] {
        assert_eq!(client.call("bgsave"), "+Background saving started");
        until(&mut client, "rdb_saves_consecutive_failures", |count| count == failures);
    }
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "err");
    for write in ["set x 2", "eval redis.call('set','x','2') 0", "lpush y 1"] {
        assert!(client.call(write).starts_with("-MISCONF Redis is configured to save RDB snapshots"), "{write}");
    }
    assert_eq!(client.call("get x"), "$1 1");
    assert_eq!(client.call("config set stop-writes-on-bgsave-error no"), "+OK");
    assert_eq!(client.call("set x 3"), "+OK");
    client.call("config set stop-writes-on-bgsave-error yes");
    assert!(client.call("set x 4").starts_with("-MISCONF"));
    client.call("config set dbfilename dump.rdb");
    assert_eq!(client.call("save"), "+OK");
    assert_eq!(field(&mut client, "rdb_saves_consecutive_failures"), "0");
    assert_eq!(client.call("set x 4"), "+OK");
}

#[test]
fn a_reload_takes_what_the_file_has() {
    let dir = Scratch::new();
    let server = server(&dir, &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    assert_eq!(client.call("debug reload nosave"), "-ERR Error trying to load the RDB dump, check server logs.");
    for line in ["set a 1", "hset h f 1", "select 3", "rpush l x", "select 0"] {
        client.call(line);
    }
    load_library(&mut client);
    let digest = client.call("debug digest exact");
    assert_eq!(client.call("debug reload"), "+OK");
    assert_eq!(client.call("debug digest exact"), digest);
    assert_eq!(client.call("fcall f 0"), ":7");
    assert_eq!(field(&mut client, "rdb_last_load_keys_loaded"), "3");
    let mut watcher = server.client();
    watcher.call("watch a");
    watcher.call("multi");
    watcher.call("get a");
    client.call("set a 2");
    client.call("set b 2");
    assert_eq!(client.call("debug reload nosave noflush merge"), "+OK");
    assert_eq!((client.call("get a"), client.call("get b")), ("$1 1".into(), "$1 2".into()));
    assert_eq!(client.call("debug reload nosave"), "+OK");
    assert_eq!((client.call("get a"), client.call("get b")), ("$1 1".into(), "$-1".into()));
    assert_eq!(client.call("debug digest exact"), digest);
    assert!(watcher.call("exec").contains("-1"), "the key is another one");
    assert_eq!(client.call("set a 3"), "+OK");
    assert_eq!(
        client.call("debug reload nosave noflush"),
        "-ERR Error trying to load the RDB dump, check server logs."
    );
    assert!(client.call("debug reload now").starts_with("-ERR DEBUG RELOAD only supports"));
}

#[test]
fn settings_of_the_file() {
    let text = "compressible ".repeat(1000);
    let bytes = |more: &[&str]| {
        let dir = Scratch::new();
        let server = server(&dir, more);
        let mut client = server.client();
        client.send_raw(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.call("save"), "+OK");
        fs::read(dir.path().join("dump.rdb")).unwrap()
    };
    let usual = bytes(&[]);
    assert!(usual.len() < text.len() / 4 && !usual.ends_with(&[0; 8]));
    let plain = bytes(&["--rdbcompression", "no", "--rdbchecksum", "no", "--rdb-save-incremental-fsync", "no"]);
    assert!(plain.len() > text.len() && plain.ends_with(&[0; 8]));
    assert_eq!(read(&usual).0, read(&plain).0);
    // A wrong checksum is one only to a server that looks at it.
    let mut damaged = usual;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let dir = Scratch::new();
    fs::write(dir.path().join("dump.rdb"), damaged).unwrap();
    assert_eq!(server(&dir, &["--rdbchecksum", "no"]).client().call("strlen k"), format!(":{}", text.len()));
}

#[test]
fn a_file_of_what_is_deleted_is_given_up() {
    let dir = Scratch::new();
    let server = server(&dir, &["--save", "", "--enable-debug-command", "yes", "--rdb-key-save-delay", "1000"]);
    let mut client = server.client();
    client.call("debug populate 5000");
    client.call("bgsave");
    until(&mut client, "current_save_keys_processed", |keys| keys != "0");
    assert_eq!(field(&mut client, "current_save_keys_total"), "5000");
    assert_ne!(field(&mut client, "current_fork_perc"), "0.00");
    client.call("flushall");
    until(&mut client, "rdb_bgsave_in_progress", |is| is == "0");
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(field(&mut client, "rdb_changes_since_last_save").parse::<u64>().unwrap() >= 5000);
    assert!(leftovers(dir.path()).is_empty() && !dir.path().join("dump.rdb").exists());
}

/// Copies that wait for a slow disk take a bounded amount of memory: writers wait. The delay stands for the disk.
#[test]
fn a_slow_disk_slows_writers_down() {
    const KEYS: usize = 3000;
    const VALUE: usize = 64 << 10;
    let dir = Scratch::new();
    let server = server(&dir, &["--enable-debug-command", "yes", "--rdb-key-save-delay", "5000"]);
    let mut client = server.client();
    assert_eq!(client.call(&format!("debug populate {KEYS} key {VALUE}")), "+OK");
    client.call("bgsave");
    let writes = || {
        let mut writer = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        writer.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let value = "x".repeat(VALUE);
        for key in 0..KEYS {
            let name = format!("key:{key}");
            let set = format!("*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${VALUE}\r\n{value}\r\n", name.len());
            writer.write_all(set.as_bytes()).unwrap();
            if writer.read(&mut [0; 5]).is_err() {
                return key;
            }
        }
        KEYS
    };
    let written = writes();
    assert!(written * VALUE > 16 << 20, "{written} keys: writers wait too early");
    assert!(written * VALUE < 128 << 20, "{written} keys: their copies are all in memory");
    assert!(field(&mut client, "current_cow_size").parse::<usize>().unwrap() <= 128 << 20);
    assert_eq!(client.call("exists key:1"), ":1", "readers go on");
    client.call("config set rdb-key-save-delay 0");
}

/// A client that asks for a file and does not read it holds no more memory than its buffers.
#[test]
fn a_client_that_does_not_read_holds_little_memory() {
    let dir = Scratch::new();
    let server = server(&dir, &["--enable-debug-command", "yes", "--rdbcompression", "no"]);
    let mut client = server.client();
    assert_eq!(client.call("debug populate 4000 key 16384"), "+OK");
    let memory = |client: &mut Client| -> u64 {
        let info = client.call("info memory");
        info.split_whitespace().find_map(|line| line.strip_prefix("used_memory:")).unwrap().parse().unwrap()
    };
    let before = memory(&mut client);
    let slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            stream.write_all(b"SYNC\r\n").unwrap();
            stream.peek(&mut [0]).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let after = memory(&mut client);
    assert!(after < before + (16 << 20), "8 clients hold {} bytes", after - before);
    drop(slow);
}

//! Files of real servers, key by key, and files for them.
//!
//! ```text
//! REDIS_SERVER=~/redis/src/redis-server VALKEY_SERVER=~/valkey/src/valkey-server RDB_FILES=~/redis/tests/assets \
//!     cargo test -p rdb --test servers
//! ```
//!
//! Each of the first two may name several programs, with colons between. Without a name nothing is tried. `RDB_FILES`
//! is a folder of files of older servers: the first Redis loads each of them, too.

#[path = "support/server.rs"]
mod server;
mod support;

use clocks::UnixMs;
use object::Limits;
use rdb::aof::{Files, Manifest, Step};
use rdb::{Dialect, Entry, EntryRef, Fault, Item, Reader, Target, Value, Writer, Written, aof};
use server::{Reply, Scratch, Server};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use support::described;

fn programs(variable: &str) -> Vec<PathBuf> {
    let programs = std::env::var_os(variable).unwrap_or_default();
    let programs: Vec<PathBuf> = std::env::split_paths(&programs).filter(|path| !path.as_os_str().is_empty()).collect();
    if programs.is_empty() {
        eprintln!("nothing compared: {variable} names no server");
    }
    programs
}

/// Writes keys of every type and form, except those that the server does not have.
fn populate(server: &mut Server) {
    let long = "x".repeat(9000);
    let mut lines: Vec<String> = [
        "SET int 17",
        "SET negative -40000",
        "SET large 12345678901234",
        "SET empty-not a",
        "SETRANGE zeros 5000 x",
        "APPEND text abcabcabcabcabcabcabcabcabcabcabcabcabc",
        "PFADD hll a b c",
        "SETBIT bits 1000 1",
        "RPUSH list a 1 -5000 b",
        "SADD ints 1 2 70000",
        "SADD small a b 1",
        "ZADD zset 1 a 2.5 b -inf c inf d",
        "HSET hash f 1 g vv h 3",
        "HSET fields f 1 g vv h 3",
        "HPEXPIREAT fields 4102444800000 FIELDS 2 f g",
        "HSET wide f 1",
        "HPEXPIREAT wide 4102444800000 FIELDS 1 f",
        "SET expires v",
        "PEXPIREAT expires 4102444800000",
        "SET frequent v",
        "XADD stream 1-1 a 1 b 2",
        "XADD stream 1-2 a 3 b 4",
        "XADD stream 5-0 other x",
        "XADD stream 6-0 a 1 b 2",
        "XDEL stream 1-2",
        "XGROUP CREATE stream g 0",
        "XGROUP CREATE stream idle $",
        "XGROUP CREATECONSUMER stream g none",
        "XREADGROUP GROUP g one COUNT 2 STREAMS stream >",
        "XREADGROUP GROUP g two STREAMS stream >",
        "XACK stream g 1-1",
        "XGROUP CREATE void g 0 MKSTREAM",
        "XADD trimmed 1-1 a b",
        "XTRIM trimmed MAXLEN 0",
        "XADD nacked 1-1 a b",
        "XADD nacked 2-1 a b",
        "XGROUP CREATE nacked g 0",
        "XREADGROUP GROUP g c STREAMS nacked >",
        "XNACK nacked g FAIL IDS 1 2-1",
        "SELECT 3",
        "SET k in-three",
        "RPUSH l 1",
        "SELECT 0",
    ]
    .map(str::to_owned)
    .into();
    for n in 0..400 {
        lines.push(format!("RPUSH long-list element-{n} {n}"));
        lines.push(format!("SADD large-set member-{n}"));
        lines.push(format!("ZADD large-zset {} member-{n}", f64::from(n) / 8.0 - 10.0));
        lines.push(format!("HSET large-hash field-{n} value-{n}"));
        lines.push(format!("HSET wide field-{n} {n}"));
        lines.push(format!("XADD long-stream {n}-1 name value-{n} count {n}"));
    }
    lines.extend((0..700).map(|n| format!("SADD many-ints {}", n * 7 - 100)));
    lines.push(format!("RPUSH plain {long} 5 {long}"));
    lines.push(format!("HSET hash-of-long f {long}"));
    lines.push(format!("ZADD zset-of-long -0 {long}"));
    lines.push(format!("SADD set-of-long {long}"));
    for line in lines {
        if let Reply::Error(error) = server.line(&line) {
            assert!(error.contains("unknown command"), "{line}: {error}");
        }
    }
    let code = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(server.call(&["FUNCTION", "LOAD", code]), Reply::Bytes(Some(b"lib".to_vec())));
}

/// A key's time of expiry, its type, and its contents.
type Described = (Option<UnixMs>, (&'static str, Vec<String>));

/// The contents of a file.
struct Read {
    dialect: Dialect,
    version: u16,
    entries: Vec<Entry>,
    functions: Vec<Vec<u8>>,
    skipped: usize,
}

fn read(path: &Path) -> Result<Read, rdb::Error> {
    let mut reader = Reader::new(File::open(path).unwrap())?.skip_foreign(true);
    let (dialect, version) = (reader.dialect(), reader.version());
    let mut read = Read { dialect, version, entries: Vec::new(), functions: Vec::new(), skipped: 0 };
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Entry(entry) => read.entries.push(entry),
            Item::Function(code) => read.functions.push(code),
            Item::Skipped { .. } => read.skipped += 1,
            _ => {}
        }
    }
    Ok(read)
}

impl Read {
    fn target(&self) -> Target {
        match (self.dialect, self.version) {
            (Dialect::Valkey, _) => Target::Valkey9,
            (_, ..12) => Target::Redis72,
            (_, 12..14) => Target::Redis80,
            _ => Target::Redis88,
        }
    }

    fn without(&self, refused: &[Vec<u8>]) -> Read {
        let entries = self.entries.iter().filter(|entry| !refused.contains(&entry.key)).cloned().collect();
        Read { entries, functions: Vec::new(), ..*self }
    }

    fn values(&self) -> Vec<Described> {
        let said = |entry: &Entry| (entry.expiry, described(&entry.value(&Limits::default()).unwrap()));
        self.entries.iter().map(said).collect()
    }

    /// The same contents, as a server reports them.
    fn values_at(&self, server: &mut Server, dialect: Dialect) -> Vec<Described> {
        let said = |entry: &Entry| {
            server.line(&format!("SELECT {}", entry.db));
            let Reply::Int(at) = server.call(&[b"PEXPIRETIME", entry.key.as_slice()]) else { panic!("no time") };
            let body = server.body(&entry.key);
            (
                u64::try_from(at).ok().map(UnixMs),
                described(&object::rdb::decode(&body, dialect, &Limits::default()).unwrap()),
            )
        };
        self.entries.iter().map(said).collect()
    }

    /// Writes all contents for a target, and returns the keys that it cannot hold.
    fn write(&self, target: Target, path: &Path) -> Vec<Vec<u8>> {
        let mut writer = Writer::new(BufWriter::new(File::create(path).unwrap()), target).unwrap();
        writer.aux(b"redis-bits", b"64").unwrap();
        self.functions.iter().for_each(|code| writer.function(code).unwrap());
        let mut refused = Vec::new();
        for entry in &self.entries {
            let value: Value<'_> = entry.value(&Limits::default()).unwrap();
            let to_write = EntryRef {
                expiry: entry.expiry,
                frequency: entry.frequency,
                idle: entry.idle,
                ..EntryRef::new(entry.db, &entry.key, value.as_value_ref())
            };
            if writer.entry(to_write).unwrap() != Written::Yes {
                refused.push(entry.key.clone());
            }
        }
        writer.finish().unwrap();
        refused
    }
}

#[test]
fn keys_of_servers_are_read_and_written_for_every_server() {
    let all = [programs("REDIS_SERVER"), programs("VALKEY_SERVER")].concat();
    let mut files = Vec::new();
    for (at, program) in all.iter().enumerate() {
        let folder = Scratch::new(&format!("from-{at}"));
        let mut server = Server::start(program, &folder.0, &[]);
        populate(&mut server);
        assert_eq!(server.line("SAVE"), Reply::Text("OK".to_owned()));
        let file = read(&folder.0.join("dump.rdb")).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        assert_eq!((file.functions.len(), file.skipped), (1, 0));
        assert!(file.entries.len() > 30, "{}", file.entries.len());
        assert!(file.entries.iter().all(|entry| entry.frequency.is_some()));
        assert_eq!(file.values_at(&mut server, file.dialect), file.values());
        eprintln!("{}: version {}, {} keys", program.display(), file.version, file.entries.len());
        files.push((file, server.digest(), folder, server));
    }
    for (from, (file, digest, ..)) in files.iter().enumerate() {
        for (to, program) in all.iter().enumerate() {
            // Every server also loads a file for Redis 7.2.
            for target in [files[to].0.target(), Target::Redis72] {
                let folder = Scratch::new(&format!("from-{from}-to-{to}"));
                let refused = file.write(target, &folder.0.join("dump.rdb"));
                let mut server = Server::start(program, &folder.0, &[]);
                let held = file.without(&refused);
                assert_eq!(held.values_at(&mut server, files[to].0.dialect), held.values());
                if target == file.target() && from == to {
                    assert_eq!((server.digest(), refused.len()), (digest.clone(), 0), "{}", program.display());
                }
                let Reply::Array(libraries) = server.line("FUNCTION LIST") else { panic!("no list of functions") };
                assert_eq!(libraries.len(), 1);
                let refused: Vec<String> = refused.iter().map(|key| key.escape_ascii().to_string()).collect();
                eprintln!(
                    "{} to {}, {target:?}: without {}",
                    all[from].display(),
                    program.display(),
                    refused.join(" ")
                );
            }
        }
    }
}

#[test]
fn files_of_older_servers_are_read() {
    let Some(folder) = std::env::var_os("RDB_FILES") else {
        eprintln!("nothing compared: RDB_FILES names no folder");
        return;
    };
    let program = programs("REDIS_SERVER").into_iter().next();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "rdb") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut file = read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let damaged = |entry: &Entry| match entry.value(&Limits::default()).map(|_| ()) {
            Ok(()) => false,
            Err(error) => {
                eprintln!("{name}: {error}");
                assert!(matches!(error.fault, Fault::Corrupt(_)) && name.starts_with("corrupt"), "{name}: {error}");
                true
            }
        };
        let all = file.entries.len();
        file.entries.retain(|entry| !damaged(entry));
        eprintln!("{name}: version {}, {} of {all} keys, {} skipped", file.version, file.entries.len(), file.skipped);
        if let (Some(program), false) = (&program, name == "corrupt_ziplist.rdb") {
            let scratch = Scratch::new("older");
            fs::copy(&path, scratch.0.join("dump.rdb")).unwrap();
            let mut server = Server::start(program, &scratch.0, &[]);
            assert_eq!(file.values_at(&mut server, file.dialect), file.values(), "{name}");
        }
    }
}

#[test]
fn append_only_folders_are_replayed() {
    for program in programs("REDIS_SERVER") {
        let (folder, other) = (Scratch::new("aof"), Scratch::new("replayed"));
        let more = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
        let mut server = Server::start(&program, &folder.0, &more);
        populate(&mut server);
        // Now the base has all keys, and later changes are commands.
        server.line("BGREWRITEAOF");
        while matches!(server.line("INFO persistence"), Reply::Bytes(Some(text))
            if String::from_utf8_lossy(&text).contains("aof_rewrite_in_progress:1"))
        {}
        for line in
            ["MULTI", "INCR int", "LPUSH list z", "EXEC", "SELECT 5", "SET later v EX 1000", "SELECT 0", "DEL text"]
        {
            assert!(!matches!(server.line(line), Reply::Error(_)), "{line}");
        }
        let digest = server.digest();
        drop(server);

        let folder = folder.0.join("appendonlydir");
        let manifest = Manifest::parse(&fs::read(folder.join("appendonly.aof.manifest")).unwrap()).unwrap();
        let mut files = Files::new(&manifest, |file: &aof::File| File::open(folder.join(&file.name)));
        let mut replica = Server::start(&program, &other.0, &[]);
        let mut counts = (0, 0, 0);
        while let Some(step) = files.next_step().unwrap() {
            match step {
                Step::Item(Item::Entry(entry)) => {
                    counts.0 += 1;
                    restore(&mut replica, entry);
                }
                Step::Item(Item::Function(code)) => {
                    replica.call(&[b"FUNCTION".as_slice(), b"LOAD", &code]);
                }
                Step::Item(_) => {}
                Step::Command(command) => {
                    counts.1 += 1;
                    apply(&mut replica, &command);
                }
                Step::Block(commands) => {
                    counts.2 += 1;
                    commands.iter().for_each(|command| apply(&mut replica, command));
                }
            }
        }
        assert!(counts.0 > 30 && counts.1 >= 2 && counts.2 == 1, "{counts:?}");
        assert!(files.tail().is_none());
        assert_eq!(replica.digest(), digest);
    }
}

fn restore(server: &mut Server, entry: Entry) {
    server.line(&format!("SELECT {}", entry.db));
    let (key, at) = (entry.key.clone(), UnixMs::to_wire(entry.expiry).to_string());
    let payload = entry.into_payload(&Limits::default()).unwrap();
    let reply = server.call(&[b"RESTORE", key.as_slice(), at.as_bytes(), &payload, b"ABSTTL", b"REPLACE"]);
    assert_eq!(reply, Reply::Text("OK".to_owned()), "{}", key.escape_ascii());
}

fn apply(server: &mut Server, command: &aof::Command) {
    server.line(&format!("SELECT {}", command.db));
    let reply = server.call(&command.arguments);
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
}

//! `CONFIG SET appendonly` while clients write (rule L13): everything acknowledged before its reply is there after a
//! kill.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::attack::long;
use crate::support::{Client, Scratch, Server, random};

const WRITERS: usize = 6;

/// A server on this directory; dropping it kills it.
fn server(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let log = format!("{dir}/log.txt");
    let settings = ["--dir", &dir, "--log-segment-size", "1mb", "--workers", "2", "--checkpoint-cpu", "100"];
    let own = ["--enable-debug-command", "yes", "--logfile", &log];
    Server::start(&[&settings[..], &own[..], more].concat())
}

/// The log lines of the servers on this directory.
fn logged(dir: &Scratch) -> String {
    fs::read_to_string(dir.path().join("log.txt")).unwrap()
}

/// Clients that count until the server is gone. Each has keys of its own, two of which always change together, and a
/// list.
struct Writers {
    /// The count that each writer has been told.
    confirmed: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Writers {
    fn start(server: &Server) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let confirmed: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
        let start = |(i, confirmed): (usize, &Arc<AtomicU64>)| {
            let (mut client, confirmed, stop) = (server.client(), confirmed.clone(), stop.clone());
            let at = client.call(&format!("incrby c{i} 0"))[1..].parse().unwrap();
            confirmed.store(at, SeqCst);
            thread::spawn(move || {
                while !stop.load(SeqCst) {
                    let Some(last) = write(&mut client, i) else { return };
                    assert_eq!(confirmed.fetch_add(1, SeqCst) + 1, last, "writer {i}");
                }
            })
        };
        let threads = confirmed.iter().enumerate().map(start).collect();
        Writers { confirmed, threads, stop }
    }

    fn confirmed(&self) -> Vec<u64> {
        self.confirmed.iter().map(|confirmed| confirmed.load(SeqCst)).collect()
    }

    /// Waits until each writer has been told of some more.
    fn go_on(&self, by: u64) {
        let before = self.confirmed();
        while self.confirmed().iter().zip(&before).any(|(now, before)| *now < before + by) {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a writer has ended");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the writers' ends. Returns the counts that they have been told.
    fn end(self) -> Vec<u64> {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.confirmed.iter().map(|confirmed| confirmed.load(SeqCst)).collect()
    }
}

/// One write of writer `i`. Returns its counter.
fn write(client: &mut Client, i: usize) -> Option<u64> {
    let script = "redis.call('rpush',KEYS[2],ARGV[1])redis.call('incr',KEYS[3])return(redis.call('incr',KEYS[1]))";
    let reply = client.try_call(&format!("eval {script} 3 c{i} l{i} d{i} x"))?;
    Some(reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}")).parse().unwrap())
}

/// The counter of each writer. Asserts that the keys of a writer agree.
fn counted(server: &Server) -> Vec<u64> {
    let mut client = server.client();
    let number = |reply: String| reply.rsplit([' ', ':']).next().unwrap().parse().unwrap_or(0);
    let mut counted = Vec::new();
    for i in 0..WRITERS {
        let n: u64 = number(client.call(&format!("get c{i}")));
        assert_eq!(number(client.call(&format!("get d{i}"))), n, "writer {i}");
        assert_eq!(number(client.call(&format!("llen l{i}"))), n, "writer {i}");
        counted.push(n);
    }
    counted
}

/// Asserts that the counters are at least the first, and at most one above the second.
fn assert_between(counted: &[u64], least: &[u64], most: &[u64]) {
    for (i, n) in counted.iter().enumerate() {
        assert!((least[i]..=most[i] + 1).contains(n), "writer {i}: {n} is not in {least:?} to {most:?}");
    }
}

#[test]
fn what_was_confirmed_before_and_after_the_switch_is_kept() {
    for (streams, promise) in [(1, "always"), (3, "always"), (2, "everysec")] {
        let dir = Scratch::new();
        let dirs: Vec<String> = (0..streams).map(|i| format!("stream-{i}")).collect();
        let mut settings = vec!["--log-dirs"];
        settings.extend(dirs.iter().map(String::as_str));
        // The first life begins without a log, and each later one with a log.
        for life in 0..if long() { 6 } else { 2 } {
            let server =
                server(&dir, &[&settings[..], &["--appendonly", if life == 0 { "no" } else { "yes" }]].concat());
            let mut client = server.client();
            let writers = Writers::start(&server);
            writers.go_on(20);
            if life > 0 {
                assert_eq!(client.call("config set appendonly no"), "+OK");
                writers.go_on(20);
            }
            let text = format!("config set maxmemory-samples {} appendonly yes appendfsync {promise}", life + 3);
            assert_eq!(client.call(&text), "+OK");
            assert_eq!(client.call("config get appendonly"), "*2 $10 appendonly $3 yes");
            assert!(client.call("info persistence").contains(" aof_enabled:1 "));
            writers.go_on(20);
            drop(server);
            let confirmed = writers.end();
            let again = self::server(&dir, &[&settings[..], &["--appendonly", "yes"]].concat());
            assert_between(&counted(&again), &confirmed, &confirmed);
        }
    }
}

/// A server that is killed while it is switching has the old data, or the new.
#[test]
fn a_kill_in_the_middle_leaves_the_old_or_the_new() {
    let dir = Scratch::new();
    let mut before = {
        let server = server(&dir, &["--appendonly", "yes"]);
        let mut client = server.client();
        client.send("set old 0;rpush c0 1 2 3;swapdb 0 1;set old 0;save");
        (0..5).for_each(|_| drop(client.reply()));
        client.call("incr old");
        client.call("debug digest exact")
    };
    let (mut rng, mut news, mut olds) = (random(4711), 0, 0);
    for life in 1..=if long() { 60 } else { 12 } {
        let server = server(&dir, &["--appendonly", "yes"]);
        let mut client = server.client();
        assert_eq!(client.call("config set appendonly no"), "+OK");
        assert_eq!(client.call("flushall"), "+OK");
        assert_eq!(client.call(&format!("set life {life}")), "+OK");
        assert_eq!(client.call("sadd big a b c"), ":3");
        let writers = Writers::start(&server);
        writers.go_on(1);
        client.send("config set appendonly yes");
        let answered = client.reply_within(Duration::from_millis(1 + rng(60) * rng(10))).is_some();
        drop(server);
        let confirmed = writers.end();
        let again = self::server(&dir, &["--appendonly", "yes"]);
        let mut client = again.client();
        let digest = client.call("debug digest exact");
        if client.call("get life") == format!("${} {life}", life.to_string().len()) {
            // The checkpoint is whole, and so are the records behind it.
            assert_eq!(client.call("scard big"), ":3");
            let least = if answered { confirmed.clone() } else { vec![0; WRITERS] };
            assert_between(&counted(&again), &least, &confirmed);
            before = digest;
            news += 1;
        } else {
            assert!(!answered, "it said that it was durable");
            assert_eq!(digest, before);
            olds += 1;
        }
        // Changes behind the old state must not bring void data back.
        if rng(2) == 0 {
            assert_eq!(client.call(&format!("set more {life}")), "+OK");
            before = client.call("debug digest exact");
        }
    }
    println!("{news} new states, {olds} old ones");
}

#[test]
fn what_was_confirmed_before_it_is_switched_off_is_kept() {
    for (promise, streams) in [("always", "a b c"), ("no", "a")] {
        let dir = Scratch::new();
        let dirs: Vec<&str> = streams.split(' ').collect();
        let settings = [&["--appendonly", "yes", "--appendfsync", promise, "--log-dirs"][..], &dirs].concat();
        let mut last = vec![0; WRITERS];
        for _ in 0..3 {
            let server = server(&dir, &settings);
            assert_eq!(counted(&server), last);
            let mut client = server.client();
            let writers = Writers::start(&server);
            writers.go_on(20);
            let before = writers.confirmed();
            assert_eq!(client.call("config set appendonly no"), "+OK");
            let after = writers.confirmed();
            writers.go_on(20);
            assert!(client.call("info persistence").contains(" aof_enabled:0 "));
            assert!(client.call("bgrewriteaof").starts_with("-ERR there is no log"));
            assert!(client.call("waitaof 1 0 0").contains("appendonly is disabled"));
            drop(server);
            writers.end();
            let again = self::server(&dir, &settings);
            last = counted(&again);
            assert_between(&last, &before, &after);
            assert!(logged(&dir).contains("The data is as it was when appendonly was switched off"));
        }
    }
}

/// Replies that wait for the log when it is switched off are sent.
#[test]
fn nobody_waits_for_a_log_that_is_gone() {
    let dir = Scratch::new();
    let server = server(&dir, &["--appendonly", "yes", "--appendfsync", "no"]);
    let (mut client, mut waiter, mut blocked) = (server.client(), server.client(), server.client());
    waiter.send("set a 1;waitaof 1 0 0");
    assert_eq!(waiter.reply(), "+OK");
    blocked.send("blpop l 0");
    server.blocked_clients(2);
    assert_eq!(client.call("config set appendonly no"), "+OK");
    assert_eq!(waiter.reply(), "*2 :1 :0");
    assert_eq!(client.call("rpush l 1"), ":1");
    assert_eq!(blocked.reply(), "*2 $1 l $1 1");
    // Deletions of the store's keys leave nothing.
    client.send("config set appendonly yes;set b 1;del a;config set appendonly no;del b");
    assert_eq!([(); 5].map(|()| client.reply()), ["+OK", "+OK", ":1", "+OK", ":1"]);
    assert_eq!(client.call("config set appendonly yes"), "+OK");
    assert!(client.call("info persistence").ends_with(" tombstones:0"));
}

#[test]
fn what_cannot_be_switched_on_stays_off() {
    let dir = Scratch::new();
    let server = server(&dir, &["--appendonly", "no"]);
    let mut client = server.client();
    // A file is in the way of the log.
    fs::write(dir.path().join("holdfast"), "a file").unwrap();
    let writers = Writers::start(&server);
    let reply = client.call("config set maxmemory-samples 7 appendonly yes");
    assert!(reply.contains("related to argument 'appendonly') - Unable to turn on AOF: "), "{reply}");
    assert_eq!(client.call("config get appendonly"), "*2 $10 appendonly $2 no");
    assert_eq!(client.call("config get maxmemory-samples"), "*2 $17 maxmemory-samples $1 5");
    // Another setting of the same command is refused: the log is off again.
    fs::remove_file(dir.path().join("holdfast")).unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let reply = client.call(&format!("config set appendonly yes port {port}"));
    assert!(reply.contains("Unable to listen on this port"), "{reply}");
    assert_eq!(client.call("config get appendonly"), "*2 $10 appendonly $2 no");
    assert!(client.call("info persistence").contains(" aof_enabled:0 "));
    client.send("multi;config set appendonly yes;exec");
    (0..2).for_each(|_| drop(client.reply()));
    assert!(client.reply().contains("not allowed in a transaction"));
    writers.go_on(20);
    assert_eq!(client.call("config set appendonly yes"), "+OK");
    writers.go_on(20);
    writers.end();
}

/// A server does not replace data that it has not loaded: an earlier server acknowledged them.
#[test]
fn data_that_is_not_loaded_is_not_replaced() {
    for saves in [false, true] {
        let dir = Scratch::new();
        {
            let server = server(&dir, &["--appendonly", "yes", "--checkpoint-interval", "0"]);
            let mut client = server.client();
            assert_eq!(client.call("set old 1"), "+OK");
            if saves {
                client.saves();
            }
        }
        {
            let server = server(&dir, &["--appendonly", "no"]);
            let mut client = server.client();
            assert_eq!(client.call("set new 1"), "+OK");
            for _ in 0..2 {
                let reply = client.call("config set appendonly yes");
                assert!(reply.contains("is not loaded") && reply.contains("restart with appendonly yes"), "{reply}");
            }
            assert!(logged(&dir).contains("appendonly stays off: the data in "), "{}", logged(&dir));
            assert_eq!(client.call("config get appendonly"), "*2 $10 appendonly $2 no");
            // Once moved away, they are no hindrance.
            fs::rename(dir.path().join("holdfast"), dir.path().join("aside")).unwrap();
            assert_eq!(client.call("config set appendonly yes"), "+OK");
            // These data are the server's own.
            client.send("config set appendonly no;set new 2;config set appendonly yes");
            assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK"; 3]);
            assert!(logged(&dir).contains("are replaced with the present data"));
        }
        {
            // So are the data that it has loaded, though nothing was written since.
            let server = server(&dir, &["--appendonly", "yes"]);
            let mut client = server.client();
            client.send("config set appendonly no;config set appendonly yes");
            assert_eq!([client.reply(), client.reply()], ["+OK"; 2]);
        }
        assert_eq!(server(&dir, &["--appendonly", "yes"]).client().call("mget old new"), "*2 $-1 $1 2");
        fs::remove_dir_all(dir.path().join("holdfast")).unwrap();
        fs::rename(dir.path().join("aside"), dir.path().join("holdfast")).unwrap();
        assert_eq!(server(&dir, &["--appendonly", "yes"]).client().call("mget old new"), "*2 $1 1 $-1");
    }
}

/// Empty data of an earlier server are no loss.
#[test]
fn what_is_empty_may_be_replaced() {
    let dir = Scratch::new();
    drop(server(&dir, &["--appendonly", "yes"]));
    let server = server(&dir, &["--appendonly", "no"]);
    let mut client = server.client();
    client.send("set new 1;config set appendonly yes");
    assert_eq!([client.reply(), client.reply()], ["+OK", "+OK"]);
}

/// All of a script is logged, or nothing: the switch waits for its end.
#[test]
fn a_script_is_logged_whole_or_not_at_all() {
    let dir = Scratch::new();
    let server = server(&dir, &["--appendonly", "no"]);
    let (mut client, mut script) = (server.client(), server.client());
    let long = "redis.call('set','a','1')local i=0 while i<20000000 do i=i+1 end redis.call('set','b','1')";
    script.send(&format!("eval \"{long}\" 0"));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(client.call("config set appendonly yes"), "+OK");
    assert_eq!(script.reply(), "$-1");
    drop(server);
    let again = self::server(&dir, &["--appendonly", "yes"]);
    assert_eq!(again.client().call("mget a b"), "*2 $1 1 $1 1");
}

/// Files stay where they are, with any working directory.
#[test]
fn dir_may_change_while_it_is_on() {
    let (dir, other) = (Scratch::new(), Scratch::new());
    let mut digest = String::new();
    {
        let server = server(&dir, &["--appendonly", "yes", "--enable-protected-configs", "yes"]);
        let mut client = server.client();
        assert_eq!(client.call(&format!("config set dir {}", other.path().display())), "+OK");
        let value = "v".repeat(10_000);
        for n in 0..300 {
            assert_eq!(client.call(&format!("set k{n} {value}")), "+OK");
        }
        client.saves();
        digest.push_str(&client.call("debug digest exact"));
        assert!(!other.path().join("holdfast").exists());
        // The place where it is switched on counts.
        client.send("config set appendonly no;config set appendonly yes");
        assert_eq!([client.reply(), client.reply()], ["+OK", "+OK"]);
        assert!(other.path().join("holdfast").exists());
    }
    for dir in [dir, other] {
        assert_eq!(server(&dir, &["--appendonly", "yes"]).client().call("debug digest exact"), digest);
    }
}

/// A setting that another client changes during the switch counts, not the one from its beginning.
#[test]
fn appendfsync_may_be_set_meanwhile() {
    let dir = Scratch::new();
    let server = server(&dir, &["--appendonly", "no", "--appendfsync", "no"]);
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.call("debug populate 100000"), "+OK");
    client.send("config set appendonly yes");
    // The switch is under way.
    while !dir.path().join("holdfast/log").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(other.call("config set appendfsync always"), "+OK");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.call("set k v"), "+OK");
    assert_eq!(client.call("waitaof 0 0 0"), "*2 :1 :0", "it was answered when it was synced");
    assert_eq!(client.call("config get appendfsync"), "*2 $11 appendfsync $6 always");
}

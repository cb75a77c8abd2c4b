//! Client-side caching through the real binary: the receivers and the order of invalidations, and that no cache keeps a
//! stale value.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{Client, Server};

const DRIVERS: [&str; 2] = ["epoll", "io_uring"];

fn start(driver: &str, workers: &str) -> Server {
    Server::start(&["--workers", workers, "--io-driver", driver, "--enable-debug-command", "yes"])
}

/// A client with tracking on, in RESP3.
fn tracker(server: &Server, how: &str) -> Client {
    let mut client = server.client();
    client.call("hello 3");
    assert_eq!(client.call(&format!("client tracking on {how}")), "+OK");
    client
}

fn invalidate(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!(" ${} {key}", key.len())).collect();
    format!(">2 $10 invalidate *{}{keys}", keys.matches('$').count())
}

#[test]
fn those_who_have_read_hear_of_a_change_once_and_after_their_replies() {
    for driver in DRIVERS {
        let server = start(driver, "3");
        let mut others: Vec<Client> = (0..4).map(|_| tracker(&server, "")).collect();
        let mut one = tracker(&server, "");
        let mut silent = tracker(&server, "noloop");
        for client in others.iter_mut().chain([&mut one, &mut silent]) {
            assert_eq!(client.call("get a"), "_");
        }
        // A client's own invalidation comes after the reply, and there is one.
        assert_eq!(one.call("set a 1"), "+OK");
        assert_eq!(one.reply(), invalidate(&["a"]));
        assert_eq!(one.call("set a 2"), "+OK");
        for client in &mut others {
            assert_eq!(client.reply(), invalidate(&["a"]));
            assert_eq!(client.call("ping"), "+PONG");
        }
        assert_eq!(silent.reply(), invalidate(&["a"]));
        assert_eq!(silent.call("get a"), "$1 2");
        assert_eq!(silent.call("set a 3"), "+OK");
        assert_eq!(silent.call("ping"), "+PONG");
        assert_eq!(one.call("ping"), "+PONG");
        // In a block it comes after the block, and keys that were read after a change are still known.
        one.send("multi;get b;set b 1;set c 1;get c;exec");
        (0..5).for_each(|_| drop(one.reply()));
        assert_eq!(one.reply(), "*4 _ +OK +OK $1 1");
        assert_eq!(one.reply(), invalidate(&["b"]));
        assert_eq!(others[0].call("eval \"redis.call('set', 'c', 2) return redis.call('get', 'd')\" 0"), "_");
        assert_eq!(one.reply(), invalidate(&["c"]));
        // Keys that a script has read are known, too, and a flush invalidates everything for every client.
        assert_eq!(one.call("set d 1"), "+OK");
        assert_eq!(others[0].reply(), invalidate(&["d"]));
        assert_eq!(one.call("swapdb 0 1"), "+OK");
        for client in others.iter_mut().chain([&mut one, &mut silent]) {
            assert_eq!(client.reply(), ">2 $10 invalidate _");
        }
    }
}

#[test]
fn a_change_by_a_command_that_was_waiting_is_told_after_its_reply() {
    for driver in DRIVERS {
        let server = start(driver, "2");
        let mut waiting = tracker(&server, "");
        let mut other = server.client();
        for round in 0..50 {
            assert_eq!(waiting.call(&format!("llen to{round}")), ":0");
            waiting.send(&format!("blmove from{round} to{round} left left 0;ping"));
            server.blocked_clients(1);
            assert_eq!(other.call(&format!("rpush from{round} x")), ":1");
            assert_eq!(waiting.reply(), "$1 x");
            let mut rest = [waiting.reply(), waiting.reply()];
            rest.sort();
            assert_eq!(rest, ["+PONG".into(), invalidate(&[&format!("to{round}")])]);
        }
    }
}

#[test]
fn prefixes_choose_keys_and_one_message_names_those_of_a_command() {
    for driver in DRIVERS {
        let server = start(driver, "3");
        let mut all = tracker(&server, "bcast");
        let mut users = tracker(&server, "bcast prefix user: prefix u2: noloop");
        let mut writer = server.client();
        assert_eq!(writer.call("mset user:1 a user:2 b x c"), "+OK");
        assert_eq!(users.reply(), invalidate(&["user:1", "user:2"]));
        assert_eq!(all.reply(), invalidate(&["user:1", "user:2", "x"]));
        assert_eq!(users.call("mset user:3 a user:4 b"), "+OK");
        assert_eq!(users.call("ping"), "+PONG");
        assert_eq!(all.reply(), invalidate(&["user:3", "user:4"]));
        assert_eq!(writer.call("pexpire user:1 1"), ":1");
        assert_eq!(users.reply(), invalidate(&["user:1"]));
        // The key expires.
        assert_eq!(users.reply(), invalidate(&["user:1"]));
        assert_eq!(users.call("client tracking off"), "+OK");
        assert_eq!(writer.call("set user:1 1"), "+OK");
        users.waits();
    }
}

#[test]
fn a_redirected_invalidation_reaches_a_subscriber_and_its_end_is_told() {
    for driver in DRIVERS {
        let server = start(driver, "3");
        let mut subscriber = server.client();
        let id: u64 = subscriber.call("client id").trim_start_matches(':').parse().unwrap();
        subscriber.call("subscribe __redis__:invalidate");
        let mut reader = tracker(&server, &format!("redirect {id}"));
        assert_eq!(reader.call("client getredir"), format!(":{id}"));
        assert!(reader.call("client info").contains(&format!("redir={id} ")));
        let mut writer = server.client();
        let message = |key: &str| format!("*3 $7 message $20 __redis__:invalidate *1 ${} {key}", key.len());
        reader.call("mget a b");
        writer.call("set a 1");
        assert_eq!(subscriber.reply(), message("a"));
        writer.call("flushall");
        assert_eq!(subscriber.reply(), "*3 $7 message $20 __redis__:invalidate $-1");
        reader.call("get b");
        assert_eq!(subscriber.call("quit"), "+OK");
        writer.call("set b 1");
        assert_eq!(reader.reply(), format!(">2 $21 tracking-redir-broken :{id}"));
        assert!(reader.call("client info").contains("flags=tR "));
        assert!(writer.call("info clients").contains("tracking_clients:1 "));
        drop(reader);
        let gone = |info: String| info.contains("tracking_clients:0 ");
        assert!(
            (0..12_000).any(|_| gone(writer.call("info clients")) || pause()),
            "the end of a connection is noticed"
        );
        // Keys that are remembered for no client go by and by.
        let empty = |info: String| info.contains("tracking_total_keys:0 ");
        assert!((0..12_000).any(|_| empty(writer.call("info stats")) || pause()));
    }
}

/// Waits for a moment, and returns false.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(5));
    false
}

#[test]
fn an_invalidation_does_not_come_in_the_middle_of_a_long_reply() {
    for driver in DRIVERS {
        let server = start(driver, "2");
        let mut writer = server.client();
        let item = "x".repeat(1000);
        let items = vec![item.as_str(); 100].join(" ");
        for _ in 0..100 {
            writer.call(&format!("rpush long {items}"));
        }
        let mut reader = tracker(&server, "");
        let mut listener = tracker(&server, "bcast");
        reader.call("get a");
        for client in [&mut reader, &mut listener] {
            client.send("lrange long 0 -1;ping");
        }
        // The client does not read the replies yet: they are longer than the bytes that are written ahead.
        [&mut reader, &mut listener].into_iter().for_each(Client::hears);
        writer.call("set a 1");
        std::thread::sleep(Duration::from_millis(100));
        for client in [&mut reader, &mut listener] {
            let reply = client.reply();
            assert!(reply.starts_with("*10000 $1000 x"), "{}", &reply[..30]);
            assert_eq!(reply.matches("$1000").count(), 10_000);
            let mut rest = [client.reply(), client.reply()];
            rest.sort();
            assert_eq!(rest, ["+PONG".into(), invalidate(&["a"])]);
        }
    }
}

/// A client with a cache, as libraries have one.
struct Cache {
    client: Client,
    values: BTreeMap<String, String>,
    invalidated: usize,
}

impl Cache {
    /// The next reply. Invalidations before it are applied first.
    fn reply(&mut self) -> String {
        loop {
            let reply = self.client.reply();
            let Some(pushed) = reply.strip_prefix(">2 $10 invalidate ") else { return reply };
            self.invalidated += 1;
            if pushed == "_" {
                self.values.clear();
            } else {
                pushed.split(' ').skip(2).step_by(2).for_each(|key| drop(self.values.remove(key)));
            }
        }
    }

    /// A key whose cached value differs from the present one, once all sent invalidations are applied.
    fn first_stale(&mut self, operator: &mut Client) -> Option<String> {
        self.client.send("ping");
        assert_eq!(self.reply(), "+PONG");
        let stale = |(key, value): (&String, &String)| {
            let there = operator.call(&format!("get {key}")).replace("$-1", "_");
            (there != *value).then(|| key.clone())
        };
        self.values.iter().find_map(stale)
    }

    /// Reads keys and caches them.
    fn read(&mut self, keys: &[String]) {
        self.client.send(&keys.iter().map(|key| format!("get {key}")).collect::<Vec<_>>().join(";"));
        for key in keys {
            let value = self.reply();
            self.values.insert(key.clone(), value);
        }
    }
}

/// Each cache gets so many invalidations before the writers end.
const INVALIDATIONS: usize = 100;
const CACHES: usize = 4;

/// Readers cache their reads while writers change the keys and connections change workers: in the end every cache is
/// right.
#[test]
fn no_cache_is_stale_when_everything_is_quiet() {
    for (driver, how) in DRIVERS.into_iter().flat_map(|driver| [(driver, ""), (driver, "bcast prefix k")]) {
        let server = start(driver, "3");
        let mut operator = server.client();
        let until = Instant::now() + Duration::from_secs(1);
        let (writing, told) = (AtomicUsize::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..3u64 {
                let (server, writing, told) = (&server, &writing, &told);
                scope.spawn(move || {
                    let mut client = server.client();
                    for i in 0.. {
                        let key = format!("k{}", (i * 7 + n * 3) % 40);
                        match i % 5 {
                            0 => client.call(&format!("eval \"return redis.call('incr', ARGV[1])\" 0 {key}")),
                            1 => {
                                client.send(&format!("multi;incr {key};incr k0;exec"));
                                (0..3).for_each(|_| drop(client.reply()));
                                client.reply()
                            }
                            2 => client.call(&format!("set {key} 1 px 2")),
                            3 => client.call(&format!("del {key}")),
                            _ => client.call(&format!("incr {key}")),
                        };
                        // The test ends in time even if it fails.
                        let late = Instant::now() > until + Duration::from_secs(60);
                        if late || Instant::now() > until && told.load(Relaxed) == CACHES {
                            break;
                        }
                    }
                    writing.fetch_sub(1, Relaxed);
                });
            }
            let caches: Vec<_> = (0..CACHES)
                .map(|n| {
                    let (server, writing, told) = (&server, &writing, &told);
                    scope.spawn(move || {
                        let client = tracker(server, how);
                        let mut cache = Cache { client, values: BTreeMap::new(), invalidated: 0 };
                        let mut counted = false;
                        for i in 0.. {
                            if !counted && cache.invalidated > INVALIDATIONS {
                                counted = true;
                                told.fetch_add(1, Relaxed);
                            }
                            let quiet = writing.load(Relaxed) == 0;
                            let keys: Vec<_> = (0..4).map(|j| format!("k{}", (i * 11 + j * 5 + n) % 40)).collect();
                            cache.read(&keys);
                            if quiet {
                                break;
                            }
                        }
                        cache
                    })
                })
                .collect();
            assert_eq!(operator.call("debug shuffle-clients 1"), "+OK");
            let mut caches: Vec<Cache> = caches.into_iter().map(|cache| cache.join().unwrap()).collect();
            operator.call("debug shuffle-clients 0");
            // Everything that expires has expired, and messages under way arrive: a missing message never does.
            std::thread::sleep(Duration::from_millis(300));
            for key in 0..40 {
                operator.call(&format!("get k{key}"));
            }
            let mut kept = 0;
            for cache in &mut caches {
                let end = Instant::now() + Duration::from_secs(60);
                while let Some(key) = cache.first_stale(&mut operator) {
                    assert!(Instant::now() < end, "{driver} {how}: {key} is {} in a cache", cache.values[&key]);
                    pause();
                }
                assert!(cache.invalidated > INVALIDATIONS, "{} invalidations", cache.invalidated);
                kept += cache.values.len();
            }
            assert!(kept > 0, "something was cached");
        });
    }
}

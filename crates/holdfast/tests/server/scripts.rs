//! Scripts through the real binary: undeclared keys, many scripts at once, long ones, blocks with scripts in them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{Client, Server, in_time};

const DRIVERS: [&str; 2] = ["epoll", "io_uring"];

fn start(driver: &str, workers: &str, more: &[&str]) -> Server {
    Server::start(&[&["--workers", workers, "--io-driver", driver], more].concat())
}

fn reruns(client: &mut Client) -> u64 {
    let info = client.call("info workers");
    let counts = info.split("script_reruns=").skip(1).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or_default()
    });
    counts.sum()
}

/// Moves one from a key to another that it does not declare, both chosen by its arguments.
const TRANSFER: &str = "eval \"local a = redis.call('decr', ARGV[1]) local b = redis.call('incr', ARGV[2]) \
                        redis.call('rpush', 'log', ARGV[1]) return {a, b}\" 0";

#[test]
fn sums_are_kept_by_scripts_that_share_undeclared_keys() {
    for driver in DRIVERS {
        let server = start(driver, "3", &[]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for n in 0..6u64 {
                let (server, done) = (&server, &done);
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut seed = n + 1;
                    let mut pick = || {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        seed >> 60
                    };
                    let mut runs = 0;
                    while !done.load(Relaxed) || runs < 50 {
                        let line = format!("{TRANSFER} k{} k{}", pick(), pick());
                        // Some of them in a block, with a declared key before and a plain command behind.
                        if runs % 3 == 0 {
                            client.send(&format!("multi;incr blocks;{line};incr blocks;exec"));
                            (0..4).for_each(|_| drop(client.reply()));
                            let reply = client.reply();
                            assert!(reply.starts_with("*3 :"), "{reply}");
                        } else {
                            let reply = client.call(&line);
                            assert!(reply.starts_with("*2 :"), "{reply}");
                        }
                        runs += 1;
                    }
                });
            }
            let mut auditor = server.client();
            let until = Instant::now() + Duration::from_millis(1500);
            while Instant::now() < until {
                let sum = "eval \"local sum = 0 for i = 0, 15 do sum = sum + (redis.call('get', 'k' .. i) or 0) end \
                           return sum\" 0";
                assert_eq!(auditor.call(sum), ":0");
                let blocks = auditor.call("get blocks");
                assert!(blocks == "$-1" || blocks.ends_with(['0', '2', '4', '6', '8']), "half a block: {blocks}");
            }
            done.store(true, Relaxed);
        });
        let mut client = server.client();
        println!("{driver}: {} scripts ran again", reruns(&mut client));
    }
}

#[test]
fn a_long_script_stops_nobody_else() {
    for driver in DRIVERS {
        let server = start(driver, "1", &["--busy-reply-threshold", "200"]);
        let (mut slow, mut other) = (server.client(), server.client());
        let began = Instant::now();
        slow.send("eval \"redis.call('get', KEYS[1]) while true do end\" 1 held");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(other.call("set free 1"), "+OK");
        // A client that needs the script's keys waits, until it takes too long.
        assert!(other.call("get held").starts_with("-BUSY Redis is busy running a script."));
        assert!(began.elapsed() >= Duration::from_millis(200));
        assert!(other.call("set held 1").starts_with("-BUSY"));
        assert_eq!(other.call("get free"), "$1 1");
        assert_eq!(
            other.call("function kill"),
            "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        );
        assert_eq!(other.call("script kill"), "+OK");
        assert!(slow.reply().starts_with("-ERR Script killed by user with SCRIPT KILL."));
        assert_eq!(other.call("set held 1"), "+OK");
        assert!(other.call("script kill").starts_with("-NOTBUSY"));
        // The client of a long script may leave: the script ends all the same, and gives its keys back.
        slow.send("eval \"for i = 1, 30000000 do end redis.call('set', KEYS[1], 'done')\" 1 held");
        std::thread::sleep(Duration::from_millis(20));
        drop(slow);
        let until = Instant::now() + Duration::from_secs(60);
        while other.call("get held") != "$4 done" {
            assert!(Instant::now() < until, "the script of a client that left has not ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn busy_for_all_if_so_chosen() {
    let server = start("epoll", "2", &["--busy-reply-threshold", "20", "--busy-reply-scope", "all"]);
    let (mut slow, mut other) = (server.client(), server.client());
    slow.send("eval \"redis.call('set', 'a', 1) while true do end\" 0");
    let until = Instant::now() + Duration::from_secs(60);
    while !other.call("ping").starts_with("-BUSY") {
        assert!(Instant::now() < until);
    }
    assert!(other.call("script kill").starts_with("-UNKILLABLE"));
    assert_eq!(other.call("multi"), "+OK");
    assert!(other.call("get x").starts_with("-BUSY"));
    assert!(other.call("exec").starts_with("-EXECABORT"));
}

#[test]
fn what_a_script_says_is_heard_when_it_has_ended() {
    let server = start("epoll", "2", &["--notify-keyspace-events", "K$"]);
    let (mut listener, mut client, mut waiter) = (server.client(), server.client(), server.client());
    listener.send("psubscribe *");
    assert_eq!(listener.reply(), "*3 $10 psubscribe $1 * :1");
    waiter.send("blpop list 0");
    server.blocked_clients(1);
    client.send(
        "eval \"redis.call('publish', 'c', 'one') redis.call('set', 'k', 1) redis.call('rpush', 'list', 'x') \
         for i = 1, 3000000 do end redis.call('publish', 'c', 'two') return redis.call('llen', 'list')\" 0",
    );
    assert_eq!(client.reply(), ":1");
    assert_eq!(waiter.reply(), "*2 $4 list $1 x");
    let heard = [listener.reply(), listener.reply(), listener.reply()];
    assert_eq!(heard.iter().filter(|line| line.contains("__keyspace@0__:k")).count(), 1, "{heard:?}");
    let said: Vec<_> = heard.iter().filter(|line| line.contains("$1 c ")).collect();
    assert!(said[0].ends_with("one") && said[1].ends_with("two"), "{heard:?}");
}

#[test]
fn what_scripts_call_in_vain() {
    let server = start("auto", "1", &[]);
    let mut client = server.client();
    for (call, expected) in [
        ("'xgroup','nothing'", "-ERR Unknown Redis command called from script script: "),
        ("'nothing'", "-ERR Unknown Redis command called from script script: "),
        ("'xgroup'", "-ERR Wrong number of args calling Redis command from script script: "),
    ] {
        let reply = client.call(&format!("eval \"return redis.call({call})\" 0"));
        assert!(reply.starts_with(expected), "{call}: {reply}");
    }
}

#[test]
fn functions_are_known_to_all_workers() {
    let server = start("io_uring", "3", &[]);
    let mut client = server.client();
    let library = "#!lua name=lib\\nredis.register_function{function_name='f', \
                   callback=function(keys, args) return redis.call('incr', keys[1]) end} \
                   redis.register_function{function_name='r', callback=function(keys) return redis.call('get', keys[1]) \
                   end, flags={'no-writes'}}";
    assert_eq!(client.call(&format!("function load \"{library}\"")), "$3 lib");
    assert!(client.call(&format!("function load \"{library}\"")).starts_with("-ERR Library 'lib' already exists"));
    let mut others: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for (i, other) in others.iter_mut().enumerate() {
        assert_eq!(other.call("fcall f 1 n"), format!(":{}", i + 1));
    }
    assert_eq!(client.call("fcall_ro r 1 n"), "$1 6");
    assert!(client.call("fcall_ro f 1 n").starts_with("-ERR Can not execute a script with write flag"));
    assert_eq!(client.call("function delete lib"), "+OK");
    for other in &mut others {
        assert_eq!(other.call("fcall f 1 n"), "-ERR Function not found");
    }
}

#[test]
fn what_scripts_hold_evicts_no_keys() {
    let server = start("epoll", "2", &["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    assert_eq!(client.call("eval \"for i = 1, 1000 do redis.call('set', i, ('x'):rep(1000)) end return 1\" 0"), ":1");
    // A table of a hundred megabytes, while others write.
    let mut other = server.client();
    client.send("eval \"local t = {} for i = 1, 6e6 do t[i] = i end for i = 1, 3e7 do end return #t\" 0");
    for n in 0..200 {
        assert_eq!(other.call(&format!("set other:{n} x")), "+OK");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.reply(), ":6000000");
    assert_eq!(other.call("dbsize"), ":1200");
    assert_eq!(
        other.call(
            "eval \"local s = {} for i = 1, 50 do s[i] = ('x'):rep(1e6) .. i end return redis.call('set', 'a', 'b')\" 0"
        ),
        "+OK"
    );
}

#[test]
fn scripts_whose_clients_are_gone_share_what_time_there_is() {
    let server = start("epoll", "1", &[]);
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&format!("eval \"while true do end\" 1 k{n}"));
    }
    let mut client = server.client();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(client.call("client kill type normal skipme yes"), ":200");
    in_time(Duration::from_secs(2), || (0..20).for_each(|_| assert_eq!(client.call("set free x"), "+OK")));
    assert_eq!(client.call("script kill"), "+OK");
}

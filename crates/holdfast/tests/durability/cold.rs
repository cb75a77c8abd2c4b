//! More data than memory: keys leave memory for the store and come back, and no command is refused.

use crate::support::{Client, Scratch, Server, random};

fn server(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "yes"];
    Server::start(&[&settings, more].concat())
}

fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.call("info everything");
    let at = text.find(&format!(" {name}:")).unwrap_or_else(|| panic!("no {name} in {text}"));
    text[at + name.len() + 2..].split_whitespace().next().unwrap().parse().unwrap()
}

/// Sends lines and takes their replies.
fn all(client: &mut Client, lines: &[String]) -> Vec<String> {
    let mut replies = Vec::new();
    for part in lines.chunks(500) {
        client.send(&part.join(";"));
        replies.extend(part.iter().map(|_| client.reply()));
    }
    replies
}

#[test]
fn more_data_than_memory() {
    const KEYS: u64 = 30_000;
    const LIMIT: u64 = 48 << 20;
    let value = |n: u64, version: u64| format!("{n}:{version}:{}", "v".repeat(3000 + (n % 500) as usize));
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--maxmemory", &LIMIT.to_string()]);
    let mut client = server.client();
    let mut versions = vec![0; KEYS as usize];
    for first in (0..KEYS).step_by(1000) {
        let lines: Vec<String> = (first..first + 1000).map(|n| format!("set key:{n} {}", value(n, 0))).collect();
        let refused = all(&mut client, &lines).into_iter().find(|reply| reply != "+OK");
        assert_eq!(refused, None, "nobody is refused");
    }
    assert_eq!(client.call("dbsize"), format!(":{KEYS}"));
    let used = info(&mut client, "used_memory");
    assert!(used < LIMIT + LIMIT / 8, "{used} bytes in use");
    assert!(info(&mut client, "keys_in_store_only") > KEYS / 2);
    let mut rng = random(5);
    let mut other = server.client();
    for _ in 0..15 {
        let picked: Vec<u64> = (0..200).map(|_| rng(KEYS)).collect();
        for n in &picked {
            if n % 3 == 0 {
                versions[*n as usize] += 1;
            }
        }
        let lines: Vec<String> = picked
            .iter()
            .filter(|n| *n % 3 == 0)
            .map(|n| format!("set key:{n} {}", value(*n, versions[*n as usize])))
            .collect();
        assert!(all(&mut client, &lines).iter().all(|reply| reply == "+OK"));
        let lines: Vec<String> = picked.iter().map(|n| format!("get key:{n}")).collect();
        for (n, reply) in picked.iter().zip(all(&mut other, &lines)) {
            let text = value(*n, versions[*n as usize]);
            assert!(reply == format!("${} {text}", text.len()), "key:{n} is {:.40}, not {text:.20}", reply);
        }
    }
    assert!(info(&mut client, "keys_fetched_from_store") > 1000);
    let used = info(&mut client, "used_memory");
    assert!(used < LIMIT + LIMIT / 8, "{used} bytes in use");
    assert_eq!(client.call("dbsize"), format!(":{KEYS}"));
    // Keys that a script does not declare, one after the other. None was used lately.
    let script = "local n=0 for i=0,ARGV[1]-1 do n=n+redis.call('strlen','key:'..i) end return n";
    let lengths: usize = (0..4000).map(|n| value(n, versions[n as usize]).len()).sum();
    assert!(client.call("debug evict").starts_with(":"));
    assert_eq!(client.call(&format!("eval \"{script}\" 0 4000")), format!(":{lengths}"));
    // More at once than memory has room for.
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
    assert_eq!(client.call(&format!("exists {}", keys.join(" "))), format!(":{KEYS}"));
    assert_eq!(client.call("flushall"), "+OK");
    assert_eq!(client.call("dbsize"), ":0");
    assert_eq!(client.call("get key:1"), "$-1");
}

#[test]
fn what_is_resident_stays_within_the_limit() {
    const KEYS: u64 = 30_000;
    const LIMIT: u64 = 128 << 20;
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--maxmemory", &LIMIT.to_string()]);
    let mut client = server.client();
    let value = "v".repeat(6000);
    for version in 0..2 {
        for first in (0..KEYS).step_by(500) {
            let lines: Vec<String> = (first..first + 500).map(|n| format!("set key:{n} {value}{version}")).collect();
            let refused = all(&mut client, &lines).into_iter().find(|reply| reply != "+OK");
            assert_eq!(refused, None, "nobody is refused");
        }
        let mut rng = random(3);
        let lines: Vec<String> = (0..2000).map(|_| format!("strlen key:{}", rng(KEYS))).collect();
        assert!(all(&mut client, &lines).iter().all(|reply| reply == ":6001"));
        let (peak, usable) = (server.peak_rss(), info(&mut client, "maxmemory_usable"));
        assert!(peak <= LIMIT, "{peak} bytes were resident");
        assert!(peak >= LIMIT / 100 * 80, "{peak} bytes were resident at most");
        assert!((LIMIT / 4..LIMIT).contains(&usable), "{usable} bytes are usable");
    }
}

/// Makes everything durable, and evicts it.
fn cool(client: &mut Client) -> u64 {
    client.saves();
    let evicted = client.call("debug evict");
    evicted[1..].parse().unwrap()
}

/// The names that SCAN returns until its cursor comes round.
fn scan(client: &mut Client, options: &str, mut between: impl FnMut(&mut Client)) -> Vec<String> {
    let (mut names, mut cursor) = (Vec::new(), "0".to_string());
    loop {
        let reply = client.call(&format!("scan {cursor} {options}"));
        let mut words = reply.split(' ').filter(|word| !word.starts_with(['*', '$'])).map(String::from);
        cursor = words.next().expect("a cursor");
        names.extend(words);
        if cursor == "0" {
            names.sort();
            return names;
        }
        between(client);
    }
}

#[test]
fn what_has_left_memory_is_seen() {
    const EACH: u64 = 2000;
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2"]);
    let mut client = server.client();
    let lines: Vec<String> = (0..EACH)
        .flat_map(|n| {
            let weight = EACH - n;
            [format!("set {{t}}:{n} {weight}"), format!("rpush list:{n} x"), format!("hset hash:{n} field {n}")]
        })
        .collect();
    all(&mut client, &lines);
    let members: Vec<String> = (0..EACH).map(|n| n.to_string()).collect();
    client.call(&format!("sadd members {}", members.join(" ")));
    client.call("select 1");
    client.call("set other 1");
    client.call("select 0");
    let keys = 3 * EACH + 1;
    let digest = client.call("debug digest exact");
    assert_eq!(cool(&mut client), keys + 1);
    assert_eq!(info(&mut client, "keys_in_store_only"), keys + 1);

    assert_eq!(client.call("dbsize"), format!(":{keys}"));
    assert_eq!(client.call("multi;dbsize;exec"), "+OK");
    assert_eq!((client.reply(), client.reply()), ("+QUEUED".into(), format!("*1 :{keys}")));
    assert!(client.call("keys *").starts_with(&format!("*{keys} ")));
    assert!(client.call("keys {t}:1*").starts_with("*1111 "));
    assert_eq!(client.call("eval \"return #redis.call('keys', 'list:*')\" 0"), format!(":{EACH}"));
    assert!(client.call("randomkey").starts_with('$'));
    assert_eq!(info(&mut client, "keys_in_store_only"), keys + 1, "who only asks for names leaves them there");
    let everything = scan(&mut client, "count 100", |_| {});
    assert_eq!(everything.len() as u64, keys);
    let mut rng = random(7);
    let shuffled = scan(&mut client, "", |client| {
        client.call(&format!("get {{t}}:{}", rng(EACH)));
        if rng(50) == 0 {
            cool(client);
        }
    });
    assert_eq!(shuffled, everything, "each once, whatever comes and goes");
    assert_eq!(scan(&mut client, "type list count 1000", |_| {}).len() as u64, EACH);
    assert_eq!(scan(&mut client, "match {t}:* count 7", |_| {}).len() as u64, EACH);

    cool(&mut client);
    let sorted = client.call("sort members by {t}:* get # get hash:*->field limit 0 3");
    let last: Vec<String> = (EACH - 3..EACH).rev().map(|n| format!("$4 {n} $4 {n}")).collect();
    assert_eq!(sorted, format!("*6 {}", last.join(" ")));
    cool(&mut client);
    assert_eq!(client.call("multi;sort members by {t}:* desc limit 0 1 store top;lrange top 0 -1;del top;exec"), "+OK");
    let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
    assert_eq!(replies[3], "*3 :1 *1 $1 0 :1");

    cool(&mut client);
    assert_eq!(client.call("debug digest exact"), digest);
    // Keys that a command has waited for stay for a moment.
    let mut evicted = 0;
    while evicted < 2 {
        evicted += client.call("debug evict nothing {t}:1 {t}:2")[1..].parse::<u64>().unwrap();
    }
    assert_eq!(client.call("mget {t}:1 {t}:2 nothing"), format!("*3 $4 {} $4 {} $-1", EACH - 1, EACH - 2));
}

/// Waits until no hash has its first field any more.
fn fields_go(client: &mut Client) {
    while (0..300).any(|n| client.call(&format!("hlen hash:{n}")) != ":1") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_expires_in_the_store_is_deleted() {
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "1", "--notify-keyspace-events", "Ex"]);
    let (mut client, mut listener) = (server.client(), server.client());
    listener.call("subscribe __keyevent@0__:expired");
    let lines: Vec<String> = (0..300)
        .flat_map(|n| {
            let ms = 3000 + n;
            [
                format!("set {{t}}:{n} x px {ms}"),
                format!("set {n} x px {ms}"),
                format!("set stays:{n} x ex 1000"),
                format!("hset hash:{n} a 1 b 2"),
                format!("hpexpire hash:{n} {ms} fields 1 a"),
            ]
        })
        .collect();
    all(&mut client, &lines);
    // Keys that expired before that, on a slow machine, have to be reported as well. Fields that have just expired keep
    // their hash in memory.
    let mut left = 0;
    while left < 600 {
        left += cool(&mut client);
    }
    for n in 0..600 {
        let event = listener.reply();
        assert!(event.starts_with("*3 $7 message "), "event {n} is {event}");
    }
    assert_eq!(client.call("dbsize"), ":600");
    fields_go(&mut client);
    assert!(info(&mut client, "keys_in_store_only") >= 300, "what does not expire stays where it is");
}

#[test]
fn after_a_start_what_is_in_the_store_only_is_seen_and_expires() {
    let dir = Scratch::new();
    {
        let server = server(&dir, &["--workers", "1"]);
        let mut client = server.client();
        let lines: Vec<String> = (0..300)
            .flat_map(|n| {
                [
                    format!("set {{t}}:{n} x px {}", 1000 + n),
                    format!("rpush stays:{n} x"),
                    format!("hset hash:{n} a 1 b 2"),
                    format!("hpexpire hash:{n} {} fields 1 a", 1000 + n),
                ]
            })
            .collect();
        all(&mut client, &lines);
        client.saves();
        client.call("rpush later x");
    }
    let server = server(&dir, &["--workers", "2", "--warm-up-cpu", "0"]);
    let mut client = server.client();
    assert!(client.call("randomkey").starts_with('$'));
    assert_eq!(scan(&mut client, "type list", |_| {}).len(), 301);
    assert!(client.call("keys {t}:*").starts_with('*'));
    assert!(info(&mut client, "keys_in_store_only") >= 300, "who only asks for names leaves them there");
    while client.call("dbsize") != ":601" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(scan(&mut client, "", |_| {}).len(), 601);
    fields_go(&mut client);
}

/// A client that reads one cold key after the other waits for each, while others are served. It does not read the store
/// itself just because earlier commands have waited.
#[test]
fn every_command_waits_anew() {
    const KEYS: usize = 20;
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "1"]);
    let mut client = server.client();
    let lines: Vec<String> = (0..KEYS).map(|n| format!("set key:{n} {n}")).collect();
    assert!(all(&mut client, &lines).iter().all(|reply| reply == "+OK"));
    while info(&mut client, "keys_in_store_only") < KEYS as u64 {
        cool(&mut client);
    }
    let parked = |client: &mut Client| -> usize {
        let text = client.call("info everything");
        let at = text.find(",parked=").expect("of a worker") + ",parked=".len();
        text[at..].split(',').next().unwrap().parse().unwrap()
    };
    let before = parked(&mut client);
    for n in 0..KEYS {
        assert_eq!(client.call(&format!("get key:{n}")), format!("${} {n}", n.to_string().len()));
    }
    assert!(parked(&mut client) - before >= KEYS, "each of them was waited for");
}

/// Memory is hardly more than the server needs to work: writers wait until there is room, and are not refused.
#[test]
fn little_memory_refuses_nobody() {
    const KEYS: u64 = 400;
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--maxmemory", "40mb"]);
    let value = "v".repeat(100_000);
    let threads: Vec<_> = (0..5)
        .map(|writer| {
            let (mut client, value) = (server.client(), value.clone());
            std::thread::spawn(move || {
                let lines: Vec<String> = (0..KEYS).map(|n| format!("set key:{writer}:{n} {n}{value}")).collect();
                lines.chunks(10).flat_map(|lines| all(&mut client, lines)).find(|reply| reply != "+OK")
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), None, "nobody is refused");
    }
    let mut client = server.client();
    assert_eq!(client.call("dbsize"), format!(":{}", 5 * KEYS));
    for n in (0..KEYS).step_by(50) {
        assert_eq!(client.call(&format!("strlen key:3:{n}")), format!(":{}", value.len() + n.to_string().len()));
    }
}

/// A command waited for a checkpoint, and then there was room without it. That checkpoint says nothing of later writes:
/// a command that needs room then waits for another one.
#[test]
fn every_shortage_waits_for_a_checkpoint_of_its_own() {
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "1", "--maxmemory", "250mb"]);
    let mut client = server.client();
    let value = "v".repeat(100_000);
    let write = |client: &mut Client, keys: std::ops::Range<u64>, version: u64| {
        let lines: Vec<String> = keys.map(|n| format!("set key:{n} {version}{value}")).collect();
        lines.chunks(10).flat_map(|lines| all(client, lines)).find(|reply| reply != "+OK")
    };
    assert_eq!(write(&mut client, 0..400, 0), None);
    // The new limit holds from the next turn on, some commands later. The first command asks for a checkpoint, and the
    // limit is raised before there is one.
    let pings = "ping;".repeat(3000);
    client.send(&format!("config set maxmemory 40mb;{pings}config set maxmemory 250mb"));
    assert!((0..3002).all(|_| ["+OK", "+PONG"].contains(&client.reply().as_str())));
    // SAVE is refused while that checkpoint is being made.
    while client.call("save") != "+OK" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(write(&mut client, 0..400, 1), None);
    assert_eq!(client.call("config set maxmemory 40mb"), "+OK");
    assert_eq!(write(&mut client, 400..500, 2), None, "nobody is refused");
    assert!(info(&mut client, "keys_in_store_only") > 0);
}

/// Clients that each change large keys in turn need more room at once than there is. Keys that were fetched for one
/// stay in memory until it has used them, and then make room for the next: no command is refused.
#[test]
fn what_was_fetched_for_others_is_waited_for() {
    const CLIENTS: usize = 12;
    const BYTES: usize = 1_500_000;
    const CHANGES: usize = 9;
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--maxmemory", "40mb"]);
    let mut client = server.client();
    let value = "v".repeat(BYTES);
    for n in 0..2 * CLIENTS {
        assert_eq!(client.call(&format!("set key:{n} {value}")), "+OK");
    }
    let threads: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let change = |n| client.call(&format!("append key:{} x", 2 * index + n % 2));
                (0..CHANGES).map(change).collect::<Vec<String>>()
            })
        })
        .collect();
    let expected: Vec<String> = (0..CHANGES).map(|n| format!(":{}", BYTES + n / 2 + 1)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}

/// A command that makes a key too large for memory is refused after some time.
#[test]
fn what_must_stay_in_memory_is_bounded() {
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "1", "--maxmemory", "40mb"]);
    let mut client = server.client();
    let lines: Vec<String> = (0..20).map(|n| format!("rpush list {n}{}", "v".repeat(100_000))).collect();
    let refused = (0..30).flat_map(|_| all(&mut client, &lines)).find(|reply| !reply.starts_with(':'));
    assert!(refused.is_some_and(|reply| reply.starts_with("-OOM")), "60 MB in one key");
}

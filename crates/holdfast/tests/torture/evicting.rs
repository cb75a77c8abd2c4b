//! More data than memory: existing values are right, and keys that are written together are never seen half.

use std::time::Duration;

use resp::Value;

use crate::chaos;
use crate::support::attack::{Raw, simple, text};
use crate::world::{Actor, Chance, World, array};

/// All actors, and how many of each.
pub const CAST: &[(&str, usize, Actor)] = &[
    ("filler", 3, filler),
    ("reader", 2, reader),
    ("couple", 2, couple),
    ("governor", 1, governor),
    ("waiter", 2, waiter),
    ("emptier", 1, emptier),
    ("storm", 1, chaos::storm),
];

const KEYS: u64 = 30_000;
const COUPLES: u64 = 200;
/// The limit in `main.rs`, and the excess that a moment may have: a pipeline's replies and connections' buffers count,
/// too.
const MOST: u64 = (24 + 24) << 20;

fn key(i: u64) -> String {
    format!("filled:{i}")
}

/// The value of key `i`: its type, length and contents follow from its number.
fn content(i: u64) -> String {
    format!("{i}:").repeat(1 + (i * 7919 % 300) as usize)
}

fn is_oom(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"OOM") || text.starts_with(b"EXECABORT"))
}

fn filler(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let picks: Vec<u64> = (0..1 + chance.below(50)).map(|_| chance.below(KEYS)).collect();
        for &i in &picks {
            let (key, content) = (key(i), content(i));
            match i % 4 {
                0 => client.command(&["set", &key, &content]),
                1 => client.command(&["set", &key, &content, "px", &(1 + chance.below(5000)).to_string()]),
                2 => client.command(&["hset", &key, "a", &content, "b", &content]),
                _ => client.command(&["sadd", &key, &content, "short"]),
            }
        }
        for _ in picks {
            let reply = client.reply();
            assert!(!matches!(reply, Value::Error(_)) || is_oom(&reply), "{reply:?}");
        }
        world.step("filler");
    }
}

fn read(client: &mut Raw, i: u64) {
    let (key, content) = (key(i), content(i));
    match i % 4 {
        0 | 1 => {
            let reply = client.call(&["get", &key]);
            assert!(reply == Value::Null || text(&reply) == content, "{key}");
        }
        2 => {
            let fields = array(client.call(&["hgetall", &key]));
            assert!(fields.is_empty() || fields.len() == 4 && text(&fields[1]) == content, "{key}");
        }
        _ => {
            let members = array(client.call(&["smembers", &key]));
            assert!(members.is_empty() || members.len() == 2, "{key}");
            assert!(members.iter().all(|m| text(m) == content || text(m) == "short"), "{key}");
        }
    }
}

fn reader(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        read(&mut client, chance.below(KEYS));
        world.step("reader");
    }
}

/// Two keys that are written together, with a large one in between: if both exist, they agree.
fn couple(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let i = chance.below(COUPLES);
        let (one, other) = (format!("one:{i}"), format!("other:{i}"));
        if chance.one_in(2) {
            let n = world.unique().to_string();
            client.command(&["multi"]);
            client.command(&["set", &one, &n]);
            client.command(&["set", &format!("large:{i}"), &"x".repeat(chance.below(20_000) as usize)]);
            client.command(&["set", &other, &n]);
            client.command(&["exec"]);
            (0..4).for_each(|_| drop(client.reply()));
            let reply = client.reply();
            assert!(is_oom(&reply) || array(reply) == vec![simple("OK"); 3]);
        } else if let Value::Array(both) = client.call(&["mget", &one, &other]) {
            assert!(both.contains(&Value::Null) || both[0] == both[1], "{both:?}");
        }
        world.step("couple");
    }
}

/// Changes the policy and the limit.
fn governor(world: &World<'_>, mut chance: Chance) {
    let policies = [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-lrm",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-lrm",
        "volatile-ttl",
        "volatile-random",
        "noeviction",
    ];
    let mut client = world.client();
    while !world.is_over() {
        let policy = policies[chance.below(policies.len() as u64) as usize];
        assert_eq!(client.call(&["config", "set", "maxmemory-policy", policy]), simple("OK"));
        let limit = ["24mb", "20mb", "16mb"][chance.below(3) as usize];
        assert_eq!(client.call(&["config", "set", "maxmemory", limit]), simple("OK"));
        for _ in 0..10 {
            let used = client.info("used_memory");
            assert!(used < MOST, "{used} bytes in use");
            std::thread::sleep(Duration::from_millis(chance.below(20)));
        }
        world.step("governor");
    }
}

/// Waits for elements, if there is room for them; they may be evicted at once.
fn waiter(world: &World<'_>, mut chance: Chance) {
    let (mut client, mut pusher) = (world.client(), world.client());
    while !world.is_over() {
        let list = format!("waited:{}", world.unique());
        client.command(&["blpop", &list, "0.2"]);
        let element = "x".repeat(chance.below(3000) as usize);
        let pushed = pusher.call(&["rpush", &list, &element]);
        let came = client.reply();
        assert!(pushed == Value::Integer(1) || is_oom(&pushed), "{pushed:?}");
        assert!(came == Value::Null || text(&array(came)[1]) == element);
        world.step("waiter");
    }
}

fn emptier(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        std::thread::sleep(Duration::from_millis(chance.below(500)));
        let how = if chance.one_in(2) { "async" } else { "sync" };
        assert_eq!(client.call(&["flushall", how]), simple("OK"));
        world.step("emptier");
    }
}

/// The counters agree with the keys, and all keys can be read and freed.
pub fn check(world: &World<'_>) {
    let mut client = world.client();
    assert_eq!(client.call(&["config", "set", "maxmemory", "0"]), simple("OK"));
    (0..KEYS).step_by(7).for_each(|i| read(&mut client, i));
    client.call(&["config", "set", "maxmemory", "1"]);
    client.call(&["config", "set", "maxmemory-policy", "allkeys-random"]);
    let deadline = std::time::Instant::now() + crate::support::attack::PATIENCE;
    while client.call(&["dbsize"]) != Value::Integer(0) {
        assert!(std::time::Instant::now() < deadline, "keys that cannot be evicted");
        std::thread::sleep(Duration::from_millis(10));
        // A command that wants memory makes room for it.
        assert!(is_oom(&client.call(&["set", "never", "there"])));
    }
    assert_eq!(client.call(&["keys", "*"]), Value::Array(Vec::new()));
}

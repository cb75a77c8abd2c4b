//! Walks while keys come and go: a key that exists from beginning to end is returned, once.

use std::collections::BTreeSet;

use resp::Value;

use crate::support::attack::{Raw, simple, text};
use crate::world::{Chance, World, array};

/// The number of keys that stay, half of them with a hash tag.
const STAYING: u64 = 300;
/// Their database, which no other actor uses.
const DB: &str = "10";

fn staying(i: u64) -> String {
    if i.is_multiple_of(2) { format!("stays:{{crowd}}:{i}") } else { format!("stays:{i}") }
}

fn client(world: &World<'_>) -> Raw {
    let mut client = world.client();
    assert_eq!(client.call(&["select", DB]), simple("OK"));
    client
}

pub fn put_down(world: &World<'_>) {
    let mut client = client(world);
    for i in 0..STAYING {
        let (key, member) = (staying(i), staying(i));
        assert_eq!(client.call(&["set", &key, "here"]), simple("OK"));
        client.call(&["hset", "a:hash", &member, "here"]);
        client.call(&["sadd", "a:set", &member]);
        client.call(&["zadd", "a:zset", &i.to_string(), &member]);
    }
}

/// Adds and removes neighbours by the hundred.
pub fn crowd(world: &World<'_>, mut chance: Chance) {
    let mut client = client(world);
    while !world.is_over() {
        let tag = if chance.one_in(2) { "{crowd}" } else { "wide" };
        let n = 1 << chance.below(11);
        let name = |i: u64| format!("{tag}:{i}");
        let names: Vec<String> = (0..n).map(|_| name(chance.below(3000))).collect();
        let pairs = || names.iter().flat_map(|name| [name.clone(), "1".into()]);
        let (head, rest): (&[&str], Vec<String>) = match chance.below(8) {
            0 | 1 => (&["mset"], pairs().collect()),
            2 => (&["unlink"], names),
            3 => (&["del"], (0..3000).map(name).collect()),
            4 => (&["hset", "a:hash"], pairs().collect()),
            5 => (&["sadd", "a:set"], names),
            6 => (&["zadd", "a:zset"], names.iter().flat_map(|name| ["1".into(), name.clone()]).collect()),
            _ => {
                for (remove, key) in [("hdel", "a:hash"), ("srem", "a:set"), ("zrem", "a:zset")] {
                    let all = (0..3000).map(name);
                    client.call(&[remove.into(), key.into()].into_iter().chain(all).collect::<Vec<String>>());
                }
                continue;
            }
        };
        let command: Vec<String> = head.iter().map(|word| (*word).to_owned()).chain(rest).collect();
        assert!(!matches!(client.call(&command), Value::Error(_)));
        world.step("crowd");
    }
}

pub fn scanner(world: &World<'_>, mut chance: Chance) {
    let mut client = client(world);
    while !world.is_over() {
        let (head, width): (&[&str], usize) =
            [(&["scan"][..], 1), (&["hscan", "a:hash"], 2), (&["sscan", "a:set"], 1), (&["zscan", "a:zset"], 2)]
                [chance.below(4) as usize];
        let matched = chance.one_in(3);
        let (mut cursor, mut seen, mut twice) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let count = (1 + chance.below(400)).to_string();
            let mut command: Vec<&str> = head.to_vec();
            command.extend([cursor.as_str(), "count", &count]);
            if matched {
                command.extend(["match", "stays:*"]);
            }
            let mut reply = array(client.call(&command));
            let found = array(reply.pop().unwrap());
            for name in found.iter().step_by(width).map(text).filter(|name| name.starts_with("stays:")) {
                twice += usize::from(!seen.insert(name));
            }
            cursor = text(&reply[0]);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len() as u64, STAYING, "{head:?} has missed some");
        // A small collection that became large meanwhile may come again; keys never do.
        assert!(twice == 0 || head[0] != "scan", "{head:?}: {twice} came twice");
        world.step("scanner");
    }
}

//! Databases change places, and keys move between them, while clients count and wait in both.

use std::time::Duration;

use resp::Value;

use crate::support::attack::{Raw, bulk, simple};
use crate::world::{Chance, World, array, int};

const KEYS: u64 = 5;
/// The two databases.
const ONE: &str = "8";
const OTHER: &str = "9";

fn select(client: &mut Raw, chance: &mut Chance) {
    let db = if chance.one_in(2) { ONE } else { OTHER };
    assert_eq!(client.call(&["select", db]), simple("OK"));
}

pub fn swapper(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        assert_eq!(client.call(&["swapdb", ONE, OTHER]), simple("OK"));
        world.step("swapper");
        std::thread::sleep(Duration::from_millis(chance.below(10)));
    }
}

/// Counts in one database or the other: together they miss nothing.
pub fn commuter(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        select(&mut client, &mut chance);
        for _ in 0..20 {
            let i = chance.below(KEYS);
            assert!(matches!(client.call(&["incr", &format!("commuted:{i}")]), Value::Integer(1..)));
            world.add(format!("commuted:{i}"), 1);
        }
        world.step("commuter");
    }
}

/// Makes lists in one database and moves or copies them to the other, where a client waits.
pub fn carrier(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        select(&mut client, &mut chance);
        let key = format!("carried:{}", chance.below(KEYS));
        let n = 1 + chance.below(3);
        let elements = (0..n).map(|i| i.to_string());
        let made =
            client.call(&["rpush".into(), format!("made:{key}")].into_iter().chain(elements).collect::<Vec<_>>());
        assert!(matches!(made, Value::Integer(1..)), "{made:?}");
        match chance.below(3) {
            0 => drop(client.call(&["rename", &format!("made:{key}"), &key])),
            1 => drop(client.call(&["copy", &format!("made:{key}"), &key, "db", ONE])),
            _ => {
                client.call(&["rename", &format!("made:{key}"), &key]);
                client.call(&["move", &key, OTHER]);
            }
        }
        world.step("carrier");
    }
}

/// Waits in either database for lists, and carries their elements on to another slot: the worker that serves it must
/// hold that slot, too.
pub fn far_waiter(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        select(&mut client, &mut chance);
        let i = chance.below(KEYS);
        let (from, to) = (format!("carried:{i}"), format!("arrived:{}", chance.below(KEYS)));
        if client.call(&["blmove", &from, &to, "left", "right", "0.02"]) != Value::Null {
            world.step("far waiter");
        }
        if chance.one_in(20) {
            client.call(&["del", &to]);
        }
    }
}

/// Waits for a key that is then made in every possible way: no wake-up is lost. It has two databases to itself.
pub fn ferry(world: &World<'_>, mut chance: Chance) {
    let (mut waiter, mut maker, mut next) = (world.client(), world.client(), world.client());
    let (here, there) = ("11", "12");
    for client in [&mut waiter, &mut maker, &mut next] {
        assert_eq!(client.call(&["select", here]), simple("OK"));
    }
    while !world.is_over() {
        let n = world.unique();
        // Each key is used by this actor alone, so that most are in different slots.
        let [from, to, end, made] = ["from", "to", "end", "made"].map(|name| format!("{name}:{}", n % 50));
        let chained = chance.one_in(2);
        if chained {
            next.command(&["blmove", &to, &end, "left", "left", "20"]);
        }
        waiter.command(&["blmove", &from, &to, "left", "left", "20"]);
        if chance.one_in(2) {
            // Usually they wait by then.
            std::thread::sleep(Duration::from_micros(chance.below(2000)));
        }
        let text = n.to_string();
        let mut lines: Vec<Vec<&str>> = vec![vec!["rpush", &made, &text]];
        match chance.below(8) {
            0 => lines = vec![vec!["rpush", &from, &text]],
            1 => lines = vec![vec!["multi"], vec!["lpush", &from, &text], vec!["exec"]],
            2 => lines.push(vec!["rename", &made, &from]),
            3 => lines.extend([vec!["copy", &made, &from], vec!["del", &made]]),
            4 => lines.push(vec!["lmove", &made, &from, "left", "right"]),
            5 => lines.extend([vec!["sort", &made, "by", "nosort", "store", &from], vec!["del", &made]]),
            6 => {
                let moved =
                    if chance.one_in(2) { vec!["move", &from, here] } else { vec!["copy", &from, &from, "db", here] };
                lines = vec![vec!["select", there], vec!["rpush", &from, &text], moved];
                lines.extend([vec!["del", &from], vec!["select", here]]);
            }
            _ => {
                lines = vec![vec!["select", there], vec!["rpush", &from, &text], vec!["swapdb", here, there]];
                lines.push(vec!["select", here]);
            }
        }
        lines.iter().for_each(|line| maker.command(line));
        for line in &lines {
            let reply = maker.reply();
            assert!(!matches!(reply, Value::Error(_) | Value::Integer(0)) || line[0] == "del", "{line:?}: {reply:?}");
        }
        assert_eq!(waiter.reply(), bulk(&text), "{lines:?}");
        if chained {
            assert_eq!(next.reply(), bulk(&text), "{lines:?}");
        }
        maker.call(&["del", &to, &end]);
        world.step("ferry");
    }
}

pub fn check(world: &World<'_>) {
    let mut client = world.client();
    for i in 0..KEYS {
        let key = format!("commuted:{i}");
        let mut sum = 0;
        for db in [ONE, OTHER] {
            client.call(&["select", db]);
            sum += int(&client.call(&["get", &key]));
        }
        assert_eq!(sum as u64, world.sum(&key), "{key}");
    }
    // The counters agree with the keys.
    for db in 0..16 {
        client.call(&["select", &db.to_string()]);
        let keys = array(client.call(&["keys", "*"])).len() as i64;
        assert_eq!(client.call(&["dbsize"]), Value::Integer(keys), "database {db}");
    }
}

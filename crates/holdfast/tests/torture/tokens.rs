//! Tokens that change places in every possible way: a reader of all places at once sees each token exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use resp::Value;

use crate::support::attack::{Raw, simple, text};
use crate::world::{Chance, World, array};

const PLACES: u64 = 9;
const TOKENS: u64 = 60;
/// Their database, which no other actor uses.
const DB: &str = "13";

fn list(i: u64) -> String {
    if i < 3 { format!("tokens:{{l}}:{i}") } else { format!("tokens:{i}") }
}

fn set(i: u64) -> String {
    format!("tokens:set:{i}")
}

fn client(world: &World<'_>) -> Raw {
    let mut client = world.client();
    assert_eq!(client.call(&["select", DB]), simple("OK"));
    client
}

/// Puts all tokens down, once per world.
pub fn put_down(world: &World<'_>) {
    let mut client = client(world);
    for token in 0..TOKENS {
        let token = token.to_string();
        client.call(&["rpush", &list(0), &token]);
        client.call(&["sadd", &set(0), &token]);
    }
}

/// Two different places.
fn two(chance: &mut Chance, place: fn(u64) -> String) -> [String; 2] {
    let order = chance.shuffled(PLACES);
    [place(order[0]), place(order[1])]
}

/// Moves the contents of one place to another that is empty, if both are still so by then.
fn carry_over(client: &mut Raw, [from, to]: &[String; 2], how: u64) {
    assert_eq!(client.call(&["watch", from, to]), simple("OK"));
    let there = client.call(&["exists", to]);
    if there == Value::Integer(1) {
        client.call(&["unwatch"]);
        return;
    }
    client.command(&["multi"]);
    match how {
        0 => {
            client.command(&["copy", from, to]);
            client.command(&["del", from]);
        }
        1 => {
            client.command(&["rename", from, to]);
            client.command(&["exists", from]);
        }
        _ => {
            // There and back again: the value leaves the slot for a moment.
            client.command(&["rename", from, "tokens:on:the:way"]);
            client.command(&["rename", "tokens:on:the:way", to]);
        }
    }
    client.command(&["exec"]);
    (0..4).for_each(|_| drop(client.reply()));
}

pub fn mover(world: &World<'_>, mut chance: Chance) {
    let mut client = client(world);
    while !world.is_over() {
        let lists = two(&mut chance, list);
        let sets = two(&mut chance, set);
        match chance.below(9) {
            0 => drop(client.call(&["lmove", &lists[0], &lists[1], "left", "right"])),
            1 => drop(client.call(&["blmove", &lists[0], &lists[1], "right", "left", "0.003"])),
            2 => drop(client.call(&["renamenx", &lists[0], &lists[1]])),
            3 => carry_over(&mut client, &lists, chance.below(3)),
            4 => drop(client.call(&["smove", &sets[0], &sets[1], &chance.below(TOKENS).to_string()])),
            5 => drop(client.call(&["renamenx", &sets[0], &sets[1]])),
            6 => carry_over(&mut client, &sets, chance.below(3)),
            7 => {
                // All members of one set move to the other.
                client.command(&["multi"]);
                client.command(&["sunionstore", &sets[1], &sets[0], &sets[1]]);
                client.command(&["del", &sets[0]]);
                client.command(&["exec"]);
                (0..4).for_each(|_| drop(client.reply()));
            }
            _ => {
                // A copy in another database, which replaces both later.
                client.call(&["copy", &lists[0], &lists[0], "db", "14", "replace"]);
            }
        }
        world.step("token mover");
    }
}

/// Reads all places at once.
fn look(client: &mut Raw) {
    client.command(&["multi"]);
    (0..PLACES).for_each(|i| client.command(&["lrange", &list(i), "0", "-1"]));
    (0..PLACES).for_each(|i| client.command(&["smembers", &set(i)]));
    client.command(&["exec"]);
    (0..2 * PLACES + 1).for_each(|_| drop(client.reply()));
    let places = array(client.reply());
    for half in places.chunks(PLACES as usize) {
        let mut seen = BTreeMap::new();
        for token in half.iter().cloned().flat_map(array) {
            *seen.entry(text(&token)).or_insert(0) += 1;
        }
        assert!(seen.len() as u64 == TOKENS && seen.values().all(|count| *count == 1), "{seen:?}");
    }
}

pub fn auditor(world: &World<'_>, _: Chance) {
    let mut client = client(world);
    while !world.is_over() {
        look(&mut client);
        world.step("token auditor");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn check(world: &World<'_>) {
    look(&mut client(world));
}

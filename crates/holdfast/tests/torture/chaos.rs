//! Actors that disturb the others.

use std::time::Duration;

use resp::Value;

use crate::support::attack::{Raw, simple};
use crate::world::{Chance, World};

pub fn killer(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        if let Some(id) = world.a_victim(&mut chance) {
            assert!(matches!(client.call(&["client", "kill", "id", &id]), Value::Integer(0 | 1)));
            world.step("killer");
        }
        std::thread::sleep(Duration::from_millis(chance.below(20)));
    }
}

pub fn interrupter(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        if let Some(id) = world.a_victim(&mut chance) {
            let how = if chance.one_in(2) { "error" } else { "timeout" };
            if client.call(&["client", "unblock", &id, how]) == Value::Integer(1) {
                world.step("interrupter");
            }
        }
        std::thread::sleep(Duration::from_micros(chance.below(2000)));
    }
}

/// Connections that come and go at any moment.
pub fn storm(world: &World<'_>, mut chance: Chance) {
    let scenes = [
        "",
        "PING\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$100",
        "BLPOP nothing nothing:else 0\r\n",
        "WATCH watched:0 watched:1\r\nMULTI\r\nSET watched:0 x\r\n",
        "KEYS *\r\n",
        "BLMOVE nothing nowhere LEFT LEFT 0\r\nSET watched:0 x\r\n",
        "MULTI\r\nBLPOP nothing 0\r\nGET x\r\nEXEC\r\n",
        "CLIENT REPLY OFF\r\nGET x\r\nBLPOP nothing 0\r\n",
    ];
    while !world.is_over() {
        let mut clients: Vec<Raw> = (0..8).map(|_| world.client()).collect();
        for client in &mut clients {
            client.send(scenes[chance.below(scenes.len() as u64) as usize]);
        }
        std::thread::sleep(Duration::from_micros(chance.below(3000)));
        for client in clients {
            if chance.one_in(2) {
                client.reset();
            }
        }
        world.step("storm");
    }
}

/// Evicts all keys that the store has.
pub fn cooler(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        if chance.one_in(3) {
            // A checkpoint may be under way by itself.
            let reply = client.call(&["save"]);
            let running = Value::Error("ERR Background save already in progress".into());
            assert!(reply == simple("OK") || reply == running, "{reply:?}");
        }
        if client.call(&["debug", "evict"]) != Value::Integer(0) {
            world.step("cooler");
        }
        std::thread::sleep(Duration::from_millis(chance.below(100)));
    }
}

/// Reads everything, and takes every latch now and then.
pub fn walker(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        match chance.below(7) {
            0 => drop(client.call(&["keys", "list:*"])),
            1 => drop(client.call(&["scan", "0", "count", "1000"])),
            2 => drop(client.call(&["randomkey"])),
            3 => drop(client.call(&["info"])),
            4 => drop(client.call(&["client", "list"])),
            5 => {
                // An empty database: the latches of all slots for nothing.
                client.call(&["select", "15"]);
                assert_eq!(client.call(&["flushdb", "async"]), simple("OK"));
                client.call(&["select", "0"]);
            }
            _ => {
                client.command(&["multi"]);
                client.command(&["dbsize"]);
                client.command(&["keys", "none*"]);
                client.command(&["exec"]);
                (0..4).for_each(|_| drop(client.reply()));
            }
        }
        world.step("walker");
        std::thread::sleep(Duration::from_millis(chance.below(5)));
    }
}

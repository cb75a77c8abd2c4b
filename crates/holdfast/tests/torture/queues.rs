//! Lists and sorted sets with clients that wait for them, and are interrupted and killed while they do.
//!
//! Each pushed element comes out once, or is still there. A killed client gets the elements that were being served to
//! it before its end. A client that leaves by itself may take an element along, as with Redis, so leavers have a queue
//! of their own.

use std::time::Duration;

use resp::Value;

use crate::support::attack::{Raw, text};
use crate::world::{Chance, World, array, int, lock};

const LISTS: u64 = 8;
const SETS: u64 = 3;
/// Stages that elements move along.
const STAGES: u64 = 4;

fn list(i: u64) -> String {
    if i < 3 { format!("list:{{q}}:{i}") } else { format!("list:{i}") }
}

fn set(i: u64) -> String {
    format!("zset:{i}")
}

fn stage(i: u64) -> String {
    format!("stage:{i}")
}

/// Pushes elements into lists, the first stage, or sorted sets.
fn push(chance: &mut Chance, elements: &[u64]) -> Vec<Vec<String>> {
    let side = if chance.one_in(2) { "lpush" } else { "rpush" };
    let mut command: Vec<String> = match chance.below(6) {
        0 => {
            return elements.iter().map(|e| vec!["zadd".into(), set(e % SETS), e.to_string(), e.to_string()]).collect();
        }
        1 => vec![side.into(), stage(0)],
        _ => vec![side.into(), list(chance.below(LISTS))],
    };
    command.extend(elements.iter().map(u64::to_string));
    vec![command]
}

pub fn producer(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    while !world.is_over() {
        let elements: Vec<u64> = (0..1 + chance.below(4)).map(|_| world.unique()).collect();
        let pushes = push(&mut chance, &elements);
        // Noted before: an element may come out at once.
        lock(&world.pushed).extend(&elements);
        if chance.one_in(3) {
            client.command(&["multi"]);
            pushes.iter().for_each(|command| client.command(command));
            client.command(&["exec"]);
            (0..pushes.len() + 1).for_each(|_| drop(client.reply()));
            array(client.reply());
        } else {
            for command in &pushes {
                assert!(matches!(client.call(command), Value::Integer(1..)), "{command:?}");
            }
        }
        world.step("producer");
        if chance.one_in(4) {
            std::thread::sleep(Duration::from_micros(chance.below(3000)));
        }
    }
}

/// Commands that take elements, with the time for which they wait.
fn take(chance: &mut Chance) -> Vec<String> {
    let timeout = ["0.001", "0.01", "0.05", "0.2"][chance.below(4) as usize];
    let some = |chance: &mut Chance| {
        let most = 1 + chance.below(4) as usize;
        chance.shuffled(LISTS).into_iter().map(list).take(most).collect::<Vec<_>>()
    };
    let words: Vec<String> = match chance.below(8) {
        0 => {
            let lists = some(chance);
            let count = lists.len().to_string();
            let head = ["blmpop".into(), timeout.into(), count];
            return head.into_iter().chain(lists).chain(["left".into(), "count".into(), "3".into()]).collect();
        }
        1 => vec!["bzpopmin".into(), set(0), set(1), set(2)],
        2 => vec!["bzpopmax".into(), set(chance.below(SETS))],
        3 => vec!["brpop".into(), stage(STAGES - 1)],
        4 => ["brpop".into()].into_iter().chain(some(chance)).collect(),
        5 => return vec!["lpop".into(), list(chance.below(LISTS)), "2".into()],
        _ => ["blpop".into()].into_iter().chain(some(chance)).collect(),
    };
    words.into_iter().chain([timeout.into()]).collect()
}

/// The elements in a reply, without keys and scores.
fn elements(command: &[String], reply: &Value) -> Vec<u64> {
    let Value::Array(parts) = reply else { return Vec::new() };
    let number = |value: &Value| text(value).parse::<u64>().unwrap();
    match command[0].as_str() {
        "blmpop" => array(parts[1].clone()).iter().map(number).collect(),
        "lpop" => parts.iter().map(number).collect(),
        _ => vec![number(&parts[1])],
    }
}

pub fn consumer(world: &World<'_>, mut chance: Chance) {
    let (mut client, mut id) = world.victim();
    while !world.is_over() {
        let command = take(&mut chance);
        match client.try_call(&command) {
            Ok(Some(Value::Error(error))) => {
                assert!(error.starts_with(b"UNBLOCKED"), "{command:?}: {:?}", text(&Value::Error(error)))
            }
            Ok(Some(reply)) => {
                lock(&world.popped).extend(elements(&command, &reply));
                world.step("consumer");
            }
            // The client was killed.
            Ok(None) | Err(_) => {
                world.spare(&id);
                (client, id) = world.victim();
                world.step("killed consumer");
            }
        }
    }
    world.spare(&id);
}

/// Moves elements from stage to stage, over slots; may be killed at any moment without a loss.
pub fn mover(world: &World<'_>, mut chance: Chance) {
    let (mut client, mut id) = world.victim();
    while !world.is_over() {
        let from = chance.below(STAGES - 1);
        let timeout = if chance.one_in(3) { "0.002" } else { "0.1" };
        let command = if chance.one_in(3) {
            ["brpoplpush".into(), stage(from), stage(from + 1), timeout.into()].to_vec()
        } else {
            let sides = [["left", "right"][chance.below(2) as usize], ["left", "right"][chance.below(2) as usize]];
            let sides = sides.map(str::to_owned);
            ["blmove".into(), stage(from), stage(from + 1), sides[0].clone(), sides[1].clone(), timeout.into()].to_vec()
        };
        match client.try_call(&command) {
            Ok(Some(Value::Bulk(_))) => world.step("mover"),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                world.spare(&id);
                (client, id) = world.victim();
                world.step("killed mover");
            }
        }
    }
    world.spare(&id);
}

/// Waits and leaves in the middle of that. An element that it takes along is not counted, but never comes twice.
pub fn leaver(world: &World<'_>, mut chance: Chance) {
    let mut pusher = world.client();
    let mut taken = Vec::new();
    while !world.is_over() {
        let mut waiting: Vec<Raw> = (0..4).map(|_| world.client()).collect();
        waiting.iter_mut().for_each(|client| client.command(&["blpop", "leavers", "0.05"]));
        for _ in 0..4 {
            if chance.one_in(2) {
                let gone = waiting.swap_remove(chance.below(waiting.len() as u64) as usize);
                if chance.one_in(2) { gone.reset() } else { drop(gone) }
            }
            pusher.call(&["rpush", "leavers", &world.unique().to_string()]);
            if waiting.is_empty() {
                break;
            }
        }
        for mut client in waiting {
            if let Value::Array(reply) = client.reply() {
                taken.push(int(&reply[1]));
            }
        }
        if let Value::Array(rest) = pusher.call(&["lpop", "leavers", "100"]) {
            taken.extend(rest.iter().map(int));
        }
        world.step("leaver");
    }
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), count, "an element came twice");
}

pub fn check(world: &World<'_>) {
    let mut client = world.client();
    let mut out = lock(&world.popped).clone();
    let (taken, mut rest) = (out.len(), Vec::new());
    for key in (0..LISTS).map(list).chain((0..STAGES).map(stage)) {
        rest.extend(array(client.call(&["lrange", &key, "0", "-1"])));
    }
    for key in (0..SETS).map(set) {
        rest.extend(array(client.call(&["zrange", &key, "0", "-1"])));
    }
    out.extend(rest.iter().map(|value| int(value) as u64));
    out.sort_unstable();
    let mut pushed = lock(&world.pushed).clone();
    pushed.sort_unstable();
    let lost: Vec<_> = pushed.iter().filter(|e| out.binary_search(e).is_err()).collect();
    let doubled: Vec<_> = out.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(lost.is_empty() && doubled.is_empty(), "of {} elements lost: {lost:?}, doubled: {doubled:?}", pushed.len());
    assert_eq!(out, pushed);
    println!("{taken} of {} elements taken, {} left", pushed.len(), rest.len());
}

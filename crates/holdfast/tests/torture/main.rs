//! Many clients at once, each with a property that must stay true with any actions of the others. Sums are conserved,
//! counters miss nothing, elements are neither lost nor doubled, and no client waits for ever. Meanwhile connections
//! change workers, waits are interrupted and clients killed.
//!
//! A few seconds for each server in its short form. `HOLDFAST_TORTURE=600` tortures each for that many seconds, and
//! `HOLDFAST_SEED=n` begins with the seed of an earlier run (whose schedule is not repeated).
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod chaos;
mod databases;
mod evicting;
mod money;
mod queues;
mod scans;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod world;

use resp::Value;
use support::attack::{How, Scratch, Server, simple, text};
use world::{Actor, World, array};

/// All actors, and how many of each.
const CAST: &[(&str, usize, Actor)] = &[
    ("transfers", 4, money::transfers),
    ("auditor", 1, money::auditor),
    ("counter", 2, money::counter),
    ("watcher", 3, money::watcher),
    ("big blocks", 1, money::big_blocks),
    ("flood", 2, money::flood),
    ("many keys", 2, money::many_keys),
    ("expiring", 2, money::expiring),
    ("producer", 3, queues::producer),
    ("consumer", 5, queues::consumer),
    ("mover", 3, queues::mover),
    ("leaver", 1, queues::leaver),
    ("swapper", 1, databases::swapper),
    ("commuter", 2, databases::commuter),
    ("carrier", 1, databases::carrier),
    ("far waiter", 1, databases::far_waiter),
    ("ferry", 1, databases::ferry),
    ("token mover", 3, tokens::mover),
    ("token auditor", 1, tokens::auditor),
    ("crowd", 1, scans::crowd),
    ("scanner", 1, scans::scanner),
    ("turncoat", 2, sessions::turncoat),
    ("killer", 1, chaos::killer),
    ("interrupter", 1, chaos::interrupter),
    ("storm", 1, chaos::storm),
    ("walker", 1, chaos::walker),
];

fn torture(how: How) {
    torture_with(how, &["--hz", "100"], CAST);
}

fn torture_with(how: How, settings: &[&str], cast: &[(&'static str, usize, Actor)]) {
    let Some(server) = Server::start(how, settings) else { return };
    let before = server.info("used_memory");
    let world = World::new(&server);
    let torment = |on: &str| {
        let mut client = server.connect();
        assert_eq!(client.call(&["DEBUG", "SHUFFLE-CLIENTS", on]), simple("OK"));
        assert_eq!(client.call(&["DEBUG", "DISTURB", on]), simple("OK"));
    };
    tokens::put_down(&world);
    scans::put_down(&world);
    torment("1");
    world.play(cast);
    torment("0");
    server.wait_alone();
    for field in ["blocked_clients", "watching_clients", "total_blocking_keys", "total_watched_keys"] {
        server.wait_info(field, 0);
    }
    money::check(&world);
    queues::check(&world);
    databases::check(&world);
    tokens::check(&world);
    same_elsewhere(how, &server);
    server.connect().call(&["FLUSHALL"]);
    world.falls_to("used_memory", before + (24 << 20));
    let info = text(&server.connect().call(&["INFO", "everything"]));
    info.lines().filter(|line| line.starts_with("worker")).for_each(|line| println!("{line}"));
    println!("{how:?}: {}", world.summary());
    assert!(server.terminate().success());
}

/// All data, dumped and restored in another server, have the same digest there.
fn same_elsewhere(how: How, server: &Server) {
    let other = Server::start(How { workers: "1", ..how }, &[]).expect("as the first one");
    let (mut from, mut to) = (server.connect(), other.connect());
    // No key may expire in between.
    for client in [&mut from, &mut to] {
        client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }
    for db in 0..16 {
        let db = db.to_string();
        from.call(&["SELECT", &db]);
        to.call(&["SELECT", &db]);
        for key in array(from.call(&["KEYS", "*"])) {
            let key = text(&key);
            let (payload, at) = (from.call(&["DUMP", &key]), from.call(&["PEXPIRETIME", &key]));
            let (Value::Bulk(payload), Value::Integer(at)) = (payload, at) else { panic!("{key} went away") };
            let at = at.max(0).to_string();
            let command = [&b"RESTORE"[..], key.as_bytes(), at.as_bytes(), &payload, b"ABSTTL"];
            assert_eq!(to.call(&command), simple("OK"), "{key}");
        }
    }
    assert_eq!(from.call(&["DEBUG", "DIGEST"]), to.call(&["DEBUG", "DIGEST"]));
}

/// Memory has a limit, and keys are evicted by every policy in turn.
fn short_of_memory(how: How) {
    let Some(server) = Server::start(how, &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let world = World::new(&server);
    assert_eq!(server.connect().call(&["DEBUG", "SHUFFLE-CLIENTS", "1"]), simple("OK"));
    world.play(evicting::CAST);
    assert_eq!(server.connect().call(&["DEBUG", "SHUFFLE-CLIENTS", "0"]), simple("OK"));
    server.wait_alone();
    evicting::check(&world);
    println!("{how:?}: {}", world.summary());
    assert!(server.terminate().success());
}

#[test]
fn short_of_memory_with_epoll() {
    short_of_memory(How { driver: "epoll", workers: "2" });
}

#[test]
fn short_of_memory_with_io_uring() {
    short_of_memory(How { driver: "io_uring", workers: "4" });
}

#[test]
fn two_workers_with_epoll() {
    torture(How { driver: "epoll", workers: "2" });
}

#[test]
fn two_workers_with_io_uring() {
    torture(How { driver: "io_uring", workers: "2" });
}

/// No key stays in memory for long.
#[test]
fn everything_leaves_memory_meanwhile() {
    let dir = Scratch::new();
    let dir = dir.path().display().to_string();
    let settings = ["--hz", "100", "--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec"];
    // With a log, a killed client also loses elements whose reply was waiting for the commit.
    let unhurt = CAST.iter().filter(|(name, ..)| *name != "killer").copied();
    let cast: Vec<_> = unhurt.chain([("cooler", 1, chaos::cooler as Actor)]).collect();
    torture_with(How { driver: "io_uring", workers: "2" }, &settings, &cast);
}

#[test]
fn four_workers_with_epoll() {
    torture(How { driver: "epoll", workers: "4" });
}

#[test]
fn four_workers_with_io_uring() {
    torture(How { driver: "io_uring", workers: "4" });
}

#[test]
fn one_worker() {
    torture(How { driver: "io_uring", workers: "1" });
}

#[test]
fn as_many_workers_as_the_server_likes() {
    torture(How { driver: "auto", workers: "auto" });
}

//! Many clients at once, each of which knows something that must stay true whatever the others do: sums are conserved,
//! counters miss nothing, elements are neither lost nor doubled, nobody waits for ever. Connections change workers all the
//! time, waits are interrupted and clients killed meanwhile.
//!
//! A few seconds per server in its short form; `HOLDFAST_TORTURE=600` tortures each for that many seconds, and
//! `HOLDFAST_SEED=n` begins with the chance of an earlier run (which the scheduler does not repeat).
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

#[path = "../attack/mod.rs"]
mod attack;
mod chaos;
mod databases;
mod money;
mod queues;
mod world;

use attack::{How, Server, simple, text};
use world::{Actor, World};

/// Everybody, and how many of them.
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
    ("killer", 1, chaos::killer),
    ("interrupter", 1, chaos::interrupter),
    ("storm", 1, chaos::storm),
    ("walker", 1, chaos::walker),
];

fn torture(how: How) {
    let Some(server) = Server::start(how, &["--hz", "100"]) else { return };
    let before = server.info("used_memory");
    let world = World::new(&server);
    let torment = |on: &str| {
        let mut client = server.connect();
        assert_eq!(client.call(&["DEBUG", "SHUFFLE-CLIENTS", on]), simple("OK"));
        assert_eq!(client.call(&["DEBUG", "DISTURB", on]), simple("OK"));
    };
    torment("1");
    world.play(CAST);
    torment("0");
    server.wait_alone();
    for field in ["blocked_clients", "watching_clients", "total_blocking_keys", "total_watched_keys"] {
        server.wait_info(field, 0);
    }
    money::check(&world);
    queues::check(&world);
    databases::check(&world);
    server.connect().call(&["FLUSHALL"]);
    world.falls_to("used_memory", before + (24 << 20));
    let info = text(&server.connect().call(&["INFO", "everything"]));
    info.lines().filter(|line| line.starts_with("worker")).for_each(|line| println!("{line}"));
    println!("{how:?}: {}", world.summary());
    assert!(server.terminate().success());
}

#[test]
fn two_workers_with_epoll() {
    torture(How { driver: "epoll", workers: "2" });
}

#[test]
fn two_workers_with_io_uring() {
    torture(How { driver: "io_uring", workers: "2" });
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

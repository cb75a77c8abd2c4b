//! Commands that wait for lists, with real clients.

use crate::support::{Client, Server};
use std::time::{Duration, Instant};

#[test]
fn who_waits_longest_is_served_first() {
    let server = Server::start(&["--workers", "2"]);
    let mut pusher = server.client();
    let mut waiters: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (i, waiter) in waiters.iter_mut().enumerate() {
        waiter.send("blpop l 0");
        server.blocked_clients(i + 1);
    }
    assert_eq!(pusher.call("rpush l a b c"), ":3");
    for (waiter, elem) in waiters.iter_mut().zip(["a", "b", "c"]) {
        assert_eq!(waiter.reply(), format!("*2 $1 l $1 {elem}"));
    }
    waiters[3].waits();
    assert_eq!(pusher.call("llen l"), ":0");
    assert_eq!(pusher.call("lpush l d e"), ":2");
    assert_eq!(waiters[3].reply(), "*2 $1 l $1 e", "served after the whole command");
}

#[test]
fn commands_behind_a_waiting_one_run_after_it() {
    let server = Server::start(&[]);
    let (mut pusher, mut waiter) = (server.client(), server.client());
    waiter.send("brpop none l 0;llen l;ping");
    server.blocked_clients(1);
    pusher.call("rpush l a b");
    assert_eq!(waiter.reply(), "*2 $1 l $1 b");
    assert_eq!(waiter.reply(), ":1");
    assert_eq!(waiter.reply(), "+PONG");
}

#[test]
fn waits_end_in_time() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for command in
        ["blpop l 0.05", "brpop k l 0.05", "blmpop 0.05 1 l left", "blmove l m left left 0.05", "brpoplpush l m 0.05"]
    {
        let start = Instant::now();
        assert_eq!(client.call(command), "*-1", "{command}");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(48) && took < Duration::from_secs(30), "{command}: {took:?}");
    }
}

/// A client that repeats its command for the rest of its time would do so in a loop.
#[test]
fn no_wait_ends_early() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for _ in 0..100 {
        let begin = Instant::now();
        assert_eq!(client.call("bzpopmin none 0.003"), "*-1");
        assert!(begin.elapsed() >= Duration::from_millis(3), "{:?}", begin.elapsed());
    }
}

#[test]
fn a_transaction_serves_waiters_when_it_ends() {
    let server = Server::start(&[]);
    let (mut pusher, mut waiter) = (server.client(), server.client());
    waiter.send("blpop l 0");
    server.blocked_clients(1);
    pusher.send("multi;lpush l a;del l;set l x;exec");
    (0..5).for_each(|_| drop(pusher.reply()));
    waiter.waits();
    pusher.send("del l;multi;lpush l a;lpush l b;exec");
    (0..5).for_each(|_| drop(pusher.reply()));
    assert_eq!(waiter.reply(), "*2 $1 l $1 b");
    pusher.send("multi;blpop none 0;blmove none l left left 0;blpop l 0;exec");
    (0..4).for_each(|_| drop(pusher.reply()));
    assert_eq!(pusher.reply(), "*3 *-1 $-1 *2 $1 l $1 a", "inside a transaction nothing waits");
}

#[test]
fn an_element_moves_along_a_chain_of_waiters() {
    let server = Server::start(&["--workers", "2"]);
    let (mut pusher, mut mover, mut shifter, mut popper) =
        (server.client(), server.client(), server.client(), server.client());
    popper.send("blpop c 0");
    server.blocked_clients(1);
    shifter.send("blmove b c left right 0");
    server.blocked_clients(2);
    mover.send("brpoplpush a b 0");
    server.blocked_clients(3);
    assert_eq!(pusher.call("rpush a x"), ":1");
    assert_eq!(mover.reply(), "$1 x");
    assert_eq!(shifter.reply(), "$1 x");
    assert_eq!(popper.reply(), "*2 $1 c $1 x");
    assert_eq!(pusher.call("exists a b c"), ":0");
}

#[test]
fn a_key_of_another_type_wakes_nobody() {
    let server = Server::start(&[]);
    let (mut other, mut waiter, mut mover) = (server.client(), server.client(), server.client());
    waiter.send("blpop k l 0");
    server.blocked_clients(1);
    assert_eq!(other.call("set k 1"), "+OK");
    waiter.waits();
    assert_eq!(other.call("rpush l a"), ":1");
    assert_eq!(waiter.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(other.call("llen l"), ":1");

    mover.send("blmove s k left left 0");
    server.blocked_clients(1);
    assert_eq!(other.call("rpush s a"), ":1");
    assert_eq!(mover.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(other.call("llen s"), ":1");
}

#[test]
fn what_a_waiter_changes_is_seen_by_watchers() {
    let server = Server::start(&["--workers", "2"]);
    let (mut pusher, mut mover, mut watcher) = (server.client(), server.client(), server.client());
    mover.send("brpoplpush a b 0");
    server.blocked_clients(1);
    watcher.send("watch b;multi;get c");
    assert_eq!([watcher.reply(), watcher.reply(), watcher.reply()], ["+OK", "+OK", "+QUEUED"]);
    assert_eq!(pusher.call("rpush a x"), ":1");
    assert_eq!(watcher.call("exec"), "*-1");
    assert_eq!(mover.reply(), "$1 x");
}

#[test]
fn who_left_takes_nothing() {
    let server = Server::start(&[]);
    let mut pusher = server.client();
    let mut gone = server.client();
    gone.send("blpop l 0");
    server.blocked_clients(1);
    drop(gone);
    server.blocked_clients(0);
    assert_eq!(pusher.call("rpush l a"), ":1");
    assert_eq!(pusher.call("llen l"), ":1");
}

#[test]
fn one_entry_serves_all_who_read_a_stream() {
    let server = Server::start(&["--workers", "2"]);
    let mut writer = server.client();
    assert_eq!(writer.call("xadd s 1-1 a 1"), "$3 1-1");
    let mut readers: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (i, reader) in readers.iter_mut().enumerate() {
        // `$` is the last entry when the wait began, whatever wakes it.
        reader.send("xread block 0 streams none s $ $");
        server.blocked_clients(i + 1);
    }
    writer.call("xdel s 1-1");
    writer.call("set none text");
    writer.call("del none");
    readers[0].waits();
    writer.call("xadd s 1-2 a 2");
    for reader in &mut readers {
        assert_eq!(reader.reply(), "*1 *2 $1 s *1 *2 $3 1-2 *2 $1 a $1 2");
    }
}

#[test]
fn a_group_hands_entries_out_in_the_order_of_arrival() {
    let server = Server::start(&["--workers", "2"]);
    let mut writer = server.client();
    assert_eq!(writer.call("xgroup create s g $ mkstream"), "+OK");
    let mut readers: Vec<_> = (0..3).map(|_| server.client()).collect();
    for (i, reader) in readers.iter_mut().enumerate() {
        reader.send(&format!("xreadgroup group g c{i} count 1 block 0 streams s >"));
        server.blocked_clients(i + 1);
    }
    for (i, reader) in readers.iter_mut().enumerate() {
        writer.call(&format!("xadd s 1-{} a 1", i + 1));
        assert_eq!(reader.reply(), format!("*1 *2 $1 s *1 *2 $3 1-{} *2 $1 a $1 1", i + 1));
    }
    assert_eq!(writer.call("xpending s g"), "*4 :3 $3 1-1 $3 1-3 *3 *2 $2 c0 $1 1 *2 $2 c1 $1 1 *2 $2 c2 $1 1");
}

#[test]
fn a_wait_that_claims_ends_when_an_entry_is_old_enough() {
    let server = Server::start(&["--workers", "2"]);
    let (mut writer, mut reader) = (server.client(), server.client());
    let claimed = |reader: &mut Client| {
        let reply = reader.reply();
        let idle = reply.strip_prefix("*1 *2 $1 s *1 *4 $3 1-1 *2 $1 a $1 1 :").and_then(|rest| rest.split(' ').next());
        idle.and_then(|idle| idle.parse::<u64>().ok()).unwrap_or_else(|| panic!("{reply}"))
    };
    writer.call("xadd s 1-1 a 1");
    writer.call("xgroup create s g 0");
    writer.call("xreadgroup group g c streams s >");
    reader.send("xreadgroup group g d block 0 claim 100 streams s >");
    assert!(claimed(&mut reader) >= 100);
    // Nothing is pending when the wait begins, and no event wakes it.
    writer.call("xack s g 1-1");
    reader.send("xreadgroup group g d block 0 claim 50 streams none s > >");
    assert!(reader.reply().starts_with("-NOGROUP"));
    reader.send("xreadgroup group g d block 0 claim 50 streams s >");
    server.blocked_clients(1);
    writer.call("xclaim s g c 0 1-1 force justid");
    assert!(claimed(&mut reader) >= 50);
    // A released entry can be claimed at once.
    writer.call("xclaim s g c 0 1-1 force justid");
    reader.send("xreadgroup group g d block 0 claim 1000000000 streams s >");
    server.blocked_clients(1);
    assert_eq!(writer.call("xnack s g fail ids 1 1-1"), ":1");
    assert!(claimed(&mut reader) >= 1_000_000_000);
    reader.send("xreadgroup group g d block 20 claim 1000000000 streams s >");
    assert_eq!(reader.reply(), "*-1");
}

#[test]
fn who_reads_for_a_group_hears_when_it_goes() {
    let server = Server::start(&["--workers", "2"]);
    let (mut writer, mut reader) = (server.client(), server.client());
    let gone = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (change, reply) in [
        ("xgroup destroy s g", gone),
        ("del s", gone),
        ("flushall", gone),
        ("rename s t", gone),
        ("set s text", wrong),
        ("multi;del s;xadd s 1-1 a 1;exec", gone),
        ("pexpire s 5", gone),
    ] {
        writer.call("del s t");
        assert_eq!(writer.call("xgroup create s g $ mkstream"), "+OK");
        reader.send("xreadgroup group g c block 0 streams s >");
        server.blocked_clients(1);
        writer.send(change);
        (0..change.split(';').count()).for_each(|_| drop(writer.reply()));
        assert_eq!(reader.reply(), reply, "{change}");
    }
}

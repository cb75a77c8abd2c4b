//! A shard changes hands in order, under load: no client gets an error, and no connection is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::log_servers::holdfast;
use crate::standbys::{Copied, PATIENCE};
use crate::support::Client;

/// A client with a connection of its own, which must not be closed, and gets no error.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u32>>,
}

impl Load {
    /// Clients of all three nodes, which count in ways of their own.
    fn start(ports: &[u16]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ways = [set, block, script, queue];
        let all = ports.iter().flat_map(|port| ways.iter().zip(0u32..).map(|(way, number)| (*port, *way, number)));
        let threads = all.map(|(port, way, number)| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                let mut client = Client::at(port);
                let name = format!("{port}:{number}");
                let mut count = 0;
                while !is_over.load(SeqCst) {
                    count += 1;
                    way(&mut client, &name, count);
                }
                count
            })
        });
        let threads = threads.collect();
        Self { is_over, threads }
    }

    /// How often each client has been served.
    fn end(self) -> Vec<u32> {
        self.is_over.store(true, SeqCst);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

fn set(client: &mut Client, name: &str, count: u32) {
    assert_eq!(client.call(&format!("set {name} {count}")), "+OK");
    assert!(client.call(&format!("get {name}")).ends_with(&format!(" {count}")));
}

fn block(client: &mut Client, name: &str, count: u32) {
    assert_eq!(client.call("multi"), "+OK");
    client.call(&format!("incr {{{name}}}a"));
    client.call(&format!("incr {{{name}}}b"));
    let reply = client.call("exec");
    assert_eq!(reply.matches(&format!(":{count}")).count(), 2, "{name}: {reply}");
}

fn script(client: &mut Client, name: &str, count: u32) {
    let reply = client.call(&format!("eval return(redis.call(\'incr\',KEYS[1])) 1 {name}"));
    assert_eq!(reply, format!(":{count}"), "{name}");
}

fn queue(client: &mut Client, name: &str, count: u32) {
    assert_eq!(client.call(&format!("rpush {name} {count}")), ":1");
    let reply = client.call(&format!("blpop {name} 0"));
    assert!(reply.ends_with(&format!(" {count}")), "{name}: {reply}");
}

/// The shard is at a node, and the other one may take it over.
pub fn is_at(copied: &Copied, node: usize) {
    let owner = format!("1      127.0.0.1:{}  ", copied.nodes.ports[node]);
    let owns = |line: &str| line.starts_with(&owner) && line.contains("always");
    let follows = |line: &str| line.contains("electable") && !line.contains("down") && !line.starts_with(&owner);
    let is_it = |status: &str| status.lines().any(owns) && status.lines().any(follows);
    copied.nodes.until(2, "cluster status", is_it);
}

#[test]
fn no_client_sees_an_error_when_a_shard_changes_hands_in_order() {
    let mut copied = Copied::new();
    copied.stands_by();
    copied.sets(2, 100);
    let blocked = {
        let port = copied.nodes.ports[2];
        thread::spawn(move || Client::at(port).call("blpop waits 0"))
    };
    let load = Load::start(&copied.nodes.ports);
    for round in 0..4 {
        let to = [1, 0][round % 2];
        is_at(&copied, 1 - to);
        let reply = match round {
            // As a client of Redis does it, at the standby.
            0 => copied.nodes.client(to).call("cluster failover"),
            _ => {
                let to = format!("127.0.0.1:{}", copied.nodes.ports[to]);
                copied.cluster(&["switchover", "1", "--to", &to])
            }
        };
        // The command returns when it has come to be.
        let said = format!("shard 1 is at 127.0.0.1:{} now", copied.nodes.ports[to]);
        assert!(reply == "+OK" || reply.contains(&said), "{reply}");
        is_at(&copied, to);
    }
    let counts = load.end();
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    assert_eq!(copied.nodes.client(1).call("rpush waits x"), ":1");
    assert!(blocked.join().unwrap().ends_with(" x"));
    copied.has_all(0);
    // Both have copies of the log that count, though each has written one of its own in the place of a copy.
    let is_well = |status: &str| status.contains("health: ok") && status.contains(" 3 of 3 ");
    copied.nodes.until(2, "cluster status", is_well);
    // The same processes have had the shard in turn.
    assert!((0..2).all(|node| copied.nodes.log(node).matches("is starting, PID").count() <= 4));
}

/// Without the other voters no metadata answer, and the shard stays where it is. The command does not say otherwise.
#[test]
fn a_switchover_that_nobody_answers_is_not_told_as_done() {
    let mut copied = Copied::new();
    copied.stands_by();
    is_at(&copied, 0);
    [2, 1].into_iter().for_each(|node| copied.nodes.kill(node));
    let port = copied.nodes.ports[0].to_string();
    let begun = Instant::now();
    let asked = || holdfast(&["cluster", "switchover", "1", "-p", &port]);
    let stays = format!("shard 1 is still at 127.0.0.1:{port}, 15 seconds");
    let said = asked();
    assert!(said.contains(&stays) || said.contains("no lease now"), "{said}");
    // Then it knows at once.
    let said = asked();
    assert!(said.contains("this node has no lease now"), "{said}");
    assert!(begun.elapsed() < PATIENCE);
    assert!(copied.nodes.log(0).matches("is given to 127.0.0.1:").count() <= 1);
    // The shard is served when they are back.
    (1..3).for_each(|node| copied.nodes.start(node));
    copied.sets(0, 10);
    copied.has_all(2);
}

/// What a client watches counts as changed when the shard has been elsewhere meanwhile, at whatever node it watches.
#[test]
fn a_watch_ends_when_the_shard_changes_hands() {
    let copied = Copied::new();
    copied.stands_by();
    is_at(&copied, 0);
    let mut clients = [0, 1, 2].map(|node| copied.nodes.client(node));
    for (client, key) in clients.iter_mut().zip(["a", "b", "c"]) {
        assert_eq!(client.call(&format!("watch {key}")), "+OK");
    }
    assert_eq!(copied.nodes.client(1).call("cluster failover"), "+OK");
    is_at(&copied, 1);
    assert_eq!(copied.nodes.client(2).call("mset a 1 b 1 c 1"), "+OK");
    assert_eq!(copied.nodes.client(0).call("cluster failover"), "+OK");
    is_at(&copied, 0);
    for (client, key) in clients.iter_mut().zip(["a", "b", "c"]) {
        let replies = ["multi", &format!("set {key} lost"), "exec"].map(|line| client.call(line));
        assert_eq!(replies[2], "*-1", "{key}: {replies:?}");
        let replies = ["watch d", "multi", "get d", "exec"].map(|line| client.call(line));
        assert_ne!(replies[3], "*-1", "{replies:?}");
    }
    assert_eq!(copied.nodes.client(1).call("mget a b c"), "*3 $1 1 $1 1 $1 1");
}

#[test]
fn a_switchover_that_cannot_be_begins_not() {
    let copied = Copied::new();
    let reply = copied.nodes.client(1).call("cluster failover");
    assert!(reply.contains("send CLUSTER FAILOVER to a replica"), "{reply}");
    let reply = copied.nodes.client(1).call("cluster switchover 1");
    assert!(reply.contains("no standby of shard 1 could take it over now"), "{reply}");
    copied.stands_by();
    let reply = copied.nodes.client(1).call("cluster failover takeover");
    assert!(reply.contains("takes no option"), "{reply}");
    let own = copied.nodes.ports[0];
    let reply = copied.nodes.client(2).call(&format!("cluster switchover 1 to 127.0.0.1:{own}"));
    assert!(reply.contains("is no standby of shard 1"), "{reply}");
}

/// Bytes of a node's log, as its owner sees it.
fn log_of(copied: &Copied, node: usize) -> u64 {
    let info = copied.nodes.client(node).call("info persistence");
    let size = info.split(['\r', '\n', ' ']).find_map(|line| line.strip_prefix("aof_current_size:"));
    size.unwrap_or_else(|| panic!("{info}")).parse().unwrap()
}

/// Where no owner leads until its own next checkpoint, the log is cut behind those that both have made as standbys.
#[test]
fn the_log_of_a_shard_that_changes_hands_often_does_not_grow() {
    let copied = Copied::new();
    copied.stands_by();
    let value = "x".repeat(1 << 20);
    for _ in 0..40 {
        assert_eq!(copied.nodes.client(2).call(&format!("set large {value}")), "+OK");
    }
    assert!(log_of(&copied, 0) > 40 << 20);
    let (end, mut owner) = (Instant::now() + PATIENCE, 0);
    loop {
        is_at(&copied, owner);
        owner = 1 - owner;
        assert_eq!(copied.nodes.client(owner).call("cluster failover"), "+OK");
        is_at(&copied, owner);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if log_of(&copied, owner) < 20 << 20 {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        assert!(Instant::now() < end, "{} bytes", log_of(&copied, owner));
    }
}

/// An owner that has written nothing follows from where it was: it applies nothing twice, and begins nothing anew.
#[test]
fn an_owner_that_wrote_nothing_follows_in_place() {
    let copied = Copied::new();
    copied.stands_by();
    is_at(&copied, 0);
    for value in 1..=100 {
        assert_eq!(copied.nodes.client(2).call(&format!("rpush list {value}")), format!(":{value}"));
    }
    let lives = |node| copied.nodes.log(node).matches("is starting, PID").count();
    let before = [0, 1].map(lives);
    for owner in [1, 0, 1, 0, 1] {
        assert_eq!(copied.nodes.client(owner).call("cluster failover"), "+OK");
        is_at(&copied, owner);
        assert_eq!(copied.nodes.client(2).call("llen list"), ":100", "at {owner}");
    }
    assert_eq!([0, 1].map(lives), before, "the same processes");
}

/// Committed writes are there after the shard has changed hands, and after the new owner has died.
#[test]
fn a_shard_that_was_given_up_in_order_is_taken_over_when_its_owner_dies() {
    let mut copied = Copied::new();
    copied.stands_by();
    copied.sets(2, 200);
    assert_eq!(copied.nodes.client(1).call("cluster failover"), "+OK");
    is_at(&copied, 1);
    copied.sets(0, 100);
    copied.nodes.kill(1);
    let began = Instant::now();
    copied.sets(2, 100);
    assert!(began.elapsed() < PATIENCE);
    copied.has_all(0);
    copied.has_all(2);
}

/// A node that is stopped gives its shard away first: clients of other nodes see nothing of it.
#[test]
fn a_node_that_stops_gives_its_shard_away() {
    let mut copied = Copied::new();
    copied.stands_by();
    copied.sets(2, 100);
    is_at(&copied, 0);
    let load = Load::start(&copied.nodes.ports[1..]);
    let _ = copied.nodes.client(0).try_call("shutdown");
    let owner = format!("1      127.0.0.1:{}  ", copied.nodes.ports[1]);
    let owns = |line: &str| line.starts_with(&owner) && line.contains("always");
    copied.nodes.until(2, "cluster status", |status| status.lines().any(owns));
    copied.nodes.ends(0);
    copied.nodes.start(0);
    is_at(&copied, 1);
    assert!(copied.nodes.log(0).contains("was given to another node"), "no lease ran out");
    let counts = load.end();
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    copied.has_all(0);
}

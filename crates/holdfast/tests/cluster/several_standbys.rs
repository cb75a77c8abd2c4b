//! Three shards with keys, each with a standby at another node, and transactions over them: whatever owner is lost, they
//! are done everywhere or nowhere, and nothing stays locked (rules T1 and T5).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::log_servers::holdfast;
use crate::support::{Client, Nodes, random};

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nodes with keys. So many others stand by: node `n + OWNERS` for node `n`.
const OWNERS: usize = 3;

/// Accounts, which lie on all shards, and what each has at first.
const ACCOUNTS: u64 = 60;
const EACH: u64 = 1000;

struct Cluster {
    nodes: Nodes,
}

impl Cluster {
    /// The log of each shard has copies at its owner, at its standby, and at the standby of the next one.
    fn new() -> Self {
        let of = |host: &str| format!("cluster-host {host}\nappendfsync always\nlog-stall-timeout 60\n");
        let files = ["a", "b", "c", "d", "e", "f"].map(of);
        let mut nodes = Nodes::with_files(2 * OWNERS as u16, OWNERS, &files.each_ref().map(String::as_str));
        (OWNERS..2 * OWNERS).for_each(|node| nodes.start(node));
        nodes.until(0, "cluster status", |status| status.matches("  node  up ").count() == 2 * OWNERS);
        let mut cluster = Self { nodes };
        for owner in 0..OWNERS {
            let next = (owner + 1) % OWNERS;
            let places = [owner, owner + OWNERS, next + OWNERS].map(|node| format!("{}/-", cluster.place(node)));
            let (name, shard) = (format!("g{owner}"), (owner + 1).to_string());
            let said = cluster.asks(&["group", "add", &name, &places[0], &places[1], &places[2]]);
            assert!(said.contains("there is a group"), "{said}");
            let said = cluster.asks(&["group", "use", &name, &shard]);
            assert!(said.contains("use the group") || said.contains("uses the group"), "{said}");
        }
        for owner in 0..OWNERS {
            cluster.nodes.until(OWNERS, "cluster status", |status| status.matches("(catches up)").count() >= 2);
            cluster.nodes.kill(owner);
            cluster.nodes.start(owner);
            cluster.nodes.serves(owner);
            cluster.nodes.until(OWNERS, "cluster status", |status| status.matches("3 of 3").count() == owner + 1);
        }
        for owner in 0..OWNERS {
            let (shard, to) = ((owner + 1).to_string(), cluster.place(owner + OWNERS));
            // The node that leads the metadata may be starting again.
            let end = Instant::now() + PATIENCE;
            loop {
                let said = cluster.asks(&["standby", "add", &shard, "--on", &to]);
                if said.contains("stand") {
                    break;
                }
                assert!(Instant::now() < end, "{said}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        cluster.has_standbys();
        cluster
    }

    fn place(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes.ports[node])
    }

    fn asks(&self, words: &[&str]) -> String {
        holdfast(&[&["cluster"], words, &["-p", &self.nodes.ports[OWNERS - 1].to_string()]].concat())
    }

    /// Each shard has a standby that may take over. The node that is asked is never killed here.
    fn has_standbys(&self) {
        let is_up = |line: &&str| line.contains(" electable ") && !line.contains("down");
        self.nodes.until(OWNERS - 1, "cluster status", |status| status.lines().filter(is_up).count() == OWNERS);
    }

    /// The reply of a node once the shards have owners. A command whose owner is lost under way may be repeated here.
    fn served(&self, at: usize, command: &str) -> String {
        let (end, mut client) = (Instant::now() + PATIENCE, self.nodes.client(at));
        loop {
            match client.try_call(command) {
                Some(reply) if !reply.starts_with('-') => return reply,
                reply if Instant::now() > end => panic!("{command}: {reply:?}"),
                Some(_) => std::thread::sleep(Duration::from_millis(10)),
                None => client = self.nodes.client(at),
            }
        }
    }

    /// A standby gets a shard in order. Its owner keeps it where transactions do not end in time.
    fn changes_hands(&self, shard: &str, to: usize) {
        let (end, place) = (Instant::now() + PATIENCE, self.place(to));
        loop {
            let said = match shard {
                "1" => self.asks(&["switchover", shard, "--to", &place]),
                // As a client of Redis does it.
                _ => self.nodes.client(to).call("cluster failover"),
            };
            if self.nodes.client(to).call("role").starts_with("*3 $6 master") {
                return;
            }
            assert!(Instant::now() < end, "{said}");
        }
    }

    /// Clients of these nodes transfer between accounts, while `faults` happens and until some more of each are done.
    fn transfers(&mut self, at: &[usize], faults: impl FnOnce(&mut Self)) {
        let ports: Vec<u16> = at.iter().map(|node| self.nodes.ports[*node]).collect();
        let (over, done): (AtomicBool, Vec<AtomicU64>) =
            (AtomicBool::new(false), ports.iter().map(|_| 0.into()).collect());
        std::thread::scope(|scope| {
            for (seed, (port, done)) in ports.iter().zip(&done).enumerate() {
                let over = &over;
                scope.spawn(move || transfers_until((*port, seed as u64 + 7), over, done));
            }
            let more = |count: u64| {
                let (end, goals) = (Instant::now() + PATIENCE, done.iter().map(|done| done.load(Relaxed) + count));
                let goals: Vec<u64> = goals.collect();
                while done.iter().zip(&goals).any(|(done, goal)| done.load(Relaxed) < *goal) {
                    if Instant::now() > end {
                        over.store(true, Relaxed);
                        panic!("transfers do not go on: {done:?}, {goals:?}");
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            };
            more(20);
            faults(self);
            more(20);
            over.store(true, Relaxed);
        });
    }

    /// All accounts have what they had together, and none is locked.
    fn is_whole(&self, at: usize) {
        let accounts: Vec<String> = (0..ACCOUNTS).map(|account| format!("account:{account}")).collect();
        let reply = self.served(at, &format!("mget {}", accounts.join(" ")));
        let values = reply.split(' ').skip(2).step_by(2).map(|value| value.parse::<i64>().expect("a balance"));
        assert_eq!(values.sum::<i64>(), (ACCOUNTS * EACH) as i64, "{reply}");
        for account in &accounts {
            assert!(self.served(at, &format!("incrby {account} 0")).starts_with(':'));
        }
        let status = self.nodes.client(at).call("cluster status");
        assert!(!status.contains("stay locked") && !status.contains("in doubt"), "{status}");
    }
}

/// A client transfers between two accounts again and again. Where the connection is closed the outcome is unknown.
fn transfers_until((port, seed): (u16, u64), over: &AtomicBool, done: &AtomicU64) {
    let (mut chance, mut client) = (random(seed), None);
    while !over.load(Relaxed) {
        if client.is_none() {
            client = Client::connect(port);
        }
        let Some(connection) = &mut client else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let (from, to, amount) = (chance(ACCOUNTS), chance(ACCOUNTS), 1 + chance(9));
        let commands = [
            "multi".to_owned(),
            format!("decrby account:{from} {amount}"),
            format!("incrby account:{to} {amount}"),
            "exec".to_owned(),
        ];
        let replies: Vec<Option<String>> = commands.iter().map_while(|line| Some(connection.try_call(line))).collect();
        match replies.last() {
            Some(Some(reply)) if reply.starts_with('*') => {
                done.fetch_add(1, Relaxed);
            }
            Some(Some(reply)) => {
                assert!(reply.starts_with("-CLUSTERDOWN") || reply.starts_with("-EXECABORT"), "{reply}");
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => client = None,
        }
    }
}

#[test]
fn standbys_of_several_shards_take_over_in_the_midst_of_transactions() {
    let mut cluster = Cluster::new();
    for account in 0..ACCOUNTS {
        assert_eq!(cluster.served(0, &format!("set account:{account} {EACH}")), "+OK");
    }
    // An owner with a part in most transactions, which coordinates none of these.
    cluster.transfers(&[1, 2, 4], |cluster| cluster.nodes.kill(0));
    cluster.is_whole(4);
    // The node that is down is a member without slots.
    assert_eq!(cluster.served(4, "dbsize"), format!(":{ACCOUNTS}"));
    assert_eq!(cluster.served(1, "keys *").split(' ').next(), Some(&*format!("*{ACCOUNTS}")));
    assert!(cluster.served(1, "randomkey").contains("account:"));
    assert!(cluster.served(4, "script load return(1)").starts_with('$'));
    assert_eq!(cluster.served(4, "script flush"), "+OK");
    assert_eq!(cluster.served(4, "swapdb 0 1"), "+OK");
    assert_eq!(cluster.served(1, "dbsize"), ":0");
    assert_eq!(cluster.served(1, "swapdb 0 1"), "+OK");
    let mut client = cluster.nodes.client(4);
    assert!(client.call("incrby account:1 0").starts_with(':'));
    let reply = client.call("waitaof 1 0 5000");
    assert!(reply.starts_with("*2 :1"), "its writes are on disks: {reply}");
    // It comes back, and stands by for its shard.
    cluster.nodes.start(0);
    cluster.has_standbys();
    // An owner that coordinates the transactions of its clients.
    cluster.transfers(&[0, 2, 3], |cluster| {
        let port = cluster.nodes.ports[1];
        let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| transfers_until((port, 3), &over, &done));
            while done.load(Relaxed) < 20 {
                std::thread::sleep(Duration::from_millis(5));
            }
            cluster.nodes.kill(1);
            over.store(true, Relaxed);
        });
    });
    cluster.is_whole(0);
    // The first shard goes back to the node that it began with.
    cluster.nodes.start(1);
    cluster.has_standbys();
    cluster.transfers(&[2, 4, 5], |cluster| cluster.nodes.kill(3));
    cluster.is_whole(5);
    // A shard changes hands in order.
    cluster.nodes.start(3);
    cluster.has_standbys();
    cluster.transfers(&[0, 2, 4], |cluster| cluster.changes_hands("3", 5));
    cluster.is_whole(4);
    assert_eq!(cluster.served(5, "flushall"), "+OK");
    assert_eq!(cluster.served(2, "dbsize"), ":0");
}

//! A node that stands by for another one: its copy of the data follows the log, and it takes the shard over.

use std::time::{Duration, Instant};

use crate::log_servers::holdfast;
use crate::support::{Client, Nodes};

/// The longest wait for anything that a cluster must do, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Three nodes on machines of their own. The first one owns all keys, and its log has copies at all three.
pub struct Copied {
    pub nodes: Nodes,
    /// Where the others reach them.
    places: [String; 3],
    /// Values that were acknowledged.
    pub count: u32,
}

impl Copied {
    pub fn new() -> Self {
        Self::with("")
    }

    /// With more settings of all nodes.
    pub fn with(more: &str) -> Self {
        Self::behind(|_| "127.0.0.1".to_owned(), more, |_| {})
    }

    /// The others reach a node at an address of its own, where something has begun before it starts.
    pub fn behind(address: impl Fn(usize) -> String, more: &str, begin: impl FnOnce(&[u16])) -> Self {
        let of = |node: usize| {
            let (host, address) = (["a", "b", "c"][node], address(node));
            let settings = "appendfsync always\nlog-stall-timeout 60\n";
            format!("cluster-host {host}\ncluster-announce-ip {address}\n{settings}{more}")
        };
        let files = [0, 1, 2].map(of);
        let mut nodes = Nodes::with_files(3, 0, &files.each_ref().map(String::as_str));
        begin(&nodes.ports);
        nodes.seeds = format!("{}:{}", address(0), nodes.ports[0]);
        nodes.start(0);
        nodes.serves(0);
        (1..3).for_each(|node| nodes.start(node));
        let places = [0, 1, 2].map(&address);
        let mut copied = Self { nodes, places, count: 0 };
        let is_up = |line: &str| line.contains("  node  up ");
        copied.nodes.until(2, "cluster status", |status| status.lines().filter(|line| is_up(line)).count() == 3);
        copied.sets(0, 200);
        let places: Vec<String> =
            (0..3).map(|node| format!("{}:{}/-", address(node), copied.nodes.ports[node])).collect();
        let [own, one, two] = [0, 1, 2].map(|at| places[at].as_str());
        assert!(copied.cluster(&["group", "add", "g", own, one, two]).contains("there is a group g"));
        assert!(copied.cluster(&["group", "use", "g"]).contains("use the group g"));
        copied.nodes.until(0, "cluster status", |status| status.matches("(catches up)").count() == 2);
        copied.nodes.kill(0);
        copied.nodes.start(0);
        copied.nodes.serves(0);
        copied.nodes.until(0, "cluster status", |status| status.contains("3 of 3"));
        copied
    }

    pub fn cluster(&self, words: &[&str]) -> String {
        holdfast(&[&["cluster"], words, &["-p", &self.nodes.ports[2].to_string()]].concat())
    }

    /// So many more values are acknowledged, by way of a node.
    pub fn sets(&mut self, at: usize, more: u32) {
        let mut client = self.nodes.client(at);
        for _ in 0..more {
            let value = self.count;
            assert_eq!(self.served(&mut client, at, &format!("set key:{value} {value}")), "+OK");
            self.count += 1;
        }
    }

    /// Every acknowledged value is there.
    pub fn has_all(&self, at: usize) {
        let mut client = self.nodes.client(at);
        for value in 0..self.count {
            let reply = self.served(&mut client, at, &format!("get key:{value}"));
            assert!(reply.ends_with(&format!(" {value}")), "key {value}: {reply}");
        }
    }

    /// The reply of a node that serves. A write whose owner is lost under way closes the connection (rule T9); these
    /// writes may be repeated.
    pub fn served(&self, client: &mut Client, at: usize, command: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            match client.try_call(command) {
                Some(reply) if !reply.starts_with("-CLUSTERDOWN") => return reply,
                reply if Instant::now() > end => panic!("{command}: {reply:?}"),
                Some(_) => std::thread::sleep(Duration::from_millis(10)),
                None => *client = self.nodes.client(at),
            }
        }
    }

    /// The second node stands by, and may take over.
    pub fn stands_by(&self) {
        let to = format!("{}:{}", self.places[1], self.nodes.ports[1]);
        let reply = self.cluster(&["standby", "add", "1", "--on", &to]);
        assert!(reply.contains("stand"), "{reply}");
        self.nodes.until(2, "cluster status", |status| status.contains("electable"));
    }
}

#[test]
fn a_standby_takes_over_and_the_former_owner_stands_by() {
    let mut copied = Copied::new();
    copied.stands_by();
    copied.sets(2, 300);
    copied.nodes.kill(0);
    // A command of another node waits, or is told to come again, until the standby has the shard.
    copied.sets(2, 100);
    copied.has_all(2);
    // The node that had the shard follows now, and takes it over in turn.
    copied.nodes.start(0);
    copied.nodes.until(2, "cluster status", |status| status.contains("electable"));
    copied.sets(2, 100);
    copied.nodes.kill(1);
    copied.sets(2, 100);
    copied.has_all(2);
    copied.nodes.start(1);
    copied.nodes.until(2, "cluster status", |status| status.contains("electable"));
    copied.has_all(1);
}

#[test]
fn a_standby_that_is_taken_out_takes_nothing_over() {
    let mut copied = Copied::new();
    copied.stands_by();
    let on = format!("127.0.0.1:{}", copied.nodes.ports[1]);
    let reply = copied.cluster(&["standby", "remove", "1", "--on", &on]);
    assert!(reply.contains("no standby of shard 1 any more"), "{reply}");
    copied.nodes.until(2, "cluster status", |status| !status.contains("electable"));
    // It goes on as a node that has no data.
    let end = Instant::now() + PATIENCE;
    while !copied.nodes.log(1).contains("stands by for shard 1 no more") {
        assert!(Instant::now() < end, "it does not hear of it");
        std::thread::sleep(Duration::from_millis(20));
    }
    copied.sets(1, 50);
    copied.has_all(1);
    copied.nodes.kill(0);
    std::thread::sleep(Duration::from_secs(4));
    assert!(copied.nodes.client(2).call("get key:1").starts_with("-CLUSTERDOWN"));
    copied.nodes.start(0);
    copied.nodes.serves(0);
    copied.has_all(2);
}

/// Commands that came when the owner was lost, and could not be sent, go to the standby. They are no one else's by then,
/// so their clients hear of nothing.
#[test]
fn what_waits_for_a_lost_owner_goes_to_the_standby() {
    let mut copied = Copied::with("cluster-takeover-wait 60000\n");
    copied.stands_by();
    copied.sets(2, 50);
    copied.nodes.kill(0);
    let port = copied.nodes.ports[2];
    let waiting = (0..12).map(|number| {
        std::thread::spawn(move || {
            let mut client = Client::at(port);
            // A write that may have left closes its connection.
            std::thread::sleep(Duration::from_millis(400 + 60 * number));
            match number % 4 {
                0 => vec![client.call(&format!("set waits:{number} {number}"))],
                1 => vec![client.call(&format!("get key:{number}"))],
                2 => ["multi", "incr {w}a", "incr {w}b", "exec"].map(|command| client.call(command)).to_vec(),
                _ => vec![client.call(&format!("eval return(redis.call('incr',KEYS[1])) 1 n{number}"))],
            }
        })
    });
    let waiting: Vec<_> = waiting.collect();
    for waiting in waiting {
        let replies = waiting.join().unwrap();
        assert!(replies.iter().all(|reply| !reply.starts_with('-')), "{replies:?}");
    }
    assert!(copied.nodes.client(1).call("mget {w}a {w}b").matches('3').count() >= 2);
    copied.has_all(2);
}

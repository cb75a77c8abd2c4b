//! A node's log with copies at two log-servers.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::log_servers::{LogServer, holdfast};
use crate::support::{Client, Nodes, Scratch, free_port, terminate};

/// The longest time for which a client waits for a reply that must not come.
const SILENCE: Duration = Duration::from_secs(3);

/// The longest end of a node whose copies are away.
const END: Duration = Duration::from_secs(20);

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

const HEALTHY: &str = "health: ok";

/// A node and two log-servers on machines of their own.
pub struct Copied {
    pub nodes: Nodes,
    pub ports: [u16; 2],
    pub scratches: [Scratch; 2],
    pub servers: [Option<LogServer>; 2],
    /// Directories of each.
    dirs: Vec<&'static str>,
    /// Directories of the node's log.
    logs: Vec<&'static str>,
    /// Values that were acknowledged.
    count: u32,
}

impl Copied {
    /// The log of the node has copies at both.
    pub fn new() -> Self {
        Self::of("", &["holdfast/log"], &["one"])
    }

    /// As [`Self::new`]; the node has these settings, too. `logs` and `dirs`: of its log, and of each log-server.
    pub fn of(settings: &str, logs: &[&'static str], dirs: &[&'static str]) -> Self {
        Self::with(settings, logs, dirs, 0)
    }

    /// As [`Self::of`]. `voters`: so many nodes without slots, which have no copies.
    pub fn with(settings: &str, logs: &[&'static str], dirs: &[&'static str], voters: usize) -> Self {
        // On a busy machine a connection to a copy may be away for long.
        let always = "cluster-host a\nappendfsync always\nlog-stall-timeout 60\n";
        let settings = format!("{always}log-dirs {}\n{settings}", logs.join(" "));
        let files = [&*settings, "cluster-host d\n", "cluster-host e\n"];
        let mut nodes = Nodes::with_files(2.max(1 + voters as u16), 1, &files[..2.max(1 + voters)]);
        (1..=voters).for_each(|node| nodes.start(node));
        let (ports, scratches) = ([free_port(), free_port()], [Scratch::new(), Scratch::new()]);
        let mut copied =
            Self { nodes, ports, scratches, servers: [None, None], dirs: dirs.to_vec(), logs: logs.to_vec(), count: 0 };
        (0..2).for_each(|server| copied.start(server));
        copied.status(|status| status.matches("  log  ").count() == 2 && status.contains(HEALTHY));
        copied.sets(50);
        let places = copied.places();
        let [own, one, two] = places.each_ref().map(String::as_str);
        assert!(copied.group(&["add", "g", own, one, two]).contains("there is a group g"));
        let said = copied.group(&["use", "g"]);
        assert!(said.contains("all shards use the group g"), "{said}");
        copied.status(|status| status.matches("(catches up)").count() == 2);
        copied.ends();
        copied.nodes.start(0);
        copied.is_whole();
        copied
    }

    /// Has the node end.
    pub fn ends(&mut self) {
        let server = self.nodes.servers[0].as_mut().unwrap();
        terminate(server.id());
        server.ends_well();
    }

    /// Starts a log-server with what it has.
    pub fn start(&mut self, server: usize) {
        let host = ["b", "c"][server];
        let more = ["--cluster-host", host, "--log-segment-size", "1mb"];
        let started =
            LogServer::start(self.ports[server], &self.scratches[server], &self.dirs, &self.nodes.seeds, &more);
        self.servers[server] = Some(started);
    }

    pub fn places(&self) -> [String; 3] {
        [self.nodes.ports[0], self.ports[0], self.ports[1]].map(|port| format!("127.0.0.1:{port}/-"))
    }

    /// The output of the command. A busy machine may have lost the leader of the metadata: an operator asks again then.
    pub fn group(&self, words: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = holdfast(&[&["cluster", "group"], words, &["-p", &self.nodes.ports[0].to_string()]].concat());
            let no_leader = ["Connection refused", "no leader", "no answer", "led by another node"];
            if !no_leader.iter().any(|why| said.contains(why)) || Instant::now() > end {
                return said;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn status(&self, is_it: impl Fn(&str) -> bool) {
        self.nodes.until(0, "cluster status", is_it);
    }

    /// Waits until all three copies count.
    pub fn is_whole(&self) {
        self.nodes.serves(0);
        self.status(|status| status.contains("3 of 3") && status.contains(HEALTHY));
    }

    /// The node acknowledges so many more values.
    pub fn sets(&mut self, more: u32) {
        let mut client = self.nodes.client(0);
        for _ in 0..more {
            let value = self.count;
            assert_eq!(served(&mut client, &format!("set key:{value} {value}")), "+OK");
            self.count += 1;
        }
    }

    /// The node acknowledges values of so many bytes together.
    pub fn fills(&mut self, bytes: usize) {
        let (mut client, value) = (self.nodes.client(0), "v".repeat(32 << 10));
        for _ in 0..bytes.div_ceil(value.len()) {
            assert_eq!(served(&mut client, &format!("set filler {value}")), "+OK");
        }
    }

    /// Every acknowledged value is there.
    pub fn has_all(&self) {
        self.has_all_at(0);
    }

    pub fn has_all_at(&self, node: usize) {
        let mut client = self.nodes.client(node);
        for value in 0..self.count {
            let reply = served(&mut client, &format!("get key:{value}"));
            assert!(reply.ends_with(&format!(" {value}")), "key {value}: {reply}");
        }
    }

    /// The node is killed, and starts without its log.
    pub fn loses_its_log(&mut self) {
        self.nodes.kill(0);
        for log in &self.logs {
            fs::remove_dir_all(self.nodes.dirs[0].path().join(log)).unwrap();
        }
        self.nodes.start(0);
        self.nodes.serves(0);
        self.has_all();
    }
}

/// The reply of a node that serves. On a busy machine it may be without a lease for a moment, and does nothing then.
fn served(client: &mut Client, command: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = client.call(command);
        if !reply.starts_with("-CLUSTERDOWN") || Instant::now() > end {
            return reply;
        }
        thread::sleep(LOOK);
    }
}

#[test]
fn a_log_comes_back_from_its_copies() {
    let mut copied = Copied::new();
    copied.sets(100);
    copied.has_all();
    copied.loses_its_log();

    // The new folder is not the one that acknowledged, and counts when it has been given the place.
    let [own, ..] = copied.places();
    copied.status(|status| status.contains(&format!("another folder was at {own}")));
    copied.sets(50);
    assert!(copied.group(&["replace", &own, &own]).contains("takes the place of"));
    copied.is_whole();

    // With one of three away writes are acknowledged, and their copies are enough for the next start.
    copied.servers[0] = None;
    copied.sets(50);
    copied.start(0);
    copied.is_whole();
    copied.loses_its_log();
}

#[test]
fn without_a_majority_nothing_is_acknowledged() {
    let mut copied = Copied::new();
    copied.servers = [None, None];
    let mut client = copied.nodes.client(0);
    client.send("set unheard 1");
    let reply = client.reply_within(SILENCE);
    assert!(reply.as_ref().is_none_or(|reply| reply.starts_with('-')), "{reply:?}");
    let begun = Instant::now();
    copied.ends();
    assert!(begun.elapsed() < END, "{:?}", begun.elapsed());
    (0..2).for_each(|server| copied.start(server));
    copied.nodes.start(0);
    copied.is_whole();
    copied.has_all();
    copied.sets(10);
}

#[test]
fn a_wiped_copy_counts_when_it_has_been_given_the_place() {
    let mut copied = Copied::new();
    copied.servers[0] = None;
    // It is the same member: what it has of the metadata is there.
    fs::remove_dir_all(copied.scratches[0].path().join("one/shard-1")).unwrap();
    copied.start(0);
    let [_, one, _] = copied.places();
    copied.status(|status| status.contains(&format!("another folder was at {one}")));
    copied.sets(50);
    assert!(copied.group(&["replace", &one, &one]).contains("takes the place of"));
    copied.is_whole();
    copied.sets(50);
    // It counts: one of two that are left, and the only one that has what the node is to lose.
    copied.servers[1] = None;
    copied.sets(50);
    copied.nodes.kill(0);
    copied.start(1);
    copied.loses_its_log();
}

/// With `everysec` blocks go into the cache. Nobody orders a sync while a start or a new copy is brought up to date.
#[test]
fn a_start_and_a_new_copy_come_up_whatever_replies_wait_for() {
    let mut copied = Copied::new();
    let mut client = copied.nodes.client(0);
    assert_eq!(client.call("config set appendfsync everysec"), "+OK");
    copied.sets(50);
    for is_killed in [false, true] {
        if is_killed {
            copied.nodes.kill(0);
        } else {
            copied.ends();
        }
        copied.nodes.start(0);
        copied.is_whole();
    }
    copied.has_all();
    // Nothing is written meanwhile.
    copied.servers[0] = None;
    fs::remove_dir_all(copied.scratches[0].path().join("one/shard-1")).unwrap();
    copied.start(0);
    copied.status(|status| status.contains("another folder was at"));
    let [own, one, _] = copied.places();
    assert!(copied.group(&["replace", &one, &one]).contains("takes the place of"));
    copied.is_whole();
    copied.ends();
    fs::remove_dir_all(copied.nodes.dirs[0].path().join(copied.logs[0])).unwrap();
    copied.nodes.start(0);
    copied.status(|status| status.contains("another folder was at"));
    copied.has_all();
    assert!(copied.group(&["replace", &own, &own]).contains("takes the place of"));
    copied.is_whole();
}

/// The streams of a log lie on different disks of its log-servers.
#[test]
fn the_streams_of_a_copy_are_spread_over_the_directories_of_a_log_server() {
    let mut copied = Copied::of("", &["first", "second"], &["one", "two"]);
    copied.sets(50);
    let mut found = Vec::new();
    for name in ["one", "two"] {
        for stream in 0..2 {
            let folder = copied.scratches[0].path().join(format!("{name}/shard-1/stream-{stream}"));
            found.extend(folder.is_dir().then_some((stream, name)));
        }
    }
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].0 != found[1].0 && found[0].1 != found[1].1, "{found:?}");

    copied.servers[0] = None;
    copied.start(0);
    copied.is_whole();
    let log = copied.scratches[0].path().join("log");
    copied.status(|_| fs::read_to_string(&log).unwrap().matches("A copy of the log of shard 1 is kept").count() == 2);
    copied.servers[1] = None;
    copied.sets(50);
    copied.start(1);
    copied.is_whole();
    copied.loses_its_log();
    let [own, ..] = copied.places();
    assert!(copied.group(&["replace", &own, &own]).contains("takes the place of"));
    copied.is_whole();

    // One that is lost is missed: the folder counts for nothing, and the others go on.
    let [_, one, _] = copied.places();
    for (has_name, said) in [(false, "are gone"), (true, "has the blocks of another acceptor")] {
        copied.servers[0] = None;
        let parts = ["one", "two"].map(|name| copied.scratches[0].path().join(name).join("shard-1"));
        let lost = parts.iter().find(|part| part.join("acceptor").exists() == has_name).unwrap();
        fs::remove_dir_all(lost).unwrap();
        copied.start(0);
        copied.status(|status| status.contains(said));
        copied.sets(20);
        // It counts again, anew, when it has been given the place.
        assert!(copied.group(&["replace", &one, &one]).contains("takes the place of"));
        copied.is_whole();
    }
    copied.servers[1] = None;
    copied.sets(20);
}

#[test]
fn the_shard_of_a_lost_owner_is_recovered_on_a_node_that_runs() {
    let mut copied = Copied::new();
    copied.sets(100);
    let old = copied.nodes.client(0).call("cluster myid").split(' ').nth(1).unwrap().to_owned();
    copied.nodes.start(1);
    copied.nodes.serves(1);
    let end = Instant::now() + PATIENCE;
    let [own, ..] = copied.places();
    let [to, at] = [format!("127.0.0.1:{}", copied.nodes.ports[1]), copied.nodes.ports[1].to_string()];
    let cluster = |words: &[&str]| holdfast(&[&["cluster"], words, &["-p", &at]].concat());
    assert!(cluster(&["recover", "1", "--on", &to]).contains("may be alive"));

    // Everything of the owner is gone.
    copied.nodes.kill(0);
    fs::remove_dir_all(copied.nodes.dirs[0].path().join("holdfast")).unwrap();
    fs::remove_dir_all(copied.nodes.dirs[0].path().join("cluster")).unwrap();
    // The process of a copy runs and holds a lease, but its folder is another one: it has nothing of the log.
    let (folder, kept) = (copied.scratches[0].path().join("one/shard-1"), copied.scratches[0].path().join("kept"));
    copied.servers[0] = None;
    fs::rename(&folder, &kept).unwrap();
    copied.start(0);
    loop {
        let said = cluster(&["recover", "1", "--on", &to]);
        assert!(!said.contains("owns shard 1 now"), "{said}");
        if said.contains("1 of 3 copies of the log of shard 1 can be read") && said.contains("it has no such copy") {
            break;
        }
        assert!(Instant::now() < end, "{said}");
        thread::sleep(LOOK);
    }
    copied.servers[0] = None;
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&kept, &folder).unwrap();
    copied.start(0);
    while !cluster(&["recover", "1", "--on", &to]).contains("owns shard 1 now") {
        assert!(Instant::now() < end, "{}", cluster(&["status"]));
        thread::sleep(LOOK);
    }
    // The node that was given the shard is asked all the time, and never says that a key is not there.
    let value = answer(&copied.nodes, 1, "get key:7");
    assert!(value.ends_with(" 7"), "{value}");
    copied.has_all_at(1);
    assert!(copied.nodes.log(1).contains("this node is given shard 1"), "{}", copied.nodes.log(1));

    // A new node has come to the address of the lost one, whose place is given away all the same.
    copied.nodes.seeds = to.clone();
    copied.nodes.start(0);
    copied.nodes.serves(0);
    assert!(cluster(&["group", "replace", &own, &format!("{to}/-")]).contains("takes the place of"));
    while !cluster(&["forget", &old]).contains("taken out") {
        assert!(Instant::now() < end, "{}", cluster(&["status"]));
        thread::sleep(LOOK);
    }
    copied.is_whole();
    copied.sets(50);
    copied.has_all_at(1);
}

/// A change of copies may be taken back at any moment of it.
#[test]
fn a_place_that_is_taken_away_and_given_back_keeps_its_copy() {
    let mut copied = Copied::with("", &["holdfast/log"], &["one"], 1);
    copied.nodes.serves(1);
    let [_, _, two] = copied.places();
    let other = format!("127.0.0.1:{}/-", copied.nodes.ports[1]);
    for wait in [0, 300, 600, 900, 1200] {
        assert!(copied.group(&["replace", &two, &other]).contains("takes the place of"));
        thread::sleep(Duration::from_millis(wait));
        assert!(copied.group(&["replace", &other, &two]).contains("takes the place of"));
        copied.sets(20);
    }
    copied.is_whole();
    copied.sets(50);
    copied.nodes.kill(0);
    copied.loses_its_log();
}

/// An owner that only stood still while its shard was recovered elsewhere has an old state of it.
#[test]
fn a_former_owner_that_runs_on_answers_nothing_old_and_ends() {
    let mut copied = Copied::with("", &["holdfast/log"], &["one"], 1);
    copied.sets(50);
    copied.nodes.serves(1);
    let end = Instant::now() + PATIENCE;
    let [to, at] = [format!("127.0.0.1:{}", copied.nodes.ports[1]), copied.nodes.ports[1].to_string()];
    let mut before = copied.nodes.client(0);
    assert!(before.call("get key:7").ends_with(" 7"));
    let process = copied.nodes.servers[0].as_ref().unwrap().id();
    signal("STOP", process);
    while !holdfast(&["cluster", "recover", "1", "--on", &to, "-p", &at]).contains("owns shard 1 now") {
        assert!(Instant::now() < end, "{}", copied.nodes.log(1));
        thread::sleep(LOOK);
    }
    assert_eq!(answer(&copied.nodes, 1, "set key:7 new"), "+OK");
    before.send("get key:7");
    signal("CONT", process);
    // Its clients' connections are closed, or it has learned that the other node owns the key.
    let reply = before.reply_within(PATIENCE);
    assert!(reply.as_ref().is_none_or(|reply| reply.starts_with('-') || reply.ends_with(" new")), "{reply:?}");
    while !copied.nodes.log(0).contains("owns shard 1 now, and has taken over its log") {
        assert!(Instant::now() < end, "{}", copied.nodes.log(0));
        let reply = Client::connect(copied.nodes.ports[0]).and_then(|mut client| client.try_call("get key:7"));
        assert!(reply.as_ref().is_none_or(|reply| reply.starts_with('-') || reply.ends_with(" new")), "{reply:?}");
        thread::sleep(LOOK);
    }
    assert!(answer(&copied.nodes, 1, "get key:7").ends_with(" new"));
}

/// The first answer of a node that is no error. The node may be starting.
pub fn answer(nodes: &Nodes, node: usize, command: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "{}", nodes.log(node));
        let reply = Client::connect(nodes.ports[node]).and_then(|mut client| client.try_call(command));
        if let Some(reply) = reply.filter(|reply| !reply.starts_with('-')) {
            return reply;
        }
        thread::sleep(LOOK);
    }
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

/// Where a group is taken away, its copies go from the disks of the log-servers.
#[test]
fn a_copy_that_is_not_wanted_any_more_is_removed() {
    let mut copied = Copied::new();
    copied.sets(20);
    let folders: Vec<_> = copied.scratches.iter().map(|scratch| scratch.path().join("one/shard-1")).collect();
    assert!(folders.iter().all(|folder| folder.join("acceptor").is_file()));
    assert!(copied.group(&["use", "-"]).contains("all shards have no group of their own"));
    copied.status(|_| folders.iter().all(|folder| !folder.exists()));
    copied.sets(20);
    // The log is alone, and has everything.
    copied.ends();
    copied.nodes.start(0);
    copied.nodes.serves(0);
    copied.has_all();
    // It gets copies again, in new folders.
    let said = copied.group(&["use", "g"]);
    assert!(said.contains("all shards use the group g"), "{said}");
    copied.status(|_| folders.iter().all(|folder| folder.join("acceptor").is_file()));
}

//! The agents of machines: parents whose children are the nodes of a cluster with copies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::log_servers::holdfast;
use crate::support::{Client, Scratch, free_ports};

/// The longest wait for anything that must come, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("in vain: {what}");
}

pub fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// The processes whose parent is this one.
pub fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub fn is_there(pid: u32) -> bool {
    // One that has ended and was not waited for is no process any more.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// A machine: its agent, which is killed with the value.
pub struct Host {
    pub port: u16,
    dir: Scratch,
    pub process: Child,
}

impl Host {
    pub fn start(port: u16, dir: Scratch, settings: &[&str]) -> Self {
        let process = Self::command(port, dir.path(), settings).spawn().unwrap();
        Self { port, dir, process }
    }

    fn command(port: u16, dir: &Path, settings: &[&str]) -> Command {
        let log = File::options().create(true).append(true).open(dir.join("output")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["server", "--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(dir);
        command.args(["--cluster-copies", "2", "--log-segment-size", "1mb"]).args(settings);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("output")).unwrap()
    }

    pub fn says(&self, text: &str) {
        wait(text, || self.said().contains(text).then_some(()));
    }

    /// Its nodes, the oldest process first.
    pub fn nodes(&self) -> Vec<u32> {
        let log_server = self.log_server();
        children_of(self.process.id()).into_iter().filter(|pid| Some(*pid) != log_server).collect()
    }

    /// Its log-server, if one was started.
    pub fn log_server(&self) -> Option<u32> {
        let said = self.said();
        let pid = said.rsplit_once("The log-server of this machine is started, PID: ")?.1.lines().next()?.parse();
        Some(pid.unwrap())
    }

    /// Its one node.
    pub fn node(&self) -> u32 {
        wait("it has a node", || self.nodes().first().copied())
    }

    /// Where it was, for another start.
    fn left(&mut self) -> (u16, Scratch) {
        (self.port, std::mem::replace(&mut self.dir, Scratch::new()))
    }

    /// One that has ended starts with its directory.
    pub fn again(&mut self, start: impl FnOnce(u16, Scratch) -> Self) {
        let (port, dir) = self.left();
        *self = start(port, dir);
    }

    pub fn ends(&mut self) -> ExitStatus {
        wait("it ends", || self.process.try_wait().unwrap())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", holdfast(&["cluster", "status", "-p", &self.port.to_string()]));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let said = self.said();
            let last = said.lines().count().saturating_sub(40);
            said.lines().skip(last).for_each(|line| eprintln!("at {}: {line}", self.port));
        }
    }
}

/// Three machines, two copies of the data of each shard, and three of its log. Nobody placed them.
pub struct Hosts {
    pub hosts: Vec<Host>,
    shards: u16,
    seeds: String,
    count: u32,
    /// Further settings of each machine, by its port.
    more: BTreeMap<u16, Vec<String>>,
}

impl Hosts {
    /// With one shard, or three. Then a machine has two nodes.
    pub fn new(shards: u16) -> Self {
        Self::with(shards, [const { Vec::new() }; 3])
    }

    /// With further settings of each machine.
    pub fn with(shards: u16, more: [Vec<String>; 3]) -> Self {
        let hosts = Self::without_copies(shards, more);
        hosts.has_standby(0);
        hosts
    }

    /// As [`Self::with`], and no copies are awaited.
    pub fn without_copies(shards: u16, more: [Vec<String>; 3]) -> Self {
        let of_machine = if shards == 1 { 1 } else { 2 };
        let first = free_ports(3 * of_machine);
        let ports = [0, 1, 2].map(|host| first + host * of_machine);
        let seeds = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
        let more = ports.into_iter().zip(more).collect();
        let mut hosts = Self { hosts: Vec::new(), shards, seeds, count: 0, more };
        for port in ports {
            let host = hosts.start(port, Scratch::new());
            hosts.hosts.push(host);
        }
        hosts
    }

    pub fn start(&self, port: u16, dir: Scratch) -> Host {
        let name = format!("host-{port}");
        let shards = self.shards.to_string();
        let settings = ["--cluster-host", &name, "--cluster-seeds", &self.seeds, "--cluster-shards", &shards];
        let more: Vec<&str> = self.more[&port].iter().map(String::as_str).collect();
        Host::start(port, dir, &[&settings[..], &more].concat())
    }

    /// Ends a machine's agent in order, and starts it again with its directory.
    pub fn restart(&mut self, at: usize) {
        signal("TERM", self.hosts[at].process.id());
        assert!(self.hosts[at].ends().success());
        self.again(at);
    }

    /// A machine that has ended is started with its directory, and with these further settings.
    pub fn starts_again(&mut self, at: usize, more: Vec<String>) {
        self.more.insert(self.hosts[at].port, more);
        self.again(at);
    }

    /// A machine that has ended is started with its directory.
    pub fn again(&mut self, at: usize) {
        let (port, dir) = self.hosts[at].left();
        self.hosts[at] = self.start(port, dir);
    }

    pub fn status(&self, asked: usize) -> String {
        holdfast(&["cluster", "status", "-p", &self.hosts[asked].port.to_string()])
    }

    pub fn has_standby(&self, asked: usize) {
        wait("a standby", || {
            let status = self.status(asked);
            let (copies, standbys) = (status.matches(" 3 of 3 ").count(), status.matches(" electable ").count());
            (copies.min(standbys) >= usize::from(self.shards)).then_some(())
        });
    }

    /// The machine with the owner of the shard, as another one says.
    pub fn owner(&self, asked: usize) -> usize {
        wait("an owner", || {
            let status = self.status(asked);
            let of_shard = status.lines().find(|line| line.contains(" shard-1 "))?;
            let port = of_shard.split_whitespace().nth(1)?.rsplit(':').next()?.parse().ok()?;
            self.hosts.iter().position(|host| host.port == port)
        })
    }

    /// Waits until the metadata are led by a node that neither owns the shard nor stands by: then no election comes before
    /// a takeover.
    pub fn led_apart(&self, asked: usize) {
        wait("the third machine leads", || {
            let status = self.status(asked);
            let led =
                status.lines().find_map(|line| line.strip_prefix("metadata led by "))?.split(',').next()?.to_owned();
            let of_shard = status.lines().filter(|line| line.starts_with("1  "));
            let busy = of_shard.filter_map(|line| line.split_whitespace().nth(1)).any(|at| at == led);
            (!busy && status.contains(" electable ")).then_some(())
        });
    }

    /// So many more values are acknowledged at a machine.
    pub fn sets(&mut self, at: usize, more: u32) {
        for _ in 0..more {
            let value = self.count;
            wait("it is acknowledged", || {
                let mut client = Client::at(self.hosts[at].port);
                client.try_call(&format!("set key:{value} {value}")).filter(|reply| reply == "+OK")
            });
            self.count += 1;
        }
    }

    pub fn has_all(&self, at: usize) {
        for value in 0..self.count {
            wait("an answer", || {
                let reply = Client::at(self.hosts[at].port).try_call(&format!("get key:{value}"))?;
                let is_late = reply.starts_with("-CLUSTERDOWN");
                assert!(is_late || reply.ends_with(&format!(" {value}")), "key {value}: {reply}");
                (!is_late).then_some(())
            });
        }
    }
}

/// The word of an agent gives the shard away at once.
#[test]
fn three_commands_make_a_cluster_that_goes_on_without_any_process() {
    let mut hosts = Hosts::new(1);
    hosts.sets(1, 50);
    for round in 0..2 {
        hosts.led_apart(0);
        let owner = hosts.owner(0);
        let (one, other) = ((owner + 1) % 3, (owner + 2) % 3);
        let former = hosts.hosts[owner].node();
        signal("KILL", former);
        wait("another machine owns the shard", || (hosts.owner(one) != owner).then_some(()));
        hosts.sets(other, 50);
        hosts.has_all(one);
        // Its agent has started it again, and it stands by.
        let again = hosts.hosts[owner].node();
        assert!(again != former && is_there(again));
        hosts.has_standby(owner);
        let count = |text: &str| hosts.hosts.iter().map(|host| host.said().matches(text).count()).sum::<usize>();
        assert!(count("The cluster knows that start") > round, "no agent was heard");
        // A line that comes again soon is left out.
        assert!(count("its owner's process has ended") > 0);
    }

    // An agent that ends in order ends its node, and says so to the cluster.
    let owner = hosts.owner(0);
    let (port, node) = (hosts.hosts[owner].port, hosts.hosts[owner].node());
    signal("TERM", hosts.hosts[owner].process.id());
    assert!(hosts.hosts[owner].ends().success() && !is_there(node));
    let asked = (owner + 1) % 3;
    wait("another machine owns the shard", || (hosts.owner(asked) != owner).then_some(()));
    hosts.sets(asked, 50);
    hosts.has_all(asked);
    let dir = std::mem::replace(&mut hosts.hosts[owner].dir, Scratch::new());
    hosts.hosts[owner] = hosts.start(port, dir);
    hosts.has_standby(asked);

    // Nodes end with an agent that is killed.
    let gone = (hosts.owner(0) + 1) % 3;
    let node = hosts.hosts[gone].node();
    signal("KILL", hosts.hosts[gone].process.id());
    wait("its node ends", || (!is_there(node)).then_some(()));
    hosts.has_all((gone + 1) % 3);
}

/// Each machine has the owner of one shard and the standby of another one's.
#[test]
fn three_shards_on_three_machines_go_on_without_any_of_them() {
    let mut hosts = Hosts::new(3);
    assert!(hosts.hosts.iter().all(|host| host.nodes().len() == 2));
    hosts.sets(0, 60);
    // Every node once, and so every owner.
    for at in 0..3 {
        for node in hosts.hosts[at].nodes() {
            signal("KILL", node);
            hosts.sets((at + 1) % 3, 20);
            hosts.has_standby((at + 1) % 3);
        }
    }
    hosts.has_all(0);
    // A machine burns.
    let (burnt, asked) = (0, 1);
    let nodes = children_of(hosts.hosts[burnt].process.id());
    signal("KILL", hosts.hosts[burnt].process.id());
    nodes.iter().filter(|node| is_there(**node)).for_each(|node| {
        let _ = Command::new("kill").args(["-s", "KILL", &node.to_string()]).status();
    });
    hosts.sets(asked, 60);
    hosts.has_all(2);
}

/// Its nodes end one after another, the owner first. Then its shard is with another machine.
#[test]
fn the_nodes_of_a_machine_end_one_after_another() {
    let mut hosts = Hosts::new(3);
    hosts.sets(0, 30);
    let machine = 1;
    let (port, nodes) = (hosts.hosts[machine].port, hosts.hosts[machine].nodes());
    // The numbers of its nodes that own shards.
    let owners = |status: &str| {
        let owned = status.lines().filter(|line| line.contains("  always  "));
        let places = owned.filter_map(|line| line.split_whitespace().nth(1));
        let owners = (1..=2).filter(|node| places.clone().any(|at| at == format!("127.0.0.1:{}", port + node - 1)));
        owners.collect::<Vec<u16>>()
    };
    let first = owners(&hosts.status(0));
    signal("TERM", hosts.hosts[machine].process.id());
    assert!(hosts.hosts[machine].ends().success());
    assert!(nodes.iter().all(|node| !is_there(*node)));
    let said = hosts.hosts[machine].said();
    let asked: Vec<&str> = said.split(" is asked to end").collect();
    assert_eq!(asked.len(), 4, "{said}");
    assert!(asked[2].lines().last().unwrap().contains("The log-server"), "{said}");
    if let [owner] = first[..] {
        let line = asked[0].lines().last().unwrap();
        assert!(line.contains(&format!("Node {owner} of this machine")), "{line}");
    }
    // On a machine that is very busy a turn is over before the node has ended.
    assert!(asked[1].contains(" has ended in order") || asked[1].contains(" takes long to end"), "{said}");
    hosts.sets(0, 30);
    hosts.has_all(2);
    wait("its shards are elsewhere", || owners(&hosts.status(0)).is_empty().then_some(()));
}

/// A machine of its own, on which nothing else runs.
fn alone(settings: &[&str]) -> Host {
    Host::start(free_ports(1), Scratch::new(), &[&["--cluster-enabled", "yes"], settings].concat())
}

#[test]
fn clients_wait_at_the_door_while_a_node_starts_again() {
    let host = alone(&[]);
    host.says("All nodes of this machine accept connections");
    wait("it serves", || (Client::at(host.port).call("set a 1") == "+OK").then_some(()));
    for _ in 0..3 {
        let node = host.node();
        signal("KILL", node);
        wait("it has ended", || (!is_there(node)).then_some(()));
        // The agent listens, whether or not the next process is there yet.
        drop(TcpStream::connect(("127.0.0.1", host.port)).unwrap());
        let mut client = Client::at(host.port);
        wait("it serves again", || (client.call("get a").ends_with(" 1")).then_some(()));
    }
}

#[test]
fn the_machine_is_ready_when_its_nodes_are_and_ends_when_one_is_told_to() {
    let dir = Scratch::new();
    let path = dir.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 500];
        let length = supervisor.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let port = free_ports(1);
    let pid_file = dir.path().join("pid");
    let settings = ["--cluster-enabled", "yes", "--supervised", "systemd", "--pidfile", pid_file.to_str().unwrap()];
    let mut command = Host::command(port, dir.path(), &settings);
    let process = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let mut host = Host { port, dir, process };
    while !told().contains("READY=1") {}
    wait("the file", || fs::read_to_string(&pid_file).ok().filter(|text| text.trim() == host.process.id().to_string()));
    assert!(Client::at(port).call("ping").contains("PONG"));
    // It answers or closes the connection: either way it ends, and with it the agent.
    let _ = Client::at(port).try_call("shutdown");
    assert!(host.ends().success());
    while !told().contains("STOPPING=1") {}
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens any more");
}

#[test]
fn settings_that_an_agent_cannot_use_are_refused() {
    let mut host = Host::start(free_ports(1), Scratch::new(), &[]);
    assert!(!host.ends().success() && host.said().contains("needs a cluster"), "{}", host.said());
    let mut host = alone(&["--dir", "/no/such/directory"]);
    assert!(!host.ends().success() && host.said().contains("can't work in dir"), "{}", host.said());
    let mut host = alone(&["--store-dir", "/proc/store"]);
    // Each process says why; then the agent gives up.
    assert!(!host.ends().success() && host.said().contains("/proc/store"), "{}", host.said());
}

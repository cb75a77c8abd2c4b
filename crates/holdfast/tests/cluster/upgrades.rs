//! All machines of a cluster are restarted, one after the other: `holdfast cluster upgrade`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::agent::Hosts;
use crate::standbys::{Copied, PATIENCE};
use crate::support::Client;

/// What the clients of a machine may expect of it.
#[derive(Default)]
struct Away {
    is_away: AtomicBool,
    restarts: AtomicUsize,
}

/// Clients of all nodes. A connection may be closed once for each restart of its own machine, and no reply is an error.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<usize>>,
}

type Way = fn(&mut Client, &str, usize) -> Option<()>;

impl Load {
    fn start(hosts: &[(Arc<Away>, Vec<u16>)]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (away, ports) in hosts {
            for (port, (name, way)) in ports.iter().flat_map(|port| WAYS.iter().map(move |way| (*port, *way))) {
                let (away, is_over) = (Arc::clone(away), Arc::clone(&is_over));
                threads.push(thread::spawn(move || runs(port, &format!("{name}:{port}"), way, &away, &is_over)));
            }
        }
        Self { is_over, threads }
    }

    /// How often each client's connection was closed.
    fn end(self) -> Vec<usize> {
        self.is_over.store(true, SeqCst);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// A client, until all is over. Returns how often its connection was closed.
fn runs(port: u16, name: &str, way: Way, away: &Away, is_over: &AtomicBool) -> usize {
    let (mut client, mut closed, mut last, mut count) = (Client::at(port), 0, 0, 0);
    while !is_over.load(SeqCst) {
        count += 1;
        // What was under way when a connection was closed may have happened: then come other keys.
        if way(&mut client, &format!("{name}:{closed}"), count).is_some() {
            thread::sleep(Duration::from_millis(5));
            continue;
        }
        let restart = away.restarts.load(SeqCst);
        assert!(away.is_away.load(SeqCst), "{name}: closed, and its machine is not restarted");
        assert!(restart > last, "{name}: closed twice by one restart");
        (closed, last) = (closed + 1, restart);
        client = again(port);
    }
    assert!(count > 10, "{name}: served {count} times");
    closed
}

/// A connection to a node that is starting.
fn again(port: u16) -> Client {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(mut client) = Client::connect(port)
            && client.try_call("ping").is_some_and(|reply| reply == "+PONG")
        {
            return client;
        }
        assert!(Instant::now() < end, "nobody is at port {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

const WAYS: [(&str, Way); 4] = [("set", set), ("block", block), ("script", script), ("queue", queue)];

fn set(client: &mut Client, name: &str, count: usize) -> Option<()> {
    assert_eq!(client.try_call(&format!("set {name} {count}"))?, "+OK", "{name}");
    let reply = client.try_call(&format!("get {name}"))?;
    assert!(reply.ends_with(&format!(" {count}")), "{name}: {reply}");
    Some(())
}

fn block(client: &mut Client, name: &str, count: usize) -> Option<()> {
    assert_eq!(client.try_call("multi")?, "+OK", "{name}");
    client.try_call(&format!("set {{{name}}}a {count}"))?;
    // Of another shard, as likely as not.
    client.try_call(&format!("set {name}b {count}"))?;
    let reply = client.try_call("exec")?;
    assert_eq!(reply.matches("+OK").count(), 2, "{name}: {reply}");
    Some(())
}

fn script(client: &mut Client, name: &str, count: usize) -> Option<()> {
    let reply =
        client.try_call(&format!("eval return(redis.call('incrby',KEYS[1],ARGV[1])) 1 {name}:{count} {count}"))?;
    assert_eq!(reply, format!(":{count}"), "{name}");
    Some(())
}

fn queue(client: &mut Client, name: &str, count: usize) -> Option<()> {
    assert_eq!(client.try_call(&format!("rpush {name} {count}"))?, ":1", "{name}");
    let reply = client.try_call(&format!("blpop {name} 0"))?;
    assert!(reply.ends_with(&format!(" {count}")), "{name}: {reply}");
    Some(())
}

/// The command, which is killed with the value.
struct Upgrade(Child);

impl Upgrade {
    fn start(port: u16, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["cluster", "upgrade", "-p", &port.to_string()]).args(more);
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.0.stdout.take().unwrap()).lines().map_while(Result::ok)
    }

    /// Whether it ended well, and its error.
    fn ends(mut self) -> (bool, String) {
        let (mut error, status) = (String::new(), self.0.wait().unwrap());
        self.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (status.success(), error)
    }
}

impl Drop for Upgrade {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each machine owns a shard and has the standby of another one's. The command is interrupted, and goes on.
#[test]
fn all_machines_are_restarted_and_no_client_notices() {
    // On a busy machine a takeover lasts longer than clients wait by default.
    let patient = ["--cluster-takeover-wait", "60000", "--cluster-lease", "6000"].map(str::to_owned).to_vec();
    let mut hosts = Hosts::with(3, [0, 1, 2].map(|_| patient.clone()));
    hosts.sets(0, 60);
    let known: Vec<(Arc<Away>, Vec<u16>)> =
        hosts.hosts.iter().map(|host| (Arc::default(), vec![host.port, host.port + 1])).collect();
    let load = Load::start(&known);
    let first = hosts.hosts[0].port;
    let mut interrupted = Upgrade::start(first, &["--restart"]);
    assert!(interrupted.lines().any(|line| line.starts_with("restart host-")));
    drop(interrupted);
    let (mut upgrade, mut told) = (Upgrade::start(first, &["--restart"]), Vec::new());
    let asked = |away: &Away, is_away: bool| away.is_away.store(is_away, SeqCst);
    for line in upgrade.lines() {
        if let Some(name) = line.strip_prefix("restart ").and_then(|rest| rest.split(' ').next()) {
            let at = hosts.hosts.iter().position(|host| name == format!("host-{}", host.port)).unwrap();
            known[at].0.restarts.fetch_add(1, SeqCst);
            asked(&known[at].0, true);
            hosts.restart(at);
            told.push(at);
        } else if line.ends_with(" is back") {
            asked(&known[*told.last().unwrap()].0, false);
        }
    }
    let (is_well, error) = upgrade.ends();
    assert!(is_well, "{error}");
    let closed = load.end();
    assert!(closed.iter().all(|closed| *closed == 1), "{closed:?}");
    told.sort_unstable();
    assert_eq!(told, [0, 1, 2]);
    hosts.has_all(1);
    // Each machine owns a shard again.
    let owners = |text: &str| (0..3).filter(|at| text.contains(&format!("  host-{}  ", hosts.hosts[*at].port))).count();
    let status = hosts.status(0);
    let with_slots = status.lines().filter(|line| line.contains("  node  ") && !line.trim_end().ends_with(" -"));
    let with_slots: Vec<&str> = with_slots.collect();
    assert_eq!((with_slots.len(), owners(&with_slots.join("\n"))), (3, 3), "{status}");
}

#[test]
fn it_says_when_clients_would_have_to_wait() {
    let copied = Copied::new();
    let check =
        |more: &[&str]| Upgrade::start(copied.nodes.ports[2], &[&["--check", "--restart"], more].concat()).ends();
    let (is_safe, why) = check(&[]);
    assert!(!is_safe && why.contains("no standby on another machine can have the 16384 slots"), "{why}");
    assert!(check(&["--with-pauses"]).0);
    copied.stands_by();
    let mut upgrade = Upgrade::start(copied.nodes.ports[2], &["--check", "--restart"]);
    let said: Vec<String> = upgrade.lines().collect();
    // The owner comes behind those that only have copies.
    let at = |name: &str| said.iter().position(|line| line.contains(&format!(". {name} ("))).unwrap();
    let leads = said.iter().position(|line| line.contains("leads the metadata"));
    assert!(at("a") > at("b").min(at("c")) && leads == Some(said.len() - 2), "{said:?}");
    assert_eq!(upgrade.ends(), (true, String::new()), "{said:?}");
}

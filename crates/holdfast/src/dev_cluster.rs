//! `holdfast dev-cluster`: a cluster of servers on this machine, to try clusters out. The servers are its child
//! processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use resp::Value;

use crate::client::{Connection, Target, is_locked};
use crate::server::process::{Signals, end_with_parent, terminate};

/// The time between two looks at the servers.
const LOOK: Duration = Duration::from_millis(100);

/// The longest time that a server may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// The number of log lines shown of a server that has ended.
const LAST_LINES: usize = 8;

/// After so many looks, and again after as many, a message names what the command waits for.
const REPORTS: u32 = 50;

/// The distance between the ports for clients and for nodes.
const BUS: u16 = 10_000;

/// Runs a cluster of servers on this machine until this command ends. The same command starts it again with its data.
#[derive(Args)]
pub struct Options {
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    nodes: u16,
    /// The port of the first node. The other nodes get the next ports. Nodes talk to each other at these ports + 10000.
    /// Smart clients, such as those of Redis Cluster, connect at these ports + 1000.
    #[arg(short, long, default_value_t = 7001)]
    port: u16,
    /// Copies of the data, the owner's included. Above 1 each of `--nodes` stands for a machine, with an agent whose children
    /// are its nodes: their ports are counted up, machine by machine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=7))]
    copies: u16,
    /// With `--copies`: the shards of a new cluster. Default: one for each machine.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    shards: Option<u16>,
    /// The directory in which each node has its own.
    #[arg(long, default_value = "dev-cluster")]
    dir: PathBuf,
    /// Settings for all nodes, after `--`: `-- --maxmemory 1gb`.
    #[arg(last = true, value_name = "SETTINGS")]
    settings: Vec<OsString>,
}

/// A server.
struct Node {
    /// From 1.
    number: u16,
    port: u16,
    dir: PathBuf,
    child: Child,
    /// Its exit status, once it has ended.
    ended: Option<ExitStatus>,
}

/// Starts the nodes, and waits for a signal.
///
/// # Errors
/// The reason why the nodes do not serve.
pub fn run(options: &Options) -> Result<(), String> {
    let last = options
        .port
        .checked_add(options.nodes * options.of_machine() - 1)
        .filter(|last| last.checked_add(BUS).is_some());
    if last.is_none() || options.port == 0 {
        let all = options.nodes * options.of_machine();
        return Err(format!("--port: from {} on there are not enough ports for {all} nodes", options.port));
    }
    if options.copies > options.nodes.max(1) || options.copies > 1 && options.nodes < 3 {
        return Err(format!(
            "--copies {} needs as many --nodes, and 3 at least: the log has copies on three machines",
            options.copies
        ));
    }
    let dir = std::path::absolute(&options.dir).map_err(|why| format!("{}: {why}", options.dir.display()))?;
    remember(&dir, options)?;
    // Before the first child, so that none is left behind.
    let mut nodes = Nodes { signals: Signals::hold_with_hangup(), nodes: Vec::new() };
    for (number, port) in (1..).zip(options.ports()) {
        nodes.nodes.push(Node::start((number, port), &dir, options)?);
    }
    println!("{} are starting in {}", options.all(), dir.display());
    if !nodes.serve()? {
        return Ok(());
    }
    welcome(&nodes.nodes, options);
    if options.copies > 1 {
        println!("\nThe copies get their places.");
        if !nodes.place(options)? {
            return Ok(());
        }
        println!("{} copies of all data are there: any of the {} machines may end.", options.copies, options.nodes);
    }
    // Not before: that copies have no places yet is none.
    say_problems(&nodes.nodes);
    nodes.watch(options)
}

/// Refuses another number of nodes or other ports than before: such a cluster would not find its data or its nodes.
fn remember(dir: &Path, options: &Options) -> Result<(), String> {
    let file = dir.join("dev-cluster");
    let failed = |why: io::Error| format!("{}: {why}", file.display());
    let copies = match options.copies {
        1 => String::new(),
        copies => format!(" --copies {copies} --shards {}", options.shards()),
    };
    let mine = format!("--nodes {} --port {}{copies}", options.nodes, options.port);
    match fs::read_to_string(&file) {
        Ok(known) if known.trim() == mine => Ok(()),
        Ok(known) => Err(format!(
            "{} has a cluster of {}: start it with that, or another one in another --dir",
            dir.display(),
            known.trim()
        )),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(failed)?;
            fs::write(&file, mine + "\n").map_err(failed)
        }
        Err(why) => Err(failed(why)),
    }
}

fn welcome(nodes: &[Node], options: &Options) {
    let of_machine = |port: u16| (port..).take(usize::from(options.of_machine()));
    let addresses = nodes.iter().flat_map(|node| of_machine(node.port)).map(|port| format!("127.0.0.1:{port}"));
    let addresses: Vec<String> = addresses.collect();
    let (first, other) = (nodes[0].port, nodes[nodes.len() / 2].port);
    println!(
        "\nA cluster of {} serves at {}. Any of them reads and writes any key:\n\n  \
         redis-cli -p {first} SET greeting hello\n  \
         redis-cli -p {other} GET greeting\n  \
         holdfast cluster status --port {first}\n\n\
         Clients of Redis Cluster may be given any of these addresses: they learn from CLUSTER SLOTS where to go.\n\
         Logs: {}/node-*/log. Ctrl-C ends all nodes; the same command starts them again, with their data.",
        options.all(),
        addresses.join(" "),
        options.dir.display()
    );
}

fn say_problems(nodes: &[Node]) {
    match nodes[0].problems() {
        Ok(problems) => problems.iter().for_each(|problem| println!("Not all is well: {problem}")),
        Err(why) => println!(
            "Whether all is well is not known: the nodes need a password. With the password in HOLDFAST_PASSWORD this \
             command asks them ({why})"
        ),
    }
}

impl Options {
    fn shards(&self) -> u16 {
        self.shards.unwrap_or(self.nodes)
    }

    /// Nodes of each machine: a shard has at most one copy there.
    fn of_machine(&self) -> u16 {
        match self.copies {
            1 => 1,
            copies => (self.shards() * copies).div_ceil(self.nodes).min(self.shards()),
        }
    }

    /// All of it, in words.
    fn all(&self) -> String {
        match (self.copies, self.of_machine()) {
            (1, _) => format!("{} nodes", self.nodes),
            (_, 1) => format!("{} machines of one node each", self.nodes),
            (_, of_machine) => format!("{} machines of {of_machine} nodes each", self.nodes),
        }
    }

    /// What `--nodes` counts.
    fn unit(&self) -> &'static str {
        if self.copies > 1 { "machine" } else { "node" }
    }

    /// The port of each machine's first node.
    fn ports(&self) -> impl Iterator<Item = u16> {
        (self.port..).step_by(usize::from(self.of_machine())).take(usize::from(self.nodes))
    }
}

fn command((number, port): (u16, u16), dir: &Path, options: &Options) -> io::Result<Command> {
    let seeds: Vec<String> = options.ports().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["server", "--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-seeds", &seeds.join(",")]);
    command.arg("--dir").arg(dir);
    if options.copies > 1 {
        command.args(["--cluster-copies", &options.copies.to_string()]);
        command.args(["--cluster-shards", &options.shards().to_string(), "--cluster-host", &format!("host-{number}")]);
    }
    command.args(&options.settings);
    Ok(command)
}

impl Node {
    fn start((number, port): (u16, u16), dir: &Path, options: &Options) -> Result<Node, String> {
        let dir = dir.join(format!("node-{number}"));
        let failed = |why: io::Error| format!("the node in {} does not start: {why}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        let log = File::options().create(true).append(true).open(dir.join("log")).map_err(failed)?;
        let mut command = command((number, port), &dir, options).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        end_with_parent(&mut command);
        let child = command.spawn().map_err(failed)?;
        Ok(Node { number, port, dir, child, ended: None })
    }

    /// Checks whether it has ended since the last look.
    fn ends(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
            return self.ended;
        }
        None
    }

    /// The process, and those whose parent it is.
    fn processes(&self) -> Vec<String> {
        let id = self.child.id().to_string();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).chain([id]).collect()
    }

    fn last_lines(&self) -> String {
        let log = fs::read(self.dir.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| format!("  {line}\n")).collect()
    }

    /// The report of the cluster; empty: there is none. An error: it refuses the connection of this command.
    fn status(&self) -> Result<Vec<u8>, String> {
        let status = Connection::open_within(&Target::local(self.port), ANSWER)
            .and_then(|mut c| c.call(&[b"CLUSTER", b"STATUS"]));
        match status {
            Ok(Value::Bulk(status) | Value::Verbatim(_, status)) => Ok(status),
            Err(why) if is_locked(&why) => Err(why),
            _ => Ok(Vec::new()),
        }
    }

    /// The problems that the server reports of the cluster. Errors as for [`Self::status`].
    fn problems(&self) -> Result<Vec<String>, String> {
        self.status().map(|status| problems(&status))
    }

    /// Fails with the reason while a shard lacks copies that may take over.
    fn has_copies(&self, options: &Options) -> Result<(), String> {
        let wanted = usize::from(options.shards() * (options.copies - 1));
        match self.status() {
            // The start does not need to know.
            Err(_) => Ok(()),
            Ok(status) => {
                let status = String::from_utf8_lossy(&status);
                match status.matches(" electable ").count() {
                    there if there >= wanted => Ok(()),
                    there => Err(format!("{there} of {wanted} standbys may take over")),
                }
            }
        }
    }

    /// Fails with the reason while the node does not serve.
    fn serves(&self) -> Result<(), String> {
        let target = Target::local(self.port);
        let asked = Connection::open_within(&target, ANSWER).and_then(|mut connection| {
            let texts = [&[&b"INFO"[..], b"server"], &[b"CLUSTER", b"INFO"], &[b"CLUSTER", b"STATUS"]];
            let [server, cluster, status] = texts.map(|words| connection.call(words));
            Ok([server?, cluster?, status?])
        });
        match asked {
            Ok([Value::Bulk(server), Value::Bulk(cluster), Value::Bulk(status) | Value::Verbatim(_, status)]) => {
                let has = |text: &[u8], line: &str| String::from_utf8_lossy(text).lines().any(|l| l == line);
                if !self.processes().iter().any(|id| has(&server, &format!("process_id:{id}"))) {
                    // It is about to find that out.
                    return Err("another server is at its port".to_owned());
                }
                if has(&cluster, "cluster_state:ok") {
                    return Ok(());
                }
                let problems = problems(&status);
                Err(if problems.is_empty() { "it has no lease yet".to_owned() } else { problems.join("; ") })
            }
            // It is up. How it is it does not say without the password, and the start does not need to know.
            Err(why) if is_locked(&why) => Ok(()),
            Err(why) => Err(why),
            Ok(_) => Err("it does not say how it is".to_owned()),
        }
    }
}

/// The problems in a status report. Notes are none.
fn problems(status: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(status);
    let told = text.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with("note: "));
    told.map(str::to_owned).collect()
}

/// All servers. They end when the value is dropped.
struct Nodes {
    nodes: Vec<Node>,
    signals: Signals,
}

impl Nodes {
    /// Waits until all servers serve. Returns false if a signal came first.
    fn serve(&mut self) -> Result<bool, String> {
        self.until("serve", Node::serves)
    }

    /// Waits until there are the copies that are wanted. Returns false if a signal came first.
    fn place(&mut self, options: &Options) -> Result<bool, String> {
        self.until("know of all copies", |node| node.has_copies(options))
    }

    /// Waits until all servers pass a test. Returns false if a signal came first.
    fn until(&mut self, what: &str, test: impl Fn(&Node) -> Result<(), String>) -> Result<bool, String> {
        let count = self.nodes.len();
        let mut waiting: Vec<usize> = (0..count).collect();
        for looks in 0u32.. {
            if waiting.is_empty() {
                break;
            }
            if self.signals.wait_for(LOOK).is_some() {
                return Ok(false);
            }
            for node in &mut self.nodes {
                if let Some(status) = node.ends() {
                    return Err(format!("the node at port {} has ended ({status}):\n{}", node.port, node.last_lines()));
                }
            }
            let mut still = Vec::new();
            for node in waiting {
                if let Err(why) = test(&self.nodes[node]) {
                    still.push(node);
                    if looks % REPORTS == REPORTS - 1 {
                        println!("the node at port {} does not {what} yet: {why}", self.nodes[node].port);
                    }
                }
            }
            waiting = still;
        }
        Ok(true)
    }

    /// Waits for a signal, or until no server is left.
    fn watch(&mut self, options: &Options) -> Result<(), String> {
        loop {
            if let Some(signal) = self.signals.wait_for(LOOK) {
                println!("{signal}: all nodes are ending");
                return Ok(());
            }
            for node in &mut self.nodes {
                let Some(status) = node.ends() else { continue };
                let (port, lines) = (node.port, node.last_lines());
                let unit = options.unit();
                println!("\nthe {unit} at port {port} has ended ({status}); the others go on:\n{lines}");
                if let Ok(command) = command((node.number, port), &node.dir, options) {
                    println!("To start it again:\n  {command:?}");
                }
            }
            if self.nodes.iter().all(|node| node.ended.is_some()) {
                return Err("all nodes have ended".to_owned());
            }
        }
    }
}

impl Drop for Nodes {
    /// Asks all servers to end and waits for them. A second signal kills them.
    fn drop(&mut self) {
        let Self { nodes, signals } = self;
        nodes.retain_mut(|node| node.ends().is_none() && node.ended.is_none());
        nodes.iter().for_each(|node| terminate(&node.child));
        while !nodes.is_empty() {
            if signals.wait_for(LOOK).is_some() {
                nodes.iter_mut().for_each(|node| drop(node.child.kill()));
            }
            nodes.retain_mut(|node| node.ends().is_none());
        }
    }
}

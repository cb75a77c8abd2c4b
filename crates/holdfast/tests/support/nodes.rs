//! A cluster of real servers, which a test starts and kills by number.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Client, Scratch, Server, free_ports};

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nodes that know the first ones of each other. Each has a configuration file and a log file.
pub struct Nodes {
    pub ports: Vec<u16>,
    pub dirs: Vec<Scratch>,
    pub servers: Vec<Option<Server>>,
    pub seeds: String,
}

impl Nodes {
    /// Has ports and directories for `all` nodes, and starts the first `begin` of them.
    pub fn new(all: u16, begin: usize) -> Self {
        Self::with_files(all, begin, &[])
    }

    /// As [`Self::new`], with these texts in the configuration files of the first nodes.
    pub fn with_files(all: u16, begin: usize, files: &[&str]) -> Self {
        let first = free_ports(all);
        let ports: Vec<u16> = (first..first + all).collect();
        let seeds = ports[..begin].iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
        let dirs: Vec<Scratch> = ports.iter().map(|_| Scratch::new()).collect();
        let mut nodes = Self { servers: ports.iter().map(|_| None).collect(), ports, dirs, seeds };
        files.iter().enumerate().for_each(|(node, text)| fs::write(nodes.file(node), text).unwrap());
        (0..begin).for_each(|node| nodes.start(node));
        (0..begin).for_each(|node| nodes.serves(node));
        nodes
    }

    /// The configuration file of a node.
    pub fn file(&self, node: usize) -> PathBuf {
        self.dirs[node].path().join("node.conf")
    }

    /// The file that a node logs to.
    pub fn log_file(&self, node: usize) -> PathBuf {
        self.dirs[node].path().join("log")
    }

    /// The log lines of a node, over all its starts.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.log_file(node)).unwrap_or_default()
    }

    /// Starts a node with the files in its directory.
    pub fn start(&mut self, node: usize) {
        self.start_with(node, &[]);
    }

    /// As [`Self::start`], with these settings behind the others.
    pub fn start_with(&mut self, node: usize, more: &[&str]) {
        self.try_start_with(node, more).unwrap_or_else(|error| panic!("no server: {error}"));
    }

    /// As [`Self::start_with`], or returns what a node that ends has written to standard error.
    pub fn try_start_with(&mut self, node: usize, more: &[&str]) -> Result<(), String> {
        if !self.file(node).exists() {
            fs::write(self.file(node), "").unwrap();
        }
        let dir = self.dirs[node].path().display().to_string();
        let log = self.log_file(node).display().to_string();
        let settings = ["--bind", "127.0.0.1", "--dir", &dir, "--appendonly", "yes", "--cluster-seeds", &self.seeds];
        // A start reads the newest segments whole. Without optimization that takes seconds if they are as large as
        // usual.
        let settings = [&settings[..], &["--log-segment-size", "1mb", "--logfile", &log], more].concat();
        self.servers[node] = Some(Server::try_with_file_on_port(self.ports[node], &self.file(node), &settings)?);
        Ok(())
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        self.servers[node] = None;
    }

    /// Waits until a node that was told to stop has ended, and well.
    pub fn ends(&mut self, node: usize) {
        let ended = self.servers[node].take().is_some_and(|mut server| server.ends_well());
        assert!(ended, "node {node} does not end well: {}", self.log(node));
    }

    /// A new connection to a node.
    pub fn client(&self, node: usize) -> Client {
        self.servers[node].as_ref().unwrap().client()
    }

    /// Waits until a node serves keys, or asks for a password.
    pub fn serves(&self, node: usize) {
        self.until(node, "cluster info", |info| info.contains("cluster_state:ok") || info.starts_with("-NOAUTH"));
    }

    /// Asks a node until its reply is the expected one, and returns that.
    pub fn until(&self, node: usize, command: &str, is_it: impl Fn(&str) -> bool) -> String {
        self.until_or(node, command, is_it, |_| true)
    }

    /// As [`Self::until`]. Every reply before the expected one must pass `may_be`.
    pub fn until_or(
        &self,
        node: usize,
        command: &str,
        is_it: impl Fn(&str) -> bool,
        may_be: impl Fn(&str) -> bool,
    ) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.client(node).call(command);
            if is_it(&reply) {
                return reply;
            }
            assert!(may_be(&reply), "{command} at {node}: {reply}");
            assert!(Instant::now() < end, "{command} at {node}: {reply}\n{}", self.client(node).call("cluster status"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in 0..self.ports.len() {
                let log = self.log(node);
                let last = log.lines().count().saturating_sub(30);
                log.lines().skip(last).for_each(|line| eprintln!("node {node}: {line}"));
            }
        }
    }
}

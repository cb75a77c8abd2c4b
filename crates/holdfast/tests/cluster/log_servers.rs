//! Log-servers: members of a cluster without keys.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::certificates::Authority;
use crate::support::terminate;
use crate::support::{Client, Nodes, Scratch, free_port};

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most memory of a log-server without copies, in bytes.
const RESIDENT_MAX: u64 = 100 << 20;

/// A log-server's process. It is killed when the value is dropped.
pub struct LogServer {
    process: Child,
    pub port: u16,
}

impl LogServer {
    /// Starts one, which logs to `log` in `scratch` and has its directories there.
    pub fn start(port: u16, scratch: &Scratch, dirs: &[&str], seeds: &str, more: &[&str]) -> Self {
        Self::run(&mut Command::new(env!("CARGO_BIN_EXE_holdfast")), port, scratch, dirs, seeds, more)
    }

    fn run(command: &mut Command, port: u16, scratch: &Scratch, dirs: &[&str], seeds: &str, more: &[&str]) -> Self {
        let path = |name: &str| scratch.path().join(name);
        let dirs = dirs.iter().map(|name| path(name).display().to_string());
        let log = path("log").display().to_string();
        let own = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--logfile", &log, "--cluster-seeds", seeds];
        let command = command.arg("log-server").arg("--dirs").args(dirs).args(own).args(more);
        let process = command.stdin(Stdio::null()).stderr(File::create(path("stderr")).unwrap()).spawn().unwrap();
        let server = Self { process, port };
        let end = Instant::now() + PATIENCE;
        while Client::connect(port).is_none() {
            assert!(Instant::now() < end, "{}", std::fs::read_to_string(path("stderr")).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Its answers.
    pub fn call(&self, command: &str) -> String {
        Client::at(self.port).call(command)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its resident memory, in bytes.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Asks it to end. True if it ended well.
    pub fn ends_well(&mut self) -> bool {
        terminate(self.process.id());
        self.process.wait().unwrap().success()
    }
}

impl Drop for LogServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The line of the status about the member at this port.
fn line(status: &str, port: u16) -> String {
    let at = format!(":{port}@");
    status.split(['\n', '\r']).find(|line| line.contains(&at)).unwrap_or_default().to_owned()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn holdfast(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_log_server_votes_and_no_client_is_sent_to_it() {
    let (port, scratch) = (free_port(), Scratch::new());
    let mut nodes = Nodes::with_files(2, 0, &["cluster-host a\n", "cluster-host b\n"]);
    nodes.seeds = format!("127.0.0.1:{},127.0.0.1:{}", nodes.ports[0], nodes.ports[1]);
    // It comes first, and knows itself among the seeds: it forms no cluster, and no cluster is formed of it.
    let seeds = format!("{},127.0.0.1:{port}", nodes.seeds);
    let dirs = ["one", "two"];
    let mut server = LogServer::start(port, &scratch, &dirs, &seeds, &["--cluster-host", "c"]);
    until("it waits for them", || server.call("cluster status").contains("belongs to no cluster yet"));
    (0..2).for_each(|node| nodes.start(node));
    (0..2).for_each(|node| nodes.serves(node));
    let is_in = |status: &str| {
        let line = line(status, port);
        ["  c  ", "  log  ", "  up  ", "  votes  "].iter().all(|word| line.contains(word))
    };
    nodes.until(1, "cluster status", |status| is_in(status) && status.contains("health: ok"));
    until("it knows itself", || is_in(&server.call("cluster status")));
    let status = holdfast(&["cluster", "status", "--port", &port.to_string()]);
    assert!(status.contains("health: ok") && is_in(&status), "{status}");
    assert_eq!(server.call("ping"), "+PONG");
    assert!(server.call("get x").starts_with("-ERR a log-server has no keys"));
    let id = server.call("cluster myid").split(' ').nth(1).unwrap().to_owned();

    let mut client = nodes.client(0);
    for key in 0..100 {
        assert_eq!(client.call(&format!("set key:{key} 1")), "+OK");
    }
    assert_eq!(client.call("dbsize"), ":100");
    for command in ["cluster slots", "cluster shards", "cluster nodes"] {
        let reply = client.call(command);
        assert!(!reply.contains(&id) && !reply.contains(&port.to_string()), "{command}: {reply}");
    }
    assert!(client.call("cluster info").contains("cluster_known_nodes:2"));
    assert_eq!(client.call("flushall"), "+OK");
    assert!(server.resident() < RESIDENT_MAX, "{} bytes", server.resident());

    // Two of three machines decide: without its vote the first node would lose its lease.
    nodes.kill(1);
    nodes.until(0, "cluster status", |status| status.contains("2 of 3 voting nodes are up"));
    std::thread::sleep(Duration::from_secs(3));
    assert!(line(&nodes.client(0).call("cluster status"), nodes.ports[0]).contains("  up  "));
    nodes.start(1);
    nodes.serves(1);

    // Its end, and its return as the same member.
    assert!(server.ends_well());
    nodes.until(0, "cluster status", |status| status.contains(&format!("log-server {id} at 127.0.0.1:{port} is down")));
    assert_eq!(nodes.client(0).call("dbsize"), ":0");
    let mut server = LogServer::start(port, &scratch, &dirs, &seeds, &["--cluster-host", "c"]);
    nodes.until(0, "cluster status", |status| is_in(status) && status.contains("health: ok"));
    assert_eq!(server.call("cluster myid"), format!("$40 {id}"));
    assert!(server.ends_well());
    assert_eq!(nodes.client(0).call(&format!("cluster forget {id}")), "+OK");
    nodes.until(1, "cluster status", |status| !status.contains(&id));
}

#[test]
fn a_log_server_speaks_tls_with_nodes_and_tells_systemd() {
    let (port, scratch) = (free_port(), Scratch::new());
    Authority::new("authority").equip("server", &scratch.path().join("files"));
    let path = |name: &str| scratch.path().join("files").join(name).display().to_string();
    let files = [("tls-cert-file", "cert.pem"), ("tls-key-file", "key.pem"), ("tls-ca-cert-file", "ca.pem")];
    let text: String = files.iter().map(|(name, file)| format!("{name} {}\n", path(file))).collect();
    let text = format!("{text}tls-cluster yes\ncluster-secret word\n");
    let nodes = Nodes::with_files(1, 1, &[&text]);
    let notify = scratch.path().join("notify");
    let systemd = UnixDatagram::bind(&notify).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 200];
        let length = systemd.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let config = scratch.path().join("file");
    std::fs::write(&config, format!("{text}requirepass w0rd\nsupervised auto\nmaxmemory 1gb\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let log = scratch.path().join("log");
    command.env("NOTIFY_SOCKET", &notify).args(["log-server", config.to_str().unwrap()]);
    command.args(["--dirs", scratch.path().join("one").to_str().unwrap(), "--port", &port.to_string()]);
    command.args(["--bind", "127.0.0.1", "--cluster-seeds", &nodes.seeds, "--logfile", log.to_str().unwrap()]);
    let mut server = LogServer { process: command.spawn().unwrap(), port };
    while !told().contains("READY=1\n") {}
    nodes.until(0, "cluster status", |status| line(status, port).contains("  up  "));
    // The password is the cluster's, whatever the file says.
    until("it has the cluster's settings", || server.call("ping") == "+PONG");
    assert_eq!(nodes.client(0).call("config set requirepass other"), "+OK");
    until("it has the new password", || server.call("cluster status").starts_with("-NOAUTH"));
    let mut client = Client::at(port);
    assert!(client.call("auth w0rd").starts_with("-WRONGPASS"));
    assert_eq!(client.call("auth default other"), "+OK");
    assert!(client.call("cluster status").contains("  log  "));
    assert!(read(&log).contains("maxmemory has no effect"), "{}", read(&log));
    assert!(server.ends_well());
    while !told().contains("STOPPING=1\n") {}
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn groups_are_made_shown_and_changed() {
    let (port, scratch) = (free_port(), Scratch::new());
    let nodes = Nodes::with_files(2, 2, &["cluster-host a\n", "cluster-host b\n"]);
    let server = LogServer::start(port, &scratch, &["one"], &nodes.seeds, &["--cluster-host", "c"]);
    nodes.until(0, "cluster status", |status| line(status, port).contains("  c  "));
    let id = server.call("cluster myid").split(' ').nth(1).unwrap().to_owned();
    let at = nodes.ports[0].to_string();
    let cluster = |words: &[&str]| holdfast(&[&["cluster"], words, &["-p", &at]].concat());
    let place = |port: u16, dir: &str| format!("127.0.0.1:{port}/{dir}");
    let [one, two] = [0, 1].map(|node| place(nodes.ports[node], "-"));
    let (three, bad) = (place(port, "-"), place(port, "no/such/place"));
    let said = cluster(&["group", "add", "default"]);
    assert!(said.contains("nodes run on 2 machines, and 3 are needed"), "{said}");
    assert!(cluster(&["group", "add", "g", &one, "127.0.0.1:1/-"]).contains("no node or log-server is at 127.0.0.1:1"));
    assert!(cluster(&["group", "add", "a b", &one]).contains("the name of a group is"));
    assert!(cluster(&["group", "add", "g", &one, &two, &bad]).contains("there is a group g"));
    assert!(cluster(&["group", "add", "g", &one, &two]).contains("there is a group g with other places"));
    assert!(cluster(&["group", "add", "pair", &one, &two]).contains("there is a group pair"));
    assert!(cluster(&["group", "use", "g", "9"]).contains("there is no shard 9"));
    assert!(cluster(&["group", "use", "none"]).contains("there is no group none"));
    assert!(cluster(&["group", "use", "g"]).contains("all shards use the group g"));
    assert!(cluster(&["group", "replace", &one, &two]).contains("the groups g and pair have this place"));
    assert!(cluster(&["group", "replace", &bad, &three]).contains(&format!("{three} takes the place of {bad}")));
    let shown = cluster(&["group", "show"]);
    let row = format!("g      {three}");
    assert!(shown.contains(&row) && shown.contains("log   c     up") && shown.contains("SHARD  OWNER"), "{shown}");
    let status = cluster(&["status"]);
    assert!(status.contains("note: the group pair survives the loss of no machine"), "{status}");
    assert!(status.contains("health: not ok") && status.contains("has 1 of the 3 copies of its log"), "{status}");
    let other = place(nodes.ports[1], "-");
    let said = cluster(&["recover", "1", "--on", other.trim_end_matches("/-")]);
    assert!(said.contains("may be alive") || said.contains("owns"), "{said}");
    assert!(cluster(&["forget", &id]).contains("has a place in the group g"));
    assert!(cluster(&["group", "use", "-"]).contains("all shards have no group of their own"));
    nodes.until(1, "cluster status", |status| status.contains("health: ok"));
}

#[test]
fn a_log_server_says_what_it_lacks() {
    assert!(holdfast(&["log-server"]).contains("needs --dirs"));
    assert!(holdfast(&["log-server", "--dirs", "/tmp/holdfast-nothing"]).contains("needs --cluster-seeds"));
    assert!(!Path::new("/tmp/holdfast-nothing").exists());
    assert!(holdfast(&["log-server", "--help"]).contains("--cluster-announce-ip"));
}

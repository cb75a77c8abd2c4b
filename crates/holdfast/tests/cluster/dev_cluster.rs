//! `holdfast dev-cluster`: a cluster whose servers are children of one process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::certificates::Authority;
use crate::support::{Client, Scratch, free_ports};

/// The first of three ports that follow each other, for which the ports for nodes are free, too.
fn ports() -> u16 {
    free_ports(3)
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("in vain: {what}");
}

/// The command that runs the cluster. It is killed with the value: its children must notice.
struct Cluster {
    process: Child,
    port: u16,
    output: PathBuf,
}

impl Cluster {
    fn start(port: u16, dir: &Scratch, more: &[&str]) -> Cluster {
        Self::with_password(None, port, dir, more)
    }

    /// As [`Self::start`], with this in HOLDFAST_PASSWORD.
    fn with_password(password: Option<&str>, port: u16, dir: &Scratch, more: &[&str]) -> Cluster {
        let output = dir.path().join(format!("output-{port}"));
        let file = File::create(&output).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["dev-cluster", "--port", &port.to_string(), "--dir"])
            .arg(dir.path().join("nodes"))
            .args(more)
            .env_remove("HOLDFAST_PASSWORD")
            .envs(password.map(|password| ("HOLDFAST_PASSWORD", password)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Cluster { process, port, output }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    fn serves(&mut self) {
        wait("it serves", || {
            assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.said());
            self.said().contains("serves at").then_some(())
        });
    }

    /// The output of a cluster that ends by itself, and true if it ended well.
    fn ends(&mut self) -> (bool, String) {
        let status = wait("it ends", || self.process.try_wait().unwrap());
        (status.success(), self.said())
    }

    fn client(&self, node: u16) -> Client {
        Client::at(self.port + node)
    }
}

/// Asks again while a node's lease has run out, as the node may not get the processor for a while.
fn comes(client: &mut Client, command: &str, expected: &str) {
    wait(command, || {
        let reply = client.call(command);
        assert!(reply == expected || reply.contains("CLUSTERDOWN"), "{reply}");
        (reply == expected).then_some(())
    });
}

/// Asserts that no process listens at a port of the cluster any more.
fn is_gone(first: u16) {
    for port in first..first + 3 {
        wait("it has gone", || TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

/// The other nodes know a node that is gone, and no node serves its slots.
#[test]
fn a_cluster_one_of_whose_folders_is_gone_does_not_wait_without_a_word() {
    let (port, dir) = (ports(), Scratch::new());
    let mut cluster = Cluster::start(port, &dir, &[]);
    cluster.serves();
    signal("TERM", cluster.process.id());
    assert!(cluster.ends().0);
    fs::remove_dir_all(dir.path().join("nodes/node-3")).unwrap();
    let mut cluster = Cluster::start(port, &dir, &[]);
    wait("it says something", || {
        assert_eq!(cluster.process.try_wait().unwrap(), None, "{}", cluster.said());
        let said = cluster.said();
        (said.contains("is lost: another one has come in its place")).then_some(())
    });
}

#[test]
fn a_cluster_of_processes_ends_with_its_parent_and_comes_back() {
    let (port, dir) = (ports(), Scratch::new());
    let mut cluster =
        Cluster::start(port, &dir, &["--", "--appendonly", "yes", "--log-segment-size", "1mb", "--maxmemory", "100mb"]);
    cluster.serves();
    for i in 0..30 {
        comes(&mut cluster.client(i % 3), &format!("set key:{i} {i}"), "+OK");
    }
    comes(&mut cluster.client(2), "dbsize", ":30");
    // Each of these keys has another owner.
    const SUM: &str = "eval \"return redis.call('get', KEYS[1]) + redis.call('get', KEYS[2])\" 2 b c";
    comes(&mut cluster.client(2), "mset a 1 c 3", "+OK");
    comes(&mut cluster.client(1), "rename a b", "+OK");
    comes(&mut cluster.client(0), SUM, ":4");
    wait("a transaction", || {
        let mut client = cluster.client(2);
        let replies = ["begin", "incr b", "incr c", "commit"].map(|line| client.call(line));
        let done = replies == ["+OK", ":2", ":4", "+OK"];
        assert!(done || replies.iter().any(|reply| reply.contains("CLUSTERDOWN")), "{replies:?}");
        done.then_some(())
    });
    assert!(cluster.client(1).call("config get maxmemory").contains("104857600"));
    wait("all are up", || {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let status = tool.args(["cluster", "status", "--port", &(port + 1).to_string()]).output().unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        (status.matches("  up  ").count() == 3 && status.matches("0-5461\n").count() == 1).then_some(())
    });

    signal("TERM", cluster.process.id());
    let (well, said) = cluster.ends();
    assert!(well && said.contains("SIGTERM: all nodes are ending"), "{said}");
    is_gone(port);

    // Another cluster would not find the data.
    for more in [&["--nodes", "2"][..], &["--nodes", "3", "--port", "7"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let refused =
            command.arg("dev-cluster").args(more).arg("--dir").arg(dir.path().join("nodes")).output().unwrap();
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && why.contains(&format!("--nodes 3 --port {port}")), "{why}");
    }

    let mut cluster = Cluster::start(port, &dir, &["--", "--appendonly", "yes", "--log-segment-size", "1mb"]);
    cluster.serves();
    comes(&mut cluster.client(0), "dbsize", ":32");
    comes(&mut cluster.client(1), SUM, ":6");
    // Also if the process is killed, and so cannot tell its children.
    drop(cluster);
    is_gone(port);
}

/// `holdfast cluster status` at this port, with this in HOLDFAST_PASSWORD. Returns true if it is content, and its
/// output.
fn status(port: u16, password: Option<&str>) -> (bool, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    tool.env_remove("HOLDFAST_PASSWORD").envs(password.map(|password| ("HOLDFAST_PASSWORD", password)));
    let output = tool.args(["cluster", "status", "--port", &port.to_string()]).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

const NOT_KNOWN: &str = "Whether all is well is not known";

#[test]
fn a_cluster_with_a_password_comes_back() {
    let (port, dir) = (ports(), Scratch::new());
    let settings = ["--", "--appendonly", "yes", "--log-segment-size", "1mb"];
    let mut cluster = Cluster::start(port, &dir, &settings);
    cluster.serves();
    comes(&mut cluster.client(0), "config set requirepass pw", "+OK");
    for node in 0..3 {
        wait("the password", || cluster.client(node).call("ping").starts_with("-NOAUTH").then_some(()));
    }
    for (password, refusal) in [(None, "NOAUTH"), (Some("other"), "WRONGPASS"), (Some("pw"), "")] {
        signal("INT", cluster.process.id());
        assert!(cluster.ends().0, "{}", cluster.said());
        is_gone(port);
        cluster = Cluster::with_password(password, port, &dir, &settings);
        cluster.serves();
        wait("a word on it", || {
            let said = cluster.said();
            (said.contains("Ctrl-C") && said.contains(NOT_KNOWN) != refusal.is_empty() && said.contains(refusal))
                .then_some(())
        });
    }
    let said = status(port, None);
    assert!(!said.0 && said.1.contains("set HOLDFAST_PASSWORD or --password (NOAUTH"), "{said:?}");
    let said = status(port, Some("other"));
    assert!(!said.0 && said.1.contains("set another one in HOLDFAST_PASSWORD or --password (WRONGPASS"), "{said:?}");
    let said = status(port, Some("pw"));
    assert!(said.0 && said.1.contains("health:"), "{said:?}");
}

#[test]
fn a_password_may_be_a_setting_and_one_that_no_node_wants_is_none_to_refuse() {
    let (port, dirs) = (ports(), [Scratch::new(), Scratch::new()]);
    let mut cluster = Cluster::start(port, &dirs[0], &["--nodes", "1", "--", "--requirepass", "zz"]);
    cluster.serves();
    wait("a word on it", || cluster.said().contains(NOT_KNOWN).then_some(()));
    drop(cluster);
    is_gone(port);
    let mut cluster = Cluster::with_password(Some("zz"), port, &dirs[1], &["--nodes", "1"]);
    cluster.serves();
    assert!(status(port, Some("zz")).0);
}

#[test]
fn who_ends_is_named() {
    let (port, dir) = (ports(), Scratch::new());
    let taken = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let (well, said) = Cluster::start(port, &dir, &[]).ends();
    assert!(!well && said.contains(&format!("the node at port {} has ended", port + 1)), "{said}");
    assert!(said.contains("Address already in use"), "{said}");
    drop(taken);
    let (well, said) = Cluster::start(port, &dir, &["--", "--nonsense", "1"]).ends();
    assert!(!well && said.contains("nonsense"), "{said}");

    // No process is left of the cluster that did not start.
    let mut cluster = Cluster::start(port, &dir, &["--", "--appendonly", "no"]);
    cluster.serves();
    let info = cluster.client(2).call("info server");
    let victim = info.split_whitespace().find_map(|line| line.strip_prefix("process_id:")).unwrap().to_owned();
    signal("KILL", victim.parse().unwrap());
    wait("it is named", || {
        let said = cluster.said();
        (said.contains(&format!("the node at port {} has ended", port + 2)) && said.contains("To start it again"))
            .then_some(())
    });
    wait("the others know", || cluster.client(0).call("cluster nodes").contains("master,fail").then_some(()));
    signal("INT", cluster.process.id());
    assert!(cluster.ends().0);
    is_gone(port);
}

#[test]
fn nodes_speak_tls_with_each_other() {
    let (port, dir) = (ports(), Scratch::new());
    let certificates = dir.path().join("certificates");
    let authority = Authority::new("authority");
    authority.equip("node", &certificates);
    let files = ["cert.pem", "key.pem", "ca.pem"].map(|name| certificates.join(name).display().to_string());
    let settings = ["--", "--tls-cluster", "yes", "--tls-cert-file", &files[0], "--tls-ca-cert-file", &files[2]];
    let (well, said) = Cluster::start(port, &dir, &settings).ends();
    assert!(!well && said.contains("tls-cluster yes needs tls-key-file"), "{said}");
    let (well, said) = Cluster::start(port, &dir, &[&settings[..], &["--tls-key-file", "nowhere"]].concat()).ends();
    assert!(!well && said.contains("nowhere: No such file") && said.contains("tls-key-file /"), "{said}");

    let settings = [&settings[..], &["--tls-key-file", &files[1], "--appendonly", "no"]].concat();
    let mut cluster = Cluster::start(port, &dir, &settings);
    cluster.serves();
    for i in 0..30 {
        comes(&mut cluster.client(i % 3), &format!("set key:{i} {i}"), "+OK");
        comes(&mut cluster.client((i + 1) % 3), &format!("get key:{i}"), &format!("${} {i}", i.to_string().len()));
    }
    // Long replies have to be held back on their way while a client does not read.
    comes(&mut cluster.client(0), "setrange long 9999999 x", ":10000000");
    for node in 0..3 {
        wait("what is long", || (cluster.client(node).call("get long").len() == 10_000_010).then_some(()));
    }
    // Keys of several nodes.
    comes(&mut cluster.client(2), "mset a 1 b 2 c 3", "+OK");
    comes(&mut cluster.client(1), "rename a b", "+OK");

    // Settings and files change while nodes run. A peer that does not speak TLS is refused, and named in the log.
    let why = cluster.client(0).call("config set tls-cert-file /nowhere.pem");
    assert!(why.contains("tls-cert-file /nowhere.pem: No such file"), "{why}");
    assert!(cluster.client(0).call("config get tls-cert-file").contains(&files[0]));
    assert!(cluster.client(0).call("config set tls-cluster no").contains("not changed while"));
    let other = certificates.join("other");
    authority.equip("other", &other);
    let (cert, key) = (other.join("cert.pem"), other.join("key.pem"));
    let set = format!("config set tls-cert-file {} tls-key-file {}", cert.display(), key.display());
    assert_eq!(cluster.client(0).call(&set), "+OK");
    let mut plain = TcpStream::connect(("127.0.0.1", port + 10_000)).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    plain.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    plain.read_to_end(&mut said).unwrap();
    let log = dir.path().join("nodes/node-1/log");
    let refused = "was refused: it does not use TLS, this node uses TLS: tls-cluster must be the same on all nodes";
    wait(refused, || fs::read_to_string(&log).unwrap().contains(refused).then_some(()));
}

/// Each of three machines has an agent and a node, and two of the nodes have the data.
#[test]
fn a_cluster_with_copies_goes_on_without_the_owner() {
    let (port, dir) = (ports(), Scratch::new());
    let few =
        Command::new(env!("CARGO_BIN_EXE_holdfast")).args(["dev-cluster", "--nodes", "2", "--copies", "2"]).output();
    assert!(String::from_utf8(few.unwrap().stderr).unwrap().contains("needs as many --nodes"));
    let mut cluster =
        Cluster::start(port, &dir, &["--copies", "2", "--shards", "1", "--", "--log-segment-size", "1mb"]);
    cluster.serves();
    wait("the copies are there", || {
        assert_eq!(cluster.process.try_wait().unwrap(), None, "{}", cluster.said());
        cluster.said().contains("2 copies of all data are there").then_some(())
    });
    comes(&mut cluster.client(1), "set key 7", "+OK");
    let info = cluster.client(0).call("info server");
    let fields = info.split_whitespace();
    let owner = fields.filter_map(|field| field.strip_prefix("process_id:")).next().unwrap().parse().unwrap();
    signal("KILL", owner);
    wait("another one has the keys", || cluster.client(2).try_call("get key").filter(|reply| reply.ends_with(" 7")));
    wait("the copies are there again", || status(port + 2, None).1.contains("electable").then_some(()));
    signal("TERM", cluster.process.id());
    let (well, said) = cluster.ends();
    assert!(well, "{said}");
    is_gone(port);
}

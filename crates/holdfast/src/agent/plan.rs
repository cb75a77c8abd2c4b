//! The children of a machine: how many nodes there are, the log-server that holds the machine's vote, and by which
//! settings each runs.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use node::config::{Arguments, Disk, Settings, load, seeds};

use super::dir_of;
use crate::server::member::BUS;

/// From the ports of a machine's first node to those of its log-server.
const TO_LOG_SERVER: u16 = 2_000;

/// A child that is to run.
#[derive(Debug)]
pub struct Plan {
    /// The part of the child on its machine.
    pub part: Part,
    /// The arguments of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Its settings.
    pub settings: Settings,
    /// Its directory.
    pub dir: PathBuf,
}

/// The part of a child on its machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// `holdfast server`; its number, from 1.
    Node(usize),
    /// `holdfast log-server`, which holds the machine's vote.
    LogServer,
}

impl Part {
    /// The command.
    pub fn command(self) -> &'static str {
        match self {
            Self::Node(_) => "server",
            Self::LogServer => "log-server",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "Node {number}"),
            Self::LogServer => f.write_str("The log-server"),
        }
    }
}

/// The directory of the log-server of a machine, in the machine's.
pub fn dir_of_log_server(dir: &Path) -> PathBuf {
    dir.join("agent")
}

/// The log-server that holds the machine's vote. It is asked at the port of the first node and 2000, and hears other nodes
/// at that node's port for them and 2000.
///
/// # Errors
/// The settings cannot be used. In words.
pub fn log_server(args: &[Vec<u8>], settings: &Settings, dir: &Path, host: &str) -> Result<Plan, String> {
    // Near the end of all ports it is below.
    let above = |port: u16| port.checked_add(TO_LOG_SERVER).unwrap_or(port - TO_LOG_SERVER);
    let port = if settings.port == 0 { 0 } else { above(settings.port) };
    let nodes = match settings.cluster_port {
        0 => settings.port_of_clients().checked_add(BUS).ok_or("cluster-port: port + 10000 is no port, name one")?,
        port => port,
    };
    let dir = dir_of_log_server(dir);
    let text = |port: u16| port.to_string().into_bytes();
    let mut own = vec![
        ("port", text(port)),
        ("tls-port", text(0)),
        ("cluster-port", text(above(nodes))),
        ("log-dirs", OsString::from(dir.join("logs")).into_vec()),
        ("dir", OsString::from(&dir).into_vec()),
        ("cluster-host", host.as_bytes().to_vec()),
        ("supervised", b"no".to_vec()),
        ("pidfile", Vec::new()),
    ];
    if settings.cluster_seeds.is_empty() {
        // One that joins is told where nodes are. Others know.
        own.push(("cluster-seeds", format!("127.0.0.1:{}@{nodes}", settings.port_of_clients()).into_bytes()));
    }
    planned(Part::LogServer, args, own.into_iter().map(|(name, value)| (name.to_owned(), value)), dir)
}

/// A child by the machine's settings, and by these of its own.
fn planned(
    part: Part,
    args: &[Vec<u8>],
    own: impl IntoIterator<Item = (String, Vec<u8>)>,
    dir: PathBuf,
) -> Result<Plan, String> {
    let own = own.into_iter().flat_map(|(name, value)| [format!("--{name}").into_bytes(), value]);
    let arguments: Vec<Vec<u8>> = args.iter().cloned().chain(own).collect();
    let mut no_input = || Ok(Vec::new());
    let loaded = load(&Arguments::parse(&arguments), &Disk, &mut no_input).map_err(|why| why.to_string())?;
    Ok(Plan { part, arguments, settings: Settings::of(&loaded.values), dir })
}

/// How many nodes a machine needs, so that all machines together have every copy: at most one for each shard, as two copies
/// of one shard never lie on one machine.
fn needed(settings: &Settings) -> usize {
    let hosts = seeds(&settings.cluster_seeds).map_or(1, |seeds| seeds.len().max(1));
    let shards = usize::from(settings.shards_of_new_cluster().max(1));
    (shards * usize::from(settings.cluster_copies)).div_ceil(hosts).min(shards)
}

/// The children of this machine. One whose directory is there is started, too: it has data.
///
/// # Errors
/// The settings cannot be shared out, or there is no room for so many ports. In words.
pub fn children(args: &[Vec<u8>], settings: &Settings, dir: &Path, host: &str) -> Result<Vec<Plan>, String> {
    let there = (2..).take_while(|number| dir_of(dir, *number).is_dir()).count() + 1;
    let count = needed(settings).max(there);
    if count > 1 {
        let is_absolute = |path: &Vec<u8>| path.starts_with(b"/");
        if settings.log_dirs.iter().chain([&settings.store_dir]).any(is_absolute) {
            return Err(format!(
                "this machine has {count} nodes, each with a directory of its own: log-dirs and store-dir must be relative to dir"
            ));
        }
    }
    (1..=count).map(|number| child(args, settings, (number, count), dir, host)).collect()
}

fn child(
    args: &[Vec<u8>],
    settings: &Settings,
    (number, count): (usize, usize),
    dir: &Path,
    host: &str,
) -> Result<Plan, String> {
    let above = number - 1;
    let dir = dir_of(dir, number);
    let port = |name: &str, first: u16| match first {
        0 => Ok(None),
        first => match u16::try_from(usize::from(first) + above) {
            Ok(port) => Ok(Some((name.to_owned(), port.to_string().into_bytes()))),
            Err(_) => Err(format!("{name}: from {first} on there are not enough ports for {count} nodes")),
        },
    };
    let mut own: Vec<(String, Vec<u8>)> = Vec::new();
    own.extend(port("port", settings.port)?);
    own.extend(port("tls-port", settings.tls_port)?);
    own.extend(port("cluster-port", settings.cluster_port)?);
    own.extend(port("cluster-client-port", u16::try_from(settings.cluster_client_port).unwrap_or(0))?);
    own.extend(port("cluster-announce-client-port", settings.cluster_announce_client_port)?);
    // The agent answers there for all of them.
    own.extend(["metrics-port", "sentinel-port"].map(|name| (name.to_owned(), b"0".to_vec())));
    own.push(("dir".to_owned(), OsString::from(&dir).into_vec()));
    own.push(("cluster-host".to_owned(), host.as_bytes().to_vec()));
    // The agent speaks to the supervisor, and is the process to be found.
    own.push(("supervised".to_owned(), b"no".to_vec()));
    own.push(("pidfile".to_owned(), Vec::new()));
    if settings.maxmemory > 0 {
        own.push(("maxmemory".to_owned(), (settings.maxmemory / count as u64).to_string().into_bytes()));
    }
    if number > 1 {
        own.push(("unixsocket".to_owned(), Vec::new()));
    }
    planned(Part::Node(number), args, own, dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(args: &[&str], dir: &Path) -> Result<Vec<Plan>, String> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let loaded = load(&Arguments::parse(&args), &Disk, &mut || Ok(Vec::new())).unwrap();
        children(&args, &Settings::of(&loaded.values), dir, "host-1")
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("holdfast-agent-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_machine_has_as_many_nodes_as_copies_fall_to_it() {
        let dir = scratch("count");
        let of = |shards: &str, copies: &str, seeds: &str| {
            let args = ["--cluster-shards", shards, "--cluster-copies", copies, "--cluster-seeds", seeds];
            plans(&args, &dir).unwrap().len()
        };
        let [one, three, four] = ["a:1", "a:1,b:1,c:1", "a:1,b:1,c:1,d:1"];
        assert_eq!(of("0", "2", three), 2, "a shard for each machine");
        assert_eq!(of("1", "2", three), 1, "one shard");
        assert_eq!(of("1", "3", one), 1, "two copies of a shard are never on one machine");
        assert_eq!(of("3", "2", three), 2);
        assert_eq!(of("3", "3", three), 3);
        assert_eq!(of("3", "2", four), 2);
        assert_eq!(of("2", "2", four), 1);
        std::fs::create_dir(dir.join("copy-2")).unwrap();
        assert_eq!(of("1", "2", three), 2, "one that has data is not left behind");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn ports_are_counted_up_and_memory_is_shared_out() {
        let dir = scratch("ports");
        let args = [
            "--port",
            "7000",
            "--cluster-port",
            "9000",
            "--maxmemory",
            "900",
            "--cluster-copies",
            "2",
            "--cluster-shards",
            "3",
            "--cluster-seeds",
            "a:7000@9000,b:7000@9000,c:7000@9000",
            "--metrics-port",
            "9121",
            "--pidfile",
            "/run/pid",
        ];
        let plans = plans(&args, &dir).unwrap();
        let [first, second] = &plans[..] else { panic!("{plans:?}") };
        assert_eq!((first.settings.port, second.settings.port), (7000, 7001));
        assert_eq!((first.settings.cluster_port, second.settings.cluster_port), (9000, 9001));
        assert_eq!((first.settings.port_for_smart_clients(), second.settings.port_for_smart_clients()), (8000, 8001));
        assert_eq!((first.settings.maxmemory, second.settings.maxmemory), (450, 450));
        assert!(plans.iter().all(|plan| plan.settings.metrics_port == 0), "the agent's");
        assert!(plans.iter().all(|plan| plan.settings.cluster_host.as_deref() == Some(b"host-1")));
        assert!(plans.iter().all(|plan| plan.settings.pidfile.is_none()), "the agent's");
        assert_eq!((&first.dir, &second.dir), (&dir, &dir.join("copy-2")));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_log_server_has_a_directory_and_ports_of_its_own() {
        let of = |args: &[&str]| {
            let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            let loaded = load(&Arguments::parse(&args), &Disk, &mut || Ok(Vec::new())).unwrap();
            log_server(&args, &Settings::of(&loaded.values), Path::new("/data"), "host-1").unwrap()
        };
        let plan = of(&["--log-dirs", "a", "b", "--cluster-enabled", "yes", "--pidfile", "/run/pid"]);
        let Settings { port, cluster_port, log_dirs, cluster_seeds, pidfile, .. } = &plan.settings;
        assert_eq!((*port, *cluster_port), (8379, 18379));
        assert_eq!(log_dirs, &[b"/data/agent/logs".to_vec()]);
        assert_eq!((&cluster_seeds[..], pidfile), (&b"127.0.0.1:6379@16379"[..], &None));
        let plan = of(&["--port", "0", "--tls-port", "7000", "--cluster-port", "9000", "--cluster-seeds", "a:1"]);
        let Settings { port, tls_port, cluster_port, cluster_seeds, .. } = &plan.settings;
        assert_eq!((*port, *tls_port, *cluster_port, &cluster_seeds[..]), (0, 0, 11000, &b"a:1"[..]));
    }

    #[test]
    fn what_cannot_be_shared_out_is_refused() {
        let dir = scratch("refused");
        let all = ["--cluster-copies", "2", "--cluster-shards", "3", "--cluster-seeds", "a:1,b:1,c:1"];
        let with = |more: &[&str]| plans(&[&all[..], more].concat(), &dir);
        assert!(with(&["--log-dirs", "/a"]).is_err_and(|why| why.contains("relative")));
        assert!(with(&["--port", "65535"]).is_err_and(|why| why.contains("not enough ports")));
        std::fs::remove_dir_all(dir).unwrap();
    }
}

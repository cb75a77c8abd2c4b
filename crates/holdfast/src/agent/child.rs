//! The ends of the pipe between an agent and a child: what the child is, and what it says.
//!
//! A child says by lines of text which life of which node it is, and when it serves. It says the first before it serves
//! anything, so a process that has ended is known by its life. The pipe outlives an `exec` of the child, as the sockets
//! do that it was given.

use std::env;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::RawFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use membership::handshake::Party;
use membership::{ClusterId, Map, NodeId, level};

use crate::server::process::{set_nonblocking, taken_over};

/// The variable by which a process knows that it is a child: `pipe number door socket,socket...`.
pub const ENVIRONMENT: &str = "HOLDFAST_AGENT";

/// Members that a child names at most. A line is written at once if it has at most 4096 bytes.
const MEMBERS_MAX: usize = 30;

/// A life of a node, and where members of its cluster are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    pub party: Party,
    /// Hosts and ports for nodes.
    pub members: Vec<(String, u16)>,
}

/// The words of a child to its agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Lives(Life),
    Serves,
    /// True if the node owns slots.
    Owns(bool),
    /// It belongs to a cluster in which a machine's log-server votes, and is known there by this host.
    Belongs(String),
}

impl Said {
    fn line(&self) -> String {
        match self {
            Self::Serves => "serves\n".to_owned(),
            Self::Owns(owns) => format!("owns {owns}\n"),
            Self::Belongs(host) => format!("belongs {host}\n"),
            Self::Lives(Life { party, members }) => {
                let Party { cluster, node, incarnation } = party;
                let cluster = cluster.map_or_else(|| "-".to_owned(), |cluster| cluster.to_string());
                let members: String = members.iter().map(|(host, port)| format!(" {host} {port}")).collect();
                format!("lives {node} {incarnation} {cluster}{members}\n")
            }
        }
    }

    /// A line without its end. None: it is none that this build knows.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        match words.next()? {
            "serves" => Some(Self::Serves),
            "belongs" => Some(Self::Belongs(words.next()?.to_owned())),
            "owns" => Some(Self::Owns(words.next()?.parse().ok()?)),
            "lives" => {
                let (node, incarnation) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let cluster: Option<ClusterId> = match words.next()? {
                    "-" => None,
                    cluster => Some(cluster.parse().ok()?),
                };
                let mut members = Vec::new();
                while let Some(host) = words.next() {
                    members.push((host.to_owned(), words.next()?.parse().ok()?));
                }
                Some(Self::Lives(Life { party: Party { cluster, node, incarnation }, members }))
            }
            _ => None,
        }
    }
}

/// The child's end.
struct Link {
    pipe: Mutex<File>,
    number: String,
    /// The last life that it has said.
    said: Mutex<Option<Life>>,
    /// True if the node owns slots, as it has last said.
    owns: Mutex<Option<bool>>,
    /// True once the process has said that it belongs to a cluster.
    belongs: AtomicBool,
    /// The socket at which its agent asks it.
    door: Option<UnixListener>,
    /// The life, before the map is known.
    life: OnceLock<(NodeId, u64)>,
}

static LINK: OnceLock<Option<Link>> = OnceLock::new();

fn link() -> Option<&'static Link> {
    LINK.get().and_then(Option::as_ref)
}

/// True if an agent has started this process.
pub fn is_child() -> bool {
    env::var_os(ENVIRONMENT).is_some()
}

/// Takes what the agent has handed down: sockets become listeners where their addresses are asked for. Once, before there
/// are threads. Does nothing in a process without an agent.
pub fn begin() {
    let begun = || {
        let text = env::var(ENVIRONMENT).ok()?;
        let mut words = text.split(' ');
        let (pipe, number) = (words.next()?.parse::<RawFd>().ok()?, words.next()?.to_owned());
        let door = words.next()?.parse::<RawFd>().ok().map(|fd| UnixListener::from(taken_over(fd)));
        let sockets = words.next().unwrap_or_default().split(',').filter_map(|fd| fd.parse::<RawFd>().ok());
        net::inherit(sockets.map(|fd| TcpListener::from(taken_over(fd))).collect());
        // An agent that does not read must not stop this process.
        set_nonblocking(pipe).ok()?;
        let pipe = File::from(taken_over(pipe));
        let (said, life, owns, belongs) = Default::default();
        Some(Link { pipe: Mutex::new(pipe), number, said, owns, belongs, door, life })
    };
    LINK.get_or_init(begun);
}

/// The name of this process among those of its machine; empty without an agent.
pub fn name() -> &'static str {
    link().map_or("", |link| &link.number)
}

/// The socket at which the agent asks for metrics and for the cluster; `None` without an agent.
pub fn door() -> Option<UnixListener> {
    link()?.door.as_ref()?.try_clone().ok()
}

fn say(link: &Link, said: &Said) {
    let mut pipe = link.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = pipe.write_all(said.line().as_bytes()) {
        tracing::debug!("the agent is not told: {error}");
    }
}

/// This process is this life of a node from now on.
pub fn lives(node: NodeId, incarnation: u64) {
    if let Some(link) = link() {
        let _ = link.life.set((node, incarnation));
    }
}

/// Tells the agent where members are, which life this is, whether it owns slots, and that it belongs to a cluster, if the
/// map has news of that.
pub fn heed(map: &Map) {
    let Some((link, (node, incarnation))) = link().and_then(|link| Some((link, *link.life.get()?))) else { return };
    let mut members: Vec<_> = map.members().filter(|member| !member.lost && !member.host.contains(' ')).collect();
    // One that votes may lead, or knows what does.
    members.sort_by_key(|member| !member.voter);
    let members = members.into_iter().take(MEMBERS_MAX);
    let members = members.map(|member| (member.host.clone(), member.bus_port)).collect();
    let life = Life { party: Party { cluster: map.cluster(), node, incarnation }, members };
    let mut said = link.said.lock().unwrap_or_else(PoisonError::into_inner);
    if said.as_ref() != Some(&life) {
        say(link, &Said::Lives(life.clone()));
        *said = Some(life);
    }
    let owns = map.index_of(node).is_some_and(|index| map.slots_of(index) > 0);
    // An earlier process of this one, before an `exec`, may have said otherwise.
    if link.owns.lock().unwrap_or_else(PoisonError::into_inner).replace(owns) != Some(owns) {
        say(link, &Said::Owns(owns));
    }
    if let Some(host) = host_for_votes(map, node)
        && !link.belongs.swap(true, SeqCst)
    {
        say(link, &Said::Belongs(host.to_owned()));
    }
}

/// The host by which others know this node, if a log-server of its machine may join the cluster and vote.
///
/// Below that level a build may come back whose agents start none: its vote would be gone.
fn host_for_votes(map: &Map, node: NodeId) -> Option<&str> {
    map.cluster().filter(|_| map.level() >= level::HOST_VOTES)?;
    map.member(node).map(|member| member.host.as_str()).filter(|host| !host.is_empty() && !host.contains(' '))
}

/// This process accepts connections.
pub fn serves() {
    if let Some(link) = link() {
        say(link, &Said::Serves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_is_read() {
        let party = |cluster| Party { cluster, node: NodeId([7; 20]), incarnation: 9 };
        let members = vec![("10.0.0.1".to_owned(), 16379), ("fe80::1".to_owned(), 1)];
        for life in
            [Life { party: party(None), members: Vec::new() }, Life { party: party(Some(ClusterId([8; 20]))), members }]
        {
            let said = Said::Lives(life);
            let line = said.line();
            assert_eq!(Said::read(line.strip_suffix('\n').unwrap()), Some(said));
        }
        for said in [Said::Serves, Said::Owns(true), Said::Owns(false), Said::Belongs("fe80::1".to_owned())] {
            assert_eq!(Said::read(said.line().trim_end()), Some(said));
        }
        for other in ["", "lives", "lives x 1 -", "lives 07 1 - host", "owns", "owns much", "belongs", "dances"] {
            assert_eq!(Said::read(other), None, "{other}");
        }
    }
    /// Before `finalize` nothing has happened that an earlier build could not go on with.
    #[test]
    fn no_log_server_joins_a_cluster_below_its_level() {
        let (id, host) = (NodeId([7; 20]), "10.0.0.1".to_owned());
        let member = membership::map::Node {
            id,
            host,
            number: 1,
            port: 6379,
            bus_port: 16379,
            client_port: 7379,
            incarnation: 1,
            epoch: 0,
            lost: false,
            level: level::HIGHEST,
            machine: "one".to_owned(),
            voter: true,
        };
        let of = |cluster, level| Map::new(cluster, 1, 1, vec![member.clone()], Vec::new()).with_level(level);
        let cluster = Some(ClusterId([8; 20]));
        assert_eq!(host_for_votes(&of(cluster, level::HOST_VOTES), id), Some("10.0.0.1"));
        assert_eq!(host_for_votes(&of(cluster, level::HOST_VOTES - 1), id), None);
        assert_eq!(host_for_votes(&of(None, level::HOST_VOTES), id), None);
        assert_eq!(host_for_votes(&of(cluster, level::HOST_VOTES), NodeId([9; 20])), None);
    }
}

//! A cluster of nodes in one process. Workers and sockets are real; the metadata is made up.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use membership::map::{Node as Member, Range};
use membership::{BootNs, ClusterId, Map, NodeId, SLOTS, Slot, level};
use net::{Driver, Links, Listener, Server, Speaks};
use node::cluster::{Cluster, Lease};
use node::config::{Live, Renames, Values};
use node::{Facts, MonoNs, Node, UnixMs};

struct Clock(Instant);

#[expect(clippy::disallowed_methods, reason = "this is where the real clocks enter")]
impl node::Clock for Clock {
    fn unix_ms(&self) -> UnixMs {
        UnixMs(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    /// A machine has been on for a while when a node starts.
    fn boot_ns(&self) -> BootNs {
        BootNs(10_000_000_000 + self.monotonic_ns().0)
    }

    fn thread_cpu_ns(&self) -> u64 {
        net::thread_cpu_ns()
    }
}

/// A lease that never ends.
struct Forever;

impl Lease for Forever {
    fn until(&self) -> BootNs {
        BootNs::NEVER
    }

    fn reason(&self) -> String {
        String::new()
    }
}

/// A cluster that serves.
pub struct Nodes {
    /// The ports on which the nodes serve clients.
    pub ports: Vec<u16>,
    nodes: Vec<Arc<Node>>,
    servers: Vec<Server>,
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Takes the links that other nodes dial, for as long as the process lives.
fn take_links(bus: TcpListener, links: Links) {
    std::thread::spawn(move || {
        for stream in bus.incoming().map_while(Result::ok) {
            links.take(stream, "another").expect("a link");
        }
    });
}

impl Nodes {
    /// Starts `count` nodes with these settings each. The first listens on `port`, the others on the ports after it; 0:
    /// on any port.
    pub fn start(count: usize, driver: Driver, port: u16, settings: &[(&str, &str)]) -> io::Result<Nodes> {
        let at = |i: usize| if port == 0 { 0 } else { port + i as u16 };
        let listeners: Vec<TcpListener> = (0..count).map(|i| bind(at(i))).collect::<Result<_, _>>()?;
        let buses: Vec<TcpListener> = (0..count).map(|_| bind(0)).collect::<Result<_, _>>()?;
        let ports = |of: &[TcpListener]| -> io::Result<Vec<u16>> {
            of.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
        };
        let (client_ports, bus_ports) = (ports(&listeners)?, ports(&buses)?);
        let members: Vec<Member> = (0..count)
            .map(|i| Member {
                id: NodeId([i as u8 + 1; 20]),
                number: i as u32 + 1,
                host: "127.0.0.1".into(),
                port: client_ports[i],
                bus_port: bus_ports[i],
                client_port: 0,
                incarnation: 1,
                epoch: 1,
                lost: false,
                level: level::HIGHEST,
                machine: String::new(),
                voter: true,
            })
            .collect();
        let first = |i: usize| (SLOTS * i / count) as u16;
        let range = |i: usize| Range {
            start: Slot::of(first(i)),
            end: Slot::of((SLOTS * (i + 1) / count - 1) as u16),
            node: i as u16,
        };
        let addresses: BTreeMap<NodeId, u16> = members.iter().map(|member| (member.id, member.bus_port)).collect();
        let map = Map::new(Some(ClusterId([9; 20])), 1, 1, members, (0..count).map(range).collect())
            .with_level(level::HIGHEST);
        let map = Arc::new(map);
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for (i, (listener, bus)) in listeners.into_iter().zip(buses).enumerate() {
            let mut values = Values::default();
            for (name, value) in settings {
                values.set(name, value.as_bytes()).map_err(io::Error::other)?;
            }
            let live = Arc::new(Live::new(values, None, Renames::default()));
            let workers = live.settings().workers.max(1);
            #[expect(clippy::disallowed_methods, reason = "this is where the real clocks enter")]
            let clock = Arc::new(Clock(Instant::now()));
            let node = Node::new(live, clock, workers, 7, Facts::default());
            node.join(Cluster::new(NodeId([i as u8 + 1; 20]), 1, BootNs::default(), map.clone(), Box::new(Forever)));
            listener.set_nonblocking(true)?;
            let links = Links::new(node.clone());
            let (asked, addresses) = (links.clone(), addresses.clone());
            links.on_dial(move |node, tag| {
                let address = SocketAddr::from(([127, 0, 0, 1], addresses[&node]));
                match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                    Ok(stream) => asked.dialed(tag, stream),
                    Err(error) => asked.failed(tag, &error.to_string()),
                }
            });
            let listeners = vec![Listener::Tcp(listener, false, Speaks::Plain)];
            let server = Server::start(node.clone(), listeners, driver, i as u64, &links, drop)?;
            take_links(bus, links);
            nodes.push(node);
            servers.push(server);
        }
        Ok(Nodes { ports: client_ports, nodes, servers })
    }

    /// Stops all nodes.
    pub fn stop(self) -> io::Result<()> {
        self.nodes.iter().for_each(|node| node.stop());
        self.servers.into_iter().try_for_each(Server::join)
    }
}

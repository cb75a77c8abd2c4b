//! The port of smart clients, which find the owner of a key by themselves, as clients of Redis Cluster do.

use crate::config::Settings;

/// The distance from `port` to the port for smart clients, if `cluster-client-port` names none.
const ABOVE: u16 = 1000;

impl Settings {
    /// True if a server with these settings is a node of a cluster.
    pub fn takes_part_in_cluster(&self) -> bool {
        self.cluster_enabled || !self.cluster_seeds.is_empty()
    }

    /// The port where this node listens for smart clients; 0: none.
    pub fn port_for_smart_clients(&self) -> u16 {
        match u16::try_from(self.cluster_client_port) {
            _ if !self.takes_part_in_cluster() => 0,
            Ok(port) => port,
            Err(_) if self.port_of_clients() == 0 => 0,
            Err(_) => self.port_of_clients().checked_add(ABOVE).unwrap_or(0),
        }
    }

    /// The port that other nodes and tools know this server by: that of clients without TLS, if there is one.
    pub fn port_of_clients(&self) -> u16 {
        if self.port == 0 { self.tls_port } else { self.port }
    }
}

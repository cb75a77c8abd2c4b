//! The port of smart clients, which find the owner of a key by themselves, as clients of Redis Cluster do.

use ::membership::map::Node;

use crate::config::{Settings, seeds};

/// The distance from `port` to the port for smart clients, if `cluster-client-port` names none.
const ABOVE: u16 = 1000;

impl Settings {
    /// True if a server with these settings is a node of a cluster.
    pub fn takes_part_in_cluster(&self) -> bool {
        self.cluster_enabled || !self.cluster_seeds.is_empty()
    }

    /// How many nodes of a cluster that forms get slots; 0: all of them.
    pub fn shards_of_new_cluster(&self) -> u16 {
        match (self.cluster_shards, self.cluster_copies) {
            // Those that form it are its seeds: one node of each machine.
            (0, 2..) => seeds(&self.cluster_seeds).map_or(1, |seeds| seeds.len().clamp(1, 1000) as u16),
            (shards, _) => shards,
        }
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

    /// The port at which a client reaches another node.
    ///
    /// Nodes know one port of each other. Where that is `port`, a client that speaks TLS is told the one that lies as far
    /// from it as `tls-port` does here.
    pub fn port_at(&self, node: &Node, tls: bool) -> u16 {
        let port = node.port_for_smart_clients();
        if !tls || node.client_port != 0 || self.port == 0 || self.tls_port == 0 {
            return port;
        }
        port.wrapping_add(self.tls_port).wrapping_sub(self.port)
    }
}

#[cfg(test)]
mod tests {
    use ::membership::NodeId;
    use ::membership::level;

    use super::*;

    fn node(port: u16, client_port: u16) -> Node {
        Node {
            id: NodeId([1; 20]),
            number: 1,
            host: String::new(),
            port,
            bus_port: 0,
            client_port,
            incarnation: 1,
            epoch: 1,
            lost: false,
            level: level::FIRST,
            machine: String::new(),
            voter: true,
        }
    }

    #[test]
    fn clients_with_tls_are_told_a_port_as_far_off_as_here() {
        let both = Settings { port: 7000, tls_port: 8000, ..Settings::default() };
        assert_eq!([false, true].map(|tls| both.port_at(&node(7001, 0), tls)), [7001, 8001]);
        // That port speaks either.
        assert_eq!([false, true].map(|tls| both.port_at(&node(7001, 9001), tls)), [9001, 9001]);
        // The only port that there is.
        let one = Settings { port: 0, tls_port: 8000, ..Settings::default() };
        assert_eq!(one.port_at(&node(8001, 0), true), 8001);
        let plain = Settings { port: 7000, tls_port: 0, ..Settings::default() };
        assert_eq!(plain.port_at(&node(7001, 0), true), 7001);
    }
}

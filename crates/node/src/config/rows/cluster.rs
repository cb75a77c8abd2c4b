//! The cluster.

use super::common::{NO_CLUSTER, PORT, ULONG_MAX, between, int};
use crate::config::check;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

pub(super) static SECTION: Section = Section {
    title: "Cluster",
    rows: &[
        row(
            "cluster-enabled",
            Kind::Bool,
            "no",
            "Whether this server is a node of a cluster; `cluster-seeds` implies it.",
        )
        .immutable(),
        row(
            "cluster-seeds",
            Kind::OptionalText,
            "",
            "Addresses of some nodes of an existing cluster, or of all nodes that are to form a new one: \
             host:port[@cluster-port], separated by commas.",
        )
        .check(check::seeds)
        .immutable()
        .own(),
        row(
            "cluster-secret",
            Kind::OptionalText,
            "",
            "Secret that all nodes of the cluster share. Nodes prove to each other that they know it.",
        )
        .sensitive()
        .immutable()
        .own(),
        row("cluster-config-file", Kind::Text, "nodes.conf", "File in which the node keeps its view of the cluster.")
            .immutable()
            .inert(NO_CLUSTER),
        row(
            "cluster-node-timeout",
            super::common::long(0),
            "15000",
            "Milliseconds of silence after which a node is down.",
        )
        .inert(NO_CLUSTER),
        row("cluster-port", PORT, "0", "Port for other nodes; 0 for `port` + 10000.").immutable(),
        row(
            "cluster-client-port",
            between(-1, 65535),
            "-1",
            "Port for cluster clients: those that find the owner of a key themselves and ask every node. CLUSTER \
             SLOTS names this port. A client at it is answered for this node alone; a client at `port` sees all \
             nodes as one server. -1 for `port` + 1000. 0 for none: then CLUSTER SLOTS names `port`.",
        )
        .own()
        .immutable(),
        row(
            "cluster-announce-client-port",
            PORT,
            "0",
            "Port that CLUSTER SLOTS names instead of `cluster-client-port`, for networks that translate ports; 0 \
             for the same.",
        )
        .own()
        .immutable(),
        row(
            "cluster-announce-ip",
            Kind::OptionalText,
            "",
            "Address that the node announces. A change holds from the next start.",
        ),
        row("cluster-announce-hostname", Kind::OptionalText, "", "Host name to announce.")
            .check(check::host_name)
            .inert(NO_CLUSTER),
        row("cluster-announce-human-nodename", Kind::OptionalText, "", "Name of the node in logs.")
            .check(check::node_name)
            .inert(NO_CLUSTER),
        row("cluster-announce-port", PORT, "0", "Port to announce.").inert(NO_CLUSTER),
        row("cluster-announce-tls-port", PORT, "0", "TLS port to announce.").inert(NO_CLUSTER),
        row("cluster-announce-bus-port", PORT, "0", "Port for other nodes to announce.").inert(NO_CLUSTER),
        row(
            "cluster-preferred-endpoint-type",
            Kind::Enum(&["ip", "hostname", "unknown-endpoint"]),
            "ip",
            "Kind of the address that clients are told to connect to.",
        )
        .inert(NO_CLUSTER),
        row("cluster-require-full-coverage", Kind::Bool, "yes", "Refuse commands while slots are missing.")
            .inert(NO_CLUSTER),
        row("cluster-allow-reads-when-down", Kind::Bool, "no", "Answer reads while slots are missing.")
            .inert(NO_CLUSTER),
        row("cluster-allow-pubsubshard-when-down", Kind::Bool, "yes", "Serve shard channels while slots are missing.")
            .inert(NO_CLUSTER),
        row("cluster-replica-no-failover", Kind::Bool, "no", "Never take over from the master.")
            .alias("cluster-slave-no-failover")
            .inert(NO_CLUSTER),
        row("cluster-replica-validity-factor", int(0), "10", "How old the data of a replica may be to take over.")
            .alias("cluster-slave-validity-factor")
            .inert(NO_CLUSTER),
        row("cluster-allow-replica-migration", Kind::Bool, "yes", "Replicas may move to masters without any.")
            .inert(NO_CLUSTER),
        row("cluster-migration-barrier", int(0), "1", "Replicas a master keeps when others move.").inert(NO_CLUSTER),
        row(
            "cluster-link-sendbuf-limit",
            Kind::Memory { min: 0, max: ULONG_MAX },
            "0",
            "Bytes waiting for another node that end the link; 0 for no limit.",
        )
        .inert(NO_CLUSTER),
        row(
            "cluster-host",
            Kind::OptionalText,
            "",
            "Name of the machine that the node runs on. Nodes with one name fail together: the nodes that vote on the \
             metadata are spread over machines. Default: a name in `dir` that is made from the running kernel's boot, so \
             that all processes of a machine count as one.",
        )
        .check(check::host_name)
        .own()
        .immutable(),
        row(
            "cluster-copies",
            between(1, 7),
            "1",
            "Copies of each shard's data that the cluster is to have, on as many machines, the owner's included. Above 1 \
             the server is a parent whose child processes are this machine's nodes, and the cluster finds places for logs \
             and standbys by itself. The same on all machines.",
        )
        .own()
        .immutable(),
        row(
            "cluster-shards",
            between(0, 1000),
            "0",
            "Shards of a cluster that is about to form: so many of its first nodes share the slots. 0: all \
             that form it, which are those that `cluster-seeds` names. The same on all machines.",
        )
        .own()
        .immutable(),
        row(
            "cluster-redirect",
            Kind::Enum(&["forward", "moved"]),
            "forward",
            "Answer to a client at `port` for a key of another node: the reply, or -MOVED with the address of that node.",
        )
        .cluster()
        .own(),
        row(
            "cluster-takeover-wait",
            super::common::between(0, 60_000),
            "2500",
            "Milliseconds for which commands wait for a node that restarts, or whose keys another node takes over. After \
             that they are refused. Some clients give up after 2000 (Jedis) or 3000 (go-redis).",
        )
        .cluster()
        .own(),
        row(
            "cluster-lock-timeout",
            super::common::long(0),
            "5000",
            "Milliseconds for which clients wait for a transaction over nodes whose node does not answer. After that a \
             command that needs its locked keys is refused. The transaction's own client is disconnected then if the \
             node cannot be reached. At least 2000; 0: no limit.",
        )
        .cluster()
        .own(),
        row(
            "cluster-lease",
            between(300, 60_000),
            "2000",
            "Milliseconds for which a node may serve its slots without hearing from the leader of the metadata. Shorter: \
             the others replace a lost node sooner. Longer: a starved machine keeps its slots. The same at all nodes.",
        )
        .own()
        .immutable(),
        row("cluster-ping-interval", super::common::long(0), "0", "Milliseconds between pings; 0 for the default.")
            .hidden()
            .inert(NO_CLUSTER),
    ],
};

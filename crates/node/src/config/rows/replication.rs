//! Replication.

use super::common::{NO_REPLICATION, PORT, int, memory};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

pub(super) static SECTION: Section = Section {
    title: "Replication",
    rows: &[
        row("replicaof", Kind::Special(Special::ReplicaOf), "no one", "Master to replicate: HOST PORT.")
            .alias("slaveof")
            .immutable()
            .refused(NO_REPLICATION),
        row("masterauth", Kind::OptionalText, "", "Password to give to the master.")
            .alias("primaryauth")
            .sensitive()
            .inert(NO_REPLICATION),
        row("masteruser", Kind::OptionalText, "", "User to give to the master.")
            .alias("primaryuser")
            .sensitive()
            .inert(NO_REPLICATION),
        row("replica-serve-stale-data", Kind::Bool, "yes", "Answer while the master is away.")
            .alias("slave-serve-stale-data")
            .inert(NO_REPLICATION),
        row("replica-read-only", Kind::Bool, "yes", "Refuse writes on a replica.")
            .alias("slave-read-only")
            .inert(NO_REPLICATION),
        row("replica-lazy-flush", Kind::Bool, "no", "Empty a replica in the background.")
            .alias("slave-lazy-flush")
            .inert(NO_REPLICATION),
        row("replica-priority", int(0), "100", "Order in which replicas are chosen as master.")
            .alias("slave-priority")
            .inert(NO_REPLICATION),
        row(
            "replica-max-staleness",
            super::common::long(0),
            "1000",
            "A standby answers reads of connections that have sent READONLY while it has everything that was written this \
             many milliseconds ago, and forwards them to the owner otherwise. The owner says 20 times a second how far \
             its log is. 0: all are forwarded.",
        )
        .own(),
        row("replica-announced", Kind::Bool, "yes", "Whether Sentinel may report this replica.").inert(NO_REPLICATION),
        row("replica-announce-ip", Kind::OptionalText, "", "Address to announce to the master.")
            .alias("slave-announce-ip")
            .inert(NO_REPLICATION),
        row("replica-announce-port", PORT, "0", "Port to announce to the master.")
            .alias("slave-announce-port")
            .inert(NO_REPLICATION),
        row("replica-ignore-disk-write-errors", Kind::Bool, "no", "Go on although the disk refuses writes.")
            .inert(NO_REPLICATION),
        row("min-replicas-to-write", int(0), "0", "Replicas that must be there for writes to be taken.")
            .alias("min-slaves-to-write")
            .refused(NO_REPLICATION),
        row("min-replicas-max-lag", int(0), "10", "Seconds of silence after which a replica does not count.")
            .alias("min-slaves-max-lag")
            .inert(NO_REPLICATION),
        row("repl-timeout", int(1), "60", "Seconds of silence after which a link is closed.").inert(NO_REPLICATION),
        row("repl-ping-replica-period", int(1), "10", "Seconds between pings to replicas.")
            .alias("repl-ping-slave-period")
            .inert(NO_REPLICATION),
        row("repl-disable-tcp-nodelay", Kind::Bool, "no", "Fewer, larger packets to replicas.").inert(NO_REPLICATION),
        row("repl-backlog-size", memory(1), "1mb", "Bytes kept for replicas that come back.").inert(NO_REPLICATION),
        row("repl-backlog-ttl", super::common::long(0), "3600", "Seconds these are kept without replicas.")
            .inert(NO_REPLICATION),
        row("repl-diskless-sync", Kind::Bool, "yes", "Send snapshots without a file.").inert(NO_REPLICATION),
        row("repl-diskless-sync-delay", int(0), "5", "Seconds to wait for more replicas.")
            .inert(NO_REPLICATION)
            .harmless("0"),
        row("repl-diskless-sync-max-replicas", int(0), "0", "Replicas to wait for at most.").inert(NO_REPLICATION),
        row(
            "repl-diskless-load",
            Kind::Enum(&["disabled", "on-empty-db", "swapdb"]),
            "disabled",
            "Load snapshots without a file.",
        )
        .deny_loading()
        .inert(NO_REPLICATION),
        row(
            "propagation-error-behavior",
            Kind::Enum(&["ignore", "panic", "panic-on-replicas"]),
            "ignore",
            "What to do when replaying a command fails.",
        )
        .inert(NO_REPLICATION)
        .harmless("panic"),
    ],
};

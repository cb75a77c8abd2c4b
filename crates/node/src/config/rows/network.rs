//! Listening, connections, workers.

use super::common::{PORT, between, int};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

pub(super) static SECTION: Section = Section {
    title: "Network and workers",
    rows: &[
        row(
            "bind",
            Kind::Special(Special::Bind),
            "* -::*",
            "Addresses to listen on; `*` for all, `-` before one that may be missing.",
        ),
        row("port", PORT, "6379", "TCP port to listen on; 0 for none."),
        row("workers", between(0, 1024), "0", "Most worker threads; 0 for one per processor core.").own().immutable(),
        row(
            "io-driver",
            Kind::Enum(&["auto", "epoll", "io_uring"]),
            "auto",
            "How workers talk to the kernel; `auto` takes io_uring where the kernel allows it.",
        )
        .own()
        .immutable(),
        row(
            "metrics-port",
            PORT,
            "0",
            "TCP port of the HTTP endpoint for Prometheus, /healthz and /readyz; 0 for none.",
        )
        .own()
        .immutable(),
        row(
            "metrics-bind",
            Kind::Text,
            "127.0.0.1",
            "Address of that endpoint, which asks for no password; `*` for all.",
        )
        .own()
        .immutable(),
        row(
            "sentinel-port",
            PORT,
            "0",
            "TCP port at which clients of Redis Sentinel are answered, without a password; 0 for none.",
        )
        .own()
        .immutable(),
        row(
            "sentinel-master-name",
            Kind::Text,
            "mymaster",
            "The name by which they ask for a node that serves; `shard-N` is the owner of a shard.",
        )
        .own()
        .immutable(),
        row("tcp-backlog", int(0), "511", "Connections that the kernel keeps waiting to be accepted.").immutable(),
        row("tcp-keepalive", int(0), "300", "Seconds of silence before the kernel probes a connection; 0 for never."),
        row("timeout", int(0), "0", "Seconds after which an idle client is disconnected; 0 for never.").cluster(),
        row("unixsocket", Kind::OptionalText, "", "Path of a Unix socket to listen on as well.").immutable(),
        row(
            "unixsocketperm",
            Kind::Octal { max: 0o777 },
            "0",
            "File mode of the Unix socket; 0 leaves it to the umask.",
        )
        .immutable(),
        row("protected-mode", Kind::Bool, "yes", "Without a password, refuse clients that are not on this machine."),
        row("max-new-connections-per-cycle", between(1, 1000), "10", "Connections a worker accepts in one turn.")
            .inert("all that wait are accepted"),
        row("bind-source-addr", Kind::OptionalText, "", "Address from which outgoing connections are made.")
            .inert("links to other nodes leave from whichever address the system chooses"),
        row("socket-mark-id", between(0, u32::MAX as i128), "0", "Mark that the kernel puts on packets; 0 for none.")
            .immutable()
            .inert("sockets are not marked"),
        row("io-threads", between(1, 128), "1", "Redis's threads for reading and writing.")
            .immutable()
            .inert("every worker reads and writes: see `workers`"),
        row("io-threads-do-reads", Kind::Bool, "no", "Whether Redis's threads also read.")
            .immutable()
            .inert("every worker reads and writes: see `workers`"),
    ],
};

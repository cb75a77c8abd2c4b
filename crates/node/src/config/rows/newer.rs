//! Settings of Redis 8.8 and Valkey 9 that have nothing to act on: known, so that files written for those servers work.

use super::common::{LONG_MAX, NO_CLUSTER, NO_LOG, NO_REPLICATION, PORT, between, int, long, memory};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::slot_stats;

const NO_ARRAYS: &str = "the array type is not there";
const NO_COMMANDLOG: &str = "COMMANDLOG is not there; SLOWLOG is";
const NO_IDMP: &str = "streams do not know IDMP yet";
const NO_RDMA: &str = "clients come by TCP and Unix sockets only";
const NO_MIGRATION: &str = "slots do not move as in Redis";
const READS_AHEAD: &str = "a worker parses and prefetches what has arrived, up to 64 commands at once";
const LOG_FORMAT: &str = "the log has one format";

pub(super) static SECTION: Section = Section {
    title: "Known, without effect",
    rows: &[
        row("repl-rdb-channel", Kind::Bool, "yes", "Send snapshots by a connection of their own.")
            .inert(NO_REPLICATION),
        row("dual-channel-replication-enabled", Kind::Bool, "no", "The same, in Valkey.").inert(NO_REPLICATION),
        row("replica-full-sync-buffer-limit", memory(0), "0", "Bytes kept for a replica while it loads a snapshot.")
            .inert(NO_REPLICATION),
        row("repl-mptcp", Kind::Bool, "no", "Whether replication links use multipath TCP.")
            .immutable()
            .inert(NO_REPLICATION),
        row("mptcp", Kind::Bool, "no", "Whether clients may use multipath TCP.").immutable().inert(NO_RDMA),
        row("rdma-bind", Kind::OptionalText, "", "Addresses to listen on for RDMA.").inert(NO_RDMA),
        row("rdma-port", PORT, "0", "Port to listen on for RDMA; 0 for none.").inert(NO_RDMA),
        row("rdma-rx-size", between(64 << 10, 16 << 20), "1048576", "Bytes of an RDMA receive buffer.")
            .immutable()
            .inert(NO_RDMA),
        row("rdma-completion-vector", between(-1, 1024), "-1", "Completion vector of RDMA.").immutable().inert(NO_RDMA),
        row("unixsocketgroup", Kind::OptionalText, "", "Group of the Unix socket.")
            .immutable()
            .inert("the socket belongs to the group of the process"),
        row("tls-auto-reload-interval", int(0), "0", "Seconds between looks at certificates.")
            .inert("the files are looked at every second"),
        row(slot_stats::NAME, slot_stats::WORDS, "no", "Statistics of slots for CLUSTER SLOT-STATS; `mem` keeps none."),
        row("cluster-compatibility-sample-ratio", between(0, 100), "0", "Commands looked at for use in a cluster.")
            .inert("a cluster takes all commands"),
        row("cluster-slot-migration-max-archived-tasks", int(1), "32", "Moves of slots remembered.")
            .hidden()
            .inert(NO_MIGRATION),
        row("cluster-slot-migration-handoff-max-lag-bytes", memory(0), "1mb", "Bytes behind at which a move ends.")
            .inert(NO_MIGRATION),
        row("cluster-slot-migration-write-pause-timeout", long(0), "10000", "Longest pause of writes by a move.")
            .inert(NO_MIGRATION),
        row("cluster-slot-migration-sync-buffer-drain-timeout", long(0), "60000", "Longest wait of a move.")
            .hidden()
            .inert(NO_MIGRATION),
        row("cluster-slot-migration-log-max-len", long(0), "1000", "Moves of slots remembered, in Valkey.")
            .inert(NO_MIGRATION),
        row(
            "slot-migration-max-failover-repl-bytes",
            Kind::Memory { min: 0, max: LONG_MAX },
            "0",
            "Bytes behind at which a move ends, in Valkey.",
        )
        .inert(NO_MIGRATION),
        row("cluster-databases", int(1), "1", "Databases of a cluster.")
            .immutable()
            .inert("a cluster has as many databases as a server"),
        row("cluster-announce-client-ipv4", Kind::OptionalText, "", "IPv4 address that clients are told.")
            .inert(NO_CLUSTER),
        row("cluster-announce-client-ipv6", Kind::OptionalText, "", "IPv6 address that clients are told.")
            .inert(NO_CLUSTER),
        row("cluster-announce-client-tls-port", PORT, "0", "TLS port that clients are told.").inert(NO_CLUSTER),
        row("cluster-config-save-behavior", Kind::Enum(&["sync", "best-effort"]), "sync", "When nodes.conf is synced.")
            .inert(NO_CLUSTER),
        row("cluster-message-gossip-perc", between(1, 100), "10", "Nodes gossiped about.").hidden().inert(NO_CLUSTER),
        row("cluster-blacklist-ttl", long(0), "60", "Seconds for which a forgotten node stays out.").inert(NO_CLUSTER),
        row("cluster-manual-failover-timeout", int(1), "5000", "Milliseconds of a manual failover.")
            .inert(NO_REPLICATION),
        row("availability-zone", Kind::Text, "", "Name of the zone that the server is in.").inert(NO_REPLICATION),
        row("hash-seed", Kind::OptionalText, "", "Seed of hash tables.")
            .immutable()
            .inert("the seed is chosen once for all data of the server"),
        row("prefetch-batch-max-size", between(0, 128), "16", "Commands prefetched at once.").inert(READS_AHEAD),
        row("lookahead", int(1), "16", "Commands parsed ahead of the one that runs.").inert(READS_AHEAD),
        row("io-threads-always-active", Kind::Bool, "no", "Keep threads awake.")
            .hidden()
            .inert("workers sleep when there is nothing to do"),
        row("min-io-threads-avoid-copy-reply", int(0), "7", "Threads from which replies share values.")
            .hidden()
            .inert("replies share large values always"),
        row("min-string-size-avoid-copy-reply", int(0), "16384", "Bytes from which replies share values.")
            .hidden()
            .inert("replies share large values always"),
        row("min-string-size-avoid-copy-reply-threaded", int(0), "65536", "The same, with threads.")
            .hidden()
            .inert("replies share large values always"),
        row(
            "lazyexpire-nested-arbitrary-keys",
            Kind::Bool,
            "yes",
            "Delete expired keys that a script finds by chance.",
        )
        .hidden()
        .inert("expired keys are gone before a command runs"),
        row("key-memory-histograms", Kind::Bool, "no", "Show histograms of keys' memory in INFO keysizes.")
            .inert("INFO keysizes counts elements only"),
        row("array-slice-size", between(256, 65536), "4096", "Elements of a slice of an array.").inert(NO_ARRAYS),
        row("array-sparse-kmax", between(0, 256), "10", "Elements from which a slice is dense.").inert(NO_ARRAYS),
        row("array-sparse-kmin", between(0, 256), "5", "Elements below which a slice is sparse.").inert(NO_ARRAYS),
        row("stream-idmp-duration", between(1, 86_400), "100", "Seconds for which entries' ids are remembered.")
            .inert(NO_IDMP),
        row("stream-idmp-maxsize", between(1, 10_000), "100", "Entries' ids remembered.").inert(NO_IDMP),
        row("aof-load-corrupt-tail-max-size", long(0), "0", "Bytes cut from a damaged file.").inert(NO_LOG),
        row("rdb-version-check", Kind::Enum(&["strict", "relaxed"]), "strict", "Whether newer files are read.")
            .inert("a file of a newer version is refused"),
        row("commandlog-request-larger-than", long(-1), "1048576", "Bytes from which a request is kept.")
            .inert(NO_COMMANDLOG),
        row("commandlog-reply-larger-than", long(-1), "1048576", "Bytes from which a reply is kept.")
            .inert(NO_COMMANDLOG),
        row("commandlog-large-request-max-len", long(0), "128", "Large requests kept.").inert(NO_COMMANDLOG),
        row("commandlog-large-reply-max-len", long(0), "128", "Large replies kept.").inert(NO_COMMANDLOG),
        row("active-defrag-cycle-us", between(0, 100_000), "500", "Microseconds of a step of defragmentation.")
            .inert("steps are bounded by themselves"),
        row("log-format", Kind::Enum(&["legacy", "logfmt", "json"]), "legacy", "How lines of the log look.")
            .inert(LOG_FORMAT),
        row(
            "log-timestamp-format",
            Kind::Enum(&["legacy", "iso8601", "milliseconds"]),
            "legacy",
            "How times look in the log.",
        )
        .inert(LOG_FORMAT),
        row("import-mode", Kind::Bool, "no", "Keep expired keys while another server is copied.")
            .inert("CLIENT IMPORT-SOURCE is not there"),
        row("extended-redis-compatibility", Kind::Bool, "no", "Answer as an older Redis.").inert("see `compatibility`"),
        row("client-default-resp", between(2, 3), "2", "Protocol of a new connection.")
            .hidden()
            .immutable()
            .inert("it is 2"),
        row("req-res-logfile", Kind::OptionalText, "", "File for requests and replies.")
            .hidden()
            .immutable()
            .inert("there is no such file"),
        row("enable-debug-assert", Kind::Bool, "no", "Check more.").hidden().immutable().inert("the build decides"),
        row("debug-context", Kind::Text, "", "What a crash report shows.").hidden().inert("it is not shown"),
    ],
};

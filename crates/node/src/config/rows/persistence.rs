//! The log, snapshots, shutting down.

use super::common::{INT_MAX, NO_LOG, int, memory};
use crate::config::check;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

const ON_SIGNAL: Kind = Kind::Set(&["default", "save", "nosave", "now", "force"]);

pub(super) static LOG: Section = Section {
    title: "Durability",
    rows: &[
        row(
            "appendonly",
            Kind::Bool,
            "yes",
            "Whether writes go to a log, so that they survive a crash. After a change to `no`, log and store keep \
             their present contents, and a later start loads those. A change to `yes` replaces them with the \
             contents of memory. It is refused if they hold data that this server has not loaded.",
        )
        .shard(),
        row(
            "appendfsync",
            Kind::Enum(&["everysec", "always", "no"]),
            "always",
            "When the log is flushed to disk: before the reply, every second, or when the system wants.",
        )
        .shard(),
        row("log-dirs", Kind::Special(Special::LogDirs), "holdfast/log", "Directories of the log, with one stream in each.")
            .own()
            .immutable(),
        row("log-segment-size", Kind::Memory { min: 1 << 16, max: 1 << 30 }, "64mb", "Size of the log's files; at most an eighth of the value that `checkpoint-log-max` has at the start.")
            .own()
            .immutable(),
        row(
            "log-backlog",
            Kind::Memory { min: 1 << 16, max: 1 << 40 },
            "64mb",
            "Commands that write wait while more than this many bytes of records are not yet on the disk.",
        )
        .own(),
        row(
            "log-stall-timeout",
            super::common::between(0, 3600),
            "5",
            "Seconds after which a disk of the log that does not answer, or has no room for accepted records, \
             counts as stalled; 0: never. While it is stalled, commands that write are refused, and clients that \
             wait for it are disconnected.",
        )
        .own(),
        row(
            "standby-lag-max",
            super::common::memory(0),
            "64mb",
            "Bytes by which the nearest standby of this node's shard may be behind before commands that write are slowed \
             down to its speed; 0: any number.",
        )
        .own(),
        row(
            "standby-lag-max-ms",
            super::common::between(0, 600_000),
            "300",
            "The same in milliseconds: how much older is what the standby has applied than what is committed. 0: any \
             number.",
        )
        .own(),
        row(
            "log-pace",
            Kind::Text,
            "",
            "For experiments: the speed to which each disk of the log is slowed down, such as \"333us 125mb\" (time \
             of a sync, bytes per second).",
        )
        .own()
        .immutable()
        .check(check::log_pace),
        row("store", Kind::Text, "embedded", "Where checkpoints go: `embedded` or `s3://...`.")
            .own()
            .immutable()
            .refused("others than the embedded one are not built yet"),
        row("store-dir", Kind::Text, "holdfast/store", "Directory of the embedded store.").own().immutable(),
        row(
            "checkpoint-log-size",
            Kind::Memory { min: 1 << 20, max: 1 << 50 },
            "256mb",
            "Bytes of the log after which the next checkpoint begins; at half of `checkpoint-log-max` at the latest. \
             A record counts 64 bytes more than its size. An effect that needs the key's old value in a replay \
             counts 384 bytes more: those of SET and of counters need none.",
        )
        .own(),
        row(
            "checkpoint-log-max",
            Kind::Memory { min: 0, max: 1 << 50 },
            "512mb",
            "The most of the log that a start has to replay, counted as for `checkpoint-log-size`; 0: without \
             limit. Commands that write are slowed down so that a checkpoint ends in time; at the limit they wait \
             for its end.",
        )
        .own()
        .check(check::log_max),
        row("checkpoint-interval", int(0), "300", "Seconds after which a checkpoint begins if there were changes; 0: no checkpoints by time.")
            .own(),
        row("checkpoint-cpu", super::common::between(1, 100), "25", "Percent of a core that a checkpoint takes. It takes more where it would otherwise not end before the log reaches `checkpoint-log-max`. Without that limit it takes more the further the log has grown beyond `checkpoint-log-size`.")
            .own(),
        row(
            "warm-up-cpu",
            super::common::between(0, 100),
            "50",
            "Percent of a core that reading keys into memory may take after a start; 0: a key is read only when a \
             command needs it.",
        )
        .own(),
        row("appendfilename", Kind::Text, "appendonly.aof", "Name of the append-only file.")
            .check(check::append_file)
            .immutable()
            .inert(NO_LOG),
        row("appenddirname", Kind::Text, "appendonlydir", "Directory of the append-only files.")
            .check(check::append_dir)
            .immutable()
            .inert(NO_LOG),
        row("no-appendfsync-on-rewrite", Kind::Bool, "no", "Do not flush while the file is rewritten.").inert(NO_LOG),
        row("auto-aof-rewrite-percentage", int(0), "100", "Growth at which the file is rewritten, percent.")
            .inert(NO_LOG),
        row("auto-aof-rewrite-min-size", memory(0), "64mb", "Smallest file that is rewritten.").inert(NO_LOG),
        row("aof-load-truncated", Kind::Bool, "yes", "Start although the end of the file is missing.").inert(NO_LOG),
        row("aof-use-rdb-preamble", Kind::Bool, "yes", "Rewrite the file as a snapshot and a tail.").inert(NO_LOG),
        row("aof-timestamp-enabled", Kind::Bool, "no", "Write times into the file.").inert(NO_LOG),
        row("aof-rewrite-incremental-fsync", Kind::Bool, "yes", "Flush in parts while rewriting.").inert(NO_LOG),
        row("aof-disable-auto-gc", Kind::Bool, "no", "Keep files that are no longer needed.").hidden().inert(NO_LOG),
    ],
};

pub(super) static SNAPSHOTS: Section = Section {
    title: "Snapshots",
    rows: &[
        row(
            "save",
            Kind::Special(Special::Save),
            "3600 1 300 100 60 10000",
            "With `appendonly no`, save a snapshot after SECONDS with at least CHANGES, and when the server stops; \
             `\"\"` for never, as also where only the command line says `appendonly no` and nothing says `save`. With \
             `appendonly yes` and in a cluster it has no effect.",
        ),
        row(
            "dbfilename",
            Kind::Text,
            "dump.rdb",
            "Name of the snapshot file, in `dir`. A start with `appendonly no` loads it.",
        )
        .check(check::snapshot_file)
        .protected(),
        row(
            "rdbcompression",
            Kind::Bool,
            "yes",
            "Compress texts in the snapshot where that makes them shorter. `no` takes less CPU and more disk.",
        ),
        row(
            "rdbchecksum",
            Kind::Bool,
            "yes",
            "End the snapshot with a checksum, and check it when a start loads one. Without it, damage may not be noticed.",
        )
        .immutable(),
        row(
            "rdb-save-incremental-fsync",
            Kind::Bool,
            "yes",
            "Flush the snapshot to the disk every 4 MB while it is written, and not all of it at the end.",
        ),
        row("rdb-del-sync-files", Kind::Bool, "no", "Remove snapshots made only for replicas.")
            .inert("such a snapshot has no name, so that nothing is left of it")
            .harmless("yes"),
        row(
            "stop-writes-on-bgsave-error",
            Kind::Bool,
            "yes",
            "Where `save` points are in force, refuse writes from a failed snapshot until one succeeds.",
        ),
        row(
            "rdb-key-save-delay",
            super::common::between(i32::MIN as i128, INT_MAX),
            "0",
            "For tests: microseconds to wait per key of a snapshot; below 0: one for each so many keys, by chance.",
        )
        .hidden(),
        row(
            "key-load-delay",
            super::common::between(i32::MIN as i128, INT_MAX),
            "0",
            "For tests: microseconds to wait per key that a start loads; below 0: one for each so many keys.",
        )
        .hidden(),
        row(
            "loading-process-events-interval-bytes",
            super::common::between(1024, INT_MAX),
            "2097152",
            "Bytes loaded between two looks at the clients.",
        )
        .hidden()
        .inert("clients connect when the data is loaded"),
    ],
};

pub(super) static SHUTDOWN: Section = Section {
    title: "Shutting down",
    rows: &[
        row("shutdown-timeout", int(0), "10", "Seconds to wait for replicas when shutting down.")
            .inert(super::common::NO_REPLICATION),
        row("shutdown-on-sigint", ON_SIGNAL, "default", "What SIGINT does: as the options of SHUTDOWN.")
            .check(check::signal)
            .inert("a signal saves where `save` points are in force")
            .harmless("nosave"),
        row("shutdown-on-sigterm", ON_SIGNAL, "default", "What SIGTERM does: as the options of SHUTDOWN.")
            .check(check::signal)
            .inert("a signal saves where `save` points are in force")
            .harmless("force"),
    ],
};

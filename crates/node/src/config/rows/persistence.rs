//! The log, snapshots, shutting down.

use super::common::{INT_MAX, NO_LOG, NO_SNAPSHOTS, int, memory};
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
            "Whether writes go to a log, so that they survive a crash. Switched off, log and store stay as they are then, and a later start finds that; switched on, they begin anew with what memory holds, unless they hold what this server has not loaded: then that is refused.",
        ),
        row(
            "appendfsync",
            Kind::Enum(&["everysec", "always", "no"]),
            "always",
            "When the log is flushed to disk: before the reply, every second, or when the system wants.",
        ),
        row("log-dirs", Kind::Special(Special::LogDirs), "holdfast/log", "Directories of the log, one stream each.")
            .own()
            .immutable(),
        row("log-segment-size", Kind::Memory { min: 1 << 16, max: 1 << 30 }, "64mb", "Size of the files of the log; at most an eighth of `checkpoint-log-max` as it is at the start.")
            .own()
            .immutable(),
        row(
            "log-backlog",
            Kind::Memory { min: 1 << 16, max: 1 << 40 },
            "64mb",
            "While more than this has been left for the log and is not on the disk, commands that write wait.",
        )
        .own(),
        row(
            "log-stall-timeout",
            super::common::between(0, 3600),
            "5",
            "When a disk of the log has not answered for so many seconds, or has had no room for what was taken, commands that write are refused and clients that wait for it are closed, until it does; 0: never.",
        )
        .own(),
        row(
            "log-pace",
            Kind::Text,
            "",
            "For experiments: each disk of the log is as slow as this, such as \"333us 125mb\" (a sync, bytes a second).",
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
            "A checkpoint is made when so much has been written to the log since the last one began, each record counting 64 bytes more than it has, and an effect that does not say what it found (most do not, those of SET and of counters do) 384 bytes more; at half of `checkpoint-log-max` at the latest.",
        )
        .own(),
        row(
            "checkpoint-log-max",
            Kind::Memory { min: 0, max: 1 << 50 },
            "512mb",
            "A start replays at most so much of the log, counted in the same way: commands that write are slowed down, so that a checkpoint ends in time, and wait for its end; 0: without limit.",
        )
        .own()
        .check(check::log_max),
        row("checkpoint-interval", int(0), "300", "A checkpoint is made after so many seconds if anything has changed; 0: never for that.")
            .own(),
        row("checkpoint-cpu", super::common::between(1, 100), "25", "Percent of a core that a checkpoint takes, or as much as it needs to end before the log has grown to `checkpoint-log-max`; without that, more, the further the log has grown beyond `checkpoint-log-size`.")
            .own(),
        row(
            "warm-up-cpu",
            super::common::between(0, 100),
            "50",
            "Percent of a core that reading keys into memory may take after a start; 0: they are read only when they are needed.",
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
            "Save a snapshot after SECONDS with at least CHANGES; `\"\"` for never.",
        )
        .inert(NO_SNAPSHOTS)
        .harmless(""),
        row("dbfilename", Kind::Text, "dump.rdb", "Name of the snapshot file.")
            .check(check::snapshot_file)
            .protected()
            .inert(NO_SNAPSHOTS),
        row("rdbcompression", Kind::Bool, "yes", "Compress texts in the snapshot.").inert(NO_SNAPSHOTS),
        row("rdbchecksum", Kind::Bool, "yes", "Write and check a checksum.").immutable().inert(NO_SNAPSHOTS),
        row("rdb-save-incremental-fsync", Kind::Bool, "yes", "Flush in parts while saving.").inert(NO_SNAPSHOTS),
        row("rdb-del-sync-files", Kind::Bool, "no", "Remove snapshots made only for replicas.").inert(NO_SNAPSHOTS),
        row("stop-writes-on-bgsave-error", Kind::Bool, "yes", "Refuse writes after a snapshot failed.")
            .inert(NO_SNAPSHOTS)
            .harmless("no"),
        row(
            "rdb-key-save-delay",
            super::common::between(i32::MIN as i128, INT_MAX),
            "0",
            "Microseconds to wait per key.",
        )
        .hidden()
        .inert(NO_SNAPSHOTS),
        row(
            "key-load-delay",
            super::common::between(i32::MIN as i128, INT_MAX),
            "0",
            "Microseconds to wait per key loaded.",
        )
        .hidden()
        .inert(NO_SNAPSHOTS),
        row(
            "loading-process-events-interval-bytes",
            super::common::between(1024, INT_MAX),
            "2097152",
            "Bytes loaded between two looks at the clients.",
        )
        .hidden()
        .inert(NO_SNAPSHOTS),
    ],
};

pub(super) static SHUTDOWN: Section = Section {
    title: "Shutting down",
    rows: &[
        row("shutdown-timeout", int(0), "10", "Seconds to wait for replicas when shutting down.")
            .inert(super::common::NO_REPLICATION),
        row("shutdown-on-sigint", ON_SIGNAL, "default", "What SIGINT does: as the options of SHUTDOWN.")
            .check(check::signal)
            .inert(NO_SNAPSHOTS)
            .harmless("nosave"),
        row("shutdown-on-sigterm", ON_SIGNAL, "default", "What SIGTERM does: as the options of SHUTDOWN.")
            .check(check::signal)
            .inert(NO_SNAPSHOTS)
            .harmless("force"),
    ],
};

//! When small values become large ones.

use super::common::{INT_MAX, between, int, long, memory};
use crate::config::row::{Section, row};

pub(super) static SECTION: Section = Section {
    title: "Encodings",
    rows: &[
        row("hash-max-listpack-entries", long(0), "512", "Most fields of a hash kept as one compact block.")
            .cluster()
            .alias("hash-max-ziplist-entries"),
        row("hash-max-listpack-value", memory(0), "64", "Longest field or value in such a block, bytes.")
            .cluster()
            .alias("hash-max-ziplist-value"),
        row(
            "list-max-listpack-size",
            between(i32::MIN as i128, INT_MAX),
            "-2",
            "Most elements of a block of a list, or -1 to -5 for 4, 8, 16, 32, 64 KB.",
        )
        .cluster()
        .alias("list-max-ziplist-size"),
        row("list-compress-depth", int(0), "0", "Blocks at both ends of a list that stay uncompressed; 0 for all.")
            .inert("lists are not compressed"),
        row("set-max-intset-entries", long(0), "512", "Most integers of a set kept as a sorted array.").cluster(),
        row("set-max-listpack-entries", long(0), "128", "Most members of a set kept as one compact block.").cluster(),
        row("set-max-listpack-value", long(0), "64", "Longest member in such a block, bytes.").cluster(),
        row("zset-max-listpack-entries", long(0), "128", "Most members of a sorted set kept as one compact block.")
            .cluster()
            .alias("zset-max-ziplist-entries"),
        row("zset-max-listpack-value", memory(0), "64", "Longest member in such a block, bytes.")
            .cluster()
            .alias("zset-max-ziplist-value"),
        row("hll-sparse-max-bytes", memory(0), "3000", "Most bytes of a sparse HyperLogLog.").cluster(),
        row(
            "stream-node-max-bytes",
            memory(0),
            "4kb",
            "Most bytes of a node of a stream; 0 for no limit. A node is closed at 64 kB in any case.",
        )
        .cluster(),
        row("stream-node-max-entries", long(0), "100", "Most entries of a node of a stream; 0 for no limit.").cluster(),
    ],
};

//! Memory, eviction, expiry.

use super::common::{LONG_MAX, ULONG_MAX, between, int};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

const LAZY: &str = "large values are always freed in small steps, without stalling anyone";

pub(super) static SECTION: Section = Section {
    title: "Memory, eviction and expiry",
    rows: &[
        row(
            "maxmemory",
            Kind::Memory { min: 0, max: ULONG_MAX },
            "0",
            "Memory for data, in bytes, beyond which `maxmemory-policy` applies; 0 for no limit. With a log and a \
             policy that deletes keys, log and store get a fourteenth of it in addition.",
        ),
        row(
            "maxmemory-policy",
            Kind::Enum(&[
                "volatile-lru",
                "volatile-lfu",
                "volatile-random",
                "volatile-ttl",
                "volatile-lrm",
                "allkeys-lru",
                "allkeys-lfu",
                "allkeys-random",
                "allkeys-lrm",
                "noeviction",
            ]),
            "noeviction",
            "Which keys to evict at `maxmemory`. With `noeviction` a durable server moves keys to its store instead, \
             and `maxmemory` bounds the whole process.",
        )
        .cluster(),
        row("maxmemory-samples", between(1, 64), "5", "Number of keys from which one is chosen for eviction."),
        row(
            "maxmemory-eviction-tenacity",
            between(0, 100),
            "10",
            "Time for eviction between other work, in steps of 50 microseconds, up to 2 milliseconds.",
        ),
        row("lfu-log-factor", int(0), "10", "How slowly the counter of uses grows (LFU).").cluster(),
        row("lfu-decay-time", int(0), "1", "Minutes after which the counter of uses shrinks (LFU).").cluster(),
        row("active-expire-effort", between(1, 10), "1", "Effort spent on finding expired keys, from 1 to 10."),
        row("replica-ignore-maxmemory", Kind::Bool, "yes", "Whether replicas leave eviction to their master.")
            .alias("slave-ignore-maxmemory")
            .inert(super::common::NO_REPLICATION),
        row("lazyfree-lazy-eviction", Kind::Bool, "no", "Free evicted values in the background.")
            .inert(LAZY)
            .harmless("yes"),
        row("lazyfree-lazy-expire", Kind::Bool, "no", "Free expired values in the background.")
            .inert(LAZY)
            .harmless("yes"),
        row("lazyfree-lazy-server-del", Kind::Bool, "no", "Free overwritten values in the background.")
            .inert(LAZY)
            .harmless("yes"),
        row("lazyfree-lazy-user-del", Kind::Bool, "no", "Let DEL free in the background.").inert(LAZY).harmless("yes"),
        row("lazyfree-lazy-user-flush", Kind::Bool, "no", "Let FLUSHALL free in the background.")
            .inert(LAZY)
            .harmless("yes"),
        row("activerehashing", Kind::Bool, "yes", "Grow tables in the background.")
            .inert("tables grow in bounded steps by themselves"),
    ],
};

pub(super) static DEFRAGMENTATION: Section = Section {
    title: "Defragmentation",
    rows: &[
        row("activedefrag", Kind::Bool, "yes", "Move keys out of sparse parts of memory (Redis's default is no)."),
        row(
            "active-defrag-ignore-bytes",
            Kind::Memory { min: 1, max: LONG_MAX },
            "10mb",
            "Free bytes between keys below which nothing is moved.",
        ),
        row(
            "active-defrag-threshold-lower",
            between(0, 1000),
            "5",
            "Free bytes between keys, in percent of the bytes in use, from which keys are moved.",
        ),
        row("active-defrag-threshold-upper", between(0, 1000), "50", "The same, from which the most effort is spent."),
        row("active-defrag-cycle-min", between(1, 99), "5", "Least effort, in percent of a processor per worker."),
        row("active-defrag-cycle-max", between(1, 99), "25", "Most effort, in percent of a processor per worker."),
        row("active-defrag-max-scan-fields", super::common::long(1), "1000", "Elements handled in one step.")
            .inert("keys are moved; what a collection keeps outside its key is not"),
        row("jemalloc-bg-thread", Kind::Bool, "yes", "Let jemalloc purge in a thread of its own.")
            .inert("the allocator is another one"),
    ],
};

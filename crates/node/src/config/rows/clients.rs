//! Limits on clients.

use super::common::{LONG_MAX, between, memory};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

pub(super) static SECTION: Section = Section {
    title: "Clients",
    rows: &[
        row(
            "maxclients",
            between(1, u32::MAX as i128),
            "10000",
            "The most clients that may be connected at the same time.",
        ),
        row(
            "client-output-buffer-limit",
            Kind::Special(Special::OutputLimits),
            "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
            "Per class: HARD, SOFT, SECONDS. A connection ends when its waiting replies exceed HARD bytes, or \
             exceed SOFT bytes for SECONDS.",
        )
        .cluster(),
        row(
            "client-query-buffer-limit",
            memory(1 << 20),
            "1gb",
            "The most bytes of a request that is not yet complete.",
        )
        .cluster(),
        row("proto-max-bulk-len", memory(1 << 20), "512mb", "The longest argument of a command, in bytes.").cluster(),
        row(
            "maxmemory-clients",
            Kind::MemoryOrPercent { max: LONG_MAX },
            "0",
            "Limit for the memory of all connections together, in bytes or percent of `maxmemory`. Beyond it the \
             largest connections are closed; 0 for no limit.",
        ),
        row(
            "tracking-table-max-keys",
            super::common::long(0),
            "1000000",
            "The most keys that the server remembers for client-side caching; 0 for no limit.",
        )
        .cluster(),
    ],
};

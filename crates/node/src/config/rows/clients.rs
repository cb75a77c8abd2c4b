//! Limits on clients.

use super::common::{LONG_MAX, between, memory};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};
use crate::config::special::Special;

pub(super) static SECTION: Section = Section {
    title: "Clients",
    rows: &[
        row("maxclients", between(1, u32::MAX as i128), "10000", "Most clients connected at the same time."),
        row(
            "client-output-buffer-limit",
            Kind::Special(Special::OutputLimits),
            "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
            "Per class: bytes of waiting replies that end a connection at once, or after so many seconds above the \
             second limit.",
        )
        .cluster(),
        row("client-query-buffer-limit", memory(1 << 20), "1gb", "Most bytes of a request not yet complete.").cluster(),
        row("proto-max-bulk-len", memory(1 << 20), "512mb", "Longest single argument of a command, bytes.").cluster(),
        row(
            "maxmemory-clients",
            Kind::MemoryOrPercent { max: LONG_MAX },
            "0",
            "Memory of all connections together, or percent of `maxmemory`, beyond which the largest are closed; 0 for \
             no limit.",
        ),
        row(
            "tracking-table-max-keys",
            super::common::long(0),
            "1000000",
            "Most keys remembered for client-side caching; 0 for no limit.",
        )
        .cluster(),
    ],
};

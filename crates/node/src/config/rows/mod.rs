//! The rows of all settings, by section.
//!
//! Names, aliases, bounds and defaults are those of Redis 7.9 (`src/config.c`) wherever Redis has the setting.

mod clients;
mod cluster;
mod debugging;
mod encodings;
mod general;
mod introspection;
mod memory;
mod network;
mod newer;
mod persistence;
mod replication;
mod security;
mod tls;

use super::kind::Kind;
use super::row::Section;

/// All settings, in the order of the docs.
pub static SECTIONS: &[&Section] = &[
    &network::SECTION,
    &tls::SECTION,
    &general::SECTION,
    &security::SECTION,
    &clients::SECTION,
    &memory::SECTION,
    &memory::DEFRAGMENTATION,
    &persistence::LOG,
    &persistence::SNAPSHOTS,
    &persistence::SHUTDOWN,
    &replication::SECTION,
    &cluster::SECTION,
    &introspection::SECTION,
    &encodings::SECTION,
    &newer::SECTION,
    &debugging::SECTION,
];

const INT_MAX: i128 = i32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;

/// An integer of at least `min` that C would hold in an `int`.
const fn int(min: i128) -> Kind {
    Kind::Integer { min, max: INT_MAX }
}

/// An integer of at least `min` that C would hold in a `long`.
const fn long(min: i128) -> Kind {
    Kind::Integer { min, max: LONG_MAX }
}

const fn between(min: i128, max: i128) -> Kind {
    Kind::Integer { min, max }
}

const fn memory(min: i128) -> Kind {
    Kind::Memory { min, max: LONG_MAX }
}

const PORT: Kind = Kind::Integer { min: 0, max: 65535 };

const NO_SNAPSHOTS: &str = "snapshot files are not built yet";
const NO_LOG: &str = "the log is not an AOF file";
const NO_REPLICATION: &str = "replication is not built yet";
const NO_CLUSTER: &str = "nodes find and watch each other in another way than in Redis";
const NO_TLS: &str = "clients do not speak TLS yet; between nodes `tls-cluster` and its three files are all there is";

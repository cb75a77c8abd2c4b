//! The rows of all settings, by section.
//!
//! Names, aliases, bounds and defaults are those of Redis 7.9 (`src/config.c`) wherever Redis has the setting.

mod clients;
mod cluster;
mod common;
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

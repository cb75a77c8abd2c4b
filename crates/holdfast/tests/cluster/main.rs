//! Clusters of real servers.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod agent;
mod agent_former;
mod agent_ports;
mod agent_votes;
#[path = "../../../membership/tests/clusters/certificates.rs"]
mod certificates;
mod client_states;
mod copies;
mod copies_shown;
mod dev_cluster;
mod export;
mod full_copies;
mod heirs;
mod histories;
mod libraries;
mod log_servers;
mod metrics;
mod nodes;
mod pressure;
mod recovered;
mod restarts;
mod sentinel;
mod set_back;
mod settings;
mod several_standbys;
mod shard_settings;
mod standby_reads;
mod standby_scripts;
mod standby_views;
mod standby_waits;
mod standbys;
#[path = "../support/mod.rs"]
mod support;
mod switchovers;
mod tools;
mod upgrades;
mod useless;
mod users;

//! Clusters of control threads in one process, over loopback. No test depends on how long something takes: tests wait
//! for events that must come.

mod certificates;
mod configuration;
mod gate;
mod harness;

mod data_links;
mod forming;
mod groups;
mod host_votes;
mod leases;
mod libraries;
mod members;
mod shards;
mod standbys;
mod storm;
mod tls;
mod tls_client;

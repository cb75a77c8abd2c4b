//! Clusters of control threads in one process, over loopback. No test is decided by how long something takes: they wait
//! for what must come.

mod certificates;
mod configuration;
mod gate;
mod harness;

mod data_links;
mod forming;
mod leases;
mod libraries;
mod members;
mod storm;
mod tls;

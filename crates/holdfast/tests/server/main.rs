//! One server as its operator and its clients see it. Each module is a subject.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod access;
mod blocking;
#[path = "../../../membership/tests/clusters/certificates.rs"]
mod certificates;
mod configuration;
mod crash_report;
mod hotkeys;
mod large_values;
mod limits;
mod messages;
mod metrics;
mod process;
mod scripts;
mod session;
mod sizes;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
mod suspended;
mod tls;
#[path = "../../../membership/tests/clusters/tls_client.rs"]
mod tls_client;
mod tracking;

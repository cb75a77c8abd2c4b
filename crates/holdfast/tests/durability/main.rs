//! Data that a server keeps over kills, restarts, slow disks and full disks.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod backlog;
mod checkpoints;
mod cold;
mod durable;
mod full_disk;
mod places;
#[path = "../support/mod.rs"]
mod support;
mod switching;
mod tail;

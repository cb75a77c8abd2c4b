//! The commands of the binary beside `server`: `bench`, `check`, `backup` and `restore`.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod backup;
mod bench;
mod check;
#[path = "../support/mod.rs"]
mod support;

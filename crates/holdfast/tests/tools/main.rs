//! The commands of the binary beside `server`: `bench`, `check`, `backup`, `restore`, `export`, `import`, `ping`, `completions`,
//! `man`.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod backup;
mod bench;
mod check;
mod export;
mod import;
mod install;
mod packaged;
mod reach;
#[path = "../support/mod.rs"]
mod support;

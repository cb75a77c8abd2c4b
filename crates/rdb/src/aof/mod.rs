//! Append-only files of Redis: an RDB file, and the commands that came after it.
//!
//! Since Redis 7 a folder has several of them, and a manifest names them in their order ([`Manifest`], [`Files`]). Each
//! is an RDB file, or commands, or both ([`Reader`]).

mod commands;
mod files;
mod manifest;
mod reader;

pub use files::{Files, FilesError};
pub use manifest::{File, Manifest, ManifestError};
pub use reader::{Command, Reader, Step, Tail};

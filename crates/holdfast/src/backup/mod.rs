//! `holdfast backup` asks a running server for a backup. `holdfast restore` makes data of one. `holdfast check`
//! verifies one.

pub mod manifest;
mod restore;
mod verify;

use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use crate::client::{Connection, Target, explained};

pub use restore::{Options as RestoreOptions, run as restore};
pub use verify::{is_backup, verify};

/// Asks a running server for a backup of one moment and waits until it is complete. The server writes it on its own
/// machine and keeps serving. See `holdfast restore`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// A new or empty directory, relative to the server's `dir`. Another place needs its `enable-protected-configs`.
    directory: PathBuf,
}

/// Asks, and waits.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let target = &options.target;
    let words = [&b"HOLDFAST"[..], b"BACKUP", options.directory.as_os_str().as_bytes()];
    Connection::open(target).and_then(|mut connection| connection.call(&words)).map_err(explained)?;
    println!("{target} has written a backup to {}", options.directory.display());
    Ok(())
}

//! Folders for copies of the logs of shards.

use std::path::{Path, PathBuf};

use membership::AcceptorId;
use membership::control::{Made, Wanted};
use membership::meta::DEFAULT_DIR;
use node::config::Settings;

use super::chance;
use super::places::Places;

/// The default folder of a node, in `dir`.
const COPIES: &str = "holdfast/copies";

/// Opens or makes the folder of a node. `dir` is the node's directory.
///
/// # Errors
/// It cannot be used.
pub fn of_node(dir: &Path, wanted: &Wanted) -> Result<Made, String> {
    let folder = match wanted.dir.as_str() {
        DEFAULT_DIR => dir.join(COPIES),
        path => PathBuf::from(path),
    };
    make(&folder, wanted)
}

/// Names the own log of a node that owns the shard: it is the first of its copies.
///
/// # Errors
/// There is none, or its directory cannot be used.
pub fn of_owner(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Made, String> {
    if !settings.appendonly {
        return Err("appendonly is off: its owner has no log".to_owned());
    }
    let logs = Places::of(settings, dir).logs;
    let fresh = AcceptorId(chance::random().map_err(|why| why.to_string())?);
    let acceptor = loggroup::name_of_own(&logs, wanted.shard, fresh).map_err(|why| why.to_string())?;
    Ok(Made { acceptor, streams: logs.len() as u16 })
}

/// Opens or makes the folder of a copy in a directory.
///
/// # Errors
/// It cannot be used.
pub fn make(_: &Path, _: &Wanted) -> Result<Made, String> {
    Err("this build copies no logs yet".to_owned())
}

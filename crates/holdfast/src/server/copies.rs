//! Folders for copies of the logs of shards.

use std::path::{Path, PathBuf};

use membership::control::{Made, Wanted};
use membership::meta::DEFAULT_DIR;

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

/// Opens or makes the folder of a copy in a directory.
///
/// # Errors
/// It cannot be used.
pub fn make(_: &Path, _: &Wanted) -> Result<Made, String> {
    Err("this build copies no logs yet".to_owned())
}

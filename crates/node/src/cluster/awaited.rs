//! The maps that a connection waits for.

use clocks::UnixMs;

/// The maps that a connection waits for.
#[derive(Default)]
pub(crate) struct Awaited {
    /// The version of a map by which its commands came to the wrong node.
    pub(super) version: u64,
    /// The version of the map by which the commands were sent that are under way.
    pub(super) routed_by: u64,
    /// When to wait no longer; 0: it does not wait.
    pub(super) until: UnixMs,
    /// The version of the map after which it has waited for another one in vain.
    pub(super) in_vain: Option<u64>,
}

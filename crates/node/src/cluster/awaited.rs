//! What a connection knows of maps.

/// What a connection knows of maps.
#[derive(Default)]
pub(crate) struct Awaited {
    /// The version of a map by which commands were not where they came to.
    pub(super) version: u64,
    /// When to wait no longer, unix milliseconds; 0: it does not wait.
    pub(super) until: u64,
    /// The version of the map after which another was waited for in vain.
    pub(super) in_vain: Option<u64>,
}

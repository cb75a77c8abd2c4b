//! What a worker is told of its log when that is switched on or off.

use std::sync::Arc;

use super::durable::Durable;

/// What changes for a worker. One log follows another only when the worker has forgotten the first.
#[derive(Clone)]
pub enum Logging {
    /// What it changes goes to this log, and nobody waits for that. It stands still.
    Begins(Arc<Durable>),
    /// Replies wait for the log from now on.
    Promises,
    /// What it changes is not logged any more; what was is still waited for. It stands still.
    Ends,
    /// There is no log any more.
    Forgotten,
}

//! The news for a worker when its log is switched on or off.

use std::sync::Arc;

use super::durable::Durable;

/// A change for a worker. A new log comes only after the worker has forgotten the former one.
#[derive(Clone)]
pub enum Logging {
    /// Its changes go to this log, and no reply waits for that. It stands still.
    Begins(Arc<Durable>),
    /// Replies wait for the log from now on.
    Promises,
    /// It leads what it has followed: its changes go to this log, and replies wait for that. It stands still.
    Leads(Arc<Durable>),
    /// It only reads, or may write again. It stands still.
    Rests(bool),
    /// Its changes are not logged any more; replies still wait for those that were. It stands still.
    Ends,
    /// There is no log any more.
    Forgotten,
}

//! The workers' side of the log and of checkpoints: replies wait, the log is bounded, a start recovers.

pub(crate) mod awaited;
pub(crate) mod backlog;
pub(crate) mod checkpoints;
pub(crate) mod copies;
pub(crate) mod cut;
pub(crate) mod durable;
pub(crate) mod followed;
pub(crate) mod logging;
pub(crate) mod outside;
pub(crate) mod promises;
pub(crate) mod recovery;
mod replies;
mod saving;
pub(crate) mod sent;
pub(crate) mod snapshots;
pub(crate) mod stall;
pub(crate) mod switching;
pub(crate) mod tail;

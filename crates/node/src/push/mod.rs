//! Messages that clients get without having asked: messages of channels, invalidations, MONITOR.

pub(crate) mod delivery;
pub(crate) mod monitor;
pub(crate) mod notice;
pub(crate) mod notifications;
mod publish;
pub(crate) mod pubsub;
mod show;
pub(crate) mod tracker;
pub(crate) mod trackers;
pub(crate) mod tracking;
pub(crate) mod untold;

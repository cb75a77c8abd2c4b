//! What clients are told without having asked: messages of channels, invalidations, MONITOR.

pub(crate) mod monitor;
pub(crate) mod notifications;
pub(crate) mod pubsub;
pub(crate) mod tracking;

//! Figures of a node: counters, latencies, slow commands.

pub(crate) mod amount;
pub(crate) mod cost;
pub(crate) mod heat;
pub(crate) mod heavy;
pub(crate) mod histogram;
pub(crate) mod hotkeys;
pub(crate) mod latency;
pub(crate) mod meter;
pub(crate) mod sampler;
pub(crate) mod slots;
pub(crate) mod slowlog;
pub(crate) mod stats;

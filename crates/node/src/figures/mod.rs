//! Figures of a node: counters, latencies, slow commands.

pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod meter;
pub(crate) mod sampler;
pub(crate) mod slowlog;
pub(crate) mod stats;

//! Slots, latches, tables, entries, versions, expiry, eviction and memory accounting.

pub mod heap;

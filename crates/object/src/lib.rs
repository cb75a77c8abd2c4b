//! The values of keys: strings, lists, hashes, sets and sorted sets, compact and as leaf trees.

pub mod glob;

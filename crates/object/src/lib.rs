//! The values of keys: strings, lists, hashes, sets, sorted sets and streams, compact and as leaf trees.
//! Bitmaps and HyperLogLogs are strings.

#![warn(clippy::missing_errors_doc)]

pub mod bits;
pub mod block;
mod corrupt;
pub mod geo;
pub mod glob;
pub mod hash;
pub mod hashed;
pub mod hll;
pub mod lcs;
pub mod limits;
pub mod list;
pub mod long_double;
pub mod number;
pub mod rdb;
pub mod saved;
pub mod set;
pub mod sha1;
pub mod shed;
pub mod stream;
pub mod tree;
pub mod zset;

pub use corrupt::Corrupt;
pub use hash::Hash;
pub use limits::Limits;
pub use list::List;
pub use set::Set;
pub use stream::Stream;
pub use zset::ZSet;

//! What makes nodes a cluster.
//!
//! - Every node has an [identity](NodeId).
//! - The [`Map`] says which node owns which slot, and where nodes are.
//! - Nodes speak [frames](frame) with each other; on data links they carry [items].
//!
//! Commands, their replies and the keys they touch are unknown here: they are bytes.

pub mod codec;
pub mod frame;
mod id;
pub mod items;
pub mod map;

pub use codec::Malformed;
pub use id::{ClusterId, ID_BYTES, NodeId};
pub use map::{Map, SLOTS};

//! The crate that makes nodes a cluster.
//!
//! - Every node has an [identity](NodeId).
//! - [`control`] is the thread that keeps the metadata with the other nodes (Raft), forms and joins clusters, and holds
//!   the node's lease.
//! - The [`Map`] holds the owners of slots, and the places of nodes. It is made by [`meta`], a pure state machine.
//! - Nodes speak [frames](frame) with each other, after a [handshake]; on data links they carry [items].
//!
//! Commands, their replies and their keys are bytes here.

#![warn(clippy::missing_errors_doc)]

pub mod certificates;
pub mod codec;
pub mod control;
pub mod frame;
pub mod handshake;
mod id;
pub mod items;
pub mod leases;
pub mod level;
pub mod map;
pub mod meta;
mod slot;
pub mod takeovers;
mod time;
mod voters;

pub use codec::Malformed;
pub use id::{ClusterId, ID_BYTES, NodeId};
pub use map::{Continued, Map};
pub use quorum::{AcceptorId, ShardId, Term};
pub use slot::{SLOTS, Slot};
pub use standby::{self, NodeNumber, Standby};
pub use time::{BootNs, LeaseEnd};

//! The sans-IO worker: sessions, MULTI and WATCH, CONFIG, INFO, CLIENT.
//!
//! A [`Worker`] is a state machine. A driver accepts and reads for it, calls [`Worker::turn`], and sends what
//! [`Worker::next_output`] names. Workers share a [`Node`], and send each other a [`Message`].

#![warn(clippy::missing_errors_doc)]

mod admission;
mod client;
mod clock;
pub mod cluster;
pub mod compatibility;
pub mod config;
mod crash;
mod durability;
mod figures;
mod limits;
mod metrics;
mod node;
mod push;
mod scripts;
mod secret;
mod session;
mod table;
mod transactions;
pub mod users;
mod worker;

pub use client::{Client, Peer};
pub use clock::{Clock, MonoNs, UnixMs};
pub use crash::Crash;
pub use durability::checkpoints::{Checkpoints, Ticket};
pub use durability::copies::{CopiesOfLog, CopyOfLog};
pub use durability::cut::{Cut, Order};
pub use durability::durable::{CountCopies, Durable, Having, LookAtCopies};
pub use durability::followed::{CopyFigures, CopyOfData, Known};
pub use durability::outside::{Floor, Outside};
pub use durability::recovery::{Recovered, check_disks, recover, recover_by};
pub use durability::sent::Sent;
pub use durability::snapshots::{AtEnd, Snapshots};
pub use durability::switching::{Halted, Logging, Stopping};
pub use durability::tail::{Bound, Tail, size_of};
pub use figures::stats::WorkerStats;
pub use metrics::{metrics, readiness};
pub use node::{Facts, LOADERS, Node, VALKEY_VERSION};
pub use script::REDIS_VERSION;
pub use session::Detached;
pub use table::{Command, Handler, Table};
pub use worker::jobs::{Done, Job, Jobs, Outcome, Parts, Reload, Task};
pub use worker::message::{Mailbox, Message};
pub use worker::outgoing::{Outgoing, SLICES};
pub use worker::pause::{Pause, Pauses};
pub use worker::transfer::Output;
pub use worker::{Token, Worker};

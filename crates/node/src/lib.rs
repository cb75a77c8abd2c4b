//! The sans-IO worker: sessions, MULTI and WATCH, CONFIG, INFO, CLIENT.
//!
//! A [`Worker`] is a state machine (DESIGN, decision 2). A driver accepts and reads for it, calls [`Worker::turn`], and sends
//! what [`Worker::next_output`] names. What workers share is in [`Node`]; what they tell each other is a [`Message`].

mod address_space;
mod backlog;
mod checkpoints;
mod client;
mod clock;
pub mod cluster;
pub mod compatibility;
pub mod config;
mod conn;
mod crowd;
mod durable;
mod execute;
mod histogram;
mod holes;
mod housekeeping;
mod http;
mod in_doubt;
mod jobs;
mod latency;
mod libraries;
mod message;
mod meter;
mod monitor;
mod node;
mod outgoing;
mod pause;
mod pubsub;
mod recovery;
mod resident;
mod room;
mod sampler;
mod scripts;
mod secret;
mod session;
mod slowlog;
mod stats;
mod suspended;
mod switching;
mod table;
mod tail;
mod tidying;
mod tracking;
mod transfer;
mod turn;
mod wait;
mod worker;

pub use checkpoints::{Checkpoints, Outside, Ticket};
pub use client::{Client, Peer};
pub use clock::Clock;
pub use durable::Durable;
pub use jobs::{Done, Job, Jobs, Outcome, Task};
pub use message::{Mailbox, Message};
pub use node::{Facts, LOADERS, Node, REDIS_VERSION};
pub use outgoing::{Outgoing, SLICES};
pub use pause::{Pause, Pauses};
pub use recovery::{Recovered, check_disks, recover, recover_by};
pub use session::Detached;
pub use stats::WorkerStats;
pub use switching::{Halted, Logging, Stopping};
pub use table::{Command, Handler, Table};
pub use tail::{Bound, Tail, size_of};
pub use transfer::Output;
pub use worker::{Token, Worker};

//! Transactions over nodes: carries the decisions of `txn` over links, into the log, and to keys.
//!
//! Each worker coordinates the transactions that its clients begin. The node's part in the transactions of other nodes
//! is one state machine under a lock, which any worker may drive. It asks for *tasks*: a task takes latches and waits
//! as the command of a connection does. Each frame of kind *transactions* carries one message.
//!
//! [`state::Transactions`] is the state of a worker. [`port::Transacting`] works on it, and reaches the worker through
//! [`port::Port`] alone.

mod block;
pub(crate) mod client;
pub(crate) mod coordinator;
mod copies;
mod doubtful;
pub(crate) mod doubts;
pub(crate) mod exec;
mod fetching;
mod found;
mod further;
mod hindrance;
pub(crate) mod inherited;
mod interactive;
mod members;
mod names;
mod part;
mod participant;
pub(crate) mod parts;
mod plan;
pub(crate) mod port;
pub(crate) mod slow;
mod split;
pub(crate) mod state;
mod step;
mod task;
mod tasks;
mod together;
mod waiting;
mod wire;
mod workspace;

//! A client's session, and the commands that work on it rather than on keys.

pub(crate) mod aside;
mod auth;
mod backup;
mod block;
mod caching;
mod client;
mod cluster;
mod commands;
mod config_command;
mod connection;
mod context;
mod debug;
pub(crate) mod exec;
mod families;
mod go_on;
mod info;
pub(crate) mod interactive;
mod latency;
mod memory;
pub(crate) mod monitor;
mod multi;
pub(crate) mod pubsub;
mod report;
mod script;
mod server;
mod slowlog;
mod state;
mod subscriptions;
mod suspended;
pub(crate) mod tracking;
mod transaction;
pub(crate) mod waitaof;

pub use aside::Aside;
pub(crate) use aside::locks_of;
pub use block::Block;
pub(crate) use connection::database;
pub(crate) use context::{
    Flow, SessionCtx, SessionRun, container, help, run, tipped, unknown_subcommand, wrong_arguments,
};
pub(crate) use debug::{FORBIDDEN as DEBUG_FORBIDDEN, is_open as debug_is_open};
pub(crate) use families::handler_of;
pub(crate) use multi::watch_keys;
pub use script::Machines;
pub(crate) use script::is_read_only as is_read_only_script;
pub use state::{Detached, ExecWord, Multi, Queued, Replies, Retry, Session, Undone};
pub(crate) use subscriptions::{Subscriptions, stop as stop_subscriptions};
pub use suspended::Suspended;

//! Configuration as data: rows describe the settings, and everything else follows from them.
//! - [`Row`] and [`SECTIONS`]: a setting is one row; [`Values`] holds the values of all.
//! - [`Settings`]: the same as plain typed fields, for the data plane.
//! - [`Arguments`], [`load`]: the command line and files of the start.
//! - [`Live`], [`Follower`]: the configuration of a running node; `CONFIG GET`, `SET`, `REWRITE`.
//! - [`help`], [`markdown`]: the rows in words.

#[cfg(test)]
mod acts_test;
mod arguments;
mod change;
mod check;
mod choices;
mod describe;
mod files;
mod kind;
mod line;
mod live;
mod load;
mod login;
mod renames;
mod rewrite;
mod row;
mod rows;
mod settings;
mod shared;
mod slot_stats;
mod special;
mod table;
mod values;

pub use arguments::Arguments;
pub use change::{Host, Rights, SetError};
pub use choices::{
    Allowed, AppendFsync, AuthClients, BusyScope, ClientMemory, EvictionPolicy, IoDriver, Isolation, LogLevel,
    OomScore, OutputLimit, Redirect, Supervised, seeds,
};
pub use describe::{explain, help, markdown};
pub use files::{Disk, remove_successors, replace_file};
pub use kind::{Kind, Refusal, Value};
pub(crate) use line::quote_where_needed;
pub use live::{Follower, Live, RewriteError, Wanted};
pub use load::{Files, LoadError, Loaded, load};
pub use login::Password;
pub use renames::Renames;
pub use rewrite::rewrite;
pub use row::{Acts, Owner, Row, Section};
pub use rows::SECTIONS;
pub use settings::Settings;
pub use shared::Shared;
pub use special::Special;
pub use table::{Id, find};
pub use values::Values;

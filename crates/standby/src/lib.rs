//! Standbys of a shard as pure state machines: copies of its data that follow its log, take it over, and give way.
//!
//! A *standby* is a process with a copy of a shard's data. It applies what is committed ([`Follower`]). The metadata
//! know it by two flags ([`Copies`]): *pinned*, the owner's log keeps what its store lacks; *electable*, it may get the
//! shard's next term. The owner keeps the floor of its log ([`Floor`]), slows down or gives standbys up ([`Lags`]), and
//! executes commands only in its [`Tenure`]. The [`Leader`] of the metadata grants leases and decides on takeovers, and
//! a [`Switchover`] hands the shard over in order.
//!
//! Messages, time and what the metadata say go in; changes of the metadata, and what to do, come out. The machines know
//! no clock, no thread, no socket and no file. The cluster's metadata hold [`Copies`], and their leader asks [`Leader`];
//! nothing else connects them to the server yet. How a new owner seals and takes the log over is [`quorum`]'s.
//!
//! The rules are defined in `docs/internals/rules.md` (letter S), and the page is `docs/internals/standbys.md`.

#![warn(clippy::missing_errors_doc)]

mod copies;
pub mod fate;
mod floor;
mod follower;
mod lag;
mod leader;
mod part;
mod planted;
mod process;
pub mod switchover;
mod tenure;

#[cfg(test)]
mod tests;

pub use copies::{Change, Copies, Refusal, Standby};
pub use floor::Floor;
pub use follower::{Apply, Block, Busy, Follower, Gap, Memory};
pub use lag::{Behind, Bounds, GivenUp, Lags};
pub use leader::{Decision, Health, Leader, Position, Refused, Renewal, Settings, Why};
pub use part::Part;
pub use process::{NodeNumber, Process};
pub use switchover::Switchover;
pub use tenure::Tenure;

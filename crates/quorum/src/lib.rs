//! Copies of a shard's log on several machines: acceptor, owner and seal as pure state machines, and their messages.
//!
//! A *shard* has one log of several *streams*, and one *owner* at a time, for a *term*. An [`Acceptor`] is a folder that
//! holds a copy of each stream. The [`Owner`] is the only writer of its term. It *seals*: a majority of acceptors
//! promises to take nothing of lower terms. It takes over what they have, appends a start block to every stream, and
//! leads when a majority has these. Blocks that a majority has on the disk from then on are committed.
//!
//! Messages, completions of the disk and what the owner is told go in. Messages ([`Request`], [`Reply`]), operations of
//! the disk ([`Op`]) and [`Event`]s come out. The machines know no clock, no thread, no socket and no file. Records are
//! bytes to them. `loggroup` connects them to the server's log.
//!
//! The rules are defined in `docs/internals/rules.md` (letter G), and the page is `docs/internals/quorum.md`. The models
//! of this crate's tests explore small groups.

#![warn(clippy::missing_errors_doc)]

mod acceptor;
mod history;
mod id;
mod message;
mod owner;
mod planted;
mod wire;

#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, Done, Found, Keep, Mark, Op, Output};
pub use history::{Extent, History, Run};
pub use id::{AcceptorId, Base, Block, BlockId, Cut, FolderLife, ShardId, StreamId, Term};
pub use message::{Order, Reply, Report, Request};
pub use owner::{Behind, Contact, Event, Having, Lag, Limits, NotNow, Owner, Stage, Standing};
pub use wire::Malformed;

/// Most streams of a shard: as many as an LSN can name (`redolog::STREAMS_MAX`).
pub const STREAMS_MAX: usize = 15;

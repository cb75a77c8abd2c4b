//! Transactions over nodes: key locks, coordinator, participant and recovery as pure state machines.
//!
//! The crate knows only keys and messages. Messages, completions and the time of the boot clock go in; messages, appends
//! to the log and replies come out as [`Action`]s and [`Event`]s. The work of a transaction is bytes to it: *commands*
//! go to the participants, *replies* and *effects* come back from the node that executes them.
//!
//! A transaction commits in one round trip and one log write. The [`Coordinator`] sends each [`Participant`] a
//! `Prepare`. A participant takes the key locks ([`locks`]), executes, logs one [`Record::Prepare`] and answers when
//! that is committed. The transaction **is** committed when every participant's record is: the client is answered then,
//! and `Commit` messages follow. The modules `participant` and `inquiry` handle what follows for participants that have
//! lost sight of one another.
//!
//! The rules are defined in `docs/internals/rules.md` (letter T); every rule is named where it is kept. The models in
//! `tests/` explore small clusters exhaustively.

#![warn(clippy::missing_errors_doc)]

mod coordinator;
mod heirs;
mod id;
mod inquiry;
pub mod locks;
mod message;
mod participant;
mod record;
mod settings;
mod wire;

pub use coordinator::{Coordinator, Event, Part};
pub use heirs::Heirs;
pub use id::{HybridTime, Life, Member, NodeId, Origin, ParticipantId, Recipient, Sender, Stamp, TxnId};
pub use message::{Lock, Message, Prepare, Refusal, Status};
pub use participant::{Action, Execution, Participant};
pub use record::{Prepared, Record, RecordKind};
pub use settings::Settings;
pub use wire::Malformed;

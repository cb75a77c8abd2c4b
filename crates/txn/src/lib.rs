//! Transactions over nodes: key locks, coordinator, participant and recovery as pure state machines.
//!
//! The crate knows keys and messages, nothing else: messages, completions and the time in milliseconds (of a monotonic clock) go in, messages, appends
//! to the log and replies come out as [`Action`]s and [`Event`]s. What a transaction does is bytes to it: *commands* go to the participants,
//! *replies* and *effects* come back from who executes them.
//!
//! A transaction commits in one round trip and one log write: the [`Coordinator`] sends each [`Participant`] a `Prepare`; a participant takes the key
//! locks ([`locks`]), executes, logs one [`Record::Prepare`] and answers when that is committed. The transaction **is** committed when every
//! participant's record is: the client is answered then, `Commit` messages follow. What follows from that for those who have lost sight of
//! one another is in `participant` and `inquiry`.
//!
//! The rules are defined in `docs/internals/rules.md` (letter T); every rule is named where it is kept. The models in `tests/` explore small clusters exhaustively.

mod coordinator;
mod id;
mod inquiry;
pub mod locks;
mod message;
mod participant;
mod record;
mod settings;
mod wire;

pub use coordinator::{Coordinator, Event, Part};
pub use id::{Life, Member, NodeId, Origin, ParticipantId, Recipient, Stamp, TxnId};
pub use message::{Lock, Message, Prepare, Refusal, Status};
pub use participant::{Action, Execution, Participant};
pub use record::{Prepared, Record, RecordKind};
pub use settings::Settings;
pub use wire::Malformed;

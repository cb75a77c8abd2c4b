//! What becomes of commands that an origin has forwarded to an owner which is lost, or which gives them back.

use crate::planted::{Mistake, Planted};

/// Where a blocked command waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Waits {
    /// It does not block.
    Nowhere,
    /// At the origin, which looks, and then takes by a transaction.
    AtOrigin,
    /// At the owner: it may have been served there, and only its reply is lost.
    AtOwner,
}

/// A command that was sent and not answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sent {
    /// It may write.
    pub may_write: bool,
    /// Where it waits.
    pub waits: Waits,
}

/// What the origin does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// It sends the command to the new owner, into the same hole.
    Again,
    /// It closes the client's connection: nobody knows whether the command was executed (rule T9).
    Close,
    /// It goes on waiting.
    Stays,
}

/// The fate of a command whose owner is lost (rule S9). One that may have written is closed, blocking or not: run again
/// it would take a second element, and the first one would be gone. So is a read that waited there: its place (`$`) was
/// the owner's to know.
#[must_use]
pub fn of_lost(sent: Sent) -> Fate {
    of_lost_planted(sent, Planted::default())
}

pub(crate) fn of_lost_planted(sent: Sent, planted: Planted) -> Fate {
    match sent {
        Sent { waits: Waits::AtOrigin, .. } => Fate::Stays,
        Sent { waits: Waits::AtOwner, .. } | Sent { may_write: true, .. } if planted.is(Mistake::RunsAgain) => {
            Fate::Again
        }
        Sent { waits: Waits::AtOwner, .. } | Sent { may_write: true, .. } => Fate::Close,
        Sent { may_write: false, waits: Waits::Nowhere } => Fate::Again,
    }
}

//! An attempt that has sent its values needs further keys here: it locks them as well, in the same attempt.
//!
//! ```text
//!           Widen            locks              looked at
//! fetched --------> queued ---------> executing ----------> fetched
//! ```
//! It takes the same way as its Fetch, and keeps all its locks meanwhile. So other transactions may wait for it while
//! it waits: it is never patient, and dies where an older one is in its way (rule T7). Its end gives back all its locks
//! and claims, with one [`Action::Unlock`].

use std::sync::Arc;

use clocks::BootMs;

use super::attempt::Phase;
use super::{Action, Participant, send};
use crate::{Lock, Message, Recipient, Refusal, TxnId};

impl Participant {
    /// The coordinator needs the values of these keys, too.
    pub(super) fn widen(
        &mut self,
        now: BootMs,
        from: Recipient,
        tx: TxnId,
        (round, locks): (u32, Arc<[Lock]>),
        out: &mut Vec<Action>,
    ) {
        let Some(attempt) = self.known.get_mut(&tx) else { return self.has_not_fetched(from, tx, out) };
        match &attempt.phase {
            Phase::Fetched { prepare, .. } if round > attempt.wider.round => {
                let (prepare, stamp) = (Arc::clone(prepare), prepare.stamp);
                attempt.wider.round = round;
                attempt.wider.locks.push(Arc::clone(&locks));
                attempt.phase = Phase::Queued { prepare, fetches: true };
                self.hold(now, tx);
                out.push(Action::Lock { tx, stamp, locks, patient: false, widens: true });
            }
            // The answer may have been lost.
            Phase::Fetched { found, .. } if round == attempt.wider.round => {
                out.push(send(from, attempt.fetched(tx, found)));
                self.hold(now, tx);
            }
            Phase::Queued { .. } => self.hold(now, tx),
            Phase::Refused { .. } | Phase::Aborted | Phase::Deciding { commit: false, .. } => {
                out.push(send(from, Message::Refused { tx, why: Refusal::Over }));
            }
            // It is on its way, or an earlier one has come late.
            Phase::Executing { .. }
            | Phase::Fetched { .. }
            | Phase::Held { .. }
            | Phase::Appending { .. }
            | Phase::Prepared { .. }
            | Phase::Deciding { .. }
            | Phase::Committed { .. } => {}
        }
    }
}

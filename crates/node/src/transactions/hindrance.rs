//! A committed transaction that this node could not apply: when the node tries again, and what it logs.

use std::sync::Arc;

use engine::NotInstalled;
use txn::Prepared;

use super::doubts::Doubts;

/// Milliseconds before the second attempt, and the most: each later attempt waits for twice as long as the one before.
pub(super) const HINDERED_MS: (u64, u64) = (100, 5000);

/// Failed attempts in a row after which the log says that a key cannot be read: a disk may fail for a moment.
const READS: u32 = 3;

/// A transaction whose other participants have done their parts, while this node cannot do its own.
#[derive(Default)]
pub(super) struct Hindrance {
    /// How often.
    tries: u32,
    /// The log already says that it cannot be done.
    is_told: bool,
    /// Why it could not be done the last time.
    pub(super) why: Option<NotInstalled>,
}

impl Hindrance {
    /// An attempt has failed. If that is going to last, clients that need the keys hear so. Returns when the next
    /// attempt is due, in milliseconds from now.
    pub(super) fn lasts(&mut self, prepared: &Arc<Prepared>, doubts: &Doubts, why: NotInstalled) -> u64 {
        let wait = self.note(prepared, &why);
        if self.is_told {
            doubts.is_hindered(prepared, &why);
        }
        self.why = Some(why);
        wait
    }

    /// The prepared change is applied.
    pub(super) fn is_over(&self, prepared: &Prepared, doubts: &Doubts) {
        if self.is_told {
            doubts.is_done(prepared.tx);
        }
    }

    /// An attempt has failed: that is logged once, if it is going to last. Returns when the next one is due, in
    /// milliseconds from now.
    fn note(&mut self, prepared: &Prepared, why: &NotInstalled) -> u64 {
        let (first, most) = HINDERED_MS;
        let wait = (first << self.tries.min(16)).min(most);
        self.tries = self.tries.saturating_add(1);
        let lasts = self.tries >= READS || matches!(why, NotInstalled::Damaged(..));
        if lasts && !std::mem::replace(&mut self.is_told, true) {
            let why = match why {
                NotInstalled::Damaged(what, _) => {
                    format!("damaged: a key has changed since it was prepared ({})", what.0)
                }
                NotInstalled::Unreadable => "a key cannot be read from the store".to_owned(),
            };
            tracing::error!(
                tx = ?prepared.tx,
                keys = prepared.locks.len(),
                "a committed transaction over nodes cannot be applied here: {why}; this node tries again and again, and keeps its keys locked"
            );
        }
        wait
    }
}

//! The worker's notes about connections whose clients leave, and about long waits.

use std::collections::{BTreeMap, VecDeque};

use clocks::{BootMs, UnixMs};
use txn::TxnId;

use super::token::Token;

/// Waits of more milliseconds are long, by the clock that does not stand still.
pub(crate) const LONG_MS: u64 = 60_000;

/// The progress of a connection: bytes that it has not executed, and replies that are to come from other nodes.
pub(super) type Progress = (usize, usize);

/// Connections to be checked: when, and their progress then.
#[derive(Default)]
pub(crate) struct Leavers(pub(super) VecDeque<(UnixMs, Token, Progress)>);

impl Leavers {
    /// When the next one is checked.
    pub(crate) fn deadline(&self) -> Option<UnixMs> {
        self.0.front().map(|(at, ..)| *at)
    }
}

/// The worker's notes about long waits.
#[derive(Default)]
pub(crate) struct LongWaits {
    pub(super) waiting: BTreeMap<Token, Since>,
    /// Attempts whose claims nothing would give back, as the first worker sees them.
    pub(super) ownerless: BTreeMap<TxnId, Since>,
    /// When to look next.
    pub(super) due: BootMs,
}

#[derive(Clone, Copy)]
pub(super) struct Since {
    pub(super) at: BootMs,
    pub(super) is_told: bool,
}

impl Since {
    /// True if the wait has lasted for too long, and was not reported yet.
    pub(super) fn is_long(&mut self, now: BootMs) -> bool {
        now.since(self.at) >= LONG_MS && !std::mem::replace(&mut self.is_told, true)
    }
}

impl LongWaits {
    /// Notes that a connection or a task does not wait any more.
    pub(crate) fn end(&mut self, token: Token) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&token);
        }
    }
}

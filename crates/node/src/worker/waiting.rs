//! What a worker knows of connections whose clients leave, and of long waits.

use std::collections::{BTreeMap, VecDeque};

use txn::TxnId;

use super::token::Token;

/// What waits for longer, in milliseconds of the clock that does not stand still.
pub(crate) const LONG_MS: u64 = 60_000;

/// How far a connection has come: bytes that it has not executed, and replies that are to come from other nodes.
pub(super) type Progress = (usize, usize);

/// Connections to be looked at: when, and how far they had come.
#[derive(Default)]
pub(crate) struct Leavers(pub(super) VecDeque<(u64, Token, Progress)>);

impl Leavers {
    /// When the next is looked at, unix milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.0.front().map(|(at, ..)| *at)
    }
}

/// What a worker knows of those that wait.
#[derive(Default)]
pub(crate) struct LongWaits {
    pub(super) waiting: BTreeMap<Token, Since>,
    /// Attempts whose claims nobody would give back, as the first worker sees them.
    pub(super) ownerless: BTreeMap<TxnId, Since>,
    /// When to look next.
    pub(super) due: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Since {
    pub(super) at: u64,
    pub(super) is_told: bool,
}

impl Since {
    /// Whether that is new and has lasted for too long.
    pub(super) fn is_long(&mut self, now: u64) -> bool {
        now.saturating_sub(self.at) >= LONG_MS && !std::mem::replace(&mut self.is_told, true)
    }
}

impl LongWaits {
    /// A connection or a task does not wait any more.
    pub(crate) fn end(&mut self, token: Token) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&token);
        }
    }
}

//! The node's part in transactions that others coordinate: one state machine under a lock, which any worker may drive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use clocks::BootMs;
use txn::{Life, Participant, Settings, TxnId};

/// Nanoseconds for which a node serves nothing after its start.
pub(crate) const REST_NS: u64 = Settings::DEFAULT.read_ms * 1_000_000;

/// A node's part in transactions that others coordinate, and the node itself.
#[derive(Default)]
pub(crate) struct Parts {
    known: OnceLock<(Life, Mutex<Participant>)>,
    /// The participant is of another shard, or of none: the next worker that sees the map makes it anew.
    has_ended: AtomicBool,
    /// When something is due: a [`BootMs`], which may be [`BootMs::NEVER`].
    due: AtomicU64,
}

impl Parts {
    /// The node, once it has found itself in the map.
    pub(super) fn me(&self) -> Option<Life> {
        self.known.get().map(|(me, _)| *me)
    }

    /// The node has found itself in the map: the first worker that sees it makes the participant.
    pub(super) fn begin(&self, me: Life, participant: impl FnOnce() -> Participant) {
        let mut participant = Some(participant);
        let mut make = || participant.take().map(|make| make());
        let (known, present) = match self.known.get() {
            Some(known) => known,
            None => {
                let Some(made) = make() else { return };
                self.known.get_or_init(|| (me, Mutex::new(made)))
            }
        };
        debug_assert_eq!(known.node, me.node, "a node keeps its number for as long as it runs");
        if self.has_ended.load(Acquire) {
            let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
            if self.has_ended.swap(false, AcqRel)
                && let Some(made) = make()
            {
                *present = made;
            }
        }
    }

    /// The node owns a shard that another one has owned: what it takes part in is in the log by now.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Release);
    }

    /// Calls `f` with the participant, if there is one.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Participant) -> R) -> Option<R> {
        let (_, participant) = self.known.get()?;
        let mut participant: MutexGuard<'_, _> = participant.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut participant);
        self.due.store(participant.next_tick().unwrap_or(BootMs::NEVER).0, Relaxed);
        Some(result)
    }

    /// When the participant wants to be called next; it may be [`BootMs::NEVER`].
    pub(super) fn due(&self) -> BootMs {
        BootMs(self.due.load(Relaxed))
    }

    /// When the last answer to a read without a record counts no more.
    pub(crate) fn reads_until(&self) -> BootMs {
        self.with(|parts| parts.reads_until()).unwrap_or(BootMs::ZERO)
    }

    /// Where an attempt is that has claims here or wants some; `None`: it is over, or not known.
    pub(crate) fn stage(&self, tx: TxnId) -> Option<&'static str> {
        self.with(|parts| parts.stage(tx)).flatten()
    }

    /// True if an attempt has no claims here any more, as far as the participant knows.
    pub(crate) fn is_over(&self, tx: TxnId) -> bool {
        self.with(|parts| parts.stage(tx).is_none()) == Some(true)
    }

    /// True if a part still wants its locks.
    pub(super) fn is_queued(&self, tx: TxnId) -> bool {
        self.with(|parts| parts.is_queued(tx)) == Some(true)
    }
}

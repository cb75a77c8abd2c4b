//! The node's part in transactions that others coordinate: one state machine under a lock, which any worker may drive. It is
//! the participant that the node's shard is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use clocks::BootMs;
use txn::{Life, Member, Participant, Settings, TxnId};

/// Nanoseconds for which a node serves nothing after its start.
pub(crate) const REST_NS: u64 = Settings::DEFAULT.read_ms * 1_000_000;

/// A node's part in transactions that others coordinate, and the node itself.
pub(crate) struct Parts {
    me: OnceLock<Life>,
    led: Mutex<Led>,
    /// When something is due: a [`BootMs`], which may be [`BootMs::NEVER`].
    due: AtomicU64,
}

/// The shard that the process has.
#[derive(Default)]
struct Led {
    /// The map by which this is so. Workers hear of maps at different times.
    version: u64,
    participant: Option<Participant>,
}

impl Default for Parts {
    fn default() -> Self {
        Self { me: OnceLock::new(), led: Mutex::default(), due: AtomicU64::new(BootMs::NEVER.0) }
    }
}

impl Parts {
    /// The node, once it has found itself in the map.
    pub(super) fn me(&self) -> Option<Life> {
        self.me.get().copied()
    }

    /// The node has found itself in the map.
    pub(super) fn begin(&self, me: Life) {
        let known = self.me.get_or_init(|| me);
        debug_assert_eq!(known.node, me.node, "a node keeps its number for as long as it runs");
    }

    fn led(&self) -> MutexGuard<'_, Led> {
        self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By the map of this version the process is this participant, or none. `restore`: makes it from the log, which has
    /// been read.
    pub(super) fn lead(&self, version: u64, me: Option<Member>, restore: impl FnOnce(Member) -> Participant) {
        let mut led = self.led();
        if version < led.version {
            return;
        }
        led.version = version;
        match (me, &mut led.participant) {
            (None, present) => *present = None,
            // The same log and memory go on, in another term or by another name.
            (Some(me), Some(present)) => present.leads(me),
            (Some(me), present @ None) => *present = Some(restore(me)),
        }
        self.note_due(&led);
    }

    fn note_due(&self, led: &Led) {
        let due = led.participant.as_ref().and_then(Participant::next_tick);
        self.due.store(due.unwrap_or(BootMs::NEVER).0, Relaxed);
    }

    /// The process goes on with another shard, or with what another process has written to the log of this one: what it
    /// takes part in has to be restored.
    pub(crate) fn end(&self) {
        let mut led = self.led();
        led.participant = None;
        self.note_due(&led);
    }

    /// Calls `f` with the participant, if there is one.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Participant) -> R) -> Option<R> {
        let mut led = self.led();
        let result = f(led.participant.as_mut()?);
        self.note_due(&led);
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

//! Versions, and the log records they belong to.
//!
//! A record is what happened between taking latches and giving them back: one version, which is its LSN, for all it changed
//! (rules L1, L3). The gate of the log is entered when the version is chosen and left when the record has been left, before any
//! latch goes back: so who reads what it wrote, and writes, has a higher LSN.
//!
//! A block that may widen, or be suspended, cannot stay inside: it works with versions of its own, and everything it changed gets the
//! record's when it ends.

use command::effects;
use keyspace::Held;
use log::{Gate, Lsn, Record};

use crate::engine::{Engine, VERSION_SHIFT};

/// The engine's side of the log.
#[derive(Default)]
pub(crate) struct Recorder {
    gate: Option<Gate>,
    /// The LSN of the record that is being made.
    open: Option<Lsn>,
    /// Versions are chosen without a record: a block's.
    deferred: bool,
}

impl Engine {
    /// From now on what this engine changes goes through this gate; `None`: nowhere.
    pub fn log_to(&mut self, gate: Option<Gate>) {
        self.fx.recording = gate.is_some();
        self.recorder.gate = gate;
    }

    /// Whether changes are logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.recorder.gate.is_some()
    }

    /// The version for what is about to be changed: that of the open record, or one above everything seen so far in the held
    /// slots; what they see next is above it.
    pub(crate) fn next_version(&mut self, held: &Held) -> u64 {
        if let Some(lsn) = self.recorder.open {
            self.shared.keyspace.raise(held, lsn);
            return lsn;
        }
        let mut floor = self.last_version.max(self.shared.keyspace.last_version(held));
        let gate = self.recorder.gate.as_mut().filter(|_| !self.recorder.deferred);
        let opens = gate.is_some();
        if let Some(gate) = gate {
            floor = floor.max(gate.enter());
        }
        self.last_version = (self.now << VERSION_SHIFT).max(floor + 1);
        self.recorder.open = opens.then_some(self.last_version);
        self.shared.keyspace.raise(held, self.last_version);
        self.last_version
    }

    /// The version of the next command of a block: it has its latches, so nobody else writes there.
    #[inline]
    pub(crate) fn following_version(&mut self) -> u64 {
        if let Some(lsn) = self.recorder.open {
            return lsn;
        }
        self.last_version += 1;
        self.last_version
    }

    /// Chooses versions without a record while `f` runs.
    pub(crate) fn deferring<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        debug_assert!(self.recorder.open.is_none(), "a record is open");
        let before = std::mem::replace(&mut self.recorder.deferred, true);
        let result = f(self);
        self.recorder.deferred = before;
        result
    }

    /// Leaves the open record, if there is one, before the latches go back.
    #[inline]
    pub(crate) fn seal(&mut self) {
        if let Some(lsn) = self.recorder.open.take() {
            self.leave(lsn);
        }
    }

    fn leave(&mut self, lsn: Lsn) {
        let Some(gate) = &mut self.recorder.gate else { return };
        if !self.fx.encoded.is_empty() {
            let effects = &mut self.fx.encoded;
            gate.leave(lsn, |out| Record::encode(lsn, &[], effects, out));
            effects.clear();
        }
        gate.exit();
    }

    /// Everything a block has changed gets the version of its record, which is opened now.
    pub(crate) fn stamp_block(&mut self, held: &Held) {
        let lsn = self.next_version(held);
        let encoded = std::mem::take(&mut self.fx.encoded);
        let shared = self.shared.clone();
        // What we have encoded can be decoded; of whole databases nothing is left to stamp.
        for effect in effects::decode(&encoded).flatten().filter(|effect| !effect.is_barrier()) {
            let key = shared.keyspace.hasher().key(effect.key);
            self.db(held, effect.db, lsn).stamp(&key);
        }
        self.fx.encoded = encoded;
    }
}

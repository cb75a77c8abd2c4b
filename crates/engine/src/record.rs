//! Versions, the log records they belong to, and the uncommitted records that a command has seen.
//!
//! A record has everything between taking latches and giving them back: one version, which is its LSN, for all changes
//! (rules L1, L3). The gate of the log is entered when the version is chosen, and left when the record has been left,
//! before any latch goes back. So a command that reads these changes, and writes, has a higher LSN.
//!
//! A block that may widen, or be suspended, cannot stay inside. It works with versions of its own, which belong to no
//! record. All its changes get the record's version when it ends.

use std::sync::Arc;

use clocks::UnixMs;
use command::effects;
use keyspace::{Held, Horizon, Keyspace, STREAMS, VERSION_BITS, Version};
use redolog::{Gate, Lsn, Record, Watermarks};
use smallvec::SmallVec;
use txn::HybridTime;

use crate::block::BlockRun;
use crate::call::Busy;
use crate::engine::Engine;

/// Bits of a version below its milliseconds: a counter and the stream (rule L1). A worker that writes more than these
/// can count runs ahead of the clock. 42 bits of milliseconds last until 2109.
const VERSION_SHIFT: u32 = VERSION_BITS - 42;

/// A worker takes up to 0.1 ms to write a value of so many bytes into a record. Larger ones are written by the log's
/// thread.
pub const LATE_FROM: usize = 64 * 1024;

/// The version of all changes in a record.
#[inline]
pub(crate) fn version_of(lsn: Lsn) -> Version {
    Version(lsn.0)
}

/// The LSN of the record that has changes of this version.
#[inline]
pub fn lsn_of(version: Version) -> Lsn {
    Lsn(version.0)
}

/// The lowest version of a moment.
#[inline]
pub(crate) fn version_at(moment: UnixMs) -> Version {
    Version(moment.0 << VERSION_SHIFT)
}

/// The highest version before a moment.
#[inline]
pub(crate) fn version_before(moment: UnixMs) -> Version {
    Version(version_at(moment).0.saturating_sub(1))
}

/// The slot whose latch orders changes of the libraries of functions.
pub const LIBRARIES_SLOT: u16 = 0;

/// A worker's access to the log.
pub struct Link {
    /// Its gate to each stream.
    pub gates: Vec<Gate>,
    /// The watermarks.
    pub marks: Arc<Watermarks>,
    /// True if replies about uncommitted changes wait. Not while a log is being begun that may yet be given up.
    pub promises: bool,
    /// Values of so many bytes are written into records by the log's thread: [`LATE_FROM`], except in tests.
    pub late_from: usize,
    /// Every version that a client may see has a record (rule G13): the log has copies on other machines.
    pub keeps_versions: bool,
}

/// The engine's side of the log.
#[derive(Default)]
pub(crate) struct Recorder {
    /// It has no gates while the last records before they were given back are being committed.
    link: Option<Link>,
    /// The LSN of the record that is being made.
    open: Option<Lsn>,
    /// Versions are chosen without a record: a block's.
    deferred: bool,
    /// The record goes to the stream of this slot, even if other slots are held.
    pub(crate) of: Option<u16>,
    /// Streams that records have been left for since [`Engine::take_left`], a bit each.
    left: u32,
}

impl Recorder {
    fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.link.iter().flat_map(|link| &link.gates)
    }

    /// The stream of changes in the held slots: that of the first one. The other streams of a record over several learn
    /// of it by what depends on it (rules L4, L5).
    fn stream(&self, held: &Held) -> usize {
        let streams = self.link.as_ref().map_or(0, |link| link.gates.len());
        // Unlogged changes belong to no stream.
        let Some(last) = streams.checked_sub(1) else { return STREAMS };
        if last == 0 {
            0
        } else {
            self.of.or(held.slots().first().copied()).map_or(0, |slot| usize::from(slot) % streams)
        }
    }
}

impl Engine {
    /// Sets the log for the changes of this engine from now on; `None`: there is none.
    pub fn log_to(&mut self, link: Option<Link>) {
        assert!(link.as_ref().is_none_or(|link| link.gates.len() <= STREAMS), "at most {STREAMS} streams");
        debug_assert!(self.recorder.open.is_none(), "a record is open");
        self.fx.recording = link.is_some();
        self.fx.late_from = link.as_ref().map(|link| link.late_from);
        self.recorder.link = link;
        self.look_at_marks();
    }

    /// From now on nothing is logged. Replies still wait for earlier records.
    pub fn log_no_more(&mut self) {
        debug_assert!(self.recorder.open.is_none(), "a record is open");
        self.fx.recording = false;
        if let Some(link) = &mut self.recorder.link {
            link.gates.clear();
        }
    }

    /// From now on replies about uncommitted changes wait.
    pub fn promise(&mut self) {
        if let Some(link) = &mut self.recorder.link {
            link.promises = true;
        }
        self.look_at_marks();
    }

    /// True if changes are logged.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.recorder.link.as_ref().is_some_and(|link| !link.gates.is_empty())
    }

    /// True if replies may wait for the log.
    #[inline]
    pub(crate) fn waits_for_log(&self) -> bool {
        self.recorder.link.is_some()
    }

    /// The log, if replies wait for it.
    fn promised(&self) -> Option<&Link> {
        self.recorder.link.as_ref().filter(|link| link.promises)
    }

    /// Reads the watermarks.
    pub fn look_at_marks(&mut self) {
        let marks = self.promised().map(|link| link.marks.all());
        self.local
            .set_committed(marks.into_iter().flatten().map(version_of).collect::<SmallVec<[Version; 2]>>().into_iter());
    }

    /// Number of effects since the last call that do not name what they found ([`command::Before::Unknown`]): a start
    /// reads their keys.
    #[inline]
    pub fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.fx.unknown)
    }

    /// True if everything seen up to here is committed.
    pub fn is_committed(&self, version: Version) -> bool {
        self.promised().is_none_or(|link| lsn_of(version) <= link.marks.of(version.stream() as u16))
    }

    /// True if uncommitted versions may have been seen since [`Self::take_seen`].
    #[inline]
    pub fn has_seen(&self) -> bool {
        self.local.has_seen()
    }

    /// The versions seen since the last call that may not be committed yet: replies about them must wait (rule L7).
    pub fn take_seen(&mut self) -> Horizon {
        let recorder = &self.recorder;
        self.local.take_seen(|f| recorder.gates().for_each(|gate| f(version_of(gate.end()))))
    }

    /// All versions that this engine has ever seen and that may not be committed yet.
    pub fn everything_seen(&self) -> Horizon {
        self.local.everything_seen(|f| self.recorder.gates().for_each(|gate| f(version_of(gate.end()))))
    }

    /// The ends of the streams: everything written so far is below.
    pub fn ends(&self) -> Horizon {
        let mut ends = Horizon::default();
        self.recorder
            .gates()
            .map(Gate::end)
            .filter(|end| *end > Lsn::ZERO)
            .for_each(|end| ends.extend(version_of(end)));
        ends
    }

    /// Notes that everything was seen, for a command that has read no key in particular (rule L7).
    pub fn note_everything(&mut self) {
        for gate in self.recorder.gates() {
            self.local.note_version(version_of(gate.end()));
        }
    }

    /// Streams that records have been left for since the last call, a bit each.
    #[inline]
    pub fn take_left(&mut self) -> u32 {
        std::mem::take(&mut self.recorder.left)
    }

    /// The highest version that this engine has given or heard of.
    #[inline]
    pub fn last_version(&self) -> Version {
        self.last_version
    }

    /// A time at or above all that this engine has given or heard of.
    pub fn hybrid_time(&self) -> HybridTime {
        HybridTime(self.last_version.max(version_at(self.now)).0)
    }

    /// Takes a version that another node has given: later changes are above it (rule L1). False, and nothing is
    /// changed, if it is more than a day ahead of the clock. Versions never go back, so a wrong one would be followed
    /// for good.
    #[must_use]
    pub fn hear_of(&mut self, version: Version) -> bool {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let believed = UnixMs(version.0 >> VERSION_SHIFT) <= self.now + DAY_MS;
        if believed {
            self.last_version = self.last_version.max(version);
        }
        believed
    }

    /// The version of the next change: that of the open record, or one above everything seen so far in the held slots.
    /// Later versions there are above it.
    pub(crate) fn next_version(&mut self, held: &Held) -> Version {
        if let Some(lsn) = self.recorder.open {
            return version_of(lsn);
        }
        let mut floor = self.last_version.max(self.shared.keyspace.last_version(held));
        if self.only_reads {
            // No change gets it, and no slot: the next versions there are the owner's.
            return floor.above(STREAMS);
        }
        let stream = self.recorder.stream(held);
        let deferred = self.recorder.deferred;
        let gate = self.recorder.link.as_mut().filter(|_| !deferred).and_then(|link| link.gates.get_mut(stream));
        let opens = gate.is_some();
        if let Some(gate) = gate {
            floor = floor.max(version_of(gate.enter()));
        }
        let stream = if deferred { STREAMS } else { stream };
        self.last_version = floor.max(version_before(self.now)).above(stream);
        if opens {
            // The slots note it if there is a record of it.
            self.recorder.open = Some(lsn_of(self.last_version));
        } else if !deferred {
            self.shared.keyspace.raise(held, self.last_version);
        }
        self.last_version
    }

    /// The version of the next command of a block: it has its latches, so no other command writes there.
    #[inline]
    pub(crate) fn following_version(&mut self) -> Version {
        if let Some(lsn) = self.recorder.open {
            return version_of(lsn);
        }
        // Of no stream: the last one may be that of a slot that the block has come to since, which names one.
        self.last_version = self.last_version.above(STREAMS);
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

    /// Leaves the open record, if there is one, before the latches `held` go back.
    #[inline]
    pub(crate) fn seal(&mut self, held: &Held) {
        if let Some(lsn) = self.recorder.open.take() {
            self.leave(lsn, held);
        }
    }

    fn leave(&mut self, lsn: Lsn, held: &Held) {
        let Some(link) = &mut self.recorder.link else { return };
        let gate = &mut link.gates[usize::from(lsn.stream())];
        let effects = &mut self.fx.encoded;
        let late = &mut self.fx.late;
        if !self.local.take_stamped() && effects.is_empty() {
            return gate.exit();
        }
        let dependencies = match link.marks.count() {
            1 => Dependencies::new(),
            _ => dependencies(&self.shared.keyspace, held, lsn, &link.marks),
        };
        if effects.is_empty() && link.marks.count() == 1 && !link.keeps_versions {
            // A version was given, though nothing has changed: others must be above it, and a cut must pass it. Records
            // of other streams may come to depend on it: then a start after a crash must find it. So must the next owner
            // of a log with copies, whose clock may be behind.
            gate.pass(lsn);
        } else if late.is_empty() {
            gate.leave(lsn, |out| Record::encode(lsn, &dependencies, effects, out));
            self.local.note_version(version_of(lsn));
        } else {
            let (effects, late) = (std::mem::take(effects), std::mem::take(late));
            let about = effects::length_with_images(&effects, &late) as u64;
            let write = move |out: &mut Vec<u8>| effects::write_with_images(&effects, &late, out);
            gate.leave_late(lsn, about, Box::new(move |out| Record::encode_with(lsn, &dependencies, write, out)));
            self.local.note_version(version_of(lsn));
        }
        gate.exit();
        effects.clear();
        effects.shrink_to(1 << 20);
        self.shared.keyspace.raise(held, version_of(lsn));
        self.recorder.left |= 1 << usize::from(lsn.stream());
    }

    /// Changes the libraries of functions and leaves a record of them, if there is a log. `change` returns them as
    /// FUNCTION DUMP does, `None` if nothing has changed. All such changes happen under one latch, in the order of
    /// their records.
    ///
    /// # Errors
    ///
    /// The latch is busy: nothing was done.
    pub fn change_libraries<R>(
        &mut self,
        token: u64,
        change: impl FnOnce() -> (R, Option<Vec<u8>>),
    ) -> Result<R, Busy> {
        let need = self.need_of(std::iter::once(LIBRARIES_SLOT));
        let held = self.acquire_for(need, token)?;
        let version = self.next_version(&held);
        debug_assert!(version > Version::ZERO);
        let (result, now) = change();
        if let Some(now) = now {
            self.fx.push_libraries(&now);
        }
        self.release(held);
        Ok(result)
    }

    /// As [`Self::change_libraries`], as a part of a block.
    ///
    /// # Errors
    ///
    /// The latch is busy: nothing was done.
    pub fn change_libraries_in_block<R>(
        &mut self,
        block: &mut BlockRun,
        change: impl FnOnce() -> (R, Option<Vec<u8>>),
    ) -> Result<R, Busy> {
        let need = self.need_of(std::iter::once(LIBRARIES_SLOT));
        self.widen_block_to(block, need)?;
        let (result, now) = change();
        if let Some(now) = now {
            self.push_libraries_in_block(block, &now);
        }
        Ok(result)
    }

    /// All changes of a block get the version of its record, which is opened now. `stamped`: a key was given a version.
    pub(crate) fn stamp_block(&mut self, held: &Held, stamped: bool) {
        if !stamped && self.fx.encoded.is_empty() {
            return;
        }
        self.local.note_stamped();
        let version = self.next_version(held);
        let encoded = std::mem::take(&mut self.fx.encoded);
        let shared = self.shared.clone();
        // Bytes of this engine can be decoded; changes of whole databases have nothing left to stamp.
        for effect in effects::decode(&encoded).flatten().filter(|effect| !effect.is_barrier()) {
            let key = shared.keyspace.hasher().key(effect.key);
            self.db(held, effect.db, version).stamp(&key);
        }
        self.fx.encoded = encoded;
    }
}

type Dependencies = SmallVec<[Lsn; 2]>;

/// The dependencies of a record (rule L4): the last record of each slot that it read or wrote, if that is in another
/// stream and not on the disk. The promise of replies does not matter, as the power may fail. One for each stream is
/// enough, because a watermark that has passed a record has passed all earlier ones.
fn dependencies(keyspace: &Keyspace, held: &Held, lsn: Lsn, marks: &Watermarks) -> Dependencies {
    let mut last = [Lsn::ZERO; STREAMS];
    keyspace.last_versions(held, |version| {
        if let Some(last) = last.get_mut(version.stream()) {
            *last = lsn_of(version).max(*last);
        }
    });
    let others = last.into_iter().zip(0..).filter(|(last, stream)| *stream != lsn.stream() && *last > Lsn::ZERO);
    others.filter(|(last, stream)| *last > marks.synced(*stream)).map(|(last, _)| last).collect()
}

//! EXEC and scripts: commands that run under one set of latches, at one time.
//!
//! A script's keys are known only when it uses them. A block then *widens* by trying. If a latch is busy, all changes
//! of the block are undone. It runs again with that latch among those it begins with, at the same time and with the
//! same chance (rule K3). No client sees its changes before it ends.

use std::ops::AddAssign;

use clocks::UnixMs;
use command::effects::LateImage;
use command::{Error, Event, Outcome, Rng, Run, Touched};
use keyspace::{Held, Need, Unpublished};
use resp::Reply;
use txn::locks::Mode;

use crate::call::{Busy, Call};
use crate::engine::{Engine, FREED_AT_ONCE};
use crate::journal::Journal;
use crate::tracking::{Invalidation, Read};
use crate::watch::WatchedKey;

/// A block under way: its latches are held until [`Engine::end_block`] or [`Engine::undo_block`].
#[must_use]
pub struct BlockRun {
    held: Held,
    /// The connection that runs it.
    token: u64,
    /// A client watches or waits in the slots.
    interest: bool,
    /// A command that waits there may need further slots.
    reaching: bool,
    /// Its time (rule K6).
    now: UnixMs,
    touched: Vec<Touched>,
    /// Its reads for a client that caches.
    reads: Vec<Read>,
    /// It runs for a client that caches: keys that it changes later were read by it.
    caches: bool,
    /// It does not delete expired keys: see [`Engine::keep_expired`].
    keeps_expired: bool,
    /// Its messages and events for its end.
    pending: Pending,
    /// It has no record before it ends: see [`crate::record`].
    deferred: bool,
    /// It has given a version to a key.
    stamped: bool,
    /// See [`Begin::stays_undoable`].
    stays_undoable: bool,
    /// Kept if the block may have to be undone.
    journal: Option<Journal>,
}

/// The messages and events of a block's commands, until the block ends.
#[derive(Default)]
struct Pending {
    encoded: Vec<u8>,
    late: Vec<LateImage>,
    published: Vec<Event>,
    invalidated: Vec<Invalidation>,
    dirty: u64,
    counts: Unpublished,
}

/// The parts of an undone run that the next one keeps.
#[derive(Clone)]
pub struct Again {
    /// Latches to begin with: all that it was found to need.
    pub need: Need,
    /// Its time.
    now: UnixMs,
    /// True if it began while expired keys were to be kept.
    keeps_expired: bool,
    rng: Rng,
}

/// The inputs of a block.
#[derive(Default)]
pub struct Begin<'a> {
    /// Commands, in the databases that each will run in.
    pub calls: &'a [Call<'a>],
    /// Further slots.
    pub slots: &'a [u16],
    /// Keys that scripts declare, with their databases.
    pub declared: &'a [(u16, &'a [u8])],
    /// Watched keys, checked first.
    pub watched: &'a [WatchedKey],
    /// The block may need further latches, and then may have to be undone.
    pub may_widen: bool,
    /// It may have to be undone even when it has every latch.
    pub stays_undoable: bool,
    /// It was undone and runs again.
    pub again: Option<&'a Again>,
}

impl Engine {
    /// Takes the latches of a block of commands: all of them run under these, at one time. `Ok(None)`: a watched key
    /// has changed.
    ///
    /// # Errors
    ///
    /// A latch is busy, or a key is locked: nothing was done.
    pub fn begin_block(&mut self, begin: &Begin<'_>, token: u64) -> Result<Option<BlockRun>, Busy> {
        let mut need = self.need_of_block(begin);
        let held = loop {
            let held = self.acquire_for(need, token)?;
            match self.wider_need(begin.calls, &held) {
                None => break held,
                Some(wider) => {
                    self.release(held);
                    need = wider;
                }
            }
        };
        let watched = begin.watched.iter().map(|watched| (watched.db, &*watched.key));
        let further = watched.chain(begin.declared.iter().copied());
        let locked = begin.watched.iter().map(|watched| (watched.db, &*watched.key, Mode::Shared));
        let locked = locked.chain(begin.declared.iter().map(|(db, key)| (*db, *key, Mode::Exclusive)));
        let busy = self.await_locks(begin.calls, locked, &held, token);
        if let Some(busy) = busy.or_else(|| self.await_keys(begin.calls, further, &held, token)) {
            self.release(held);
            return Err(busy);
        }
        if !begin.watched.is_empty() {
            let version = self.next_version(&held);
            self.fx.interest = true;
            let shared = self.shared.clone();
            for w in begin.watched {
                self.expire_keys(&held, w.db, version, std::iter::once(shared.keyspace.hasher().key(&w.key)));
            }
            let touched = std::mem::take(&mut self.fx.touched);
            self.mark_watched(&touched, &held);
            self.invalidate(&touched, &held);
            if !self.unchanged(begin.watched, &held) {
                self.release(held);
                return Ok(None);
            }
        }
        if let Some(again) = begin.again {
            self.rng = again.rng.clone();
        }
        let now = begin.again.map_or(self.now, |again| again.now);
        let mut block = self.open_block(held, token, begin.may_widen, now);
        if begin.may_widen && begin.stays_undoable {
            block.stays_undoable = true;
            block.journal.get_or_insert_with(|| Journal::new(self.rng.clone()));
        }
        // A block that begins during CLIENT PAUSE only reads.
        block.keeps_expired = begin.again.map_or(self.keep_expired, |again| again.keeps_expired);
        Ok(Some(block))
    }

    /// A block over these latches.
    pub(crate) fn open_block(&mut self, held: Held, token: u64, may_be_undone: bool, now: UnixMs) -> BlockRun {
        // A block that may have to wait in the middle stays outside the gate of the log meanwhile.
        let deferred = may_be_undone && self.is_logged();
        if deferred {
            self.seal(&held);
            self.deferring(|engine| engine.next_version(&held));
        } else {
            self.next_version(&held);
        }
        let interest = self.has_interest(&held);
        let reaching = interest && self.has_reaching(&held);
        let journal = (may_be_undone && !held.is_all()).then(|| Journal::new(self.rng.clone()));
        BlockRun {
            held,
            token,
            interest,
            reaching,
            now,
            touched: Vec::new(),
            reads: Vec::new(),
            caches: false,
            keeps_expired: false,
            pending: Pending::default(),
            stays_undoable: false,
            deferred,
            stamped: false,
            journal,
        }
    }

    fn need_of_block(&mut self, begin: &Begin<'_>) -> Need {
        let mut slots: smallvec::SmallVec<[u16; 16]> = begin.watched.iter().map(|w| w.slot).collect();
        slots.extend_from_slice(begin.slots);
        slots.extend(begin.declared.iter().map(|(_, key)| keyspace::slot_of(key)));
        match begin.again.map(|again| &again.need) {
            None => {}
            Some(Need::All) => return Need::All,
            Some(Need::Slots(found)) => slots.extend_from_slice(found),
        }
        for call in begin.calls {
            if let Some(key) = call.first {
                slots.push(key.slot);
                continue;
            }
            match self.need_in_block(call) {
                Need::All => return Need::All,
                Need::Slots(more) => slots.extend(more),
            }
        }
        self.need_of(slots.into_iter())
    }

    /// The latches that a command needs inside a block, where walks are not taken in steps.
    fn need_in_block(&mut self, call: &Call<'_>) -> Need {
        match call.row.run {
            Run::Walk(_) => Need::All,
            _ => self.need_of_call(call),
        }
    }

    /// Takes further latches if `call`, the next command of the block, needs them. If one is busy, the block must be
    /// undone.
    ///
    /// # Errors
    ///
    /// A latch is busy, or a key is locked.
    pub fn widen_block(&mut self, block: &mut BlockRun, call: &Call<'_>) -> Result<(), Busy> {
        self.widen_for(block, call)?;
        if !block.can_be_undone() {
            return Ok(());
        }
        let call_alone = std::slice::from_ref(call);
        let busy = self.await_locks(call_alone, [].into_iter(), &block.held, block.token);
        busy.or_else(|| self.await_keys(call_alone, None.into_iter(), &block.held, call.token)).map_or(Ok(()), Err)
    }

    fn widen_for(&mut self, block: &mut BlockRun, call: &Call<'_>) -> Result<(), Busy> {
        if block.held.is_all() || call.first.is_some_and(|key| block.held.covers(key.slot)) && !block.interest {
            return Ok(());
        }
        let need = self.need_in_block(call);
        let covered = matches!(&need, Need::Slots(slots) if block.held.covers_all(slots));
        if !covered {
            self.extend(block, need)?;
        }
        // Commands that wait for the next changes of a chain are seen when those latches are held.
        while block.reaching
            && let Some(wider) = self.need_of_waiters(std::slice::from_ref(call), &block.held)
        {
            self.extend(block, wider)?;
        }
        Ok(())
    }

    /// Takes further latches. If one is busy, the block must be undone.
    pub(crate) fn widen_block_to(&mut self, block: &mut BlockRun, need: Need) -> Result<(), Busy> {
        if matches!(&need, Need::Slots(slots) if block.held.covers_all(slots)) {
            return Ok(());
        }
        self.extend(block, need)
    }

    pub(crate) fn push_libraries_in_block(&mut self, block: &mut BlockRun, payload: &[u8]) {
        self.exchange(&mut block.pending);
        self.fx.push_libraries(payload);
        self.exchange(&mut block.pending);
        block.pending.dirty += 1;
    }

    fn extend(&mut self, block: &mut BlockRun, need: Need) -> Result<(), Busy> {
        let more = match self.try_to_extend(&mut block.held, &need) {
            Ok(more) => more,
            Err(slot) => {
                let need = match need {
                    Need::All => Need::All,
                    Need::Slots(more) => self.need_of(block.held.slots().iter().copied().chain(more)),
                };
                return Err(Busy::latch(need, slot));
            }
        };
        if block.held.is_all() {
            if let Some(busy) = self.await_all_quiet(Need::All, &block.held, block.token) {
                return Err(busy);
            }
            // Nothing can be busy now.
            if !block.stays_undoable {
                block.journal = None;
            }
            match block.deferred {
                true => self.deferring(|engine| engine.next_version(&block.held)),
                false => self.next_version(&block.held),
            };
            block.interest = true;
            return Ok(());
        }
        // The held slots are below the block's version, and no client can have begun to watch or wait there. A script
        // that uses ten thousand keys must not check all of them each time.
        let keyspace = &self.shared.keyspace;
        self.last_version = self.last_version.max(keyspace.last_version_of(&block.held, more.iter().copied()));
        // Clients that listen to everything may have come meanwhile.
        block.interest |= self.shared.tracking.is_broadcasting();
        block.interest |= more.iter().any(|&slot| keyspace.interest(&block.held, slot));
        block.reaching |= more.iter().any(|&slot| self.reaches(&block.held, slot));
        Ok(())
    }

    /// Runs one command of a block, whose latches are held. One that would block answers its nil.
    pub fn run_in_block(&mut self, block: &mut BlockRun, call: &Call<'_>, out: &mut Vec<u8>) {
        match block.deferred {
            true => self.deferring(|engine| engine.run_next(block, call, out)),
            false => self.run_next(block, call, out),
        }
    }

    fn run_next(&mut self, block: &mut BlockRun, call: &Call<'_>, out: &mut Vec<u8>) {
        let (flushed, start) = (self.reclaims.len(), out.len());
        let turn = std::mem::replace(&mut self.now, block.now);
        let keeps = std::mem::replace(&mut self.keep_expired, block.keeps_expired);
        let dirty = self.fx.dirty;
        self.exchange(&mut block.pending);
        if call.caller.caches && !block.caches {
            (block.caches, block.interest) = (true, true);
        }
        // A key that is fetched now was there before, so the fetch need not be undone. Without the key, no command
        // runs.
        let readable = self.settle(call, &block.held);
        if let Some(journal) = block.journal.as_mut().filter(|_| readable.is_ok()) {
            self.journal(journal, &block.held, call);
        }
        let outcome = match (readable, call.row.run) {
            (Err(error), _) => {
                Reply::new(out, call.protocol).error(error.as_bytes());
                Outcome::Done
            }
            (Ok(()), Run::Keyed(_)) if self.only_reads && !call.row.spec.only_reads() => {
                self.refuse_to_write(call, out)
            }
            // Facts about the whole block need not be found again for each command.
            (Ok(()), Run::Keyed(handler)) => {
                let version = self.following_version();
                self.fx.interest = block.interest;
                self.run_prepared(call, handler, &block.held, version, out)
            }
            (Ok(()), _) => self.run_handler_now(call, &block.held, out),
        };
        for reclaim in self.reclaims.iter_mut().skip(flushed) {
            let _ = reclaim.step_at_once(&mut self.local, FREED_AT_ONCE);
        }
        block.stamped |= block.deferred && self.local.take_stamped();
        match outcome {
            // Only blocks that hold everything ask for keys to load, and these were loaded.
            // Nor does a block wait here for work aside.
            Outcome::Done | Outcome::Load(_) | Outcome::Aside(_) => {}
            Outcome::Rest(rest) => {
                rest.finish(&mut Reply::sharing(out, call.protocol, &mut self.parts));
                if self.parts.take_refused() {
                    self.replace(call, start, out, &Error::OOM);
                }
            }
            Outcome::Block(wait) => {
                wait.nil.write(&mut Reply::new(out, call.protocol));
                self.unwaited = Some(wait);
            }
        }
        // A script gets a copy of long strings.
        let copied = self.parts.len();
        if self.in_script && copied >= headroom::LARGE && !headroom::has_room(3 * copied, 2 * copied) {
            self.replace(call, start, out, &Error::OOM);
        }
        if block.interest {
            block.touched.append(&mut self.fx.touched);
        }
        if block.caches {
            self.note_reads(call, block.touched.len(), &mut block.reads);
        }
        self.exchange(&mut block.pending);
        block.pending.dirty.add_assign(self.fx.dirty - dirty);
        (self.now, self.keep_expired) = (turn, keeps);
    }

    /// Swaps the block's messages and the engine's, so that commands add to the former.
    #[inline]
    fn exchange(&mut self, pending: &mut Pending) {
        std::mem::swap(&mut self.fx.encoded, &mut pending.encoded);
        std::mem::swap(&mut self.fx.late, &mut pending.late);
        std::mem::swap(&mut self.published, &mut pending.published);
        std::mem::swap(&mut self.invalidated, &mut pending.invalidated);
        self.local.exchange_counts(&mut pending.counts);
    }

    /// Ends a block: watchers and waiters learn of its changes, the latches go back. `later`: milliseconds before
    /// waiting commands are served (a block is one moment, but DEBUG SLEEP in it is not).
    pub fn end_block(&mut self, mut block: BlockRun, later: u64) {
        if self.fx.encoded.is_empty() {
            std::mem::swap(&mut self.fx.encoded, &mut block.pending.encoded);
            std::mem::swap(&mut self.fx.late, &mut block.pending.late);
        } else {
            self.fx.append(&mut block.pending.encoded, &mut block.pending.late);
        }
        if block.deferred {
            self.stamp_block(&block.held, block.stamped);
        }
        self.published.append(&mut block.pending.published);
        self.invalidated.append(&mut block.pending.invalidated);
        self.local.take_counts(&mut block.pending.counts);
        self.mark_watched(&block.touched, &block.held);
        self.invalidate_in_order(&block.touched, &block.reads, &block.held);
        let now = self.now;
        self.now += later;
        self.serve(block.touched, &block.held);
        self.now = now;
        if !self.is_logged() {
            // Most commands of a block take the next version without asking.
            self.shared.keyspace.raise(&block.held, self.last_version);
        }
        if !self.claims.is_empty() {
            self.end_claims(block.token, &block.held);
        }
        if self.waited {
            self.shared.keyspace.let_go_of_all(&block.held);
        }
        self.release(block.held);
    }

    /// How many keys a block of this engine has added to a logical database, minus those that it has removed.
    pub fn keys_added(&self, block: &BlockRun, db: u16) -> i64 {
        self.shared.keyspace.keys_added(db, &block.pending.counts)
    }

    /// Makes all commands that wait for the block's keys look again: it takes longer than it may.
    pub fn rouse_waiters(&mut self, block: &BlockRun) {
        let wakes = &mut self.wakes;
        self.shared.keyspace.rouse(&block.held, |w| wakes.push(w));
    }

    /// Undoes the changes of a block that may widen, and gives its latches back, as if it had never begun. Returns the
    /// state for the next run, when it was found to need `need`.
    pub fn undo_block(&mut self, mut block: BlockRun, need: Need) -> Again {
        let rng = block.journal.as_ref().map_or_else(|| self.rng.clone(), Journal::chance);
        self.undo_changes(&mut block);
        self.seal_undone(&block);
        self.release(block.held);
        Again { need, now: block.now, keeps_expired: block.keeps_expired, rng }
    }

    /// Undoes the changes of a block, under its latches. Its messages are left in it.
    pub(crate) fn undo_changes(&mut self, block: &mut BlockRun) {
        self.local.take_counts(&mut block.pending.counts);
        // Readers' keys are saved because keys may expire. Put back without need, they would have versions that no log
        // has.
        let is_unchanged = block.deferred && !block.stamped && block.pending.encoded.is_empty();
        match block.journal.take() {
            Some(journal) if is_unchanged => self.rng = journal.chance(),
            Some(journal) => self.undo(journal, &block.held),
            None => {}
        }
        self.fx.dirty -= std::mem::take(&mut block.pending.dirty);
    }

    /// Chooses the version of a block that was undone, for the record about it.
    pub(crate) fn seal_undone(&mut self, block: &BlockRun) {
        if block.deferred {
            let stamped = self.local.take_stamped() || block.stamped;
            self.stamp_block(&block.held, stamped);
        }
    }
}

impl BlockRun {
    /// Takes its effects and events; it reports them no more.
    pub(crate) fn take_effects(&mut self) -> (Vec<u8>, Vec<Event>) {
        debug_assert!(self.pending.late.is_empty(), "an attempt writes its images at once");
        (std::mem::take(&mut self.pending.encoded), std::mem::take(&mut self.pending.published))
    }

    /// Takes its reads for a client that caches; it remembers them no more.
    pub(crate) fn take_reads(&mut self) -> Vec<Read> {
        std::mem::take(&mut self.reads)
    }

    /// How many keys it has added and removed.
    pub fn counts(&self) -> &Unpublished {
        &self.pending.counts
    }

    /// Takes it apart and hands out the latches.
    pub(crate) fn into_held(self) -> Held {
        debug_assert!(self.pending.counts.is_empty(), "it was undone, or has done nothing");
        self.held
    }

    /// Changes that commands of the block have made.
    pub fn changes(&self) -> u64 {
        self.pending.dirty
    }

    /// True if it can still be undone. Once it has every latch it need not, and cannot, unless it is to stay undoable.
    pub fn can_be_undone(&self) -> bool {
        self.journal.is_some()
    }

    /// The time of the block.
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// The latches it has.
    pub fn held(&self) -> &Held {
        &self.held
    }
}

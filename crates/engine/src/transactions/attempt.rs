//! A node's part of an attempt: executed and undone, logged, and later installed or given up. Memory holds committed
//! values only.
//!
//! All records of an attempt are in the stream of its first slot. So a log that was cut has no outcome without the
//! Prepare.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::UnixMs;
use command::{Event, Touched, effects};
use keyspace::{Held, Horizon, Key, Kind, Need, Version, Whereabouts};
use object::Corrupt;
use txn::locks::Requested;
use txn::{Lock, Prepared, Record, Stamp, TxnId};

use super::trails::LARGE;
use crate::apply::apply;
use crate::attachment::DbKey;
use crate::block::BlockRun;
use crate::call::{Busy, Call};
use crate::cold::is_lacking;
use crate::engine::Engine;
use crate::journal::Journal;
use crate::record::LIBRARIES_SLOT;
use crate::watch::WatchedKey;

/// The result of asking for the locks of an attempt.
#[must_use]
pub enum Locked {
    /// It has them, and the latches; its commands can be executed.
    Block(Box<BlockRun>),
    /// It is younger than a transaction that it would wait for: it has nothing.
    Dies,
    /// It was given up before it asked, or while it waited: it has nothing.
    GivenUp,
}

/// The reason why the keys' state at a moment is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untimely {
    /// A key or field expires before it, at this time.
    Ends(UnixMs),
    /// The moment is over, and a key or field may have expired since.
    Over,
}

/// The effects of an undone block.
pub struct Undone {
    /// Its effects.
    pub effects: Vec<u8>,
    /// Its events of keys.
    events: Vec<Event>,
    /// The client that has asked for it, if caching clients must know; else 0.
    pub by: u64,
}

/// The reason why a prepared attempt cannot be installed now. Nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotInstalled {
    /// A key cannot be read.
    Unreadable,
    /// The keys are not as they were prepared for: the store is damaged, or the record. With the versions that the keys
    /// got by the attempt: no other result comes while they have these.
    Damaged(Corrupt, Box<[Version]>),
}

impl Engine {
    /// Takes the locks of an attempt, and its latches. The age comes with whether it is patient
    /// (`txn::Prepare::patient`). `asked`: it has asked for them before, and waited. It waits for a busy latch, a lock
    /// or a key to be fetched; a command that [insists](Engine::insists) fetches keys when it reads them. `is_wanted`
    /// is called under the latches before it asks: an attempt that is over claims nothing, because its locks were given
    /// back before.
    ///
    /// # Errors
    ///
    /// A latch is busy.
    pub fn lock_attempt(
        &mut self,
        (tx, age, locks): (TxnId, (Stamp, bool), &[Lock]),
        is_wanted: impl FnOnce() -> bool,
        asked: &mut bool,
        token: u64,
    ) -> Result<Locked, Busy> {
        let held = self.acquire_for(self.need_of_locks(locks), token)?;
        let slot = held.slots().first().copied().unwrap_or_default();
        let waits = Busy { need: Need::Slots(held.slots().into()), slot, awaited: true };
        if !std::mem::replace(asked, true) {
            if !is_wanted() {
                self.release(held);
                return Ok(Locked::GivenUp);
            }
            match self.request_locks((tx, age, locks), &held, token) {
                Requested::Granted => {}
                Requested::Waits(_) => {
                    self.release(held);
                    return Err(waits);
                }
                Requested::Dies => {
                    self.release(held);
                    return Ok(Locked::Dies);
                }
            }
        } else if !self.holds(tx, locks, &held) {
            self.release(held);
            return if self.shared.transactions.opened().has(tx) { Err(waits) } else { Ok(Locked::GivenUp) };
        } else {
            self.shared.transactions.opened().granted(tx, self.now);
        }
        // The coordinating node may have more databases.
        let databases = self.shared.keyspace.databases();
        let keys = locks.iter().filter(|lock| usize::from(lock.db) < databases).map(|lock| (lock.db, &*lock.key));
        if let Some(busy) = self.await_keys(&[], keys, &held, token) {
            self.release(held);
            return Err(busy);
        }
        let now = self.now;
        Ok(Locked::Block(Box::new(self.open_block(held, token, true, now))))
    }

    fn need_of_locks(&self, locks: &[Lock]) -> Need {
        self.need_of(locks.iter().map(|lock| keyspace::slot_of(&lock.key)))
    }

    /// True if none of these watched keys, all of them locked by the attempt, has changed since.
    pub fn is_unchanged(&mut self, block: &BlockRun, watched: &[WatchedKey]) -> bool {
        let (shared, now) = (self.shared.clone(), self.now);
        let is_there = |engine: &mut Self, key: &WatchedKey| {
            let hashed = shared.keyspace.hasher().key(&key.key);
            // A key that cannot be read may have changed.
            let known = engine.make_known(block.held(), key.db, &hashed).is_ok();
            known && engine.view(block.held(), key.db).peek(&hashed).is_none_or(|entry| !entry.expired(now))
        };
        let held = watched.iter().all(|key| block.held().covers(key.slot));
        held && watched.iter().all(|key| is_there(self, key)) && self.unchanged(watched, block.held())
    }

    /// Runs a command of an attempt, whose keys are all locked.
    pub fn run_in_attempt(&mut self, block: &mut BlockRun, call: &Call<'_>, out: &mut Vec<u8>) {
        // Its effects are to be installed, whether or not there is a log.
        let recording = std::mem::replace(&mut self.fx.recording, true);
        let late_from = self.fx.late_from.take();
        self.run_in_block(block, call, out);
        (self.fx.recording, self.fx.late_from) = (recording, late_from);
    }

    /// Reports the reads of an attempt that only read: it is never installed.
    pub fn tell(&mut self, undone: Undone) {
        self.published.extend(undone.events);
    }

    /// Undoes all changes of an attempt; it still has its latches.
    pub fn undo_attempt(&mut self, block: &mut BlockRun) -> Undone {
        self.undo_changes(block);
        let (effects, events) = block.take_effects();
        Undone { effects, events, by: 0 }
    }

    /// Leaves the record that the attempt is prepared. Returns the versions that its answer waits for (rules T8, L7).
    pub fn prepare(&mut self, block: BlockRun, prepared: Arc<Prepared>, undone: Undone) -> Horizon {
        let tx = prepared.tx;
        self.shared.transactions.keep_events(tx, undone.events, undone.by);
        self.say(&Record::Prepare(prepared.clone()));
        self.seal_undone(&block);
        self.leave_record(block.into_held(), Record::Prepare(prepared))
    }

    /// Appends the keys that an attempt has locked and whose latches it has: `version u64 · length u32 · effect that
    /// makes the key what it is`, for those that are there. An expired key is absent, and has version 0, as for
    /// [`Self::is_at`]: a writer deletes the rest of it first. False: that would be more than `most` bytes. An error: a
    /// key cannot be made known. `known`: versions of keys that the asking node has copies of: for these the steps
    /// since come instead of the effect, if they are known ([`super::trails`]).
    ///
    /// # Errors
    ///
    /// A key cannot be made known: the store cannot be read, or a key is damaged.
    pub fn look(
        &mut self,
        block: &BlockRun,
        locks: &[Lock],
        (known, most): (&BTreeMap<(u16, &[u8]), Version>, usize),
        out: &mut Vec<u8>,
    ) -> Result<bool, command::Error> {
        let (shared, now) = (self.shared.clone(), self.now);
        let trails = &shared.transactions.trails;
        let start = out.len();
        // The coordinator's node may have more databases.
        for lock in locks.iter().filter(|lock| usize::from(lock.db) < shared.keyspace.databases()) {
            let key = shared.keyspace.hasher().key(&lock.key);
            self.make_known(block.held(), lock.db, &key)?;
            let db = self.view(block.held(), lock.db);
            let Some(entry) = db.peek(&key) else { continue };
            let version = if entry.expired(now) { Version::ZERO } else { entry.version() };
            // The databases may have been swapped, and one record may have changed the keys of both: they had one
            // version.
            let known =
                known.get(&lock.place()).filter(|known| **known > shared.keyspace.floor() && version > Version::ZERO);
            if let Some(known) = known {
                let at = out.len();
                out.extend_from_slice(&version.0.to_le_bytes());
                out.extend_from_slice(&[0; 4]);
                if trails.tell(lock.place(), *known, version, out) {
                    let length = (out.len() - at - 12) as u32;
                    out[at + 8..at + 12].copy_from_slice(&length.to_le_bytes());
                    continue;
                }
                out.truncate(at);
            }
            // The image of a value is seldom much smaller than the value.
            let room = most - (out.len() - start).min(most);
            if entry.memory() / 4 > room {
                return Ok(false);
            }
            if version > Version::ZERO && entry.memory() >= LARGE {
                trails.begin(lock.place(), version);
            }
            out.extend_from_slice(&version.0.to_le_bytes());
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            effects::put_image(lock.db, entry, out);
            let Some(length) = u32::try_from(out.len() - at - 4).ok().filter(|_| out.len() - start <= most) else {
                return Ok(false);
            };
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
        Ok(true)
    }

    /// Compares the state of the keys that an attempt has locked, and of their fields, at `moment` and now. Both are
    /// the same if none that exists expires before `moment`, and none that is absent may have
    /// expired since. Returns `None` then, or else the reason.
    ///
    /// # Errors
    ///
    /// As for [`Self::look`].
    pub fn is_untimely(
        &mut self,
        block: &BlockRun,
        locks: &[Lock],
        moment: UnixMs,
    ) -> Result<Option<Untimely>, command::Error> {
        let (shared, now) = (self.shared.clone(), self.now);
        let is_over = now > moment;
        let (mut may_have_ended, mut first) = (false, None);
        // The coordinator's node may have more databases.
        for lock in locks.iter().filter(|lock| usize::from(lock.db) < shared.keyspace.databases()) {
            // An insisting command has not waited until memory knows its keys.
            let may_end = self.insists || self.view(block.held(), lock.db).may_expire(keyspace::slot_of(&lock.key));
            if !may_end && !is_over {
                continue;
            }
            let key = shared.keyspace.hasher().key(&lock.key);
            match self.make_known(block.held(), lock.db, &key) {
                // The execution finds that out, too.
                Err(error) if error == command::Error::UNREADABLE => continue,
                known => known?,
            }
            let db = self.view(block.held(), lock.db);
            match db.peek(&key).filter(|entry| !entry.expired(now)) {
                Some(entry) => {
                    // Expired fields leave no trace.
                    may_have_ended |= entry.kind() == Kind::Hash;
                    first = entry.expiry().into_iter().chain(entry.field_expiry_from(now)).chain(first).min();
                }
                None => may_have_ended = true,
            }
        }
        let over = (is_over && may_have_ended).then_some(Untimely::Over);
        Ok(first.filter(|ends| *ends < moment).map(Untimely::Ends).or(over))
    }

    /// True if a key that an attempt has locked, and whose latch it has, is as it was at `version`; 0: absent.
    ///
    /// # Errors
    ///
    /// As for [`Self::look`].
    pub fn is_at(
        &mut self,
        block: &BlockRun,
        (db, key): (u16, &[u8]),
        version: Version,
    ) -> Result<bool, command::Error> {
        let shared = self.shared.clone();
        let (now, key) = (self.now, shared.keyspace.hasher().key(key));
        self.make_known(block.held(), db, &key)?;
        let entry = self.view(block.held(), db).peek(&key).filter(|entry| !entry.expired(now)).map(|e| e.version());
        Ok(entry.unwrap_or_default() == version)
    }

    /// An insisting command has not waited for keys that memory does not know. An error: the store cannot be read, or
    /// there is no memory for its value.
    fn make_known(&mut self, held: &Held, db: u16, key: &Key<'_>) -> Result<(), command::Error> {
        if is_lacking(&self.view(held, db), key) {
            self.fetch_for_command(held, db, key)?;
        }
        match self.view(held, db).whereabouts(key) {
            Whereabouts::Unreadable => Err(command::Error::UNREADABLE),
            _ => Ok(()),
        }
    }

    /// An attempt keeps its locks, and gives its latches back: it has done nothing yet. It may have seen uncommitted
    /// versions.
    pub fn hold_attempt(&mut self, block: BlockRun) -> Horizon {
        self.seal_undone(&block);
        let seen = self.take_seen();
        self.release(block.into_held());
        seen
    }

    /// The effects of an attempt that another node has run, to be [prepared](Self::prepare).
    pub fn undone_elsewhere(&self, mut events: Vec<Event>) -> Undone {
        events.retain(|event| event.class & self.events.wanted != 0);
        Undone { effects: Vec::new(), events, by: 0 }
    }

    /// Ends an attempt that was undone and is not prepared. Returns the versions that it may have seen, if the reason
    /// follows from them (rule L7).
    pub fn drop_attempt(&mut self, block: BlockRun, tx: TxnId, locks: &[Lock]) -> Horizon {
        self.seal_undone(&block);
        let held = block.into_held();
        self.shared.keyspace.last_versions(&held, |version| self.local.note_version(version));
        let seen = self.take_seen();
        self.release_locks(tx, locks, &held);
        self.release(held);
        seen
    }

    /// Installs a prepared attempt, and gives its locks back: one step under all latches, one record (rule T6). Returns
    /// the versions that its acknowledgement waits for, or the reason why nothing was done. `before`: the result of the
    /// last try. A try gives keys new versions, and so leaves a record, with any outcome.
    ///
    /// # Errors
    ///
    /// A latch is busy: nothing was done.
    pub fn install(
        &mut self,
        prepared: &Prepared,
        before: Option<&NotInstalled>,
        token: u64,
    ) -> Result<Result<Horizon, NotInstalled>, Busy> {
        let shared = self.shared.clone();
        let hasher = shared.keyspace.hasher();
        let keys = || effects::decode(&prepared.effects).flatten().map(|effect| (effect.db, hasher.key(effect.key)));
        let mut need = self.need_of_locks(&prepared.locks);
        let held = loop {
            let held = self.acquire_for(need, token)?;
            if let Err(corrupt) = self.check_prepared(prepared, &held) {
                self.release(held);
                return Ok(Err(NotInstalled::Damaged(corrupt, Box::default())));
            }
            let mut missing = std::collections::BTreeSet::new();
            if self.has_reaching(&held) {
                for (db, key) in keys() {
                    missing.extend(self.slots_of_waiters(&held, Some(db), std::iter::once(key)));
                }
            }
            if missing.is_empty() {
                break held;
            }
            need = self.need_of(held.slots().iter().copied().chain(missing));
            self.release(held);
        };
        for (db, key) in keys() {
            if is_lacking(&self.view(&held, db), &key) && self.fetch_key(&held, db, &key).is_err() {
                self.release(held);
                return Ok(Err(NotInstalled::Unreadable));
            }
        }
        let versions = |engine: &mut Self| -> Box<[Version]> {
            keys()
                .map(|(db, key)| engine.view(&held, db).peek(&key).map_or(Version::ZERO, |entry| entry.version()))
                .collect()
        };
        if let Some(NotInstalled::Damaged(corrupt, left)) = before
            && *left == versions(self)
        {
            self.release(held);
            return Ok(Err(NotInstalled::Damaged(*corrupt, left.clone())));
        }
        self.recorder.of = prepared.locks.iter().map(|lock| keyspace::slot_of(&lock.key)).min();
        let trails = &shared.transactions.trails;
        let trailed = match trails.any() {
            true => trails.of(keys().zip(versions(self)).map(|((db, key), version)| (db, key.bytes, version))),
            false => Vec::new(),
        };
        if let Err(corrupt) = self.replay_prepared(prepared, &held) {
            let left = versions(self);
            self.seal(&held);
            self.recorder.of = None;
            self.release(held);
            return Ok(Err(NotInstalled::Damaged(corrupt, left)));
        }
        let (tx, members) = (prepared.tx, prepared.members.clone());
        self.say(&Record::Commit { tx, members: members.clone() });
        if self.is_logged() {
            self.fx.encoded.extend_from_slice(&prepared.effects);
        }
        let interest = self.has_interest(&held);
        let (mut events, by) = shared.transactions.take_events(tx);
        for (db, key) in keys() {
            self.fx.dirty += 1;
            if interest {
                let (slot, key) = (key.slot, key.bytes.into());
                self.fx.touched.push(Touched { db, slot, key, serves: true, by });
            }
        }
        self.published.append(&mut events);
        self.installs = Some(tx);
        let said = self.fx.encoded.len();
        let recording = self.fx.recording;
        self.fx.recording |= !trailed.is_empty();
        self.publish(&held);
        self.fx.recording = recording;
        self.installs = None;
        let serves = self.fx.encoded.len() > said;
        if !self.is_logged() {
            self.fx.encoded.truncate(said);
        }
        for key in trailed {
            // Served commands change keys in the same record, at the same version.
            let step = if serves { None } else { self.step_of(&key, prepared, &held) };
            trails.step(&key, step);
        }
        self.release_locks(tx, &prepared.locks, &held);
        let seen = self.leave_record(held, Record::Commit { tx, members });
        self.recorder.of = None;
        Ok(Ok(seen))
    }

    /// The installed effects of a key, and the version that it has since; `None` if it is small or gone.
    fn step_of(&mut self, (db, key): &DbKey, prepared: &Prepared, held: &Held) -> Option<(Vec<u8>, Version)> {
        let hashed = self.shared.keyspace.hasher().key(key);
        let there = self.view(held, *db);
        let version = there.peek(&hashed).filter(|entry| entry.memory() >= LARGE)?.version();
        let of_key = effects::split(&prepared.effects).flatten().filter(|(e, _)| e.db == *db && *e.key == **key);
        Some((of_key.flat_map(|(_, bytes)| bytes.iter().copied()).collect(), version))
    }

    /// Checks that all effects are on keys whose latches are held.
    fn check_prepared(&self, prepared: &Prepared, held: &Held) -> Result<(), Corrupt> {
        for effect in effects::decode(&prepared.effects) {
            let effect = effect?;
            if usize::from(effect.db) >= self.shared.keyspace.databases() {
                return Err(Corrupt("database number"));
            }
            if !held.covers(keyspace::slot_of(effect.key)) {
                return Err(Corrupt("an effect on a key that is not locked"));
            }
        }
        Ok(())
    }

    /// Applies the prepared effects to keys, or none, if the keys are not as they were then.
    fn replay_prepared(&mut self, prepared: &Prepared, held: &Held) -> Result<(), Corrupt> {
        let shared = self.shared.clone();
        let version = self.next_version(held);
        let limits = self.tunables().limits.clone();
        let mut journal = Journal::new(self.rng.clone());
        let mut effects = effects::decode(&prepared.effects).peekable();
        while let Some(effect) = effects.next() {
            let is_last = effects.peek().is_none();
            let replayed = effect.and_then(|mut effect| {
                let key = shared.keyspace.hasher().key(effect.key);
                // A long string that is also in the journal is copied when it is changed.
                if !(is_last && effect.is_atomic()) {
                    self.journal_key(&mut journal, held, effect.db, &key);
                }
                let mut db = self.db(held, effect.db, version);
                apply(&key, &mut effect, &mut db, &limits)
            });
            if let Err(corrupt) = replayed {
                self.undo(journal, held);
                return Err(corrupt);
            }
        }
        Ok(())
    }

    /// Leaves the record that a prepared attempt is aborted, and gives its locks back. Returns the versions that its
    /// acknowledgement waits for.
    ///
    /// # Errors
    ///
    /// A latch is busy: nothing was done.
    pub fn abort(&mut self, tx: TxnId, locks: &[Lock], token: u64) -> Result<Horizon, Busy> {
        let held = self.acquire_for(self.need_of_locks(locks), token)?;
        self.shared.transactions.take_events(tx);
        self.next_version(&held);
        self.say(&Record::Abort { tx });
        self.release_locks(tx, locks, &held);
        Ok(self.leave_record(held, Record::Abort { tx }))
    }

    /// Leaves the record that an attempt was refused (rule T4). Answers about that wait for it.
    ///
    /// # Errors
    ///
    /// A latch is busy: nothing was done.
    pub fn refuse(&mut self, tx: TxnId, token: u64) -> Result<Horizon, Busy> {
        let held = self.acquire_for(self.need_of(std::iter::once(LIBRARIES_SLOT)), token)?;
        self.next_version(&held);
        self.say(&Record::Refuse { tx });
        Ok(self.leave_record(held, Record::Refuse { tx }))
    }

    /// Gives back the locks of an attempt that is not prepared, and its places in queues.
    ///
    /// # Errors
    ///
    /// A latch is busy: nothing was done.
    pub fn unlock(&mut self, tx: TxnId, locks: &[Lock], token: u64) -> Result<(), Busy> {
        let held = self.acquire_for(self.need_of_locks(locks), token)?;
        self.release_locks(tx, locks, &held);
        self.release(held);
        Ok(())
    }

    fn say(&mut self, record: &Record) {
        if self.is_logged() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            self.fx.push_transaction(&bytes);
        }
    }

    /// Leaves the open record, in step with the state of transactions, and gives the latches back.
    fn leave_record(&mut self, held: Held, record: Record) -> Horizon {
        let shared = self.shared.clone();
        let mut outcomes = shared.transactions.logged();
        self.seal(&held);
        outcomes.note(record);
        drop(outcomes);
        let seen = self.take_seen();
        self.release(held);
        seen
    }
}

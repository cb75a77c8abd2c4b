//! Key locks (rules K6, T7, T10): kept on the slots' attachments, so that a slot without locks costs nothing.
//!
//! A transaction asks for all its keys at once, under all their latches, and waits or dies. A plain command that meets
//! a lock queues for all its keys, too: its connection waits, holds the granted ones, and runs again. A command on
//! everything waits until no attempt has locks, and keeps newcomers out. A command that walks the keys one slot at a
//! time waits for the attempts that were there when it came: their changes may have been acknowledged.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use command::{Reach, effects, flags};
use keyspace::{Held, Key, Keyspace, Need, Waiter};
use txn::locks::{KeyLock, Locks, Mode, Requested, release, request, request_plain, restore};
use txn::{Lock, Prepared, Stamp, TxnId};

use super::Outcomes;
use super::shared::Open;
use crate::attachment::{Attachment, DbKey};
use crate::call::{Busy, Call};
use crate::engine::{Engine, Shared};

/// The holder of a key, or a waiter for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Attempt(TxnId),
    Plain(Waiter),
}

/// The locks of slots that are held.
pub(super) struct Latched<'a> {
    shared: &'a Shared,
    held: &'a Held,
    /// The attempts that have locks, from the first question on.
    open: Option<MutexGuard<'a, Open>>,
}

impl<'a> Latched<'a> {
    pub(super) fn new(shared: &'a Shared, held: &'a Held) -> Self {
        Self { shared, held, open: None }
    }

    fn open(&mut self) -> &mut Open {
        let shared = self.shared;
        self.open.get_or_insert_with(|| shared.transactions.opened())
    }
}

impl Locks<Owner> for Latched<'_> {
    type Key = DbKey;

    fn of<R>(&mut self, key: &DbKey, f: impl FnOnce(&mut KeyLock<Owner>) -> R) -> Option<R> {
        Attachment::of(&self.shared.keyspace, self.held, keyspace::slot_of(&key.1), |a| a.locks.get_mut(key).map(f))?
    }

    fn with<R>(&mut self, key: &DbKey, f: impl FnOnce(&mut KeyLock<Owner>) -> R) -> R {
        Attachment::with(&self.shared.keyspace, self.held, keyspace::slot_of(&key.1), |a| {
            let lock = a.locks.entry(key.clone()).or_default();
            let result = f(lock);
            if lock.is_free() {
                a.locks.remove(key);
            }
            result
        })
    }

    fn keep_open(&mut self, transactions: &mut Vec<(Owner, Stamp)>) {
        let open = self.open();
        transactions.retain(|(owner, _)| matches!(owner, Owner::Attempt(tx) if open.has(*tx)));
    }
}

fn place(lock: &Lock) -> DbKey {
    (lock.db, lock.key.clone())
}

/// Claims with which a command that reads keys other than its arguments may still find further ones. If transactions
/// lock ever other keys of the slot, it waits as a command on everything does: they are kept out until it has had its
/// turn.
pub(super) const LOOKS_ON_MAX: usize = 256;

/// The wait of a plain command.
type Claims = Vec<(DbKey, Mode)>;

/// How a command works on its keys.
fn mode_of(call: &Call<'_>) -> Mode {
    // PFCOUNT is called a reader, and writes its count down.
    let reads = call.row.spec.has(flags::READONLY) && !call.row.spec.has(flags::MAY_REPLICATE);
    if reads { Mode::Shared } else { Mode::Exclusive }
}

/// True if a prepared attempt can be installed: it changes entries of existing databases, in slots in which it locks
/// keys.
fn is_installable(keyspace: &Keyspace, prepared: &Prepared) -> bool {
    let slots: BTreeSet<u16> = prepared.locks.iter().map(|lock| keyspace::slot_of(&lock.key)).collect();
    effects::decode(&prepared.effects).all(|effect| {
        effect.is_ok_and(|effect| {
            let is_there = !effect.is_barrier() && usize::from(effect.db) < keyspace.databases();
            is_there && slots.contains(&keyspace::slot_of(effect.key))
        })
    })
}

/// Locks the keys of attempts that a start has found prepared (rule T2). No worker executes anything meanwhile. `wake`:
/// connections that wait for a latch. False: a latch is busy, try again.
///
/// # Errors
///
/// If two prepared attempts have the same key, or one changes a database that is not there, or a key that it does not
/// lock.
pub fn restore_locks(shared: &Shared, outcomes: &Outcomes, mut wake: impl FnMut(Waiter)) -> Result<bool, &'static str> {
    if outcomes.prepared().next().is_none() {
        return Ok(true);
    }
    if !outcomes.prepared().all(|prepared| is_installable(&shared.keyspace, prepared)) {
        return Err(
            "a prepared transaction changes a key that it does not lock, or a database that is not there: has the number of databases been lowered?",
        );
    }
    let Ok(held) = shared.keyspace.try_acquire(&Need::All, &mut wake) else { return Ok(false) };
    let mut locks = Latched::new(shared, &held);
    let mut sound = true;
    for prepared in outcomes.prepared() {
        shared.transactions.open(prepared.tx);
        let keys: Claims = prepared.locks.iter().map(|lock| (place(lock), lock.mode)).collect();
        let keys = keys.iter().map(|(key, mode)| (key, *mode));
        sound &= restore(&mut locks, Owner::Attempt(prepared.tx), prepared.stamp, keys);
    }
    drop(locks);
    shared.keyspace.release(held, wake);
    if sound { Ok(true) } else { Err("the log has two transactions that are prepared and lock the same key") }
}

impl Engine {
    fn plain(&self, token: u64) -> Owner {
        Owner::Plain(Waiter { worker: self.index, token })
    }

    /// Asks for the locks of an attempt, whose slots are held: all open ones are read in one go.
    pub(super) fn request_locks(
        &mut self,
        (tx, age, locks): (TxnId, (Stamp, bool), &[Lock]),
        held: &Held,
        token: u64,
    ) -> Requested {
        let shared = self.shared.clone();
        let waiter = Waiter { worker: self.index, token };
        let keys: Claims = locks.iter().map(|lock| (place(lock), lock.mode)).collect();
        let keys = keys.iter().map(|(key, mode)| (key, *mode));
        let mut latched = Latched::new(&shared, held);
        let widens = latched.open().has(tx);
        if !shared.transactions.admit(latched.open(), tx, waiter, self.now) {
            return Requested::Dies;
        }
        let requested = request(&mut latched, Owner::Attempt(tx), age, keys);
        if requested == Requested::Granted {
            latched.open().granted(tx, self.now);
        }
        drop(latched);
        // An attempt that has locks already ends when it gives them back.
        if requested == Requested::Dies && !widens {
            self.ended(tx);
        }
        requested
    }

    /// True if an attempt holds all these locks, whose slots are held.
    pub(super) fn holds(&self, tx: TxnId, locks: &[Lock], held: &Held) -> bool {
        let mut latched = Latched::new(&self.shared, held);
        locks
            .iter()
            .all(|lock| latched.of(&place(lock), |lock| lock.held_by(Owner::Attempt(tx)).is_some()) == Some(true))
    }

    /// Gives back the locks and claims of an attempt; the slots are held.
    pub(super) fn release_locks(&mut self, tx: TxnId, locks: &[Lock], held: &Held) {
        let shared = self.shared.clone();
        let keys: Vec<DbKey> = locks.iter().map(place).collect();
        let mut granted = Vec::new();
        release(&mut Latched::new(&shared, held), Owner::Attempt(tx), keys.iter(), |owner| granted.push(owner));
        self.wake_owners(&granted);
        self.ended(tx);
        // In a moment of their own.
        self.unserved.append(&mut self.shared.transactions.take_skipped(&keys));
    }

    fn ended(&mut self, tx: TxnId) {
        let (shared, wakes) = (self.shared.clone(), &mut self.wakes);
        shared.transactions.close(tx, |waiter| wakes.push(waiter));
    }

    fn wake_owners(&mut self, granted: &[Owner]) {
        let transactions = &self.shared.transactions;
        let mut open = None;
        self.wakes.extend(granted.iter().filter_map(|owner| match owner {
            Owner::Plain(waiter) => Some(*waiter),
            Owner::Attempt(tx) => open.get_or_insert_with(|| transactions.opened()).waiter(*tx),
        }));
    }

    /// Waits for the locks of the keys of `calls`, and of `further` ones, which are held. `None`: no lock is in the
    /// way; claims for that are kept until [`Self::end_claims`].
    #[inline]
    pub(crate) fn await_locks<'a>(
        &mut self,
        calls: &[Call<'a>],
        further: impl Iterator<Item = (u16, &'a [u8], Mode)>,
        held: &Held,
        token: u64,
    ) -> Option<Busy> {
        if !self.shared.transactions.any() {
            self.forget_quiet(token);
            return None;
        }
        if held.is_all() {
            return self.await_all_quiet(Need::All, held, token);
        }
        let keys = self.keys_to_lock(calls, further, held, token);
        if self.has_looked_enough(&keys, token)
            && calls.iter().any(|call| call.row.run.reach(call.args) == Reach::Slots)
        {
            return self.await_all_quiet(Need::Slots(held.slots().into()), held, token);
        }
        self.await_claims(keys, held, token)
    }

    #[cold]
    fn keys_to_lock<'a>(
        &mut self,
        calls: &[Call<'a>],
        further: impl Iterator<Item = (u16, &'a [u8], Mode)>,
        held: &Held,
        token: u64,
    ) -> Claims {
        let mut keys: Claims = further.map(|(db, key, mode)| ((db, key.into()), mode)).collect();
        let mut positions = Vec::new();
        for call in calls {
            positions.clear();
            call.row.spec.keys_of(call.args, &mut positions);
            let looks = call.row.run.reach(call.args) == Reach::Slots && self.has_all_claims(held, token);
            // MOVE and COPY make keys elsewhere.
            let databases = match call.row.spec.has(flags::OTHER_DB) {
                true => 0..self.shared.keyspace.databases() as u16,
                false => call.db..call.db + 1,
            };
            for key in positions.iter().filter_map(|at| call.args.get(at.index)) {
                keys.extend(databases.clone().map(|db| ((db, Box::from(key)), mode_of(call))));
                if looks {
                    self.changing(keyspace::slot_of(key), call.db, held, &mut keys);
                }
            }
        }
        keys.retain(|((_, key), _)| held.covers(keyspace::slot_of(key)));
        keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        keys.dedup_by(|next, kept| next.0 == kept.0);
        keys
    }

    /// The keys of a slot that transactions may change, for a command that reads keys other than its arguments: only
    /// the values tell which ones. It finds keys that are locked while it waits when it has its claims. If it claimed
    /// them before, it would keep ever more from others, and lose its turn.
    fn changing(&self, slot: u16, db: u16, held: &Held, keys: &mut Claims) {
        let changes = |(owner, mode)| matches!((owner, mode), (Owner::Attempt(_), Mode::Exclusive));
        let find = |a: &mut Attachment| {
            let locked = a.locks.iter().filter(|(key, lock)| key.0 == db && lock.held().any(changes));
            keys.extend(locked.map(|(key, _)| (key.clone(), Mode::Shared)));
        };
        if held.covers(slot) {
            Attachment::of(&self.shared.keyspace, held, slot, find);
        }
    }

    /// True if a command that has found further `keys` claims no more of them.
    fn has_looked_enough(&self, keys: &Claims, token: u64) -> bool {
        let claimed = self.claims.get(&token).map_or(&[][..], Vec::as_slice);
        let is_new = |(key, _): &(DbKey, Mode)| !claimed.iter().any(|(known, _)| known == key);
        self.awaits_quiet(token) || claimed.len() > LOOKS_ON_MAX && keys.iter().any(is_new)
    }

    /// True if a command holds all its claims of these slots.
    fn has_all_claims(&self, held: &Held, token: u64) -> bool {
        let (me, mut locks) = (self.plain(token), Latched::new(&self.shared, held));
        let is_mine = |key: &DbKey| locks.of(key, |lock| lock.held_by(me)).flatten().is_some();
        let claimed = self.claims.get(&token).map_or(&[][..], Vec::as_slice);
        claimed.iter().map(|(key, _)| key).filter(|key| held.covers(keyspace::slot_of(&key.1))).all(is_mine)
    }

    #[cold]
    fn await_claims(&mut self, mut keys: Claims, held: &Held, token: u64) -> Option<Busy> {
        let shared = self.shared.clone();
        let (me, mut locks) = (self.plain(token), Latched::new(&shared, held));
        let claimed = self.claims.get(&token).map_or(&[][..], Vec::as_slice);
        let mine = |key: &DbKey| claimed.iter().find(|(claimed, _)| claimed == key).map(|(_, mode)| *mode);
        let held_by_me = |locks: &mut Latched<'_>, key: &DbKey| locks.of(key, |lock| lock.held_by(me)).flatten();
        let ready = keys.iter().all(|(key, mode)| match mine(key) {
            Some(claimed) => claimed >= *mode && held_by_me(&mut locks, key).is_some(),
            None => locks.of(key, |lock| lock.is_taken(*mode)) != Some(true),
        });
        if ready && self.has_all_claims(held, token) {
            return None;
        }
        let slot = keys.first().or(claimed.first()).map_or(0, |((_, key), _)| keyspace::slot_of(key));
        let need = Need::Slots(held.slots().into());
        let busy = Busy { need, slot, awaited: true };
        if keys.iter().all(|(key, mode)| mine(key).is_some_and(|claimed| claimed >= *mode)) {
            // It was woken for another reason.
            return Some(busy);
        }
        // It asks for all at once, or nobody could tell which attempts it waits for.
        keys.extend(claimed.iter().filter(|((_, key), _)| held.covers(keyspace::slot_of(key))).cloned());
        keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        keys.dedup_by(|next, kept| next.0 == kept.0);
        self.end_claims(token, held);
        request_plain(&mut Latched::new(&shared, held), me, keys.iter().map(|(key, mode)| (key, *mode)))?;
        self.claims.insert(token, keys);
        Some(busy)
    }

    /// The keys that a command waits for, or has waited for, and their lock modes.
    pub fn claimed(&self, token: u64) -> impl Iterator<Item = (u16, &[u8], Mode)> {
        let claims = self.claims.get(&token).map_or(&[][..], Vec::as_slice);
        claims.iter().map(|((db, key), mode)| (*db, &**key, *mode))
    }

    /// True if a command waits until transactions have ended, with any locks.
    pub fn awaits_quiet(&self, token: u64) -> bool {
        self.quiet.contains_key(&token)
    }

    /// A command has run, or will not: its claims of held slots are free for the next. The rest is left for later.
    pub(crate) fn end_claims(&mut self, token: u64, held: &Held) {
        let keys = self.claims.remove(&token).unwrap_or_default();
        if keys.is_empty() && self.unclaimed.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        let (me, is_held) = (self.plain(token), |key: &DbKey| held.covers(keyspace::slot_of(&key.1)));
        let (mut mine, others): (Vec<DbKey>, Vec<DbKey>) = keys.into_iter().map(|(key, _)| key).partition(is_held);
        // Its earlier claims may still be to be given back: they must not be found there when it claims again.
        mine.extend(self.unclaimed.extract_if(.., |(owner, key)| *owner == me && is_held(key)).map(|(_, key)| key));
        let mut granted = Vec::new();
        release(&mut Latched::new(&shared, held), me, mine.iter(), |owner| granted.push(owner));
        self.wake_owners(&granted);
        self.unclaimed.extend(others.into_iter().map(|key| (me, key)));
    }

    /// The command of a connection has ended, in any way: it waits for no locks, and has none.
    #[inline]
    pub fn forget_claims(&mut self, token: u64) {
        if !self.claims.is_empty() && self.claims.contains_key(&token) {
            self.end_claims(token, &Held::default());
            self.release_unclaimed();
        }
        self.asides.forget(token);
        self.forget_quiet(token);
    }

    #[inline]
    fn forget_quiet(&mut self, token: u64) {
        if !self.quiet.is_empty() && self.quiet.remove(&token).is_some() {
            self.shared.transactions.unquiet(Waiter { worker: self.index, token });
        }
    }

    /// Gives back claims that were left because of busy latches.
    pub(crate) fn release_unclaimed(&mut self) {
        for (owner, key) in std::mem::take(&mut self.unclaimed) {
            let Some(held) = self.acquire_one(keyspace::slot_of(&key.1)) else {
                self.unclaimed.push((owner, key));
                continue;
            };
            let shared = self.shared.clone();
            let mut granted = Vec::new();
            release(&mut Latched::new(&shared, &held), owner, std::iter::once(&key), |owner| granted.push(owner));
            self.wake_owners(&granted);
            self.release(held);
        }
    }

    /// Waits for the attempts that have locks (rule T10): all of them if the command is about the `whole` keyspace, or
    /// those that were there when it came.
    pub(crate) fn await_quiet(&mut self, token: u64, whole: bool) -> Option<Busy> {
        if !self.shared.transactions.any() {
            self.forget_quiet(token);
            return None;
        }
        let waiter = Waiter { worker: self.index, token };
        let since = self.quiet.get(&token).copied();
        let since = self.shared.transactions.await_quiet(waiter, since, whole);
        match since {
            Some(since) => {
                self.quiet.insert(token, since);
                Some(Busy { need: Need::Slots(Default::default()), slot: 0, awaited: true })
            }
            None => {
                self.quiet.remove(&token);
                None
            }
        }
    }

    /// As [`Self::await_quiet`] of the whole keyspace, for a command that comes back for `need` and may have claimed
    /// keys. No attempt that it waits for may wait for these.
    #[cold]
    pub(crate) fn await_all_quiet(&mut self, need: Need, held: &Held, token: u64) -> Option<Busy> {
        let busy = self.await_quiet(token, true)?;
        self.end_claims(token, held);
        Some(Busy { need, ..busy })
    }

    /// True if a transaction has locked a key of a held slot: its prepared effects are for the key as it is. (A plain
    /// command that was granted a key has done nothing to it yet.)
    #[inline]
    pub(crate) fn is_locked(&self, held: &Held, db: u16, key: &Key<'_>) -> bool {
        self.shared.transactions.any()
            && self.shared.keyspace.interest(held, key.slot)
            && self.is_locked_by_other(held, &(db, key.bytes.into()))
    }

    /// True if a transaction has locked a key, whose slot is held, and is not the one that is being installed.
    pub(crate) fn is_locked_by_other(&self, held: &Held, key: &DbKey) -> bool {
        let other = |(owner, _)| matches!(owner, Owner::Attempt(tx) if Some(tx) != self.installs);
        Latched::new(&self.shared, held).of(key, |lock| lock.held().any(other)) == Some(true)
    }
}

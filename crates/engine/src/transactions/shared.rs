//! The state of transactions over nodes that all workers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;
use command::Event;
use keyspace::Waiter;
use object::Corrupt;
use txn::{Record, TxnId};

use super::Outcomes;
use super::trails::Trails;
use crate::attachment::DbKey;

/// See the module's text.
#[derive(Default)]
pub struct Transactions {
    /// The log's state, in step with the log: locked while a record is left.
    outcomes: Mutex<Outcomes>,
    /// Attempts that have locks or wait for them.
    count: AtomicUsize,
    open: Mutex<Open>,
    /// Events of prepared attempts for their installation, if the node has not started again by then.
    events: Mutex<BTreeMap<TxnId, (Vec<Event>, u64)>>,
    /// By locked key: keys whose waiting commands were not served because of it.
    skipped: Mutex<Vec<(DbKey, DbKey)>>,
    pub(super) trails: Trails,
}

/// The attempts that have locks or wait for some.
#[derive(Default)]
pub(super) struct Open {
    /// The next attempt's number.
    next: u64,
    attempts: BTreeMap<TxnId, Attempt>,
    /// Their numbers, and since when they have all their locks; 0: since before the start;
    /// [`UnixMs::NEVER`]: they wait for some.
    numbers: BTreeMap<u64, UnixMs>,
    /// Waiters for the end of attempts below a number; of all attempts: [`ALL`].
    quiet: Vec<(u64, Waiter)>,
}

struct Attempt {
    number: u64,
    /// The waiter to wake when it is granted a lock.
    waiter: Option<Waiter>,
}

const ALL: u64 = u64::MAX;

/// A command that waits until no attempt has locks keeps newcomers out. Not while it waits for an attempt that has had
/// its locks for longer than so many milliseconds. Such an attempt is in doubt because a node is out of reach, which
/// may last, and concerns few keys.
const LONG_MS: u64 = 1000;

impl Transactions {
    pub(super) fn logged(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn opened(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the records that were left until now.
    pub fn outcomes(&self) -> Outcomes {
        self.logged().clone()
    }

    /// Attempts that are committed here, and that another node may ask about.
    pub fn committed(&self) -> Vec<TxnId> {
        let is_committed = |record: &&Record| matches!(record, Record::Commit { .. });
        self.logged().records().filter(is_committed).map(Record::tx).collect()
    }

    /// True if no record is known.
    pub fn knows_nothing(&self) -> bool {
        self.logged().is_empty()
    }

    /// Notes records of another node's log, and calls `publish` before anybody else can see them: a checkpoint that has
    /// them waits for them.
    ///
    /// # Errors
    ///
    /// One of them is no record.
    pub(crate) fn follow(&self, records: &[&[u8]], publish: impl FnOnce()) -> Result<(), Corrupt> {
        let mut outcomes = self.logged();
        records.iter().try_for_each(|record| outcomes.note_encoded(record))?;
        publish();
        Ok(())
    }

    /// Sets the findings of a start.
    pub fn restore(&self, outcomes: Outcomes) {
        *self.logged() = outcomes;
    }

    /// Forgets attempts that no node knows any more, if there are many.
    pub fn forget(&self, known: usize, is_known: impl Fn(TxnId) -> bool) {
        let mut outcomes = self.logged();
        if outcomes.len() > 2 * known + 64 {
            outcomes.keep_only(is_known);
        }
    }

    /// True if any attempt has locks or waits for them. The holder of a latch sees the locks of its slot.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// The attempts that have locks or wait for some.
    pub fn open_attempts(&self) -> Vec<TxnId> {
        if self.any() { self.opened().attempts.keys().copied().collect() } else { Vec::new() }
    }

    /// Of them, the one that asked first.
    pub fn first(&self) -> Option<TxnId> {
        self.opened().attempts.iter().min_by_key(|(_, attempt)| attempt.number).map(|(tx, _)| *tx)
    }

    /// An attempt has had its locks since before the start.
    pub(super) fn open(&self, tx: TxnId) {
        self.opened().begin(tx, None, UnixMs::ZERO);
        self.count.fetch_add(1, Relaxed);
    }

    /// An attempt is about to ask for locks, unless a command waits for there to be none, and not for long in vain.
    /// `waiter` is woken when it is granted what it waits for.
    pub(super) fn admit(&self, open: &mut Open, tx: TxnId, waiter: Waiter, now: UnixMs) -> bool {
        if let Some(attempt) = open.attempts.get_mut(&tx) {
            // It asks for more: a command that waits for there to be none waits for this one.
            attempt.waiter = Some(waiter);
            return true;
        }
        let is_long = |since: &UnixMs| now.since(*since) > LONG_MS;
        if open.quiet.iter().any(|(upto, _)| *upto == ALL) && !open.numbers.values().any(is_long) {
            return false;
        }
        open.begin(tx, Some(waiter), UnixMs::NEVER);
        self.count.fetch_add(1, Relaxed);
        true
    }

    /// `by`: the client that has asked for it; 0: no client that must be known.
    pub(super) fn keep_events(&self, tx: TxnId, events: Vec<Event>, by: u64) {
        if !events.is_empty() || by > 0 {
            self.events.lock().unwrap_or_else(PoisonError::into_inner).insert(tx, (events, by));
        }
    }

    pub(super) fn take_events(&self, tx: TxnId) -> (Vec<Event>, u64) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).remove(&tx).unwrap_or_default()
    }

    /// An attempt has no locks any more, and waits for none.
    pub(super) fn close(&self, tx: TxnId, mut wake: impl FnMut(Waiter)) {
        let mut open = self.opened();
        let Some(attempt) = open.attempts.remove(&tx) else { return };
        self.count.fetch_sub(1, Relaxed);
        open.numbers.remove(&attempt.number);
        // An attempt that was given up meanwhile has to be told.
        attempt.waiter.into_iter().for_each(&mut wake);
        let first = open.numbers.first_key_value().map(|(first, _)| *first);
        open.quiet.retain(|(upto, waiter)| {
            let waits = first.is_some_and(|first| first < *upto);
            if !waits {
                wake(*waiter);
            }
            // A command that waits for all of them is among the waiters until it has looked: no attempt comes in
            // between.
            waits || *upto == ALL
        });
    }

    /// Waits until the attempts have ended that are there now, or were when it waited `since`; all there are, if
    /// `whole`. `None`: they have.
    pub(super) fn await_quiet(&self, waiter: Waiter, since: Option<u64>, whole: bool) -> Option<u64> {
        let mut open = self.opened();
        let upto = if whole { ALL } else { since.filter(|since| *since != ALL).unwrap_or(open.next) };
        open.quiet.retain(|(_, other)| *other != waiter);
        if open.numbers.first_key_value().is_none_or(|(first, _)| *first >= upto) {
            return None;
        }
        open.quiet.push((upto, waiter));
        Some(upto)
    }

    /// Notes that the waiter waits no more.
    pub(super) fn unquiet(&self, waiter: Waiter) {
        self.opened().quiet.retain(|(_, other)| *other != waiter);
    }

    /// Notes that a command that waits for key `of` was not served, because one of its keys is `locked`.
    pub(crate) fn skip(&self, locked: DbKey, of: DbKey) {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        if !skipped.iter().any(|known| known.0 == locked && known.1 == of) {
            skipped.push((locked, of));
        }
    }

    /// The keys of commands that were not served because these were locked.
    pub(super) fn take_skipped(&self, unlocked: &[DbKey]) -> Vec<DbKey> {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        skipped.extract_if(.., |(locked, _)| unlocked.contains(locked)).map(|(_, of)| of).collect()
    }
}

impl Open {
    /// An attempt has all its locks.
    pub(super) fn granted(&mut self, tx: TxnId, now: UnixMs) {
        let number = self.attempts.get(&tx).map(|attempt| attempt.number);
        if let Some(since) = number.and_then(|number| self.numbers.get_mut(&number)) {
            *since = now.min(*since);
        }
    }

    /// True if an attempt has locks or waits for them.
    pub(super) fn has(&self, tx: TxnId) -> bool {
        self.attempts.contains_key(&tx)
    }

    /// The waiter that is woken when an attempt is granted a lock.
    pub(super) fn waiter(&self, tx: TxnId) -> Option<Waiter> {
        self.attempts.get(&tx)?.waiter
    }

    fn begin(&mut self, tx: TxnId, waiter: Option<Waiter>, since: UnixMs) {
        let number = self.next;
        self.next += 1;
        self.numbers.insert(number, since);
        self.attempts.insert(tx, Attempt { number, waiter });
    }
}

//! The lock of one key.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Mode;
use crate::Stamp;

/// The kind of an owner, as far as waits depend on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Asker<O> {
    /// A transaction, as old as this.
    Transaction(Stamp),
    /// A plain command, or a patient transaction. With all transactions that it waits for, at whichever key, also over
    /// others of this kind, because it waits for no others before it has all; and with the transaction itself.
    Patient(Arc<[(O, Stamp)]>),
}

/// A lock or claim of an owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Claim<O> {
    owner: O,
    mode: Mode,
    asker: Asker<O>,
}

impl<O: Copy> Claim<O> {
    /// Calls `f` with the transactions that a waiter for this one waits for.
    fn transactions(&self, f: &mut impl FnMut(O, Stamp)) {
        match &self.asker {
            Asker::Transaction(stamp) => f(self.owner, *stamp),
            Asker::Patient(awaited) => awaited.iter().for_each(|(owner, stamp)| f(*owner, *stamp)),
        }
    }
}

/// The holders of a key and its waiters, in order of arrival.
///
/// `O` names an owner, which asks once. Nothing is allocated for one holder without waiters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyLock<O> {
    first: Option<Claim<O>>,
    /// Further holders, all shared.
    others: Vec<Claim<O>>,
    /// The waiters. A holder that wants the key exclusively (an upgrade) stands before all others.
    queue: VecDeque<Claim<O>>,
}

impl<O> Default for KeyLock<O> {
    fn default() -> Self {
        Self { first: None, others: Vec::new(), queue: VecDeque::new() }
    }
}

impl<O: Copy + Eq> KeyLock<O> {
    /// True if it has no holder and no waiter: then it need not be kept.
    pub fn is_free(&self) -> bool {
        self.first.is_none() && self.others.is_empty() && self.queue.is_empty()
    }

    fn holders(&self) -> impl Iterator<Item = &Claim<O>> {
        self.first.iter().chain(&self.others)
    }

    /// The mode in which `owner` holds it.
    pub fn held_by(&self, owner: O) -> Option<Mode> {
        self.holders().find(|claim| claim.owner == owner).map(|claim| claim.mode)
    }

    /// The holders, with their modes.
    pub fn held(&self) -> impl Iterator<Item = (O, Mode)> {
        self.holders().map(|claim| (claim.owner, claim.mode))
    }

    /// The waiters, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (O, Mode)> {
        self.queue.iter().map(|claim| (claim.owner, claim.mode))
    }

    /// True if a new request would have to wait. Waiters count as well as holders (rule T7): no request overtakes.
    pub fn is_taken(&self, mode: Mode) -> bool {
        self.holders().chain(&self.queue).any(|claim| claim.mode.conflicts(mode))
    }

    /// Calls `f` with the transactions that a new request would wait for, also over plain commands; some of the
    /// latter's may have ended meanwhile.
    pub(super) fn awaited(&self, mode: Mode, mut f: impl FnMut(O, Stamp)) {
        for claim in self.queue.iter().rev().filter(|claim| claim.mode.conflicts(mode)) {
            claim.transactions(&mut f);
            if claim.mode == Mode::Exclusive && matches!(claim.asker, Asker::Patient(_)) {
                // It waits for all before it, and has named its transactions.
                return;
            }
        }
        self.holders().filter(|claim| claim.mode.conflicts(mode)).for_each(|claim| claim.transactions(&mut f));
    }

    /// As [`Self::awaited`], if the last waiter in the queue has named just those.
    pub(super) fn awaited_by_last(&self, mode: Mode) -> Option<Arc<[(O, Stamp)]>> {
        let last = self.queue.iter().rev().find(|claim| claim.mode.conflicts(mode))?;
        match &last.asker {
            Asker::Patient(awaited) if last.mode == Mode::Exclusive => Some(Arc::clone(awaited)),
            _ => None,
        }
    }

    /// Asks for the key, behind all waiters. Returns whether it is held now.
    pub fn claim(&mut self, owner: O, mode: Mode, asker: Asker<O>) -> bool {
        if self.held_by(owner).is_some_and(|has| has >= mode) {
            return true;
        }
        let claim = Claim { owner, mode, asker };
        if self.is_taken(mode) {
            self.queue.push_back(claim);
            return false;
        }
        self.hold(claim);
        true
    }

    fn hold(&mut self, claim: Claim<O>) {
        match &mut self.first {
            Some(first) if first.owner == claim.owner => *first = claim,
            Some(_) => match self.others.iter_mut().find(|other| other.owner == claim.owner) {
                Some(other) => *other = claim,
                None => self.others.push(claim),
            },
            None => self.first = Some(claim),
        }
    }

    /// As [`Self::awaited`], for a holder that wants the key exclusively: it would wait for the other holders.
    pub(super) fn awaited_by_holder(&self, owner: O, mut f: impl FnMut(O, Stamp)) {
        self.holders().filter(|claim| claim.owner != owner).for_each(|claim| claim.transactions(&mut f));
    }

    /// A holder wants the key exclusively: it comes before all waiters, because they wait for it. Returns whether it
    /// has it so now; `None` if it does not hold it.
    pub(super) fn upgrade(&mut self, owner: O) -> Option<bool> {
        let claim = self.holders().find(|claim| claim.owner == owner).cloned()?;
        let claim = Claim { mode: Mode::Exclusive, ..claim };
        if self.holders().any(|claim| claim.owner != owner) {
            self.queue.push_front(claim);
            return Some(false);
        }
        self.hold(claim);
        Some(true)
    }

    /// Ends the lock or claim of `owner`. Calls `granted` with the waiters that hold it now.
    pub fn release(&mut self, owner: O, mut granted: impl FnMut(O)) {
        if self.first.as_ref().is_some_and(|first| first.owner == owner) {
            self.first = self.others.pop();
        } else {
            self.others.retain(|other| other.owner != owner);
        }
        self.queue.retain(|claim| claim.owner != owner);
        while let Some(next) = self.queue.front() {
            let free = |claim: &Claim<O>| claim.owner == next.owner || !claim.mode.conflicts(next.mode);
            if !self.holders().all(free) {
                break;
            }
            let Some(next) = self.queue.pop_front() else { break };
            granted(next.owner);
            self.hold(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_else_wants_allocates_nothing() {
        let mut lock = KeyLock::default();
        assert!(lock.claim(1, Mode::Exclusive, Asker::Transaction(Stamp::default())));
        lock.release(1, |_| panic!("nobody waits"));
        assert!(lock.is_free());
        assert_eq!((lock.others.capacity(), lock.queue.capacity()), (0, 0));
    }
}

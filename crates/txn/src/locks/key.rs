//! The lock of one key.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Mode;
use crate::Stamp;

/// Who asks, as far as it concerns who may wait for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Asker<O> {
    /// A transaction, as old as this.
    Transaction(Stamp),
    /// A plain command, or a transaction that has nothing elsewhere: all transactions that it waits for, at whichever key, and over others of this kind, too, as it
    /// waits for no others while it has not all; and the transaction itself.
    Patient(Arc<[(O, Stamp)]>),
}

/// What somebody has of a key or wants of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Claim<O> {
    owner: O,
    mode: Mode,
    asker: Asker<O>,
}

impl<O: Copy> Claim<O> {
    /// Calls `f` with the transactions that are waited for by who waits for this.
    fn transactions(&self, f: &mut impl FnMut(O, Stamp)) {
        match &self.asker {
            Asker::Transaction(stamp) => f(self.owner, *stamp),
            Asker::Patient(awaited) => awaited.iter().for_each(|(owner, stamp)| f(*owner, *stamp)),
        }
    }
}

/// Who holds a key and who waits for it, in order of arrival.
///
/// `O` names who asks; a name asks once. Nothing is allocated while there is one holder and nobody waits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyLock<O> {
    first: Option<Claim<O>>,
    /// Further holders, all shared.
    others: Vec<Claim<O>>,
    /// Those who wait. A holder that wants the key for itself (an upgrade) stands before all others.
    queue: VecDeque<Claim<O>>,
}

impl<O> Default for KeyLock<O> {
    fn default() -> Self {
        Self { first: None, others: Vec::new(), queue: VecDeque::new() }
    }
}

impl<O: Copy + Eq> KeyLock<O> {
    /// Whether nobody holds it or waits for it: nothing need be kept of it.
    pub fn is_free(&self) -> bool {
        self.first.is_none() && self.others.is_empty() && self.queue.is_empty()
    }

    fn holders(&self) -> impl Iterator<Item = &Claim<O>> {
        self.first.iter().chain(&self.others)
    }

    /// How `owner` holds it.
    pub fn held_by(&self, owner: O) -> Option<Mode> {
        self.holders().find(|claim| claim.owner == owner).map(|claim| claim.mode)
    }

    /// Who holds it, and how.
    pub fn held(&self) -> impl Iterator<Item = (O, Mode)> {
        self.holders().map(|claim| (claim.owner, claim.mode))
    }

    /// Who waits for it, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (O, Mode)> {
        self.queue.iter().map(|claim| (claim.owner, claim.mode))
    }

    /// Whether a new request would have to wait. Those who wait count as well as those who hold it (rule T7): nobody overtakes.
    pub fn is_taken(&self, mode: Mode) -> bool {
        self.holders().chain(&self.queue).any(|claim| claim.mode.conflicts(mode))
    }

    /// Calls `f` with the transactions that a new request would wait for, over plain commands, too: of those, some may have ended meanwhile.
    pub(super) fn awaited(&self, mode: Mode, mut f: impl FnMut(O, Stamp)) {
        for claim in self.queue.iter().rev().filter(|claim| claim.mode.conflicts(mode)) {
            claim.transactions(&mut f);
            if claim.mode == Mode::Exclusive && matches!(claim.asker, Asker::Patient(_)) {
                // It waits for all that is before it, and has said for whom.
                return;
            }
        }
        self.holders().filter(|claim| claim.mode.conflicts(mode)).for_each(|claim| claim.transactions(&mut f));
    }

    /// As [`Self::awaited`], if that is what the last one in the queue has said that it waits for.
    pub(super) fn awaited_by_last(&self, mode: Mode) -> Option<Arc<[(O, Stamp)]>> {
        let last = self.queue.iter().rev().find(|claim| claim.mode.conflicts(mode))?;
        match &last.asker {
            Asker::Patient(awaited) if last.mode == Mode::Exclusive => Some(Arc::clone(awaited)),
            _ => None,
        }
    }

    /// Asks for the key, behind all who wait. Answers whether it is held now.
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

    /// As [`Self::awaited`], for a holder that wants the key for itself: it would wait for the other holders.
    pub(super) fn awaited_by_holder(&self, owner: O, mut f: impl FnMut(O, Stamp)) {
        self.holders().filter(|claim| claim.owner != owner).for_each(|claim| claim.transactions(&mut f));
    }

    /// A holder wants the key for itself: before all who wait, since they wait for it. Answers whether it has it so now; `None` if
    /// it does not hold it.
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

    /// `owner` holds it no more and waits for it no more. Calls `granted` with those who hold it now and waited.
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

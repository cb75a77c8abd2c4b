//! The state that a tree of leaves keeps from one freeze to the next.
//!
//! Every leaf has a *label*, its name in the store, which stays with it all its life, and a *stamp*: the tree's *mark*
//! at its last change. Freezing a tree copies nothing and touches no leaf; it gives the tree the next mark. So a leaf
//! has changed since the freeze that began mark `m` if its stamp is `m` or greater, in the tree and in every clone of
//! it. Inner nodes keep the greatest stamp below them, and so lead to changed leaves past all others.
//!
//! Labels of leaves that are ordered by their contents are counted up. Leaves of lists have no order but their labels',
//! which leave gaps for later ones.

use crate::tree::Totals;
use std::sync::Arc;

/// The label of the first leaf of a list.
const MIDDLE: u64 = 1 << 63;

/// Between the labels of neighbours, where there is nothing beyond.
const STEP: u64 = 1 << 32;

/// So many removed leaves are remembered at least, and never more than there are leaves. Beyond that all is written
/// anew, which costs no more than the changes.
const REMOVED_MIN: usize = if cfg!(test) { 8 } else { 1024 };

/// See the module's text.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ledger {
    /// Number of leaves.
    pub leaves: u64,
    /// Sums over the leaves, where the tree keeps them.
    pub totals: Totals,
    /// The next label of those that are counted up.
    next: u64,
    /// Counted labels from here on were given after the last freeze: the store has none of them.
    stored: u64,
    /// The name of the last freeze; 0: none, or the changes since are unknown.
    epoch: u64,
    /// Labels that were stored by the last freeze and are gone.
    removed: Option<Arc<Vec<u64>>>,
    mark: u32,
    /// No label was free between two neighbours: all need new ones.
    exhausted: bool,
}

impl Ledger {
    /// The stamp of a changed leaf.
    #[inline]
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// The last freeze, if the changes since are known; else 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Labels that the last freeze has stored and that are gone.
    pub fn removed(&self) -> &[u64] {
        self.removed.as_ref().map_or(&[], |removed| removed)
    }

    /// A label that was never given before.
    pub fn count_up(&mut self) -> u64 {
        let label = self.next;
        self.next += 1;
        label
    }

    /// The label of place `at` of `n` between two others. Without an upper one they go on in steps.
    pub fn between(&mut self, low: u64, high: Option<u64>, at: u64, n: u64) -> u64 {
        let step = match high {
            None => STEP,
            Some(high) => high.saturating_sub(low) / (n + 1),
        };
        match step.checked_mul(at + 1).and_then(|way| low.checked_add(way)) {
            Some(label) if step > 0 => label,
            _ => {
                self.exhausted = true;
                low
            }
        }
    }

    /// The label of place `at` of `n` before all others.
    pub fn before(&mut self, first: u64, at: u64, n: u64) -> u64 {
        match (n - at).checked_mul(STEP).and_then(|way| first.checked_sub(way)) {
            Some(label) => label,
            None => {
                self.exhausted = true;
                first
            }
        }
    }

    /// The label of place `at` of a list that gets all its labels at once.
    pub fn spread(&mut self, at: u64) -> u64 {
        MIDDLE.saturating_add(at.saturating_mul(STEP))
    }

    /// True if labels ran out: the caller gives all of them anew.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// All leaves of a list are getting new labels.
    pub fn relabelled(&mut self) {
        self.exhausted = false;
        self.lose();
    }

    /// Notes that the leaf of this label is gone. `counted`: labels of this tree are counted up.
    pub fn bury(&mut self, label: u64, counted: bool) {
        if self.epoch == 0 || counted && label >= self.stored {
            return;
        }
        let removed = Arc::make_mut(self.removed.get_or_insert_default());
        removed.push(label);
        if removed.len() > REMOVED_MIN.max(self.leaves as usize) {
            self.lose();
        }
    }

    /// From now on the changes since the last freeze are unknown.
    pub fn lose(&mut self) {
        self.epoch = 0;
        self.removed = None;
    }

    /// After a freeze: begins the next mark.
    pub fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.removed = None;
        self.stored = self.next;
        // After four billion freezes the same leaves are written again and again, which is correct.
        self.mark = self.mark.saturating_add(1);
    }

    /// Makes the mark that of a larger value to which the tree belongs, if that was frozen since.
    pub fn follow(&mut self, mark: u32) {
        if self.mark != mark {
            self.begin(1);
            self.mark = mark;
        }
    }

    /// The labels that are counted up were given anew, `n` of them.
    pub fn renumbered(&mut self, n: u64) {
        self.lose();
        (self.next, self.stored) = (n, n);
    }

    /// That of a tree just read from a store, as a freeze left it there.
    pub fn loaded(epoch: u64, leaves: u64, next: u64) -> Ledger {
        Ledger { leaves, next, stored: next, epoch, mark: 1, ..Ledger::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_until_none_is_left() {
        let mut ledger = Ledger::default();
        let (low, high) = (ledger.spread(0), ledger.spread(1));
        let mut upper = high;
        for _ in 0..32 {
            let label = ledger.between(low, Some(upper), 0, 1);
            assert!(low < label && label < upper);
            upper = label;
        }
        assert!(!ledger.is_exhausted());
        ledger.between(low, Some(upper), 0, 1);
        assert!(ledger.is_exhausted());
        ledger.relabelled();
        assert!(!ledger.is_exhausted());
        assert!(ledger.between(high, None, 1, 2) > ledger.between(high, None, 0, 2));
        assert!(ledger.before(low, 0, 2) < ledger.before(low, 1, 2) && ledger.before(low, 1, 2) < low);
        ledger.between(u64::MAX - 5, None, 0, 1);
        assert!(ledger.is_exhausted());
        ledger.relabelled();
        ledger.before(5, 0, 1);
        assert!(ledger.is_exhausted());
    }

    #[test]
    fn what_was_never_stored_is_not_missed() {
        let mut ledger = Ledger { leaves: 2, ..Ledger::default() };
        let old = ledger.count_up();
        ledger.bury(old, true);
        assert_eq!((ledger.removed(), ledger.epoch()), (&[][..], 0), "nobody has frozen it");
        let old = ledger.count_up();
        ledger.begin(7);
        let new = ledger.count_up();
        ledger.bury(new, true);
        ledger.bury(old, true);
        assert_eq!((ledger.removed(), ledger.epoch()), (&[old][..], 7));
        for label in 0..=REMOVED_MIN as u64 {
            ledger.bury(label, false);
        }
        assert_eq!((ledger.removed(), ledger.epoch()), (&[][..], 0), "too many");
    }
}

//! The floor of cuts: what an owner's log may give up (rule G12).
//!
//! The floor is the lowest of what the owner's store and the stores of all pinned copies cover. A pinned copy that has
//! not said how far it is holds the floor where it is. The floor never falls.

use std::collections::BTreeMap;

use quorum::{Cut, Term};

use crate::planted::{Mistake, Planted};
use crate::{Change, Copies, NodeNumber, Process};

/// A pinned copy, as the owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pinned {
    life: u64,
    /// What its store covers durably; `None`: it has not said.
    covered: Option<Cut>,
    is_electable: bool,
}

/// The floor of one owner's term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Floor {
    term: Term,
    owner: Process,
    own: Cut,
    given: Cut,
    pinned: BTreeMap<NodeNumber, Pinned>,
    pub(crate) planted: Planted,
}

impl Floor {
    /// The floor of the owner that the metadata name. They have to be no older than the change that gave the term: that
    /// one pins the owner of before. `begins`: where the log that was taken over begins.
    #[must_use]
    pub fn new(begins: Cut, copies: &Copies) -> Self {
        let (term, owner) = (copies.term(), copies.owner());
        let planted = copies.planted;
        let mut floor = Self { term, owner, own: begins, given: begins, pinned: BTreeMap::new(), planted };
        floor.heard(copies);
        floor
    }

    /// The term that it is of.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The metadata have changed. Those of a later term are not for this owner.
    pub fn heard(&mut self, copies: &Copies) {
        if copies.term() != self.term {
            return;
        }
        self.pinned.retain(|node, _| copies.standby(*node).is_some_and(|standby| standby.is_pinned));
        for (node, standby) in copies.standbys().filter(|(_, standby)| standby.is_pinned) {
            let unknown = Pinned { life: standby.life, covered: None, is_electable: false };
            let pinned = self.pinned.entry(node).or_insert(unknown);
            // A later life that was pinned begins anew: what an earlier one had says nothing.
            if pinned.life < standby.life {
                *pinned = unknown;
            }
            pinned.is_electable = standby.is_electable;
        }
    }

    /// The owner's own store covers this durably.
    pub fn own(&mut self, covered: Cut) {
        self.own = self.own.max(covered);
    }

    /// True if a checkpoint for the bootstrap of this process may begin: the owner knows the pin (rule S4).
    #[must_use]
    pub fn may_ship(&self, standby: Process) -> bool {
        let is_it = |pinned: &Pinned| pinned.life == standby.life && !pinned.is_electable;
        self.pinned.get(&standby.node).is_some_and(is_it) || self.planted.is(Mistake::CountsUnpinned)
    }

    /// A standby says what its store covers durably. Of an earlier life, or without a pin, it counts for nothing.
    pub fn covered(&mut self, standby: Process, covered: Cut) {
        if self.planted.is(Mistake::CountsUnpinned) {
            let pinned = Pinned { life: standby.life, covered: None, is_electable: false };
            self.pinned.entry(standby.node).or_insert(pinned);
        }
        let Some(pinned) = self.pinned.get_mut(&standby.node).filter(|pinned| pinned.life <= standby.life) else {
            return;
        };
        (pinned.life, pinned.covered) = (standby.life, Some(covered));
    }

    /// The floor: the log may give up what lies at or below it.
    pub fn get(&mut self) -> Cut {
        let counts = |pinned: &&Pinned| pinned.is_electable || !self.planted.is(Mistake::CountsUnpinned);
        let lowest = self.pinned.values().filter(counts).map(|pinned| pinned.covered.unwrap_or_default()).min();
        let waits = lowest.filter(|_| !self.planted.is(Mistake::CutsAlone)).unwrap_or(self.own);
        self.given = self.given.max(self.own.min(waits));
        self.given
    }

    /// The change that makes a standby electable, if it is time for it.
    #[must_use]
    pub fn count(&self, node: NodeNumber) -> Option<Change> {
        let pinned = self.pinned.get(&node).filter(|pinned| !pinned.is_electable)?;
        let (standby, floor) = (Process { node, life: pinned.life }, self.given);
        let is_wrong = self.planted.is(Mistake::CountsUnpinned);
        let covered = pinned.covered.filter(|covered| *covered >= floor || is_wrong)?;
        Some(Change::Count { term: self.term, by: self.owner, standby, covered, floor })
    }

    /// True if the log has given up what a standby's store lacks: that one has to be given up.
    #[must_use]
    pub fn is_cut_off(&self, node: NodeNumber) -> bool {
        self.pinned.get(&node).and_then(|pinned| pinned.covered).is_some_and(|covered| covered < self.given)
    }

    /// The change that gives a standby up.
    #[must_use]
    pub fn give_up(&self, node: NodeNumber) -> Option<Change> {
        let life = self.pinned.get(&node)?.life;
        Some(Change::GiveUp { term: self.term, by: self.owner, standby: Process { node, life } })
    }
}

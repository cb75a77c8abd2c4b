//! The copies of a shard's data, as the metadata know them: a state machine that the cluster's metadata hold.
//!
//! ```text
//!          pin                    count                       take over
//! nothing ------> pinned ----------------------> electable -----------------> owner
//!                   ^  ^                             |                          |
//!                   |  +--- pin, in a later life ----+                          |
//!                   |  +---------- another one takes over, or leads ------------+
//!                   |
//!                   +---- pin, in a later life ---- given up <--- give up (pinned or electable)
//! ```
//!
//! A standby that an operator removes is given up, and no later life of it asks for a pin by itself.
//!
//! *Pinned* and *electable* are two flags. A pin holds the owner's cut back from before the bootstrap's checkpoint
//! begins. Only with that can a count be true later: what the store of an electable standby lacks is in the log.

use std::collections::BTreeMap;

use quorum::{Cut, Term};

use crate::planted::{Mistake, Planted};
use crate::{NodeNumber, Process};

/// A standby, as the metadata know it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Standby {
    /// The last life of its node that the shard's metadata have heard of.
    pub life: u64,
    /// The owner's cut waits for its store.
    pub is_pinned: bool,
    /// It may take the shard over. What its store covers is durable, so this outlives a start of its node.
    pub is_electable: bool,
    /// False: an operator has taken it out. Then it is neither pinned nor electable, and no later life begins anew by
    /// itself. Its life stays known.
    pub is_wanted: bool,
}

/// A change of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// A process will be a standby, from a checkpoint that begins after this is known to the owner.
    Pin {
        /// The standby.
        standby: Process,
    },
    /// The owner says that a standby has all that the log has given up.
    Count {
        /// The owner's term: its word is for that term.
        term: Term,
        /// The owner.
        by: Process,
        /// The standby.
        standby: Process,
        /// What the standby's store has durably.
        covered: Cut,
        /// The owner's floor: no segment above it was given up, nor will be while the standby is pinned.
        floor: Cut,
    },
    /// The owner waits for a standby no longer. It cuts above that standby's store only when it knows that this holds.
    GiveUp {
        /// The owner's term.
        term: Term,
        /// The owner.
        by: Process,
        /// The standby.
        standby: Process,
    },
    /// An operator wants no copy at a node any more. The process is the one that the node has now: nothing that was said
    /// about it counts again.
    Remove {
        /// The standby.
        standby: Process,
    },
    /// A standby gets the next term.
    TakeOver {
        /// The term that it ends.
        known: Term,
        /// The standby.
        to: Process,
        /// For how many milliseconds it executes nothing after it has heard of this: unlogged reads may still count.
        rests_ms: u64,
    },
    /// A process of the owner's node gets the next term: one that has started again, or the owner itself.
    Lead {
        /// The term that it ends.
        known: Term,
        /// The process.
        by: Process,
        /// The highest term in its node's own log; zero: none. A log that its owner has written alone may become the
        /// shard's.
        of_log: Term,
        /// For how many milliseconds it executes nothing: 0 for the owner itself. A later life rests, however long ago it
        /// has started: reads of the life that had the shard may still count.
        rests_ms: u64,
    },
}

/// The reason why a change has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The term is another one.
    OtherTerm(Term),
    /// The process does not own the shard.
    NotOwner,
    /// The process owns the shard: it is no standby.
    IsOwner,
    /// A later life of the node is known, or this one was given up.
    EarlierLife(u64),
    /// The standby is not pinned.
    NotPinned,
    /// The log has given up what the standby lacks.
    IsCut,
    /// The standby is not counted.
    NotElectable,
    /// There is no further term.
    NoTerm,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherTerm(term) => write!(f, "the shard is in term {}", term.get()),
            Self::NotOwner => f.write_str("another process owns the shard"),
            Self::IsOwner => f.write_str("the owner of the shard is no standby of it"),
            Self::EarlierLife(life) => write!(
                f,
                "start {life} of the node is known already: one that was a standby before starts again with an empty dir"
            ),
            Self::NotPinned => f.write_str("the log does not wait for the standby"),
            Self::IsCut => f.write_str("the log has given up what the standby lacks"),
            Self::NotElectable => f.write_str("the standby may lack what the log has given up"),
            Self::NoTerm => f.write_str("there is no further term"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The copies of a shard's data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Copies {
    term: Term,
    owner: Process,
    rests_ms: u64,
    standbys: BTreeMap<NodeNumber, Standby>,
    pub(crate) planted: Planted,
}

impl Copies {
    /// Those of a shard without standbys.
    #[must_use]
    pub fn new(term: Term, owner: Process) -> Self {
        Self { term, owner, rests_ms: 0, standbys: BTreeMap::new(), planted: Planted::default() }
    }

    /// Those that the metadata have written down.
    #[must_use]
    pub fn known(term: Term, owner: Process, rests_ms: u64, standbys: BTreeMap<NodeNumber, Standby>) -> Self {
        Self { term, owner, rests_ms, standbys, planted: Planted::default() }
    }

    /// All standbys, to be written down.
    #[must_use]
    pub fn into_standbys(self) -> BTreeMap<NodeNumber, Standby> {
        self.standbys
    }

    /// The present term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The process that the term was given to.
    #[must_use]
    pub fn owner(&self) -> Process {
        self.owner
    }

    /// For how many milliseconds the owner of this term rests after it has heard of it.
    #[must_use]
    pub fn rests_ms(&self) -> u64 {
        self.rests_ms
    }

    /// The standby at a node.
    #[must_use]
    pub fn standby(&self, node: NodeNumber) -> Option<&Standby> {
        self.standbys.get(&node)
    }

    /// All standbys, the given-up ones included.
    pub fn standbys(&self) -> impl Iterator<Item = (NodeNumber, &Standby)> {
        self.standbys.iter().map(|(node, standby)| (*node, standby))
    }

    /// True if a process of this node could be given the shard (rule S5).
    #[must_use]
    pub fn is_electable(&self, node: NodeNumber) -> bool {
        let by_mistake = self.planted.is(Mistake::ElectsUncounted);
        self.standbys.get(&node).is_some_and(|standby| standby.is_electable || by_mistake)
    }

    /// Applies a change.
    ///
    /// # Errors
    /// The change does not fit what is known, and has changed nothing.
    pub fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        match change {
            Change::Pin { standby } => self.pin(standby),
            Change::Count { term, by, standby, covered, floor } => {
                self.is_word_of_owner(term, by)?;
                self.count(standby, covered, floor)
            }
            Change::GiveUp { term, by, standby } => {
                self.is_word_of_owner(term, by)?;
                self.give_up(standby)
            }
            Change::Remove { standby } => self.remove(standby),
            Change::TakeOver { known, to, rests_ms } => self.take_over(known, to, rests_ms),
            Change::Lead { known, by, of_log, rests_ms } => self.lead(known, by, of_log, rests_ms),
        }
    }

    /// A word of an owner binds that owner: one whose term is over cuts no more, and knows nothing of later cuts.
    fn is_word_of_owner(&self, term: Term, by: Process) -> Result<(), Refusal> {
        if term != self.term {
            return Err(Refusal::OtherTerm(self.term));
        }
        if by == self.owner { Ok(()) } else { Err(Refusal::NotOwner) }
    }

    /// A life is pinned once. So nothing that was said about it before can count it after it has lost its pin.
    fn pin(&mut self, Process { node, life }: Process) -> Result<(), Refusal> {
        if node == self.owner.node {
            return Err(Refusal::IsOwner);
        }
        if let Some(known) = self.standbys.get(&node).filter(|known| known.life >= life) {
            return Err(Refusal::EarlierLife(known.life));
        }
        self.standbys.insert(node, Standby { life, is_pinned: true, is_electable: false, is_wanted: true });
        Ok(())
    }

    fn count(&mut self, Process { node, life }: Process, covered: Cut, floor: Cut) -> Result<(), Refusal> {
        if self.planted.is(Mistake::CountsUnpinned) && node != self.owner.node {
            self.standbys.insert(node, Standby { life, is_pinned: true, is_electable: true, is_wanted: true });
            return Ok(());
        }
        let any_life = self.planted.is(Mistake::CountsEarlierLives);
        let known = self.standbys.get_mut(&node).ok_or(Refusal::NotPinned)?;
        if life < known.life && !any_life {
            return Err(Refusal::EarlierLife(known.life));
        }
        if !known.is_pinned {
            return Err(Refusal::NotPinned);
        }
        if floor > covered {
            return Err(Refusal::IsCut);
        }
        (known.life, known.is_electable) = (known.life.max(life), true);
        Ok(())
    }

    fn give_up(&mut self, Process { node, life }: Process) -> Result<(), Refusal> {
        let known = self.standbys.get_mut(&node).ok_or(Refusal::NotPinned)?;
        if life < known.life {
            return Err(Refusal::EarlierLife(known.life));
        }
        (known.life, known.is_pinned, known.is_electable) = (life, false, false);
        Ok(())
    }

    fn remove(&mut self, Process { node, life }: Process) -> Result<(), Refusal> {
        if node == self.owner.node {
            return Err(Refusal::IsOwner);
        }
        let known = self.standbys.get_mut(&node).ok_or(Refusal::NotPinned)?;
        if life < known.life {
            return Err(Refusal::EarlierLife(known.life));
        }
        *known = Standby { life, is_pinned: false, is_electable: false, is_wanted: false };
        Ok(())
    }

    fn take_over(&mut self, known: Term, to: Process, rests_ms: u64) -> Result<(), Refusal> {
        if known != self.term {
            return Err(Refusal::OtherTerm(self.term));
        }
        if to.node == self.owner.node {
            return Err(Refusal::IsOwner);
        }
        let standby = self.standbys.get(&to.node).ok_or(Refusal::NotElectable)?;
        if to.life < standby.life {
            return Err(Refusal::EarlierLife(standby.life));
        }
        if !self.is_electable(to.node) {
            return Err(Refusal::NotElectable);
        }
        self.begin_term(to, Term::ZERO, rests_ms)?;
        self.standbys.remove(&to.node);
        Ok(())
    }

    fn lead(&mut self, known: Term, by: Process, of_log: Term, rests_ms: u64) -> Result<(), Refusal> {
        if known != self.term {
            return Err(Refusal::OtherTerm(self.term));
        }
        if by.node != self.owner.node {
            return Err(Refusal::NotOwner);
        }
        if by.life < self.owner.life {
            return Err(Refusal::EarlierLife(self.owner.life));
        }
        self.begin_term(by, of_log, rests_ms)
    }

    /// Rule G1: the only place that gives a term. The owner of before stays pinned: its store has all that the log has
    /// given up, and it will follow. The new owner's word counts it.
    ///
    /// The term is above the last one, the term of the process's own log, and the number of its node's starts.
    fn begin_term(&mut self, owner: Process, of_log: Term, rests_ms: u64) -> Result<(), Refusal> {
        let starts = u32::try_from(owner.life).ok().and_then(Term::new).ok_or(Refusal::NoTerm)?;
        let last = self.term.max(of_log).max(starts);
        self.term = Term::new(last.get() + 1).ok_or(Refusal::NoTerm)?;
        self.rests_ms = rests_ms;
        let before = std::mem::replace(&mut self.owner, owner);
        if before.node != owner.node {
            let standby = Standby { life: before.life, is_pinned: true, is_electable: false, is_wanted: true };
            self.standbys.insert(before.node, standby);
        }
        Ok(())
    }
}

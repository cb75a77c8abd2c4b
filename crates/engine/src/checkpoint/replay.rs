//! Applies the tail of the log to the contents of the store (rules C1, L2, L3, L12).
//!
//! The store has the changes of a key up to the LSN in its value, and up to its slot's C(s). These are skipped, with
//! one decision for all effects of a record on a key. Effects on a database before its last flush that the store knows
//! of are void.
//!
//! A [`Dealer`] deals the effects of records out to [`Hand`]s by slot: one hand applies the effects on a slot, in the
//! order of LSNs. Hands may be on threads of their own; only changes of whole databases wait for all of them. Effects
//! that need the store's record first are put off ([`super::later`]).

use std::fmt;
use std::sync::Arc;

use clocks::UnixMs;
use command::{About, Barrier, Generation, effects};
use keyspace::{Keyspace, Local, Need};
use object::{Corrupt, Limits};
use redolog::Lsn;
use store::Store;

use super::batch::Batch;
use super::had::{Had, NO_DATABASE};
use super::hand::{Ground, Hand};
use super::load::{Loaded, Unloadable};
use crate::record::version_of;
use crate::transactions::Outcomes;

/// A record that cannot be applied.
#[derive(Debug)]
pub struct Unreplayable {
    /// The record.
    pub lsn: Lsn,
    /// The reason.
    pub why: Why,
}

/// The reason why a record cannot be applied.
#[derive(Debug)]
pub enum Why {
    /// It says what cannot be.
    Nonsense(&'static str),
    /// The store cannot read its keys.
    Store(Unloadable),
    /// The store cannot read one of its keys, and has said why.
    Unreadable,
}

impl fmt::Display for Unreplayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log's record {} cannot be applied: ", self.lsn)?;
        match &self.why {
            Why::Nonsense(what) => f.write_str(what),
            Why::Store(why) => why.fmt(f),
            Why::Unreadable => f.write_str("the store cannot read a key"),
        }
    }
}

impl std::error::Error for Unreplayable {}

impl From<Corrupt> for Why {
    fn from(Corrupt(what): Corrupt) -> Self {
        Why::Nonsense(what)
    }
}

/// The figures of a replay.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Replayed {
    /// The libraries of functions, as FUNCTION DUMP gives them; `None` if the log has none.
    pub libraries: Option<Vec<u8>>,
    /// The state of transactions over nodes: prepared ones are to be locked before any client is served (rule T2).
    pub outcomes: Outcomes,
    /// Records that the store does not have: others may precede them, in segments that hold both.
    pub records: u64,
    /// Bytes of their effects.
    pub bytes: u64,
    /// Effects that were applied.
    pub applied: u64,
    /// Effects that the store had.
    pub skipped: u64,
    /// Keys that were read from the store for that.
    pub fetched: u64,
    /// The last record's LSN.
    pub last: Lsn,
    /// From this record on nothing was applied: a generation of the log begins here without its checkpoint, and is
    /// void.
    pub void_from: Option<Lsn>,
    /// The log was ended on purpose at this time, and nothing follows: later changes were not
    /// logged.
    pub ended: Option<UnixMs>,
}

/// The work that is due before a dealer goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// This hand's batch is full: it is handed over ([`Hand::apply`]), now or later.
    Of(usize),
    /// Everything that was dealt ([`Hand::apply`], then [`Hand::settle`]), at once.
    All,
}

/// See the module's text. No other thread uses the keyspace.
#[must_use]
pub struct Dealer<'a> {
    ground: Arc<Ground<'a>>,
    local: Local,
    /// For each hand.
    batches: Vec<Batch>,
    /// Records dealt.
    dealt: u64,
    figures: Replayed,
}

impl<'a> Dealer<'a> {
    /// Replays over the contents of a store; `None`: it is empty. `limits`: when collections change their encoding.
    /// `now`: the time, for the access times of new entries. `local` is the dealer's own; `hands`: how many
    /// hands it deals to.
    pub fn new(
        keyspace: &'a Keyspace,
        local: Local,
        limits: Limits,
        from: Option<(&Loaded, &dyn Store)>,
        now: UnixMs,
        hands: usize,
    ) -> (Self, Vec<Hand<'a>>) {
        let loaded = from.map(|(loaded, _)| loaded);
        let snapshot = from.map(|(_, store)| store.snapshot());
        let ground = Arc::new(Ground { keyspace, limits, snapshot, had: Had::new(loaded, keyspace), now });
        let libraries = loaded.map(|loaded| loaded.header.libraries.clone());
        let outcomes = loaded.map(|loaded| loaded.header.outcomes.clone()).unwrap_or_default();
        let dealer = Self {
            ground: ground.clone(),
            local,
            batches: (0..hands).map(|_| Batch::default()).collect(),
            dealt: 0,
            figures: Replayed { libraries, outcomes, ..Replayed::default() },
        };
        let hands = (0..hands).map(|_| Hand::new(ground.clone(), hands)).collect();
        (dealer, hands)
    }

    /// The dealt and unapplied effects, for each hand. The thread that applies them leaves empty batches behind.
    pub fn batches(&mut self) -> &mut [Batch] {
        &mut self.batches
    }

    /// Deals the next record out: all records of the log, in the order of their LSNs. `apply` is called whenever
    /// effects have to be applied before the dealer goes on: see [`Due`]. It may use the dealer's part of the keyspace
    /// for that.
    ///
    /// # Errors
    ///
    /// The record is damaged or out of order, or what `apply` fails with.
    pub fn deal(
        &mut self,
        lsn: Lsn,
        encoded: &[u8],
        mut apply: impl FnMut(Due, &mut Local, &mut [Batch]) -> Result<(), Unreplayable>,
    ) -> Result<(), Unreplayable> {
        let nonsense = |Corrupt(what)| Unreplayable { lsn, why: Why::Nonsense(what) };
        // Records of different slots may have the same.
        if lsn < self.figures.last || !version_of(lsn).fits() {
            return Err(nonsense(Corrupt("its LSN is below the last one")));
        }
        self.figures.last = lsn;
        if self.figures.void_from.is_some() {
            return Ok(());
        }
        self.dealt += 1;
        let ground: &Ground<'_> = &self.ground;
        let (keyspace, had) = (ground.keyspace, &ground.had);
        let is_needed = had.needs(lsn);
        if is_needed {
            self.figures.records += 1;
            self.figures.bytes += encoded.len() as u64;
        }
        self.figures.ended = None;
        if had.has_all(lsn) {
            return Ok(());
        }
        let voids = had.voids(lsn, encoded, keyspace).map_err(nonsense)?;
        let mut rest = effects::decode(encoded).enumerate().peekable();
        while let Some((index, effect)) = rest.next() {
            let mut effect = effect.map_err(nonsense)?;
            if usize::from(effect.db) >= keyspace.databases() {
                return Err(nonsense(NO_DATABASE));
            }
            match effect.about().map_err(nonsense)? {
                About::Key => {}
                // If the store had the checkpoint of this generation, its map were of no earlier record.
                About::Generation(Generation::Begins(_)) => {
                    self.figures.void_from = Some(lsn);
                    return Ok(());
                }
                About::Generation(Generation::Ends(time)) => {
                    self.figures.ended = Some(time);
                    return Ok(());
                }
                // The last one in the log holds, whatever the store has.
                About::Libraries(libraries) => {
                    self.figures.libraries = Some(libraries.to_vec());
                    continue;
                }
                About::Transaction(record) => {
                    // The checkpoint has the unforgotten ones among those that the log may lack.
                    if is_needed {
                        self.figures.outcomes.note_encoded(record).map_err(nonsense)?;
                    }
                    continue;
                }
                About::Databases(barrier) => {
                    apply(Due::All, &mut self.local, &mut self.batches)?;
                    change_databases(barrier, lsn, ground, &mut self.local).map_err(nonsense)?;
                    continue;
                }
            }
            let physical = keyspace.physical(effect.db);
            let key = keyspace.hasher().key(effect.key);
            if had.has(lsn, index, (key.slot, physical), &voids) {
                self.figures.skipped += 1;
                continue;
            }
            let alone = index == 0 && rest.peek().is_none();
            let hand = usize::from(key.slot) % self.batches.len();
            self.batches[hand].push((lsn, self.dealt, alone), &key, &effect);
            if self.batches[hand].is_full() {
                // The system may have no memory for twice the effects of one record.
                apply(Due::Of(hand), &mut self.local, &mut self.batches)?;
            }
        }
        Ok(())
    }

    /// The figures. All dealt effects were applied, by these hands.
    ///
    /// # Panics
    ///
    /// If one of them has put something off ([`Hand::settle`]).
    pub fn finish<'h>(mut self, hands: impl IntoIterator<Item = &'h Hand<'a>>) -> Replayed
    where
        'a: 'h,
    {
        debug_assert!(self.batches.iter().all(Batch::is_empty), "everything has been applied");
        while !self.local.step_dying(1000) {}
        self.local.end_turn();
        for hand in hands {
            assert!(hand.is_settled(), "what was put off has been applied");
            self.figures.applied += hand.applied;
            self.figures.skipped += hand.skipped;
            self.figures.fetched += hand.fetched;
        }
        self.figures
    }
}

fn change_databases(barrier: Barrier, lsn: Lsn, ground: &Ground<'_>, local: &mut Local) -> Result<(), Corrupt> {
    let keyspace = ground.keyspace;
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
    let changed = ground.had.change_databases(barrier, lsn, (keyspace, &held, local)).map(|reclaims| {
        for mut reclaim in reclaims {
            while !reclaim.step_at_once(local, 1000) {}
        }
    });
    local.publish_counts();
    keyspace.release(held, |_| {});
    changed
}

/// A dealer with one hand, which does it all on one thread.
#[must_use]
pub struct Replay<'a> {
    dealer: Dealer<'a>,
    hand: Hand<'a>,
}

impl<'a> Replay<'a> {
    /// See [`Dealer::new`].
    pub fn new(
        keyspace: &'a Keyspace,
        local: Local,
        limits: Limits,
        from: Option<(&Loaded, &dyn Store)>,
        now: UnixMs,
    ) -> Self {
        let (dealer, mut hands) = Dealer::new(keyspace, local, limits, from, now, 1);
        Self { dealer, hand: hands.remove(0) }
    }

    /// The next record, which is applied now or later.
    ///
    /// # Errors
    ///
    /// The record is damaged or out of order, or cannot be applied.
    pub fn record(&mut self, lsn: Lsn, encoded: &[u8]) -> Result<(), Unreplayable> {
        let hand = &mut self.hand;
        self.dealer.deal(lsn, encoded, |due, local, batches| {
            hand.apply(local, &mut batches[0])?;
            if due == Due::All { hand.settle(local) } else { Ok(()) }
        })
    }

    fn apply(&mut self) -> Result<(), Unreplayable> {
        self.hand.apply(&mut self.dealer.local, &mut self.dealer.batches[0])
    }

    /// Applies the rest.
    ///
    /// # Errors
    ///
    /// A record cannot be applied.
    pub fn finish(mut self) -> Result<Replayed, Unreplayable> {
        self.apply()?;
        self.hand.settle(&mut self.dealer.local)?;
        Ok(self.dealer.finish([&self.hand]))
    }
}

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
use command::{Barrier, Generation, effects};
use keyspace::{Keyspace, Local, Need};
use object::{Corrupt, Limits};
use redolog::Lsn;
use store::Store;

use super::batch::Batch;
use super::hand::{Ground, Hand};
use super::load::{Loaded, Unloadable};
use crate::record::{lsn_of, version_of};
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
}

impl fmt::Display for Unreplayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log's record {} cannot be applied: ", self.lsn)?;
        match &self.why {
            Why::Nonsense(what) => f.write_str(what),
            Why::Store(why) => why.fmt(f),
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
    /// C(s).
    covered: Box<[Lsn]>,
    /// For each stream, up to where no record is needed.
    unneeded: Vec<Lsn>,
    /// Records dealt.
    dealt: u64,
    /// Up to here the map of databases is that of the store.
    map_lsn: Lsn,
    /// For each physical database: its last flush that the store knows of.
    floors: Vec<Lsn>,
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
        let none = || vec![Lsn::ZERO; keyspace::SLOTS].into();
        let floors = loaded.map_or(&[][..], |loaded| &loaded.header.databases.floors);
        let mut floors: Vec<Lsn> = floors.iter().map(|version| lsn_of(*version)).collect();
        floors.resize(keyspace.databases(), Lsn::ZERO);
        let snapshot = from.map(|(_, store)| store.snapshot());
        let reach = loaded.map_or_else(none, |loaded| loaded.reach.clone());
        let ground = Arc::new(Ground { keyspace, limits, snapshot, reach, now });
        let libraries = loaded.map(|loaded| loaded.header.libraries.clone());
        let outcomes = loaded.map(|loaded| loaded.header.outcomes.clone()).unwrap_or_default();
        let dealer = Self {
            ground: ground.clone(),
            local,
            batches: (0..hands).map(|_| Batch::default()).collect(),
            covered: loaded.map_or_else(none, |loaded| loaded.covered.clone()),
            unneeded: loaded.map_or_else(Vec::new, |loaded| loaded.header.covered.clone()),
            dealt: 0,
            map_lsn: loaded.map_or(Lsn::ZERO, |loaded| lsn_of(loaded.header.databases.map_version)),
            floors,
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
        let is_needed = self.unneeded.get(usize::from(lsn.stream())).is_none_or(|unneeded| lsn > *unneeded);
        if is_needed {
            self.figures.records += 1;
            self.figures.bytes += encoded.len() as u64;
        }
        self.figures.ended = None;
        if lsn <= self.map_lsn {
            // Every slot's C(s) is above.
            return Ok(());
        }
        let keyspace = self.ground.keyspace;
        let voids = self.voids(lsn, encoded).map_err(nonsense)?;
        let mut rest = effects::decode(encoded).enumerate().peekable();
        while let Some((index, effect)) = rest.next() {
            let mut effect = effect.map_err(nonsense)?;
            match effect.generation().map_err(nonsense)? {
                // If the store had the checkpoint of this generation, its map were of no earlier record.
                Some(Generation::Begins(_)) => {
                    self.figures.void_from = Some(lsn);
                    return Ok(());
                }
                Some(Generation::Ends(time)) => {
                    self.figures.ended = Some(time);
                    return Ok(());
                }
                None => {}
            }
            if usize::from(effect.db) >= keyspace.databases() {
                return Err(nonsense(NO_DATABASE));
            }
            // The last one in the log holds, whatever the store has.
            if let Some(libraries) = effect.libraries() {
                self.figures.libraries = Some(libraries.to_vec());
                continue;
            }
            if let Some(record) = effect.transaction() {
                // The checkpoint has the unforgotten ones among those that the log may lack.
                if is_needed {
                    self.figures.outcomes.note_encoded(record).map_err(nonsense)?;
                }
                continue;
            }
            if let Some(barrier) = effect.barrier().map_err(nonsense)? {
                apply(Due::All, &mut self.local, &mut self.batches)?;
                self.barrier(lsn, barrier).map_err(nonsense)?;
                continue;
            }
            let physical = keyspace.physical(effect.db);
            let key = keyspace.hasher().key(effect.key);
            let void = self.floors[usize::from(physical)] > lsn
                || voids.iter().any(|(flushed, at)| *flushed == physical && index < *at);
            if void || lsn <= self.covered[usize::from(key.slot)] {
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

    /// The physical databases that the record flushes, if the store knows of that, and which of its effects come
    /// before.
    fn voids(&self, lsn: Lsn, encoded: &[u8]) -> Result<Vec<(u16, usize)>, Corrupt> {
        if !self.floors.contains(&lsn) {
            return Ok(Vec::new());
        }
        let keyspace = self.ground.keyspace;
        let mut map: Vec<u16> = (0..self.floors.len() as u16).map(|db| keyspace.physical(db)).collect();
        let mut voids = Vec::new();
        for (index, effect) in effects::decode(encoded).enumerate() {
            match effect?.barrier()? {
                Some(Barrier::Flush(Some(db))) => voids.push((*map.get(usize::from(db)).ok_or(NO_DATABASE)?, index)),
                Some(Barrier::Flush(None)) => voids.extend(map.iter().map(|physical| (*physical, index))),
                Some(Barrier::Swap(a, b)) if usize::from(a.max(b)) < map.len() => map.swap(a.into(), b.into()),
                Some(Barrier::Swap(..)) => return Err(NO_DATABASE),
                None => {}
            }
        }
        // A later flush counts, but effects before an earlier one are before it, too.
        Ok(voids)
    }

    fn barrier(&mut self, lsn: Lsn, barrier: Barrier) -> Result<(), Corrupt> {
        let keyspace = self.ground.keyspace;
        let databases = keyspace.databases();
        match barrier {
            Barrier::Swap(a, b) if usize::from(a.max(b)) >= databases => return Err(NO_DATABASE),
            Barrier::Flush(Some(db)) if usize::from(db) >= databases => return Err(NO_DATABASE),
            _ => {}
        }
        let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
        match barrier {
            Barrier::Swap(a, b) => keyspace.swap_databases(&held, a, b),
            Barrier::Flush(only) => {
                let all = 0..databases as u16;
                for db in all.filter(|db| only.is_none_or(|only| only == *db)) {
                    // The store has the contents after the flush, and none from before.
                    if self.floors[usize::from(keyspace.physical(db))] < lsn {
                        let mut reclaim = keyspace.flush(&held, &mut self.local, Some(db));
                        while !reclaim.step_at_once(&mut self.local, 1000) {}
                    }
                }
            }
        }
        keyspace.raise(&held, version_of(lsn));
        self.local.publish_counts();
        keyspace.release(held, |_| {});
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

const NO_DATABASE: Corrupt = Corrupt("there is no such database");

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

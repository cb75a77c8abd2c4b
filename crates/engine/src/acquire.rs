//! Taking latches: which ones a command needs, trying for a moment, reserving for a starving command, parking.

use command::{Reach, Run, flags};
use keyspace::{Held, Need, Waiter};
use smallvec::SmallVec;

use crate::call::{Busy, Call};
use crate::engine::Engine;

/// Attempts at a busy latch before giving up, about a microsecond.
const SPINS: u32 = 40;

impl Engine {
    /// Takes one latch, trying for about a microsecond.
    #[inline]
    pub(crate) fn acquire_one(&self, slot: u16) -> Option<Held> {
        if let Some(held) = self.shared.keyspace.try_one(slot) {
            return Some(held);
        }
        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            self.shared.keyspace.try_one(slot)
        })
    }

    /// Takes all latches of `need`, trying for about a microsecond.
    fn acquire(&mut self, need: Need) -> Result<Held, Busy> {
        // Each attempt at many latches takes and gives back what it gets.
        let mut attempts = 1 + SPINS / u32::try_from(need.len().max(1)).unwrap_or(u32::MAX);
        loop {
            let wakes = &mut self.wakes;
            attempts -= 1;
            match self.shared.keyspace.try_acquire(&need, |w| wakes.push(w)) {
                Ok(held) => return Ok(held),
                Err(slot) if attempts == 0 => return Err(Busy::latch(need, slot)),
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    /// Takes the latches of `need` that `held` lacks, trying for about a microsecond. It becomes their union, unless
    /// `held` has all. On failure returns the slot that was busy.
    pub(crate) fn try_to_extend(&mut self, held: &mut Held, need: &Need) -> Result<SmallVec<[u16; 8]>, u16> {
        let mut attempts = 1 + SPINS / u32::try_from(need.len().max(1)).unwrap_or(u32::MAX);
        loop {
            let wakes = &mut self.wakes;
            attempts -= 1;
            match self.shared.keyspace.try_extend(held, need, |w| wakes.push(w)) {
                Ok(more) => return Ok(more),
                Err(slot) if attempts == 0 => return Err(slot),
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    fn reserved_by(&self, token: u64) -> Option<&Need> {
        self.reservation.as_ref().filter(|(owner, _)| *owner == token).map(|(_, need)| need)
    }

    /// As [`Self::acquire`], past newcomers if `token` has reserved its latches after too many failures (rule K1). Then
    /// everything reserved is taken, which may be more than is needed now: the latches that were missed last time
    /// caused the starving.
    pub(crate) fn acquire_for(&mut self, need: Need, token: u64) -> Result<Held, Busy> {
        let need = match self.reserved_by(token) {
            None => return self.acquire(need),
            Some(reserved) if reserved.covers(&need) => reserved.clone(),
            Some(_) => {
                // Waiters have come meanwhile, and their commands need further latches.
                self.cancel_reservation(token);
                self.reserve(&need, token);
                need
            }
        };
        if self.reservation.is_none() {
            // Another worker was faster.
            return self.acquire(need);
        }
        let wakes = &mut self.wakes;
        match self.shared.keyspace.try_acquire_reserved(&need, |w| wakes.push(w)) {
            Ok(held) => {
                self.reservation = None;
                Ok(held)
            }
            Err(slot) => Err(Busy::latch(need, slot)),
        }
    }

    /// Keeps newcomers out of the latches that `token` has failed to get too often. One command of a node can do so at
    /// a time; the others go on trying.
    pub fn reserve(&mut self, need: &Need, token: u64) {
        if self.reservation.is_none() && self.shared.keyspace.reserve(need, Waiter { worker: self.index, token }) {
            self.reservation = Some((token, need.clone()));
        }
    }

    /// Gives a reservation up, if `token` has one.
    pub fn cancel_reservation(&mut self, token: u64) {
        if self.reserved_by(token).is_some()
            && let Some((_, need)) = self.reservation.take()
        {
            let wakes = &mut self.wakes;
            self.shared.keyspace.cancel_reservation(&need, |w| wakes.push(w));
        }
    }

    /// Registers a connection to be woken when `slot` may be free. False: it is free now, try again.
    pub fn park(&self, slot: u16, token: u64) -> bool {
        let reserver = self.reserved_by(token).is_some();
        self.shared.keyspace.park(slot, Waiter { worker: self.index, token }, reserver)
    }

    #[inline]
    pub(crate) fn release(&mut self, held: Held) {
        if !self.hidden.is_empty() {
            self.unhide(&held);
        }
        self.seal(&held);
        self.local.publish_counts();
        let wakes = &mut self.wakes;
        self.shared.keyspace.release(held, |w| wakes.push(w));
    }

    /// The latches a command needs.
    pub fn need_of_call(&mut self, call: &Call<'_>) -> Need {
        match call.row.run {
            Run::Whole(_) => return Need::All,
            Run::KeyedOrWhole(_, reach) if reach(call.args) == Reach::Everything => return Need::All,
            _ => {}
        }
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let need = self.need_of(positions.iter().filter_map(|at| call.args.get(at.index)).map(keyspace::slot_of));
        self.positions = positions;
        need
    }

    /// A larger need if commands wait for keys that `calls` may change and need more than what is held.
    pub(crate) fn wider_need(&mut self, calls: &[Call<'_>], held: &Held) -> Option<Need> {
        if held.is_all() || !self.has_reaching(held) {
            return None;
        }
        self.need_of_waiters(calls, held)
    }

    /// As [`Self::wider_need`], for slots with a waiting command that may need more.
    pub(crate) fn need_of_waiters(&mut self, calls: &[Call<'_>], held: &Held) -> Option<Need> {
        let mut missing = std::collections::BTreeSet::new();
        for call in calls.iter().filter(|call| call.row.spec.has(flags::WRITE)) {
            let mut positions = Vec::new();
            call.row.spec.keys_of(call.args, &mut positions);
            let hasher = self.shared.keyspace.hasher();
            let keys = positions.iter().filter_map(|at| call.args.get(at.index)).map(|k| hasher.key(k));
            // MOVE and COPY make keys in other databases.
            let db = (!call.row.spec.has(flags::OTHER_DB)).then_some(call.db);
            missing.extend(self.slots_of_waiters(held, db, keys));
        }
        (!missing.is_empty()).then(|| self.need_of(held.slots().iter().copied().chain(missing)))
    }
}

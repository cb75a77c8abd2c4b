//! How sets of latches are taken, waited for and given back (rules K1, K2).
//!
//! Latches are taken in ascending order by trying. An acquirer that fails gives back what it has and parks at the busy
//! one. One that has failed too often reserves its latches: newcomers queue behind it, and it gets each latch as soon
//! as its holder leaves.

use crate::latch::Latch;
use crate::lot::{Lot, Waiter};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The place of a slot's latch.
pub(crate) trait Latches {
    fn latch(&self, slot: u16) -> &Latch;
}

/// The waiters, and the reservation.
pub(crate) struct Waiting {
    lot: Lot,
    /// At most one acquirer at a time may reserve latches: two could wait for each other.
    reserver: Mutex<Option<Waiter>>,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { lot: Lot::new(), reserver: Mutex::new(None) }
    }

    fn reserver(&self) -> MutexGuard<'_, Option<Waiter>> {
        self.reserver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries to take all of `slots`, which ascend. On failure nothing is held and the busy slot is named.
    #[inline]
    pub(crate) fn try_all(
        &self,
        latches: &(impl Latches + ?Sized),
        slots: impl Iterator<Item = u16> + Clone,
        mut wake: impl FnMut(Waiter),
    ) -> Result<(), u16> {
        self.try_each(latches, slots, &mut wake, Latch::try_lock)
    }

    /// As [`Self::try_all`], for the acquirer that has reserved `slots`. The reservation ends on success.
    pub(crate) fn try_reserved(
        &self,
        latches: &(impl Latches + ?Sized),
        slots: impl Iterator<Item = u16> + Clone,
        mut wake: impl FnMut(Waiter),
    ) -> Result<(), u16> {
        self.try_each(latches, slots.clone(), &mut wake, Latch::try_lock_reserved)?;
        self.cancel(latches, slots, wake);
        Ok(())
    }

    #[inline]
    fn try_each(
        &self,
        latches: &(impl Latches + ?Sized),
        slots: impl Iterator<Item = u16> + Clone,
        wake: &mut impl FnMut(Waiter),
        try_one: impl Fn(&Latch) -> bool,
    ) -> Result<(), u16> {
        for (taken, slot) in slots.clone().enumerate() {
            if !try_one(latches.latch(slot)) {
                slots.take(taken).for_each(|earlier| self.unlock(latches.latch(earlier), earlier, wake));
                return Err(slot);
            }
        }
        Ok(())
    }

    /// Gives a latch back and hands out the waiters to wake.
    #[inline]
    pub(crate) fn unlock(&self, latch: &Latch, slot: u16, wake: &mut impl FnMut(Waiter)) {
        if latch.unlock() {
            self.lot.drain(slot).into_iter().for_each(wake);
        }
    }

    /// Hands out the waiters of a latch that stays taken.
    pub(crate) fn rouse(&self, slot: u16, wake: &mut impl FnMut(Waiter)) {
        self.lot.drain(slot).into_iter().for_each(wake);
    }

    /// Registers a waiter for a busy latch. False: it can be had now, and the waiter is not registered. `reserver`: the
    /// waiter has reserved it.
    pub(crate) fn park(&self, latch: &Latch, slot: u16, waiter: Waiter, reserver: bool) -> bool {
        self.lot.register(slot, waiter);
        if latch.announce(reserver) {
            return true;
        }
        self.lot.unregister(slot, waiter);
        false
    }

    /// Keeps newcomers out of `slots`. False: another acquirer is doing so elsewhere.
    pub(crate) fn reserve(
        &self,
        latches: &(impl Latches + ?Sized),
        slots: impl Iterator<Item = u16>,
        waiter: Waiter,
    ) -> bool {
        let mut reserver = self.reserver();
        if reserver.is_some() {
            return *reserver == Some(waiter);
        }
        *reserver = Some(waiter);
        slots.for_each(|slot| latches.latch(slot).reserve());
        true
    }

    /// Ends a reservation, and hands out the waiters that it held up.
    pub(crate) fn cancel(
        &self,
        latches: &(impl Latches + ?Sized),
        slots: impl Iterator<Item = u16>,
        mut wake: impl FnMut(Waiter),
    ) {
        slots.for_each(|slot| {
            if latches.latch(slot).unreserve() {
                self.lot.drain(slot).into_iter().for_each(&mut wake);
            }
        });
        *self.reserver() = None;
    }
}

//! How many keys the store has, of each space in each slot: the figures that a start uses before it has read any key.

use std::fmt;

use clocks::UnixMs;
use keyspace::{ColdFigures, Mark, SLOTS, Space};
use smallvec::SmallVec;

/// For every slot and space, the figures of the store when all copies are written. They are the exact number of keys
/// with values, and a time before which nothing of it expires. For retired spaces they may be anything.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts(Box<[OfSlot]>);

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().enumerate().filter(|(_, of_slot)| !of_slot.is_empty())).finish()
    }
}

/// Spaces of a slot that have something, in no order.
pub(super) type OfSlot = SmallVec<[(Space, Count); 1]>;

/// As [`ColdFigures`], in less space: a table has fewer than 2^32 keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Count {
    pub(super) keys: u32,
    pub(super) expiring: u32,
    pub(super) fields: u32,
    pub(super) earliest: UnixMs,
}

impl Count {
    const NONE: Count = Count { keys: 0, expiring: 0, fields: 0, earliest: UnixMs::NEVER };

    fn is_volatile(&self) -> bool {
        self.expiring > 0 || self.fields > 0
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self(vec![OfSlot::new(); SLOTS].into())
    }
}

impl Counts {
    /// For a slot: the spaces of which the store has keys.
    pub fn of(&self, slot: u16) -> impl Iterator<Item = (Space, ColdFigures)> {
        self.0[usize::from(slot)].iter().map(|(space, count)| {
            let Count { keys, expiring, fields, earliest } = *count;
            let (keys, expiring, field_expiring) = (keys.into(), expiring.into(), fields.into());
            (*space, ColdFigures { keys, expiring, field_expiring, earliest })
        })
    }

    /// The figures of consecutive slots, to be written or filled.
    pub(super) fn slots(&mut self, first: usize, n: usize) -> &mut [OfSlot] {
        &mut self.0[first..][..n]
    }

    /// Notes that the store has `has` under a key, in place of `had`; nothing of it expires before `earliest`.
    pub(super) fn change(&mut self, slot: u16, space: Space, had: Mark, has: Mark, earliest: UnixMs) {
        if !had.is_live() && !has.is_live() {
            return;
        }
        let of_slot = &mut self.0[usize::from(slot)];
        let at = of_slot.iter().position(|(known, _)| *known == space).unwrap_or_else(|| {
            of_slot.push((space, Count::NONE));
            of_slot.len() - 1
        });
        let count = &mut of_slot[at].1;
        let shift = |n: &mut u32, had: bool, has: bool| *n = n.saturating_add(has.into()).saturating_sub(had.into());
        shift(&mut count.keys, had.is_live(), has.is_live());
        shift(&mut count.expiring, had.is_expiring(), has.is_expiring());
        shift(&mut count.fields, had.has_expiring_fields(), has.has_expiring_fields());
        count.earliest = if count.is_volatile() { count.earliest.min(earliest) } else { UnixMs::NEVER };
        if count.keys == 0 {
            of_slot.swap_remove(at);
        }
    }

    /// Notes a finding: nothing of the space in the slot expires before `earliest`.
    pub(super) fn set_earliest(&mut self, slot: u16, space: Space, earliest: UnixMs) {
        let found = self.0[usize::from(slot)].iter_mut().find(|(known, _)| *known == space);
        if let Some((_, count)) = found.filter(|(_, count)| count.is_volatile()) {
            count.earliest = earliest;
        }
    }

    /// Forgets all other spaces.
    pub(super) fn keep_only(&mut self, spaces: &[Space]) {
        self.0.iter_mut().for_each(|of_slot| of_slot.retain(|(space, _)| spaces.contains(space)));
    }

    /// True if the others say the same about keys, and no later times.
    #[cfg(test)]
    pub(super) fn agree(&self, others: &Counts) -> bool {
        (0..SLOTS as u16).all(|slot| {
            let mut both = [self, others].map(|counts| counts.of(slot).collect::<Vec<_>>());
            both.iter_mut().for_each(|of_slot| of_slot.sort_unstable_by_key(|(space, _)| *space));
            let [ours, theirs] = both;
            ours.len() == theirs.len()
                && ours.iter().zip(&theirs).all(|((space, ours), (other, theirs))| {
                    space == other
                        && theirs.earliest <= ours.earliest
                        && ColdFigures { earliest: UnixMs::ZERO, ..*ours }
                            == ColdFigures { earliest: UnixMs::ZERO, ..*theirs }
                })
        })
    }

    /// Forgets retired spaces.
    pub(super) fn forget(&mut self, gone: &[Space]) {
        if !gone.is_empty() {
            self.0.iter_mut().for_each(|of_slot| of_slot.retain(|(space, _)| !gone.contains(space)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_counted() {
        let mut counts = Counts::default();
        let (plain, expiring, hash) =
            (Mark::live(false, false, false), Mark::live(true, false, true), Mark::live(true, true, false));
        counts.change(7, 1, Mark::NONE, plain, UnixMs::NEVER);
        counts.change(7, 1, Mark::DEAD, expiring, UnixMs(50));
        counts.change(7, 2, Mark::NONE, hash, UnixMs(60));
        counts.change(7, 2, Mark::NONE, Mark::DEAD, UnixMs::NEVER);
        let figures =
            |keys, expiring, field_expiring, earliest| ColdFigures { keys, expiring, field_expiring, earliest };
        assert!(counts.of(7).eq([(1, figures(2, 1, 0, UnixMs(50))), (2, figures(1, 1, 1, UnixMs(60)))]));
        counts.set_earliest(7, 1, UnixMs(55));
        counts.change(7, 1, plain, hash, UnixMs(70));
        assert!(counts.of(7).eq([(1, figures(2, 2, 1, UnixMs(55))), (2, figures(1, 1, 1, UnixMs(60)))]));
        counts.change(7, 1, expiring, plain, UnixMs::NEVER);
        counts.change(7, 1, hash, Mark::DEAD, UnixMs::NEVER);
        assert!(counts.of(7).eq([(1, figures(1, 0, 0, UnixMs::NEVER)), (2, figures(1, 1, 1, UnixMs(60)))]));
        counts.change(7, 1, plain, Mark::DEAD, UnixMs::NEVER);
        counts.forget(&[2]);
        assert_eq!(counts, Counts::default());
    }
}

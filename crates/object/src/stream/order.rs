//! Pending entries in the order in which they are to be claimed.

use super::group::{Delivery, Group, Member};
use super::id::Id;
use super::pending::{Pending, Record, Run, sorted_runs};
use crate::Corrupt;
use crate::tree::Tree;

/// A pending entry in the order of claims.
#[derive(Clone, Copy)]
pub(super) struct Place {
    place: Id,
    entry: Id,
}

impl Place {
    pub fn of(delivery: &Delivery) -> Place {
        Place { place: delivery.place(), entry: delivery.id }
    }
}

impl Record for Place {
    fn id(&self) -> Id {
        self.place
    }
}

impl Delivery {
    /// Its place in the order of claims: released entries come first.
    pub(super) fn place(&self) -> Id {
        let ms = if self.is_released() { 0 } else { self.time.max(0) as u64 + 1 };
        Id::new(ms, u64::from(self.turn))
    }
}

impl Group {
    /// The next turn. They never run out: before that, pending entries are numbered anew.
    pub(super) fn take_turn(&mut self) -> u32 {
        if self.turn == u32::MAX {
            self.number_anew();
        }
        self.turn += 1;
        self.turn - 1
    }

    /// Takes an entry out of the group's pending ones.
    pub(super) fn take(&mut self, id: Id) -> Option<Delivery> {
        let delivery = self.pending.take(id)?;
        self.released -= u64::from(delivery.is_released());
        if let Some(oldest) = &mut self.oldest {
            oldest.take(delivery.place());
        }
        Some(delivery)
    }

    fn number_anew(&mut self) {
        let mut all: Vec<Delivery> = self.pending.from(Id::MIN).collect();
        all.sort_unstable_by_key(Delivery::place);
        for (delivery, turn) in all.iter_mut().zip(0..) {
            delivery.turn = turn;
        }
        self.turn = all.len() as u32;
        all.sort_unstable_by_key(|delivery| delivery.id);
        self.pending.0.renew(sorted_runs(all));
        self.oldest = None;
    }

    /// Pending entries in the order of claims. The first call takes as long as there are entries.
    pub fn oldest(&mut self) -> impl Iterator<Item = Delivery> {
        let Group { oldest, pending, .. } = self;
        let oldest = oldest.get_or_insert_with(|| {
            let mut places: Vec<Place> = pending.from(Id::MIN).map(|delivery| Place::of(&delivery)).collect();
            places.sort_unstable_by_key(|one| one.place);
            Pending(Tree::build(places, true, |run: &mut Run<Place>, place| run.0.push(place)))
        });
        oldest.from(Id::MIN).filter_map(|one| pending.get(one.entry))
    }

    /// Entries without a consumer, in the order in which they were released.
    pub fn released(&self) -> Vec<Delivery> {
        if self.released == 0 {
            return Vec::new();
        }
        let mut released: Vec<Delivery> = self.pending.from(Id::MIN).filter(Delivery::is_released).collect();
        released.sort_unstable_by_key(|delivery| delivery.turn);
        released
    }

    /// The stored value in place of a delivery's time: entries without a consumer are all of time 0, and keep their
    /// order instead.
    pub(super) fn time_or_turn(delivery: &Delivery) -> u64 {
        if delivery.is_released() { u64::from(delivery.turn) } else { delivery.time as u64 }
    }

    /// The delivery of which [`Self::time_or_turn`] was stored.
    pub(super) fn stored(id: Id, time_or_turn: u64, count: u64, consumer: Member) -> Result<Delivery, Corrupt> {
        if consumer != Member::NOBODY {
            return Ok(Delivery::new(id, time_or_turn as i64, count, consumer));
        }
        let turn = u32::try_from(time_or_turn).map_err(|_| Corrupt("order of released entries"))?;
        Ok(Delivery { turn, ..Delivery::released(id, count) })
    }

    /// Gives turns to loaded entries: `all` in the order of IDs; entries without a consumer keep theirs.
    pub(super) fn number_loaded<'a>(&mut self, all: impl Iterator<Item = &'a mut Delivery>) -> Result<(), Corrupt> {
        let (mut released, mut next) = (Vec::new(), 0);
        for delivery in all {
            if delivery.is_released() {
                released.push(delivery.turn);
            } else {
                delivery.turn = next;
                next = next.saturating_add(1);
            }
        }
        released.sort_unstable();
        if released.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Corrupt("order of released entries"));
        }
        self.released = released.len() as u64;
        self.turn = next.max(released.last().map_or(0, |last| last.saturating_add(1)));
        self.oldest = None;
        Ok(())
    }
}

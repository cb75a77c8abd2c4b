//! One worker that holds everything: for tests.

use crate::access::AccessClock;
use crate::{Db, Held, Keyspace, Local, Need, SIZED_TYPES, SIZES, Version};

pub(crate) struct Single<'a> {
    pub(crate) ks: &'a Keyspace,
    pub(crate) local: Local,
    clock: AccessClock,
    version: Version,
}

impl<'a> Single<'a> {
    /// Worker 0 of `ks`.
    pub(crate) fn new(ks: &'a Keyspace) -> Self {
        Self { ks, local: ks.local(0), clock: AccessClock::new(1), version: Version::ZERO }
    }

    /// Versions from here on are above this one.
    pub(crate) fn skip_to(&mut self, version: Version) {
        self.version = version;
    }

    /// The last version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Calls `f` with logical database `db`, everything held, within one turn of the worker.
    pub(crate) fn with<R>(&mut self, db: u16, f: impl FnOnce(&mut Db<'_>) -> R) -> R {
        self.local.begin_turn();
        let Ok(held) = self.ks.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        self.version.0 += 1;
        let result = f(&mut Db::new(self.ks, &held, &mut self.local, &self.clock, db, self.version));
        self.local.publish_counts();
        self.ks.release(held, |_| {});
        self.local.end_turn();
        result
    }

    /// As [`Self::with`] with one slot held.
    pub(crate) fn with_slot<R>(&mut self, slot: u16, f: impl FnOnce(&mut Db<'_>) -> R) -> R {
        self.local.begin_turn();
        let Some(held) = self.ks.try_one(slot) else { panic!("nobody else is there") };
        self.version.0 += 1;
        let result = f(&mut Db::new(self.ks, &held, &mut self.local, &self.clock, 0, self.version));
        self.ks.raise(&held, self.version);
        self.local.publish_counts();
        self.ks.release(held, |_| {});
        self.local.end_turn();
        result
    }

    /// Calls `f` with everything held, within one turn of the worker.
    pub(crate) fn with_all<R>(&mut self, f: impl FnOnce(&Keyspace, &Held, &mut Local) -> R) -> R {
        self.local.begin_turn();
        let Ok(held) = self.ks.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
        let result = f(self.ks, &held, &mut self.local);
        self.local.publish_counts();
        self.ks.release(held, |_| {});
        self.local.end_turn();
        result
    }
}

/// Compares how large the values of a database, all of which is held, are said to be with what is there.
pub(crate) fn check_sizes(db: &Db<'_>) {
    let mut there = [[0; SIZES]; SIZED_TYPES.len()];
    let mut at = db.keyspace().next_occupied(0);
    while let Some(slot) = at {
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.walk(slot, hash, |entry| {
                let size = entry.string().map_or_else(|_| entry.elements(), |text| text.len() as u64);
                let bucket = (0..).find(|bucket| size < 1 << bucket).expect("no value is that large");
                let row = SIZED_TYPES.iter().position(|name| *name == entry.kind().type_name());
                there[row.expect("no streams")][bucket] += 1;
            });
        }
        at = db.keyspace().next_occupied(slot + 1);
    }
    assert_eq!(db.keyspace().sizes(db.logical()), there);
}

//! The part of the log that the store had when it was opened: a start and a standby skip it (rules C1, L12).

use command::{About, Barrier, effects};
use keyspace::{Held, Keyspace, Local, Reclaim, SLOTS};
use object::Corrupt;
use redolog::Lsn;

use super::load::Loaded;
use crate::record::{lsn_of, version_of};

pub(crate) const NO_DATABASE: Corrupt = Corrupt("there is no such database");

/// See the module's text.
pub(crate) struct Had {
    /// C(s).
    covered: Box<[Lsn]>,
    /// For every slot, the highest version that a key there may have in the store.
    reach: Box<[Lsn]>,
    /// For each stream, up to where no record is needed.
    unneeded: Vec<Lsn>,
    /// Up to here the map of databases is that of the store.
    map_lsn: Lsn,
    /// For each physical database: its last flush that the store knows of.
    floors: Vec<Lsn>,
    /// The highest LSN that the store names.
    highest: Lsn,
}

/// The effects of a record that the store's last flush of their database has made void: those on each of these physical
/// databases before this index.
#[derive(Default)]
pub(crate) struct Voids(Vec<(u16, usize)>);

impl Voids {
    fn have(&self, physical: u16, index: usize) -> bool {
        self.0.iter().any(|(flushed, at)| *flushed == physical && index < *at)
    }
}

impl Had {
    /// `None`: the store is empty.
    pub(crate) fn new(loaded: Option<&Loaded>, keyspace: &Keyspace) -> Self {
        let none = || vec![Lsn::ZERO; SLOTS].into();
        let floors = loaded.map_or(&[][..], |loaded| &loaded.header.databases.floors);
        let mut floors: Vec<Lsn> = floors.iter().map(|version| lsn_of(*version)).collect();
        floors.resize(keyspace.databases(), Lsn::ZERO);
        Self {
            covered: loaded.map_or_else(none, |loaded| loaded.covered.clone()),
            reach: loaded.map_or_else(none, |loaded| loaded.reach.clone()),
            unneeded: loaded.map_or_else(Vec::new, |loaded| loaded.header.covered.clone()),
            map_lsn: loaded.map_or(Lsn::ZERO, |loaded| lsn_of(loaded.header.databases.map_version)),
            floors,
            highest: loaded.map_or(Lsn::ZERO, |loaded| loaded.highest),
        }
    }

    /// True if the store has nothing of a record, nor of later ones.
    pub(crate) fn is_behind(&self, lsn: Lsn) -> bool {
        lsn > self.highest
    }

    /// True if the store has nothing behind this LSN.
    pub(crate) fn is_within(&self, upto: Lsn) -> bool {
        self.highest <= upto
    }

    /// True if a start needs the record: the store may lack it.
    pub(crate) fn needs(&self, lsn: Lsn) -> bool {
        self.unneeded.get(usize::from(lsn.stream())).is_none_or(|unneeded| lsn > *unneeded)
    }

    /// True if the store has all changes of the record: every slot's C(s) is above.
    pub(crate) fn has_all(&self, lsn: Lsn) -> bool {
        lsn <= self.map_lsn
    }

    /// True if the store has what the record's effect number `index` changes in a slot and a physical database, or that
    /// was flushed since.
    pub(crate) fn has(&self, lsn: Lsn, index: usize, (slot, physical): (u16, u16), voids: &Voids) -> bool {
        let is_void = self.floors[usize::from(physical)] > lsn || voids.have(physical, index);
        is_void || lsn <= self.covered[usize::from(slot)]
    }

    /// True if a key of a slot may have a version in the store that is not below the record.
    pub(crate) fn may_have_later(&self, lsn: Lsn, slot: u16) -> bool {
        lsn <= self.reach[usize::from(slot)]
    }

    /// The physical databases that the record flushes, if the store knows of that, and which of its effects come
    /// before.
    pub(crate) fn voids(&self, lsn: Lsn, encoded: &[u8], keyspace: &Keyspace) -> Result<Voids, Corrupt> {
        if !self.floors.contains(&lsn) {
            return Ok(Voids::default());
        }
        let mut map: Vec<u16> = (0..self.floors.len() as u16).map(|db| keyspace.physical(db)).collect();
        let mut voids = Vec::new();
        for (index, effect) in effects::decode(encoded).enumerate() {
            let About::Databases(barrier) = effect?.about()? else { continue };
            match barrier {
                Barrier::Flush(Some(db)) => voids.push((*map.get(usize::from(db)).ok_or(NO_DATABASE)?, index)),
                Barrier::Flush(None) => voids.extend(map.iter().map(|physical| (*physical, index))),
                Barrier::Swap(a, b) if usize::from(a.max(b)) < map.len() => map.swap(a.into(), b.into()),
                Barrier::Swap(..) => return Err(NO_DATABASE),
            }
        }
        // A later flush counts, but effects before an earlier one are before it, too.
        Ok(Voids(voids))
    }

    /// Changes whole databases at a record's LSN, unless the store has the contents since. Everything is held. The
    /// returned work must be stepped to its end.
    pub(crate) fn change_databases(
        &self,
        barrier: Barrier,
        lsn: Lsn,
        (keyspace, held, local): (&Keyspace, &Held, &mut Local),
    ) -> Result<Vec<Reclaim>, Corrupt> {
        let databases = keyspace.databases();
        let mut reclaims = Vec::new();
        match barrier {
            Barrier::Swap(a, b) if usize::from(a.max(b)) >= databases => return Err(NO_DATABASE),
            Barrier::Flush(Some(db)) if usize::from(db) >= databases => return Err(NO_DATABASE),
            Barrier::Flush(None) if !self.is_behind(lsn) => {
                // The store has the contents after a flush, and none from before.
                let lacks = |db: &u16| self.floors[usize::from(keyspace.physical(*db))] < lsn;
                let all = (0..databases as u16).filter(lacks);
                reclaims.extend(all.map(|db| keyspace.flush(held, local, Some(db))));
            }
            Barrier::Flush(Some(db)) if self.floors[usize::from(keyspace.physical(db))] >= lsn => {}
            _ => reclaims.extend(barrier.carry_out(keyspace, held, local)),
        }
        keyspace.raise(held, version_of(lsn));
        Ok(reclaims)
    }
}

//! Effects of logged records are applied to keys, at the LSN of their record: by a start, by the installation of what was
//! prepared, and by a standby.

use std::collections::BTreeSet;

use command::{Effect, effects};
use keyspace::{Db, Fetched, Key, Mark, Record, Value, Version};
use object::{Corrupt, Limits};

/// Applies an effect to its key, which gets the `Db`'s version.
#[inline]
pub(crate) fn apply(key: &Key<'_>, effect: &mut Effect<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    effects::replay_at(key, effect, db, limits)?;
    // Some effects are applied to readers' entries.
    db.stamp(key);
    Ok(())
}

/// Makes an unknown key known that is about to be overwritten, and is a short string without an expiry: it need not be
/// read for that.
pub(crate) fn stand_in(db: &mut Db<'_>, key: &Key<'_>) {
    let (value, access, mark) = (Value::Int(0), db.clock().fresh(), Mark::live(false, false, false));
    db.warm(key, Some(Fetched::There(Record { value, expiry: None, access, version: Version(1), mark })));
}

/// The keys that a record is applied to, with their physical databases. The store may have a record's change of one key
/// and not of another; a key that the record itself has changed gets its other effects, too.
#[derive(Default)]
pub(crate) struct Changed(BTreeSet<(u16, Box<[u8]>)>);

impl Changed {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn note(&mut self, physical: u16, key: &Key<'_>) {
        self.0.insert((physical, key.bytes.into()));
    }

    /// True if the record has changed the key before.
    pub(crate) fn has(&self, physical: u16, key: &Key<'_>) -> bool {
        !self.0.is_empty() && self.0.contains(&(physical, key.bytes.into()))
    }
}

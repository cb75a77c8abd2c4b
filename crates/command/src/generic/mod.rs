//! Commands on keys of any type, and on whole databases.

mod cursor;
mod databases;
mod expire;
mod image;
mod keys;
mod memory;
mod object;
mod scan;
#[cfg(test)]
mod scan_tests;
mod slots;
mod sort;
mod transfer;

use ::object::{Corrupt, Limits};
use clocks::UnixMs;
use keyspace::{Db, Key};

use crate::ctx::Ctx;
use crate::effects::{Reader, op};
use crate::notify::class;

pub use cursor::slot_of_cursor;
pub use databases::ROWS as DATABASE_ROWS;
pub use expire::ROWS as EXPIRE_ROWS;
pub use keys::ROWS as KEY_ROWS;
pub use memory::ROWS as MEMORY_ROWS;
pub use object::ROWS as OBJECT_ROWS;
pub use scan::ROWS as SCAN_ROWS;
pub use slots::{CLUSTER, ROWS as SLOT_ROWS, slot_of_argument};
pub use sort::ROWS as SORT_ROWS;
pub use transfer::ROWS as TRANSFER_ROWS;

/// Applies an effect that any type can have.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, _: &Limits) -> Result<(), Corrupt> {
    match number {
        op::DELETE => {
            db.remove(key);
        }
        op::EXPIRE => {
            db.set_expiry(key, UnixMs::from_wire(r.varint()?));
        }
        op::IMAGE => image::replay(key, r, db)?,
        _ => return Err(Corrupt("unknown effect")),
    }
    Ok(())
}

impl Ctx<'_> {
    /// Notes the present state of `key` of the selected database, as a whole: value and expiry. For commands whose
    /// result has no shorter description (RENAME, COPY, RESTORE, SORT STORE). Nothing is written if the key is absent.
    pub(crate) fn image_effect(&mut self, key: &Key<'_>) {
        image::effect(self, key);
    }

    /// Notes that `key` of the selected database has become a collection whose contents are the payload of effect `op`.
    pub(crate) fn contents_effect(&mut self, op: u8, key: &Key<'_>) {
        self.db.note_change(key);
        let Some(entry) = self.db.peek(key) else { return };
        self.fx.push_contents(op, self.db.logical(), key, entry);
    }

    /// Deletes `key` if it has expired. Only for keys that the engine has not checked before the command: those of
    /// other databases (COPY, MOVE).
    pub(crate) fn expire_now(&mut self, key: &Key<'_>) {
        let now = self.now;
        if self.db.peek(key).is_some_and(|entry| entry.expired(now)) {
            self.db.remove(key);
            keyspace::bump(&self.db.local().counters().expired, 1);
            self.effect(op::DELETE, key, |_| {});
            self.notify(class::EXPIRED, "expired", key);
        }
    }
}

//! Deletion of expired fields: by the engine's sweep, and before commands that must not meet any.

use clocks::UnixMs;
use keyspace::{Db, Key};
use object::Hash;

use super::effect::REMOVE;
use crate::effects::{Effects, Reader, Writer, op};
use crate::notify::{Events, class};

/// The result of [`reclaim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Number of fields deleted.
    pub fields: u64,
    /// When the next field expires; in the past if there were more than `max`. None: no field
    /// expires any more, or the key is gone.
    pub next: Option<UnixMs>,
}

/// Deletes up to `max` fields of the hash at `key` that have expired at `now`, and the key when it becomes empty.
///
/// The key's slot is held and `db` has the key's database selected; a value of another type is left alone. The time is
/// bounded by `max`. Changes are logged and notified as if a command had made them.
pub fn reclaim(
    db: &mut Db<'_>,
    key: &Key<'_>,
    now: UnixMs,
    max: usize,
    fx: &mut Effects,
    events: &mut Events,
) -> Reclaimed {
    let keeps_names = fx.recording || events.names_fields();
    let mut names = Vec::new();
    let done = db.edit::<Hash, _>(key, |hash| {
        let fields = hash.reclaim(now, max, |name| {
            if keeps_names {
                Writer(&mut names).bytes(name.as_bytes(&mut itoa::Buffer::new()));
            }
        });
        (fields > 0, (fields as u64, hash.is_empty(), hash.next_expiry()))
    });
    let Ok(Some((fields, empty, next))) = done else { return Reclaimed::default() };
    if fields == 0 {
        return Reclaimed { fields, next };
    }
    keyspace::bump(&db.local().counters().expired_fields, fields);
    let logical = db.logical();
    let mut reader = Reader(&names);
    let gone = std::iter::from_fn(|| if reader.is_empty() { None } else { reader.bytes().ok() });
    events.push_of(class::HASH, "hexpired", (logical, key.bytes), gone);
    if empty {
        db.remove(key);
        fx.push(op::DELETE, logical, key, |_| {});
        events.push(class::GENERIC, "del", logical, key.bytes);
    } else {
        fx.push(REMOVE, logical, key, |w| w.0.extend_from_slice(&names));
        db.set_field_expiry(key, next);
    }
    Reclaimed { fields, next }
}

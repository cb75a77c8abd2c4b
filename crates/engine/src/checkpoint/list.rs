//! The names of what a store has, in order.

use std::ops::Bound;

use command::Position;
use keyspace::{KeyHasher, Kind, SLOTS, Space, Unreadable};
use object::Corrupt;
use object::saved::{self, Type};
use store::Store;

use super::fetch::decode_within;
use super::format::{self, Stored};
use super::load::{self, Unloadable, nonsense};
use crate::cold::{self, BYTES_AT_ONCE, Listed, Names, Records, Span};

/// Bytes that are read at once, roughly: names may be long, and values come with them.
const BYTES: usize = 2 << 20;
/// Records of keys that were gone at their checkpoint are skipped; at most so many for each listed key.
const GONE: usize = 8;

/// The present keys in a part of a space, also those that were not flushed.
pub(super) fn list(store: &dyn Store, space: Space, span: Span) -> Result<Names, Unloadable> {
    let mut names = Names::default();
    let (from, end) =
        (format::place_in(space, span.from), format::place_in(space, Position { slot: span.end, hash: 0 }));
    let snapshot = store.snapshot();
    let (mut seen, mut bytes, mut last) = (0, 0, None);
    for entry in snapshot.range((Bound::Included(&from), Bound::Excluded(&end))) {
        let (stored_key, value) = entry?;
        let wrong = |corrupt| nonsense(&stored_key, corrupt);
        let place = format::place_of(&stored_key).filter(|place| usize::from(place.slot) < SLOTS);
        let place = place.ok_or_else(|| wrong(Corrupt("key of an entry")))?;
        // Keys with the same half of a hash are listed together.
        let enough = names.names.len() >= span.most || seen >= GONE * span.most || bytes >= BYTES;
        if enough && last != Some(place) {
            names.until = Some(place);
            break;
        }
        last = Some(place);
        seen += 1;
        bytes += stored_key.len() + value.len();
        let (key, stored) = format::read_entry(&stored_key, &value).map_err(wrong)?;
        let Stored::Entry(head, record) = stored else { continue };
        let kind = match saved::type_of(record).map_err(wrong)? {
            Type::String => Kind::Short,
            Type::List => Kind::List,
            Type::Set => Kind::Set,
            Type::ZSet => Kind::ZSet,
            Type::Hash => Kind::Hash,
            Type::Stream => Kind::Stream,
        };
        names.names.push(Listed { slot: place.slot, key, kind, expiry: head.expiry, fields: head.field_expiry });
    }
    Ok(names)
}

/// Keys of the slot of a position with their values, from there on, also those that were not flushed.
pub(super) fn read(store: &dyn Store, space: Space, from: Position, hasher: &KeyHasher) -> Result<Records, Unloadable> {
    let mut records = Records::default();
    let (low, end) = (format::place_in(space, from), format::slot_prefix(space, from.slot + 1));
    let snapshot = store.snapshot();
    let (mut bytes, mut last) = (0, None);
    for entry in snapshot.range((Bound::Included(&low[..]), Bound::Excluded(&end[..]))) {
        let (stored_key, value) = entry?;
        let place = format::place_of(&stored_key);
        // Keys with the same half of a hash come together.
        if bytes >= BYTES_AT_ONCE && last != place {
            records.until = place.map(|place| place.hash);
            break;
        }
        last = place;
        let (key, stored) = load::read(&stored_key, &value, space, hasher)?;
        bytes += stored_key.len() + usize::try_from(super::fetch::weight(&value)).unwrap_or(usize::MAX / 2);
        let fetched = decode_within(&stored_key, &stored, &*snapshot, &mut |_| true).map_err(|_| Unreadable);
        records.records.push(cold::Stored { key, fetched });
    }
    Ok(records)
}

//! One key from the store: its record, read and decoded without the keyspace.

use keyspace::{Fetched, INLINE_MAX, Key, Mark, Record, Space, Value};
use object::Corrupt;
use object::saved::{self, Assembled, Assembler};
use store::{Snapshot, Store};

use super::format::{self, Stored};
use super::load::{Unloadable, nonsense};

/// True if there is room for a value that takes so many bytes of memory.
type HasRoom<'a> = dyn FnMut(u64) -> bool + 'a;

/// The store's present record of a key, also if it was not flushed.
///
/// While a checkpoint writes a large value, its leaves may be of different times. So nonsense in the store means damage
/// only for a key that memory does not have.
///
/// # Errors
///
/// The store cannot be read, or holds nonsense.
pub fn fetch(store: &dyn Store, space: Space, key: &Key<'_>) -> Result<Option<Fetched>, Unloadable> {
    fetch_within(store, space, key, &mut |_| true)
}

/// The same, if there is room for it: [`Unloadable::NoRoom`] if there is none.
pub(super) fn fetch_within(
    store: &dyn Store,
    space: Space,
    key: &Key<'_>,
    has_room: &mut HasRoom<'_>,
) -> Result<Option<Fetched>, Unloadable> {
    let mut stored_key = Vec::new();
    format::entry_key(space, key, &mut stored_key);
    let Some(value) = store.get(&stored_key)? else { return Ok(None) };
    let record = format::record_of(&value).map_err(|corrupt| nonsense(&stored_key, corrupt))?;
    if saved::object_of(record).is_some() {
        // Header and leaves of one moment.
        let snapshot = store.snapshot();
        let Some(value) = snapshot.get(&stored_key)? else { return Ok(None) };
        return of_key(key, &stored_key, &value, &*snapshot, has_room).map(Some);
    }
    of_key(key, &stored_key, &value, &NoLeaves, has_room).map(Some)
}

/// About how many bytes the value of a key takes in memory.
pub(super) fn weight(value: &[u8]) -> u64 {
    let record = format::record_of(value).unwrap_or_default();
    match saved::object_of(record).and_then(|_| saved::load(record).ok()) {
        Some(saved::Loaded::Large(assembler)) => assembler.bytes(),
        _ => value.len() as u64,
    }
}

/// As [`fetch`], as of a snapshot.
///
/// # Errors
///
/// Those of [`fetch`].
pub fn fetch_from(snapshot: &dyn Snapshot, space: Space, key: &Key<'_>) -> Result<Option<Fetched>, Unloadable> {
    let mut stored_key = Vec::new();
    format::entry_key(space, key, &mut stored_key);
    let Some(value) = snapshot.get(&stored_key)? else { return Ok(None) };
    of_key(key, &stored_key, &value, snapshot, &mut |_| true).map(Some)
}

/// The content of the store's value under a key.
pub(super) fn of_key(
    key: &Key<'_>,
    stored_key: &[u8],
    value: &[u8],
    leaves: &dyn Snapshot,
    has_room: &mut HasRoom<'_>,
) -> Result<Fetched, Unloadable> {
    let (bytes, stored) = format::read_entry(stored_key, value).map_err(|corrupt| nonsense(stored_key, corrupt))?;
    // The store's key does not hold a long key as a whole.
    if *bytes != *key.bytes {
        return Err(nonsense(stored_key, Corrupt("it lies where another key should")));
    }
    decode_within(stored_key, &stored, leaves, has_room)
}

/// Decodes the value under a key, if there is room for it. `leaves`: the leaves of a large value are read from here.
pub(super) fn decode_within(
    stored_key: &[u8],
    stored: &Stored<'_>,
    leaves: &dyn Snapshot,
    has_room: &mut HasRoom<'_>,
) -> Result<Fetched, Unloadable> {
    let wrong = |corrupt| nonsense(stored_key, corrupt);
    let (Stored::Entry(format::Head { version, .. }, _) | Stored::Gone(version)) = *stored;
    if !version.fits() {
        return Err(wrong(Corrupt("version of a key")));
    }
    let Stored::Entry(head, record) = stored else { return Ok(Fetched::Gone(version)) };
    let (value, object) = match saved::load(record).map_err(wrong)? {
        saved::Loaded::Large(assembler) => (assemble(assembler, stored_key, leaves, has_room)?, true),
        _ if !has_room(record.len() as u64) => return Err(Unloadable::NoRoom),
        small => (small_value(small).ok_or_else(|| wrong(Corrupt("length of a string")))?, false),
    };
    let mark = Mark::live(head.expiry.is_some(), head.field_expiry.is_some(), object);
    Ok(Fetched::There(Record { value, expiry: head.expiry, access: head.access, version, mark }))
}

/// For values without leaves.
struct NoLeaves;

impl Snapshot for NoLeaves {
    fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, store::Error> {
        Ok(None)
    }

    fn range(&self, _: store::Range<'_>) -> store::Entries<'_> {
        Box::new(std::iter::empty())
    }
}

/// The content of a record of one part.
fn small_value(loaded: saved::Loaded<'_>) -> Option<Value> {
    Some(match loaded {
        saved::Loaded::Int(n) => Value::Int(n),
        saved::Loaded::Short(bytes) if bytes.len() <= INLINE_MAX => Value::Short(bytes.into()),
        saved::Loaded::Raw(bytes) if bytes.len() <= INLINE_MAX => Value::Raw(bytes.into()),
        saved::Loaded::Short(_) | saved::Loaded::Raw(_) | saved::Loaded::Large(_) => return None,
        saved::Loaded::Blob(bytes) => Value::Blob(bytes.to_vec().into()),
        saved::Loaded::Collection(collection) => Value::Collection(collection.into()),
    })
}

/// Puts a large value together from its leaves. A long element makes a leaf longer than the header's estimate. Then
/// room is asked for as much again, so that it is asked for seldom.
fn assemble(
    mut assembler: Assembler,
    stored_key: &[u8],
    snapshot: &dyn Snapshot,
    has_room: &mut HasRoom<'_>,
) -> Result<Value, Unloadable> {
    let (mut room, mut read) = (assembler.bytes(), 0);
    if !has_room(room) {
        return Err(Unloadable::NoRoom);
    }
    for leaf in snapshot.prefix(&format::object_prefix(stored_key, assembler.object())) {
        let (key, bytes) = leaf?;
        // Its tag is no part of the value.
        read += bytes.len().saturating_sub(1) as u64;
        if read > room {
            room = 2 * read;
            if !has_room(room) {
                return Err(Unloadable::NoRoom);
            }
        }
        let added = format::label_of(&key).and_then(|label| assembler.add(label, &bytes));
        added.map_err(|corrupt| nonsense(&key, corrupt))?;
    }
    let value = assembler.finish().map_err(|corrupt| nonsense(stored_key, corrupt))?;
    Ok(match value {
        Assembled::String(text) => Value::Blob(text.into()),
        Assembled::Collection(collection) => Value::Collection(collection.into()),
    })
}

//! The effects of hashes.

use clocks::UnixMs;
use keyspace::{Db, Key};
use object::hash::{EXPIRY_MAX, Expiry};
use object::{Corrupt, Hash, Limits};

use crate::effects::{Reader, Writer, op};

/// Payload: name and value (bytes each) of fields, to the end. They do not expire afterwards.
pub(super) const SET: u8 = op::HASHES;
/// As SET, but the fields keep their expiry.
pub(super) const SET_KEEPING: u8 = op::HASHES + 1;
/// Payload: expiry (varint, unix milliseconds), then as SET. The fields expire then.
pub(super) const SET_EXPIRING: u8 = op::HASHES + 2;
/// Payload: names (bytes each), to the end. Some fields are left.
pub(super) const REMOVE: u8 = op::HASHES + 3;
/// Payload: expiry (varint, unix milliseconds, 0 for none), names (bytes each) to the end.
pub(super) const EXPIRE: u8 = op::HASHES + 4;

/// Writes a list of names, or of names and values.
pub(super) fn write_all<'a>(w: &mut Writer<'_>, strings: impl IntoIterator<Item = &'a [u8]>) {
    strings.into_iter().for_each(|string| w.bytes(string));
}

/// Applies an effect of this family.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    const NO_HASH: Corrupt = Corrupt("effect on a hash that is not there");
    let before = db.peek(key).and_then(|entry| entry.collection::<Hash>().ok()).and_then(Hash::next_expiry);
    let after = match number {
        SET | SET_KEEPING | SET_EXPIRING => {
            let expiry = match number {
                SET => Expiry::Clear,
                SET_KEEPING => Expiry::Keep,
                _ => Expiry::At(read_expiry(r)?.ok_or(Corrupt("expiry of a field"))?),
            };
            let mut fields = Vec::new();
            while !r.is_empty() {
                fields.push((r.bytes()?, r.bytes()?));
            }
            if fields.iter().any(|(name, value)| name.len() + value.len() > Hash::FIELD_BYTES_MAX) {
                return Err(Corrupt("field too long"));
            }
            let mut hash = db.get_or_create::<Hash>(key).map_err(|_| NO_HASH)?;
            hash.expect(fields.len(), limits);
            fields.iter().for_each(|(name, value)| _ = hash.set(name, value, expiry, limits));
            hash.next_expiry()
        }
        REMOVE => {
            let mut hash = db.get_mut::<Hash>(key).map_err(|_| NO_HASH)?.ok_or(NO_HASH)?;
            while !r.is_empty() {
                hash.remove(r.bytes()?);
            }
            hash.next_expiry()
        }
        EXPIRE => {
            let expiry = read_expiry(r)?;
            let mut hash = db.get_mut::<Hash>(key).map_err(|_| NO_HASH)?.ok_or(NO_HASH)?;
            while !r.is_empty() {
                hash.set_expiry(r.bytes()?, expiry);
            }
            hash.next_expiry()
        }
        _ => return Err(Corrupt("unknown hash effect")),
    };
    if before != after {
        db.set_field_expiry(key, after);
    }
    Ok(())
}

fn read_expiry(r: &mut Reader<'_>) -> Result<Option<UnixMs>, Corrupt> {
    match UnixMs::from_wire(r.varint()?) {
        at if at.is_none_or(|at| at <= EXPIRY_MAX) => Ok(at),
        _ => Err(Corrupt("expiry of a field")),
    }
}

//! A field, and its record in the large form.
//!
//! ```text
//! length of the name, doubled, plus 1 if the field expires (base 128)
//! time of expiry in unix milliseconds (6), if the field expires
//! name, value
//! ```

use clocks::UnixMs;

use crate::block::Elem;
use crate::hashed::{Record, varint};

/// Latest expiry of a field: the bound that Redis sets.
pub const EXPIRY_MAX: UnixMs = UnixMs((1 << 46) - 1);

/// True if a field can have this time of expiry.
#[inline]
pub(crate) fn is_expiry(at: UnixMs) -> bool {
    (UnixMs(1)..=EXPIRY_MAX).contains(&at)
}

const EXPIRY_BYTES: usize = 6;

/// Most bytes of a record before its name.
pub(super) const HEAD_BYTES_MAX: usize = 16;

/// A field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name: Redis's "field" proper.
    pub name: Elem<'a>,
    /// Its value.
    pub value: Elem<'a>,
    /// The time after which it does not exist.
    pub expiry: Option<UnixMs>,
}

impl Field<'_> {
    /// True if the time has passed.
    #[inline]
    pub fn expired(&self, now: UnixMs) -> bool {
        self.expiry.is_some_and(|at| at < now)
    }
}

/// The time of expiry that an element of a compact hash holds; 0 stands for none.
#[inline]
pub(super) fn expiry_of(elem: Elem<'_>) -> Option<UnixMs> {
    match elem {
        Elem::Int(at) if at > 0 => Some(UnixMs(at as u64)),
        _ => None,
    }
}

/// How the records of fields are read.
pub(crate) struct Stored;

impl Record for Stored {
    const EXPIRES: bool = true;

    #[inline]
    fn key(record: &[u8]) -> &[u8] {
        split(record).map_or(&[], |(_, name, _)| name)
    }

    #[inline]
    fn expiry(record: &[u8]) -> UnixMs {
        split(record).and_then(|(expiry, ..)| expiry).unwrap_or(UnixMs::NEVER)
    }

    fn is_record(record: &[u8]) -> bool {
        split(record).is_some_and(|(expiry, ..)| expiry.is_none_or(is_expiry))
    }
}

/// Expiry, name and value; None if the bytes are not a record.
#[inline]
pub(super) fn split(record: &[u8]) -> Option<(Option<UnixMs>, &[u8], &[u8])> {
    let (head, n) = varint::read(record)?;
    let mut rest = &record[n..];
    let mut expiry = None;
    if head & 1 == 1 {
        let (low, after) = rest.split_first_chunk::<EXPIRY_BYTES>()?;
        let [a, b, c, d, e, f] = *low;
        expiry = Some(UnixMs(u64::from_le_bytes([a, b, c, d, e, f, 0, 0])));
        rest = after;
    }
    let (name, value) = rest.split_at_checked(usize::try_from(head >> 1).ok()?)?;
    Some((expiry, name, value))
}

/// The field of a record, which is one.
#[inline]
pub(super) fn read(record: &[u8]) -> Field<'_> {
    let (expiry, name, value) = split(record).unwrap_or_default();
    Field { name: Elem::Bytes(name), value: Elem::Bytes(value), expiry }
}

/// The bytes before the name in a record.
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Head {
    /// That of a field whose name has `name_len` bytes.
    pub fn new(name_len: usize, expiry: Option<UnixMs>) -> Self {
        if name_len < 64 && expiry.is_none() {
            // All at once: a byte written alone and read as part of sixteen would have to reach the cache first.
            return Head { bytes: u128::to_le_bytes((name_len as u128) << 1), len: 1 };
        }
        let (digits, n) = varint::digits((name_len as u64) << 1 | u64::from(expiry.is_some()));
        let mut bytes = [0; HEAD_BYTES_MAX];
        bytes[..n].copy_from_slice(&digits[..n]);
        let mut len = n;
        if let Some(at) = expiry {
            bytes[n..n + EXPIRY_BYTES].copy_from_slice(&at.0.to_le_bytes()[..EXPIRY_BYTES]);
            len += EXPIRY_BYTES;
        }
        Head { bytes, len: len as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

//! Effects: deterministic changes of one entry, written by handlers in binary as they happen.
//!
//! An effect reads only its entry and the record's time (rule L3). Handlers call [`Effects::push`] once per changed
//! entry and step. That also counts the change (`rdb_changes_since_last_save`), and tells the engine which keys changed
//! when a client watches, waits or tracks. Nothing is encoded unless effects are recorded.
//!
//! ```text
//! effect := op u8, database varint, key bytes, payload length varint, payload
//! bytes  := length varint, bytes          varint := LEB128, u64
//! ```
//! A length may have bytes to spare (0x80 ... 0x00 is 0): that of an image which was written late.

use clocks::UnixMs;
use keyspace::{Db, EntryRef, Key, SharedImage};
use object::{Corrupt, Limits};

use crate::barrier::Barrier;
use crate::{families, string};

/// Numbers of effects, by family. They are part of the log's format: never reuse one.
#[expect(missing_docs, reason = "each is documented at its family's `replay`")]
pub mod op {
    // Any type: keys.
    pub const DELETE: u8 = 1;
    pub const EXPIRE: u8 = 2;
    /// Payload: expiry (varint, 0 none), image of the value (see `keyspace`'s image).
    pub const IMAGE: u8 = 3;
    /// A whole database, or all (payload: 1), was emptied; the key is empty. See [`crate::Barrier`].
    pub const FLUSH: u8 = 4;
    /// The database was exchanged with another (payload: varint); the key is empty.
    pub const SWAP: u8 = 5;
    /// All libraries of functions, as they are now (payload: what FUNCTION DUMP gives); database and key are empty.
    pub const LIBRARIES: u8 = 6;
    /// A generation of the log begins (payload: 1) or ends (0), and the time (varint, unix milliseconds); database and
    /// key are empty. See [`crate::Generation`].
    pub const GENERATION: u8 = 7;
    /// The state of an attempt of a transaction over nodes here (payload: a record of `txn`); database and key are
    /// empty.
    pub const TRANSACTION: u8 = 8;
    // 16..32 strings, 32..48 lists, 48..64 sets, 64..80 hashes, 80..96 sorted sets, 96..112 streams: declared in the
    // family.
    pub const STRINGS: u8 = 16;
    pub const LISTS: u8 = 32;
    pub const SETS: u8 = 48;
    pub const HASHES: u8 = 64;
    pub const ZSETS: u8 = 80;
    pub const STREAMS: u8 = 96;
}

/// A key that changed, for watchers, waiters and invalidations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Logical database.
    pub db: u16,
    /// Slot of the key.
    pub slot: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// True if a command that waits for the key may find something now. Watchers hear of every change.
    pub serves: bool,
    /// The client that has changed it; 0: none, it had expired.
    pub by: u64,
}

/// Collects the effects of a command.
#[derive(Default)]
pub struct Effects {
    /// Encode effects: they are logged or replayed.
    pub recording: bool,
    /// A client watches, waits or tracks in the held slots: remember the keys.
    pub interest: bool,
    /// The client whose command makes the changes; 0: no client's.
    pub by: u64,
    /// Number of changes so far (Redis `server.dirty`).
    pub dirty: u64,
    /// Encoded effects.
    pub encoded: Vec<u8>,
    /// Number of effects encoded so far that do not name what they found ([`Before::Unknown`]): a replay has to know
    /// that.
    pub unknown: u64,
    /// Images of values of at least so many bytes are written later, by the log. `None`: none is.
    pub late_from: Option<usize>,
    /// Those whose effects are in `encoded` without a payload, in their order.
    pub late: Vec<LateImage>,
    /// Changed keys, in order, possibly repeated.
    pub touched: Vec<Touched>,
    /// Changes of whole databases for when the handler has returned: see [`crate::Barrier`].
    pub barrier: Option<Barrier>,
}

/// The payload of an effect that is not written yet, because it has a large value in it.
pub struct LateImage {
    /// Where in the encoded effects the length of the payload stands: a byte that is 0.
    at: usize,
    /// Of [`op::IMAGE`]: when the key expires, if it does. Other payloads are the contents of the value, and nothing else.
    expiry: Option<Option<UnixMs>>,
    image: SharedImage,
}

/// Bytes of the length of a payload that was not known before it was written: enough for 4 TB.
const LONG_LENGTH: usize = 6;

/// About how many bytes encoded effects will have when their images are written.
pub fn length_with_images(encoded: &[u8], late: &[LateImage]) -> usize {
    encoded.len() + late.iter().map(|late| late.image.about() + 2 * LONG_LENGTH).sum::<usize>()
}

/// Appends encoded effects to `out`, with their images.
pub fn write_with_images(encoded: &[u8], late: &[LateImage], out: &mut Vec<u8>) {
    out.reserve_exact(length_with_images(encoded, late));
    let mut from = 0;
    for LateImage { at, expiry, image } in late {
        out.extend_from_slice(&encoded[from..*at]);
        from = at + 1;
        let before = out.len();
        out.extend_from_slice(&[0; LONG_LENGTH]);
        match expiry {
            Some(expiry) => {
                Writer(out).varint(UnixMs::to_wire(*expiry));
                image.write(out);
            }
            None => image.write_contents(out),
        }
        let mut length = out.len() - before - LONG_LENGTH;
        for (place, byte) in out[before..before + LONG_LENGTH].iter_mut().enumerate() {
            *byte = length as u8 & 0x7f | if place < LONG_LENGTH - 1 { 0x80 } else { 0 };
            length >>= 7;
        }
    }
    out.extend_from_slice(&encoded[from..]);
}

/// The former state of the key that an effect names, if it replaces whatever was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// None is named.
    Unknown,
    /// There was no such key.
    Nothing,
    /// A string without an expiry, so short that a store has it as one record.
    Plain,
}

impl Effects {
    /// Notes that the entry of `key` in logical database `db` has changed by effect `op`, whose payload `write`
    /// appends.
    #[inline]
    pub fn push(&mut self, op: u8, db: u16, key: &Key<'_>, write: impl FnOnce(&mut Writer<'_>)) {
        self.note(op, db, key, true, write);
    }

    /// As [`Self::push`], for a change that brings nothing to commands that wait for the key (acknowledging an entry of
    /// a stream). They would all be run again in vain.
    #[inline]
    pub fn push_quietly(&mut self, op: u8, db: u16, key: &Key<'_>, write: impl FnOnce(&mut Writer<'_>)) {
        self.note(op, db, key, false, write);
    }

    #[inline]
    fn note(&mut self, op: u8, db: u16, key: &Key<'_>, serves: bool, write: impl FnOnce(&mut Writer<'_>)) {
        self.dirty += 1;
        if self.recording {
            self.encode(op, db, key.bytes, write);
        }
        if self.interest {
            self.touched.push(Touched { db, slot: key.slot, key: key.bytes.into(), serves, by: self.by });
        }
    }

    /// Notes the present state of a key in logical database `db`, as a whole.
    pub(crate) fn push_image(&mut self, db: u16, key: &Key<'_>, entry: EntryRef<'_>) {
        let expiry = entry.expiry();
        if !self.push_late((op::IMAGE, Some(expiry)), db, key, entry) {
            self.push(op::IMAGE, db, key, |w| {
                w.varint(UnixMs::to_wire(expiry));
                entry.write_image(w.0);
            });
        }
    }

    /// Notes an effect whose payload is the present contents of the entry's collection.
    pub(crate) fn push_contents(&mut self, op: u8, db: u16, key: &Key<'_>, entry: EntryRef<'_>) {
        if !self.push_late((op, None), db, key, entry) {
            self.push(op, db, key, |w| entry.write_contents(w.0));
        }
    }

    /// Notes an effect with a large value, which is written later. False: nothing was noted, because it is not large,
    /// or the log does not write it.
    fn push_late(
        &mut self,
        (op, expiry): (u8, Option<Option<UnixMs>>),
        db: u16,
        key: &Key<'_>,
        entry: EntryRef<'_>,
    ) -> bool {
        let shared = self.late_from.filter(|_| self.recording).and_then(|from| entry.share_image(from));
        let Some(image) = shared else { return false };
        self.push(op, db, key, |_| {});
        self.late.push(LateImage { at: self.encoded.len() - 1, expiry, image });
        true
    }

    /// Appends what other effects have said, which is theirs no more.
    pub fn append(&mut self, encoded: &mut Vec<u8>, late: &mut Vec<LateImage>) {
        let before = self.encoded.len();
        self.late.extend(late.drain(..).map(|late| LateImage { at: before + late.at, ..late }));
        self.encoded.append(encoded);
    }

    pub(crate) fn encode(&mut self, op: u8, db: u16, key: &[u8], write: impl FnOnce(&mut Writer<'_>)) {
        self.encoded.push(op);
        let mut w = Writer(&mut self.encoded);
        w.varint(u64::from(db));
        w.bytes(key);
        // Most payloads are short: they are written to their place behind a length of one byte.
        let at = self.encoded.len();
        self.encoded.push(0);
        write(&mut Writer(&mut self.encoded));
        self.unknown += u64::from(string::before(op, &self.encoded[at + 1..]) == Before::Unknown);
        let length = self.encoded.len() - at - 1;
        if length < 0x80 {
            self.encoded[at] = length as u8;
        } else {
            let mut prefix = Vec::with_capacity(10);
            Writer(&mut prefix).varint(length as u64);
            self.encoded.splice(at..=at, prefix);
        }
    }
}

/// Appends the parts of a payload.
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    /// An unsigned number, short if small.
    pub fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    /// A signed number, short if near zero (zigzag).
    pub fn int(&mut self, v: i64) {
        self.varint(((v << 1) ^ (v >> 63)) as u64);
    }

    /// A double, bit for bit.
    pub fn f64(&mut self, v: f64) {
        self.0.extend_from_slice(&v.to_bits().to_le_bytes());
    }

    /// Bytes with their length.
    pub fn bytes(&mut self, v: &[u8]) {
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
    }
}

/// Reads the parts of a payload; every method fails on bytes that are cut short.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// True if everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that has not been read.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// The bytes end before it does.
    pub fn u8(&mut self) -> Result<u8, Corrupt> {
        let (&v, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(v)
    }

    /// An unsigned number.
    ///
    /// # Errors
    ///
    /// The bytes end before it does.
    pub fn varint(&mut self) -> Result<u64, Corrupt> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            v |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(CUT)
    }

    /// A signed number.
    ///
    /// # Errors
    ///
    /// The bytes end before it does.
    pub fn int(&mut self) -> Result<i64, Corrupt> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A double.
    ///
    /// # Errors
    ///
    /// The bytes end before it does.
    pub fn f64(&mut self) -> Result<f64, Corrupt> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(CUT)?;
        self.0 = rest;
        Ok(f64::from_bits(u64::from_le_bytes(*head)))
    }

    /// Bytes with their length.
    ///
    /// # Errors
    ///
    /// The bytes end before it does.
    pub fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = usize::try_from(self.varint()?).map_err(|_| CUT)?;
        let (head, rest) = self.0.split_at_checked(len).ok_or(CUT)?;
        self.0 = rest;
        Ok(head)
    }
}

const CUT: Corrupt = Corrupt("effect is cut short");

/// One decoded effect, its payload still encoded.
pub struct Effect<'a> {
    /// Its kind, see [`op`].
    pub op: u8,
    /// Logical database.
    pub db: u16,
    /// The key.
    pub key: &'a [u8],
    /// The rest, which the family reads.
    pub payload: Reader<'a>,
}

impl Effect<'_> {
    /// The former state of its key that it names.
    #[inline]
    pub fn before(&self) -> Before {
        string::before(self.op, self.payload.0)
    }

    /// True if [`replay`] applies it, or fails without a change. For others it is unknown.
    pub fn is_atomic(&self) -> bool {
        string::is_atomic(self.op)
    }
}

/// Splits encoded effects. Ends after the first error.
pub fn decode(encoded: &[u8]) -> impl Iterator<Item = Result<Effect<'_>, Corrupt>> {
    let mut rest = Reader(encoded);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let effect = decode_one(&mut rest);
        if effect.is_err() {
            rest = Reader(&[]);
        }
        Some(effect)
    })
}

/// As [`decode`], each with its bytes.
pub fn split(encoded: &[u8]) -> impl Iterator<Item = Result<(Effect<'_>, &[u8]), Corrupt>> {
    let mut rest = Reader(encoded);
    std::iter::from_fn(move || {
        let before = rest.0;
        if rest.is_empty() {
            return None;
        }
        let effect = decode_one(&mut rest);
        let bytes = &before[..before.len() - rest.0.len()];
        if effect.is_err() {
            rest = Reader(&[]);
        }
        Some(effect.map(|effect| (effect, bytes)))
    })
}

/// Appends the effect that makes a key of logical database `db` as it is now.
pub fn put_image(db: u16, entry: EntryRef<'_>, out: &mut Vec<u8>) {
    let mut fx = Effects { encoded: std::mem::take(out), ..Effects::default() };
    fx.encode(op::IMAGE, db, entry.key(), |w| {
        w.varint(UnixMs::to_wire(entry.expiry()));
        entry.write_image(w.0);
    });
    *out = fx.encoded;
}

fn decode_one<'a>(r: &mut Reader<'a>) -> Result<Effect<'a>, Corrupt> {
    let op = r.u8()?;
    let db = u16::try_from(r.varint()?).map_err(|_| Corrupt("database number"))?;
    let key = r.bytes()?;
    Ok(Effect { op, db, key, payload: Reader(r.bytes()?) })
}

/// Applies one effect of an entry to the database it names, which `db` has been switched to and whose slot is held.
/// [`Effect::barrier`] tells those of whole databases apart.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(effect: &mut Effect<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    let key = db.key(effect.key);
    replay_at(&key, effect, db, limits)
}

/// As [`replay`], for a caller that has the effect's key.
///
/// # Errors
///
/// As for [`replay`].
#[inline]
pub fn replay_at(key: &Key<'_>, effect: &mut Effect<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    families::replay(effect.op, key, &mut effect.payload, db, limits)?;
    db.note_change(key);
    Ok(())
}

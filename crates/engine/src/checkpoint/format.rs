//! Keys and values of the store, byte by byte: see `docs/formats.md`. Keys are big-endian, so that they lie in a useful
//! order: one slot of one space after the other, and its keys in the order of their hashes.

use std::hash::{BuildHasher, Hasher};

use clocks::UnixMs;
use command::Position;
use keyspace::{Databases, EntryRef, Key, KeyHasher, SLOTS, Space, Version};
use object::Corrupt;
use redolog::Lsn;
use store::Error;

use super::counts::{Count, OfSlot};
use crate::transactions::Outcomes;

/// Of this format.
const VERSION: u8 = 5;
/// The one before: long strings have no leaves.
const WITHOUT_LONG_STRINGS: u8 = 4;
/// The one before that: without transactions, too.
const WITHOUT_TRANSACTIONS: u8 = 3;

/// First bytes of keys.
pub(super) const META: u8 = 0;
const ENTRY: u8 = 1;
const LEAF: u8 = 2;

/// The byte after [`META`].
const HEADER: u8 = 0;
const COVERED: u8 = 1;
const STREAMS: u8 = 2;
pub(super) const DIRECTORIES: u8 = 3;

/// Bits of a value's first byte.
const HAS_EXPIRY: u8 = 0x10;
const LONG_KEY: u8 = 0x20;
const FIELDS_EXPIRE: u8 = 0x40;
const GONE: u8 = 0x80;

/// Bytes of a key that stand in the store's key. For longer keys two hashes follow, and the rest is in the value.
const KEY_IN_KEY: usize = 32_768;
/// First byte, space, slot, hash.
const ENTRY_PREFIX: usize = 1 + 4 + 2 + 4;

/// Slots whose checkpoints are written together.
pub(super) const SLOTS_PER_CHUNK: usize = 64;
/// Such groups.
pub(super) const CHUNKS: usize = SLOTS.div_ceil(SLOTS_PER_CHUNK);

/// The store's header: the state of everything except keys at the last checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Seed of the keyspace's hashes: keys lie in the store in their order.
    pub seed: u64,
    /// When the checkpoint was made.
    pub saved_at: UnixMs,
    /// The databases. Their map is as of the beginning of the checkpoint, everything else as of its end.
    pub databases: Databases,
    /// The number of the next freeze of a value (`object::saved`).
    pub epoch: u64,
    /// No version here is above this one.
    pub highest: Lsn,
    /// For each stream of the log, the LSN up to which no record is needed.
    pub covered: Vec<Lsn>,
    /// The libraries of functions, as FUNCTION DUMP gives them.
    pub libraries: Vec<u8>,
    /// The state of transactions over nodes (rule C6).
    pub outcomes: Outcomes,
}

/// The key of the header.
pub(super) const HEADER_KEY: [u8; 2] = [META, HEADER];

/// The key of the number of streams that the log has.
pub(super) const STREAMS_KEY: [u8; 2] = [META, STREAMS];
/// The version of the bytes under it.
const STREAMS_VERSION: u8 = 1;

/// The content under [`STREAMS_KEY`].
pub(super) fn encode_streams(streams: u16) -> [u8; 3] {
    let [low, high] = streams.to_le_bytes();
    [STREAMS_VERSION, low, high]
}

pub(super) fn decode_streams(bytes: &[u8]) -> Result<u16, Corrupt> {
    match *bytes {
        [STREAMS_VERSION, low, high] => Ok(u16::from_le_bytes([low, high])),
        _ => Err(Corrupt("number of streams")),
    }
}

/// The key of a group of slots' checkpoints.
pub(super) fn chunk_key(chunk: usize) -> [u8; 3] {
    [META, COVERED, chunk as u8]
}

/// The beginning of every entry of a space.
pub(super) fn space_prefix(space: Space) -> [u8; 5] {
    let mut prefix = [ENTRY; 5];
    prefix[1..].copy_from_slice(&space.to_be_bytes());
    prefix
}

/// Before every entry of a space from a place on, and behind every other; only the upper half of the hash counts.
pub(super) fn place_in(space: Space, at: Position) -> [u8; ENTRY_PREFIX] {
    let mut place = [0; ENTRY_PREFIX];
    place[..5].copy_from_slice(&space_prefix(space));
    place[5..7].copy_from_slice(&at.slot.to_be_bytes());
    place[7..].copy_from_slice(&((at.hash >> 32) as u32).to_be_bytes());
    place
}

/// The place of an entry's key; the lower half of its hash is not in it.
pub(super) fn place_of(stored_key: &[u8]) -> Option<Position> {
    let (_, rest) = stored_key.split_at_checked(5)?;
    let (slot, rest) = rest.split_first_chunk()?;
    let (hash, _) = rest.split_first_chunk()?;
    Some(Position { slot: u16::from_be_bytes(*slot), hash: u64::from(u32::from_be_bytes(*hash)) << 32 })
}

/// The beginning of every entry of a slot of a space; for the slot after the last one, a key behind them.
pub(super) fn slot_prefix(space: Space, slot: u16) -> [u8; 7] {
    let mut prefix = [ENTRY; 7];
    prefix[1..5].copy_from_slice(&space.to_be_bytes());
    prefix[5..].copy_from_slice(&slot.to_be_bytes());
    prefix
}

/// The beginning of every leaf's key of a space.
pub(super) fn leaves_prefix(space: Space) -> [u8; 5] {
    let mut prefix = [LEAF; 5];
    prefix[1..].copy_from_slice(&space.to_be_bytes());
    prefix
}

/// True if this is the key of an entry.
#[cfg(test)]
pub(super) fn is_entry(key: &[u8]) -> bool {
    key.first() == Some(&ENTRY)
}

/// The beginning of every leaf's key of an object; its value is under the key `entry`.
pub(super) fn object_prefix(entry: &[u8], object: u64) -> [u8; 15] {
    let mut prefix = [LEAF; 15];
    prefix[1..7].copy_from_slice(&entry[1..7]);
    prefix[7..].copy_from_slice(&object.to_be_bytes());
    prefix
}

/// The key of a leaf.
pub(super) fn leaf_key(object: &[u8; 15], label: u64) -> [u8; 23] {
    let mut key = [0; 23];
    key[..15].copy_from_slice(object);
    key[15..].copy_from_slice(&label.to_be_bytes());
    key
}

/// The label in the key of a leaf.
pub(super) fn label_of(key: &[u8]) -> Result<u64, Corrupt> {
    let label = key.get(15..).and_then(|label| label.try_into().ok()).ok_or(Corrupt("key of a leaf"))?;
    Ok(u64::from_be_bytes(label))
}

/// Appends the key of an entry.
pub(super) fn entry_key(space: Space, key: &Key<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&space_prefix(space));
    out.extend_from_slice(&key.slot.to_be_bytes());
    out.extend_from_slice(&((key.hash >> 32) as u32).to_be_bytes());
    match key.bytes.split_at_checked(KEY_IN_KEY) {
        Some((head, rest)) if !rest.is_empty() => {
            out.extend_from_slice(head);
            out.extend_from_slice(&key.hash.to_be_bytes());
            out.extend_from_slice(&second_hash(rest).to_be_bytes());
        }
        _ => out.extend_from_slice(key.bytes),
    }
}

/// Tells long keys apart that have the same beginning and the same hash.
fn second_hash(bytes: &[u8]) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// The part of a value before the key's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// The value has all changes of the key up to this version (rule C1).
    pub version: Version,
    /// When the key expires.
    pub expiry: Option<UnixMs>,
    /// When the first field of a hash expires.
    pub field_expiry: Option<UnixMs>,
    /// The access bits: see [`keyspace::access`].
    pub access: u32,
}

impl Head {
    pub(super) fn of(entry: EntryRef<'_>, version: Version) -> Head {
        Head { version, expiry: entry.expiry(), field_expiry: entry.field_expiry(), access: entry.access() }
    }

    /// The time before which nothing of the value expires; [`UnixMs::NEVER`] if nothing does.
    pub(super) fn earliest(&self) -> UnixMs {
        self.expiry.unwrap_or(UnixMs::NEVER).min(self.field_expiry.unwrap_or(UnixMs::NEVER))
    }

    /// Appends everything before the image of the value.
    pub(super) fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        let long = key.len() > KEY_IN_KEY;
        let expiry = if self.expiry.is_some() { HAS_EXPIRY } else { 0 };
        let fields = if self.field_expiry.is_some() { FIELDS_EXPIRE } else { 0 };
        out.push(expiry | fields | if long { LONG_KEY } else { 0 });
        out.extend_from_slice(&self.version.0.to_le_bytes()[..7]);
        out.extend_from_slice(&self.access.to_le_bytes()[..3]);
        for ms in [self.expiry, self.field_expiry].into_iter().flatten() {
            out.extend_from_slice(&ms.0.to_le_bytes());
        }
        write_rest(key, out);
    }
}

/// Appends the part of a long key that the store's key lacks.
fn write_rest(key: &[u8], out: &mut Vec<u8>) {
    if key.len() > KEY_IN_KEY {
        let rest = &key[KEY_IN_KEY..];
        // If a key is too long for this, no value of the store has room for it.
        out.extend_from_slice(&length(rest.len()));
        out.extend_from_slice(rest);
    }
}

/// Appends the value that says that a key was gone at `version`.
pub(super) fn write_gone(key: &[u8], version: Version, out: &mut Vec<u8>) {
    out.push(GONE | if key.len() > KEY_IN_KEY { LONG_KEY } else { 0 });
    out.extend_from_slice(&version.0.to_le_bytes()[..7]);
    write_rest(key, out);
}

/// The store's record of a key.
pub(super) enum Stored<'a> {
    /// This record (`object::saved`).
    Entry(Head, &'a [u8]),
    /// It was gone at this version.
    Gone(Version),
}

/// A key and the store's record of it.
pub(super) fn read_entry<'a>(stored_key: &[u8], value: &'a [u8]) -> Result<(Box<[u8]>, Stored<'a>), Corrupt> {
    let key = stored_key.get(ENTRY_PREFIX..).ok_or(Corrupt("key of an entry"))?;
    let mut input = Input(value);
    let flags = input.take(1)?[0];
    let version = Version(input.number(7)?);
    let access = if flags & GONE == 0 { input.number(3)? as u32 } else { 0 };
    let expiry = if flags & HAS_EXPIRY != 0 { Some(UnixMs(input.number(8)?)) } else { None };
    let field_expiry = if flags & FIELDS_EXPIRE != 0 { Some(UnixMs(input.number(8)?)) } else { None };
    let key: Box<[u8]> = if flags & LONG_KEY != 0 {
        let length = input.number(4)? as usize;
        [key.get(..KEY_IN_KEY).ok_or(Corrupt("beginning of a long key"))?, input.take(length)?].concat().into()
    } else {
        key.into()
    };
    let stored = match flags & !(HAS_EXPIRY | FIELDS_EXPIRE | LONG_KEY) {
        0 => Stored::Entry(Head { version, expiry, field_expiry, access }, input.0),
        GONE if input.0.is_empty() && flags & (HAS_EXPIRY | FIELDS_EXPIRE) == 0 => Stored::Gone(version),
        _ => return Err(Corrupt("first byte of an entry")),
    };
    Ok((key, stored))
}

/// The record in the value of an entry; empty for one that is gone.
pub(super) fn record_of(value: &[u8]) -> Result<&[u8], Corrupt> {
    // It does not matter which key it is.
    match read_entry(&[0; ENTRY_PREFIX + KEY_IN_KEY], value)? {
        (_, Stored::Entry(_, record)) => Ok(record),
        (_, Stored::Gone(_)) => Ok(&[]),
    }
}

/// Most bytes of the header: it is one value of the store. So no length in it needs more than 32 bits.
const HEADER_MAX: usize = if cfg!(test) { 1 << 20 } else { store::VALUE_MAX };

/// A length or count in the header, up to 32 bits: if it needs more, the header as a whole is too long, and is not
/// written.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

impl Header {
    /// Its bytes.
    ///
    /// # Errors
    ///
    /// If it is longer than a value of the store can be.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        let out = self.encode_any();
        if out.len() > HEADER_MAX {
            return Err(Error::Invalid(format!(
                "what a checkpoint says beside keys has {} bytes, more than a value of the store can have: {} of them are libraries of functions, \
                 the others mostly what {} transactions over nodes that are not settled have prepared",
                out.len(),
                self.libraries.len(),
                self.outcomes.prepared().count()
            )));
        }
        Ok(out)
    }

    fn encode_any(&self) -> Vec<u8> {
        let databases = &self.databases;
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&probe(self.seed).to_le_bytes());
        out.extend_from_slice(&self.saved_at.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&databases.map_version.0.to_le_bytes());
        out.extend_from_slice(&databases.next_space.to_le_bytes());
        out.extend_from_slice(&length(databases.map.len()));
        for ((physical, space), floor) in databases.map.iter().zip(&databases.spaces).zip(&databases.floors) {
            out.extend_from_slice(&physical.to_le_bytes());
            out.extend_from_slice(&space.to_le_bytes());
            out.extend_from_slice(&floor.0.to_le_bytes());
        }
        out.extend_from_slice(&length(databases.abandoned.len()));
        databases.abandoned.iter().for_each(|space| out.extend_from_slice(&space.to_le_bytes()));
        out.extend_from_slice(&self.highest.0.to_le_bytes());
        out.extend_from_slice(&length(self.covered.len()));
        self.covered.iter().for_each(|lsn| out.extend_from_slice(&lsn.0.to_le_bytes()));
        out.extend_from_slice(&length(self.libraries.len()));
        out.extend_from_slice(&self.libraries);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        self.outcomes.encode(&mut out);
        let written = length(out.len() - at - 4);
        out[at..at + 4].copy_from_slice(&written);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header, Corrupt> {
        let mut input = Input(bytes);
        let version = input.take(1)?[0];
        if !matches!(version, VERSION | WITHOUT_LONG_STRINGS | WITHOUT_TRANSACTIONS) {
            return Err(Corrupt("it has a version of the format that this program does not know"));
        }
        let seed = input.number(8)?;
        if input.number(8)? != probe(seed) {
            return Err(Corrupt("its keys lie in the order of another hash function"));
        }
        let (saved_at, epoch) = (UnixMs(input.number(8)?), input.number(8)?);
        let (map_version, next_space) = (Version(input.number(8)?), input.number(4)? as Space);
        let mut databases = Databases { map_version, next_space, ..Databases::default() };
        for _ in 0..input.number(4)? {
            databases.map.push(input.number(2)? as u16);
            databases.spaces.push(input.number(4)? as Space);
            databases.floors.push(Version(input.number(8)?));
        }
        for _ in 0..input.number(4)? {
            databases.abandoned.push(input.number(4)? as Space);
        }
        let highest = Lsn(input.number(8)?);
        let mut covered = Vec::new();
        for _ in 0..input.number(4)? {
            covered.push(Lsn(input.number(8)?));
        }
        let length = input.number(4)? as usize;
        let libraries = input.take(length)?.to_vec();
        let mut outcomes = Outcomes::default();
        if version != WITHOUT_TRANSACTIONS {
            let length = input.number(4)? as usize;
            outcomes = Outcomes::decode(input.take(length)?)?;
        }
        if !input.0.is_empty() {
            return Err(Corrupt("length of the header"));
        }
        Ok(Header { seed, saved_at, databases, epoch, highest, covered, libraries, outcomes })
    }
}

/// A hash that another hash function would not give.
fn probe(seed: u64) -> u64 {
    KeyHasher::new(seed).hash(b"the order of the keys")
}

/// The bytes of a group of slots' checkpoints. For each slot there are C(s), the highest version of a key that was
/// written (0: there has never been one), and the store's figures.
pub(super) fn encode_chunk(covered: &[Lsn], reach: &[Lsn], counts: &[OfSlot]) -> Vec<u8> {
    let mut out = Vec::new();
    for ((lsn, reach), counts) in covered.iter().zip(reach).zip(counts) {
        out.extend_from_slice(&lsn.0.to_le_bytes());
        out.extend_from_slice(&reach.0.to_le_bytes());
        out.extend_from_slice(&(counts.len() as u32).to_le_bytes());
        for (space, count) in counts {
            for number in [*space, count.keys, count.expiring, count.fields] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&count.earliest.0.to_le_bytes());
        }
    }
    out
}

/// Fills a group of slots' checkpoints.
pub(super) fn decode_chunk(
    bytes: &[u8],
    covered: &mut [Lsn],
    reach: &mut [Lsn],
    counts: &mut [OfSlot],
) -> Result<(), Corrupt> {
    let mut input = Input(bytes);
    for ((lsn, reach), counts) in covered.iter_mut().zip(reach).zip(counts) {
        (*lsn, *reach) = (Lsn(input.number(8)?), Lsn(input.number(8)?));
        for _ in 0..input.number(4)? {
            let mut number = || Ok(input.number(4)? as u32);
            let space = number()?;
            let (keys, expiring, fields) = (number()?, number()?, number()?);
            counts.push((space, Count { keys, expiring, fields, earliest: UnixMs(input.number(8)?) }));
        }
    }
    if !input.0.is_empty() {
        return Err(Corrupt("length of the checkpoints of slots"));
    }
    Ok(())
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Corrupt> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Corrupt("it is cut short"))?;
        self.0 = rest;
        Ok(head)
    }

    /// A little-endian number of `n` bytes, at most 8.
    fn number(&mut self, n: usize) -> Result<u64, Corrupt> {
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(self.take(n)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn golden_bytes_of_an_entry() {
        let key = Key { bytes: b"key", hash: 0x0123_4567_89ab_cdef, slot: 0x3039 };
        let (mut stored, mut value) = (Vec::new(), Vec::new());
        entry_key(0x0a0b_0c0d, &key, &mut stored);
        assert_eq!(hex(&stored), "010a0b0c0d3039012345676b6579");
        let (expiry, field_expiry) = (Some(UnixMs(0x0102_0304)), None);
        let head = Head { version: Version(0x0011_2233_4455_6677), expiry, field_expiry, access: 0x00ab_cdef };
        head.write(key.bytes, &mut value);
        value.extend_from_slice(b"\x11text");
        assert_eq!(hex(&value), "1077665544332211efcdab04030201000000001174657874");
        assert_eq!(record_of(&value).unwrap(), b"\x11text");
        match read_entry(&stored, &value).unwrap() {
            (key, Stored::Entry(read, record)) => {
                assert_eq!((&*key, read, record), (&b"key"[..], head, &b"\x11text"[..]));
            }
            _ => panic!("another value"),
        }
        value.clear();
        let head = Head { field_expiry: Some(UnixMs(0x0a)), ..head };
        head.write(key.bytes, &mut value);
        assert_eq!(hex(&value), "5077665544332211efcdab04030201000000000a00000000000000");
        assert!(matches!(read_entry(&stored, &value), Ok((_, Stored::Entry(read, _))) if read == head));
        value.clear();
        write_gone(key.bytes, Version(0x0011_2233_4455_6677), &mut value);
        assert_eq!(hex(&value), "8077665544332211");
        assert!(matches!(read_entry(&stored, &value), Ok((_, Stored::Gone(Version(0x0011_2233_4455_6677))))));
        let place = Position { slot: 0x3039, hash: 0x0123_4567_0000_0000 };
        assert_eq!(place_of(&stored), Some(place));
        assert_eq!(hex(&place_in(0x0a0b_0c0d, place)), "010a0b0c0d303901234567");
        let object = object_prefix(&stored, 0x0102_0304_0506_0708);
        assert_eq!(hex(&leaf_key(&object, 9)), "020a0b0c0d303901020304050607080000000000000009");
        assert_eq!(label_of(&leaf_key(&object, 9)).unwrap(), 9);
        assert_eq!(hex(&leaves_prefix(0x0a0b_0c0d)), "020a0b0c0d");
        assert_eq!(hex(&chunk_key(255)), "0001ff");
        assert_eq!((hex(&STREAMS_KEY), hex(&encode_streams(258))), ("0002".into(), "010201".into()));
        assert_eq!(decode_streams(&encode_streams(258)).ok(), Some(258));
        assert!(decode_streams(&[2, 1, 0]).is_err() && decode_streams(&[1, 1]).is_err());
    }

    #[test]
    fn golden_bytes_of_slots() {
        let count = Count { keys: 0x0102, expiring: 3, fields: 4, earliest: UnixMs(0x0506) };
        let counts: [OfSlot; 2] = [OfSlot::new(), [(7, count)].into_iter().collect()];
        let bytes = encode_chunk(&[Lsn(1), Lsn(0x0203)], &[Lsn(0), Lsn(0x0809)], &counts);
        assert_eq!(
            hex(&bytes),
            "01000000000000000000000000000000000000000302000000000000090800000000000001000000070000000201000003000000\
             040000000605000000000000"
        );
        let (mut covered, mut reach, mut read) = ([Lsn::ZERO; 2], [Lsn::ZERO; 2], [OfSlot::new(), OfSlot::new()]);
        decode_chunk(&bytes, &mut covered, &mut reach, &mut read).unwrap();
        assert_eq!((covered, reach, read), ([1, 0x0203].map(Lsn), [0, 0x0809].map(Lsn), counts));
        for cut in 0..bytes.len() {
            let mut read = [OfSlot::new(), OfSlot::new()];
            assert!(decode_chunk(&bytes[..cut], &mut covered, &mut reach, &mut read).is_err());
        }
    }

    #[test]
    fn golden_bytes_of_the_header() {
        let databases = Databases {
            map: vec![1, 0],
            map_version: Version(3),
            spaces: vec![4, 0],
            floors: vec![Version::ZERO, Version(2)],
            next_space: 5,
            abandoned: vec![1],
        };
        let (covered, libraries) = (vec![Lsn(9), Lsn(10)], vec![0xab, 0xcd]);
        let mut outcomes = Outcomes::default();
        outcomes.note(txn::Record::Abort { tx: txn::TxnId::default() });
        let header = Header {
            seed: 7,
            saved_at: UnixMs(6),
            databases,
            epoch: 8,
            highest: Lsn(0x0b0c),
            covered,
            libraries,
            outcomes,
        };
        let bytes = header.encode().unwrap();
        assert_eq!(hex(&bytes[..9]), "050700000000000000");
        assert_eq!(
            hex(&bytes[17..]),
            "060000000000000008000000000000000300000000000000050000000200000001000400000000000000000000000000000000000200000000000000\
             01000000010000000c0b0000000000000200000009000000000000000a0000000000000002000000abcd\
             120000000e0000000103000000000000000000000000"
        );
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for cut in 0..bytes.len() {
            assert!(Header::decode(&bytes[..cut]).is_err());
        }
        // Counts and lengths may say anything.
        for at in 17..bytes.len() {
            for damage in [&[0xff][..], &[0xff; 4], &[0xff; 8]] {
                let mut damaged = bytes.clone();
                damaged.splice(at..(at + damage.len()).min(bytes.len()), damage.iter().copied());
                let _ = Header::decode(&damaged);
            }
        }
        // Unchanged.
        let before = [&[WITHOUT_LONG_STRINGS], &bytes[1..]].concat();
        assert_eq!(Header::decode(&before).unwrap(), header);
        let length = bytes.len() - 22;
        let before = [&[WITHOUT_TRANSACTIONS], &bytes[1..length]].concat();
        assert_eq!(Header::decode(&before).unwrap(), Header { outcomes: Outcomes::default(), ..header });
    }

    /// Keys lie in the order of the upper half of their hashes, and can be told apart even at their greatest length.
    #[test]
    fn long_keys() {
        let hasher = KeyHasher::new(7);
        let mut long = vec![b'k'; 100_000];
        let mut stored = Vec::new();
        for last in [b'a', b'b'] {
            long[99_999] = last;
            let key = hasher.key(&long);
            let (mut store_key, mut value) = (Vec::new(), Vec::new());
            entry_key(1, &key, &mut store_key);
            assert!(store_key.len() <= 65_000);
            Head { version: Version(1), expiry: None, field_expiry: None, access: 0 }.write(&long, &mut value);
            value.extend_from_slice(b"\x11text");
            let (read, _) = read_entry(&store_key, &value).unwrap();
            assert_eq!(*read, *long);
            value.clear();
            write_gone(&long, Version(2), &mut value);
            let read = read_entry(&store_key, &value).unwrap();
            assert!(*read.0 == *long && matches!(read.1, Stored::Gone(Version(2))));
            stored.push(store_key);
        }
        assert_ne!(stored[0], stored[1]);
        assert!(read_entry(&stored[0][..100], &[LONG_KEY; 30]).is_err());
        for value in [&b""[..], b"\x00", b"\x01aaaaaaaaaaaaaaaaaaaa", b"\x80aaaaaaaa", b"\x10aaaaaaaaaaa"] {
            assert!(read_entry(&stored[0][..20], value).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_header_panics(version in 2u8..7, bytes in prop::collection::vec(prop_oneof![Just(0u8), 1u8..5, any::<u8>()], 0..150)) {
            let seed = 7u64;
            let _ = Header::decode(&bytes);
            let head = [&[version][..], &seed.to_le_bytes(), &probe(seed).to_le_bytes()].concat();
            let _ = Header::decode(&[head, bytes].concat());
        }
    }
}

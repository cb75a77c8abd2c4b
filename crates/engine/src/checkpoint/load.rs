//! The store's header and figures, at the start: for keys only their numbers (rule C5).

use std::fmt;

use keyspace::{ColdFigures, Held, KeyHasher, Keyspace, Local, Need, SLOTS, Space};
#[cfg(test)]
use keyspace::{Db, Fetched, Mark, Version, access::AccessClock};
use object::Corrupt;
use redolog::Lsn;
use store::{Batch, Error, Store};

use super::counts::Counts;
#[cfg(test)]
use super::fetch;
use super::format::{self, CHUNKS, Header, SLOTS_PER_CHUNK, Stored};
use crate::record::{lsn_of, version_of};

/// The reason why a store cannot be loaded.
#[derive(Debug)]
pub enum Unloadable {
    /// It cannot be read.
    Store(Error),
    /// It holds something that no checkpoint has written.
    Nonsense {
        /// Under which key, printable.
        key: String,
        /// The damage.
        what: &'static str,
    },
    /// There is no room for it.
    NoRoom,
    /// It holds more databases than the configuration has.
    Databases {
        /// Number of databases in the store.
        stored: usize,
        /// Number that the configuration has.
        configured: usize,
    },
}

impl fmt::Display for Unloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unloadable::Store(error) => error.fmt(f),
            Unloadable::Nonsense { key, what } => write!(f, "the store holds nonsense under the key {key}: {what}"),
            Unloadable::NoRoom => f.write_str("there is no room for it"),
            Unloadable::Databases { stored, configured } => {
                write!(f, "the store holds {stored} databases, and 'databases' is {configured}")
            }
        }
    }
}

impl std::error::Error for Unloadable {}

impl From<Error> for Unloadable {
    fn from(error: Error) -> Self {
        Unloadable::Store(error)
    }
}

pub(super) fn nonsense(key: &[u8], Corrupt(what): Corrupt) -> Unloadable {
    let shown = &key[..key.len().min(200)];
    Unloadable::Nonsense { key: shown.escape_ascii().to_string(), what }
}

/// The findings about a store.
#[derive(Debug)]
pub struct Loaded {
    /// Its header.
    pub header: Header,
    /// C(s) of every slot: the store has the changes there up to this LSN.
    pub covered: Box<[Lsn]>,
    /// For every slot, the highest version that a key there may have; 0: there are none.
    pub reach: Box<[Lsn]>,
    /// The keys that it has.
    pub counts: Counts,
    /// Their number.
    pub keys: u64,
    /// The highest LSN that the store names: later changes must be above it (rule L1).
    pub highest: Lsn,
}

/// The header of a store; `None`: no checkpoint has been written to it. The keyspace must be made with its seed.
///
/// # Errors
///
/// The store cannot be read, or holds nonsense.
pub fn header(store: &dyn Store) -> Result<Option<Header>, Unloadable> {
    let Some(bytes) = store.get(&format::HEADER_KEY)? else { return Ok(None) };
    Header::decode(&bytes).map(Some).map_err(|corrupt| nonsense(&format::HEADER_KEY, corrupt))
}

/// How many streams the log has that goes with a store; `None`: no log is known to have begun.
///
/// # Errors
///
/// The store cannot be read, or holds nonsense.
pub fn streams_begun(store: &dyn Store) -> Result<Option<u16>, Unloadable> {
    let Some(bytes) = store.get(&format::STREAMS_KEY)? else { return Ok(None) };
    format::decode_streams(&bytes).map(Some).map_err(|corrupt| nonsense(&format::STREAMS_KEY, corrupt))
}

/// Notes durably that all streams of a log have begun, so many, before any of their records is confirmed. A start that
/// does not find them is then not that of a new node. Once in the life of a store.
///
/// # Errors
///
/// The store cannot be read or written.
pub fn note_streams(store: &dyn Store, streams: u16) -> Result<(), Unloadable> {
    if streams_begun(store)?.is_none() {
        let mut batch = Batch::new();
        batch.put(&format::STREAMS_KEY, &format::encode_streams(streams));
        store.write(&batch)?;
        store.flush()?;
    }
    Ok(())
}

/// Tells `keyspace`, which is empty and unused, which keys the store has: they are cold, and none of them is read (rule
/// C5). `None`: no checkpoint has been written to it.
///
/// # Errors
///
/// The store cannot be read, holds nonsense, or holds more databases than there are.
pub fn restore(store: &dyn Store, keyspace: &Keyspace, local: &mut Local) -> Result<Option<Loaded>, Unloadable> {
    with_header(store, keyspace, |header, held| {
        let loaded = restore_held(store, header, keyspace, held)?;
        let spaces = &loaded.header.databases.spaces;
        let used: Vec<(u16, Space)> = (0..).zip(spaces.iter().copied()).filter(|(_, space)| *space != 0).collect();
        for slot in (0..SLOTS as u16).filter(|slot| loaded.reach[usize::from(*slot)] > Lsn::ZERO) {
            for (physical, space) in &used {
                let figures = loaded.counts.of(slot).find(|(known, _)| known == space);
                let figures = figures.map_or_else(ColdFigures::default, |(_, figures)| figures);
                keyspace.restore_cold(held, slot, *physical, figures, local);
            }
        }
        local.publish_counts();
        Ok(loaded)
    })
}

/// As [`restore`], but loads everything that the store has.
#[cfg(test)]
pub(super) fn load(store: &dyn Store, keyspace: &Keyspace, local: &mut Local) -> Result<Option<Loaded>, Unloadable> {
    with_header(store, keyspace, |header, held| {
        let mut loaded = restore_held(store, header, keyspace, held)?;
        load_held(store, &mut loaded, keyspace, held, local)?;
        local.publish_counts();
        Ok(loaded)
    })
}

fn with_header(
    store: &dyn Store,
    keyspace: &Keyspace,
    f: impl FnOnce(Header, &Held) -> Result<Loaded, Unloadable>,
) -> Result<Option<Loaded>, Unloadable> {
    let Some(header) = header(store)? else { return Ok(None) };
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
    let loaded = f(header, &held);
    keyspace.release(held, |_| {});
    loaded.map(Some)
}

/// The highest LSN in a store that is to begin anew. Later records must be above it, so that none of them seems to be
/// in the store.
///
/// # Errors
///
/// The store cannot be read, or holds nonsense.
pub fn highest(store: &dyn Store, header: &Header) -> Result<Lsn, Unloadable> {
    Ok(highest_of(header, &Slots::of(store)?))
}

fn highest_of(header: &Header, slots: &Slots) -> Lsn {
    let databases = &header.databases;
    let of_databases = databases.floors.iter().chain([&databases.map_version]).map(|version| lsn_of(*version));
    let known = slots.covered.iter().chain(&slots.reach).chain(&header.covered).copied().chain(of_databases);
    known.fold(header.highest, Lsn::max)
}

/// The figures of the slots in a store: see [`Loaded`].
struct Slots {
    covered: Box<[Lsn]>,
    reach: Box<[Lsn]>,
    counts: Counts,
}

impl Slots {
    fn of(store: &dyn Store) -> Result<Self, Unloadable> {
        let none = || vec![Lsn::ZERO; SLOTS].into();
        let mut slots = Slots { covered: none(), reach: none(), counts: Counts::default() };
        for chunk in 0..CHUNKS {
            let (key, first) = (format::chunk_key(chunk), chunk * SLOTS_PER_CHUNK);
            if let Some(bytes) = store.get(&key)? {
                let [covered, reach] =
                    [&mut slots.covered, &mut slots.reach].map(|all| &mut all[first..][..SLOTS_PER_CHUNK]);
                format::decode_chunk(&bytes, covered, reach, slots.counts.slots(first, SLOTS_PER_CHUNK))
                    .map_err(|corrupt| nonsense(&key, corrupt))?;
            }
        }
        Ok(slots)
    }
}

fn restore_held(store: &dyn Store, header: Header, keyspace: &Keyspace, held: &Held) -> Result<Loaded, Unloadable> {
    let databases = &header.databases;
    if !keyspace.restore_databases(held, databases) {
        let (stored, configured) = (databases.map.len(), keyspace.databases());
        return Err(Unloadable::Databases { stored, configured });
    }
    let mut slots = Slots::of(store)?;
    slots.counts.keep_only(&databases.spaces);
    // The next checkpoint's map is as of no earlier record than this one's, which the log may still have.
    keyspace.raise(held, databases.map_version);
    for (slot, (covered, reach)) in (0..).zip(slots.covered.iter().zip(&slots.reach)) {
        keyspace.raise_slot(held, slot, version_of(*covered.max(reach)));
    }
    let highest = highest_of(&header, &slots);
    let Slots { covered, reach, counts } = slots;
    let keys = (0..SLOTS as u16).flat_map(|slot| counts.of(slot)).map(|(_, figures)| figures.keys).sum();
    Ok(Loaded { header, covered, reach, counts, keys, highest })
}

#[cfg(test)]
fn load_held(
    store: &dyn Store,
    loaded: &mut Loaded,
    keyspace: &Keyspace,
    held: &Held,
    local: &mut Local,
) -> Result<(), Unloadable> {
    let (snapshot, clock) = (store.snapshot(), AccessClock::new(1));
    // The keys are counted anew: a wrong count would stay wrong for ever.
    let mut counts = Counts::default();
    for logical in 0..keyspace.databases() as u16 {
        let physical = usize::from(keyspace.physical(logical));
        let space = loaded.header.databases.spaces.get(physical).copied().unwrap_or(0);
        if space == 0 {
            continue;
        }
        let mut db = Db::new(keyspace, held, local, &clock, logical, Version::ZERO);
        for entry in snapshot.prefix(&format::space_prefix(space)) {
            let (stored_key, value) = entry?;
            let (bytes, stored) = read(&stored_key, &value, space, keyspace.hasher())?;
            let key = db.key(&bytes);
            let found = fetch::decode_within(&stored_key, &stored, &*snapshot, &mut |_| true)?;
            loaded.highest = loaded.highest.max(lsn_of(found.version()));
            keyspace.raise_slot(held, key.slot, found.version());
            match found {
                Fetched::There(record) => {
                    let (fields, expiry) = (record.value.field_expiry(), record.expiry);
                    let earliest = [expiry, fields].into_iter().flatten().min().unwrap_or(clocks::UnixMs::NEVER);
                    counts.change(key.slot, space, Mark::NONE, record.mark, earliest);
                    db.install(&key, record);
                }
                Fetched::Gone(version) => db.install_gone(&key, version),
            }
        }
    }
    loaded.counts = counts;
    Ok(())
}

/// The key of `space` with its record.
pub(super) fn read<'a>(
    stored_key: &[u8],
    value: &'a [u8],
    space: Space,
    hasher: &KeyHasher,
) -> Result<(Box<[u8]>, Stored<'a>), Unloadable> {
    let wrong = |corrupt| nonsense(stored_key, corrupt);
    let (bytes, stored) = format::read_entry(stored_key, value).map_err(wrong)?;
    if bytes.len() > keyspace::KEY_MAX {
        return Err(wrong(Corrupt("length of a key")));
    }
    let mut stands = Vec::new();
    format::entry_key(space, &hasher.key(&bytes), &mut stands);
    if stands != stored_key {
        return Err(wrong(Corrupt("it lies where another key should")));
    }
    Ok((bytes, stored))
}

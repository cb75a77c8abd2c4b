//! From the store into memory, at the start.

use std::fmt;

use keyspace::access::AccessClock;
use keyspace::{Db, Fetched, Held, KeyHasher, Keyspace, Local, Mark, Need, SLOTS, Space};
use log::Lsn;
use object::Corrupt;
use store::{Error, Store};

use super::counts::Counts;
use super::fetch;
use super::format::{self, CHUNKS, Header, SLOTS_PER_CHUNK, Stored};

/// Why a store cannot be loaded.
#[derive(Debug)]
pub enum Unloadable {
    /// It cannot be read.
    Store(Error),
    /// It holds something that no checkpoint has written.
    Nonsense {
        /// Under which key, printable.
        key: String,
        /// What is wrong with it.
        what: &'static str,
    },
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

/// What a store has said.
#[derive(Debug)]
pub struct Loaded {
    /// About itself.
    pub header: Header,
    /// C(s) of every slot: what was done there up to this LSN is in the store.
    pub covered: Box<[Lsn]>,
    /// The keys that it has.
    pub counts: Counts,
    /// Keys that were loaded.
    pub keys: u64,
    /// The highest LSN that anything in the store names: what is done from now on must be above it (rule L1).
    pub highest: Lsn,
}

/// What a store says about itself; `None`: no checkpoint has been written to it. The keyspace must be made with its seed.
pub fn header(store: &dyn Store) -> Result<Option<Header>, Unloadable> {
    let Some(bytes) = store.get(&format::HEADER_KEY)? else { return Ok(None) };
    Header::decode(&bytes).map(Some).map_err(|corrupt| nonsense(&format::HEADER_KEY, corrupt))
}

/// Reads what a store says of databases and slots, and makes the databases of `keyspace` what they are there; no entry is read. Nobody else
/// uses the keyspace, which is empty. `None`: no checkpoint has been written to the store.
pub fn restore(store: &dyn Store, keyspace: &Keyspace) -> Result<Option<Loaded>, Unloadable> {
    let Some(header) = header(store)? else { return Ok(None) };
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
    let restored = restore_held(store, header, keyspace, &held);
    keyspace.release(held, |_| {});
    restored.map(Some)
}

/// As [`restore`], and loads everything that the store has.
pub fn load(store: &dyn Store, keyspace: &Keyspace, local: &mut Local) -> Result<Option<Loaded>, Unloadable> {
    let Some(mut loaded) = restore(store, keyspace)? else { return Ok(None) };
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
    let outcome = load_held(store, &mut loaded, keyspace, &held, local);
    keyspace.release(held, |_| {});
    outcome.map(|()| Some(loaded))
}

/// The highest LSN that a store names which is to begin anew: what is logged from then on must be above it, so that none of it seems to be
/// in the store.
pub fn highest(store: &dyn Store, header: &Header) -> Result<Lsn, Unloadable> {
    let (covered, _) = slots(store)?;
    Ok(highest_of(header, &covered))
}

fn highest_of(header: &Header, covered: &[Lsn]) -> Lsn {
    let databases = &header.databases;
    let known = covered.iter().chain(&databases.floors).chain(&header.covered);
    known.copied().fold(header.highest.max(databases.map_lsn), Lsn::max)
}

/// C(s) of every slot, and what the store has of it.
fn slots(store: &dyn Store) -> Result<(Box<[Lsn]>, Counts), Unloadable> {
    let mut covered: Box<[Lsn]> = vec![0; SLOTS].into();
    let mut counts = Counts::default();
    for chunk in 0..CHUNKS {
        let (key, first) = (format::chunk_key(chunk), chunk * SLOTS_PER_CHUNK);
        if let Some(bytes) = store.get(&key)? {
            let covered = &mut covered[first..][..SLOTS_PER_CHUNK];
            format::decode_chunk(&bytes, covered, counts.slots(first, SLOTS_PER_CHUNK))
                .map_err(|corrupt| nonsense(&key, corrupt))?;
        }
    }
    Ok((covered, counts))
}

fn restore_held(store: &dyn Store, header: Header, keyspace: &Keyspace, held: &Held) -> Result<Loaded, Unloadable> {
    let databases = &header.databases;
    if !keyspace.restore_databases(held, databases) {
        let (stored, configured) = (databases.map.len(), keyspace.databases());
        return Err(Unloadable::Databases { stored, configured });
    }
    let (covered, mut counts) = slots(store)?;
    counts.keep_only(&databases.spaces);
    // The next checkpoint's map is as of no earlier record than this one's, which the log may still have.
    keyspace.raise(held, databases.map_lsn);
    for (slot, lsn) in covered.iter().enumerate() {
        keyspace.raise_slot(held, slot as u16, *lsn);
    }
    let highest = highest_of(&header, &covered);
    Ok(Loaded { header, covered, counts, keys: 0, highest })
}

fn load_held(
    store: &dyn Store,
    loaded: &mut Loaded,
    keyspace: &Keyspace,
    held: &Held,
    local: &mut Local,
) -> Result<(), Unloadable> {
    let (snapshot, clock) = (store.snapshot(), AccessClock::new(1));
    // What is there is counted anew: a wrong count would stay wrong for ever.
    let mut counts = Counts::default();
    for logical in 0..keyspace.databases() as u16 {
        let physical = usize::from(keyspace.physical(logical));
        let space = loaded.header.databases.spaces.get(physical).copied().unwrap_or(0);
        if space == 0 {
            continue;
        }
        let mut db = Db::new(keyspace, held, local, &clock, logical, 0);
        for entry in snapshot.prefix(&format::space_prefix(space)) {
            let (stored_key, value) = entry?;
            let (bytes, stored) = read(&stored_key, &value, space, keyspace.hasher())?;
            let key = db.key(&bytes);
            let found = fetch::decode(&stored_key, &stored, &*snapshot)?;
            loaded.highest = loaded.highest.max(found.version());
            loaded.keys += 1;
            keyspace.raise_slot(held, key.slot, found.version());
            match found {
                Fetched::There(record) => {
                    let (fields, expiry) = (record.value.field_expiry(), record.expiry);
                    let earliest = [expiry, fields].into_iter().flatten().min().unwrap_or(u64::MAX);
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

/// What stands under a key of `space`, and which it is.
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

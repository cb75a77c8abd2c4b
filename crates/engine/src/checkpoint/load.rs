//! From the store into memory, at the start.

use std::fmt;

use keyspace::access::AccessClock;
use keyspace::{Keyspace, Local, Need, SLOTS, Space};
use log::Lsn;
use object::Corrupt;
use store::{Error, Snapshot, Store};

use super::fetch;
use super::format::{self, CHUNKS, Header, SLOTS_PER_CHUNK, Stored};
use super::output::Objects;

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
    /// C(s) of every slot: what was done there up to this LSN is in memory.
    pub covered: Box<[Lsn]>,
    /// Large values there.
    pub objects: Objects,
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

/// Loads everything that the store has into `keyspace`, which is empty and nobody else uses. `None`: no checkpoint has been written to it.
pub fn load(store: &dyn Store, keyspace: &Keyspace, local: &mut Local) -> Result<Option<Loaded>, Unloadable> {
    let Some(header) = header(store)? else { return Ok(None) };
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { unreachable!("nobody else uses the keyspace") };
    let loaded = load_held(store, header, &mut Target { keyspace, held: &held, local, clock: &AccessClock::new(1) });
    keyspace.release(held, |_| {});
    loaded.map(Some)
}

/// Where it goes.
struct Target<'a> {
    keyspace: &'a Keyspace,
    held: &'a keyspace::Held,
    local: &'a mut Local,
    clock: &'a AccessClock,
}

fn load_held(store: &dyn Store, header: Header, target: &mut Target<'_>) -> Result<Loaded, Unloadable> {
    let databases = &header.databases;
    if !target.keyspace.restore_databases(target.held, databases) {
        let (stored, configured) = (databases.map.len(), target.keyspace.databases());
        return Err(Unloadable::Databases { stored, configured });
    }
    let mut covered: Box<[Lsn]> = vec![0; SLOTS].into();
    for chunk in 0..CHUNKS {
        let key = format::chunk_key(chunk);
        if let Some(bytes) = store.get(&key)? {
            format::decode_chunk(&bytes, &mut covered[chunk * SLOTS_PER_CHUNK..][..SLOTS_PER_CHUNK])
                .map_err(|corrupt| nonsense(&key, corrupt))?;
        }
    }
    // The next checkpoint's map is as of no earlier record than this one's, which the log may still have.
    target.keyspace.raise(target.held, databases.map_lsn);
    for (slot, lsn) in covered.iter().enumerate() {
        target.keyspace.raise_slot(target.held, slot as u16, *lsn);
    }
    let known = covered.iter().chain(&databases.floors).chain(&header.covered).chain([&databases.map_lsn]);
    let mut highest = known.copied().max().unwrap_or(0);
    let snapshot = store.snapshot();
    let (mut keys, mut objects) = (0, Objects::default());
    for logical in 0..target.keyspace.databases() as u16 {
        let physical = usize::from(target.keyspace.physical(logical));
        let space = databases.spaces.get(physical).copied().unwrap_or(0);
        if space == 0 {
            continue;
        }
        for entry in snapshot.prefix(&format::space_prefix(space)) {
            let (key, value) = entry?;
            let version = target.install(logical, space, (&key, &value), &*snapshot, &mut objects)?;
            highest = highest.max(version);
            keys += 1;
        }
    }
    Ok(Loaded { header, covered, objects, keys, highest })
}

impl Target<'_> {
    /// Puts what the store has under a key into memory, and says as of which version it is.
    fn install(
        &mut self,
        logical: u16,
        space: Space,
        (stored_key, stored_value): (&[u8], &[u8]),
        snapshot: &dyn Snapshot,
        objects: &mut Objects,
    ) -> Result<Lsn, Unloadable> {
        let wrong = |corrupt| nonsense(stored_key, corrupt);
        let (bytes, stored) = format::read_entry(stored_key, stored_value).map_err(wrong)?;
        if bytes.len() > keyspace::KEY_MAX {
            return Err(wrong(Corrupt("length of a key")));
        }
        let key = self.keyspace.hasher().key(&bytes);
        let mut stands = Vec::new();
        format::entry_key(space, &key, &mut stands);
        if stands != stored_key {
            return Err(wrong(Corrupt("it lies where another key should")));
        }
        if let Stored::Entry(_, record) = &stored {
            objects.note(stored_key, Some(record));
        }
        let fetched = fetch::decode(stored_key, &stored, snapshot)?;
        let version = fetched.version();
        fetched.install(self.keyspace, self.held, self.local, self.clock, logical, &key);
        Ok(version)
    }
}

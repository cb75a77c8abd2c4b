//! The contents of memory, apart from the threads that work with it: to be compared, and recovered separately.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::UnixMs;
use command::{Digest, Tunables};
use engine::Shared;
use engine::checkpoint::{Replay, WarmUp, Warmth, restore};
use keyspace::access::AccessClock;
use keyspace::{Db, Keyspace, Need, SLOTS};
use redolog::Lsn;
use store::Store;

use super::{DATABASES, HASH_SEED};

/// Of each key (database, name) the digest of its value.
pub type Digests = BTreeMap<(u16, Vec<u8>), Digest>;

/// See the module's text. No thread uses it.
pub struct Memory(Arc<Shared>);

impl Drop for Memory {
    fn drop(&mut self) {
        free(&self.0.keyspace);
    }
}

/// Frees all keys, when no thread uses them any more. A server leaves that to the end of its process.
pub fn free(keyspace: &Keyspace) {
    // A thread that held a slot when its machine went off never releases it.
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { return };
    let mut local = keyspace.local(0);
    let mut reclaim = keyspace.flush(&held, &mut local, None);
    while !reclaim.step_at_once(&mut local, 1000) {}
    while local.has_dying() {
        local.step_dying(1000);
    }
    keyspace.release(held, |_| {});
}

impl Memory {
    /// With nothing in it.
    pub fn empty() -> Self {
        Self(Arc::new(Shared::new(Keyspace::new(2, usize::from(DATABASES), HASH_SEED))))
    }

    /// The contents that a start produces from a store and these records of the log. `now`: unix milliseconds.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a record cannot be replayed.
    pub fn recover<'a>(
        store: &Arc<dyn Store>,
        records: impl Iterator<Item = (Lsn, &'a [u8])>,
        now: UnixMs,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let memory = Self::empty();
        let keyspace = &memory.0.keyspace;
        let mut local = keyspace.local(0);
        let loaded = restore(&**store, keyspace, &mut local)?;
        let from = loaded.as_ref().map(|loaded| (loaded, &**store));
        let mut replay = Replay::new(keyspace, local, Tunables::default().limits, from, now);
        for (lsn, effects) in records {
            replay.record(lsn, effects)?;
        }
        let _ = replay.finish()?;
        warm_up(&memory.0, store, 1)?;
        Ok(memory)
    }

    /// Does again what these records say, in their order. `now`: unix milliseconds.
    ///
    /// # Errors
    ///
    /// A record cannot be replayed.
    pub fn replay<'a>(
        &self,
        records: impl Iterator<Item = (Lsn, &'a [u8])>,
        now: UnixMs,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let keyspace = &self.0.keyspace;
        let mut replay = Replay::new(keyspace, keyspace.local(0), Tunables::default().limits, None, now);
        for (lsn, effects) in records {
            replay.record(lsn, effects)?;
        }
        let _ = replay.finish()?;
        Ok(())
    }

    /// All that it holds.
    pub fn digests(&self) -> Digests {
        digests(&self.0.keyspace)
    }
}

/// Reads into memory the keys that only the store has. `index`: a part of the keyspace that no other thread owns.
///
/// # Errors
///
/// The store cannot be read.
pub fn warm_up(shared: &Arc<Shared>, store: &Arc<dyn Store>, index: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut warm = WarmUp::new(shared.clone(), store.clone(), index);
    while warm.step(|_| {})? != Warmth::Done {}
    Ok(())
}

/// The contents of a keyspace that no thread uses.
pub fn digests(keyspace: &Keyspace) -> Digests {
    let mut digests = Digests::new();
    let Ok(held) = keyspace.try_acquire(&Need::All, |_| {}) else { return digests };
    let (mut local, clock) = (keyspace.local(0), AccessClock::new(7));
    for number in 0..DATABASES {
        let db = Db::new(keyspace, &held, &mut local, &clock, number, keyspace::Version(1));
        let mut slot = keyspace.next_occupied(0);
        while let Some(at) = slot {
            let mut from = Some(0);
            while let Some(hash) = from {
                from = db.walk(at, hash, |entry| {
                    digests.insert((number, entry.key().to_vec()), Digest::of_entry(entry, UnixMs::ZERO));
                });
            }
            slot = if usize::from(at) + 1 < SLOTS { keyspace.next_occupied(at + 1) } else { None };
        }
    }
    keyspace.release(held, |_| {});
    digests
}

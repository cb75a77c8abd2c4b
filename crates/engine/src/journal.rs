//! The undo journal of a block (rule K3): every entry that it is about to change, as it was before.

use std::collections::BTreeMap;

use command::{KeyAt, Rng, flags};
use keyspace::{Held, Key, Saved};

use crate::attachment::DbKey;
use crate::call::Call;
use crate::engine::Engine;

/// The entries a block has changed, as they were when it began, and its chance.
pub(crate) struct Journal {
    saved: BTreeMap<DbKey, Saved>,
    rng: Rng,
}

impl Journal {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { saved: BTreeMap::new(), rng }
    }

    /// The chance the block began with.
    pub(crate) fn chance(&self) -> Rng {
        self.rng.clone()
    }
}

impl Engine {
    /// Saves the entries that `call` may change. Its keys are held; expired ones are saved, too: their deletion is
    /// undone with the rest.
    pub(crate) fn journal(&mut self, journal: &mut Journal, held: &Held, call: &Call<'_>) {
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let keys = positions.iter().filter_map(|at: &KeyAt| call.args.get(at.index));
        let writes = !call.row.spec.has(flags::READONLY);
        let databases = match call.row.spec.has(flags::OTHER_DB) {
            // MOVE and COPY make keys elsewhere.
            true => 0..self.shared.keyspace.databases() as u16,
            false => call.db..call.db + 1,
        };
        let shared = self.shared.clone();
        for key in keys.map(|bytes| shared.keyspace.hasher().key(bytes)) {
            for db in databases.clone() {
                let view = self.view(held, db);
                // Readers change only expired entries.
                if !writes && !view.may_expire(key.slot) {
                    continue;
                }
                journal.saved.entry((db, key.bytes.into())).or_insert_with(|| view.save(&key));
            }
        }
        self.positions = positions;
    }

    /// Saves the entry that an effect of this key may change.
    pub(crate) fn journal_key(&mut self, journal: &mut Journal, held: &Held, db: u16, key: &Key<'_>) {
        let view = self.view(held, db);
        journal.saved.entry((db, key.bytes.into())).or_insert_with(|| view.save(key));
    }

    /// Puts everything back.
    pub(crate) fn undo(&mut self, journal: Journal, held: &Held) {
        // That of the record which this opens: restored values may not be committed, and their readers wait for
        // everything before the record.
        let version = self.next_version(held);
        let shared = self.shared.clone();
        for ((db, key), saved) in journal.saved {
            let key = shared.keyspace.hasher().key(&key);
            self.db(held, db, version).put_back(&key, saved);
        }
        // A restored key is no event.
        self.local.take_sightings();
        self.rng = journal.rng;
    }
}

//! WATCH: the changes of watched keys, absent ones included (rule K5).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use command::Touched;
use keyspace::{Held, Need, Version};
use txn::locks::Mode;

use crate::attachment::{Attachment, Watched};
use crate::call::Busy;
use crate::cold::is_lacking;
use crate::engine::{Engine, Shared};

/// A key that a session watches, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedKey {
    /// Logical database.
    pub db: u16,
    /// Its slot.
    pub slot: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Of [`Watched`].
    changes: u64,
    /// Of [`Shared`].
    tenure: u64,
}

impl Shared {
    /// All keys that are watched now count as changed: the node gives its shard up, and nobody here hears of what another
    /// node changes in it.
    pub fn end_watches(&self) {
        self.tenure.fetch_add(1, Relaxed);
    }
}

/// Which of `keys` are not watched already, and not named before.
fn new_ones(db: u16, keys: &[&[u8]], already: &[WatchedKey]) -> Vec<bool> {
    /// Up to so many keys, a look at all of them is faster. The slots are held: the time for tens of thousands must not
    /// grow with their square.
    const FEW: usize = 8;
    let of_db = already.iter().filter(|watched| watched.db == db).map(|watched| &*watched.key);
    if keys.len() <= FEW {
        let named = |i: usize| keys[..i].contains(&keys[i]);
        return (0..keys.len()).map(|i| !named(i) && !of_db.clone().any(|key| key == keys[i])).collect();
    }
    let mut known: BTreeSet<&[u8]> = of_db.collect();
    keys.iter().map(|key| known.insert(key)).collect()
}

impl Engine {
    /// Begins to watch keys of logical database `db` for the session `token`. Those in `already` are watched already.
    ///
    /// # Errors
    ///
    /// A latch is busy: nothing was done.
    pub fn watch(&mut self, db: u16, keys: &[&[u8]], already: &mut Vec<WatchedKey>, token: u64) -> Result<(), Busy> {
        let need = self.need_of(keys.iter().map(|k| keyspace::slot_of(k)));
        let held = self.acquire_for(need, token)?;
        let busy = self.await_locks(&[], keys.iter().map(|key| (db, *key, Mode::Shared)), &held, token);
        if let Some(busy) = busy.or_else(|| self.await_keys(&[], keys.iter().map(|key| (db, *key)), &held, token)) {
            self.release(held);
            return Err(busy);
        }
        // Keys that have expired before the watch began do not break it.
        let hashed: Vec<_> = keys.iter().map(|k| self.shared.keyspace.hasher().key(k)).collect();
        let version = self.next_version(&held);
        self.expire_keys(&held, db, version, hashed.iter().copied());
        self.publish(&held);
        let tenure = self.shared.tenure.load(Relaxed);
        let is_new = new_ones(db, keys, already);
        for (key, _) in hashed.into_iter().zip(is_new).filter(|(_, is_new)| *is_new) {
            let changes = Attachment::with(&self.shared.keyspace, &held, key.slot, |a| {
                let watches = &self.shared.watches;
                // No number comes twice: a block whose client has gone may still ask about the one that it has seen.
                let first = || Watched { sessions: 0, changes: watches.fetch_add(1 << 32, Relaxed) };
                let watched = a.watched.entry((db, key.bytes.into())).or_insert_with(first);
                watched.sessions += 1;
                watched.changes
            });
            already.push(WatchedKey { db, slot: key.slot, key: key.bytes.into(), changes, tenure });
        }
        if !self.claims.is_empty() {
            self.end_claims(token, &held);
        }
        self.release(held);
        Ok(())
    }

    /// Ends watching: now if the slot's latch is free, else with [`Self::unwatch_leftovers`].
    pub fn unwatch_later(&mut self, mut keys: Vec<WatchedKey>) {
        self.leftovers.append(&mut keys);
        self.unwatch_leftovers();
    }

    /// Does the work that was left because of busy latches.
    pub fn unwatch_leftovers(&mut self) {
        self.release_unclaimed();
        self.serve_unserved();
        for key in std::mem::take(&mut self.leftovers) {
            match self.acquire_one(key.slot) {
                Some(held) => {
                    self.unwatch_held(&key, &held);
                    self.release(held);
                }
                None => self.leftovers.push(key),
            }
        }
    }

    /// True if work is left for a later turn.
    #[inline]
    pub fn has_leftovers(&self) -> bool {
        !(self.leftovers.is_empty() && self.unclaimed.is_empty() && self.unserved.is_empty())
    }

    pub(crate) fn unwatch_held(&mut self, key: &WatchedKey, held: &Held) {
        Attachment::with(&self.shared.keyspace, held, key.slot, |a| {
            let db_key = (key.db, key.key.clone());
            if let Some(watched) = a.watched.get_mut(&db_key) {
                watched.sessions -= 1;
                if watched.sessions == 0 {
                    a.watched.remove(&db_key);
                }
            }
        });
    }

    /// True if none of `keys` has changed since it was watched. Their slots are held.
    pub(crate) fn unchanged(&mut self, keys: &[WatchedKey], held: &Held) -> bool {
        let tenure = self.shared.tenure.load(Relaxed);
        let unchanged = keys.iter().all(|key| key.tenure == tenure)
            && keys.iter().all(|key| {
                Attachment::of(&self.shared.keyspace, held, key.slot, |a| {
                    a.watched.get(&(key.db, key.key.clone())).is_some_and(|w| w.changes == key.changes)
                }) == Some(true)
            });
        if !unchanged {
            // A change may not be committed.
            self.shared.keyspace.last_versions(held, |version| self.local.note_version(version));
        }
        unchanged
    }

    /// Notes that watched keys have changed.
    pub(crate) fn mark_watched(&mut self, touched: &[Touched], held: &Held) {
        for t in touched {
            Attachment::of(&self.shared.keyspace, held, t.slot, |attachment| {
                if !attachment.watched.is_empty()
                    && let Some(watched) = attachment.watched.get_mut(&(t.db, t.key.clone()))
                {
                    watched.changes += 1;
                }
            });
        }
    }

    /// Keys that clients watch or wait for, with their logical database. Everything is held.
    fn keys_of_interest(&self, held: &Held) -> Vec<Touched> {
        let mut found = Vec::new();
        for slot in 0..keyspace::SLOTS as u16 {
            Attachment::of(&self.shared.keyspace, held, slot, |attachment| {
                let keys = attachment.watched.keys().chain(attachment.blocked.keys());
                found.extend(keys.map(|(db, key)| Touched { db: *db, slot, key: key.clone(), serves: true, by: 0 }));
            });
        }
        found
    }

    /// Watched keys of the logical databases for which `in_db` holds, that are there: FLUSHALL and SWAPDB change them.
    pub(crate) fn watched_present(&mut self, held: &Held, in_db: impl Fn(u16) -> Option<Vec<u16>>) -> Vec<Touched> {
        let mut touched = self.keys_of_interest(held);
        touched.retain(|t| {
            let Some(databases) = in_db(t.db) else { return false };
            let hashed = self.shared.keyspace.hasher().key(&t.key);
            databases.iter().any(|&d| {
                // A key that cannot be read may have been there.
                let known = !is_lacking(&self.view(held, d), &hashed) || self.fetch_key(held, d, &hashed).is_ok();
                !known || self.view(held, d).peek(&hashed).is_some()
            })
        });
        touched
    }

    /// Deletes expired watched keys in every database. Afterwards an expired key that another database brings is no
    /// change for a client that watches an absent one.
    pub(crate) fn expire_watched(&mut self, held: &Held, version: Version) {
        let shared = self.shared.clone();
        for Touched { key, .. } in self.keys_of_interest(held) {
            let hashed = shared.keyspace.hasher().key(&key);
            for db in 0..shared.keyspace.databases() as u16 {
                // A key that cannot be read may be there: see `watched_present`.
                if is_lacking(&self.view(held, db), &hashed) {
                    let _ = self.fetch_key(held, db, &hashed);
                }
                self.expire_keys(held, db, version, std::iter::once(hashed));
            }
        }
    }

    /// The latches for `slots`, in any order.
    pub fn need_of(&self, slots: impl Iterator<Item = u16>) -> Need {
        let mut slots: smallvec::SmallVec<[u16; 8]> = slots.collect();
        slots.sort_unstable();
        slots.dedup();
        Need::Slots(slots)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clocks::UnixMs;

    use keyspace::Keyspace;

    use super::*;
    use crate::engine::Shared;
    use crate::testing::run;

    #[test]
    fn a_key_is_watched_once_however_often_it_is_named() {
        for many in [false, true] {
            let shared = Arc::new(Shared::new(Keyspace::new(1, 2, 7)));
            let mut engine = Engine::new(shared, 0, 7);
            engine.begin_turn(UnixMs(1));
            let names: Vec<String> = (0..if many { 100 } else { 3 }).map(|n| format!("{{t}}{n}")).collect();
            let mut keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            keys.push(b"{t}1");
            let mut watched = Vec::new();
            for db in [0, 0, 1] {
                assert!(engine.watch(db, &keys, &mut watched, 0).is_ok());
            }
            assert_eq!(watched.len(), 2 * names.len());
        }
    }

    #[test]
    fn what_was_watched_before_is_not_as_what_is_watched_now() {
        let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 2, 7))), 0, 1);
        let watch = |engine: &mut Engine| {
            let mut watched = Vec::new();
            assert!(engine.watch(0, &[b"k"], &mut watched, 0).is_ok());
            watched
        };
        let before = watch(&mut engine);
        engine.unwatch_later(before.clone());
        run(&mut engine, 0, &["set", "k", "1"]);
        let after = watch(&mut engine);
        let held = engine.acquire_one(keyspace::slot_of(b"k")).expect("nobody else is there");
        assert!(!engine.unchanged(&before, &held), "it has changed since");
        assert!(engine.unchanged(&after, &held));
        engine.release(held);
    }

    /// Rule K5: the key is absent before and after, and has been there.
    #[test]
    fn an_absent_key_that_came_and_went_has_changed() {
        let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 2, 7))), 0, 1);
        let mut watched = Vec::new();
        assert!(engine.watch(0, &[b"k"], &mut watched, 0).is_ok());
        run(&mut engine, 0, &["set", "k", "1"]);
        run(&mut engine, 0, &["del", "k"]);
        let held = engine.acquire_one(keyspace::slot_of(b"k")).expect("nobody else is there");
        assert!(!engine.unchanged(&watched, &held));
        engine.release(held);
    }
}

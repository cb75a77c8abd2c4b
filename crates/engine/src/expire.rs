//! Expiry on access: expired keys of a command are deleted before it runs.

use command::{Run, class, effects::op, flags};
use keyspace::{Db, Held, Key, Version};

use crate::call::Call;
use crate::engine::Engine;

impl Engine {
    /// Deletes the expired keys of the command before it runs. A writer's are deleted even if CLIENT PAUSE keeps
    /// expired keys. The command began before, and its effect must find the same state in a replay as here.
    #[inline]
    pub(crate) fn expire_before(&mut self, call: &Call<'_>, held: &Held, version: Version) {
        let keeps = self.keep_expired;
        self.keep_expired &= !call.row.spec.has(flags::WRITE);
        self.expire_keys_of(call, held, version);
        self.keep_expired = keeps;
    }

    #[inline]
    fn expire_keys_of(&mut self, call: &Call<'_>, held: &Held, version: Version) {
        // DEBUG looks at keys as they are.
        let looks_only = || call.row.spec.has(flags::PROTECTED);
        if let Some(key) = call.first {
            if self.view(held, call.db).may_expire(key.slot) && !looks_only() {
                self.expire_keys(held, call.db, version, std::iter::once(key));
            }
            return;
        }
        if let Run::Whole(_) = call.row.run
            && call.row.spec.has(flags::WRITE)
        {
            self.expire_watched(held, version);
        }
        // A block may hold far more than the command's own keys; then these are checked instead.
        let may = held.is_all() || held.slots().len() > call.args.len().max(16) || {
            let db = self.view(held, call.db);
            held.slots().iter().any(|&slot| db.may_expire(slot))
        };
        if may && !looks_only() {
            let mut positions = std::mem::take(&mut self.positions);
            positions.clear();
            call.row.spec.keys_of(call.args, &mut positions);
            let shared = self.shared.clone();
            let keys =
                positions.iter().filter_map(|at| call.args.get(at.index)).map(|k| shared.keyspace.hasher().key(k));
            self.expire_keys(held, call.db, version, keys);
            self.positions = positions;
        }
    }

    /// Deletes the expired ones of `keys`.
    pub(crate) fn expire_keys<'k>(
        &mut self,
        held: &Held,
        db: u16,
        version: Version,
        keys: impl Iterator<Item = Key<'k>>,
    ) {
        let by = std::mem::take(&mut self.fx.by);
        let now = self.now;
        for key in keys {
            let has_expired = |view: &Db<'_>| view.peek(&key).is_some_and(|entry| entry.expired(now));
            if self.keep_expired {
                // Without a version: a standby gives none, and nothing has changed for others.
                let mut view = self.view(held, db);
                if has_expired(&view)
                    && let Some(hidden) = view.hide(&key)
                {
                    self.hidden.push((db, key.bytes.into(), hidden));
                }
                continue;
            }
            let version = if version == Version::ZERO { self.next_version(held) } else { version };
            let mut view = self.db(held, db, version);
            if !has_expired(&view) {
                continue;
            }
            view.remove(&key);
            keyspace::bump(&self.local.counters().expired, 1);
            self.fx.push(op::DELETE, db, &key, |_| {});
            self.events.push(class::EXPIRED, "expired", db, key.bytes);
        }
        self.fx.by = by;
        self.published.append(&mut self.events.list);
    }

    /// From now on readers take expired keys for absent but do not delete them (CLIENT PAUSE); or they delete them
    /// again. Blocks under way go on as they began, because they may write. Keys that a reader among their commands had
    /// hidden would not be known to be gone then.
    pub fn keep_expired(&mut self, keep: bool) {
        self.keep_expired = keep || self.only_reads;
    }

    /// Puts expired keys back that were hidden from a command. Keys that a block has written in their place stay.
    #[cold]
    pub(crate) fn unhide(&mut self, held: &Held) {
        let shared = self.shared.clone();
        for (db, bytes, hidden) in std::mem::take(&mut self.hidden) {
            let key = shared.keyspace.hasher().key(&bytes);
            // A block that is suspended meanwhile has others.
            if !held.is_all() && !held.slots().contains(&key.slot) {
                self.hidden.push((db, bytes, hidden));
                continue;
            }
            self.view(held, db).show(&key, hidden);
        }
    }
}

//! A private keyspace with an engine of its own, in which commands run on copies of other nodes' keys: their changes
//! come out as effects. No other thread has access to it, so no latch is ever busy. It has no log, and its time is
//! handed in.

use std::collections::BTreeSet;
use std::sync::Arc;

use clocks::UnixMs;
use command::effects::{self, op};
use command::{Event, Tunables};
use keyspace::{Expiry, Held, Need, Value};
use object::Corrupt;

use crate::attachment::DbKey;
use crate::block::BlockRun;
use crate::engine::{Engine, Shared};

/// Notifications of all classes: the owners of the keys know which ones clients want.
const ALL_CLASSES: u32 = u32::MAX;

/// See the module's text.
pub struct Workspace {
    engine: Engine,
    /// Keys that may be there.
    keys: BTreeSet<DbKey>,
}

/// The results of commands in a workspace.
#[derive(Default)]
pub struct Made {
    /// Its effects, in their order.
    pub effects: Vec<u8>,
    /// Notifications, in their order.
    pub events: Vec<Event>,
}

impl Workspace {
    /// An empty one for keys of `of`, on worker `index`. `seed` is the seed of its chance.
    pub fn new(of: &Shared, index: u16, seed: u64) -> Self {
        let shared = Arc::new(Shared::new(of.keyspace.like(1)));
        let mut engine = Engine::new(shared, 0, seed);
        engine.fx.recording = true;
        engine.index = index;
        Self { engine, keys: BTreeSet::new() }
    }

    /// The engine that commands run in between [`Self::begin`] and [`Self::end`].
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Begins a stretch of work at this time.
    pub fn begin(&mut self, now: UnixMs, tunables: &Arc<Tunables>) {
        self.engine.configure(tunables.clone(), ALL_CLASSES);
        self.engine.begin_turn(now);
    }

    /// Ends a stretch of work.
    pub fn end(&mut self) {
        self.engine.end_turn();
    }

    /// Puts a key there: an effect of [`Engine::look`]. `amid`: the block that runs there, which was suspended for
    /// that.
    ///
    /// # Errors
    /// If it is no such effect.
    pub fn put(&mut self, image: &[u8], amid: Option<&BlockRun>) -> Result<(), Corrupt> {
        let limits = self.engine.tunables().limits.clone();
        let shared = self.engine.shared.clone();
        for effect in effects::decode(image) {
            let mut effect = effect?;
            if effect.op != op::IMAGE || usize::from(effect.db) >= shared.keyspace.databases() {
                return Err(Corrupt("no image of a key"));
            }
            let slot = keyspace::slot_of(effect.key);
            let place = (effect.db, effect.key.into());
            let replayed = self.under(slot, amid, |engine, held| {
                let version = if amid.is_some() { engine.following_version() } else { engine.next_version(held) };
                effects::replay(&mut effect, &mut engine.db(held, place.0, version), &limits)
            });
            replayed.ok_or(Corrupt("a workspace that another thread uses"))??;
            self.keys.insert(place);
        }
        // That it is there is no event.
        self.engine.local.take_sightings();
        Ok(())
    }

    /// Puts a copy of a key there, and then applies the effects of each step since. `amid`: as for [`Self::put`].
    ///
    /// # Errors
    ///
    /// If these are not effects on this key.
    pub fn put_copy<'e>(
        &mut self,
        (db, key): (u16, &[u8]),
        (value, expiry): (&Value, Option<UnixMs>),
        steps: impl Iterator<Item = &'e [u8]>,
        amid: Option<&BlockRun>,
    ) -> Result<(), Corrupt> {
        let limits = self.engine.tunables().limits.clone();
        let shared = self.engine.shared.clone();
        if usize::from(db) >= shared.keyspace.databases() {
            return Err(Corrupt("database number"));
        }
        let hashed = shared.keyspace.hasher().key(key);
        let put = self.under(hashed.slot, amid, |engine, held| {
            let version = if amid.is_some() { engine.following_version() } else { engine.next_version(held) };
            let mut there = engine.db(held, db, version);
            there.set_value(&hashed, value.clone(), expiry.map_or(Expiry::Clear, Expiry::At));
            for effect in steps.flat_map(effects::decode) {
                let mut effect = effect?;
                if effect.is_barrier() || effect.db != db || effect.key != key {
                    return Err(Corrupt("a step of another key"));
                }
                effects::replay(&mut effect, &mut there, &limits)?;
            }
            Ok(())
        });
        put.ok_or(Corrupt("a workspace that another thread uses"))??;
        self.keys.insert((db, key.into()));
        self.engine.local.take_sightings();
        Ok(())
    }

    /// A copy of a key that takes at least `least` bytes, and how many bytes it takes. `amid`: as for [`Self::put`].
    pub fn copy_of(
        &mut self,
        (db, key): (u16, &[u8]),
        least: usize,
        amid: Option<&BlockRun>,
    ) -> Option<((Value, Option<UnixMs>), usize)> {
        let hashed = self.engine.shared.clone().keyspace.hasher().key(key);
        let copy = |engine: &mut Engine, held: &Held| {
            let there = engine.view(held, db);
            let entry = there.peek(&hashed).filter(|entry| entry.memory() >= least)?;
            Some(((entry.to_value(), entry.expiry()), entry.memory()))
        };
        self.under(hashed.slot, amid, copy).flatten()
    }

    /// Calls `f` with the latch of a slot, which the block that runs there may have. `None`: it is not to be had.
    fn under<R>(&mut self, slot: u16, amid: Option<&BlockRun>, f: impl FnOnce(&mut Engine, &Held) -> R) -> Option<R> {
        if let Some(block) = amid.filter(|block| block.held().covers(slot)) {
            return Some(f(&mut self.engine, block.held()));
        }
        let held = self.engine.acquire_for(Need::Slots([slot].as_slice().into()), 0).ok()?;
        let result = f(&mut self.engine, &held);
        self.engine.release(held);
        Some(result)
    }

    /// When a key expires, and the first of its fields that have not expired at `from`. `amid`: as
    /// for [`Self::put`].
    pub fn ends(&mut self, (db, key): (u16, &[u8]), from: UnixMs, amid: Option<&BlockRun>) -> [Option<UnixMs>; 2] {
        let shared = self.engine.shared.clone();
        let key = shared.keyspace.hasher().key(key);
        let of = |entry: keyspace::EntryRef<'_>| [entry.expiry(), entry.field_expiry_from(from)];
        let look = |engine: &mut Engine, held: &Held| engine.view(held, db).peek(&key).map_or([None; 2], of);
        self.under(key.slot, amid, look).unwrap_or_default()
    }

    /// The effect that makes a key what it is; empty: the key is absent.
    pub fn image(&mut self, db: u16, key: &[u8]) -> Vec<u8> {
        let shared = self.engine.shared.clone();
        let key = shared.keyspace.hasher().key(key);
        let mut image = Vec::new();
        let Ok(held) = self.engine.acquire_for(Need::Slots([key.slot].as_slice().into()), 0) else { return image };
        if let Some(entry) = self.engine.view(&held, db).peek(&key) {
            effects::put_image(db, entry, &mut image);
        }
        self.engine.release(held);
        image
    }

    /// The results since the last call.
    pub fn take(&mut self) -> Made {
        let encoded = std::mem::take(&mut self.engine.fx.encoded);
        for effect in effects::decode(&encoded).flatten().filter(|effect| !effect.is_barrier()) {
            self.keys.insert((effect.db, effect.key.into()));
        }
        Made { effects: encoded, events: self.engine.take_published() }
    }

    /// The wait that the last command wanted, if it found nothing, and answered so.
    pub fn take_unwaited(&mut self) -> Option<command::Block> {
        self.engine.unwaited.take()
    }

    /// Empties it, for reuse. False: it is not as it should be, and must not be reused.
    pub fn clear(&mut self) -> bool {
        let _ = (self.take(), self.take_unwaited());
        let shared = self.engine.shared.clone();
        for (db, key) in std::mem::take(&mut self.keys) {
            let key = shared.keyspace.hasher().key(&key);
            let need = Need::Slots([key.slot].as_slice().into());
            let Ok(held) = self.engine.acquire_for(need, 0) else { return false };
            let version = self.engine.next_version(&held);
            self.engine.db(&held, db, version).remove(&key);
            self.engine.release(held);
        }
        self.engine.fx.touched.clear();
        self.engine.local.take_sightings();
        let _ = self.engine.take_seen();
        while self.engine.has_garbage() && self.engine.step_garbage(1000) {}
        let empty = |db| shared.keyspace.is_empty(db);
        self.engine.parts.is_empty()
            && self.engine.wakes.is_empty()
            && (0..shared.keyspace.databases() as u16).all(empty)
    }
}

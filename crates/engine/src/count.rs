//! How many keys there are in slots, for statistics.

use keyspace::{Held, Need};

use crate::block::BlockRun;
use crate::call::Busy;
use crate::engine::Engine;

/// Looks at a latch that another worker has before the command waits: commands take a microsecond.
const LOOKS: usize = 2000;

impl Engine {
    /// Number of keys of all databases in a slot, with those that are in the store alone. `block`: that runs, with its
    /// latches.
    ///
    /// # Errors
    /// The latch, if another worker has it for longer than a moment.
    pub fn keys_in_slot(&mut self, slot: u16, block: Option<&BlockRun>) -> Result<u64, Busy> {
        if let Some(held) = block.map(BlockRun::held).filter(|held| held.covers(slot)) {
            return Ok(self.keys_in(held, slot));
        }
        for _ in 0..LOOKS {
            let Some(held) = self.shared.keyspace.try_one(slot) else {
                std::hint::spin_loop();
                continue;
            };
            let keys = self.keys_in(&held, slot);
            let wakes = &mut self.wakes;
            self.shared.keyspace.release(held, |waiter| wakes.push(waiter));
            return Ok(keys);
        }
        Err(Busy::latch(Need::Slots([slot].as_slice().into()), slot))
    }

    fn keys_in(&self, held: &Held, slot: u16) -> u64 {
        let keyspace = &self.shared.keyspace;
        let cold = keyspace.tables_of(held, slot).into_iter().filter_map(|db| keyspace.cold(held, slot, db));
        keyspace.keys_of(held, slot) + cold.map(|figures| figures.keys).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::Keyspace;

    use crate::testing::run;
    use crate::{Engine, Shared};

    #[test]
    fn keys_of_all_databases_count() {
        let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 16, 7))), 0, 1);
        let slot = keyspace::slot_of(b"{t}a");
        assert_eq!(engine.keys_in_slot(slot, None).ok(), Some(0));
        for (db, words) in [(0, ["set", "{t}a", "1"]), (0, ["set", "{t}b", "1"]), (3, ["set", "{t}a", "1"])] {
            run(&mut engine, db, &words);
        }
        run(&mut engine, 0, &["set", "elsewhere", "1"]);
        assert_eq!(engine.keys_in_slot(slot, None).ok(), Some(3));
        let held = engine.shared.keyspace.try_one(slot).expect("a free latch");
        assert_eq!(engine.keys_in_slot(slot, None).err().map(|busy| busy.slot), Some(slot));
        engine.shared.keyspace.release(held, |_| {});
    }
}

//! FLUSHDB, FLUSHALL, SWAPDB: the changes of whole databases that handlers ask for, and their consequences.

use command::Barrier;
use keyspace::Held;

use crate::engine::Engine;

impl Engine {
    /// Changes whole databases. Everything is held. Keys that are watched or waited for count as changed if they were
    /// there, or are there now.
    pub(crate) fn carry_out(&mut self, barrier: Barrier, held: &Held) {
        let mut touched = self.watched_present(held, |db| barrier.concerns(db));
        self.fx.touched.append(&mut touched);
        self.invalidate_all(held);
        let shared = self.shared.clone();
        self.reclaims.extend(barrier.carry_out(&shared.keyspace, held, &mut self.local));
    }
}

//! Planted mistakes with the locks of attempts.

use txn::locks::Mode;
use txn::{Lock, Stamp, TxnId};

use super::world::World;

impl World {
    /// A planted mistake: a prepared participant gives its locks back.
    pub(super) fn unlock_early(&mut self, node: usize) {
        let machine = &self.members[node].host.machine;
        let outcomes = machine.node.engine.transactions.outcomes();
        let mut engine = engine::Engine::new(machine.node.engine.clone(), machine.node.spare_local() as u16, 1);
        for prepared in outcomes.prepared() {
            let _ = engine.unlock(prepared.tx, &prepared.locks, 0);
        }
        engine.wakes.drain(..).for_each(|waiter| machine.node.wake(waiter));
    }

    /// A planted mistake: while a node holds parts back, an attempt that is over asks for the keys of a prepared one,
    /// and is dropped.
    pub(super) fn ask_overdue(&mut self, node: usize) {
        let machine = &self.members[node].host.machine;
        let now = self.members[node].host.hardware.clock.unix_ms();
        if machine.node.pauses.current(now).is_none() {
            return;
        }
        let outcomes = machine.node.engine.transactions.outcomes();
        let mut engine = engine::Engine::new(machine.node.engine.clone(), machine.node.spare_local() as u16, 1);
        if let Some(prepared) = outcomes.prepared().next() {
            let locks: Vec<Lock> =
                prepared.locks.iter().map(|lock| Lock { mode: Mode::Exclusive, ..lock.clone() }).collect();
            let over = TxnId { attempt: u32::MAX, ..prepared.tx };
            let _ = engine.lock_attempt((over, (Stamp::default(), false), &locks), || true, &mut false, 0);
        }
    }
}

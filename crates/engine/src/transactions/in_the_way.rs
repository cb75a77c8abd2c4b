//! The obstacle of a command or an attempt that waits, for people to know.

use keyspace::Waiter;
use txn::locks::{Locks, Mode};
use txn::{Lock, TxnId};

use super::locks::{Latched, Owner};
use crate::attachment::DbKey;
use crate::engine::Engine;

/// The holder of a key that is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// An attempt of a transaction over nodes.
    Attempt(TxnId),
    /// The command of a connection, by its worker and the worker's name for it.
    Command(u16, u64),
}

/// See the module's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InTheWay {
    /// The lock of a key.
    Lock {
        /// The key's database.
        db: u16,
        /// The key.
        key: Box<[u8]>,
        /// The holder of the lock, or the first that waits for it.
        holder: Holder,
    },
    /// Attempts, with any locks: the first of them.
    Attempts(TxnId),
    /// A latch, for now.
    Latch,
    /// No lock: perhaps the store is being read for a key.
    Store,
}

impl Engine {
    /// The obstacle of a connection's command.
    pub fn in_the_way_of_command(&mut self, token: u64) -> InTheWay {
        if self.awaits_quiet(token)
            && let Some(tx) = self.shared.transactions.first()
        {
            return InTheWay::Attempts(tx);
        }
        let keys: Vec<(DbKey, Mode)> =
            self.claimed(token).map(|(db, key, mode)| ((db, Box::from(key)), mode)).collect();
        self.in_the_way_of(Owner::Plain(Waiter { worker: self.index, token }), keys)
    }

    /// The obstacle of an attempt that has asked for its locks.
    pub fn in_the_way_of_attempt(&mut self, tx: TxnId, locks: &[Lock]) -> InTheWay {
        let keys = locks.iter().map(|lock| ((lock.db, lock.key.clone()), lock.mode)).collect();
        self.in_the_way_of(Owner::Attempt(tx), keys)
    }

    fn in_the_way_of(&mut self, owner: Owner, keys: Vec<(DbKey, Mode)>) -> InTheWay {
        let shared = self.shared.clone();
        let mut is_latched = false;
        for (key, mode) in keys {
            let Some(held) = self.acquire_one(keyspace::slot_of(&key.1)) else {
                is_latched = true;
                continue;
            };
            let other = Latched::new(&shared, &held).of(&key, |lock| {
                if lock.held_by(owner).is_some_and(|has| has >= mode) {
                    return None;
                }
                let mut others = lock.held().chain(lock.waiting()).map(|(other, _)| other);
                others.find(|other| *other != owner)
            });
            self.release(held);
            if let Some(other) = other.flatten() {
                let holder = match other {
                    Owner::Attempt(tx) => Holder::Attempt(tx),
                    Owner::Plain(waiter) => Holder::Command(waiter.worker, waiter.token),
                };
                return InTheWay::Lock { db: key.0, key: key.1, holder };
            }
        }
        if is_latched { InTheWay::Latch } else { InTheWay::Store }
    }
}

//! Changes of whole databases: FLUSHDB, FLUSHALL, SWAPDB (rule L12).
//!
//! A handler only asks for one. The caller of handlers carries it out when the handler has returned, before anything
//! else runs, with every latch held. Only the engine knows which clients watch or wait for the keys that go.

use keyspace::{Held, Keyspace, Local, Reclaim};
use object::Corrupt;

use crate::effects::{Effect, Effects, op};
use crate::generation::Generation;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// Empties this logical database, or all.
    Flush(Option<u16>),
    /// Exchanges two logical databases.
    Swap(u16, u16),
}

/// What an effect is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About<'a> {
    /// One key.
    Key,
    /// Whole databases.
    Databases(Barrier),
    /// The libraries of functions, as FUNCTION DUMP gives them.
    Libraries(&'a [u8]),
    /// The state of an attempt of a transaction over nodes, in `txn`'s terms.
    Transaction(&'a [u8]),
    /// The log itself.
    Generation(Generation),
}

impl Barrier {
    /// Changes the keyspace, all of which is held. The returned work must be stepped to its end.
    pub fn carry_out(self, keyspace: &Keyspace, held: &Held, local: &mut Local) -> Option<Reclaim> {
        match self {
            Barrier::Flush(db) => Some(keyspace.flush(held, local, db)),
            Barrier::Swap(a, b) => {
                keyspace.swap_databases(held, a, b);
                None
            }
        }
    }

    /// The logical databases in which keys of `db` may be before or after; `None` if the barrier does not concern `db`.
    pub fn concerns(self, db: u16) -> Option<Vec<u16>> {
        match self {
            Barrier::Flush(only) => only.is_none_or(|n| n == db).then(|| vec![db]),
            Barrier::Swap(a, b) => (a == db || b == db).then(|| vec![a, b]),
        }
    }
}

impl Effects {
    /// Notes the present libraries of functions: see [`op::LIBRARIES`].
    pub fn push_libraries(&mut self, payload: &[u8]) {
        self.dirty += 1;
        if self.recording {
            self.encode(op::LIBRARIES, 0, b"", |w| w.0.extend_from_slice(payload));
        }
    }

    /// Notes the state of an attempt of a transaction over nodes: see [`op::TRANSACTION`]. That is no change.
    pub fn push_transaction(&mut self, record: &[u8]) {
        self.encode(op::TRANSACTION, 0, b"", |w| w.0.extend_from_slice(record));
    }

    /// Asks for a barrier. `changes`: how many keys it changes.
    pub fn push_barrier(&mut self, barrier: Barrier, changes: u64) {
        self.dirty += changes;
        if self.recording {
            match barrier {
                Barrier::Flush(db) => {
                    self.encode(op::FLUSH, db.unwrap_or(0), b"", |w| w.u8(u8::from(db.is_none())));
                }
                Barrier::Swap(a, b) => self.encode(op::SWAP, a, b"", |w| w.varint(b.into())),
            }
        }
        self.barrier = Some(barrier);
    }
}

impl<'a> Effect<'a> {
    /// The subject of the effect. The payload is read for that, unless it is a key.
    ///
    /// # Errors
    ///
    /// Its bytes are no such effect.
    pub fn about(&mut self) -> Result<About<'a>, Corrupt> {
        Ok(match self.op {
            op::FLUSH | op::SWAP => About::Databases(self.barrier()?.ok_or(Corrupt("a change of databases"))?),
            op::LIBRARIES => About::Libraries(self.payload.0),
            op::TRANSACTION => About::Transaction(self.payload.0),
            op::GENERATION => About::Generation(self.generation()?.ok_or(Corrupt("a mark of a generation"))?),
            _ => About::Key,
        })
    }

    /// The present libraries of functions, as FUNCTION DUMP gives them, if the effect is about them.
    pub fn libraries(&self) -> Option<&'a [u8]> {
        (self.op == op::LIBRARIES).then_some(self.payload.0)
    }

    /// The state of an attempt of a transaction over nodes, in `txn`'s terms, if the effect is about one.
    pub fn transaction(&self) -> Option<&'a [u8]> {
        (self.op == op::TRANSACTION).then_some(self.payload.0)
    }

    /// True if it concerns no single entry.
    pub fn is_barrier(&self) -> bool {
        matches!(self.op, op::FLUSH | op::SWAP | op::LIBRARIES | op::GENERATION | op::TRANSACTION)
    }

    /// Its barrier, if it is not about a single entry.
    ///
    /// # Errors
    ///
    /// Its bytes are no such effect.
    pub fn barrier(&mut self) -> Result<Option<Barrier>, Corrupt> {
        match self.op {
            op::FLUSH => Ok(Some(Barrier::Flush((self.payload.u8()? == 0).then_some(self.db)))),
            op::SWAP => {
                let other = u16::try_from(self.payload.varint()?).map_err(|_| Corrupt("database number"))?;
                Ok(Some(Barrier::Swap(self.db, other)))
            }
            _ => Ok(None),
        }
    }
}

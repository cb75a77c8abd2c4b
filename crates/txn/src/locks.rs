//! Key locks: logical locks on single keys, held by transactions over messages and log writes.
//!
//! A [`KeyLock`] is the lock of one key: its holders and waiters, first come, first served. The keeper of keys (the
//! engine, by slot, under the slot's latch) keeps their locks and gives access to them through [`Locks`]. A key without
//! a lock is free, and takes no memory. Many keys are asked for at once ([`request`]), with the latches of all of them
//! held. So of any two conflicting requests at a node one is before the other at *all* keys, and there is no circle
//! inside a node.
//!
//! Wait-die prevents circles over nodes (rule T7): a transaction waits only for younger ones. A transaction that is
//! older than all it would wait for waits. Any other is refused ("dies") and tries again with the same age. It would
//! wait for holders and for earlier waiters.
//!
//! Plain commands, which lock for no longer than they run, queue as well and are never refused ([`request_plain`]).
//! They may be links of a circle: a transaction waits for a plain command that waits for a transaction. Therefore a
//! plain command that waits counts as old as the *oldest* transaction that it waits for. A transaction that may wait
//! for it is older than all of them. It waits for no further ones once it has asked, so it names them then; those that
//! have ended since do not count. (If it kept the age of an ended one, later waiters would inherit that. Where plain
//! commands never stop coming, every younger transaction would be refused for ever.)
//!
//! The same holds for a transaction that has nothing at other nodes (*patient*). Like a plain command it waits at one
//! node only, and no transaction waits for it elsewhere. It counts as old as the oldest that it waits for, or as it is
//! itself. For later requests, at other nodes, its own age counts. In this way a refused transaction tries again:
//! first, and alone, at the node with the conflict, and at the others when it has its keys there. Otherwise a
//! transaction that wants a popular key would have to come by chance when the key is free.

mod key;
mod request;
mod table;

pub use key::{Asker, KeyLock};
pub use request::{Locks, Requested, release, request, request_plain, restore, upgrade};
pub use table::LockTable;

/// The mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// True if the two cannot be held by two at a time.
    pub fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

//! Key locks: logical locks on single keys, held by transactions over messages and log writes.
//!
//! A [`KeyLock`] is the lock of one key: who holds it and who waits for it, first come, first served. Whoever keeps keys (the engine, by
//! slot, under the slot's latch) keeps their locks and gives access to them through [`Locks`]; a key without a lock is free, and nothing is
//! kept of it. Many keys are asked for at once ([`request`]), with the latches of all of them held: so of any two requests at a node that are in each
//! other's way one is before the other at *all* keys, and nobody waits in a circle inside a node.
//!
//! Over nodes circles are prevented by wait-die (rule T7): a transaction waits only for younger ones. Whoever is older than all it would wait
//! for waits; any other is refused ("dies") and tries again as old as it was. It would wait for holders and for those who came earlier and wait.
//!
//! Plain commands, which lock for no longer than they run, queue as well and are never refused ([`request_plain`]). They may be links of a circle:
//! a transaction waits for a plain command that waits for a transaction. Therefore a plain command that waits counts as old as the *oldest*
//! transaction it waits for: whoever is allowed to wait for it is older than all that. It waits for no further ones once it has asked, so it says
//! then which they are; those that have ended since do not count. (If it kept the age of one that has ended, those behind it would inherit that, and
//! where plain commands never stop coming whatever is younger would be refused for ever.)
//!
//! So does a transaction that has nothing at other nodes (*patient*): it waits at one node only, as a plain command does, and nobody waits for it elsewhere. It
//! counts as old as the oldest it waits for, or as it is itself: what it asks for later, at other nodes, it asks for by its own age. That is how a transaction that was
//! refused tries again: first, and alone, where it was in somebody's way, and elsewhere when it has its keys there. Otherwise whoever wants a key that many want would
//! have to come by chance when it is free.

mod key;
mod request;
mod table;

pub use key::{Asker, KeyLock};
pub use request::{Locks, Requested, release, request, request_plain, restore, upgrade};
pub use table::LockTable;

/// How a key is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Together with others who read it.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// Whether the two cannot be held by two at a time.
    pub fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

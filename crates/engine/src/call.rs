//! A command ready to run, and how running it ended.

use std::sync::Arc;

use command::{Row, Run};
use keyspace::{Key, Need};
use resp::{Args, Protocol};

use crate::blocked::{Blocked, Seat};
use crate::tracking::Caller;
use crate::walker::Walking;

/// A command of the data plane on behalf of one session.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What to run. The number of arguments has been checked against its arity.
    pub row: &'static Row<Run>,
    /// Its arguments.
    pub args: Args<'a>,
    /// The key at argument 1, if it was hashed already.
    pub first: Option<Key<'a>>,
    /// Selected logical database.
    pub db: u16,
    /// Protocol of the reply.
    pub protocol: Protocol,
    /// The worker's name for the session, for wake-ups.
    pub token: u64,
    /// Where its session sits while it waits; without a seat it answers its nil at once.
    pub seat: Option<&'a Seat>,
    /// For whom it runs.
    pub caller: Caller,
}

/// How running ended.
#[must_use]
pub enum Ran {
    /// The reply (or error) has been written.
    Done,
    /// A latch is busy: nothing has happened. Park, or try again.
    Busy(Busy),
    /// The command waits in the queues of its keys.
    Blocked(Arc<Blocked>),
    /// The command walks over the keyspace, or has more to reply: step it until it is done.
    Walking(Box<Walking>),
}

/// What was needed, and which slot of it was busy.
#[derive(Debug)]
pub struct Busy {
    /// All latches the command needs.
    pub need: Need,
    /// The one that was taken.
    pub slot: u16,
    /// None was, but keys have to be fetched first, one of them in that slot: who waits is woken when they are there.
    pub awaited: bool,
}

impl Busy {
    /// The latch of `slot` was taken.
    pub(crate) fn latch(need: Need, slot: u16) -> Self {
        Self { need, slot, awaited: false }
    }
}

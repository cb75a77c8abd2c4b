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
    /// The command. The number of arguments was checked against its arity.
    pub row: &'static Row<Run>,
    /// Its arguments.
    pub args: Args<'a>,
    /// The command's only key, at argument 1, if it was hashed already.
    pub first: Option<Key<'a>>,
    /// Selected logical database.
    pub db: u16,
    /// Protocol of the reply.
    pub protocol: Protocol,
    /// The worker's name for the session, for wake-ups.
    pub token: u64,
    /// The seat of its session while it waits; without one it answers its nil at once.
    pub seat: Option<&'a Seat>,
    /// The caller that it runs for.
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

/// The latches that were needed, and the slot that was busy.
#[derive(Debug)]
pub struct Busy {
    /// All latches the command needs.
    pub need: Need,
    /// The slot that was busy.
    pub slot: u16,
    /// No slot was busy, but keys have to be fetched first, one of them in that slot: the connection is woken when they
    /// are there.
    pub awaited: bool,
}

impl Busy {
    /// The latch of `slot` was taken.
    pub(crate) fn latch(need: Need, slot: u16) -> Self {
        Self { need, slot, awaited: false }
    }
}

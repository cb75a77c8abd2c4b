//! The object on a slot while a client watches, waits for, caches or locks keys in it.

use std::collections::BTreeMap;

use keyspace::{Held, Keyspace};
use txn::locks::KeyLock;

use crate::serve::Queue;
use crate::tracking::Readers;
use crate::transactions::Owner;

/// A key with its logical database.
pub(crate) type DbKey = (u16, Box<[u8]>);

/// Watched keys, blocked clients, cached and locked keys of one slot; guarded by its latch.
#[derive(Default)]
pub(crate) struct Attachment {
    /// By key: how many sessions watch it, and a number that each change since has raised. The entry is the
    /// tombstone of rule K5: it outlives the key.
    pub(crate) watched: BTreeMap<DbKey, Watched>,
    /// By key: the commands that wait for it, in order of arrival (rule K4).
    pub(crate) blocked: BTreeMap<DbKey, Queue>,
    /// How many of the waiting commands, counted once for each of their keys here, name other keys, too.
    pub(crate) reaching: usize,
    /// Keys that clients may have cached, in any database.
    pub(crate) tracked: BTreeMap<Box<[u8]>, Readers>,
    /// Keys that transactions over nodes have locked.
    pub(crate) locks: BTreeMap<DbKey, KeyLock<Owner>>,
}

pub(crate) struct Watched {
    pub(crate) sessions: usize,
    pub(crate) changes: u64,
}

impl Attachment {
    /// Calls `f` with the attachment of a held slot, if there is one.
    pub(crate) fn of<R>(ks: &Keyspace, held: &Held, slot: u16, f: impl FnOnce(&mut Attachment) -> R) -> Option<R> {
        ks.with_attachment(held, slot, |a| a.downcast_mut().map(f)).flatten()
    }

    /// Calls `f` with the slot's attachment, made if need be, and takes it off again if nothing is left on it.
    pub(crate) fn with<R>(ks: &Keyspace, held: &Held, slot: u16, f: impl FnOnce(&mut Attachment) -> R) -> R {
        if !ks.interest(held, slot) {
            ks.attach(held, slot, Some(Box::<Attachment>::default()));
        }
        let Some(result) = Self::change(ks, held, slot, f) else { unreachable!("attached above") };
        result
    }

    /// Calls `f` with the slot's attachment, if there is one, and takes it off if nothing is left on it.
    pub(crate) fn change<R>(ks: &Keyspace, held: &Held, slot: u16, f: impl FnOnce(&mut Attachment) -> R) -> Option<R> {
        let (result, idle) = Self::of(ks, held, slot, |a| (f(a), a.is_idle()))?;
        if idle {
            ks.attach(held, slot, None);
        }
        Some(result)
    }

    fn is_idle(&self) -> bool {
        self.watched.is_empty() && self.blocked.is_empty() && self.tracked.is_empty() && self.locks.is_empty()
    }
}

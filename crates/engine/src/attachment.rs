//! What the engine hangs on a slot while somebody watches or waits for keys in it.

use std::collections::BTreeMap;

use keyspace::{Held, Keyspace};

use crate::serve::Queue;

/// A key with its logical database.
pub(crate) type DbKey = (u16, Box<[u8]>);

/// Watched keys and blocked clients of one slot; guarded by its latch.
#[derive(Default)]
pub(crate) struct Attachment {
    /// By key: how many sessions watch it, and the version of the last change while it was watched. The entry is the
    /// tombstone of rule K5: it outlives the key.
    pub(crate) watched: BTreeMap<DbKey, Watched>,
    /// By key: who waits for it, in order of arrival (rule K4).
    pub(crate) blocked: BTreeMap<DbKey, Queue>,
    /// How many of those who wait, counted once for each of their keys here, name other keys, too.
    pub(crate) reaching: usize,
}

pub(crate) struct Watched {
    pub(crate) sessions: usize,
    pub(crate) version: u64,
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
        let used = Self::of(ks, held, slot, |a| (f(a), a.watched.is_empty() && a.blocked.is_empty()));
        let Some((result, idle)) = used else { unreachable!("attached above") };
        if idle {
            ks.attach(held, slot, None);
        }
        result
    }
}

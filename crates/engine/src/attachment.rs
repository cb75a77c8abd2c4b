//! What the engine hangs on a slot while somebody watches or waits for keys in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use keyspace::{Held, Keyspace};

use crate::blocked::Blocked;

/// A key with its logical database.
pub(crate) type DbKey = (u16, Box<[u8]>);

/// Watched keys and blocked clients of one slot; guarded by its latch.
#[derive(Default)]
pub(crate) struct Attachment {
    /// By key: how many sessions watch it, and the version of the last change while it was watched. The entry is the
    /// tombstone of rule K5: it outlives the key.
    pub(crate) watched: BTreeMap<DbKey, Watched>,
    /// By key: who waits for it, in order of arrival (rule K4).
    pub(crate) blocked: BTreeMap<DbKey, VecDeque<Arc<Blocked>>>,
}

pub(crate) struct Watched {
    pub(crate) sessions: usize,
    pub(crate) version: u64,
}

impl Attachment {
    /// The attachment of a held slot, if there is one.
    pub(crate) fn of<'a>(ks: &'a Keyspace, held: &'a Held, slot: u16) -> Option<&'a mut Attachment> {
        ks.attachment(held, slot)?.downcast_mut()
    }

    /// Calls `f` with the slot's attachment, made if need be, and takes it off again if nothing is left on it.
    pub(crate) fn with<R>(ks: &Keyspace, held: &Held, slot: u16, f: impl FnOnce(&mut Attachment) -> R) -> R {
        if Self::of(ks, held, slot).is_none() {
            ks.attach(held, slot, Some(Box::<Attachment>::default()));
        }
        let (result, idle) = match Self::of(ks, held, slot) {
            Some(a) => {
                let result = f(a);
                (result, a.watched.is_empty() && a.blocked.is_empty())
            }
            None => unreachable!("attached above"),
        };
        if idle {
            ks.attach(held, slot, None);
        }
        result
    }
}

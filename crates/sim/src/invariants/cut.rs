//! The records that survive are a consistent cut over the streams (rules L4, L5). A write to a slot survives only with
//! every earlier write to that slot. Clients that copy check the records that a write has read.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::SLOTS;
use redolog::Lsn;

use super::{Restart, Verdict, violated};
use crate::machine::slots_of;

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(restart: &Restart<'_>) -> Verdict {
    // By slot: the first record there that is lost.
    let mut lost: BTreeMap<u16, (Lsn, u16)> = BTreeMap::new();
    let mut lost_everywhere: Option<(Lsn, u16)> = None;
    for (&at, records) in restart.written {
        let (lsn, stream) = at;
        let survived = lsn <= restart.start.ends[usize::from(stream)];
        for effects in records {
            let slots = slots_of(effects);
            if slots.as_ref().is_some_and(BTreeSet::is_empty) {
                // A moment's record belongs to no slot.
                continue;
            }
            if !survived {
                match slots {
                    Some(slots) => {
                        for slot in slots {
                            lost.entry(slot).or_insert(at);
                        }
                    }
                    None => lost_everywhere = lost_everywhere.or(Some(at)),
                }
                continue;
            }
            let before = match slots {
                Some(slots) => slots.iter().find_map(|slot| lost.get(slot)).copied(),
                None => (0..SLOTS as u16).find_map(|slot| lost.get(&slot)).copied(),
            };
            if let Some(before) = before.or(lost_everywhere).filter(|before| before.0 < lsn) {
                return violated("cut", format_args!("the record {at:?} survived without {before:?} before it"));
            }
        }
    }
    Ok(())
}

//! The log is not cut before the store has its contents (rule C3). For the life that ended: a record that a stream no
//! longer holds lies at or below the C(s) of every slot it wrote.

use keyspace::SLOTS;

use super::{Restart, Verdict, violated};
use crate::machine::{Machine, slots_of};

/// After every step of the checkpointer: the cut part of the log is durable in the store.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_cut(machine: &Machine) -> Verdict {
    match &machine.outside.cuts_too_far {
        Some(what) => violated("truncation", what),
        None => Ok(()),
    }
}

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(restart: &Restart<'_>) -> Verdict {
    for (&(lsn, stream), records) in restart.written {
        if lsn > restart.start.bases[usize::from(stream)] {
            continue;
        }
        for effects in records {
            // A flush or swap concerns all slots.
            let slots = slots_of(effects).unwrap_or_else(|| (0..SLOTS as u16).collect());
            let covered = |slot: &u16| restart.start.covered.get(usize::from(*slot)).copied().unwrap_or_default();
            let open = slots.iter().find(|slot| covered(slot) < lsn && slots.len() < SLOTS);
            if let Some(slot) = open {
                let what =
                    format_args!("the log has given up {lsn} of stream {stream}, C({slot}) is {}", covered(slot));
                return violated("truncation", what);
            }
        }
    }
    Ok(())
}

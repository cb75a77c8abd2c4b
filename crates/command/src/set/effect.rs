//! The effects of sets.

use keyspace::{Db, Key};
use object::hashed::RECORD_BYTES_MAX;
use object::{Corrupt, Limits, Set};

use super::add_all;
use crate::effects::{Reader, op};

/// Payload: members (bytes each), to the end.
pub(super) const ADD: u8 = op::SETS;
/// Payload: members (bytes each), to the end. Some others are left.
pub(super) const REMOVE: u8 = op::SETS + 1;

/// Applies an effect of this family.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    const NO_SET: Corrupt = Corrupt("effect on a set that is not there");
    let mut members = Vec::new();
    while !r.is_empty() {
        members.push(r.bytes()?);
    }
    match number {
        ADD => {
            if members.iter().any(|member| member.len() > RECORD_BYTES_MAX) {
                return Err(Corrupt("member too long"));
            }
            add_all(db, key, members.into_iter(), limits).map_err(|_| NO_SET)?;
        }
        REMOVE => {
            let mut set = db.get_mut::<Set>(key).map_err(|_| NO_SET)?.ok_or(NO_SET)?;
            members.into_iter().for_each(|member| _ = set.remove(member));
        }
        _ => return Err(Corrupt("unknown set effect")),
    }
    Ok(())
}

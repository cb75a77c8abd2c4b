//! The effects of sorted sets.

use crate::effects::{Reader, op};
use keyspace::{Db, Expiry, Key};
use object::{Corrupt, Limits, ZSet};

/// Payload: number of pairs (varint), pairs of score (8 bytes) and member (bytes): these members have these scores now.
pub(super) const SET: u8 = op::ZSETS;
/// Payload: number of members (varint), members (bytes each). Some are left.
pub(super) const REMOVE: u8 = op::ZSETS + 1;
/// Payload: first rank, number of members (varints): these are removed. Some are left.
pub(super) const REMOVE_RANKS: u8 = op::ZSETS + 2;
/// Payload: the set in its own encoding, to the end. The former value of the key is gone, its expiry too.
pub(super) const STORE: u8 = op::ZSETS + 3;

/// Applies an effect of this family.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    const NO_SET: Corrupt = Corrupt("effect on a sorted set that is not there");
    match number {
        SET => {
            let count = r.varint()?;
            // As many as fit into what is there: a wrong count cannot make this allocate.
            let pairs = (0..count).map(|_| Ok((r.f64()?, r.bytes()?))).collect::<Result<Vec<_>, Corrupt>>()?;
            if pairs.is_empty() || pairs.iter().any(|(score, _)| score.is_nan()) {
                return Err(Corrupt("scores of a sorted set"));
            }
            let mut set = db.get_or_create::<ZSet>(key).map_err(|_| NO_SET)?;
            for (score, member) in pairs {
                set.insert(score, member, limits).map_err(|_| Corrupt("score of a sorted set"))?;
            }
        }
        REMOVE => {
            let mut set = db.get_mut::<ZSet>(key).map_err(|_| NO_SET)?.ok_or(NO_SET)?;
            for _ in 0..r.varint()? {
                set.remove(r.bytes()?);
            }
            drop(set);
            db.remove_if_empty::<ZSet>(key);
        }
        REMOVE_RANKS => {
            let (first, count) = (r.varint()?, r.varint()?);
            let mut set = db.get_mut::<ZSet>(key).map_err(|_| NO_SET)?.ok_or(NO_SET)?;
            set.remove_range(first..first.saturating_add(count));
            drop(set);
            db.remove_if_empty::<ZSet>(key);
        }
        STORE => {
            let set = ZSet::decode(std::mem::take(&mut r.0))?;
            if set.is_empty() {
                return Err(Corrupt("an empty sorted set is stored"));
            }
            db.set_value(key, set.into(), Expiry::Clear);
        }
        _ => return Err(Corrupt("unknown effect of a sorted set")),
    }
    Ok(())
}

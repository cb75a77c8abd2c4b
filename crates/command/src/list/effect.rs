//! The effects of lists.

use crate::effects::{Reader, op};
use keyspace::{Db, Key};
use object::list::End;
use object::{Corrupt, Limits, List};

/// Payload: end, number of elements (varint), elements (bytes each), in the order they were pushed.
pub(super) const PUSH: u8 = op::LISTS;
/// Payload: end, number of elements (varint). Some are left, or will be pushed next.
pub(super) const POP: u8 = op::LISTS + 1;
/// Payload: index (varint), element (bytes).
pub(super) const SET: u8 = op::LISTS + 2;
/// Payload: index the element has afterwards (varint), element (bytes).
pub(super) const INSERT: u8 = op::LISTS + 3;
/// Payload: end from which elements are removed, most elements (varint), element (bytes).
pub(super) const REMOVE: u8 = op::LISTS + 4;
/// Payload: start, end (varints): the indexes that are kept.
pub(super) const TRIM: u8 = op::LISTS + 5;

/// The byte of an end.
pub(super) fn end_byte(end: End) -> u8 {
    match end {
        End::Front => 0,
        End::Back => 1,
    }
}

fn read_end(r: &mut Reader<'_>) -> Result<End, Corrupt> {
    match r.u8()? {
        0 => Ok(End::Front),
        1 => Ok(End::Back),
        _ => Err(Corrupt("end of a list")),
    }
}

/// Applies an effect of this family.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    const NO_LIST: Corrupt = Corrupt("effect on a list that is not there");
    if number == PUSH {
        let (end, count) = (read_end(r)?, r.varint()?);
        // As many as fit into what is there: a wrong count cannot make this allocate.
        let items = (0..count).map(|_| r.bytes()).collect::<Result<Vec<_>, _>>()?;
        let mut list = db.get_or_create::<List>(key).map_err(|_| NO_LIST)?;
        list.push_all(end, items.into_iter(), limits);
        return Ok(());
    }
    let mut list = db.get_mut::<List>(key).map_err(|_| NO_LIST)?.ok_or(NO_LIST)?;
    match number {
        POP => {
            let (end, count) = (read_end(r)?, r.varint()?);
            list.drop_end(end, count, limits);
        }
        SET => {
            let index = r.varint()?;
            list.set(index, r.bytes()?, limits);
        }
        INSERT => {
            let index = r.varint()?;
            list.insert(index, r.bytes()?, limits);
        }
        REMOVE => {
            let (end, count) = (read_end(r)?, r.varint()?);
            list.remove_equal(end, r.bytes()?, count, limits);
        }
        TRIM => {
            let (start, end) = (r.varint()?, r.varint()?);
            list.trim(start..end, limits);
        }
        _ => return Err(Corrupt("unknown list effect")),
    }
    Ok(())
}

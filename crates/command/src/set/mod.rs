//! Sets: SADD to SSCAN.

mod algebra;
mod effect;
mod members;
mod random;
mod rows;
#[cfg(test)]
mod tests;

pub use effect::replay;
pub use rows::ROWS;

use keyspace::{Db, Expiry, Key, WrongType};
use object::{Limits, Set};

use crate::ctx::Ctx;
use crate::effects::op;
use crate::error::Error;
use crate::notify::class;

/// Adds members to the set at `key`, which is made if it is absent; returns how many are new.
fn add_all<'a>(
    db: &mut Db<'_>,
    key: &Key<'_>,
    members: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    limits: &Limits,
) -> Result<u64, WrongType> {
    let add = |set: &mut Set| members.clone().filter(|member| set.add(member, limits)).count() as u64;
    let added = db.edit::<Set, _>(key, |set| {
        set.expect(members.len(), limits);
        let added = add(set);
        (added > 0, added)
    })?;
    if let Some(added) = added {
        return Ok(added);
    }
    let mut set = Set::for_members(members.clone().next().unwrap_or_default(), members.len(), limits);
    let added = add(&mut set);
    if added > 0 {
        db.set_value(key, set.into(), Expiry::Clear);
    }
    Ok(added)
}

/// Deletes a set that has become empty.
fn delete(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    if ctx.db.remove(key) {
        ctx.effect(op::DELETE, key, |_| {});
        ctx.notify(class::GENERIC, "del", key);
    }
}

/// The set at `key`, only for reading.
fn look<'c>(ctx: &'c Ctx<'_>, key: &Key<'_>) -> Result<Option<&'c Set>, Error> {
    Ok(ctx.db.peek(key).map(|entry| entry.collection::<Set>()).transpose()?)
}

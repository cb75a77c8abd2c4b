//! Hashes: HSET to HGETDEL, with the expiry of fields.
//!
//! Fields expire by themselves: a command does not see a field whose time has passed. The command that finds it deletes
//! it (readers too), or the sweep does through [`reclaim`]. HLEN and HDEL count it until then, as in Redis.

mod effect;
mod expire;
mod extended;
mod number;
mod options;
mod random;
mod read;
mod reclaim;
mod rows;
#[cfg(test)]
mod tests;
mod write;

pub use effect::replay;
pub use reclaim::{Reclaimed, reclaim};
pub use rows::ROWS;

use clocks::UnixMs;
use keyspace::Key;
use object::Hash;

use crate::ctx::Ctx;
use crate::effects::op;
use crate::error::Error;
use crate::notify::class;
use effect::{REMOVE, write_all};

/// The facts about a hash for the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    empty: bool,
    next_expiry: Option<UnixMs>,
}

impl State {
    fn of(hash: &Hash) -> Self {
        State { empty: hash.is_empty(), next_expiry: hash.next_expiry() }
    }
}

/// Tells the keyspace the final state of a hash: an empty one is deleted. To be called after the effect on the
/// remaining fields, and after the notification.
fn settle(ctx: &mut Ctx<'_>, key: &Key<'_>, before: State, after: State) {
    if after.empty {
        ctx.db.remove(key);
        ctx.effect(op::DELETE, key, |_| {});
        ctx.notify(class::GENERIC, "del", key);
    } else if before.next_expiry != after.next_expiry {
        ctx.db.set_field_expiry(key, after.next_expiry);
    }
}

/// Selects whether clients hear `hexpired` of the last field of a hash: most commands say `del` alone, as Redis does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LastField {
    Silent,
    Told,
}

/// Deletes those of the named fields that have expired, because a command has met them.
#[cold]
fn drop_expired<'a>(ctx: &mut Ctx<'_>, key: &Key<'_>, names: impl Iterator<Item = &'a [u8]> + Clone, last: LastField) {
    let now = ctx.now;
    if ctx.only_reads {
        return;
    }
    let Ok(Some(mut hash)) = ctx.db.get_mut::<Hash>(key) else { return };
    let before = State::of(&hash);
    let mut gone = Vec::new();
    for name in names {
        if hash.find(name).is_some_and(|field| field.expired(now)) {
            hash.remove(name);
            gone.push(name);
        }
    }
    let after = State::of(&hash);
    drop(hash);
    if gone.is_empty() {
        return;
    }
    keyspace::bump(&ctx.db.local().counters().expired_fields, gone.len() as u64);
    if !after.empty {
        ctx.effect(REMOVE, key, |w| write_all(w, gone.iter().copied()));
    }
    if !after.empty || gone.len() > 1 || last == LastField::Told {
        ctx.notify_fields("hexpired", key, gone.into_iter());
    }
    settle(ctx, key, before, after);
}

/// The hash at `key`, only for reading.
fn look<'c>(ctx: &'c Ctx<'_>, key: &Key<'_>) -> Result<Option<&'c Hash>, Error> {
    Ok(ctx.db.peek(key).map(|entry| entry.collection::<Hash>()).transpose()?)
}

/// Refuses a field that no hash can hold (4 GB; `proto-max-bulk-len` is far below by default).
fn check_length(name: &[u8], value: &[u8]) -> Result<(), Error> {
    if name.len().saturating_add(value.len()) > Hash::FIELD_BYTES_MAX {
        return Err(Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

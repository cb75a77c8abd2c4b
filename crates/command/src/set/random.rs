//! Members by chance: SPOP, SRANDMEMBER.

use keyspace::EntryRef;
use object::Set;
use object::block::Elem;

use super::delete;
use super::effect::REMOVE;
use crate::ctx::{Ctx, Outcome};
use crate::effects::Writer;
use crate::elem::bulk;
use crate::error::Error;
use crate::notify::class;
use crate::sample::{self, Sieve};

/// Members of a set up to this number are walked rather than looked up by rank one by one.
const WALKED_MAX: u64 = 128;

pub(super) fn spop(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let count = match ctx.args.len() {
        2 => None,
        3 => Some(ctx.at_least(2, 0, Error::new("ERR value is out of range, must be positive"))?),
        _ => return Err(Error::SYNTAX),
    };
    if let Some(count) = count.filter(|_| headroom::is_limited()) {
        // Members are answered as they are removed: there must be room for all of them.
        let each = |entry: EntryRef<'_>| entry.memory() as u64 / entry.elements().max(1) + 1;
        let bytes = |entry: EntryRef<'_>| each(entry).saturating_mul(3 * count.min(entry.elements())) as usize;
        let bytes = ctx.db.peek(&key).map_or(0, bytes);
        if !headroom::has_room_to_talk(bytes, bytes) {
            return Err(Error::OOM);
        }
    }
    let recording = ctx.fx.recording;
    let mut payload = Vec::new();
    let popped = ctx.db.edit::<Set, _>(&key, |set| {
        let (len, mut popped) = (set.len(), 0);
        let wanted = count.unwrap_or(1).min(len);
        if count.is_some() {
            ctx.out.set(wanted as usize);
        }
        if wanted == len {
            // The whole key is deleted.
            set.iter().for_each(|member| bulk(&mut ctx.out, member));
            return (wanted > 0, (wanted, true));
        }
        for rank in sample::distinct(ctx.rng, len, wanted) {
            // Ranks ascend, and each is one lower for every member that was removed before.
            set.remove_nth(rank - popped, |member| {
                bulk(&mut ctx.out, member);
                if recording {
                    Writer(&mut payload).bytes(member.as_bytes(&mut itoa::Buffer::new()));
                }
            });
            popped += 1;
        }
        (wanted > 0, (wanted, false))
    })?;
    match popped {
        None if count.is_none() => ctx.out.null(),
        None => ctx.out.set(0),
        Some((0, _)) => {}
        Some((popped, empty)) => {
            ctx.fx.dirty += popped - 1;
            ctx.notify(class::SET, "spop", &key);
            if empty {
                delete(ctx, &key);
            } else {
                ctx.effect(REMOVE, &key, |w| w.0.extend_from_slice(&payload));
            }
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn srandmember(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let count = match ctx.args.len() {
        2 => None,
        3 => Some(ctx.negatable(2)?),
        _ => return Err(Error::SYNTAX),
    };
    let set = ctx.db.read_as::<Set>(&key)?;
    let (Some(set), Some(count)) = (set.filter(|_| count != Some(0)), count) else {
        match (set, count) {
            (Some(set), None) => {
                if let Some(member) = set.nth(ctx.rng.below(set.len())) {
                    bulk(&mut ctx.out, member);
                }
            }
            (None, None) => ctx.out.null(),
            (_, Some(_)) => ctx.out.array(0),
        }
        return Ok(Outcome::Done);
    };
    let len = set.len();
    let number = if count < 0 { count.unsigned_abs() } else { len.min(count as u64) };
    let start = ctx.out.written();
    ctx.out.array(number as usize);
    if count < 0 {
        let walked: Vec<Elem<'_>> = if len <= WALKED_MAX { set.iter().collect() } else { Vec::new() };
        for _ in 0..number {
            let rank = ctx.rng.below(len);
            if let Some(member) = walked.get(rank as usize).copied().or_else(|| set.nth(rank)) {
                bulk(&mut ctx.out, member);
            }
            sample::check_size(ctx.out.written(), start)?;
        }
    } else if len <= WALKED_MAX || number > len / 4 {
        let mut sieve = Sieve::new(len, number);
        set.iter().filter(|_| sieve.next(ctx.rng)).for_each(|member| bulk(&mut ctx.out, member));
    } else {
        for rank in sample::distinct(ctx.rng, len, number) {
            set.nth(rank).into_iter().for_each(|member| bulk(&mut ctx.out, member));
        }
    }
    Ok(Outcome::Done)
}

//! Intersections, unions and differences: SINTER, SUNION, SDIFF, their STORE forms, SINTERCARD.

use std::ops::Range;

use keyspace::{Db, Expiry};
use object::block::Elem;
use object::set::Members;
use object::{Limits, Set};
use resp::Args;

use super::delete;
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::notify::class;

/// What is made of several sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

/// Up to this number of sets a union asks the sets before for each member instead of collecting what it has seen.
const ASKED_MAX: usize = 8;

impl Operation {
    /// Shows each member of the result once to `each`, until it says that it has seen enough. A set that is None is empty.
    fn run(self, sets: &[Option<&Set>], limits: &Limits, mut each: impl FnMut(Elem<'_>) -> bool) {
        let mut present: Vec<&Set> = sets.iter().copied().flatten().collect();
        match self {
            Operation::Intersection => {
                if present.len() < sets.len() {
                    return;
                }
                present.sort_by_key(|set| set.len());
                let Some((smallest, others)) = present.split_first() else { return };
                for member in smallest.iter().filter(|member| others.iter().all(|set| set.contains_elem(*member))) {
                    if !each(member) {
                        return;
                    }
                }
            }
            Operation::Union if present.len() <= ASKED_MAX => {
                // Most members are in the largest sets, which are asked first.
                present.sort_by_key(|set| std::cmp::Reverse(set.len()));
                for (i, set) in present.iter().enumerate() {
                    let new = |member: &Elem<'_>| !present[..i].iter().any(|before| before.contains_elem(*member));
                    if !set.iter().filter(new).all(&mut each) {
                        return;
                    }
                }
            }
            Operation::Union => {
                let mut seen = Set::new();
                for set in present {
                    if !set.iter().filter(|member| seen.add_elem(*member, limits)).all(&mut each) {
                        return;
                    }
                }
            }
            Operation::Difference => {
                let Some(Some(first)) = sets.first() else { return };
                let others = &present[1..];
                // As Redis weighs them: asking the others for each member, against taking each of theirs away.
                let asking = first.len().saturating_mul(present.len() as u64) / 2;
                let taking = present.iter().map(|set| set.len()).sum();
                if asking <= taking || others.iter().any(|set| std::ptr::eq(*set, *first)) {
                    let left = |member: &Elem<'_>| !others.iter().any(|set| set.contains_elem(*member));
                    first.iter().filter(left).all(&mut each);
                } else {
                    // A clone shares what is not taken away.
                    let mut left = Set::clone(first);
                    for member in others.iter().flat_map(|set| set.iter()) {
                        left.remove(member.as_bytes(&mut itoa::Buffer::new()));
                    }
                    left.iter().all(&mut each);
                }
            }
        }
    }
}

/// The sets at these arguments.
fn operands<'c>(db: &'c Db<'_>, args: Args<'_>, at: Range<usize>) -> Result<Vec<Option<&'c Set>>, Error> {
    at.filter_map(|i| args.get(i)).map(|key| Ok(db.read_as::<Set>(&db.key(key))?)).collect()
}

fn show(ctx: &mut Ctx<'_>, operation: Operation) -> Result<Outcome, Error> {
    let limits = &ctx.tunables.limits;
    let sets = operands(&ctx.db, ctx.args, 1..ctx.args.len())?;
    let header = ctx.out.deferred_set();
    let mut len = 0;
    operation.run(&sets, limits, |member| {
        bulk(&mut ctx.out, member);
        len += 1;
        true
    });
    ctx.out.finish(header, len);
    Ok(Outcome::Done)
}

fn store(ctx: &mut Ctx<'_>, operation: Operation, event: &'static str) -> Result<Outcome, Error> {
    let (key, limits) = (ctx.key(1), &ctx.tunables.limits);
    let sets = operands(&ctx.db, ctx.args, 2..ctx.args.len())?;
    let mut members = Members::default();
    operation.run(&sets, limits, |member| {
        members.push(member);
        true
    });
    let result = members.into_set(limits);
    let len = result.len();
    if len == 0 {
        delete(ctx, &key);
    } else {
        ctx.db.set_value(&key, result.into(), Expiry::Clear);
        ctx.image_effect(&key);
        ctx.notify(class::SET, event, &key);
    }
    ctx.out.count(len);
    Ok(Outcome::Done)
}

pub(super) fn sinter(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    show(ctx, Operation::Intersection)
}

pub(super) fn sunion(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    show(ctx, Operation::Union)
}

pub(super) fn sdiff(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    show(ctx, Operation::Difference)
}

pub(super) fn sinterstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store(ctx, Operation::Intersection, "sinterstore")
}

pub(super) fn sunionstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store(ctx, Operation::Union, "sunionstore")
}

pub(super) fn sdiffstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store(ctx, Operation::Difference, "sdiffstore")
}

pub(super) fn sintercard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let keys = ctx.at_least(1, 1, Error::new("ERR numkeys should be greater than 0"))?;
    let given = ctx.args.len() as u64 - 2;
    if keys > given {
        return Err(Error::new("ERR Number of keys can't be greater than number of args"));
    }
    let end = 2 + keys as usize;
    let (mut limit, mut i) = (0, end);
    while i < ctx.args.len() {
        if !ctx.is(i, "limit") || i + 1 == ctx.args.len() {
            return Err(Error::SYNTAX);
        }
        limit = ctx.at_least(i + 1, 0, Error::new("ERR LIMIT can't be negative"))?;
        i += 2;
    }
    let sets = operands(&ctx.db, ctx.args, 2..end)?;
    let mut count = 0;
    Operation::Intersection.run(&sets, &ctx.tunables.limits, |_| {
        count += 1;
        count != limit
    });
    ctx.out.count(count);
    Ok(Outcome::Done)
}

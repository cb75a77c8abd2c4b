//! Intersections, unions and differences: SINTER, SUNION, SDIFF, their STORE forms, and those that only count:
//! SINTERCARD, SUNIONCARD, SDIFFCARD.

use std::any::Any;
use std::ops::Range;

use keyspace::{Db, Expiry};
use object::block::Elem;
use object::hll::{self, REGISTERS, Registers, Trace};
use object::set::Members;
use object::{Limits, Set};
use resp::Args;

use super::delete;
use super::members::show_all;
use crate::ctx::{Ctx, Outcome};
use crate::elem::bulk;
use crate::error::Error;
use crate::notify::class;

/// The operation on several sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

/// Up to this number of sets a union looks each member up in the earlier sets, and does not collect the seen ones.
const ASKED_MAX: usize = 8;

impl Operation {
    /// Shows each member of the result once to `each`, until it has seen enough. A set that is None is empty.
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
                // Most members are in the largest sets, which are checked first.
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
                // Redis's weights: looking each member up in the other sets, against removing each of theirs.
                let asking = first.len().saturating_mul(present.len() as u64) / 2;
                let taking = present.iter().map(|set| set.len()).sum();
                if asking <= taking || others.iter().any(|set| std::ptr::eq(*set, *first)) {
                    let left = |member: &Elem<'_>| !others.iter().any(|set| set.contains_elem(*member));
                    first.iter().filter(left).all(&mut each);
                } else {
                    // A clone shares the members that stay.
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

/// How many members are visited.
fn cost(operation: Operation, sets: &[Option<&Set>]) -> u64 {
    let lengths = sets.iter().map(|set| set.map_or(0, Set::len));
    match operation {
        Operation::Intersection => lengths.min().unwrap_or(0) * sets.len() as u64,
        Operation::Union | Operation::Difference => lengths.sum(),
    }
}

/// The result of `make` for the sets at these arguments, or the outcome of a handler that has it made aside.
fn made<T: Any + Send>(
    ctx: &mut Ctx<'_>,
    operation: Operation,
    at: Range<usize>,
    make: impl FnOnce(&[Option<&Set>]) -> T + Send + 'static,
) -> Result<Result<T, Outcome>, Error> {
    if let Some(made) = ctx.prepared(at.clone()) {
        return Ok(Ok(made));
    }
    let sets = operands(&ctx.db, ctx.args, at.clone())?;
    if !ctx.works_aside(cost(operation, &sets)) {
        return Ok(Ok(make(&sets)));
    }
    let sets: Vec<Option<Set>> = sets.into_iter().map(Option::<&Set>::cloned).collect();
    Ok(Err(ctx.aside(at, move || make(&sets.iter().map(Option::as_ref).collect::<Vec<_>>()))))
}

/// The result as a set.
fn collect(operation: Operation, sets: &[Option<&Set>], limits: &Limits) -> Set {
    let mut members = Members::default();
    operation.run(sets, limits, |member| {
        members.push(member);
        true
    });
    members.into_set(limits)
}

fn show(ctx: &mut Ctx<'_>, operation: Operation) -> Result<Outcome, Error> {
    let at = 1..ctx.args.len();
    if let Some(set) = ctx.prepared::<Set>(at.clone()) {
        return Ok(show_all(&mut ctx.out, Some(&set)));
    }
    let limits = &ctx.tunables.limits;
    let sets = operands(&ctx.db, ctx.args, at.clone())?;
    if ctx.works_aside(cost(operation, &sets)) {
        let sets: Vec<Option<Set>> = sets.into_iter().map(Option::<&Set>::cloned).collect();
        let limits = limits.clone();
        let work = move || collect(operation, &sets.iter().map(Option::as_ref).collect::<Vec<_>>(), &limits);
        return Ok(ctx.aside(at, work));
    }
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
    let (key, limits) = (ctx.key(1), ctx.tunables.limits.clone());
    let result = match made(ctx, operation, 2..ctx.args.len(), move |sets| collect(operation, sets, &limits))? {
        Ok(result) => result,
        Err(outcome) => return Ok(outcome),
    };
    let len = result.len();
    if len == 0 {
        delete(ctx, &key);
    } else {
        let before = ctx.kind_before(&key);
        ctx.db.set_value(&key, result.into(), Expiry::Clear);
        ctx.image_effect(&key);
        ctx.tell_replaced(&key, before);
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

/// The arguments of SINTERCARD and its like.
struct Counting {
    /// Position after the last key; the first is argument 2.
    end: usize,
    /// The bound of the count; 0: none.
    limit: u64,
    /// True if an estimate will do.
    approximately: bool,
}

impl Counting {
    fn parse(ctx: &Ctx<'_>, operation: Operation) -> Result<Self, Error> {
        let keys = ctx.at_least(1, 1, Error::new("ERR numkeys should be greater than 0"))?;
        let given = ctx.args.len() as u64 - 2;
        if keys > given {
            return Err(Error::new("ERR Number of keys can't be greater than number of args"));
        }
        let mut counting = Counting { end: 2 + keys as usize, limit: 0, approximately: false };
        let mut i = counting.end;
        while i < ctx.args.len() {
            if ctx.is(i, "limit") && i + 1 < ctx.args.len() {
                i += 1;
                counting.limit = ctx.at_least(i, 0, Error::new("ERR LIMIT can't be negative"))?;
            } else if operation == Operation::Union && ctx.is(i, "approx") {
                counting.approximately = true;
            } else {
                return Err(Error::SYNTAX);
            }
            i += 1;
        }
        Ok(counting)
    }
}

fn count(ctx: &mut Ctx<'_>, operation: Operation) -> Result<Outcome, Error> {
    let Counting { end, limit, approximately } = Counting::parse(ctx, operation)?;
    let limits = ctx.tunables.limits.clone();
    let count = move |sets: &[Option<&Set>]| {
        if approximately {
            return estimate(sets, limit);
        }
        let mut found = 0u64;
        operation.run(sets, &limits, |_| {
            found += 1;
            found != limit
        });
        found
    };
    match made(ctx, operation, 2..end, count)? {
        Ok(found) => ctx.out.count(found),
        Err(outcome) => return Ok(outcome),
    }
    Ok(Outcome::Done)
}

/// How many members the union of sets has, within a percent: the estimate of a HyperLogLog. It stops at `limit`, unless
/// that is 0.
fn estimate(sets: &[Option<&Set>], limit: u64) -> u64 {
    /// At least so many members are added before the next estimate.
    const AT_ONCE: u64 = 1000;
    let mut registers: Box<Registers> = Box::new([0; REGISTERS]);
    let size = |registers: &Registers| u64::try_from(hll::count(registers)).unwrap_or(0);
    let (mut added, mut look_at) = (0, limit);
    for member in sets.iter().copied().flatten().flat_map(Set::iter) {
        let trace = Trace::of(member.as_bytes(&mut itoa::Buffer::new()));
        if let Some(register) = registers.get_mut(usize::from(trace.register)) {
            *register = trace.value.max(*register);
        }
        added += 1;
        if limit > 0 && added >= look_at {
            let found = size(&registers);
            if found >= limit {
                return limit;
            }
            look_at = added + (limit - found).max(AT_ONCE);
        }
    }
    let found = size(&registers);
    if limit > 0 { found.min(limit) } else { found }
}

pub(super) fn sintercard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    count(ctx, Operation::Intersection)
}

pub(super) fn sunioncard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    count(ctx, Operation::Union)
}

pub(super) fn sdiffcard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    count(ctx, Operation::Difference)
}

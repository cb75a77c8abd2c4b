//! SORT and SORT_RO.

mod elements;
mod options;
mod pattern;

#[cfg(test)]
mod tests;

use keyspace::{Db, Expiry};
use object::list::End;
use object::{Limits, List};

use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::lacking::Lacking;
use crate::list::show;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};
use elements::{Elements, Source};
use options::{Options, reach, store_key};
use pattern::Pattern;

/// The rows of this folder.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "sort",
            arity: -2,
            flags: WRITE | DENYOOM | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            find_keys: Some(store_key),
            categories: &["set", "sortedset", "list", "dangerous"],
            complexity: COMPLEXITY,
            summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] \
                     [STORE destination]",
            ..Spec::NEW
        },
        run: Run::KeyedOrWhole(sort, reach),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "sort_ro",
            arity: -2,
            flags: READONLY | MOVABLE_KEYS | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            categories: &["set", "sortedset", "list", "dangerous"],
            since: "7.0.0",
            complexity: COMPLEXITY,
            summary: "Returns the sorted elements of a list, a set, or a sorted set.",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
            ..Spec::NEW
        },
        run: Run::KeyedOrWhole(sort_ro, reach),
        subcommands: &[],
    },
];

const COMPLEXITY: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of \
                          returned elements. When the elements are not sorted, complexity is O(N).";

fn sort(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, true)
}

fn sort_ro(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    run(ctx, false)
}

fn run(ctx: &mut Ctx<'_>, may_store: bool) -> Result<Outcome, Error> {
    let mut options = Options::parse(ctx, may_store)?;
    if let Some(sorted) = ctx.prepared::<Result<List, Error>>(std::iter::once(1)) {
        return done_aside(ctx, sorted?, options.store);
    }
    let key = ctx.key(1);
    let entry = ctx.db.read(&key);
    let lasts = options.store.is_some() || ctx.in_script;
    if options.keep_order && lasts && entry.is_some_and(|e| e.kind() == keyspace::Kind::Set) {
        // A set has no order to keep: a stored result, or the behaviour of a script, must not depend on its place in
        // memory.
        options.keep_order = false;
        options.alpha = true;
        options.by = None;
    }
    let source = entry.map(Source::of).transpose()?;
    if let Some(source) = source
        && let Some(alone) = options.alone()
        && ctx.works_aside(entry.map_or(0, |entry| entry.elements()))
    {
        let (shared, limits) = (source.share(), ctx.tunables.limits.clone());
        return Ok(ctx.aside(std::iter::once(1), move || sorted(shared.as_source(), &alone, &limits)));
    }
    let elements = source.map_or_else(Elements::default, |source| Elements::of(source, &options));
    let kept_part = options.keep_order && entry.is_some_and(|e| e.kind() != keyspace::Kind::Set);
    if let Some(load) = lacking(&ctx.db, options.by.as_slice(), &elements, 0..elements.len())? {
        return Ok(load);
    }
    let order = if kept_part {
        (0..elements.len()).collect()
    } else if options.keep_order {
        options.range(elements.len()).collect()
    } else {
        elements.order(Some((&ctx.db, ctx.now)), &options)?
    };
    if let Some(load) = lacking(&ctx.db, &options.get, &elements, order.iter().copied())? {
        return Ok(load);
    }
    match options.store {
        Some(at) => store(ctx, at, &elements, &order, &options),
        None => answer(ctx, &elements, &order, &options),
    }
    Ok(Outcome::Done)
}

/// The elements of one value in order, which does not depend on any other key.
fn sorted(source: Source<'_>, options: &Options<'_>, limits: &Limits) -> Result<List, Error> {
    let elements = Elements::of(source, options);
    let mut list = List::new();
    for i in elements.order(None, options)? {
        list.push(End::Back, elements.get(i), limits);
    }
    Ok(list)
}

/// Stores or answers the elements that were sorted aside.
fn done_aside(ctx: &mut Ctx<'_>, list: List, store: Option<usize>) -> Result<Outcome, Error> {
    match store {
        Some(at) => put(ctx, at, list),
        None => {
            let all = 0..list.len();
            return Ok(show(&mut ctx.out, &list, all));
        }
    }
    Ok(Outcome::Done)
}

/// The outcome if memory does not know keys of the patterns.
fn lacking(
    db: &Db<'_>,
    patterns: &[Pattern<'_>],
    elements: &Elements,
    numbers: impl Iterator<Item = usize>,
) -> Result<Option<Outcome>, Error> {
    let mut lacking = Lacking::default();
    if !db.keyspace().has_cold() || !patterns.iter().any(Pattern::varies) {
        return Ok(None);
    }
    let mut name = Vec::new();
    for element in numbers.map(|i| elements.get(i)) {
        for pattern in patterns {
            if pattern.name(element, &mut name) && !lacking.note(db, &name)? {
                return Ok(lacking.outcome());
            }
        }
    }
    Ok(lacking.outcome())
}

fn answer(ctx: &mut Ctx<'_>, elements: &Elements, order: &[usize], options: &Options<'_>) {
    ctx.out.array(order.len() * options.get.len().max(1));
    let mut name = Vec::new();
    for element in order.iter().map(|&i| elements.get(i)) {
        if options.get.is_empty() {
            ctx.out.bulk(element);
        }
        for pattern in &options.get {
            match pattern.find(&ctx.db, ctx.now, element, &mut name) {
                Some(found) => found.with(|text| ctx.out.bulk(text)),
                None => ctx.out.null(),
            }
        }
    }
}

fn store(ctx: &mut Ctx<'_>, at: usize, elements: &Elements, order: &[usize], options: &Options<'_>) {
    let limits = &ctx.tunables.limits;
    let mut list = List::new();
    let mut name = Vec::new();
    for element in order.iter().map(|&i| elements.get(i)) {
        if options.get.is_empty() {
            list.push(End::Back, element, limits);
        }
        for pattern in &options.get {
            match pattern.find(&ctx.db, ctx.now, element, &mut name) {
                Some(found) => found.with(|text| list.push(End::Back, text, limits)),
                None => list.push(End::Back, b"", limits),
            }
        }
    }
    put(ctx, at, list);
}

/// Makes the list the value of the key at an argument, and answers its length.
fn put(ctx: &mut Ctx<'_>, at: usize, list: List) {
    let key = ctx.key(at);
    let len = list.len();
    if len > 0 {
        let before = ctx.kind_before(&key);
        ctx.db.set_value(&key, list.into(), Expiry::Clear);
        ctx.image_effect(&key);
        ctx.tell_replaced(&key, before);
        ctx.notify(class::LIST, "sortstore", &key);
    } else if ctx.db.remove(&key) {
        ctx.effect(op::DELETE, &key, |_| {});
        ctx.notify(class::GENERIC, "del", &key);
    }
    ctx.out.count(len);
}

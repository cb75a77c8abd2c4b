//! ZUNION, ZINTER, ZDIFF, ZINTERCARD and the forms that store their result. Plain sets are inputs too, with scores of
//! 1.

use super::range::show;
use super::{store, write_all};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use keyspace::{Db, Kind};
use object::block::Elem;
use object::number::parse_f64;
use object::{Limits, Set, ZSet};
use resp::Args;
use std::any::Any;
use std::borrow::Cow;
use std::cmp::Ordering;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// How scores of one member in several inputs become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// How heavy the inputs that have it are; scores do not matter.
    Count,
}

impl Aggregate {
    /// The part of an input's score in the result.
    fn weighed(self, score: f64, weight: f64) -> f64 {
        if matches!(self, Aggregate::Count) { weight } else { weight * score }
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => number(a + b),
            Aggregate::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Infinity and its opposite add up to 0, and zero times infinity is 0.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A key to combine.
enum Source<'a> {
    Absent,
    Set(&'a Set),
    ZSet(&'a ZSet),
}

impl<'a> Source<'a> {
    fn of(db: &'a Db<'_>, name: &[u8]) -> Result<Self, Error> {
        Ok(match db.read(&db.key(name)) {
            None => Source::Absent,
            Some(entry) if entry.kind() == Kind::Set => Source::Set(entry.collection()?),
            Some(entry) => Source::ZSet(entry.collection()?),
        })
    }

    fn len(&self) -> u64 {
        match self {
            Source::Absent => 0,
            Source::Set(set) => set.len(),
            Source::ZSet(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Absent => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::ZSet(set) => set.score(member),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (Cow<'a, [u8]>, f64)> + 'a> {
        match *self {
            Source::Absent => Box::new(std::iter::empty()),
            Source::Set(set) => Box::new(set.iter().map(|elem| match elem {
                Elem::Bytes(bytes) => (Cow::Borrowed(bytes), 1.0),
                Elem::Int(_) => (Cow::Owned(elem.to_vec()), 1.0),
            })),
            Source::ZSet(set) => Box::new(set.iter(0..set.len(), false).map(|(m, s)| (Cow::Borrowed(m), s))),
        }
    }
}

/// A source with its weight.
struct Input<'a> {
    source: Source<'a>,
    weight: f64,
}

/// The arguments after the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
    /// Of ZINTERCARD; 0: none.
    limit: u64,
}

/// The command, as far as options depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Reply,
    Store,
    Cardinality,
}

/// The number of keys at argument `at`, checked against the arguments that are there.
fn key_count(ctx: &Ctx<'_>, at: usize, name: &str) -> Result<usize, Error> {
    let count = ctx.int(at)?;
    if count < 1 {
        return Err(Error::text(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let count = usize::try_from(count).map_err(|_| Error::SYNTAX)?;
    if count > ctx.args.len() - at - 1 {
        return Err(Error::SYNTAX);
    }
    Ok(count)
}

fn parse(args: Args<'_>, first: usize, keys: usize, operation: Operation, form: Form) -> Result<Options, Error> {
    let is = |i: usize, word: &str| args.get(i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()));
    let combines = operation != Operation::Diff && form != Form::Cardinality;
    let mut options = Options { weights: vec![1.0; keys], aggregate: Aggregate::Sum, scores: false, limit: 0 };
    let mut i = first;
    while i < args.len() {
        let left = args.len() - i;
        if combines && left > keys && is(i, "weights") {
            for (k, weight) in options.weights.iter_mut().enumerate() {
                let text = args.get(i + 1 + k).unwrap_or_default();
                *weight = parse_f64(text).ok_or(Error::new("ERR weight value is not a float"))?;
            }
            i += 1 + keys;
        } else if combines && left >= 2 && is(i, "aggregate") {
            options.aggregate = if is(i + 1, "sum") {
                Aggregate::Sum
            } else if is(i + 1, "min") {
                Aggregate::Min
            } else if is(i + 1, "max") {
                Aggregate::Max
            } else if is(i + 1, "count") {
                Aggregate::Count
            } else {
                return Err(Error::SYNTAX);
            };
            i += 2;
        } else if form == Form::Reply && is(i, "withscores") {
            options.scores = true;
            i += 1;
        } else if form == Form::Cardinality && left >= 2 && is(i, "limit") {
            let limit = args.get(i + 1).and_then(object::number::parse_i64);
            let limit = limit.and_then(|limit| u64::try_from(limit).ok());
            options.limit = limit.ok_or(Error::new("ERR LIMIT can't be negative"))?;
            i += 2;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok(options)
}

/// The members of the result with their scores, in order.
type Members<'a> = Vec<(f64, Cow<'a, [u8]>)>;

fn union<'a>(inputs: &[Input<'a>], aggregate: Aggregate) -> Members<'a> {
    let mut all = Vec::new();
    for (order, input) in inputs.iter().enumerate() {
        all.extend(
            input.source.iter().map(|(member, score)| (member, order, number(aggregate.weighed(score, input.weight)))),
        );
    }
    // The scores of one member one after the other, in the order of the inputs.
    all.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut result: Members<'a> = Vec::new();
    for (member, _, score) in all {
        match result.last_mut() {
            Some(last) if last.1 == member => last.0 = aggregate.of(last.0, score),
            _ => result.push((score, member)),
        }
    }
    result
}

/// Calls `found` for each member that is in all inputs, of which the first is the smallest, until it returns false.
fn each_in_all<'a>(inputs: &[Input<'a>], aggregate: Aggregate, mut found: impl FnMut(f64, Cow<'a, [u8]>) -> bool) {
    let Some((smallest, others)) = inputs.split_first() else { return };
    'members: for (member, score) in smallest.source.iter() {
        let mut result = number(aggregate.weighed(score, smallest.weight));
        for input in others {
            let Some(score) = input.source.score(&member) else { continue 'members };
            result = aggregate.of(result, aggregate.weighed(score, input.weight));
        }
        if !found(result, member) {
            return;
        }
    }
}

fn diff<'a>(inputs: &[Input<'a>]) -> Members<'a> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let kept = |member: &[u8]| others.iter().all(|input| input.source.score(member).is_none());
    first.source.iter().filter(|(member, _)| kept(member)).map(|(member, score)| (score, member)).collect()
}

fn combine<'a>(
    db: &'a Db<'_>,
    args: Args<'_>,
    at: usize,
    keys: usize,
    operation: Operation,
    form: Form,
) -> Result<(Vec<Input<'a>>, Options), Error> {
    let sources =
        (0..keys).map(|k| Source::of(db, args.get(at + 1 + k).unwrap_or_default())).collect::<Result<Vec<_>, _>>()?;
    let options = parse(args, at + 1 + keys, keys, operation, form)?;
    let mut inputs: Vec<_> =
        sources.into_iter().zip(&options.weights).map(|(source, &weight)| Input { source, weight }).collect();
    if operation != Operation::Diff {
        // From the smallest to the largest: few members are looked up, and scores add up in Redis's order.
        inputs.sort_by_key(|input| input.source.len());
    }
    Ok((inputs, options))
}

fn compute<'a>(inputs: &[Input<'a>], operation: Operation, options: &Options) -> Members<'a> {
    let mut result = match operation {
        Operation::Union => union(inputs, options.aggregate),
        Operation::Diff => diff(inputs),
        Operation::Inter => {
            let mut result = Vec::new();
            each_in_all(inputs, options.aggregate, |score, member| {
                result.push((score, member));
                true
            });
            result
        }
    };
    result.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(&b.1)));
    result
}

fn to_set(members: Members<'_>, limits: &Limits) -> ZSet {
    let mut set = ZSet::new();
    set.expect(members.len(), members.iter().map(|(_, member)| member.len()).max().unwrap_or(0), limits);
    for (score, member) in members {
        // Never NaN, see `number`.
        let _ = set.insert(score, &member, limits);
    }
    set
}

/// An input that shares its source.
struct Shared {
    source: SharedSource,
    weight: f64,
}

enum SharedSource {
    Absent,
    Set(Set),
    ZSet(ZSet),
}

impl Shared {
    fn of(inputs: Vec<Input<'_>>) -> Vec<Self> {
        let source = |source: Source<'_>| match source {
            Source::Absent => SharedSource::Absent,
            Source::Set(set) => SharedSource::Set(set.clone()),
            Source::ZSet(set) => SharedSource::ZSet(set.clone()),
        };
        inputs.into_iter().map(|input| Shared { source: source(input.source), weight: input.weight }).collect()
    }

    fn as_input(&self) -> Input<'_> {
        let source = match &self.source {
            SharedSource::Absent => Source::Absent,
            SharedSource::Set(set) => Source::Set(set),
            SharedSource::ZSet(set) => Source::ZSet(set),
        };
        Input { source, weight: self.weight }
    }
}

/// How many members are visited.
fn cost(inputs: &[Input<'_>], operation: Operation) -> u64 {
    let lengths = inputs.iter().map(|input| input.source.len());
    match operation {
        Operation::Inter => lengths.min().unwrap_or(0) * inputs.len() as u64,
        Operation::Union | Operation::Diff => lengths.sum(),
    }
}

/// The outcome of a handler that has this made aside for the `keys` behind argument `at`.
fn made_aside<T: Any + Send>(
    ctx: &Ctx<'_>,
    (at, keys): (usize, usize),
    inputs: Vec<Input<'_>>,
    make: impl FnOnce(&[Input<'_>]) -> T + Send + 'static,
) -> Outcome {
    let shared = Shared::of(inputs);
    let work = move || make(&shared.iter().map(Shared::as_input).collect::<Vec<_>>());
    ctx.aside(at + 1..at + 1 + keys, work)
}

fn reply(ctx: &mut Ctx<'_>, operation: Operation, name: &str) -> Result<Outcome, Error> {
    let keys = key_count(ctx, 1, name)?;
    if let Some(set) = ctx.prepared::<ZSet>(2..2 + keys) {
        let scores = parse(ctx.args, 2 + keys, keys, operation, Form::Reply)?.scores;
        return Ok(show(&mut ctx.out, &set, 0..set.len(), scores, false));
    }
    let (inputs, options) = combine(&ctx.db, ctx.args, 1, keys, operation, Form::Reply)?;
    if ctx.works_aside(cost(&inputs, operation)) {
        let limits = ctx.tunables.limits.clone();
        let make = move |inputs: &[Input<'_>]| to_set(compute(inputs, operation, &options), &limits);
        return Ok(made_aside(ctx, (1, keys), inputs, make));
    }
    let members = compute(&inputs, operation, &options);
    write_all(&mut ctx.out, members.iter().map(|(score, member)| (&**member, *score)), options.scores);
    Ok(Outcome::Done)
}

fn store_result(ctx: &mut Ctx<'_>, operation: Operation, name: &'static str) -> Result<Outcome, Error> {
    let keys = key_count(ctx, 2, name)?;
    let set = match ctx.prepared(3..3 + keys) {
        Some(set) => set,
        None => {
            let (inputs, options) = combine(&ctx.db, ctx.args, 2, keys, operation, Form::Store)?;
            let limits = ctx.tunables.limits.clone();
            let aside = ctx.works_aside(cost(&inputs, operation));
            let make = move |inputs: &[Input<'_>]| to_set(compute(inputs, operation, &options), &limits);
            if aside {
                return Ok(made_aside(ctx, (2, keys), inputs, make));
            }
            make(&inputs)
        }
    };
    let key = ctx.key(1);
    store(ctx, &key, set, name);
    Ok(Outcome::Done)
}

pub(super) fn zunion(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    reply(ctx, Operation::Union, "zunion")
}

pub(super) fn zinter(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    reply(ctx, Operation::Inter, "zinter")
}

pub(super) fn zdiff(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    reply(ctx, Operation::Diff, "zdiff")
}

pub(super) fn zunionstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store_result(ctx, Operation::Union, "zunionstore")
}

pub(super) fn zinterstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store_result(ctx, Operation::Inter, "zinterstore")
}

pub(super) fn zdiffstore(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    store_result(ctx, Operation::Diff, "zdiffstore")
}

pub(super) fn zintercard(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let keys = key_count(ctx, 1, "zintercard")?;
    let count = match ctx.prepared(2..2 + keys) {
        Some(count) => count,
        None => {
            let (inputs, options) = combine(&ctx.db, ctx.args, 1, keys, Operation::Inter, Form::Cardinality)?;
            let count = move |inputs: &[Input<'_>]| {
                let mut count = 0u64;
                each_in_all(inputs, Aggregate::Sum, |_, _| {
                    count += 1;
                    count != options.limit
                });
                count
            };
            if ctx.works_aside(cost(&inputs, Operation::Inter)) {
                return Ok(made_aside(ctx, (1, keys), inputs, count));
            }
            count(&inputs)
        }
    };
    ctx.out.count(count);
    Ok(Outcome::Done)
}

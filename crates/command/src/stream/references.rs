//! XDELEX and XACKDEL: deletion that considers consumer groups.

use object::stream::{Id, References, Stream};

use super::effect::{ACKNOWLEDGE, DELETE, UNREFERENCE};
use super::id;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;

/// The answer for an ID.
const NOT_FOUND: i64 = -1;
const DELETED: i64 = 1;
const STILL_REFERENCED: i64 = 2;

/// The treatment of references by argument `i`, if it names one.
pub(super) fn references(ctx: &Ctx<'_>, i: usize) -> Option<References> {
    let words = [("keepref", References::Keep), ("delref", References::Drop), ("acked", References::Respect)];
    words.into_iter().find(|(word, _)| ctx.is(i, word)).map(|(_, references)| references)
}

/// The options: how references count, and where the IDs are among the arguments.
struct Options {
    references: References,
    ids: std::ops::Range<usize>,
}

fn parse(ctx: &Ctx<'_>, from: usize) -> Result<Options, Error> {
    const COUNT: Error = Error::new("ERR Number of IDs must be a positive integer");
    let argc = ctx.args.len();
    let (mut kept, mut ids, mut i) = (None, None, from);
    while i < argc {
        if let Some(said) = references(ctx, i).filter(|_| kept.is_none()) {
            kept = Some(said);
            i += 1;
        } else if ctx.is(i, "ids") && i + 1 < argc {
            let count = ctx.int(i + 1).ok().filter(|count| *count > 0).ok_or(COUNT)?;
            let first = i + 2;
            let count = usize::try_from(count).ok().filter(|count| *count <= argc - first);
            let count = count.ok_or(Error::new("ERR The `numids` parameter must match the number of arguments"))?;
            i = first + count;
            ids = Some(first..i);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let ids = ids.ok_or(Error::new("ERR IDS option is required"))?;
    Ok(Options { references: kept.unwrap_or(References::Keep), ids })
}

/// The changes of a command's entries.
#[derive(Default)]
struct Changes {
    acknowledged: Vec<Id>,
    unreferenced: Vec<Id>,
    deleted: Vec<Id>,
    replies: Vec<i64>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.unreferenced.is_empty() && self.deleted.is_empty()
    }

    /// Deletes an entry if its references allow that. Returns whether they do: the entry need not be there.
    fn delete(&mut self, stream: &mut Stream, id: Id, references: References) -> bool {
        match references {
            References::Keep => {}
            References::Drop if stream.groups.acknowledge(id) => self.unreferenced.push(id),
            References::Drop => {}
            References::Respect if stream.groups.refer_to(id) => return false,
            References::Respect => {}
        }
        if stream.log.delete(id) {
            self.deleted.push(id);
        }
        true
    }

    /// Answers, logs and notifies.
    fn finish(self, ctx: &mut Ctx<'_>, group: &[u8]) {
        ctx.out.array(self.replies.len());
        self.replies.iter().for_each(|reply| ctx.out.integer(*reply));
        let key = ctx.key(1);
        let dirty = ctx.fx.dirty + (self.acknowledged.len() + self.deleted.len()) as u64;
        if !self.acknowledged.is_empty() {
            ctx.quiet_effect(ACKNOWLEDGE, &key, |w| {
                w.bytes(group);
                w.ids(&self.acknowledged);
            });
        }
        if !self.unreferenced.is_empty() {
            ctx.quiet_effect(UNREFERENCE, &key, |w| w.ids(&self.unreferenced));
        }
        if !self.deleted.is_empty() {
            ctx.quiet_effect(DELETE, &key, |w| w.ids(&self.deleted));
            ctx.notify(class::STREAM, "xdel", &key);
        }
        ctx.fx.dirty = dirty;
    }
}

/// Runs `each` for every ID, on the stream of argument 1; `false` from `there`: nothing is found.
fn for_each_id(
    ctx: &mut Ctx<'_>,
    from: usize,
    there: impl Fn(&Stream) -> bool,
    each: impl Fn(&mut Changes, &mut Stream, Id, References) -> i64,
) -> Result<Changes, Error> {
    let key = ctx.key(1);
    let stream = ctx.db.peek(&key).map(|entry| entry.collection::<Stream>()).transpose()?;
    let options = parse(ctx, from)?;
    if !stream.is_some_and(there) {
        return Ok(Changes { replies: vec![NOT_FOUND; options.ids.len()], ..Changes::default() });
    }
    let ids = options.ids.map(|i| id::parse(ctx.arg(i), 0)).collect::<Result<Vec<_>, _>>()?;
    let changes = ctx.db.edit::<Stream, _>(&key, |stream| {
        let mut changes = Changes::default();
        for id in ids {
            let reply = each(&mut changes, stream, id, options.references);
            changes.replies.push(reply);
        }
        (!changes.is_empty(), changes)
    })?;
    Ok(changes.unwrap_or_default())
}

pub(super) fn xdelex(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let changes = for_each_id(
        ctx,
        2,
        |_| true,
        |changes, stream, id, references| {
            let before = changes.deleted.len();
            match changes.delete(stream, id, references) {
                false => STILL_REFERENCED,
                true if changes.deleted.len() > before => DELETED,
                true => NOT_FOUND,
            }
        },
    )?;
    changes.finish(ctx, b"");
    Ok(Outcome::Done)
}

pub(super) fn xackdel(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let group = ctx.arg(2);
    let changes = for_each_id(
        ctx,
        3,
        |stream| stream.groups.get(group).is_some(),
        |changes, stream, id, references| {
            if !stream.groups.get_mut(group).is_some_and(|group| group.acknowledge(id)) {
                return NOT_FOUND;
            }
            changes.acknowledged.push(id);
            // An entry that was deleted before counts as deleted.
            if changes.delete(stream, id, references) { DELETED } else { STILL_REFERENCED }
        },
    )?;
    changes.finish(ctx, group);
    Ok(Outcome::Done)
}

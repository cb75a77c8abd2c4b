//! XDEL and XSETID.

use object::stream::{Id, Stream};

use super::effect::{DELETE, MARKS};
use super::{id, ids};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;

pub(super) fn xdel(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    match ctx.db.peek(&key) {
        Some(entry) => entry.collection::<Stream>()?,
        None => {
            ctx.out.integer(0);
            return Ok(Outcome::Done);
        }
    };
    let mut ids = ids(ctx, 2)?;
    ctx.db.edit::<Stream, _>(&key, |stream| {
        ids.retain(|id| stream.log.delete(*id));
        (!ids.is_empty(), ())
    })?;
    ctx.out.count(ids.len() as u64);
    if !ids.is_empty() {
        ctx.fx.dirty += ids.len() as u64 - 1;
        ctx.quiet_effect(DELETE, &key, |w| w.ids(&ids));
        ctx.notify(class::STREAM, "xdel", &key);
    }
    Ok(Outcome::Done)
}

pub(super) fn xsetid(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let last = id::parse(ctx.arg(2), 0)?;
    let (mut added, mut max_deleted) = (None, Id::MIN);
    let mut i = 3;
    while i < ctx.args.len() {
        let more = i + 1 < ctx.args.len();
        if ctx.is(i, "entriesadded") && more {
            let entries = u64::try_from(ctx.int(i + 1)?);
            added = Some(entries.map_err(|_| Error::new("ERR entries_added must be positive"))?);
        } else if ctx.is(i, "maxdeletedid") && more {
            max_deleted = id::parse(ctx.arg(i + 1), 0)?;
            if last < max_deleted {
                return Err(Error::new(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Error::SYNTAX);
        }
        i += 2;
    }
    let key = ctx.key(1);
    let stream = ctx.db.peek(&key).ok_or(Error::NO_SUCH_KEY)?.collection::<Stream>()?;
    let marks = stream.log.marks();
    if last < marks.max_deleted {
        return Err(Error::new("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"));
    }
    if stream.log.last_entry().is_some_and(|top| last < top) {
        return Err(Error::new("ERR The ID specified in XSETID is smaller than the target stream top item"));
    }
    if marks.len > 0 && added.is_some_and(|added| marks.len > added) {
        return Err(Error::new("ERR The entries_added specified in XSETID is smaller than the target stream length"));
    }
    let added = added.unwrap_or(marks.added);
    let max_deleted = if max_deleted == Id::MIN { marks.max_deleted } else { max_deleted };
    if let Some(stream) = ctx.db.stream_mut(&key)? {
        stream.log.set_marks(last, added, max_deleted);
    }
    ctx.quiet_effect(MARKS, &key, |w| {
        w.id(last);
        w.varint(added);
        w.id(max_deleted);
    });
    ctx.out.ok();
    ctx.notify(class::STREAM, "xsetid", &key);
    Ok(Outcome::Done)
}

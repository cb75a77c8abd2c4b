//! ZSCAN.

use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::scan_options::{ScanOptions, Scanned, element_cursor};
use object::ZSet;
use object::block::Elem;

pub(super) fn zscan(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let cursor = element_cursor(ctx)?;
    let set = ctx.db.read_as::<ZSet>(&ctx.key(1))?;
    ctx.out.array(2);
    let Some(set) = set else {
        // Redis does not look at the options of a scan of nothing.
        ctx.out.bulk("0");
        ctx.out.array(0);
        return Ok(Outcome::Done);
    };
    let options = ScanOptions::parse(ctx, 3, Scanned::ZSet)?;
    let mut shown = Vec::new();
    let next = set.scan(cursor, options.count as u64, |member, score| {
        if options.matches(Elem::Bytes(member)) {
            shown.push((member, score));
        }
    });
    ctx.out.bulk_integer(next as i64);
    ctx.out.array(if options.no_values { shown.len() } else { 2 * shown.len() });
    for (member, score) in shown {
        ctx.out.bulk(member);
        if options.no_values {
            continue;
        }
        // Bulk strings in RESP3 too, as Redis has it.
        ctx.out.bulk_double(score);
    }
    Ok(Outcome::Done)
}

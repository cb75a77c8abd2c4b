//! The effect "this key is now that": expiry and image of the value, whatever was there before.

use clocks::UnixMs;
use keyspace::{Db, Expiry, Key, Value};
use object::Corrupt;

use crate::ctx::Ctx;
use crate::effects::Reader;

/// See [`Ctx::image_effect`].
pub(super) fn effect(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    ctx.db.note_change(key);
    let Some(entry) = ctx.db.peek(key) else { return };
    ctx.fx.push_image(ctx.db.logical(), key, entry);
}

pub(super) fn replay(key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>) -> Result<(), Corrupt> {
    let expiry = UnixMs::from_wire(r.varint()?).map_or(Expiry::Clear, Expiry::At);
    db.set_value(key, Value::from_image(r.rest())?, expiry);
    Ok(())
}

//! Streams: XADD to XINFO.

mod add;
mod claim;
mod edit;
mod effect;
mod groups;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod references;
mod release;
mod rows;
mod rows_of_groups;
#[cfg(test)]
mod tests;

pub use effect::replay;
pub use rows::ROWS;
pub use rows_of_groups::ROWS as ROWS_OF_GROUPS;

use object::block::Elem;
use object::stream::{Entry, Id};
use resp::Reply;

use crate::ctx::Ctx;
use crate::error::Error;

/// Writes an ID.
fn write_id(out: &mut Reply<'_>, id: Id) {
    out.bulk_with(|text| id.append_to(text));
}

/// Writes an entry: its ID and, flat, its fields and values.
fn write_entry(out: &mut Reply<'_>, entry: &Entry<'_>) {
    out.array(2);
    write_entry_parts(out, entry);
}

/// The content of [`write_entry`]'s array.
fn write_entry_parts(out: &mut Reply<'_>, entry: &Entry<'_>) {
    write_id(out, entry.id);
    out.array(entry.len() * 2);
    for (name, value) in entry.pairs() {
        write_elem(out, name);
        write_elem(out, value);
    }
}

#[inline]
fn write_elem(out: &mut Reply<'_>, elem: Elem<'_>) {
    match elem {
        Elem::Bytes(bytes) => out.bulk(bytes),
        Elem::Int(int) => out.bulk_integer(int),
    }
}

/// The IDs from argument `from` on.
fn ids(ctx: &Ctx<'_>, from: usize) -> Result<Vec<Id>, Error> {
    (from..ctx.args.len()).map(|i| id::parse(ctx.arg(i), 0)).collect()
}

/// Unix milliseconds as times of consumers and deliveries are kept.
fn now(ctx: &Ctx<'_>) -> i64 {
    i64::try_from(ctx.now.0).unwrap_or(i64::MAX)
}

/// The error of XPENDING, XCLAIM and XAUTOCLAIM for a missing key or group.
fn no_key_or_group(key: &[u8], group: &[u8]) -> Error {
    Error::text([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// The error of XGROUP and XINFO for a missing group.
fn no_group(key: &[u8], group: &[u8]) -> Error {
    Error::text([b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat())
}

/// Arguments that no subcommand takes, where the row's arity cannot say so.
fn subcommand_syntax(ctx: &Ctx<'_>, command: &str) -> Error {
    let subcommand = ctx.arg(1);
    let shown = &subcommand[..subcommand.len().min(128)];
    let parts = [
        b"ERR unknown subcommand or wrong number of arguments for '",
        shown,
        b"'. Try ",
        command.as_bytes(),
        b" HELP.",
    ];
    Error::text(parts.concat())
}

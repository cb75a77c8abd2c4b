//! Elements of collections in replies.

use object::block::Elem;
use resp::Reply;

/// Writes an element as a bulk string.
#[inline]
pub(crate) fn bulk(out: &mut Reply<'_>, elem: Elem<'_>) {
    match elem {
        Elem::Bytes(bytes) => out.bulk(bytes),
        Elem::Int(int) => out.bulk_integer(int),
    }
}

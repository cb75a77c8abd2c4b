//! From a value to its bytes.

use super::{ValueRef, kind, listpack, output};
use crate::block::Elem;
use crate::list::List;

/// Size at which a listpack of a list is closed and the next begun; what is larger alone gets a node of its own.
const NODE_BYTES: usize = 8 * 1024;

/// Appends type and value.
pub(super) fn value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(bytes) => {
            out.push(kind::STRING);
            output::string(out, bytes);
        }
        ValueRef::List(list) => self::list(out, list),
    }
}

/// A quicklist of listpacks. Its nodes are counted first, so they are written behind one another and then prefixed.
fn list(out: &mut Vec<u8>, list: &List) {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let (mut nodes, mut count) = (Vec::new(), 0);
    let mut node = |container, bytes: &[u8]| {
        output::length(&mut nodes, container);
        output::string(&mut nodes, bytes);
        count += 1;
    };
    let mut pack = listpack::Builder::new();
    for elem in list.iter() {
        let plain = match elem {
            Elem::Bytes(bytes) if bytes.len() > NODE_BYTES => Some(bytes),
            _ => None,
        };
        if !pack.is_empty() && (plain.is_some() || pack.len() + elem.str_len() > NODE_BYTES) {
            node(PACKED, &std::mem::replace(&mut pack, listpack::Builder::new()).finish());
        }
        match plain {
            Some(bytes) => node(PLAIN, bytes),
            None => pack.push_elem(elem),
        }
    }
    if !pack.is_empty() {
        node(PACKED, &pack.finish());
    }
    out.push(kind::LIST_QUICKLIST_2);
    output::length(out, count);
    out.append(&mut nodes);
}

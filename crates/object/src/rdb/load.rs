//! From the bytes of a value to the value.

use super::input::Input;
use super::{Value, kind, listpack, ziplist};
use crate::block::Elem;
use crate::list::End;
use crate::{Corrupt, Limits, List};

/// The value that `body`, a type byte and what follows it, holds from its first byte to its last.
pub(super) fn value<'a>(body: &'a [u8], limits: &Limits) -> Result<Value<'a>, Corrupt> {
    let mut input = Input::new(body);
    let kind = input.byte()?;
    let value = match kind {
        kind::STRING => Value::String(input.string()?),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            Value::List(list(kind, &mut input, limits)?)
        }
        _ => return Err(Corrupt("unknown type")),
    };
    input.finish()?;
    Ok(value)
}

fn list(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<List, Corrupt> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let mut list = List::new();
    let mut push = |elem: Elem<'_>| {
        list.push(End::Back, elem.as_bytes(&mut itoa::Buffer::new()), limits);
        Ok(())
    };
    match kind {
        kind::LIST => {
            for _ in 0..input.count()? {
                push(Elem::Bytes(&input.string()?))?;
            }
        }
        kind::LIST_ZIPLIST => ziplist::entries(&input.string()?)?.try_for_each(|elem| push(elem?))?,
        _ => {
            for _ in 0..input.count()? {
                let container = if kind == kind::LIST_QUICKLIST { PACKED } else { input.length()? };
                let node = input.string()?;
                match container {
                    PLAIN if node.is_empty() => return Err(Corrupt("empty node of a list")),
                    PLAIN => push(Elem::Bytes(&node))?,
                    PACKED if kind == kind::LIST_QUICKLIST => {
                        ziplist::entries(&node)?.try_for_each(|elem| push(elem?))?;
                    }
                    PACKED => listpack::entries(&node)?.try_for_each(|elem| push(elem?))?,
                    _ => return Err(Corrupt("container of a list")),
                }
            }
        }
    }
    // Nodes may be empty, as Redis grants, but not all of them.
    if list.is_empty() {
        return Err(Corrupt("empty collection"));
    }
    list.reconsider(limits);
    Ok(list)
}

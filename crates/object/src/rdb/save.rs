//! From a value to its bytes.

use clocks::UnixMs;

use super::output::{self, Output};
use super::{ValueRef, kind, listpack, ziplist};
use crate::block::Elem;
use crate::hash::Field;
use crate::{Hash, List, Set, ZSet, number};

/// Size at which a listpack of a list is closed and the next begun; a larger element gets a node of its own.
const NODE_BYTES: usize = 8 * 1024;

/// Appends type and value.
pub(super) fn value(out: &mut Output<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(bytes) => {
            out.push(kind::STRING);
            output::string(out, bytes);
        }
        ValueRef::List(list) => self::list(out, list),
        ValueRef::Set(set) => self::set(out, set),
        ValueRef::ZSet(zset) => self::zset(out, zset),
        ValueRef::Hash(hash) => self::hash(out, hash),
        ValueRef::Stream(stream) => super::stream::save(out, stream),
    }
}

fn elem(out: &mut Output<'_>, elem: Elem<'_>) {
    output::string(out, elem.as_bytes(&mut itoa::Buffer::new()));
}

/// A quicklist of listpacks. Its nodes are counted first, so they are written behind one another and then prefixed.
fn list(out: &mut Output<'_>, list: &List) {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let (mut nodes, mut count) = (Vec::new(), 0);
    let mut node = |container, bytes: &[u8]| {
        output::length(&mut nodes, container);
        output::string(&mut out.to(&mut nodes), bytes);
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

fn set(out: &mut Output<'_>, set: &Set) {
    match set.encoding() {
        "intset" => {
            let int = |elem| match elem {
                Elem::Int(value) => Some(value),
                Elem::Bytes(_) => None,
            };
            let values: Vec<i64> = set.iter().filter_map(int).collect();
            out.push(kind::SET_INTSET);
            output::string(out, &ziplist::build_intset(&values));
        }
        "listpack" => {
            let mut pack = listpack::Builder::new();
            set.iter().for_each(|member| pack.push_elem(member));
            out.push(kind::SET_LISTPACK);
            output::string(out, &pack.finish());
        }
        _ => {
            out.push(kind::SET);
            output::length(out, set.len());
            set.iter().for_each(|member| elem(out, member));
        }
    }
}

fn zset(out: &mut Output<'_>, zset: &ZSet) {
    if zset.encoding() == "listpack" {
        let mut pack = listpack::Builder::new();
        let mut text = Vec::new();
        for (member, score) in zset.iter(0..zset.len(), false) {
            pack.push(member);
            match number::exact_i64(score) {
                Some(score) => pack.push_elem(Elem::Int(score)),
                None => {
                    text.clear();
                    number::write_f64(&mut text, score);
                    pack.push_elem(Elem::Bytes(&text));
                }
            }
        }
        out.push(kind::ZSET_LISTPACK);
        output::string(out, &pack.finish());
    } else {
        out.push(kind::ZSET_2);
        output::length(out, zset.len());
        // From the greatest down, as Redis does because it then inserts faster.
        for (member, score) in zset.iter(0..zset.len(), true) {
            output::string(out, member);
            out.extend_from_slice(&score.to_le_bytes());
        }
    }
}

/// Appends a hash whose fields expire as Valkey 9 reads it: always field by field.
pub(super) fn hash_of_valkey(out: &mut Output<'_>, hash: &Hash) {
    out.push(kind::VALKEY_HASH_2);
    output::length(out, hash.len());
    for field in hash.fields() {
        elem(out, field.name);
        elem(out, field.value);
        out.extend_from_slice(&field.expiry.unwrap_or(UnixMs::NEVER).0.to_le_bytes());
    }
}

fn hash(out: &mut Output<'_>, hash: &Hash) {
    let earliest = hash.next_expiry();
    if hash.encoding() == "hashtable" {
        out.push(if earliest.is_some() { kind::HASH_METADATA } else { kind::HASH });
        if let Some(earliest) = earliest {
            out.extend_from_slice(&earliest.0.to_le_bytes());
        }
        output::length(out, hash.len());
        for field in hash.fields() {
            if let Some(earliest) = earliest {
                output::length(out, field.expiry.map_or(0, |expiry| expiry.since(earliest) + 1));
            }
            elem(out, field.name);
            elem(out, field.value);
        }
        return;
    }
    let mut pack = listpack::Builder::new();
    let mut push = |field: Field<'_>| {
        pack.push_elem(field.name);
        pack.push_elem(field.value);
        if earliest.is_some() {
            pack.push_elem(Elem::Int(UnixMs::to_wire(field.expiry) as i64));
        }
    };
    match earliest {
        None => {
            hash.fields().for_each(&mut push);
            out.push(kind::HASH_LISTPACK);
        }
        Some(earliest) => {
            // Redis relies on their order: the next to expire first, those that never do last.
            let mut fields: Vec<Field<'_>> = hash.fields().collect();
            fields.sort_by_key(|field| field.expiry.unwrap_or(UnixMs::NEVER));
            fields.into_iter().for_each(&mut push);
            out.push(kind::HASH_LISTPACK_EX);
            out.extend_from_slice(&earliest.0.to_le_bytes());
        }
    }
    output::string(out, &pack.finish());
}

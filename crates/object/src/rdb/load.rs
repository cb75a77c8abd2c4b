//! From the bytes of a value to the value.

use clocks::UnixMs;

use super::input::{Input, text_score};
use super::{Dialect, EMPTY, Value, kind, listpack, ziplist};
use crate::block::Elem;
use crate::hash::Expiry;
use crate::hash::field::is_expiry;
use crate::list::End;
use crate::zset::Added;
use crate::{Corrupt, Hash, Limits, List, Set, ZSet};

/// The value that `body`, a type byte and what follows it, holds from its first byte to its last.
pub(super) fn value<'a>(body: &'a [u8], dialect: Dialect, limits: &Limits) -> Result<Value<'a>, Corrupt> {
    let mut input = Input::new(body);
    let kind = input.byte()?;
    let value = match kind {
        kind::VALKEY_HASH_2 if dialect == Dialect::Valkey => Value::Hash(hash_of_valkey(&mut input, limits)?),
        _ if dialect == Dialect::Valkey && kind > kind::VALKEY_HASH_2 => return Err(Corrupt("unknown type")),
        kind::STRING => Value::String(input.string()?),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            Value::List(list(kind, &mut input, limits)?)
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => Value::Set(set(kind, &mut input, limits)?),
        kind::ZSET | kind::ZSET_2 | kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => {
            Value::ZSet(zset(kind, &mut input, limits)?)
        }
        kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            Value::Hash(hash(kind, &mut input, limits)?)
        }
        kind::HASH_METADATA | kind::HASH_METADATA_RC => Value::Hash(hash_metadata(kind, &mut input, limits)?),
        kind::HASH_LISTPACK_EX | kind::HASH_LISTPACK_EX_RC => Value::Hash(hash_listpack_ex(kind, &mut input, limits)?),
        kind::STREAM_LISTPACKS
        | kind::STREAM_LISTPACKS_2
        | kind::STREAM_LISTPACKS_3
        | kind::STREAM_LISTPACKS_4
        | kind::STREAM_LISTPACKS_5 => Value::Stream(super::stream::load(kind, &mut input)?),
        _ => return Err(Corrupt("unknown type")),
    };
    input.finish()?;
    Ok(value)
}

/// Calls `f` with the bytes of an element.
fn text<R>(elem: Elem<'_>, f: impl FnOnce(&[u8]) -> R) -> R {
    f(elem.as_bytes(&mut itoa::Buffer::new()))
}

fn list(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<List, Corrupt> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    // Elements take about as many bytes as in the file; those of a compressed node take more.
    let mut list = List::with_room(input.left());
    let mut push = |elem: Elem<'_>| {
        text(elem, |bytes| list.push(End::Back, bytes, limits));
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
        return Err(EMPTY);
    }
    list.reconsider(limits);
    Ok(list)
}

/// A set while it is read: its form follows from the first member and from how many are announced.
struct SetReader<'l> {
    set: Set,
    announced: usize,
    /// About the bytes of all members; 0: not known.
    room: usize,
    limits: &'l Limits,
}

impl SetReader<'_> {
    fn add(&mut self, member: &[u8]) -> Result<(), Corrupt> {
        if member.len() > crate::hashed::RECORD_BYTES_MAX {
            return Err(Corrupt("member too long"));
        }
        if self.set.is_empty() {
            self.set = Set::for_members(member, self.announced, self.limits);
            self.set.make_room(self.room);
        }
        if self.set.add(member, self.limits) { Ok(()) } else { Err(Corrupt("duplicate member of a set")) }
    }
}

fn set(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<Set, Corrupt> {
    let mut reader = SetReader { set: Set::new(), announced: 0, room: 0, limits };
    match kind {
        kind::SET => {
            let count = input.count()?;
            reader.announced = usize::try_from(count).unwrap_or(usize::MAX);
            for _ in 0..count {
                reader.add(&input.string()?)?;
            }
        }
        kind::SET_INTSET => {
            let bytes = input.string()?;
            let values = ziplist::intset(&bytes)?;
            reader.announced = values.len();
            for value in values {
                text(Elem::Int(value), |member| reader.add(member))?;
            }
        }
        _ => {
            let bytes = input.string()?;
            reader.room = bytes.len();
            for elem in listpack::entries(&bytes)? {
                text(elem?, |member| reader.add(member))?;
            }
        }
    }
    if reader.set.is_empty() { Err(EMPTY) } else { Ok(reader.set) }
}

fn zset(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<ZSet, Corrupt> {
    let mut zset = ZSet::new();
    let add = |zset: &mut ZSet, member: &[u8], score: f64| match zset.insert(score, member, limits) {
        _ if member.len() > crate::hashed::RECORD_BYTES_MAX => Err(Corrupt("member too long")),
        Ok(Added::New(_)) => Ok(()),
        _ => Err(Corrupt("duplicate member of a sorted set")),
    };
    match kind {
        kind::ZSET | kind::ZSET_2 => {
            // The form is chosen for all members at once, because the small one has no negative zero.
            let (mut members, mut longest) = (Vec::new(), 0);
            for _ in 0..input.count()? {
                let member = input.string()?;
                let score = if kind == kind::ZSET { input.text_double()? } else { input.binary_double()? };
                longest = longest.max(member.len());
                members.push((member, score));
            }
            zset.expect(members.len(), longest, limits);
            members.iter().try_for_each(|(member, score)| add(&mut zset, member, *score))?;
        }
        _ => {
            let bytes = input.string()?;
            zset = ZSet::with_room(bytes.len());
            entries(kind == kind::ZSET_ZIPLIST, &bytes, &mut |[member, score]| {
                let score = text(score, text_score)?;
                text(member, |member| add(&mut zset, member, score))
            })?;
        }
    }
    if zset.is_empty() { Err(EMPTY) } else { Ok(zset) }
}

/// Calls `each` with the entries of a ziplist or listpack, `N` at a time; a remainder is an error.
fn entries<const N: usize>(
    old: bool,
    bytes: &[u8],
    each: &mut dyn FnMut([Elem<'_>; N]) -> Result<(), Corrupt>,
) -> Result<(), Corrupt> {
    fn group<'a, const N: usize>(
        mut entries: impl Iterator<Item = Result<Elem<'a>, Corrupt>>,
        each: &mut dyn FnMut([Elem<'_>; N]) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        while let Some(first) = entries.next() {
            let mut group = [first?; N];
            for place in &mut group[1..] {
                *place = entries.next().ok_or(Corrupt("half a pair"))??;
            }
            each(group)?;
        }
        Ok(())
    }
    if old { group(ziplist::entries(bytes)?, each) } else { group(listpack::entries(bytes)?, each) }
}

/// A hash while it is read.
struct HashReader<'l> {
    hash: Hash,
    limits: &'l Limits,
}

impl<'l> HashReader<'l> {
    fn new(limits: &'l Limits) -> Self {
        Self { hash: Hash::new(), limits }
    }

    fn set(&mut self, name: &[u8], value: &[u8], expiry: Option<UnixMs>) -> Result<(), Corrupt> {
        let expiry = match expiry {
            None => Expiry::Clear,
            Some(at) if is_expiry(at) => Expiry::At(at),
            Some(_) => return Err(Corrupt("time of expiry of a field")),
        };
        if name.len().saturating_add(value.len()) > Hash::FIELD_BYTES_MAX {
            return Err(Corrupt("field too long"));
        }
        let new = self.hash.set(name, value, expiry, self.limits);
        if new { Ok(()) } else { Err(Corrupt("duplicate field of a hash")) }
    }

    fn set_elems(&mut self, name: Elem<'_>, value: Elem<'_>, expiry: Option<UnixMs>) -> Result<(), Corrupt> {
        text(name, |name| text(value, |value| self.set(name, value, expiry)))
    }

    fn finish(self) -> Result<Hash, Corrupt> {
        if self.hash.is_empty() { Err(EMPTY) } else { Ok(self.hash) }
    }
}

fn hash(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<Hash, Corrupt> {
    let mut reader = HashReader::new(limits);
    match kind {
        kind::HASH => {
            for _ in 0..input.count()? {
                let (name, value) = (input.string()?, input.string()?);
                reader.set(&name, &value, None)?;
            }
        }
        kind::HASH_ZIPMAP => {
            for pair in ziplist::zipmap(&input.string()?)?.chunks_exact(2) {
                reader.set(pair[0], pair[1], None)?;
            }
        }
        _ => {
            let bytes = input.string()?;
            reader.hash = Hash::with_room(bytes.len());
            let set = &mut |[name, value]: [Elem<'_>; 2]| reader.set_elems(name, value, None);
            entries(kind == kind::HASH_ZIPLIST, &bytes, set)?;
        }
    }
    reader.finish()
}

/// Fields with a time of expiry each, relative to the earliest of all, which stands first.
fn hash_metadata(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<Hash, Corrupt> {
    // Absolute in the release candidates: as if 1 stood first.
    let earliest = if kind == kind::HASH_METADATA { input.unix_ms()? } else { UnixMs(1) };
    let mut reader = HashReader::new(limits);
    for _ in 0..input.count()? {
        let expiry = match input.length()? {
            0 => None,
            after => UnixMs::from_wire((earliest + (after - 1)).0),
        };
        let (name, value) = (input.string()?, input.string()?);
        reader.set(&name, &value, expiry)?;
    }
    reader.finish()
}

/// Fields with a time of expiry each; -1 is none.
fn hash_of_valkey(input: &mut Input<'_>, limits: &Limits) -> Result<Hash, Corrupt> {
    let mut reader = HashReader::new(limits);
    for _ in 0..input.count()? {
        let (name, value) = (input.string()?, input.string()?);
        let expiry = match input.unix_ms()? {
            UnixMs::NEVER => None,
            UnixMs::ZERO => return Err(Corrupt("time of expiry of a field")),
            expiry => Some(expiry),
        };
        reader.set(&name, &value, expiry)?;
    }
    reader.finish()
}

/// Triples of name, value and time of expiry; before them the earliest, which they tell as well.
fn hash_listpack_ex(kind: u8, input: &mut Input<'_>, limits: &Limits) -> Result<Hash, Corrupt> {
    if kind == kind::HASH_LISTPACK_EX {
        input.unix_ms()?;
    }
    let (mut reader, mut latest) = (HashReader::new(limits), 0);
    entries(false, &input.string()?, &mut |[name, value, expiry]| {
        let Elem::Int(expiry @ 0..) = expiry else { return Err(Corrupt("time of expiry of a field")) };
        // The next to expire stands first. Those that never do stand last.
        let place = if expiry == 0 { i64::MAX } else { expiry };
        if place < latest {
            return Err(Corrupt("order of a hash's fields"));
        }
        latest = place;
        reader.set_elems(name, value, UnixMs::from_wire(expiry as u64))
    })?;
    reader.finish()
}

//! A node: a run of entries in one block, relative to the first of them.
//!
//! ```text
//! names: as many elements as the first entry had fields
//! entry: head (2) [size (4)], ms, seq [, number of fields], elements
//! ```
//!
//! The head holds [`DELETED`], [`SAME`] and the size of the rest, or that the size follows in four bytes. `ms` and
//! `seq` are to be added to the node's first ID, in base 128, `seq` with its sign. The elements are the values if the
//! fields are those of the first entry ([`SAME`]), and otherwise pairs of field and value.
//!
//! A deleted entry stays as a tombstone until the last entry of its node has gone, as in Redis. Approximate trimming
//! counts nodes, and their begins and ends follow Redis's settings and the size that its listpack would have
//! ([`Node::packed`]).

use crate::Corrupt;
use crate::block::{Elem, append_bare, read_bare, take_bare};
use crate::hashed::varint;
use crate::tree::Leaf;
use std::ops::Range;

use super::entry::Entry;
use super::id::Id;

const DELETED: u16 = 0x8000;
const SAME: u16 = 0x4000;
/// The size in a head that says: it follows.
const LONG: u16 = 0x3fff;
/// A tree never splits, nor merges, nodes of this size: they are as long as the settings say.
const LEAF_BYTES: usize = crate::tree::LEAF_BYTES_MAX;

/// See the module's text. An empty node (`live` 0) holds no entries.
#[derive(Clone, Default)]
pub(crate) struct Node {
    /// The first entry's ID, even if it is deleted by now.
    pub first: Id,
    /// The last entry's ID, even if it is deleted by now.
    pub last: Id,
    /// The last entry that is not deleted.
    pub last_live: Id,
    /// Entries that are not deleted.
    pub live: u32,
    /// Tombstones.
    pub deleted: u32,
    /// Bytes of names and entries in a listpack of Redis.
    packed: u32,
    /// Number of names.
    names: u32,
    /// Where the entries begin.
    body: u32,
    bytes: Vec<u8>,
}

/// An entry in its node.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub id: Id,
    pub deleted: bool,
    same: bool,
    /// Where its head is.
    at: usize,
    /// Number of fields (unless they are the node's names) and elements.
    rest: &'a [u8],
}

impl Node {
    /// A node that begins with an entry of this ID and these fields, which is still to be pushed. `room`: bytes it will
    /// probably take.
    pub fn open<'a>(id: Id, names: impl Iterator<Item = Elem<'a>>, room: usize) -> Node {
        let mut node = Node { first: id, bytes: Vec::with_capacity(room), ..Node::default() };
        for name in names {
            append_bare(&mut node.bytes, name);
            node.names += 1;
            node.packed += packed_size(name);
        }
        // The number of names, and the end mark of Redis's master entry.
        node.packed += packed_int(i64::from(node.names)) + packed_int(0);
        node.body = node.bytes.len() as u32;
        node
    }

    /// Bytes of a listpack with the same contents.
    pub fn packed(&self) -> usize {
        const FRAME: u32 = 7;
        (self.packed + FRAME + packed_int(i64::from(self.live)) + packed_int(i64::from(self.deleted))) as usize
    }

    /// Adds an entry of `fields` pairs. Its ID is above all others of the node.
    pub fn push<'a, P>(&mut self, id: Id, fields: usize, pairs: P)
    where
        P: Iterator<Item = (Elem<'a>, Elem<'a>)> + Clone,
    {
        let same = fields == self.names as usize && self.has_names(pairs.clone().map(|(name, _)| name));
        let ms = id.ms.wrapping_sub(self.first.ms);
        let seq = id.seq.wrapping_sub(self.first.seq) as i64;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        varint::write(&mut self.bytes, ms);
        varint::write(&mut self.bytes, zigzag(seq));
        let mut pieces = 3 + fields as i64;
        self.packed += packed_int(0) + packed_int(ms as i64) + packed_int(seq);
        if !same {
            varint::write(&mut self.bytes, fields as u64);
            pieces += 1 + fields as i64;
            self.packed += packed_int(fields as i64);
        }
        for (name, value) in pairs {
            if !same {
                append_bare(&mut self.bytes, name);
                self.packed += packed_size(name);
            }
            append_bare(&mut self.bytes, value);
            self.packed += packed_size(value);
        }
        self.packed += packed_int(pieces);
        self.seal(at, if same { SAME } else { 0 });
        self.live += 1;
        self.last = id;
        self.last_live = id;
    }

    /// Writes the head of the entry at `at`, the last one.
    fn seal(&mut self, at: usize, flags: u16) {
        let size = self.bytes.len() - at - 2;
        let head = if size < usize::from(LONG) {
            size as u16
        } else {
            self.bytes.splice(at + 2..at + 2, (size as u32).to_le_bytes());
            LONG
        };
        self.bytes[at..at + 2].copy_from_slice(&(flags | head).to_le_bytes());
    }

    fn has_names<'a>(&self, mut names: impl Iterator<Item = Elem<'a>>) -> bool {
        let mut at = 0;
        (0..self.names).all(|_| {
            let (name, size) = read_bare(&self.bytes[at..]);
            at += size;
            names.next() == Some(name)
        })
    }

    /// The fields of the first entry.
    pub fn names(&self) -> impl Iterator<Item = Elem<'_>> {
        let mut at = 0;
        (0..self.names).map(move |_| {
            let (name, size) = read_bare(&self.bytes[at..]);
            at += size;
            name
        })
    }

    /// All entries, tombstones included.
    pub fn raw(&self) -> RawEntries<'_> {
        RawEntries { node: self, at: self.body as usize }
    }

    /// An entry for readers.
    pub fn entry<'a>(&'a self, raw: Raw<'a>) -> Entry<'a> {
        if raw.same {
            Entry::new(raw.id, self.names as usize, Some(&self.bytes), raw.rest)
        } else {
            let (fields, n) = varint::read(raw.rest).unwrap_or((0, 0));
            Entry::new(raw.id, fields as usize, None, &raw.rest[n..])
        }
    }

    /// The entry of this ID, unless it is deleted.
    pub fn find(&self, id: Id) -> Option<Raw<'_>> {
        self.raw().find(|raw| raw.id >= id).filter(|raw| raw.id == id && !raw.deleted)
    }

    /// The first entry that is not deleted.
    pub fn first_live(&self) -> Option<Id> {
        self.raw().find(|raw| !raw.deleted).map(|raw| raw.id)
    }

    /// Deletes an entry. False: it is not there.
    pub fn delete(&mut self, id: Id) -> bool {
        let Some(at) = self.find(id).map(|raw| raw.at) else { return false };
        self.bury(at);
        self.settle();
        true
    }

    /// Deletes entries from the front while `more` accepts their ID, `most` at most. Returns how many.
    pub fn trim(&mut self, most: u64, more: impl Fn(Id) -> bool) -> u64 {
        let doomed = self.raw().take_while(|raw| more(raw.id)).filter(|raw| !raw.deleted).take(most as usize);
        let doomed: Vec<usize> = doomed.map(|raw| raw.at).collect();
        doomed.iter().for_each(|at| self.bury(*at));
        self.settle();
        doomed.len() as u64
    }

    fn bury(&mut self, at: usize) {
        // The head is little-endian: its high byte comes second.
        self.bytes[at + 1] |= (DELETED >> 8) as u8;
        self.live -= 1;
        self.deleted += 1;
    }

    /// Adds a tombstone, as payloads of Redis have them.
    pub fn push_deleted<'a, P>(&mut self, id: Id, fields: usize, pairs: P)
    where
        P: Iterator<Item = (Elem<'a>, Elem<'a>)> + Clone,
    {
        let (at, last_live) = (self.bytes.len(), self.last_live);
        self.push(id, fields, pairs);
        self.bury(at);
        self.last_live = last_live;
    }

    /// After a deletion.
    fn settle(&mut self) {
        let last = self.raw().filter(|raw| !raw.deleted).last();
        self.last_live = last.map_or(Id::MIN, |raw| raw.id);
    }

    /// Gives back unused memory: nothing will be added any more.
    pub fn shrink(&mut self) {
        if self.bytes.capacity() > self.bytes.len() + self.bytes.len() / 16 {
            self.bytes.shrink_to_fit();
        }
    }

    /// Appends the node as it lies in memory: first ID, number of names, names and entries.
    pub fn save(&self, out: &mut Vec<u8>) {
        varint::write(out, self.first.ms);
        varint::write(out, self.first.seq);
        varint::write(out, u64::from(self.names));
        out.extend_from_slice(&self.bytes);
    }

    /// Reads what [`Node::save`] wrote, and nothing else: every entry is written anew, and must turn out the same.
    ///
    /// # Errors
    ///
    /// The bytes are no node.
    pub fn load(bytes: &[u8]) -> Result<Node, Corrupt> {
        const BAD: Corrupt = Corrupt("node of a stream");
        let mut rest = bytes;
        let mut number = || {
            let (number, size) = varint::read(rest).ok_or(BAD)?;
            rest = &rest[size..];
            Ok(number)
        };
        let (first, names) = (Id { ms: number()?, seq: number()? }, number()?);
        if rest.len() > u32::MAX as usize / 2 || names > rest.len() as u64 {
            return Err(BAD);
        }
        let all = rest;
        fn elem<'a>(rest: &mut &'a [u8]) -> Result<Elem<'a>, Corrupt> {
            let (elem, size) = take_bare(rest).ok_or(BAD)?;
            *rest = &rest[size..];
            Ok(elem)
        }
        let names = (0..names).map(|_| elem(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        let mut node = Node::open(first, names.iter().copied(), all.len());
        let (mut pairs, mut before) = (Vec::new(), None);
        while !rest.is_empty() {
            let (head, after) = rest.split_first_chunk().ok_or(BAD)?;
            let head = u16::from_le_bytes(*head);
            let (size, after) = match head & LONG {
                LONG => {
                    let (size, after) = after.split_first_chunk().ok_or(BAD)?;
                    (u32::from_le_bytes(*size) as usize, after)
                }
                size => (usize::from(size), after),
            };
            let (mut entry, after) = after.split_at_checked(size).ok_or(BAD)?;
            rest = after;
            let mut number = || {
                let (number, size) = varint::read(entry).ok_or(BAD)?;
                entry = &entry[size..];
                Ok(number)
            };
            let (ms, seq) = (number()?, number()?);
            let id = Id { ms: first.ms.wrapping_add(ms), seq: first.seq.wrapping_add_signed(unzigzag(seq)) };
            if id < first || before.is_some_and(|before| id <= before) {
                return Err(BAD);
            }
            before = Some(id);
            pairs.clear();
            if head & SAME != 0 {
                for name in &names {
                    pairs.push((*name, elem(&mut entry)?));
                }
            } else {
                for _ in 0..number()? {
                    pairs.push((elem(&mut entry)?, elem(&mut entry)?));
                }
            }
            if head & DELETED != 0 {
                node.push_deleted(id, pairs.len(), pairs.iter().copied());
            } else {
                node.push(id, pairs.len(), pairs.iter().copied());
            }
        }
        if node.live > 0 && node.bytes == all { Ok(node) } else { Err(BAD) }
    }

    /// Bytes of names and entries.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// See [`Node::raw`].
#[derive(Clone)]
pub(crate) struct RawEntries<'a> {
    node: &'a Node,
    at: usize,
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Raw<'a>> {
        let at = self.at;
        let [a, b, after @ ..] = self.node.bytes.get(at..)? else { return None };
        let head = u16::from_le_bytes([*a, *b]);
        let (size, after) = match head & LONG {
            LONG => {
                let (size, after) = after.split_first_chunk::<4>()?;
                self.at += 6;
                (u32::from_le_bytes(*size) as usize, after)
            }
            size => {
                self.at += 2;
                (usize::from(size), after)
            }
        };
        self.at += size;
        let rest = &after[..size];
        let (ms, n) = varint::read(rest)?;
        let (seq, m) = varint::read(&rest[n..])?;
        let id =
            Id { ms: self.node.first.ms.wrapping_add(ms), seq: self.node.first.seq.wrapping_add_signed(unzigzag(seq)) };
        Some(Raw { id, deleted: head & DELETED != 0, same: head & SAME != 0, at, rest: &rest[n + m..] })
    }
}

impl Raw<'_> {
    /// True if its fields are the node's names.
    pub fn is_same(&self) -> bool {
        self.same
    }
}

impl Leaf for Node {
    type Sep = Id;
    const SORTED: bool = true;

    /// A node is one element of the tree: ranks are those of nodes.
    fn len(&self) -> usize {
        usize::from(self.live > 0)
    }

    fn bytes(&self) -> usize {
        if self.live > 0 { LEAF_BYTES } else { 0 }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn split(&mut self, _keep: usize) -> Self {
        debug_assert!(false, "a node is one element");
        Node::default()
    }

    fn append(&mut self, _next: Self) {
        debug_assert!(false, "nodes are too large to be merged");
    }

    fn remove_range(&mut self, _range: Range<usize>) {
        *self = Node::default();
    }

    fn first_sep(&self) -> Id {
        self.first
    }
}

fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

/// Bytes of an integer in a listpack.
fn packed_int(int: i64) -> u32 {
    2 + match int {
        0..=127 => 0,
        -4096..=4095 => 1,
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}

/// Bytes of an element in a listpack.
fn packed_size(elem: Elem<'_>) -> u32 {
    match elem {
        Elem::Int(int) => packed_int(int),
        Elem::Bytes(bytes) => {
            let len = bytes.len() as u32;
            let size = len
                + match len {
                    0..64 => 1,
                    64..4096 => 2,
                    _ => 5,
                };
            let back = match size {
                0..=127 => 1,
                128..16_383 => 2,
                16_383..2_097_151 => 3,
                2_097_151..268_435_455 => 4,
                _ => 5,
            };
            size + back
        }
    }
}

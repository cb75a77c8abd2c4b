//! From records and leaves to values.

use super::small::load_int;
use super::{CUT, Collection, VERSION, kind};
use crate::block::Block;
use crate::hash::field::Stored;
use crate::hashed::{Leaf, Record, Table, each_record, seed_check, varint};
use crate::list::leaf::Run;
use crate::set::Member;
use crate::tree::Tree;
use crate::{Corrupt, Hash, List, Set, Stream, ZSet, stream, zset};

/// The content of a record. Strings are borrowed from it.
pub enum Loaded<'a> {
    /// A string that is a canonical integer.
    Int(i64),
    /// A short string. Records do not bound its length: their writer did.
    Short(&'a [u8]),
    /// A short string that was changed in place.
    Raw(&'a [u8]),
    /// A long string.
    Blob(&'a [u8]),
    /// A collection.
    Collection(Collection),
    /// The header of a large value: its leaves are to be added.
    Large(Assembler),
}

/// Reads a record. Never panics; allocates no more than a small multiple of its bytes.
///
/// # Errors
///
/// The bytes are no record.
pub fn load(record: &[u8]) -> Result<Loaded<'_>, Corrupt> {
    let (tag, body) = record.split_first().ok_or(CUT)?;
    if tag & 0xf0 != VERSION {
        return Err(Corrupt("unknown version of a record"));
    }
    Ok(match tag & 0x0f {
        kind::INT => Loaded::Int(load_int(body).ok_or(CUT)?),
        kind::SHORT => Loaded::Short(body),
        kind::RAW => Loaded::Raw(body),
        kind::BLOB => Loaded::Blob(body),
        kind::LIST => Loaded::Collection(Collection::List(List::decode(body)?)),
        kind::SET => Loaded::Collection(Collection::Set(Set::decode(body)?)),
        kind::ZSET => Loaded::Collection(Collection::ZSet(ZSet::decode(body)?)),
        kind::HASH => Loaded::Collection(Collection::Hash(Hash::decode(body)?)),
        kind::STREAM => Loaded::Collection(Collection::Stream(Stream::load(body)?)),
        large => Loaded::Large(Assembler::new(large, body)?),
    })
}

/// A large value that was read.
pub enum Assembled {
    /// A long string.
    String(Vec<u8>),
    /// A collection.
    Collection(Collection),
}

/// A leaf of a collection has about so many bytes at most.
const LEAF: u64 = 8 << 10;

/// Of a string that its header says to be longer, the rest gets room as it comes.
const STRING_AT_ONCE: u64 = 1 << 30;

/// Collects the leaves of a large value.
pub struct Assembler {
    object: u64,
    epoch: u64,
    /// As the header has it.
    leaves: u64,
    /// Number of elements, or of a string's bytes.
    len: u64,
    kind: u8,
    parts: Parts,
    last: Option<u64>,
    count: u64,
}

enum Parts {
    String(Vec<u8>),
    List(Vec<(u64, Run)>, bool),
    Set(Records<Member>),
    ZSet(Vec<zset::Leaf>),
    Hash(Records<Stored>),
    Stream(stream::Parts),
}

/// Leaves of a table, or the bytes of some that are in the order of another process's seed.
enum Records<R: Record> {
    Leaves(Vec<(u64, Leaf<R>)>),
    Foreign(Vec<Vec<u8>>),
}

impl Assembler {
    /// `body` follows the first byte of the header.
    fn new(kind: u8, body: &[u8]) -> Result<Self, Corrupt> {
        let (object, rest) = body.split_first_chunk().ok_or(CUT)?;
        let (epoch, mut rest) = rest.split_first_chunk().ok_or(CUT)?;
        let mut number = || {
            let (number, size) = varint::read(rest).ok_or(CUT)?;
            rest = &rest[size..];
            Ok(number)
        };
        let (leaves, len) = (number()?, number()?);
        const LIST: u8 = kind::LARGE + kind::LIST;
        const SET: u8 = kind::LARGE + kind::SET;
        const ZSET: u8 = kind::LARGE + kind::ZSET;
        const HASH: u8 = kind::LARGE + kind::HASH;
        const STREAM: u8 = kind::LARGE + kind::STREAM;
        let parts = match (kind, rest) {
            (kind::LARGE_STRING, []) => Parts::String(Vec::new()),
            (LIST, [quicklist @ 0..=1]) => Parts::List(Vec::new(), *quicklist == 1),
            (ZSET, []) => Parts::ZSet(Vec::new()),
            (SET, _) => Parts::Set(Records::new(rest)?),
            (HASH, _) => Parts::Hash(Records::new(rest)?),
            (STREAM, _) => Parts::Stream(stream::Parts::of_header(rest)?),
            _ => return Err(Corrupt("unknown kind of a record")),
        };
        let (object, epoch) = (u64::from_le_bytes(*object), u64::from_le_bytes(*epoch));
        if epoch == 0 || leaves == 0 {
            return Err(Corrupt("header of a large value"));
        }
        Ok(Assembler { object, epoch, leaves, len, kind, parts, last: None, count: 0 })
    }

    /// The object under which the leaves lie.
    pub fn object(&self) -> u64 {
        self.object
    }

    /// About how many bytes of memory the value will take: more, if elements are longer than a leaf, each of which has
    /// one of its own.
    pub fn bytes(&self) -> u64 {
        match self.parts {
            Parts::String(_) => self.len,
            _ => self.leaves.saturating_mul(LEAF),
        }
    }

    /// Adds a leaf. They come in ascending order of their labels.
    ///
    /// # Errors
    ///
    /// The leaf is damaged, or does not belong here.
    pub fn add(&mut self, label: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        if self.last.is_some_and(|last| last >= label) {
            return Err(Corrupt("order of labels"));
        }
        self.last = Some(label);
        self.count += 1;
        let bytes = match bytes.split_first() {
            Some((tag, rest)) if *tag == VERSION | self.kind => rest,
            _ => return Err(Corrupt("kind or version of a leaf")),
        };
        match &mut self.parts {
            Parts::String(text) => {
                // The first leaf is as long as any.
                let most = self.leaves.saturating_mul(bytes.len() as u64);
                if self.count == 1 && self.len <= most {
                    text.reserve_exact(self.len.min(STRING_AT_ONCE) as usize);
                }
                text.extend_from_slice(bytes);
            }
            Parts::List(runs, _) => runs.push((label, Run(Block::from_bytes(bytes)?))),
            Parts::Set(records) => records.add(label, bytes)?,
            Parts::ZSet(leaves) => leaves.push(zset::leaf(bytes, label)?),
            Parts::Hash(records) => records.add(label, bytes)?,
            Parts::Stream(parts) => parts.add(label, bytes)?,
        }
        Ok(())
    }

    /// The value, when all leaves were added. Takes as long as there are elements.
    ///
    /// # Errors
    ///
    /// A leaf is missing, or they do not belong together.
    pub fn finish(self) -> Result<Assembled, Corrupt> {
        if self.count != self.leaves {
            return Err(Corrupt("number of leaves"));
        }
        let (len, value) = match self.parts {
            Parts::String(text) if text.len() as u64 == self.len => return Ok(Assembled::String(text)),
            Parts::String(_) => return Err(Corrupt("length of a string")),
            Parts::List(runs, quicklist) => {
                let tree = Tree::assemble(runs, self.epoch)?;
                (tree.len(), Collection::List(List::of_tree(tree, quicklist)))
            }
            Parts::Set(records) => {
                let table = records.table(self.len, self.epoch)?;
                (table.len(), Collection::Set(Set::of_table(table)))
            }
            Parts::ZSet(leaves) => {
                let zset = ZSet::assemble(leaves, self.epoch)?;
                (zset.len(), Collection::ZSet(zset))
            }
            Parts::Hash(records) => {
                let table = records.table(self.len, self.epoch)?;
                (table.len(), Collection::Hash(Hash::of_table(table)))
            }
            Parts::Stream(parts) => {
                let stream = parts.finish(self.epoch)?;
                (stream.len(), Collection::Stream(stream))
            }
        };
        if len == self.len { Ok(Assembled::Collection(value)) } else { Err(Corrupt("number of elements")) }
    }
}

impl<R: Record> Records<R> {
    fn new(header: &[u8]) -> Result<Self, Corrupt> {
        let check = header.as_array().ok_or(CUT)?;
        let own = u64::from_le_bytes(*check) == seed_check();
        Ok(if own { Records::Leaves(Vec::new()) } else { Records::Foreign(Vec::new()) })
    }

    fn add(&mut self, label: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        match self {
            Records::Leaves(leaves) => leaves.push((label, Leaf::load(bytes)?)),
            Records::Foreign(leaves) => {
                each_record::<R>(bytes, |_| Ok(()))?;
                leaves.push(bytes.to_vec());
            }
        }
        Ok(())
    }

    fn table(self, len: u64, epoch: u64) -> Result<Table<R>, Corrupt> {
        let leaves = match self {
            Records::Leaves(leaves) => return Table::assemble(leaves, epoch),
            Records::Foreign(leaves) => leaves,
        };
        let mut records = Vec::new();
        for leaf in &leaves {
            each_record::<R>(leaf, |record| {
                records.push(record);
                Ok(())
            })?;
        }
        if records.len() as u64 != len {
            return Err(Corrupt("number of elements"));
        }
        // Records that are there twice make it shorter.
        Ok(Table::build(records))
    }
}

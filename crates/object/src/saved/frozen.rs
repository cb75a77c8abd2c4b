//! Values at one moment, and what of them a store does not have.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{Freeze, LARGE_BYTES, Ledger, STRING_LEAF, VERSION, header_ids, kind, string_has_leaves};
use crate::hash::field::Stored;
use crate::hashed::{Table, seed_check, varint};
use crate::list::leaf::Run;
use crate::set::Member;
use crate::tree::Tree;
use crate::{Hash, List, Set, Stream, ZSet, zset};

/// A large value as it was when it was frozen. Its leaves are shared with the value until that changes them.
pub struct Frozen {
    shape: Shape,
    epoch: u64,
}

enum Shape {
    String(Arc<Vec<u8>>),
    /// With whether Redis would call it a quicklist.
    List(Tree<Run>, bool),
    Set(Table<Member>),
    ZSet(zset::Order),
    Hash(Table<Stored>),
    Stream(Box<Stream>),
}

impl Shape {
    fn kind(&self) -> u8 {
        match self {
            Shape::String(_) => kind::LARGE_STRING,
            Shape::List(..) => kind::LARGE + kind::LIST,
            Shape::Set(_) => kind::LARGE + kind::SET,
            Shape::ZSet(_) => kind::LARGE + kind::ZSET,
            Shape::Hash(_) => kind::LARGE + kind::HASH,
            Shape::Stream(_) => kind::LARGE + kind::STREAM,
        }
    }

    /// The leaves that the store may have; `None`: it is written whole each time.
    fn ledger(&self) -> Option<&Ledger> {
        match self {
            Shape::String(_) => None,
            Shape::List(tree, _) => tree.ledger(),
            Shape::Set(table) => table.ledger(),
            Shape::ZSet(order) => Some(order.ledger()),
            Shape::Hash(table) => table.ledger(),
            Shape::Stream(stream) => Some(stream.ledger()),
        }
    }

    /// Number of elements, or of a string's bytes.
    fn len(&self) -> u64 {
        match self {
            Shape::String(text) => text.len() as u64,
            Shape::List(tree, _) => tree.len(),
            Shape::Set(table) => table.len(),
            Shape::ZSet(order) => order.len(),
            Shape::Hash(table) => table.len(),
            Shape::Stream(stream) => stream.len(),
        }
    }

    fn leaf_count(&self) -> u64 {
        match self {
            Shape::String(text) => text.len().div_ceil(STRING_LEAF) as u64,
            Shape::Stream(stream) => stream.leaf_count(),
            _ => self.ledger().map_or(0, |ledger| ledger.leaves),
        }
    }
}

impl Frozen {
    /// A string, as [`Freeze::freeze`] does it with collections; `None` if it is not large.
    pub fn of_string(text: &Arc<Vec<u8>>, epoch: impl FnOnce() -> NonZeroU64) -> Option<Self> {
        string_has_leaves(text.len()).then(|| Self { shape: Shape::String(text.clone()), epoch: epoch().get() })
    }

    /// The changes to write, given the store's record under the value's key, whatever that is.
    pub fn changes(&self, stored: Option<&[u8]>) -> Changes<'_> {
        let stored = stored.and_then(header_ids);
        let ledger = self.shape.ledger();
        match (stored, ledger) {
            (Some((object, epoch)), Some(ledger)) if epoch == ledger.epoch() && epoch != 0 => {
                Changes { frozen: self, object, since: Some(ledger.mark()), discarded: None }
            }
            _ => {
                let discarded = stored.map(|(object, _)| object);
                Changes { frozen: self, object: self.epoch, since: None, discarded }
            }
        }
    }
}

/// The changes that a checkpoint has to write for a frozen value. Deletions come first.
pub struct Changes<'a> {
    frozen: &'a Frozen,
    object: u64,
    /// The mark from which on leaves are not in the store; `None`: all of them are written.
    since: Option<u32>,
    discarded: Option<u64>,
}

impl Changes<'_> {
    /// The object under which the leaves lie.
    pub fn object(&self) -> u64 {
        self.object
    }

    /// Another object, that of the record before, all of whose leaves are void.
    pub fn discarded(&self) -> Option<u64> {
        self.discarded
    }

    /// Labels of the object's leaves that are void.
    pub fn removed(&self) -> Vec<RangeInclusive<u64>> {
        match (&self.frozen.shape, self.frozen.shape.ledger()) {
            _ if self.since.is_none() => Vec::new(),
            (Shape::Stream(stream), _) => stream.removed(),
            (_, ledger) => ledger.iter().flat_map(|ledger| ledger.removed()).map(|label| *label..=*label).collect(),
        }
    }

    /// Shows label and bytes of every leaf to be put, in no particular order, until `put` fails.
    ///
    /// # Errors
    ///
    /// The error of `put`.
    pub fn leaves<E>(&self, mut put: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let since = self.since.unwrap_or(0);
        let tag = VERSION | self.frozen.shape.kind();
        let mut bytes = Vec::new();
        let mut put = |label, save: &dyn Fn(&mut Vec<u8>)| {
            bytes.clear();
            bytes.push(tag);
            save(&mut bytes);
            put(label, &bytes)
        };
        match &self.frozen.shape {
            Shape::String(text) => {
                let mut leaves = (0..).zip(text.chunks(STRING_LEAF));
                leaves.try_for_each(|(label, leaf)| put(label, &|out| out.extend_from_slice(leaf)))
            }
            Shape::List(tree, _) => {
                tree.changed(since, |label, run| put(label, &|out| out.extend_from_slice(run.0.as_bytes())))
            }
            Shape::Set(table) => table.changed(since, put),
            Shape::ZSet(order) => order.changed(since, put),
            Shape::Hash(table) => table.changed(since, put),
            Shape::Stream(stream) => stream.leaves(self.since.is_none(), put),
        }
    }

    /// Appends the header: the record to be put under the value's key.
    pub fn header(&self, out: &mut Vec<u8>) {
        let shape = &self.frozen.shape;
        out.push(VERSION | shape.kind());
        out.extend_from_slice(&self.object.to_le_bytes());
        out.extend_from_slice(&self.frozen.epoch.to_le_bytes());
        varint::write(out, shape.leaf_count());
        varint::write(out, shape.len());
        match shape {
            Shape::List(_, quicklist) => out.push(u8::from(*quicklist)),
            Shape::String(_) | Shape::ZSet(_) => {}
            Shape::Set(_) | Shape::Hash(_) => out.extend_from_slice(&seed_check().to_le_bytes()),
            Shape::Stream(stream) => stream.save_own(out),
        }
    }
}

impl Freeze for List {
    fn is_large(&self) -> bool {
        self.large_bytes() >= LARGE_BYTES
    }

    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen> {
        if !self.is_large() {
            return None;
        }
        let (tree, quicklist) = self.tree_mut()?;
        let shape = Shape::List(tree.clone(), quicklist);
        tree.ledger_mut().begin(epoch.get());
        Some(Frozen { shape, epoch: epoch.get() })
    }
}

impl Freeze for Set {
    fn is_large(&self) -> bool {
        self.large_bytes() >= LARGE_BYTES
    }

    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen> {
        if !self.is_large() {
            return None;
        }
        let shape = Shape::Set(self.table_mut()?.freeze(epoch));
        Some(Frozen { shape, epoch: epoch.get() })
    }
}

impl Freeze for ZSet {
    fn is_large(&self) -> bool {
        self.large_bytes() >= LARGE_BYTES
    }

    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen> {
        if !self.is_large() {
            return None;
        }
        let shape = Shape::ZSet(self.freeze_order(epoch)?);
        Some(Frozen { shape, epoch: epoch.get() })
    }
}

impl Freeze for Hash {
    fn is_large(&self) -> bool {
        self.large_bytes() >= LARGE_BYTES
    }

    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen> {
        if !self.is_large() {
            return None;
        }
        let shape = Shape::Hash(self.table_mut()?.freeze(epoch));
        Some(Frozen { shape, epoch: epoch.get() })
    }
}

impl Freeze for Stream {
    fn is_large(&self) -> bool {
        self.large_bytes() >= LARGE_BYTES
    }

    /// O(groups), and a copy of the last node.
    fn freeze(&mut self, epoch: NonZeroU64) -> Option<Frozen> {
        if !self.is_large() {
            return None;
        }
        let shape = Shape::Stream(Box::new(self.clone()));
        self.begin(epoch.get());
        Some(Frozen { shape, epoch: epoch.get() })
    }
}

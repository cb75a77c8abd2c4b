//! The large form of hashes and sets in a store.
//!
//! ```text
//! leaf := records in the order of their marks: length (base 128), bytes
//! ```

use std::num::NonZeroU64;

use super::leaf::{Leaf, RECORD_BYTES_MAX, Record};
use super::table::Table;
use super::{Mark, seed, varint};
use crate::Corrupt;
use crate::saved::Ledger;
use crate::tree::{self, Leaf as _, Tree};

/// Tells whether another process's marks are those of this one.
pub(crate) fn seed_check() -> u64 {
    seed::hash(b"marks")
}

/// Shows the records of a leaf that comes from a store.
pub(crate) fn each_record<'a, R: Record>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(&'a [u8]) -> Result<(), Corrupt>,
) -> Result<(), Corrupt> {
    if bytes.is_empty() {
        return Err(Corrupt("empty leaf"));
    }
    while !bytes.is_empty() {
        let record = varint::take(&mut bytes).ok_or(Corrupt("record cut short"))?;
        if record.len() > RECORD_BYTES_MAX || !R::is_record(record) {
            return Err(Corrupt("not a record"));
        }
        each(record)?;
    }
    Ok(())
}

impl<R: Record> Leaf<R> {
    /// A leaf from its bytes, checked by itself.
    ///
    /// # Errors
    ///
    /// The bytes are no leaf.
    pub fn load(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut leaf = Leaf::default();
        each_record::<R>(bytes, |record| {
            let (at, mark) = (leaf.len(), R::mark(R::key(record)));
            if at > 0 && leaf.mark(at - 1) > mark {
                return Err(Corrupt("order of a leaf's records"));
            }
            if at > 0 && leaf.bytes() + record.len() > 8 * tree::LEAF_BYTES_MAX {
                return Err(Corrupt("size of a leaf"));
            }
            leaf.insert(at, mark, &[record]);
            Ok(())
        })?;
        Ok(leaf)
    }

    fn save(&self, out: &mut Vec<u8>) {
        for at in 0..self.len() {
            let record = self.record(at);
            varint::write(out, record.len() as u64);
            out.extend_from_slice(record);
        }
    }
}

impl<R: Record> Table<R> {
    /// The table as it is now, for a checkpoint that calls itself `epoch`.
    pub fn freeze(&mut self, epoch: NonZeroU64) -> Self {
        let frozen = self.clone();
        self.tree.ledger_mut().begin(epoch.get());
        frozen
    }

    /// Bytes of the records and what finds them.
    pub fn bytes(&self) -> usize {
        self.tree.bytes()
    }

    pub fn ledger(&self) -> Option<&Ledger> {
        self.tree.ledger()
    }

    /// Shows label and contents of the leaves changed since the freeze that began mark `since`.
    ///
    /// # Errors
    ///
    /// The error of `each`.
    pub fn changed<E>(
        &self,
        since: u32,
        mut each: impl FnMut(u64, &dyn Fn(&mut Vec<u8>)) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tree.changed(since, |label, leaf| each(label, &|out: &mut Vec<u8>| leaf.save(out)))
    }

    /// The table that a freeze called `epoch` left in a store, from its labels and leaves, in any order.
    ///
    /// # Errors
    ///
    /// The leaves do not belong together.
    pub fn assemble(mut leaves: Vec<(u64, Leaf<R>)>, epoch: u64) -> Result<Self, Corrupt> {
        let ends = |leaf: &Leaf<R>| (leaf.mark(0), leaf.mark(leaf.len() - 1));
        if leaves.iter().any(|(_, leaf)| leaf.is_empty()) {
            return Err(Corrupt("empty leaf"));
        }
        leaves.sort_by_key(|(_, leaf)| ends(leaf));
        if !leaves.windows(2).all(|pair| ends(&pair[0].1).1 <= ends(&pair[1].1).0) {
            return Err(Corrupt("order of leaves"));
        }
        let table = Table { tree: Tree::assemble(leaves, epoch)? };
        // Equal keys have one mark; few keys share one.
        let (mut mark, mut keys) = (Mark::default(), Vec::new());
        for (leaf, _) in table.tree.leaves_from(0) {
            for at in 0..leaf.len() {
                let key = R::key(leaf.record(at));
                if leaf.mark(at) != mark {
                    mark = leaf.mark(at);
                    keys.clear();
                }
                if keys.contains(&key) {
                    return Err(Corrupt("record twice"));
                }
                keys.push(key);
            }
        }
        Ok(table)
    }
}

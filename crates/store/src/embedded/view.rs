//! A reader's view: an unchanging list of places to search, the newest first.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::table::filter::standard_bloom::Builder as Bloom;
use lsm_tree::{AbstractTree, InternalValue, Memtable, SeqNo, Table, Tree};

use crate::retired::Retired;
use crate::{Error, Generation, check};

/// Tables whose keys do not overlap, in order.
pub type Run = Arc<[Table]>;

/// The entries that are not durable yet, part by part.
#[derive(Clone)]
pub enum Held {
    Memory(Arc<Memtable>),
    /// Written to disk because memory was full, but not part of the durable state.
    Run(Run),
}

/// A part of the entries that are not durable.
#[derive(Clone)]
pub struct Layer {
    /// Rises with every layer.
    pub id: u64,
    pub held: Held,
}

/// The places to search. It never changes, except that the active memory grows; entries newer than a reader's sequence
/// number are skipped.
#[derive(Clone)]
pub struct View {
    pub active: Arc<Memtable>,
    /// The newest first.
    pub layers: Vec<Layer>,
    pub durable: Durable,
    pub retired: Arc<Retired>,
}

/// The durable state, as one manifest has it.
#[derive(Clone)]
pub struct Durable {
    /// The number of the manifest.
    pub generation: Generation,
    /// The newest first.
    pub runs: Arc<[Run]>,
}

/// The durable state as the tree has it now. May wait while a manifest is being synced: no reader may have to wait for
/// the caller.
pub fn durable(tree: &Tree) -> Durable {
    let version = tree.current_version();
    let runs = version.iter_levels().flat_map(|level| level.iter());
    Durable { generation: version.id(), runs: runs.map(|run| run.iter().cloned().collect::<Run>()).collect() }
}

/// The smallest and the largest key of a table.
pub fn ends(table: &Table) -> (&[u8], &[u8]) {
    (table.metadata.key_range.min(), table.metadata.key_range.max())
}

/// The table of a run that may have the key.
fn find<'a>(run: &'a [Table], key: &[u8]) -> Option<&'a Table> {
    let at = run.partition_point(|table| ends(table).1 < key);
    run.get(at).filter(|table| ends(table).0 <= key)
}

impl View {
    /// The value of a key among the entries written up to `seq`.
    ///
    /// # Errors
    ///
    /// The disk has failed to read, or a block does not match its checksum.
    pub fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<InternalValue>, Error> {
        if self.retired.covers(key) {
            return Ok(None);
        }
        Ok(self.find(key, seq)?.filter(|found| !found.is_tombstone()))
    }

    fn find(&self, key: &[u8], seq: SeqNo) -> Result<Option<InternalValue>, Error> {
        if let Some(found) = self.active.get(key, seq + 1) {
            return Ok(Some(found));
        }
        let hash = Bloom::get_hash(key);
        for layer in &self.layers {
            let found = match &layer.held {
                Held::Memory(memory) => memory.get(key, seq + 1),
                Held::Run(run) => look_up(run, key, hash)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        for run in self.durable.runs.iter() {
            let found = look_up(run, key, hash)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Takes a later durable state; an earlier one is not taken.
    pub fn advance(&mut self, durable: Durable) {
        if durable.generation >= self.durable.generation {
            self.durable = durable;
        }
    }

    /// All tables of the durable state.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.durable.runs.iter().flat_map(|run| run.iter())
    }

    /// Bytes in memory that are not durable, of the layers after the one numbered `after`.
    pub fn memory(&self, after: u64) -> u64 {
        let sealed = self.layers.iter().filter(|layer| layer.id > after).map(|layer| match &layer.held {
            Held::Memory(memory) => memory.size(),
            Held::Run(_) => 0,
        });
        sealed.sum::<u64>() + self.active.size()
    }
}

fn look_up(run: &[Table], key: &[u8], hash: u64) -> Result<Option<InternalValue>, Error> {
    let Some(table) = find(run, key) else { return Ok(None) };
    table.get(key, SeqNo::MAX, hash).map_err(|e| table_error(&table.path, &e))
}

/// The fault of a table, as exactly as its file can tell.
pub fn table_error(path: &Path, error: &lsm_tree::Error) -> Error {
    let plain = Error::tree(path, error);
    match plain {
        Error::Damaged { .. } => check::locate(path).unwrap_or(plain),
        other => other,
    }
}

//! The store on the local disk: tables, manifest and compaction of `lsm-tree`, with memory and flushes of this crate.
//!
//! `lsm-tree` makes one memtable durable at a time and lets readers wait while it syncs a manifest. So it is used below
//! its memtable:
//! - Batches go into a memtable of this crate ([`View::active`]). Entries carry the number of their batch, and a batch
//!   is seen when the number is published. A snapshot is a view and such a number.
//! - When memory is full before a flush, the memtable becomes a run of tables that the manifest does not name.
//! - A flush merges everything that is not durable into tables whose keys do not overlap, unless they do not overlap as
//!   they are. One new manifest names them all.
//! - Readers hold a [`View`], never a lock of `lsm-tree`; a table's file is removed when the table has no owner.
//! - One thread ([`tend`]) compacts, and gives back the space of retired prefixes.

mod backup;
mod files;
mod flush;
mod merge;
mod open;
mod pace;
mod snapshot;
mod tend;
mod view;

pub use backup::mirror;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::{InternalValue, Memtable, SeqNo, Tree, ValueType};

use crate::batch::RETIRED;
use crate::identity::Lock;
use crate::retired::{self, Retired};
use crate::{Batch, Error, Figures, Generation, Op, Snapshot, Store};
use files::Files;
use pace::Pace;
use tend::Tend;
use view::{Held, Layer, View};

/// A time that never goes back and means nothing but its differences.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How tables are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
}

/// The limits of a store. Others are fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that may be written before memory is spilled to disk. While it flushes, or when the disk is full, up to
    /// three times as much is used.
    pub memory: u64,
    /// Bytes of the cache of blocks.
    pub cache: u64,
    /// Open files that are kept for reading.
    pub files: usize,
    /// Bytes of a table.
    pub table: u64,
    /// Bytes of entries per second that compaction may merge; 0 is without limit.
    pub compaction_per_second: u64,
    /// Of blocks of entries. Indexes and filters are never compressed.
    pub compression: Compression,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            cache: 64 << 20,
            files: 256,
            table: 64 << 20,
            compaction_per_second: 0,
            compression: Compression::Lz4,
        }
    }
}

/// How to open a store.
#[derive(Clone)]
pub struct Settings {
    /// The node whose data it is. A folder with another node's data is refused.
    pub node: [u8; 16],
    /// The state that must be there at least. An older one means that old files were put back.
    pub at_least: Generation,
    /// How much it may use.
    pub limits: Limits,
    /// Handed in.
    pub clock: Clock,
}

/// The store on the local disk. Dropped, it stops its thread; unflushed entries are lost. The folder stays in use as
/// long as there are snapshots.
pub struct Embedded {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the store, its snapshots and its thread share. Locks are taken in the order `flushing`, `writer`,
/// `current`.
struct Shared {
    folder: PathBuf,
    tree: Tree,
    /// Bytes that may be written before memory is spilled.
    memory: AtomicU64,
    clock: Clock,
    pace: Arc<Pace>,
    /// One flush at a time.
    flushing: Mutex<()>,
    writer: Mutex<Writer>,
    current: RwLock<Current>,
    files: Files,
    tend: Tend,
    /// Why there are no more writes.
    fault: Mutex<Option<String>>,
    counts: Counts,
    /// Locked as long as the store is open.
    _lock: Lock,
}

/// The state of the writer.
struct Writer {
    layers: u64,
    memtables: u64,
    /// Layers up to this one are being flushed.
    flushing: u64,
}

/// The visible state.
struct Current {
    view: Arc<View>,
    /// Of the last batch.
    seq: SeqNo,
}

#[derive(Default)]
struct Counts {
    taken: AtomicU64,
    flushed: AtomicU64,
    spilled: AtomicU64,
    compacted: AtomicU64,
    flushes: AtomicU64,
    flush_steps: AtomicU64,
    flush_us_total: AtomicU64,
    flush_us_max: AtomicU64,
    compactions: AtomicU64,
    compaction_us_total: AtomicU64,
}

/// A lock whose holder panicked is taken all the same: its state is changed in single steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Shared {
    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn current_mut(&self) -> RwLockWriteGuard<'_, Current> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> (Arc<View>, SeqNo) {
        let current = self.current();
        (current.view.clone(), current.seq)
    }

    fn tree_folder(&self) -> &Path {
        &self.tree.config.path
    }

    fn alive(&self) -> Result<(), Error> {
        lock(&self.fault).as_ref().map_or(Ok(()), |why| Err(Error::Stopped(why.clone())))
    }

    /// Says why there are no more writes, and that there are none.
    fn stop(&self, why: &Error) -> Error {
        let mut fault = lock(&self.fault);
        Error::Stopped(fault.get_or_insert_with(|| why.to_string()).clone())
    }

    fn write(&self, batch: &Batch) -> Result<(), Error> {
        self.alive()?;
        let mut writer = lock(&self.writer);
        let retired = retired::check(batch, &self.view().0.retired)?;
        self.make_room(&mut writer)?;
        self.counts.taken.fetch_add(batch.bytes() as u64, Relaxed);
        self.apply(&writer, batch.ops(), retired);
        Ok(())
    }

    /// Puts a checked batch into memory, and shows it.
    fn apply<'a>(&self, _writer: &Writer, ops: impl Iterator<Item = Op<'a>>, retired: Option<Retired>) {
        let (view, seq) = self.view();
        let seq = seq + 1;
        for op in ops {
            let entry = match op {
                Op::Put(key, value) => InternalValue::from_components(key, value, seq, ValueType::Value),
                Op::Delete(key) => InternalValue::new_tombstone(key, seq),
                Op::Retire(prefix) => InternalValue::from_components(record(prefix), "", seq, ValueType::Value),
            };
            view.active.insert(entry);
        }
        let mut current = self.current_mut();
        current.seq = seq;
        if let Some(retired) = retired {
            current.view = Arc::new(View { retired: Arc::new(retired), ..View::clone(&current.view) });
        }
    }

    /// Seals the active memory, if there is anything in it.
    fn seal(&self, writer: &mut Writer) {
        let mut current = self.current_mut();
        if current.view.active.is_empty() {
            return;
        }
        writer.layers += 1;
        writer.memtables += 1;
        let mut view = View::clone(&current.view);
        let sealed = std::mem::replace(&mut view.active, Arc::new(Memtable::new(writer.memtables)));
        view.layers.insert(0, Layer { id: writer.layers, held: Held::Memory(sealed) });
        current.view = Arc::new(view);
    }

    fn figures(&self) -> Figures {
        use lsm_tree::AbstractTree;
        let (view, _) = self.view();
        let counts = &self.counts;
        let tables = || view.tables();
        let spilled = view.layers.iter().flat_map(|layer| match &layer.held {
            Held::Memory(_) => [].iter(),
            Held::Run(run) => run.iter(),
        });
        let metrics = self.tree.metrics();
        Figures {
            bytes_taken: counts.taken.load(Relaxed),
            bytes_flushed: counts.flushed.load(Relaxed),
            bytes_spilled: counts.spilled.load(Relaxed),
            bytes_compacted: counts.compacted.load(Relaxed),
            bytes_on_disk: self.files.bytes(tables().chain(spilled)),
            bytes_unflushed: view.memory(0),
            entries_estimate: tables().map(|table| table.metadata.item_count).sum(),
            tables: tables().count() as u64,
            runs: view.durable.runs.len() as u64,
            cache_hits: metrics.block_load_cached_count() as u64,
            cache_misses: metrics.block_load_io_count() as u64,
            bytes_read: metrics.block_io(),
            cache_bytes: self.tree.config.cache.size(),
            pinned_bytes: tables().map(|t| (t.pinned_filter_size() + t.pinned_block_index_size()) as u64).sum(),
            flushes: counts.flushes.load(Relaxed),
            flush_steps: counts.flush_steps.load(Relaxed),
            flush_us_total: counts.flush_us_total.load(Relaxed),
            flush_us_max: counts.flush_us_max.load(Relaxed),
            compactions: counts.compactions.load(Relaxed),
            compaction_us_total: counts.compaction_us_total.load(Relaxed),
            retired: view.retired.len() as u64,
        }
    }
}

/// The key of the record that a prefix is retired.
fn record(prefix: &[u8]) -> Vec<u8> {
    [RETIRED.as_slice(), prefix].concat()
}

impl Store for Embedded {
    fn write(&self, batch: &Batch) -> Result<(), Error> {
        self.shared.write(batch)
    }

    fn flush(&self) -> Result<Generation, Error> {
        self.shared.flush()
    }

    fn generation(&self) -> Generation {
        self.shared.current().view.durable.generation
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let (view, seq) = self.shared.view();
        Ok(view.get(key, seq)?.map(|found| found.value.to_vec()))
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(snapshot::Taken::new(self.shared.clone()))
    }

    fn backup(&self, folder: &Path) -> Result<Generation, Error> {
        self.shared.backup(folder)
    }

    fn tend(&self) {
        self.shared.tend.begin();
    }

    fn figures(&self) -> Figures {
        self.shared.figures()
    }

    fn may_take(&self) -> u64 {
        let (shared, cache) = (&self.shared, &self.shared.tree.config.cache);
        // While one part is written another one fills.
        let unflushed = (2 * shared.memory.load(Relaxed)).saturating_sub(shared.view().0.memory(0));
        unflushed + cache.capacity().saturating_sub(cache.size())
    }

    fn fault(&self) -> Option<Error> {
        self.shared.alive().err()
    }
}

impl Embedded {
    /// Changes how many bytes of entries per second compaction may merge; 0 is without limit.
    pub fn set_compaction_per_second(&self, bytes: u64) {
        self.shared.pace.bytes_per_second.store(bytes, Relaxed);
    }

    /// Changes how many bytes may be written before memory is spilled to disk.
    pub fn set_memory(&self, bytes: u64) {
        self.shared.memory.store(bytes, Relaxed);
    }

    /// Begins to tend the tables, and waits until there is nothing to compact and no space to give back, or the store
    /// takes no more writes.
    pub fn settle(&self) {
        self.shared.tend.begin();
        self.shared.tend.settle();
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.pace.stop();
        self.shared.tend.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

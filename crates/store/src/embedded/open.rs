//! Opening a store: everything that `lsm-tree` would take on trust is verified before it sees the folder.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Memtable, SequenceNumberCounter, Slice,
    Tree,
};

use super::files::Files;
use super::merge::Merge;
use super::pace::{Filters, Pace};
use super::tend::{self, Tend};
use super::view::{View, durable};
use super::{Compression, Counts, Current, Embedded, Settings, Shared, Writer};
use crate::batch::{RETIRED, prefix_end};
use crate::identity::{self, Identity, Lock};
use crate::retired::Retired;
use crate::sections::{CURRENT, TABLES, TREE, file_names, manifests, read_manifest, sections, table_path};
use crate::{Error, check};

/// Bytes of a block of entries, before compression.
const BLOCK: u32 = 4 << 10;

/// Bits of the filter for each key: one absent key in a hundred costs a read.
const FILTER_BITS: f32 = 10.0;

impl Embedded {
    /// Opens the store in `folder`, or makes one there if it is empty or absent.
    ///
    /// Nothing is changed or removed unless all bytes that were checked are as they were written. That does not include
    /// the entries themselves: their checksums are verified whenever they are read, and all at once by
    /// [`check`](crate::check).
    ///
    /// # Errors
    ///
    /// The folder is in use, cannot be read or made, or is not as it was written.
    pub fn open(folder: &Path, settings: &Settings) -> Result<Self, Error> {
        let lock = claim(folder, settings)?;
        let tree_folder = folder.join(TREE);
        let made = verify(folder, &tree_folder, settings)?;
        let pace = Arc::new(Pace::new(settings.limits.compaction_per_second, settings.clock.clone()));
        let tree = open_tree(&tree_folder, settings, &pace)?;
        if made {
            sync(folder)?;
        }
        sweep(&tree_folder);
        let files = Files::default();
        let mut view = View {
            active: Arc::new(Memtable::new(0)),
            layers: Vec::new(),
            durable: durable(&tree),
            retired: Arc::default(),
        };
        files.note(view.tables());
        let seq = tree.get_highest_persisted_seqno().unwrap_or(0);
        view.retired = Arc::new(read_retired(&view, seq)?);
        let shared = Arc::new(Shared {
            folder: folder.into(),
            tree,
            memory: AtomicU64::new(settings.limits.memory),
            clock: settings.clock.clone(),
            pace,
            flushing: Mutex::new(()),
            writer: Mutex::new(Writer { layers: 0, memtables: 0, flushing: 0 }),
            tend: Tend::new(view.retired.clone()),
            current: RwLock::new(Current { view: Arc::new(view), seq }),
            files,
            fault: Mutex::new(None),
            counts: Counts::default(),
            _lock: lock,
        });
        let (for_thread, table) = (shared.clone(), settings.limits.table);
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || tend::run(&for_thread, table));
        let thread = thread.map_err(|e| Error::io(folder, &e))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

/// Makes the folder a store's if it is empty, and locks it.
fn claim(folder: &Path, settings: &Settings) -> Result<Lock, Error> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, &e))?;
    if let Some(found) = identity::read(folder)? {
        let lock = identity::lock(folder)?;
        if found.node != settings.node {
            return Err(Error::refused(folder, "the store of another node"));
        }
        return Ok(lock);
    }
    let others: Vec<_> = file_names(folder)?.into_iter().filter(|name| name != identity::NEW).collect();
    if let Some(name) = others.first() {
        let why = format!("it holds {name} but no {}: not a store, or an unfinished backup", identity::FILE);
        return Err(Error::refused(folder, why));
    }
    if settings.at_least > 0 {
        return Err(missing(folder, settings));
    }
    // Before anything is in it: a later opener does not check that its name is on the disk.
    if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
        sync(parent)?;
    }
    identity::write(folder, &Identity { node: settings.node })?;
    identity::lock(folder)
}

fn missing(folder: &Path, settings: &Settings) -> Error {
    Error::refused(folder, format!("the store is empty; it was at state {} when it was last used", settings.at_least))
}

fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io(folder, &e))
}

/// Verifies the manifest, the tables' ends, and that this is not an older state. Returns whether there is nothing yet.
fn verify(folder: &Path, tree: &Path, settings: &Settings) -> Result<bool, Error> {
    if !tree.join(CURRENT).try_exists().map_err(|e| Error::io(tree, &e))? {
        // A store that was never used: making it was interrupted, at most before `current` was named.
        let used = tree.try_exists().map_err(|e| Error::io(tree, &e))? && {
            let tables = tree.join(TABLES);
            manifests(tree)?.iter().any(|&id| id > 0)
                || (tables.try_exists().map_err(|e| Error::io(&tables, &e))? && !file_names(&tables)?.is_empty())
        };
        if used {
            return Err(Error::damaged(&tree.join(CURRENT), "it is missing"));
        }
        if settings.at_least > 0 {
            return Err(missing(folder, settings));
        }
        return Ok(true);
    }
    let manifest = read_manifest(tree)?;
    if manifest.id < settings.at_least {
        let why = format!("the store is at state {}, but was already at {}: old files", manifest.id, settings.at_least);
        return Err(Error::refused(folder, why));
    }
    // One manifest may be ahead: it was written, and the crash came before it counted.
    if let Some(ahead) = manifests(tree)?.into_iter().find(|&id| id > manifest.id + 1) {
        let what = format!("it names manifest {}, but there is a manifest {ahead}: an old copy", manifest.id);
        return Err(Error::damaged(&tree.join(CURRENT), what));
    }
    for table in &manifest.tables {
        sections(&table_path(tree, table.id))?;
    }
    Ok(false)
}

fn open_tree(folder: &Path, settings: &Settings, pace: &Arc<Pace>) -> Result<Tree, Error> {
    let limits = &settings.limits;
    let blocks = match limits.compression {
        Compression::None => CompressionPolicy::all(CompressionType::None),
        Compression::Lz4 => CompressionPolicy::all(CompressionType::Lz4),
    };
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(FILTER_BITS));
    let config = Config::new(folder, SequenceNumberCounter::default(), SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(limits.cache)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(limits.files))))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK))
        .data_block_compression_policy(blocks)
        // A table that is written keeps the last key of each block for the index. Compaction's are parts of the blocks
        // that it has read, which stay in memory with them. Where values are larger than a block, that would be the
        // whole table, as it was before it was compressed.
        .index_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        .filter_policy(FilterPolicy::all(filter))
        .with_compaction_filter_factory(Some(Arc::new(Filters(pace.clone()))));
    match config.open() {
        Ok(AnyTree::Standard(tree)) => Ok(tree),
        Ok(AnyTree::Blob(_)) => Err(Error::damaged(folder, "a tree of another kind")),
        Err(error) => Err(blame(folder, Error::tree(folder, &error))),
    }
}

/// Finds the file that could not be read: `lsm-tree` does not say.
fn blame(tree: &Path, plain: Error) -> Error {
    let Ok(manifest) = read_manifest(tree) else { return plain };
    let mut tables = manifest.tables.iter();
    tables.find_map(|table| check::verify_table(&table_path(tree, table.id), table.checksum)).unwrap_or(plain)
}

/// Removes temporary files that a crash has left.
fn sweep(tree: &Path) {
    for name in file_names(tree).unwrap_or_default() {
        if name.starts_with(".tmp") {
            let _ = fs::remove_file(tree.join(name));
        }
    }
}

fn read_retired(view: &View, seq: u64) -> Result<Retired, Error> {
    let end = prefix_end(&RETIRED).unwrap_or_default();
    let bounds = (std::ops::Bound::Included(Slice::from(RETIRED)), std::ops::Bound::Excluded(Slice::from(end)));
    let mut retired = Retired::default();
    for item in Merge::of_view(view, &bounds, seq) {
        let item = item?;
        if !item.is_tombstone() {
            retired.insert(&item.key.user_key[RETIRED.len()..]);
        }
    }
    Ok(retired)
}

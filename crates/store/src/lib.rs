//! The store: an ordered map on disk. Checkpoints are written to it, evicted entries are read from it.
//!
//! Memory is the truth and the store its checkpoint, so the store has no log of its own. Written entries become durable
//! with the next [`Store::flush`], and everything between two flushes becomes durable at once or not at all. After a
//! crash the store is exactly as at some completed flush: the last acknowledged one, or a later one that was under way.
//! Rules C2 and C3 rest on that.
//!
//! Keys and values are bytes that mean nothing here. Batches count in the order in which they are written; versions of
//! entries belong into their values. (A slot is checkpointed at a time, so the versions of entries do not rise in the
//! order of writing, and a sequence number must.)
//!
//! [`Embedded`] is the implementation on the local disk, [`Simulated`] one for simulations. Every implementation must
//! pass [`conformance`].

#![warn(clippy::missing_errors_doc)]

mod batch;
mod check;
pub mod conformance;
mod embedded;
mod error;
mod identity;
mod retired;
mod sections;
mod simulated;

/// The node whose data the store in `folder` is; `None` if there is no store.
///
/// # Errors
/// The file that names the node cannot be read, or is damaged.
pub fn node_of(folder: &Path) -> Result<Option<[u8; 16]>, Error> {
    Ok(identity::read(folder)?.map(|identity| identity.node))
}

/// Has the store in `folder`, which is closed, be the data of another node: it came from there, and goes on here.
///
/// # Errors
/// There is no store, it is damaged, or the disk has no room, or has failed.
pub fn adopt(folder: &Path, node: [u8; 16]) -> Result<(), Error> {
    match identity::read(folder)? {
        Some(_) => identity::write(folder, &identity::Identity { node }),
        None => Err(Error::damaged(&folder.join(identity::FILE), "it is missing")),
    }
}

pub use batch::{Batch, KEY_MAX, Op, VALUE_MAX};
pub use check::{Finding, Report, check};
pub use embedded::{Clock, Compression, Embedded, Limits, Settings, mirror};
pub use error::Error;
pub use simulated::{Fault, Platter, Simulated};

use std::ops::Bound;
use std::path::Path;

/// A durable state of a store. Later ones are larger, also after a restart; 0 is the empty store.
pub type Generation = u64;

/// The lower and the upper end of a range of keys.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Keys and values in the order of keys.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>> + Send + 'a>;

/// An ordered map on disk. Synchronous; every method may be called from any thread at any time.
pub trait Store: Send + Sync {
    /// Carries out the batch, in its order, all at once for every snapshot. It becomes durable with the next flush. If
    /// it is refused, no part of it has happened.
    ///
    /// It may take as long as spilling memory to disk.
    ///
    /// # Errors
    ///
    /// The batch cannot be written, there is no room, or the store has failed before.
    fn write(&self, batch: &Batch) -> Result<(), Error>;

    /// Makes everything written before this call durable, all of it at once, and returns the state that it made or that
    /// already was. Reads and writes go on meanwhile.
    ///
    /// After [`Error::NoSpace`] nothing is lost and nothing has become durable; call again when there is room. Every
    /// other error is final.
    ///
    /// # Errors
    /// There is no room, or the disk has failed.
    fn flush(&self) -> Result<Generation, Error>;

    /// The last durable state.
    fn generation(&self) -> Generation;

    /// The present value of a key, written or durable.
    ///
    /// # Errors
    ///
    /// The disk has failed to read, or the bytes that it has read are damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// All present entries, whatever is written later. It holds back the space of later deletions: drop it soon.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Flushes, and makes a copy of that state in `folder`, which must be empty or absent. Tables are linked where the
    /// file system can.
    ///
    /// # Errors
    /// The folder is not empty, there is no room, or a disk has failed.
    fn backup(&self, folder: &Path) -> Result<Generation, Error>;

    /// From now on, keeps the store small and fast to read, in the background. A store that was just opened rests until
    /// then, or until its first flush: a start has better use for the processors.
    fn tend(&self) {}

    /// Its contents and activity since it was opened.
    fn figures(&self) -> Figures;

    /// Bytes of memory that it may take beyond the present ones, roughly: for entries that are not durable yet, and for
    /// its cache.
    fn may_take(&self) -> u64 {
        0
    }

    /// Why the store takes no more writes, if that is so. Reads go on.
    fn fault(&self) -> Option<Error>;
}

/// A state that no longer changes.
pub trait Snapshot: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// The disk has failed to read, or the bytes that it has read are damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// The entries in a range. After an error there is nothing more.
    fn range(&self, range: Range<'_>) -> Entries<'_>;

    /// The entries whose keys begin with `prefix`.
    fn prefix(&self, prefix: &[u8]) -> Entries<'_> {
        let end = batch::prefix_end(prefix);
        self.range((Bound::Included(prefix), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

/// A store's contents and activity since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Bytes of keys and values in batches.
    pub bytes_taken: u64,
    /// Bytes written to disk by flushes.
    pub bytes_flushed: u64,
    /// Bytes written to disk because memory was full before a flush, which writes them once more if they overlap.
    pub bytes_spilled: u64,
    /// Bytes written to disk by compaction.
    pub bytes_compacted: u64,
    /// Bytes of tables on disk, those left out that only snapshots need.
    pub bytes_on_disk: u64,
    /// Bytes in memory that are not durable.
    pub bytes_unflushed: u64,
    /// Entries and tombstones in tables; a key may count several times.
    pub entries_estimate: u64,
    /// Tables that are part of the durable state.
    pub tables: u64,
    /// Sorted runs that a read may have to look into.
    pub runs: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks read from files.
    pub cache_misses: u64,
    /// Bytes of blocks read from files.
    pub bytes_read: u64,
    /// Bytes that the cache holds.
    pub cache_bytes: u64,
    /// Bytes of indexes and filters that are always in memory.
    pub pinned_bytes: u64,
    /// Flushes that made something durable.
    pub flushes: u64,
    /// Entries that flushes have written, or read: it rises while a flush progresses.
    pub flush_steps: u64,
    /// Microseconds they took together.
    pub flush_us_total: u64,
    /// Microseconds the longest took.
    pub flush_us_max: u64,
    /// Compactions that changed something.
    pub compactions: u64,
    /// Microseconds they took together.
    pub compaction_us_total: u64,
    /// Retired prefixes whose space has not been given back.
    pub retired: u64,
}

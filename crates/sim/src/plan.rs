//! The decisions of a seed before a machine starts.

use redolog::Fsync;
use redolog::simulated::Chance;

use crate::nodes::forgets::Forgets;

/// A mistake that the checks must notice. The simulation makes it in its inputs; the server's code has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Disks say that they have synced, and have not.
    SkippedSync,
    /// Recovery takes every dependency for fulfilled (rule L5).
    WrongCut,
    /// Records do not name the records in other streams that they depend on (rule L4).
    SkippedPrefix,
    /// The log is cut at its end instead of where the store has it (rule C3).
    EarlyTruncate,
    /// The store does not wait for the log (rule C2).
    EarlyStore,
    /// Expiry times are not found in the log.
    LostExpiry,
    /// Replies leave when their records are written, before they are synced (rule L7).
    GatesOff,
    /// The log's streams are replayed one after the other (rule L2).
    WrongOrder,
    /// Tombstones are dropped when a checkpoint begins, and not when the store has the deletions (rule C4).
    EarlyDrop,
    /// A loader puts into memory what the store had before the last checkpoint (rule C5).
    StaleLoad,
    /// The last name of a listing of the store is left out (rule C5).
    ForgetfulListing,
    /// Records that are written while the log has no room are dropped, and seem to be written (rule L8).
    DroppedWhenFull,
    /// A sync that has failed is tried again, and taken for good (rule L9).
    RetriedSync,
}

impl Planted {
    /// All of them, by the names that the command line takes.
    pub const ALL: [(&'static str, Planted); 13] = [
        ("skipped-sync", Planted::SkippedSync),
        ("wrong-cut", Planted::WrongCut),
        ("skipped-prefix", Planted::SkippedPrefix),
        ("early-truncate", Planted::EarlyTruncate),
        ("early-store", Planted::EarlyStore),
        ("lost-expiry", Planted::LostExpiry),
        ("gates-off", Planted::GatesOff),
        ("wrong-order", Planted::WrongOrder),
        ("early-drop", Planted::EarlyDrop),
        ("stale-load", Planted::StaleLoad),
        ("forgetful-listing", Planted::ForgetfulListing),
        ("dropped-when-full", Planted::DroppedWhenFull),
        ("retried-sync", Planted::RetriedSync),
    ];
}

/// How a world is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Streams of the log.
    pub streams: usize,
    /// Workers of the node.
    pub workers: usize,
    /// When the log syncs.
    pub fsync: Fsync,
    /// A key that the store has need not be in memory.
    pub is_cold: bool,
    /// After a start it is read into memory.
    pub warms_up: bool,
    /// A client makes keys leave memory.
    pub evicts: bool,
    /// Keys leave memory for it when they take more than this, in bytes; 0: they do not.
    pub maxmemory: u64,
    /// A client changes `appendfsync`.
    pub changes_fsync: bool,
    /// How often the machine starts.
    pub lives: u64,
    /// Events between two crashes, at most.
    pub events: u64,
    /// The planted mistake.
    pub planted: Planted,
    /// A planted mistake of a node: the records that a start does not see.
    pub forgets: Option<Forgets>,
    /// Milliseconds for which commands wait for keys in doubt (`cluster-lock-timeout`); 0: as by default.
    pub lock_timeout_ms: u64,
    /// `cluster-takeover-wait`.
    pub takeover_wait_ms: u64,
    /// The log is never cut.
    pub keeps_log: bool,
    /// Check only the replies to clients and whether the server starts, not the records of the log.
    pub clients_only: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, planted: Planted) -> Plan {
        let mut chance = Chance(seed ^ 0x706c_616e);
        let fsync = match chance.below(6) {
            0 => Fsync::Everysec,
            1 => Fsync::No,
            _ => Fsync::Always,
        };
        let is_cold = chance.below(3) > 0;
        let maxmemory = if is_cold && chance.below(2) == 0 { 1000 + chance.below(8000) } else { 0 };
        Plan {
            is_cold,
            warms_up: chance.below(3) == 0,
            evicts: chance.below(2) == 0,
            maxmemory,
            changes_fsync: chance.below(4) == 0,
            streams: [1, 1, 2, 2, 3, 4][chance.below(6) as usize],
            workers: 1 + chance.below(3) as usize,
            fsync,
            lives: 3 + chance.below(4),
            events: 100 + chance.below(600),
            planted,
            forgets: None,
            lock_timeout_ms: 0,
            takeover_wait_ms: 0,
            keeps_log: false,
            clients_only: false,
        }
    }
}

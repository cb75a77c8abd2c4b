//! What a seed decides before anything happens.

use log::Fsync;
use log::simulated::Chance;

/// A mistake that the checks must notice: made by the simulation in what it hands in, not by the server's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Disks say that they have synced, and have not.
    SkippedSync,
    /// Recovery takes every dependency for fulfilled (rule L5).
    WrongCut,
    /// The log is cut to its end and not to what the store has (rule C3).
    EarlyTruncate,
    /// The store does not wait for the log (rule C2).
    EarlyStore,
    /// Expiry times are not found in the log.
    LostExpiry,
    /// Replies leave when what they say is written, and not when it is synced (rule L7).
    GatesOff,
}

impl Planted {
    /// All of them, by the names that the command line takes.
    pub const ALL: [(&'static str, Planted); 6] = [
        ("skipped-sync", Planted::SkippedSync),
        ("wrong-cut", Planted::WrongCut),
        ("early-truncate", Planted::EarlyTruncate),
        ("early-store", Planted::EarlyStore),
        ("lost-expiry", Planted::LostExpiry),
        ("gates-off", Planted::GatesOff),
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
    /// How often the machine starts.
    pub lives: u64,
    /// Events between two crashes, at most.
    pub events: u64,
    /// What is wrong.
    pub planted: Planted,
    /// Only what clients are told is looked at, and whether the server starts, not what the log held.
    pub clients_only: bool,
}

impl Plan {
    /// What this seed makes of it.
    pub fn of(seed: u64, planted: Planted) -> Plan {
        let mut chance = Chance(seed ^ 0x706c_616e);
        let fsync = match chance.below(6) {
            0 => Fsync::Everysec,
            1 => Fsync::No,
            _ => Fsync::Always,
        };
        Plan {
            streams: [1, 1, 2, 2, 3, 4][chance.below(6) as usize],
            workers: 1 + chance.below(3) as usize,
            fsync,
            lives: 3 + chance.below(4),
            events: 100 + chance.below(600),
            planted,
            clients_only: false,
        }
    }
}

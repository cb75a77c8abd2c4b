//! The decisions of a seed about a cluster before it starts.

use redolog::Fsync;
use redolog::simulated::Chance;

use super::agenda::Time;
use super::faults;
use super::forgets::Forgets;
use crate::plan;

/// A mistake that the checks must notice. The simulation makes it in its inputs; the server's code has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// The locks of an attempt are given back as soon as it is prepared (rule T2).
    EarlyUnlock,
    /// Those of attempts that a start finds prepared are not taken again (rule T2).
    UnlockedByStart,
    /// That an attempt is prepared is not in the log (rule T4).
    UnloggedPrepare,
    /// Nodes serve whatever their leases say (rule O1).
    LeaseIgnored,
    /// Leases count before earlier decisions are known: slots are served in an old epoch (rule O1).
    StaleEpoch,
    /// A start does not see that attempts were committed (rule T5).
    ForgottenCommit,
    /// Coordinators say that transactions are finished which are not (rule T5).
    EarlyFinished,
    /// Disks say that they have synced, and have not.
    SkippedSync,
    /// Where parts are held back, an attempt that is over asks for locks, and is dropped while it waits for them.
    OverdueAsking,
    /// With copies: a node serves when its own folder has the log that was chosen (P4, rule G5).
    ServesSealed,
    /// With copies: a folder that was wiped is taken for the acceptor that it was (P5, rule G9).
    WipedVotes,
    /// With copies: writes are acknowledged that the own disk alone has (rule G6).
    TrustsOwn,
    /// With copies: a start whose own log is gone gets the term of the start before it (P31, rule G1).
    TermTwice,
    /// With copies: disks of the others say that they have synced, and have not.
    UnsyncedCopies,
    /// With copies: participants are named by their nodes (P14, rule T1).
    NamedByNode,
}

impl Planted {
    /// All of them, by the names that the command line takes.
    pub const ALL: [(&'static str, Planted); 9] = [
        ("early-unlock", Planted::EarlyUnlock),
        ("unlocked-by-start", Planted::UnlockedByStart),
        ("unlogged-prepare", Planted::UnloggedPrepare),
        ("lease-ignored", Planted::LeaseIgnored),
        ("stale-epoch", Planted::StaleEpoch),
        ("forgotten-commit", Planted::ForgottenCommit),
        ("early-finished", Planted::EarlyFinished),
        ("skipped-sync", Planted::SkippedSync),
        ("overdue-asking", Planted::OverdueAsking),
    ];

    /// Those of clusters whose logs have copies.
    pub const OF_COPIES: [(&'static str, Planted); 6] = [
        ("serves-sealed", Planted::ServesSealed),
        ("wiped-votes", Planted::WipedVotes),
        ("trusts-own", Planted::TrustsOwn),
        ("term-twice", Planted::TermTwice),
        ("unsynced-copies", Planted::UnsyncedCopies),
        ("named-by-node", Planted::NamedByNode),
    ];

    /// It is one of [`Self::OF_COPIES`].
    pub fn is_about_copies(self) -> bool {
        Self::OF_COPIES.iter().any(|(_, planted)| *planted == self)
    }

    /// It shows where slots get other owners.
    fn is_about_owners(self) -> bool {
        matches!(self, Planted::LeaseIgnored | Planted::StaleEpoch)
    }

    /// It shows where nodes start while others cannot be asked.
    fn is_about_starts(self) -> bool {
        matches!(self, Planted::UnlockedByStart | Planted::UnloggedPrepare | Planted::ForgottenCommit)
    }

    /// The mistake that single nodes make.
    fn of_nodes(self) -> (plan::Planted, Option<Forgets>) {
        match self {
            Planted::SkippedSync => (plan::Planted::SkippedSync, None),
            Planted::UnloggedPrepare => (plan::Planted::Nothing, Some(Forgets::Prepares)),
            Planted::ForgottenCommit => (plan::Planted::Nothing, Some(Forgets::Commits)),
            _ => (plan::Planted::Nothing, None),
        }
    }
}

/// How a cluster is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes with slots.
    pub nodes: usize,
    /// Nodes without slots, which may be given the shards of others that are lost for good.
    pub spares: usize,
    /// How each of them is.
    pub node: plan::Plan,
    /// Clients.
    pub clients: usize,
    /// Keys that lists are appended to.
    pub keys: usize,
    /// The first of them may get other owners.
    pub movable: usize,
    /// How long clients ask for more, microseconds.
    pub length: Time,
    /// How long a client thinks, at most, microseconds.
    pub thinks: Time,
    /// How often something breaks: about every so many microseconds.
    pub breaks: Time,
    /// How often a node pauses its writers for a while: about once in this many microseconds; 0: never. Parts of blocks
    /// then wait before they ask for their locks.
    pub holds_back: Time,
    /// Which kinds of things break, a bit each: see `faults.rs`.
    pub faults: u32,
    /// How many copies each log has, its own one included; 0: logs have no copies.
    pub copies: usize,
    /// One message of a transaction in so many comes twice; 0: none.
    pub echoes: u64,
    /// The planted mistake.
    pub planted: Planted,
    /// Check only the replies to clients, and whether all comes to rest.
    pub clients_only: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, planted: Planted) -> Plan {
        let mut chance = Chance(seed ^ 0x6e6f_6465);
        // Some mistakes need the part of the keyspace that the reader of the store otherwise owns. That reader does not
        // run then.
        let is_cold = chance.below(4) == 0 && !matches!(planted, Planted::EarlyUnlock | Planted::UnlockedByStart);
        let (of_nodes, forgets) = planted.of_nodes();
        let node = plan::Plan {
            streams: [1, 1, 2, 3][chance.below(4) as usize],
            workers: [1, 1, 2, 3][chance.below(4) as usize],
            fsync: Fsync::Always,
            is_cold,
            warms_up: is_cold && chance.below(2) == 0,
            evicts: false,
            maxmemory: if is_cold && chance.below(2) == 0 { 2000 + chance.below(8000) } else { 0 },
            changes_fsync: false,
            lives: 0,
            events: 0,
            planted: of_nodes,
            forgets,
            lock_timeout_ms: 0,
            // Drawn separately, too.
            takeover_wait_ms: Chance(seed ^ 0x7761_6974).below(2) * 2_500,
            keeps_log: false,
            clients_only: false,
        };
        // Drawn separately, so that the runs of other seeds stay the same.
        let fsync = match Chance(seed ^ 0x6673_796e).below(8) {
            0 if planted == Planted::Nothing => Fsync::Everysec,
            _ => Fsync::Always,
        };
        let node = plan::Plan { fsync, ..node };
        let mut apart = Chance(seed ^ 0x7061_7573);
        let holds_back = match apart.below(3) {
            0 => 200_000 + apart.below(1_500_000),
            _ if planted == Planted::OverdueAsking => 200_000,
            _ => 0,
        };
        // Then a client that needs keys in doubt gets an error before the doubt is over.
        let node = plan::Plan { lock_timeout_ms: if holds_back > 0 { 500 } else { 0 }, ..node };
        // Some worlds lack some kinds of faults, and some have one kind only. A mistake that shows only under a fault
        // is planted where that fault occurs.
        let faults = match chance.below(4) {
            _ if planted.is_about_owners() => faults::MOVE,
            _ if planted.is_about_starts() => faults::CRASH | faults::POWER | faults::PART,
            0 => 1 << chance.below(u64::from(faults::KINDS)),
            _ => chance.bits() as u32 | chance.bits() as u32,
        };
        Plan {
            nodes: [2, 3, 3, 3, 4, 5][chance.below(6) as usize],
            spares: 0,
            node,
            clients: 3 + chance.below(4) as usize,
            keys: 4 + chance.below(12) as usize,
            movable: if planted.is_about_owners() { 2 } else { chance.below(3) as usize },
            length: 2_000_000 + chance.below(6_000_000) + if planted.is_about_owners() { 3_000_000 } else { 0 },
            thinks: [4_000, 20_000, 60_000][chance.below(3) as usize],
            breaks: 150_000 + chance.below(if planted == Planted::Nothing { 1_500_000 } else { 500_000 }),
            holds_back,
            faults,
            copies: 0,
            echoes: [0, 20, 4][chance.below(3) as usize],
            planted,
            clients_only: false,
        }
    }
    /// The plan of a seed for a cluster whose logs have copies.
    pub fn with_copies(seed: u64, planted: Planted) -> Plan {
        let plan = Plan::of(seed, planted);
        let mut chance = Chance(seed ^ 0x636f_7079);
        let nodes = [3, 3, 3, 4, 5][chance.below(5) as usize];
        // Drawn separately, so that the runs of other seeds stay the same.
        let spares = match Chance(seed ^ 0x6865_6972).below(4) {
            _ if planted == Planted::NamedByNode => 2,
            few @ 1.. if few < 3 && planted == Planted::Nothing => few as usize,
            _ => 0,
        };
        // Copies promise nothing for other settings than this. An heir has the log alone.
        let node = plan::Plan { fsync: Fsync::Always, keeps_log: spares > 0, ..plan.node };
        let faults = match chance.below(4) {
            // The own log is wiped when the node serves, which is planned there.
            _ if planted == Planted::ServesSealed => faults::CRASH,
            // A mistake shows where folders and processes come and go.
            _ if planted.is_about_copies() => {
                faults::OF_COPIES | faults::CRASH | faults::POWER | faults::PART | faults::SLOW
            }
            0 => faults::OF_COPIES | faults::CRASH | faults::POWER | faults::PART,
            1 => chance.bits() as u32,
            _ => faults::OF_COPIES | chance.bits() as u32 | chance.bits() as u32,
        };
        let faults = if spares > 0 { faults | faults::LOSS } else { faults };
        Plan {
            nodes,
            spares,
            node,
            clients: 3 + chance.below(3) as usize,
            copies: if nodes == 5 && chance.below(2) == 0 { 5 } else { 3 },
            movable: 0,
            length: 3_000_000 + chance.below(5_000_000) + if planted == Planted::ServesSealed { 8_000_000 } else { 0 },
            breaks: 100_000
                + chance.below(if planted == Planted::Nothing { 900_000 } else { 300_000 })
                // Clients have to read in between.
                + if planted == Planted::ServesSealed { 500_000 } else { 0 },
            faults,
            ..plan
        }
    }
}

//! The choices of settings: one type for each setting that names its values.

use keyspace::access::Tracks;

/// `tls-auth-clients`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthClients {
    /// No certificate is asked for.
    No,
    /// A client may show none.
    Optional,
    /// Every client shows a good one.
    Yes,
}

/// Which keys to evict when memory is full (`maxmemory-policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// With a time to live, least recently used.
    VolatileLru,
    /// With a time to live, least frequently used.
    VolatileLfu,
    /// With a time to live, least recently modified.
    VolatileLrm,
    /// With a time to live, any.
    VolatileRandom,
    /// With a time to live, soonest to expire.
    VolatileTtl,
    /// Least recently used.
    AllKeysLru,
    /// Least frequently used.
    AllKeysLfu,
    /// Least recently modified.
    AllKeysLrm,
    /// Any.
    AllKeysRandom,
    /// None: writes that need memory are refused.
    NoEviction,
}

impl EvictionPolicy {
    /// True if it depends on when or how often keys were used, or when they were modified.
    pub fn looks_at_accesses(self) -> bool {
        use EvictionPolicy::*;
        matches!(self, VolatileLru | VolatileLfu | VolatileLrm | AllKeysLru | AllKeysLfu | AllKeysLrm)
    }

    /// True if it evicts by how often keys are used.
    pub fn is_lfu(self) -> bool {
        self.tracks() == Tracks::Frequency
    }

    /// True if it evicts by when keys were used last.
    pub fn is_lru(self) -> bool {
        matches!(self, Self::VolatileLru | Self::AllKeysLru)
    }

    /// The access times or counts that it needs.
    pub fn tracks(self) -> Tracks {
        match self {
            Self::VolatileLfu | Self::AllKeysLfu => Tracks::Frequency,
            Self::VolatileLrm | Self::AllKeysLrm => Tracks::Change,
            _ => Tracks::Use,
        }
    }
}

/// The figures that are kept of each slot (`cluster-slot-stats-enabled`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// CPU time.
    pub cpu: bool,
    /// Bytes on the network.
    pub net: bool,
}

/// The output bounds that end a connection (`client-output-buffer-limit`); 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes that end it at once.
    pub hard: u64,
    /// Bytes that end it after `seconds` above them.
    pub soft: u64,
    /// See `soft`.
    pub seconds: u64,
}

/// The clients that may do something risky (`enable-debug-command`, `enable-protected-configs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Nobody.
    No,
    /// Every client.
    Yes,
    /// Clients on this machine.
    Local,
}

impl Allowed {
    /// True if a client may, given whether it is on this machine.
    pub fn admits(self, local: bool) -> bool {
        match self {
            Allowed::No => false,
            Allowed::Yes => true,
            Allowed::Local => local,
        }
    }
}

/// When the log is synced (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before the reply.
    Always,
    /// Every second.
    Everysec,
    /// When the system decides to.
    No,
}

/// Least important messages to log (`loglevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Details.
    Verbose,
    /// Events that an operator wants to know.
    Notice,
    /// Events that need attention.
    Warning,
    /// Nothing at all.
    Nothing,
}

/// The change of the kernel's score for this process (`oom-score-adj`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScore {
    /// Nothing.
    Leave,
    /// The value is added to what it was.
    Relative,
    /// It is the value.
    Absolute,
}

/// The supervisor that hears that the server is ready or stops (`supervised`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervised {
    /// None.
    No,
    /// systemd.
    Systemd,
    /// systemd, if it asks.
    Auto,
}

/// The clients that get -BUSY while a script takes too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusyScope {
    /// Clients that need a key of the script.
    Waiting,
    /// All clients.
    All,
}

/// The changes of other transactions that one between BEGIN and COMMIT may see (`transaction-isolation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// As if all transactions had run one after the other, in the order in which clients saw them end.
    StrictSerializable,
    /// Keys that it has read stay the same for it; no other client has changed the keys that it writes.
    RepeatableRead,
    /// It reads committed values; no other client has changed the keys that it writes.
    ReadCommitted,
}

/// The answer to a client for a key of another node (`cluster-redirect`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The reply.
    Forward,
    /// -MOVED, and the address.
    Moved,
}

/// The addresses in `cluster-seeds`: hosts, with their ports for nodes: the named ones, or the client port plus 10000.
/// `None`: the text is wrong.
pub fn seeds(text: &[u8]) -> Option<Vec<(String, u16)>> {
    let text = std::str::from_utf8(text).ok()?;
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let seed = |word: &str| {
        let (client, bus) = word.split_once('@').map_or((word, None), |(client, bus)| (client, Some(bus)));
        let (host, port) = client.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = match bus {
            Some(bus) => bus.parse().ok()?,
            None => port.parse::<u16>().ok()?.checked_add(10_000)?,
        };
        (!host.is_empty()).then(|| (host.to_owned(), port))
    };
    words.map(seed).collect()
}

/// How workers talk to the kernel (`io-driver`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoDriver {
    /// `io_uring` where the kernel allows it, else epoll.
    Auto,
    /// epoll.
    Epoll,
    /// `io_uring`, or no start.
    IoUring,
}

/// A limit on the memory of all connections together (`maxmemory-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemory {
    /// Bytes; 0 is no limit.
    Bytes(u64),
    /// Percent of `maxmemory`, 1 to 100.
    Percent(u64),
}

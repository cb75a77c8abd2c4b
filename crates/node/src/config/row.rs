//! A setting as data: one [`Row`] holds all facts about it; parsing, `CONFIG`, `--help` and the docs follow from it.

use super::kind::{Kind, Refusal};

/// A chapter of the settings, as `--help` and the docs show them.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Its settings, in the order of showing.
    pub rows: &'static [Row],
}

/// The effect of a setting, if it has one yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// It does what its text says.
    Yes,
    /// It is taken and checked, so that files written for Redis work, but changes nothing; the reason. The log warns of
    /// a value other than the default.
    No(&'static str),
    /// Only the default is taken, because another value would promise what endangers data or secrets; the reason.
    Refused(&'static str),
}

/// The owner of a setting where servers are nodes of a cluster.
///
/// It is the cluster's if a command's outcome, or anything that a client sees, depends on it. A client does not see
/// which node serves a key, so all nodes must agree. All other settings are the node's: places, addresses and ports;
/// memory, threads and disks of its machine; what it watches and logs; what must be known before a node finds its
/// cluster; and settings without an effect. A setting is a shard's if it says what the shard's log promises: whichever
/// node runs the shard keeps the promise. `databases` is a node's, and must be the same at all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Every node has its own value.
    Node,
    /// All nodes have the value that the cluster's metadata name.
    Cluster,
    /// The metadata have a value for each shard, which whichever node owns the shard runs by.
    Shard,
}

/// Says what is wrong with a text, if anything is.
pub type Check = fn(&[u8]) -> Result<(), Refusal>;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name, lower case.
    pub name: &'static str,
    /// Another, older name.
    pub alias: Option<&'static str>,
    /// The values that it takes.
    pub kind: Kind,
    /// Its default, as a file would have it.
    pub default: &'static str,
    /// Its effect, in one line.
    pub help: &'static str,
    /// Says if it has that effect yet.
    pub acts: Acts,
    /// Holdfast's own: Redis has no such setting.
    pub own: bool,
    /// Its owner in a cluster.
    pub owner: Owner,
    /// Fixed at start: `CONFIG SET` refuses it.
    pub immutable: bool,
    /// Holds a secret: its value is kept out of logs, `SLOWLOG` and `MONITOR`.
    pub sensitive: bool,
    /// For tests: shown by `CONFIG GET` only under its exact name, never in help.
    pub hidden: bool,
    /// `CONFIG SET` needs `enable-protected-configs`.
    pub protected: bool,
    /// `CONFIG SET` is refused while data is loading.
    pub deny_loading: bool,
    /// A value that does no more than the default, though it differs: it causes no warning.
    pub harmless: Option<&'static str>,
    /// Numbers outside are moved to the nearer bound rather than refused.
    pub clamp: Option<(i128, i128)>,
    /// A further check of a text.
    pub check: Option<Check>,
}

/// A row without special fields; the methods below set them.
pub(super) const fn row(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Row {
    Row {
        name,
        alias: None,
        kind,
        default,
        help,
        acts: Acts::Yes,
        own: false,
        owner: Owner::Node,
        immutable: false,
        sensitive: false,
        hidden: false,
        protected: false,
        deny_loading: false,
        harmless: None,
        clamp: None,
        check: None,
    }
}

impl Row {
    /// True if all nodes of a cluster have the same value.
    pub fn is_of_cluster(&self) -> bool {
        self.owner == Owner::Cluster
    }

    /// True if the value belongs to a shard of a cluster.
    pub fn is_of_shard(&self) -> bool {
        self.owner == Owner::Shard
    }

    pub(super) const fn alias(self, alias: &'static str) -> Row {
        Row { alias: Some(alias), ..self }
    }

    pub(super) const fn inert(self, reason: &'static str) -> Row {
        Row { acts: Acts::No(reason), ..self }
    }

    pub(super) const fn refused(self, reason: &'static str) -> Row {
        Row { acts: Acts::Refused(reason), ..self }
    }

    pub(super) const fn own(self) -> Row {
        Row { own: true, ..self }
    }

    pub(super) const fn cluster(self) -> Row {
        Row { owner: Owner::Cluster, ..self }
    }

    pub(super) const fn shard(self) -> Row {
        Row { owner: Owner::Shard, ..self }
    }

    pub(super) const fn immutable(self) -> Row {
        Row { immutable: true, ..self }
    }

    pub(super) const fn sensitive(self) -> Row {
        Row { sensitive: true, ..self }
    }

    pub(super) const fn hidden(self) -> Row {
        Row { hidden: true, ..self }
    }

    pub(super) const fn protected(self) -> Row {
        Row { protected: true, ..self }
    }

    pub(super) const fn deny_loading(self) -> Row {
        Row { deny_loading: true, ..self }
    }

    pub(super) const fn harmless(self, value: &'static str) -> Row {
        Row { harmless: Some(value), ..self }
    }

    pub(super) const fn clamp(self, min: i128, max: i128) -> Row {
        Row { clamp: Some((min, max)), ..self }
    }

    pub(super) const fn check(self, check: Check) -> Row {
        Row { check: Some(check), ..self }
    }
}

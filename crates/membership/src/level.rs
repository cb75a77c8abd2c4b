//! Levels: how new frames, records and commands come into use in a cluster whose nodes run different builds (rule U1).
//!
//! The level of a node is the highest version of the handshake that it speaks. The level of a cluster is in its
//! metadata: the lowest of all members when an operator last asked for it. Nodes read everything that their build
//! knows, and write only formats of the cluster's level. The level never goes down: a node that does not reach it is
//! refused by name.

/// The level of clusters and nodes without one. They are of a build before there were levels.
pub const FIRST: u16 = 8;

/// The highest level of this build.
pub const HIGHEST: u16 = if cfg!(feature = "next-level") { MADE_UP } else { HOST_VOTES };

/// A level of builds with the feature `next-level` alone, which are for tests of upgrades: no release has it. Snapshots of
/// the metadata have a format of their own from it on.
pub const MADE_UP: u16 = HOST_VOTES + 1;

/// From this level on a cluster has users. An origin names the user of forwarded commands
/// ([`crate::items::Item::Principal`]) and of parts of transactions, and libraries of functions may come with users.
pub const PRINCIPALS: u16 = 9;

/// From this level on the metadata know the machine of each node, and voters are chosen by machines
/// ([`crate::meta::Command::Locate`]).
pub const MACHINES: u16 = 10;

/// From this level on the metadata have shards: a process is given a term of its shard
/// ([`crate::meta::Command::Lead`]).
pub const SHARDS: u16 = 11;

/// From this level on the metadata remember whose shard another node has taken over, so that transactions that were under
/// way come to their end ([`crate::Map::continued`]).
pub const HEIRS: u16 = 12;

/// From this level on the metadata have the settings of each shard ([`crate::meta::Command::SetShard`]).
pub const SHARD_SETTINGS: u16 = 12;

/// From this level on the metadata know the standbys of each shard ([`crate::meta::Command::Copies`]).
pub const STANDBYS: u16 = 13;

/// From this level on participants of transactions over nodes are shards, and a participant's life is its shard's term.
/// Below, each node is one, and its life is the number of its starts.
pub const SHARD_PARTICIPANTS: u16 = 14;

/// From this level on the log-server of a machine votes in the place of its nodes ([`crate::voters`]). No format changes:
/// agents of builds before start no log-server, and its vote would be lost with a return to one of them.
pub const HOST_VOTES: u16 = 15;

/// From this level on an owner reports that the folder of a copy was set back to an earlier state. Below, it is reported as
/// one whose disk has failed.
pub const SET_BACK: u16 = 13;

/// From this level on a node writes version 4 of the log: its blocks can be copied to other machines.
pub const LOG_FRAMES: u16 = 10;

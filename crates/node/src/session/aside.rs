//! A block that runs in a workspace, on copies of keys: its messages and effects wait until it is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use resp::Args;
use txn::Lock;
use txn::locks::Mode;

use super::Multi;
use crate::push::delivery::Kind;
use crate::table::Command;

/// See the module's text.
#[derive(Default)]
pub struct Aside {
    /// Keys that the workspace has, with their databases, and whether they may be changed.
    pub keys: BTreeMap<(u16, Box<[u8]>), Mode>,
    /// The keys that a script needs beside them: it is suspended.
    pub missing: Vec<Lock>,
    /// It has called a command that is refused when memory is full.
    pub needs_memory: bool,
    /// Messages that the block has published.
    pub messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// Its commands, as clients in MONITOR mode see them.
    pub lines: Vec<Arc<[u8]>>,
    /// Set if its script takes longer than `busy-reply-threshold`: true if that is a function.
    pub slow: Option<bool>,
    /// Set if a script was killed that had changed something: nothing of the block is done, and its client gets this
    /// error.
    pub killed: Option<Vec<u8>>,
    /// The block, when it has run.
    pub multi: Option<Box<Multi>>,
}

impl Aside {
    /// True if the workspace has all keys of a command that works in database `db`. Missing keys are noted.
    pub(crate) fn has_keys(&mut self, command: &Command, args: Args<'_>, db: u16, databases: u16) -> bool {
        for lock in locks_of(command, args, db, databases) {
            let place = (lock.db, lock.key);
            if self.keys.get(&place).is_none_or(|has| *has < lock.mode) {
                self.missing.push(Lock { key: place.1, ..lock });
            }
        }
        self.missing.is_empty()
    }
}

/// The keys of a command that works in database `db`, as it locks them.
pub(crate) fn locks_of(command: &Command, args: Args<'_>, db: u16, databases: u16) -> Vec<Lock> {
    let mut positions = Vec::new();
    command.spec.keys_of(args, &mut positions);
    let (mode, of) = (command.mode(), command.databases(db, databases));
    let keys = positions.iter().filter_map(|at| args.get(at.index));
    keys.flat_map(|key| of.clone().map(move |db| Lock { db, key: key.into(), mode })).collect()
}

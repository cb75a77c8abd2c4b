//! A start: what the disks hold becomes the node's data, before its workers begin.

use std::error::Error;

use engine::checkpoint::{Header, Loaded, Replay, Replayed, load};
use log::{Damage, Disk, Lsn, Opened};
use store::Store;

use crate::node::Node;

/// What a start has found.
#[derive(Debug)]
pub struct Recovered {
    /// What the store said; `None`: it is empty.
    pub loaded: Option<Loaded>,
    /// Records of the log that were looked at.
    pub records: u64,
    /// Bytes of their effects.
    pub bytes: u64,
    /// From this record on the log is void ([`Opened::void_from`]): a generation begins there without the checkpoint that it goes on from.
    pub void_from: Option<Lsn>,
    /// The log was ended on purpose at this time, unix milliseconds: what was changed later was not logged.
    pub ended: Option<u64>,
}

impl Recovered {
    /// Keys that came from the store.
    pub fn keys(&self) -> u64 {
        self.loaded.as_ref().map_or(0, |loaded| loaded.keys)
    }

    /// New LSNs must be above this, whatever the log holds (rule L1).
    pub fn highest(&self) -> Lsn {
        self.loaded.as_ref().map_or(0, |loaded| loaded.highest)
    }
}

/// Loads what the store has, and does again what the log says since (rules C1, L2). Nobody else uses the node's data meanwhile. `records`
/// calls what it is given with every record of the log, in the order of LSNs ([`Opened::replay`]).
pub fn recover(
    node: &Node,
    store: &dyn Store,
    records: impl FnOnce(&mut dyn FnMut(log::Recovered<'_>)) -> Result<(), Damage>,
) -> Result<Recovered, Box<dyn Error>> {
    let keyspace = &node.engine.keyspace;
    let mut local = keyspace.local(0);
    let loaded = load(store, keyspace, &mut local)?;
    let limits = node.config.settings().tunables.limits.clone();
    let mut replay = Replay::new(keyspace, &mut local, limits, loaded.as_ref(), node.clock.unix_ms());
    let (mut outcome, mut bytes) = (Ok(()), 0);
    records(&mut |record| {
        if outcome.is_ok() {
            bytes += record.effects.len() as u64;
            outcome = replay.record(record.lsn, record.effects);
        }
    })?;
    outcome?;
    let replayed = replay.finish();
    drop(local);
    if let Some(libraries) = &replayed.libraries {
        let loaded = node.scripts.load_libraries(libraries);
        loaded.map_err(|why| format!("the libraries of functions cannot be loaded: {why}"))?;
    }
    let Replayed { records, void_from, ended, .. } = replayed;
    Ok(Recovered { loaded, records, bytes, void_from, ended })
}

/// Whether log and store belong together: nothing that the store lacks may be missing in the log (rule C3). `store`: what people call
/// the store, whose header this is; `None`: it is empty.
pub fn check_disks<D: Disk>(log: &Opened<D>, header: Option<&Header>, store: &str) -> Result<(), String> {
    let bases = log.recovery().bases();
    let covered = header.map_or(&[][..], |header| &header.covered);
    if header.is_some() && log.recovery().node().is_none() {
        return Err(format!(
            "the store in {store} has a checkpoint, but the directories of the log are empty: what was written since would be lost"
        ));
    }
    if header.is_some() && covered.len() != bases.len() {
        // Rule L11.
        return Err(format!("the log had {} directories, not {}", covered.len(), bases.len()));
    }
    let reaches = |(stream, base): (usize, &u64)| *base <= covered.get(stream).copied().unwrap_or(0);
    if !bases.iter().enumerate().all(reaches) {
        return Err(format!(
            "the log goes on from a checkpoint that the store in {store} does not have: was it removed or replaced?"
        ));
    }
    Ok(())
}

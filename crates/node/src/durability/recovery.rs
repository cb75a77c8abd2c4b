//! A start: the data on the disks become the node's data, before its workers begin.

use std::error::Error;

use engine::checkpoint::{Dealer, Due, Hand, Header, Loaded, Replayed, restore};
use keyspace::Local;
use redolog::{Damage, Disk, Lsn, Opened};
use store::Store;

use crate::node::Node;

/// The findings of a start.
#[derive(Debug)]
pub struct Recovered {
    /// The store's header; `None`: it is empty.
    pub loaded: Option<Loaded>,
    /// The figures of the replay.
    pub replayed: Replayed,
}

impl Recovered {
    /// Keys that the store has.
    pub fn keys(&self) -> u64 {
        self.loaded.as_ref().map_or(0, |loaded| loaded.keys)
    }

    /// New LSNs must be above this, whatever the log holds (rule L1).
    pub fn highest(&self) -> Lsn {
        self.loaded.as_ref().map_or(Lsn::ZERO, |loaded| loaded.highest)
    }
}

/// Reads which keys the store has, which stay there until they are needed, and replays the log since (rules C1, L2). No
/// other thread uses the node's data meanwhile. `records` calls its argument with every record of the log, in the order
/// of LSNs ([`Opened::replay`]).
///
/// # Errors
///
/// The log is damaged, the store cannot be read, or a record cannot be replayed.
pub fn recover(
    node: &Node,
    store: &dyn Store,
    records: impl FnOnce(&mut dyn FnMut(redolog::Recovered<'_>)) -> Result<(), Damage>,
) -> Result<Recovered, Box<dyn Error>> {
    recover_by(node, store, 1, |mut dealer, mut hands| {
        let Some((mut hand, mut local)) = hands.pop() else { return Err("no thread replays the log".into()) };
        let mut outcome = Ok(());
        records(&mut |record| {
            if outcome.is_ok() {
                outcome = dealer.deal(record.lsn, record.effects, |due, _, batches| {
                    hand.apply(&mut local, &mut batches[0])?;
                    if due == Due::All { hand.settle(&mut local) } else { Ok(()) }
                });
            }
        })?;
        outcome?;
        hand.apply(&mut local, &mut dealer.batches()[0])?;
        hand.settle(&mut local)?;
        Ok(dealer.finish([&hand]))
    })
}

/// As [`recover`]: `replay` deals the records of the log out to so many hands, each with its part of the keyspace.
///
/// # Errors
///
/// As for [`recover`].
pub fn recover_by(
    node: &Node,
    store: &dyn Store,
    hands: usize,
    replay: impl FnOnce(Dealer<'_>, Vec<(Hand<'_>, Local)>) -> Result<Replayed, Box<dyn Error>>,
) -> Result<Recovered, Box<dyn Error>> {
    let keyspace = &node.engine.keyspace;
    let mut local = keyspace.local(0);
    let loaded = restore(store, keyspace, &mut local)?;
    let limits = node.config.settings().tunables.limits.clone();
    let from = loaded.as_ref().map(|loaded| (loaded, store));
    let (dealer, hands) = Dealer::new(keyspace, local, limits, from, node.clock.unix_ms(), hands);
    let hands = hands.into_iter().enumerate().map(|(index, hand)| (hand, keyspace.local(index + 1))).collect();
    let replayed = replay(dealer, hands)?;
    if let Some(libraries) = &replayed.libraries {
        let loaded = node.scripts.load_libraries(libraries);
        loaded.map_err(|why| format!("the libraries of functions cannot be loaded: {why}"))?;
    }
    if !engine::restore_locks(&node.engine, &replayed.outcomes, |_| {})? {
        return Err("another thread uses the keyspace".into());
    }
    node.engine.transactions.restore(replayed.outcomes.clone());
    Ok(Recovered { loaded, replayed })
}

/// Checks that log and store belong together: the log must have everything that the store lacks (rule C3). `store`: the
/// name of the store with this header, for people; `None`: it has no checkpoint. `begun`: the streams of the log, as
/// the store knows them.
///
/// # Errors
///
/// They do not belong together: the reason, for people.
pub fn check_disks<D: Disk>(
    log: &Opened<D>,
    header: Option<&Header>,
    begun: Option<u16>,
    store: &str,
) -> Result<(), String> {
    let bases = log.recovery().bases();
    let covered = header.map_or(&[][..], |header| &header.covered);
    if header.is_some() && log.recovery().node().is_none() {
        return Err(format!(
            "the store in {store} has a checkpoint, but the directories of the log are empty: later writes would be lost"
        ));
    }
    let had = header.map(|_| covered.len()).or(begun.map(usize::from)).filter(|had| *had != bases.len());
    if let Some(had) = had {
        // Rule L11.
        return Err(format!("the log had {had} directories, not {}", bases.len()));
    }
    let missing: Vec<String> = log.recovery().missing().map(|stream| stream.to_string()).collect();
    if (header.is_some() || begun.is_some()) && !missing.is_empty() {
        return Err(format!(
            "the store in {store} goes with a log that has been begun, of which these directories, counted from 0, hold nothing: {}; writes would be lost",
            missing.join(", ")
        ));
    }
    let reaches = |(stream, base): (usize, &Lsn)| *base <= covered.get(stream).copied().unwrap_or_default();
    if !bases.iter().enumerate().all(reaches) {
        return Err(format!(
            "the log goes on from a checkpoint that the store in {store} does not have: was it removed or replaced?"
        ));
    }
    Ok(())
}

//! A standby takes over the shard that it stands by for, in the process that it is (rules S6, S8).
//!
//! ```text
//! follows --> its copy of the log is closed --> sealed, filled, opened --> the rest is applied --> led --> serves
//! ```
//! Until the end workers see the map of before, in which another node owns the shard: they forward its commands, and
//! those wait.

use std::error::Error;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::checkpoint::{Checkpointer, header};
use engine::follow::Applier;
use membership::meta::Shard;
use node::{Logging, Node};
use redolog::{Lsn, Recovered};
use standby::Memory;

use super::super::durable::{Disks, Runs, Stored};
use super::super::member::take_settings_of;
use super::super::ownership::Ownership;
use super::super::switch::Switch;
use super::super::{copies, taken_over};
use super::follow::{self, Follow};

/// A busy latch is free in so long.
const BUSY: Duration = Duration::from_micros(50);

/// Records that are applied together, and their bytes: their keys are asked for side by side.
const WINDOW: usize = 512;
const WINDOW_BYTES: usize = 4 << 20;

/// Allocations that are freed at once.
const GARBAGE: usize = 10_000;

/// A process that was given the term of the shard that it stands by for.
pub struct Leads<'a> {
    pub node: &'a Arc<Node>,
    pub ownership: &'a Ownership,
    pub switch: &'a Switch,
    /// As the metadata have it, in this term.
    pub shard: Shard,
    /// Threads that read the store.
    pub readers: &'a Mutex<Vec<JoinHandle<()>>>,
}

impl Leads<'_> {
    /// Leads the log, and serves. `checkpointer`: of the copy; a checkpoint may be under way.
    ///
    /// # Errors
    /// The process cannot go on, and has to start again. Nothing is served.
    pub fn take_over(self, follow: &Follow, stored: Stored, checkpointer: Checkpointer) -> Result<(), Box<dyn Error>> {
        let Self { node, ownership, shard, .. } = &self;
        let began = node.clock.boot_ns();
        ownership.again().takes_over(shard.id);
        take_settings_of(&node.config, shard)?;
        let settings = node.config.settings();
        let (memory, mut applier) = follow.stop().ok_or("its copy of the data follows the log no more")?;
        let copy = copies::take_out(shard.id)?;
        let disks = taken_over::in_term(&settings, node, stored, ownership, shard.clone());
        copies::is_taken_out(copy);
        let mut disks = disks?.ok_or("the server stops")?;
        let rest = apply_rest(&mut disks, &memory, &mut applier, node)?;
        // The thread that reads the store into memory gets its part of the keyspace.
        drop(applier);
        let runs = disks.run(follow.highest(), node, &settings)?;
        self.serve(runs, checkpointer, began)?;
        let ms = node.clock.boot_ns().0.saturating_sub(began.0) / 1_000_000;
        tracing::info!(
            "This node has taken over shard {} in term {}, after {ms} ms: {rest} records were applied meanwhile",
            shard.id.0,
            shard.term.get()
        );
        Ok(())
    }

    /// `began`: when the process heard of its term.
    fn serve(&self, runs: Runs, checkpointer: Checkpointer, began: membership::BootNs) -> Result<(), Box<dyn Error>> {
        let Self { node, ownership, switch, shard, readers } = self;
        let cluster = node.cluster().cloned().ok_or("the node belongs to no cluster")?;
        let keys = (0..node.config.settings().databases).map(|db| node.engine.keyspace.len(db)).sum();
        let saved = header(&*runs.store)?.map(|header| (header.saved_at, keys));
        let (state, durable) = (runs.checkpoints(node, saved), Arc::clone(&runs.running.durable));
        let halted = switch.halt()?;
        let outcomes = node.engine.transactions.outcomes().clone();
        while !engine::restore_locks(&node.engine, &outcomes, |waiter| node.wake(waiter))? {
            thread::park_timeout(BUSY);
        }
        node.set_log(Some((Arc::clone(&durable), Arc::clone(&state))));
        node.follows.store(false, SeqCst);
        switch.tell(&Logging::Leads(durable))?;
        drop(halted);
        let readers = std::mem::take(&mut *readers.lock().unwrap_or_else(PoisonError::into_inner));
        let kept = runs.keep(node, checkpointer, state, readers)?;
        if let Some(copies) = &kept.copies {
            taken_over::keep((copies, kept.standbys.as_ref()), &kept.log, ownership, node)?;
        }
        switch.leads(kept);
        cluster.leads(began.after(shard.rests_ms * 1_000_000));
        ownership.again().begins_with(Some(shard.id));
        // Maps that came meanwhile were not taken.
        cluster.set_map(ownership.control().map());
        node.look_all();
        Ok(())
    }
}

/// Applies the records that the log has and memory lacks. Returns how many these were.
fn apply_rest(disks: &mut Disks, memory: &Memory, applier: &mut Applier, node: &Node) -> Result<usize, Box<dyn Error>> {
    let last = applier.applied().last();
    let (mut window, mut bytes, mut count) = (Vec::new(), 0, 0);
    let mut outcome = Ok(());
    let mut apply = |window: &mut Vec<(u16, Lsn, Vec<u8>)>| {
        let records = window.iter().map(|(stream, lsn, effects)| Recovered { stream: *stream, lsn: *lsn, effects });
        let applied = follow::apply(applier, &records.collect::<Vec<_>>(), node);
        window.clear();
        applied
    };
    disks.log.replay(|record| {
        if outcome.is_err() || record.lsn <= last {
            return;
        }
        count += 1;
        bytes += record.effects.len();
        window.push((record.stream, record.lsn, record.effects.to_vec()));
        if window.len() >= WINDOW || bytes >= WINDOW_BYTES {
            bytes = 0;
            outcome = apply(&mut window);
        }
    })?;
    outcome?;
    apply(&mut window)?;
    let ends = disks.log.ends()?;
    if disks.copies.as_ref().is_none_or(|(copies, _)| !copies.has_all_of(memory, &ends)) {
        return Err("its memory has what the log does not have any more".into());
    }
    // Every record of the log is applied, and those that come are this process's own.
    applier.passed(Lsn(u64::MAX));
    while applier.step_garbage(GARBAGE) {}
    Ok(count)
}

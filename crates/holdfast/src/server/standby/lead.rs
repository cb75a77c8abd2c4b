//! A standby takes over the shard that it stands by for, in the process that it is (rules S6, S8).
//!
//! ```text
//! follows --> its copy of the log is sealed, filled, led --> the rest is applied --> the copy is the log --> serves
//! ```
//! Until the end workers see the map of before, in which another node owns the shard: they forward its commands, and
//! those wait.

use std::error::Error;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::checkpoint::{Checkpointer, header};
use membership::BootNs;
use membership::meta::Shard;
use node::{Logging, Node};
use redolog::Lsn;

use super::super::durable::{Runs, Stored};
use super::super::member::take_settings_of;
use super::super::ownership::Ownership;
use super::super::switch::Switch;
use super::super::{copies, taken_over};
use super::follow::Follow;

/// A busy latch is free in so long.
const BUSY: Duration = Duration::from_micros(50);

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
    /// Leads the log, and serves. `checkpointer`: of the copy; a checkpoint may be under way. `began`: when the process
    /// heard of its term.
    ///
    /// # Errors
    /// The process cannot go on, and has to start again. Nothing is served.
    pub fn take_over(
        self,
        follow: &Follow,
        stored: Stored,
        checkpointer: Checkpointer,
        began: BootNs,
    ) -> Result<(), Box<dyn Error>> {
        let Self { node, ownership, shard, .. } = &self;
        ownership.again().takes_over(shard.id);
        take_settings_of(&node.config, shard)?;
        let settings = node.config.settings();
        let own = copies::of_shard(shard.id).ok_or("its copy of the log has gone")?;
        let led = taken_over::lead_copy(&settings, node, &own, ownership, shard.clone())?;
        let driver = led.ok_or("the server stops")?;
        let floor = driver.tell_rest(&own, follow.highest());
        drop(own);
        follow.wait_for(floor, node)?;
        let (memory, mut applier) = follow.stop().ok_or("its copy of the data follows the log no more")?;
        if !driver.has_all_of(&memory) {
            return Err("its memory has what the log does not have any more".into());
        }
        // Every record of the log is applied, and those that come are this process's own.
        applier.passed(Lsn(u64::MAX));
        while applier.step_garbage(GARBAGE) {}
        // The thread that reads the store into memory gets its part of the keyspace.
        drop(applier);
        let promoted = copies::promote(shard.id, &driver)?;
        let runs = stored.promote(promoted, driver, floor, node, &settings)?;
        self.serve(runs, checkpointer, began)?;
        let ms = node.clock.boot_ns().0.saturating_sub(began.0) / 1_000_000;
        let (id, term) = (shard.id.0, shard.term.get());
        tracing::info!("This node has taken over shard {id} in term {term}, after {ms} ms");
        Ok(())
    }

    fn serve(&self, runs: Runs, checkpointer: Checkpointer, began: BootNs) -> Result<(), Box<dyn Error>> {
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

//! Many nodes: a cluster with its network, its metadata, its clients and its crashes, all from one seed.
//!
//! Each node is a machine as in the simulation of one (`crate::machine`). It is the server's own workers, log,
//! checkpointer and recovery, and its own code for links, forwarded commands and transactions over nodes. Simulated are
//! the disks, the clocks (which run at different speeds), the network (which delays, loses links and partitions nodes)
//! and the work of the servers' control threads. The metadata's state machine and the leases are the real ones; Raft is
//! replaced by its promises.

pub mod agenda;
pub mod clients;
mod control;
mod copies;
pub mod faults;
pub mod forgets;
pub mod history;
pub mod invariants;
pub mod member;
pub mod metadata;
pub mod network;
pub mod plan;
mod planted;
pub mod seat;
pub mod world;

use crate::Outcome;
use plan::{Plan, Planted};
use world::World;

/// Runs the lives that a seed decides. `keep`: keep the whole trace.
pub fn run(seed: u64, planted: Planted, keep: bool) -> Outcome {
    run_plan(seed, Plan::of(seed, planted), keep)
}

/// As [`run`], with a plan that the seed did not make.
pub fn run_plan(seed: u64, plan: Plan, keep: bool) -> Outcome {
    World::new(seed, plan, keep).map_or_else(Outcome::of_nothing, |mut world| {
        let violation = world.run().err();
        world.outcome(violation)
    })
}

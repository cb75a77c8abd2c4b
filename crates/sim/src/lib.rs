//! The simulator: one node, its disks, its clients and its crashes, all from one seed; or a cluster of them
//! ([`nodes`]).
//!
//! The server's own code runs here on one thread, a step at a time: workers, log, checkpointer, recovery. Disks, clock
//! and network are simulated: bytes that were not synced are dropped, torn and reordered, and the machine may stop at
//! any step. After every stop the [`invariants`] are checked against the replies to clients and the records of the log.
//! The seed decides everything: the same seed gives the same [`trace`], byte for byte.

#![warn(clippy::missing_errors_doc)]

pub mod clients;
pub mod clock;
pub mod counts;
pub mod hardware;
pub mod host;
pub mod invariants;
pub mod ledger;
pub mod link;
pub mod machine;
pub mod nodes;
pub mod plan;
pub mod story;
pub mod trace;
pub mod world;

use counts::Counts;
use invariants::Violation;
use plan::{Plan, Planted};
use story::Story;
use world::World;

/// The result of a seed.
#[derive(Default)]
pub struct Outcome {
    /// The events that were seen.
    pub counts: Counts,
    /// Stands for everything that happened.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// All of it, if that was asked for.
    pub trace: String,
    /// The invariant that does not hold.
    pub violation: Option<Violation>,
}

impl Outcome {
    /// Of a world that has lived.
    fn of(story: &Story, violation: Option<Violation>) -> Self {
        let Story { trace, counts, .. } = story;
        Self { counts: *counts, hash: trace.hash(), events: trace.events(), trace: trace.lines().to_owned(), violation }
    }

    /// Of a world that did not even begin.
    fn of_nothing(violation: Violation) -> Self {
        Self { violation: Some(violation), ..Self::default() }
    }
}

/// Runs the lives that a seed decides. `keep`: keep the whole trace.
pub fn run(seed: u64, planted: Planted, keep: bool) -> Outcome {
    run_plan(seed, Plan::of(seed, planted), keep)
}

/// As [`run`], with a plan that the seed did not make.
pub fn run_plan(seed: u64, plan: Plan, keep: bool) -> Outcome {
    World::new(seed, plan, keep).map_or_else(Outcome::of_nothing, |mut world| {
        let violation = world.run().err();
        Outcome::of(&world.story, violation)
    })
}

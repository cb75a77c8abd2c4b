//! Mistakes that are made on purpose in a cluster are noticed by what clients see alone.

use sim::nodes::plan::{Plan, Planted};

/// Seeds after the first that may be needed, as what the first shows depends on everything.
const MORE: u64 = 16;

/// A seed each that has shown it.
fn first(planted: Planted) -> u64 {
    match planted {
        Planted::EarlyUnlock => 2,
        Planted::UnlockedByStart => 48,
        Planted::UnloggedPrepare => 21,
        Planted::LeaseIgnored => 0,
        Planted::StaleEpoch => 0,
        Planted::ForgottenCommit => 1,
        Planted::EarlyFinished => 1,
        Planted::SkippedSync => 2,
        Planted::OverdueAsking => 0,
        Planted::Nothing => 0,
    }
}

#[test]
fn mistakes_are_noticed_in_clusters() {
    for (name, planted) in Planted::ALL {
        let is_noticed = |seed| {
            let plan = Plan::of(seed, planted);
            let plan = Plan { clients_only: true, node: sim::plan::Plan { clients_only: true, ..plan.node }, ..plan };
            sim::nodes::run_plan(seed, plan, false).violation.is_some()
        };
        assert!((first(planted)..first(planted) + MORE).any(is_noticed), "{name}");
    }
}

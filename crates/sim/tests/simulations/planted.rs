//! Planted mistakes are noticed, each within some tens of seeds: by the contents of the log, and by clients alone.

use sim::plan::{Plan, Planted};

/// True if one of so many seeds shows it.
fn is_noticed(planted: Planted, clients_only: bool, seeds: u64) -> bool {
    (0..seeds).any(|seed| {
        let plan = Plan { clients_only, ..Plan::of(seed, planted) };
        sim::run_plan(seed, plan, false).violation.is_some()
    })
}

#[test]
fn mistakes_are_noticed() {
    for (name, planted) in Planted::ALL {
        assert!(is_noticed(planted, false, 60), "{name}");
    }
}

#[test]
fn mistakes_are_noticed_by_clients_alone() {
    for (name, planted) in Planted::ALL {
        assert!(is_noticed(planted, true, 120), "{name}");
    }
}

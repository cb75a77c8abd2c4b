//! Some seeds of clusters; many more: `cargo run -p sim --release -- --cluster --seeds 0..10000`.

use sim::Outcome;
use sim::nodes::faults;
use sim::nodes::plan::{Plan, Planted};

/// The command that repeats a seed.
fn again(seed: u64) -> String {
    format!("cargo run -p sim --release -- --cluster --seed {seed} --trace (here it is shorter)")
}

/// Runs a short plan.
fn run(seed: u64, keep: bool) -> Outcome {
    let plan = Plan::of(seed, Planted::Nothing);
    sim::nodes::run_plan(
        seed,
        Plan { length: plan.length.min(2_000_000), breaks: plan.breaks.min(200_000), ..plan },
        keep,
    )
}

#[test]
fn what_must_hold_holds_in_clusters() {
    let mut sum = sim::counts::Counts::default();
    for seed in 0..16 {
        let outcome = run(seed, false);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\n  again: {}", again(seed));
        }
        sum += outcome.counts;
        // Results of a seed depend on everything: six seeds, and as many more as are needed for enough events.
        if seed >= 5 && sum.starts > 20 && sum.crashes > 1 && sum.answered > 500 && sum.echoed > 50 {
            return;
        }
    }
    panic!("too little was looked at: {sum}");
}

/// If nodes sync once a second, the last second of a node may be lost, but no half of a block over nodes.
#[test]
fn blocks_are_whole_though_nodes_sync_once_a_second() {
    let mut sum = sim::counts::Counts::default();
    for seed in 101..125 {
        let plan = Plan::of(seed, Planted::Nothing);
        let node = sim::plan::Plan { fsync: redolog::Fsync::Everysec, ..plan.node };
        let plan = Plan {
            node,
            faults: faults::CRASH | faults::POWER,
            length: plan.length.min(2_500_000),
            breaks: 150_000,
            ..plan
        };
        let outcome = sim::nodes::run_plan(seed, plan, false);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}");
        }
        sum += outcome.counts;
        // Results of a seed depend on everything: as many seeds as are needed for enough events.
        if sum.crashes > 10 && sum.answered > 300 {
            return;
        }
    }
    panic!("too little was looked at: {sum}");
}

#[test]
fn the_same_seed_gives_the_same_trace_of_a_cluster() {
    let seed = 20;
    let (first, second) = (run(seed, true), run(seed, true));
    let differ = first.trace.lines().zip(second.trace.lines()).find(|(a, b)| a != b);
    assert_eq!(differ, None, "seed {seed}");
    assert!(first.trace == second.trace && first.hash == second.hash && first.events > 1000, "seed {seed}");
}

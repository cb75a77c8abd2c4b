//! Clusters whose logs have copies; many more seeds: `cargo run -p sim --release -- --copies --seeds 0..10000`.

use sim::Outcome;
use sim::nodes::plan::{Plan, Planted};

/// Runs a short plan.
fn run(seed: u64, keep: bool) -> Outcome {
    let plan = Plan::with_copies(seed, Planted::Nothing);
    let plan = Plan { length: plan.length.min(2_500_000), breaks: plan.breaks.min(200_000), ..plan };
    sim::nodes::run_plan(seed, plan, keep)
}

#[test]
fn what_must_hold_holds_with_copies() {
    let mut sum = sim::counts::Counts::default();
    for seed in 0..40 {
        let outcome = run(seed, false);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\n  again: sim --copies --seed {seed} --trace (here it is shorter)");
        }
        sum += outcome.counts;
        // Results of a seed depend on everything: six seeds, and as many more as are needed for enough events.
        let are_folders_lost = sum.wiped > 5 && sum.changed > 2 && sum.settled > 12;
        let overtake = sum.overtook_old > 10 && sum.overtook_new > 5;
        if seed >= 5 && sum.led > 25 && sum.answered > 500 && sum.recovered > 1 && are_folders_lost && overtake {
            return;
        }
    }
    panic!("too little was looked at: {sum}");
}

#[test]
fn the_same_seed_gives_the_same_trace_with_copies() {
    let seed = 2;
    let (first, second) = (run(seed, true), run(seed, true));
    let differ = first.trace.lines().zip(second.trace.lines()).find(|(a, b)| a != b);
    assert_eq!(differ, None, "seed {seed}");
    assert!(first.hash == second.hash && first.events > 1000, "seed {seed}");
}

//! Some seeds; many more: `cargo run -p sim --release -- --seeds 0..10000`.

use sim::plan::Planted;

/// The command that repeats a seed.
fn again(seed: u64) -> String {
    format!("cargo run -p sim --release -- --seed {seed} --trace")
}

#[test]
fn what_must_hold_holds() {
    let mut sum = sim::counts::Counts::default();
    for seed in 0..16 {
        let outcome = sim::run(seed, Planted::Nothing, false);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\n  again: {}", again(seed));
        }
        sum += outcome.counts;
    }
    // Otherwise nothing was checked.
    assert!(sum.starts > 50 && sum.crashes > 50 && sum.answered > 1000, "{sum}");
    assert!(sum.checkpoints > 10 && sum.lost > 0, "{sum}");
}

/// Seeds that have shown mistakes which others have not.
#[test]
fn what_was_found_stays_mended() {
    let hidden_by_a_void_segment = 4479;
    let hidden_by_the_moment_of_a_backup = 50955;
    for seed in [hidden_by_a_void_segment, hidden_by_the_moment_of_a_backup] {
        let violation = sim::run(seed, Planted::Nothing, false).violation;
        assert!(violation.is_none(), "seed {seed}: {violation:?}\n  again: {}", again(seed));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 20..22 {
        let (first, second) = (sim::run(seed, Planted::Nothing, true), sim::run(seed, Planted::Nothing, true));
        let differ = first.trace.lines().zip(second.trace.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert!(first.trace == second.trace && first.hash == second.hash && first.events > 100, "seed {seed}");
    }
}

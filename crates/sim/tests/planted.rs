//! Mistakes that are made on purpose are noticed, each within a few seeds.

use sim::plan::Planted;

/// Seeds that a mistake may need.
const SEEDS: u64 = 12;

#[test]
fn mistakes_are_noticed() {
    for (name, planted) in Planted::ALL {
        let caught = (0..SEEDS).find(|&seed| sim::run(seed, planted, false).violation.is_some());
        assert!(caught.is_some(), "{name}: not in {SEEDS} seeds");
    }
}

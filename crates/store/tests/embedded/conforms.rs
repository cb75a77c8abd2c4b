//! The stores pass the suite for all stores. `PROPTEST_CASES` sets the number of histories.

use crate::support::{Scratch, settings, small};
use proptest::prelude::*;
use store::conformance::{Step, Subject, run, watch};
use store::{Embedded, Platter, Settings, Simulated, Store};

fn subject<T>(settings: &Settings, test: impl FnOnce(&Subject<'_>) -> T) -> T {
    let scratch = Scratch::new();
    let open_at = |folder: std::path::PathBuf| {
        Embedded::open(&folder, settings).map(|store| -> Box<dyn Store> { Box::new(store) })
    };
    let open = || open_at(scratch.join("store"));
    test(&Subject { open: &open, open_at: &open_at, scratch: scratch.join("backups") })
}

fn simulated<T>(test: impl FnOnce(&Subject<'_>) -> T) -> T {
    let scratch = Scratch::new();
    let platter = Platter::new();
    let open_on = |platter: &Platter| Simulated::open(platter, 0).map(|store| -> Box<dyn Store> { Box::new(store) });
    let open = || open_on(&platter);
    let open_at = |folder: std::path::PathBuf| {
        // The suite removes the folder of a copy.
        std::fs::create_dir_all(&folder).expect("a folder");
        open_on(&platter.copy(&folder).expect("a copy"))
    };
    test(&Subject { open: &open, open_at: &open_at, scratch: scratch.join("backups") })
}

/// Few, so that they meet, and with bytes that are hard to count on from.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0xfe), Just(0xff)];
    (1..12u8, prop::collection::vec(byte, 0..4)).prop_map(|(first, rest)| [vec![first], rest].concat())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let step = prop_oneof![
        12 => (keys(), value).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (1..12u8, 1..300u16, 0..200u16).prop_map(|(prefix, count, size)| Step::Fill(prefix, count, size)),
        4 => keys().prop_map(Step::Delete),
        1 => keys().prop_map(Step::Retire),
        4 => Just(Step::Write),
        4 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        2 => Just(Step::Snapshot),
        2 => (keys(), any::<bool>(), keys(), any::<bool>()).prop_map(|(a, b, c, d)| Step::Range(a, b, c, d)),
        1 => Just(Step::Backup),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").map_or(24, |n| n.parse().unwrap_or(24))))]

    #[test]
    fn random_histories_of_the_simulated_one(steps in steps()) {
        simulated(|subject| run(subject, &steps)).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn random_histories(steps in steps()) {
        subject(&small(), |subject| run(subject, &steps)).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn random_histories_without_a_full_memory() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4));
    let outcome =
        runner.run(&steps(), |steps| subject(&settings(), |subject| run(subject, &steps)).map_err(TestCaseError::fail));
    outcome.expect("every history");
}

#[test]
fn readers_see_whole_batches_in_order() {
    subject(&small(), |subject| watch(subject, 3000, 2)).expect("whole batches");
    simulated(|subject| watch(subject, 500, 2)).expect("whole batches");
}

//! Many nodes from a seed: messages late, lost, repeated and out of order, partitions, crashes, slow logs, clocks that
//! disagree. Clients must see a history as if transactions and plain commands had run one after the other, in real time
//! (strict serializability), and everything must come to an end.
//!
//! `cargo test -p txn --test protocol simulation` runs some seeds, and with `HOLDFAST_LONG=1` (and `--release`) many
//! more. A failure names its seed: `HOLDFAST_SEED=N cargo test -p txn --test protocol simulation::seeds` runs that
//! alone.

mod cluster;

use self::cluster::{Plan, run};
use crate::glue::Mistake;

#[test]
fn seeds() {
    if let Some(seed) = std::env::var("HOLDFAST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let told = run(Plan::new(seed)).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        return eprintln!("{told:?}");
    }
    let seeds = if std::env::var_os("HOLDFAST_LONG").is_some() { 20_000 } else { 150 };
    let mut all = cluster::Told::default();
    for seed in 0..seeds {
        all += run(Plan::new(seed)).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    eprintln!("{seeds} seeds: {all:?}");
    assert!(
        all.replied > 0
            && all.fetched > 0
            && all.widened > 0
            && all.closed > 0
            && all.read_only > 0
            && all.plain > 0
            && all.retried > 0
            && all.untimely > 0
            && all.crashes > 0
            && all.held_back > 0
            && all.doubted > 0
    );
}

/// Runs seeds until one shows the mistake.
fn is_noticed(what: &str, plan: impl Fn(u64) -> Plan) {
    let found = (0..2000).find_map(|seed| run(plan(seed)).err().map(|wrong| (seed, wrong)));
    let Some((seed, wrong)) = found else { panic!("{what}: not noticed") };
    eprintln!("{what}: seed {seed}: {}", wrong.lines().next().unwrap_or_default());
}

#[test]
fn mistakes_are_noticed() {
    let mistakes = [
        Mistake::EarlyUnlock,
        Mistake::UnloggedPrepare,
        Mistake::ForgottenCommit,
        Mistake::StaleIncarnation,
        Mistake::UnloggedRefusal,
        Mistake::OverdueAsking,
        Mistake::HalfUnlock,
        Mistake::FirstMembers,
    ];
    for mistake in mistakes {
        is_noticed(&format!("{mistake:?}"), |seed| Plan { mistake, ..Plan::new(seed) });
    }
}

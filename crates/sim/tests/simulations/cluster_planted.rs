//! Planted mistakes in a cluster are noticed by clients alone. Each mistake is a test, so that they share the
//! processors.

use sim::nodes::plan::{Plan, Planted};

/// Seeds after the first that may be needed, as the results of a seed depend on everything.
const MORE: u64 = 16;

/// True if clients notice it in a world of one of the seeds from `first` on.
fn is_noticed(planted: Planted, first: u64) -> bool {
    (first..first + MORE).any(|seed| {
        let plan = Plan::of(seed, planted);
        let plan = Plan { clients_only: true, node: sim::plan::Plan { clients_only: true, ..plan.node }, ..plan };
        sim::nodes::run_plan(seed, plan, false).violation.is_some()
    })
}

/// Makes a test of every mistake: its name, and a seed that has shown it.
macro_rules! noticed {
    ($($name:ident: $planted:ident from $first:literal,)*) => {
        $(#[test]
        fn $name() {
            assert!(is_noticed(Planted::$planted, $first));
        })*

        #[test]
        fn every_mistake_is_tried() {
            let tried = [$((stringify!($name), Planted::$planted)),*];
            for (name, planted) in Planted::ALL {
                let test = name.replace('-', "_");
                assert!(tried.iter().any(|tried| *tried == (test.as_str(), planted)), "{name} has no test");
            }
        }
    };
}

noticed! {
    early_unlock: EarlyUnlock from 2,
    unlocked_by_start: UnlockedByStart from 3,
    unlogged_prepare: UnloggedPrepare from 12,
    lease_ignored: LeaseIgnored from 0,
    stale_epoch: StaleEpoch from 0,
    forgotten_commit: ForgottenCommit from 1,
    early_finished: EarlyFinished from 1,
    skipped_sync: SkippedSync from 2,
    overdue_asking: OverdueAsking from 0,
}

//! Planted mistakes in clusters whose logs have copies are noticed. Each mistake is a test, so that they share the
//! processors. `sim --copies --planted NAME --seeds 0..2000` looks for other seeds.

use sim::nodes::plan::{Plan, Planted};

/// Seeds after the first that may be needed, as the results of a seed depend on everything.
const MORE: u64 = 100;

/// True if it is noticed in a world of one of the seeds from `first` on.
fn is_noticed(planted: Planted, first: u64) -> bool {
    (first..first + MORE).any(|seed| {
        let violation = sim::nodes::run_plan(seed, Plan::with_copies(seed, planted), false).violation;
        violation.is_some_and(|violation| {
            eprintln!("{planted:?}: seed {seed}: {violation}");
            true
        })
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
            for (name, planted) in Planted::OF_COPIES {
                let test = name.replace('-', "_");
                assert!(tried.iter().any(|tried| *tried == (test.as_str(), planted)), "{name} has no test");
            }
        }
    };
}

noticed! {
    serves_sealed: ServesSealed from 35,
    wiped_votes: WipedVotes from 26,
    trusts_own: TrustsOwn from 4,
    term_twice: TermTwice from 0,
    unsynced_copies: UnsyncedCopies from 1,
    named_by_node: NamedByNode from 1,
}

//! Small clusters, explored exhaustively: every order of messages, crashes at every step, lost and repeated messages
//! (rules T1, T2, T4, T5, T7, T9).
//!
//! `cargo test -p txn --test protocol models` explores the short configurations.
//! `HOLDFAST_LONG=1 cargo test --release -p txn --test protocol models` explores the large ones, too.
//! Mistakes made on purpose (`glue::Mistake`) must be found.

mod step;
mod transaction;
mod world;

use self::transaction::Transaction;
use self::world::Cluster;
use crate::glue::Mistake;
use stateright::{Checker, HasDiscoveries, Model};

fn long() -> bool {
    std::env::var_os("HOLDFAST_LONG").is_some()
}

/// Two participants, two transactions that meet at both in opposite orders.
fn crossing() -> Cluster {
    Cluster {
        transactions: vec![
            Transaction::new(0, 1, vec![(0, vec![], vec![1]), (1, vec![], vec![2])]),
            Transaction::new(1, 2, vec![(0, vec![], vec![1]), (1, vec![], vec![2])]),
        ],
        ..Cluster::new(2)
    }
}

/// One writes here and reads there, the other the other way round: without locks on read keys neither would see the
/// other's change.
fn skewed() -> Cluster {
    Cluster {
        transactions: vec![
            Transaction::new(0, 1, vec![(0, vec![1], vec![]), (1, vec![], vec![2])]),
            Transaction::new(1, 2, vec![(0, vec![], vec![1]), (1, vec![2], vec![])]),
        ],
        ..Cluster::new(2)
    }
}

/// One transaction.
fn alone(servers: usize) -> Cluster {
    let parts = (0..servers).map(|server| (server, vec![], vec![server as u16 + 1])).collect();
    Cluster { transactions: vec![Transaction::new(0, 1, parts)], ..Cluster::new(servers) }
}

/// Plain commands between the two: one waits for the first transaction, and the other comes behind it.
fn with_plain() -> Cluster {
    Cluster { plain: vec![(11, (0, vec![], vec![1, 3]))], ..crossing() }
}

/// The transactions see the values before they know their changes.
fn fetching(cluster: Cluster) -> Cluster {
    let ids = cluster.transactions.iter().map(|transaction| transaction.id).collect();
    Cluster { fetching: ids, ..cluster }
}

/// One transaction that turns out to need more keys twice: at a server that it has not asked, and at one that it has.
fn widening() -> Cluster {
    let one = Transaction {
        further: vec![(1, vec![], vec![2]), (0, vec![], vec![3])],
        ..Transaction::new(0, 1, vec![(0, vec![], vec![1])])
    };
    fetching(Cluster { transactions: vec![one], ..Cluster::new(2) })
}

/// Two transactions, each of which turns out to need the other's key: at one server.
fn widening_to_one_another() -> Cluster {
    let of = |id: u32, has: u16, needs: u16| Transaction {
        further: vec![(0, vec![], vec![needs])],
        ..Transaction::new(id as usize - 1, id, vec![(0, vec![], vec![has])])
    };
    fetching(Cluster { transactions: vec![of(1, 1, 2), of(2, 2, 1)], ..Cluster::new(1) })
}

/// As before, at two servers.
fn widening_crosswise() -> Cluster {
    let of = |id: u32, has: (usize, u16), needs: (usize, u16)| Transaction {
        further: vec![(needs.0, vec![], vec![needs.1])],
        ..Transaction::new(id as usize - 1, id, vec![(has.0, vec![], vec![has.1])])
    };
    let (first, second) = ((0, 1), (1, 2));
    fetching(Cluster { transactions: vec![of(1, first, second), of(2, second, first)], ..Cluster::new(2) })
}

fn explore(name: &str, cluster: Cluster) {
    let cluster = Cluster { healed: if long() { 1 } else { 8 }, ..cluster };
    // Depth first keeps the list of open states short. Breadth first finds shorter counterexamples.
    let checker = cluster.checker().threads(2).spawn_dfs().join();
    eprintln!("{name}: {} states", checker.unique_state_count());
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let last = path.last_state().clone();
        let actions: Vec<_> = path.into_actions();
        panic!("{name}: not {property} after {actions:#?}\n{last:#?}");
    }
}

/// Explores until a property fails, and returns the names of those that do.
fn finds(name: &str, cluster: Cluster, mistake: Mistake) -> Vec<&'static str> {
    let cluster = Cluster { mistake, ..cluster };
    let checker = cluster.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found: Vec<_> = checker.discoveries().into_iter().collect();
    assert!(!found.is_empty(), "{name}: {mistake:?} was not noticed in {} states", checker.unique_state_count());
    let say = |(property, path): (&'static str, stateright::Path<_, _>)| {
        let actions = path.into_actions();
        eprintln!("{mistake:?}: not {property} after {} steps, {} states", actions.len(), checker.unique_state_count());
        property
    };
    found.into_iter().map(say).collect()
}

#[test]
fn transactions_that_cross() {
    explore("crossing", Cluster { ticks: 0, ..crossing() });
}

#[test]
fn reads_are_locked_too() {
    explore("skewed", Cluster { ticks: 0, ..skewed() });
}

#[test]
fn a_participant_crashes() {
    explore("participant", Cluster { server_crashes: 1, ticks: 2, ..alone(2) });
}

#[test]
fn a_coordinator_crashes() {
    explore("coordinator", Cluster { coordinator_crashes: 1, ticks: 2, ..alone(2) });
}

#[test]
fn a_participant_is_lost_for_good() {
    explore("lost", Cluster { forgets: 1, ticks: 2, ..alone(2) });
    explore("lost, three", Cluster { forgets: 1, ticks: 0, ..alone(3) });
}

/// Another node takes over the shard of a server, which may still run for a while.
#[test]
fn a_participant_is_taken_over() {
    explore("taken over", Cluster { takeovers: 1, ticks: 1, ..alone(2) });
    explore("taken over, fetching", Cluster { takeovers: 1, ticks: 0, ..fetching(alone(2)) });
    explore("taken over, widening", Cluster { takeovers: 1, ticks: 0, ..widening() });
    explore("taken over, repeated", Cluster { takeovers: 1, repeated: 1, ticks: 0, ..alone(2) });
    if long() {
        explore("taken over, crossing", Cluster { takeovers: 1, ticks: 0, ..crossing() });
        explore("taken over, more inquiries", Cluster { takeovers: 1, ticks: 2, ..alone(2) });
        explore("taken over, lost", Cluster { takeovers: 1, lost: 1, ticks: 1, ..alone(2) });
    }
}

#[test]
fn a_participant_is_taken_over_and_the_coordinator_ends() {
    explore("taken over, ended", Cluster { takeovers: 1, coordinator_crashes: 1, ticks: 0, ..alone(2) });
}

#[test]
fn participants_are_taken_over_one_after_the_other() {
    explore("both taken over", Cluster { takeovers: 2, ticks: 0, ..alone(2) });
    explore("started again, taken over", Cluster { takeovers: 1, server_crashes: 1, ticks: 0, ..alone(2) });
    explore("named anew, taken over", Cluster { takeovers: 1, recoveries: 1, ticks: 0, ..alone(2) });
}

#[test]
fn a_participant_that_is_named_by_its_node_is_noticed() {
    // Nothing is healed: the double decision itself is to be seen.
    let taken = || Cluster { takeovers: 1, ticks: 1, healed: u64::MAX, ..alone(2) };
    let found = finds("taken over", taken(), Mistake::NodeIsParticipant);
    assert!(found.contains(&"atomic"), "{found:?}");
    finds("taken over", Cluster { server_crashes: 1, healed: 1, ..taken() }, Mistake::LifeOfNode);
}

/// A server is lost for good, and another node has its log, by another name. The lost one may still run for a while.
#[test]
fn a_participant_is_recovered_elsewhere() {
    explore("recovered", Cluster { recoveries: 1, ticks: 1, ..alone(2) });
    explore("recovered, fetching", Cluster { recoveries: 1, ticks: 0, ..fetching(alone(2)) });
    explore("recovered, widening", Cluster { recoveries: 1, ticks: 0, ..widening() });
    if long() {
        explore("recovered, crossing", Cluster { recoveries: 1, ticks: 0, ..crossing() });
        explore("recovered, started again", Cluster { recoveries: 1, server_crashes: 1, ticks: 0, ..alone(2) });
    }
}

#[test]
fn a_participant_is_recovered_elsewhere_and_the_coordinator_ends() {
    explore("recovered, ended", Cluster { recoveries: 1, coordinator_crashes: 1, ticks: 0, ..alone(2) });
}

#[test]
fn participants_are_recovered_one_after_the_other() {
    explore("both recovered", Cluster { recoveries: 2, ticks: 0, ..alone(2) });
}

#[test]
fn messages_are_lost_and_repeated() {
    explore("network", Cluster { lost: 1, repeated: 1, ..alone(2) });
}

#[test]
fn plain_commands_wait_in_between() {
    explore("plain", Cluster { ticks: 0, ..with_plain() });
}

/// Two transactions for one key, the second of which needs nothing else. Parts wait before they ask for their locks,
/// and the server may refuse to let them wait.
fn held_back() -> Cluster {
    Cluster {
        transactions: vec![
            Transaction::new(0, 1, vec![(0, vec![], vec![1])]),
            Transaction::new(1, 2, vec![(0, vec![], vec![1])]),
        ],
        holds_back: true,
        doubts: 1,
        coordinator_crashes: 1,
        ticks: 1,
        ..Cluster::new(1)
    }
}

/// Every claim has an owner at all times, even if a part is given up.
#[test]
fn parts_are_held_back_before_they_ask() {
    explore("held back", held_back());
    explore("held back, fetching", fetching(held_back()));
}

#[test]
fn fetching_transactions_that_cross() {
    explore("fetching, crossing", fetching(Cluster { ticks: 0, ..crossing() }));
    let one = Cluster { fetching: vec![1], ticks: 0, ..skewed() };
    explore("one of two fetches, skewed", one);
}

#[test]
fn fetching_with_faults() {
    explore("fetching, participant", fetching(Cluster { server_crashes: 1, ticks: 1, ..alone(2) }));
    explore("fetching, coordinator", fetching(Cluster { coordinator_crashes: 1, ticks: 2, ..alone(2) }));
    explore("fetching, network", fetching(Cluster { lost: 1, repeated: 1, ..alone(2) }));
}

#[test]
fn transactions_that_are_widened() {
    explore("widening", Cluster { ticks: 1, ..widening() });
    explore("widening to one another", Cluster { ticks: 0, ..widening_to_one_another() });
    explore("widening crosswise", Cluster { ticks: 0, ..widening_crosswise() });
    let plain = vec![(11, (0, vec![], vec![1, 2]))];
    explore("widening, plain", Cluster { ticks: 0, plain, ..widening_to_one_another() });
}

#[test]
fn transactions_that_are_widened_with_faults() {
    explore("widening, participant", Cluster { server_crashes: 1, ticks: 0, ..widening() });
    explore("widening, coordinator", Cluster { coordinator_crashes: 1, ticks: 1, ..widening() });
    explore("widening, network", Cluster { lost: 1, repeated: 1, ticks: 0, ..widening() });
    explore("widening, held back", Cluster { holds_back: true, doubts: 1, ticks: 0, ..widening_to_one_another() });
}

/// The large configurations, one after the other: all of them take some minutes in a release build.
#[test]
fn large_clusters() {
    if !long() {
        return;
    }
    let crash = |cluster| Cluster { server_crashes: 1, ..cluster };
    let end = |cluster| Cluster { coordinator_crashes: 1, ..cluster };
    let network = |cluster| Cluster { lost: 1, repeated: 1, ..cluster };
    explore("crossing", crossing());
    explore("skewed", skewed());
    explore("network", Cluster { ticks: 2, ..network(alone(2)) });
    explore("a crash, no coordinator", crash(end(alone(2))));
    explore("plain commands", Cluster { ticks: 1, ..with_plain() });
    explore("crossing, repeated", Cluster { repeated: 1, ticks: 0, ..crossing() });
    explore("crossing, lost", Cluster { lost: 1, ..crossing() });
    explore("crossing, no coordinator", Cluster { ticks: 0, ..end(crossing()) });
    explore("three participants", alone(3));
    explore("fetching, crossing", fetching(crossing()));
    explore("fetching, participant", fetching(Cluster { server_crashes: 1, ticks: 2, ..alone(2) }));
    explore("fetching, skewed", fetching(skewed()));
    explore("fetching, network", fetching(Cluster { ticks: 2, ..network(alone(2)) }));
    explore("fetching, a crash, no coordinator", fetching(crash(end(alone(2)))));
    explore("fetching, plain commands", fetching(Cluster { ticks: 1, ..with_plain() }));
    explore("fetching, crossing, no coordinator", fetching(Cluster { ticks: 0, ..end(crossing()) }));
    explore("fetching, crossing, a crash", fetching(Cluster { ticks: 0, ..crash(crossing()) }));
    explore("crossing, a crash", Cluster { ticks: 0, ..crash(crossing()) });
    explore("a crash, a lost message", Cluster { lost: 1, ticks: 2, ..crash(alone(2)) });
    explore("two crashes", Cluster { server_crashes: 2, ticks: 2, ..alone(2) });
    explore("three participants, a crash", Cluster { ticks: 0, ..crash(alone(3)) });
    explore("three participants, no coordinator", end(alone(3)));
    explore("crossing, three attempts", Cluster { attempts_max: 3, ..crossing() });
    explore("crossing, held back", Cluster { holds_back: true, doubts: 1, ticks: 0, ..crossing() });
    explore("crossing, held back, no coordinator", Cluster { holds_back: true, ticks: 0, ..end(crossing()) });
    explore("held back, repeated", Cluster { repeated: 1, ..held_back() });
}

/// As [`large_clusters`], with transactions that are widened.
#[test]
fn large_clusters_with_widening() {
    if !long() {
        return;
    }
    let end = |cluster| Cluster { coordinator_crashes: 1, ..cluster };
    explore("a crash", Cluster { server_crashes: 1, ticks: 2, ..widening() });
    explore("a crash, no coordinator", Cluster { server_crashes: 1, ticks: 1, ..end(widening()) });
    explore("network", Cluster { lost: 1, repeated: 1, ticks: 1, ..widening() });
    explore("one is lost", Cluster { forgets: 1, ticks: 1, ..widening() });
    explore("to one another", Cluster { ticks: 1, repeated: 1, ..widening_to_one_another() });
    explore("to one another, no coordinator", end(widening_to_one_another()));
    explore("to one another, held back", Cluster { holds_back: true, doubts: 1, ..end(widening_to_one_another()) });
    explore("crosswise, no coordinator", Cluster { ticks: 0, ..end(widening_crosswise()) });
    explore("crosswise, a crash", Cluster { server_crashes: 1, ticks: 0, ..widening_crosswise() });
}

#[test]
fn mistakes_with_what_is_widened_are_noticed() {
    finds("widening to one another", widening_to_one_another(), Mistake::HalfUnlock);
    finds("widening, no coordinator", Cluster { coordinator_crashes: 1, ..widening() }, Mistake::FirstMembers);
}

/// As [`large_clusters`], with one server that is lost.
#[test]
fn large_clusters_of_which_one_is_lost() {
    if !long() {
        return;
    }
    let lost = |servers, ticks| Cluster { forgets: 1, ticks, ..alone(servers) };
    explore("no coordinator", Cluster { coordinator_crashes: 1, ..lost(2, 2) });
    explore("three", lost(3, 1));
    explore("three, no coordinator", Cluster { coordinator_crashes: 1, ..lost(3, 1) });
    explore("three, more inquiries", lost(3, 2));
}

#[test]
fn a_part_that_is_over_and_asks_is_noticed() {
    finds("held back", held_back(), Mistake::OverdueAsking);
}

#[test]
fn locks_given_back_early_are_noticed() {
    finds("crossing", crossing(), Mistake::EarlyUnlock);
}

#[test]
fn mistakes_with_what_was_fetched_are_noticed() {
    let crash = || fetching(Cluster { server_crashes: 1, ticks: 2, ..alone(2) });
    finds("fetching, participant", crash(), Mistake::UnloggedPrepare);
    finds("fetching, crossing", fetching(crossing()), Mistake::ForgottenFetch);
}

#[test]
fn a_prepare_that_is_not_logged_is_noticed() {
    finds("participant", Cluster { server_crashes: 1, ticks: 2, ..alone(2) }, Mistake::UnloggedPrepare);
}

#[test]
fn a_forgotten_commit_is_noticed() {
    finds("participant", Cluster { server_crashes: 1, ticks: 2, ..alone(2) }, Mistake::ForgottenCommit);
}

#[test]
fn a_stale_incarnation_is_noticed() {
    finds("participant", Cluster { server_crashes: 1, ticks: 2, ..alone(2) }, Mistake::StaleIncarnation);
}

#[test]
fn a_refusal_that_is_not_remembered_is_noticed() {
    finds("silence", Cluster { ticks: 2, ..alone(2) }, Mistake::UnloggedRefusal);
}

#[test]
fn an_heir_that_knows_nothing_of_transactions_is_noticed() {
    finds("recovered", Cluster { recoveries: 1, ticks: 0, ..alone(2) }, Mistake::EmptyHeir);
}

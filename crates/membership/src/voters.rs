//! The choice of the members that vote on the metadata. A cluster of three machines or more decides after the loss of any
//! one of them, however many nodes each of them has. Where a machine has a log-server, that votes, and the end of a node
//! takes no vote away.

use std::collections::{BTreeMap, BTreeSet};

use crate::NodeId;

/// A member that may vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<'a> {
    /// Its name.
    pub id: NodeId,
    /// Its machine; empty: it has not said where it runs, and counts as a machine of its own.
    pub machine: &'a str,
    /// It is a log-server that holds its machine's vote: the nodes there do not vote, if three machines have votes so.
    pub is_for_host: bool,
}

/// The fewest machines of which any one may be lost.
const MACHINES_MIN: usize = 3;

/// At most `most` of these members, which are in the order of their numbers: one of each machine before a second one of
/// any.
///
/// Fewer vote where more would give half of the votes to one machine. If there is no other way, as many vote as may.
pub fn choose<'a>(members: impl IntoIterator<Item = Candidate<'a>>, most: usize) -> BTreeSet<NodeId> {
    let members: Vec<Candidate<'a>> = members.into_iter().collect();
    let for_hosts = members.iter().filter(|member| member.is_for_host && !member.machine.is_empty());
    let for_hosts: BTreeSet<&str> = for_hosts.map(|member| member.machine).collect();
    let mut of_machine: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, NodeId)> = Vec::new();
    let mut voting: Vec<Candidate<'a>> = members.clone();
    voting.retain(|member| member.is_for_host || !for_hosts.contains(member.machine));
    let unknown = voting.iter().filter(|member| member.machine.is_empty()).count();
    let known: BTreeSet<&str> = voting.iter().map(|member| member.machine).filter(|name| !name.is_empty()).collect();
    if known.len() + unknown < MACHINES_MIN {
        // No choice outlives a machine, and a log-server would decide alone. Of two members of one machine either could stop
        // the other.
        voting = members;
        if let [Candidate { machine, .. }, Candidate { machine: of_other, .. }] = voting[..]
            && machine == of_other
            && !machine.is_empty()
            && voting.iter().any(|member| !member.is_for_host)
        {
            voting.retain(|member| !member.is_for_host);
        }
    }
    for Candidate { id, machine, .. } in voting {
        let rank = match machine {
            "" => 0,
            machine => {
                let earlier = of_machine.entry(machine).or_default();
                *earlier += 1;
                *earlier - 1
            }
        };
        ranked.push((rank, id));
    }
    // Stable: nodes of one rank stay in the order of their numbers.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(most);
    // The last of the first `count` is one of the machine with most voters among them.
    let survives = |count: &usize| ranked[..*count].last().is_some_and(|(rank, _)| 2 * (rank + 1) < *count);
    let count = (1..=ranked.len()).rev().find(survives).unwrap_or(ranked.len());
    ranked.into_iter().take(count).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: usize) -> NodeId {
        NodeId([n as u8; 20])
    }

    /// A machine with a star is that of a log-server.
    fn chosen(machines: &[&str], most: usize) -> Vec<usize> {
        let candidates = machines.iter().enumerate().map(|(n, name)| {
            let machine = name.trim_end_matches('*');
            Candidate { id: id(n), machine, is_for_host: machine != *name }
        });
        let voters = choose(candidates, most);
        (0..machines.len()).filter(|n| voters.contains(&id(*n))).collect()
    }

    #[test]
    fn each_machine_has_a_voter_before_any_has_two() {
        assert_eq!(chosen(&["a", "a", "a", "b", "b", "b", "c", "c", "c"], 5), [0, 1, 3, 4, 6]);
        assert_eq!(chosen(&["a", "a", "a", "a", "b", "c"], 5), [0, 4, 5], "with four, two of them would be of `a`");
        assert_eq!(chosen(&["a", "a", "b", "b", "c"], 4), [0, 2, 4]);
        assert_eq!(chosen(&["a", "a", "a", "b"], 5), [0, 1, 2, 3], "no choice outlives both");
        assert_eq!(chosen(&["a"; 7], 5), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(&[], 5), [0; 0]);
    }

    #[test]
    fn nodes_that_have_not_said_where_they_run_vote_in_the_order_of_their_numbers() {
        assert_eq!(chosen(&[""; 7], 5), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(&[""; 4], 5), [0, 1, 2, 3]);
        assert_eq!(chosen(&["", "a", "a", "", "b", ""], 5), [0, 1, 3, 4, 5]);
    }

    #[test]
    fn the_log_server_of_a_machine_votes_in_the_place_of_its_nodes() {
        assert_eq!(chosen(&["a", "a", "b", "b", "c", "c", "a*", "b*", "c*"], 5), [6, 7, 8]);
        assert_eq!(
            chosen(&["a", "a", "b", "b", "c", "c", "b*"], 5),
            [0, 1, 4, 5, 6],
            "the others have none that answers"
        );
        assert_eq!(chosen(&["a", "b", "a*", "b*", "c*"], 5), [2, 3, 4], "a machine without nodes");
        assert_eq!(chosen(&["a", "a", "a*"], 5), [0, 1, 2], "it would be alone");
        assert_eq!(chosen(&["a", "a*"], 5), [0], "either could stop the other");
        assert_eq!(chosen(&["a*", "a*"], 5), [0, 1]);
        assert_eq!(chosen(&["a", "b", "a*", "b*"], 5), [0, 1, 2, 3], "no choice outlives both");
        assert_eq!(
            chosen(&["", "a", "*", "a*"], 5),
            [0, 2, 3],
            "one that has not said where it runs is for itself alone"
        );
    }

    proptest! {
        #[test]
        fn the_loss_of_a_machine_of_three_leaves_a_majority(
            of in proptest::collection::vec(0usize..6, 0..30),
            most in 3usize..8,
        ) {
            let names = ["a", "b", "c", "d", "e", ""];
            let machines: Vec<&str> = of.iter().map(|n| names[*n]).collect();
            let voters = chosen(&machines, most);
            let count = |name: &str, among: &[usize]| among.iter().filter(|n| machines[**n] == name).count();
            let all: Vec<usize> = (0..machines.len()).collect();
            let named = &names[..5];
            let there = named.iter().filter(|name| count(name, &all) > 0).count() + count("", &all);
            prop_assert!(there < 3 || named.iter().all(|name| 2 * count(name, &voters) < voters.len()));
            prop_assert!(voters.len() <= most && (there >= 3 || voters.len() == most.min(machines.len())));
            for one in named {
                for other in named.iter().filter(|other| count(other, &all) > count(other, &voters)) {
                    prop_assert!(count(one, &voters) <= count(other, &voters) + 1);
                }
            }
        }
    }
}

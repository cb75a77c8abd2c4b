//! Key locks: first come, first served; wait-die over nodes (rule T7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::glue::dice::Dice;
use txn::locks::Mode::{Exclusive, Shared};
use txn::locks::{Asker, LockTable, Locks, Mode, Requested, release, request, request_plain, restore, upgrade};
use txn::{HybridTime, NodeId, Stamp};

type Table = LockTable<u8, u32>;

fn stamp(time: u64) -> Stamp {
    Stamp { time: HybridTime(time), node: NodeId(1), lane: 0 }
}

/// A transaction whose name is its age.
fn ask(table: &mut Table, who: u32, keys: &[(u8, Mode)]) -> Requested {
    request(table, who, (stamp(u64::from(who)), false), keys.iter().map(|(key, mode)| (key, *mode)))
}

fn plain(table: &mut Table, who: u32, keys: &[(u8, Mode)]) -> Option<usize> {
    request_plain(table, who, keys.iter().map(|(key, mode)| (key, *mode)))
}

fn give(table: &mut Table, who: u32, keys: &[u8]) -> Vec<u32> {
    let mut granted = Vec::new();
    release(table, who, keys.iter(), |who| granted.push(who));
    granted
}

#[test]
fn readers_share_and_writers_do_not() {
    let mut table = Table::default();
    assert_eq!(ask(&mut table, 9, &[(1, Shared)]), Requested::Granted);
    assert_eq!(ask(&mut table, 8, &[(1, Shared)]), Requested::Granted);
    assert_eq!(ask(&mut table, 7, &[(1, Exclusive)]), Requested::Waits(1));
    assert!(give(&mut table, 9, &[1]).is_empty());
    assert_eq!(give(&mut table, 8, &[1]), [7]);
    assert_eq!(ask(&mut table, 6, &[(1, Shared)]), Requested::Waits(1));
    assert_eq!(ask(&mut table, 5, &[(1, Shared)]), Requested::Waits(1));
    assert_eq!(give(&mut table, 7, &[1]), [6, 5]);
    give(&mut table, 5, &[1]);
    give(&mut table, 6, &[1]);
    assert!(table.is_empty(), "nothing is kept of a key that nobody wants");
}

#[test]
fn the_younger_dies_and_holds_nothing() {
    let mut table = Table::default();
    assert_eq!(ask(&mut table, 5, &[(1, Exclusive)]), Requested::Granted);
    assert_eq!(ask(&mut table, 6, &[(1, Shared), (2, Exclusive)]), Requested::Dies);
    assert_eq!(ask(&mut table, 9, &[(2, Exclusive)]), Requested::Granted);
    assert_eq!(ask(&mut table, 4, &[(1, Exclusive), (2, Exclusive), (3, Shared)]), Requested::Waits(2));
    assert_eq!(give(&mut table, 9, &[2]), [4]);
    assert_eq!(give(&mut table, 5, &[1]), [4]);
}

#[test]
fn those_who_came_before_and_wait_count_too() {
    let mut table = Table::default();
    ask(&mut table, 9, &[(1, Shared)]);
    assert_eq!(ask(&mut table, 3, &[(1, Exclusive)]), Requested::Waits(1));
    assert_eq!(ask(&mut table, 5, &[(1, Shared)]), Requested::Dies, "it would wait for 3, which is older");
    assert_eq!(ask(&mut table, 2, &[(1, Shared)]), Requested::Waits(1), "and does not overtake it");
    assert_eq!(give(&mut table, 9, &[1]), [3]);
    assert_eq!(give(&mut table, 3, &[1]), [2]);
}

fn ask_patiently(table: &mut Table, who: u32, keys: &[(u8, Mode)]) -> Requested {
    request(table, who, (stamp(u64::from(who)), true), keys.iter().map(|(key, mode)| (key, *mode)))
}

/// A transaction with nothing elsewhere waits for all others, and counts as old as the oldest of them.
#[test]
fn the_patient_wait_for_older_ones() {
    let mut table = Table::default();
    assert_eq!(ask(&mut table, 5, &[(1, Exclusive)]), Requested::Granted);
    assert_eq!(ask(&mut table, 7, &[(1, Exclusive)]), Requested::Dies);
    assert_eq!(ask_patiently(&mut table, 7, &[(1, Exclusive), (2, Exclusive)]), Requested::Waits(1));
    assert_eq!(ask(&mut table, 6, &[(2, Exclusive)]), Requested::Dies, "7 waits for 5");
    assert_eq!(ask_patiently(&mut table, 6, &[(1, Shared)]), Requested::Waits(1));
    assert_eq!(ask(&mut table, 4, &[(2, Exclusive)]), Requested::Waits(1));
    assert_eq!(give(&mut table, 5, &[1]), [7]);
    // It has all keys, and its own age: the transactions before it have ended.
    assert_eq!(ask_patiently(&mut table, 9, &[(3, Exclusive)]), Requested::Granted);
    assert_eq!(ask(&mut table, 8, &[(3, Exclusive)]), Requested::Waits(1));
    assert_eq!(give(&mut table, 7, &[1, 2]), [6, 4]);
}

/// Plain commands that wait for one key say the same.
#[test]
fn those_behind_the_patient_wait_for_the_oldest_before_them() {
    let mut table = Table::default();
    assert_eq!(ask(&mut table, 5, &[(1, Exclusive)]), Requested::Granted);
    assert_eq!(ask_patiently(&mut table, 8, &[(1, Exclusive)]), Requested::Waits(1));
    for (who, mode) in [(101, Exclusive), (102, Shared), (103, Shared), (104, Exclusive)] {
        assert_eq!(plain(&mut table, who, &[(1, mode)]), Some(1));
    }
    assert_eq!(ask(&mut table, 6, &[(1, Exclusive)]), Requested::Dies, "5 is older");
    assert_eq!(give(&mut table, 5, &[1]), [8]);
    assert_eq!(ask(&mut table, 9, &[(1, Exclusive)]), Requested::Dies, "8 is older");
    assert_eq!(ask(&mut table, 6, &[(1, Exclusive)]), Requested::Waits(1));
    assert_eq!(give(&mut table, 8, &[1]), [101]);
}

/// Each waiter names all that are before it, so their number is bounded.
#[test]
fn patience_has_an_end() {
    let mut table = Table::default();
    ask(&mut table, 1, &[(1, Exclusive)]);
    let waits =
        (2..1000).take_while(|who| ask_patiently(&mut table, *who, &[(1, Exclusive)]) != Requested::Dies).count();
    assert_eq!(waits, 511);
}

#[test]
fn plain_commands_queue_and_never_die() {
    let mut table = Table::default();
    assert_eq!(plain(&mut table, 100, &[(1, Exclusive)]), None);
    assert!(table.is_empty());
    ask(&mut table, 5, &[(1, Exclusive)]);
    assert_eq!(plain(&mut table, 101, &[(1, Shared), (2, Exclusive)]), Some(1));
    assert_eq!(plain(&mut table, 102, &[(2, Shared)]), Some(1), "first come, first served");
    assert_eq!(give(&mut table, 5, &[1]), [101]);
    assert_eq!(give(&mut table, 101, &[1, 2]), [102]);
    give(&mut table, 102, &[2]);
    assert!(table.is_empty());
}

#[test]
fn who_waits_for_a_plain_command_waits_for_what_that_waits_for() {
    // 5 would wait for the command, the command waits for 4, and 4 may wait for 5 at another node.
    let mut table = Table::default();
    ask(&mut table, 4, &[(1, Shared)]);
    assert_eq!(plain(&mut table, 100, &[(1, Exclusive), (2, Exclusive)]), Some(1));
    assert_eq!(plain(&mut table, 101, &[(2, Exclusive), (3, Exclusive)]), Some(1));
    assert_eq!(ask(&mut table, 5, &[(2, Shared)]), Requested::Dies);
    assert_eq!(ask(&mut table, 5, &[(3, Shared)]), Requested::Dies, "over several commands, too");
    assert_eq!(ask(&mut table, 3, &[(3, Shared)]), Requested::Waits(1));
}

/// The next client comes before the one before has run, for ever.
#[test]
fn who_is_refused_because_of_a_transaction_is_not_refused_when_that_has_ended() {
    let keys: [&[(u8, Mode)]; 3] = [&[(1, Exclusive)], &[(1, Exclusive), (2, Shared)], &[(1, Shared), (2, Exclusive)]];
    for (seed, length) in (0..40).map(|seed| (seed, 1 + seed as usize % 4)) {
        let (mut dice, mut table) = (Dice(seed), Table::default());
        assert_eq!(ask(&mut table, 1, &[(1, Exclusive), (2, Exclusive)]), Requested::Granted);
        let mut queue: VecDeque<(u32, &[(u8, Mode)])> = VecDeque::new();
        let mut come = |table: &mut Table, queue: &mut VecDeque<_>, who: u32| {
            let keys = keys[dice.below(3)];
            if plain(table, who, keys).is_some() {
                queue.push_back((who, keys));
            }
        };
        for who in 0..length as u32 {
            come(&mut table, &mut queue, 100 + who);
        }
        assert_eq!(ask(&mut table, 5, &[(1, Exclusive)]), Requested::Dies, "1 is older");
        give(&mut table, 1, &[1, 2]);
        for who in 0..20 {
            come(&mut table, &mut queue, 1000 + who);
            if let Some((first, keys)) = queue.pop_front() {
                give(&mut table, first, &keys.iter().map(|(key, _)| *key).collect::<Vec<_>>());
            }
        }
        assert_ne!(ask(&mut table, 5, &[(1, Exclusive)]), Requested::Dies, "seed {seed}: all before it are plain");
    }
}

#[test]
fn a_holder_upgrades_before_all_who_wait() {
    let mut table = Table::default();
    for who in [7, 8, 9] {
        ask(&mut table, who, &[(1, Shared)]);
    }
    assert_eq!(ask(&mut table, 2, &[(1, Exclusive)]), Requested::Waits(1));
    assert_eq!(upgrade(&mut table, 8, stamp(8), &1), Requested::Dies, "7 is older");
    assert_eq!(upgrade(&mut table, 7, stamp(7), &1), Requested::Waits(1));
    assert!(give(&mut table, 8, &[1]).is_empty());
    assert_eq!(give(&mut table, 9, &[1]), [7]);
    let held: Vec<_> = table.iter().flat_map(|(_, lock)| lock.held()).collect();
    assert_eq!(held, [(7, Exclusive)]);
    assert_eq!(give(&mut table, 7, &[1]), [2]);
    assert_eq!(ask(&mut table, 1, &[(2, Shared)]), Requested::Granted);
    assert_eq!(upgrade(&mut table, 1, stamp(1), &2), Requested::Granted);
}

#[test]
fn what_waits_can_be_taken_back() {
    let mut table = Table::default();
    ask(&mut table, 9, &[(1, Shared)]);
    ask(&mut table, 8, &[(1, Exclusive)]);
    ask(&mut table, 7, &[(1, Shared)]);
    assert_eq!(give(&mut table, 8, &[1]), [7], "who waited behind it only goes on");
    assert!(restore(&mut table, 6, stamp(6), [(&1, Shared)].into_iter()));
    assert!(!restore(&mut table, 5, stamp(5), [(&1, Exclusive)].into_iter()));
}

/// Transactions and plain commands over several nodes, in any order: none waits for ever, and no two hold conflicting
/// locks.
#[test]
fn nobody_waits_in_a_circle() {
    for seed in 0..300 {
        circle(seed);
    }
}

const NODES: usize = 3;

/// The keys that a transaction wants of each node, the nodes that it has asked, and the number of keys that it waits
/// for.
struct Want {
    keys: Vec<Vec<(u8, Mode)>>,
    asked: BTreeMap<usize, usize>,
    plain: bool,
    /// The node that refused it: it asks there first, and patiently.
    first: Option<usize>,
}

fn circle(seed: u64) {
    let mut dice = Dice(seed);
    let mut tables: Vec<Table> = (0..NODES).map(|_| Table::default()).collect();
    let mut wants: BTreeMap<u32, Want> = BTreeMap::new();
    for who in 1..=14u32 {
        let plain = dice.percent(40);
        let home = dice.below(NODES);
        let keys = (0..NODES).map(|node| {
            let mut keys = BTreeMap::new();
            for _ in 0..if plain && node != home { 0 } else { 1 + dice.below(2) } {
                keys.insert(dice.below(3) as u8, if dice.percent(50) { Shared } else { Exclusive });
            }
            keys.into_iter().collect()
        });
        wants.insert(who, Want { keys: keys.collect(), asked: BTreeMap::new(), plain, first: None });
    }
    for step in 0.. {
        assert!(step < 20_000, "seed {seed}: somebody is refused for ever");
        // The possible steps: a transaction asks another node, or ends when it has all keys.
        let mut can = Vec::new();
        for (who, want) in &wants {
            let open = (0..NODES).filter(|node| !want.keys[*node].is_empty() && !want.asked.contains_key(node));
            let open: Vec<usize> = open.collect();
            if open.is_empty() && want.asked.values().all(|missing| *missing == 0) {
                can.push((*who, None));
            }
            // A patient transaction has nothing elsewhere.
            let alone = want.first.filter(|node| want.asked.get(node) != Some(&0));
            let open = open.into_iter().filter(|node| alone.is_none_or(|alone| alone == *node));
            can.extend(open.map(|node| (*who, Some(node))));
        }
        let Some((who, node)) = (!can.is_empty()).then(|| can[dice.below(can.len())]) else {
            assert!(wants.is_empty(), "seed {seed}: {:?} wait in a circle", wants.keys());
            return;
        };
        let want = wants.get_mut(&who).expect("somebody");
        let over = match node {
            None => true,
            Some(node) if want.plain => {
                let missing = plain(&mut tables[node], who, &want.keys[node]);
                want.asked.insert(node, missing.unwrap_or(0));
                false
            }
            Some(node) => {
                let patient = want.first == Some(node);
                let asked = if patient { ask_patiently } else { ask };
                match asked(&mut tables[node], who, &want.keys[node]) {
                    Requested::Granted => want.asked.insert(node, 0).is_some(),
                    Requested::Waits(missing) => want.asked.insert(node, missing).is_some(),
                    Requested::Dies => {
                        assert!(!patient);
                        // Some do not.
                        want.first = dice.percent(70).then_some(node);
                        true
                    }
                }
            }
        };
        if over {
            let asked: BTreeSet<usize> = std::mem::take(&mut want.asked).into_keys().collect();
            let keys = want.keys.clone();
            if node.is_none() {
                wants.remove(&who);
            }
            for node in asked {
                let keys: Vec<u8> = keys[node].iter().map(|(key, _)| *key).collect();
                for granted in give(&mut tables[node], who, &keys) {
                    *wants.get_mut(&granted).expect("somebody").asked.get_mut(&node).expect("asked") -= 1;
                }
            }
        }
        for lock in tables.iter().flat_map(Table::iter).map(|(_, lock)| lock) {
            let held: Vec<Mode> = lock.held().map(|(_, mode)| mode).collect();
            assert!(held.len() < 2 || !held.contains(&Exclusive), "seed {seed}: two hold a key");
        }
    }
}

#[test]
fn locks_are_found_by_their_keys() {
    let mut table = Table::default();
    assert_eq!(table.of(&1, |_| ()), None);
    assert!(table.with(&1, |lock| lock.claim(7, Shared, Asker::Transaction(stamp(7)))));
    assert_eq!(table.of(&1, |lock| lock.held_by(7)), Some(Some(Shared)));
}

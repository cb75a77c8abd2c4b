use std::collections::BTreeMap;

use membership::map::{Node, Range};
use membership::meta::{Command, Response};
use membership::{Map, SLOTS};

use crate::harness::{Nodes, wait};

/// Pseudo-random numbers (xorshift64).
fn dice(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below as u64) as usize
}

/// Nodes stop and start again, and now and then one is wiped and forgotten. Acknowledged changes stay, a version of the
/// map is one map, and every slot keeps an owner. `HOLDFAST_STORM=1000` for as many steps.
#[test]
fn what_was_decided_stays_however_nodes_come_and_go() {
    let steps: usize = std::env::var("HOLDFAST_STORM").map_or(12, |steps| steps.parse().expect("a number of steps"));
    let mut chance = 0x9e37_79b9_7f4a_7c15;
    let mut nodes = Nodes::formed(80, 3);
    let (mut answered, mut down) = (0, None::<usize>);
    for step in 0..steps {
        if let Some(n) = down.take() {
            nodes.nodes[n].start();
            nodes.serve();
        }
        let n = dice(&mut chance, 3);
        let old = nodes.nodes[n].id();
        nodes.nodes[n].stop();
        if step % 4 == 3 {
            nodes.nodes[n].wipe();
            nodes.nodes[n].start();
            nodes.serve();
            nodes.nodes[n].done(&Command::Forget { id: old });
            // While two vote, none of them may stop.
            nodes.vote(3);
        } else {
            down = Some(n);
        }
        for _ in 0..dice(&mut chance, 4) {
            let from = (n + 1 + dice(&mut chance, 2)) % 3;
            let command = Command::Set { name: "step".to_owned(), value: format!("{step} {answered}") };
            wait("something is decided", || match nodes.nodes[from].submit(command.clone()) {
                Ok(Response::Done { version, .. }) => {
                    assert!(version > answered, "{version} after {answered}");
                    answered = version;
                    Some(())
                }
                Ok(Response::Refused(why)) => panic!("refused: {why}"),
                Err(_) => None,
            });
        }
    }
    if let Some(n) = down {
        nodes.nodes[n].start();
    }
    nodes.serve();
    let last = nodes.nodes[0].map();
    assert!(last.version() >= answered);
    assert_eq!((last.assigned(), last.nodes().len()), (SLOTS, 3));
    // A version is the same at every node and at every time.
    let mut known = BTreeMap::new();
    for map in nodes.nodes.iter().flat_map(|node| node.maps()) {
        let first = known.entry(map.version()).or_insert_with(|| decided(&map));
        assert_eq!(*first, decided(&map));
    }
}

/// The contents of a map except the voters, which Raft decides.
fn decided(map: &Map) -> (Vec<Node>, Vec<Range>, u64) {
    let nodes = map.nodes().iter().map(|node| Node { voter: false, ..node.clone() });
    (nodes.collect(), map.ranges().to_vec(), map.epoch())
}

//! Transactions over nodes whose keys get another owner meanwhile: they are tried again there, once all nodes have
//! heard of it.

use std::sync::Arc;

use membership::Map;
use membership::map::Range;

use crate::net::{Net, even_map};

/// The map after the third node of three has taken the second's slots.
fn moved(version: u64) -> Arc<Map> {
    let even = even_map(3, 1);
    let ranges =
        even.ranges().iter().map(|range| Range { node: if range.node == 1 { 2 } else { range.node }, ..*range });
    Arc::new(Map::new(even.cluster(), version, 2, even.nodes().to_vec(), ranges.collect()))
}

/// The ways in which a client begins.
const ALL: [&str; 4] = ["block", "copies", "read", "commit"];

/// Has `client` begin a command that is interrupted. Returns its replies in the end.
fn begin(net: &mut Net, client: usize, what: &str, [a, x]: &[String; 2]) -> &'static [&'static str] {
    match what {
        "block" => {
            net.send(client, &format!("MSET {a} 1 {x} 1"));
            &["OK"]
        }
        "copies" => {
            net.send(client, &format!("COPY {a} {x}"));
            &["1"]
        }
        "read" => {
            net.pipeline(client, &["BEGIN"]);
            net.send(client, &format!("SET {x} 1"));
            net.send(client, "COMMIT");
            &["OK", "OK"]
        }
        _ => {
            net.send(client, "COMMIT");
            &["OK"]
        }
    }
}

#[test]
fn transactions_that_meet_slots_that_move_are_tried_again() {
    for workers in [1, 2] {
        // The node that hears of the map late: the client's, or the new owner.
        for (late, what) in [0, 2].into_iter().flat_map(|late| ALL.map(|what| (late, what))) {
            let (mut net, [client, ..], [a, x, _]) = Net::three(workers, 2);
            net.ask(client, &format!("SET {a} 1"));
            if what == "commit" {
                net.pipeline(client, &["BEGIN", &format!("SET {x} 1")]);
            }
            [0, 1, 2].iter().filter(|node| **node != late).for_each(|node| net.cluster(*node).set_map(moved(2)));
            let expected = begin(&mut net, client, what, &[a, x.clone()]);
            (0..10).for_each(|_| net.sleep(100));
            assert!(net.heard(client).is_empty(), "{late} {what}: it waits for the map");
            net.cluster(late).set_map(moved(2));
            (0..10).for_each(|_| net.sleep(100));
            assert_eq!(net.heard(client), expected, "{late} {what}");
            let other = net.connect(2);
            assert_eq!(net.say(other, &format!("GET {x}")), "1");
            assert!(net.is_quiet());
        }
    }
}

#[test]
fn what_is_nowhere_by_the_maps_of_its_nodes_is_refused_after_a_while() {
    for what in ALL {
        let (mut net, [client, ..], [a, x, _]) = Net::three(1, 2);
        net.ask(client, &format!("SET {a} 1"));
        if what == "commit" {
            net.pipeline(client, &["BEGIN", &format!("SET {x} 1")]);
        }
        net.cluster(1).set_map(moved(2));
        begin(&mut net, client, what, &[a, x]);
        (0..100).for_each(|_| net.sleep(100));
        let heard = net.heard(client);
        assert!(!heard.is_empty() && heard[0].contains("CLUSTERDOWN"), "{what}: {heard:?}");
        assert!(net.is_quiet());
    }
}

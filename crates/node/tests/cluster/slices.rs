//! Scripts, and blocks with scripts, whose node loses its lease or hears of another map between two of their slices.
//! All of it is done, or nothing is and the client gets an error (rule T9).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use membership::map::Range;
use membership::{Map, Slot};

use crate::net::{Net, even_map, key_of};

/// Changes its first key, runs for a while, and changes another key, by the call that is put in.
const LONG: &str = "redis.call('set', KEYS[1], 1) for i = 1, 4000 do redis.call('incr', KEYS[1]) end redis.";

/// The script that uses `second` in the end, which is `KEYS[2]` or `ARGV[1]`, and the same with a call that may fail.
fn script(second: &str) -> [String; 2] {
    ["call", "pcall"].map(|call| format!("{LONG}{call}('incr', {second}) return 'done'"))
}

/// Sends the script, alone or in a block.
fn sends(net: &mut Net, client: usize, in_block: bool, eval: &[&str]) {
    if in_block {
        net.send(client, "MULTI");
    }
    net.send_words(client, eval);
    if in_block {
        net.send(client, "EXEC");
    }
    net.turns(20);
}

/// The last reply.
fn last(net: &mut Net, client: usize) -> String {
    net.heard(client).pop().expect("a reply")
}

/// True if a script is under way and no client sees a change of it.
fn is_under_way(net: &mut Net, client: usize) -> bool {
    !net.replies(client).iter().map(crate::net::shown).any(|reply| reply.contains("done"))
}

/// Runs a case for clients of two nodes. The first node runs the script, for its own client and for the other's.
fn each(mut case: impl FnMut(&mut Net, usize, [&str; 2], bool, &str)) {
    for (server, in_block) in [(0, false), (1, false), (0, true), (1, true)] {
        for declared in [true, false] {
            for text in script(if declared { "KEYS[2]" } else { "ARGV[1]" }) {
                let mut net = Net::new(2, 1, 4);
                let client = net.connect(server);
                let (a, b) = (key_of(0, 2, "a"), key_of(0, 2, "b"));
                net.clock.step.store(1_000_000, Relaxed);
                let words = if declared { vec!["EVAL", &text, "2", &a, &b] } else { vec!["EVAL", &text, "1", &a, &b] };
                sends(&mut net, client, in_block, &words);
                assert!(is_under_way(&mut net, client));
                case(&mut net, client, [&a, &b], declared, &text);
            }
        }
    }
}

#[test]
fn a_lease_that_ends_between_two_slices_leaves_nothing_half_done() {
    each(|net, client, [a, b], declared, text| {
        net.lease(0, 0);
        let reply = last(net, client);
        net.lease(0, u64::MAX);
        let found = net.say(client, &format!("MGET {a} {b}"));
        if declared {
            assert!(reply.contains("done"), "{text}: {reply}");
            assert_eq!(found, "[4001 1]", "{text}");
        } else {
            assert!(reply.contains("CLUSTERDOWN this node has no lease"), "{text}: {reply}");
            assert!(!reply.starts_with('['), "the block as a whole: {reply}");
            assert_eq!(found, "[nil nil]", "{text}");
        }
    });
}

#[test]
fn a_script_that_has_no_keys_is_refused_as_a_whole_where_there_is_no_lease() {
    for in_block in [false, true] {
        let mut net = Net::new(2, 1, 4);
        let client = net.connect(0);
        let key = key_of(0, 2, "k");
        net.lease(0, 0);
        sends(&mut net, client, in_block, &["EVAL", "return redis.pcall('incr', ARGV[1])", "0", &key]);
        let reply = last(&mut net, client);
        assert!(reply.contains("CLUSTERDOWN this node has no lease"), "{reply}");
        net.lease(0, u64::MAX);
        assert_eq!(net.say(client, &format!("GET {key}")), "nil");
    }
}

/// From now on the other node owns all slots.
#[test]
fn a_map_that_changes_between_two_slices_leaves_nothing_half_done() {
    each(|net, client, [a, b], _, text| {
        let even = even_map(2, 2);
        let all = vec![Range { start: Slot::FIRST, end: even.ranges()[1].end, node: 1 }];
        let map = Arc::new(Map::new(even.cluster(), 2, 2, even.nodes().to_vec(), all));
        net.cluster(0).set_map(map.clone());
        net.cluster(1).set_map(map);
        let reply = last(net, client);
        let there = net.connect(1);
        let found = net.say(there, &format!("MGET {a} {b}"));
        // The contents of the node that owned the keys.
        net.cluster(0).set_map(Arc::new(even_map(2, 3)));
        net.cluster(1).set_map(Arc::new(even_map(2, 3)));
        let here = net.connect(0);
        let kept = net.say(here, &format!("MGET {a} {b}"));
        assert!(reply.contains("done"), "{text}: {reply}");
        // The script ran again, at the other node.
        assert_eq!((found.as_str(), kept.as_str()), ("[4001 1]", "[nil nil]"), "{text}");
    });
}

#[test]
fn slots_that_nobody_owns_any_more_leave_nothing_half_done() {
    each(|net, client, [a, b], _, text| {
        let even = even_map(2, 2);
        net.cluster(0).set_map(Arc::new(Map::new(even.cluster(), 2, 2, even.nodes().to_vec(), Vec::new())));
        let reply = last(net, client);
        net.cluster(0).set_map(Arc::new(even_map(2, 3)));
        net.cluster(1).set_map(Arc::new(even_map(2, 3)));
        let kept = net.say(client, &format!("MGET {a} {b}"));
        assert!(reply.contains("CLUSTERDOWN Hash slot not served") && !reply.starts_with('['), "{text}: {reply}");
        assert_eq!(kept, "[nil nil]", "{text}");
    });
}

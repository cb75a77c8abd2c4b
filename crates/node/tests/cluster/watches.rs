//! WATCH of keys of several nodes.

use crate::net::Net;

fn exec(net: &mut Net, client: usize, commands: &[&str]) -> String {
    assert_eq!(net.say(client, "MULTI"), "OK");
    commands.iter().for_each(|command| assert_eq!(net.say(client, command), "QUEUED"));
    net.say(client, "EXEC")
}

#[test]
fn one_watch_guards_keys_of_several_nodes() {
    for workers in [1, 2] {
        let (mut net, [client, other, _], [a, b, c]) = Net::three(workers, 4);
        let set_all = format!("MSET {a} 1 {b} 2 {c} 3");
        let set = format!("SET {b} 1");
        for block in [&["PING"][..], &[&set], &[&set_all, "PING"]] {
            for touched in [None, Some(&a), Some(&b), Some(&c)] {
                assert_eq!(net.say(client, &format!("WATCH {a} {c} {b} {a}")), "OK");
                if let Some(key) = touched {
                    net.ask(other, &format!("SET {key} 0"));
                }
                let reply = exec(&mut net, client, block);
                assert_eq!(reply == "nil", touched.is_some(), "{block:?}, {touched:?}: {reply}");
                // No key is watched any more.
                net.ask(other, &format!("MSET {a} 0 {b} 0 {c} 0"));
                assert_ne!(exec(&mut net, client, block), "nil");
            }
        }
        // Keys of one node and of others are watched, one after the other; then none.
        net.ask(client, &format!("WATCH {a}"));
        net.ask(client, &format!("WATCH {b} {a} {c}"));
        net.ask(client, "UNWATCH");
        net.ask(other, &format!("SET {a} 5"));
        assert_eq!(exec(&mut net, client, &["PING"]), "[PONG]");
        assert!(exec_refuses_watch(&mut net, client, &format!("WATCH {a} {b}")));
        assert!(net.is_quiet(), "nothing is left");
    }
}

fn exec_refuses_watch(net: &mut Net, client: usize, watch: &str) -> bool {
    net.ask(client, "MULTI");
    let refused = net.say(client, watch) == "-ERR WATCH inside MULTI is not allowed";
    net.ask(client, "DISCARD");
    refused
}

#[test]
fn a_watch_that_a_node_does_not_hear_of_is_refused() {
    let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 4);
    net.unreachable = vec![1];
    let reply = net.say(client, &format!("WATCH {a} {b} {c}"));
    assert!(reply.starts_with("-CLUSTERDOWN"), "{reply}");
    net.unreachable.clear();
    net.ask(client, "UNWATCH");
    net.sleep(600);
    assert_eq!(exec(&mut net, client, &["PING"]), "[PONG]");
    // A key that is watched over a link is lost when the link ends.
    assert_eq!(net.say(client, &format!("WATCH {a} {b} {c}")), "OK");
    net.cut(0, 2);
    net.sleep(600);
    assert_eq!(exec(&mut net, client, &[&format!("SET {a} 7")]), "nil");
    assert_eq!(net.say(other, &format!("EXISTS {a}")), "0");
    assert_eq!(exec(&mut net, client, &["PING"]), "[PONG]");
    // Without a lease no key can be watched.
    net.lease(0, 0);
    let reply = net.say(client, &format!("WATCH {a} {b}"));
    assert!(reply.starts_with("-CLUSTERDOWN"), "{reply}");
}

//! Parts of transactions that a node holds back before they ask for their locks, and that are over by then.

use txn::locks::Mode;
use txn::{Lock, Message};

use crate::net::{Net, key_of};
use crate::transactions::{slip_in, slip_in_prepare, tx_of};

/// Many rounds of looking for doubts: longer than `cluster-lock-timeout`.
fn looks(net: &mut Net) {
    (0..14).for_each(|_| net.sleep(500));
}

/// CLIENT PAUSE holds a part back, and its coordinator gives it up. Meanwhile its key comes to be in doubt.
fn given_up(workers: usize) -> (Net, [usize; 2], [String; 3]) {
    let mut net = Net::with(3, workers, 2, &[]);
    let [begun, owner, other] = [0, 1, 0].map(|node| net.connect(node));
    let keys = [0, 1, 2].map(|i| key_of(i, 3, "k"));
    let [x, y, z] = &keys;
    assert_eq!(net.say(begun, &format!("MSET {x} 0 {y} 0 {z} 0")), "OK");
    net.sleep(3000);
    assert_eq!(net.say(owner, "CLIENT PAUSE 600000 WRITE"), "OK");
    let lock = Lock { db: 0, key: y.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["SET", y, "1"]);
    slip_in(&mut net, &Message::Abort { tx: tx_of(1_000_000), finished: 0 });
    // The part only reads at the owner, which holds back writers.
    net.stalled = vec![2];
    for command in ["MULTI", &format!("GET {y}"), &format!("SET {x} 1"), &format!("SET {z} 1"), "EXEC"] {
        net.send(begun, command);
    }
    net.run();
    (net, [owner, other], keys)
}

/// Rule T4: nothing would ever give back what it claimed then.
#[test]
fn a_part_that_is_over_does_not_ask_for_its_locks() {
    for workers in [1, 2] {
        let (mut net, [owner, other], [x, y, z]) = given_up(workers);
        looks(&mut net);
        assert!(net.say(owner, "INFO stats").contains("transactions_over_nodes_in_doubt:1"));
        assert_eq!(net.say(owner, "CLIENT UNPAUSE"), "OK");
        net.sleep(1000);
        net.stalled.clear();
        looks(&mut net);
        for client in [owner, other] {
            assert_eq!(net.say(client, &format!("GET {y}")), "0");
            assert_eq!(net.say(client, &format!("SET {y} 0")), "OK");
        }
        assert_eq!(net.say(other, &format!("MGET {x} {z}")), "[1 1]");
        assert_eq!(net.say(owner, "DBSIZE"), "3");
        assert!(net.is_quiet(), "no lock is left");
    }
}

/// Rule K1: a part that failed to get a latch too often gives up its reservation while it is held back.
#[test]
fn a_part_that_is_held_back_keeps_nobody_from_its_latches() {
    let mut net = Net::new(2, 1, 2);
    let [begun, client, other] = [0, 1, 1].map(|node| net.connect(node));
    let key = key_of(1, 2, "k");
    assert_eq!(net.say(begun, &format!("SET {key} 0")), "OK");
    let (node, slot) = (net.node(1).engine.clone(), keyspace::slot_of(key.as_bytes()));
    let mut held = node.keyspace.try_one(slot);
    let lock = Lock { db: 0, key: key.as_bytes().into(), mode: Mode::Exclusive };
    slip_in_prepare(&mut net, 1_000_000, vec![lock], &["SET", &key, "1"]);
    let mut failures = 0;
    let mut woken = Vec::new();
    while let Some(taken) = held.take() {
        assert!(failures < 100, "it reserves the latch");
        failures += 1;
        node.keyspace.release(taken, |waiter| woken.push(waiter));
        held = node.keyspace.try_one(slot);
        if held.is_some() {
            woken.drain(..).for_each(|waiter| net.node(1).wake(waiter));
            net.run();
        }
    }
    assert_eq!(net.say(other, "CLIENT PAUSE 600000 WRITE"), "OK");
    woken.drain(..).for_each(|waiter| net.node(1).wake(waiter));
    assert_eq!(net.say(client, &format!("GET {key}")), "0", "others have their turn");
    slip_in(&mut net, &Message::Abort { tx: tx_of(1_000_000), finished: 0 });
    assert_eq!(net.say(other, "CLIENT UNPAUSE"), "OK");
    assert_eq!(net.say(client, &format!("SET {key} 2")), "OK");
    assert!(net.is_quiet());
}

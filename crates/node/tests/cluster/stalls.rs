//! A node whose disk hangs: clients that wait for it are closed unanswered, and everything else goes on.

use crate::net::{Net, key_of};

/// Longer than `log-stall-timeout`, in rounds.
fn hangs_for_long(net: &mut Net) {
    (0..60).for_each(|_| net.sleep(100));
}

/// Rule L7: neither the reply to a write nor a reply that shows the written value leaves before the record is synced.
#[test]
fn no_reply_leaves_before_its_record_is_synced() {
    for workers in [1, 2] {
        let mut net = Net::logged(2, workers, 5, "always");
        let [writer, near, far] = [1, 1, 0].map(|node| net.connect(node));
        let key = key_of(1, 2, "k");
        net.hang_log(1, true);
        net.send(writer, &format!("SET {key} 1"));
        net.run();
        for reader in [near, far] {
            net.send(reader, &format!("GET {key}"));
        }
        net.sleep(100);
        for client in [writer, near, far] {
            assert!(net.heard(client).is_empty(), "a crash could still undo it");
        }
        net.hang_log(1, false);
        assert_eq!([writer, near, far].map(|client| net.heard(client).concat()), ["OK", "1", "1"]);
    }
}

#[test]
fn a_disk_that_hangs_stops_writes_alone_and_recovers_by_itself() {
    for fsync in ["always", "everysec"] {
        let mut net = Net::logged(2, 1, 5, fsync);
        let [near, far] = [0, 1].map(|node| net.connect(node));
        let (old, new, other) = (key_of(1, 2, "old"), key_of(1, 2, "new"), key_of(0, 2, "k"));
        for key in [&old, &new, &other] {
            assert_eq!(net.say(near, &format!("SET {key} 1")), "OK");
        }
        net.hang_log(1, true);
        let waiting = [0, 1].map(|node| net.connect(node));
        for client in waiting {
            net.send(client, &format!("SET {new} 2"));
        }
        net.run();
        (0..40).for_each(|_| net.sleep(100));
        assert!(waiting.iter().all(|client| !net.clients[*client].closed), "it may be slow");
        assert_eq!(net.node(1).trouble(), "");
        hangs_for_long(&mut net);
        for client in waiting {
            assert!(net.heard(client).is_empty() && net.clients[client].closed, "nobody knows what comes of it");
        }
        for client in [near, far] {
            let refused = net.say(client, &format!("SET {old} 2"));
            assert!(refused.starts_with("-MISCONF") && refused.contains("log-stall-timeout"), "{refused}");
            assert_eq!(net.say(client, &format!("GET {old}")), "1", "what is committed is read");
            assert_eq!(net.say(client, &format!("SET {other} 2")), "OK", "the other node's disk works");
        }
        assert!(net.say(far, "INFO persistence").contains("log_stalled:1"));
        assert!(net.node(1).trouble().contains("has not answered"));
        let reader = net.connect(1);
        net.send(reader, &format!("GET {new}"));
        net.run();
        net.sleep(100);
        assert!(net.heard(reader).is_empty() && net.clients[reader].closed, "its value is not committed");
        net.hang_log(1, false);
        (0..3).for_each(|_| net.sleep(100));
        assert_eq!((net.node(1).trouble(), net.say(far, &format!("GET {new}"))), (String::new(), "2".into()));
        assert_eq!(net.say(near, &format!("SET {old} 3")), "OK");
        assert!(net.say(far, "INFO persistence").contains("log_stalled:0"));
    }
}

/// The log has taken records that the disk has no room for. Neither their clients nor readers wait without an end.
#[test]
fn a_disk_without_room_for_what_was_taken_hangs() {
    for fsync in ["always", "everysec"] {
        let mut net = Net::logged(2, 1, 5, fsync);
        let far = net.connect(1);
        let (old, new) = (key_of(1, 2, "old"), key_of(1, 2, "new"));
        assert_eq!(net.say(far, &format!("SET {old} 1")), "OK");
        net.leave_room(1, Some(0));
        let waiting = [0, 1].map(|node| net.connect(node));
        // More than the prepared segments hold.
        net.send(waiting[0], &format!("SET {new} {}", "v".repeat(3 << 20)));
        net.run();
        net.send(waiting[1], &format!("GET {new}"));
        net.run();
        (0..40).for_each(|_| net.sleep(100));
        assert!(waiting.iter().all(|client| !net.clients[*client].closed), "there may be room soon");
        let refused = net.say(far, &format!("SET {old} 2"));
        assert!(refused.starts_with("-MISCONF") && refused.contains("No space left on device"), "{refused}");
        hangs_for_long(&mut net);
        for client in waiting {
            assert!(net.heard(client).is_empty() && net.clients[client].closed, "nobody knows what comes of it");
        }
        let refused = net.say(far, &format!("SET {old} 2"));
        assert!(refused.starts_with("-MISCONF") && refused.contains("No space left on device"), "{refused}");
        assert_eq!(net.say(far, &format!("GET {old}")), "1", "what is committed is read");
        assert!(net.say(far, "INFO persistence").contains("log_stalled:1"));
        net.leave_room(1, None);
        (0..5).for_each(|_| net.sleep(100));
        assert!(net.say(far, "INFO persistence").contains("log_stalled:0"));
        assert_eq!(net.say(far, &format!("STRLEN {new}")), "3145728");
        assert_eq!(net.say(far, &format!("SET {old} 3")), "OK");
    }
}

#[test]
fn a_disk_that_hangs_is_waited_for_without_a_timeout() {
    let mut net = Net::logged(1, 1, 5, "always");
    let [client, other] = [0; 2].map(|node| net.connect(node));
    assert_eq!(net.say(other, "CONFIG SET log-stall-timeout 0"), "OK");
    net.hang_log(0, true);
    net.send(client, "SET k 1");
    hangs_for_long(&mut net);
    assert!(net.heard(client).is_empty() && !net.clients[client].closed);
    net.hang_log(0, false);
    assert_eq!(net.heard(client), ["OK"]);
}

/// A client of a healthy node whose command has a part at the node with the hanging disk, to write or to read.
#[test]
fn what_has_a_part_at_a_disk_that_hangs_is_closed_unanswered() {
    for fsync in ["always", "everysec"] {
        let mut net = Net::logged(2, 1, 5, fsync);
        let [here, free, mine] = ["here", "free", "mine"].map(|name| key_of(0, 2, name));
        let [there, new, newer] = ["there", "new", "newer"].map(|name| key_of(1, 2, name));
        let [setter, writer, reader, script, other] = [1, 0, 0, 0, 0].map(|node| net.connect(node));
        assert_eq!(net.say(other, &format!("MSET {here} 1 {there} 1")), "OK");
        net.hang_log(1, true);
        net.send(setter, &format!("SET {new} 2"));
        net.send(setter, &format!("SET {newer} 2"));
        net.run();
        net.send(writer, &format!("MSET {here} 2 {there} 2"));
        net.send(reader, &format!("MGET {free} {new}"));
        let read = "return redis.call('mget', KEYS[1], KEYS[2])";
        net.send_words(script, &["EVAL", read, "2", &mine, &newer]);
        net.run();
        hangs_for_long(&mut net);
        assert!(net.heard(writer).is_empty() && net.clients[writer].closed, "nobody knows what comes of it");
        for client in [reader, script] {
            let heard = net.heard(client);
            // A command that has tried again since gets an error.
            let is_told = heard.len() == 1 && heard[0].contains("log-stall-timeout");
            assert!(is_told || heard.is_empty() && net.clients[client].closed, "{client} hears {heard:?}");
        }
        let refused = net.say(other, &format!("MSET {mine} 3 {newer} 3"));
        assert!(refused.contains("log-stall-timeout"), "{refused}");
        let near = net.connect(1);
        let refused = net.say(near, &format!("GET {there}"));
        assert!(refused.contains("waits for the log, whose disk does not answer"), "{refused}");
        net.hang_log(1, false);
        (0..10).for_each(|_| net.sleep(100));
        assert_eq!(net.say(other, &format!("MGET {here} {there} {new}")), "[2 2 2]", "what was left is written");
    }
}

/// Another owner has the log of this one's shard. Nothing is wrong with a disk, so clients are told to come again: they find
/// the new owner.
#[test]
fn an_owner_whose_log_another_one_leads_says_that_the_cluster_is_down() {
    let mut net = Net::logged(2, 1, 5, "always");
    let [near, far] = [1, 0].map(|node| net.connect(node));
    let key = key_of(1, 2, "k");
    assert_eq!(net.say(near, &format!("SET {key} 1")), "OK");
    net.node(1).durable().unwrap().log().end("the shard is led in term 9".into());
    let set = format!("SET {key} 2");
    for client in [near, far] {
        for lines in [vec![set.clone()], vec!["MULTI".into(), set.clone(), "EXEC".into()]] {
            lines.iter().for_each(|line| net.send(client, line));
            let heard = net.heard(client).join(" ");
            assert!(heard.contains("CLUSTERDOWN the shard is led in term 9"), "{lines:?}: {heard}");
            assert!(!heard.contains("MISCONF"), "{lines:?}: {heard}");
        }
    }
    assert_eq!(net.say(near, &format!("GET {key}")), "1", "what is committed is read");
}

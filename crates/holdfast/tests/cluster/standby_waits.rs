//! WAIT and WAITAOF where a log has copies: those beside the owner's own are its replicas.

use std::time::{Duration, Instant};

use crate::standbys::{Copied, PATIENCE};
use crate::support::Client;

/// Until a write and this command behind it are answered so: copies may be slow on a busy machine.
fn waits(client: &mut Client, command: &str, expected: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        assert_eq!(client.call("set key 1"), "+OK");
        let reply = client.call(command);
        if reply == expected {
            return;
        }
        assert!(Instant::now() < end, "{command}: {reply}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn copies_are_counted() {
    let mut copied = Copied::new();
    // At the owner, and at a node that sends the writes there.
    for at in [0, 1] {
        let mut client = copied.nodes.client(at);
        waits(&mut client, "wait 2 5000", ":2");
        waits(&mut client, "waitaof 1 2 5000", "*2 :1 :2");
        // There are two.
        waits(&mut client, "wait 9 0", ":2");
        waits(&mut client, "waitaof 0 9 0", "*2 :1 :2");
        // A block waits for nothing, and a client that has written nothing has nothing to wait for.
        client.send("multi;set key 2;wait 2 0;exec");
        let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
        assert!(replies[3].starts_with("*2 +OK :"), "{replies:?}");
        assert!(matches!(&*copied.nodes.client(at).call("wait 2 5000"), ":2"), "{at}");
    }
    copied.stands_by();
    // A standby is one of the copies, and has no log of its own.
    let mut client = copied.nodes.client(1);
    waits(&mut client, "wait 2 5000", ":2");
    waits(&mut client, "waitaof 1 2 5000", "*2 :1 :2");
    // Two of three have it, and the third one is waited for as long as the client says.
    copied.nodes.kill(2);
    for at in [0, 1] {
        let mut client = copied.nodes.client(at);
        let began = Instant::now();
        waits(&mut client, "wait 2 300", ":1");
        assert!(began.elapsed() >= Duration::from_millis(300));
        waits(&mut client, "waitaof 1 2 100", "*2 :1 :1");
        waits(&mut client, "wait 1 0", ":1");
    }
    // It gets what it lacks when it is back.
    let mut client = copied.nodes.client(0);
    assert_eq!(client.call("set key 3"), "+OK");
    client.send("wait 2 0");
    copied.nodes.start(2);
    assert_eq!(client.reply(), ":2");
    assert_eq!(copied.nodes.client(1).call("get key"), "$1 3");
}

//! A connection keeps its state when the shard of its keys changes hands: in order, and when its owner is killed. All of
//! these are connections of a node that is neither the shard's owner nor its standby.

use crate::standbys::Copied;
use crate::support::Client;
use crate::switchovers::is_at;

const ORIGIN: usize = 2;
const LIBRARY: &str =
    "#!lua name=l\\nredis.register_function('f', function(keys) return redis.call('incr', keys[1]) end)";

/// Connections, each in a state of its own.
struct States {
    queued: Client,
    watches: Client,
    begun: Client,
    pops: Client,
    reads: Client,
    caches: Client,
    subscribed: Client,
    of_shard: Client,
}

impl States {
    fn new(copied: &Copied, name: &str) -> Self {
        let with = |commands: &[(&str, &str)]| {
            let mut client = copied.nodes.client(ORIGIN);
            for (command, reply) in commands {
                assert_eq!(client.call(&command.replace('@', name)), reply.replace('@', name), "{command}");
            }
            client
        };
        let waits = |command: &str| {
            let mut client = with(&[("ping", "+PONG")]);
            client.send(&command.replace('@', name));
            client.waits();
            client
        };
        let mut caches = with(&[("set @:c 1", "+OK")]);
        assert!(caches.call("hello 3").contains("proto"));
        assert_eq!(caches.call("client tracking on"), "+OK");
        assert_eq!(caches.call(&format!("get {name}:c")), "$1 1");
        Self {
            queued: with(&[("multi", "+OK"), ("incr @:q", "+QUEUED"), ("incr @:q", "+QUEUED")]),
            watches: with(&[("watch @:w", "+OK"), ("get @:w", "$-1"), ("multi", "+OK"), ("incr @:w", "+QUEUED")]),
            begun: with(&[("begin", "+OK"), ("get @:b", "$-1"), ("set @:b 1", "+OK")]),
            pops: waits("blpop @:l 0"),
            reads: waits("xread block 0 streams @:x $"),
            caches,
            subscribed: with(&[("subscribe @", "*3 $9 subscribe $1 @ :1")]),
            of_shard: with(&[("ssubscribe @", "*3 $10 ssubscribe $1 @ :1")]),
        }
    }

    /// The shard has another owner, which serves.
    fn go_on(mut self, copied: &Copied, name: &str, is_in_order: bool) {
        let mut client = copied.nodes.client(ORIGIN);
        assert_eq!(self.queued.call("exec"), "*2 :1 :2");
        // A key that is watched counts as changed, and nothing has happened.
        assert_eq!(self.watches.call("exec"), "*-1");
        assert_eq!(client.call(&format!("get {name}:w")), "$-1");
        // What was read has not changed, as versions are in the log.
        assert_eq!(self.begun.call("commit"), "+OK");
        assert_eq!(client.call(&format!("get {name}:b")), "$1 1");
        if is_in_order {
            assert_eq!(client.call(&format!("rpush {name}:l x")), ":1");
            assert_eq!(self.pops.reply(), format!("*2 $3 {name}:l $1 x"));
            assert!(client.call(&format!("xadd {name}:x * f v")).starts_with('$'));
            assert!(self.reads.reply().contains("$1 f $1 v"));
        } else {
            // Nobody knows whether the lost owner has served them (rule T9).
            assert!(self.pops.is_closed() && self.reads.is_closed());
        }
        // Whatever a client has cached of the shard it has to ask for again.
        let told = self.caches.reply();
        assert!(told.contains("invalidate"), "{told}");
        let mut reply = self.caches.call(&format!("get {name}:c"));
        while reply.contains("invalidate") {
            reply = self.caches.reply();
        }
        assert_eq!(reply, "$1 1");
        assert_eq!(client.call(&format!("publish {name} hi")), ":1");
        assert_eq!(self.subscribed.reply(), format!("*3 $7 message $1 {name} $2 hi"));
        assert_eq!(client.call(&format!("spublish {name} hi")), ":1");
        assert_eq!(self.of_shard.reply(), format!("*3 $8 smessage $1 {name} $2 hi"));
        assert_eq!(client.call(&format!("fcall f 1 {name}:f")), ":1");
    }
}

#[test]
fn connections_keep_their_states_when_a_shard_changes_hands() {
    let mut copied = Copied::new();
    assert_eq!(copied.nodes.client(ORIGIN).call(&format!("function load \"{LIBRARY}\"")), "$1 l");
    copied.stands_by();
    copied.sets(ORIGIN, 20);
    is_at(&copied, 0);

    let states = States::new(&copied, "s");
    assert_eq!(copied.nodes.client(1).call("cluster failover"), "+OK");
    is_at(&copied, 1);
    states.go_on(&copied, "s", true);

    let states = States::new(&copied, "t");
    copied.nodes.kill(1);
    // This is answered by the node that has taken over.
    copied.sets(ORIGIN, 1);
    states.go_on(&copied, "t", false);
    copied.has_all(ORIGIN);
}

//! Waits of more than a minute are logged, with their cause, and counted.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use txn::locks::Mode;
use txn::{Lock, Stamp, TxnId};

use crate::doubts::doubtful;
use crate::net::{Net, key_of};
use crate::transactions::tx_of;

/// Logged lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push_str(&line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The lines logged within so many seconds.
fn logged(net: &mut Net, seconds: u64) -> String {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || (0..seconds).for_each(|_| net.sleep(1000)));
    let text = lines.0.lock().unwrap();
    text.clone()
}

fn has(net: &mut Net, client: usize, fields: &[&str]) {
    let info = net.say(client, "INFO stats");
    for field in fields {
        assert!(info.contains(&format!("{field}\r\n")), "{field}: {info}");
    }
}

#[test]
fn what_waits_for_a_lock_for_a_minute_is_told_of() {
    let (mut net, _, [_, _, c], [x, y, z]) = doubtful(1, &[("cluster-lock-timeout", "0")]);
    let [counts, over] = [2, 0].map(|node| net.connect(node));
    net.send(c, &format!("INCR {z}"));
    net.send(counts, "DBSIZE");
    net.send(over, &format!("MGET {x} {z}"));
    let early = logged(&mut net, 50);
    assert!(!early.contains("has waited"), "{early}");
    let lines = logged(&mut net, 20);
    let lock = format!("the lock of key '{z}' in database 0, which transaction ");
    let of = |what: &str| lines.lines().find(|line| line.contains(what)).map(str::to_owned).unwrap_or_default();
    let command = lines.lines().find(|line| line.contains("a command has waited") && line.contains(&lock));
    assert!(command.is_some_and(|line| line.contains("is prepared, and its outcome is not known")), "{lines}");
    assert!(of("the end of transactions over nodes").contains("is prepared"), "{lines}");
    assert_eq!(logged(&mut net, 20).matches("has waited").count(), 0, "once");
    let other = net.connect(2);
    has(&mut net, other, &["claims_without_owner:0"]);
    let info = net.say(other, "INFO stats");
    assert!(!info.contains("waits_over_a_minute:0\r\n"), "{info}");
    net.stalled.clear();
    (0..20).for_each(|_| net.sleep(500));
    // The node that stood still has no lease when it is asked again. It may take part then, or refuse. If it refuses,
    // the waiting command comes first, and the block is tried again.
    let heard = net.heard(c);
    assert!(heard == ["1"] || heard == ["2"], "{heard:?}");
    let [a, b, c] = [&x, &y, &z].map(|key| net.say(other, &format!("GET {key}")));
    assert!(a == b && c == heard[0] && (a == "1" || heard == ["1"]), "{a} {b} {c}");
    has(&mut net, other, &["\r\nwaits_over_a_minute:0", "claims_without_owner:0"]);
    let info = net.say(other, "INFO stats");
    assert!(!info.contains("total_waits_over_a_minute:0\r\n"), "{info}");
}

/// Nothing would give the claim back. The test makes this fault in the node.
#[test]
fn a_claim_without_an_owner_is_told_of() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(1);
    let key = key_of(1, 2, "k");
    assert_eq!(net.say(client, &format!("SET {key} 1")), "OK");
    let locks = [Lock { db: 0, key: key.as_bytes().into(), mode: Mode::Exclusive }];
    let node = net.node(1);
    let mut engine = engine::Engine::new(node.engine.clone(), node.spare_local() as u16, 1);
    let attempt: (TxnId, (Stamp, bool), &[Lock]) = (tx_of(7), (Stamp::default(), false), &locks);
    let Ok(engine::Locked::Block(block)) = engine.lock_attempt(attempt, || true, &mut false, 0) else {
        panic!("nobody has it");
    };
    engine.hold_attempt(*block);
    net.send(client, &format!("GET {key}"));
    let lines = logged(&mut net, 70);
    let ownerless = "a claim of keys has no owner: transaction 7.1 of node 1, life 1, worker 0, which is over here";
    assert!(lines.contains(ownerless), "{lines}");
    assert!(lines.contains(&format!("for the lock of key '{key}' in database 0, which transaction 7.1 ")), "{lines}");
    let other = net.connect(1);
    has(&mut net, other, &["\r\nwaits_over_a_minute:1", "total_waits_over_a_minute:1", "claims_without_owner:1"]);
}

//! Who waits beside attempts, and for how long: plain commands, and commands that block.

use resp::{Batch, Protocol};
use txn::locks::Mode;

use super::tests::{Tried, engines, install, locks, prepare, prepared};
use crate::testing::row;
use crate::{Call, Caller, Engine, Ran, Seat};

/// Runs a command of the connection `token`.
fn run(engine: &mut Engine, token: u64, seat: Option<&Seat>, command: &str, out: &mut Vec<u8>) -> Ran {
    let words: Vec<&str> = command.split(' ').collect();
    let mut batch = Batch::new();
    assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
    let call = Call {
        row: row(words[0]),
        args: batch.args(0, &[]),
        first: None,
        db: 0,
        protocol: Protocol::Resp2,
        token,
        seat,
        caller: Caller::default(),
    };
    engine.run(&call, out)
}

/// The reply; `None`: it waits.
fn plain(engine: &mut Engine, token: u64, command: &str) -> Option<String> {
    let mut out = Vec::new();
    match run(engine, token, None, command, &mut out) {
        Ran::Done => Some(String::from_utf8(out).unwrap()),
        Ran::Busy(_) => None,
        Ran::Walking(_) | Ran::Blocked(_) => panic!("{command} goes on"),
    }
}

#[test]
fn a_transaction_comes_to_its_turn_among_plain_commands_that_never_stop_coming() {
    let [mut one] = engines();
    let _open = prepared(prepare(&mut one, 50, &locks(&["other"], Mode::Exclusive), &["set other 1"]));
    let keys = locks(&["k"], Mode::Exclusive);
    let older = prepared(prepare(&mut one, 100, &keys, &["set k 1"]));
    assert_eq!(plain(&mut one, 1, "incr k"), None);
    assert!(matches!(prepare(&mut one, 200, &keys, &["incr k"]), Tried::Dies), "100 is older");
    install(&mut one, &older);
    for token in 1..100 {
        // The next one comes before the one before it has run.
        assert_eq!(plain(&mut one, token + 1, "incr k"), None);
        assert_eq!(plain(&mut one, token, "incr k"), Some(format!(":{}\r\n", token + 1)));
    }
    assert!(matches!(prepare(&mut one, 200, &keys, &["incr k"]), Tried::Waits), "nobody is older any more");
}

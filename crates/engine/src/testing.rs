//! What the tests share: commands by name, and one engine that runs them.

use command::{FAMILIES, Row, Run};
use resp::{Batch, Protocol};

use crate::{Call, Caller, Engine, Ran};

/// The row of a command.
pub fn row(name: &str) -> &'static Row<Run> {
    let mut rows = FAMILIES.iter().flat_map(|rows| rows.iter());
    rows.find(|row| row.spec.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Runs a command in database `db`, again while a latch is busy; its reply in RESP2.
pub fn run(engine: &mut Engine, db: u16, words: &[&str]) -> String {
    loop {
        match try_run(engine, db, words) {
            Some(reply) => return reply,
            None => std::thread::yield_now(),
        }
    }
}

/// Runs a command in database `db`: its reply in RESP2. `None`: a latch is busy, or a key must be fetched.
pub fn try_run(engine: &mut Engine, db: u16, words: &[&str]) -> Option<String> {
    let mut batch = Batch::new();
    assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
    let (args, mut out) = (batch.args(0, &[]), Vec::new());
    let call = Call {
        row: row(words[0]),
        args,
        first: None,
        db,
        protocol: Protocol::Resp2,
        token: 0,
        seat: None,
        caller: Caller::default(),
    };
    match engine.run(&call, &mut out) {
        Ran::Done => Some(String::from_utf8_lossy(&out).into_owned()),
        Ran::Busy(_) => None,
        _ => panic!("{words:?} neither runs nor waits"),
    }
}

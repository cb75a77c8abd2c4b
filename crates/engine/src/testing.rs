//! Shared by the tests: commands by name, and one engine that runs them.

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
    let mut out = Vec::new();
    match with_call(db, words, |call| engine.run(call, &mut out)) {
        Ran::Done => Some(String::from_utf8_lossy(&out).into_owned()),
        Ran::Busy(_) => None,
        _ => panic!("{words:?} neither runs nor waits"),
    }
}

/// The call of a command in database `db`, in RESP2.
pub fn with_call<R>(db: u16, words: &[&str], f: impl FnOnce(&Call<'_>) -> R) -> R {
    let mut batch = Batch::new();
    assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
    f(&Call {
        row: row(words[0]),
        args: batch.args(0, &[]),
        first: None,
        db,
        protocol: Protocol::Resp2,
        token: 0,
        seat: None,
        caller: Caller::default(),
    })
}

//! Commands of the data plane, one after another on an empty keyspace: none panics, and each gives one whole reply. The
//! input is what a client sends; payloads of RESTORE get their version and checksum here, as no fuzzer finds these. The
//! keyspace is one for the process, and emptied after each input: a server's is never given back, so run it with
//! `-detect_leaks=0`.

#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use clocks::UnixMs;
use command::{FAMILIES, Row, Run, Tunables};
use engine::{Call, Caller, Engine, Ran, Shared, Step};
use keyspace::Keyspace;
use libfuzzer_sys::fuzz_target;
use resp::{Args, Batch, Decoder, Limits, OwnedArgs, Protocol};

/// Commands of one input.
const COMMANDS_MAX: usize = 100;
/// Longest string: LCS of two takes time in proportion to the square.
const STRING_MAX: u64 = 4096;
/// Unix milliseconds of the first command; each comes a second after the one before.
const START: UnixMs = UnixMs(1_700_000_000_000);

fn find(args: Args<'_>) -> Option<&'static Row<Run>> {
    let is = |row: &Row<Run>, name: &[u8]| row.spec.name.as_bytes().eq_ignore_ascii_case(name);
    let row = FAMILIES.iter().flat_map(|rows| rows.iter()).find(|row| is(row, &args[0]))?;
    let row = match row.subcommands {
        [] => row,
        subcommands => subcommands.iter().find(|sub| is(sub, args.get(1).unwrap_or_default()))?,
    };
    row.spec.accepts(args.len()).then_some(row)
}

fn run(engine: &mut Engine, row: &'static Row<Run>, args: Args<'_>, protocol: Protocol) {
    let mut out = Vec::new();
    let call = Call { row, args, first: None, db: 0, protocol, token: 0, caller: Caller::default(), seat: None };
    match engine.run(&call, &mut out) {
        Ran::Done => {}
        Ran::Walking(mut walking) => while !matches!(engine.step_walk(&mut walking, call.token, &mut out), Step::Done) {},
        Ran::Busy(_) => panic!("nobody else has a latch"),
        Ran::Blocked(_) => panic!("who has no seat does not wait"),
    }
    engine.parts.copy_into(&mut out);
    let reply = resp::skip_reply(&out);
    assert!(matches!(reply, Ok(Some((len, _))) if len == out.len()), "{}: {reply:?}", row.spec.name);
}

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new(Arc::new(Shared::new(Keyspace::new(1, 2, 1))), 0, 1));
}

fn call(engine: &mut Engine, args: Args<'_>, protocol: Protocol) {
    let Some(row) = find(args) else { return };
    if row.spec.name == "restore" {
        let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
        object::rdb::seal(&mut words[3]);
        let sealed: OwnedArgs = words.iter().collect();
        run(engine, row, sealed.args(), protocol);
    } else {
        run(engine, row, args, protocol);
    }
    engine.take_published();
}

fuzz_target!(|stream: &[u8]| ENGINE.with_borrow_mut(|engine| {
    let protocol = if stream.len() % 2 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
    engine.configure(Arc::new(Tunables { max_string: STRING_MAX, databases: 2, ..Tunables::default() }), 0);
    let mut batch = Batch::new();
    let limits = Limits { proto_max_bulk_len: STRING_MAX as usize, authenticated: true };
    let _ = Decoder::new().decode(stream, &limits, COMMANDS_MAX, &mut batch);
    for index in 0..batch.len() {
        engine.begin_turn(START + index as u64 * 1000);
        call(engine, batch.args(index, stream), protocol);
        engine.end_turn();
    }
    let flush: OwnedArgs = ["flushall"].into_iter().collect();
    engine.begin_turn(START);
    call(engine, flush.args(), protocol);
    engine.step_garbage(usize::MAX);
    engine.end_turn();
}));

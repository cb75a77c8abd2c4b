//! Any script, with a host that answers every call with its first argument as the reply, and kills it after some
//! slices.
//!
//! Scripts run on stacks of their own, and Lua leaves frames by `longjmp`: the address sanitizer cannot follow that and
//! reports uses out of scope that are none. So its checks of the stack (not those of the heap) are to be left out:
//!
//! `RUSTFLAGS=-Cllvm-args=-asan-stack=0 CFLAGS=--param=asan-stack=0 cargo +nightly fuzz run lua --
//! -dict=fuzz/dictionaries/lua.dict`
#![no_main]

use libfuzzer_sys::fuzz_target;
use resp::Protocol;
use script::{Checked, Input, Limits, Machine, Running, Source, Step};
use std::cell::Cell;

/// Slices of a script; a call counts as one.
const STEPS_MAX: usize = 100;

thread_local! {
    static MACHINE: Cell<Option<Machine>> = const { Cell::new(None) };
}

fuzz_target!(|body: &[u8]| {
    let Ok(source) = Source::parse(body) else { return };
    let limits = Limits { memory: 16 << 20, slice: 1_000, ..Limits::default() };
    let machine = MACHINE.take().unwrap_or_else(|| Machine::new(limits).expect("memory"));
    let (keys, argv) = ([&b"key"[..]], [&b"1"[..], b"value", body]);
    let mut running = match Running::eval(machine, &source, keys.into_iter(), argv.into_iter(), 0) {
        Ok(running) => running,
        Err(refused) => return MACHINE.set(Some(refused.machine)),
    };
    let mut step = running.step(Input::Start);
    for count in 0.. {
        if step == Step::Done {
            break;
        }
        if count > STEPS_MAX {
            step = running.step(Input::Stop("killed"));
            assert_eq!(step, Step::Done, "nothing suspends when a script is to end");
            break;
        }
        step = match step {
            Step::Call { .. } => {
                let reply = running.args().iter().next().unwrap_or_default().to_vec();
                running.step(Input::Reply(&reply))
            }
            Step::CheckCommand => running.step(Input::Checked(Checked::Allowed)),
            _ => running.step(Input::Continue),
        };
    }
    // RESP2: in RESP3 a script may call anything a number.
    let mut out = Vec::new();
    let mut machine = running.finish(Protocol::Resp2, &mut out).machine;
    let reply = resp::skip_reply(&out);
    assert!(matches!(reply, Ok(Some((len, _))) if len == out.len()), "one whole reply: {reply:?}");
    if machine.memory() > 4 << 20 {
        machine.forget();
    }
    MACHINE.set(Some(machine));
});

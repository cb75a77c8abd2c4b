//! Commands whose work is done aside: their replies are as if they had run at one moment.

use std::sync::Arc;
use std::time::Duration;

use clocks::UnixMs;
use command::Tunables;
use keyspace::Keyspace;

use crate::testing::{run, with_call};
use crate::{Call, Engine, Ran, Seat, Shared};

const TOKEN: u64 = 77;

fn engine() -> Engine {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 16, 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 24, databases: 16, ..Tunables::default() }), 0);
    engine.begin_turn(UnixMs(1_000_000_000_000));
    for start in (0..12_000).step_by(100) {
        let names: Vec<String> = (start..start + 100).map(|i| format!("member:{i:08}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        run(&mut engine, 0, &[&["sadd", "large"], &names[..]].concat());
    }
    run(&mut engine, 0, &["sadd", "small", "a", "b"]);
    engine.shared.asides.open();
    engine
}

/// Runs a command of a connection that can wait, after `attempt` waits. `None`: it waits.
fn attempt(engine: &mut Engine, seat: &Seat, attempt: u32, line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out = Vec::new();
    (engine.waited, engine.insists) = (attempt > 0, attempt > 3);
    let ran = with_call(0, &words, |call| engine.run(&Call { seat: Some(seat), token: TOKEN, ..*call }, &mut out));
    (engine.waited, engine.insists) = (false, false);
    match ran {
        Ran::Done => Some(String::from_utf8_lossy(&out).into_owned()),
        Ran::Busy(busy) => {
            assert!(busy.awaited && out.is_empty());
            None
        }
        _ => panic!("{line}"),
    }
}

/// Does the requested work. Returns the number of tasks.
fn work(engine: &Engine) -> usize {
    let tasks = std::iter::from_fn(|| engine.shared.asides.take(Duration::ZERO));
    tasks.map(|task| assert_eq!(task.run(|| 0).token, TOKEN)).count()
}

#[test]
fn it_runs_again_when_the_work_is_done() {
    let (mut engine, seat) = (engine(), Seat::default());
    assert_eq!(attempt(&mut engine, &seat, 0, "sunionstore to large small"), None);
    assert_eq!(run(&mut engine, 0, &["exists", "to"]), ":0\r\n", "nothing is done yet");
    // No worker holds a latch meanwhile.
    run(&mut engine, 0, &["set", "to", "x"]);
    assert_eq!(attempt(&mut engine, &seat, 1, "sunionstore to large small"), None, "woken for another reason");
    assert_eq!(work(&engine), 1);
    assert_eq!(attempt(&mut engine, &seat, 2, "sunionstore to large small").as_deref(), Some(":12002\r\n"));
    assert_eq!(run(&mut engine, 0, &["scard", "to"]), ":12002\r\n");
    assert_eq!(work(&engine), 0);
}

#[test]
fn what_has_changed_meanwhile_counts() {
    let (mut engine, seat) = (engine(), Seat::default());
    for (n, change) in ["sadd large new", "del small", "set small x"].iter().enumerate() {
        assert_eq!(attempt(&mut engine, &seat, n as u32, "sunionstore to large small"), None);
        work(&engine);
        run(&mut engine, 0, &change.split(' ').collect::<Vec<_>>());
    }
    let wrong = attempt(&mut engine, &seat, 3, "sunionstore to large small");
    assert!(wrong.is_some_and(|reply| reply.starts_with("-WRONGTYPE")));
    assert_eq!(run(&mut engine, 0, &["exists", "to"]), ":0\r\n");
    run(&mut engine, 0, &["del", "small"]);
    // The command does not wait for ever.
    for n in 0..4 {
        assert_eq!(attempt(&mut engine, &seat, n, "sunionstore to large small"), None);
        work(&engine);
        run(&mut engine, 0, &["sadd", "large", &format!("new {n}")]);
    }
    assert_eq!(attempt(&mut engine, &seat, 4, "sunionstore to large small").as_deref(), Some(":12005\r\n"));
}

#[test]
fn nothing_is_done_for_who_has_gone() {
    let (mut engine, seat) = (engine(), Seat::default());
    assert_eq!(attempt(&mut engine, &seat, 0, "sunionstore to large small"), None);
    engine.forget_claims(TOKEN);
    assert_eq!(work(&engine), 1, "it is taken, and woken, and nothing is there for it");
    assert_eq!(attempt(&mut engine, &seat, 1, "scard large").as_deref(), Some(":12000\r\n"));
    assert_eq!(attempt(&mut engine, &seat, 0, "sunionstore to large small"), None, "it begins anew");
}

#[test]
fn who_cannot_wait_does_it_at_once() {
    let mut engine = engine();
    assert_eq!(run(&mut engine, 0, &["sunionstore", "to", "large", "small"]), ":12002\r\n");
    assert_eq!(work(&engine), 0);
}

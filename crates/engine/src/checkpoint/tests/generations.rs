//! Rule L13: the log is switched off and on.

use redolog::Lsn;

use super::model::{DATABASES, Machine};
use crate::checkpoint::Step;
use crate::checkpoint::round::Planted;

fn act(machine: &mut Machine, times: usize) {
    (0..times).for_each(|_| machine.hand.act());
}

/// A generation's checkpoint is made, with changes in between, for at most this many steps. Returns true if it is
/// durable.
fn go_on(machine: &mut Machine, steps: u64) -> bool {
    let mut begun = false;
    for _ in 0..steps {
        if machine.hand.rng.below(300) == 0 {
            act(machine, 1);
            machine.take();
        }
        machine.commit_some();
        let log = &mut machine.log;
        if !begun {
            begun = machine.checkpointer.begin(log) == Step::More;
        } else if machine.checkpointer.step(log).expect("no failure is planted") == Step::Done {
            return true;
        }
        if machine.checkpointer.figures().rounds > 0 {
            return true;
        }
    }
    false
}

/// Until its checkpoint is durable, a start finds the contents from before the log was switched off; then it finds
/// everything.
#[test]
fn a_generation_is_there_whole_or_not_at_all() {
    let (mut whole, mut void) = (0, 0);
    for seed in 0..12 {
        let mut machine = Machine::new(seed, Planted::None);
        for life in 0..6 {
            act(&mut machine, 60);
            if machine.hand.rng.below(2) == 0 {
                machine.checkpoint();
            }
            machine.take();
            let before = machine.digest();
            machine.switch_off();
            act(&mut machine, 60);
            machine.switch_on();
            let steps = [3, 3000, 16_500, 100_000][machine.hand.rng.below(4) as usize];
            let durable = go_on(&mut machine, steps);
            act(&mut machine, 20);
            let now = machine.digest();
            machine = machine.restart(seed * 10 + life).expect("it starts");
            let there = machine.digest();
            if durable {
                assert_eq!(there, now, "seed {seed}, life {life}");
            } else if there == before {
                void += 1;
            } else {
                assert_eq!(there, now, "seed {seed}, life {life}: neither the old nor the new");
            }
            whole += u64::from(durable);
        }
        // The store has kept nothing of earlier generations.
        machine.checkpoint();
        let keyspace = &machine.hand.engine.shared.keyspace;
        let keys: u64 = (0..DATABASES as u16).map(|db| keyspace.len(db)).sum();
        assert_eq!((machine.store.len() as u64, machine.store.leaves().1), (keys, 0), "seed {seed}");
    }
    assert!(whole > 12 && void > 12, "{whole} whole, {void} void");
}

/// The log is switched off and on again and again, without a new start.
#[test]
fn generations_follow_each_other() {
    for seed in 0..5 {
        let mut machine = Machine::new(seed, Planted::None);
        for _ in 0..4 {
            act(&mut machine, 80);
            machine.checkpoint();
            act(&mut machine, 80);
            machine.switch_off();
            act(&mut machine, 80);
            machine.switch_on();
            assert!(go_on(&mut machine, u64::MAX));
        }
        act(&mut machine, 80);
        let now = machine.digest();
        let mut machine = machine.restart(seed).expect("it starts");
        assert_eq!(machine.digest(), now, "seed {seed}");
    }
}

/// Rule L4: behind a moment that slots know of, no reader sees earlier changes of other streams any more, as the moment
/// stands on them.
#[test]
fn a_moment_stands_on_all_that_was_before_it() {
    use keyspace::{Keyspace, Version};
    use redolog::{Intake, Take};

    let shared = crate::Shared::new(Keyspace::new(1, 1, 7));
    let (mut intakes, mut gates): (Vec<_>, Vec<_>) =
        (0..3).map(|_| Intake::new(1, Lsn(0))).map(|(intake, mut gates)| (intake, gates.remove(0))).unzip();
    let before = Lsn(Version(gates[0].enter().0).above(0).0);
    gates[0].leave(before, |out| redolog::Record::encode(before, &[], b"x", out));
    gates[0].exit();
    let passed = super::super::moment(&shared, &mut gates, |_| ()).expect("nobody is there");
    assert!(passed[0] > before);
    for (stream, intake) in intakes.iter_mut().enumerate() {
        let mut body = Vec::new();
        let Take::Taken(_) = intake.take(&mut body) else { panic!("stream {stream} has no record") };
        let last = redolog::Record::all(&body).map(Result::unwrap).last().expect("the moment's");
        assert_eq!((last.lsn, last.dependencies.as_slice()), (passed[stream], &passed[..stream]));
    }
}

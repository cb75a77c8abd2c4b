//! Rule L13: the log is switched off and on.

use super::model::{DATABASES, Machine};
use crate::checkpoint::Step;
use crate::checkpoint::round::Planted;

fn act(machine: &mut Machine, times: usize) {
    (0..times).for_each(|_| machine.hand.act());
}

/// A generation's checkpoint is made, with changes in between, for at most this many steps. Whether it is durable.
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

/// Until its checkpoint is durable there is what was there when the log was switched off; then there is everything.
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
        // Of earlier generations the store has kept nothing.
        machine.checkpoint();
        let keyspace = &machine.hand.engine.shared.keyspace;
        let keys: u64 = (0..DATABASES as u16).map(|db| keyspace.len(db)).sum();
        assert_eq!((machine.store.len() as u64, machine.store.leaves().1), (keys, 0), "seed {seed}");
    }
    assert!(whole > 12 && void > 12, "{whole} whole, {void} void");
}

/// The log is switched off and on again and again, and nothing is ever started anew.
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

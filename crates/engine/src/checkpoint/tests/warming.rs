//! After a start, the contents of the store are read into memory while checkpoints are made.

use keyspace::slot_of;

use super::model::Machine;
use crate::checkpoint::Step;
use crate::checkpoint::round::Planted;

/// Rules C4, C5: the log says that a key is gone. The store has it until a checkpoint is durable, which drops the
/// tombstone. A value that was read before that checkpoint wrote the deletion, though it had begun, must not be put
/// into memory behind it.
#[test]
fn what_was_deleted_does_not_come_back() {
    let name = (0..).map(|n| format!("k{n}")).find(|name| slot_of(name.as_bytes()) < 100).expect("some name");
    for steps_before in 0..8 {
        let mut machine = Machine::new(1, Planted::None);
        machine.hand.run(0, &["set", &name, "1"]);
        machine.checkpoint();
        machine.hand.run(0, &["del", &name]);
        let mut machine = machine.restart(2).expect("a start");
        machine.take();
        machine.log.committed = machine.log.left;
        machine.checkpointer.begin(&mut machine.log);
        (0..steps_before).for_each(|_| assert!(machine.warm_up()));
        while machine.checkpointer.step(&mut machine.log).expect("no failure is planted") != Step::Done {}
        while machine.warm_up() {}
        assert_eq!(machine.hand.run(0, &["exists", &name]), ":0\r\n", "after {steps_before} steps");
    }
}

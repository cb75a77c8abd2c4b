//! An orderly switchover, step by step, and given up at each.

use clocks::BootMs;
use quorum::{Cut, Term};

use super::{counted, process, term};
use crate::switchover::{Act, GivenUp, Patience, Stage, Switchover};
use crate::{Change, Copies};

const PATIENCE: Patience = Patience {
    near_ms: 10,
    d_ms: 50,
    nearing_ms: 1_000,
    draining_ms: 100,
    following_ms: 100,
    asking_ms: 10,
    yielding_ms: 30,
};

struct Story {
    copies: Copies,
    machine: Switchover,
    acts: Vec<Act>,
}

impl Story {
    fn new() -> Self {
        let (copies, mut acts) = (counted(), Vec::new());
        let machine = Switchover::new(&copies, process(2, 1), PATIENCE, BootMs(0), &mut acts);
        Self { copies, machine, acts }
    }

    /// One that is at a stage, a millisecond after it began.
    fn at(stage: Stage) -> (Self, u64) {
        let mut story = Self::new();
        let steps: [fn(&mut Self); 4] = [
            |s| s.machine.lag(process(2, 1), 5, BootMs(50), &mut s.acts),
            |s| s.machine.drained(Cut(7), BootMs(60), &mut s.acts),
            |s| s.machine.applied(process(2, 1), Cut(7), BootMs(70), &mut s.acts),
            |s| s.acts = s.tick(100),
        ];
        let now = [1, 51, 61, 71, 101];
        for at in 0..=steps.len() {
            if story.machine.stage() == stage {
                story.acts.clear();
                return (story, now[at]);
            }
            steps[at](&mut story);
        }
        panic!("no such stage");
    }

    fn apply(&mut self, change: Change, now: u64) -> Vec<Act> {
        self.copies.apply(change).expect("a change");
        self.machine.metadata(&self.copies, BootMs(now), &mut self.acts);
        std::mem::take(&mut self.acts)
    }

    fn tick(&mut self, now: u64) -> Vec<Act> {
        self.machine.tick(BootMs(now), &mut self.acts);
        std::mem::take(&mut self.acts)
    }
}

fn yields() -> Act {
    Act::Yield { to: process(2, 1), term: term(1), is_logged: true }
}

#[test]
fn a_shard_is_handed_over_s10() {
    let mut story = Story::new();
    assert_eq!(std::mem::take(&mut story.acts), [Act::LogReads(true)]);
    story.machine.lag(process(2, 1), 5, BootMs(49), &mut story.acts);
    assert!(story.acts.is_empty(), "reads have not been logged for long enough");
    assert_eq!(story.tick(50), [Act::Freeze]);
    story.machine.drained(Cut(7), BootMs(60), &mut story.acts);
    assert_eq!(std::mem::take(&mut story.acts), [Act::Advance]);
    story.machine.applied(process(2, 1), Cut(6), BootMs(61), &mut story.acts);
    story.machine.applied(process(3, 1), Cut(7), BootMs(61), &mut story.acts);
    assert!(story.acts.is_empty());
    story.machine.applied(process(2, 1), Cut(7), BootMs(62), &mut story.acts);
    assert_eq!(std::mem::take(&mut story.acts), [yields()]);
    assert_eq!(story.tick(72), [yields()], "the leader may be another one");
    let acts = story.apply(Change::TakeOver { known: term(1), to: process(2, 1), rests_ms: 0 }, 80);
    assert_eq!((acts, story.machine.stage()), (vec![Act::HandOver { to: process(2, 1) }], Stage::Over));
}

#[test]
fn a_switchover_is_given_up_at_each_step_before_the_yield_s10() {
    let thawed = |why| vec![Act::Thaw, Act::LogReads(false), Act::GivenUp(why)];
    let (mut story, _) = Story::at(Stage::Nearing);
    assert_eq!(story.tick(1_000), [Act::LogReads(false), Act::GivenUp(GivenUp::Lags)]);
    let (mut story, _) = Story::at(Stage::Draining);
    assert_eq!(story.tick(150), [Act::Undo]);
    assert_eq!(story.tick(250), thawed(GivenUp::CannotDrain));
    let (mut story, _) = Story::at(Stage::Draining);
    story.machine.cannot_drain(&mut story.acts);
    assert_eq!(story.acts, thawed(GivenUp::CannotDrain));
    let (mut story, _) = Story::at(Stage::Following(Cut(7)));
    assert_eq!(story.tick(160), thawed(GivenUp::Silent));
    for stage in [Stage::Draining, Stage::Following(Cut(7))] {
        let (mut story, now) = Story::at(stage);
        let give_up = Change::GiveUp { term: term(1), by: process(1, 1), standby: process(2, 1) };
        assert_eq!(story.apply(give_up, now), thawed(GivenUp::NotElectable));
        // Another standby has taken over meanwhile: nothing of what is parked was executed.
        let (mut story, now) = Story::at(stage);
        let acts = story.apply(Change::TakeOver { known: term(1), to: process(3, 1), rests_ms: 0 }, now);
        assert_eq!(acts, [Act::HandOver { to: process(3, 1) }]);
    }
}

#[test]
fn a_yield_ends_by_the_metadata_alone_s10() {
    let (mut story, _) = Story::at(Stage::Yielding);
    assert_eq!(story.tick(100), [Act::Lead { known: term(1) }]);
    assert_eq!((story.tick(109), story.tick(110)), (vec![], vec![Act::Lead { known: term(1) }]));
    assert_eq!(story.tick(9_999), [Act::Lead { known: term(1) }], "however long it takes");
    let mut taken = Story { copies: story.copies.clone(), machine: story.machine.clone(), acts: Vec::new() };
    let acts = taken.apply(Change::TakeOver { known: term(1), to: process(2, 1), rests_ms: 0 }, 10_000);
    assert_eq!(acts, [Act::HandOver { to: process(2, 1) }]);
    assert_eq!(
        story.apply(Change::Lead { known: term(1), by: process(1, 1), of_log: Term::ZERO, rests_ms: 0 }, 10_000),
        []
    );
    assert_eq!((story.machine.stage(), story.tick(20_000)), (Stage::Resuming, vec![]));
    story.machine.serves_again(&mut story.acts);
    assert_eq!(story.acts, [Act::Thaw, Act::LogReads(false), Act::GivenUp(GivenUp::NotTaken)]);
}

//! An interleaving that is too rare for walks, step by step: with the mistake it breaks, and without it does not.

use super::world::ghosts::READER;
use super::world::{CommandKind, Packet, Plan, Plant, SETTINGS, Step, World};
use crate::planted::Mistake;

struct Story {
    plan: Plan,
    world: World,
}

impl Story {
    fn new(plant: Plant) -> Self {
        let plan = Plan { skew: false, commands: 9, ticks: 999, plant, ..Plan::calm() };
        Self { world: World::led(&plan), plan }
    }

    fn take(&mut self, step: Step) {
        self.world.take(&self.plan, step);
    }

    /// A node renews, and hears the answer.
    fn renew(&mut self, at: usize) {
        self.take(Step::Renew(at));
        while let Some(at) = self
            .world
            .network
            .iter()
            .position(|packet| matches!(packet, Packet::Renewal { .. } | Packet::Granted { .. }))
        {
            self.take(Step::Deliver(at));
        }
    }

    /// A client's command of a kind reaches a node, and is executed there if that may be.
    fn command(&mut self, kind: CommandKind, at: usize) {
        loop {
            self.take(Step::Ask);
            if self.world.commands.last().is_some_and(|command| command.kind == kind) {
                break;
            }
        }
        self.take(Step::Send(self.world.commands.len() - 1, at));
        self.take(Step::Execute(at));
    }
}

/// Rule S7: the owner answers a read shortly before its lease ends. Its standby takes over, and need not rest.
fn a_read_before_the_end(plant: Plant) -> Option<&'static str> {
    let mut story = Story::new(plant);
    story.world.network.clear();
    story.renew(0);
    story.take(Step::Tick(SETTINGS.lease_ms - 2));
    story.command(CommandKind::Attempt, 0);
    story.renew(1);
    story.take(Step::Tick(24));
    for step in [Step::Decide, Step::Commit(true), Step::Learn(1), Step::Seal(1, 0), Step::Sync(0)] {
        story.take(step);
    }
    while story.world.log.synced[0] != story.world.log.streams[0].last() {
        story.take(Step::Sync(0));
    }
    story.renew(1);
    story.take(Step::Hear(1));
    story.command(CommandKind::Write, 1);
    assert_eq!(story.world.ghosts.served.get(), 2, "the standby has executed the write");
    story.world.ghosts.broken
}

#[test]
fn p13_an_owner_reads_to_the_end_of_its_lease() {
    assert_eq!(a_read_before_the_end(Plant::Inside(Mistake::ReadsToTheEnd)), Some(READER));
    assert_eq!(a_read_before_the_end(Plant::None), None);
}

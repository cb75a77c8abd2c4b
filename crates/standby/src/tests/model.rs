//! Small shards, explored breadth first: every order of messages, of ends of processes, of switchovers.
//!
//! Each begins where an owner serves and a standby is counted. `cargo test -p standby model` explores some thousand
//! states of each, and `HOLDFAST_LONG=1 cargo test --release -p standby model` a hundred times as many. Both are bounds,
//! not the whole space: the walks go deeper.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::world::{Plan, Plant, Step, World};
use crate::planted::Mistake;

/// A plan, whose world is bounded.
struct Shard {
    plan: Plan,
    packets_max: usize,
}

impl Model for Shard {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::led(&self.plan);
        world.network.clear();
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        let mut steps = Vec::new();
        world.steps(&self.plan, &mut steps);
        // Idle clocks and short times make many worlds that are hardly other ones.
        let is_worth = |step: &Step| !matches!(step, Step::Idle(_) | Step::Tick(5 | 20));
        actions.extend(steps.into_iter().map(|(_, step)| step).filter(is_worth));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(&self.plan, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("sound", |_: &Self, world: &World| world.ghosts.broken.is_none()),
            // Else nothing was looked at.
            Property::sometimes("two terms lead", |_: &Self, world: &World| world.ghosts.led.len() > 1),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.network.len() <= self.packets_max
    }
}

/// Explores up to a number of states. Returns true if a second term leads in one of them.
fn explore(name: &str, plan: Plan, states: usize) -> bool {
    let states = if std::env::var_os("HOLDFAST_LONG").is_some() { states * 100 } else { states };
    let checker = Shard { plan, packets_max: 3 }.checker().target_state_count(states).spawn_bfs().join();
    let found = checker.discoveries();
    eprintln!("{name}: {} states, {} steps deep", checker.unique_state_count(), checker.max_depth());
    if let Some(path) = found.get("sound") {
        let why = path.last_state().ghosts.broken;
        panic!("{name}: {why:?} after {:#?}", path.clone().into_actions());
    }
    found.contains_key("two terms lead")
}

fn finds(plan: Plan, states: usize) {
    let plant = plan.plant;
    let checker = Shard { plan, packets_max: 3 }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(states)
        .spawn_bfs()
        .join();
    let (found, count) = (checker.discoveries(), checker.unique_state_count());
    let Some(path) = found.get("sound") else { panic!("{plant:?} was not noticed in {count} states") };
    let why = path.last_state().ghosts.broken.unwrap_or_default();
    eprintln!("{plant:?}: {why}, {count} states, {} steps deep", path.clone().into_actions().len());
}

#[test]
fn models_of_ends_of_processes() {
    assert!(explore("an owner ends", Plan { kills: 1, ..Plan::calm() }, 20_000), "nobody takes over");
    explore("two streams", Plan { kills: 1, streams: 2, commands: 2, ..Plan::calm() }, 10_000);
    explore("below always", Plan { kills: 1, always: false, commands: 2, ..Plan::calm() }, 10_000);
}

#[test]
fn models_of_leases() {
    explore("an owner stands still", Plan { stops: 1, ticks: 6, skew: true, ..Plan::calm() }, 10_000);
    explore("leaders change", Plan { elections: 1, ticks: 6, losses: 1, ..Plan::calm() }, 10_000);
}

#[test]
fn models_of_switchovers() {
    explore("a switchover", Plan { switchovers: 1, ticks: 6, commands: 1, ..Plan::calm() }, 10_000);
    explore("a standby begins anew", Plan { bootstraps: 1, commands: 2, ..Plan::calm() }, 10_000);
}

#[test]
fn models_notice_mistakes() {
    let plan = |mistake| Plan { plant: Plant::Inside(mistake), ..Plan::calm() };
    finds(plan(Mistake::AppliesUncommitted), 50_000);
    finds(plan(Mistake::CutsAlone), 200_000);
}

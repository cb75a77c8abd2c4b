//! Small groups, explored breadth first: every order of messages, of writes under way, of failures.
//!
//! Each begins where a first term leads already. `cargo test -p quorum model` explores some thousand states of each, and
//! `HOLDFAST_LONG=1 cargo test --release -p quorum model` two hundred times as many. Both are bounds, not the whole space:
//! the walks go deeper.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::world::{Plan, Plant, Step, World};
use crate::planted::Mistake;

/// A plan, whose world is bounded.
struct Group {
    plan: Plan,
    packets_max: usize,
}

impl Model for Group {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::led(&self.plan)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        let mut steps = Vec::new();
        world.steps(&self.plan, &mut steps);
        actions.extend(steps.into_iter().map(|(_, step)| step));
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
            Property::sometimes("two terms lead", |_: &Self, world: &World| world.ghosts.shown.len() > 1),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.network.len() <= self.packets_max
    }
}

fn is_long() -> bool {
    std::env::var_os("HOLDFAST_LONG").is_some()
}

/// Explores up to a number of states, with a second term that leads among them.
fn explore(name: &str, plan: Plan, states: usize) {
    let (led, count) = look(name, plan, states);
    assert!(led, "{name}: no second term leads in {count} states");
}

/// Explores up to a number of states. Returns true if a second term leads in one of them, and how many there were.
fn look(name: &str, plan: Plan, states: usize) -> (bool, usize) {
    let states = if is_long() { states * 200 } else { states };
    let checker = Group { plan, packets_max: 14 }.checker().target_state_count(states).spawn_bfs().join();
    let found = checker.discoveries();
    let (count, depth) = (checker.unique_state_count(), checker.max_depth());
    let whole = if checker.is_done() && checker.state_count() < states { ", all" } else { "" };
    eprintln!("{name}: {count} states{whole}, {depth} steps deep");
    if let Some(path) = found.get("sound") {
        let why = path.last_state().ghosts.broken;
        panic!("{name}: {why:?} after {:#?}", path.clone().into_actions());
    }
    (found.contains_key("two terms lead"), count)
}

/// Explores until a mistake is noticed.
fn finds(plan: Plan, states: usize) {
    let (plant, group) = (plan.plant, Group { plan, packets_max: 14 });
    let until = HasDiscoveries::AnyFailures;
    let checker = group.checker().finish_when(until).target_state_count(states).spawn_bfs().join();
    let (found, count) = (checker.discoveries(), checker.unique_state_count());
    let Some(path) = found.get("sound") else { panic!("{plant:?} was not noticed in {count} states") };
    let why = path.last_state().ghosts.broken.unwrap_or_default();
    eprintln!("{plant:?}: {why}, {count} states, {} steps deep", path.clone().into_actions().len());
}

/// Three acceptors, one stream.
fn one_stream(terms: u32) -> Plan {
    Plan::new(terms, 1)
}

#[test]
fn models_of_two_terms() {
    explore("two terms", one_stream(2), 8_000);
    explore("two terms, slow replies", Plan { prompt: false, ..one_stream(2) }, 8_000);
    explore("two streams", Plan::new(2, 2), 8_000);
}

#[test]
fn models_of_writes_under_way() {
    look("writes under way", Plan { slow_writes: true, writes: 2, ..one_stream(2) }, 8_000);
    look("slow disks", Plan { slow_writes: true, slow_disk: true, ..one_stream(2) }, 8_000);
    let cached = Plan { through: false, powers: 1, restarts: 1, ..one_stream(2) };
    look("written and synced apart", cached, 8_000);
}

#[test]
fn models_of_failures() {
    look("restarts", Plan { restarts: 2, slow_writes: true, ..one_stream(2) }, 8_000);
    look("power", Plan { powers: 2, slow_writes: true, ..one_stream(2) }, 8_000);
    look("network", Plan { repeats: 2, losses: 1, reconnects: 1, ..one_stream(2) }, 8_000);
    look("failed and wiped folders", Plan { failures: 1, wipes: 1, ..one_stream(2) }, 8_000);
    look("folders that are set back", Plan { set_backs: 1, reconnects: 1, writes: 2, ..one_stream(2) }, 8_000);
    look("folders without room", Plan { lacks: 2, writes: 2, reconnects: 1, ..one_stream(2) }, 8_000);
}

#[test]
fn models_of_changes() {
    explore("acceptors change", Plan { spare: 1, changes: 1, ..one_stream(2) }, 8_000);
    explore("the same process", Plan { again: 1, ..one_stream(2) }, 8_000);
    look("cut and reset", Plan { spare: 1, changes: 1, cuts: 1, bootstraps: 1, ..one_stream(2) }, 8_000);
}

fn planted(plant: Plant) -> Plan {
    Plan { plant, ..one_stream(2) }
}

#[test]
fn models_notice_mistakes() {
    finds(planted(Plant::TakesLowerTerms), 100_000);
    finds(planted(Plant::TermTwice), 100_000);
    finds(planted(Plant::VersionsWithoutRecords), 100_000);
    if is_long() {
        finds(Plan { wipes: 1, ..planted(Plant::Amnesia) }, 1_000_000);
        finds(Plan { bootstraps: 1, ..planted(Plant::Inside(Mistake::ResetsBackwards)) }, 1_000_000);
        finds(Plan { repeats: 1, ..planted(Plant::Inside(Mistake::StaleAppendCuts)) }, 1_000_000);
    }
}

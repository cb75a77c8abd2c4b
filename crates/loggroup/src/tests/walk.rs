//! Random walks of acceptors over real folders, whose disks lose sectors and tear writes. `HOLDFAST_SEED=n` walks once;
//! `HOLDFAST_SEEDS=n` walks more often.

use redolog::simulated::Chance;

use super::world::{Plan, Plant, World};

const STEPS: usize = 1500;

fn plan_of(seed: u64, plant: Plant) -> Plan {
    let mut chance = Chance(seed ^ 0x6c6f_6767);
    let mut some = |most: u64| chance.below(most) as u32;
    let plan = Plan {
        plant,
        streams: 1 + some(3) as u16,
        terms: 2 + some(5),
        writes: 2 + some(8),
        through: some(3) > 0,
        restarts: some(5),
        powers: some(6),
        wipes: some(2),
        lossy: some(2) == 0,
    };
    // A mistake gets the faults that it needs to show.
    match plant {
        Plant::None => plan,
        Plant::PromiseNotSynced => Plan { streams: 1, terms: 6, powers: 6, wipes: 0, ..plan },
        Plant::Amnesia => Plan { streams: 1, wipes: 2, ..plan },
        Plant::TellsInFlight => Plan { streams: 1, through: true, powers: 6, wipes: 0, ..plan },
        Plant::StartsUnsynced => Plan { streams: 1, through: false, restarts: 5, powers: 6, wipes: 0, ..plan },
        Plant::DropsNothing => Plan { streams: 1, terms: 6, restarts: 4, wipes: 0, ..plan },
    }
}

fn walk(seed: u64, plant: Plant) -> World {
    let mut world = World::new(plan_of(seed, plant), seed);
    for _ in 0..STEPS {
        world.step();
        if world.broken.is_some() {
            break;
        }
    }
    if plant == Plant::None {
        world.calms();
    }
    world
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn walks() {
    if let Some(seed) = number_of("HOLDFAST_SEED") {
        assert_eq!(walk(seed, Plant::None).broken, None);
        return;
    }
    let seeds = number_of("HOLDFAST_SEEDS").unwrap_or(40);
    let (mut led, mut acknowledged) = (0, 0);
    for seed in 0..seeds {
        let world = walk(seed, Plant::None);
        assert_eq!(world.broken, None, "HOLDFAST_SEED={seed}");
        led += world.led;
        acknowledged += world.acknowledged();
    }
    eprintln!("{seeds} walks, {led} terms led, {acknowledged} blocks acknowledged");
    // Otherwise nothing was looked at.
    assert!(led as u64 > seeds && acknowledged as u64 > 4 * seeds);
}

fn finds(plant: Plant, seeds: u64, expected: &[&str]) {
    for seed in 0..seeds {
        if let Some(why) = walk(seed, plant).broken {
            eprintln!("{plant:?}: {why}, seed {seed}");
            assert!(expected.iter().any(|known| why.starts_with(known)), "{plant:?}: {why}");
            return;
        }
    }
    panic!("{plant:?} was not noticed in {seeds} walks");
}

const LOST: &str = "something acknowledged is lost";
const LATE: &str = "something is acknowledged that a later term does not have";
const PLACE: &str = "two blocks are committed at one place";
const CHAIN: &str = "a folder has a chain that never was";
const CLOSED: &str = "a folder does not open";

/// It needs a power failure between a promise and the appends of the owner before.
#[test]
#[ignore = "takes minutes"]
fn p2_a_promise_is_not_synced() {
    finds(Plant::PromiseNotSynced, 20_000, &[LOST, LATE, PLACE]);
}

#[test]
fn p5_a_wiped_folder_votes() {
    finds(Plant::Amnesia, 3000, &[LOST, LATE, PLACE]);
}

#[test]
fn p26_a_write_is_told_while_it_is_under_way() {
    finds(Plant::TellsInFlight, 3000, &[LOST, LATE, PLACE, CHAIN, CLOSED]);
}

#[test]
fn p35_an_acceptor_starts_unsynced() {
    finds(Plant::StartsUnsynced, 5000, &[LOST, LATE, PLACE, CLOSED]);
}

#[test]
fn what_a_life_drops_is_left() {
    finds(Plant::DropsNothing, 1000, &[LOST, LATE, PLACE, CHAIN, CLOSED]);
}

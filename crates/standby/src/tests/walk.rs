//! Random walks: a seed decides what there is, what may happen, and what does.
//!
//! `cargo test -p standby walks` walks some thousand times. `HOLDFAST_LONG=1 cargo test --release -p standby walks` walks
//! 200,000 times; `HOLDFAST_FIRST` and `HOLDFAST_SEEDS` say where to begin and how often. `HOLDFAST_SEED=n` walks once,
//! and tells everything.

use super::world::ghosts::{
    AHEAD, CLOSED, GAP, LATE, LOST, OTHERWISE, PREFIX, READER, SHOWN, STALE, TWICE, TWO, UNFIT,
};
use super::world::{CommandState, Kind, Plan, Plant, Step, World};
use crate::planted::Mistake;

/// Numbers by chance, from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn up_to(&mut self, most: u64) -> u8 {
        self.below(most + 1) as u8
    }
}

/// The faults that a seed allows. Each walk leaves most faults out: the others happen more often then.
fn plan_of(dice: &mut Dice, plant: Plant) -> Plan {
    let some = |dice: &mut Dice, most| if dice.one_in(2) { 0 } else { dice.up_to(most) };
    let mut plan = Plan {
        nodes: 2 + dice.below(2) as usize,
        streams: 1 + dice.below(2) as usize,
        always: !dice.one_in(3),
        commands: 4 + dice.up_to(8),
        ticks: 20 + dice.below(60) as u32,
        kills: some(dice, 3),
        stops: some(dice, 2),
        losses: some(dice, 12),
        elections: some(dice, 2),
        switchovers: some(dice, 3),
        give_ups: some(dice, 2),
        bootstraps: some(dice, 2),
        skew: dice.one_in(2),
        plant,
    };
    favour(&mut plan);
    plan
}

/// A mistake gets the faults that it needs to show, and no others.
fn favour(plan: &mut Plan) {
    if plan.plant == Plant::None {
        return;
    }
    (plan.stops, plan.losses, plan.elections, plan.switchovers, plan.give_ups, plan.bootstraps) = (0, 0, 0, 0, 0, 0);
    (plan.always, plan.kills, plan.commands) = (true, 2, 16);
    let Plant::Inside(mistake) = plan.plant else {
        (plan.stops, plan.kills) = if plan.plant == Plant::LeadsUnrested { (0, 3) } else { (2, 2) };
        return;
    };
    match mistake {
        Mistake::FlushesAhead | Mistake::GoesOn => plan.always = false,
        Mistake::AppliesStreamsApart | Mistake::QuietCovers | Mistake::MixesTerms => plan.streams = 2,
        Mistake::DropsParked | Mistake::ThawsByTimer => (plan.switchovers, plan.kills) = (3, 0),
        Mistake::ForgetsItsReign => (plan.elections, plan.kills) = (6, 0),
        Mistake::IgnoresLease => (plan.stops, plan.kills) = (2, 0),
        Mistake::ElectsUncounted => plan.give_ups = 3,
        Mistake::CountsEarlierLives | Mistake::CountsUnpinned => plan.bootstraps = 3,
        _ => {}
    }
}

struct Walked {
    broken: Option<&'static str>,
    steps: usize,
    /// Terms that led.
    led: usize,
    answered: usize,
    handed_over: usize,
}

/// Steps of one walk at most.
const STEPS_MAX: usize = 400;

fn walk(seed: u64, plant: Plant, tell: bool) -> Walked {
    let mut dice = Dice(seed);
    let plan = plan_of(&mut dice, plant);
    let weights: [u64; Kind::COUNT] = std::array::from_fn(|_| [1, 2, 4, 8][dice.below(4) as usize]);
    let mut world = World::led(&plan);
    let (mut steps, mut taken) = (Vec::new(), 0);
    if tell {
        eprintln!("{plan:#?}");
    }
    while taken < STEPS_MAX && world.ghosts.broken.is_none() {
        steps.clear();
        world.steps(&plan, &mut steps);
        let Some(step) = choose(&mut dice, &steps, &weights) else { break };
        if tell {
            match step {
                Step::Deliver(at) | Step::Lose(at) => {
                    eprintln!("{taken}: {step:?} {:?}", world.network.iter().nth(at));
                }
                step => eprintln!("{taken}: {step:?}"),
            }
        }
        world.take(&plan, step);
        taken += 1;
    }
    let stays = if world.ghosts.broken.is_none() { world.calms(&plan) } else { None };
    if tell {
        eprintln!("{:?}\n{:?}", world.metadata, world.leader);
        for (at, node) in world.nodes.iter().enumerate() {
            eprintln!("{at}: life {}, store {:?}", node.life, node.store.as_ref().map(|store| store.covered));
            eprintln!("    {:?}", node.running);
        }
    }
    Walked {
        broken: world.ghosts.broken.or(stays),
        steps: taken,
        led: world.ghosts.led.len(),
        answered: world.commands.iter().filter(|command| command.state == CommandState::Answered).count(),
        handed_over: world.ghosts.handed_over as usize,
    }
}

/// One of the steps: a kind by the weights, then one of that kind.
fn choose(dice: &mut Dice, steps: &[(Kind, Step)], weights: &[u64; Kind::COUNT]) -> Option<Step> {
    let weight = |kind: Kind| match kind {
        Kind::Fault | Kind::Loss => weights[kind as usize],
        Kind::Time | Kind::Planned | Kind::Start => 4 * weights[kind as usize],
        Kind::Leader | Kind::Client => 8 * weights[kind as usize],
        Kind::Network | Kind::Log | Kind::Node | Kind::Standby | Kind::Owner => 16 * (1 + weights[kind as usize]),
    };
    let mut counts = [0u64; Kind::COUNT];
    steps.iter().for_each(|(kind, _)| counts[*kind as usize] += 1);
    let mut kinds: Vec<Kind> = steps.iter().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let all: u64 = kinds.iter().map(|kind| weight(*kind)).sum();
    let mut at = if all == 0 { return None } else { dice.below(all) };
    let kind = kinds.into_iter().find(|kind| {
        let is_it = at < weight(*kind);
        at = at.saturating_sub(weight(*kind));
        is_it
    })?;
    let place = dice.below(counts[kind as usize]) as usize;
    let step = steps.iter().filter(|(other, _)| *other == kind).nth(place).map(|(_, step)| *step)?;
    Some(match step {
        Step::Seal(at, _) => Step::Seal(at, dice.number()),
        Step::Start(at, _) => Step::Start(at, dice.number()),
        step => step,
    })
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn walks() {
    if let Some(seed) = number_of("HOLDFAST_SEED") {
        assert_eq!(walk(seed, Plant::None, true).broken, None);
        return;
    }
    let is_long = std::env::var_os("HOLDFAST_LONG").is_some();
    let (first, seeds) = (
        number_of("HOLDFAST_FIRST").unwrap_or(0),
        number_of("HOLDFAST_SEEDS").unwrap_or(if is_long { 200_000 } else { 1_000 }),
    );
    let (mut steps, mut led, mut answered, mut handed_over) = (0, 0, 0, 0);
    for seed in first..first.saturating_add(seeds) {
        let walked = walk(seed, Plant::None, false);
        assert_eq!(walked.broken, None, "HOLDFAST_SEED={seed} tells more");
        steps += walked.steps;
        led += walked.led;
        answered += walked.answered;
        handed_over += walked.handed_over;
    }
    eprintln!("{seeds} walks, {steps} steps, {led} terms led, {answered} answers, {handed_over} switchovers");
    // Otherwise nothing was looked at.
    assert!(led as u64 > seeds && answered as u64 > seeds && handed_over as u64 > seeds / 20);
}

/// Walks until a mistake is noticed.
fn finds(plant: Plant, seeds: u64, expected: &[&str]) {
    let told = number_of("HOLDFAST_SEED");
    for seed in told.map_or(0..seeds, |seed| seed..seed + 1) {
        let walked = walk(seed, plant, told.is_some());
        if let Some(why) = walked.broken {
            eprintln!("{plant:?}: {why}, seed {seed}, {} steps", walked.steps);
            assert!(expected.contains(&why), "{plant:?}: {why}, seed {seed}");
            return;
        }
    }
    panic!("{plant:?} was not noticed in {seeds} walks");
}

macro_rules! mistakes {
    ($($name:ident: $plant:expr, [$($expected:expr),*];)*) => {$(
        #[test]
        fn $name() {
            finds($plant, 10_000, &[$($expected),*]);
        }
    )*};
}

mistakes! {
    p7_an_owner_acknowledges_what_its_own_disk_has: Plant::AcknowledgesOwn, [LOST];
    p8_a_store_is_flushed_ahead: Plant::Inside(Mistake::FlushesAhead), [AHEAD];
    p10_a_standby_applies_what_is_not_committed: Plant::Inside(Mistake::AppliesUncommitted), [SHOWN, PREFIX];
    p11_a_standby_applies_streams_apart: Plant::Inside(Mistake::AppliesStreamsApart), [PREFIX];
    p12_an_owner_ignores_its_lease: Plant::Inside(Mistake::IgnoresLease), [TWO, UNFIT, LATE, STALE];
    p13_a_successor_does_not_rest: Plant::Inside(Mistake::RestsNever), [READER];
    p13_a_later_life_does_not_rest: Plant::LeadsUnrested, [READER];
    p15_a_cut_ignores_standbys: Plant::Inside(Mistake::CutsAlone), [GAP, UNFIT];
    p22_a_lease_is_looked_at_early: Plant::LooksEarly, [LATE, STALE];
    p28_a_standby_is_counted_without_a_pin: Plant::Inside(Mistake::CountsUnpinned), [GAP, UNFIT];
    p32_a_pop_runs_again: Plant::Inside(Mistake::RunsAgain), [TWICE];
    a_standby_mixes_terms: Plant::Inside(Mistake::MixesTerms), [PREFIX, OTHERWISE];
    a_standby_is_elected_that_is_not_counted: Plant::Inside(Mistake::ElectsUncounted), [GAP, OTHERWISE];
    an_earlier_life_is_counted: Plant::Inside(Mistake::CountsEarlierLives), [UNFIT];
    a_leader_forgets_when_it_began: Plant::Inside(Mistake::ForgetsItsReign), [TWO, LATE, READER];
    a_checkpoint_covers_what_an_owner_has_only_said: Plant::Inside(Mistake::QuietCovers), [OTHERWISE, PREFIX];
    a_standby_goes_on_with_what_was_cut: Plant::Inside(Mistake::GoesOn), [OTHERWISE];
    an_owner_thaws_by_a_timer: Plant::Inside(Mistake::ThawsByTimer), [TWO, LATE, STALE, CLOSED];
    a_switchover_drops_what_is_parked: Plant::Inside(Mistake::DropsParked), [CLOSED];
}

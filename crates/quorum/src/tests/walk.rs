//! Random walks: a seed decides what there is, what may happen, and what does.
//!
//! `cargo test -p quorum walks` walks some thousand times. `HOLDFAST_LONG=1 cargo test --release -p quorum walks` walks
//! 400,000 times; `HOLDFAST_FIRST` and `HOLDFAST_SEEDS` say where to begin and how often. `HOLDFAST_SEED=n` walks once,
//! and tells everything.

use std::collections::BTreeSet;

use super::world::{Kind, Packet, Plan, Plant, Step, World};
use crate::Limits;
use crate::planted::Mistake;

/// Numbers by chance, from a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn small(&mut self, end: u64) -> u8 {
        self.below(end) as u8
    }
}

/// The faults that a seed allows. Each walk leaves most faults out: the others happen more often then.
fn plan_of(seed: u64, dice: &mut Dice, plant: Plant) -> Plan {
    let (small, changes) = (dice.one_in(4), dice.one_in(3));
    let limits = Limits {
        window_blocks: 1 + dice.below(4),
        window_bytes: if dice.one_in(2) { 1 } else { 1 << 20 },
        ring_bytes: if dice.one_in(3) { 0 } else { 1 << 20 },
        read_blocks: 1 + dice.below(3) as u32,
        through: true,
    };
    let through = !dice.one_in(3);
    let slow_writes = dice.one_in(2);
    let mut plan = Plan {
        spare: usize::from(changes) * 2,
        writes: 1 + dice.small(4),
        through,
        slow_writes,
        slow_disk: slow_writes && dice.one_in(2),
        prompt: dice.one_in(2),
        restarts: if dice.one_in(2) { 0 } else { dice.small(4) },
        powers: if dice.one_in(2) { 0 } else { dice.small(4) },
        repeats: if dice.one_in(2) { 0 } else { dice.small(8) },
        losses: if dice.one_in(2) { 0 } else { dice.small(8) },
        reconnects: 4 + dice.small(12),
        cuts: if dice.one_in(2) { 0 } else { dice.small(6) },
        bootstraps: if dice.one_in(3) { 0 } else { dice.small(3) },
        changes: if changes { 1 + dice.small(2) } else { 0 },
        again: dice.small(3),
        wipes: u8::from(dice.one_in(3)),
        failures: u8::from(dice.one_in(4)),
        limits: Limits { through, ..limits },
        advances: dice.one_in(3),
        plant,
        ..Plan::new(if small { 2 } else { 3 + dice.below(4) as u32 }, 1 + dice.below(3) as usize)
    };
    // Drawn apart: walks without it stay as they are.
    let mut apart = Dice::new(seed ^ 0x726f_6f6d);
    plan.lacks = if apart.one_in(3) { 1 + apart.small(4) } else { 0 };
    plan.standbys = apart.one_in(2);
    if apart.one_in(4) {
        // One acceptor at most does not do what it should.
        (plan.set_backs, plan.wipes) = (1, 0);
    }
    favour(&mut plan);
    plan
}

/// A mistake gets the faults that it needs to show, and no others.
fn favour(plan: &mut Plan) {
    if plan.plant == Plant::None {
        return;
    }
    *plan = Plan {
        spare: 0,
        restarts: 0,
        powers: 0,
        repeats: 0,
        losses: 0,
        reconnects: 4,
        cuts: 0,
        bootstraps: 0,
        changes: 0,
        again: 0,
        wipes: 0,
        set_backs: 0,
        failures: 0,
        lacks: 0,
        standbys: false,
        streams: 1,
        ..plan.clone()
    };
    match plan.plant {
        Plant::PromiseNotSynced => plan.powers = 3,
        Plant::StartsUnsynced => {
            (plan.through, plan.limits.through, plan.hurry) = (false, false, 4);
            (plan.slow_writes, plan.slow_disk, plan.prompt) = (false, false, true);
            (plan.restarts, plan.powers) = (3, 3);
        }
        Plant::SettingsDiffer => {
            (plan.through, plan.limits.through, plan.hurry) = (false, false, 4);
            plan.powers = 3;
        }
        Plant::Inside(Mistake::KeepsQuiet) => (plan.standbys, plan.writes, plan.hurry) = (true, 4, 4),
        Plant::Inside(Mistake::TakesAnyAnswer) => {
            (plan.spare, plan.changes, plan.writes, plan.prompt) = (2, 1, 4, false);
            (plan.limits.ring_bytes, plan.limits.read_blocks) = (0, 1);
        }
        Plant::Inside(Mistake::TrustsSetBack) => (plan.set_backs, plan.writes, plan.hurry) = (1, 4, 1),
        Plant::Amnesia => plan.wipes = 2,
        Plant::SealsNewOnly => (plan.spare, plan.changes) = (2, 2),
        Plant::Inside(Mistake::ResetsBackwards) => (plan.cuts, plan.bootstraps) = (2, 4),
        Plant::Inside(Mistake::StaleAppendCuts) => plan.repeats = 6,
        Plant::Inside(Mistake::SealsInFlight) => (plan.slow_writes, plan.restarts, plan.powers) = (true, 3, 2),
        Plant::Inside(Mistake::DropsInPlace) => (plan.slow_writes, plan.restarts, plan.powers) = (true, 2, 3),
        Plant::Inside(Mistake::StreamLeads) => {
            (plan.streams, plan.terms, plan.writes, plan.reconnects) = (2, 5, 2, 0);
            (plan.hurry, plan.prompt, plan.slow_writes, plan.through) = (8, true, false, true);
            plan.limits.through = true;
        }
        Plant::Inside(Mistake::CountsOldTerms | Mistake::LongestLog) => {
            (plan.terms, plan.hurry, plan.prompt) = (6, 12, true);
        }
        _ => {}
    }
}

/// The result of a walk.
pub struct Walked {
    pub broken: Option<&'static str>,
    pub steps: usize,
    /// Terms that led.
    pub led: usize,
    pub acknowledged: usize,
}

/// Steps of one walk at most.
const STEPS_MAX: usize = 400;

pub fn walk(seed: u64, plant: Plant, tell: bool) -> Walked {
    let mut dice = Dice::new(seed);
    let plan = plan_of(seed, &mut dice, plant);
    let weights: [u64; Kind::COUNT] = std::array::from_fn(|_| [1, 2, 4, 8][dice.below(4) as usize]);
    let mut world = World::new(&plan);
    let (mut steps, mut taken, mut broken) = (Vec::new(), 0, BTreeSet::new());
    if tell {
        eprintln!("{plan:#?}");
    }
    while taken < STEPS_MAX {
        steps.clear();
        world.steps(&plan, &mut steps);
        let Some(step) = choose(&mut dice, &steps, (&weights, plan.hurry), world.given) else { break };
        if tell {
            eprintln!("{taken}: {}", world.describe(step));
        }
        note_broken(&world, step, &mut broken);
        world.take(&plan, step);
        taken += 1;
    }
    if plant == Plant::None && world.ghosts.broken.is_none() && !world.clone().comes_to_rest(&plan) {
        world.ghosts.broken = Some("a stream waits for room that does not come");
    }
    let calms = |world: &mut World| world.calms(&plan, &mut Dice::new(seed ^ 0x6361_6c6d), broken);
    let comes_to_end = matches!(plant, Plant::None | Plant::Inside(Mistake::TakesAnyAnswer));
    let stays = if comes_to_end { calms(&mut world) } else { None };
    let ghosts = &world.ghosts;
    Walked {
        broken: ghosts.broken.or(stays),
        steps: taken,
        led: ghosts.shown.len(),
        acknowledged: ghosts.acknowledged.len(),
    }
}

/// Notes the acceptors that the newest owner has to connect to anew: messages were lost.
fn note_broken(world: &World, step: Step, broken: &mut BTreeSet<usize>) {
    match step {
        Step::Give | Step::GiveTwice | Step::Again(_) | Step::Change(..) => broken.clear(),
        Step::Lose(at) => {
            let packet = world.network.iter().nth(at);
            broken.extend(packet.map(|(Packet::To(at, _) | Packet::From(at, _))| *at));
        }
        // Otherwise the owner connects at once.
        Step::Restart(at, kept) | Step::Power(at, kept) | Step::SetBack(at, kept) if kept >> 62 & 1 == 0 => {
            broken.insert(at);
        }
        Step::Restart(at, _) | Step::Power(at, _) | Step::SetBack(at, _) => drop(broken.remove(&at)),
        Step::Reconnect(host, to) if world.is_newest(host) => drop(broken.remove(&to)),
        _ => {}
    }
}

/// One of the steps: a kind by the weights, then one of that kind.
fn choose(
    dice: &mut Dice,
    steps: &[(Kind, Step)],
    (weights, hurry): (&[u64; Kind::COUNT], u64),
    given: u32,
) -> Option<Step> {
    // Terms and faults are seldom, or nobody would ever come to lead.
    let weight = |kind: Kind| match kind {
        Kind::Term if given == 0 => 32,
        Kind::Term => hurry * weights[kind as usize],
        Kind::Process | Kind::Loss | Kind::Metadata | Kind::Network | Kind::Cut => 2 * weights[kind as usize],
        Kind::ToAcceptor | Kind::ToOwner | Kind::Disk => 32 * (1 + weights[kind as usize]),
        Kind::Record | Kind::Sync => 16 * weights[kind as usize],
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
        Step::Restart(at, _) => Step::Restart(at, dice.number()),
        Step::Power(at, _) => Step::Power(at, dice.number()),
        Step::SetBack(at, _) => Step::SetBack(at, dice.number()),
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
        number_of("HOLDFAST_SEEDS").unwrap_or(if is_long { 400_000 } else { 6_000 }),
    );
    let (mut steps, mut led, mut acknowledged) = (0, 0, 0);
    for seed in first..first.saturating_add(seeds) {
        let walked = walk(seed, Plant::None, false);
        assert_eq!(walked.broken, None, "HOLDFAST_SEED={seed} tells more");
        steps += walked.steps;
        led += walked.led;
        acknowledged += walked.acknowledged;
    }
    eprintln!("{seeds} walks, {steps} steps, {led} terms led, {acknowledged} records acknowledged");
    // Otherwise nothing was looked at.
    assert!(led as u64 > seeds && acknowledged as u64 > seeds);
}

/// Walks until a mistake is noticed.
fn finds(plant: Plant, seeds: u64, expected: &[&str]) {
    for seed in 0..seeds {
        let walked = walk(seed, plant, false);
        if let Some(why) = walked.broken {
            eprintln!("{plant:?}: {why}, seed {seed}, {} steps", walked.steps);
            assert!(expected.contains(&why), "{plant:?}: {why}");
            return;
        }
    }
    panic!("{plant:?} was not noticed in {seeds} walks");
}

const LOST: &str = "something acknowledged is lost";
const OTHERWISE: &str = "something shown has come to be otherwise";
const LATE: &str = "something is acknowledged that a later term does not have";
const TORN: &str = "a record is served without what it stands on";
const TWO: &str = "two blocks have one name";
const VERSION: &str = "a version is given that was shown as another one";
const PLACE: &str = "two blocks are committed at one place";
const TAKEN: &str = "an acceptor takes a block for committed that is not";
const BELOW: &str = "a record comes where its owner has said that none does";
const COPIES: &str = "what is committed is not on a majority of disks";
const AGAIN: &str = "an owner asks for the same blocks again and again";
const FALLS: &str = "a folder has blocks that do not follow one another";
const CHAIN: &str = "a folder has a chain that never was";

/// The interleaving is a rare one: the story `p25_a_stream_leads_alone` takes it step by step.
#[test]
#[ignore = "takes a minute"]
fn walks_notice_that_a_stream_leads_alone() {
    finds(Plant::Inside(Mistake::StreamLeads), 200_000, &[PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN]);
}

macro_rules! mistakes {
    ($($name:ident: $plant:expr, $seeds:expr, [$($expected:expr),*];)*) => {$(
        #[test]
        fn $name() {
            finds($plant, $seeds, &[$($expected),*]);
        }
    )*};
}

mistakes! {
    p1_an_acceptor_takes_lower_terms: Plant::TakesLowerTerms, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p2_a_promise_is_not_synced: Plant::PromiseNotSynced, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p3_the_longest_log_is_taken: Plant::Inside(Mistake::LongestLog), 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p4_a_shard_is_served_early: Plant::ServesEarly, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p5_a_wiped_folder_votes: Plant::Amnesia, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p6_a_stale_append_cuts: Plant::Inside(Mistake::StaleAppendCuts), 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p10_a_standby_is_shown_what_is_not_committed: Plant::Inside(Mistake::ShowsUncommitted), 100, [TAKEN];
    p21_a_version_has_no_record: Plant::VersionsWithoutRecords, 20_000, [VERSION];
    p23_only_the_new_set_is_sealed: Plant::SealsNewOnly, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p26_a_seal_is_answered_in_flight: Plant::Inside(Mistake::SealsInFlight), 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN, CHAIN];
    p27_a_reset_goes_backwards: Plant::Inside(Mistake::ResetsBackwards), 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p31_a_term_is_given_twice: Plant::TermTwice, 20_000, [TWO, PLACE, TAKEN, LOST, OTHERWISE];
    p34_owners_acknowledge_by_other_settings: Plant::SettingsDiffer, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    p35_an_acceptor_starts_unsynced: Plant::StartsUnsynced, 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    figure_8_an_old_block_is_committed_by_counting: Plant::Inside(Mistake::CountsOldTerms), 60_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN];
    a_word_outlives_its_term: Plant::Inside(Mistake::KeepsQuiet), 20_000, [BELOW];
    a_read_ends_with_any_answer: Plant::Inside(Mistake::TakesAnyAnswer), 20_000, [AGAIN, "there is always something to do"];
    an_acceptor_that_was_set_back_counts: Plant::Inside(Mistake::TrustsSetBack), 20_000, [COPIES];
    blocks_are_dropped_in_place: Plant::Inside(Mistake::DropsInPlace), 20_000, [PLACE, TAKEN, LOST, OTHERWISE, LATE, TORN, CHAIN, FALLS];
}

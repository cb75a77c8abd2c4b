//! Decides how many workers take connections: as few as carry the load.
//!
//! A needless worker costs CPU and latency: latches and data move between cores, and on a machine shared with its
//! clients it takes whole time slices of the scheduler from them. The governor cannot know beforehand whether a worker
//! pays, so it tries. It tries more workers when the active ones are saturated and the clients seem to have CPU to
//! spare. It tries fewer now and then, and when the load has changed. It takes back a change that does not pay, and
//! repeats it after ever longer rests.
//!
//! All times here are rounds *under load*: a pause of the clients proves nothing, and nothing is forgotten over it.

use std::collections::VecDeque;

/// Share of a core above which a worker counts as saturated.
const SATURATED: f64 = 0.85;
/// Share of a core that must be idle for another worker.
const SPARE: f64 = 0.3;
/// Commands per read from which on clients count as having CPU to spare, even on a machine without idle time. A
/// pipeline costs its client a fraction of the server's cost, and other processes may use the rest of the machine.
const DEEP: f64 = 4.0;
/// An added worker must raise the commands per second by at least this factor, and by more than the CPU time per
/// command, which is steady where throughput is not. One worker less must not lower them by as much.
const PAYS: f64 = 1.08;
/// Load per remaining worker up to which one is put to sleep.
const FITS: f64 = 0.6;
/// Rounds in which [`FITS`] must hold.
const CALM: u32 = 20;
/// Commands per second below which a round says nothing.
const LOADED: f64 = 1000.0;
/// Rounds without load after which the governor begins anew.
const FORGET: u32 = 600;
/// Rounds for figures to settle after a change.
const SETTLE: u32 = 3;
/// Rounds whose median is taken.
const WINDOW: usize = 5;
/// Rounds to wait after a trial that changed nothing, doubled each time.
const BACKOFF: u32 = 50;
const BACKOFF_MAX: u32 = 3000;
/// The load counts as another one when its commands per read change by this factor.
const OTHER: f64 = 1.7;

/// The figures since the last round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed {
    /// Cores that the active workers used together.
    pub busy: f64,
    /// Idle cores of the whole machine.
    pub idle: f64,
    /// Commands per second.
    pub rate: f64,
    /// Commands per read from a socket.
    pub depth: f64,
}

/// A number of workers being tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Active workers before the trial.
    from: usize,
    /// The figures with `from` workers.
    before: Observed,
}

/// The state of the decision. It is pure: figures go in, a number of workers comes out.
#[derive(Debug)]
pub struct Governor {
    most: usize,
    active: usize,
    settle: u32,
    /// The last rounds under load since the last change.
    seen: VecDeque<Observed>,
    trial: Option<Trial>,
    /// Rounds until the next trial, and the length of the rest after it.
    rest: u32,
    backoff: u32,
    /// Commands per read when the last trial was decided.
    depth: f64,
    calm: u32,
    unloaded: u32,
}

impl Governor {
    /// Begins with one worker; `most` is the upper bound.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            active: 1,
            settle: 0,
            seen: VecDeque::new(),
            trial: None,
            rest: 0,
            backoff: BACKOFF,
            depth: 0.0,
            calm: 0,
            unloaded: 0,
        }
    }

    /// Workers that take connections now.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Takes a round's figures. Returns how many workers should be active.
    pub fn round(&mut self, now: Observed) -> usize {
        if now.rate < LOADED {
            return self.round_without_load();
        }
        self.unloaded = 0;
        self.rest = self.rest.saturating_sub(1);
        if self.settle > 0 {
            self.settle -= 1;
            return self.active;
        }
        if self.seen.len() == WINDOW {
            self.seen.pop_front();
        }
        self.seen.push_back(now);
        let fits = self.active > 1 && now.busy / (self.active - 1) as f64 <= FITS;
        self.calm = if fits { self.calm + 1 } else { 0 };
        if self.calm > CALM {
            self.trial = None;
            return self.set(self.active - 1);
        }
        if self.seen.len() < WINDOW {
            return self.active;
        }
        let seen = Observed {
            busy: self.median(|o| o.busy),
            idle: self.median(|o| o.idle),
            rate: self.median(|o| o.rate),
            depth: self.median(|o| o.depth),
        };
        if let Some(trial) = self.trial.take() {
            return self.decide(trial, seen);
        }
        if self.depth > 0.0 && (seen.depth > self.depth * OTHER || seen.depth * OTHER < self.depth) {
            // The knowledge so far is about another load.
            (self.rest, self.backoff, self.depth) = (0, BACKOFF, 0.0);
        }
        if self.rest > 0 {
            return self.active;
        }
        let saturated = seen.busy / self.active as f64 >= SATURATED;
        if saturated && self.active < self.most && (seen.idle > SPARE || seen.depth >= DEEP) {
            // Half as many again: on a large machine single steps would take too long.
            let step = (self.active / 2).max(1);
            return self.attempt((self.active + step).min(self.most), seen);
        }
        if self.active > 1 && seen.idle < SPARE {
            // Workers and clients contend for the machine.
            return self.attempt(self.active - 1, seen);
        }
        self.active
    }

    fn round_without_load(&mut self) -> usize {
        self.unloaded += 1;
        if self.unloaded == FORGET {
            *self = Self::new(self.most);
        } else if self.trial.is_some() || self.unloaded == 1 {
            // Rounds before and after a pause are not compared.
            if let Some(trial) = self.trial.take() {
                self.active = trial.from;
            }
            self.seen.clear();
            self.settle = SETTLE;
        }
        self.active
    }

    fn median(&self, of: impl Fn(&Observed) -> f64) -> f64 {
        let mut values: Vec<f64> = self.seen.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }

    fn attempt(&mut self, active: usize, seen: Observed) -> usize {
        self.trial = Some(Trial { from: self.active, before: seen });
        self.set(active)
    }

    fn decide(&mut self, trial: Trial, seen: Observed) -> usize {
        self.depth = seen.depth;
        let added = self.active > trial.from;
        let (fewer, more) = if added { (trial.before, seen) } else { (seen, trial.before) };
        let dearer = (more.busy * fewer.rate) / (fewer.busy * more.rate).max(f64::MIN_POSITIVE);
        let pays = more.rate >= fewer.rate * PAYS.max(dearer);
        if pays == added {
            self.backoff = BACKOFF;
            // The next step in this direction may pay, too. After that the other direction is tried later.
            self.rest = if added && self.active < self.most { 0 } else { BACKOFF };
            return self.active;
        }
        self.rest = self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        self.set(trial.from)
    }

    fn set(&mut self, active: usize) -> usize {
        self.active = active.clamp(1, self.most);
        self.settle = SETTLE;
        self.calm = 0;
        self.seen.clear();
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Commands per second with one worker.
    const ONE: f64 = 1e6;

    /// A machine of two cores shared with the clients: a second worker multiplies the throughput by `gain`.
    fn shared(workers: usize, gain: f64, depth: f64) -> Observed {
        match workers {
            1 => Observed { busy: 0.96, idle: 0.1, rate: ONE, depth },
            _ => Observed { busy: 0.96 * 1.05 * gain, idle: 0.0, rate: ONE * gain, depth },
        }
    }

    fn run(governor: &mut Governor, rounds: usize, seen: impl Fn(usize) -> Observed) {
        for _ in 0..rounds {
            let seen = seen(governor.active());
            governor.round(seen);
        }
    }

    /// Mean commands per second over `rounds`, and rounds with more than one worker.
    fn mean(governor: &mut Governor, rounds: usize, seen: impl Fn(usize, usize) -> Observed) -> (f64, usize) {
        let (mut sum, mut with_more) = (0.0, 0);
        for i in 0..rounds {
            let seen = seen(i, governor.active());
            sum += seen.rate;
            with_more += usize::from(governor.active() > 1);
            governor.round(seen);
        }
        (sum / rounds as f64, with_more)
    }

    #[test]
    fn one_worker_carries_a_light_load() {
        let mut g = Governor::new(8);
        run(&mut g, 1000, |_| Observed { busy: 0.5, idle: 7.0, rate: 1e5, depth: 1.0 });
        assert_eq!(g.active(), 1);
    }

    #[test]
    fn grows_while_it_pays_and_shrinks_with_the_load() {
        let mut g = Governor::new(16);
        let light =
            |n: usize| Observed { busy: n as f64, idle: 32.0 - 2.0 * n as f64, rate: n as f64 * ONE, depth: 1.0 };
        run(&mut g, 80, light);
        assert_eq!(g.active(), 16);
        run(&mut g, 1000, |_| Observed { busy: 0.2, idle: 31.0, rate: 1e4, depth: 1.0 });
        assert_eq!(g.active(), 1);
    }

    #[test]
    fn takes_back_what_does_not_pay() {
        let mut g = Governor::new(2);
        let (_, with_two) =
            mean(&mut g, 2000, |_, n| Observed { busy: 0.95 * n as f64, idle: 0.5, rate: ONE, depth: 1.0 });
        assert!(with_two < 80, "{with_two} of 2000 rounds with a worker that does not pay");
    }

    #[test]
    fn a_worker_that_costs_more_than_it_brings_does_not_pay() {
        let mut g = Governor::new(2);
        let (_, with_two) = mean(&mut g, 2000, |_, n| Observed {
            busy: if n == 1 { 0.95 } else { 1.9 },
            idle: 0.5,
            rate: if n == 1 { ONE } else { ONE * 1.2 },
            depth: 16.0,
        });
        assert!(with_two < 80, "{with_two} of 2000 rounds");
    }

    #[test]
    fn does_not_grow_into_the_clients_cores() {
        let mut g = Governor::new(2);
        let (_, with_two) = mean(&mut g, 2000, |_, n| shared(n, 1.0, 1.0));
        assert_eq!(with_two, 0);
    }

    #[test]
    fn tries_another_worker_for_deep_pipelines_on_a_busy_machine() {
        let mut g = Governor::new(2);
        let (rate, _) = mean(&mut g, 3000, |_, n| shared(n, 1.25, 16.0));
        assert!(rate > 1.22 * ONE, "{rate}");
    }

    #[test]
    fn comes_back_when_the_load_is_another_one() {
        let mut g = Governor::new(2);
        run(&mut g, 500, |n| shared(n, 1.25, 16.0));
        assert_eq!(g.active(), 2);
        run(&mut g, 20, |n| shared(n, 1.0, 1.0));
        assert_eq!(g.active(), 1);
        run(&mut g, 20, |n| shared(n, 1.25, 16.0));
        assert_eq!(g.active(), 2);
    }

    #[test]
    fn a_pause_forgets_nothing_and_a_long_one_everything() {
        let mut g = Governor::new(2);
        run(&mut g, 100, |n| shared(n, 1.25, 16.0));
        run(&mut g, 100, |_| Observed { idle: 2.0, ..Default::default() });
        assert_eq!(g.active(), 2);
        run(&mut g, 600, |_| Observed { idle: 2.0, ..Default::default() });
        assert_eq!(g.active(), 1);
    }

    #[test]
    fn a_pause_in_a_trial_ends_it() {
        let mut g = Governor::new(2);
        run(&mut g, 6, |n| shared(n, 1.25, 16.0));
        assert_eq!(g.active(), 2);
        run(&mut g, 1, |_| Observed::default());
        assert_eq!(g.active(), 1);
    }

    proptest! {
        /// With any effect of a second worker on the throughput, and with noisy figures, the governor is not far from
        /// the better of both numbers.
        #[test]
        fn is_near_the_better(gain in 0.5f64..2.0, shakes in prop::collection::vec(0.9f64..1.1, 3000)) {
            let mut g = Governor::new(2);
            let (rate, _) = mean(&mut g, 3000, |i, n| {
                let seen = shared(n, gain, 16.0);
                Observed { rate: seen.rate * shakes[i], ..seen }
            });
            prop_assert!(rate > 0.9 * ONE * gain.max(1.0), "{} of {}", rate / ONE, gain.max(1.0));
        }

        /// No figures lead outside the bounds.
        #[test]
        fn stays_within_its_bounds(
            most in 1usize..20,
            rounds in prop::collection::vec((0f64..20.0, 0f64..20.0, 0f64..1e7, 0f64..100.0), 0..300),
        ) {
            let mut g = Governor::new(most);
            for (busy, idle, rate, depth) in rounds {
                let active = g.round(Observed { busy, idle, rate, depth });
                prop_assert!((1..=most).contains(&active));
            }
        }
    }
}

//! How many workers take connections: as few as carry the load.
//!
//! A worker more than needed costs CPU and latency: latches and data move between cores, and on a machine shared with its
//! clients it takes from them. So workers are added one at a time, only when those there are saturated and the machine has
//! CPU to spare, and an addition that does not pay is taken back and not tried again for a while.

/// Share of a core above which a worker counts as saturated.
const SATURATED: f64 = 0.9;
/// Share of a core that must be idle for another worker.
const SPARE: f64 = 0.4;
/// An added worker must raise the commands per second at least this much.
const PAYS: f64 = 1.08;
/// Load per remaining worker up to which one is put to sleep.
const FITS: f64 = 0.6;
/// Rounds that figures settle after a change.
const SETTLE: u32 = 3;
/// Rounds to wait after an addition that did not pay, doubled each time.
const BACKOFF: u32 = 50;
const BACKOFF_MAX: u32 = 3000;

/// What was observed since the last round.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Cores the active workers used together.
    pub busy: f64,
    /// Cores idle on the whole machine.
    pub idle: f64,
    /// Commands per second.
    pub rate: f64,
}

/// The state of the decision. Pure: figures in, a number of workers out.
#[derive(Debug)]
pub struct Governor {
    most: usize,
    active: usize,
    settle: u32,
    /// Commands per second before the last addition, while it is on trial.
    trial: Option<f64>,
    rest: u32,
    backoff: u32,
    calm: u32,
}

impl Governor {
    /// Begins with one worker; `most` is the bound.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), active: 1, settle: 0, trial: None, rest: 0, backoff: BACKOFF, calm: 0 }
    }

    /// Workers that take connections now.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Takes a round's figures and says how many workers should be active.
    pub fn round(&mut self, seen: Observed) -> usize {
        self.rest = self.rest.saturating_sub(1);
        if self.settle > 0 {
            self.settle -= 1;
            return self.active;
        }
        if let Some(before) = self.trial.take() {
            if seen.rate < before * PAYS {
                self.rest = self.backoff;
                self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
                return self.set(self.active - 1);
            }
            self.backoff = BACKOFF;
        }
        let per_worker = seen.busy / self.active as f64;
        if per_worker > SATURATED && seen.idle > SPARE && self.active < self.most && self.rest == 0 {
            self.trial = Some(seen.rate);
            return self.set(self.active + 1);
        }
        let fits = self.active > 1 && seen.busy / (self.active - 1) as f64 <= FITS;
        self.calm = if fits { self.calm + 1 } else { 0 };
        if self.calm > 20 {
            self.calm = 0;
            return self.set(self.active - 1);
        }
        self.active
    }

    fn set(&mut self, active: usize) -> usize {
        self.active = active.clamp(1, self.most);
        self.settle = SETTLE;
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(governor: &mut Governor, rounds: usize, seen: impl Fn(usize) -> Observed) {
        for _ in 0..rounds {
            let seen = seen(governor.active());
            governor.round(seen);
        }
    }

    #[test]
    fn one_worker_carries_a_light_load() {
        let mut g = Governor::new(8);
        run(&mut g, 1000, |_| Observed { busy: 0.5, idle: 7.0, rate: 1000.0 });
        assert_eq!(g.active(), 1);
    }

    #[test]
    fn grows_while_it_pays_and_shrinks_when_the_load_is_gone() {
        let mut g = Governor::new(8);
        run(&mut g, 100, |n| Observed { busy: n as f64, idle: 16.0 - 2.0 * n as f64, rate: n as f64 * 1e6 });
        assert_eq!(g.active(), 8);
        run(&mut g, 1000, |_| Observed { busy: 0.2, idle: 15.0, rate: 1000.0 });
        assert_eq!(g.active(), 1);
    }

    #[test]
    fn takes_back_what_does_not_pay() {
        let mut g = Governor::new(2);
        let mut with_two = 0;
        for _ in 0..2000 {
            let n = g.active();
            with_two += usize::from(n == 2);
            g.round(Observed { busy: n as f64, idle: 0.5, rate: 1e6 });
        }
        assert!(with_two < 60, "{with_two} of 2000 rounds with a worker that does not pay");
    }

    #[test]
    fn does_not_grow_into_the_clients_cores() {
        let mut g = Governor::new(2);
        run(&mut g, 1000, |_| Observed { busy: 1.0, idle: 0.1, rate: 1e6 });
        assert_eq!(g.active(), 1);
    }
}

//! Estimates of a checkpoint: how long the running one will take, and which share of a core it needs to end in time.
//! They come from its progress and from the cost of earlier ones.

/// The assumed cost of the first checkpoint, in nanoseconds for a byte of the tail.
const COST: f64 = 7.0;
/// The assumed part of the first checkpoint that is done when all slots have been walked.
const WALK: f64 = 0.7;
/// The progress from which on it predicts the rest.
const TELLING_PROGRESS: f64 = 0.03;
/// Smaller tails say nothing about the cost of larger ones.
const TELLING: u64 = 4 << 20;
/// At least one in so many parts of the known cost counts as still to come.
const REST: u64 = 8;
/// The least that is left, in nanoseconds.
const LEAST_NS: u64 = 20_000_000;
/// Nanoseconds between two looks at the growth of the log.
const RATE_NS: u64 = 50_000_000;
/// Percent of the needed share that a checkpoint gets: while only earlier ones tell the need, and once its own
/// progress does.
const MARGIN: f64 = 140.0;
const MARGIN_KNOWN: f64 = 115.0;

/// See the module's text. Sizes and positions are those of the log's tail; times are monotonic, in nanoseconds.
#[derive(Debug)]
pub struct Effort {
    /// Nanoseconds of work for a byte of the tail.
    cost: f64,
    /// Which part of it is done when all slots have been walked over.
    walk: f64,
    /// The checkpoint under way.
    round: Option<Round>,
    /// When the log was looked at, and where it was.
    seen: Option<(u64, u64)>,
    /// Bytes that it grows in a nanosecond.
    rate: f64,
}

#[derive(Debug)]
struct Round {
    began: u64,
    /// The tail then.
    tail: u64,
    /// Work done.
    spent: u64,
    /// How much of the slots has been walked over, from 0 to 1, and the work that was done when that moved last.
    progress: f64,
    walked: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { cost: COST, walk: WALK, round: None, seen: None, rate: 0.0 }
    }
}

impl Effort {
    /// A checkpoint begins at this position of the log, with a tail of so many bytes.
    pub fn begin(&mut self, position: u64, tail: u64) {
        self.round = Some(Round { began: position, tail, spent: 0, progress: 0.0, walked: 0 });
    }

    /// It has worked for `took` nanoseconds; so much of the slots has been walked over, from 0 to 1.
    pub fn spent(&mut self, took: u64, progress: f64) {
        if let Some(round) = &mut self.round {
            round.spent += took;
            if progress > round.progress {
                (round.progress, round.walked) = (progress, round.spent);
            }
        }
    }

    /// It has ended, and whether well.
    pub fn end(&mut self, well: bool) {
        if let Some(round) = self.round.take().filter(|round| well && round.tail >= TELLING) {
            // The last one says most.
            self.cost = (self.cost + 3.0 * round.spent as f64 / round.tail as f64) / 4.0;
            let walk = round.walked as f64 / round.spent.max(1) as f64;
            self.walk = ((self.walk + 3.0 * walk) / 4.0).clamp(0.1, 0.95);
        }
    }

    /// True if one is under way.
    pub fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// Nanoseconds of work of the one under way so far, and percent of them up to where the walk over the slots is.
    pub fn work(&self) -> (u64, u64) {
        self.round.as_ref().map_or((0, 0), |round| (round.spent, 100 * round.walked / round.spent.max(1)))
    }

    /// The position of the log, in bytes, when the one under way began.
    pub fn began(&self) -> Option<u64> {
        self.round.as_ref().map(|round| round.began)
    }

    /// The log is at this position in bytes, at `now` in nanoseconds.
    pub fn saw(&mut self, now: u64, position: u64) {
        match self.seen {
            Some((at, _)) if now.saturating_sub(at) < RATE_NS => {}
            Some((at, before)) => {
                let rate = position.saturating_sub(before) as f64 / (now - at) as f64;
                self.rate = (self.rate + rate) / 2.0;
                self.seen = Some((now, position));
            }
            None => self.seen = Some((now, position)),
        }
    }

    /// Work that is left of the one under way, and the least that may be.
    fn left(&self) -> Option<(u64, u64)> {
        let round = self.round.as_ref()?;
        let whole = match round.progress {
            little if little < TELLING_PROGRESS => self.cost * round.tail as f64,
            progress => round.walked as f64 / (self.walk * progress),
        } as u64;
        let least = (whole.max(round.spent) / REST).max(LEAST_NS);
        Some((whole.saturating_sub(round.spent).max(least), least))
    }

    /// When the running checkpoint ends if it never sleeps, and the least time that is left at any moment, both in
    /// nanoseconds. Zeros: none runs.
    pub fn ends_at(&self, now: u64) -> (u64, u64) {
        self.left().map_or((0, 0), |(left, least)| (now + left, least))
    }

    /// Percent of a core that it needs to end before the log has grown by `room` bytes.
    pub fn share(&self, room: u64) -> u64 {
        let Some((left, _)) = self.left() else { return 0 };
        let is_known = self.round.as_ref().is_some_and(|round| round.progress >= TELLING_PROGRESS);
        let margin = if is_known { MARGIN_KNOWN } else { MARGIN };
        let time = room as f64 / self.rate.max(f64::MIN_POSITIVE);
        (margin * left as f64 / time.max(1.0)).min(100.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const MS: u64 = 1_000_000;

    #[test]
    fn the_next_one_is_thought_to_cost_what_the_last_ones_did() {
        let mut effort = Effort::default();
        assert_eq!((effort.ends_at(5), effort.share(1)), ((0, 0), 0));
        for _ in 0..8 {
            effort.begin(0, 100 * MB);
            effort.spent(1_600 * MS, 1.0);
            effort.spent(400 * MS, 1.0);
            effort.end(true);
        }
        effort.begin(0, 50 * MB);
        let (ends_at, _) = effort.ends_at(7);
        assert!((990 * MS..1_010 * MS).contains(&ends_at), "{ends_at}");
        // It is slower than the others: half of the walk should have taken 0.4 s, and a fifth of all is left when it
        // has ended.
        effort.spent(800 * MS, 0.5);
        let (ends_at, _) = effort.ends_at(0);
        assert!((1_190 * MS..1_210 * MS).contains(&ends_at), "{ends_at}");
        // Some is always left, whatever was thought.
        for _ in 0..10 {
            let (ends_at, least) = effort.ends_at(0);
            assert!(ends_at >= least && least >= 100 * MS);
            effort.spent(500 * MS, 1.0);
        }
    }

    #[test]
    fn failed_and_small_ones_say_nothing() {
        let mut effort = Effort::default();
        for (tail, well) in [(100 * MB, false), (1000, true)] {
            effort.begin(0, tail);
            effort.spent(90_000 * MS, 1.0);
            effort.end(well);
        }
        assert_eq!(effort.cost, COST);
        assert!(!effort.is_under_way() && effort.began().is_none());
    }

    #[test]
    fn it_takes_as_much_of_a_core_as_it_needs() {
        let mut effort = Effort { cost: 10.0, ..Effort::default() };
        // 100 MB a second.
        for i in 0..20 {
            effort.saw(i * 100 * MS, i * 10 * MB);
        }
        effort.begin(0, 100 * MB);
        // About a second of work, and ten until the room is gone.
        let share = effort.share(1000 * MB);
        assert!((13..16).contains(&share), "{share}");
        assert!(effort.share(140 * MB) >= 99);
        assert_eq!(effort.share(0), 100);
        // It needs as long as was thought, and that is known then.
        effort.spent(70 * MS, 0.1);
        let share = effort.share(1000 * MB);
        assert!((9..12).contains(&share), "{share}");
    }
}

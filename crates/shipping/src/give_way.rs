//! The speed of a shipment beside clients: as fast as allowed, unless they wait longer for the disk than they do
//! without it. Pure: time and waits are handed in.
//!
//! Every two seconds it rests for a moment, if there are clients. What clients wait then is what they wait without it,
//! whatever they do. A comparison with the time before the shipment would blame it for a load that has grown meanwhile.
//! While clients wait half as long again, it gets slower by a quarter each tenth of a second. Otherwise it gets faster
//! step by step.

use crate::pace::Waited;

const MS: u64 = 1_000_000;

/// Nanoseconds between two decisions.
const LOOK: u64 = 100 * MS;
/// Bytes that are under way when a rest begins have so many nanoseconds to end. Then clients are alone for [`REST`].
const SETTLE: u64 = 50 * MS;
const REST: u64 = 100 * MS;
/// Decisions between two rests.
const LOOKS: u32 = 20;
/// Fewer waits say nothing.
const TELLING: u64 = 10;
/// One in so many parts of the limit is what it gets faster by at once.
const STEP: u64 = 64;
/// Bytes a second at least.
const LEAST: u64 = 8 << 20;
/// It ends in so many nanoseconds, if the limit allows that: the owner's log waits for the copy, ten minutes at most.
const ENDS_IN: u64 = 420_000 * MS;

/// The sender's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Nothing is sent for so many nanoseconds.
    Rest(u64),
    /// Bytes a second that may be sent.
    Send(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Settles,
    Rests,
    /// So many more decisions before it rests again.
    Sends(u32),
}

/// See the module's text. Times are nanoseconds of one clock.
#[derive(Debug)]
pub(crate) struct GiveWay {
    began: u64,
    phase: Phase,
    /// When the phase, or the time since the last decision, began, and what clients had waited then.
    since: (u64, Waited),
    /// Nanoseconds that a client waits while nothing is sent. 0: unknown, or none waits.
    alone: u64,
    /// Waits that say nothing yet, as there are few: while nothing is sent, and beside what is.
    few: (Waited, Waited),
    /// None: as fast as allowed.
    speed: Option<u64>,
}

impl GiveWay {
    /// A shipment begins. It rests soon.
    pub(crate) fn new(now: u64, waited: Waited) -> Self {
        let few = (Waited::default(), Waited::default());
        Self { began: now, phase: Phase::Sends(0), since: (now, waited), alone: 0, few, speed: None }
    }

    /// What to do at `now`, if `most` bytes a second may be sent, and `left` bytes remain.
    pub(crate) fn look(&mut self, now: u64, waited: Waited, most: u64, left: u64) -> Order {
        let lasts = match self.phase {
            Phase::Settles => SETTLE,
            Phase::Rests => REST,
            Phase::Sends(_) => LOOK,
        };
        let passed = now.saturating_sub(self.since.0);
        if passed >= lasts {
            let took = waited.since(self.since.1);
            self.phase = match self.phase {
                Phase::Settles => Phase::Rests,
                Phase::Rests => {
                    self.rested(took);
                    Phase::Sends(LOOKS)
                }
                Phase::Sends(looks) => {
                    self.sent(took, most);
                    match (looks, took.times) {
                        (0, 1..) => Phase::Settles,
                        _ => Phase::Sends(looks.saturating_sub(1)),
                    }
                }
            };
            self.since = (now, waited);
        }
        match self.phase {
            Phase::Settles => Order::Rest(SETTLE.saturating_sub(now.saturating_sub(self.since.0))),
            Phase::Rests => Order::Rest(REST.saturating_sub(now.saturating_sub(self.since.0))),
            Phase::Sends(_) => {
                let speed = self.speed.unwrap_or(most).max(self.least(now, left)).min(most);
                Order::Send(speed)
            }
        }
    }

    /// Clients were alone.
    fn rested(&mut self, took: Waited) {
        let Some(each) = self.few.0.with(took) else { return };
        self.alone = match self.alone {
            0 => each,
            // A moment may have been slow for another reason: a checkpoint, a neighbour.
            alone if each > alone => alone + (each - alone) / 8,
            alone => alone - (alone - each) / 2,
        };
    }

    /// Bytes were sent beside clients.
    fn sent(&mut self, took: Waited, most: u64) {
        let speed = self.speed.unwrap_or(most).min(most);
        let each = self.few.1.with(took);
        let is_felt = self.alone > 0 && each.is_some_and(|each| each > self.alone + self.alone / 2);
        let speed = if is_felt { (speed / 4 * 3).max(LEAST) } else { speed + most / STEP };
        self.speed = Some(speed).filter(|speed| *speed < most);
    }

    /// Bytes a second with which it ends in time, and at least [`LEAST`].
    fn least(&self, now: u64, left: u64) -> u64 {
        let time = ENDS_IN.saturating_sub(now.saturating_sub(self.began)).max(1);
        let needed = u128::from(left) * 1_000_000_000 / u128::from(time);
        u64::try_from(needed).unwrap_or(u64::MAX).max(LEAST)
    }
}

impl Waited {
    fn since(self, before: Self) -> Self {
        // A log that began anew counts anew.
        Self { times: self.times.saturating_sub(before.times), ns: self.ns.saturating_sub(before.ns) }
    }

    /// Nanoseconds of each wait, of these and some more, once they say something. Then they are counted anew.
    fn with(&mut self, more: Self) -> Option<u64> {
        (self.times, self.ns) = (self.times + more.times, self.ns + more.ns);
        if self.times < TELLING {
            return None;
        }
        let sum = std::mem::take(self);
        Some((sum.ns / sum.times).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 64 << 20;

    /// Clients who commit a thousand times a second. A commit takes 1 ms, and longer the faster a shipment is above
    /// what the disk has to spare.
    struct Disk {
        spare: u64,
        usual: u64,
        waited: Waited,
    }

    impl Disk {
        fn new(spare: u64) -> Self {
            Self { spare, usual: MS, waited: Waited::default() }
        }

        fn passes(&mut self, ns: u64, speed: u64) {
            let times = ns / MS;
            self.waited.times += times;
            self.waited.ns += times * (self.usual + self.usual * speed.saturating_sub(self.spare) / (8 << 20));
        }
    }

    /// Ships in steps of 10 ms. Returns the seconds that it took, the speed of each step, and how often clients have
    /// waited for longer than twice the usual.
    fn ship(bytes: u64, mut disk: Disk, changes: impl Fn(&mut Disk, u64)) -> (u64, Vec<u64>, usize) {
        let (mut now, mut left, mut speeds, mut slow) = (7 * MS, bytes, Vec::new(), 0);
        let mut way = GiveWay::new(now, disk.waited);
        while left > 0 {
            changes(&mut disk, now);
            let before = disk.waited;
            let (ns, speed) = match way.look(now, disk.waited, MOST, left) {
                Order::Rest(ns) => (ns.max(1), 0),
                Order::Send(speed) => (10 * MS, speed),
            };
            disk.passes(ns, speed);
            let took = disk.waited.since(before);
            slow += usize::from(took.ns > took.times * 2 * disk.usual);
            left = left.saturating_sub(speed / 100);
            speeds.extend(Some(speed).filter(|speed| *speed > 0));
            now += ns;
            assert!(speeds.len() < 1_000_000, "it does not end");
        }
        (now / 1_000_000_000, speeds, slow)
    }

    fn mean(speeds: &[u64]) -> u64 {
        speeds.iter().sum::<u64>() / speeds.len() as u64
    }

    #[test]
    fn it_is_as_fast_as_allowed_where_clients_do_not_feel_it() {
        let (seconds, speeds, slow) = ship(1 << 30, Disk::new(MOST), |_, _| ());
        assert!(speeds.iter().all(|speed| *speed == MOST));
        // 16 s, and a fourteenth for rests.
        assert_eq!((seconds, slow), (17, 0));
        // No client is there.
        let (_, speeds, _) = ship(1 << 30, Disk::new(0), |disk, _| disk.waited = Waited::default());
        assert!(speeds.iter().all(|speed| *speed == MOST));
    }

    #[test]
    fn it_finds_what_the_disk_has_to_spare() {
        let (_, speeds, slow) = ship(2 << 30, Disk::new(24 << 20), |_, _| ());
        let later = &speeds[speeds.len() / 8..];
        assert!((22 << 20..30 << 20).contains(&mean(later)), "{}", mean(later));
        assert!(slow * 20 < speeds.len(), "{slow} of {}", speeds.len());
    }

    #[test]
    fn a_load_that_grows_is_not_blamed_on_it_for_long() {
        // Clients wait three times as long from the fifth second on, with or without it.
        let (_, speeds, _) =
            ship(4 << 30, Disk::new(MOST), |disk, now| disk.usual = if now < 5_000 * MS { MS } else { 3 * MS });
        let last = &speeds[speeds.len() * 3 / 4..];
        assert!(last.iter().all(|speed| *speed == MOST), "{}", mean(last));
    }

    #[test]
    fn it_ends_in_time_whatever_clients_feel() {
        let (seconds, speeds, _) = ship(1 << 30, Disk::new(0), |_, _| ());
        assert!((100..150).contains(&seconds), "{seconds}: at the least speed");
        assert!(speeds.iter().all(|speed| *speed >= LEAST));
        let (seconds, ..) = ship(10 << 30, Disk::new(0), |_, _| ());
        assert!((400..450).contains(&seconds), "{seconds}: 24 MB a second are needed");
        let (_, speeds, _) = ship(40 << 30, Disk::new(0), |_, _| ());
        assert!(speeds.iter().all(|speed| *speed == MOST), "it would take too long already");
    }

    #[test]
    fn few_waits_say_nothing_until_there_are_more() {
        let (mut way, mut now, mut waited) = (GiveWay::new(0, Waited::default()), 0, Waited::default());
        let mut look = |after: u64, times: u64, each: u64| {
            now += after;
            (waited.times, waited.ns) = (waited.times + times, waited.ns + times * each);
            way.look(now, waited, MOST, MOST)
        };
        let few = TELLING - 1;
        assert_eq!(look(LOOK, 0, 0), Order::Send(MOST), "no client is there: no rest");
        assert_eq!(look(LOOK, few, MS), Order::Rest(SETTLE));
        assert_eq!(look(SETTLE, few, MS), Order::Rest(REST));
        assert_eq!(look(REST, few, MS), Order::Send(MOST));
        // They say nothing, as it is not known how long clients wait without it.
        (0..LOOKS).for_each(|_| assert_eq!(look(LOOK, few, 100 * MS), Order::Send(MOST)));
        assert_eq!(look(LOOK, few, 100 * MS), Order::Rest(SETTLE));
        assert_eq!(look(SETTLE, few, MS), Order::Rest(REST));
        assert_eq!(look(REST, few, MS), Order::Send(MOST), "now it is known");
        let sent: Vec<Order> = (0..4).map(|_| look(LOOK, few, 100 * MS)).collect();
        assert!(sent.iter().all(|order| matches!(order, Order::Send(speed) if *speed <= MOST)));
        assert!(matches!(sent[3], Order::Send(speed) if speed < MOST), "{sent:?}");
        // The limit holds, whatever it is.
        way.look(now, waited, 3, MOST);
        assert_eq!(way.look(now, waited, 3, MOST), Order::Send(3));
    }
}

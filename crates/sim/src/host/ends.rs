//! A machine stops, and another one starts with the disks it left.

use redolog::Lsn;

use super::Host;
use super::faults::Faults;
use crate::hardware::Stop;
use crate::invariants::{Restart, Verdict, Violation, acknowledged, cut, digest, revived, store, truncation};
use crate::machine::{Machine, NoStart, Start};
use crate::note;
use crate::story::Story;

/// Starts that the power may interrupt.
const STARTS: usize = 6;

/// The knowledge when a machine has stopped.
pub struct Ended {
    stop: Stop,
    marks: Vec<Lsn>,
    synced: Vec<Lsn>,
    log_failed: bool,
    is_quiet: bool,
}

impl Ended {
    /// How it stopped.
    pub fn stop(&self) -> Stop {
        self.stop
    }
}

impl Host {
    /// The machine stops and starts again, perhaps after some attempts. `is_quiet`: every request has been answered.
    /// Returns whether acknowledged writes must be there.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn restart(&mut self, is_quiet: bool, story: &mut Story) -> Result<bool, Violation> {
        let ended = self.end(is_quiet, story)?;
        let (machine, start, has_failed) = self.start(story)?;
        self.succeed(ended, (machine, start, has_failed), story)
    }

    /// The machine stops.
    ///
    /// # Errors
    ///
    /// The log is damaged.
    pub fn end(&mut self, is_quiet: bool, story: &mut Story) -> Result<Ended, Violation> {
        let stop = match story.chance.below(3) {
            0 if !self.hardware.is_dead() => Stop::Kill,
            _ => Stop::Power,
        };
        self.machine.interrupt_flights(&self.hardware.disks, &mut story.chance);
        self.read_ledger()?;
        let marks = self.machine.marks();
        let synced = (0..self.machine.log.streams()).map(|stream| self.machine.log.synced(stream)).collect();
        let log_failed = self.has_failed();
        note!(story.trace, "{stop:?}, quiet: {is_quiet}, {marks:?}");
        self.hardware.stop(stop, &mut story.chance);
        story.counts.crashes += 1;
        story.counts.cooled += self.machine.cooled();
        Ok(Ended { stop, marks, synced, log_failed, is_quiet })
    }

    /// Another machine has started, and serves from now on. `has_failed`: the power has failed meanwhile. Returns whether
    /// acknowledged writes must be there.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn succeed(
        &mut self,
        ended: Ended,
        (machine, start, has_failed): (Machine, Start, bool),
        story: &mut Story,
    ) -> Result<bool, Violation> {
        let Ended { stop, marks, synced, log_failed, is_quiet } = ended;
        let was_weak = self.machine.process.promise().was_weak;
        let keeps_promises = !was_weak || stop == Stop::Kill && !has_failed;
        (self.faults, self.backup) = (Faults::default(), None);
        let before = std::mem::replace(&mut self.machine, machine);
        let before = (is_quiet && keeps_promises && !log_failed).then(|| before.into_digests()).transpose();
        let before = before.map_err(|what| Violation { rule: "store", what })?;
        let found = self.ledger.of_this_life(&start.found);
        let restart = Restart {
            marks: &marks,
            synced: &synced,
            keeps_promises,
            written: self.ledger.fresh(),
            found: &found,
            start: &start,
        };
        if !self.plan.clients_only {
            check(&restart)?;
        }
        story.counts.lost += restart.lost();
        let model = self.ledger.settle(&start.ends).map_err(|what| Violation { rule: "digest", what })?;
        if !self.plan.clients_only {
            digest::check(&start, &model, before.as_ref())?;
        }
        note!(story.trace, "started: {:?} {:?} {model:?}", start.bases, start.ends);
        story.counts.starts += 1;
        self.plant();
        Ok(keeps_promises)
    }

    /// Starts until a start comes to its end. True if the power has failed meanwhile.
    fn start(&mut self, story: &mut Story) -> Result<(Machine, Start, bool), Violation> {
        if story.once_in(6) {
            let ms = story.chance.below(5_000);
            note!(story.trace, "the clock is set back by {ms} ms");
            self.hardware.clock.set_back_ms(ms);
        }
        for attempt in 0.. {
            if attempt < STARTS && story.once_in(3) {
                self.hardware.plan_power_failure(&mut story.chance, 30);
            }
            match Machine::start(&self.hardware, &self.plan, &mut story.chance) {
                Ok((machine, start)) => return Ok((machine, start, attempt > 0)),
                Err(NoStart::Refused(_)) if self.hardware.is_full() => self.make_room(story),
                Err(NoStart::Refused(why)) => {
                    return Err(Violation { rule: "start", what: format!("the server does not start: {why}") });
                }
                Err(NoStart::Power) => {
                    note!(story.trace, "the power fails during the start");
                    self.hardware.stop(Stop::Power, &mut story.chance);
                    story.counts.crashes += 1;
                }
            }
        }
        Err(Violation { rule: "start", what: "no end of it".into() })
    }
}

fn check(restart: &Restart<'_>) -> Verdict {
    acknowledged::check(restart)?;
    revived::check(restart)?;
    cut::check(restart)?;
    store::check(restart)?;
    truncation::check(restart)
}

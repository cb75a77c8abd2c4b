//! A host: disks and a clock, the machine that is on at present, and the ledger of all that was written to its log.

mod backup;
mod ends;
mod faults;

use backup::Backup;
pub use ends::Ended;
use faults::Faults;
use node::Token;
use redolog::{After, Lsn};

use crate::hardware::Hardware;
use crate::invariants::{Verdict, Violation, truncation, violated};
use crate::ledger::{Ledger, Records};
use crate::machine::checkpoints::Progress;
use crate::machine::fetching::LOADERS;
use crate::machine::{Machine, Sent};
use crate::note;
use crate::plan::Plan;
use crate::story::Story;

/// Which bytes were sent to which connection.
pub type Mail = Vec<(usize, Token, Sent)>;

/// See the module's text.
pub struct Host {
    plan: Plan,
    /// The parts that exist while the machine is off.
    pub hardware: Hardware,
    /// The parts that exist while the machine is on.
    pub machine: Machine,
    ledger: Ledger,
    faults: Faults,
    backup: Option<Backup>,
}

impl Host {
    /// A host whose disks are empty, and which is on.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn new(plan: &Plan, story: &mut Story) -> Result<Self, Violation> {
        Self::with(Hardware::new(plan.streams), plan, story)
    }

    /// As [`Self::new`], with empty disks that are given.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn with(hardware: Hardware, plan: &Plan, story: &mut Story) -> Result<Self, Violation> {
        let ledger = Ledger::new(plan.streams, hardware.clock.unix_ms());
        let machine = match Machine::start(&hardware, plan, &mut story.chance) {
            Ok((machine, _)) => machine,
            Err(why) => {
                return Err(Violation { rule: "start", what: format!("the first start fails: {why:?}") });
            }
        };
        let host = Self { plan: plan.clone(), hardware, machine, ledger, faults: Faults::default(), backup: None };
        host.plant();
        Ok(host)
    }

    /// A worker takes a turn.
    pub fn turn(&mut self, worker: usize, story: &mut Story) -> Mail {
        let mut mail = Mail::new();
        self.machine.turn(worker, |token, what| mail.push((worker, token, what)));
        note!(story.trace, "worker {worker} has sent to {} connections", mail.len());
        mail
    }

    /// A thread of a stream's takes a step.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn step_stream(&mut self, story: &mut Story) -> Verdict {
        let (stream, late) = (story.one_of(self.plan.streams), story.once_in(4));
        let flights = self.machine.in_flight(stream);
        if flights > 0 && story.once_in(2) {
            let which = story.one_of(flights);
            self.machine.land(stream, which);
            note!(story.trace, "block {which} of {flights} of stream {stream} is written");
        }
        let apart = story.once_in(2);
        self.step_one_stream((stream, late, apart), story).map(drop)
    }

    /// A thread of this stream takes a step: see [`Machine::step_stream`].
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn step_one_stream(
        &mut self,
        (stream, late, apart): (usize, bool, bool),
        story: &mut Story,
    ) -> Result<Option<After>, Violation> {
        let after = self.machine.step_stream(stream, late, apart);
        self.look_at_failure(story)?;
        note!(story.trace, "stream {stream} (late: {late}, apart: {apart}) {after:?} {:?}", self.machine.marks());
        Ok(after)
    }

    /// A helper of a stream's does something.
    pub fn help(&mut self, story: &mut Story) {
        let (stream, helper) = (story.one_of(self.plan.streams), story.one_of(2));
        if self.machine.help_stream(stream, helper) {
            note!(story.trace, "helper {helper} of stream {stream}");
        }
    }

    /// A loader takes a step, or the thread that reads the store into memory does.
    pub fn fetch(&mut self, story: &mut Story) {
        let (loader, apart) = (story.one_of(LOADERS), story.once_in(2));
        let done = self.machine.fetching.step(loader, apart, &mut story.chance);
        if done > 0 {
            note!(story.trace, "loader {loader} (apart: {apart}): {done}");
        }
        story.counts.fetched += done as u64;
        if story.once_in(2) && self.machine.step_warm_up() {
            note!(story.trace, "something is read into memory");
        }
    }

    /// The checkpointer takes some steps.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn checkpoint(&mut self, story: &mut Story) -> Verdict {
        if !self.machine.rounds.is_running() {
            let begins = story.once_in(if self.machine.rounds.is_asked() { 1 } else { 4 });
            if begins && self.machine.begin_checkpoint() {
                note!(story.trace, "a checkpoint begins");
            }
            return Ok(());
        }
        // Most slots are empty.
        let steps = 1 + story.chance.below(120);
        self.step_checkpoint(steps, story)
    }

    /// So many steps of a checkpoint, if one is under way.
    fn step_checkpoint(&mut self, steps: u64, story: &mut Story) -> Verdict {
        for _ in 0..steps {
            if !self.machine.rounds.is_running() {
                break;
            }
            self.heed_store();
            let progress = self.machine.step_checkpoint();
            if !self.plan.clients_only {
                truncation::check_cut(&self.machine)?;
            }
            if std::mem::take(&mut self.machine.outside.has_cut) {
                note!(story.trace, "the log may be cut");
                self.read_ledger()?;
            }
            match progress {
                Progress::More => {}
                Progress::Waiting => break,
                Progress::Done => {
                    story.counts.checkpoints += 1;
                    note!(story.trace, "the checkpoint is durable");
                }
                Progress::Failed(why) => {
                    note!(story.trace, "the checkpoint has failed: {why}");
                    // A full disk may have room again.
                    if self.machine.store_has_failed() && story.once_in(2) {
                        // The machine ends here.
                        self.hardware.disks[0].fail_power_after(0);
                    }
                }
            }
        }
        note!(story.trace, "checkpoint {}", self.machine.checkpointer.figures().progress);
        Ok(())
    }

    /// Some time passes.
    pub fn pass_time(&mut self, story: &mut Story) {
        let us = match story.chance.below(8) {
            0 => story.chance.below(2_000_000),
            1 | 2 => story.chance.below(50_000),
            _ => story.chance.below(2_000),
        };
        self.hardware.clock.advance_us(us);
        note!(story.trace, "{us} us pass");
    }

    /// Every thread takes a step, for a moment.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn everybody_works(&mut self, story: &mut Story) -> Result<Mail, Violation> {
        let mut mail = Mail::new();
        for worker in 0..self.plan.workers {
            mail.append(&mut self.turn(worker, story));
        }
        for loader in 0..LOADERS {
            story.counts.fetched += self.machine.fetching.step(loader, false, &mut story.chance) as u64;
        }
        for stream in 0..self.plan.streams {
            while self.machine.in_flight(stream) > 0 {
                self.machine.land(stream, 0);
            }
            self.machine.step_stream(stream, true, false);
            for helper in 0..2 {
                while self.machine.help_stream(stream, helper) {}
            }
        }
        self.look_at_failure(story)?;
        if self.machine.rounds.is_asked() {
            self.machine.begin_checkpoint();
        }
        if self.backup.is_some() {
            self.back_up(story)?;
        }
        // A checkpoint that a client waits for.
        self.step_checkpoint(600, story)?;
        self.hardware.clock.advance_us(1000);
        Ok(mail)
    }

    /// True if all that has been left is committed.
    pub fn is_committed(&self) -> bool {
        self.machine.marks().iter().zip(self.left()).all(|(mark, left)| *mark >= left)
    }

    /// Of each stream, the last record that has been left for it.
    pub fn left(&self) -> Vec<Lsn> {
        engine::checkpoint::World::left(&self.machine.outside)
    }

    /// A block has left for another disk: its records may survive there alone.
    pub fn note_departed(&mut self, records: Records) {
        self.ledger.note(records);
    }

    fn read_ledger(&mut self) -> Verdict {
        self.ledger.read(&self.hardware.disks).or_else(|damage| violated("log", damage))
    }
}

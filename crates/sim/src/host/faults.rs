//! Disks that fail or are full while the machine goes on.

use redolog::{Lsn, State};

use super::Host;
use crate::invariants::{Verdict, failed};
use crate::note;
use crate::plan::Planted;
use crate::story::Story;

/// The present faults of the disks.
#[derive(Default)]
pub struct Faults {
    /// Disks of the log fill up, and have room again.
    fills_log: bool,
    /// So does that of the store.
    fills_store: bool,
    /// The store's is full.
    store_is_full: bool,
    /// Watermarks of the streams that had ended when the log was first seen to have failed.
    failed_at: Option<Vec<Option<Lsn>>>,
}

impl Host {
    /// The faults of this life.
    pub fn plan_faults(&mut self, story: &mut Story) {
        self.faults = Faults::default();
        let (hardware, chance) = (&self.hardware, &mut story.chance);
        match chance.below(20) {
            0..6 => hardware.plan_power_failure(chance, 200),
            6 | 7 => hardware.plan_failed_flush(chance),
            8 | 9 => hardware.plan_failed_sync(chance, 8),
            10..14 => self.faults.fills_log = true,
            14 => self.faults.fills_store = true,
            15 => (self.faults.fills_log, self.faults.fills_store) = (true, true),
            _ => {}
        }
        if self.plan.planted == Planted::RetriedSync {
            hardware.plan_failed_sync(chance, 20);
        }
    }

    /// Some disk is full now, or has room again.
    pub fn change_room(&mut self, story: &mut Story) {
        let full = !story.once_in(5);
        if self.faults.fills_log && story.once_in(2) {
            if full {
                self.hardware.fill(&mut story.chance)
            } else {
                self.hardware.make_room()
            }
            note!(story.trace, "a disk of the log is full: {full}");
        } else if self.faults.fills_store {
            self.faults.store_is_full = full;
            note!(story.trace, "the disk of the store is full: {full}");
        }
    }

    /// All disks have room.
    pub fn make_room(&mut self, story: &mut Story) {
        self.hardware.make_room();
        self.faults.store_is_full = false;
        self.hardware.platter.mend();
        note!(story.trace, "there is room on all disks");
    }

    /// Before a step that may flush the store.
    pub(super) fn heed_store(&self) {
        if self.faults.store_is_full {
            self.hardware.platter.fail(store::Fault::NoSpace);
        } else if self.faults.fills_store {
            self.hardware.platter.mend();
        }
    }

    /// True if the log has failed (rule L9).
    pub fn has_failed(&self) -> bool {
        matches!(self.machine.log.state(), State::Failed(_))
    }

    /// True if the log lacks something, as room.
    pub fn is_full(&self) -> bool {
        matches!(self.machine.log.state(), State::Full(_))
    }

    /// Checks the properties that must hold while the log has failed.
    pub(super) fn look_at_failure(&mut self, story: &mut Story) -> Verdict {
        if !self.has_failed() {
            return Ok(());
        }
        let marks = self.machine.marks();
        match &self.faults.failed_at {
            Some(failed_at) => failed::check(failed_at, &marks),
            None => {
                note!(story.trace, "the log has failed: {:?}", self.machine.log.state());
                story.counts.failures += 1;
                let ended =
                    self.machine.streams.iter().zip(marks).map(|(stream, mark)| stream.has_ended.then_some(mark));
                self.faults.failed_at = Some(ended.collect());
                Ok(())
            }
        }
    }

    /// Mistakes that disks make.
    pub(super) fn plant(&self) {
        for disk in &self.hardware.disks {
            match self.plan.planted {
                Planted::SkippedSync => disk.forget_to_sync(),
                Planted::RetriedSync => disk.retry_failed_syncs(),
                Planted::DroppedWhenFull => disk.swallow_when_full(),
                _ => {}
            }
        }
    }
}

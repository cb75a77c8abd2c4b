//! A backup of a moment, as `HOLDFAST BACKUP` makes it, and a start from it.

use std::path::Path;
use std::sync::Arc;

use engine::checkpoint::moment;
use node::{Checkpoints, Ticket};
use redolog::simulated::{Chance, Simulated};
use redolog::{Lsn, Opened};
use store::Store;

use super::Host;
use crate::hardware::Hardware;
use crate::invariants::{Verdict, backup, violated};
use crate::machine::{LIMITS, Machine};
use crate::note;
use crate::story::Story;

/// A backup that is being made.
pub struct Backup {
    checkpoints: Arc<Checkpoints>,
    stage: Stage,
}

enum Stage {
    /// No checkpoint follows the one that was asked for.
    Held(Ticket),
    /// All that was done before the moment is at or below this, of each stream.
    Moment(Vec<Lsn>),
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.checkpoints.release();
    }
}

impl Host {
    /// A backup begins, or goes on.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn back_up(&mut self, story: &mut Story) -> Verdict {
        let Some(mut under_way) = self.backup.take() else {
            let checkpoints = self.machine.rounds.checkpoints.clone();
            let ticket = checkpoints.hold();
            note!(story.trace, "a backup begins");
            self.backup = Some(Backup { checkpoints, stage: Stage::Held(ticket) });
            return Ok(());
        };
        if self.has_failed() {
            note!(story.trace, "no backup: the log has failed");
            return Ok(());
        }
        match &under_way.stage {
            Stage::Held(ticket) => match under_way.checkpoints.outcome(*ticket) {
                None => {}
                Some(false) => {
                    note!(story.trace, "no backup: there is no checkpoint");
                    return Ok(());
                }
                Some(true) => {
                    let Machine { node, log, backup_gates, .. } = &mut self.machine;
                    if let Some(ends) = moment(&node.engine, backup_gates, |waiter| node.wake(waiter)) {
                        (0..log.streams()).for_each(|stream| log.ring(stream));
                        note!(story.trace, "the moment of a backup: {ends:?}");
                        under_way.stage = Stage::Moment(ends);
                    }
                }
            },
            Stage::Moment(ends) => {
                let marks = self.machine.marks();
                if marks.iter().zip(ends).all(|(mark, end)| mark >= end) {
                    story.counts.backups += 1;
                    return self.restore(ends, story);
                }
            }
        }
        self.backup = Some(under_way);
        Ok(())
    }

    /// Copies log and store and starts a machine from the copies. The machine has the contents of that moment.
    fn restore(&mut self, ends: &[Lsn], story: &mut Story) -> Verdict {
        self.read_ledger()?;
        let copied = self.copy(ends, story.counts.backups);
        let hardware = match copied {
            Ok(hardware) => hardware,
            Err(why) => return violated("backup", format_args!("it cannot be copied: {why}")),
        };
        let wanted = match self.ledger.until(ends) {
            Ok(wanted) => wanted,
            Err(why) => return violated("backup", why),
        };
        match Machine::start(&hardware, &self.plan, &mut Chance(story.chance.bits())) {
            Ok((_, start)) => backup::check(&start, &wanted),
            Err(why) => violated("backup", format_args!("the server does not start with it: {why:?}")),
        }
    }

    fn copy(&self, ends: &[Lsn], number: u64) -> Result<Hardware, Box<dyn std::error::Error>> {
        let folder = format!("backup-{number}");
        let store = self.machine.rounds.checkpoints.store().ok_or("there is no store")?;
        Store::backup(&*store, Path::new(&folder))?;
        let platter = self.hardware.platter.copy(Path::new(&folder)).ok_or("nothing was copied")?;
        let disks: Vec<Simulated> = self.hardware.disks.iter().map(Simulated::clone_now).collect();
        let mut opened = Opened::of(disks.clone(), &[])?;
        opened.replay(|_| {})?;
        opened.void_from(ends.iter().copied().max().unwrap_or_default().next())?;
        opened.settle(LIMITS)?;
        Ok(Hardware { platter, clock: self.hardware.clock.clone(), ..Hardware::on(disks) })
    }
}

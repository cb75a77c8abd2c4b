//! Steps that only a stream with copies takes.

use std::io;
use std::sync::atomic::Ordering::*;

use super::Runner;
use crate::Promise;
use crate::copies::Around;
use crate::disk::Disk;
use crate::lack::Lack;

impl<D: Disk> Runner<D> {
    /// Takes blocks off the backlog that enough copies have as the setting wants it.
    pub(super) fn count_held(&mut self) {
        let Some(copied) = self.committer.copied() else { return };
        let held = match self.committer.promise() {
            Promise::Synced => copied.held().synced(),
            Promise::Written => copied.held().received(),
        };
        while let Some((_, bytes)) = self.behind.pop_front_if(|(end, _)| *end <= held) {
            self.behind_bytes -= bytes;
            self.stream().landed.fetch_add(bytes, Release);
        }
    }

    /// How many blocks are ahead of enough copies, where replies wait for these: as blocks in flight do, they keep others
    /// back. A stop does not wait for copies.
    pub(super) fn ahead(&self) -> u64 {
        let Some(copied) = self.committer.copied() else { return 0 };
        let waits = self.is_settled() && !self.shared.stopping.load(SeqCst);
        if waits { copied.held().ahead() } else { 0 }
    }

    /// Moves the watermark, and heeds how many blocks are ahead of copies. True if a step would take records now.
    pub(crate) fn look(&mut self) -> bool {
        self.advance();
        self.show_worth();
        let may_take = !self.ended && !self.is_paused() && self.unwritten.is_none() && self.is_settled();
        may_take && self.may_take(self.committer.intake().has_records())
    }

    #[cfg(test)]
    pub(crate) fn trust_own(&mut self) {
        let copied = self.committer.writer().copied_mut();
        copied.into_iter().for_each(|copied| copied.trusts_own = true);
    }

    /// True between two terms: nothing is taken.
    pub(super) fn is_paused(&self) -> bool {
        self.shared.paused.load(SeqCst)
    }

    /// Puts everything that was taken on the own disk, and begins the term that is wanted. True if that is done.
    pub(super) fn rest(&mut self) -> io::Result<bool> {
        if self.unwritten.is_some() || self.committer.placer().in_flight() > 0 {
            return Ok(false);
        }
        self.sync()?;
        let term = self.stream().term.load(SeqCst);
        match self.committer.writer().begin_term(term) {
            Ok(()) => {}
            Err(error) => {
                let lack = Lack::of(&error).ok_or(error)?;
                // It is tried again when there is room, or at once.
                if self.go_around(Around::Lacks(lack)) {
                    self.stream().bell.ring();
                }
                return Ok(false);
            }
        }
        self.advance();
        self.stream().rested.store(term + 1, SeqCst);
        Ok(true)
    }
}

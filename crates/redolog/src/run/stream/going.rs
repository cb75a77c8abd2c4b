//! A stream with copies that goes around its own disk, which has no room or does not return (rules L8, G10).

use std::sync::atomic::Ordering::*;
use std::time::Duration;

use super::{Done, RETRY, Runner};
use crate::copies::Around;
use crate::disk::Disk;
use crate::flight::Flight;
use crate::own::{HANGS, HANGS_LONG};

/// How a stream goes around its own disk.
#[derive(Default)]
pub(super) struct Going {
    why: Option<Around>,
    /// When to try again to bring the disk up, and true while a helper does.
    at: u64,
    is_trying: bool,
    /// The sync of a helper was under way, and has not returned.
    sync_is_out: bool,
}

impl Going {
    pub(super) fn is_around(&self) -> bool {
        self.why.is_some()
    }

    pub(super) fn pause(&self) -> Option<Duration> {
        (self.is_around() && !self.is_trying).then_some(RETRY)
    }

    /// True if this was the sync that did not return.
    pub(super) fn sync_returns(&mut self) -> bool {
        std::mem::take(&mut self.sync_is_out)
    }
}

impl<D: Disk> Runner<D> {
    /// True if the log goes on where the own disk does not. A start without a segment has nothing that could be kept.
    pub(super) fn can_go_around(&mut self) -> bool {
        self.committer.placer().waits().is_none() && self.committer.copied().is_some_and(|copied| copied.can_lack_own())
    }

    /// Goes around the own disk from now on, if it does not yet and the log can.
    pub(super) fn go_around(&mut self, why: Around) -> bool {
        if self.going.is_around() || !self.can_go_around() {
            return false;
        }
        let is_out = std::mem::take(&mut self.syncing);
        self.committer.placer().go_around();
        self.going =
            Going { why: Some(why), at: self.now() + RETRY.as_nanos() as u64, is_trying: false, sync_is_out: is_out };
        self.note_around(Some(why));
        true
    }

    /// Goes around the own disk if a write or a sync has not returned for long. Returns how many threads are at writes,
    /// for each of which another one takes the stream's steps.
    pub(crate) fn leave_hanging(&mut self) -> usize {
        let (now, written) = (self.now(), self.committer.placer().in_flight_since());
        let is_late = |since: u64, most: Duration| now.saturating_sub(since) >= most.as_nanos() as u64;
        let is_hanging =
            written.is_some_and(|since| is_late(since, HANGS)) || self.syncing && is_late(self.synced_at, HANGS_LONG);
        if self.ended || !is_hanging {
            return 0;
        }
        let (flights, bytes) = (self.committer.placer().in_flight(), self.committer.placer().bytes_in_flight());
        if !self.go_around(Around::Hangs) {
            return 0;
        }
        if flights > 0 {
            self.count(bytes, 0);
        }
        self.landed = true;
        self.show_flights();
        self.stream().bell.ring();
        flights
    }

    /// A block has returned that was given up.
    pub(super) fn came_back(&mut self, flight: &Flight<D::File>) {
        self.stream().meter.records.fetch_add(flight.records as u64, Relaxed);
        self.committer.placer().disk().returned();
        self.stream().bell.ring();
    }

    /// Has a helper do what was kept for the own disk, now and then.
    pub(super) fn bring_up(&mut self) {
        if !self.going.is_around() && self.committer.placer().disk().is_around() {
            // A step, or a helper, has left an operation.
            self.go_around(Around::Hangs);
        }
        if !self.going.is_around() || self.going.is_trying || self.now() < self.going.at {
            return;
        }
        self.going.is_trying = true;
        let (disk, shared, index) = (self.committer.placer().disk().clone(), self.shared.clone(), self.index);
        let done = self.done.0.clone();
        self.keeper.give(move || {
            let _ = done.send(Done::BroughtUp(disk.bring_up()));
            shared.streams[index].bell.ring();
        });
    }

    pub(super) fn brought_up(&mut self, is_done: bool) {
        self.going.is_trying = false;
        if !is_done {
            self.going.at = self.now() + RETRY.as_nanos() as u64;
            return;
        }
        self.going.why = None;
        self.note_around(None);
        self.landed = true;
    }

    fn note_around(&mut self, why: Option<Around>) {
        self.stream().note_around(why);
        self.committer.copied().into_iter().for_each(|copied| copied.around(why));
    }
}

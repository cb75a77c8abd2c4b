//! Standbys that read from the acceptors: what they are let apply is checked (rule S1).

use super::{Plan, World, name_of};
use crate::{Cut, StreamId};

impl World {
    /// A standby goes as far as an acceptor lets it: a prefix of what is committed, and of what is on that disk.
    pub fn follow(&mut self, plan: &Plan, at: usize) {
        for stream in (0..plan.streams as u16).map(StreamId) {
            let machine = &mut self.machines[at];
            let Some(acceptor) = &machine.acceptor else { return };
            let (Some(history), Some(mark)) = (acceptor.history(stream), acceptor.mark(stream)) else { continue };
            let before = std::mem::replace(&mut machine.followed[stream.index()], mark);
            let stays = history.has(before.committed) || history.base().id.sequence > before.committed.sequence;
            let is_prefix = stays && mark.committed.sequence >= before.committed.sequence;
            let begins = history.base().id == mark.committed;
            let is_here = begins || machine.folder.has_synced(stream, mark.committed);
            self.ghosts.check_committed(stream, mark.committed);
            if !plan.standbys {
                continue;
            }
            if !is_prefix {
                self.ghosts.break_on("what a standby may apply is no prefix");
            }
            if !is_here {
                self.ghosts.break_on("a standby may apply what is not on its disk");
            }
            if let Some((after, cut)) = mark.quiet {
                self.ghosts.check_quiet(stream, after, cut);
            }
        }
    }

    /// An owner gives no LSN at or below its clock any more, and tells standbys so.
    pub fn mark(&mut self, plan: &Plan, host: usize) {
        let mut events = Vec::new();
        let host_of = &mut self.hosts[host];
        for stream in (0..plan.streams as u16).map(StreamId) {
            host_of.owner.quiet(stream, Cut(host_of.clock));
        }
        host_of.owner.tell_marks(&mut events);
        self.events(plan, host, events);
    }

    /// True if a standby at an acceptor that has all of a stream does not know so.
    pub fn is_kept_waiting(&self, host: usize, at: usize, stream: StreamId) -> bool {
        let (owner, clock) = (&self.hosts[host].owner, Cut(self.hosts[host].clock));
        let mark = self.machines[at].acceptor.as_ref().and_then(|acceptor| acceptor.mark(stream));
        let last = owner.history(stream).map(|history| history.last());
        let mut lags = owner.lags().filter(|lag| lag.stream == stream && lag.acceptor == name_of(at));
        lags.any(|lag| lag.answers && lag.blocks == 0)
            && mark.map(|mark| (Some(mark.committed), mark.quiet)) != Some((last, last.map(|last| (last, clock))))
    }
}

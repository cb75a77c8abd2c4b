//! Folders that are lost, or that an operator sets back to an earlier state, and what holds as long as the owner lives.

use super::{Folder, Packet, Plan, Plant, World, name_of};
use crate::{Reply, Report, Stage, StreamId};

impl World {
    /// The process that has the shard, and has all of its log.
    pub(super) fn present(&self) -> Option<usize> {
        let has_log = |stage| (Stage::Copying..=Stage::Leading).contains(&stage);
        (0..self.hosts.len()).find(|host| self.is_newest(*host) && has_log(self.hosts[*host].owner.stage()))
    }

    /// True if a folder was set back: from then on the owner lives, and no other process gets the shard.
    pub(super) fn is_set_back(&self) -> bool {
        self.machines.iter().any(|machine| machine.is_set_back)
    }

    /// A folder is lost. It comes back as another acceptor, which nobody knows; or as itself: the planted mistake P5.
    pub fn wipe(&mut self, plan: &Plan, at: usize) {
        self.machines[at].folder = Folder::new(plan.streams);
        self.machines[at].ops.clear();
        self.machines[at].acceptor = None;
        if plan.plant == Plant::Amnesia {
            self.start(plan, at);
        }
    }

    /// An operator copies a folder.
    pub fn copy_folder(&mut self, at: usize) {
        self.machines[at].copy = Some(self.machines[at].folder.clone());
    }

    /// An operator stops an acceptor, puts a copy of its folder in its place, and starts it. Owners of earlier terms have
    /// ended: nobody promises any more to refuse them.
    pub fn set_back(&mut self, plan: &Plan, at: usize, kept: u64) {
        let Some(copy) = self.machines[at].copy.take() else { return };
        self.hosts.drain(..self.hosts.len() - 1);
        // What it has sent was heard before the connection ended, or never is.
        self.network.retain(|packet| !matches!(packet, Packet::From(from, _) if *from == at));
        let machine = &mut self.machines[at];
        (machine.folder, machine.is_set_back) = (copy, true);
        machine.ops.clear();
        self.restart(plan, at, true, kept);
    }

    /// Replies of one connection come in order, and those of an earlier one not at all. So no answer to a seal says less
    /// than the owner has heard before.
    pub(super) fn is_stale(&self, at: usize, reply: &Reply) -> bool {
        let Report::Sealed { histories } = &reply.report else { return false };
        let heard = |host: &&super::Host| host.owner.term() == reply.term;
        !self.machines[at].is_set_back
            && self.hosts.iter().filter(heard).any(|host| {
                let mut lags = host.owner.lags().filter(|lag| lag.acceptor == name_of(at));
                lags.any(|lag| {
                    let last = host.owner.history(lag.stream).map_or(0, |history| history.last().sequence);
                    let known = histories.get(usize::from(lag.stream.0));
                    known.is_none_or(|history| history.last().sequence < last.saturating_sub(lag.blocks))
                })
            })
    }

    /// Once the owner has heard the acceptor that was set back, what it says is committed is on the disks of a majority.
    pub(super) fn check_copies(&mut self, host: usize, stream: StreamId, upto: u64) {
        if !self.ghosts.is_set_back_known || !self.is_newest(host) {
            return;
        }
        let (from, history) = (self.hosts[host].marks[usize::from(stream.0)], self.hosts[host].owner.history(stream));
        let names: Vec<_> = (from + 1..=upto).filter_map(|at| history?.at(at)).collect();
        let is_held = |set: &Vec<usize>| {
            let has = |id| set.iter().filter(|at| self.machines[**at].folder.has_durable(stream, id)).count();
            names.iter().all(|id| has(*id) * 2 > set.len())
        };
        if !is_held(&self.settled) || !self.pending.as_ref().is_none_or(is_held) {
            self.ghosts.break_on("what is committed is not on a majority of disks");
        }
    }
}

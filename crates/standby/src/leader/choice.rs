//! Which standby takes a shard over (rule S5).

use std::cmp::Reverse;

use super::{BootMs, Copies, Cut, Leader, NodeNumber, Process, Seen};

/// How far a standby is, and whether it should be preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// The end of what its acceptor has: of all streams the lowest.
    pub log: Cut,
    /// Bytes of the log that it has not applied.
    pub behind_bytes: u64,
    /// `replica-priority`: the lowest goes first, and 0 never takes over.
    pub priority: u32,
    /// It is in the zone of the metadata's leader.
    pub is_beside_leader: bool,
}

impl Leader {
    /// The best standby among those whose last words pass a test. It is counted, it is here in its last life, and its
    /// disk works.
    pub(super) fn best(&self, copies: &Copies, now: BootMs, test: impl Fn(&Seen) -> bool) -> Option<Process> {
        self.best_of(copies, now, |_, seen| test(seen))
    }

    /// The same, by node.
    pub(super) fn best_of(
        &self,
        copies: &Copies,
        now: BootMs,
        test: impl Fn(NodeNumber, &Seen) -> bool,
    ) -> Option<Process> {
        let (lease, useless) = (self.settings.lease_ms, self.settings.useless_ms);
        let is_able = |node: NodeNumber, seen: &Seen| {
            let process = Process { node, life: seen.life };
            let is_here = now < seen.at + lease && !self.has_ended(process);
            let is_well = !seen.health.disk_failed && seen.health.stuck_ms < useless;
            copies.is_electable(node) && is_here && is_well && test(node, seen)
        };
        let able = self.seen.iter().filter(|(node, seen)| is_able(**node, seen));
        let with = able.filter_map(|(node, seen)| Some((*node, seen.life, seen.position.filter(|p| p.priority > 0)?)));
        let rank = |(node, _, p): &(NodeNumber, u64, Position)| {
            (Reverse(p.log), p.behind_bytes, p.priority, p.is_beside_leader, *node)
        };
        with.min_by_key(rank).map(|(node, life, _)| Process { node, life })
    }
}

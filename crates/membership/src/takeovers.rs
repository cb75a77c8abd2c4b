//! Takeovers of shards that have standbys, as the leader of the metadata decides on them (rules S6, S13). Pure: the time
//! is handed in.
//!
//! A lease ([`crate::leases`]) is a node's: it says that the node is up, and no command takes slots from a node that has
//! one. A shard that has standbys has a [`Leader`] besides, which judges its owner. The owner gets its lease only if both
//! allow that. A shard without standbys has none: nothing here looks at it, or changes what its owner gets.

use std::collections::BTreeMap;

use clocks::BootMs;
use standby::{Change, Copies, Decision, Leader, NodeNumber, Process, Refused, Renewal, Settings, Why};

use crate::{ShardId, Term};

/// The pause after a takeover that was not taken, in milliseconds: twice as long after each of a row, up to the time between
/// two renewals.
const PAUSE_MS: u64 = 25;

/// A shard that has standbys, as the metadata know it.
#[derive(Clone, Debug)]
pub struct CopiedShard {
    /// Its number.
    pub id: ShardId,
    /// The copies of its data.
    pub copies: Copies,
    /// The processes of the nodes that have them: a node that has started again proves that its earlier lives have ended.
    pub processes: Vec<Process>,
}

impl CopiedShard {
    fn concerns(&self, process: Process) -> bool {
        self.copies.owner().node == process.node || self.copies.standby(process.node).is_some()
    }
}

/// A takeover that is to be proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takeover {
    /// The shard.
    pub shard: ShardId,
    /// The change of its copies.
    pub change: Change,
    /// The reason.
    pub why: Why,
}

/// The takeovers that were proposed in one term of a shard, in one reign.
#[derive(Clone, Copy, Debug)]
struct Tried {
    reign: u64,
    term: Term,
    /// How many were not taken.
    failed: u32,
    /// None is proposed before.
    until: BootMs,
}

/// What a leader of the metadata knows of all shards that have standbys.
#[derive(Debug)]
pub struct Takeovers {
    settings: Settings,
    of: BTreeMap<ShardId, Leader>,
    tried: BTreeMap<ShardId, Tried>,
}

impl Takeovers {
    /// Of leases that last `lease_ms` milliseconds and are renewed every `renew_ms`.
    #[must_use]
    pub fn new(lease_ms: u64, renew_ms: u64) -> Self {
        Self {
            settings: Settings { lease_ms, renew_ms, ..Settings::default() },
            of: BTreeMap::new(),
            tried: BTreeMap::new(),
        }
    }

    /// The node leads in `reign`, which it may have found out just now.
    fn leader(&mut self, reign: u64, shard: &CopiedShard, now: BootMs) -> &mut Leader {
        let settings = self.settings;
        let leader = self.of.entry(shard.id).or_insert_with(|| Leader::new(settings));
        leader.reign(reign, &shard.copies, now);
        shard.processes.iter().for_each(|process| leader.alive(*process, now));
        leader
    }

    /// A renewal has arrived. Returns the term of the shard that the lease is for; none for a process that owns no shard
    /// with standbys: its lease is its node's alone.
    ///
    /// # Errors
    /// The process owns a shard, and gets no lease.
    pub fn renew(
        &mut self,
        reign: u64,
        shards: &[CopiedShard],
        renewal: Renewal,
        now: BootMs,
    ) -> Result<Option<Term>, Refused> {
        let Some(shard) = shards.iter().find(|shard| shard.concerns(renewal.process)) else { return Ok(None) };
        match self.leader(reign, shard, now).renew(&shard.copies, renewal, now) {
            Ok(_) => Ok(Some(shard.copies.term())),
            Err(Refused::NotOwner) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// A process has ended: its parent has waited for exactly that one (rule S12).
    pub fn ended(&mut self, reign: u64, shards: &[CopiedShard], process: Process, now: BootMs) {
        for shard in shards.iter().filter(|shard| shard.concerns(process)) {
            self.leader(reign, shard, now).ended(process);
        }
    }

    /// The owner of a term of a shard gives its lease up for a standby. `is_logged`: no unlogged read counts any more.
    pub fn yielded(
        &mut self,
        reign: u64,
        shard: &CopiedShard,
        (by, term): (Process, Term),
        (to, is_logged): (NodeNumber, bool),
        now: BootMs,
    ) {
        self.leader(reign, shard, now).yielded(by, term, to, is_logged);
    }

    /// The takeovers that are due, and when to ask again. Owners of these shards get no lease until [`Self::done`].
    pub fn decide(&mut self, reign: u64, shards: &[CopiedShard], now: BootMs) -> (Vec<Takeover>, BootMs) {
        let is_known = |id: &ShardId| shards.iter().any(|shard| shard.id == *id);
        self.of.retain(|id, _| is_known(id));
        self.tried.retain(|id, _| is_known(id));
        let (mut due, mut again) = (Vec::new(), BootMs::NEVER);
        for shard in shards {
            let term = shard.copies.term();
            let tried = self.tried.get(&shard.id).copied().filter(|tried| (tried.reign, tried.term) == (reign, term));
            if let Some(Tried { until, .. }) = tried.filter(|tried| now < tried.until) {
                again = again.min(until);
                continue;
            }
            match self.leader(reign, shard, now).decide(&shard.copies, now) {
                Decision::TakeOver { change, why } => {
                    let none = Tried { reign, term, failed: 0, until: now };
                    self.tried.insert(shard.id, tried.unwrap_or(none));
                    due.push(Takeover { shard: shard.id, change, why });
                }
                Decision::Wait(until) => again = again.min(until),
            }
        }
        (due, again)
    }

    /// True if a process of the owner's node may be given the next term of a shard: no standby goes before it.
    pub fn may_lead(
        &mut self,
        reign: u64,
        shards: &[CopiedShard],
        (shard, process): (ShardId, Process),
        now: BootMs,
    ) -> bool {
        let shard = shards.iter().find(|of| of.id == shard);
        shard.is_none_or(|shard| self.leader(reign, shard, now).may_lead(&shard.copies, process, now))
    }

    /// A takeover is committed and applied, or has failed for good. Then the next one in this term waits for a while.
    /// Returns how many have failed in this term.
    pub fn done(&mut self, shard: ShardId, is_taken: bool, now: BootMs) -> u32 {
        if let Some(leader) = self.of.get_mut(&shard) {
            leader.done(is_taken, now);
        }
        let longest = self.settings.renew_ms.max(PAUSE_MS);
        let Some(tried) = self.tried.get_mut(&shard).filter(|_| !is_taken) else {
            return self.tried.remove(&shard).map_or(0, |tried| tried.failed);
        };
        tried.until = now + (PAUSE_MS << tried.failed.min(16)).min(longest);
        tried.failed = tried.failed.saturating_add(1);
        tried.failed
    }
}

#[cfg(test)]
mod tests {
    use standby::{Health, Position};

    use super::*;

    const SHARD: ShardId = ShardId(7);

    fn process(node: u32, life: u64) -> Process {
        Process { node: NodeNumber(node), life }
    }

    fn term(number: u32) -> Term {
        Term::new(number).unwrap()
    }

    /// Node 1 owns the shard in term 2, and node 2 is a counted standby.
    fn counted() -> CopiedShard {
        let (owner, standby) = (process(1, 1), process(2, 1));
        let mut copies = Copies::new(term(2), owner);
        copies.apply(Change::Pin { standby }).unwrap();
        let (covered, floor) = (quorum::Cut(5), quorum::Cut(5));
        copies.apply(Change::Count { term: term(2), by: owner, standby, covered, floor }).unwrap();
        CopiedShard { id: SHARD, copies, processes: vec![owner, standby] }
    }

    fn renewal(process: Process, behind_bytes: u64) -> Renewal {
        let position = Position { log: quorum::Cut(9), behind_bytes, priority: 100, is_beside_leader: false };
        Renewal { process, health: Health::default(), position: Some(position) }
    }

    #[test]
    fn a_silent_owner_is_taken_over_in_the_leaders_own_reign_s6() {
        let (mut takeovers, shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        assert_eq!(takeovers.renew(3, &shards, renewal(process(1, 1), 0), at(0)), Ok(Some(term(2))));
        assert_eq!(
            takeovers.renew(3, &shards, renewal(process(2, 1), 0), at(900)),
            Ok(None),
            "a standby's is its node's"
        );
        assert_eq!(takeovers.renew(3, &shards, renewal(process(5, 1), 0), at(900)), Ok(None), "it has no copy");
        assert_eq!(takeovers.decide(3, &shards, at(1124)), (Vec::new(), at(1125)));
        // Another leader does not know when the owner renewed last.
        assert_eq!(takeovers.decide(4, &shards, at(1125)), (Vec::new(), at(1125 + 1125)));
        takeovers.renew(4, &shards, renewal(process(2, 1), 0), at(2000)).unwrap();
        let change = Change::TakeOver { known: term(2), to: process(2, 1), rests_ms: 0 };
        let due = Takeover { shard: SHARD, change, why: Why::Silent };
        assert_eq!(takeovers.decide(4, &shards, at(2250)), (vec![due], BootMs::NEVER));
        // The owner that comes back gets no lease while that is under way, and no term.
        assert_eq!(takeovers.renew(4, &shards, renewal(process(1, 1), 0), at(2251)), Err(Refused::Fenced));
        assert!(!takeovers.may_lead(4, &shards, (SHARD, process(1, 1)), at(2251)));
        takeovers.done(SHARD, false, at(2260));
        assert_eq!(takeovers.renew(4, &shards, renewal(process(1, 1), 0), at(2261)), Ok(Some(term(2))));
    }

    /// A leader that the others do not hear, or whose proposal is refused, does not propose in a loop.
    #[test]
    fn takeovers_that_fail_in_a_row_are_proposed_more_and_more_seldom() {
        let (mut takeovers, shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        takeovers.ended(3, &shards, process(1, 1), at(0));
        let (mut proposed, mut again) = (Vec::new(), at(0));
        while again < at(2_000) {
            takeovers.renew(3, &shards, renewal(process(2, 1), 0), again).unwrap();
            let (due, next) = takeovers.decide(3, &shards, again);
            if due.is_empty() {
                again = next;
            } else {
                proposed.push(again.since(at(0)));
                assert_eq!(takeovers.done(SHARD, false, again), proposed.len() as u32);
            }
        }
        assert_eq!(proposed, [0, 25, 75, 175, 375, 625, 875, 1125, 1375, 1625, 1875]);
        // A leader that has just come to lead does not wait.
        takeovers.renew(4, &shards, renewal(process(2, 1), 0), again).unwrap();
        assert_eq!(takeovers.decide(4, &shards, again).0.len(), 1);
        assert_eq!(takeovers.done(SHARD, false, again), 1);
        // The owner has taken another term meanwhile, and has ended as well.
        let mut shards = shards;
        shards[0]
            .copies
            .apply(Change::Lead { known: term(2), by: process(1, 2), of_log: term(2), rests_ms: 0 })
            .unwrap();
        takeovers.ended(4, &shards, process(1, 2), again);
        assert_eq!(takeovers.decide(4, &shards, again).0.len(), 1);
        assert_eq!(takeovers.done(SHARD, true, again), 0);
    }

    /// The metadata know a later life of the owner's node: that proves that the owner has ended.
    #[test]
    fn an_owner_that_has_started_again_gives_way_to_a_near_standby_s12() {
        let (mut takeovers, mut shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        takeovers.renew(3, &shards, renewal(process(1, 1), 0), at(0)).unwrap();
        shards[0].processes[0] = process(1, 2);
        takeovers.renew(3, &shards, renewal(process(1, 2), 0), at(10)).unwrap();
        assert!(!takeovers.may_lead(3, &shards, (SHARD, process(1, 2)), at(499)), "a standby has two renewals' time");
        assert!(takeovers.may_lead(3, &shards, (SHARD, process(1, 2)), at(500)), "no standby was heard");
        takeovers.renew(3, &shards, renewal(process(2, 1), 1 << 30), at(511)).unwrap();
        assert!(takeovers.may_lead(3, &shards, (SHARD, process(1, 2)), at(512)), "the standby is far behind");
        assert!(takeovers.decide(3, &shards, at(512)).0.is_empty());
        takeovers.renew(3, &shards, renewal(process(2, 1), 0), at(513)).unwrap();
        assert!(!takeovers.may_lead(3, &shards, (SHARD, process(1, 2)), at(514)));
        let (due, _) = takeovers.decide(3, &shards, at(514));
        let change = Change::TakeOver { known: term(2), to: process(2, 1), rests_ms: 225 };
        assert_eq!(due, [Takeover { shard: SHARD, change, why: Why::Ended }], "reads of the life before may count");
    }

    /// Its parent has waited for it: the shard waits for no lease, and for no later life.
    #[test]
    fn an_owner_that_has_ended_by_its_parents_word_is_taken_over_at_once_s12() {
        let (mut takeovers, shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        takeovers.renew(3, &shards, renewal(process(1, 1), 0), at(0)).unwrap();
        takeovers.renew(3, &shards, renewal(process(2, 1), 0), at(5)).unwrap();
        takeovers.ended(3, &shards, process(5, 9), at(6));
        assert!(takeovers.decide(3, &shards, at(6)).0.is_empty(), "it has no copy");
        takeovers.ended(3, &shards, process(1, 1), at(10));
        let change = Change::TakeOver { known: term(2), to: process(2, 1), rests_ms: 225 };
        assert_eq!(
            takeovers.decide(3, &shards, at(10)).0,
            [Takeover { shard: SHARD, change, why: Why::Ended }],
            "reads that it has answered may count"
        );
        assert!(takeovers.renew(3, &shards, renewal(process(1, 1), 0), at(11)).is_err(), "a renewal that came late");
    }

    /// A standby that has ended takes nothing over.
    #[test]
    fn a_standby_that_has_ended_is_not_chosen_s12() {
        let (mut takeovers, shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        takeovers.renew(3, &shards, renewal(process(2, 1), 0), at(5)).unwrap();
        takeovers.ended(3, &shards, process(2, 1), at(6));
        takeovers.ended(3, &shards, process(1, 1), at(7));
        assert!(takeovers.decide(3, &shards, at(8)).0.is_empty());
    }

    /// The leader waits for no lease, and without unlogged reads the successor does not rest.
    #[test]
    fn an_owner_that_yields_is_taken_over_by_the_standby_it_names_s10() {
        let (mut takeovers, shards) = (Takeovers::new(1000, 250), [counted()]);
        let at = |ms: u64| BootMs(100_000 + ms);
        takeovers.renew(3, &shards, renewal(process(1, 1), 0), at(0)).unwrap();
        takeovers.renew(3, &shards, renewal(process(2, 1), 0), at(1)).unwrap();
        let (by, to) = (process(1, 1), NodeNumber(2));
        takeovers.yielded(3, &shards[0], (by, term(1)), (to, true), at(2));
        assert!(takeovers.decide(3, &shards, at(3)).0.is_empty(), "an earlier term");
        takeovers.yielded(3, &shards[0], (by, term(2)), (to, true), at(4));
        let change = Change::TakeOver { known: term(2), to: process(2, 1), rests_ms: 0 };
        let due = Takeover { shard: SHARD, change, why: Why::Yielded };
        assert_eq!(takeovers.decide(3, &shards, at(5)).0, [due]);
        assert!(takeovers.renew(3, &shards, renewal(by, 0), at(6)).is_err());
    }

    #[test]
    fn a_shard_without_standbys_is_nobodys() {
        let mut takeovers = Takeovers::new(1000, 250);
        assert_eq!(takeovers.renew(3, &[], renewal(process(1, 1), 0), BootMs(5)), Ok(None));
        assert_eq!(takeovers.decide(3, &[], BootMs(9_000)), (Vec::new(), BootMs::NEVER));
        assert!(takeovers.may_lead(3, &[], (SHARD, process(1, 2)), BootMs(9_000)));
        let shards = [counted()];
        takeovers.renew(3, &shards, renewal(process(1, 1), 0), BootMs(10_000)).unwrap();
        takeovers.decide(3, &[], BootMs(10_001));
        assert!(takeovers.of.is_empty(), "it is forgotten with its standbys");
    }
}

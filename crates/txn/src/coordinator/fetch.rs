//! Transactions that have to see what is there before it is known what they do.
//!
//! ```text
//!          Fetch to all              all have said what is there           the node has run it: Proceed to all
//! begin -------------> fetching ---------------------------------> running ------------------------------------> preparing
//! ```
//! All locks are held from when the last participant has answered until the outcome, so that what it runs on is of one moment. Until Proceed is sent
//! nobody is bound, and the attempt may be given up at any time.

use std::sync::Arc;

use super::{Coordinator, Event, Phase};
use crate::{NodeId, Part, TxId};

impl Coordinator {
    /// As [`Self::begin`], of a transaction that fetches: [`Event::Fetched`] comes first, perhaps more than once. What parts have as commands says what
    /// is looked at; what they do is said then.
    ///
    /// # Panics
    /// Without parts.
    pub fn begin_fetching(&mut self, now: u64, time: u64, parts: Vec<Part>, out: &mut Vec<Event>) -> u64 {
        self.open((now, time), parts, (true, true), out)
    }

    pub(super) fn fetched(&mut self, now: u64, from: NodeId, tx: TxId, what: Arc<[u8]>, out: &mut Vec<Event>) {
        let sequence = tx.sequence;
        let Some(open) = self.open.get_mut(&sequence).filter(|open| open.attempt == tx.attempt) else { return };
        let Phase::Fetching { found } = &mut open.phase else { return };
        let Some(at) = open.parts.iter().position(|part| part.member.node == from) else { return };
        found[at].get_or_insert(what);
        self.ask_others(now, sequence, out);
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let Phase::Fetching { found } = &open.phase else { return };
        if found.iter().any(Option::is_none) {
            return;
        }
        let nodes = open.parts.iter().map(|part| part.member.node);
        let found = nodes.zip(found.iter().flatten().cloned()).collect();
        open.phase = Phase::Running;
        out.push(Event::Fetched { sequence, attempt: tx.attempt, found });
        self.arm(sequence, Some(now.saturating_add(self.settings.resend_ms)));
    }

    fn is_running(&self, sequence: u64, attempt: u32) -> bool {
        self.open.get(&sequence).is_some_and(|open| open.attempt == attempt && open.phase == Phase::Running)
    }

    /// What the parts of an attempt that has fetched are to do; those that are not named, nothing. False: the attempt is void.
    pub fn proceed(
        &mut self,
        now: u64,
        (sequence, attempt): (u64, u32),
        made: &[(NodeId, Arc<[u8]>)],
        out: &mut Vec<Event>,
    ) -> bool {
        if !self.is_running(sequence, attempt) {
            return false;
        }
        let Some(open) = self.open.get_mut(&sequence) else { return false };
        let of =
            |part: &Part| made.iter().find(|(node, _)| *node == part.member.node).map(|(_, made)| Arc::clone(made));
        open.made = open.parts.iter().map(|part| of(part).unwrap_or_default()).collect();
        open.phase = Phase::Preparing { answers: vec![None; open.parts.len()] };
        open.sent = now;
        let parts = open.parts.len();
        self.arm(sequence, Some(now.saturating_add(self.settings.resend_ms)));
        for to in 0..parts {
            self.send_prepare(sequence, to, out);
        }
        true
    }

    /// It turned out to need other parts: it is tried again with these. False: the attempt is void.
    ///
    /// # Panics
    /// Without parts.
    pub fn again(
        &mut self,
        now: u64,
        (sequence, attempt): (u64, u32),
        mut parts: Vec<Part>,
        out: &mut Vec<Event>,
    ) -> bool {
        assert!(!parts.is_empty(), "a transaction is somewhere");
        if !self.is_running(sequence, attempt) {
            return false;
        }
        self.drop_attempt(sequence, None, out);
        if let Some(open) = self.open.get_mut(&sequence) {
            parts.sort_by_key(|part| part.member);
            open.parts = parts;
        }
        // Nobody was in its way.
        self.attempt(now, sequence, out);
        true
    }

    /// What was found cannot be used yet: it is fetched again after a while. Nothing, if the attempt is void.
    pub fn later(&mut self, now: u64, (sequence, attempt): (u64, u32), out: &mut Vec<Event>) {
        if self.is_running(sequence, attempt) {
            self.drop_attempt(sequence, None, out);
            self.wait(now, sequence);
        }
    }

    /// It has seen what it wanted to see, or cannot be done: nothing is. Nobody is answered by the coordinator. False: the attempt is void.
    pub fn give_up(&mut self, now: u64, (sequence, attempt): (u64, u32), out: &mut Vec<Event>) -> bool {
        let running = self.is_running(sequence, attempt);
        if running {
            self.end_attempt(now, sequence, out);
        }
        running
    }

    /// As [`Self::abandon`], of one that fetches, if it is sure that nothing of it happens. False: it may be committed by now.
    pub fn withdraw(&mut self, now: u64, sequence: u64, out: &mut Vec<Event>) -> bool {
        let binds_nobody = |open: &super::Open| {
            let phase = &open.phase;
            open.fetches && matches!(phase, Phase::Fetching { .. } | Phase::Running | Phase::Waiting | Phase::Rerouting)
        };
        let withdrawn = self.open.get(&sequence).is_some_and(binds_nobody);
        if withdrawn {
            self.abandon(now, sequence, out);
        }
        withdrawn
    }

    /// The present attempt, which binds nobody, was the last.
    pub(super) fn end_attempt(&mut self, now: u64, sequence: u64, out: &mut Vec<Event>) {
        self.drop_attempt(sequence, None, out);
        if let Some(open) = self.open.get_mut(&sequence) {
            open.untold = false;
        }
        self.arm(sequence, Some(now.saturating_add(self.settings.resend_ms)));
        self.close(sequence, now);
    }
}

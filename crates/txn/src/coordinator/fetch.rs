//! Transactions that need values before their effects are known.
//!
//! ```text
//!          Fetch to all              all have said what is there           the node has run it: Proceed to all
//! begin -------------> fetching ---------------------------------> running ------------------------------------> preparing
//! ```
//! If further keys are needed, the attempt is *widened* as often as it takes. Their owners lock them as well, and send
//! their values (`Widen`, or `Fetch` to a participant that was not asked before). On a conflict the whole attempt is
//! tried again, with all keys that are known by then.
//!
//! All locks are held from the last participant's answer until the outcome, so that the commands run on the values of
//! one moment. Until Proceed is sent no participant is bound, and the attempt may be given up at any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::BootMs;

use super::{Coordinator, Event, Look, Open, Phase};
use crate::{HybridTime, Lock, Part, ParticipantId, TxnId};

impl Look {
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self, Look::Asked(_))
    }
}

impl Open {
    fn look(&self, at: usize) -> Option<&Look> {
        match &self.phase {
            Phase::Fetching { looks } => looks.get(at),
            _ => None,
        }
    }

    /// True if a participant is to send its values.
    fn is_awaited(&self, at: usize) -> bool {
        self.look(at).is_some_and(Look::is_awaited)
    }

    /// The keys that a participant is asked for beside those that it has locked.
    pub(super) fn more(&self, at: usize) -> Option<Arc<[Lock]>> {
        match self.look(at)? {
            Look::Asked(more) => more.clone(),
            Look::Before | Look::Found(_) => None,
        }
    }

    /// Sets its parts, all of them, from the next attempt on.
    pub(super) fn set_parts(&mut self, mut parts: Vec<Part>) {
        parts.sort_by_key(|part| part.member);
        self.parts = parts;
        self.wider.clear();
    }

    /// The last attempt was widened: the next one asks for all keys from the start.
    pub(super) fn put_together(&mut self) {
        self.round = 0;
        let wider = std::mem::take(&mut self.wider);
        self.parts.iter_mut().for_each(|part| part.widen(&wider));
    }
}

impl Coordinator {
    /// As [`Self::begin`], for a transaction that fetches: [`Event::Fetched`] comes first, perhaps more than once. The
    /// commands of its parts say which keys are read; their effects are given later.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn begin_fetching(&mut self, now: BootMs, time: HybridTime, parts: Vec<Part>, out: &mut Vec<Event>) -> u64 {
        self.open((now, time), parts, (true, true), out)
    }

    pub(super) fn fetched(
        &mut self,
        now: BootMs,
        from: ParticipantId,
        (tx, round): (TxnId, u32),
        what: Arc<[u8]>,
        out: &mut Vec<Event>,
    ) {
        let sequence = tx.sequence;
        let Some(open) = self.open.get_mut(&sequence).filter(|open| open.attempt == tx.attempt) else { return };
        let Phase::Fetching { looks } = &mut open.phase else { return };
        let Some(at) = open.parts.iter().position(|part| part.member.id == from) else { return };
        match &looks[at] {
            // Answers of an earlier round may come late, or twice.
            Look::Asked(more) if round == more.as_ref().map_or(0, |_| open.round) => looks[at] = Look::Found(what),
            _ => return,
        }
        self.ask_others(now, sequence, out);
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let Phase::Fetching { looks } = &open.phase else { return };
        if looks.iter().any(Look::is_awaited) {
            return;
        }
        let participants = open.parts.iter().map(|part| part.member.id);
        let found = participants.zip(looks).filter_map(|(participant, look)| match look {
            Look::Found(found) => Some((participant, Arc::clone(found))),
            Look::Before | Look::Asked(_) => None,
        });
        let (round, found) = (open.round, found.collect());
        open.phase = Phase::Running;
        out.push(Event::Fetched { sequence, attempt: tx.attempt, round, found });
        self.arm_by(sequence, now + self.settings.resend_ms);
    }

    /// The transaction needs these parts, too: keys that it has not locked. They are locked and read in the same
    /// attempt, which keeps its other locks. False: the attempt is void.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn widen(
        &mut self,
        now: BootMs,
        (sequence, attempt): (u64, u32),
        more: Vec<Part>,
        out: &mut Vec<Event>,
    ) -> bool {
        assert!(!more.is_empty(), "keys are somewhere");
        if !self.is_running(sequence, attempt) {
            return false;
        }
        let Some(open) = self.open.get_mut(&sequence) else { return false };
        open.round += 1;
        let mut asked: BTreeMap<ParticipantId, Look> = BTreeMap::new();
        for mut part in more {
            let participant = part.member.id;
            match open.parts.iter_mut().find(|known| known.member.id == participant) {
                Some(known) => {
                    known.writes |= part.writes;
                    open.wider.push((participant, Arc::clone(&part.locks)));
                    asked.insert(participant, Look::Asked(Some(part.locks)));
                }
                None => {
                    let known = self.peers.get(&participant).copied().unwrap_or(0);
                    part.member.incarnation = part.member.incarnation.max(known);
                    open.parts.push(part);
                    asked.insert(participant, Look::Asked(None));
                }
            }
        }
        open.parts.sort_by_key(|part| part.member);
        let looks = open.parts.iter().map(|part| asked.remove(&part.member.id).unwrap_or(Look::Before));
        open.phase = Phase::Fetching { looks: looks.collect() };
        // A participant that is not asked must hear of it often enough, however many rounds there are.
        self.arm_by(sequence, now + self.settings.resend_ms);
        for to in 0..self.open.get(&sequence).map_or(0, |open| open.parts.len()) {
            if self.open.get(&sequence).is_some_and(|open| open.is_awaited(to)) {
                self.send_prepare(sequence, to, out);
            }
        }
        true
    }

    /// True if the commands are running on the values of an attempt.
    pub fn is_running(&self, sequence: u64, attempt: u32) -> bool {
        self.open.get(&sequence).is_some_and(|open| open.attempt == attempt && open.phase == Phase::Running)
    }

    /// Gives the parts of an attempt that has fetched their work; parts that are not named have none. False: the
    /// attempt is void.
    pub fn proceed(
        &mut self,
        now: BootMs,
        (sequence, attempt): (u64, u32),
        made: &[(ParticipantId, Arc<[u8]>)],
        out: &mut Vec<Event>,
    ) -> bool {
        if !self.is_running(sequence, attempt) {
            return false;
        }
        let Some(open) = self.open.get_mut(&sequence) else { return false };
        let of = |part: &Part| {
            made.iter().find(|(participant, _)| *participant == part.member.id).map(|(_, made)| Arc::clone(made))
        };
        open.made = open.parts.iter().map(|part| of(part).unwrap_or_default()).collect();
        open.phase = Phase::Preparing { answers: vec![None; open.parts.len()] };
        open.sent = now;
        let parts = open.parts.len();
        self.arm(sequence, Some(now + self.settings.resend_ms));
        for to in 0..parts {
            self.send_prepare(sequence, to, out);
        }
        true
    }

    /// The transaction needs other parts: it is tried again with these. False: the attempt is void.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn again(
        &mut self,
        now: BootMs,
        (sequence, attempt): (u64, u32),
        parts: Vec<Part>,
        out: &mut Vec<Event>,
    ) -> bool {
        assert!(!parts.is_empty(), "a transaction is somewhere");
        if !self.is_running(sequence, attempt) {
            return false;
        }
        self.drop_attempt(sequence, None, out);
        if let Some(open) = self.open.get_mut(&sequence) {
            open.set_parts(parts);
        }
        // No transaction was in its way.
        self.attempt(now, sequence, out);
        true
    }

    /// The values cannot be used yet: they are fetched again after a pause. Does nothing if the attempt is void.
    pub fn later(&mut self, now: BootMs, (sequence, attempt): (u64, u32), out: &mut Vec<Event>) {
        if self.is_running(sequence, attempt) {
            self.drop_attempt(sequence, None, out);
            self.wait(now, sequence);
        }
    }

    /// It has seen its values, or cannot be done: nothing is done. The coordinator answers no client. False: the
    /// attempt is void.
    pub fn give_up(&mut self, now: BootMs, (sequence, attempt): (u64, u32), out: &mut Vec<Event>) -> bool {
        let running = self.is_running(sequence, attempt);
        if running {
            self.end_attempt(now, sequence, out);
        }
        running
    }

    /// As [`Self::abandon`], for one that fetches, if it is sure that nothing of it happens. False: it may be committed
    /// by now.
    pub fn withdraw(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) -> bool {
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

    /// The present attempt, which binds no participant, was the last.
    pub(super) fn end_attempt(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        self.drop_attempt(sequence, None, out);
        if let Some(open) = self.open.get_mut(&sequence) {
            open.untold = false;
        }
        self.arm(sequence, Some(now + self.settings.resend_ms));
        self.close(sequence, now);
    }
}

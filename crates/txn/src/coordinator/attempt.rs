//! Attempts: sent, sent again, given up, followed by the next.

use clocks::BootMs;

use super::{Coordinator, Event, Look, Open, Phase, send};
use crate::{Message, ParticipantId, Settings, TxnId};

/// Attempts of a transaction whose aborts a participant has not acknowledged. That is more than are made within a
/// second, which a participant may take to have them on the disk.
const UNHEARD_MAX: usize = 32;

/// For so many times D transactions that only read are logged, after D was not kept.
const SLOW: u64 = 10;

impl Coordinator {
    /// Sends the next attempt, to the participants in their present lives.
    pub(super) fn attempt(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        for part in &mut open.parts {
            let known = self.peers.get(&part.member.id).copied().unwrap_or(0);
            part.member.incarnation = part.member.incarnation.max(known);
        }
        open.attempt += 1;
        open.sent = now;
        open.moment = open.aim.moment(self.epoch + now.0);
        open.made.clear();
        open.put_together();
        open.phase = match open.fetches {
            true => Phase::Fetching { looks: vec![Look::Asked(None); open.parts.len()] },
            false => Phase::Preparing { answers: vec![None; open.parts.len()] },
        };
        // An attempt that only reads is void after D (rule T3).
        let patience = if open.logged() { self.settings.resend_ms } else { self.settings.read_ms };
        open.alone = open.parts.iter().any(|part| Some(part.member.id) == open.first);
        self.arm(sequence, Some(now + patience));
        self.send_prepares(sequence, |open, participant| !open.is_unasked(participant), out);
    }

    /// A participant has all its locks: if it is asked first, the others are asked now.
    pub(super) fn ask_others(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if std::mem::replace(&mut open.alone, false) {
            if open.logged() {
                self.arm(sequence, Some(now + self.settings.resend_ms));
            }
            self.send_prepares(sequence, |open, participant| open.first != Some(participant), out);
            if self.open.get(&sequence).is_some_and(|open| open.abandoned) {
                self.call_off(sequence, out);
            }
        }
    }

    /// Asks the participants to refuse that were asked to prepare and have not answered. The message may get lost, like
    /// the one before it: it is sent again with that.
    pub(super) fn call_off(&mut self, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get(&sequence) else { return };
        let Phase::Preparing { answers } = &open.phase else { return };
        let tx = TxnId { origin: self.origin, sequence, attempt: open.attempt };
        let silent = open.parts.iter().zip(answers).filter(|(_, answer)| answer.is_none());
        let participants = silent.map(|(part, _)| part.member.id).filter(|participant| !open.is_unasked(*participant));
        out.extend(participants.map(|participant| send(participant, Message::CallOff { tx })));
    }

    fn send_prepares(&mut self, sequence: u64, whom: impl Fn(&Open, ParticipantId) -> bool, out: &mut Vec<Event>) {
        let parts = self.open.get(&sequence).map_or(0, |open| open.parts.len());
        for to in 0..parts {
            if self.open.get(&sequence).is_some_and(|open| whom(open, open.parts[to].member.id)) {
                self.send_prepare(sequence, to, out);
            }
        }
    }

    /// The transaction is tried again after a pause, a longer one each time, because the transaction in its way takes
    /// some time, too.
    pub(super) fn wait(&mut self, now: BootMs, sequence: u64) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        open.phase = Phase::Waiting;
        let doublings = open.attempt.saturating_sub(1).min(16);
        let backoff = self.settings.backoff_ms.saturating_mul(1 << doublings).min(self.settings.backoff_max_ms);
        self.arm(sequence, Some(now + backoff));
    }

    /// An attempt that only reads was not answered within D, and is void (rule T3). A transaction that logs can wait
    /// for its answers. So the next attempt logs, and so do others for a while: nodes are far away, or slow.
    pub(super) fn is_late(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        self.drop_attempt(sequence, None, out);
        self.slow_until = now + self.settings.read_ms.saturating_mul(SLOW);
        if let Some(open) = self.open.get_mut(&sequence) {
            open.logs = true;
        }
        self.wait(now, sequence);
    }

    /// The present attempt is aborted, because `refused` takes no part in it; or it is void, because it only read.
    /// Participants that may have prepared must acknowledge that, so that they remember it.
    pub(super) fn drop_attempt(&mut self, sequence: u64, refused: Option<ParticipantId>, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let (attempt, logged) = (open.attempt, open.logged());
        open.phase = Phase::Over;
        let asked = open.parts.iter().map(|part| part.member.id).filter(|participant| !open.is_unasked(*participant));
        let participants: Vec<ParticipantId> = asked.filter(|participant| Some(*participant) != refused).collect();
        open.alone = false;
        if logged {
            open.aborting.extend(participants.iter().map(|participant| (attempt, *participant)));
        }
        self.arm(sequence, None);
        for participant in participants {
            self.send_outcome(sequence, attempt, participant, false, out);
        }
    }

    pub(super) fn overdue(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get(&sequence) else { return };
        match &open.phase {
            Phase::Preparing { .. } if !open.logged() => self.is_late(now, sequence, out),
            // A participant is out of reach, or its disk is, and many attempts are not known to be over there: there
            // will be no more.
            Phase::Waiting if open.aborting.len() <= UNHEARD_MAX * open.parts.len() => self.attempt(now, sequence, out),
            phase => {
                // A participant that holds locks for a fetching attempt gives it up if it hears nothing: messages may
                // get lost.
                let Settings { resend_ms, outcome_ms, hold_ms, .. } = self.settings;
                let patience = match phase {
                    // It may be one of many that wait for the same key, and the message has all of its commands. So it
                    // is sent ever more seldom, but often enough to keep its place.
                    Phase::Preparing { .. } | Phase::Fetching { .. } if open.alone => {
                        now.since(open.sent).min(hold_ms / 3).max(resend_ms)
                    }
                    Phase::Preparing { .. } | Phase::Fetching { .. } | Phase::Running => resend_ms,
                    _ => outcome_ms,
                };
                self.resend(sequence, None, out);
                self.arm(sequence, Some(now + patience));
            }
        }
    }

    /// Sends unanswered messages again, to one participant or to all.
    pub(super) fn resend(&mut self, sequence: u64, only: Option<ParticipantId>, out: &mut Vec<Event>) {
        let Some(open) = self.open.get(&sequence) else { return };
        let meant = |participant: ParticipantId| only.is_none_or(|only| only == self.heirs.of(participant));
        // A participant that is not asked yet in this attempt may hold something of earlier ones, too.
        let aborting: Vec<(u32, ParticipantId)> =
            open.aborting.iter().filter(|(_, participant)| meant(*participant)).copied().collect();
        let wanted = |participant: ParticipantId| meant(participant) && !open.is_unasked(participant);
        let (mut preparing, mut committing) = (Vec::new(), Vec::new());
        let (mut holding, mut leaving) = (Vec::new(), Vec::new());
        match &open.phase {
            Phase::Preparing { answers } => {
                let parts = open.parts.iter().zip(answers).enumerate();
                let silent = parts.filter(|(_, (part, answer))| answer.is_none() && wanted(part.member.id));
                preparing.extend(silent.map(|(at, _)| at));
            }
            Phase::Fetching { looks } => {
                let parts = open.parts.iter().zip(looks).enumerate();
                let wanted = parts.filter(|(_, (part, _))| wanted(part.member.id));
                for (at, (part, look)) in wanted {
                    if look.is_awaited() { preparing.push(at) } else { holding.push(part.member.id) }
                }
            }
            Phase::Running => {
                holding.extend(open.parts.iter().map(|part| part.member.id).filter(|participant| wanted(*participant)))
            }
            Phase::Committing { owing } => {
                committing.extend(owing.iter().copied().filter(|participant| wanted(*participant)))
            }
            Phase::Left { owing } => leaving.extend(owing.iter().copied().filter(|participant| wanted(*participant))),
            Phase::Waiting | Phase::Rerouting | Phase::Over => {}
        }
        let (attempt, is_called_off) = (open.attempt, open.abandoned && !preparing.is_empty());
        let tx = TxnId { origin: self.origin, sequence, attempt };
        out.extend(leaving.into_iter().map(|to| send(to, Message::Leave { tx })));
        for (attempt, participant) in aborting {
            self.send_outcome(sequence, attempt, participant, false, out);
        }
        for at in preparing {
            self.send_prepare(sequence, at, out);
        }
        if is_called_off {
            self.call_off(sequence, out);
        }
        for participant in committing {
            self.send_outcome(sequence, attempt, participant, true, out);
        }
        let tx = TxnId { origin: self.origin, sequence, attempt };
        out.extend(holding.into_iter().map(|participant| send(participant, Message::Hold { tx })));
    }

    /// Attempts that wait for a participant's answer, and whether it may have bound itself: then they may be committed
    /// as soon as it answers.
    pub fn waits_for(&self, participant: ParticipantId) -> impl Iterator<Item = (TxnId, bool)> {
        let (origin, heirs) = (self.origin, &self.heirs);
        self.open.iter().filter_map(move |(sequence, open)| {
            let at = open.parts.iter().position(|part| heirs.of(part.member.id) == participant)?;
            let (waits, binds) = match &open.phase {
                Phase::Preparing { answers } => {
                    (answers[at].is_none(), open.logged() && !open.is_unasked(open.parts[at].member.id))
                }
                Phase::Fetching { looks } => (looks[at].is_awaited(), false),
                _ => (false, false),
            };
            waits.then_some((TxnId { origin, sequence: *sequence, attempt: open.attempt }, binds))
        })
    }

    /// Transactions with a part at a participant and without an attempt under way: the next one is to come.
    pub fn between_attempts(&self, participant: ParticipantId) -> impl Iterator<Item = u64> {
        let waits = move |open: &super::Open| {
            open.phase == Phase::Waiting && open.parts.iter().any(|part| part.member.id == participant)
        };
        self.open.iter().filter(move |(_, open)| waits(open)).map(|(sequence, _)| *sequence)
    }

    /// The name of the present attempt of a transaction that is not finished.
    pub fn current(&self, sequence: u64) -> Option<TxnId> {
        let open = self.open.get(&sequence)?;
        Some(TxnId { origin: self.origin, sequence, attempt: open.attempt })
    }
}

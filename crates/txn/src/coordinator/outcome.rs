//! The answers of participants, and their consequences for the client.

use std::collections::BTreeSet;
use std::sync::Arc;

use clocks::BootMs;

use super::{Coordinator, Event, Phase, send};
use crate::{Message, ParticipantId, Refusal, TxnId};

impl Coordinator {
    pub(super) fn prepared(
        &mut self,
        now: BootMs,
        from: ParticipantId,
        tx: TxnId,
        replies: Option<Arc<[u8]>>,
        out: &mut Vec<Event>,
    ) {
        let Some(open) = self.open.get_mut(&tx.sequence).filter(|open| open.attempt == tx.attempt) else { return };
        let Phase::Preparing { answers } = &mut open.phase else { return };
        let Some(at) = open.parts.iter().position(|part| part.member.id == from) else { return };
        answers[at].get_or_insert(replies);
        self.ask_others(now, tx.sequence, out);
        let Some(open) = self.open.get(&tx.sequence) else { return };
        let Phase::Preparing { answers } = &open.phase else { return };
        if answers.iter().any(|answer| answer.is_none()) {
            return;
        }
        // A participant may have given its locks up before another had any. Their clocks may be faster by a quarter.
        let counts_for = self.settings.read_ms / 4 * 3;
        if !open.logged() && now.since(open.sent) > counts_for {
            return self.is_late(now, tx.sequence, out);
        }
        self.decided(now, tx.sequence, out);
    }

    /// All are prepared: the transaction is committed (parallel commit), and the client is answered.
    fn decided(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let Phase::Preparing { answers } = &open.phase else { return };
        let replies = open.parts.iter().zip(answers).map(|(part, answer)| {
            let reply = answer.as_ref()?.clone().or_else(|| open.known.then(Arc::default))?;
            Some((part.member.id, reply))
        });
        let replies: Option<Vec<_>> = replies.collect();
        if std::mem::replace(&mut open.untold, false) {
            out.push(match replies {
                Some(replies) => Event::Reply { sequence, replies },
                None => Event::Close { sequence },
            });
        }
        if !open.logged() {
            self.drop_attempt(sequence, None, out);
            return self.close(sequence, now);
        }
        let participants: Vec<ParticipantId> = open.parts.iter().map(|part| part.member.id).collect();
        let attempt = open.attempt;
        open.phase = Phase::Committing { owing: participants.iter().copied().collect() };
        self.arm(sequence, Some(now + self.settings.outcome_ms));
        for participant in participants {
            self.send_outcome(sequence, attempt, participant, true, out);
        }
    }

    pub(super) fn refused(&mut self, now: BootMs, from: ParticipantId, tx: TxnId, why: Refusal, out: &mut Vec<Event>) {
        let (sequence, heir) = (tx.sequence, from);
        let from = self.named(heir, tx);
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let part = open.parts.iter().any(|part| part.member.id == from);
        let preparing = matches!(open.phase, Phase::Fetching { .. } | Phase::Running | Phase::Preparing { .. });
        if open.attempt != tx.attempt || !preparing || !part {
            // A participant that refuses has nothing to abort.
            let heirs = &self.heirs;
            open.aborting.retain(|(attempt, id)| *attempt != tx.attempt || *id != heir && heirs.of(*id) != heir);
            return self.close(sequence, now);
        }
        self.drop_attempt(sequence, Some(from), out);
        let Some(open) = self.open.get_mut(&sequence) else { return };
        match why {
            // The heir of a lost participant takes no new part in its name.
            Refusal::Conflict | Refusal::Stale | Refusal::Over if !open.abandoned && from != heir => {
                return self.route_again(now, sequence, out);
            }
            Refusal::Conflict if !open.abandoned => {
                open.first = Some(from);
                return self.wait(now, sequence);
            }
            Refusal::Untimely { now: theirs, ends } if !open.abandoned => {
                return self.untimely(now, sequence, (theirs, ends), out);
            }
            Refusal::Stale | Refusal::Over if !open.abandoned => return self.wait(now, sequence),
            Refusal::Moved if !open.abandoned => return self.route_again(now, sequence, out),
            _ => {
                let untold = std::mem::replace(&mut open.untold, false);
                out.extend(untold.then_some(Event::Failed { sequence, why }));
            }
        }
        self.arm(sequence, Some(now + self.settings.outcome_ms));
        self.close(sequence, now);
    }

    pub(super) fn acknowledged(&mut self, now: BootMs, from: ParticipantId, tx: TxnId) {
        let Some(open) = self.open.get_mut(&tx.sequence) else { return };
        match &mut open.phase {
            Phase::Committing { owing } | Phase::Left { owing } if open.attempt == tx.attempt => {
                owing.retain(|id| *id != from && self.heirs.of(*id) != from);
            }
            _ => open
                .aborting
                .retain(|(attempt, id)| *attempt != tx.attempt || *id != from && self.heirs.of(*id) != from),
        }
        self.close(tx.sequence, now);
    }

    /// The attempt is over, and the next one goes to other nodes, if a client waits for it.
    pub(super) fn route_again(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        open.phase = if open.untold { Phase::Rerouting } else { Phase::Over };
        out.extend(open.untold.then_some(Event::Reroute { sequence }));
        self.arm(sequence, Some(now + self.settings.outcome_ms));
        self.close(sequence, now);
    }

    /// A participant is lost before all are known to be prepared (rule T5).
    pub(super) fn leave(&mut self, now: BootMs, sequence: u64, lost: ParticipantId, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let participants = open.parts.iter().map(|part| part.member.id);
        let owing: BTreeSet<ParticipantId> = participants.filter(|participant| *participant != lost).collect();
        let tx = TxnId { origin: self.origin, sequence, attempt: open.attempt };
        out.extend(owing.iter().map(|to| send(*to, Message::Leave { tx })));
        open.phase = Phase::Left { owing };
        if std::mem::replace(&mut open.untold, false) {
            out.push(Event::Close { sequence });
        }
        self.arm(sequence, Some(now + self.settings.outcome_ms));
    }

    /// Forgets a transaction if nothing is left to be done for it.
    pub(super) fn close(&mut self, sequence: u64, now: BootMs) {
        let Some(open) = self.open.get(&sequence) else { return };
        let over = match &open.phase {
            Phase::Committing { owing } | Phase::Left { owing } => owing.is_empty(),
            Phase::Over => true,
            Phase::Fetching { .. } | Phase::Running => false,
            Phase::Preparing { .. } | Phase::Waiting | Phase::Rerouting => false,
        };
        if over && open.aborting.is_empty() {
            self.arm(sequence, None);
            self.open.remove(&sequence);
            self.plan_to_tell(now);
        }
    }
}

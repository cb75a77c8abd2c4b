//! From prepared to an outcome, and the inquiries of others.

use std::sync::Arc;

use super::attempt::{Attempt, Logged, Phase, Want};
use super::{Action, Participant, send};
use crate::inquiry::Verdict;
use crate::{Life, Message, Origin, Recipient, Record, Status, TxnId};

impl Participant {
    /// Another node knows that all are prepared.
    pub(super) fn commit(&mut self, from: Recipient, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else {
            // It was committed here, and is forgotten: all have acknowledged.
            return out.push(send(from, Message::Acknowledged { tx }));
        };
        match &attempt.phase {
            Phase::Committed { .. } => return out.push(send(from, Message::Acknowledged { tx })),
            Phase::Prepared { .. } | Phase::Deciding { commit: true, .. } => {
                attempt.waiting.insert((from, Want::Acknowledged));
            }
            _ => return out.push(Action::Contradiction { tx, what: "committed, and not prepared here" }),
        }
        self.install(tx, out);
    }

    fn install(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        let Phase::Prepared { prepared, .. } = &attempt.phase else { return };
        let prepared = Arc::clone(prepared);
        attempt.phase = Phase::Deciding { commit: true, members: Arc::clone(&prepared.members) };
        let locks = Arc::clone(&prepared.locks);
        self.arm(tx, None);
        out.push(Action::Install { prepared });
        out.push(Action::Unlock { tx, locks });
    }

    /// The coordinator knows of a refusal, or it is done with an attempt that only read.
    pub(super) fn abort(&mut self, from: Recipient, tx: TxnId, out: &mut Vec<Action>) {
        if self.lost_of(tx).is_some() {
            // It has been on its way for long: the coordinator has ended, and is not listened to any more.
            return;
        }
        if let Some(attempt) = self.known.get_mut(&tx) {
            attempt.waiting.insert((from, Want::Acknowledged));
            return self.give_up(tx, out);
        }
        out.push(send(from, Message::Acknowledged { tx }));
        if !self.is_finished(tx) && !self.is_gone(tx.origin) && !self.is_followed(tx) {
            // The Prepare may still come.
            self.known.insert(tx, Attempt::new(Phase::Refused { logged: Logged::No }));
        }
    }

    /// The attempt is over and not committed.
    pub(super) fn give_up(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        match &mut attempt.phase {
            Phase::Queued { prepare, .. } | Phase::Fetched { prepare, .. } => {
                out.push(Action::Unlock { tx, locks: attempt.wider.with(&prepare.locks) });
                self.refused(tx, out);
            }
            Phase::Held { locks, .. } => {
                out.push(Action::Unlock { tx, locks: Arc::clone(locks) });
                self.refused(tx, out);
            }
            Phase::Executing { cancelled, .. } => {
                *cancelled = true;
                self.arm(tx, None);
            }
            Phase::Appending { prepared, .. } | Phase::Prepared { prepared, .. } => {
                let prepared = Arc::clone(prepared);
                attempt.phase = Phase::Deciding { commit: false, members: Arc::clone(&prepared.members) };
                self.arm(tx, None);
                out.push(Action::Append { record: Record::Abort { tx } });
                out.push(Action::Unlock { tx, locks: Arc::clone(&prepared.locks) });
                self.inform(tx, out);
            }
            Phase::Refused { .. } | Phase::Aborted => self.acknowledge(tx, out),
            Phase::Deciding { commit: false, .. } => {}
            Phase::Deciding { commit: true, .. } | Phase::Committed { .. } => {
                attempt.waiting.retain(|(_, want)| *want == Want::Status);
                out.push(Action::Contradiction { tx, what: "aborted, and committed here" });
            }
        }
    }

    fn refused(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        attempt.end();
        self.arm(tx, None);
        self.acknowledge(tx, out);
        if self.is_gone(tx.origin) {
            self.forget(tx);
        }
    }

    /// Acknowledges an abort to the nodes that wait for that.
    pub(super) fn acknowledge(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        attempt.waiting.retain(|(to, want)| {
            if *want == Want::Acknowledged {
                out.push(send(*to, Message::Acknowledged { tx }));
            }
            *want != Want::Acknowledged
        });
    }

    /// Sends the status to the nodes that asked, where it does not wait for the log.
    fn inform(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(status) = self.status_of(tx) else { return };
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        attempt.waiting.retain(|(to, want)| {
            if *want == Want::Status {
                out.push(send(*to, Message::Status { tx, status }));
            }
            *want != Want::Status
        });
    }

    /// Another participant asks (rule T4).
    pub(super) fn inquire(&mut self, from: Recipient, tx: TxnId, incarnation: u64, out: &mut Vec<Action>) {
        if self.refuses.is_some() {
            // Nothing is logged yet, and the participant will ask again.
            return;
        }
        if let Some(attempt) = self.known.get_mut(&tx) {
            attempt.waiting.insert((from, Want::Status));
            if attempt.phase == (Phase::Refused { logged: Logged::No }) {
                attempt.phase = Phase::Refused { logged: Logged::Appending };
                out.push(Action::Append { record: Record::Refuse { tx } });
            }
            return self.inform(tx, out);
        }
        if incarnation > self.me.incarnation || self.is_finished(tx) {
            // A later term answers, or the participant may not ask.
            return;
        }
        let is_earlier = incarnation < self.me.incarnation;
        if is_earlier || self.is_gone(tx.origin) || self.is_followed(tx) {
            return out.push(send(from, Message::Status { tx, status: Status::Refused }));
        }
        let mut attempt = Attempt::new(Phase::Refused { logged: Logged::Appending });
        attempt.waiting.insert((from, Want::Status));
        self.known.insert(tx, attempt);
        out.push(Action::Append { record: Record::Refuse { tx } });
    }

    /// Another participant answers.
    pub(super) fn status(&mut self, from: Recipient, tx: TxnId, status: Status, out: &mut Vec<Action>) {
        let (Some(attempt), Recipient::Participant(from)) = (self.known.get_mut(&tx), from) else { return };
        if let Phase::Prepared { prepared, inquiry, .. } = &mut attempt.phase {
            let members = prepared.members.iter().map(|member| member.id);
            inquiry.answered(self.heirs.named(from, members).unwrap_or(from), status);
            self.conclude(tx, out);
        }
    }

    /// Decides by the known answers.
    pub(super) fn conclude(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(Phase::Prepared { prepared, inquiry, .. }) = self.known.get(&tx).map(|attempt| &attempt.phase) else {
            return;
        };
        let lost = self.bereft(tx).unwrap_or_default();
        match inquiry.verdict(&self.others(&prepared.members), &lost) {
            Verdict::Commit => self.install(tx, out),
            Verdict::Presume => {
                out.push(Action::Presumed { tx, lost });
                self.install(tx, out);
            }
            Verdict::Abort => self.give_up(tx, out),
            Verdict::Open => {}
        }
    }

    /// No node will ask about transactions below `below` any more (rule T5), if the coordinator says so.
    pub(super) fn finished(&mut self, from: Life, origin: Origin, below: u64, out: &mut Vec<Action>) {
        if from != origin.life {
            return;
        }
        let mark = self.finished.entry((origin.life.node, origin.lane)).or_default();
        let new = (origin.life.incarnation, below);
        if new <= *mark {
            return;
        }
        *mark = new;
        let first = TxnId { origin, sequence: 0, attempt: 0 };
        let over = self.known.range(first..TxnId { sequence: below, ..first }).map(|(tx, _)| *tx);
        for tx in over.collect::<Vec<_>>() {
            match self.known.get(&tx).map(|attempt| &attempt.phase) {
                Some(Phase::Committed { .. } | Phase::Aborted) => self.forget(tx),
                Some(Phase::Refused { logged: Logged::No | Logged::Yes }) => self.forget(tx),
                Some(Phase::Held { .. } | Phase::Fetched { .. }) => {
                    self.give_up(tx, out);
                    self.forget(tx);
                }
                _ => {}
            }
        }
    }
}

//! From a Prepare to the record of it, or to a refusal.

use std::sync::Arc;

use clocks::BootMs;

use super::attempt::{Attempt, Logged, Phase};
use super::{Action, Execution, Participant, send, to_coordinator};
use crate::{Member, Message, Prepare, Prepared, Recipient, Record, Refusal, TxnId};

impl Participant {
    /// `fetches`: it is to send its values, and hears its work later.
    pub(super) fn prepare(
        &mut self,
        now: BootMs,
        from: Recipient,
        prepare: Arc<Prepare>,
        fetches: bool,
        out: &mut Vec<Action>,
    ) {
        let tx = prepare.tx;
        if let Some(attempt) = self.known.get(&tx) {
            // It was sent again: the answer may have been lost.
            let answer = match &attempt.phase {
                Phase::Queued { .. } => return self.hold(now, tx),
                Phase::Executing { .. } | Phase::Appending { .. } => return,
                Phase::Fetched { found, .. } => attempt.fetched(tx, found),
                Phase::Held { replies, .. } => Message::Prepared { tx, replies: Some(Arc::clone(replies)) },
                Phase::Prepared { replies, .. } => Message::Prepared { tx, replies: replies.clone() },
                Phase::Deciding { commit: true, .. } | Phase::Committed { .. } => {
                    Message::Prepared { tx, replies: None }
                }
                Phase::Deciding { .. } | Phase::Aborted | Phase::Refused { .. } => {
                    Message::Refused { tx, why: Refusal::Over }
                }
            };
            return out.push(send(from, answer));
        }
        let named = prepare.members.iter().find(|member| member.id == self.me.id).map(|member| member.incarnation);
        // A part in an earlier name of this one is of an earlier life in any case.
        let is_inherited = prepare.members.iter().any(|member| member.id != self.me.id && self.is_me(member.id));
        let is_late = !is_inherited && named.is_none_or(|named| named > self.me.incarnation);
        if self.is_finished(tx) || self.is_gone(tx.origin) || is_late {
            // It was under way for long: no node waits for an answer.
            return;
        }
        let refuse = |why| send(from, Message::Refused { tx, why });
        if is_inherited || named != Some(self.me.incarnation) {
            return out.push(refuse(Refusal::Stale));
        }
        if self.is_followed(tx) {
            return out.push(refuse(Refusal::Over));
        }
        self.follow(tx, out);
        if let Some(why) = &self.refuses {
            out.push(refuse(Refusal::Failed(why.clone())));
            self.known.insert(tx, Attempt::new(Phase::Refused { logged: Logged::No }));
            return;
        }
        let (stamp, locks) = (prepare.stamp, Arc::clone(&prepare.locks));
        let (logged, patient) = (prepare.logged, prepare.patient);
        self.known.insert(tx, Attempt::new(Phase::Queued { prepare, fetches }));
        if logged || fetches {
            self.hold(now, tx);
        } else {
            self.reads(now);
            self.arm(tx, Some(now + self.settings.read_ms));
        }
        out.push(Action::Lock { tx, stamp, locks, patient, widens: false });
    }

    /// An attempt holds locks from now on at the earliest, and nothing of it is logged.
    fn reads(&mut self, now: BootMs) {
        self.reads_until = self.reads_until.max(now + self.settings.read_ms);
    }

    /// A new attempt: the coordinator knows that all earlier ones are aborted.
    fn follow(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let earlier = self.known.range(TxnId { attempt: 0, ..tx }..tx).map(|(tx, _)| *tx);
        for tx in earlier.collect::<Vec<_>>() {
            self.give_up(tx, out);
            let phase = self.known.get(&tx).map(|attempt| &attempt.phase);
            if let Some(Phase::Aborted | Phase::Refused { logged: Logged::No | Logged::Yes }) = phase {
                self.forget(tx);
            }
        }
    }

    /// The locks of an attempt are all granted, or it dies (rule T7).
    pub fn locked(&mut self, tx: TxnId, granted: bool, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        let Phase::Queued { prepare, fetches } = &attempt.phase else { return };
        let (prepare, fetches) = (Arc::clone(prepare), *fetches);
        if granted {
            let (commands, logged) = (Arc::clone(&prepare.commands), prepare.logged);
            let locks = Arc::clone(attempt.wider.locks.last().unwrap_or(&prepare.locks));
            let moment = (prepare.members.len() > 1).then_some(prepare.moment);
            attempt.phase = Phase::Executing { prepare, cancelled: false };
            if logged || fetches {
                self.arm(tx, None);
            }
            return out.push(match fetches {
                true => Action::Fetch { tx, locks, commands, logged },
                false => Action::Execute { tx, commands, logged, moment },
            });
        }
        if attempt.wider.round > 0 {
            // It holds the locks that it has asked for before.
            out.push(attempt.unlock(tx, &prepare));
        }
        self.refuse(tx, Refusal::Conflict, out);
    }

    /// True if an attempt still wants its locks. A node asks this under the latches of the keys, just before it
    /// requests the locks. From then on the end of the attempt comes with an [`Action::Unlock`], so that every claim
    /// has an owner.
    pub fn is_queued(&self, tx: TxnId) -> bool {
        self.known.get(&tx).is_some_and(|attempt| matches!(attempt.phase, Phase::Queued { .. }))
    }

    /// The node will not wait for the locks of an attempt any longer. False: the attempt has them, or it is over. Then
    /// nothing was done, and its claims are still its own.
    #[must_use]
    pub fn refuse_queued(&mut self, tx: TxnId, why: Refusal, out: &mut Vec<Action>) -> bool {
        let Some(attempt) = self.known.get(&tx) else { return false };
        let Phase::Queued { prepare, .. } = &attempt.phase else { return false };
        out.push(attempt.unlock(tx, prepare));
        self.refuse(tx, why, out);
        true
    }

    /// The values for an attempt, which are committed.
    pub fn fetched(&mut self, now: BootMs, tx: TxnId, found: Arc<[u8]>, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        let Phase::Executing { prepare, cancelled } = &attempt.phase else { return };
        let (prepare, cancelled) = (Arc::clone(prepare), *cancelled);
        if cancelled {
            out.push(attempt.unlock(tx, &prepare));
            return self.refuse(tx, Refusal::Over, out);
        }
        out.push(to_coordinator(tx, attempt.fetched(tx, &found)));
        attempt.phase = Phase::Fetched { prepare, found };
        self.hold(now, tx);
    }

    /// The coordinator is still at work. An attempt that waits patiently is given up, too, if its coordinator is
    /// silent. One queue may have many attempts of a node that has ended, and each of them, once prepared, would be in
    /// doubt for a while. The same holds for an attempt that only reads: it is never told that it is over. As long as
    /// its coordinator is heard of it keeps its place, however long that takes: its answers count from when it has them
    /// (rule T3).
    pub(super) fn hold(&mut self, now: BootMs, tx: TxnId) {
        let holds = |attempt: &Attempt| match &attempt.phase {
            Phase::Fetched { .. } => true,
            Phase::Queued { .. } if attempt.wider.round > 0 => true,
            Phase::Queued { prepare, .. } if prepare.logged => prepare.patient,
            Phase::Queued { fetches, .. } => *fetches,
            _ => false,
        };
        if self.known.get(&tx).is_some_and(holds) {
            self.arm(tx, Some(now + self.settings.hold_ms));
        }
    }

    /// The coordinator has the values of all participants, and sends the work.
    pub(super) fn proceed(
        &mut self,
        now: BootMs,
        from: Recipient,
        tx: TxnId,
        (members, logged, commands): (Arc<[Member]>, bool, Arc<[u8]>),
        out: &mut Vec<Action>,
    ) {
        let Some(attempt) = self.known.get_mut(&tx) else { return self.has_not_fetched(from, tx, out) };
        let answer = match &attempt.phase {
            Phase::Fetched { prepare, .. } => {
                let locks = std::mem::take(&mut attempt.wider).with(&prepare.locks);
                // As if all keys had been asked for at once.
                let prepare = Prepare { members, logged, locks, ..Prepare::clone(prepare) };
                let (stamp, locks) = (prepare.stamp, Arc::clone(&prepare.locks));
                attempt.phase = Phase::Executing { prepare: Arc::new(prepare), cancelled: false };
                let read_ms = self.settings.read_ms;
                if !logged {
                    self.reads(now);
                }
                self.arm(tx, (!logged).then(|| now + read_ms));
                return out.push(Action::Proceed { tx, stamp, locks, commands, logged });
            }
            Phase::Queued { .. } | Phase::Executing { .. } | Phase::Appending { .. } => return,
            Phase::Held { replies, .. } => Message::Prepared { tx, replies: Some(Arc::clone(replies)) },
            Phase::Prepared { replies, .. } => Message::Prepared { tx, replies: replies.clone() },
            Phase::Deciding { commit: true, .. } | Phase::Committed { .. } => Message::Prepared { tx, replies: None },
            Phase::Deciding { commit: false, .. } | Phase::Aborted | Phase::Refused { .. } => {
                Message::Refused { tx, why: Refusal::Over }
            }
        };
        out.push(send(from, answer));
    }

    /// The coordinator believes that an attempt has fetched, which is unknown here.
    pub(super) fn has_not_fetched(&mut self, from: Recipient, tx: TxnId, out: &mut Vec<Action>) {
        if !self.is_finished(tx) && !self.is_gone(tx.origin) && !self.is_followed(tx) {
            // An earlier life has fetched, or it was given up and is forgotten. The Fetch may come once more: the
            // values have changed by then.
            self.known.insert(tx, Attempt::new(Phase::Refused { logged: Logged::No }));
            out.push(send(from, Message::Refused { tx, why: Refusal::Stale }));
        }
    }

    /// The coordinator was silent for too long.
    pub(super) fn let_go(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get(&tx) else { return };
        if let Phase::Fetched { prepare, .. } = &attempt.phase {
            out.push(attempt.unlock(tx, prepare));
            self.refuse(tx, Refusal::Conflict, out);
        }
    }

    /// An attempt has been executed.
    pub fn executed(&mut self, tx: TxnId, execution: Execution, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        let Phase::Executing { prepare, cancelled } = &attempt.phase else { return };
        let (prepare, cancelled) = (Arc::clone(prepare), *cancelled);
        let unlock = attempt.unlock(tx, &prepare);
        match execution {
            _ if cancelled => {
                out.push(unlock);
                self.refuse(tx, Refusal::Over, out);
            }
            Execution::Refused(why) => {
                out.push(unlock);
                self.refuse(tx, why, out);
            }
            Execution::Done { replies, .. } if !prepare.logged => {
                out.push(to_coordinator(tx, Message::Prepared { tx, replies: Some(Arc::clone(&replies)) }));
                attempt.phase = Phase::Held { locks: Arc::clone(&prepare.locks), replies };
            }
            Execution::Done { effects, replies } => {
                let (stamp, members) = (prepare.stamp, Arc::clone(&prepare.members));
                let prepared = Arc::new(Prepared { tx, stamp, members, locks: Arc::clone(&prepare.locks), effects });
                attempt.phase = Phase::Appending { prepared: Arc::clone(&prepared), replies };
                out.push(Action::Append { record: Record::Prepare(prepared) });
            }
        }
    }

    /// It takes no part in an attempt that is not in the log, and holds nothing for it any more.
    fn refuse(&mut self, tx: TxnId, why: Refusal, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        attempt.end();
        self.arm(tx, None);
        out.push(to_coordinator(tx, Message::Refused { tx, why }));
        self.acknowledge(tx, out);
        if self.is_gone(tx.origin) || self.is_followed(tx) {
            self.forget(tx);
        }
    }
}

//! Transactions whose coordinator has ended: their participants settle them among themselves (rule T5).

use std::collections::BTreeSet;

use clocks::BootMs;

use super::attempt::{Logged, Phase, Want};
use super::{Action, Participant, send, to_participant};
use crate::{Life, Message, NodeId, ParticipantId, Recipient, TxnId};

/// The life of a node that will never live again.
const NEVER: u64 = u64::MAX;

impl Participant {
    /// A node is heard of, from itself or from the cluster's metadata. All its earlier lives are over.
    pub fn peer(&mut self, now: BootMs, life: Life, out: &mut Vec<Action>) {
        let before = self.peers.get(&life.node).copied();
        // Heard of for the first time: the log may speak of earlier lives.
        if before.is_none_or(|before| before < life.incarnation) {
            self.peers.insert(life.node, life.incarnation);
            self.orphaned(now, life.node, out);
        }
    }

    /// A node will never live again, by the word of the cluster's metadata: transactions of its coordinators are
    /// orphaned, and their messages are not heard any more.
    pub fn gone(&mut self, now: BootMs, node: NodeId, out: &mut Vec<Action>) {
        if self.peers.insert(node, NEVER) != Some(NEVER) {
            self.orphaned(now, node, out);
        }
    }

    /// A participant is lost for good, by the word of the cluster's metadata: its acknowledgements are not awaited, and
    /// its messages are not heard any more.
    pub fn lost(&mut self, now: BootMs, participant: ParticipantId) {
        if !self.lost.insert(participant) {
            return;
        }
        let bereft = self.known.iter().filter(|(_, attempt)| match &attempt.phase {
            Phase::Prepared { prepared, .. } => prepared.members.iter().any(|member| member.id == participant),
            _ => false,
        });
        for tx in bereft.map(|(tx, _)| *tx).collect::<Vec<_>>() {
            self.arm(tx, Some(now));
        }
        let owed = self.known.iter_mut().filter_map(|(tx, attempt)| match &mut attempt.phase {
            Phase::Committed { owing: Some(owing), .. } => owing.remove(&participant).then_some(*tx),
            _ => None,
        });
        for tx in owed.collect::<Vec<_>>() {
            self.acknowledged(Recipient::Participant(participant), tx);
        }
    }

    /// A participant has another name from now on: the heir, which may be this one. Messages in the earlier name are not
    /// heard any more.
    pub fn continued(&mut self, now: BootMs, lost: ParticipantId, heir: ParticipantId) {
        if !self.heirs.add(lost, heir) {
            return;
        }
        self.lost.remove(&lost);
        let waits = self.known.iter().filter(|(_, attempt)| match &attempt.phase {
            Phase::Prepared { prepared, .. } => prepared.members.iter().any(|member| member.id == lost),
            Phase::Committed { owing: Some(owing), .. } => owing.contains(&lost),
            _ => false,
        });
        for tx in waits.map(|(tx, _)| *tx).collect::<Vec<_>>() {
            self.arm(tx, Some(now));
        }
    }

    /// True if this one is not heard any more.
    pub(super) fn is_deaf_to(&self, sender: Recipient) -> bool {
        match sender {
            Recipient::Coordinator(node) => self.peers.get(&node) == Some(&NEVER),
            Recipient::Participant(participant) => {
                self.lost.contains(&participant) || self.heirs.is_continued(participant)
            }
        }
    }

    /// The lost participants of a prepared attempt, if there are any and the others are to settle it without the
    /// coordinator.
    pub(super) fn bereft(&self, tx: TxnId) -> Option<Vec<ParticipantId>> {
        self.lost_of(tx).filter(|_| matches!(self.known[&tx].phase, Phase::Prepared { .. }))
    }

    /// As [`Self::bereft`], for one that may be decided by now.
    pub(super) fn lost_of(&self, tx: TxnId) -> Option<Vec<ParticipantId>> {
        let attempt = self.known.get(&tx).filter(|attempt| attempt.left || self.is_gone(tx.origin))?;
        let members = match &attempt.phase {
            Phase::Prepared { prepared, .. } => &prepared.members,
            Phase::Deciding { members, .. } | Phase::Committed { members, .. } => members,
            _ => return None,
        };
        let lost = members.iter().map(|member| member.id).filter(|id| self.lost.contains(id));
        Some(lost.collect()).filter(|lost: &Vec<_>| !lost.is_empty())
    }

    /// The coordinator will not decide: another participant is lost.
    pub(super) fn leave(&mut self, now: BootMs, from: Recipient, tx: TxnId, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return self.abort(from, tx, out) };
        attempt.left = true;
        match &attempt.phase {
            Phase::Queued { .. } | Phase::Executing { .. } | Phase::Fetched { .. } | Phase::Held { .. } => {
                self.abort(from, tx, out);
            }
            Phase::Committed { .. } | Phase::Aborted | Phase::Refused { .. } => {
                out.push(send(from, Message::Acknowledged { tx }));
            }
            Phase::Prepared { .. } | Phase::Appending { .. } | Phase::Deciding { .. } => {
                attempt.waiting.insert((from, Want::Acknowledged));
                if matches!(attempt.phase, Phase::Prepared { .. }) {
                    self.arm(tx, Some(now));
                }
            }
        }
    }

    fn orphaned(&mut self, now: BootMs, node: NodeId, out: &mut Vec<Action>) {
        let of = |tx: &&TxnId| tx.origin.life.node == node && self.is_gone(tx.origin);
        let orphans: Vec<TxnId> = self.known.keys().filter(of).copied().collect();
        for tx in orphans {
            self.settle(now, tx, out);
        }
    }

    /// If the coordinator of the attempt is gone, does its work.
    pub(super) fn settle(&mut self, now: BootMs, tx: TxnId, out: &mut Vec<Action>) {
        if !self.is_gone(tx.origin) {
            return;
        }
        let (me, heirs) = (self.me.id, &self.heirs);
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        match &mut attempt.phase {
            // Answers that were not given may be refusals.
            Phase::Queued { .. } | Phase::Executing { .. } | Phase::Fetched { .. } | Phase::Held { .. } => {
                self.give_up(tx, out);
            }
            Phase::Prepared { .. } => self.arm(tx, Some(now)),
            // A participant that asks about an unknown attempt hears that it was refused.
            Phase::Aborted | Phase::Refused { logged: Logged::No | Logged::Yes } => self.forget(tx),
            Phase::Committed { members, owing: owing @ None } => {
                let others = members.iter().map(|member| member.id).filter(|id| heirs.of(*id) != me);
                let owed: BTreeSet<ParticipantId> = others.filter(|id| !self.lost.contains(id)).collect();
                if owed.is_empty() {
                    return self.forget(tx);
                }
                for to in &owed {
                    out.push(to_participant(*to, Message::Commit { tx, finished: 0 }));
                }
                *owing = Some(owed);
                self.arm(tx, Some(now + self.settings.outcome_ms));
            }
            Phase::Appending { .. }
            | Phase::Deciding { .. }
            | Phase::Committed { .. }
            | Phase::Refused { logged: Logged::Appending } => {}
        }
    }

    /// Another participant has the outcome in its log.
    pub(super) fn acknowledged(&mut self, from: Recipient, tx: TxnId) {
        let (Some(attempt), Recipient::Participant(from)) = (self.known.get_mut(&tx), from) else { return };
        if let Phase::Committed { owing: Some(owing), .. } = &mut attempt.phase {
            owing.retain(|id| *id != from && self.heirs.of(*id) != from);
            if owing.is_empty() {
                self.forget(tx);
            }
        }
    }
}

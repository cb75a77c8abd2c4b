//! A shard's part in transactions that others coordinate.
//!
//! ```text
//!            Prepare                locks            executed           committed           Commit, or all others prepared
//! (unknown) ---------> queued ------------> executing ------> appending ---------> prepared ------> deciding -> committed
//!     |                  | dies, Abort         | fails, Abort     | Abort              | Abort, or another refused
//!     | Inquire, Abort   v                     v                  v                    v
//!     +--------------> refused <---------------+                deciding ---------------------------> aborted
//! ```
//! Between queued and executing, an attempt that fetches sends its values, and then executes the coordinator's work.
//! Until then it may still refuse, and does if it hears nothing for too long.
//!
//! A participant never takes an answer back (rule T4). *Prepared* is in the log before it is said. A refusal is
//! remembered, and logged before another participant hears of it. Some attempts are refused without being remembered.
//! They are those that an earlier term of the shard did not log (rule T1), those that a later attempt has followed, and
//! unknown ones of a coordinator that is gone. Outcomes are kept until the coordinator says that no node will ask any
//! more (rule T5), or, if it is gone, until all others have acknowledged theirs.

mod attempt;
mod decide;
mod gone;
mod prepare;
mod widen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clocks::{BootMs, UnixMs};

use crate::{
    Heirs, Lock, Member, Message, NodeId, Origin, ParticipantId, Prepared, Recipient, Record, RecordKind, Refusal,
    Sender, Settings, Stamp, Status, TxnId,
};
use attempt::{Attempt, Logged, Phase, Want};

/// The requests of a participant to its node, in the order given.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Sends a message. It may get lost.
    Send {
        /// The receiver.
        to: Recipient,
        /// The message.
        message: Message,
    },
    /// Asks for all these locks at once (`locks::request`), if the attempt still wants them then
    /// ([`Participant::is_queued`]). Answered by [`Participant::locked`] if they are granted, at once or later, or if
    /// the attempt dies. Between a start and the first message they are granted, whatever their holders
    /// (`locks::restore`), without an answer.
    Lock {
        /// The attempt.
        tx: TxnId,
        /// How old it is.
        stamp: Stamp,
        /// Each key once.
        locks: Arc<[Lock]>,
        /// It has nothing at other nodes, and may wait for older ones.
        patient: bool,
        /// It has asked for others before, which it holds: other requests may wait for these.
        widens: bool,
    },
    /// Gives all these locks back, and the places in queues for them.
    Unlock {
        /// The attempt.
        tx: TxnId,
        /// The same locks that it asked for.
        locks: Arc<[Lock]>,
    },
    /// Executes the commands and undoes their effects: memory holds committed values only. Answered by
    /// [`Participant::executed`].
    Execute {
        /// The attempt.
        tx: TxnId,
        /// The coordinator's bytes.
        commands: Arc<[u8]>,
        /// Effects are allowed. Without: the answer is given when everything that was read is committed (rule L7).
        logged: bool,
        /// See [`crate::Prepare::moment`]. `None`: there is no other participant, and any moment will do.
        moment: Option<UnixMs>,
    },
    /// Reads the values for the commands. Answered by [`Participant::fetched`] when they are committed (rule L7), or,
    /// if that cannot be, by [`Participant::executed`].
    Fetch {
        /// The attempt.
        tx: TxnId,
        /// The keys that it asked for last: their values are wanted.
        locks: Arc<[Lock]>,
        /// The coordinator's bytes.
        commands: Arc<[u8]>,
        /// The attempt will be logged.
        logged: bool,
    },
    /// As [`Action::Execute`], for an attempt that has had its locks since it fetched.
    Proceed {
        /// The attempt.
        tx: TxnId,
        /// How old it is.
        stamp: Stamp,
        /// Its locks.
        locks: Arc<[Lock]>,
        /// The coordinator's bytes.
        commands: Arc<[u8]>,
        /// See [`Action::Execute`].
        logged: bool,
    },
    /// Appends the record. Answered by [`Participant::committed`] when it, and its dependencies (rule T8), are
    /// committed. An outcome has to be on the disk, whatever replies promise: no other node remembers it then.
    Append {
        /// A Prepare, an Abort or a Refuse.
        record: Record,
    },
    /// Appends the Commit record with the effects, and applies them to the keys, in one step under their latches (rule
    /// T6). Answered as an [`Action::Append`].
    Install {
        /// The prepared part.
        prepared: Arc<Prepared>,
    },
    /// An attempt is committed (the next action says so), though the answers of these lost participants are unknown:
    /// for people to know (rule T5).
    Presumed {
        /// Which attempt.
        tx: TxnId,
        /// The lost participants.
        lost: Vec<ParticipantId>,
    },
    /// A message is impossible: data or rules are broken. Nothing was done.
    Contradiction {
        /// The attempt.
        tx: TxnId,
        /// The fault.
        what: &'static str,
    },
}

/// The result of an [`Action::Execute`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Execution {
    /// It was executed.
    Done {
        /// Its effects, in binary; empty: it only read.
        effects: Arc<[u8]>,
        /// The replies of its commands.
        replies: Arc<[u8]>,
    },
    /// It cannot be.
    Refused(Refusal),
}

/// A shard's part in transactions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    me: Member,
    settings: Settings,
    known: BTreeMap<TxnId, Attempt>,
    /// When an attempt has something due: as in the attempts.
    timers: BTreeSet<(BootMs, TxnId)>,
    /// By node and lane: the life in which the coordinator was last heard of, and the sequence below which it is
    /// finished.
    finished: BTreeMap<(NodeId, u16), (u64, u64)>,
    /// The lives of nodes, as last heard of: transactions of coordinators in earlier lives are orphaned.
    peers: BTreeMap<NodeId, u64>,
    /// Participants that are lost for good.
    lost: BTreeSet<ParticipantId>,
    /// Lost ones whose log another has taken over. This one may be their heir.
    heirs: Heirs,
    /// The reason why it takes part in nothing, while it does not.
    refuses: Option<Box<[u8]>>,
    /// Until when the locks of an attempt may hold that only reads, and of which nothing is logged (rule S7).
    reads_until: BootMs,
}

impl Participant {
    /// One without any state.
    pub fn new(me: Member, settings: Settings) -> Self {
        Self {
            me,
            settings,
            known: BTreeMap::new(),
            timers: BTreeSet::new(),
            finished: BTreeMap::new(),
            peers: BTreeMap::new(),
            lost: BTreeSet::new(),
            heirs: Heirs::default(),
            reads_until: BootMs::ZERO,
            refuses: None,
        }
    }

    /// One without any state, which logs nothing. It takes part in no attempt, and says `why`, until [`Self::serve`].
    /// Attempts that it has refused until then stay refused (rule T4); inquiries about them are answered later.
    pub fn refusing(me: Member, settings: Settings, why: &[u8]) -> Self {
        Self { refuses: Some(why.into()), ..Self::new(me, settings) }
    }

    /// It takes part from now on.
    pub fn serve(&mut self) {
        self.refuses = None;
    }

    /// Its name, and its term.
    pub fn me(&self) -> Member {
        self.me
    }

    /// The same process, with the same log and memory, has another term or another name. Parts that it has begun go on.
    /// Whatever names it otherwise, and is not known, it refuses from now on.
    pub fn leads(&mut self, me: Member) {
        self.me = me;
    }

    /// One with the state of a log, whose records are given in their order. The node takes its locks before it serves
    /// any client.
    pub fn restore(
        me: Member,
        settings: Settings,
        now: BootMs,
        records: impl IntoIterator<Item = Record>,
        out: &mut Vec<Action>,
    ) -> Self {
        let mut participant = Self::new(me, settings);
        for record in records {
            let phase = match &record {
                Record::Prepare(prepared) => {
                    Phase::Prepared { prepared: Arc::clone(prepared), replies: None, inquiry: Default::default() }
                }
                Record::Commit { members, .. } => Phase::Committed { members: Arc::clone(members), owing: None },
                Record::Abort { .. } => Phase::Aborted,
                Record::Refuse { .. } => Phase::Refused { logged: Logged::Yes },
            };
            participant.known.insert(record.tx(), Attempt::new(phase));
        }
        let prepared = participant.known.values().filter_map(|attempt| match &attempt.phase {
            Phase::Prepared { prepared, .. } => Some(Arc::clone(prepared)),
            _ => None,
        });
        for prepared in prepared.collect::<Vec<_>>() {
            participant.arm(prepared.tx, Some(now));
            let (tx, stamp, locks) = (prepared.tx, prepared.stamp, Arc::clone(&prepared.locks));
            out.push(Action::Lock { tx, stamp, locks, patient: false, widens: false });
        }
        participant
    }

    /// The state that a checkpoint must keep when it gives the log up (rule C6): [`Self::restore`] of it gives the
    /// present state. The parts that are in memory only or not committed yet are left out.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.known.iter().filter_map(|(tx, attempt)| match &attempt.phase {
            Phase::Prepared { prepared, .. } => Some(Record::Prepare(Arc::clone(prepared))),
            Phase::Committed { members, .. } => Some(Record::Commit { tx: *tx, members: Arc::clone(members) }),
            Phase::Aborted => Some(Record::Abort { tx: *tx }),
            Phase::Refused { logged: Logged::Yes } => Some(Record::Refuse { tx: *tx }),
            // Their last record is not committed: the log has it, and the one before.
            _ => None,
        })
    }

    /// The place of an attempt that has locks, or waits for them, for people to read; `None`: it has none, and wants
    /// none.
    pub fn stage(&self, tx: TxnId) -> Option<&'static str> {
        Some(match &self.known.get(&tx)?.phase {
            Phase::Queued { .. } => "waits for its locks",
            Phase::Executing { .. } => "is executed",
            Phase::Fetched { .. } => "has said what is there",
            Phase::Held { .. } => "has read",
            Phase::Appending { .. } => "waits for the log",
            Phase::Prepared { .. } => "is prepared, and its outcome is not known",
            Phase::Deciding { commit: true, .. } => "is committed, and not done yet",
            Phase::Deciding { commit: false, .. } => "is aborted, and not given up yet",
            Phase::Committed { .. } | Phase::Aborted | Phase::Refused { .. } => return None,
        })
    }

    /// Prepared attempts without a known outcome, oldest first by name.
    pub fn in_doubt(&self) -> impl Iterator<Item = &Prepared> {
        self.known.values().filter_map(|attempt| match &attempt.phase {
            Phase::Prepared { prepared, .. } => Some(&**prepared),
            _ => None,
        })
    }

    /// Attempts whose Prepare waits for the log: they have their locks until it is there, whatever the coordinator
    /// says.
    pub fn appending(&self) -> impl Iterator<Item = &Prepared> {
        self.known.values().filter_map(|attempt| match &attempt.phase {
            Phase::Appending { prepared, .. } => Some(&**prepared),
            _ => None,
        })
    }

    /// As [`Self::in_doubt`], with the participants that may know more and have not answered.
    pub fn waiting(&self) -> impl Iterator<Item = (&Prepared, Vec<ParticipantId>)> {
        self.known.iter().filter_map(|(tx, attempt)| match &attempt.phase {
            Phase::Prepared { prepared, inquiry, .. } => {
                let lost = self.bereft(*tx).unwrap_or_default();
                let others = self.others(&prepared.members);
                let open = inquiry.open(&others, &lost).map(|member| self.heirs.of(member.id)).collect();
                Some((&**prepared, open))
            }
            _ => None,
        })
    }

    /// The locks of an attempt that has sent its values, and has no work yet: lists, each in order.
    pub fn locks_of_fetched(&self, tx: TxnId) -> Option<impl Iterator<Item = &[Lock]>> {
        let attempt = self.known.get(&tx)?;
        let widens = attempt.wider.round > 0;
        match &attempt.phase {
            Phase::Fetched { prepare, .. } => Some(prepare),
            Phase::Queued { prepare, .. } | Phase::Executing { prepare, .. } if widens => Some(prepare),
            _ => None,
        }
        .map(|prepare| std::iter::once(&*prepare.locks).chain(attempt.wider.locks.iter().map(|locks| &**locks)))
    }

    /// True if an attempt is remembered.
    pub fn knows(&self, tx: TxnId) -> bool {
        self.known.contains_key(&tx)
    }

    /// How many attempts are remembered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A message has come from a node: from a coordinator, or from the participant there.
    pub fn message(&mut self, now: BootMs, from: impl Into<Sender>, message: Message, out: &mut Vec<Action>) {
        let from = from.into();
        let Some(sender) = message.sender(from).filter(|sender| !self.is_deaf_to(*sender)) else { return };
        let from = from.life;
        self.peer(now, from, out);
        match message {
            Message::Prepare(prepare) => {
                self.finished(from, prepare.tx.origin, prepare.finished, out);
                self.prepare(now, sender, prepare, false, out);
            }
            Message::Fetch(prepare) => {
                let tx = prepare.tx;
                self.finished(from, tx.origin, prepare.finished, out);
                self.prepare(now, sender, prepare, true, out);
                self.hold(now, tx);
            }
            Message::Widen { tx, round, locks } => self.widen(now, sender, tx, (round, locks), out),
            Message::Proceed { tx, members, logged, commands } => {
                self.proceed(now, sender, tx, (members, logged, commands), out);
            }
            Message::Hold { tx } | Message::Slow { tx, .. } => self.hold(now, tx),
            Message::Commit { tx, finished } => {
                self.finished(from, tx.origin, finished, out);
                self.commit(sender, tx, out);
            }
            Message::Abort { tx, finished } => {
                self.finished(from, tx.origin, finished, out);
                self.abort(sender, tx, out);
            }
            Message::Finished { origin, below } => self.finished(from, origin, below, out),
            Message::Inquire { tx, incarnation } => self.inquire(sender, tx, incarnation, out),
            Message::Status { tx, status } => self.status(sender, tx, status, out),
            Message::Acknowledged { tx } => self.acknowledged(sender, tx),
            Message::Leave { tx } => self.leave(now, sender, tx, out),
            Message::CallOff { tx } => {
                let _ = self.refuse_queued(tx, Refusal::Over, out);
            }
            Message::Prepared { .. } | Message::Fetched { .. } | Message::Refused { .. } | Message::Stuck { .. } => {}
        }
    }

    /// The record of an attempt is committed.
    pub fn committed(&mut self, now: BootMs, tx: TxnId, kind: RecordKind, out: &mut Vec<Action>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        match (kind, std::mem::replace(&mut attempt.phase, Phase::Aborted)) {
            (RecordKind::Prepare, Phase::Appending { prepared, replies }) => {
                out.push(to_coordinator(tx, Message::Prepared { tx, replies: Some(Arc::clone(&replies)) }));
                attempt.phase = Phase::Prepared { prepared, replies: Some(replies), inquiry: Default::default() };
                let is_left = attempt.left || self.is_gone(tx.origin);
                let due = if is_left { now } else { now + self.settings.patience_ms };
                self.arm(tx, Some(due));
            }
            (RecordKind::Commit, Phase::Deciding { commit: true, members }) => {
                attempt.phase = Phase::Committed { members, owing: None };
            }
            (RecordKind::Abort, Phase::Deciding { commit: false, .. }) => {}
            (RecordKind::Refuse, Phase::Refused { logged: Logged::Appending }) => {
                attempt.phase = Phase::Refused { logged: Logged::Yes };
            }
            // An abort has overtaken it.
            (_, phase) => {
                attempt.phase = phase;
                return;
            }
        }
        self.answer(tx, out);
        if kind == RecordKind::Refuse && self.is_finished(tx) {
            // The participant that asked has done so for long.
            return self.forget(tx);
        }
        self.settle(now, tx, out);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: BootMs, out: &mut Vec<Action>) {
        let due = self.timers.iter().take_while(|(due, _)| *due <= now).map(|(_, tx)| *tx);
        for tx in due.collect::<Vec<_>>() {
            self.arm(tx, None);
            self.overdue(now, tx, out);
        }
    }

    /// When the locks of all attempts are over that only read, and of which nothing is logged (rule S7).
    pub fn reads_until(&self) -> BootMs {
        self.reads_until
    }

    /// When [`Self::tick`] should be called next.
    pub fn next_tick(&self) -> Option<BootMs> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn overdue(&mut self, now: BootMs, tx: TxnId, out: &mut Vec<Action>) {
        let lost = self.bereft(tx).unwrap_or_default();
        let others = self.others_of(tx);
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        match &mut attempt.phase {
            Phase::Queued { .. } | Phase::Executing { .. } | Phase::Held { .. } => self.give_up(tx, out),
            Phase::Fetched { .. } => self.let_go(tx, out),
            Phase::Prepared { inquiry, .. } => {
                for member in inquiry.open(&others, &lost) {
                    out.push(to_participant(member.id, Message::Inquire { tx, incarnation: member.incarnation }));
                }
                self.arm(tx, Some(now + self.settings.patience_ms));
                self.conclude(tx, out);
            }
            Phase::Committed { owing: Some(owing), .. } => {
                for to in owing.iter() {
                    out.push(to_participant(*to, Message::Commit { tx, finished: 0 }));
                }
                self.arm(tx, Some(now + self.settings.outcome_ms));
            }
            _ => {}
        }
    }

    /// Makes something due for an attempt at this time, and nothing else.
    fn arm(&mut self, tx: TxnId, due: Option<BootMs>) {
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        if let Some(old) = std::mem::replace(&mut attempt.due, due) {
            self.timers.remove(&(old, tx));
        }
        if let Some(due) = due {
            self.timers.insert((due, tx));
        }
    }

    fn forget(&mut self, tx: TxnId) {
        self.arm(tx, None);
        self.known.remove(&tx);
    }

    /// True if the coordinator has ended: its node was heard of in a later life.
    fn is_gone(&self, origin: Origin) -> bool {
        self.peers.get(&origin.life.node).is_some_and(|known| *known > origin.life.incarnation)
    }

    /// True if this is the participant's own name, or that of one whose log it has taken over.
    fn is_me(&self, id: ParticipantId) -> bool {
        self.heirs.of(id) == self.me.id
    }

    /// The other ones among `members`.
    fn others(&self, members: &[Member]) -> Vec<Member> {
        members.iter().filter(|member| !self.is_me(member.id)).copied().collect()
    }

    /// The other participants of an attempt that is prepared; none, if it is not.
    fn others_of(&self, tx: TxnId) -> Vec<Member> {
        match self.known.get(&tx).map(|attempt| &attempt.phase) {
            Some(Phase::Prepared { prepared, .. }) => self.others(&prepared.members),
            _ => Vec::new(),
        }
    }

    /// True if the coordinator has said that no node will ask about the transaction.
    fn is_finished(&self, tx: TxnId) -> bool {
        let mark = self.finished.get(&(tx.origin.life.node, tx.origin.lane));
        mark.is_some_and(|(incarnation, below)| *incarnation == tx.origin.life.incarnation && tx.sequence < *below)
    }

    /// True if a later attempt of the transaction is known: this one is over then.
    fn is_followed(&self, tx: TxnId) -> bool {
        let last = TxnId { attempt: u32::MAX, ..tx };
        tx != last && self.known.range(TxnId { attempt: tx.attempt + 1, ..tx }..=last).next().is_some()
    }

    /// Sends the answers that were waited for, now that the attempt is in this state.
    fn answer(&mut self, tx: TxnId, out: &mut Vec<Action>) {
        let Some(status) = self.status_of(tx) else { return };
        let Some(attempt) = self.known.get_mut(&tx) else { return };
        let is_open = matches!(attempt.phase, Phase::Prepared { .. });
        attempt.waiting.retain(|(to, want)| {
            match want {
                Want::Status => out.push(send(*to, Message::Status { tx, status })),
                Want::Acknowledged if is_open => return true,
                Want::Acknowledged => out.push(send(*to, Message::Acknowledged { tx })),
            }
            false
        });
    }

    /// The status of a known attempt; `None`: it waits for the log.
    fn status_of(&self, tx: TxnId) -> Option<Status> {
        let status = self.known.get(&tx)?.status()?;
        Some(self.bereft(tx).map_or(status, |lost| Status::Bereft { lost: lost.len() as u64 }))
    }
}

fn send(to: Recipient, message: Message) -> Action {
    Action::Send { to, message }
}

fn to_coordinator(tx: TxnId, message: Message) -> Action {
    send(Recipient::Coordinator(tx.origin.life.node), message)
}

fn to_participant(to: ParticipantId, message: Message) -> Action {
    send(Recipient::Participant(to), message)
}

//! The transactions of one coordinator.
//!
//! ```text
//!             Prepare to all                all are prepared                   all have acknowledged
//! begin ----> preparing ------------------> committing (the client is answered) ------------------> finished
//!               ^    | one refused: Abort to the others
//!   next attempt|    v
//!              waiting, or a new route, or over (the client hears why) ----- all aborts acknowledged ----> finished
//! ```
//! A transaction that needs values before its effects are known *fetches* first (`fetch.rs`). All participants lock
//! their keys and answer with the values, the node runs the commands on these, and then the participants prepare the
//! effects.
//!
//! The coordinator's state is in memory only. It binds no participant before all have answered, and when it is gone the
//! participants find the outcome among themselves. A transaction is aborted only because a participant refused, which
//! is for good; silence is waited out, however long. So every inquiry at the participants has the same outcome.
//!
//! The client gets the truth (rule T9): replies when all are prepared, an error when a refusal is known and no later
//! attempt is made. If the replies were lost with a participant that started again, its connection is closed.

mod attempt;
mod fetch;
mod moment;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clocks::{BootMs, UnixMs};

use crate::{
    Heirs, HybridTime, Lock, Member, Message, Origin, ParticipantId, Prepare, Refusal, Settings, Stamp, TxnId,
};
use moment::Aim;

/// The part of a transaction at one participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The owner of the keys, in its present life.
    pub member: Member,
    /// Its keys, also those that are watched or only read: see [`Lock::normalized`].
    pub locks: Arc<[Lock]>,
    /// Its commands.
    pub commands: Arc<[u8]>,
    /// True if they may change something.
    pub writes: bool,
}

impl Part {
    /// Takes over the locks of its participant among those by which an attempt was widened.
    pub fn widen(&mut self, wider: &[(ParticipantId, Arc<[Lock]>)]) {
        let mut further = wider.iter().filter(|(participant, _)| *participant == self.member.id).peekable();
        if further.peek().is_some() {
            let further = further.flat_map(|(_, locks)| locks.iter());
            self.locks = Lock::normalized(self.locks.iter().chain(further).cloned().collect());
        }
    }
}

/// The requests of a coordinator to its node, in the order given.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Sends a message. It may get lost.
    Send {
        /// The receiver, in whatever life.
        to: ParticipantId,
        /// The message.
        message: Message,
    },
    /// The transaction is committed: these are the replies of its parts, by participant. This event comes once, or one
    /// of the next two does.
    Reply {
        /// Which transaction.
        sequence: u64,
        /// As the participants gave them.
        replies: Vec<(ParticipantId, Arc<[u8]>)>,
    },
    /// The transaction is committed, and its replies are lost: the client's connection is to be closed.
    Close {
        /// Which transaction.
        sequence: u64,
    },
    /// The transaction is aborted and not tried again.
    Failed {
        /// Which transaction.
        sequence: u64,
        /// The reason: a changed key or a failure.
        why: Refusal,
    },
    /// All participants of a transaction that fetches have their locks, and these are the values. Answered by
    /// [`Coordinator::proceed`], [`Coordinator::widen`], [`Coordinator::again`] or [`Coordinator::give_up`], at any
    /// time; or not at all, if the attempt is void by then and the next one has come.
    Fetched {
        /// Which transaction.
        sequence: u64,
        /// Which of its attempts.
        attempt: u32,
        /// 0: all keys that it has asked for; otherwise those of its last [`Coordinator::widen`].
        round: u32,
        /// The answers of the participants that were asked.
        found: Vec<(ParticipantId, Arc<[u8]>)>,
    },
    /// A participant no longer owns its keys. Answered by [`Coordinator::routed`] or [`Coordinator::fail`].
    Reroute {
        /// Which transaction.
        sequence: u64,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// The participants' answers so far, in the order of the parts.
    Preparing {
        answers: Vec<Option<Answer>>,
    },
    /// The participants' values so far, in the order of the parts.
    Fetching {
        looks: Vec<Look>,
    },
    /// The node runs the commands on the values.
    Running,
    /// To be tried again when it is due.
    Waiting,
    Rerouting,
    /// All are prepared; these have not acknowledged the Commit.
    Committing {
        owing: BTreeSet<ParticipantId>,
    },
    /// The remaining participants settle it among themselves; these have not said that they have.
    Left {
        owing: BTreeSet<ParticipantId>,
    },
    /// Aborted, and not tried again.
    Over,
}

/// The state of a participant's values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Look {
    /// It has answered before, and is not asked in this round.
    Before,
    /// It is asked: about these keys beside those that it has locked, or, if there are none, for the first time.
    Asked(Option<Arc<[Lock]>>),
    /// It has answered in this round.
    Found(Arc<[u8]>),
}

/// A participant is prepared, with its replies, unless these are lost.
type Answer = Option<Arc<[u8]>>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Open {
    stamp: Stamp,
    attempt: u32,
    /// By participant.
    parts: Vec<Part>,
    /// How often the present attempt was widened.
    round: u32,
    /// The keys by which it was widened, beside those of the parts, and their owners.
    wider: Vec<(ParticipantId, Arc<[Lock]>)>,
    phase: Phase,
    /// When the attempt was sent.
    sent: BootMs,
    /// Its moment.
    moment: UnixMs,
    /// How the moment is chosen.
    aim: Aim,
    due: Option<BootMs>,
    /// Aborts that are not acknowledged: the attempt, and the participant.
    aborting: BTreeSet<(u32, ParticipantId)>,
    /// The outcome was not reported yet.
    untold: bool,
    /// No client waits for it: it is not tried again.
    abandoned: bool,
    /// It fetches before it prepares.
    fetches: bool,
    /// It logs though it only reads: its answers do not come within D.
    logs: bool,
    /// Its node knows its replies itself.
    known: bool,
    /// The work of the parts, in their order, once it is known after a fetch.
    made: Vec<Arc<[u8]>>,
    /// The participant that refused the attempt before because of a conflict: it is asked first.
    first: Option<ParticipantId>,
    /// It is the only one that was asked in this attempt.
    alone: bool,
}

impl Open {
    fn logged(&self) -> bool {
        self.logs || self.parts.iter().any(|part| part.writes)
    }

    /// True if a participant was not asked in this attempt.
    fn is_unasked(&self, participant: ParticipantId) -> bool {
        self.alone && self.first != Some(participant)
    }

    fn members(&self) -> Arc<[Member]> {
        self.parts.iter().map(|part| part.member).collect()
    }
}

/// The transactions of one coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator {
    origin: Origin,
    settings: Settings,
    /// Of the next transaction.
    next: u64,
    /// The last age that was given to a transaction.
    last: HybridTime,
    /// The Unix time when the boot clock was at 0.
    epoch: UnixMs,
    open: BTreeMap<u64, Open>,
    /// When a transaction has something due: as in `open`.
    timers: BTreeSet<(BootMs, u64)>,
    /// The lives of participants, as last heard of.
    peers: BTreeMap<ParticipantId, u64>,
    /// Earlier names of participants.
    heirs: Heirs,
    /// The sequence below which a participant knows that all is finished.
    told: BTreeMap<ParticipantId, u64>,
    /// When participants are told about finished ones.
    tell: Option<BootMs>,
    /// Answers do not come within D at present: until then new transactions that only read log, too.
    slow_until: BootMs,
}

impl Coordinator {
    /// One without transactions. Its origin is not used twice: its node's incarnation has just begun.
    pub fn new(origin: Origin, settings: Settings) -> Self {
        Self {
            origin,
            settings,
            next: 1,
            last: HybridTime::default(),
            epoch: UnixMs::ZERO,
            open: BTreeMap::new(),
            timers: BTreeSet::new(),
            peers: BTreeMap::new(),
            heirs: Heirs::default(),
            told: BTreeMap::new(),
            tell: None,
            slow_until: BootMs::ZERO,
        }
    }

    /// Begins a transaction. It is answered by [`Event::Reply`], [`Event::Close`] or [`Event::Failed`] under the
    /// returned sequence. `time` is that of the node's hybrid clock, which has seen everything that its clients have
    /// seen (rule T7). Each part belongs to another participant.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn begin(&mut self, now: BootMs, time: HybridTime, parts: Vec<Part>, out: &mut Vec<Event>) -> u64 {
        self.open((now, time), parts, (false, false), out)
    }

    /// As [`Self::begin`], for a transaction whose node knows its replies itself: they are not lost with a participant.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn begin_known(&mut self, now: BootMs, time: HybridTime, parts: Vec<Part>, out: &mut Vec<Event>) -> u64 {
        self.open((now, time), parts, (false, true), out)
    }

    fn open(
        &mut self,
        (now, time): (BootMs, HybridTime),
        mut parts: Vec<Part>,
        (fetches, known): (bool, bool),
        out: &mut Vec<Event>,
    ) -> u64 {
        assert!(!parts.is_empty(), "a transaction is somewhere");
        parts.sort_by_key(|part| part.member);
        debug_assert!(parts.windows(2).all(|pair| pair[0].member.id < pair[1].member.id), "a part for a participant");
        let sequence = self.next;
        self.next += 1;
        self.last = time.max(self.last.next());
        let stamp = Stamp { time: self.last, node: self.origin.life.node, lane: self.origin.lane };
        let open = Open {
            stamp,
            attempt: 0,
            parts,
            round: 0,
            wider: Vec::new(),
            phase: Phase::Waiting,
            sent: now,
            moment: UnixMs::ZERO,
            aim: Aim::new(self.settings.moment_ms),
            due: None,
            aborting: BTreeSet::new(),
            untold: true,
            abandoned: false,
            fetches,
            logs: now < self.slow_until,
            known,
            made: Vec::new(),
            first: None,
            alone: false,
        };
        self.open.insert(sequence, open);
        self.attempt(now, sequence, out);
        sequence
    }

    /// No client waits for the reply any more. Participants that wait for their locks are asked to refuse, and nothing
    /// is tried again. If all participants are prepared, the transaction is committed nevertheless, and that is
    /// reported. False: nothing of it happens, and nothing is reported.
    pub fn abandon(&mut self, now: BootMs, sequence: u64, out: &mut Vec<Event>) -> bool {
        let Some(open) = self.open.get_mut(&sequence) else { return false };
        open.abandoned = true;
        match open.phase {
            Phase::Waiting | Phase::Rerouting => {
                open.untold = false;
                open.phase = Phase::Over;
                self.arm(sequence, Some(now + self.settings.outcome_ms));
                self.close(sequence, now);
            }
            Phase::Fetching { .. } | Phase::Running => self.end_attempt(now, sequence, out),
            Phase::Preparing { .. } if !open.logged() => {
                open.untold = false;
                self.drop_attempt(sequence, None, out);
                self.close(sequence, now);
            }
            Phase::Preparing { .. } => {
                self.call_off(sequence, out);
                return self.open.get(&sequence).is_some_and(|open| open.untold);
            }
            _ => return open.untold,
        }
        false
    }

    /// The present owners of the keys: the transaction is tried again with these parts.
    ///
    /// # Panics
    ///
    /// Without parts.
    pub fn routed(&mut self, now: BootMs, sequence: u64, parts: Vec<Part>) {
        assert!(!parts.is_empty(), "a transaction is somewhere");
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if open.phase == Phase::Rerouting {
            open.set_parts(parts);
            self.wait(now, sequence);
        }
    }

    /// There is no route, or it leads nowhere: the transaction, which is aborted, is not tried again. Does nothing if
    /// it is under way.
    pub fn fail(&mut self, now: BootMs, sequence: u64, why: Refusal, out: &mut Vec<Event>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if matches!(open.phase, Phase::Rerouting | Phase::Waiting) {
            open.phase = Phase::Over;
            let untold = std::mem::replace(&mut open.untold, false);
            out.extend(untold.then_some(Event::Failed { sequence, why }));
            self.arm(sequence, Some(now + self.settings.outcome_ms));
            self.close(sequence, now);
        }
    }

    /// How many transactions are not finished.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// True if all transactions are finished.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// All transactions with a lower sequence are finished: every participant knows the outcome for good (rule T5).
    pub fn finished(&self) -> u64 {
        self.open.first_key_value().map_or(self.next, |(sequence, _)| *sequence)
    }

    /// A message has come.
    pub fn message(&mut self, now: BootMs, from: Member, message: Message, out: &mut Vec<Event>) {
        if self.heirs.is_continued(from.id) {
            return;
        }
        self.peer(now, from, out);
        match message {
            Message::Prepared { tx, replies } if self.is_mine(tx) => {
                self.prepared(now, self.named(from.id, tx), tx, replies, out);
            }
            Message::Fetched { tx, round, found } if self.is_mine(tx) => {
                self.fetched(now, self.named(from.id, tx), (tx, round), found, out);
            }
            Message::Refused { tx, why } if self.is_mine(tx) => self.refused(now, from.id, tx, why, out),
            Message::Acknowledged { tx } if self.is_mine(tx) => self.acknowledged(now, from.id, tx),
            _ => {}
        }
    }

    /// The participant of the attempt for which `from` speaks.
    fn named(&self, from: ParticipantId, tx: TxnId) -> ParticipantId {
        let parts = self.open.get(&tx.sequence).map_or(&[][..], |open| &open.parts);
        self.heirs.named(from, parts.iter().map(|part| part.member.id)).unwrap_or(from)
    }

    fn is_mine(&self, tx: TxnId) -> bool {
        tx.origin == self.origin
    }

    /// A participant is heard of. In a new life it is asked again for missing answers.
    pub fn peer(&mut self, now: BootMs, member: Member, out: &mut Vec<Event>) {
        let known = self.peers.entry(member.id).or_insert(member.incarnation);
        if *known < member.incarnation {
            *known = member.incarnation;
            self.linked(now, member.id, out);
        }
    }

    /// A link to a participant is there again: unanswered messages are sent again, because they may have been lost.
    pub fn linked(&mut self, now: BootMs, participant: ParticipantId, out: &mut Vec<Event>) {
        let heirs = &self.heirs;
        let told = self.told.iter_mut().filter(|(to, _)| heirs.of(**to) == participant);
        told.for_each(|(_, told)| *told = 0);
        self.plan_to_tell(now);
        for sequence in self.open.keys().copied().collect::<Vec<_>>() {
            self.resend(sequence, Some(participant), out);
        }
    }

    /// A participant has another name from now on, the heir: what it has not answered is sent again. Transactions between
    /// two attempts go to the present owners of their keys.
    pub fn continued(&mut self, now: BootMs, lost: ParticipantId, heir: ParticipantId, out: &mut Vec<Event>) {
        if !self.heirs.add(lost, heir) {
            return;
        }
        self.linked(now, heir, out);
        for sequence in self.open.keys().copied().collect::<Vec<_>>() {
            let Some(open) = self.open.get(&sequence) else { continue };
            if open.phase == Phase::Waiting && open.parts.iter().any(|part| part.member.id == lost) {
                self.route_again(now, sequence, out);
            }
        }
    }

    /// A participant is lost for good, by the word of the cluster's metadata: its acknowledgements are not awaited. The
    /// other participants settle the attempts that it has not answered: one of them may know of an answer, and have
    /// acted on it. So the client's connection is closed.
    pub fn lost(&mut self, now: BootMs, participant: ParticipantId, out: &mut Vec<Event>) {
        self.told.remove(&participant);
        for sequence in self.open.keys().copied().collect::<Vec<_>>() {
            let Some(open) = self.open.get_mut(&sequence) else { continue };
            open.aborting.retain(|(_, aborting)| *aborting != participant);
            let bound = open.logged() && !open.is_unasked(participant);
            let has_part = open.parts.iter().any(|part| part.member.id == participant);
            match &mut open.phase {
                Phase::Committing { owing } | Phase::Left { owing } => {
                    owing.remove(&participant);
                }
                Phase::Preparing { .. } if has_part && bound => self.leave(now, sequence, participant, out),
                // No participant is prepared, or the lost one cannot be.
                Phase::Preparing { .. } | Phase::Fetching { .. } | Phase::Running if has_part => {
                    self.drop_attempt(sequence, Some(participant), out);
                    self.route_again(now, sequence, out);
                }
                Phase::Waiting if has_part => self.route_again(now, sequence, out),
                Phase::Preparing { .. } | Phase::Fetching { .. } | Phase::Running => {}
                Phase::Waiting | Phase::Rerouting | Phase::Over => {}
            }
            self.close(sequence, now);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: BootMs, out: &mut Vec<Event>) {
        let due = self.timers.iter().take_while(|(due, _)| *due <= now).map(|(_, sequence)| *sequence);
        for sequence in due.collect::<Vec<_>>() {
            self.arm(sequence, None);
            self.overdue(now, sequence, out);
        }
        if self.tell.is_some_and(|due| due <= now) {
            self.tell = None;
            let (origin, below) = (self.origin, self.finished());
            for (to, told) in self.told.iter_mut().filter(|(_, told)| **told < below) {
                *told = below;
                out.push(send(*to, Message::Finished { origin, below }));
            }
        }
    }

    /// When [`Self::tick`] should be called next.
    pub fn next_tick(&self) -> Option<BootMs> {
        let due = self.timers.first().map(|(due, _)| *due);
        due.into_iter().chain(self.tell).min()
    }

    /// Makes something due for a transaction at this time, and nothing else.
    fn arm(&mut self, sequence: u64, due: Option<BootMs>) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        if let Some(old) = std::mem::replace(&mut open.due, due) {
            self.timers.remove(&(old, sequence));
        }
        if let Some(due) = due {
            self.timers.insert((due, sequence));
        }
    }

    /// Makes something due for a transaction at this time, unless something is due before.
    fn arm_by(&mut self, sequence: u64, due: BootMs) {
        let before = self.open.get(&sequence).and_then(|open| open.due).filter(|before| *before <= due);
        self.arm(sequence, before.or(Some(due)));
    }

    fn plan_to_tell(&mut self, now: BootMs) {
        let below = self.finished();
        if self.told.values().any(|told| *told < below) {
            self.tell.get_or_insert(now + self.settings.resend_ms);
        }
    }

    /// Sends a message to a participant, which also learns which transactions are finished.
    fn send_prepare(&mut self, sequence: u64, to: usize, out: &mut Vec<Event>) {
        let finished = self.finished();
        let Some(open) = self.open.get(&sequence) else { return };
        let part = &open.parts[to];
        if let Some(commands) = open.made.get(to) {
            let tx = TxnId { origin: self.origin, sequence, attempt: open.attempt };
            let (members, logged, commands) = (open.members(), open.logged(), Arc::clone(commands));
            return out.push(send(part.member.id, Message::Proceed { tx, members, logged, commands }));
        }
        if let Some(locks) = open.more(to) {
            let tx = TxnId { origin: self.origin, sequence, attempt: open.attempt };
            return out.push(send(part.member.id, Message::Widen { tx, round: open.round, locks }));
        }
        let prepare = Prepare {
            tx: TxnId { origin: self.origin, sequence, attempt: open.attempt },
            stamp: open.stamp,
            members: open.members(),
            locks: Arc::clone(&part.locks),
            commands: Arc::clone(&part.commands),
            logged: open.logged(),
            patient: open.alone,
            finished,
            moment: open.moment,
        };
        let message = if open.fetches { Message::Fetch } else { Message::Prepare };
        self.told.insert(part.member.id, finished);
        out.push(send(part.member.id, message(Arc::new(prepare))));
    }

    fn send_outcome(&mut self, sequence: u64, attempt: u32, to: ParticipantId, commit: bool, out: &mut Vec<Event>) {
        let (tx, finished) = (TxnId { origin: self.origin, sequence, attempt }, self.finished());
        self.told.insert(to, finished);
        out.push(send(to, if commit { Message::Commit { tx, finished } } else { Message::Abort { tx, finished } }));
    }
}

fn send(to: ParticipantId, message: Message) -> Event {
    Event::Send { to, message }
}

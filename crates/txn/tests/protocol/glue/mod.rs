//! The surroundings of the crate's machines in models and simulations. A node has keys that hold lists of numbers, a
//! log that is committed later than it is written, and a crash that leaves the committed records. Commands read keys
//! and append the transaction's number to some.

#![allow(dead_code, reason = "each test uses its part")]

pub mod dice;
pub mod history;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use txn::locks::{LockTable, Mode, Requested, release, request, request_plain, restore};
use txn::{
    Action, Execution, Life, Lock, Member, Message, NodeId, Participant, ParticipantId, Recipient, Record, Refusal,
    Sender, Settings, Stamp, TxnId,
};

/// A planted mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mistake {
    None,
    /// Locks are given back when the Prepare is appended, and not when the outcome is.
    EarlyUnlock,
    /// A Prepare is answered before it is committed.
    UnloggedPrepare,
    /// A Commit is acknowledged before it is committed.
    ForgottenCommit,
    /// A Prepare for another life is accepted.
    StaleIncarnation,
    /// A participant that has fetched gives its locks back.
    ForgottenFetch,
    /// An inquiry is answered with a refusal that is not remembered.
    UnloggedRefusal,
    /// A part that is over asks for its locks, and is dropped if it has to wait for a transaction in doubt.
    OverdueAsking,
    /// A part that was widened and is given up gives back only the locks that it asked for last.
    HalfUnlock,
    /// A prepared participant knows only the participants of the first request.
    FirstMembers,
    /// The heir of a lost participant has the data of its log, and not what that says about transactions.
    EmptyHeir,
    /// P14: the node that takes a shard over is another participant for transactions. It knows nothing of what its
    /// predecessor has said, and is in a later life.
    NodeIsParticipant,
    /// A participant's life is the number of its node's starts, and not the term.
    LifeOfNode,
}

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    Tx(TxnId),
    Plain(u32),
}

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    Record(Record),
    Commit(Record, Arc<[u8]>),
    Plain(u32, Arc<[u8]>),
    /// The contents of a checkpoint: all earlier entries are void.
    Saved(BTreeMap<u16, Vec<u32>>),
}

impl Entry {
    fn record(&self) -> Option<&Record> {
        match self {
            Entry::Record(record) | Entry::Commit(record, _) => Some(record),
            Entry::Plain(..) | Entry::Saved(_) => None,
        }
    }
}

/// The output of a node to its surroundings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Send(NodeId, Message),
    /// The commands are to run later by [`Server::execute`], or the part is [untimely](Server::untimely). Holds the
    /// moment.
    Execute(TxnId, Arc<[u8]>, bool, Option<UnixMs>),
    /// The values are to be sent later by [`Server::fetch`].
    Fetch(TxnId, Arc<[Lock]>),
    /// The part is held back, and asks for its locks later by [`Server::ask`].
    HeldBack(TxnId),
    /// An attempt was committed or aborted here.
    Outcome(TxnId, bool),
    /// A plain command is answered: the values that it read.
    Plain(u32, Reads),
    Broken(&'static str),
}

pub type Reads = Vec<(u16, Vec<u32>)>;
type Place = (u16, Box<[u8]>);
/// Locks, and the commands under them.
type Program = (Arc<[Lock]>, Arc<[u8]>);
/// The age of a part, true if it is patient, and its locks.
type Asks = ((Stamp, bool), Arc<[Lock]>);

/// A participant's node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    pub me: Life,
    /// The participant that it is, in its term.
    pub member: Member,
    pub mistake: Mistake,
    /// True if commands run as soon as their locks are granted.
    pub instant: bool,
    /// True if parts wait before they ask for their locks, as for the end of CLIENT PAUSE.
    pub holds_back: bool,
    held_back: BTreeMap<TxnId, Asks>,
    /// For planted mistakes: the locks that widened attempts asked for last, and the first participants of those that
    /// fetch.
    widened: BTreeMap<TxnId, Arc<[Lock]>>,
    members: BTreeMap<TxnId, Arc<[Member]>>,
    pub participant: Participant,
    pub locks: LockTable<Place, Owner>,
    missing: BTreeMap<Owner, usize>,
    plain: BTreeMap<u32, Program>,
    /// Reads whose replies wait for the log (rule L7).
    gated: Vec<(TxnId, Execution)>,
    found: Vec<(TxnId, Arc<[u8]>)>,
    answers: Vec<(u32, Reads)>,
    pub durable: Vec<Entry>,
    pub pending: Vec<Entry>,
    pub store: BTreeMap<u16, Vec<u32>>,
    pub lost: BTreeSet<NodeId>,
    /// Lost participants whose log another one has.
    pub heirs: BTreeMap<ParticipantId, ParticipantId>,
    /// The nodes of participants that were taken over, as far as it knows.
    pub owners: BTreeMap<ParticipantId, NodeId>,
    settings: Settings,
}

impl Server {
    pub fn new(me: Life, settings: Settings, mistake: Mistake) -> Self {
        Self {
            me,
            member: Member::of(me),
            mistake,
            instant: true,
            holds_back: false,
            held_back: BTreeMap::new(),
            widened: BTreeMap::new(),
            members: BTreeMap::new(),
            participant: Participant::new(Member::of(me), settings),
            locks: LockTable::default(),
            missing: BTreeMap::new(),
            plain: BTreeMap::new(),
            gated: Vec::new(),
            found: Vec::new(),
            answers: Vec::new(),
            durable: Vec::new(),
            pending: Vec::new(),
            store: BTreeMap::new(),
            lost: BTreeSet::new(),
            heirs: BTreeMap::new(),
            owners: BTreeMap::new(),
            settings,
        }
    }

    /// The process ends and starts again, with the committed records and the first `kept` of the others.
    pub fn crash(&mut self, now: BootMs, kept: usize, said: &mut Vec<Said>) {
        let mut durable = std::mem::take(&mut self.durable);
        durable.extend(self.pending.drain(..).take(kept));
        let me = Life { incarnation: self.me.incarnation + 1, ..self.me };
        let member = Member { incarnation: self.member.incarnation + 1, ..self.member };
        self.begin(now, (me, member), durable, said);
    }

    /// Another node takes this shard over: it has the committed records, and the first `kept` of the others. This one may
    /// not know that yet. What it appends is not committed any more.
    pub fn successor(&self, now: BootMs, me: Life, kept: usize, said: &mut Vec<Said>) -> Self {
        let mut durable = self.durable.clone();
        durable.extend(self.pending.iter().take(kept).cloned());
        let mut member = Member { incarnation: self.member.incarnation + 1, ..self.member };
        match self.mistake {
            Mistake::NodeIsParticipant => durable.retain(|entry| !matches!(entry, Entry::Record(_))),
            Mistake::LifeOfNode => member.incarnation = me.incarnation,
            _ => {}
        }
        let mut successor = self.clone();
        successor.owners.insert(member.id, me.node);
        successor.begin(now, (me, member), durable, said);
        successor
    }

    /// Another node takes over the log of this one, which is lost for good: the committed records, and the first `kept`
    /// of the others. This one may not know that yet. What it appends is not committed any more.
    pub fn heir(&self, now: BootMs, me: Life, kept: usize, said: &mut Vec<Said>) -> Self {
        let mut durable = self.durable.clone();
        durable.extend(self.pending.iter().take(kept).cloned());
        if self.mistake == Mistake::EmptyHeir {
            durable.retain(|entry| !matches!(entry, Entry::Record(_)));
        }
        let mut heir = self.clone();
        heir.heirs.insert(Member::of(self.me).id, Member::of(me).id);
        heir.begin(now, (me, Member::of(me)), durable, said);
        heir
    }

    /// A life begins with this log.
    fn begin(&mut self, now: BootMs, (me, member): (Life, Member), durable: Vec<Entry>, said: &mut Vec<Said>) {
        let mut server = Self::new(me, self.settings, self.mistake);
        (server.instant, server.holds_back) = (self.instant, self.holds_back);
        (server.member, server.owners) = (member, std::mem::take(&mut self.owners));
        for entry in &durable {
            match entry {
                Entry::Commit(_, effects) | Entry::Plain(_, effects) => server.apply(effects),
                Entry::Saved(store) => server.store = store.clone(),
                Entry::Record(_) => {}
            }
        }
        // A log has records as bytes.
        let records = durable.iter().filter_map(Entry::record).map(|record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            Record::decode(&bytes).expect("own bytes")
        });
        let mut actions = Vec::new();
        server.participant = Participant::restore(member, self.settings, now, records, &mut actions);
        for action in actions {
            let Action::Lock { tx, stamp, locks, .. } = action else { panic!("only locks are restored") };
            let keys: Vec<(Place, Mode)> = places(&locks);
            if !restore(&mut server.locks, Owner::Tx(tx), stamp, keys.iter().map(|(k, m)| (k, *m))) {
                said.push(Said::Broken("two prepared transactions hold a key"));
            }
        }
        server.durable = durable;
        let before = std::mem::replace(self, server);
        before.heirs.into_iter().for_each(|(lost, heir)| self.continued(now, lost, heir));
        before.lost.into_iter().for_each(|node| self.lost(now, node, said));
    }

    /// The log of a lost participant was taken over.
    pub fn continued(&mut self, now: BootMs, lost: ParticipantId, heir: ParticipantId) {
        self.heirs.insert(lost, heir);
        self.participant.continued(now, lost, heir);
    }

    pub fn message(&mut self, now: BootMs, from: impl Into<Sender>, message: Message, said: &mut Vec<Said>) {
        let (from, mut message) = (from.into(), message);
        if let Message::Prepare(prepare) | Message::Fetch(prepare) = &mut message
            && self.mistake == Mistake::StaleIncarnation
        {
            let members = prepare.members.iter().map(|m| if m.id == self.member.id { self.member } else { *m });
            let members: Arc<[Member]> = members.collect();
            Arc::make_mut(prepare).members = members;
        }
        match &mut message {
            Message::Fetch(prepare) if self.mistake == Mistake::FirstMembers => {
                self.members.insert(prepare.tx, Arc::clone(&prepare.members));
            }
            Message::Proceed { tx, members, .. } => {
                self.widened.remove(tx);
                if let Some(first) = self.members.get(tx) {
                    *members = Arc::clone(first);
                }
            }
            _ => {}
        }
        let mut actions = Vec::new();
        if let Message::Inquire { tx, .. } = message
            && self.mistake == Mistake::UnloggedRefusal
        {
            let before = self.participant.clone();
            self.participant.message(now, from, message, &mut actions);
            if let [Action::Append { record: Record::Refuse { .. } }] = actions.as_slice() {
                self.participant = before;
                let status = txn::Status::Refused;
                said.push(Said::Send(from.life.node, Message::Status { tx, status }));
                return;
            }
        } else {
            self.participant.message(now, from, message, &mut actions);
        }
        self.act(now, actions, said);
    }

    pub fn tick(&mut self, now: BootMs, said: &mut Vec<Said>) {
        let mut actions = Vec::new();
        self.participant.tick(now, &mut actions);
        self.act(now, actions, said);
    }

    /// A node is known to live now.
    pub fn peer(&mut self, now: BootMs, life: Life, said: &mut Vec<Said>) {
        let mut actions = Vec::new();
        self.participant.peer(now, life, &mut actions);
        self.act(now, actions, said);
    }

    /// A node is lost for good. That is known over all lives.
    pub fn lost(&mut self, now: BootMs, node: NodeId, said: &mut Vec<Said>) {
        self.lost.insert(node);
        let mut actions = Vec::new();
        self.participant.lost(now, ParticipantId::of(node));
        self.participant.gone(now, node, &mut actions);
        self.act(now, actions, said);
    }

    /// Commits everything that was appended.
    pub fn flush(&mut self, now: BootMs, said: &mut Vec<Said>) {
        for entry in std::mem::take(&mut self.pending) {
            let record = entry.record().map(|record| (record.tx(), record.kind()));
            self.durable.push(entry);
            if let Some((tx, kind)) = record {
                let mut actions = Vec::new();
                self.participant.committed(now, tx, kind, &mut actions);
                self.act(now, actions, said);
            }
        }
        said.extend(self.answers.drain(..).map(|(id, reads)| Said::Plain(id, reads)));
        for (tx, execution) in std::mem::take(&mut self.gated) {
            let mut actions = Vec::new();
            self.participant.executed(tx, execution, &mut actions);
            self.act(now, actions, said);
        }
        for (tx, found) in std::mem::take(&mut self.found) {
            let mut actions = Vec::new();
            self.participant.fetched(now, tx, found, &mut actions);
            self.act(now, actions, said);
        }
    }

    /// Saves the keys, and drops the log except for records that transactions need (rule C6).
    pub fn checkpoint(&mut self) {
        if self.pending.is_empty() {
            let records = self.participant.records().map(|record| match record {
                Record::Commit { .. } => Entry::Commit(record, Arc::new([])),
                record => Entry::Record(record),
            });
            self.durable = std::iter::once(Entry::Saved(self.store.clone())).chain(records).collect();
        }
    }

    fn act(&mut self, now: BootMs, actions: Vec<Action>, said: &mut Vec<Said>) {
        for action in actions {
            match action {
                Action::Send { to: Recipient::Coordinator(node), message } => said.push(Said::Send(node, message)),
                Action::Send { to: Recipient::Participant(id), message } => {
                    let to = self.heirs.get(&id).unwrap_or(&id);
                    let node = self.owners.get(to).copied().unwrap_or(NodeId(to.0));
                    said.push(Said::Send(node, message))
                }
                Action::Lock { tx, stamp, locks, patient, widens } => {
                    if widens && self.mistake == Mistake::HalfUnlock {
                        self.widened.insert(tx, Arc::clone(&locks));
                    }
                    self.held_back.insert(tx, ((stamp, patient), locks));
                    match self.holds_back {
                        true => said.push(Said::HeldBack(tx)),
                        false => self.ask(now, tx, said),
                    }
                }
                Action::Unlock { tx, mut locks } => {
                    if let Some(last) = self.widened.remove(&tx) {
                        locks = last;
                    }
                    if self.mistake != Mistake::EarlyUnlock {
                        self.unlock(now, Owner::Tx(tx), &locks, said);
                    }
                }
                Action::Execute { tx, commands, logged, moment } => {
                    if self.instant {
                        self.execute(now, tx, &commands, logged, said);
                    } else {
                        said.push(Said::Execute(tx, commands, logged, moment));
                    }
                }
                Action::Fetch { tx, locks, .. } => {
                    if self.instant {
                        self.fetch(now, tx, &locks, said);
                    } else {
                        said.push(Said::Fetch(tx, locks));
                    }
                }
                // The effects that the coordinator computed from the values.
                Action::Proceed { tx, commands, .. } => {
                    let execution = Execution::Done { effects: commands, replies: Arc::default() };
                    let mut actions = Vec::new();
                    self.participant.executed(tx, execution, &mut actions);
                    self.act(now, actions, said);
                }
                Action::Append { record } => {
                    if let Record::Abort { tx } = record {
                        said.push(Said::Outcome(tx, false));
                    }
                    self.pending.push(Entry::Record(record.clone()));
                    if let Record::Prepare(prepared) = &record
                        && self.mistake == Mistake::EarlyUnlock
                    {
                        self.unlock(now, Owner::Tx(prepared.tx), &prepared.locks, said);
                    }
                    if matches!(record, Record::Prepare(_)) && self.mistake == Mistake::UnloggedPrepare {
                        self.committed_early(now, &record, said);
                    }
                }
                Action::Install { prepared } => {
                    said.push(Said::Outcome(prepared.tx, true));
                    self.apply(&prepared.effects);
                    let record = Record::Commit { tx: prepared.tx, members: Arc::clone(&prepared.members) };
                    self.pending.push(Entry::Commit(record.clone(), Arc::clone(&prepared.effects)));
                    if self.mistake == Mistake::ForgottenCommit {
                        self.committed_early(now, &record, said);
                    }
                }
                Action::Presumed { .. } => {}
                Action::Contradiction { what, .. } => said.push(Said::Broken(what)),
            }
        }
    }

    fn committed_early(&mut self, now: BootMs, record: &Record, said: &mut Vec<Said>) {
        let mut actions = Vec::new();
        self.participant.committed(now, record.tx(), record.kind(), &mut actions);
        self.act(now, actions, said);
    }

    /// The parts that are held back.
    pub fn held_back(&self) -> impl Iterator<Item = TxnId> {
        self.held_back.keys().copied()
    }

    /// A part that was held back asks for its locks, if it still wants them.
    pub fn ask(&mut self, now: BootMs, tx: TxnId, said: &mut Vec<Said>) {
        let Some((age, locks)) = self.held_back.remove(&tx) else { return };
        if !self.participant.is_queued(tx) && self.mistake != Mistake::OverdueAsking {
            return;
        }
        let (keys, owner) = (places(&locks), Owner::Tx(tx));
        match request(&mut self.locks, owner, age, keys.iter().map(|(k, m)| (k, *m))) {
            Requested::Waits(missing) => {
                self.missing.insert(owner, missing);
            }
            Requested::Dies => self.locked(now, tx, false, said),
            Requested::Granted if self.participant.is_queued(tx) => self.locked(now, tx, true, said),
            // Only under the planted mistake.
            Requested::Granted => self.unlock(now, owner, &locks, said),
        }
    }

    /// The parts that wait for locks.
    pub fn waiting(&self) -> impl Iterator<Item = TxnId> {
        self.missing.keys().filter_map(|owner| match owner {
            Owner::Tx(tx) => Some(*tx),
            Owner::Plain(_) => None,
        })
    }

    /// The node does not let a part wait for its locks any longer: their holder is in doubt.
    pub fn doubt(&mut self, now: BootMs, tx: TxnId, said: &mut Vec<Said>) {
        let (mut actions, why) = (Vec::new(), Refusal::Failed(Box::new(*b"in doubt")));
        let is_refused = self.participant.refuse_queued(tx, why, &mut actions);
        if !is_refused && self.mistake == Mistake::OverdueAsking {
            self.missing.remove(&Owner::Tx(tx));
        }
        self.act(now, actions, said);
    }

    fn locked(&mut self, now: BootMs, tx: TxnId, granted: bool, said: &mut Vec<Said>) {
        let mut actions = Vec::new();
        self.participant.locked(tx, granted, &mut actions);
        self.act(now, actions, said);
    }

    fn unlock(&mut self, now: BootMs, owner: Owner, locks: &[Lock], said: &mut Vec<Said>) {
        let keys = places(locks);
        let mut granted = Vec::new();
        release(&mut self.locks, owner, keys.iter().map(|(k, _)| k), |owner| granted.push(owner));
        self.missing.remove(&owner);
        for owner in granted {
            let Some(missing) = self.missing.get_mut(&owner) else {
                said.push(Said::Broken("a key is handed to nobody"));
                continue;
            };
            *missing -= 1;
            if *missing > 0 {
                continue;
            }
            self.missing.remove(&owner);
            match owner {
                Owner::Tx(tx) => self.locked(now, tx, true, said),
                Owner::Plain(id) => {
                    let Some((locks, commands)) = self.plain.remove(&id) else { continue };
                    self.run_plain(id, &commands, said);
                    self.unlock(now, owner, &locks, said);
                }
            }
        }
    }

    /// Runs a transaction's commands: they read, and return the appends.
    pub fn execute(&mut self, now: BootMs, tx: TxnId, commands: &[u8], logged: bool, said: &mut Vec<Said>) {
        let (effects, reads) = self.run(commands);
        let execution = Execution::Done { effects: effects.into(), replies: encode_reads(&reads).into() };
        if !logged && !self.pending.is_empty() {
            return self.gated.push((tx, execution));
        }
        let mut actions = Vec::new();
        self.participant.executed(tx, execution, &mut actions);
        self.act(now, actions, said);
    }

    /// Refuses a transaction of another moment: its moment is over, or a key expires (`ends`) before it. Returns false
    /// if the moment suits. Unix time and the boot clock begin together.
    pub fn untimely(&mut self, now: BootMs, (tx, moment): (TxnId, UnixMs), ends: &[u64], said: &mut Vec<Said>) -> bool {
        let unix = UnixMs(now.0);
        let ends = ends.iter().copied().map(UnixMs).find(|ends| (unix..moment).contains(ends));
        let untimely = unix > moment || ends.is_some();
        if untimely {
            let mut actions = Vec::new();
            let why = Refusal::Untimely { now: unix, ends };
            self.participant.executed(tx, Execution::Refused(why), &mut actions);
            self.act(now, actions, said);
        }
        untimely
    }

    /// Sends the values of a transaction's keys.
    pub fn fetch(&mut self, now: BootMs, tx: TxnId, locks: &[Lock], said: &mut Vec<Said>) {
        let read = |lock: &Lock| {
            let key = u16::from_be_bytes([lock.key[0], lock.key[1]]);
            (key, self.store.get(&key).cloned().unwrap_or_default())
        };
        let reads = locks.iter().map(read).collect();
        if self.mistake == Mistake::ForgottenFetch {
            self.unlock(now, Owner::Tx(tx), locks, said);
        }
        let found: Arc<[u8]> = encode_reads(&reads).into();
        if !self.pending.is_empty() {
            return self.found.push((tx, found));
        }
        let mut actions = Vec::new();
        self.participant.fetched(now, tx, found, &mut actions);
        self.act(now, actions, said);
    }

    /// A command of a client of this node. It is answered with [`Said::Plain`], now or later.
    pub fn plain(&mut self, id: u32, locks: Arc<[Lock]>, commands: Arc<[u8]>, said: &mut Vec<Said>) {
        let keys = places(&locks);
        match request_plain(&mut self.locks, Owner::Plain(id), keys.iter().map(|(k, m)| (k, *m))) {
            None => self.run_plain(id, &commands, said),
            Some(missing) => {
                self.missing.insert(Owner::Plain(id), missing);
                self.plain.insert(id, (locks, commands));
            }
        }
    }

    fn run_plain(&mut self, id: u32, commands: &[u8], said: &mut Vec<Said>) {
        let (effects, reads) = self.run(commands);
        if !effects.is_empty() {
            self.apply(&effects);
            self.pending.push(Entry::Plain(id, effects.into()));
        }
        if self.pending.is_empty() {
            said.push(Said::Plain(id, reads));
        } else {
            self.answers.push((id, reads));
        }
    }

    fn run(&self, commands: &[u8]) -> (Vec<u8>, Reads) {
        let (mut effects, mut reads) = (Vec::new(), Vec::new());
        for (key, append) in decode_commands(commands) {
            reads.push((key, self.store.get(&key).cloned().unwrap_or_default()));
            if let Some(id) = append {
                effects.extend_from_slice(&key.to_le_bytes());
                effects.extend_from_slice(&id.to_le_bytes());
            }
        }
        (effects, reads)
    }

    fn apply(&mut self, effects: &[u8]) {
        for effect in effects.chunks_exact(6) {
            let key = u16::from_le_bytes([effect[0], effect[1]]);
            let id = u32::from_le_bytes([effect[2], effect[3], effect[4], effect[5]]);
            self.store.entry(key).or_default().push(id);
        }
    }

    /// True if two transactions are prepared, or about to be, with locks that only one can hold.
    pub fn conflict(&self) -> bool {
        let prepared: Vec<_> = self.participant.in_doubt().collect();
        let conflicts = |a: &txn::Prepared, b: &txn::Prepared| {
            a.locks.iter().any(|x| b.locks.iter().any(|y| x.key == y.key && x.mode.conflicts(y.mode)))
        };
        prepared.iter().enumerate().any(|(at, a)| prepared[at + 1..].iter().any(|b| conflicts(a, b)))
    }
}

fn places(locks: &[Lock]) -> Vec<(Place, Mode)> {
    locks.iter().map(|lock| ((lock.db, lock.key.clone()), lock.mode)).collect()
}

/// Locks and commands of a transaction that reads `reads` and appends `id` to `writes`.
pub fn program(id: u32, reads: &[u16], writes: &[u16]) -> Program {
    let shared = reads.iter().map(|key| (*key, Mode::Shared));
    let all = shared.chain(writes.iter().map(|key| (*key, Mode::Exclusive)));
    let (mut locks, mut commands) = (Vec::new(), Vec::new());
    for (key, mode) in all {
        locks.push(Lock { db: 0, key: key.to_be_bytes().into(), mode });
        commands.extend_from_slice(&key.to_le_bytes());
        let append = if mode == Mode::Exclusive { id } else { 0 };
        commands.extend_from_slice(&append.to_le_bytes());
    }
    (Lock::normalized(locks), commands.into())
}

/// The changes of each participant. Each is named in `made`, maybe more than once.
pub fn by_participant(made: impl IntoIterator<Item = (ParticipantId, Arc<[u8]>)>) -> Vec<(ParticipantId, Arc<[u8]>)> {
    let mut all: BTreeMap<ParticipantId, Vec<u8>> = BTreeMap::new();
    made.into_iter().for_each(|(id, made)| all.entry(id).or_default().extend_from_slice(&made));
    all.into_iter().map(|(id, made)| (id, made.into())).collect()
}

/// The changes of a transaction that appends `id` to `writes`, once it has fetched.
pub fn made(id: u32, writes: &[u16]) -> Arc<[u8]> {
    let of = |key: &u16| [&key.to_le_bytes()[..], &id.to_le_bytes()].concat();
    writes.iter().flat_map(of).collect()
}

fn decode_commands(commands: &[u8]) -> Vec<(u16, Option<u32>)> {
    let one = |c: &[u8]| {
        let id = u32::from_le_bytes([c[2], c[3], c[4], c[5]]);
        (u16::from_le_bytes([c[0], c[1]]), (id != 0).then_some(id))
    };
    commands.chunks_exact(6).map(one).collect()
}

fn encode_reads(reads: &Reads) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, list) in reads {
        bytes.extend_from_slice(&key.to_le_bytes());
        bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
        list.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    }
    bytes
}

/// The values that a reply says were read.
pub fn decode_reads(mut bytes: &[u8]) -> Reads {
    let mut reads = Vec::new();
    while !bytes.is_empty() {
        let mut number = |n: usize| {
            let (head, rest) = bytes.split_at(n);
            bytes = rest;
            head.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte))
        };
        let (key, length) = (number(2) as u16, number(4));
        reads.push((key, (0..length).map(|_| number(4)).collect()));
    }
    reads
}

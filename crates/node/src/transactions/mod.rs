//! Transactions over nodes: what `txn` decides is said over links, logged, and done to keys.
//!
//! Each worker coordinates what its clients begin; the node's part in what others have begun is one state machine under a lock, which any worker may drive.
//! What that asks for are *tasks*: each takes latches, and waits, as the command of a connection does. Frames of kind *transactions* carry one
//! message each.

mod coordinator;
mod doubts;
mod found;
mod further;
pub(crate) mod in_doubt;
mod interactive;
mod part;
mod participant;
mod slow;
mod split;
mod tasks;
mod waiting;
mod wire;
mod workspace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use engine::{Caller, Undone, WatchedKey, Workspace};
use keyspace::Horizon;
use smallvec::{SmallVec, smallvec};
use txn::{Coordinator, Execution, Member, Message, NodeId, Participant, RecordKind, Settings, TxId};

pub(crate) use coordinator::Begun;
use coordinator::Block;
pub(crate) use doubts::{Doubt, Doubts};
pub(crate) use part::find;
pub(crate) use slow::SlowScripts;
use tasks::Task;
pub(crate) use workspace::reach_of;

use crate::cluster::origin::Broken;
use crate::cluster::tracking::For;
use crate::cluster::{Peers, Role};
use crate::worker::{Token, Worker};

/// What tokens of tasks have in common, and no other token has.
const TASK: Token = 1 << 63;
/// Outcomes that have not been synced for so long, in milliseconds, are: others remember them until then.
const SYNC_MS: u64 = 1000;
/// Nanoseconds for which a node serves nothing after its start.
pub(crate) const REST_NS: u64 = Settings::DEFAULT.read_ms * 1_000_000;
/// Steps in one go, before others get their turn.
const STEPS: usize = 1024;

/// A node's part in transactions that others coordinate, and it itself.
#[derive(Default)]
pub(crate) struct Parts {
    known: OnceLock<(Member, Mutex<Participant>)>,
    /// When something is due, in milliseconds of [`Worker::tx_now`]; `u64::MAX`: never.
    due: AtomicU64,
}

impl Parts {
    fn me(&self) -> Option<Member> {
        self.known.get().map(|(me, _)| *me)
    }

    /// Calls `f` with the participant, if there is one.
    fn with<R>(&self, f: impl FnOnce(&mut Participant) -> R) -> Option<R> {
        let (_, participant) = self.known.get()?;
        let mut participant: MutexGuard<'_, _> = participant.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut participant);
        self.due.store(participant.next_tick().unwrap_or(u64::MAX), Relaxed);
        Some(result)
    }
}

/// What is watched at this node for a block.
#[derive(Clone, Default)]
enum Watched {
    /// Nothing.
    #[default]
    Nothing,
    /// These.
    Keys(Vec<WatchedKey>),
    /// What was is not any more.
    Lost,
}

/// What a part is to know of the client whose it is.
#[derive(Clone, Default)]
struct Client {
    /// What it watches here.
    watched: Watched,
    /// What it is here.
    caller: Caller,
}

impl Client {
    fn is_known(&self) -> bool {
        !matches!(self.watched, Watched::Nothing) || self.caller != Caller::default()
    }
}

/// What an attempt has looked at, and keeps its locks for.
enum Looked {
    /// It fetches: what is there.
    Found(Arc<[u8]>),
    /// It only reads (rule T3): what its commands answered, and what is to be told of it.
    Read(Execution, Undone),
}

/// A worker's part in transactions.
#[derive(Default)]
pub(crate) struct Transacting {
    coordinator: Option<Coordinator>,
    /// Blocks of its clients that are under way, by the coordinator's sequence.
    blocks: BTreeMap<u64, Block>,
    tasks: BTreeMap<Token, Task>,
    next_task: u64,
    /// Commands that wait for keys to change, by connection.
    sleeping: BTreeMap<Token, Block>,
    /// Tasks to be looked at.
    ready: VecDeque<Token>,
    /// Tasks to be looked at later, and when, in milliseconds of [`Worker::tx_now`]; ascending.
    later: VecDeque<(u64, Token)>,
    /// Messages that have come and were not looked at.
    heard: VecDeque<(Member, Message, Client)>,
    /// Of attempts whose message is being looked at.
    clients: BTreeMap<TxId, Client>,
    /// The nodes that were taken out of the cluster, by the map.
    gone: BTreeSet<NodeId>,
    /// The last attempts of what its clients have begun, gone ones as well, by the coordinator's sequence.
    told: BTreeMap<u64, Told>,
    /// Counts what begins and ends, attempts and links.
    ticks: u64,
    /// Records that were left.
    records: u64,
    /// Records that are not committed, but for outcomes.
    logged: Vec<Logged>,
    /// Of them, that attempts are prepared: committed as replies promise it, and not on the disk.
    unsynced: Vec<Logged>,
    /// Outcomes that are not on the disk.
    outcomes: VecDeque<Logged>,
    /// When the log was last asked to sync them, or the first of them was left.
    asked_to_sync: u64,
    /// What was looked at for attempts, and is not committed.
    looked: Vec<(Horizon, TxId, Looked)>,
    /// Refusals that follow from what is not committed.
    held_back: Vec<(Horizon, Vec<txn::Action>)>,
    /// Blocks that run in workspaces, and have had their turn for now.
    running: VecDeque<u64>,
    /// Attempts whose scripts have asked other nodes something that is answered.
    answered: Vec<(u64, u32)>,
    /// Commands between BEGIN and COMMIT that need nothing from anybody, and are about to run.
    beginning: Vec<u64>,
    /// COMMITs of what nobody need be asked for.
    committed: Vec<txn::Event>,
    /// Counts both.
    at_home: u64,
    /// Connections with transactions that keep something.
    interactive: BTreeSet<Token>,
    /// When these are looked at next, unix milliseconds.
    idle_at: u64,
    /// How often scripts had been killed when those that wait were last looked at.
    kills: u64,
    /// Workspaces that nobody uses.
    idle: Vec<Workspace>,
}

/// An attempt that was sent.
struct Told {
    tx: TxId,
    members: Arc<[Member]>,
    /// Who was asked, and when that was first, as attempts and links are counted.
    asked: SmallVec<[(NodeId, u64); 4]>,
}

/// What a record waits for that was left, and what it says of which attempt.
type Logged = (Horizon, TxId, RecordKind);

impl Transacting {
    /// The clients whose blocks are coordinated here.
    pub(crate) fn clients(&self) -> Vec<Token> {
        self.blocks.values().map(|block| block.token).collect()
    }

    /// Whether the node has not found itself in the map yet.
    pub(crate) fn is_new(&self) -> bool {
        self.coordinator.is_none()
    }

    /// Whether something can be done at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.heard.is_empty()
            || !self.running.is_empty()
            || !self.answered.is_empty()
            || !self.beginning.is_empty()
            || !self.committed.is_empty()
    }

    /// Whether somebody is to be told, when the log has come so far, what attempts came to.
    pub(crate) fn owes_answers(&self) -> bool {
        !self.logged.is_empty() || !self.unsynced.is_empty() || !self.looked.is_empty() || !self.held_back.is_empty()
    }

    /// Whether something waits for the log.
    pub(crate) fn awaits_log(&self) -> bool {
        self.owes_answers() || !self.outcomes.is_empty()
    }
}

impl Transacting {
    /// For whom a block runs, and what its client's connection is called.
    pub(crate) fn runs_for(&self, sequence: u64) -> Option<(&For, Token)> {
        self.blocks.get(&sequence).map(|block| (&block.runs, block.token))
    }

    pub(crate) fn runs_for_mut(&mut self, sequence: u64) -> Option<&mut For> {
        self.blocks.get_mut(&sequence).map(|block| &mut block.runs)
    }

    /// A virtual connection of a client over a link has ended.
    pub(crate) fn forget_lines(&mut self, token: Token, link: usize) {
        let blocks = self.blocks.values_mut().chain(self.sleeping.values_mut());
        blocks.filter(|block| block.token == token).for_each(|block| block.runs.forget(link));
    }
}

impl Told {
    /// Whether the node has a part in it, and was not asked for it up to this time: nothing of it has left.
    fn is_unheard_of(&self, node: NodeId, last_open: u64) -> bool {
        let asked = self.asked.iter().find(|(other, _)| *other == node);
        self.members.iter().any(|member| member.node == node) && asked.is_none_or(|(_, at)| *at > last_open)
    }
}

impl Transacting {
    /// An attempt is sent to one of its participants.
    fn note_told(&mut self, prepare: &txn::Prepare, to: NodeId) {
        let tx = prepare.tx;
        if let Some(told) = self.told.get_mut(&tx.sequence).filter(|told| told.tx == tx) {
            if told.asked.iter().all(|(node, _)| *node != to) {
                self.ticks += 1;
                told.asked.push((to, self.ticks));
                told.members.clone_from(&prepare.members);
            }
            return;
        }
        self.ticks += 1;
        let asked = smallvec![(to, self.ticks)];
        self.told.insert(tx.sequence, Told { tx, members: prepare.members.clone(), asked });
        let Some(coordinator) = &self.coordinator else { return };
        if self.told.len() > 2 * coordinator.len() + 64 {
            self.told.retain(|_, told| coordinator.current(told.tx.sequence) == Some(told.tx));
        }
    }
}

/// Whether a message asks for a client's commands, or does what has come of them.
fn asks(message: &Message) -> bool {
    matches!(message, Message::Prepare(_) | Message::Fetch(_) | Message::Widen { .. } | Message::Proceed { .. })
}

/// A node of the map, as transactions know it.
fn member(node: &::membership::map::Node) -> Member {
    Member { node: NodeId(u64::from(node.number)), incarnation: node.incarnation }
}

impl Peers {
    /// The link to a node that takes part in transactions, if the map has it.
    pub(crate) fn link_to_member(&mut self, node: NodeId) -> Option<usize> {
        let place = self.map.nodes().iter().position(|other| member(other).node == node)?;
        Some(self.link_to(place as u16))
    }

    /// This node as the others know it.
    fn member(&self) -> Option<Member> {
        let number = self.map.node(self.my_place()?).number;
        Some(Member { node: NodeId(u64::from(number)), incarnation: self.shared.incarnation })
    }
}

impl Worker {
    /// Milliseconds of a clock that never goes back, and goes on while the machine sleeps: what is read counts by it (rule T3).
    fn tx_now(&self) -> u64 {
        self.node.clock.boot_ns() / 1_000_000
    }

    /// The map has changed, or is known for the first time: who is there, and in which life.
    pub(crate) fn tx_map(&mut self) {
        let now = self.tx_now();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if peers.is_out() && !peers.tx.is_new() {
            return self.tx_out();
        }
        let Some(me) = peers.member() else { return };
        let mut actions = Vec::new();
        let (outcomes, has_inherited) = (&self.node.engine.transactions, self.node.has_inherited());
        peers.shared.parts.known.get_or_init(|| {
            if has_inherited {
                return (me, Mutex::new(Participant::refusing(me, Settings::default(), coordinator::NOT_SERVED)));
            }
            // The locks of what is prepared have been taken by who has read the log.
            let records = outcomes.outcomes();
            let records = records.records().cloned();
            (me, Mutex::new(Participant::restore(me, Settings::default(), now, records, &mut Vec::new())))
        });
        if has_inherited {
            // It takes part in nothing before that is settled, and says so.
            return;
        }
        peers.shared.parts.with(Participant::serve);
        let lane = self.index as u16;
        let coordinator = peers
            .tx
            .coordinator
            .get_or_insert_with(|| Coordinator::new(txn::Origin { member: me, lane }, Settings::default()));
        let mut events = Vec::new();
        let map = peers.map.clone();
        // Those that were taken out of the cluster never come back. One that cannot be found (`Node::lost`) may.
        for node in map.gone().map(|number| NodeId(number.into())).filter(|node| peers.tx.gone.insert(*node)) {
            coordinator.lost(now, node, &mut events);
            peers.shared.parts.with(|parts| parts.lost(now, node, &mut actions));
        }
        // What an earlier life of this node has coordinated has nobody else to settle it.
        peers.shared.parts.with(|parts| parts.peer(now, me, &mut actions));
        for node in map.nodes().iter().filter(|node| member(node).node != me.node) {
            let other = member(node);
            coordinator.peer(now, other, &mut events);
            peers.shared.parts.with(|parts| parts.peer(now, other, &mut actions));
        }
        self.act(actions);
        self.tx_events(events);
        self.wake_all_over_nodes();
    }

    /// This node was taken out of the cluster: nobody hears what it says of transactions any more, and those who are left settle them.
    fn tx_out(&mut self) {
        let Some(peers) = self.peers.as_deref() else { return };
        let blocks = peers.tx.clients();
        // What became of them is not known here.
        blocks.into_iter().for_each(|token| self.cut(token));
        // Who waits for locks, or for keys of several nodes, hears that this node serves nobody.
        self.resume_from_latches();
        self.wake_all_over_nodes();
    }

    /// A link to another node is open: what it has not answered may have been lost.
    pub(crate) fn tx_linked(&mut self, link: usize) {
        let now = self.tx_now();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let of = |node: &&::membership::map::Node| Some(node.id) == peers.links[link].node;
        let Some(node) = peers.map.nodes().iter().find(of).map(|node| member(node).node) else { return };
        let Some(coordinator) = &mut peers.tx.coordinator else { return };
        let mut events = Vec::new();
        coordinator.linked(now, node, &mut events);
        self.tx_events(events);
    }

    /// A link has ended; the time at which it was open last, as links and blocks are counted.
    pub(crate) fn tx_link_ended(&mut self, link: usize, was_open: bool) {
        let (now, timeout) = (self.tx_now(), self.follower.settings().cluster_lock_timeout);
        let Some(peers) = self.peers.as_deref_mut() else { return };
        peers.tx.ticks += 1;
        if was_open {
            peers.links[link].last_open = peers.tx.ticks;
            return;
        }
        // Of attempts that it was asked about since it was open last nothing has left: the node will not hear of them, as if it had refused.
        let of = |node: &&::membership::map::Node| Some(node.id) == peers.links[link].node;
        let Some(from) = peers.map.nodes().iter().find(of).map(member) else { return };
        let last_open = peers.links[link].last_open;
        let unheard = peers.tx.told.values().filter(|told| told.is_unheard_of(from.node, last_open));
        let mut unheard: Vec<TxId> = unheard.map(|told| told.tx).collect();
        let out = &peers.links[link];
        let is_cut_off = timeout > 0 && out.is_out_of_reach_for(timeout);
        let is_away = !peers.serves || is_cut_off || out.node.is_some_and(|node| peers.may_be_down(node));
        let Some(coordinator) = peers.tx.coordinator.as_mut() else { return };
        // Others it may have heard of. That may take as long as it is away, or out of this node's reach: its answer to those that bind nobody yet can be done
        // without, and who waits for others hears that nobody knows what comes of them.
        let waiting = coordinator.waits_for(from.node).filter(|_| is_away);
        let (bound, unbound): (Vec<_>, Vec<_>) = waiting.partition(|(tx, binds)| *binds && !unheard.contains(tx));
        unheard.extend(unbound.into_iter().map(|(tx, _)| tx).filter(|tx| !unheard.contains(tx)).collect::<Vec<_>>());
        let between: Vec<u64> = coordinator.between_attempts(from.node).filter(|_| is_away).collect();
        let mut events = Vec::new();
        for sequence in between {
            coordinator.fail(now, sequence, txn::Refusal::Failed(coordinator::NOT_SERVED.into()), &mut events);
        }
        for tx in unheard {
            let why = txn::Refusal::Failed(coordinator::NOT_SERVED.into());
            coordinator.message(now, from, Message::Refused { tx, why }, &mut events);
        }
        let block = |(tx, _): &(TxId, bool)| peers.tx.blocks.get(&tx.sequence).map(|block| block.token);
        let clients: Vec<Token> = bound.iter().filter_map(block).collect();
        self.tx_events(events);
        clients.into_iter().for_each(|token| self.cut(token));
    }

    /// A frame with a message has come.
    pub(crate) fn tx_hear(&mut self, link: &mut Role, body: &[u8]) -> Result<(), Broken> {
        let (from, message) = wire::read(body).map_err(|malformed| Broken(malformed.to_string()))?;
        let caller = match link {
            Role::Owner(inbound) => {
                inbound.next_for.take().map(|(vc, client, caches)| (inbound.line(vc), client, caches))
            }
            _ => None,
        };
        let caller = caller.map_or_else(Caller::default, |(line, client, caches)| self.caller_of(line, client, caches));
        let watched = match &message {
            Message::Prepare(prepare) | Message::Fetch(prepare) => match wire::watch(&prepare.commands) {
                Some(watch) => self.watched_over(link, watch),
                None => Watched::Nothing,
            },
            _ => Watched::Nothing,
        };
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.tx.heard.push_back((from, message, Client { watched, caller }));
        }
        Ok(())
    }

    /// What the client of another node watches here.
    fn watched_over(&mut self, link: &Role, watch: wire::Watch) -> Watched {
        let Role::Owner(inbound) = link else { return Watched::Lost };
        match inbound.line(watch.vc).and_then(|token| self.conn(token)) {
            Some(conn) if matches!(&conn.role, Role::Virtual(line) if line.client == watch.client) => {
                let keys = &conn.session.watched;
                if keys.len() == watch.keys as usize { Watched::Keys(keys.clone()) } else { Watched::Lost }
            }
            _ => Watched::Lost,
        }
    }

    /// Has what nobody will ask about forgotten, now and then.
    fn tx_forget(&mut self) {
        const OFTEN: u64 = 64;
        let Some(peers) = self.peers.as_deref_mut() else { return };
        peers.tx.records += 1;
        if peers.tx.records % OFTEN == 0 {
            let transactions = &self.node.engine.transactions;
            peers.shared.parts.with(|parts| transactions.forget(parts.len(), |tx| parts.knows(tx)));
        }
    }

    /// A message has come, over a link or from another worker.
    pub(crate) fn tx_take(&mut self, from: Member, message: Message) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.tx.heard.push_back((from, message, Client::default()));
        }
    }

    /// Says something to a node, which may be this one. It may get lost.
    fn tx_send(&mut self, to: NodeId, message: Message) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if let Message::Prepare(prepare) | Message::Fetch(prepare) = &message {
            peers.tx.note_told(prepare, to);
        }
        let Some(me) = peers.shared.parts.me() else { return };
        if to == me.node {
            let of = |tx: TxId| peers.tx.blocks.get(&tx.sequence).map_or(Watched::Lost, Block::watched_here);
            let watched = match &message {
                Message::Prepare(prepare) | Message::Fetch(prepare) if wire::watch(&prepare.commands).is_some() => {
                    of(prepare.tx)
                }
                _ => Watched::Nothing,
            };
            let caller =
                |tx: TxId| peers.tx.runs_for(tx.sequence).map_or_else(Caller::default, |(runs, _)| runs.caller);
            let caller = message.tx().filter(|_| asks(&message)).map_or_else(Caller::default, caller);
            return peers.tx.heard.push_back((me, message, Client { watched, caller }));
        }
        let Some(place) = peers.map.nodes().iter().position(|node| member(node).node == to) else { return };
        let link = peers.link_to(place as u16);
        if peers.links[link].is_full() {
            // It is said again later.
            return;
        }
        if let Some(tx) = message.tx().filter(|_| asks(&message)) {
            self.say_for_whom(tx.sequence, link);
        }
        let Some(peers) = self.peers.as_deref_mut() else { return };
        wire::put(me, &message, |write| peers.links[link].stage.message(write));
        self.want_link(link);
    }

    /// Does what can be done now.
    pub(crate) fn tx_step(&mut self) {
        let (now, unix_ms) = (self.tx_now(), self.node.clock.unix_ms());
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if let Some(coordinator) = peers.tx.coordinator.as_mut() {
            coordinator.set_clock(now, unix_ms);
            if coordinator.next_tick().is_some_and(|due| due <= now) {
                let mut events = Vec::new();
                coordinator.tick(now, &mut events);
                self.tx_events(events);
            }
        }
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if peers.shared.parts.due.load(Relaxed) <= now {
            let mut actions = Vec::new();
            peers.shared.parts.with(|parts| parts.tick(now, &mut actions));
            self.act(actions);
        }
        self.tx_committed(now);
        self.look_at_doubts();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        while let Some((_, token)) = peers.tx.later.pop_front_if(|(due, _)| *due <= now) {
            peers.tx.ready.push_back(token);
        }
        for _ in 0..STEPS {
            let Some(peers) = self.peers.as_deref_mut() else { return };
            if let Some((from, message, client)) = peers.tx.heard.pop_front() {
                self.tx_message(from, message, client);
            } else if let Some(token) = peers.tx.ready.pop_front() {
                self.step_task(token);
            } else {
                break;
            }
        }
        self.go_on_answered();
        self.end_killed();
        self.step_workspaces();
        self.step_interactive();
    }

    fn tx_message(&mut self, from: Member, message: Message, client: Client) {
        // What has been done in this step may have taken a while, and one message may follow from another.
        let now = self.tx_now();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let Some(me) = peers.shared.parts.me() else { return };
        match message.coordinator(me) {
            Some(lane) if usize::from(lane) == self.index => {
                if let Message::Stuck { tx } = message {
                    return self.cut_stuck(tx);
                }
                let Some(coordinator) = &mut peers.tx.coordinator else { return };
                let mut events = Vec::new();
                coordinator.message(now, from, message, &mut events);
                self.tx_events(events);
            }
            Some(lane) if usize::from(lane) < self.node.workers() => {
                self.node.send(usize::from(lane), crate::Message::Transaction(Box::new((from, message))));
            }
            Some(_) => {}
            None => {
                let (mut actions, tx) = (Vec::new(), message.tx());
                if let Message::Status { tx, .. } = message {
                    self.node.doubts.answered(tx, from.node);
                }
                if let Message::Slow { tx, function } = message {
                    self.node.hear_of_slow_script((tx, function), &peers.shared.parts);
                }
                if let Some(tx) = tx.filter(|_| client.is_known()) {
                    peers.tx.clients.insert(tx, client);
                }
                peers.shared.parts.with(|parts| parts.message(now, from, message, &mut actions));
                self.act(actions);
                if let Some((peers, tx)) = self.peers.as_deref_mut().zip(tx) {
                    peers.tx.clients.remove(&tx);
                }
            }
        }
    }

    /// When something is due, unix milliseconds.
    pub(crate) fn tx_deadline(&self) -> Option<u64> {
        let peers = self.peers.as_deref()?;
        let mine = peers.tx.coordinator.as_ref().and_then(Coordinator::next_tick);
        let parts = Some(peers.shared.parts.due.load(Relaxed)).filter(|due| *due < u64::MAX);
        let later = peers.tx.later.front().map(|(due, _)| *due);
        let doubts = self.node.engine.transactions.any().then(|| self.node.doubts.due());
        let sync = (!peers.tx.outcomes.is_empty()).then_some(peers.tx.asked_to_sync + SYNC_MS);
        let due = mine
            .into_iter()
            .chain(parts.filter(|_| peers.shared.parts.me().is_some()))
            .chain(doubts.filter(|_| peers.shared.parts.me().is_some()))
            .chain(sync)
            .chain(later)
            .min()?;
        Some(self.engine.now() + due.saturating_sub(self.tx_now()))
    }
}

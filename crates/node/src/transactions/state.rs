//! A worker's state of its transactions over nodes. The code that drives it is [`super::Transacting`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use engine::{Undone, Workspace};
use keyspace::Horizon;
use smallvec::{SmallVec, smallvec};
use txn::{Coordinator, Execution, Life, Member, Message, NodeId, ParticipantId, RecordKind, TxnId};

use super::block::Block;
use super::client::{Client, For};
use super::copies::Copies;
use super::members::Queued;
use super::parts::Parts;
use super::task::{Task, Work};
use crate::worker::token::Token;

/// Milliseconds after which outcomes that are not on the disk are synced: other nodes remember them until then.
pub(super) const SYNC_MS: u64 = 1000;

/// The result of an attempt that only reads, and holds its locks meanwhile.
pub(super) enum Looked {
    /// The attempt fetches: these are the values.
    Found(Arc<[u8]>),
    /// The attempt only reads (rule T3): the replies of its commands, and the invalidations for clients that cache.
    Read(Execution, Undone),
}

/// A worker's part in transactions over nodes.
#[derive(Default)]
pub(crate) struct Transactions {
    pub(super) coordinator: Option<Coordinator>,
    /// Blocks of its clients that are under way, by the coordinator's sequence.
    pub(super) blocks: BTreeMap<u64, Block>,
    pub(super) tasks: BTreeMap<Token, Task>,
    pub(super) next_task: u64,
    /// Commands that wait for keys to change, by connection.
    pub(super) sleeping: BTreeMap<Token, Block>,
    /// Tasks to step at once.
    pub(super) ready: VecDeque<Token>,
    /// Tasks to step later, with the time; ascending.
    pub(super) later: VecDeque<(BootMs, Token)>,
    /// Messages that have come and are not handled yet.
    pub(super) heard: VecDeque<(Life, Message, Client)>,
    /// Clients of the attempts whose message is being handled.
    pub(super) clients: BTreeMap<TxnId, Client>,
    /// The nodes that the map names as removed from the cluster.
    pub(super) gone: BTreeSet<NodeId>,
    /// The participants that the map names as lost.
    pub(super) lost: BTreeSet<ParticipantId>,
    /// The last attempt of each block, by the coordinator's sequence. Blocks that have ended leave it now and then.
    pub(super) told: BTreeMap<u64, Told>,
    /// Orders the sending of attempts and the ends of links.
    pub(super) ticks: u64,
    /// Number of records left.
    pub(super) records: u64,
    /// Records that are not committed, except outcomes.
    pub(super) logged: Vec<Logged>,
    /// Prepare records that are committed as replies promise it, but are not on the disk.
    pub(super) unsynced: Vec<Logged>,
    /// Outcomes that are not on the disk.
    pub(super) outcomes: VecDeque<Logged>,
    /// When the log was last asked to sync them, or the first of them was left.
    pub(super) asked_to_sync: BootMs,
    /// Results of attempts that only read. They are sent once the versions that they depend on are committed.
    pub(super) looked: Vec<(Horizon, TxnId, Looked)>,
    /// Refusals that depend on versions that are not committed.
    pub(super) held_back: Vec<(Horizon, Vec<txn::Action>)>,
    /// Blocks that run in workspaces, and wait for their next turn.
    pub(super) running: VecDeque<u64>,
    /// Attempts whose scripts asked other nodes a question that is answered now.
    pub(super) answered: Vec<(u64, u32)>,
    /// Commands between BEGIN and COMMIT that need no answer of another node, and are about to run.
    pub(super) beginning: Vec<u64>,
    /// COMMITs that need no answer of a node.
    pub(super) committed: Vec<txn::Event>,
    /// The last number given with [`super::interactive::AT_HOME`].
    pub(super) at_home: u64,
    /// Connections whose transaction between BEGIN and COMMIT has run a command.
    pub(super) interactive: BTreeSet<Token>,
    /// When idle ones among them are looked for next.
    pub(super) idle_at: UnixMs,
    /// The number of killed scripts when waiting scripts were last checked.
    pub(super) kills: u64,
    /// Workspaces that are free.
    pub(super) idle: Vec<Workspace>,
    /// Copies of large keys.
    pub(super) copies: Copies,
    /// Blocks that wait for other blocks of this worker. `queue_due`: one of those has ended.
    pub(super) queue: VecDeque<Queued>,
    pub(super) queue_due: bool,
    /// When to check the queue at the latest, and when a block last ended. `queue_moves`: a block has
    /// ended since the last check.
    pub(super) queue_look: BootMs,
    pub(super) queue_moved: BootMs,
    pub(super) queue_moves: bool,
    /// The last change of doubts that this worker has handled.
    pub(super) doubts_seen: u64,
}

/// An attempt that was sent.
pub(super) struct Told {
    pub(super) tx: TxnId,
    members: Arc<[Member]>,
    /// The participants that were asked, at which node, and the value of `ticks` when each was first asked there. None:
    /// where it is was not known.
    asked: SmallVec<[(ParticipantId, Option<NodeId>, u64); 4]>,
}

/// A record that was left: the versions that it depends on, the attempt, and its kind.
pub(super) type Logged = (Horizon, TxnId, RecordKind);

impl Transactions {
    /// The clients whose blocks are coordinated here.
    pub(crate) fn clients(&self) -> Vec<Token> {
        let under_way = self.blocks.values().flat_map(Block::tokens);
        under_way.chain(self.queue.iter().map(|queued| queued.block.token)).collect()
    }

    /// True if the node has not found itself in the map yet.
    pub(crate) fn is_new(&self) -> bool {
        self.coordinator.is_none()
    }

    /// True if nothing is under way, and nothing will be due.
    pub(super) fn is_idle(&self) -> bool {
        let is_quiet = |coordinator: &Coordinator| coordinator.next_tick().is_none();
        self.coordinator.as_ref().is_some_and(is_quiet)
            && !self.has_work()
            && !self.awaits_log()
            && self.blocks.is_empty()
            && self.tasks.is_empty()
            && self.sleeping.is_empty()
            && self.later.is_empty()
            && self.interactive.is_empty()
            && self.queue.is_empty()
            && !self.queue_moves
    }

    /// True if something can be done at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.heard.is_empty()
            || !self.running.is_empty()
            || !self.answered.is_empty()
            || !self.beginning.is_empty()
            || !self.committed.is_empty()
            || self.queue_due
    }

    /// True if other nodes are owed answers that wait for the log.
    fn owes_answers(&self) -> bool {
        !self.logged.is_empty() || !self.unsynced.is_empty() || !self.looked.is_empty() || !self.held_back.is_empty()
    }

    /// True if this node must not shut down yet: it has something to tell other nodes, or has unread messages from
    /// them.
    pub(crate) fn owes(&self) -> bool {
        self.has_work() || self.owes_answers()
    }

    /// True if something waits for the log.
    pub(crate) fn awaits_log(&self) -> bool {
        self.owes_answers() || !self.outcomes.is_empty()
    }
}

/// The mark of tokens of tasks, which no other token has.
pub(super) const TASK: Token = 1 << 63;

impl Transactions {
    pub(super) fn add_task(&mut self, work: Work) {
        let token = TASK | self.next_task;
        self.next_task += 1;
        let before = self.tasks.insert(token, Task::new(work));
        debug_assert!(before.is_none(), "a task has a token of its own");
        self.ready.push_back(token);
    }

    /// The event that a task waits for may have come. Returns false if the token is not a task's.
    pub(crate) fn unpark(&mut self, token: Token) -> bool {
        if token & TASK == 0 {
            return false;
        }
        if self.tasks.contains_key(&token) && !self.ready.contains(&token) {
            self.ready.push_back(token);
        }
        true
    }

    /// A message has come, over a link or from another worker.
    pub(crate) fn take(&mut self, from: Life, message: Message) {
        self.heard.push_back((from, message, Client::default()));
    }

    /// Other nodes have answered the question of a block's script.
    pub(crate) fn note_answered(&mut self, which: (u64, u32)) {
        self.answered.push(which);
    }

    /// Number of connections whose transaction between BEGIN and COMMIT has run a command.
    pub(crate) fn interactive(&self) -> usize {
        self.interactive.len()
    }

    /// When something is due. `doubts`: when doubts are due.
    pub(crate) fn deadline(&self, parts: &Parts, doubts: Option<BootMs>) -> Option<BootMs> {
        let mine = self.coordinator.as_ref().and_then(Coordinator::next_tick);
        let due = Some(parts.due()).filter(|due| *due < BootMs::NEVER);
        let later = self.later.front().map(|(due, _)| *due);
        let sync = (!self.outcomes.is_empty()).then_some(self.asked_to_sync + SYNC_MS);
        let known = parts.me().is_some();
        let of_parts = due.into_iter().chain(doubts).filter(|_| known);
        let queued = self.queue_deadline().filter(|_| known);
        mine.into_iter().chain(of_parts).chain(sync).chain(later).chain(queued).min()
    }

    /// The client for which a block runs, and its connection.
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
    /// True if the participant has a part in the attempt and cannot have heard of it: it was asked at this node alone, and
    /// not up to this tick. What was asked at another node is in the shard's log, perhaps.
    pub(super) fn is_unheard_of(&self, id: ParticipantId, (node, last_open): (NodeId, u64)) -> bool {
        let mut asked = self.asked.iter().filter(|(other, at, _)| *other == id && at.is_some());
        self.members.iter().any(|member| member.id == id)
            && asked.all(|(_, at, tick)| *at == Some(node) && *tick > last_open)
    }
}

impl Transactions {
    /// Notes that an attempt is sent to one of its participants.
    pub(super) fn note_told(&mut self, prepare: &txn::Prepare, to: ParticipantId, at: Option<NodeId>) {
        let tx = prepare.tx;
        if let Some(told) = self.told.get_mut(&tx.sequence).filter(|told| told.tx == tx) {
            if told.asked.iter().all(|(other, there, _)| (*other, *there) != (to, at)) {
                self.ticks += 1;
                told.asked.push((to, at, self.ticks));
                told.members.clone_from(&prepare.members);
            }
            return;
        }
        self.ticks += 1;
        let asked = smallvec![(to, at, self.ticks)];
        self.told.insert(tx.sequence, Told { tx, members: prepare.members.clone(), asked });
        let Some(coordinator) = &self.coordinator else { return };
        if self.told.len() > 2 * coordinator.len() + 64 {
            self.told.retain(|_, told| coordinator.current(told.tx.sequence) == Some(told.tx));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(state: &mut Transactions, at: u64) -> TxnId {
        let tx = TxnId { sequence: 1, attempt: 1, ..TxnId::default() };
        let member = Member { id: ParticipantId::of_shard(1), incarnation: 2 };
        let prepare = txn::Prepare {
            tx,
            stamp: txn::Stamp::default(),
            members: Arc::new([member]),
            locks: Arc::new([]),
            commands: Arc::new([]),
            logged: true,
            patient: false,
            finished: 0,
            moment: UnixMs::ZERO,
        };
        state.note_told(&prepare, member.id, Some(NodeId(at)));
        tx
    }

    /// The shard's log may have what its former owner was asked, whether or not the present one can be reached.
    #[test]
    fn what_was_asked_at_another_node_may_have_been_heard() {
        let (id, mut state) = (ParticipantId::of_shard(1), Transactions::default());
        let tx = sent(&mut state, 4);
        let is_unheard =
            |state: &Transactions, node: u64| state.told[&tx.sequence].is_unheard_of(id, (NodeId(node), 0));
        assert!(is_unheard(&state, 4), "the link was not open since");
        assert!(!state.told[&tx.sequence].is_unheard_of(id, (NodeId(4), state.ticks)));
        assert!(!is_unheard(&state, 7), "it was sent to node 4");
        sent(&mut state, 7);
        assert!(!is_unheard(&state, 4) && !is_unheard(&state, 7));
        assert!(!state.told[&tx.sequence].is_unheard_of(ParticipantId::of_shard(2), (NodeId(4), 0)), "it has no part");
    }
}

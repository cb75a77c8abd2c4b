//! The work of transactions over nodes in a turn: messages, tasks, and timers.

use std::sync::atomic::Ordering::SeqCst;

use clocks::BootMs;
use engine::Caller;
use txn::{Coordinator, Life, Lock, Message, NodeId, Participant, Recipient, Settings, TxnId};

use super::block::Block;
use super::client::{Client, Watched};
use super::inherited::has_inherited;
use super::names::{heirs, life, participant, participant_of, place, sender};
use super::plan::NOT_SERVED;
use super::port::{Desk, Port, Transacting};
use super::wire;
use crate::cluster::Role;
use crate::cluster::origin::Broken;
use crate::worker::token::Token;

/// Steps in one turn, at most, so that other work gets its share.
const STEPS: usize = 1024;

/// True if a message makes a node run a client's commands, or prepare their effects.
fn asks(message: &Message) -> bool {
    matches!(message, Message::Prepare(_) | Message::Fetch(_) | Message::Widen { .. } | Message::Proceed { .. })
}

impl<P: Port> Transacting<'_, P> {
    /// The map has changed, or is known for the first time: applies the members and their lives.
    pub(crate) fn map_changed(&mut self) {
        let (now, lane) = (self.now(), self.index() as u16);
        let Desk { txn, peers, node, .. } = self.desk();
        if peers.is_out() && !txn.is_new() {
            return self.taken_out();
        }
        let Some(me) = peers.life() else { return };
        let mut actions = Vec::new();
        let has_inherited = has_inherited(node);
        let map = peers.map.clone();
        let (heirs, lost) = heirs(&map);
        peers.shared.parts.begin(me);
        // A standby has what its shard's owner has logged, and says nothing about that.
        let leads = participant_of(&map, me).filter(|_| !node.follows.load(SeqCst));
        peers.shared.parts.lead(map.version(), leads, |leads| {
            if has_inherited {
                return Participant::refusing(leads, Settings::default(), NOT_SERVED);
            }
            // Reading the log has locked the keys of prepared transactions.
            let outcomes = node.engine.transactions.outcomes();
            let records = outcomes.records().cloned();
            let mut parts = Participant::restore(leads, Settings::default(), now, records, &mut Vec::new());
            heirs.iter().for_each(|(lost, heir)| parts.continued(now, *lost, *heir));
            // What other workers have told the one before, this worker tells it again.
            txn.gone.clear();
            txn.lost.clear();
            parts
        });
        if has_inherited {
            // This node takes part in nothing before its inherited transactions are settled, and says so.
            return;
        }
        peers.shared.parts.with(Participant::serve);
        let coordinator = txn
            .coordinator
            .get_or_insert_with(|| Coordinator::new(txn::Origin { life: me, lane }, Settings::default()));
        let mut events = Vec::new();
        // Before anything goes to participants by their present names.
        for (lost, heir) in heirs {
            coordinator.continued(now, lost, heir, &mut events);
            peers.shared.parts.with(|parts| parts.continued(now, lost, heir));
        }
        // Removed nodes never come back. A node that cannot be found (`Node::lost`) may.
        let gone = map.gone().map(|number| NodeId(number.into()));
        let gone: Vec<NodeId> = gone.filter(|node| txn.gone.insert(*node)).collect();
        for participant in lost.into_iter().filter(|participant| txn.lost.insert(*participant)) {
            coordinator.lost(now, participant, &mut events);
            peers.shared.parts.with(|parts| parts.lost(now, participant));
        }
        for node in gone {
            peers.shared.parts.with(|parts| parts.gone(now, node, &mut actions));
        }
        // This node itself settles what its earlier life coordinated.
        peers.shared.parts.with(|parts| parts.peer(now, me, &mut actions));
        for member in (0..map.nodes().len() as u16).filter_map(|index| participant(&map, index)) {
            coordinator.peer(now, member, &mut events);
        }
        for node in map.nodes().iter().filter(|node| life(node).node != me.node) {
            peers.shared.parts.with(|parts| parts.peer(now, life(node), &mut actions));
        }
        self.act(actions);
        self.carry_out(events);
        self.wake_all_over_nodes();
    }

    /// This node was removed from the cluster. Other nodes do not listen to it any more, and settle its transactions.
    fn taken_out(&mut self) {
        let blocks = self.txn().clients();
        // This node does not learn the outcomes.
        blocks.into_iter().for_each(|token| self.port.cut(token));
        // Clients that wait for locks, or for keys of several nodes, hear that this node serves nobody.
        self.port.resume_from_latches();
        self.wake_all_over_nodes();
    }

    /// A link to another node is open. Messages that the node has not answered may be lost, and are sent again.
    pub(crate) fn linked(&mut self, link: usize) {
        let now = self.now();
        let Desk { txn, peers, .. } = self.desk();
        let there = peers.links[link].node.and_then(|node| peers.map.index_of(node));
        let Some(there) = there.and_then(|there| participant(&peers.map, there)) else { return };
        let Some(coordinator) = &mut txn.coordinator else { return };
        let mut events = Vec::new();
        coordinator.linked(now, there.id, &mut events);
        self.carry_out(events);
    }

    /// A link has ended, or could not be opened. `was_open`: notes the tick at which it was last open.
    pub(crate) fn link_ended(&mut self, link: usize, was_open: bool) {
        let (now, timeout) = (self.now(), self.settings().cluster_lock_timeout);
        let Desk { txn, peers, .. } = self.desk();
        txn.ticks += 1;
        if was_open {
            peers.links[link].last_open = txn.ticks;
            return;
        }
        // Attempts that were sent to the node since the link was last open have not left this node. They count as
        // refused.
        let there = peers.links[link].node.and_then(|node| peers.map.index_of(node));
        let Some(there) = there else { return };
        let Some(from) = participant(&peers.map, there) else { return };
        let (node, last_open) = (life(peers.map.node(there)).node, peers.links[link].last_open);
        let unheard = txn.told.values().filter(|told| told.is_unheard_of(from.id, (node, last_open)));
        let mut unheard: Vec<TxnId> = unheard.map(|told| told.tx).collect();
        let out = &peers.links[link];
        let is_cut_off = timeout > 0 && out.is_out_of_reach_for(timeout);
        let is_away = !peers.serves || is_cut_off || out.node.is_some_and(|node| peers.may_be_down(node));
        let Some(coordinator) = txn.coordinator.as_mut() else { return };
        // The node may have heard of the other attempts, and may be away for long. Attempts that bind no node yet count
        // as refused, too. Clients of bound attempts are closed, as the outcome is not known.
        let waiting = coordinator.waits_for(from.id).filter(|_| is_away);
        let (bound, unbound): (Vec<_>, Vec<_>) = waiting.partition(|(tx, binds)| *binds && !unheard.contains(tx));
        unheard.extend(unbound.into_iter().map(|(tx, _)| tx).filter(|tx| !unheard.contains(tx)).collect::<Vec<_>>());
        let between: Vec<u64> = coordinator.between_attempts(from.id).filter(|_| is_away).collect();
        let mut events = Vec::new();
        for sequence in between {
            coordinator.fail(now, sequence, txn::Refusal::Failed(NOT_SERVED.into()), &mut events);
        }
        for tx in unheard {
            let why = txn::Refusal::Failed(NOT_SERVED.into());
            coordinator.message(now, from, Message::Refused { tx, why }, &mut events);
        }
        let clients: Vec<Token> = bound.iter().flat_map(|(tx, _)| txn.clients_of(tx.sequence)).collect();
        self.carry_out(events);
        clients.into_iter().for_each(|token| self.port.cut(token));
    }

    /// Takes a frame with a message from a link.
    pub(crate) fn hear(&mut self, link: &mut Role, body: &[u8]) -> Result<(), Broken> {
        let (from, message) = wire::read(body).map_err(|malformed| Broken(malformed.to_string()))?;
        let caller = match link {
            Role::Owner(inbound) => {
                inbound.next_for.take().map(|(vc, client, caches)| (inbound.line(vc), client, caches))
            }
            _ => None,
        };
        let caller =
            caller.map_or_else(Caller::default, |(line, client, caches)| self.port.caller_of(line, client, caches));
        let watched = match &message {
            Message::Prepare(prepare) | Message::Fetch(prepare) => match wire::watch(&prepare.commands) {
                Some(watch) => self.watched_over(link, watch, &prepare.locks),
                None => Watched::Nothing,
            },
            _ => Watched::Nothing,
        };
        self.txn().heard.push_back((from, message, Client { watched, caller }));
        Ok(())
    }

    /// The keys that the client of another node watches here, if they are the ones that the part has locked. It may have
    /// watched others at the node that owned the shard before.
    fn watched_over(&mut self, link: &Role, watch: wire::Watch, locks: &[Lock]) -> Watched {
        let Role::Owner(inbound) = link else { return Watched::Lost };
        match inbound.line(watch.vc).and_then(|token| self.port.conn(token)) {
            Some(conn) if matches!(&conn.role, Role::Virtual(line) if line.client == watch.client) => {
                let keys = &conn.session.watched;
                let is_locked =
                    |db: u16, key: &[u8]| locks.binary_search_by(|lock| (lock.db, &*lock.key).cmp(&(db, key))).is_ok();
                let are_these =
                    keys.len() == watch.keys as usize && keys.iter().all(|watched| is_locked(watched.db, &watched.key));
                if are_these { Watched::Keys(keys.clone()) } else { Watched::Lost }
            }
            _ => Watched::Lost,
        }
    }

    /// Now and then, forgets attempts that no node knows any more.
    pub(super) fn forget_some(&mut self) {
        const OFTEN: u64 = 64;
        let Desk { txn, peers, node, .. } = self.desk();
        txn.records += 1;
        if txn.records.is_multiple_of(OFTEN) {
            let transactions = &node.engine.transactions;
            peers.shared.parts.with(|parts| transactions.forget(parts.len(), |tx| parts.knows(tx)));
        }
    }

    /// Sends a message to a node's coordinators or to a participant, maybe of this node. It may get lost.
    pub(super) fn send(&mut self, to: Recipient, message: Message) {
        let Desk { txn, peers, .. } = self.desk();
        let at = place(to, &peers.map);
        if let (Message::Prepare(prepare) | Message::Fetch(prepare), Recipient::Participant(to)) = (&message, to) {
            txn.note_told(prepare, to, at);
        }
        let (Some(me), Some(to)) = (peers.shared.parts.me(), at) else { return };
        if to == me.node {
            let of = |tx: TxnId| txn.blocks.get(&tx.sequence).map_or(Watched::Lost, Block::watched_here);
            let watched = match &message {
                Message::Prepare(prepare) | Message::Fetch(prepare) => match wire::watch(&prepare.commands) {
                    Some(watch) if watch.vc == wire::HERE => of(prepare.tx),
                    // It watches them at the node that owned the shard before this one.
                    Some(_) => Watched::Lost,
                    None => Watched::Nothing,
                },
                _ => Watched::Nothing,
            };
            let caller = |tx: TxnId| txn.runs_for(tx.sequence).map_or_else(Caller::default, |(runs, _)| runs.caller);
            let caller = message.tx().filter(|_| asks(&message)).map_or_else(Caller::default, caller);
            return txn.heard.push_back((me, message, Client { watched, caller }));
        }
        let Some(place) = peers.map.nodes().iter().position(|node| life(node).node == to) else { return };
        let link = peers.link_to(place as u16);
        if peers.links[link].is_full() {
            // The coordinator or the participant sends it again later.
            return;
        }
        if let Some(tx) = message.tx().filter(|_| asks(&message)) {
            self.port.say_for_whom(tx.sequence, link);
        }
        let peers = self.peers();
        wire::put(me, &message, |write| peers.links[link].stage.message(write));
        self.port.want_link(link);
    }

    /// Does the work that is due, if there is any at `now` of [`Self::now`]. Most turns have none, and read no clock.
    #[inline]
    pub(crate) fn step_if_due(&mut self, now: BootMs) {
        let Desk { txn, peers, node, .. } = self.desk();
        let is_idle = txn.is_idle()
            && peers.shared.parts.due() > now
            && !node.doubts.may_exist(&node.engine.transactions)
            && node.doubts.changes() == txn.doubts_seen
            && node.scripts.kills() == txn.kills;
        if !is_idle {
            self.step();
        }
    }

    fn step(&mut self) {
        let (now, unix_ms) = (self.now(), self.node().clock.unix_ms());
        if let Some(coordinator) = self.txn().coordinator.as_mut() {
            coordinator.set_clock(now, unix_ms);
            if coordinator.next_tick().is_some_and(|due| due <= now) {
                let mut events = Vec::new();
                coordinator.tick(now, &mut events);
                self.carry_out(events);
            }
        }
        let peers = self.peers();
        if peers.shared.parts.due() <= now {
            let mut actions = Vec::new();
            peers.shared.parts.with(|parts| parts.tick(now, &mut actions));
            self.act(actions);
        }
        self.look_at_log(now);
        self.look_at_doubts();
        let txn = self.txn();
        while let Some((_, token)) = txn.later.pop_front_if(|(due, _)| *due <= now) {
            txn.ready.push_back(token);
        }
        for _ in 0..STEPS {
            let txn = self.txn();
            if let Some((from, message, client)) = txn.heard.pop_front() {
                self.message(from, message, client);
            } else if let Some(token) = txn.ready.pop_front() {
                self.step_task(token);
            } else {
                break;
            }
        }
        self.go_on_answered();
        self.end_killed();
        self.step_workspaces();
        self.step_interactive();
        self.begin_queued();
    }

    fn message(&mut self, from: Life, message: Message, client: Client) {
        // The clock is read again: the work before may have taken a while, and one message may follow from another.
        let now = self.now();
        let index = self.index();
        let Desk { txn, peers, node, .. } = self.desk();
        let Some(me) = peers.shared.parts.me() else { return };
        match message.coordinator(me) {
            Some(lane) if usize::from(lane) == index => {
                if let Message::Stuck { tx } = message {
                    return self.cut_stuck(tx);
                }
                // Without the shard's last term it is no participant, or the map has not heard of that.
                let Some(from) = participant_of(&peers.map, from) else { return };
                let Some(coordinator) = &mut txn.coordinator else { return };
                let mut events = Vec::new();
                coordinator.message(now, from, message, &mut events);
                self.carry_out(events);
            }
            Some(lane) if usize::from(lane) < node.workers() => {
                node.send(usize::from(lane), crate::Message::Transaction(Box::new((from, message))));
            }
            Some(_) => {}
            None => {
                let (mut actions, tx) = (Vec::new(), message.tx());
                let from = sender(&peers.map, from);
                if let (Message::Status { tx, .. }, Some(participant)) = (&message, from.participant) {
                    node.doubts.answered(*tx, participant);
                }
                if let Message::Slow { tx, function } = message
                    && node.slow_scripts.hear((tx, function), &peers.shared.parts)
                {
                    node.doubts.have_changed();
                }
                if let Some(tx) = tx.filter(|_| client.is_known()) {
                    txn.clients.insert(tx, client);
                }
                peers.shared.parts.with(|parts| parts.message(now, from, message, &mut actions));
                self.act(actions);
                if let Some(tx) = tx {
                    self.txn().clients.remove(&tx);
                }
            }
        }
    }
}

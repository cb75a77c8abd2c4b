//! Runs blocks of a worker's clients that want the same keys one after another, in one transaction.
//!
//! Apart, each of them would hold its locks for two round trips and a sync, and the owners would refuse the others
//! meanwhile. So a block that needs a key of a block under way waits in a queue of the worker. When that one ends, the
//! first block in the queue begins a transaction, with the keys of all blocks in the queue that overlap with it. They
//! run in one workspace, each on the results of the blocks before it. A block that comes before the last of them has
//! run joins them. They are prepared and committed as one transaction. Each client gets its own reply then.
//!
//! To the protocol the transaction is one block with more keys. If it fails, each of its blocks is tried again alone.

use std::collections::VecDeque;

use clocks::BootMs;
use engine::Made;
use txn::locks::Mode;
use txn::{Coordinator, Lock};

use super::block::{Block, Watches};
use super::fetching::{Fetching, Run};
use super::members::{Others, Queued};
use super::plan::NOT_SERVED;
use super::port::{Desk, Port, Transacting};
use super::state::Transactions;
use crate::admission::cluster::SEVERAL;
use crate::cluster::kinds::Kind;
use crate::figures::stats::add;
use crate::session::{Aside, Multi};
use crate::worker::token::Token;

/// Blocks of one transaction, at most.
const MEMBERS_MAX: usize = 64;
/// A transaction takes no further blocks once it has made so many bytes of effects.
const BYTES_MAX: usize = 1 << 20;
/// Milliseconds that a block waits for others of its worker while none of them ends. Then it asks the owners itself:
/// they know the reason.
const QUEUE_MS: u64 = 250;
/// Milliseconds that a block waits for others of its worker, at most.
const QUEUE_MAX_MS: u64 = 2_000;
/// Milliseconds for which further blocks of a transaction begin, once it has its keys.
const JOIN_MS: u64 = 20;
/// A block joins only if each key lives for so many milliseconds longer: the joining block sees keys at an earlier
/// time.
const ENDS_MS: u64 = 1_000;

/// Blocks of the queue that are considered.
const LOOK_MAX: usize = 256;

/// The next step of a transaction, after a block of it has run.
pub(super) enum Then {
    /// The next block runs, once these keys are fetched, too.
    Runs(Vec<Lock>),
    /// All blocks have run.
    Ends(Made, bool),
}

impl Transactions {
    /// True if a block has to wait for another block of this worker, or for an earlier one of the same client.
    pub(super) fn must_queue(&self, block: &Block, follows: bool) -> bool {
        let in_the_way = |other: &Block| other.joins && other.conflicts(block);
        let mut queue = self.queue.iter().take(LOOK_MAX);
        follows || self.blocks.values().any(in_the_way) || queue.any(|queued| in_the_way(&queued.block))
    }

    pub(super) fn queue_up(&mut self, block: Block, since: BootMs) {
        if self.queue.is_empty() {
            self.queue_look = since + QUEUE_MS;
        }
        self.queue.push_back(Queued { block, since });
    }

    /// A block has ended: blocks in the queue may have waited for it.
    pub(super) fn look_at_queue(&mut self) {
        (self.queue_due, self.queue_moves) = (!self.queue.is_empty(), true);
    }

    /// When to check the queue for blocks that have waited long enough.
    pub(super) fn queue_deadline(&self) -> Option<BootMs> {
        (!self.queue.is_empty()).then_some(self.queue_look)
    }

    fn has_waited(&self, since: BootMs, now: BootMs) -> bool {
        now.since(since) >= QUEUE_MAX_MS || now.since(since.max(self.queue_moved)) >= QUEUE_MS
    }

    /// True if blocks of a transaction have run before the one that runs.
    pub(super) fn has_done_others(&self, sequence: u64) -> bool {
        let others = |block: &Block| block.fetching.as_deref()?.others.as_deref().map(|others| !others.done.is_empty());
        self.blocks.get(&sequence).and_then(others).unwrap_or(false)
    }

    /// The clients of a transaction's blocks.
    pub(super) fn clients_of(&self, sequence: u64) -> Vec<Token> {
        self.blocks.get(&sequence).map(|block| block.tokens().collect()).unwrap_or_default()
    }

    /// Puts blocks of an ended transaction back, at the front of the queue.
    fn put_back(&mut self, blocks: impl DoubleEndedIterator<Item = Block>, now: BootMs) {
        // The first block in the queue has waited for longest.
        let since = self.queue.front().map_or(now, |queued| queued.since.min(now));
        for mut block in blocks.rev().filter(|block| !block.gone) {
            block.fetching = None;
            self.queue.push_front(Queued { block, since });
        }
        self.look_at_queue();
    }

    /// Takes the first block out of the queue that no other block hinders, or that has waited for long. Returns true
    /// with it if it has.
    fn first_in_queue(&mut self, now: BootMs) -> Option<(Block, bool)> {
        let free = |at: usize| {
            let Queued { block, since } = &self.queue[at];
            let in_the_way = |other: &Block| other.joins && other.conflicts(block);
            if block.joins && !self.has_waited(*since, now) && self.blocks.values().any(in_the_way) {
                return false;
            }
            let before = |other: &Block| other.has_client(block.token);
            !self.blocks.values().any(before) && !self.queue.range(..at).any(|queued| before(&queued.block))
        };
        let at = (0..self.queue.len().min(LOOK_MAX)).find(|at| free(*at))?;
        let Queued { block, since } = self.queue.remove(at)?;
        Some((block, self.has_waited(since, now)))
    }

    /// Takes blocks out of the queue, in their order, that may share a transaction with this block. `most`: so many at
    /// most. `insists`: even if blocks under way hinder them.
    fn companions(
        &mut self,
        leads: &Block,
        (most, insists): (usize, bool),
        suits: impl Fn(&Block) -> bool,
    ) -> VecDeque<Block> {
        let (mut taken, mut kept) = (VecDeque::new(), VecDeque::new());
        let mut rest = std::mem::take(&mut self.queue);
        let candidates: Vec<Queued> = rest.drain(..rest.len().min(LOOK_MAX)).collect();
        for queued in candidates {
            let block = &queued.block;
            let is_of_client = |other: &Block| other.has_client(block.token);
            let overtakes = || kept.iter().any(|kept: &Queued| is_of_client(&kept.block));
            let elsewhere = |other: &Block| is_of_client(other) || !insists && other.joins && other.conflicts(block);
            let follows = || is_of_client(leads) || taken.iter().any(is_of_client) || leads.conflicts(block);
            let may = block.joins && taken.len() < most && follows() && !overtakes();
            if may && suits(block) && !self.blocks.values().any(elsewhere) {
                taken.push_back(queued.block);
            } else {
                kept.push_back(queued);
            }
        }
        kept.append(&mut rest);
        self.queue = kept;
        taken
    }
}

impl<P: Port> Transacting<'_, P> {
    /// True if a block may run with others in one transaction: it waits for nothing and watches nothing. (Nor may its
    /// client cache: owners are told for whom a transaction is.)
    pub(super) fn may_join(&mut self, (multi, alone): (&Multi, bool), watches: Watches<'_>) -> bool {
        if !watches.0.is_empty() || !watches.1.is_empty() {
            return false;
        }
        let Desk { peers, node, .. } = self.desk();
        multi.queue.iter().all(|queued| {
            let blocks = alone && node.table.get(queued.command).spec.has(command::flags::BLOCKING);
            let kind = peers.kinds[queued.command];
            matches!(kind, Kind::Keyed | Kind::Patient | Kind::Script | Kind::Quick) && !blocks
        })
    }

    /// Begins blocks in the queue that need not wait any more.
    pub(super) fn begin_queued(&mut self) {
        let now = self.now();
        if std::mem::take(&mut self.txn().queue_moves) {
            self.txn().queue_moved = now;
        }
        let txn = self.txn();
        // Blocks may have joined a transaction since one ended. A worker with something due takes no rest.
        txn.queue_due &= !txn.queue.is_empty();
        if !txn.queue_due && txn.queue_deadline().is_none_or(|due| due > now) {
            return;
        }
        self.plan_queued();
        while let Some((mut lead, insists)) = self.txn().first_in_queue(now) {
            let others = match lead.joins {
                true => self.txn().companions(&lead, (MEMBERS_MAX - 1, insists), |_| true),
                false => VecDeque::new(),
            };
            if !others.is_empty()
                && let Some(fetching) = lead.fetching.as_deref_mut()
            {
                fetching.note_own();
                let all = others.iter().filter_map(|block| block.fetching.as_deref()).flat_map(Fetching::locks);
                fetching.extra.extend(all.cloned());
                fetching.others = Some(Box::new(Others { next: others, ..Others::default() }));
            }
            self.begin_lead(lead, now);
        }
        let txn = self.txn();
        (txn.queue_due, txn.queue_look) = (false, now + QUEUE_MS);
    }

    /// Plans the blocks in the queue, so that their keys are known.
    fn plan_queued(&mut self) {
        let (node, databases, clock) = (self.node().clone(), self.settings().databases, self.node().clock.unix_ms());
        let Desk { txn, peers, .. } = self.desk();
        for Queued { block, .. } in txn.queue.iter_mut().filter(|queued| queued.block.fetching.is_none()) {
            let session = (block.db, block.protocol);
            // A block that cannot be planned now fails when it begins.
            let known = block.known.clone();
            let parts = peers.plan_fetching((&node, databases), &block.multi, block.watches(), session, &known);
            block.fetching = Some(Fetching::new(parts.unwrap_or_default(), known, clock));
        }
    }

    fn begin_lead(&mut self, mut block: Block, since: BootMs) {
        let (now, time, clock) = (self.now(), self.engine().hybrid_time(), self.node().clock.unix_ms());
        let (node, databases, mut events) = (self.node().clone(), self.settings().databases, Vec::new());
        let Desk { txn, peers, .. } = self.desk();
        // A block that was put back since the queue was planned has its own keys still.
        let known = || Fetching::new(Vec::new(), block.known.clone(), clock);
        let mut fetching = block.fetching.take().unwrap_or_else(known);
        let session = (block.db, block.protocol);
        let planned = peers
            .plan_fetching((&node, databases), &block.multi, block.watches(), session, &fetching.extra)
            .and_then(|parts| if parts.is_empty() { Err(SEVERAL.into()) } else { Ok(parts) })
            .and_then(|parts| peers.refusal(&parts).map_or(Ok(parts), Err));
        let others = fetching.others.as_deref().is_some_and(|others| others.len() > 0);
        match (planned, txn.coordinator.as_mut()) {
            (Ok(mut parts), Some(coordinator)) => {
                txn.copies.name_in(&mut parts);
                (fetching.parts, fetching.asked_at) = (parts.clone(), clock);
                block.fetching = Some(fetching);
                let sequence = coordinator.begin_fetching(now, time, parts, &mut events);
                txn.blocks.insert(sequence, block);
            }
            (_, _) if others => {
                block.fetching = Some(fetching);
                self.put_apart(block, since);
            }
            (planned, _) => {
                let text = planned.err().unwrap_or_else(|| NOT_SERVED.into());
                txn.at_home += 1;
                let sequence = super::interactive::AT_HOME | txn.at_home;
                txn.blocks.insert(sequence, block);
                events.push(txn::Event::Failed { sequence, why: txn::Refusal::Failed(text.into()) });
            }
        }
        self.carry_out(events);
    }

    /// Queues the blocks of a transaction that came to nothing: each runs again alone.
    pub(super) fn put_apart(&mut self, mut block: Block, now: BootMs) {
        let Some(others) = block.take_others() else { return };
        let before = others.done.len();
        let mut all: VecDeque<Block> = others.into_blocks().collect();
        all.insert(before, block);
        all.iter_mut().for_each(|block| block.joins = false);
        self.txn().put_back(all.into_iter(), now);
    }

    /// A transaction failed, so none of its blocks has happened: each is tried alone. Returns the block if there is
    /// only one.
    pub(super) fn try_apart(&mut self, mut block: Block) -> Option<Block> {
        if block.tokens().nth(1).is_none() {
            return Some(block);
        }
        self.stop_run(&mut block);
        let now = self.now();
        self.put_apart(block, now);
        None
    }

    /// The block that runs ends its transaction: the others run in another one.
    pub(super) fn part_with_others(&mut self, sequence: u64) {
        let now = self.now();
        let txn = self.txn();
        let Some(block) = txn.blocks.get_mut(&sequence) else { return };
        block.joins = false;
        if let Some(others) = block.take_others() {
            txn.put_back(others.into_blocks(), now);
        }
        self.txn().look_at_queue();
    }

    /// Restarts a transaction of several blocks with its first.
    pub(super) fn begin_with_first(&mut self, sequence: u64) {
        let has_others = |block: &Block| block.fetching.as_deref().is_some_and(|fetching| fetching.others.is_some());
        let is_left = |block: &Block| block.gone || has_others(block);
        if !self.txn().blocks.get(&sequence).is_some_and(is_left) {
            return;
        }
        let Some(mut block) = self.txn().blocks.remove(&sequence) else { return };
        self.stop_run(&mut block);
        block.rewind();
        let gone = block.gone;
        self.put_running(sequence, block);
        if gone {
            // The clients of all its blocks have gone.
            let (now, mut events) = (self.now(), Vec::new());
            let txn = self.txn();
            txn.blocks.remove(&sequence);
            let withdraws = |coordinator: &mut Coordinator| coordinator.withdraw(now, sequence, &mut events);
            let withdrawn = txn.coordinator.as_mut().is_some_and(withdraws);
            debug_assert!(withdrawn, "what runs binds nobody");
            txn.look_at_queue();
            self.carry_out(events);
        }
    }

    /// Ends the run of a block, if it has begun.
    fn stop_run(&mut self, block: &mut Block) {
        if let Some(mut conn) = self.port.take_conn(block.token) {
            self.stop_workspace(&mut conn, block);
            self.port.put_conn(conn);
        }
    }

    /// A block has run and made changes: the next block of its transaction takes its place.
    pub(super) fn hand_on(&mut self, block: &mut Block, run: &mut Run, made: Made, needs_memory: bool) -> Then {
        let now = self.now();
        let txn = self.txn();
        let joins = block.joins && !txn.queue.is_empty();
        let Some(fetching) = block.fetching.as_deref_mut() else { return Then::Ends(made, needs_memory) };
        if fetching.others.is_none() && !joins {
            return Then::Ends(made, needs_memory);
        }
        let others = fetching.others.get_or_insert_default();
        others.made.effects.extend_from_slice(&made.effects);
        others.made.events.extend(made.events);
        others.needs_memory |= needs_memory;
        let mut missing = Vec::new();
        // All blocks see keys at one time, and a key that the last one sets expires by that time.
        let is_long = now.since(run.begun) > JOIN_MS;
        if is_long || others.made.effects.len() > BYTES_MAX {
            let next = std::mem::take(&mut others.next);
            txn.put_back(next.into_iter(), now);
        } else if others.next.is_empty() && joins {
            missing = self.take_joining(block, run, now);
        }
        let Some(mut fetching) = block.fetching.take() else { return Then::Runs(missing) };
        let mut others = fetching.others.take().unwrap_or_default();
        let Some(next) = others.next.pop_front() else {
            let (made, needs_memory) = (std::mem::take(&mut others.made), others.needs_memory);
            fetching.others = Some(others).filter(|others| others.len() > 0);
            block.fetching = Some(fetching);
            return Then::Ends(made, needs_memory);
        };
        let mut told = fetching.told.take().unwrap_or_default();
        run.aside = Aside { keys: std::mem::take(&mut told.aside.keys), ..Aside::default() };
        run.told_slow = None;
        let done = std::mem::replace(block, next);
        others.done.push((done, told));
        fetching.others = Some(others);
        block.fetching = Some(fetching);
        Then::Runs(missing)
    }

    /// Takes in blocks that have come meanwhile: they run after the last one. Returns the keys that they want and the
    /// transaction does not have.
    fn take_joining(&mut self, block: &mut Block, run: &Run, now: BootMs) -> Vec<Lock> {
        let Some(fetching) = block.fetching.as_deref() else { return Vec::new() };
        let others = fetching.others.as_deref().map_or(0, Others::len);
        let room = (MEMBERS_MAX - 1).saturating_sub(others);
        let took = now.since(run.begun);
        // A client may know that a key has expired meanwhile.
        let ends = fetching.seen.ends.is_some_and(|ends| ends <= fetching.seen.latest + took + ENDS_MS);
        if room == 0 || took > JOIN_MS || ends {
            return Vec::new();
        }
        let keys = fetching.told.as_ref().map(|told| &told.aside.keys);
        let has = |lock: &Lock| keys.and_then(|keys| keys.get(&(lock.db, lock.key.clone()))).copied();
        let writes = fetching.parts.iter().any(|part| part.writes);
        let suits = |other: &Block| {
            // A shared lock cannot become an exclusive one, and a transaction that only reads leaves no record.
            let mut wants = other.fetching.iter().flat_map(|wants| wants.locks());
            wants.all(|lock| has(lock).is_none_or(|has| has >= lock.mode) && (writes || lock.mode == Mode::Shared))
        };
        let joined = self.txn().companions(block, (room, false), suits);
        let wants = joined.iter().filter_map(|block| block.fetching.as_deref()).flat_map(Fetching::locks);
        let missing: Vec<Lock> = wants.filter(|lock| has(lock).is_none()).cloned().collect();
        if let Some(fetching) = block.fetching.as_deref_mut().filter(|_| !joined.is_empty()) {
            if others == 0 {
                fetching.note_own();
            }
            fetching.others.get_or_insert_default().next = joined;
        }
        Lock::normalized(missing).to_vec()
    }

    /// The client of a connection has gone. Its blocks that have not begun to run are dropped. Those that have run may
    /// be committed with others. Returns the transaction that runs a block of it, if any.
    pub(super) fn leave_others(&mut self, token: Token) -> Option<u64> {
        let txn = self.txn();
        txn.queue.retain(|queued| queued.block.token != token);
        let mut runs = None;
        for (sequence, block) in &mut txn.blocks {
            if block.token == token {
                runs = Some(*sequence);
            }
            if let Some(others) = block.fetching.as_deref_mut().and_then(|fetching| fetching.others.as_deref_mut()) {
                others.next.retain(|other| other.token != token);
                let of_it = others.done.iter_mut().filter(|(other, _)| other.token == token);
                of_it.for_each(|(other, _)| other.gone = true);
            }
        }
        txn.look_at_queue();
        runs
    }

    /// The client of the block that runs has gone: the others run in another transaction, if this one cannot be
    /// committed any more. Returns false if it may be committed.
    pub(super) fn leave_together(&mut self, sequence: u64) -> bool {
        let now = self.now();
        let txn = self.txn();
        let mut events = Vec::new();
        let withdrawn =
            txn.coordinator.as_mut().is_some_and(|coordinator| coordinator.withdraw(now, sequence, &mut events));
        if withdrawn {
            self.part_with_others(sequence);
        } else if let Some(block) = txn.blocks.get_mut(&sequence) {
            block.gone = true;
        }
        self.carry_out(events);
        withdrawn
    }

    /// A block is committed, with the others of its transaction: answers their clients.
    pub(super) fn answer_others(&mut self, block: &mut Block) {
        for (done, told) in block.take_others().map(|others| others.done).unwrap_or_default() {
            let stats = self.stats();
            add(&stats.transactions, 1);
            add(&stats.transactions_joined, 1);
            let reply = self.tell(&done, told);
            self.answer_counted(&done, &reply);
        }
    }
}

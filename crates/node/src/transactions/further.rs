//! Scripts that turn out to need keys that were not fetched for them.
//!
//! Such a script is suspended where it lacks a key. The key is locked and fetched in the same attempt and put into the
//! script's workspace, and the script goes on. So each key costs one round trip. If an older transaction has the key,
//! the attempt ends, and the next one fetches all keys that are known by then.

use std::sync::Arc;

use txn::{Lock, ParticipantId};

use super::block::Block;
use super::fetching::Fetching;
use super::found::Unusable;
use super::interactive::AT_HOME;
use super::plan::NOT_SERVED;
use super::port::{Desk, Port, Transacting};

impl Block {
    fn is_apart(&self) -> bool {
        self.fetching.as_deref().is_some_and(|fetching| fetching.apart)
    }
}

const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";

impl<P: Port> Transacting<'_, P> {
    /// Some of the found values are steps from a copy that is gone: the keys are fetched again, whole.
    pub(super) fn fetch_whole(&mut self, which: (u64, u32)) {
        if let Some(block) = self.txn().blocks.get_mut(&which.0) {
            block.fetching.as_deref_mut().into_iter().for_each(|fetching| fetching.whole = true);
        }
        self.begin_again(which, Vec::new());
    }

    /// Other nodes have answered the questions of scripts: the scripts go on, or run again.
    pub(crate) fn go_on_answered(&mut self) {
        for which in std::mem::take(&mut self.txn().answered) {
            let block = self.txn().blocks.get(&which.0);
            match block.and_then(|block| block.fetching.as_deref()?.run.as_deref()) {
                Some(run) if run.attempt == which.1 => self.step_workspace(which.0),
                Some(_) => {}
                None if block.is_some_and(Block::is_apart) => self.begin_apart(which.0),
                None => self.begin_again(which, Vec::new()),
            }
        }
    }

    /// The script of a block asks all nodes a question that waits for transactions to end. So its own transaction ends
    /// first, and another one begins with the answer.
    pub(super) fn ask_alone(&mut self, which: (u64, u32)) {
        let (now, mut events) = (self.now(), Vec::new());
        // Blocks of the transaction that have run come before it, maybe of the same client. Then all are tried apart.
        let is_first = !self.is_running(which) || !self.txn().has_done_others(which.0);
        if is_first && self.is_running(which) {
            self.part_with_others(which.0);
        }
        let Some((mut block, mut conn)) = self.take_running(which.0) else { return };
        self.stop_workspace(&mut conn, &mut block);
        self.port.put_conn(conn);
        let txn = self.txn();
        let ends = |coordinator: &mut txn::Coordinator| coordinator.give_up(now, which, &mut events);
        if !txn.coordinator.as_mut().is_some_and(ends) {
            // The attempt is void: the script asks again in the next one.
            return self.put_running(which.0, block);
        }
        if !is_first {
            self.put_apart(block, now);
            return self.carry_out(events);
        }
        txn.at_home += 1;
        let sequence = AT_HOME | txn.at_home;
        block.fetching.as_deref_mut().into_iter().for_each(|fetching| fetching.apart = true);
        self.put_running(sequence, block);
        self.carry_out(events);
        if !self.asks_for_workspace((sequence, 0)) {
            self.txn().note_answered((sequence, 0));
        }
    }

    /// The answer to a script's question has come: its block begins again, in a new transaction.
    fn begin_apart(&mut self, sequence: u64) {
        let (now, time, clock) = (self.now(), self.engine().hybrid_time(), self.node().clock.unix_ms());
        let (node, databases, mut events) = (self.node().clone(), self.settings().databases, Vec::new());
        let Desk { txn, peers, .. } = self.desk();
        let Some(mut block) = txn.blocks.remove(&sequence) else { return };
        let extra = block.fetching.as_deref().map(|fetching| fetching.extra.clone()).unwrap_or_default();
        let session = (block.db, block.protocol);
        let planned = peers
            .plan_fetching((&node, databases), &block.multi, block.watches(), session, &extra)
            .and_then(|parts| peers.refusal(&parts).map_or(Ok(parts), Err));
        match (planned, txn.coordinator.as_mut()) {
            (Ok(mut parts), Some(coordinator)) => {
                txn.copies.name_in(&mut parts);
                block.fetching = Some(Fetching::new(parts.clone(), extra, clock));
                let sequence = coordinator.begin_fetching(now, time, parts, &mut events);
                txn.blocks.insert(sequence, block);
                self.carry_out(events);
            }
            (planned, _) => {
                let text = planned.err().unwrap_or_else(|| NOT_SERVED.into());
                txn.blocks.insert(sequence, block);
                let why = txn::Refusal::Failed(text.into());
                self.carry_out(vec![txn::Event::Failed { sequence, why }]);
            }
        }
    }

    /// The keys that the script of a block lacked have come: the script goes on.
    pub(super) fn go_on_fetched(&mut self, (sequence, attempt): (u64, u32), found: &[(ParticipantId, Arc<[u8]>)]) {
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        let run = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take_if(|run| run.attempt == attempt));
        let filled = match (block.fetching.as_deref_mut(), run) {
            (Some(fetching), Some(mut run)) => {
                let filled = self.fill_further(fetching, &mut run, found);
                fetching.run = Some(run);
                filled
            }
            _ => {
                // The event that stopped the run has ended the attempt, too.
                self.stop_workspace(&mut conn, &mut block);
                Err(Unusable::Untimely)
            }
        };
        self.port.put_conn(conn);
        self.put_running(sequence, block);
        match filled {
            Ok(()) => self.step_workspace(sequence),
            Err(Unusable::Untimely) => self.fetch_later((sequence, attempt)),
            Err(Unusable::NoCopy) => self.fetch_whole((sequence, attempt)),
            Err(Unusable::Wrong(text)) => self.fail_running((sequence, attempt), text.as_bytes()),
        }
    }

    /// A script turned out to need further keys: they are fetched, and the script goes on.
    pub(super) fn fetch_more(&mut self, which: (u64, u32), missing: Vec<Lock>) {
        let (now, mut events) = (self.now(), Vec::new());
        let Some((mut block, mut conn)) = self.take_running(which.0) else { return };
        if block.fetching.as_deref().is_some_and(Fetching::is_interactive) {
            return self.fetch_further_interactive((which.0, block, conn), missing);
        }
        let begins_again = block.fetching.as_deref_mut().is_none_or(|fetching| fetching.shares_some_of(&missing));
        let planned = (!begins_again).then(|| {
            let peers = self.peers();
            let parts = peers.plan_further(missing.clone(), block.protocol)?;
            peers.refusal(&parts).map_or(Ok(parts), Err)
        });
        if let Some(Ok(parts)) = &planned {
            // A client that caches hears of changes of these keys, too.
            let mut runs = std::mem::take(&mut block.runs);
            self.port.tell_parts(&mut conn, parts, &mut runs);
            block.runs = runs;
        }
        self.port.put_conn(conn);
        let (Some(planned), Some(fetching)) = (planned, block.fetching.as_deref_mut()) else {
            self.put_running(which.0, block);
            return self.begin_again(which, missing);
        };
        fetching.extra.extend(missing);
        let failed = match planned.and_then(|parts| fetching.may_widen(parts)) {
            Ok(parts) => {
                // If the attempt is void by now, the script lacks these keys again in the next one.
                if let Some(coordinator) = self.txn().coordinator.as_mut()
                    && coordinator.widen(now, which, parts.clone(), &mut events)
                {
                    fetching.note_wider(&parts);
                }
                None
            }
            Err(text) => Some(text),
        };
        self.put_running(which.0, block);
        self.carry_out(events);
        failed.into_iter().for_each(|text| self.fail_running(which, &text));
    }

    /// Runs a block again from its start, with these keys fetched, too.
    pub(super) fn begin_again(&mut self, which: (u64, u32), missing: Vec<Lock>) {
        if let Some((mut block, mut conn)) = self.take_running(which.0) {
            self.stop_workspace(&mut conn, &mut block);
            self.port.put_conn(conn);
            self.put_running(which.0, block);
        }
        let now = self.now();
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let Desk { txn, peers, .. } = self.desk();
        let Some(mut block) = txn.blocks.remove(&which.0) else { return };
        let planned = match block.fetching.as_deref_mut() {
            None => Err(NOT_SERVED.to_vec()),
            Some(fetching) => {
                fetching.extra.extend(missing);
                if fetching.interactive {
                    txn.blocks.insert(which.0, block);
                    return self.fetch_more_interactive(which.0);
                }
                let extra = fetching.extra.clone();
                let (session, whole) = ((block.db, block.protocol), fetching.whole);
                let mut parts = peers.plan_fetching((&node, databases), &block.multi, block.watches(), session, &extra);
                if let Ok(parts) = parts.as_mut()
                    && !whole
                {
                    txn.copies.name_in(parts);
                }
                parts
            }
        };
        let mut failed = None;
        let mut events = Vec::new();
        let is_interactive = block.fetching.as_deref().is_some_and(Fetching::is_interactive);
        match planned {
            Ok(parts) => {
                let coordinator = txn.coordinator.as_mut();
                let again =
                    |coordinator: &mut txn::Coordinator| coordinator.again(now, which, parts.clone(), &mut events);
                // If the attempt is void by now, the next one lacks these keys again.
                if coordinator.is_some_and(again)
                    && let Some(fetching) = block.fetching.as_deref_mut()
                {
                    fetching.parts = parts;
                }
            }
            Err(text) => failed = Some(text),
        }
        txn.blocks.insert(which.0, block);
        self.carry_out(events);
        if let Some(text) = failed {
            // The block holds no locks, and its coordinator does not know it any more.
            if is_interactive {
                return self.answer_interactive(which.0, Err(text));
            }
            self.fail_running(which, &text);
        }
    }

    /// Ends scripts that were killed while they waited: their blocks do nothing. Running scripts notice by themselves.
    pub(super) fn end_killed(&mut self) {
        let Desk { txn, node, .. } = self.desk();
        let kills = node.scripts.kills();
        if std::mem::replace(&mut txn.kills, kills) == kills {
            return;
        }
        let is_killed = |block: &Block| {
            let run = block.fetching.as_deref()?.run.as_deref()?;
            run.suspended.as_deref()?.is_killed().then_some(run.attempt)
        };
        let killed = txn.blocks.iter().filter_map(|(sequence, block)| Some((*sequence, is_killed(block)?)));
        for (sequence, attempt) in killed.collect::<Vec<_>>() {
            let (now, mut events) = (self.now(), Vec::new());
            let coordinator = self.txn().coordinator.as_mut();
            let fetches = |coordinator: &mut txn::Coordinator| {
                !coordinator.is_running(sequence, attempt) && coordinator.withdraw(now, sequence, &mut events)
            };
            if coordinator.is_some_and(fetches) {
                self.part_with_others(sequence);
                let why = txn::Refusal::Failed(KILLED.as_bytes().into());
                events.push(txn::Event::Failed { sequence, why });
                self.carry_out(events);
            } else {
                self.step_workspace(sequence);
            }
        }
    }
}

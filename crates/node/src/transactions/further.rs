//! Scripts that turn out to need keys that were not fetched for them.
//!
//! Such a script is suspended where it lacks them. They are locked and fetched in the same attempt, put into its workspace, and it goes on: what it has done so far is
//! in there. So each key costs one round trip, however many there are. If somebody older has a key, the attempt ends, and the next one fetches all that is known by
//! then from the start.

use std::collections::BTreeMap;
use std::sync::Arc;

use txn::locks::Mode;
use txn::{Lock, NodeId, Part};

use super::coordinator::{Block, NOT_SERVED, OfNode};
use super::found::Unusable;
use super::interactive::AT_HOME;
use super::workspace::{Fetching, Seen};
use crate::cluster::peers::Peers;
use crate::worker::Worker;

/// Bytes of keys of one node that scripts find out about, at most.
const EXTRA_MAX: usize = 8 << 20;
/// What such a key costs beside itself, in bytes.
const KEY: usize = 16;
const TOO_CURIOUS: &[u8] = b"ERR a script used more than 8 MB of keys of one node that it had not declared";
impl Block {
    fn is_apart(&self) -> bool {
        self.fetching.as_deref().is_some_and(|fetching| fetching.apart)
    }
}

const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";

impl Fetching {
    /// Nothing is found yet.
    pub(super) fn begin_seeing(&mut self) {
        self.seen = Seen::default();
    }

    /// The parts have what the attempt was widened by, too.
    pub(super) fn put_together(&mut self) {
        let wider = std::mem::take(&mut self.wider);
        self.parts.iter_mut().for_each(|part| part.widen(&wider));
    }

    /// Whether it may ask for that beside what it has asked for. The error is for the client.
    fn may_widen(&mut self, more: Vec<Part>) -> Result<Vec<Part>, Vec<u8>> {
        for part in &more {
            let bytes = self.extra_bytes.entry(part.member.node).or_default();
            *bytes += part.locks.iter().map(|lock| lock.key.len() + KEY).sum::<usize>();
            if *bytes > EXTRA_MAX {
                return Err(TOO_CURIOUS.into());
            }
        }
        Ok(more)
    }

    /// Notes what is asked for beside what was.
    pub(super) fn note_wider(&mut self, more: &[Part]) {
        for part in more {
            let node = part.member.node;
            match self.parts.iter().any(|known| known.member.node == node) {
                true => self.wider.push((node, Arc::clone(&part.locks))),
                false => self.parts.push(part.clone()),
            }
        }
        self.parts.sort_by_key(|part| part.member);
        self.further = more.iter().flat_map(|part| part.locks.iter().cloned()).collect();
    }

    /// Whether it has some of these keys, and shares them with others: then it is to have all of its keys alone, since it may need more of them so.
    fn shares_some_of(&mut self, missing: &[Lock]) -> bool {
        let Some(run) = self.run.as_deref() else { return false };
        let shares = missing.iter().any(|lock| run.aside.keys.contains_key(&(lock.db, lock.key.clone())));
        if shares {
            self.put_together();
            let alone = self.locks().map(|lock| Lock { mode: Mode::Exclusive, ..lock.clone() });
            let alone: Vec<Lock> = alone.collect();
            self.extra.extend(alone);
        }
        shares
    }
}

impl Peers {
    /// Which node has which of these keys. The error is for the client.
    pub(super) fn plan_further(&self, locks: Vec<Lock>, protocol: resp::Protocol) -> Result<Vec<Part>, Vec<u8>> {
        let mut nodes: BTreeMap<u16, OfNode> = BTreeMap::new();
        for lock in locks {
            let owner = self.owner(&lock.key)?;
            nodes.entry(owner).or_insert_with(|| OfNode::new(protocol)).locks.push(lock);
        }
        self.parts_of(nodes)
    }
}

impl Worker {
    /// What scripts of blocks have asked is answered: they go on, or run again.
    pub(crate) fn go_on_answered(&mut self) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        for which in std::mem::take(&mut peers.tx.answered) {
            let peers = self.peers.as_deref();
            let block = peers.and_then(|peers| peers.tx.blocks.get(&which.0));
            match block.and_then(|block| block.fetching.as_deref()?.run.as_deref()) {
                Some(run) if run.attempt == which.1 => self.step_workspace(which.0),
                Some(_) => {}
                None if block.is_some_and(Block::is_apart) => self.begin_apart(which.0),
                None => self.begin_again(which, Vec::new()),
            }
        }
    }

    /// The script of a block needs to know of all nodes what waits for the end of transactions: its own ends, and it begins another one when that is known.
    pub(super) fn ask_alone(&mut self, which: (u64, u32)) {
        let (now, mut events) = (self.tx_now(), Vec::new());
        let Some((mut block, mut conn)) = self.take_running(which.0) else { return };
        self.stop_workspace(&mut conn, &mut block);
        self.put_conn(conn);
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let ends = |coordinator: &mut txn::Coordinator| coordinator.give_up(now, which, &mut events);
        if !peers.tx.coordinator.as_mut().is_some_and(ends) {
            // The attempt is void: the script of the next one will ask.
            return self.put_running(which.0, block);
        }
        peers.tx.at_home += 1;
        let sequence = AT_HOME | peers.tx.at_home;
        block.fetching.as_deref_mut().into_iter().for_each(|fetching| fetching.apart = true);
        self.put_running(sequence, block);
        self.tx_events(events);
        if !self.asks_for_workspace((sequence, 0)) {
            self.note_answered((sequence, 0));
        }
    }

    /// What the script of a block needed to know is known.
    fn begin_apart(&mut self, sequence: u64) {
        let (now, time, clock) = (self.tx_now(), self.engine.hybrid_time(), self.node.clock.unix_ms());
        let (node, databases, mut events) = (self.node.clone(), self.follower.settings().databases, Vec::new());
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let Some(mut block) = peers.tx.blocks.remove(&sequence) else { return };
        let extra = block.fetching.as_deref().map(|fetching| fetching.extra.clone()).unwrap_or_default();
        let session = (block.db, block.protocol);
        let planned = peers
            .plan_fetching((&node, databases), &block.multi, block.watches(), session, &extra)
            .and_then(|parts| peers.refusal(&parts).map_or(Ok(parts), Err));
        match (planned, peers.tx.coordinator.as_mut()) {
            (Ok(parts), Some(coordinator)) => {
                block.fetching = Some(Fetching::new(parts.clone(), extra, clock));
                let sequence = coordinator.begin_fetching(now, time, parts, &mut events);
                peers.tx.blocks.insert(sequence, block);
                self.tx_events(events);
            }
            (planned, _) => {
                let text = planned.err().unwrap_or_else(|| NOT_SERVED.into());
                peers.tx.blocks.insert(sequence, block);
                let why = txn::Refusal::Failed(text.into());
                self.tx_events(vec![txn::Event::Failed { sequence, why }]);
            }
        }
    }

    /// What the script of a block lacked is there: it goes on.
    pub(super) fn go_on_fetched(&mut self, (sequence, attempt): (u64, u32), found: &[(NodeId, Arc<[u8]>)]) {
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        let run = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take_if(|run| run.attempt == attempt));
        let filled = match (block.fetching.as_deref_mut(), run) {
            (Some(fetching), Some(mut run)) => {
                let filled = self.fill_further(fetching, &mut run, found);
                fetching.run = Some(run);
                filled
            }
            _ => {
                // Whatever has stopped it has ended the attempt, too.
                self.stop_workspace(&mut conn, &mut block);
                Err(Unusable::Untimely)
            }
        };
        self.put_conn(conn);
        self.put_running(sequence, block);
        match filled {
            Ok(()) => self.step_workspace(sequence),
            Err(Unusable::Untimely) => self.fetch_later((sequence, attempt)),
            Err(Unusable::Wrong(text)) => self.fail_running((sequence, attempt), text.as_bytes()),
        }
    }

    /// A script turned out to need further keys: they are fetched, and it goes on.
    pub(super) fn fetch_more(&mut self, which: (u64, u32), missing: Vec<Lock>) {
        let (now, mut events) = (self.tx_now(), Vec::new());
        let Some((mut block, mut conn)) = self.take_running(which.0) else { return };
        if block.fetching.as_deref().is_some_and(Fetching::is_interactive) {
            return self.fetch_further_interactive((which.0, block, conn), missing);
        }
        let begins_again = block.fetching.as_deref_mut().is_none_or(|fetching| fetching.shares_some_of(&missing));
        let planned = self.peers.as_deref_mut().filter(|_| !begins_again).map(|peers| {
            let parts = peers.plan_further(missing.clone(), block.protocol)?;
            peers.refusal(&parts).map_or(Ok(parts), Err)
        });
        if let Some(Ok(parts)) = &planned {
            // Who caches hears of changes of these, too.
            let mut runs = std::mem::take(&mut block.runs);
            self.tell_parts(&mut conn, parts, &mut runs);
            block.runs = runs;
        }
        self.put_conn(conn);
        let (Some(planned), Some(fetching), Some(peers)) =
            (planned, block.fetching.as_deref_mut(), self.peers.as_deref_mut())
        else {
            self.put_running(which.0, block);
            return self.begin_again(which, missing);
        };
        fetching.extra.extend(missing);
        let failed = match planned.and_then(|parts| fetching.may_widen(parts)) {
            Ok(parts) => {
                // If the attempt is void by now, the script of the next one will lack these, too.
                if let Some(coordinator) = peers.tx.coordinator.as_mut()
                    && coordinator.widen(now, which, parts.clone(), &mut events)
                {
                    fetching.note_wider(&parts);
                }
                None
            }
            Err(text) => Some(text),
        };
        self.put_running(which.0, block);
        self.tx_events(events);
        failed.into_iter().for_each(|text| self.fail_running(which, &text));
    }

    /// A block runs again from its start, with these keys fetched, too.
    pub(super) fn begin_again(&mut self, which: (u64, u32), missing: Vec<Lock>) {
        if let Some((mut block, mut conn)) = self.take_running(which.0) {
            self.stop_workspace(&mut conn, &mut block);
            self.put_conn(conn);
            self.put_running(which.0, block);
        }
        let now = self.tx_now();
        let (node, databases) = (self.node.clone(), self.follower.settings().databases);
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let Some(mut block) = peers.tx.blocks.remove(&which.0) else { return };
        let planned = match block.fetching.as_deref_mut() {
            None => Err(NOT_SERVED.to_vec()),
            Some(fetching) => {
                fetching.extra.extend(missing);
                if fetching.interactive {
                    peers.tx.blocks.insert(which.0, block);
                    return self.fetch_more_interactive(which.0);
                }
                let extra = fetching.extra.clone();
                let session = (block.db, block.protocol);
                peers.plan_fetching((&node, databases), &block.multi, block.watches(), session, &extra)
            }
        };
        let mut failed = None;
        let mut events = Vec::new();
        let is_interactive = block.fetching.as_deref().is_some_and(Fetching::is_interactive);
        match planned {
            Ok(parts) => {
                let coordinator = peers.tx.coordinator.as_mut();
                let again =
                    |coordinator: &mut txn::Coordinator| coordinator.again(now, which, parts.clone(), &mut events);
                // If the attempt is void by now, the next one will find that out, too.
                if coordinator.is_some_and(again)
                    && let Some(fetching) = block.fetching.as_deref_mut()
                {
                    fetching.parts = parts;
                }
            }
            Err(text) => failed = Some(text),
        }
        peers.tx.blocks.insert(which.0, block);
        self.tx_events(events);
        if let Some(text) = failed {
            // Nothing is held for it, and its coordinator knows nothing of it any more.
            if is_interactive {
                return self.answer_interactive(which.0, Err(text));
            }
            self.fail_running(which, &text);
        }
    }

    /// Ends scripts that were killed while they waited: nothing of their blocks is done. Those that run find out by themselves.
    pub(super) fn end_killed(&mut self) {
        let kills = self.node.scripts.kills();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if std::mem::replace(&mut peers.tx.kills, kills) == kills {
            return;
        }
        let is_killed = |block: &Block| {
            let run = block.fetching.as_deref()?.run.as_deref()?;
            run.suspended.as_deref()?.is_killed().then_some(run.attempt)
        };
        let killed = peers.tx.blocks.iter().filter_map(|(sequence, block)| Some((*sequence, is_killed(block)?)));
        for (sequence, attempt) in killed.collect::<Vec<_>>() {
            let (now, mut events) = (self.tx_now(), Vec::new());
            let coordinator = self.peers.as_deref_mut().and_then(|peers| peers.tx.coordinator.as_mut());
            let fetches = |coordinator: &mut txn::Coordinator| {
                !coordinator.is_running(sequence, attempt) && coordinator.withdraw(now, sequence, &mut events)
            };
            if coordinator.is_some_and(fetches) {
                let why = txn::Refusal::Failed(KILLED.as_bytes().into());
                events.push(txn::Event::Failed { sequence, why });
                self.tx_events(events);
            } else {
                self.step_workspace(sequence);
            }
        }
    }
}

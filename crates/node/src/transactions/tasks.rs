//! Tasks: what is to be done to keys under latches. Each tries, and waits as a connection does.

use std::sync::Arc;

use engine::{Busy, Caller, InTheWay, Locked, Room};
use keyspace::{Horizon, Need};
use txn::locks::Mode;
use txn::{Action, Lock, Prepared, RecordKind, Refusal, Stamp, TxId};

use super::{Client, Looked, Peers, TASK};
use crate::transactions::in_doubt::Hindrance;
use crate::worker::execute::INSISTS;
use crate::worker::{Token, Worker};

/// Failures in a row to get a latch before newcomers are kept out (rule K1).
const STARVING: u32 = 16;

/// What is to be done.
pub(super) enum Work {
    /// Lock, execute, undo, log. The age comes with whether it is patient. Widens: it has other locks already.
    Prepare { tx: TxId, age: (Stamp, bool), locks: Arc<[Lock]>, client: Client, asked: bool, widens: bool },
    /// Do what the coordinator makes of what it has been told, undo, log. The locks are there. What is to be done,
    /// whether it is logged, and for whom.
    Proceed { tx: TxId, stamp: Stamp, locks: Arc<[Lock]>, work: (Arc<[u8]>, bool, Caller) },
    /// Do what was prepared, and unlock.
    Install { prepared: Arc<Prepared>, hindrance: Hindrance },
    /// Log that it is not to be done, and unlock.
    Abort { tx: TxId, locks: Arc<[Lock]> },
    /// Log that it was refused.
    Refuse { tx: TxId },
    /// Unlock.
    Unlock { tx: TxId, locks: Arc<[Lock]> },
}

/// See the module's text.
pub(super) struct Task {
    work: Work,
    /// Failures in a row to get a latch.
    failures: u32,
    /// How often it has waited for locks and for keys that memory does not know.
    waits: u32,
}

/// How a task ended.
pub(super) enum Done {
    Over,
    /// It waits, and is woken.
    Waits,
    /// A record was left.
    Logged(Horizon, TxId, RecordKind),
    /// This was looked at, and nothing was left.
    Looked(Horizon, TxId, Looked),
    /// Again after so many milliseconds.
    Later(u64),
}

impl Worker {
    pub(super) fn add_task(&mut self, work: Work) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let token = TASK | peers.tx.next_task;
        peers.tx.next_task += 1;
        peers.tx.tasks.insert(token, Task { work, failures: 0, waits: 0 });
        peers.tx.ready.push_back(token);
    }

    /// What a task has waited for may have come. False: it is none.
    pub(crate) fn unpark_task(&mut self, token: Token) -> bool {
        if token & TASK == 0 {
            return false;
        }
        if let Some(peers) = self.peers.as_deref_mut()
            && peers.tx.tasks.contains_key(&token)
            && !peers.tx.ready.contains(&token)
        {
            peers.tx.ready.push_back(token);
        }
        true
    }

    pub(super) fn step_task(&mut self, token: Token) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let Some(mut task) = peers.tx.tasks.remove(&token) else { return };
        if self.engine.has_seen() {
            // What was looked at for others is not what this sees.
            self.engine.take_seen();
        }
        // Others wait for what it holds: it does not wait for keys that leave memory again and again.
        self.engine.insists = task.waits >= INSISTS;
        let tried = self.try_task(&mut task.work, token);
        self.engine.insists = false;
        if matches!(tried, Ok(Done::Over | Done::Logged(..) | Done::Looked(..))) {
            self.long_waits.end(token);
        }
        match tried {
            Ok(Done::Over) => self.engine.cancel_reservation(token),
            Ok(Done::Logged(seen, tx, kind)) => {
                self.engine.cancel_reservation(token);
                self.tx_logged((seen, tx, kind));
                self.tx_forget();
            }
            Ok(Done::Looked(seen, tx, looked)) => {
                self.engine.cancel_reservation(token);
                if let Some(peers) = self.peers.as_deref_mut() {
                    peers.tx.looked.push((seen, tx, looked));
                }
                let now = self.tx_now();
                self.tx_committed(now);
            }
            Ok(Done::Waits) => {
                // What it waits for may last, and has nothing to do with latches: nobody is kept from them meanwhile (rule K1).
                self.engine.cancel_reservation(token);
                self.put_task(token, task);
            }
            Ok(Done::Later(wait)) => {
                self.put_task(token, task);
                let due = self.tx_now() + wait;
                if let Some(peers) = self.peers.as_deref_mut() {
                    // One that was looked at before its time is not looked at then as well.
                    peers.tx.later.retain(|(_, other)| *other != token);
                    let at = peers.tx.later.partition_point(|(other, _)| *other <= due);
                    peers.tx.later.insert(at, (due, token));
                }
            }
            Err(busy) => self.task_waits(token, task, &busy),
        }
        if !self.engine.wakes.is_empty() {
            self.wake_others();
        }
        if self.engine.has_invalidated() {
            // Before any command shows what it has done.
            self.tell_trackers(None);
            self.broadcast_changes();
        }
    }

    fn put_task(&mut self, token: Token, task: Task) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.tx.tasks.insert(token, task);
        }
    }

    fn task_waits(&mut self, token: Token, mut task: Task, busy: &Busy) {
        if busy.awaited {
            if let Work::Prepare { tx, locks, .. } = &task.work
                && self.is_refused_in_doubt(*tx, locks)
            {
                self.long_waits.end(token);
                return self.engine.cancel_reservation(token);
            }
            task.waits += 1;
            self.notes_wait(token);
            return self.put_task(token, task);
        }
        task.failures += 1;
        if task.failures >= STARVING || busy.need == Need::All {
            self.engine.reserve(&busy.need, token);
        }
        self.put_task(token, task);
        if !self.engine.park(busy.slot, token) {
            self.again.push(token);
        }
    }

    fn try_task(&mut self, work: &mut Work, token: Token) -> Result<Done, Busy> {
        Ok(match work {
            Work::Prepare { tx, age, locks, client, asked, widens } => {
                let (tx, age, locks, widens) = (*tx, *age, locks.clone(), *widens);
                if !*asked && !widens && self.is_held_back_as_part(token, &locks) {
                    return Ok(if self.is_queued(tx) { Done::Waits } else { Done::Over });
                }
                let refusal = self.refusal_of_room(&locks);
                // The clock may have gone on since the turn began, and somebody may have seen by it that a key is gone.
                self.engine.advance(self.node.clock.unix_ms());
                let peers = self.peers.as_deref();
                let is_wanted = || is_queued(peers, tx);
                match self.engine.lock_attempt((tx, age, &locks), is_wanted, asked, token)? {
                    Locked::GivenUp => Done::Over,
                    Locked::Dies if self.is_refused_in_doubt(tx, &locks) => Done::Over,
                    Locked::Dies => {
                        let actions = self.tx_locked(tx, false);
                        self.act(actions);
                        Done::Over
                    }
                    Locked::Block(block) => self.has_locks(*block, (tx, widens), &locks, client, refusal),
                }
            }
            Work::Proceed { tx, stamp, locks, work } => {
                let (tx, locks, (commands, logged, caller)) = (*tx, locks.clone(), work.clone());
                let refusal = self.refusal_of_room(&locks).filter(|_| self.needs_room(&commands));
                match self.engine.lock_attempt((tx, (*stamp, false), &locks), || true, &mut true, token)? {
                    Locked::GivenUp | Locked::Dies => Done::Over,
                    Locked::Block(block) => self.execute_part(*block, tx, &locks, (&commands, logged, caller), refusal),
                }
            }
            Work::Install { prepared, hindrance } => {
                match self.engine.install(prepared, hindrance.why.as_ref(), token)? {
                    Ok(seen) => {
                        self.is_done(prepared, hindrance);
                        Done::Logged(seen, prepared.tx, RecordKind::Commit)
                    }
                    Err(why) => Done::Later(self.is_hindered(prepared, hindrance, why)),
                }
            }
            Work::Abort { tx, locks } => Done::Logged(self.engine.abort(*tx, locks, token)?, *tx, RecordKind::Abort),
            Work::Refuse { tx } => Done::Logged(self.engine.refuse(*tx, token)?, *tx, RecordKind::Refuse),
            Work::Unlock { tx, locks } => {
                self.engine.unlock(*tx, locks, token)?;
                Done::Over
            }
        })
    }

    /// The attempt that a task is for which waits for locks or keys, and what for.
    pub(crate) fn in_the_way_of_task(&mut self, token: Token) -> Option<(TxId, InTheWay)> {
        let task = self.peers.as_deref()?.tx.tasks.get(&token)?;
        let (tx, locks) = match &task.work {
            Work::Prepare { tx, locks, .. } | Work::Proceed { tx, locks, .. } => (*tx, locks.clone()),
            Work::Abort { tx, locks } | Work::Unlock { tx, locks } => (*tx, locks.clone()),
            Work::Install { prepared, .. } => (prepared.tx, prepared.locks.clone()),
            Work::Refuse { tx } => (*tx, Arc::default()),
        };
        Some((tx, self.engine.in_the_way_of_attempt(tx, &locks)))
    }

    /// Where an attempt is that has claims here or wants some; `None`: it is over, or not known.
    pub(crate) fn stage_of(&self, tx: TxId) -> Option<&'static str> {
        self.peers.as_deref()?.shared.parts.with(|parts| parts.stage(tx)).flatten()
    }

    /// Whether an attempt has no claims here any more, as far as this node's part in transactions knows.
    pub(crate) fn is_over(&self, tx: TxId) -> bool {
        let Some(peers) = self.peers.as_deref() else { return false };
        peers.shared.parts.with(|parts| parts.stage(tx).is_none()) == Some(true)
    }

    /// Whether a part still wants its locks.
    fn is_queued(&self, tx: TxId) -> bool {
        is_queued(self.peers.as_deref(), tx)
    }

    pub(super) fn tx_locked(&mut self, tx: TxId, granted: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.shared.parts.with(|parts| parts.locked(tx, granted, &mut actions));
        }
        actions
    }

    /// Whether a part that has not asked for its locks waits before it does, for what a command of a client waits for that does the same. Once it has
    /// locks, it goes on: others wait for it.
    fn is_held_back_as_part(&mut self, token: Token, locks: &[Lock]) -> bool {
        let writes = locks.iter().any(|lock| lock.mode == Mode::Exclusive);
        writes && (self.task_waits_for_log(token) || self.task_waits_for_room(token))
            || self.task_waits_for_pause(token, writes)
    }

    /// Makes room for what a part may write. Nothing is held.
    fn refusal_of_room(&mut self, locks: &[Lock]) -> Option<Refusal> {
        let settings = self.follower.settings().clone();
        if settings.maxmemory == 0 || locks.iter().all(|lock| lock.mode == Mode::Shared) {
            return None;
        }
        match self.make_room(&settings, 0) {
            Room::None => Some(Refusal::Failed(self.out_of_memory(&settings, 0, true).as_bytes().into())),
            Room::Enough | Room::Soon | Room::Dirty => None,
        }
    }
}

fn is_queued(peers: Option<&Peers>, tx: TxId) -> bool {
    peers.is_some_and(|peers| peers.shared.parts.with(|parts| parts.is_queued(tx)) == Some(true))
}

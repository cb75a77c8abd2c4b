//! Tasks: work on keys under latches. Each task tries, and waits as a connection does.

use std::sync::Arc;

use engine::{Busy, InTheWay, Locked, Room};
use keyspace::{Horizon, Need};
use txn::locks::Mode;
use txn::{Action, Lock, RecordKind, Refusal, TxnId};

use super::port::{Desk, Port, Transacting};
use super::state::Looked;
use super::task::{Task, Work};
use crate::worker::next::INSISTS;
use crate::worker::token::Token;

/// Failures in a row to get a latch before newcomers are kept out (rule K1).
const STARVING: u32 = 16;

/// How a task ended.
pub(super) enum Done {
    Over,
    /// It waits, and is woken.
    Waits,
    /// A record was left.
    Logged(Horizon, TxnId, RecordKind),
    /// The task has looked at keys, and has left no record.
    Looked(Horizon, TxnId, Looked),
    /// Again after so many milliseconds.
    Later(u64),
}

impl<P: Port> Transacting<'_, P> {
    pub(super) fn step_task(&mut self, token: Token) {
        let Desk { txn, engine, .. } = self.desk();
        let Some(mut task) = txn.tasks.remove(&token) else { return };
        if engine.has_seen() {
            // This does not see the keys that others have looked at.
            engine.take_seen();
        }
        // Others wait for the locks that the task holds: it does not wait for keys that leave memory again and again.
        engine.insists = task.waits >= INSISTS;
        let tried = self.try_task(&mut task.work, token);
        self.engine().insists = false;
        if matches!(tried, Ok(Done::Over | Done::Logged(..) | Done::Looked(..))) {
            self.port.waits_no_more(token);
        }
        match tried {
            Ok(Done::Over) => self.engine().cancel_reservation(token),
            Ok(Done::Logged(seen, tx, kind)) => {
                self.engine().cancel_reservation(token);
                self.record_left((seen, tx, kind));
                self.forget_some();
            }
            Ok(Done::Looked(seen, tx, looked)) => {
                self.engine().cancel_reservation(token);
                self.txn().looked.push((seen, tx, looked));
                let now = self.now();
                self.look_at_log(now);
            }
            Ok(Done::Waits) => {
                // This wait may last, and it is not for latches: the task gives up its reservation, so that it keeps no
                // other from them (rule K1).
                self.engine().cancel_reservation(token);
                self.put_task(token, task);
            }
            Ok(Done::Later(wait)) => {
                self.put_task(token, task);
                let due = self.now() + wait;
                let later = &mut self.txn().later;
                // A task that was run before its time does not run again at that time.
                later.retain(|(_, other)| *other != token);
                let at = later.partition_point(|(other, _)| *other <= due);
                later.insert(at, (due, token));
                debug_assert!(later.iter().is_sorted(), "tasks are looked at in the order of their times");
            }
            Err(busy) => self.task_waits(token, task, &busy),
        }
        if !self.engine().wakes.is_empty() {
            self.port.wake_others();
        }
        if self.engine().has_invalidated() {
            // Before any command shows the task's changes.
            self.port.tell_changes();
        }
    }

    fn put_task(&mut self, token: Token, task: Task) {
        let before = self.txn().tasks.insert(token, task);
        debug_assert!(before.is_none(), "a task is out of its place while it is tried");
    }

    fn task_waits(&mut self, token: Token, mut task: Task, busy: &Busy) {
        if busy.awaited {
            if let Work::Prepare { tx, locks, .. } = &task.work
                && self.is_refused_in_doubt(*tx, locks)
            {
                self.port.waits_no_more(token);
                return self.engine().cancel_reservation(token);
            }
            task.waits += 1;
            self.port.notes_wait(token);
            return self.put_task(token, task);
        }
        task.failures += 1;
        if task.failures >= STARVING || busy.need == Need::All {
            self.engine().reserve(&busy.need, token);
        }
        self.put_task(token, task);
        if !self.engine().park(busy.slot, token) {
            self.port.look_again(token);
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
                // The clock may have advanced since the turn began, and a client may have seen by it that a key is
                // gone.
                let Desk { peers, engine, node, .. } = self.desk();
                engine.advance(node.clock.unix_ms());
                let is_wanted = || peers.shared.parts.is_queued(tx);
                match engine.lock_attempt((tx, age, &locks), is_wanted, asked, token)? {
                    Locked::GivenUp => Done::Over,
                    Locked::Dies if self.is_refused_in_doubt(tx, &locks) => Done::Over,
                    Locked::Dies => {
                        let actions = self.part_locked(tx, false);
                        self.act(actions);
                        Done::Over
                    }
                    Locked::Block(block) => self.has_locks(*block, (tx, widens), &locks, client, refusal),
                }
            }
            Work::Proceed { tx, stamp, locks, work } => {
                let (tx, locks, (commands, logged, caller)) = (*tx, locks.clone(), work.clone());
                let refusal = self.refusal_of_room(&locks).filter(|_| self.needs_room(&commands));
                match self.engine().lock_attempt((tx, (*stamp, false), &locks), || true, &mut true, token)? {
                    Locked::GivenUp | Locked::Dies => Done::Over,
                    Locked::Block(block) => self.execute_part(*block, tx, &locks, (&commands, logged, caller), refusal),
                }
            }
            Work::Install { prepared, hindrance } => {
                let Desk { engine, node, .. } = self.desk();
                match engine.install(prepared, hindrance.why.as_ref(), token)? {
                    Ok(seen) => {
                        hindrance.is_over(prepared, &node.doubts);
                        Done::Logged(seen, prepared.tx, RecordKind::Commit)
                    }
                    Err(why) => Done::Later(hindrance.lasts(prepared, &node.doubts, why)),
                }
            }
            Work::Abort { tx, locks } => Done::Logged(self.engine().abort(*tx, locks, token)?, *tx, RecordKind::Abort),
            Work::Refuse { tx } => Done::Logged(self.engine().refuse(*tx, token)?, *tx, RecordKind::Refuse),
            Work::Unlock { tx, locks } => {
                self.engine().unlock(*tx, locks, token)?;
                Done::Over
            }
        })
    }

    /// The attempt that a task is for which waits for locks or keys, and what for.
    pub(crate) fn in_the_way_of_task(&mut self, token: Token) -> Option<(TxnId, InTheWay)> {
        let task = self.txn().tasks.get(&token)?;
        let (tx, locks) = match &task.work {
            Work::Prepare { tx, locks, .. } | Work::Proceed { tx, locks, .. } => (*tx, locks.clone()),
            Work::Abort { tx, locks } | Work::Unlock { tx, locks } => (*tx, locks.clone()),
            Work::Install { prepared, .. } => (prepared.tx, prepared.locks.clone()),
            Work::Refuse { tx } => (*tx, Arc::default()),
        };
        Some((tx, self.engine().in_the_way_of_attempt(tx, &locks)))
    }

    /// True if a part still wants its locks.
    fn is_queued(&mut self, tx: TxnId) -> bool {
        self.peers().shared.parts.is_queued(tx)
    }

    pub(super) fn part_locked(&mut self, tx: TxnId, granted: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        self.peers().shared.parts.with(|parts| parts.locked(tx, granted, &mut actions));
        actions
    }

    /// True if a part without locks must wait before it asks for them, for the same causes as a client's command. A
    /// part with locks goes on: others wait for it.
    fn is_held_back_as_part(&mut self, token: Token, locks: &[Lock]) -> bool {
        let writes = locks.iter().any(|lock| lock.mode == Mode::Exclusive);
        writes && (self.port.task_waits_for_log(token) || self.port.task_waits_for_room(token))
            || self.port.task_waits_for_pause(token, writes)
    }

    /// Makes room for the writes of a part. It holds no locks or latches here.
    fn refusal_of_room(&mut self, locks: &[Lock]) -> Option<Refusal> {
        let settings = self.settings().clone();
        if settings.maxmemory == 0 || locks.iter().all(|lock| lock.mode == Mode::Shared) {
            return None;
        }
        match self.port.make_room(&settings) {
            Room::None => Some(Refusal::Failed(self.port.out_of_memory(&settings).as_bytes().into())),
            Room::Enough | Room::Soon | Room::Dirty => None,
        }
    }
}

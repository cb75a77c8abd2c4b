//! Serving waiting commands: their queues, and how a change runs them.
//!
//! The worker that changes a key runs the waiting commands itself, under the latches that it holds. So no client can
//! observe the element between the push and the pop that waited for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::{Block, Outcome, Touched};
use keyspace::{Held, Key, Need, Waiter};
use resp::{Args, Reply};

use crate::attachment::{Attachment, DbKey};
use crate::blocked::{Blocked, Served};
use crate::call::Call;
use crate::engine::{Engine, Shared};

/// The commands that wait for a key, in order of arrival.
#[derive(Default)]
pub(crate) struct Queue {
    waiters: VecDeque<Arc<Blocked>>,
    /// How many of them name other keys, too: their changes may concern further slots and waiters.
    reaching: usize,
    /// How many of them run again when the key is gone.
    minding_absence: usize,
}

impl Queue {
    fn push(&mut self, blocked: &Arc<Blocked>) {
        // BLPOP k k waits once.
        if !self.waiters.back().is_some_and(|last| Arc::ptr_eq(last, blocked)) {
            self.waiters.push_back(blocked.clone());
            self.reaching += usize::from(reaches(blocked));
            self.minding_absence += usize::from(blocked.when_gone);
        }
    }

    fn remove(&mut self, blocked: &Arc<Blocked>) {
        if let Some(at) = self.waiters.iter().position(|waiter| Arc::ptr_eq(waiter, blocked)) {
            self.waiters.remove(at);
            self.reaching -= usize::from(reaches(blocked));
            self.minding_absence -= usize::from(blocked.when_gone);
        }
    }

    /// True if a command waits, and true if one waits for absence.
    fn counts(&self) -> [bool; 2] {
        [!self.waiters.is_empty(), self.minding_absence > 0]
    }

    /// The command at this place. If the key is absent, no command is served, unless one waits for that.
    fn get(&self, at: usize, present: bool) -> Option<&Arc<Blocked>> {
        if present || self.minding_absence > 0 { self.waiters.get(at) } else { None }
    }
}

impl Shared {
    /// Counts a key whose [`Queue::counts`] changed.
    fn count_waited(&self, before: [bool; 2], after: [bool; 2]) {
        for (counter, was, is) in
            [(&self.waited_keys, before[0], after[0]), (&self.waited_keys_minding_absence, before[1], after[1])]
        {
            match (was, is) {
                (false, true) => drop(counter.fetch_add(1, Relaxed)),
                (true, false) => drop(counter.fetch_sub(1, Relaxed)),
                _ => {}
            }
        }
    }
}

/// True if a command names more than one key.
fn reaches(blocked: &Blocked) -> bool {
    let mut positions = Vec::new();
    blocked.row.spec.keys_of(blocked.args.args(), &mut positions);
    positions.len() > 1
}

impl Engine {
    /// Puts a command that wants to block into the queues of its keys. Its latches are held. `None`: its session was
    /// closed, and waits for nothing any more.
    pub(crate) fn block(&mut self, call: &Call<'_>, block: Block, held: &Held) -> Option<Arc<Blocked>> {
        // Only the command's own latches, though more may be held for commands that wait already.
        let slots = match self.need_of_call(call) {
            Need::Slots(slots) => slots.to_vec(),
            Need::All => held.slots().to_vec(),
        };
        let waiter = Waiter { worker: self.index, token: call.token };
        let replacement = |at| block.replaced.iter().find(|(i, _)| *i == at).map(|(_, arg)| arg.as_slice());
        let args = call.args.iter().enumerate().map(|(at, arg)| replacement(at).unwrap_or(arg)).collect();
        let blocked = Arc::new(Blocked::new(waiter, call, args, block, slots));
        if !call.seat.is_some_and(|seat| seat.sit(&blocked)) {
            return None;
        }
        self.give_way();
        for key in blocked.waited_keys() {
            let slot = keyspace::slot_of(key);
            Attachment::with(&self.shared.keyspace, held, slot, |a| {
                let queue = a.blocked.entry((call.db, key.into())).or_default();
                let (before, reaching) = (queue.counts(), queue.reaching);
                queue.push(&blocked);
                a.reaching += queue.reaching - reaching;
                self.shared.count_waited(before, queue.counts());
            });
        }
        Some(blocked)
    }

    /// Takes a wait that has ended out of the queues. False: a latch is busy, try again later.
    pub fn forget(&mut self, blocked: &Arc<Blocked>) -> bool {
        blocked.waited_keys().all(|key| {
            let Some(held) = self.acquire_one(keyspace::slot_of(key)) else { return false };
            self.unqueue(blocked, key, &held);
            self.release(held);
            true
        })
    }

    fn unqueue(&self, blocked: &Arc<Blocked>, key: &[u8], held: &Held) {
        Attachment::with(&self.shared.keyspace, held, keyspace::slot_of(key), |a| {
            let db_key = (blocked.db, Box::from(key));
            if let Some(queue) = a.blocked.get_mut(&db_key) {
                let (before, reaching) = (queue.counts(), queue.reaching);
                queue.remove(blocked);
                a.reaching -= reaching - queue.reaching;
                self.shared.count_waited(before, queue.counts());
                if queue.waiters.is_empty() {
                    a.blocked.remove(&db_key);
                }
            }
        });
    }

    /// True if serving the waiting commands of the held slots may need further slots.
    pub(crate) fn has_reaching(&self, held: &Held) -> bool {
        held.slots().iter().any(|&slot| self.reaches(held, slot))
    }

    /// True if serving the waiting commands of a held slot may need further slots.
    pub(crate) fn reaches(&self, held: &Held, slot: u16) -> bool {
        Attachment::of(&self.shared.keyspace, held, slot, |a| a.reaching > 0) == Some(true)
    }

    /// Slots beyond `held` that commands waiting for any of `keys` need, and those waiting for the changes of these.
    /// `db`: the logical database of the keys; `None`: they may change in any.
    pub(crate) fn slots_of_waiters<'k>(
        &self,
        held: &Held,
        db: Option<u16>,
        keys: impl Iterator<Item = Key<'k>>,
    ) -> BTreeSet<u16> {
        let mut missing = BTreeSet::new();
        let mut seen: BTreeSet<DbKey> = BTreeSet::new();
        let mut next: Vec<DbKey> = Vec::new();
        let all = 0..self.shared.keyspace.databases() as u16;
        for key in keys {
            let dbs = db.map_or(all.clone(), |db| db..db + 1);
            next.extend(dbs.map(|db| (db, Box::from(key.bytes))));
        }
        let mut positions = Vec::new();
        while let Some(db_key) = next.pop() {
            let slot = keyspace::slot_of(&db_key.1);
            if seen.contains(&db_key) || !held.covers(slot) {
                continue;
            }
            Attachment::of(&self.shared.keyspace, held, slot, |attachment| {
                let queue = attachment.blocked.get(&db_key).filter(|queue| queue.reaching > 0);
                for blocked in queue.iter().flat_map(|queue| &queue.waiters) {
                    missing.extend(blocked.slots.iter().filter(|slot| !held.covers(**slot)));
                    positions.clear();
                    blocked.row.spec.keys_of(blocked.args.args(), &mut positions);
                    let keys = positions.iter().filter_map(|at| blocked.args.args().get(at.index));
                    let others = keys.map(|key| (blocked.db, Box::from(key)));
                    next.extend(others.filter(|other| *other != db_key && !seen.contains(other)));
                }
            });
            seen.insert(db_key);
        }
        missing
    }

    /// Serves the commands that wait for the keys in `touched`, and for the changes of those commands, in order.
    pub(crate) fn serve(&mut self, touched: Vec<Touched>, held: &Held) {
        let mut ready: VecDeque<Touched> = touched.into();
        while let Some(key) = ready.pop_front() {
            if !key.serves {
                continue;
            }
            let db_key = (key.db, key.key);
            let hashed = self.shared.keyspace.hasher().key(&db_key.1);
            let mut skipped = 0;
            loop {
                let found = self.view(held, key.db).peek(&hashed).map(|e| e.kind());
                let Some(blocked) = self.waiter(held, key.slot, &db_key, skipped, found.is_some()) else { break };
                let concerned = blocked.when_gone || found == Some(blocked.kind);
                if !concerned || !self.serve_one(&blocked, &db_key, held, &mut ready) {
                    skipped += 1;
                }
            }
        }
    }

    /// The command at this place in the queue of a key.
    fn waiter(&self, held: &Held, slot: u16, db_key: &DbKey, at: usize, present: bool) -> Option<Arc<Blocked>> {
        Attachment::of(&self.shared.keyspace, held, slot, |a| a.blocked.get(db_key)?.get(at, present).cloned())?
    }

    /// True if a command that waits for the key `of` must not run now, because a transaction has locked one of its
    /// keys. It is served when that is over.
    fn skips(&mut self, blocked: &Blocked, held: &Held, of: &DbKey) -> bool {
        if !self.shared.transactions.any() {
            return false;
        }
        let mut positions = Vec::new();
        blocked.row.spec.keys_of(blocked.args.args(), &mut positions);
        let keys = positions.iter().filter_map(|at| blocked.args.args().get(at.index));
        let mut keys = keys.map(|key| (blocked.db, Box::from(key)));
        let locked = keys.find(|key| self.is_locked_by_other(held, key));
        locked.map(|locked| self.shared.transactions.skip(locked, of.clone())).is_some()
    }

    /// The time has come for a wait to run again without a change: it runs now, or soon if a latch is busy.
    pub fn run_again(&mut self, blocked: &Blocked) {
        self.unserved.extend(blocked.waited_keys().map(|key| (blocked.db, Box::from(key))));
        self.serve_unserved();
    }

    /// Serves commands that wait for keys that were locked, or for a time that has come.
    pub(crate) fn serve_unserved(&mut self) {
        for key in std::mem::take(&mut self.unserved) {
            let slot = keyspace::slot_of(&key.1);
            let Some(mut held) = self.acquire_one(slot) else {
                self.unserved.push(key);
                continue;
            };
            let shared = self.shared.clone();
            let hashed = shared.keyspace.hasher().key(&key.1);
            // Commands that wait for the next changes of a chain are seen when those latches are held.
            let all_are_held = loop {
                let missing = self.slots_of_waiters(&held, Some(key.0), std::iter::once(hashed));
                if missing.is_empty() {
                    break true;
                }
                let need = self.need_of(missing.into_iter());
                if self.try_to_extend(&mut held, &need).is_err() {
                    break false;
                }
            };
            if !all_are_held {
                self.release(held);
                self.unserved.push(key);
                continue;
            }
            self.serve(vec![Touched { db: key.0, slot, key: key.1, serves: true, by: 0 }], &held);
            self.release(held);
        }
    }

    /// Runs a waiting command. True: it is out of the queues.
    fn serve_one(&mut self, blocked: &Arc<Blocked>, of: &DbKey, held: &Held, ready: &mut VecDeque<Touched>) -> bool {
        debug_assert!(held.covers_all(&blocked.slots), "rule K4: a change holds what those who wait for it need");
        if !held.covers_all(&blocked.slots) || self.skips(blocked, held, of) || !blocked.claim() {
            return false;
        }
        self.give_way();
        let mut reply = Vec::new();
        let args: Args<'_> = blocked.args.args();
        let call = Call {
            row: blocked.row,
            args,
            first: None,
            db: blocked.db,
            protocol: blocked.protocol,
            token: blocked.waiter.token,
            seat: None,
            caller: blocked.caller,
        };
        // The present ones belong to the output of the command that is just running.
        let parts = std::mem::take(&mut self.parts);
        let outcome = self.run_handler_now(&call, held, &mut reply);
        self.parts.copy_into(&mut reply);
        self.parts = parts;
        let touched = std::mem::take(&mut self.fx.touched);
        self.mark_watched(&touched, held);
        self.invalidate(&touched, held);
        if call.caller.caches {
            self.remember_reads(&call, held);
        }
        ready.extend(touched);
        let reply = match outcome {
            Outcome::Block(block) => {
                blocked.run_again_at(block.again);
                if blocked.unclaim() {
                    return false;
                }
                None
            }
            Outcome::Done | Outcome::Rest(_) | Outcome::Load(_) | Outcome::Aside(_) => {
                if let Outcome::Rest(rest) = outcome {
                    rest.finish(&mut Reply::new(&mut reply, blocked.protocol));
                }
                blocked.served();
                Some(reply)
            }
        };
        blocked.waited_keys().for_each(|key| self.unqueue(blocked, key, held));
        self.served.push(Served { waiter: blocked.waiter, reply });
        true
    }
}

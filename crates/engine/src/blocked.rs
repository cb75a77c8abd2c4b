//! Blocked clients: who waits, how a wait ends, and how a change serves those who wait for it.
//!
//! A wait is one atomic state (rule K4): waiting, then claimed by whoever serves it or cancelled by the client's own worker,
//! never both. The worker that changes a key runs the waiting commands itself, under the latches it holds, before it releases
//! them: nobody can observe the element between the push and the pop that was waiting for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::*};

use command::{Block, Outcome, Row, Run, Touched};
use keyspace::{Held, Key, Kind, Need, Waiter};
use resp::{Args, OwnedArgs, Protocol};

use crate::attachment::Attachment;
use crate::call::Call;
use crate::engine::Engine;

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const SERVED: u8 = 2;
const CANCELLED: u8 = 3;

/// A command that waits for keys.
pub struct Blocked {
    state: AtomicU8,
    /// Whom to tell.
    pub waiter: Waiter,
    /// The command.
    pub row: &'static Row<Run>,
    /// Its arguments.
    pub args: OwnedArgs,
    /// Its logical database.
    pub db: u16,
    /// The protocol of its reply.
    pub protocol: Protocol,
    /// When to give up, in unix milliseconds.
    pub deadline: Option<u64>,
    /// What must be found at a key for the command to run again.
    kind: Kind,
    /// Positions of the keys it waits for.
    keys: Vec<usize>,
    /// Slots of all its keys, ascending: what running it needs.
    slots: Vec<u16>,
}

/// The reply of a served command, on its way to the client's worker.
pub struct Served {
    /// Whom it is for.
    pub waiter: Waiter,
    /// The encoded reply.
    pub reply: Vec<u8>,
}

impl Blocked {
    fn claim(&self) -> bool {
        self.state.compare_exchange(WAITING, CLAIMED, AcqRel, Acquire).is_ok()
    }

    /// Ends the wait from the client's side (timeout, disconnect, CLIENT UNBLOCK). False: it is being served or has been; the
    /// reply is coming, or, if serving finds nothing after all, trying again later will succeed.
    pub fn cancel(&self) -> bool {
        self.state.compare_exchange(WAITING, CANCELLED, AcqRel, Acquire).is_ok()
    }

    /// The keys it waits for.
    pub fn waited_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter_map(|&i| self.args.args().get(i))
    }

    /// What must be held to take it out of the queues.
    pub fn need(&self) -> Need {
        Need::Slots(self.slots.as_slice().into())
    }
}

impl Engine {
    /// Puts a command that wants to block into the queues of its keys. Its latches are held.
    pub(crate) fn block(&mut self, call: &Call<'_>, block: Block, held: &Held) -> Arc<Blocked> {
        let blocked = Arc::new(Blocked {
            state: AtomicU8::new(WAITING),
            waiter: Waiter { worker: self.index, token: call.token },
            row: call.row,
            args: OwnedArgs::new(call.args),
            db: call.db,
            protocol: call.protocol,
            deadline: block.deadline,
            kind: block.kind,
            keys: block.keys,
            slots: held.slots().to_vec(),
        });
        for key in blocked.waited_keys() {
            let slot = keyspace::slot_of(key);
            Attachment::with(&self.shared.keyspace, held, slot, |a| {
                let queue = a.blocked.entry((call.db, key.into())).or_default();
                // BLPOP k k waits once.
                if !queue.iter().any(|b| Arc::ptr_eq(b, &blocked)) {
                    queue.push_back(blocked.clone());
                }
            });
        }
        blocked
    }

    /// Takes a wait that has ended out of the queues. False: its latches are busy, try again later.
    pub fn forget(&mut self, blocked: &Arc<Blocked>) -> bool {
        let wakes = &mut self.wakes;
        let Ok(held) = self.shared.keyspace.try_acquire(&blocked.need(), |w| wakes.push(w)) else { return false };
        self.unqueue(blocked, &held);
        self.release(held);
        true
    }

    fn unqueue(&self, blocked: &Arc<Blocked>, held: &Held) {
        for key in blocked.waited_keys() {
            let slot = keyspace::slot_of(key);
            Attachment::with(&self.shared.keyspace, held, slot, |a| {
                let db_key = (blocked.db, Box::from(key));
                if let Some(queue) = a.blocked.get_mut(&db_key) {
                    queue.retain(|b| !Arc::ptr_eq(b, blocked));
                    if queue.is_empty() {
                        a.blocked.remove(&db_key);
                    }
                }
            });
        }
    }

    /// Slots beyond `held` that commands waiting for any of `keys` need, and those waiting for what these would change.
    pub(crate) fn slots_of_waiters<'k>(&self, held: &Held, db: u16, keys: impl Iterator<Item = Key<'k>>) -> Vec<u16> {
        let mut missing = Vec::new();
        let mut seen: Vec<Arc<Blocked>> = Vec::new();
        for key in keys {
            self.waiters_of(held, db, key.slot, key.bytes, &mut seen);
        }
        let mut next = 0;
        while let Some(blocked) = seen.get(next).cloned() {
            next += 1;
            for &slot in &blocked.slots {
                if !held.covers(slot) {
                    missing.push(slot);
                }
            }
            let mut positions = Vec::new();
            blocked.row.spec.keys_of(blocked.args.args(), &mut positions);
            for at in positions {
                if let Some(key) = blocked.args.args().get(at.index) {
                    self.waiters_of(held, blocked.db, keyspace::slot_of(key), key, &mut seen);
                }
            }
        }
        missing
    }

    fn waiters_of(&self, held: &Held, db: u16, slot: u16, key: &[u8], seen: &mut Vec<Arc<Blocked>>) {
        if !held.covers(slot) {
            return;
        }
        Attachment::of(&self.shared.keyspace, held, slot, |attachment| {
            for blocked in attachment.blocked.get(&(db, Box::from(key))).into_iter().flatten() {
                if !seen.iter().any(|s| Arc::ptr_eq(s, blocked)) {
                    seen.push(blocked.clone());
                }
            }
        });
    }

    /// Serves whoever waits for the keys in `touched`, and for what serving changes, in order.
    pub(crate) fn serve(&mut self, touched: Vec<Touched>, held: &Held) {
        let mut ready: VecDeque<Touched> = touched.into();
        while let Some(key) = ready.pop_front() {
            let db_key = (key.db, key.key);
            let hashed = self.shared.keyspace.hasher().key(&db_key.1);
            let mut skipped = 0;
            while let Some(Some(blocked)) = Attachment::of(&self.shared.keyspace, held, key.slot, |attachment| {
                attachment.blocked.get(&db_key).and_then(|q| q.get(skipped)).cloned()
            }) {
                let found = self.db(held, key.db, 0).peek(&hashed).map(|e| e.kind());
                if found != Some(blocked.kind) || !self.serve_one(&blocked, held, &mut ready) {
                    skipped += 1;
                }
            }
        }
    }

    /// Runs a waiting command. True: it is out of the queues.
    fn serve_one(&mut self, blocked: &Arc<Blocked>, held: &Held, ready: &mut VecDeque<Touched>) -> bool {
        if !held.covers_all(&blocked.slots) || !blocked.claim() {
            return false;
        }
        let mut reply = Vec::new();
        let args: Args<'_> = blocked.args.args();
        let call = Call {
            row: blocked.row,
            args,
            first: None,
            db: blocked.db,
            protocol: blocked.protocol,
            token: blocked.waiter.token,
            may_block: true,
        };
        let outcome = self.run_handler(&call, held, &mut reply);
        let touched = std::mem::take(&mut self.fx.touched);
        self.mark_watched(&touched, held);
        ready.extend(touched);
        if let Outcome::Block(_) = outcome {
            blocked.state.store(WAITING, Release);
            return false;
        }
        blocked.state.store(SERVED, Release);
        self.unqueue(blocked, held);
        self.served.push(Served { waiter: blocked.waiter, reply });
        true
    }
}

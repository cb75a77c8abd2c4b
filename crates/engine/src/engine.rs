//! A worker's engine: takes latches, runs handlers, and does what follows from what they changed.

use std::sync::Arc;

use command::{
    Ctx, Effects, Error, Event, Events, KeyAt, Outcome, Rng, Run, Touched, Tunables, class, effects::op, flags,
};
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Key, Keyspace, Local, Need, Reclaim, Waiter};
use resp::Reply;

use crate::blocked::Served;
use crate::call::{Busy, Call, Ran};
use crate::walker::Walking;
use crate::watch::WatchedKey;

/// Bits of a version below its milliseconds: a counter and, later, the stream (rule L1).
const VERSION_SHIFT: u32 = 20;
/// Attempts at a busy latch before giving up, about a microsecond.
const SPINS: u32 = 40;

/// Entries freed per turn after a flush: about half a millisecond.
const RECLAIM_STEP: usize = 4096;

/// What all workers of a node share.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
}

/// One worker's engine. Everything it needs from outside is handed in: time by [`Engine::set_now`], chance by the seed.
pub struct Engine {
    /// Shared with the other workers.
    pub shared: Arc<Shared>,
    pub(crate) index: u16,
    pub(crate) local: Local,
    pub(crate) clock: AccessClock,
    pub(crate) rng: Rng,
    /// What the running command changed. `dirty` counts on; `recording` may be switched on by whoever logs.
    pub fx: Effects,
    pub(crate) events: Events,
    tunables: Arc<Tunables>,
    /// Unix milliseconds of this turn.
    pub(crate) now: u64,
    last_version: u64,
    /// Connections whose latch is free now: the worker sends these on.
    pub wakes: Vec<Waiter>,
    /// Replies of blocked commands that were served: the worker sends these on.
    pub served: Vec<Served>,
    /// Keyspace notifications to publish.
    pub published: Vec<Event>,
    /// Emptied tables to free in steps.
    pub reclaims: Vec<Reclaim>,
    /// Where the expiry sweep is.
    pub(crate) sweep: crate::sweep::Sweep,
    /// The best candidates for eviction so far, best last.
    pub(crate) pool: Vec<crate::evict::Candidate>,
    /// Watches that ended while their slot was busy.
    pub(crate) leftovers: Vec<WatchedKey>,
    /// Who of this worker has reserved latches, and which.
    reservation: Option<(u64, Need)>,
    /// Scratch for key positions.
    positions: Vec<KeyAt>,
}

impl Engine {
    /// The engine of worker `index`; `seed` feeds its chance.
    pub fn new(shared: Arc<Shared>, index: u16, seed: u64) -> Self {
        let local = shared.keyspace.local(usize::from(index));
        Self {
            shared,
            index,
            local,
            clock: AccessClock::new(seed),
            rng: Rng::new(seed),
            fx: Effects::default(),
            events: Events::default(),
            tunables: Arc::default(),
            now: 0,
            last_version: 0,
            wakes: Vec::new(),
            served: Vec::new(),
            published: Vec::new(),
            reclaims: Vec::new(),
            sweep: Default::default(),
            pool: Vec::new(),
            leftovers: Vec::new(),
            reservation: None,
            positions: Vec::new(),
        }
    }

    /// Index of the worker.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Begins a turn of the worker's loop at unix time `now` in milliseconds: prefetched addresses stay readable until
    /// [`Self::end_turn`].
    pub fn begin_turn(&mut self, now: u64) {
        self.now = now;
        self.local.begin_turn();
    }

    /// Ends a turn.
    pub fn end_turn(&mut self) {
        self.local.end_turn();
    }

    /// Unix milliseconds of this turn.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets the access clock: see [`AccessClock::set`].
    pub fn clock(&mut self) -> &mut AccessClock {
        &mut self.clock
    }

    /// Takes a new snapshot of settings; `wanted` are the notification classes somebody may receive.
    pub fn configure(&mut self, tunables: Arc<Tunables>, wanted: u32) {
        self.tunables = tunables;
        self.events.wanted = wanted;
    }

    /// The present snapshot of settings.
    pub fn tunables(&self) -> &Arc<Tunables> {
        &self.tunables
    }

    /// The worker's source of chance.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The worker's own part of the keyspace.
    pub fn local(&mut self) -> &mut Local {
        &mut self.local
    }

    /// Logical database `db` through `held`, for changes at `version`.
    pub(crate) fn db<'a>(&'a mut self, held: &'a Held, db: u16, version: u64) -> Db<'a> {
        Db::new(&self.shared.keyspace, held, &mut self.local, &self.clock, db, version)
    }

    // ---- latches

    /// Takes one latch, trying for about a microsecond.
    #[inline]
    pub(crate) fn acquire_one(&self, slot: u16) -> Option<Held> {
        if let Some(held) = self.shared.keyspace.try_one(slot) {
            return Some(held);
        }
        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            self.shared.keyspace.try_one(slot)
        })
    }

    /// Takes all latches of `need`, trying for about a microsecond.
    pub(crate) fn acquire(&mut self, need: Need) -> Result<Held, Busy> {
        let mut spins = 0;
        loop {
            let wakes = &mut self.wakes;
            match self.shared.keyspace.try_acquire(&need, |w| wakes.push(w)) {
                Ok(held) => return Ok(held),
                Err(slot) if spins == SPINS => return Err(Busy { need, slot }),
                Err(_) => spins += 1,
            }
            std::hint::spin_loop();
        }
    }

    /// As [`Self::acquire`], past newcomers if `token` has reserved its latches after too many failures (rule K1).
    fn acquire_for(&mut self, need: Need, token: u64) -> Result<Held, Busy> {
        if self.reservation.as_ref().is_none_or(|(owner, _)| *owner != token) {
            return self.acquire(need);
        }
        if self.reservation.as_ref().is_some_and(|(_, reserved)| *reserved != need) {
            // Waiters have come or gone meanwhile, and with them the latches needed.
            self.cancel_reservation(token);
            self.reserve(&need, token);
        }
        let wakes = &mut self.wakes;
        match self.shared.keyspace.try_acquire_reserved(&need, |w| wakes.push(w)) {
            Ok(held) => {
                self.reservation = None;
                Ok(held)
            }
            Err(slot) => Err(Busy { need, slot }),
        }
    }

    /// Keeps newcomers out of the latches that `token` has failed to get too often. One acquirer of a node can do so at a
    /// time; the others go on trying.
    pub fn reserve(&mut self, need: &Need, token: u64) {
        if self.reservation.is_none() && self.shared.keyspace.reserve(need, Waiter { worker: self.index, token }) {
            self.reservation = Some((token, need.clone()));
        }
    }

    /// Gives a reservation up, if `token` has one.
    pub fn cancel_reservation(&mut self, token: u64) {
        if self.reservation.as_ref().is_some_and(|(owner, _)| *owner == token)
            && let Some((_, need)) = self.reservation.take()
        {
            let wakes = &mut self.wakes;
            self.shared.keyspace.cancel_reservation(&need, |w| wakes.push(w));
        }
    }

    /// Registers a connection to be woken when `slot` may be free. False: it is free now, try again.
    pub fn park(&self, slot: u16, token: u64) -> bool {
        let reserver = self.reservation.as_ref().is_some_and(|(owner, _)| *owner == token);
        self.shared.keyspace.park(slot, Waiter { worker: self.index, token }, reserver)
    }

    #[inline]
    pub(crate) fn release(&mut self, held: Held) {
        let wakes = &mut self.wakes;
        self.shared.keyspace.release(held, |w| wakes.push(w));
    }

    /// A version above everything seen so far in the held slots.
    pub(crate) fn next_version(&mut self, held: &Held) -> u64 {
        let floor = self.last_version.max(self.shared.keyspace.last_version(held));
        self.last_version = (self.now << VERSION_SHIFT).max(floor + 1);
        self.last_version
    }

    // ---- one command

    /// Runs a command of the data plane and writes its reply to `out`.
    pub fn run(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Ran {
        if let (Run::Keyed(_), Some(key)) = (call.row.run, call.first)
            && call.row.spec.has_one_key()
        {
            if self.reservation.is_some() {
                return self.run_with(call, Need::Slots([key.slot].as_slice().into()), out);
            }
            let Some(held) = self.acquire_one(key.slot) else {
                return Ran::Busy(Busy { need: Need::Slots([key.slot].as_slice().into()), slot: key.slot });
            };
            if !self.shared.keyspace.interest(&held, key.slot) {
                let outcome = self.run_handler(call, &held, out);
                return self.conclude(call, outcome, held, out);
            }
            self.release(held);
        }
        let need = self.need_of_call(call);
        self.run_with(call, need, out)
    }

    /// Runs a command of which the latches are known: the slow path.
    fn run_with(&mut self, call: &Call<'_>, mut need: Need, out: &mut Vec<u8>) -> Ran {
        if let Run::Walk(begin) = call.row.run {
            return self.begin_walk(call, begin, out);
        }
        let held = loop {
            let held = match self.acquire_for(need, call.token) {
                Ok(held) => held,
                Err(busy) => return Ran::Busy(busy),
            };
            match self.wider_need(std::slice::from_ref(call), &held) {
                None => break held,
                Some(wider) => {
                    self.release(held);
                    need = wider;
                }
            }
        };
        let outcome = self.run_handler(call, &held, out);
        self.conclude(call, outcome, held, out)
    }

    /// What follows a handler: waiters are served, a wait is registered, the latches go back.
    #[inline]
    fn conclude(&mut self, call: &Call<'_>, outcome: Outcome, held: Held, out: &mut Vec<u8>) -> Ran {
        if !self.fx.touched.is_empty() {
            self.publish(&held);
        }
        let ran = match outcome {
            Outcome::Done => Ran::Done,
            Outcome::Block(block) if call.may_block => Ran::Blocked(self.block(call, block, &held)),
            Outcome::Block(block) => {
                block.nil.write(&mut Reply::new(out, call.protocol));
                Ran::Done
            }
        };
        self.release(held);
        ran
    }

    /// Tells watchers and waiters what changed since the last call.
    pub(crate) fn publish(&mut self, held: &Held) {
        let touched = std::mem::take(&mut self.fx.touched);
        if touched.is_empty() {
            return;
        }
        self.mark_watched(&touched, held);
        self.serve(touched, held);
    }

    fn begin_walk(
        &mut self,
        call: &Call<'_>,
        begin: fn(&mut Ctx<'_>) -> Result<Box<dyn command::Walk>, Error>,
        out: &mut Vec<u8>,
    ) -> Ran {
        let nothing = Held::default();
        match self.with_ctx(call, &nothing, 0, out, begin) {
            Ok(walk) => Ran::Walking(Box::new(Walking::new(walk, call.db, call.protocol))),
            Err(error) => {
                Reply::new(out, call.protocol).error(error.as_bytes());
                Ran::Done
            }
        }
    }

    /// Runs the handler under latches that cover its keys. An error is written in place of any reply.
    #[inline]
    pub(crate) fn run_handler(&mut self, call: &Call<'_>, held: &Held, out: &mut Vec<u8>) -> Outcome {
        let handler = match call.row.run {
            Run::Keyed(f) | Run::KeyedOrWhole(f, _) | Run::Whole(f) => f,
            Run::Walk(begin) => return self.walk_held(call, begin, held, out),
            Run::Container => {
                Reply::new(out, call.protocol).error("ERR unknown subcommand");
                return Outcome::Done;
            }
        };
        let writes = call.row.spec.flags & flags::READONLY == 0 || self.may_drop_fields(call, held);
        let version = if writes { self.next_version(held) } else { 0 };
        self.fx.interest = self.has_interest(held);
        self.run_prepared(call, handler, held, version, out)
    }

    /// The rest of [`Self::run_handler`]: version and interest are known.
    #[inline]
    fn run_prepared(
        &mut self,
        call: &Call<'_>,
        handler: fn(&mut Ctx<'_>) -> Result<Outcome, Error>,
        held: &Held,
        version: u64,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.expire_before(call, held, version);
        let start = out.len();
        match self.with_ctx(call, held, version, out, handler) {
            Ok(outcome) => {
                if !self.events.list.is_empty() {
                    self.published.append(&mut self.events.list);
                }
                if let Some(barrier) = self.fx.barrier.take() {
                    self.carry_out(barrier, held);
                }
                outcome
            }
            Err(error) => {
                out.truncate(start);
                Reply::new(out, call.protocol).error(error.as_bytes());
                Outcome::Done
            }
        }
    }

    #[inline]
    fn with_ctx<R>(
        &mut self,
        call: &Call<'_>,
        held: &Held,
        version: u64,
        out: &mut Vec<u8>,
        f: impl FnOnce(&mut Ctx<'_>) -> R,
    ) -> R {
        f(&mut Ctx {
            args: call.args,
            db: Db::new(&self.shared.keyspace, held, &mut self.local, &self.clock, call.db, version),
            out: Reply::new(out, call.protocol),
            fx: &mut self.fx,
            events: &mut self.events,
            now: self.now,
            rng: &mut self.rng,
            tunables: &self.tunables,
            first: call.first,
        })
    }

    fn walk_held(
        &mut self,
        call: &Call<'_>,
        begin: fn(&mut Ctx<'_>) -> Result<Box<dyn command::Walk>, Error>,
        held: &Held,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match self.with_ctx(call, held, 0, out, begin) {
            Ok(walk) => {
                let mut walking = Walking::new(walk, call.db, call.protocol);
                self.finish_walk_held(&mut walking, held, out);
            }
            Err(error) => Reply::new(out, call.protocol).error(error.as_bytes()),
        }
        Outcome::Done
    }

    /// Whether a reader may come across expired fields of a hash: it deletes them, which is a write.
    #[inline]
    fn may_drop_fields(&mut self, call: &Call<'_>, held: &Held) -> bool {
        if !call.row.spec.has(flags::EXPIRES_FIELDS) {
            return false;
        }
        let db = self.db(held, call.db, 0);
        held.is_all() || held.slots().iter().any(|&slot| db.may_expire(slot))
    }

    #[inline]
    pub(crate) fn has_interest(&self, held: &Held) -> bool {
        held.is_all() || held.slots().iter().any(|&slot| self.shared.keyspace.interest(held, slot))
    }

    /// Deletes those of the command's keys whose time has come, before it runs.
    #[inline]
    fn expire_before(&mut self, call: &Call<'_>, held: &Held, version: u64) {
        if let Some(key) = call.first
            && call.row.spec.has_one_key()
        {
            if self.db(held, call.db, 0).may_expire(key.slot) {
                self.expire_keys(held, call.db, version, std::iter::once(key));
            }
            return;
        }
        if let Run::Whole(_) = call.row.run
            && call.row.spec.has(flags::WRITE)
        {
            self.expire_watched(held, version);
        }
        let may = held.is_all() || {
            let db = self.db(held, call.db, 0);
            held.slots().iter().any(|&slot| db.may_expire(slot))
        };
        if may {
            let mut positions = std::mem::take(&mut self.positions);
            positions.clear();
            call.row.spec.keys_of(call.args, &mut positions);
            let shared = self.shared.clone();
            let keys =
                positions.iter().filter_map(|at| call.args.get(at.index)).map(|k| shared.keyspace.hasher().key(k));
            self.expire_keys(held, call.db, version, keys);
            self.positions = positions;
        }
    }

    /// Deletes those of `keys` whose time has come.
    pub(crate) fn expire_keys<'k>(&mut self, held: &Held, db: u16, version: u64, keys: impl Iterator<Item = Key<'k>>) {
        for key in keys {
            let version = if version == 0 { self.next_version(held) } else { version };
            let now = self.now;
            let mut view = self.db(held, db, version);
            if view.peek(&key).is_none_or(|entry| !entry.expired(now)) {
                continue;
            }
            view.remove(&key);
            keyspace::bump(&self.local.counters().expired, 1);
            self.fx.push(op::DELETE, db, &key, |_| {});
            self.events.push(class::EXPIRED, "expired", db, key.bytes);
        }
        self.published.append(&mut self.events.list);
    }

    /// Notes a keyspace notification.
    pub(crate) fn event(&mut self, class: u32, name: &'static str, db: u16, key: &Key<'_>) {
        self.events.push(class, name, db, key.bytes);
    }

    /// Frees some of what was flushed. True: more is left.
    pub fn step_reclaims(&mut self) -> bool {
        if let Some(reclaim) = self.reclaims.last_mut()
            && reclaim.step(&mut self.local, RECLAIM_STEP)
        {
            self.reclaims.pop();
        }
        !self.reclaims.is_empty()
    }

    // ---- which latches

    /// The latches a command needs.
    pub fn need_of_call(&mut self, call: &Call<'_>) -> Need {
        match call.row.run {
            Run::Whole(_) => return Need::All,
            Run::KeyedOrWhole(_, whole) if whole(call.args) => return Need::All,
            _ => {}
        }
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let need = self.need_of(positions.iter().filter_map(|at| call.args.get(at.index)).map(keyspace::slot_of));
        self.positions = positions;
        need
    }

    /// A larger need if commands wait for keys that `calls` may change and need more than what is held.
    fn wider_need(&mut self, calls: &[Call<'_>], held: &Held) -> Option<Need> {
        if held.is_all() || !self.has_interest(held) {
            return None;
        }
        let mut missing = Vec::new();
        for call in calls.iter().filter(|call| call.row.spec.has(flags::WRITE)) {
            let mut positions = Vec::new();
            call.row.spec.keys_of(call.args, &mut positions);
            let hasher = self.shared.keyspace.hasher();
            let keys = positions.iter().filter_map(|at| call.args.get(at.index)).map(|k| hasher.key(k));
            missing.extend(self.slots_of_waiters(held, call.db, keys));
        }
        (!missing.is_empty()).then(|| self.need_of(held.slots().iter().copied().chain(missing)))
    }

    // ---- blocks

    /// Takes the latches of a block of commands (EXEC): all of it runs under them, at one time. `watched` is checked first;
    /// `Ok(None)`: a watched key has changed. The databases in `calls` are those each will run in.
    pub fn begin_block(
        &mut self,
        calls: &[Call<'_>],
        watched: &[WatchedKey],
        token: u64,
    ) -> Result<Option<BlockRun>, Busy> {
        let mut need = self.need_of_block(calls, watched);
        let held = loop {
            let held = self.acquire_for(need, token)?;
            match self.wider_need(calls, &held) {
                None => break held,
                Some(wider) => {
                    self.release(held);
                    need = wider;
                }
            }
        };
        if !watched.is_empty() {
            let version = self.next_version(&held);
            self.fx.interest = true;
            let shared = self.shared.clone();
            for w in watched {
                self.expire_keys(&held, w.db, version, std::iter::once(shared.keyspace.hasher().key(&w.key)));
            }
            let touched = std::mem::take(&mut self.fx.touched);
            self.mark_watched(&touched, &held);
            if !self.unchanged(watched, &held) {
                self.release(held);
                return Ok(None);
            }
        }
        // From here on a version is one more than the last: nobody else writes to these slots.
        self.next_version(&held);
        let interest = self.has_interest(&held);
        Ok(Some(BlockRun { held, interest, touched: Vec::new() }))
    }

    fn need_of_block(&mut self, calls: &[Call<'_>], watched: &[WatchedKey]) -> Need {
        let mut slots: smallvec::SmallVec<[u16; 16]> = watched.iter().map(|w| w.slot).collect();
        for call in calls {
            if let Some(key) = call.first {
                slots.push(key.slot);
                continue;
            }
            match (call.row.run, self.need_of_call(call)) {
                (Run::Walk(_), _) | (_, Need::All) => return Need::All,
                (_, Need::Slots(more)) => slots.extend(more),
            }
        }
        self.need_of(slots.into_iter())
    }

    /// Runs one command of a block. One that would block answers its nil.
    pub fn run_in_block(&mut self, block: &mut BlockRun, call: &Call<'_>, out: &mut Vec<u8>) {
        let outcome = match call.row.run {
            // What holds for the whole block need not be found out for each of its commands.
            Run::Keyed(handler) => {
                self.last_version += 1;
                self.fx.interest = block.interest;
                self.run_prepared(call, handler, &block.held, self.last_version, out)
            }
            _ => self.run_handler(call, &block.held, out),
        };
        if let Outcome::Block(wait) = outcome {
            wait.nil.write(&mut Reply::new(out, call.protocol));
        }
        if block.interest {
            block.touched.append(&mut self.fx.touched);
        }
    }

    /// Ends a block: watchers and waiters learn what it changed, the latches go back.
    pub fn end_block(&mut self, block: BlockRun) {
        self.mark_watched(&block.touched, &block.held);
        self.serve(block.touched, &block.held);
        self.release(block.held);
    }
}

/// A block under way: its latches are held until [`Engine::end_block`].
#[must_use]
pub struct BlockRun {
    held: Held,
    /// Somebody watches or waits in the slots.
    interest: bool,
    touched: Vec<Touched>,
}

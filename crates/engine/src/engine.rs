//! A worker's engine: it takes latches, runs handlers, and handles the consequences of their changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;
use command::{Ctx, Effects, Error, Event, Events, KeyAt, Outcome, Rng, Run, Tunables, class, flags};
use keyspace::access::AccessClock;
use keyspace::{Db, Held, Hidden, Key, Keyspace, Local, Need, Reclaim, Version, Waiter};
use resp::{Parts, Reply};
use txn::TxnId;
use txn::locks::Mode;

use crate::aside::{Asides, Waiting};
use crate::attachment::DbKey;
use crate::blocked::Served;
use crate::call::{Busy, Call, Ran};
use crate::cold::{Budget, Requests, Shelf};
use crate::record::Recorder;
use crate::space::Unasked;
use crate::tracking::{Forgotten, Hand, Invalidation, Tracking};
use crate::transactions::{Owner, Transactions};
use crate::walker::{Walker, Walking};
use crate::watch::WatchedKey;

/// Flushed entries that are freed at once: some ten microseconds' worth.
pub(crate) const FREED_AT_ONCE: usize = 256;

/// The state that all workers of a node share.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// Workers give way in the worst moments: see [`Engine::give_way`].
    pub disturbed: AtomicBool,
    /// Keys that commands wait for.
    pub waited_keys: AtomicU64,
    /// Those of them whose absence a command waits for.
    pub waited_keys_minding_absence: AtomicU64,
    /// Keys that clients may have cached.
    pub tracking: Tracking,
    /// Counts keys that clients began to watch, in the upper half.
    pub(crate) watches: AtomicU64,
    /// Rises whenever the node gives its shard up: see [`Self::end_watches`].
    pub(crate) tenure: AtomicU64,
    /// Transactions over nodes.
    pub transactions: Transactions,
    /// Requests to loaders.
    pub requests: Requests,
    /// Bytes of large values that loaders may read at once.
    pub budget: Budget,
    /// The source of cold keys, if there is one.
    pub source: Shelf,
    /// Work that is done aside.
    pub asides: Asides,
}

impl Shared {
    /// With nothing in it but the keyspace.
    pub fn new(keyspace: Keyspace) -> Self {
        Self {
            keyspace,
            disturbed: AtomicBool::new(false),
            waited_keys: AtomicU64::new(0),
            waited_keys_minding_absence: AtomicU64::new(0),
            tracking: Tracking::default(),
            watches: AtomicU64::new(0),
            tenure: AtomicU64::new(0),
            transactions: Transactions::default(),
            requests: Requests::default(),
            budget: Budget::default(),
            source: Shelf::default(),
            asides: Asides::default(),
        }
    }

    /// The logical database that has a physical one. A latch is held: otherwise it may change.
    pub(crate) fn logical(&self, physical: u16) -> Option<u16> {
        (0..self.keyspace.databases() as u16).find(|db| self.keyspace.physical(*db) == physical)
    }
}

/// One worker's engine. Its inputs are handed in: time by [`Engine::set_now`], chance by the seed.
pub struct Engine {
    /// Shared with the other workers.
    pub shared: Arc<Shared>,
    pub(crate) index: u16,
    pub(crate) local: Local,
    pub(crate) clock: AccessClock,
    pub(crate) rng: Rng,
    /// The changes of the running command. `dirty` counts on; a logging caller may switch `recording` on.
    pub fx: Effects,
    pub(crate) events: Events,
    tunables: Arc<Tunables>,
    /// The running command was called by a script.
    pub in_script: bool,
    /// Where SCAN ends: the first slot of another node.
    pub scan_end: u16,
    /// The running command has waited for its keys often enough: it reads the store itself, under its latches.
    pub insists: bool,
    /// The running command has waited for its keys: they need not stay in memory for it any longer.
    pub waited: bool,
    /// The time of this turn.
    pub(crate) now: UnixMs,
    pub(crate) last_version: Version,
    /// The log.
    pub(crate) recorder: Recorder,
    /// Connections whose latch is free now: the worker wakes these.
    pub wakes: Vec<Waiter>,
    /// Replies of served commands: the worker sends these.
    pub served: Vec<Served>,
    /// Long strings that belong into the replies just written: the worker sends them from where they are.
    pub parts: Parts,
    /// Keyspace notifications to publish: see [`Engine::take_published`].
    pub(crate) published: Vec<Event>,
    /// Keys that clients must forget: see [`Engine::take_invalidated`].
    pub(crate) invalidated: Vec<Invalidation>,
    /// The position of forgetting tracked keys.
    pub(crate) hand: Hand,
    /// Keys that were tracked when everything was flushed.
    pub(crate) forgotten: Forgotten,
    /// Emptied tables to free in steps.
    pub reclaims: Vec<Reclaim>,
    /// The position of the expiry sweep.
    pub(crate) sweep: crate::sweep::Sweep,
    /// The position of tidying.
    pub(crate) tidy: crate::tidy::Tidy,
    /// The best candidates for eviction so far.
    pub(crate) pool: crate::evict::Pool,
    /// The position of the round over all keys that makes room.
    pub(crate) round: Option<crate::evict::Round>,
    /// Watches that ended while their slot was busy.
    pub(crate) leftovers: Vec<WatchedKey>,
    /// The connection of this worker that has reserved latches, and which.
    pub(crate) reservation: Option<(u64, Need)>,
    /// Scratch for key positions.
    pub(crate) positions: Vec<KeyAt>,
    /// Commands since the last question for room (`space.rs`).
    pub(crate) unasked: Unasked,
    /// Bytes that this worker itself has read of the store since there was room last.
    pub(crate) portion: crate::cold::Portion,
    /// Expired keys are not deleted: see [`Engine::keep_expired`].
    pub(crate) keep_expired: bool,
    /// Memory follows that of another node: see [`Engine::only_read`].
    pub(crate) only_reads: bool,
    /// Work that is done aside for connections of this worker.
    pub(crate) asides: Waiting,
    /// The connection of this worker that has last waited for keys that its command has found out, and how often.
    pub(crate) found: Option<(u64, u32)>,
    /// By connection of this worker: keys that its command waits for, because transactions have locked some of them.
    pub(crate) claims: BTreeMap<u64, Vec<(DbKey, Mode)>>,
    /// By connection of this worker: since when its command waits for transactions to end.
    pub(crate) quiet: BTreeMap<u64, u64>,
    /// Claims to be given back when their latch is free.
    pub(crate) unclaimed: Vec<(Owner, DbKey)>,
    /// Keys whose waiting commands are to be served when their latches are free.
    pub(crate) unserved: Vec<DbKey>,
    /// The attempt whose effects are being applied to its locked keys.
    pub(crate) installs: Option<TxnId>,
    /// The wait that the last command wanted and could not have.
    pub(crate) unwaited: Option<command::Block>,
    /// Expired keys that are hidden while latches are held.
    pub(crate) hidden: Vec<(u16, Box<[u8]>, Hidden)>,
}

impl Engine {
    /// The engine of worker `index`; `seed` is the seed of its chance.
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
            in_script: false,
            scan_end: keyspace::SLOTS as u16,
            insists: false,
            now: UnixMs::ZERO,
            last_version: Version::ZERO,
            recorder: Recorder::default(),
            wakes: Vec::new(),
            served: Vec::new(),
            parts: Parts::default(),
            published: Vec::new(),
            invalidated: Vec::new(),
            hand: Default::default(),
            forgotten: Forgotten::new(),
            reclaims: Vec::new(),
            sweep: Default::default(),
            tidy: Default::default(),
            pool: Default::default(),
            round: None,
            waited: false,
            leftovers: Vec::new(),
            reservation: None,
            positions: Vec::new(),
            unasked: Unasked::default(),
            portion: crate::cold::Portion::default(),
            keep_expired: false,
            only_reads: false,
            asides: Waiting::default(),
            found: None,
            claims: BTreeMap::new(),
            quiet: BTreeMap::new(),
            unclaimed: Vec::new(),
            unserved: Vec::new(),
            installs: None,
            unwaited: None,
            hidden: Vec::new(),
        }
    }

    /// A moment in which the order of threads matters, perhaps with latches held. Debug builds under torture yield to
    /// another thread now and then: few cores show few interleavings by themselves.
    #[inline]
    pub fn give_way(&mut self) {
        if cfg!(debug_assertions) && self.shared.disturbed.load(Relaxed) && self.rng.below(8) == 0 {
            std::thread::yield_now();
        }
    }

    /// Index of the worker.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Begins a turn of the worker's loop at `now`: prefetched addresses stay readable until
    /// [`Self::end_turn`].
    pub fn begin_turn(&mut self, now: UnixMs) {
        self.now = now;
        if self.waits_for_log() {
            self.look_at_marks();
        }
        self.local.begin_turn();
    }

    /// The turn goes on at `now`.
    pub fn advance(&mut self, now: UnixMs) {
        self.now = self.now.max(now);
    }

    /// Ends a turn.
    pub fn end_turn(&mut self) {
        self.local.end_turn();
    }

    /// The time of this turn.
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// Sets the access clock: see [`AccessClock::set`].
    pub fn clock(&mut self) -> &mut AccessClock {
        &mut self.clock
    }

    /// Takes a new snapshot of settings; `wanted` are the notification classes that clients may receive.
    pub fn configure(&mut self, tunables: Arc<Tunables>, wanted: u32) {
        self.tunables = tunables;
        self.events.wanted = wanted;
        self.local.note_sightings(wanted & class::NEW != 0, wanted & class::KEY_MISS != 0);
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

    /// Prefetches a key's bucket ([`keyspace::Keyspace::prefetch_bucket`]).
    #[inline]
    pub fn prefetch_bucket(&self, slot: u16, hash: u64) {
        self.shared.keyspace.prefetch_bucket(&self.local, slot, hash);
    }

    /// Prefetches a key's entry ([`keyspace::Keyspace::prefetch_entry`]).
    #[inline]
    pub fn prefetch_entry(&self, slot: u16, hash: u64) {
        self.shared.keyspace.prefetch_entry(&self.local, slot, hash);
    }

    /// Logical database `db` through `held`, for changes at `version`.
    pub(crate) fn db<'a>(&'a mut self, held: &'a Held, db: u16, version: Version) -> Db<'a> {
        Db::new(&self.shared.keyspace, held, &mut self.local, &self.clock, db, version)
    }

    /// As [`Self::db`], for a caller that changes no key: nothing is stamped.
    pub(crate) fn view<'a>(&'a mut self, held: &'a Held, db: u16) -> Db<'a> {
        self.db(held, db, Version::ZERO)
    }

    /// Runs a command of the data plane and writes its reply to `out`.
    pub fn run(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Ran {
        if let (Run::Keyed(_), Some(key)) = (call.row.run, call.first) {
            debug_assert!(call.row.spec.has_one_key());
            if self.reservation.is_some() {
                return self.run_with(call, Need::Slots([key.slot].as_slice().into()), out);
            }
            let Some(held) = self.acquire_one(key.slot) else {
                return Ran::Busy(Busy::latch(Need::Slots([key.slot].as_slice().into()), key.slot));
            };
            let interest = self.shared.keyspace.interest(&held, key.slot);
            if !interest || !self.has_reaching(&held) {
                if interest
                    && let Some(busy) = self.await_locks(std::slice::from_ref(call), [].into_iter(), &held, call.token)
                {
                    self.release(held);
                    return Ran::Busy(busy);
                }
                if let Some(busy) = self.await_keys(std::slice::from_ref(call), None.into_iter(), &held, call.token) {
                    self.release(held);
                    return Ran::Busy(busy);
                }
                let interest = interest || self.shared.tracking.is_broadcasting();
                let outcome = self.run_handler_for(call, &held, interest, out);
                return self.conclude(call, outcome, held, out);
            }
            self.release(held);
        }
        let need = self.need_of_call(call);
        self.run_with(call, need, out)
    }

    /// Runs a command whose latches are known: the slow path.
    fn run_with(&mut self, call: &Call<'_>, mut need: Need, out: &mut Vec<u8>) -> Ran {
        if !matches!(&need, Need::Slots(slots) if !slots.is_empty()) {
            self.note_everything();
        }
        if let Run::Walk(begin) = call.row.run {
            if let Some(busy) = self.await_quiet(call.token, false) {
                return Ran::Busy(busy);
            }
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
        let call_alone = std::slice::from_ref(call);
        let busy = self.await_locks(call_alone, [].into_iter(), &held, call.token);
        if let Some(busy) = busy.or_else(|| self.await_keys(call_alone, None.into_iter(), &held, call.token)) {
            self.release(held);
            return Ran::Busy(busy);
        }
        let flushed = self.reclaims.len();
        let outcome = match self.is_patient(call) {
            true => self.run_handler(call, &held, out),
            false => self.run_handler_now(call, &held, out),
        };
        if !matches!(outcome, Outcome::Load(_)) {
            self.found.take_if(|(token, _)| *token == call.token);
        }
        let ran = self.conclude(call, outcome, held, out);
        // The few entries that a flush has taken out are gone before its reply.
        for reclaim in self.reclaims.iter_mut().skip(flushed) {
            let _ = reclaim.step(&mut self.local, FREED_AT_ONCE);
        }
        ran
    }

    /// The steps after a handler: waiting commands are served, a wait is registered, the latches go back.
    #[inline]
    fn conclude(&mut self, call: &Call<'_>, outcome: Outcome, held: Held, out: &mut Vec<u8>) -> Ran {
        let is_plain = self.fx.touched.is_empty() && !call.caller.caches && self.claims.is_empty() && !self.waited;
        if is_plain && matches!(outcome, Outcome::Done) {
            self.release(held);
            return Ran::Done;
        }
        self.conclude_all(call, outcome, held, out)
    }

    #[inline(never)]
    fn conclude_all(&mut self, call: &Call<'_>, outcome: Outcome, held: Held, out: &mut Vec<u8>) -> Ran {
        if !self.fx.touched.is_empty() {
            self.publish(&held);
        }
        if call.caller.caches {
            self.remember_reads(call, &held);
        }
        let ran = match outcome {
            Outcome::Done => Ran::Done,
            Outcome::Load(keys) => match self.await_found(call, &keys, &held) {
                Some(busy) => Ran::Busy(busy),
                None => {
                    Reply::new(out, call.protocol).error(Error::UNREADABLE.as_bytes());
                    Ran::Done
                }
            },
            Outcome::Aside(aside) => Ran::Busy(self.begin_aside(call, *aside, &held)),
            Outcome::Rest(rest) if call.seat.is_some() => Ran::Walking(Box::new(Walking::rest(rest, call.protocol))),
            Outcome::Rest(rest) => {
                rest.finish(&mut Reply::new(out, call.protocol));
                Ran::Done
            }
            Outcome::Block(block) if call.seat.is_some() => match self.block(call, block, &held) {
                Some(blocked) => Ran::Blocked(blocked),
                None => Ran::Done,
            },
            Outcome::Block(block) => {
                block.nil.write(&mut Reply::new(out, call.protocol));
                Ran::Done
            }
        };
        if !self.claims.is_empty() && !matches!(ran, Ran::Busy(_)) {
            self.end_claims(call.token, &held);
        }
        if self.waited && !matches!(ran, Ran::Busy(_)) {
            self.let_go(call, &held);
        }
        self.release(held);
        ran
    }

    /// Tells watchers and waiters of the changes since the last call.
    pub(crate) fn publish(&mut self, held: &Held) {
        let touched = std::mem::take(&mut self.fx.touched);
        if touched.is_empty() {
            return;
        }
        self.mark_watched(&touched, held);
        self.invalidate(&touched, held);
        self.serve(touched, held);
    }

    fn begin_walk(
        &mut self,
        call: &Call<'_>,
        begin: fn(&mut Ctx<'_>) -> Result<Box<dyn command::Walk>, Error>,
        out: &mut Vec<u8>,
    ) -> Ran {
        let nothing = Held::default();
        match self.with_ctx(call, &nothing, Version::ZERO, out, begin) {
            Ok(walk) => Ran::Walking(Box::new(Walking::new(walk, call.db, call.protocol))),
            Err(error) => {
                Reply::new(out, call.protocol).error(error.as_bytes());
                Ran::Done
            }
        }
    }

    /// Runs the handler under latches that cover its keys. An error replaces any reply. [`Outcome::Load`] comes only
    /// from handlers that run with everything held.
    #[inline]
    pub(crate) fn run_handler(&mut self, call: &Call<'_>, held: &Held, out: &mut Vec<u8>) -> Outcome {
        let interest = self.has_interest(held);
        self.run_handler_for(call, held, interest, out)
    }

    /// The rest of [`Self::run_handler`]. `interest`: a client waits for changes in the held slots.
    #[inline]
    fn run_handler_for(&mut self, call: &Call<'_>, held: &Held, interest: bool, out: &mut Vec<u8>) -> Outcome {
        let handler = match call.row.run {
            Run::Keyed(f) | Run::KeyedOrWhole(f, _) | Run::Whole(f) => f,
            Run::Walk(begin) => return self.walk_held(call, begin, held, out),
            Run::Container => {
                Reply::new(out, call.protocol).error("ERR unknown subcommand");
                return Outcome::Done;
            }
        };
        // PFCOUNT is called a reader, and writes its count down.
        let reads = call.row.spec.has(flags::READONLY) && !call.row.spec.has(flags::MAY_REPLICATE);
        let version = match reads {
            false if self.only_reads => return self.refuse_to_write(call, out),
            true if self.only_reads || !self.may_drop_fields(call, held) => Version::ZERO,
            _ => self.next_version(held),
        };
        self.fx.interest = interest;
        self.run_prepared(call, handler, held, version, out)
    }

    /// The rest of [`Self::run_handler`]: version and interest are known.
    #[inline]
    pub(crate) fn run_prepared(
        &mut self,
        call: &Call<'_>,
        handler: fn(&mut Ctx<'_>) -> Result<Outcome, Error>,
        held: &Held,
        version: Version,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.give_way();
        let settled = match call.row.spec.has(flags::EVERYTHING) {
            true => self.fetch_everything(held),
            false => self.settle(call, held),
        };
        let settled = settled.and_then(|()| if headroom::is_limited() { self.check_room(call, held) } else { Ok(()) });
        if let Err(error) = settled {
            Reply::new(out, call.protocol).error(error.as_bytes());
            return Outcome::Done;
        }
        // A reader deletes only expired keys, whose deletion was due anyway.
        self.fx.by = if call.row.spec.has(flags::WRITE) { call.caller.client } else { 0 };
        self.expire_before(call, held, version);
        let start = out.len();
        let result = self.with_ctx(call, held, version, out, handler);
        if self.local.has_sightings() {
            self.tell_sightings();
        }
        let refused = self.parts.take_refused();
        match result {
            Ok(outcome) => {
                if !self.events.list.is_empty() {
                    self.published.append(&mut self.events.list);
                }
                if let Some(barrier) = self.fx.barrier.take() {
                    self.carry_out(barrier, held);
                }
                if refused {
                    self.replace(call, start, out, &Error::OOM);
                    return Outcome::Done;
                }
                outcome
            }
            Err(error) => {
                self.replace(call, start, out, &error);
                Outcome::Done
            }
        }
    }

    /// From now on the engine only reads, as memory follows that of another node (rule S2); or it may write again. It
    /// gives no versions, and leaves expired keys and fields to the owner. Commands that write are refused, and so are
    /// those that may ([`command::Spec::only_reads`]): they are to be sent to the owner before.
    pub fn only_read(&mut self, only: bool) {
        (self.only_reads, self.keep_expired) = (only, only);
    }

    #[cold]
    pub(crate) fn refuse_to_write(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Outcome {
        Reply::new(out, call.protocol).error(Error::READONLY.as_bytes());
        Outcome::Done
    }

    /// Writes an error in place of the reply from `start` on.
    pub(crate) fn replace(&mut self, call: &Call<'_>, start: usize, out: &mut Vec<u8>, error: &Error) {
        out.truncate(start);
        self.parts.truncate(start);
        Reply::new(out, call.protocol).error(error.as_bytes());
    }

    #[inline]
    fn with_ctx<R>(
        &mut self,
        call: &Call<'_>,
        held: &Held,
        version: Version,
        out: &mut Vec<u8>,
        f: impl FnOnce(&mut Ctx<'_>) -> R,
    ) -> R {
        f(&mut Ctx {
            args: call.args,
            db: Db::new(&self.shared.keyspace, held, &mut self.local, &self.clock, call.db, version),
            out: Reply::sharing(out, call.protocol, &mut self.parts),
            fx: &mut self.fx,
            events: &mut self.events,
            now: self.now,
            rng: &mut self.rng,
            tunables: &self.tunables,
            scan_end: self.scan_end,
            only_reads: self.only_reads,
            in_script: self.in_script,
            first: call.first,
            patient: call.seat.is_some() && self.shared.asides.is_open() && !self.insists,
            prepared: if self.waited { self.asides.take(call.token) } else { None },
        })
    }

    fn walk_held(
        &mut self,
        call: &Call<'_>,
        begin: fn(&mut Ctx<'_>) -> Result<Box<dyn command::Walk>, Error>,
        held: &Held,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match self.with_ctx(call, held, Version::ZERO, out, begin) {
            Ok(walk) => {
                let mut walking = Walker::new(walk, call.db, call.protocol);
                self.finish_walk_held(&mut walking, held, out);
            }
            Err(error) => Reply::new(out, call.protocol).error(error.as_bytes()),
        }
        Outcome::Done
    }

    /// True if a reader may come across expired fields of a hash: it deletes them, which is a write.
    #[inline]
    fn may_drop_fields(&mut self, call: &Call<'_>, held: &Held) -> bool {
        if !call.row.spec.has(flags::EXPIRES_FIELDS) {
            return false;
        }
        let db = self.view(held, call.db);
        held.is_all() || held.slots().iter().any(|&slot| db.may_expire(slot))
    }

    /// True if a client waits for changes in the held slots.
    #[inline]
    pub(crate) fn has_interest(&self, held: &Held) -> bool {
        self.shared.tracking.is_broadcasting()
            || held.is_all()
            || held.slots().iter().any(|&slot| self.shared.keyspace.interest(held, slot))
    }

    /// True if there is something for the worker to send on: wake-ups, served replies, notifications, or keys that
    /// clients must forget.
    #[inline]
    pub fn has_news(&self) -> bool {
        !(self.wakes.is_empty()
            && self.served.is_empty()
            && self.published.is_empty()
            && self.events.list.is_empty()
            && self.invalidated.is_empty())
    }

    /// Keyspace notifications to publish now, in the order of their events. Those of a block come when it has ended.
    #[inline]
    pub fn take_published(&mut self) -> Vec<Event> {
        self.published.append(&mut self.events.list);
        std::mem::take(&mut self.published)
    }

    /// Makes notifications of the effects behind the last event of the command.
    #[cold]
    fn tell_sightings(&mut self) {
        let seen = self.local.take_sightings();
        self.events.tell(seen);
    }

    /// Notes a keyspace notification.
    pub(crate) fn event(&mut self, class: u32, name: &'static str, db: u16, key: &Key<'_>) {
        self.events.push(class, name, db, key.bytes);
    }

    /// Frees about `allocations` of the flushed or deleted memory. True: more is left.
    pub fn step_garbage(&mut self, allocations: usize) -> bool {
        if let Some(reclaim) = self.reclaims.last_mut()
            && reclaim.step(&mut self.local, allocations)
        {
            self.reclaims.pop();
        }
        let _ = self.forgotten.pop();
        let done = self.local.step_dying(allocations);
        !done || !self.reclaims.is_empty() || !self.forgotten.is_empty()
    }

    /// True if there is something for [`Self::step_garbage`].
    pub fn has_garbage(&mut self) -> bool {
        !self.reclaims.is_empty() || !self.forgotten.is_empty() || self.local.has_dying()
    }
}

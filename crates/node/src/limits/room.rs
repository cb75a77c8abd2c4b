//! Making room when memory is full (`maxmemory`).
//!
//! With a policy, keys are deleted as Redis deletes them. Without one (`noeviction`) and with a store, keys that the
//! store has as they are leave memory, and come back when a command needs them. If there are no such keys, a command
//! that needs room waits for a checkpoint.
//!
//! If samples still find nothing, every key is visited, and all that can leave do. The others have changed since, and
//! leave after another checkpoint. Or they were just fetched for a command, and leave when it has run. The command that
//! needs room waits for that, unless it would not fit if it had all the room that data can have.
//!
//! If there is nothing to wait for, the node counts how much data is in memory. If that is little, the server itself
//! takes the rest, and data gets some room beside it. Only without a store, or if much data must stay, the answer is
//! -OOM. If data stays because a disk takes nothing, the answer is -MISCONF and the disk's error.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use engine::{Order, Policy, Room, Stayed};
use resp::Args;

use super::shortage::BARREN_MS;
use super::system::{fault_of_disk, moves_to_store};
use crate::admission::memory::{OOM, OOM_RESIDENT};
use crate::clock::MonoNs;
use crate::config::{EvictionPolicy, Settings};
use crate::durability::checkpoints::Ticket;
use crate::figures::latency::Event;
use crate::figures::stats::add;
use crate::node::Node;
use crate::table::Command;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::token::Token;
use crate::worker::wait::Wait;

/// Time for eviction in a turn per step of `maxmemory-eviction-tenacity`, in nanoseconds (as in Redis).
const EVICTION_NS: u64 = 50_000;
/// Most time for eviction in a turn.
const EVICTION_NS_MAX: u64 = 2_000_000;
/// Writes wait for eviction when memory is above the limit by more than this part of it: 0.8%.
const EXCESS: u64 = 128;
/// Milliseconds between two checks whether there is room for waiting connections.
pub(crate) const ROOM_LOOK_MS: u64 = 2;
/// Rounds of waiting, one after the other, for checkpoints and for fetched keys.
const ROUNDS_MAX: u32 = 32;
/// Milliseconds between two checks whether commands have used the keys that were fetched for them.
const FETCHED_LOOK_MS: u64 = 10;

impl Worker {
    /// Evicts keys if memory is above the limit, or would be with `more` bytes, within this turn's time for it.
    pub(crate) fn make_room(&mut self, settings: &Settings, more: u64) -> Room {
        match self.try_to_make_room(settings, more) {
            // The process needs too much besides data: no command is refused for that.
            Room::None if more == 0 && self.only_overhead_is_too_much(settings) => Room::Enough,
            room => room,
        }
    }

    /// True if the process needs too much besides data, but not for the system: that would end the process.
    fn only_overhead_is_too_much(&self, settings: &Settings) -> bool {
        let bound = self.node.memory_bound(settings).unwrap_or(u64::MAX);
        self.moves_to_store(settings) && !self.node.uses_more_than((bound / 2).min(self.node.system_limit()))
    }

    fn try_to_make_room(&mut self, settings: &Settings, more: u64) -> Room {
        let limit = self.limit(settings).saturating_sub(more);
        let node = self.node.clone();
        let above = || node.uses_more_than(limit);
        if !above() {
            self.memory.shortage.rounds = 0;
            self.engine.end_round();
            return Room::Enough;
        }
        let policy = self.policy(settings);
        let to_store = policy.is_some_and(|policy| policy.to_store);
        if policy.is_some() && !to_store && self.paused.is_some() && !headroom::is_limited() {
            // Data stays as it is until CLIENT PAUSE is over, and writes wait for that.
            return Room::Enough;
        }
        if !to_store && !self.may_log() {
            return Room::None;
        }
        if to_store && let Some(room) = self.known_shortage(settings) {
            return room;
        }
        let now = node.clock.monotonic_ns();
        if self.memory.evict_until == MonoNs::default() {
            let time = EVICTION_NS * u64::from(settings.maxmemory_eviction_tenacity);
            self.memory.evict_until = now + time.min(EVICTION_NS_MAX);
        } else if now >= self.memory.evict_until {
            return Room::Soon;
        }
        let until = self.memory.evict_until;
        let room = self.engine.make_room(policy, above, || node.clock.monotonic_ns() < until);
        self.meter.event(Event::EvictionCycle, node.clock.monotonic_ns().since(now));
        if to_store { self.note_shortage(room, settings) } else { room }
    }

    /// The last finding, if it still holds.
    fn known_shortage(&mut self, settings: &Settings) -> Option<Room> {
        if self.engine.now() < self.memory.shortage.barren_until {
            return Some(Room::None);
        }
        if let Some((before, look_at)) = self.memory.shortage.fetched {
            let now = self.engine.now();
            if now < look_at {
                return Some(Room::Dirty);
            }
            let is_there = self.node.engine.keyspace.has_known_before(before);
            self.memory.shortage.fetched = is_there.then_some((before, now + FETCHED_LOOK_MS));
            if is_there {
                return Some(Room::Dirty);
            }
        }
        let ticket = self.memory.shortage.ticket?;
        let checkpoints = self.node.checkpoints()?;
        match checkpoints.outcome(ticket) {
            None => Some(Room::Dirty),
            Some(true) => None,
            Some(false) => {
                self.memory.shortage.ticket = None;
                Some(self.barren(settings))
            }
        }
    }

    /// True if keys could be evicted if less were waiting for the log, and the log takes writes.
    pub(crate) fn awaits_log_to_evict(&self, settings: &Settings) -> bool {
        settings.maxmemory_policy != EvictionPolicy::NoEviction
            && self.promises.backlog.is_over()
            && self.promise().is_none_or(|durable| durable.takes_writes())
    }

    /// Forgets the waits for checkpoints: there are none any more.
    pub(crate) fn forget_shortage(&mut self) {
        (self.memory.shortage.ticket, self.memory.shortage.fetched, self.memory.shortage.rounds) = (None, None, 0);
        self.memory.shortage.barren_until = UnixMs::ZERO;
    }

    fn note_shortage(&mut self, room: Room, settings: &Settings) -> Room {
        let ticket = self.memory.shortage.ticket.take();
        match room {
            Room::Enough => return room,
            Room::Soon => {
                self.memory.shortage.ticket = ticket;
                return room;
            }
            // There are no keys at all.
            Room::None => return self.barren(settings),
            Room::Dirty => {}
        }
        let stayed = match ticket {
            // A checkpoint was just made, and samples still find nothing.
            Some(ticket) => match self.look_at_all(ticket, settings) {
                (Room::None, stayed) => stayed,
                (room, _) => {
                    self.memory.shortage.ticket = Some(ticket);
                    return room;
                }
            },
            None => Stayed { changed: true, ..Stayed::default() },
        };
        if stayed == Stayed::default() || self.memory.shortage.rounds >= ROUNDS_MAX {
            return self.barren(settings);
        }
        self.memory.shortage.rounds += 1;
        if stayed.changed {
            let node = self.node.clone();
            self.memory.shortage.ticket = node.checkpoints().map(|checkpoints| checkpoints.ask(true));
        } else {
            // Locks end with their transactions. The worker does not hear of that, but looks.
            let before = if stayed.fetched { self.node.engine.keyspace.next_load() } else { 0 };
            self.memory.shortage.fetched = Some((before, self.engine.now() + FETCHED_LOOK_MS));
            self.memory.shortage.ticket = ticket;
        }
        Room::Dirty
    }

    /// Goes on with a round over all keys, in which all that can leave do, after this checkpoint.
    fn look_at_all(&mut self, ticket: Ticket, settings: &Settings) -> (Room, Stayed) {
        let node = self.node.clone();
        let (limit, until) = (self.limit(settings), self.memory.evict_until);
        self.engine.evict_all(ticket, || node.uses_more_than(limit), || node.clock.monotonic_ns() < until)
    }

    /// True if a command fits beside its fetched keys when all other data has left memory. Otherwise it would wait for
    /// ever: its keys would leave before it runs, and come back.
    pub(crate) fn may_fit(&mut self, conn: &Conn, settings: &Settings, command: &Command, args: Args<'_>) -> bool {
        let node = self.node.clone();
        let (engine, db, mut keys) = (&mut self.engine, conn.session.db, Vec::new());
        let mut bytes_of = |command: &Command, args: Args<'_>| {
            keys.clear();
            command.spec.keys_of(args, &mut keys);
            engine.bytes_in_memory(db, keys.iter().filter_map(|at| args.get(at.index)))
        };
        let own: u64 = match conn.session.multi.as_ref().filter(|_| command.name == "exec") {
            None => bytes_of(command, args),
            Some(multi) => {
                let queue = multi.queue.iter().enumerate();
                queue.map(|(i, queued)| bytes_of(node.table.get(queued.command), multi.batch.args(i, &[]))).sum()
            }
        };
        if own <= Node::least_data(node.memory_bound(settings).unwrap_or(u64::MAX)) {
            return true;
        }
        // So much data would have to leave. It is not counted further.
        let most = (node.used_memory() + own).saturating_sub(self.limit(settings));
        most == 0 || self.engine.data_in_memory(most) >= most
    }

    /// Nothing can leave memory, not even after a checkpoint: there is no room, unless little of the memory is data.
    fn barren(&mut self, settings: &Settings) -> Room {
        self.memory.shortage.rounds = 0;
        let data = self.engine.data_in_memory(Node::least_data(settings.maxmemory));
        let now = self.engine.now();
        if self.node.make_do(settings.maxmemory, data, now) {
            return Room::Enough;
        }
        self.memory.shortage.barren_until = now + BARREN_MS;
        Room::None
    }

    /// True if a command that may need memory must wait until more keys are evicted. Redis would let it run. This
    /// server would then exceed the limit by all that clients send faster than keys are evicted.
    pub(crate) fn must_wait_for_room(&self, settings: &Settings) -> bool {
        let excess =
            if settings.maxmemory_policy == EvictionPolicy::NoEviction { 0 } else { settings.maxmemory / EXCESS };
        self.node.uses_more_than(self.limit(settings).saturating_add(excess))
    }

    /// Bytes that may be in use. With a store, the process stays within `maxmemory`; without one, as in Redis, the
    /// memory that it has asked for.
    fn limit(&self, settings: &Settings) -> u64 {
        self.node.usable_now(settings, self.engine.now())
    }

    fn moves_to_store(&self, settings: &Settings) -> bool {
        moves_to_store(&self.node, settings)
    }

    /// The error for a command that lacks room, with `more` bytes of its own. `forwarded`: the command came from
    /// another node.
    pub(crate) fn out_of_memory(&mut self, settings: &Settings, more: u64, forwarded: bool) -> Cow<'static, str> {
        if let Some(fault) = fault_of_disk(&self.node, self.promise(), settings) {
            // A command for which there would be no room even without data is not refused for the disk.
            let excess = (self.node.used_memory() + more).saturating_sub(self.limit(settings));
            let (now, engine) = (self.engine.now(), &mut self.engine);
            if more == 0 || self.memory.shortage.counted.is_at_least(excess, now, |most| engine.data_in_memory(most)) {
                return self.signed(fault, forwarded).into();
            }
        }
        if settings.maxmemory == 0 || self.node.uses_more_than(self.node.system_limit()) {
            headroom::OOM
        } else if self.moves_to_store(settings) {
            OOM_RESIDENT
        } else {
            OOM
        }
        .into()
    }

    /// True if the log takes no writes: a command that writes is refused, and need not wait for room.
    fn is_refused_by_log(&self) -> bool {
        self.promise().is_some_and(|durable| durable.refusal().is_some())
    }

    /// The connection waits for a checkpoint, with its command unread.
    pub(crate) fn wait_for_room(&mut self, conn: &mut Conn) -> Next {
        add(&self.stats.parked, 1);
        conn.wait = Wait::Room;
        self.shortage_waits(conn.token);
        Next::Retry
    }

    /// Makes a task that writes wait for a checkpoint, as connections do that need room. False: it need not.
    pub(crate) fn task_waits_for_room(&mut self, token: Token) -> bool {
        let settings = self.follower.settings().clone();
        if !self.node.is_bounded(&settings) || self.is_refused_by_log() {
            return false;
        }
        if self.make_room(&settings, 0) != Room::Dirty {
            return false;
        }
        self.shortage_waits(token);
        true
    }

    fn shortage_waits(&mut self, token: Token) {
        if self.memory.shortage.waiting.is_empty() {
            self.memory.shortage.look_at = self.engine.now() + ROOM_LOOK_MS;
        }
        self.memory.shortage.waiting.push(token);
        self.stats.awaits_room.store(self.memory.shortage.waiting.len() as u64, Relaxed);
    }

    /// The connection waits for room no more.
    pub(crate) fn leave_room(&mut self, token: Token) {
        self.memory.shortage.waiting.retain(|other| *other != token);
        self.stats.awaits_room.store(self.memory.shortage.waiting.len() as u64, Relaxed);
    }

    /// Resumes commands that wait for room, when there is some or there will be none.
    pub(crate) fn look_at_shortage(&mut self, now: UnixMs, settings: &Settings) {
        if self.memory.shortage.waiting.is_empty() || now < self.memory.shortage.look_at {
            return;
        }
        let waits = self.node.is_bounded(settings) && !self.is_refused_by_log();
        if waits && self.make_room(settings, 0) == Room::Dirty {
            self.memory.shortage.look_at = now + ROOM_LOOK_MS;
            return;
        }
        self.stats.awaits_room.store(0, Relaxed);
        for token in std::mem::take(&mut self.memory.shortage.waiting) {
            if self.unpark_task(token) {
                continue;
            }
            let Some(conn) = self.conn(token) else { continue };
            if let Wait::Room = conn.wait {
                conn.wait = Wait::No;
                self.resume(token);
            }
        }
    }

    fn policy(&self, settings: &Settings) -> Option<Policy> {
        use EvictionPolicy::*;
        let (volatile, order) = match settings.maxmemory_policy {
            NoEviction => (false, Order::Access),
            VolatileLru | VolatileLfu | VolatileLrm => (true, Order::Access),
            VolatileRandom => (true, Order::Random),
            VolatileTtl => (true, Order::Expiry),
            AllKeysLru | AllKeysLfu | AllKeysLrm => (false, Order::Access),
            AllKeysRandom => (false, Order::Random),
        };
        let to_store = self.moves_to_store(settings);
        if settings.maxmemory_policy == NoEviction && !to_store {
            return None;
        }
        Some(Policy { volatile, order, samples: settings.maxmemory_samples as usize, to_store })
    }
}

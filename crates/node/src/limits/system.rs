//! The limits of memory, as the node reads them, and the part of them that data may take.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;

use super::resident::{GiveBack, LEAST_DATA, meant};
use crate::config::{EvictionPolicy, Settings};
use crate::durability::durable::Durable;
use crate::node::Node;

/// Between two looks, in milliseconds. A look costs some microseconds.
const LOOK_MS: u64 = 5;
/// Between two looks at swapped memory, which cost more.
const LOOK_SWAP_MS: u64 = 50;

/// Part of the limit that a checkpoint takes while it writes: 1/32.
const TABLES: u64 = 32;

/// Where a policy deletes keys, log and store may use this part of the limit beside it: 1/14.
const DURABLE_SHARE: u64 = 14;

/// True if data goes to the store when memory is full.
pub(crate) fn moves_to_store(node: &Node, settings: &Settings) -> bool {
    settings.maxmemory_policy == EvictionPolicy::NoEviction && node.engine.source.is_there()
}

/// The error of a disk that keeps data in memory, if there is one: then memory is not what has to be mended.
pub(crate) fn fault_of_disk(node: &Node, log: Option<&Durable>, settings: &Settings) -> Option<String> {
    log.and_then(Durable::refusal).or_else(|| {
        let why = node.checkpoints().filter(|_| moves_to_store(node, settings))?.failure()?;
        Some(format!("MISCONF Memory is full, and data cannot leave it for the store, as checkpoints fail: {why}"))
    })
}

impl Node {
    // ---- the address space

    /// Reads how much the system's limits leave, if there are any.
    pub(crate) fn look_at_limits(&self) {
        if !headroom::is_limited() {
            return;
        }
        self.look_at_address_space();
        if self.facts.resident_max > 0 {
            self.look_at_resident(self.resident_bound(&self.config.settings()), self.clock.unix_ms());
        }
        headroom::note_left(self.left_for_data());
        if headroom::is_tight() != self.address_space.is_tight.swap(headroom::is_tight(), Relaxed) {
            let (mapped, used) = (self.address_space.mapped.load(Relaxed), self.used_memory());
            let (scripts, usable, reserve) = (script::memory(), self.system_limit(), headroom::mapped());
            match headroom::is_tight() {
                true => {
                    tracing::warn!(
                        mapped,
                        used,
                        usable,
                        scripts,
                        reserve,
                        "memory is tight: requests that may be refused are refused"
                    )
                }
                false => tracing::info!(mapped, used, usable, scripts, reserve, "memory is not tight any more"),
            }
        }
    }

    fn look_at_address_space(&self) {
        let Some(mapped) = self.facts.mapped else { return };
        // Another thread is doing it.
        let Ok(mut seen) = self.address_space.seen.try_lock() else { return };
        // In this order: memory that is given up meanwhile counts as mapped.
        let reserve = headroom::mapped();
        let mapped = mapped().saturating_sub(reserve);
        let scripts = script::memory() as u64;
        let begins = self.address_space.workers.load(Relaxed) < self.workers();
        *seen = seen.look(mapped, self.used_memory() + scripts, headroom::refusals(), begins);
        if headroom::missing() == 0 && self.is_time_to_forget() {
            seen.forget();
        }
        let taken = seen.overhead() + scripts + headroom::margin(headroom::limit());
        self.address_space.usable.store(headroom::limit().saturating_sub(taken), Relaxed);
        self.address_space.mapped.store(mapped, Relaxed);
        headroom::restock(mapped);
    }

    /// Notes that a worker has begun: the memory that it needs besides data is mapped.
    pub(crate) fn worker_has_begun(&self) {
        // Before it counts: the memory of the last worker is not data's either.
        self.look_at_limits();
        self.address_space.workers.fetch_add(1, Relaxed);
    }

    fn is_time_to_forget(&self) -> bool {
        self.address_space.is_time_to_forget(self.clock.unix_ms())
    }

    /// The bytes of memory, as [`Self::uses_more_than`] counts them, up to which the process stays within the system's
    /// limit of its address space; `u64::MAX` without one.
    pub fn address_limit(&self) -> u64 {
        if self.facts.mapped.is_some() { self.address_space.usable.load(Relaxed) } else { u64::MAX }
    }

    /// Reads the limits unless that was done in the last few milliseconds.
    pub(crate) fn look_at_limits_now(&self, now: UnixMs) {
        if headroom::is_limited() && now.abs_diff(UnixMs(self.address_space.looked_at.load(Relaxed))) >= LOOK_MS {
            self.address_space.looked_at.store(now.0, Relaxed);
            self.look_at_limits();
        }
    }

    /// The bytes of memory up to which the process stays within all limits of the system; `u64::MAX` without any.
    pub fn system_limit(&self) -> u64 {
        let resident = match self.facts.resident_max {
            0 => u64::MAX,
            most => {
                // `maxmemory` may be less: above it, the system gives more.
                let bound = self.resident_bound(&self.config.settings());
                self.resident_limit(bound).saturating_add(most - bound.min(most))
            }
        };
        self.address_limit().min(resident)
    }

    fn left_for_data(&self) -> i64 {
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let used = self.used_memory();
        let left = signed(self.system_limit()).saturating_sub_unsigned(used);
        match self.facts.resident_max {
            0 => left,
            // It may not be data that takes it.
            most => left.min(signed(most).saturating_sub_unsigned(used + self.resident_beyond())),
        }
    }

    /// Bytes that the system's limits leave for data at this moment; negative where the margin is in use.
    pub fn left(&self) -> i64 {
        self.look_at_limits();
        self.left_for_data()
    }

    // ---- what is resident

    fn give_back(&self) -> std::sync::MutexGuard<'_, GiveBack> {
        self.resident.give_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads how much is resident within this limit.
    pub(crate) fn look_at_resident(&self, limit: u64, now: UnixMs) {
        self.resident.looked_at.store(now.0, Relaxed);
        if self.resident.limit.load(Relaxed) != limit
            && let Some(give_back_soon) = self.facts.give_back_soon
        {
            give_back_soon();
        }
        if now.abs_diff(UnixMs(self.resident.swapped_at.load(Relaxed))) >= LOOK_SWAP_MS {
            self.resident.swapped_at.store(now.0, Relaxed);
            self.resident.swapped.store(self.facts.swapped.map_or(0, |swapped| swapped()), Relaxed);
        }
        let swapped = self.resident.swapped.load(Relaxed);
        let resident = || self.facts.resident.map_or(0, |resident| resident() + swapped);
        let mut now_resident = resident();
        let store = self.checkpoints().map_or(0, |checkpoints| {
            // The memory in which a checkpoint writes its tables.
            let tables = if checkpoints.state().began.is_some() { limit / TABLES } else { 0 };
            checkpoints.store().map_or(0, |store| store.may_take()) + tables
        });
        // Data need not leave as long as other memory is free.
        if now_resident > meant(limit, store)
            && let Some(give_back) = self.facts.give_back
            && self.give_back().is_due(now)
        {
            give_back();
            let before = std::mem::replace(&mut now_resident, resident());
            self.give_back().note(before.saturating_sub(now_resident), limit);
        }
        let (used, resident) = (self.used_memory(), now_resident);
        let mut control = self.resident.control.lock().unwrap_or_else(PoisonError::into_inner);
        self.resident.usable.store(control.look(now, limit, used, resident.max(used), store), Relaxed);
        self.resident.limit.store(limit, Relaxed);
        self.resident.beyond.store(resident.saturating_sub(used), Relaxed);
    }

    /// The use of memory, as [`Self::uses_more_than`] counts it, up to which the process stays within `limit` bytes as
    /// the system counts them.
    pub fn resident_limit(&self, limit: u64) -> u64 {
        if limit > 0 && self.resident.limit.load(Relaxed) != limit {
            self.look_at_resident(limit, self.clock.unix_ms());
        }
        if limit == 0 { 0 } else { self.resident.usable.load(Relaxed) }
    }

    /// Memory is above the limit, though at most `data` bytes of it are keys: the server needs the rest to work. Some
    /// data may be beside that, as far as the limit goes. Returns whether that is more than there is now.
    pub(crate) fn make_do(&self, limit: u64, data: u64, now: UnixMs) -> bool {
        self.resident.make_do(limit, self.used_memory(), data, now)
    }

    /// The most data that [`Self::make_do`] makes do with.
    pub(crate) fn least_data(limit: u64) -> u64 {
        limit / LEAST_DATA
    }

    /// [`Self::resident_limit`], from a look that is a few milliseconds old at most, where that matters.
    pub(crate) fn resident_limit_now(&self, limit: u64, now: UnixMs) -> u64 {
        if now.abs_diff(UnixMs(self.resident.looked_at.load(Relaxed))) >= LOOK_MS && self.uses_more_than(limit / 2) {
            self.look_at_resident(limit, now);
        }
        self.resident_limit(limit).max(self.resident.floor(limit, now))
    }

    /// The memory that the process may take, in bytes: the least of `maxmemory` and the system's limits; `None` without
    /// any.
    pub fn memory_bound(&self, settings: &Settings) -> Option<u64> {
        let address_space = headroom::limit().saturating_sub(headroom::margin(headroom::limit()));
        let bounds = [
            (settings.maxmemory > 0, settings.maxmemory),
            (self.facts.resident_max > 0, self.facts.resident_max),
            (self.facts.mapped.is_some(), address_space),
        ];
        bounds.into_iter().filter(|(is_there, _)| *is_there).map(|(_, bytes)| bytes).min()
    }

    /// True if anything bounds memory.
    #[inline]
    pub(crate) fn is_bounded(&self, settings: &Settings) -> bool {
        settings.maxmemory > 0 || headroom::is_limited()
    }

    /// The bytes of memory, as [`Self::uses_more_than`] counts them, up to which there is room; `u64::MAX` without a
    /// bound.
    pub fn usable(&self, settings: &Settings) -> u64 {
        self.usable_of(settings, |limit| self.resident_limit(limit))
    }

    /// [`Self::usable`], from a look that is a few milliseconds old at most, where that matters.
    pub fn usable_now(&self, settings: &Settings, now: UnixMs) -> u64 {
        self.look_at_limits_now(now);
        self.usable_of(settings, |limit| self.resident_limit_now(limit, now))
    }

    fn usable_of(&self, settings: &Settings, resident: impl Fn(u64) -> u64) -> u64 {
        let own = match settings.maxmemory {
            0 => u64::MAX,
            _ if moves_to_store(self, settings) => u64::MAX,
            most => most + self.not_counted(settings),
        };
        let resident = match self.resident_bound(settings) {
            0 => u64::MAX,
            most => resident(most),
        };
        own.min(resident).min(self.address_limit())
    }

    /// Bytes that may be in use beyond `maxmemory`: where a policy deletes keys, log and store work beside them. Redis
    /// does not count its log's buffer either. It is a fixed part: their present use goes up and down with every
    /// checkpoint, and at each peak keys would go.
    pub fn not_counted(&self, settings: &Settings) -> u64 {
        match self.engine.source.is_there() && !moves_to_store(self, settings) {
            true => settings.maxmemory / DURABLE_SHARE,
            false => 0,
        }
    }

    /// Bytes that may be resident: `maxmemory` where data moves to the store, and what a control group allows; 0 for no
    /// bound.
    pub(crate) fn resident_bound(&self, settings: &Settings) -> u64 {
        let own = if moves_to_store(self, settings) { settings.maxmemory } else { 0 };
        [own, self.facts.resident_max].into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(0)
    }

    /// Resident bytes that [`Self::used_memory`] does not count, as of the last look.
    pub fn resident_beyond(&self) -> u64 {
        self.resident.beyond.load(Relaxed)
    }
}

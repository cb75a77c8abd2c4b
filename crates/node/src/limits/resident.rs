//! How much the process may use, so that it stays within `maxmemory` as the system counts it.
//!
//! The system counts resident pages: also those that allocators keep for later, stacks, and code. With a store,
//! `maxmemory` limits all of that. It also limits the pages that the system has swapped out, because data belongs into
//! the store and not there.
//!
//! While little room is left, the node reads the resident size every few milliseconds. It adapts how much may be in
//! use: more as there is room, and no more when there is none. Memory of data that has left stays resident for some
//! time, as free blocks among others, or with an allocator. So an excess is asked for once, and again only if that has
//! not helped after a while. Asking at each look would drive all data out.
//!
//! The allocator is told to keep nothing for long. It is asked for free memory before data has to leave. By itself it
//! keeps free memory for a second, and half of the resident memory beside data was free then.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clocks::UnixMs;

/// Part of the limit that is left free for growth between two looks, and for a checkpoint when nothing can leave memory
/// before it ends: 1/16.
const MARGIN: u64 = 16;
/// Part of the limit that is left free at least: with less, data has to leave memory. 1/32.
const LEAST_MARGIN: u64 = 32;
/// Milliseconds between two requests to the allocator for free memory: at least so many, and more where little comes of
/// it. A request costs up to some milliseconds, and page faults when the memory is used again.
const GIVE_BACK_MS: u64 = 20;
const GIVE_BACK_MS_MAX: u64 = 160;
/// Less than this part of the limit is little: 1/128.
const LITTLE: u64 = 128;
/// Milliseconds for which the node waits until memory of data that has left is no longer resident.
const SETTLE_MS: u64 = 200;
/// Bytes that a server needs to work at all: so much may be in use in any case, and a quarter of the limit.
const NEEDED: u64 = 36 << 20;

/// Data may use this part of the limit in any case, beside everything else.
pub(super) const LEAST_DATA: u64 = 8;
/// Milliseconds for which the finding about that is believed.
const FLOOR_MS: u64 = 1000;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Resident {
    /// This much may be in use in any case, until this time.
    pub(super) floor: AtomicU64,
    pub(super) floor_until: AtomicU64,
    /// The limit, and how much may be in use within it, as of the last look.
    pub(super) usable: AtomicU64,
    pub(super) limit: AtomicU64,
    /// Time of the last look, Unix milliseconds.
    pub(super) looked_at: AtomicU64,
    /// Resident bytes that `used_memory` does not count.
    pub(super) beyond: AtomicU64,
    /// Bytes that are swapped out, and the time when they were read.
    pub(super) swapped: AtomicU64,
    pub(super) swapped_at: AtomicU64,
    pub(super) control: Mutex<Control>,
    pub(super) give_back: Mutex<GiveBack>,
}

impl Resident {
    /// See [`Node::make_do`]; `used` bytes are in use.
    pub(super) fn make_do(&self, limit: u64, used: u64, data: u64, now: UnixMs) -> bool {
        let floor = (used.saturating_sub(data) + limit / LEAST_DATA).min(limit);
        self.floor.store(floor, Relaxed);
        self.floor_until.store((now + FLOOR_MS).0, Relaxed);
        floor > used
    }

    /// Bytes that may be in use within this limit in any case. It may be another limit than the one that the finding is
    /// about: a control group's beside `maxmemory`.
    pub(super) fn floor(&self, limit: u64, now: UnixMs) -> u64 {
        if now.0 < self.floor_until.load(Relaxed) { self.floor.load(Relaxed).min(limit) } else { 0 }
    }
}

/// The state about one limit. All in bytes, times in milliseconds.
#[derive(Default)]
pub(super) struct Control {
    limit: u64,
    usable: u64,
    /// While more is resident than intended: the time since which nothing was asked for, and the most that was resident
    /// since then.
    above: Option<(UnixMs, u64)>,
}

/// When the allocator is asked for free memory.
#[derive(Default)]
pub(super) struct GiveBack {
    at: UnixMs,
    pause: u64,
}

impl GiveBack {
    /// True if it is to be asked now. If so, the caller asks.
    pub(super) fn is_due(&mut self, now: UnixMs) -> bool {
        let is_due = now.abs_diff(self.at) >= self.pause.max(GIVE_BACK_MS);
        if is_due {
            self.at = now;
        }
        is_due
    }

    /// Notes how many bytes the request has freed.
    pub(super) fn note(&mut self, bytes: u64, limit: u64) {
        let is_little = bytes < limit / LITTLE;
        self.pause = if is_little { (2 * self.pause).clamp(GIVE_BACK_MS, GIVE_BACK_MS_MAX) } else { GIVE_BACK_MS };
    }
}

/// The intended maximum of resident bytes, if the store may take `store` more.
pub(super) fn meant(limit: u64, store: u64) -> u64 {
    (limit - limit / MARGIN).saturating_sub(store)
}

impl Control {
    /// Takes the bytes in use and resident now, and the bytes that the store may still take. Returns the bytes that may
    /// be in use; not less than a server needs.
    pub(super) fn look(&mut self, now: UnixMs, limit: u64, used: u64, resident: u64, store: u64) -> u64 {
        if self.limit != limit {
            *self = Self { limit, usable: used, above: None };
        }
        let most = limit - limit / LEAST_MARGIN;
        let meant = meant(limit, store);
        match (resident.checked_sub(meant), &mut self.above) {
            (None | Some(0), above) => {
                *above = None;
                self.usable = used + (meant - resident);
            }
            (Some(_), Some((since, highest))) if now.abs_diff(*since) < SETTLE_MS => {
                // The excess so far does not count again.
                let more = resident.saturating_sub(*highest).saturating_sub(used.saturating_sub(self.usable));
                self.usable = self.usable.saturating_sub(more);
                *highest = resident.max(*highest);
            }
            (Some(excess), above) => {
                self.usable = if resident > most { used.saturating_sub(excess) } else { self.usable.max(used) };
                *above = Some((now, resident));
            }
        }
        let least = NEEDED.max(limit / 4).min(limit);
        self.usable.clamp(least, limit.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn first(limit: u64, used: u64, resident: u64) -> u64 {
        Control::default().look(UnixMs(0), limit, used, resident, 0)
    }

    #[test]
    fn what_is_resident_leaves_less_for_data() {
        assert_eq!(first(1024 * MB, 500 * MB, 500 * MB), 960 * MB);
        assert_eq!(first(1024 * MB, 500 * MB, 600 * MB), 860 * MB);
        assert_eq!(first(1024 * MB, 100 * MB, 1000 * MB), 256 * MB, "at least a quarter");
        assert_eq!(
            Control::default().look(UnixMs(0), 1024 * MB, 500 * MB, 600 * MB, 20 * MB),
            840 * MB,
            "the store's part"
        );
        assert_eq!(first(48 * MB, 10 * MB, 40 * MB), 36 * MB, "at least what a server needs");
        assert_eq!(first(20 * MB, 10 * MB, 30 * MB), 20 * MB);
    }

    /// Buffers of a server may take many times its limit: data got room beside them, again and again.
    #[test]
    fn what_the_server_needs_is_not_more_than_the_limit() {
        let resident = Resident::default();
        let makes_do =
            |limit, used, data| (resident.make_do(limit, used, data, UnixMs(7)), resident.floor(limit, UnixMs(8)));
        assert_eq!(makes_do(800 * MB, 600 * MB, 50 * MB), (true, 650 * MB));
        assert_eq!(makes_do(800 * MB, 790 * MB, 50 * MB), (true, 800 * MB), "no more than the limit");
        for (limit, used) in [(10, 12), (10, 10), (36, 37), (100, 2000)] {
            let (is_more, floor) = makes_do(limit * MB, used * MB, 0);
            assert!(!is_more && floor <= limit * MB, "{floor} bytes of {limit} MB where {used} MB are in use");
        }
        // A control group may allow less than maxmemory.
        assert!(resident.make_do(1024 * MB, 90 * MB, 10 * MB, UnixMs(7)));
        assert_eq!([resident.floor(1024 * MB, UnixMs(8)), resident.floor(100 * MB, UnixMs(8))], [208 * MB, 100 * MB]);
        assert_eq!(resident.floor(1024 * MB, UnixMs(7 + FLOOR_MS)), 0);
    }

    #[test]
    fn what_is_too_much_is_asked_for_once() {
        let (mut control, limit) = (Control::default(), 1024 * MB);
        assert_eq!(control.look(UnixMs(0), limit, 800 * MB, 900 * MB, 0), 860 * MB);
        assert_eq!(control.look(UnixMs(5), limit, 860 * MB, 970 * MB, 0), 860 * MB, "no more, and no less");
        assert_eq!(
            control.look(UnixMs(10), limit, 865 * MB, 975 * MB, 0),
            860 * MB,
            "what is above that has to leave anyway"
        );
        assert_eq!(control.look(UnixMs(15), limit, 855 * MB, 980 * MB, 0), 855 * MB, "what has come is too much");
        assert_eq!(control.look(UnixMs(15), limit, 850 * MB, 1000 * MB, 0), 835 * MB);
        // Data has left memory, and is still resident.
        for now in 20..200 {
            assert_eq!(control.look(UnixMs(now), limit, 830 * MB, 1000 * MB, 0), 835 * MB);
        }
        assert_eq!(control.look(UnixMs(205), limit, 830 * MB, 1000 * MB, 0), 790 * MB, "that has not helped");
        assert_eq!(control.look(UnixMs(210), limit, 790 * MB, 940 * MB, 0), 810 * MB, "now it has");
    }

    #[test]
    fn the_allocator_is_asked_less_often_where_little_comes_of_it() {
        let mut give_back = GiveBack::default();
        let mut asked = |freed: u64, from: u64, until: u64| -> Vec<u64> {
            (from..until)
                .filter(|now| {
                    let is_due = give_back.is_due(UnixMs(*now));
                    if is_due {
                        give_back.note(freed, 128 * MB);
                    }
                    is_due
                })
                .collect()
        };
        assert_eq!(asked(MB, 1000, 1050), [1000, 1020, 1040]);
        assert_eq!(asked(MB - 1, 1050, 1900), [1060, 1100, 1180, 1340, 1500, 1660, 1820]);
        assert_eq!(asked(MB, 1900, 2050), [1980, 2000, 2020, 2040], "something has come of it again");
    }

    #[test]
    fn a_little_too_much_is_no_reason_to_let_data_go() {
        let (mut control, limit) = (Control::default(), 1024 * MB);
        assert_eq!(control.look(UnixMs(0), limit, 800 * MB, 960 * MB, 0), 800 * MB);
        for now in (0..10_000).step_by(5) {
            assert_eq!(control.look(UnixMs(now), limit, 790 * MB, 980 * MB, 0), 800 * MB);
        }
    }
}

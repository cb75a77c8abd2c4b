//! The 24 access bits of an entry, as Redis keeps them. They are an LRU clock in seconds, or LFU state: 16 bits of
//! minutes and 8 bits of a logarithmic counter. They are written only when they change, which for LRU is once a second.
//! With an LRM policy the clock says when the key was changed last: reads leave it alone.

use std::cell::Cell;

use clocks::UnixMs;

/// Counter of a key never used before (Redis `LFU_INIT_VAL`).
pub const LFU_INIT: u32 = 5;
const BITS: u32 = 0x00ff_ffff;

/// The meaning of access bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tracks {
    /// When the key was used last (LRU).
    #[default]
    Use,
    /// How often it is used (LFU).
    Frequency,
    /// When it was changed last (LRM).
    Change,
}

/// The clock of one worker, set once per turn.
pub struct AccessClock {
    /// Unix time in seconds, or in minutes where frequencies are tracked.
    now: u32,
    tracks: Tracks,
    log_factor: u32,
    decay_minutes: u32,
    /// False while a client with CLIENT NO-TOUCH runs.
    touching: bool,
    rng: Cell<u64>,
}

impl AccessClock {
    /// A clock whose chance begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { now: 0, tracks: Tracks::Use, log_factor: 10, decay_minutes: 1, touching: true, rng: Cell::new(seed | 1) }
    }

    /// Sets time and policy: now, the meaning of the bits, lfu-log-factor and lfu-decay-time.
    pub fn set(&mut self, now: UnixMs, tracks: Tracks, log_factor: u32, decay_minutes: u32) {
        self.tracks = tracks;
        self.now = if self.is_lfu() { (now.0 / 60_000) as u32 & 0xffff } else { now.seconds() as u32 & BITS };
        self.log_factor = log_factor;
        self.decay_minutes = decay_minutes;
    }

    /// True if reads change access bits (CLIENT NO-TOUCH).
    pub fn set_touching(&mut self, on: bool) {
        self.touching = on;
    }

    /// The bits of a new key.
    #[inline]
    pub fn fresh(&self) -> u32 {
        if self.is_lfu() { self.now << 8 | LFU_INIT } else { self.now }
    }

    /// The bits of a key that is used now and had `was`.
    #[inline]
    pub fn touched(&self, was: u32) -> u32 {
        match self.tracks {
            _ if !self.touching => was,
            Tracks::Use => self.now,
            Tracks::Frequency => self.now << 8 | self.incremented(self.frequency(was)),
            Tracks::Change => was,
        }
    }

    /// LFU counter after decay (Redis `LFUDecrAndReturn`).
    pub fn frequency(&self, bits: u32) -> u32 {
        let counter = bits & 0xff;
        if self.decay_minutes == 0 {
            return counter;
        }
        let minutes = self.now.wrapping_sub(bits >> 8) & 0xffff;
        counter.saturating_sub(minutes / self.decay_minutes)
    }

    /// Seconds since the last use, with the LRU clock.
    pub fn idle_seconds(&self, bits: u32) -> u32 {
        self.now.wrapping_sub(bits) & BITS
    }

    /// Bits of a key last used `seconds` ago.
    pub fn bits_for_idle(&self, seconds: u32) -> u32 {
        self.now.wrapping_sub(seconds) & BITS
    }

    /// Bits of a key with this LFU counter.
    pub fn bits_for_frequency(&self, counter: u8) -> u32 {
        self.now << 8 | u32::from(counter)
    }

    /// True if the bits mean LFU.
    #[inline]
    pub fn is_lfu(&self) -> bool {
        self.tracks == Tracks::Frequency
    }

    /// The meaning of the bits, with their value.
    #[inline]
    pub fn tracks(&self) -> Tracks {
        self.tracks
    }

    /// One use more with probability 1 / ((counter - initial) * factor + 1) (Redis `LFULogIncr`).
    fn incremented(&self, counter: u32) -> u32 {
        if counter == 255 {
            return 255;
        }
        let base = counter.saturating_sub(LFU_INIT);
        let chance = u64::from(base * self.log_factor) + 1;
        let mut x = self.rng.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.rng.set(x);
        if (x >> 11).is_multiple_of(chance) { counter + 1 } else { counter }
    }
}

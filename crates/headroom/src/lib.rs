//! What the system still gives the process, where it limits the address space (`ulimit -v`, RLIMIT_AS, RLIMIT_DATA) or, by a control group, the
//! memory.
//!
//! An allocation that the system refuses ends the process, and so does a control group's limit: so it must not come to that. Writes are refused while less
//! is left than a margin (`node/resident.rs`). What may be large is asked for before it is made ([`has_room`]): the
//! answer may be an error then. And what neither foresees takes from a reserve of address space that is kept mapped ([`release`]) until there is room
//! for it again ([`restock`]); until then memory is *tight* ([`is_tight`]): what can be refused is, be it ever so small.
//!
//! Without a limit nothing is kept, everything fits, and it costs a load.

#![warn(clippy::missing_errors_doc)]

mod reserve;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

pub use reserve::{mapped, missing, refusals, release, restock};

/// Blocks below this many bytes are not asked for unless memory is tight: the margin has them.
pub const LARGE: usize = 256 << 10;
/// The largest argument is this part of the limit: who handles it may need a few times as much.
const LARGEST: u64 = 64;
/// A string is at most this part of the limit: who changes it, and the log, copy it up to four times.
const STRING: u64 = 32;
/// A piece of the reserve is this part of the limit: the largest block fits twice, as who grows may ask for.
const PIECE: u64 = 16;
/// Part of the limit that what clients send and are answered may take of the margin: else nobody could be told that there is no room.
const TALK: u64 = 8;
/// Eighths of the limit that data does not get: one is the reserve, one what clients may take, one for checkpoints, threads and what comes between
/// two looks.
const MARGIN: u64 = 3;
/// The margin is at least this, in bytes.
const MARGIN_MIN: u64 = 32 << 20;
/// The error of who is refused for want of it. Clients know the code.
pub const OOM: &str = "OOM the system's limit of this process's memory leaves no room for this";

/// Bytes of address space that the system allows; `u64::MAX` for no limit.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes that a control group allows to be resident; `u64::MAX` for no limit.
static RESIDENT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes that clients may take of what data does not get.
static TALK_MOST: AtomicU64 = AtomicU64::new(0);
/// Bytes of the largest string.
static STRING_MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// True if there is a limit of any kind.
static LIMITED: AtomicBool = AtomicBool::new(false);
/// Bytes that were left for data at the last look.
static LEFT: AtomicI64 = AtomicI64::new(0);
static TIGHT: AtomicBool = AtomicBool::new(false);
static ASKED: OnceLock<Asked> = OnceLock::new();

/// Who knows what is left.
pub struct Asked {
    /// How many bytes are left for data, less than none where something takes of the margin.
    pub left: Box<dyn Fn() -> i64 + Send + Sync>,
    /// True if the allocator has a block of so many bytes without the reserve.
    pub has_block: fn(usize) -> bool,
}

/// Notes that the system allows the process `bytes` of address space, and maps the reserve. Once, at the start.
pub fn limit_to(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
    TALK_MOST.store(bytes / TALK, Relaxed);
    STRING_MOST.store(bytes / STRING, Relaxed);
    LIMITED.store(true, Relaxed);
    restock(0);
}

/// Notes that `bytes` may be resident, of whose margin clients may take `talk`. Once, after [`limit_to`].
pub fn limit_resident(bytes: u64, talk: u64) {
    RESIDENT.store(bytes, Relaxed);
    STRING_MOST.fetch_min(bytes / STRING, Relaxed);
    let most = if limit() == u64::MAX { talk } else { talk.min(limit() / TALK) };
    TALK_MOST.store(most, Relaxed);
    LIMITED.store(true, Relaxed);
}

/// Bytes of address space that the system allows; `u64::MAX` for no limit.
#[inline]
pub fn limit() -> u64 {
    LIMIT.load(Relaxed)
}

/// Bytes that a control group allows to be resident; `u64::MAX` for no limit.
#[inline]
pub fn resident() -> u64 {
    RESIDENT.load(Relaxed)
}

/// True if the system limits the address space or what is resident.
#[inline]
pub fn is_limited() -> bool {
    LIMITED.load(Relaxed)
}

/// True if so little is left that everything that can be refused has to be: never without a limit.
#[inline]
pub fn is_tight() -> bool {
    TIGHT.load(Relaxed)
}

/// True if nothing is left for data: never without a limit.
#[inline]
pub fn is_short() -> bool {
    LEFT.load(Relaxed) < 0
}

/// Says what was found at a look: so many bytes are left for data, less than none where something takes of the margin. While a part of the reserve is
/// missing, there must be as much besides.
pub fn note_left(left: i64) {
    let missing = reserve::missing();
    LEFT.store(left, Relaxed);
    TIGHT.store(left.saturating_add_unsigned(talk()) < 0 || missing > 0 && left < missing as i64, Relaxed);
}

/// Bytes that were left for data at the last look: none where something took of the margin.
pub fn was_left() -> u64 {
    LEFT.load(Relaxed).try_into().unwrap_or(0)
}

/// Bytes of the largest string that a command may make.
pub fn largest_string() -> u64 {
    STRING_MOST.load(Relaxed)
}

/// Bytes that what clients send and are answered may take of what data does not get.
pub fn talk() -> u64 {
    TALK_MOST.load(Relaxed)
}

/// What of a limit data does not get, in bytes.
pub fn margin(limit: u64) -> u64 {
    (limit / 8 * MARGIN).max(MARGIN_MIN)
}

/// Bytes of the largest argument.
pub fn largest() -> u64 {
    limit() / LARGEST
}

/// Sets who knows what is left. Once; another is not taken.
pub fn ask(asked: Asked) {
    let _ = ASKED.set(asked);
}

/// True if there is room for `bytes` more, of which `largest` at most are one block. Some microseconds for what is large, and only where there is a limit.
#[inline]
pub fn has_room(bytes: usize, largest: usize) -> bool {
    !is_limited() || bytes < LARGE && !is_tight() || ask_for(bytes, largest, 0)
}

/// The same for what a client sends or is answered, which may take a part of the margin.
#[inline]
pub fn has_room_to_talk(bytes: usize, largest: usize) -> bool {
    !is_limited() || bytes < LARGE && !is_tight() || ask_for(bytes, largest, talk())
}

/// True if there is room for one block of `bytes` more.
#[inline]
pub fn fits(bytes: usize) -> bool {
    has_room(bytes, bytes)
}

#[cold]
fn ask_for(bytes: usize, largest: usize, talk: u64) -> bool {
    let Some(asked) = ASKED.get() else { return true };
    let left = (asked.left)().saturating_add_unsigned(talk);
    left >= i64::try_from(bytes).unwrap_or(i64::MAX) && (largest < LARGE || (asked.has_block)(largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_asked_for() {
        assert!(fits(usize::MAX) && !is_limited() && !is_tight());
        ask(Asked { left: Box::new(|| 10 << 20), has_block: |bytes| bytes <= 5 << 20 });
        assert!(ask_for(10 << 20, 5 << 20, 0));
        assert!(!ask_for(11 << 20, 5 << 20, 0) && ask_for(11 << 20, 5 << 20, 1 << 20));
        assert!(!ask_for(10 << 20, 6 << 20, 0), "a block that the allocator does not have");
        assert_eq!((margin(1 << 30), margin(96 << 20)), (384 << 20, 36 << 20));
    }
}

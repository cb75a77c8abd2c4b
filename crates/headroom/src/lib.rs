//! The memory that the system still gives the process. The system may limit the address space (`ulimit -v`: RLIMIT_AS,
//! RLIMIT_DATA) or, by a control group, resident memory.
//!
//! A refused allocation ends the process, and so does a control group's limit. Three means prevent that:
//! - Writes are refused while less than a margin is left (`node/src/limits/resident.rs`).
//! - A handler asks for large memory before it allocates it ([`has_room`]), when it can still answer an error.
//! - Any other refused allocation takes from a reserve of address space that is kept mapped ([`release`]), until there
//!   is room for the reserve again ([`restock`]). Until then memory is *tight* ([`is_tight`]): every request that can
//!   be refused is, however small.
//!
//! Without a limit nothing is reserved, everything fits, and a check costs one load.

#![warn(clippy::missing_errors_doc)]

mod reserve;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

pub use reserve::{mapped, missing, refusals, release, restock};

/// Blocks below this many bytes are not asked for unless memory is tight: they come out of the margin.
pub const LARGE: usize = 256 << 10;
/// The largest argument is this part of the limit: a handler may need a few times as much.
const LARGEST: u64 = 64;
/// The largest string is this part of the limit: a command that changes it, and the log, copy it up to four times.
const STRING: u64 = 32;
/// A piece of the reserve is this part of the limit: the largest block fits in it twice, as a buffer that grows may
/// need.
const PIECE: u64 = 16;
/// Requests and replies of clients may take this part of the limit from the margin. Otherwise no client could be told
/// that there is no room.
const TALK: u64 = 8;
/// Eighths of the limit that data does not get. One is the reserve, one is for clients, one for checkpoints, threads
/// and allocations between two measurements.
const MARGIN: u64 = 3;
/// Bytes of the margin, at least.
const MARGIN_MIN: u64 = 32 << 20;
/// The error of a request that the limit refuses. Clients know the code.
pub const OOM: &str = "OOM the system's limit of this process's memory leaves no room for this";

/// Bytes of address space that the system allows; `u64::MAX` for no limit.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes of resident memory that a control group allows; `u64::MAX` for no limit.
static RESIDENT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes of the margin that clients may take.
static TALK_MOST: AtomicU64 = AtomicU64::new(0);
/// Bytes of the largest string.
static STRING_MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// True if there is a limit of any kind.
static LIMITED: AtomicBool = AtomicBool::new(false);
/// Bytes that were left for data at the last measurement.
static LEFT: AtomicI64 = AtomicI64::new(0);
static TIGHT: AtomicBool = AtomicBool::new(false);
static ASKED: OnceLock<Asked> = OnceLock::new();

/// Functions that measure how much is left.
pub struct Asked {
    /// Bytes that are left for data. Negative if other uses take more than the margin.
    pub left: Box<dyn Fn() -> i64 + Send + Sync>,
    /// True if the allocator has a block of so many bytes without the reserve.
    pub has_block: fn(usize) -> bool,
}

/// Notes that the system allows the process `bytes` of address space, and maps the reserve. Called once, at the start.
pub fn limit_to(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
    TALK_MOST.store(bytes / TALK, Relaxed);
    STRING_MOST.store(bytes / STRING, Relaxed);
    LIMITED.store(true, Relaxed);
    restock(0);
}

/// Notes that `bytes` may be resident, and that clients may take `talk` of the margin. Called once, after [`limit_to`].
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

/// Bytes of resident memory that a control group allows; `u64::MAX` for no limit.
#[inline]
pub fn resident() -> u64 {
    RESIDENT.load(Relaxed)
}

/// True if the system limits the address space or resident memory.
#[inline]
pub fn is_limited() -> bool {
    LIMITED.load(Relaxed)
}

/// True if so little is left that every request that can be refused has to be: never without a limit.
#[inline]
pub fn is_tight() -> bool {
    TIGHT.load(Relaxed)
}

/// True if nothing is left for data: never without a limit.
#[inline]
pub fn is_short() -> bool {
    LEFT.load(Relaxed) < 0
}

/// Notes that `left` bytes are left for data; negative if other uses take more than the margin. While a part of the
/// reserve is missing, at least as much must be left besides.
pub fn note_left(left: i64) {
    let missing = reserve::missing();
    LEFT.store(left, Relaxed);
    TIGHT.store(left.saturating_add_unsigned(talk()) < 0 || missing > 0 && left < missing as i64, Relaxed);
}

/// Bytes that were left for data at the last measurement; 0 if other uses took more than the margin.
pub fn was_left() -> u64 {
    LEFT.load(Relaxed).try_into().unwrap_or(0)
}

/// Bytes of the largest string that a command may make.
pub fn largest_string() -> u64 {
    STRING_MOST.load(Relaxed)
}

/// Bytes of the margin that requests and replies of clients may take.
pub fn talk() -> u64 {
    TALK_MOST.load(Relaxed)
}

/// Bytes of a limit that data does not get.
pub fn margin(limit: u64) -> u64 {
    (limit / 8 * MARGIN).max(MARGIN_MIN)
}

/// Bytes of the largest argument.
pub fn largest() -> u64 {
    limit() / LARGEST
}

/// Sets the functions that measure how much is left. Called once; later calls do nothing.
pub fn ask(asked: Asked) {
    let _ = ASKED.set(asked);
}

/// True if there is room for `bytes` more, of which at most `largest` are one block. Takes some microseconds for a
/// large block, and only under a limit.
#[inline]
pub fn has_room(bytes: usize, largest: usize) -> bool {
    !is_limited() || bytes < LARGE && !is_tight() || ask_for(bytes, largest, 0)
}

/// As [`has_room`], for a client's request or reply, which may take a part of the margin.
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

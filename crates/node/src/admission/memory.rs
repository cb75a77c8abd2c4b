//! Checks that there is memory for a command that needs some.

use command::{Spec, flags};
use engine::Room;
use resp::Args;

/// Redis's text.
pub(crate) const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// The same where all resident memory counts.
pub(crate) const OOM_RESIDENT: &str = "OOM command not allowed when used memory > 'maxmemory'. What data may take of it is maxmemory_usable in INFO memory.";
/// The error for the caller of a script that does not declare that it can do without memory.
pub(crate) const NO_ALLOW_OOM: &str =
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";

/// True if a command is refused when memory is full.
#[inline]
pub(crate) fn needs(spec: &Spec) -> bool {
    spec.has(flags::DENYOOM)
}

/// The memory that a command with large arguments needs, where the system limits it: the value, and its copies on the
/// way to the log. It is more than the engine asks for.
pub(crate) fn bytes_of(args: Args<'_>) -> u64 {
    let bytes: usize = args.iter().map(<[u8]>::len).sum();
    if bytes < headroom::LARGE { 0 } else { 6 * bytes as u64 }
}

/// The verdict on a client's command about room in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes on.
    GoesOn,
    /// It runs again in the next turn, when more keys have been evicted.
    Retries,
    /// It waits until a checkpoint makes room, if its own keys leave it any.
    AwaitsRoom,
    /// It waits until the log has less to write: then keys can be evicted.
    AwaitsLog,
    /// It is refused.
    Refused,
}

/// The state around a command that may lack memory.
pub(crate) struct Shortage<N, W, L> {
    /// It, or a command of the block that it executes, is refused when memory is full; or it joins a block.
    pub(crate) needs: N,
    /// It needs memory beside its keys, in bytes.
    pub(crate) more: u64,
    /// Eviction is so far behind that writes wait for it.
    pub(crate) must_wait: W,
    /// Keys can be evicted as soon as the log has less to write.
    pub(crate) log_delays: L,
}

/// The verdict on a client's command. After `AwaitsRoom` the caller still has to check that its keys leave it room.
#[inline]
pub(crate) fn verdict(
    room: Room,
    shortage: Shortage<impl FnOnce() -> bool, impl FnOnce() -> bool, impl FnOnce() -> bool>,
) -> Verdict {
    match room {
        Room::Enough => Verdict::GoesOn,
        _ if !(shortage.needs)() => Verdict::GoesOn,
        Room::Soon if shortage.more > 0 || (shortage.must_wait)() => Verdict::Retries,
        Room::Soon => Verdict::GoesOn,
        Room::Dirty => Verdict::AwaitsRoom,
        Room::None if (shortage.log_delays)() => Verdict::AwaitsLog,
        Room::None => Verdict::Refused,
    }
}

/// True if a script's command is refused. A script that has begun to write goes on. The command counts, not what it
/// would do.
pub(crate) fn refuses_script(spec: &Spec, no_memory: bool, wrote: bool) -> bool {
    no_memory && needs(spec) && !wrote
}

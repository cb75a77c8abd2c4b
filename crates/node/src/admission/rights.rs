//! Who may run a command: the client has logged in, and its user has the right.
//!
//! A client that has not logged in is a stranger. It may call what logs in, and what it sends and is sent has small bounds.

use ::membership::items::Principal;
use command::{Spec, flags};
use resp::{Args, Limits};

use crate::config::OutputLimit;

/// What a stranger hears.
pub(crate) const NOAUTH: &[u8] = b"NOAUTH Authentication required.";

/// Most that a stranger may have sent without its being executed, in bytes, as in Redis.
const STRANGER_INPUT_MAX: u64 = 1 << 20;
/// What replies to a stranger may come to, beyond what fits the first buffer, as in Redis: it has nothing to read but errors.
const STRANGER_OUTPUT: OutputLimit = OutputLimit { hard: 1024, soft: 0, seconds: 0 };

/// Whether a client has to log in before it runs this command.
#[inline]
pub(crate) fn must_log_in(spec: &Spec, authenticated: bool) -> bool {
    !authenticated && !spec.has(flags::NO_AUTH)
}

/// Why a user may not run this command with these arguments, if so.
///
/// A user is a number and the revision of the table of users by which it has its rights. The table has one user today, the
/// default one, to whom nothing is denied. So this is nothing at all in a built binary.
#[inline(always)]
pub(crate) fn refusal(_: Principal, _: &Spec, _: Args<'_>) -> Option<Vec<u8>> {
    None
}

/// By which limits what a client sends is parsed. `argument_max`: bytes of an argument at most. The parser has the limits of
/// a stranger: 10 arguments of 16 KB.
#[inline]
pub(crate) fn limits_of_parser(authenticated: bool, argument_max: usize) -> Limits {
    Limits { proto_max_bulk_len: argument_max, authenticated }
}

/// How many commands are parsed at once. What follows AUTH is parsed with the limits that AUTH has changed.
#[inline]
pub(crate) fn parsed_at_once(authenticated: bool, most: usize) -> usize {
    if authenticated { most } else { 1 }
}

/// Whether a client has sent more than it may without its being executed, in bytes.
#[inline]
pub(crate) fn sent_too_much(authenticated: bool, pending: u64, limit: u64) -> bool {
    pending > limit || (pending > STRANGER_INPUT_MAX && !authenticated)
}

/// What a client's output may come to.
#[inline]
pub(crate) fn output_limit(authenticated: bool, limit: OutputLimit) -> OutputLimit {
    if authenticated { limit } else { STRANGER_OUTPUT }
}

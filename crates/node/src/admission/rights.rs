//! Who may run a command: the client has logged in, and its user has the right.
//!
//! A client that has not logged in is a stranger. It may call the commands that log in, and its input and output have
//! small bounds.

use ::membership::items::Principal;
use command::{Spec, flags};
use resp::{Args, Limits};

use crate::config::OutputLimit;

/// The error for a stranger.
pub(crate) const NOAUTH: &[u8] = b"NOAUTH Authentication required.";

/// Most bytes of a stranger's unexecuted input, as in Redis.
const STRANGER_INPUT_MAX: u64 = 1 << 20;
/// The bound of a stranger's output, beyond what fits the first buffer, as in Redis: it gets nothing but errors.
const STRANGER_OUTPUT: OutputLimit = OutputLimit { hard: 1024, soft: 0, seconds: 0 };

/// Whether a client has to log in before it runs this command.
#[inline]
pub(crate) fn must_log_in(spec: &Spec, authenticated: bool) -> bool {
    !authenticated && !spec.has(flags::NO_AUTH)
}

/// The reason why a user may not run this command with these arguments, if there is one.
///
/// A user is a number, and the revision of the table of users that gives it its rights. The table has one user today,
/// the default one, to whom nothing is denied. So the check is empty in a built binary.
#[inline(always)]
pub(crate) fn refusal(_: Principal, _: &Spec, _: Args<'_>) -> Option<Vec<u8>> {
    None
}

/// The limits by which a client's input is parsed. `argument_max`: most bytes of an argument. For a stranger the
/// parser's limits hold: 10 arguments of 16 KB.
#[inline]
pub(crate) fn limits_of_parser(authenticated: bool, argument_max: usize) -> Limits {
    Limits { proto_max_bulk_len: argument_max, authenticated }
}

/// How many commands are parsed at once. Commands behind AUTH are parsed with the limits that AUTH has changed.
#[inline]
pub(crate) fn parsed_at_once(authenticated: bool, most: usize) -> usize {
    if authenticated { most } else { 1 }
}

/// Whether a client has sent more unexecuted bytes than it may.
#[inline]
pub(crate) fn sent_too_much(authenticated: bool, pending: u64, limit: u64) -> bool {
    pending > limit || (pending > STRANGER_INPUT_MAX && !authenticated)
}

/// The bound of a client's output.
#[inline]
pub(crate) fn output_limit(authenticated: bool, limit: OutputLimit) -> OutputLimit {
    if authenticated { limit } else { STRANGER_OUTPUT }
}

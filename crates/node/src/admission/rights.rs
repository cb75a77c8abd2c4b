//! Checks that a client may run a command: it has logged in, and its user has the right.
//!
//! A client that has not logged in is a stranger. It may call the commands that log in, and its input and output have
//! small bounds.

use ::membership::items::Principal;
use command::{Spec, flags};
use resp::{Args, Limits};

use crate::config::OutputLimit;
use crate::table::Command;
use crate::users::{Denial, UserTable};

/// The error for a stranger.
pub(crate) const NOAUTH: &[u8] = b"NOAUTH Authentication required.";

/// Most bytes of a stranger's unexecuted input, as in Redis.
const STRANGER_INPUT_MAX: u64 = 1 << 20;
/// The bound of a stranger's output, beyond what fits the first buffer, as in Redis: it gets nothing but errors.
const STRANGER_OUTPUT: OutputLimit = OutputLimit { hard: 1024, soft: 0, seconds: 0 };

/// The user for whom commands run, as nodes name it to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct User {
    /// The number of the user, and the revision by which it has its rights.
    pub principal: Principal,
    /// The generation of the table of users at which it could do everything.
    pub full_at: u64,
}

impl User {
    /// The user that connections begin as. At first it may do everything.
    pub const DEFAULT: User = User { principal: Principal { user: 0, revision: 0 }, full_at: 0 };
    /// Another node of the cluster, for commands that follow from no client's. No user has this number.
    pub const NODE: User = User { principal: Principal { user: u32::MAX, revision: 0 }, full_at: User::NEVER };
    /// No generation of the table of users.
    pub const NEVER: u64 = u64::MAX;

    /// A user whose rights have to be looked up.
    pub(crate) const fn new(principal: Principal) -> User {
        User { principal, full_at: User::NEVER }
    }
}

/// True if a client has to log in before it runs this command.
#[inline]
pub(crate) fn must_log_in(spec: &Spec, authenticated: bool) -> bool {
    !authenticated && !spec.has(flags::NO_AUTH)
}

/// The reason why a user may not run this command with these arguments, if there is one.
///
/// A user that may do everything costs a comparison: of the generation at which that was found out with the present
/// one.
#[inline(always)]
pub(crate) fn refusal(users: &UserTable, user: &mut User, command: &Command, args: Args<'_>) -> Option<Denial> {
    if user.full_at == users.generation() { None } else { users.refusal(user, command, args) }
}

/// Whether nodes send each other this command to have a virtual connection follow its client's session, and to find out
/// what the client's command needs. The client's node has judged that command, which may be another one.
#[cold]
pub(crate) fn is_of_nodes(command: &Command) -> bool {
    const OF_NODES: [&str; 13] = [
        "select",
        "hello",
        "client|no-touch",
        "client|tracking",
        "client|caching",
        "ping",
        "multi",
        "discard",
        "unwatch",
        "watch",
        "holdfast|receivers",
        "holdfast|text",
        "script|load",
    ];
    // A hidden subcommand is called as its container.
    OF_NODES.contains(&&*command.name) || command.is_hidden() && command.spec.name == "await"
}

/// The limits by which a client's input is parsed. `argument_max`: most bytes of an argument. For a stranger the
/// parser's limits hold: 10 arguments of 16 KB.
#[inline]
pub(crate) fn limits_of_parser(authenticated: bool, argument_max: usize) -> Limits {
    Limits { proto_max_bulk_len: argument_max, authenticated }
}

/// The number of commands that are parsed at once. Commands behind AUTH are parsed with the limits that AUTH has
/// changed.
#[inline]
pub(crate) fn parsed_at_once(authenticated: bool, most: usize) -> usize {
    if authenticated { most } else { 1 }
}

/// True if a client has sent more unexecuted bytes than it may.
#[inline]
pub(crate) fn sent_too_much(authenticated: bool, pending: u64, limit: u64) -> bool {
    pending > limit || (pending > STRANGER_INPUT_MAX && !authenticated)
}

/// The bound of a client's output.
#[inline]
pub(crate) fn output_limit(authenticated: bool, limit: OutputLimit) -> OutputLimit {
    if authenticated { limit } else { STRANGER_OUTPUT }
}

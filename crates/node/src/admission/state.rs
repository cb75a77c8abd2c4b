//! Checks that a command may be called in the state of the session, or of the script.

use command::{Dialect, Reach, Row, Run, Spec, flags};
use resp::{Args, Protocol};

pub(crate) const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
pub(crate) const NOT_FROM_SCRIPT: &str = "ERR This Redis command is not allowed from script";
/// The error for the coordinator of a transaction whose part has such a command.
pub(crate) const NOT_IN_PART: &str = "ERR a command that runs in no transaction over nodes";
/// The error for a client that may not use DEBUG.
pub(crate) const DEBUG_FORBIDDEN: &[u8] = b"ERR DEBUG command not allowed. If the enable-debug-command option is set to \
\"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then \
restart the server.";
const MONITORS: &[u8] = b"ERR Replica can't interact with the keyspace";

/// The commands of a client with subscriptions in RESP2, where replies and messages look alike.
const WHEN_SUBSCRIBED: [&str; 9] =
    ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset"];

/// The state of a client's session and of its node.
pub(crate) struct View<D> {
    /// The node is one of a cluster.
    pub(crate) clustered: bool,
    /// Between MULTI and EXEC.
    pub(crate) in_block: bool,
    /// True if the client may use DEBUG.
    pub(crate) debug_open: D,
    /// In MONITOR mode.
    pub(crate) monitors: bool,
    /// It has subscriptions.
    pub(crate) subscribed: bool,
    /// The protocol of its replies.
    pub(crate) protocol: Protocol,
    /// The server whose texts it gets.
    pub(crate) dialect: Dialect,
}

/// The reason why a client may not call a command now, if there is one.
#[inline]
pub(crate) fn refusal(name: &str, spec: &Spec, view: View<impl FnOnce() -> bool>) -> Option<Vec<u8>> {
    if spec.has(flags::NEEDS_CLUSTER) && !view.clustered {
        return Some(NO_CLUSTER.into());
    }
    if view.in_block
        && let Some(error) = view.dialect.refusal_in_block(name, spec.flags)
    {
        return Some(error.into());
    }
    if spec.has(flags::PROTECTED) && !(view.debug_open)() {
        return Some(DEBUG_FORBIDDEN.into());
    }
    // To Redis, a monitor is a kind of replica.
    const KEYSPACE: u32 = flags::READONLY | flags::WRITE | flags::MAY_REPLICATE;
    if view.monitors && spec.flags & KEYSPACE != 0 {
        return Some(MONITORS.into());
    }
    if view.subscribed && view.protocol == Protocol::Resp2 && !WHEN_SUBSCRIBED.contains(&name) {
        return Some(subscribed(name));
    }
    None
}

#[cold]
fn subscribed(name: &str) -> Vec<u8> {
    format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
         this context"
    )
    .into()
}

/// True if scripts may not call a command. `open` is set if scripts may call forbidden commands (DEBUG
/// SET-DISABLE-DENY-SCRIPTS, as tests of protocols do). It is true if the client may use DEBUG.
pub(crate) fn is_barred_from_scripts(spec: &Spec, open: Option<bool>) -> bool {
    // Commands that run blocks and scripts, wait, or subscribe are never allowed in a script.
    const NEVER: u32 = flags::RUNS_SCRIPT | flags::NO_MULTI | flags::IN_MULTI | flags::PUBSUB | flags::BLOCKING;
    let is_open = open.is_some_and(|debug_open| spec.flags & NEVER == 0 && (!spec.has(flags::PROTECTED) || debug_open));
    spec.has(flags::NOSCRIPT) && !is_open
}

/// True if a command works only on the keys among its arguments: nothing else is locked for a part.
pub(crate) fn works_on_keys_alone(row: &Row<Run>, args: Args<'_>) -> bool {
    !matches!(row.run, Run::Container) && row.run.reach(args) == Reach::Keys
}

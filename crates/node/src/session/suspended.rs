//! Commands that stop in the middle to let others run: scripts, and blocks with scripts in them.

use std::sync::Arc;

use engine::WatchedKey;
use resp::Protocol;
use script::{Checked, Running};

use super::block::Block;
use super::{Flow, Multi};
use crate::admission::Underway;
use crate::clock::MonoNs;
use crate::scripts;

/// A command that was suspended. It holds its latches.
pub struct Suspended {
    pub(super) what: What,
    /// Its reply so far: the client sees nothing of it before the end.
    pub out: Vec<u8>,
}

pub(super) enum What {
    Script(Box<ScriptRun>),
    Exec(Box<Exec>),
}

impl Underway for Suspended {}

/// A block under way.
pub struct Exec {
    pub(super) multi: Box<Multi>,
    pub(super) watched: Vec<WatchedKey>,
    pub(super) block: Block,
    /// The command to run next.
    pub(super) at: usize,
    /// The script that this command is, if it was suspended.
    pub(super) script: Option<Box<ScriptRun>>,
    /// Database and protocol of the session before.
    pub(super) session: (u16, Protocol),
    /// Where the reply begins in the output.
    pub(super) start: usize,
    /// The place where the output became too long: the client will not see the rest, or anything.
    pub(super) overflow: Option<usize>,
    pub(super) flow: Flow,
}

/// A script under way.
pub struct ScriptRun {
    pub(super) running: Running,
    /// Its block, unless it is part of EXEC's.
    pub(super) block: Option<Block>,
    pub(super) rules: Rules,
    /// Database that its commands work on.
    pub(super) db: u16,
    /// Its last request, which has no answer yet.
    pub(super) asked: Asked,
    /// The reply of its last command.
    pub(super) reply: Vec<u8>,
    /// When it began: monotonic nanoseconds.
    pub(super) begun: MonoNs,
    /// Shown to others once it has been running for a while.
    pub(super) job: Option<Arc<scripts::Job>>,
    /// Commands it has called.
    pub(super) calls: u32,
    /// Changes that its block had made when it began.
    pub(super) changes_before: u64,
    /// It has called a command that may write.
    pub(super) wrote: bool,
    /// The function it is, if it is one.
    pub(super) function: Option<Box<str>>,
    /// It was killed.
    pub(super) killed: bool,
    /// It was killed after it had changed something on copies, which are given up with it.
    pub(super) spoils: bool,
}

impl Underway for ScriptRun {}

/// The restrictions of a script.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// No command that writes.
    pub read_only: bool,
    /// No command that needs memory before the first that may write: memory is short.
    pub no_memory: bool,
    /// It declares `allow-oom`: no command of it is refused when memory is full, here or at the owners of its keys.
    pub allow_oom: bool,
}

/// The request that a script waits on.
pub(super) enum Asked {
    /// To begin.
    Beginning,
    /// A command that could not run, because a key was not available. The protocol of the reply.
    Call(Protocol),
    /// The reply of its command, which is there.
    Command,
    /// A question if it may run a command.
    Check(Checked),
    /// Nothing.
    Nothing,
}

//! Admission: the one way from a command to its handler.
//!
//! Five callers run commands: a client, a block (EXEC), a script, a part of a transaction over nodes, and a workspace.
//! Each of them calls [`admit`], which takes the command through every [`Step`]. Only [`admit`] makes an [`Admitted`],
//! and [`Admitted::goes_on`] for a command that it has admitted before. No handler runs without one: it holds the calls
//! of the engine, and the context of a session command has one.
//!
//! The checks themselves are functions over plain inputs, one file for each kind: [`arity`], [`rights`], [`state`],
//! [`write`], [`memory`], [`cluster`]. They own the error texts. A caller has one method for each step. The method
//! gathers the inputs and acts on the verdict: a client gets an error, or waits; a script gets an error.
//!
//! # How callers differ
//! | Step | Client | Block, workspace | Script | Part |
//! |---|---|---|---|---|
//! | arity | the texts of Redis | checked when it was queued | the texts of Redis for scripts | nodes of unlike versions |
//! | rights | `NOAUTH`; the user | the user | the user | the user |
//! | state | MULTI, MONITOR, subscriptions, DEBUG | checked when it was queued | `NOSCRIPT` | works on keys alone |
//! | cluster | runs here, elsewhere, or is told where | whom messages reach | keys of this node, or fetched | its keys are locked |
//! | write | the log takes writes | checked for EXEC | read-only scripts; the log takes writes | checked for the part |
//! | memory | keys are evicted, or -OOM | checked for EXEC; a workspace notes it | before its first write | checked for the part |
//! | now | the log's backlog, CLIENT PAUSE | checked for EXEC | SCRIPT KILL | checked for the part |
//!
//! The order is Redis's, and not the same for a script: see [`Caller::ORDER`].
//!
//! # Keys that are known later
//!
//! [`Step::Rights`] sees the arguments of a command. A script's commands pass it one by one, so it sees keys that a
//! script has not declared. SORT's patterns lead to keys that no argument names: `UserTable::refusal` lets a user give
//! them that may read every key. A node that runs a forwarded command judges it again, by the number and the revision
//! of the user.

pub(crate) mod arity;
pub(crate) mod cluster;
pub(crate) mod memory;
pub(crate) mod rights;
pub(crate) mod state;
pub(crate) mod write;

use std::ops::Deref;

use command::{Row, Run};
use engine::{BlockRun, Call, Engine, Ran};
use resp::Args;

use crate::table::Command;

/// A kind of check that a command passes before its handler runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The command takes so many arguments.
    Arity,
    /// The client may run it: it has logged in, and its user has the right.
    Rights,
    /// The session, or the script, is in a state in which it may be called.
    State,
    /// It runs at this node.
    Cluster,
    /// If it writes, it may: the script does not only read, and the log takes writes.
    Write,
    /// If it needs memory, there is some.
    Memory,
    /// It need not wait.
    Now,
}

impl Step {
    /// How many there are.
    pub(crate) const COUNT: usize = 7;
}

/// Redis's order for the commands of clients.
pub(crate) const AS_OF_CLIENTS: [Step; Step::COUNT] =
    [Step::Arity, Step::Rights, Step::State, Step::Cluster, Step::Write, Step::Memory, Step::Now];
/// Redis's order for the commands of scripts: memory comes before the keys.
pub(crate) const AS_OF_SCRIPTS: [Step; Step::COUNT] =
    [Step::Arity, Step::State, Step::Rights, Step::Write, Step::Memory, Step::Cluster, Step::Now];

/// A caller of commands.
///
/// A step is `Ok` if the command passes it. A step that another check has covered says so, and returns `Ok`.
pub(crate) trait Caller {
    /// The order of the steps. Each of them stands in it once: [`admit`] does not compile otherwise.
    const ORDER: [Step; Step::COUNT];
    /// The caller's action in place of the handler.
    type Instead;

    /// [`Step::Arity`].
    fn arity(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::Rights`].
    fn rights(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::State`].
    fn state(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::Cluster`].
    fn cluster(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::Write`].
    fn write(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::Memory`].
    fn memory(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
    /// [`Step::Now`].
    fn now(&mut self, command: &Command, args: Args<'_>) -> Result<(), Self::Instead>;
}

/// Takes a command through every step in the caller's order. The first step that it does not pass decides what the
/// caller does instead.
#[inline(always)]
pub(crate) fn admit<'t, C: Caller>(
    command: &'t Command,
    args: Args<'_>,
    caller: &mut C,
) -> Result<Admitted<'t>, C::Instead> {
    const { assert!(is_whole(&C::ORDER), "each step stands in the order once") };
    step::<C, 0>(command, args, caller)?;
    step::<C, 1>(command, args, caller)?;
    step::<C, 2>(command, args, caller)?;
    step::<C, 3>(command, args, caller)?;
    step::<C, 4>(command, args, caller)?;
    step::<C, 5>(command, args, caller)?;
    step::<C, 6>(command, args, caller)?;
    Ok(Admitted { command })
}

/// Step `AT` of the caller's order, which the compiler knows.
#[inline(always)]
fn step<C: Caller, const AT: usize>(command: &Command, args: Args<'_>, caller: &mut C) -> Result<(), C::Instead> {
    match const { C::ORDER[AT] } {
        Step::Arity => caller.arity(command, args),
        Step::Rights => caller.rights(command, args),
        Step::State => caller.state(command, args),
        Step::Cluster => caller.cluster(command, args),
        Step::Write => caller.write(command, args),
        Step::Memory => caller.memory(command, args),
        Step::Now => caller.now(command, args),
    }
}

/// True if each step stands in an order once.
const fn is_whole(order: &[Step; Step::COUNT]) -> bool {
    let (mut seen, mut at) = (0u32, 0);
    while at < Step::COUNT {
        seen |= 1 << order[at] as u32;
        at += 1;
    }
    seen == (1 << Step::COUNT) - 1
}

/// The rest of a command that has begun and stopped in the middle: it was admitted then.
pub(crate) trait Underway {}

/// A command that has been admitted: by [`admit`], or before it stopped in the middle. No handler runs without one.
#[derive(Clone, Copy)]
pub struct Admitted<'t> {
    command: &'t Command,
}

impl<'t> Admitted<'t> {
    /// A command that was admitted, stopped in the middle, and goes on.
    #[inline]
    pub(crate) fn goes_on(command: &'t Command, _: &impl Underway) -> Self {
        Self { command }
    }

    /// Runs its handler, as a command by itself.
    #[inline]
    pub(crate) fn execute(self, engine: &mut Engine, call: &Call<'_>, out: &mut Vec<u8>) -> Ran {
        debug_assert!(self.has(call.row), "the handler of another command");
        engine.run(call, out)
    }

    /// Runs its handler in a block.
    #[inline]
    pub(crate) fn execute_in_block(
        self,
        engine: &mut Engine,
        block: &mut BlockRun,
        call: &Call<'_>,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(self.has(call.row), "the handler of another command");
        engine.run_in_block(block, call, out);
    }

    /// Runs its handler in an attempt of a transaction over nodes.
    #[inline]
    pub(crate) fn execute_in_attempt(
        self,
        engine: &mut Engine,
        block: &mut BlockRun,
        call: &Call<'_>,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(self.has(call.row), "the handler of another command");
        engine.run_in_attempt(block, call, out);
    }

    fn has(self, row: &Row<Run>) -> bool {
        self.command.data_row().is_some_and(|own| std::ptr::eq(own, row))
    }
}

impl Deref for Admitted<'_> {
    type Target = Command;

    #[inline]
    fn deref(&self) -> &Command {
        self.command
    }
}

#[cfg(test)]
mod tests;

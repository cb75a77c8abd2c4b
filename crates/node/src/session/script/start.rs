//! How a script begins: its keys, its rules, and its block.

use command::{Error, flags::READONLY};
use engine::Begin;
use script::{Flags, Running};

use super::super::suspended::{Rules, ScriptRun};
use super::super::{Block, Flow, SessionCtx};
use crate::admission::memory;
use crate::limits::system::fault_of_disk;

/// The number of keys, which is argument 2. `not_a_number` is the error if it is no number.
pub(super) fn numkeys(ctx: &SessionCtx<'_>, not_a_number: Error) -> Result<usize, Error> {
    let count = keyspace::canonical_int(ctx.arg(2)).ok_or(not_a_number)?;
    if count > ctx.args.len() as i64 - 3 {
        return Err(Error::new("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Error::new("ERR Number of keys can't be negative"))
}

/// The rules of the script, by its declared flags (`None`: a script without a shebang) and by the command that runs it.
pub(super) fn rules(ctx: &SessionCtx<'_>, flags: Option<Flags>) -> Result<Rules, Error> {
    let read_only = ctx.command.spec.has(READONLY);
    let short = ctx.session.short_of_memory;
    let Some(flags) = flags else { return Ok(Rules { read_only, no_memory: short, allow_oom: false }) };
    if read_only && !flags.no_writes {
        return Err(Error::new("ERR Can not execute a script with write flag using *_ro command."));
    }
    if short && !flags.allow_oom && !flags.no_writes {
        let fault = fault_of_disk(ctx.node, ctx.log, ctx.settings);
        return Err(fault.map_or(Error::new(memory::NO_ALLOW_OOM), |fault| Error::text(ctx.signed(fault))));
    }
    let (read_only, allow_oom) = (read_only || flags.no_writes, flags.allow_oom);
    Ok(Rules { read_only, no_memory: short && !allow_oom, allow_oom })
}

/// Runs a script in a block of its own or in the present one. `begin` makes it from a machine, keys and arguments.
pub(super) fn start(
    ctx: &mut SessionCtx<'_>,
    numkeys: usize,
    rules: Rules,
    function: Option<&str>,
    begin: impl FnOnce(&mut SessionCtx<'_>) -> Result<Running, Error>,
) -> Result<Flow, Error> {
    let mut own = if ctx.block.is_some() {
        None
    } else {
        let db = ctx.session.db;
        let declared: smallvec::SmallVec<[_; 8]> = ctx.args.iter().skip(3).take(numkeys).map(|key| (db, key)).collect();
        let again = ctx.session.again.take();
        let how = Begin {
            declared: &declared,
            may_widen: true,
            stays_undoable: ctx.may_go_over(),
            again: again.as_deref().map(|retry| &retry.again),
            ..Begin::default()
        };
        match ctx.engine.begin_block(&how, ctx.token) {
            Ok(block) => block.map(|block| Block::new(block, ctx, again.as_deref())),
            Err(busy) => {
                ctx.session.again = again;
                return Ok(Flow::Busy(busy));
            }
        }
    };
    if ctx.monitored {
        // Before the commands that it calls.
        let (node, db, args) = (ctx.node, ctx.session.db, ctx.args);
        let client = ctx.session.client.clone();
        if let Some(block) = own.as_mut().or(ctx.block.as_deref_mut()) {
            block.show(node, db, &client.peer.address, args);
        }
    }
    match begin(ctx) {
        Ok(running) => {
            let run = Box::new(ScriptRun::new(ctx, running, function, own, rules));
            Ok(run.go_on(ctx))
        }
        Err(error) => {
            if let Some(block) = own {
                block.end(ctx);
            }
            Err(error)
        }
    }
}

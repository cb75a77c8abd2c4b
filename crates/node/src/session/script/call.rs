//! A command that a script calls: what it may not do, and how it runs in the script's block.

use std::sync::atomic::Ordering::Relaxed;

use command::flags;
use engine::Busy;
use keyspace::Need;
use resp::{Args, Protocol, Reply};
use script::Checked;
use txn::locks::Mode;

use crate::cluster::{Asks, Call};
use crate::compatibility;
use crate::durability::durable::Durable;
use crate::figures::stats::add;
use crate::limits::system::{self, fault_of_disk};
use crate::session::suspended::ScriptRun;
use crate::session::{Block, Flow, SessionCtx, Undone, debug_is_open, handler_of, locks_of, run};
use crate::table::{Command, Handler};

const NOT_FROM_SCRIPT: &str = "ERR This Redis command is not allowed from script";

impl ScriptRun {
    /// Runs the command the script asks for. An error of any kind is a reply.
    pub(super) fn call(
        &mut self,
        ctx: &mut SessionCtx<'_>,
        block: &mut Block,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        let node = ctx.node;
        let db = self.db;
        let args = self.running.args();
        let checked = find(ctx, args).and_then(|command| match self.allowed(ctx, command) {
            Ok(()) => Ok(command),
            Err(text) => {
                add(&ctx.stats.commands[command.counted_as].rejected, 1);
                Err(text)
            }
        });
        let command = match checked {
            Ok(command) => command,
            Err(text) => {
                ctx.stats.count_error(&text);
                Reply::new(reply, protocol).error(&text);
                return Ok(());
            }
        };
        if let Some(aside) = &mut ctx.aside
            && !aside.has_keys(command, args, db, ctx.settings.databases)
        {
            if !self.rules.read_only {
                // What it reads it may write later: nobody shares that with it then.
                aside.missing.iter_mut().for_each(|lock| lock.mode = Mode::Exclusive);
            }
            return Err(Busy { need: Need::Slots(Default::default()), slot: 0, awaited: true });
        }
        if let Some(error) = self.refusal(ctx, block, command, args)? {
            add(&ctx.stats.commands[command.counted_as].rejected, 1);
            ctx.stats.count_error(error);
            Reply::new(reply, protocol).error(error);
            return Ok(());
        }
        if ctx.peers.is_some() {
            ctx.note_scan(command, args);
            match ctx.asks(command, args, db, ctx.aside.is_some() || block.run.can_be_undone()) {
                Asks::Nothing => {}
                Asks::Answered => {
                    ctx.answer(block, command, args, db, (protocol, reply));
                    ctx.meter.ran(command.counted_as);
                    ctx.session.client.count_besides(1);
                    return Ok(());
                }
                Asks::Waits(busy) => return Err(busy),
                Asks::Fails(error) => {
                    add(&ctx.stats.commands[command.counted_as].rejected, 1);
                    ctx.stats.count_error(error);
                    Reply::new(reply, protocol).error(error);
                    return Ok(());
                }
            }
        }
        if command.spec.has(flags::WRITE) && ctx.aside.is_none() && !self.may_change() {
            // It ends instead.
            return Ok(());
        }
        if !self.wrote {
            ctx.note_memory(command);
            self.wrote = command.spec.has(flags::WRITE);
        }
        if ctx.session.no_touch {
            ctx.engine.clock().set_touching(command.name == "touch");
        }
        match command.handler {
            Handler::Data(row) => {
                let first = match command.has_one_key {
                    true => args.get(1).map(|key| node.engine.keyspace.hasher().key(key)),
                    false => None,
                };
                let caller = ctx.caller();
                let call =
                    engine::Call { row, args, first, db: self.db, protocol, token: ctx.token, seat: None, caller };
                ctx.engine.widen_block(&mut block.run, &call)?;
                // Long strings that are there are EXEC's; the script gets a copy of its own.
                let outer = std::mem::take(&mut ctx.engine.parts);
                ctx.engine.in_script = true;
                ctx.engine.run_in_block(&mut block.run, &call, reply);
                ctx.engine.in_script = false;
                ctx.engine.parts.copy_into(reply);
                ctx.engine.parts = outer;
            }
            Handler::Session(row) => {
                // The session's database and protocol are the script's while its command runs.
                let (db, before) = (ctx.session.db, ctx.session.protocol);
                (ctx.session.db, ctx.session.protocol) = (self.db, protocol);
                let mut inner = ctx.inside(block, command, args);
                inner.out = reply;
                let flow = run(&mut inner, handler_of(row));
                self.db = ctx.session.db;
                ctx.session.set_db(db);
                ctx.session.protocol = before;
                match flow {
                    Flow::Done => {}
                    Flow::Sleep(ms) => {
                        block.sleep(ctx, ms);
                        Reply::new(reply, protocol).ok();
                    }
                    Flow::Close
                    | Flow::Busy(_)
                    | Flow::Suspend(_)
                    | Flow::AwaitSync { .. }
                    | Flow::Save(..)
                    | Flow::Job(_)
                    | Flow::Verdict(_) => {
                        reply.clear();
                        Reply::new(reply, protocol).error(NOT_FROM_SCRIPT);
                    }
                }
            }
        }
        if ctx.session.answers.is_some() {
            ctx.add_answers(block, command, self.running.args(), db, (protocol, reply, 0));
        }
        if reply.first() == Some(&b'-') {
            add(&ctx.stats.commands[command.counted_as].failed, 1);
            ctx.stats.count_error(&reply[1..]);
        }
        if ctx.monitored && command.is_shown_to_monitors() {
            block.show(ctx.node, db, "lua", self.running.args());
        }
        ctx.meter.ran(command.counted_as);
        ctx.session.client.count_besides(1);
        Ok(())
    }

    /// The error that a command is answered for what it would do in a cluster, if so. `Err`: the script is undone.
    fn refusal(
        &self,
        ctx: &mut SessionCtx<'_>,
        block: &Block,
        command: &Command,
        args: Args<'_>,
    ) -> Result<Option<&'static [u8]>, Busy> {
        let Some(peers) = ctx.peers else { return Ok(None) };
        if ctx.aside.is_some() {
            let smart = ctx.session.moves(ctx.settings.cluster_redirect);
            return Ok(peers.refuses_in_workspace(command, args, smart));
        }
        match peers.may_call(command, args, block) {
            Call::Runs => return Ok(None),
            Call::Fails(_) if block.run.can_be_undone() && peers.has_elsewhere(command, args) => {
                // It runs again, on copies.
                let mut locks = locks_of(command, args, self.db, ctx.settings.databases);
                if !self.rules.read_only {
                    locks.iter_mut().for_each(|lock| lock.mode = Mode::Exclusive);
                }
                ctx.session.goes_over = Some(locks);
            }
            Call::Fails(error) => return Ok(Some(error)),
            Call::Undoes(error) => ctx.session.undone = Some(Undone::Refused(error)),
            Call::Elsewhere => ctx.session.undone = Some(Undone::RunsElsewhere),
        }
        Err(Busy { need: Need::Slots(Default::default()), slot: 0, awaited: true })
    }

    /// Why the script may not run this command, if so.
    fn allowed(&self, ctx: &SessionCtx<'_>, command: &Command) -> Result<(), Vec<u8>> {
        let spec = command.spec;
        if spec.has(flags::NOSCRIPT) && !is_open(ctx, spec) {
            return Err(NOT_FROM_SCRIPT.into());
        }
        if self.rules.read_only && spec.flags & (flags::WRITE | flags::MAY_REPLICATE) != 0 {
            return Err(b"ERR Write commands are not allowed from read-only scripts.".into());
        }
        if spec.has(flags::WRITE)
            && let Some(error) = ctx.log.and_then(Durable::refusal)
        {
            return Err(ctx.signed(error).into());
        }
        // A script that has begun to write goes on: the command counts, not what it found to do.
        if self.rules.no_memory && spec.has(flags::DENYOOM) && !self.wrote {
            let fault = fault_of_disk(ctx.node, ctx.log, ctx.settings);
            return Err(fault.map_or_else(|| system::OOM.into(), |fault| ctx.signed(fault).into_bytes()));
        }
        Ok(())
    }

    /// `redis.acl_check_cmd`: whether the caller may run this command.
    pub(super) fn check_command(&self, ctx: &SessionCtx<'_>) -> Checked {
        match ctx.node.table.find_command(&self.running.args()[0]) {
            Some(_) => Checked::Allowed,
            None => Checked::Unknown,
        }
    }
}

/// Whether a command is open to scripts that should not be (DEBUG SET-DISABLE-DENY-SCRIPTS): tests of protocols use DEBUG, for
/// example. Those that run blocks and scripts, wait, or subscribe have no place in a script all the same.
fn is_open(ctx: &SessionCtx<'_>, spec: &command::Spec) -> bool {
    const NEVER: u32 = flags::RUNS_SCRIPT | flags::NO_MULTI | flags::IN_MULTI | flags::PUBSUB | flags::BLOCKING;
    ctx.node.scripts.deny_nothing.load(Relaxed)
        && spec.flags & NEVER == 0
        && (!spec.has(flags::PROTECTED) || debug_is_open(ctx.settings, &ctx.session.client.peer))
}

const UNKNOWN: &[u8] = b"ERR Unknown Redis command called from script";

/// What a script hears that calls a command without a row; `why`: what Redis has under that name, and why it is not here.
fn not_there(why: Option<String>) -> Vec<u8> {
    match why {
        Some(text) => format!("{NOT_FROM_SCRIPT}: {}", text.trim_start_matches("ERR ")).into(),
        None => UNKNOWN.into(),
    }
}

/// The command, if there is one that takes as many arguments.
fn find<'t>(ctx: &SessionCtx<'t>, args: Args<'_>) -> Result<&'t Command, Vec<u8>> {
    let table = &ctx.node.table;
    let Some(mut command) = table.find_command(&args[0]) else {
        return Err(not_there(compatibility::not_there(table, &args[0])));
    };
    if command.is_container() && args.len() > 1 {
        match table.find_subcommand(command, &args[1]) {
            Some(sub) => command = sub,
            None => {
                return Err(not_there(compatibility::subcommand_not_there(&command.name, &args[1])));
            }
        }
    }
    if !command.spec.accepts(args.len()) {
        add(&ctx.stats.commands[command.counted_as].rejected, 1);
        return Err(b"ERR Wrong number of args calling Redis command from script".into());
    }
    Ok(command)
}

//! A command that a script calls: its checks, and how it runs in the script's block.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use command::flags;
use engine::Busy;
use keyspace::Need;
use resp::{Args, Protocol, Reply};
use script::Checked;
use txn::locks::Mode;

use crate::admission::cluster::{self as admission, Called};
use crate::admission::{AS_OF_SCRIPTS, Caller, Step, admit, arity, memory, rights, state, write};
use crate::cluster::{Asks, Peers};
use crate::compatibility;
use crate::figures::stats::add;
use crate::limits::system::fault_of_disk;
use crate::session::suspended::ScriptRun;
use crate::session::{Block, Flow, SessionCtx, Undone, debug_is_open, locks_of, run};
use crate::table::{Command, Handler};

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
        let admitted = find(ctx, args).and_then(|command| {
            let mut script = FromScript { script: self, ctx, block, protocol, reply };
            admit(command, args, &mut script).map_err(|instead| (Some(command), instead))
        });
        let command = match admitted {
            Ok(admitted) => admitted,
            Err((command, Instead::Refused(error))) => {
                if let Some(command) = command {
                    add(&ctx.stats.commands[command.counted_as].rejected, 1);
                }
                ctx.stats.count_error(&error);
                Reply::new(reply, protocol).error(&error);
                return Ok(());
            }
            Err((_, Instead::Waits(busy))) => return Err(busy),
            Err((_, Instead::Answered | Instead::Ends)) => return Ok(()),
        };
        if !self.wrote {
            if !self.rules.allow_oom {
                ctx.note_memory(&command);
            }
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
                // Long strings so far are EXEC's. The script gets a copy of its own.
                let outer = std::mem::take(&mut ctx.engine.parts);
                ctx.engine.in_script = true;
                command.execute_in_block(ctx.engine, &mut block.run, &call, reply);
                ctx.engine.in_script = false;
                ctx.engine.parts.copy_into(reply);
                ctx.engine.parts = outer;
            }
            Handler::Session(_) => {
                // While its command runs, the session's database and protocol are the script's.
                let (db, before) = (ctx.session.db, ctx.session.protocol);
                (ctx.session.db, ctx.session.protocol) = (self.db, protocol);
                let mut inner = ctx.inside(block, command, args);
                inner.out = reply;
                let flow = run(&mut inner);
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
                    | Flow::AwaitSync(_)
                    | Flow::Save(..)
                    | Flow::Job(_)
                    | Flow::Verdict(_) => {
                        reply.clear();
                        Reply::new(reply, protocol).error(state::NOT_FROM_SCRIPT);
                    }
                }
            }
        }
        if ctx.session.answers.is_some() {
            ctx.add_answers(block, &command, self.running.args(), db, (protocol, reply, 0));
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

    /// `redis.acl_check_cmd`: true if the caller may run this command.
    pub(super) fn check_command(&self, ctx: &SessionCtx<'_>) -> Checked {
        let args = self.running.args();
        match ctx.node.table.find_command(&args[0]) {
            Some(command) => {
                let command = ctx.node.table.with_word(command, args.get(1)).unwrap_or(command);
                match rights::refusal(&ctx.node.users, &mut ctx.session.user.clone(), command, args) {
                    _ if arity::is_wrong(command.spec, args.len()) => Checked::WrongArity,
                    Some(_) => Checked::Denied,
                    None => Checked::Allowed,
                }
            }
            None => Checked::Unknown,
        }
    }
}

/// A script as a caller of its commands.
struct FromScript<'s, 'a> {
    script: &'s ScriptRun,
    ctx: &'s mut SessionCtx<'a>,
    block: &'s mut Block,
    /// The protocol of the reply.
    protocol: Protocol,
    reply: &'s mut Vec<u8>,
}

/// The fate of a command of a script that does not run.
enum Instead {
    /// Its reply is this error.
    Refused(Cow<'static, [u8]>),
    /// Other nodes have answered it.
    Answered,
    /// The script ends, because a client has killed it.
    Ends,
    /// The script waits, or is undone.
    Waits(Busy),
}

type Passes = Result<(), Instead>;

fn refused(error: impl Into<Cow<'static, [u8]>>) -> Passes {
    Err(Instead::Refused(error.into()))
}

/// The wait of a script that is undone, or that goes on when other keys are there.
fn awaited() -> Instead {
    Instead::Waits(Busy { need: Need::Slots(Default::default()), slot: 0, awaited: true })
}

impl Caller for FromScript<'_, '_> {
    const ORDER: [Step; Step::COUNT] = AS_OF_SCRIPTS;
    type Instead = Instead;

    fn arity(&mut self, command: &Command, args: Args<'_>) -> Passes {
        if arity::is_wrong(command.spec, args.len()) { refused(arity::FROM_SCRIPT) } else { Ok(()) }
    }

    fn rights(&mut self, command: &Command, args: Args<'_>) -> Passes {
        let ctx = &mut *self.ctx;
        let Some(denial) = rights::refusal(&ctx.node.users, &mut ctx.session.user, command, args) else {
            return Ok(());
        };
        let error = denial.in_script();
        crate::session::acl::note(ctx, |client| denial.event(acl::Context::Lua, client));
        refused(error)
    }

    fn state(&mut self, command: &Command, _: Args<'_>) -> Passes {
        let ctx = &*self.ctx;
        let denies_nothing = ctx.node.scripts.deny_nothing.load(Relaxed);
        let open = denies_nothing.then(|| debug_is_open(ctx.settings, &ctx.session.client.peer));
        if state::is_barred_from_scripts(command.spec, open) {
            refused(state::NOT_FROM_SCRIPT.as_bytes())
        } else {
            Ok(())
        }
    }

    fn cluster(&mut self, command: &Command, args: Args<'_>) -> Passes {
        let db = self.script.db;
        self.has_copies(command, args)?;
        let peers = self.ctx.peers;
        if !peers.is_cluster() {
            return Ok(());
        }
        self.is_at_home(peers, command, args)?;
        self.ctx.note_scan(command, args);
        let may = self.ctx.aside.is_some() || self.block.run.can_be_undone();
        match self.ctx.asks(command, args, db, may) {
            Asks::Nothing => Ok(()),
            Asks::Answered => {
                self.ctx.answer(self.block, command, args, db, (self.protocol, self.reply));
                self.ctx.meter.ran(command.counted_as);
                self.ctx.session.client.count_besides(1);
                Err(Instead::Answered)
            }
            Asks::Waits(busy) => Err(Instead::Waits(busy)),
            Asks::Fails(error) => refused(error),
        }
    }

    fn write(&mut self, command: &Command, _: Args<'_>) -> Passes {
        if let Some(error) = write::refusal_of_script(command.spec, self.script.rules.read_only) {
            return refused(error);
        }
        if !command.spec.has(flags::WRITE) {
            return Ok(());
        }
        let error = match self.ctx.log {
            Some(log) => log.refusal(),
            None => self.ctx.node.refusal_of_snapshots().map(str::to_owned),
        };
        match error {
            Some(error) => refused(self.ctx.signed(error).into_bytes()),
            None => Ok(()),
        }
    }

    fn memory(&mut self, command: &Command, _: Args<'_>) -> Passes {
        if !memory::refuses_script(command.spec, self.script.rules.no_memory, self.script.wrote) {
            return Ok(());
        }
        match fault_of_disk(self.ctx.node, self.ctx.log, self.ctx.settings) {
            Some(fault) => refused(self.ctx.signed(fault).into_bytes()),
            None => refused(memory::OOM.as_bytes()),
        }
    }

    fn now(&mut self, command: &Command, _: Args<'_>) -> Passes {
        if command.spec.has(flags::WRITE) && self.ctx.aside.is_none() && !self.script.may_change() {
            return Err(Instead::Ends);
        }
        Ok(())
    }
}

impl FromScript<'_, '_> {
    /// In a workspace: checks that the script has copies of the command's keys. Missing keys are fetched.
    fn has_copies(&mut self, command: &Command, args: Args<'_>) -> Passes {
        let Some(aside) = &mut self.ctx.aside else { return Ok(()) };
        if aside.has_keys(command, args, self.script.db, self.ctx.settings.databases) {
            return Ok(());
        }
        if !self.script.rules.read_only {
            // The script may later write the keys that it reads now, so no other transaction shares them.
            aside.missing.iter_mut().for_each(|lock| lock.mode = Mode::Exclusive);
        }
        Err(awaited())
    }

    /// Checks that the command's keys are this node's. A script that can be undone may run again on copies, or at
    /// another node.
    fn is_at_home(&mut self, peers: &Peers, command: &Command, args: Args<'_>) -> Passes {
        let ctx = &mut *self.ctx;
        if ctx.aside.is_some() {
            let smart = ctx.session.moves(ctx.settings.cluster_redirect);
            return admission::of_workspace(peers.on_copies(command, args, smart)).map_or(Ok(()), refused);
        }
        match peers.may_call(command, args, self.block) {
            Called::Runs => return Ok(()),
            Called::Fails(_) if self.block.run.can_be_undone() && peers.has_elsewhere(command, args) => {
                // It runs again, on copies.
                let mut locks = locks_of(command, args, self.script.db, ctx.settings.databases);
                if !self.script.rules.read_only {
                    locks.iter_mut().for_each(|lock| lock.mode = Mode::Exclusive);
                }
                ctx.session.goes_over = Some(locks);
            }
            Called::Fails(error) => return refused(error),
            Called::UndoesForLease => ctx.session.undone = Some(Undone::Refused(peers.no_lease())),
            Called::Undoes(error) => ctx.session.undone = Some(Undone::Refused(error.into())),
            Called::Elsewhere => ctx.session.undone = Some(Undone::RunsElsewhere),
        }
        Err(awaited())
    }
}

/// The command that a script calls, if there is one.
fn find<'t>(ctx: &SessionCtx<'t>, args: Args<'_>) -> Result<&'t Command, (Option<&'t Command>, Instead)> {
    let not_there = |why| {
        // A user without the right hears that first, as in Redis.
        let denial = ctx.node.users.refusal_of_absent(&ctx.session.user, args);
        let error = denial.map_or_else(|| arity::unknown_from_script(why), |denial| denial.in_script());
        (None, Instead::Refused(error.into()))
    };
    let table = &ctx.node.table;
    let Some(command) = table.find_command(&args[0]) else {
        return Err(not_there(compatibility::not_there(&args[0], |name| table.find_own(name).is_some())));
    };
    if !command.is_container() || args.len() < 2 {
        return Ok(command);
    }
    let sub = table.find_subcommand(command, &args[1]);
    sub.ok_or_else(|| not_there(compatibility::subcommand_not_there(&command.name, &args[1])))
}

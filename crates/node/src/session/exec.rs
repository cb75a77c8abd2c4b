//! EXEC: a block of commands under one set of latches, at one time.
//!
//! It goes from command to command, and stops between two of them only where a script of the block is suspended. If a
//! script needs a key that another command holds, everything is undone and the block runs again later (rule K3).

use std::sync::atomic::Ordering::Relaxed;

use command::{Error, KeyAt, flags};
use engine::{Begin, BlockRun, Busy, Call};
use keyspace::Need;
use resp::Args;

use super::connection::database;
use super::suspended::{Exec, Suspended, What};
use super::{Block, Flow, Multi, Queued, SessionCtx, run};
use crate::admission::{AS_OF_CLIENTS, Admitted, Caller, Step, admit, arity, rights};
use crate::clock::MonoNs;
use crate::cluster::Asks;
use crate::figures::cost::{Cost, request_bytes};
use crate::figures::stats::add;
use crate::table::{Command, Handler};

/// A block as a caller of its commands. They passed the client's checks when they were queued. EXEC passed the checks
/// that concern the whole block.
struct InBlock<'c, 'a> {
    ctx: &'c mut SessionCtx<'a>,
}

/// The fate of a command of a block that does not run.
enum Instead {
    /// Its reply is this error.
    Refused(Vec<u8>),
    /// The block runs again.
    Waits(Busy),
}

impl Caller for InBlock<'_, '_> {
    const ORDER: [Step; Step::COUNT] = AS_OF_CLIENTS;
    type Instead = Instead;

    #[inline]
    fn arity(&mut self, command: &Command, args: Args<'_>) -> Result<(), Instead> {
        match arity::is_wrong(command.spec, args.len()) {
            true => Err(Instead::Refused(arity::wrong(&command.name))),
            false => Ok(()),
        }
    }

    /// The rights may have changed since it was queued.
    #[inline]
    fn rights(&mut self, command: &Command, args: Args<'_>) -> Result<(), Instead> {
        let ctx = &mut *self.ctx;
        let Some(denial) = rights::refusal(&ctx.node.users, &mut ctx.session.user, command, args) else {
            return Ok(());
        };
        let error = denial.in_exec();
        super::acl::note(ctx, |client| denial.event(::acl::Context::Multi, client));
        Err(Instead::Refused(error))
    }

    /// Checked when it was queued, because the client's state counts.
    #[inline]
    fn state(&mut self, _: &Command, _: Args<'_>) -> Result<(), Instead> {
        Ok(())
    }

    /// EXEC found out where the block runs. A client's block knows the receivers of its messages at other nodes before
    /// it begins; a block in a workspace asks.
    #[inline]
    fn cluster(&mut self, command: &Command, args: Args<'_>) -> Result<(), Instead> {
        if self.ctx.aside.is_some() && command.spec.has(flags::PUBSUB) {
            let db = self.ctx.session.db;
            if let Asks::Waits(busy) = self.ctx.asks(command, args, db, true) {
                return Err(Instead::Waits(busy));
            }
        }
        Ok(())
    }

    /// Checked for EXEC, if one of its commands writes.
    #[inline]
    fn write(&mut self, _: &Command, _: Args<'_>) -> Result<(), Instead> {
        Ok(())
    }

    /// Checked for EXEC, if one of its commands needs memory. In a workspace the owners of the keys decide.
    #[inline]
    fn memory(&mut self, command: &Command, _: Args<'_>) -> Result<(), Instead> {
        self.ctx.note_memory(command);
        Ok(())
    }

    /// A block that has begun waits for nothing.
    #[inline]
    fn now(&mut self, _: &Command, _: Args<'_>) -> Result<(), Instead> {
        Ok(())
    }
}

/// The latches that a block needs from the start.
struct Needs<'a> {
    calls: Vec<Call<'a>>,
    /// Slots that belong to no key.
    slots: Vec<u16>,
    /// Keys that scripts declare, with their databases.
    declared: Vec<(u16, &'a [u8])>,
    /// It has scripts, which may use keys they do not declare.
    has_scripts: bool,
}

pub(crate) fn exec(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let Some(multi) = ctx.session.multi.take() else { return Err(Error::new("ERR EXEC without MULTI")) };
    if multi.aborted {
        keep(ctx, multi);
        ctx.leave_multi();
        return Err(Error::new("EXECABORT Transaction discarded because of previous errors."));
    }
    let again = ctx.session.again.take();
    let needs = needs(ctx, &multi);
    let begin = Begin {
        calls: &needs.calls,
        slots: &needs.slots,
        declared: &needs.declared,
        // In a workspace the owners of the keys check them before.
        watched: if ctx.aside.is_some() { &[] } else { &ctx.session.watched },
        may_widen: needs.has_scripts,
        stays_undoable: ctx.may_go_over(),
        again: again.as_deref().map(|retry| &retry.again),
    };
    match ctx.engine.begin_block(&begin, ctx.token) {
        Err(busy) => {
            ctx.session.multi = Some(multi);
            ctx.session.again = again;
            Ok(Flow::Busy(busy))
        }
        Ok(None) => {
            keep(ctx, multi);
            ctx.leave_multi();
            ctx.reply().null_array();
            Ok(Flow::Done)
        }
        Ok(Some(block)) => {
            let start = ctx.out.len();
            ctx.reply().array(multi.queue.len());
            let watched = match ctx.aside {
                Some(_) => {
                    ctx.session.leave_block();
                    Vec::new()
                }
                None => ctx.session.leave_multi(),
            };
            let exec = Exec {
                watched,
                multi,
                block: Block::new(block, ctx, again.as_deref()),
                at: 0,
                script: None,
                session: (ctx.session.db, ctx.session.protocol),
                start,
                overflow: None,
                flow: Flow::Done,
            };
            Ok(exec.go_on(ctx))
        }
    }
}

fn needs<'a>(ctx: &SessionCtx<'_>, multi: &'a Multi) -> Needs<'a> {
    let mut needs = Needs {
        calls: Vec::with_capacity(multi.queue.len()),
        slots: Vec::new(),
        declared: Vec::new(),
        has_scripts: false,
    };
    // SELECT inside the block decides on the database of later commands, and so on their latches.
    let mut db = ctx.session.db;
    for (queued, args) in multi.commands() {
        let command = ctx.node.table.get(queued.command);
        match command.handler {
            Handler::Data(row) => needs.calls.push(Call {
                row,
                args,
                first: queued.first(args),
                db,
                protocol: ctx.session.protocol,
                token: ctx.token,
                seat: None,
                caller: ctx.caller(),
            }),
            Handler::Session(_) if command.spec.name == "select" => {
                db = args.get(1).and_then(|text| database(text, ctx.settings.databases).ok()).unwrap_or(db);
            }
            Handler::Session(_) if command.spec.has(flags::RUNS_SCRIPT) => {
                let mut positions: Vec<KeyAt> = Vec::new();
                command.spec.keys_of(args, &mut positions);
                let keys = positions.iter().filter_map(|at| args.get(at.index));
                needs.declared.extend(keys.map(|key| (db, key)));
                needs.has_scripts = true;
            }
            // FUNCTION LOAD and its like.
            Handler::Session(_) if command.spec.has(flags::WRITE) => needs.slots.push(engine::LIBRARIES_SLOT),
            Handler::Session(_) => {}
        }
    }
    needs
}

/// Keeps the memory of a block for the next.
fn keep(ctx: &mut SessionCtx<'_>, mut multi: Box<Multi>) {
    if let Some(aside) = &mut ctx.aside {
        // It may have to run again.
        aside.multi = Some(multi);
        return;
    }
    multi.clear();
    ctx.session.spare_multi = Some(multi);
}

impl Exec {
    /// The latches it holds.
    pub fn block(&self) -> &BlockRun {
        &self.block.run
    }

    /// See [`Suspended::is_killed`].
    pub(super) fn is_killed(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.is_killed())
    }

    /// Goes on where it stopped, with the same `ctx.out`.
    pub fn go_on(mut self, ctx: &mut SessionCtx<'_>) -> Flow {
        while self.at < self.multi.queue.len() {
            let queued = self.multi.queue[self.at];
            let multi = std::mem::take(&mut self.multi);
            let flow = self.command(ctx, queued, multi.batch.args(self.at, &[]));
            self.multi = multi;
            match flow {
                Flow::Busy(busy) => return self.run_again(ctx, busy),
                Flow::Suspend(suspended) => return self.suspend(ctx, *suspended),
                Flow::Close => self.flow = Flow::Close,
                Flow::Done | Flow::Sleep(_) | Flow::AwaitSync(_) | Flow::Save(..) | Flow::Job(_) | Flow::Verdict(_) => {
                }
            }
            self.at += 1;
        }
        let Exec { multi, watched, block, flow, .. } = self;
        block.end(ctx);
        ctx.engine.unwatch_later(watched);
        keep(ctx, multi);
        flow
    }

    /// Runs one command of the block, or resumes it, and counts it.
    fn command(&mut self, ctx: &mut SessionCtx<'_>, queued: Queued, args: Args<'_>) -> Flow {
        let node = ctx.node.clone();
        let command = node.table.get(queued.command);
        let exact = ctx.meter.is_exact(command, args);
        let mut from = if exact { ctx.meter.settle() } else { MonoNs::default() };
        let before = ctx.out.len();
        let db = ctx.session.db;
        if ctx.session.no_touch {
            ctx.engine.clock().set_touching(command.name == "touch");
        }
        ctx.note_scan(command, args);
        let admitted = match self.script.as_deref() {
            Some(script) => Ok(Admitted::goes_on(command, script)),
            None => admit(command, args, &mut InBlock { ctx }),
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(Instead::Waits(busy)) => return Flow::Busy(busy),
            Err(Instead::Refused(error)) => {
                add(&ctx.stats.commands[command.counted_as].rejected, 1);
                ctx.stats.count_error(&error);
                ctx.reply().error(&error);
                return Flow::Done;
            }
        };
        let flow = match self.dispatch(ctx, admitted, queued, args) {
            flow @ (Flow::Busy(_) | Flow::Suspend(_)) => return flow,
            Flow::Sleep(ms) => {
                ctx.reply().ok();
                self.block.sleep(ctx, ms);
                from = from.earlier(ms * 1_000_000);
                Flow::Done
            }
            flow => flow,
        };
        if ctx.session.answers.is_some() {
            let mut out = std::mem::take(ctx.out);
            ctx.engine.parts.copy_into(&mut out);
            ctx.add_answers(&self.block, command, args, db, (ctx.session.protocol, &mut out, before));
            *ctx.out = out;
        }
        let counted = std::mem::take(&mut ctx.session.error_is_counted);
        if let Some(b'-') = ctx.out.get(before) {
            add(&ctx.stats.commands[command.counted_as].failed, 1);
            if !counted {
                ctx.stats.count_error(&ctx.out[before + 1..]);
            }
        }
        match self.overflow {
            Some(end) => {
                ctx.out.truncate(end);
                ctx.engine.parts.truncate(end);
            }
            None => self.overflow = ctx.is_too_much().then_some(ctx.out.len()),
        }
        if ctx.monitored && command.is_shown_to_monitors() {
            self.block.show(ctx.node, db, &ctx.session.client.peer.address, args);
        }
        if exact {
            let nanos = ctx.meter.finish(command, args, &ctx.session.client, ctx.engine.now(), from);
            if ctx.meter.heat.is_on() {
                let bytes_out = (ctx.out.len().saturating_sub(before) + ctx.engine.parts.len()) as u64;
                ctx.tell_heat(command, args, Cost { nanos, bytes_in: request_bytes(args), bytes_out });
            }
        } else {
            ctx.meter.ran(command.counted_as);
        }
        flow
    }

    fn dispatch(&mut self, ctx: &mut SessionCtx<'_>, command: Admitted<'_>, queued: Queued, args: Args<'_>) -> Flow {
        if let Handler::Data(row) = command.handler {
            let call = Call {
                row,
                args,
                first: queued.first(args),
                db: ctx.session.db,
                protocol: ctx.session.protocol,
                token: ctx.token,
                seat: None,
                caller: ctx.caller(),
            };
            command.execute_in_block(ctx.engine, &mut self.block.run, &call, ctx.out);
            return Flow::Done;
        }
        let mut inner = ctx.inside(&mut self.block, command, args);
        match self.script.take() {
            Some(script) => script.go_on(&mut inner),
            None => run(&mut inner),
        }
    }

    /// Stops in the middle of a script. No reply is sent before the block has ended.
    fn suspend(mut self, ctx: &mut SessionCtx<'_>, suspended: Suspended) -> Flow {
        let What::Script(script) = suspended.what else { unreachable!("EXEC is not in a block") };
        self.script = Some(script);
        ctx.engine.parts.copy_into(ctx.out);
        let out = match std::mem::take(&mut self.start) {
            // It may stop often, and its replies may be long.
            0 => std::mem::take(ctx.out),
            start => ctx.out.split_off(start),
        };
        self.overflow = self.overflow.map(|at| at.min(out.len()));
        Flow::Suspend(Box::new(Suspended { what: What::Exec(Box::new(self)), out }))
    }

    /// Stops in a workspace, and undoes everything.
    pub(super) fn give_up(mut self, ctx: &mut SessionCtx<'_>) -> Box<Multi> {
        if let Some(script) = self.script.take() {
            script.stop(ctx);
        }
        let _ = self.block.undo(ctx, Need::Slots(Default::default()));
        self.multi
    }

    /// Undoes everything, to run again from the start when it can have the latches it needs.
    fn run_again(self, ctx: &mut SessionCtx<'_>, busy: Busy) -> Flow {
        ctx.out.truncate(self.start);
        ctx.engine.parts.truncate(self.start);
        let again = self.block.undo(ctx, busy.need.clone());
        ctx.session.again = Some(Box::new(again));
        let (db, protocol) = self.session;
        ctx.session.set_db(db);
        ctx.session.set_protocol(protocol);
        ctx.session.client.queued.store(self.multi.queue.len() as i32, Relaxed);
        ctx.session.client.queued_bytes.store(self.multi.bytes as u64, Relaxed);
        if ctx.aside.is_none() {
            let bytes: usize = self.watched.iter().map(|watched| watched.key.len()).sum();
            ctx.session.client.watching.store(self.watched.len() as u32, Relaxed);
            ctx.session.client.watched_bytes.store(bytes as u64, Relaxed);
            ctx.session.watched = self.watched;
        }
        ctx.session.multi = Some(self.multi);
        Flow::Busy(busy)
    }
}

//! A script under way: its commands are executed one by one in its block, and between slices it lets others run.

use std::sync::Arc;

use engine::{BlockRun, Busy};
use resp::{OwnedArgs, Protocol};
use script::{Input, LogLevel, Outcome, Running, Step};

use super::super::suspended::{Asked, Rules, ScriptRun, Suspended, What};
use super::super::{Block, Flow, SessionCtx};
use crate::clock::MonoNs;
use crate::scripts::Job;

/// Nanoseconds that a script runs before other connections get their turn.
const SLICE_NS: u64 = 1_000_000;
/// Commands of a script between two looks at the clock.
const CALLS: u32 = 64;

/// How a stretch of running ended.
enum Stretch {
    /// It has ended.
    Done,
    /// Its slice is over.
    Slice,
    /// Another command holds a key that it needs.
    Busy(Busy),
}

impl ScriptRun {
    /// A script about to begin. `block`: its own, unless it runs in EXEC's.
    pub fn new(
        ctx: &SessionCtx<'_>,
        running: Running,
        function: Option<&str>,
        block: Option<Block>,
        rules: Rules,
    ) -> Self {
        Self {
            running,
            block,
            rules,
            db: ctx.session.db,
            asked: Asked::Beginning,
            reply: Vec::new(),
            begun: ctx.meter.last_reading(),
            job: None,
            calls: 0,
            changes_before: 0,
            wrote: false,
            function: function.map(Into::into),
            killed: false,
            spoils: false,
        }
    }

    /// The latches it holds, unless EXEC holds them.
    pub fn block(&self) -> Option<&BlockRun> {
        self.block.as_ref().map(|block| &block.run)
    }

    /// Begins, or goes on after its slice was over.
    pub fn go_on(mut self: Box<Self>, ctx: &mut SessionCtx<'_>) -> Flow {
        let mut own = self.block.take();
        let outer = ctx.block.take();
        let stretch = match (own.as_mut(), outer) {
            (Some(block), _) => self.stretch(ctx, block),
            (None, Some(block)) => self.stretch(ctx, block),
            (None, None) => unreachable!("a script runs in a block"),
        };
        self.block = own;
        match stretch {
            Stretch::Done => self.end(ctx),
            Stretch::Slice => Flow::Suspend(Box::new(Suspended { what: What::Script(self), out: Vec::new() })),
            Stretch::Busy(busy) => self.give_up(ctx, busy),
        }
    }

    /// Answers the script's last request.
    fn step(&mut self) -> Step {
        self.killed = self.is_killed();
        match std::mem::replace(&mut self.asked, Asked::Nothing) {
            _ if self.killed => self.running.step(Input::Stop(super::kill::KILLED)),
            Asked::Beginning => self.running.step(Input::Start),
            Asked::Command => self.running.step(Input::Reply(&self.reply)),
            Asked::Check(checked) => self.running.step(Input::Checked(checked)),
            Asked::Call(protocol) => Step::Call { protocol },
            Asked::Nothing => self.running.step(Input::Continue),
        }
    }

    /// Runs until it ends, has run for long enough, or cannot go on.
    fn stretch(&mut self, ctx: &mut SessionCtx<'_>, block: &mut Block) -> Stretch {
        let from = match self.is_new() {
            true => {
                self.changes_before = block.run.changes();
                self.begun
            }
            false => ctx.node.clock.monotonic_ns(),
        };
        loop {
            match self.step() {
                Step::Done => {
                    self.spoils = self.killed && ctx.aside.is_some() && self.has_changed(block);
                    return Stretch::Done;
                }
                Step::Call { protocol } => {
                    let mut reply = std::mem::take(&mut self.reply);
                    reply.clear();
                    let called = self.call(ctx, block, protocol, &mut reply);
                    self.reply = reply;
                    match called {
                        Ok(()) => {}
                        Err(_) if ctx.aside.is_some() => {
                            // It holds nothing that others wait for, and goes on here when the keys are there.
                            self.asked = Asked::Call(protocol);
                            self.job(ctx, block);
                            return Stretch::Slice;
                        }
                        Err(busy) => return Stretch::Busy(busy),
                    }
                    self.asked = Asked::Command;
                    self.calls = self.calls.wrapping_add(1);
                    if self.calls.is_multiple_of(CALLS) && self.is_over(ctx, block, from) {
                        return Stretch::Slice;
                    }
                }
                Step::CheckCommand => self.asked = Asked::Check(self.check_command(ctx)),
                Step::Log { level, text } => log(level, &text),
                Step::SliceOver if self.is_over(ctx, block, from) => return Stretch::Slice,
                Step::SliceOver => {}
            }
        }
    }

    /// True if it may change something: a script that was asked to end may not.
    pub(super) fn may_change(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.may_change())
    }

    /// True if it has changed something.
    pub(super) fn has_changed(&self, block: &Block) -> bool {
        block.run.changes() > self.changes_before
    }

    fn is_new(&self) -> bool {
        matches!(self.asked, Asked::Beginning)
    }

    /// True if its slice is over. If so, other clients see it, and it may be too slow for them.
    fn is_over(&mut self, ctx: &mut SessionCtx<'_>, block: &Block, from: MonoNs) -> bool {
        let now = ctx.node.clock.monotonic_ns();
        if now.since(from) < SLICE_NS {
            return false;
        }
        let scripts = &ctx.node.scripts;
        let job = self.job(ctx, block);
        let elapsed = now.since(self.begun) / 1_000_000;
        if elapsed > ctx.settings.busy_reply_threshold {
            let held = block.run.held();
            let slots = match &mut ctx.aside {
                // It has locks of keys, at whatever nodes.
                Some(aside) => {
                    aside.slow = Some(self.function.is_some());
                    Some(&[][..])
                }
                None => (!held.is_all()).then(|| held.slots()),
            };
            if scripts.mark_slow(&job, slots) {
                tracing::warn!(
                    milliseconds = elapsed,
                    "slow script detected: still in execution. You can kill it with SCRIPT KILL or FUNCTION KILL"
                );
                ctx.engine.rouse_waiters(&block.run);
            }
        }
        true
    }

    /// Shows the script to other clients, which may kill it.
    fn job(&mut self, ctx: &SessionCtx<'_>, block: &Block) -> Arc<Job> {
        let has_changed = self.has_changed(block);
        let job = self.job.get_or_insert_with(|| {
            let job = Job::new(self.function.clone(), OwnedArgs::new(ctx.args), block.run.now());
            // No other client has seen changes of copies: the script can be given up.
            if has_changed && ctx.aside.is_none() {
                job.may_change();
            }
            ctx.node.scripts.show(job)
        });
        job.clone()
    }

    /// True if it is to end because a client has killed it.
    pub fn is_killed(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_killed())
    }

    /// The script has ended: its reply is written, and its changes are visible.
    fn end(self: Box<Self>, ctx: &mut SessionCtx<'_>) -> Flow {
        let ScriptRun { running, block, job, spoils, .. } = *self;
        let before = ctx.out.len();
        let finished = running.finish(ctx.session.protocol, ctx.out);
        if let Some(aside) = &mut ctx.aside {
            aside.slow = None;
            let reply = &ctx.out[before..];
            let text = || reply.strip_prefix(b"-").unwrap_or(reply).trim_ascii_end().into();
            aside.killed = aside.killed.take().or_else(|| spoils.then(text));
        }
        ctx.machines.put_back(finished.machine);
        // The error of a command was counted when the command failed.
        ctx.session.error_is_counted = matches!(finished.outcome, Outcome::Error { count: false });
        if let Some(job) = job {
            ctx.node.scripts.hide(&job);
        }
        if let Some(block) = block {
            block.end(ctx);
        }
        Flow::Done
    }

    /// Stops it wherever it is. Its own block comes back, if it has one.
    pub fn stop(mut self: Box<Self>, ctx: &mut SessionCtx<'_>) -> Option<Block> {
        while !matches!(self.running.step(Input::Stop("it runs again")), Step::Done) {}
        let ScriptRun { running, block, job, .. } = *self;
        ctx.machines.put_back(running.finish(Protocol::Resp2, &mut Vec::new()).machine);
        if let Some(job) = job {
            ctx.node.scripts.hide(&job);
        }
        block
    }

    /// It needs a key that another command holds. It is stopped and its changes are undone; in EXEC, the block undoes
    /// them.
    fn give_up(self: Box<Self>, ctx: &mut SessionCtx<'_>, busy: Busy) -> Flow {
        let block = self.stop(ctx);
        crate::figures::stats::add(&ctx.stats.script_reruns, 1);
        if let Some(block) = block {
            ctx.session.again = Some(Box::new(block.undo(ctx, busy.need.clone())));
        }
        Flow::Busy(busy)
    }
}

/// Writes a line of `redis.log`.
fn log(level: LogLevel, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match level {
        LogLevel::Debug => tracing::debug!(target: "script", cause = %text, "{text}"),
        LogLevel::Verbose | LogLevel::Notice => tracing::info!(target: "script", cause = %text, "{text}"),
        LogLevel::Warning => tracing::warn!(target: "script", cause = %text, "{text}"),
    }
}

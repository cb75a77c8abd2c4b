//! Runs commands, scripts and blocks that need keys of several nodes at once, or keys of other nodes together with
//! something that only this node has.
//!
//! Their keys are locked at the owners, and copies are fetched. The block runs on the copies in a *workspace*, as EXEC
//! runs any block. The owners prepare and commit its changes. A script that turns out to need further keys is
//! suspended, and goes on when they are locked and fetched, too (`txn::Coordinator::widen`). No client sees a result
//! before it is committed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use command::effects;
use engine::{Made, Workspace};
use resp::{Args, Batch};
use txn::{Lock, ParticipantId};

use super::block::Block;
use super::fetching::{Fetching, Run, Told};
use super::found::Unusable;
use super::part::TOO_LARGE;
use super::plan::{PART_MAX, TOO_LONG};
use super::port::{Desk, Port, Transacting};
use super::together::Then;
use super::waiting::Unserved;
use super::wire::Changes;
use crate::admission::{AS_OF_CLIENTS, Caller, Step, admit};
use crate::cluster::Answers;
use crate::session::{Flow, SessionCtx, Suspended};
use crate::table::Command;
use crate::worker::conn::Conn;
use crate::worker::wait::{NodeWait, Wait};

/// Free workspaces that a worker keeps.
const IDLE: usize = 4;
/// The header of a reply to a block of one command.
const OF_ONE: &[u8] = b"*1\r\n";
/// The changes for the keys of each participant.
type MadeOf = Vec<(ParticipantId, Arc<[u8]>)>;

/// The result of one stretch of running.
enum Ran {
    /// The block goes on later.
    Later,
    /// Its script needs further keys, and goes on when it has them.
    Lacks(Vec<Lock>),
    /// Its script waits for answers of other nodes. `alone`: it must hold no locks meanwhile, and runs again from the
    /// start.
    Asks { alone: bool },
    /// The block runs again from the start, when other nodes have answered.
    Again,
    /// The block has run, with these changes. True if they need memory.
    Made(Made, bool),
    /// Its script was killed: the block does nothing.
    Killed(Vec<u8>),
    /// All blocks of its transaction have run. The changes for the keys of each node, or an error for the client.
    Done(Result<MadeOf, Vec<u8>>),
    /// The block has run, found nothing, and waits.
    Waits(Unserved),
    /// A command between BEGIN and COMMIT has run: its reply, or an error.
    Answers(Result<Vec<u8>, Vec<u8>>),
}

impl<P: Port> Transacting<'_, P> {
    /// The keys of a block have been fetched: the block runs.
    pub(super) fn run_fetched(&mut self, (sequence, attempt): (u64, u32), found: &[(ParticipantId, Arc<[u8]>)]) {
        self.begin_with_first(sequence);
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        if block.fetching.as_deref().is_some_and(|fetching| fetching.interactive && fetching.run.is_some()) {
            return self.go_on_interactive((sequence, attempt), (block, conn), found);
        }
        self.stop_workspace(&mut conn, &mut block);
        let (mut workspace, begun) = (self.workspace(), self.now());
        let filled = self.fill_workspace(&mut conn, &mut block, &mut workspace, found);
        let filled = match (filled, block.fetching.as_deref_mut()) {
            (Ok((now, aside)), Some(fetching)) => {
                let (suspended, told_slow) = (None, None);
                fetching.run = Some(Box::new(Run { attempt, workspace, aside, now, suspended, begun, told_slow }));
                Ok(())
            }
            (filled, _) => {
                self.put_workspace(workspace);
                match filled {
                    Err(Unusable::Wrong(text)) => Err(text),
                    filled => {
                        self.port.put_conn(conn);
                        self.put_running(sequence, block);
                        return match filled {
                            Err(Unusable::NoCopy) => self.fetch_whole((sequence, attempt)),
                            _ => self.fetch_later((sequence, attempt)),
                        };
                    }
                }
            }
        };
        let is_interactive = block.fetching.as_deref().is_some_and(|fetching| fetching.interactive);
        self.port.put_conn(conn);
        self.put_running(sequence, block);
        if is_interactive {
            self.end_fetch((sequence, attempt));
        }
        match filled {
            Ok(()) => self.step_workspace(sequence),
            Err(text) if is_interactive => self.answer_interactive(sequence, Err(text.into())),
            Err(text) => self.fail_running((sequence, attempt), text.as_bytes()),
        }
    }

    fn workspace(&mut self) -> Workspace {
        let index = self.index() as u16;
        let Desk { txn, engine, node, .. } = self.desk();
        let seed = engine.rng().next_u64();
        txn.idle.pop().unwrap_or_else(|| Workspace::new(&node.engine, index, seed))
    }

    pub(super) fn take_running(&mut self, sequence: u64) -> Option<(Block, Box<Conn>)> {
        let block = self.txn().blocks.remove(&sequence)?;
        match self.port.take_conn(block.token) {
            Some(conn) => Some((block, conn)),
            None => {
                self.put_running(sequence, block);
                None
            }
        }
    }

    pub(super) fn put_running(&mut self, sequence: u64, block: Block) {
        let before = self.txn().blocks.insert(sequence, block);
        debug_assert!(before.is_none(), "a block is out of its place while it runs");
    }

    /// Lets blocks in workspaces go on that have let other work run.
    pub(super) fn step_workspaces(&mut self) {
        for sequence in std::mem::take(&mut self.txn().running) {
            self.step_workspace(sequence);
        }
    }

    pub(super) fn step_workspace(&mut self, sequence: u64) {
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        let Some(mut run) = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take()) else {
            self.port.put_conn(conn);
            return self.put_running(sequence, block);
        };
        let attempt = run.attempt;
        let mut ran = self.run_in_workspace(&mut conn, &mut block, &mut run);
        self.port.put_conn(conn);
        if let Ran::Made(made, needs_memory) = ran {
            match self.hand_on(&mut block, &mut run, made, needs_memory) {
                Then::Ends(made, needs_memory) => {
                    ran = Ran::Done(
                        block
                            .fetching
                            .as_deref()
                            .map_or_else(|| Ok(Vec::new()), |fetching| split(fetching, made, needs_memory)),
                    );
                }
                Then::Runs(missing) => {
                    if let Some(fetching) = block.fetching.as_deref_mut() {
                        fetching.run = Some(run);
                    }
                    self.put_running(sequence, block);
                    return match missing.is_empty() {
                        true => self.txn().running.push_back(sequence),
                        false => self.fetch_more((sequence, attempt), missing),
                    };
                }
            }
        }
        if let Ran::Later | Ran::Lacks(_) | Ran::Asks { .. } = ran {
            let now = self.now();
            let slow = block.fetching.as_deref().and_then(|fetching| run.slow_script(now, fetching));
            if let Some(fetching) = block.fetching.as_deref_mut() {
                fetching.run = Some(run);
            }
            self.put_running(sequence, block);
            if let Some((function, owners)) = slow {
                self.tell_of_slow_script((sequence, attempt), function, owners);
            }
            return match ran {
                Ran::Lacks(missing) => self.fetch_more((sequence, attempt), missing),
                Ran::Asks { alone: true } => self.ask_alone((sequence, attempt)),
                Ran::Asks { .. } if self.asks_for_workspace((sequence, attempt)) => {}
                _ => self.txn().running.push_back(sequence),
            };
        }
        self.put_workspace(run.workspace);
        self.put_running(sequence, block);
        match ran {
            Ran::Later | Ran::Lacks(_) | Ran::Asks { .. } | Ran::Made(..) => {}
            Ran::Killed(text) => {
                if self.is_running((sequence, attempt)) {
                    self.part_with_others(sequence);
                }
                self.fail_running((sequence, attempt), &text);
            }
            Ran::Waits(unserved) => self.sleep_over_nodes((sequence, attempt), unserved),
            Ran::Answers(reply) => self.answer_interactive(sequence, reply),
            Ran::Again => {
                if !self.asks_for_workspace((sequence, attempt)) {
                    self.begin_again((sequence, attempt), Vec::new());
                }
            }
            Ran::Done(Err(text)) => self.fail_running((sequence, attempt), &text),
            Ran::Done(Ok(made)) => {
                let (now, mut events) = (self.now(), Vec::new());
                if let Some(coordinator) = self.txn().coordinator.as_mut() {
                    // If the attempt is void by now, another one follows.
                    coordinator.proceed(now, (sequence, attempt), &made, &mut events);
                }
                self.carry_out(events);
            }
        }
    }

    pub(super) fn put_workspace(&mut self, mut workspace: Workspace) {
        let Desk { txn, engine, .. } = self.desk();
        workspace.begin(engine.now(), engine.tunables());
        let clear = workspace.clear();
        workspace.end();
        if clear && txn.idle.len() < IDLE {
            txn.idle.push(workspace);
        }
    }

    /// Runs a block for a stretch.
    fn run_in_workspace(&mut self, conn: &mut Conn, block: &mut Block, run: &mut Run) -> Ran {
        let mut out = Vec::new();
        if run.suspended.is_none() {
            if conn.wait.is_over() {
                // The block uses its session from here on.
                conn.wait = Wait::Node(NodeWait::Replies(0));
            }
            conn.session.set_db(block.db);
            conn.session.set_protocol(block.protocol);
            conn.session.multi = Some(std::mem::take(&mut block.multi));
        }
        let flow = self.in_workspace(conn, run, &mut out, |ctx, suspended| match suspended {
            Some(suspended) => suspended.go_on(ctx),
            None => crate::session::run(ctx),
        });
        self.port.look_at_pauses();
        let closes = match flow {
            Flow::Suspend(suspended) => {
                run.suspended = Some(suspended);
                let missing = std::mem::take(&mut run.aside.missing);
                let is_interactive = block.fetching.as_deref().is_some_and(|fetching| fetching.interactive);
                return match conn.session.answers.as_deref().and_then(Answers::wants) {
                    _ if !missing.is_empty() => Ran::Lacks(missing),
                    Some(about_keys) => Ran::Asks { alone: about_keys && !is_interactive },
                    None => Ran::Later,
                };
            }
            Flow::Busy(_) => {
                block.multi = conn.session.multi.take().unwrap_or_default();
                conn.session.leave_block();
                conn.session.again = None;
                return Ran::Again;
            }
            flow => matches!(flow, Flow::Close),
        };
        block.multi = run.aside.multi.take().unwrap_or_default();
        if block.alone && out.starts_with(OF_ONE) {
            // The command ran as a block of one command.
            out.drain(..OF_ONE.len());
        }
        let (made, unwaited) = (run.workspace.take(), run.workspace.take_unwaited());
        let Some(fetching) = block.fetching.as_deref_mut() else { return Ran::Later };
        fetching.put_together();
        if let Some(wait) = unwaited.filter(|_| fetching.patient.is_some()) {
            return Ran::Waits(Unserved { wait, now: run.now });
        }
        if let Some(text) = run.aside.killed.take() {
            return if fetching.interactive { Ran::Answers(Err(text)) } else { Ran::Killed(text) };
        }
        if fetching.interactive {
            conn.closing |= closes;
            std::mem::take(&mut run.aside.lines).into_iter().for_each(|line| self.node().show_line(line));
            let noted = match conn.session.transaction.as_deref_mut() {
                Some(transaction) => transaction.note_made(made, &mut run.workspace, &mut run.aside),
                None => Ok(()),
            };
            return Ran::Answers(noted.map(|()| out));
        }
        let needs_memory = run.aside.needs_memory;
        fetching.told = Some(Told { reply: out, aside: std::mem::take(&mut run.aside), closes });
        Ran::Made(made, needs_memory)
    }

    fn in_workspace<R>(
        &mut self,
        conn: &mut Conn,
        run: &mut Run,
        out: &mut Vec<u8>,
        f: impl FnOnce(&mut SessionCtx<'_>, Option<Suspended>) -> R,
    ) -> R {
        let (node, settings) = (self.node().clone(), self.settings().clone());
        let tunables = self.engine().tunables().clone();
        let mut batch = Batch::new();
        let pushed = batch.push_copy([&b"EXEC"[..]]);
        debug_assert!(pushed, "a short command");
        let exec = node.table.find_own(b"exec").expect("the table has EXEC");
        let exec = admit(exec, batch.args(0, &[]), &mut InWorkspace).unwrap_or_else(|never| match never {});
        let suspended = run.suspended.take().map(|mut suspended| {
            std::mem::swap(out, &mut suspended.out);
            *suspended
        });
        self.port.settle_meter();
        run.workspace.begin(run.now, &tunables);
        let mut ctx = SessionCtx {
            engine: run.workspace.engine(),
            out,
            aside: Some(&mut run.aside),
            ..self.port.session_ctx(conn, &node, &settings, exec, batch.args(0, &[]))
        };
        let result = f(&mut ctx, suspended);
        run.workspace.engine().parts.copy_into(out);
        run.workspace.end();
        result
    }

    /// Ends the run of a block. The values that it runs on are out of date, or its client has gone.
    pub(super) fn stop_workspace(&mut self, conn: &mut Conn, block: &mut Block) {
        block.fetching.as_deref_mut().into_iter().for_each(Fetching::put_together);
        let Some(mut run) = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take()) else { return };
        let multi = self.in_workspace(conn, &mut run, &mut Vec::new(), |ctx, suspended| {
            suspended.and_then(|suspended| suspended.give_up(ctx)).or_else(|| ctx.session.multi.take())
        });
        // A run that has not begun has them still.
        block.multi = multi.unwrap_or_else(|| std::mem::take(&mut block.multi));
        conn.session.leave_block();
        self.put_workspace(run.workspace);
    }

    /// Returns true if the script of a block waits for answers of other nodes.
    pub(super) fn asks_for_workspace(&mut self, which: (u64, u32)) -> bool {
        let Some((block, mut conn)) = self.take_running(which.0) else { return false };
        let asks = self.port.ask_for_workspace(&mut conn, which);
        self.port.put_conn(conn);
        self.put_running(which.0, block);
        asks
    }

    pub(super) fn is_running(&mut self, (sequence, attempt): (u64, u32)) -> bool {
        let coordinator = self.txn().coordinator.as_ref();
        coordinator.is_some_and(|coordinator| coordinator.is_running(sequence, attempt))
    }

    /// A block fails: none of it is done.
    pub(super) fn fail_running(&mut self, which: (u64, u32), text: &[u8]) {
        let (now, mut events) = (self.now(), Vec::new());
        let Some(coordinator) = self.txn().coordinator.as_mut() else {
            return;
        };
        if coordinator.give_up(now, which, &mut events) {
            let why = txn::Refusal::Failed(text.into());
            events.push(txn::Event::Failed { sequence: which.0, why });
        }
        self.carry_out(events);
    }

    /// A block is committed: tells its messages. Returns its reply.
    pub(super) fn tell_block(&mut self, block: &mut Block) -> Option<Vec<u8>> {
        if let Some(transaction) = block.commit.take() {
            self.tell_messages(transaction.messages);
            return Some(b"+OK\r\n".to_vec());
        }
        let told = block.fetching.as_deref_mut()?.told.take()?;
        Some(self.tell(block, told))
    }

    /// Tells the messages of a block. Returns its reply.
    pub(super) fn tell(&mut self, block: &Block, told: Told) -> Vec<u8> {
        told.aside.lines.into_iter().for_each(|line| self.node().show_line(line));
        if !block.alone {
            self.port.show_exec(block.token, block.db, &block.exec);
        }
        self.tell_messages(told.aside.messages);
        if told.closes
            && let Some(conn) = self.port.conn(block.token)
        {
            conn.closing = true;
        }
        told.reply
    }

    fn tell_messages(&mut self, messages: super::interactive::Messages) {
        let (worker, seen) = (self.index(), self.engine().everything_seen());
        for (kind, channel, payload) in messages {
            self.node().publish(worker, kind, &channel, &payload, &seen);
            let message = crate::Message::Spread { kind, channel, payload, seen: seen.clone() };
            self.node().send_from(worker, worker, message);
        }
    }
}

/// A block in a workspace, as admission sees it. EXEC runs what a client has called, which has passed the client's
/// checks. Each command of the block passes the checks of a block.
struct InWorkspace;

type Passes = Result<(), Infallible>;

impl Caller for InWorkspace {
    const ORDER: [Step; Step::COUNT] = AS_OF_CLIENTS;
    type Instead = Infallible;

    fn arity(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn rights(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn state(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn cluster(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn write(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn memory(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn now(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }
}

/// The changes of a block, by the participants that own the keys. The error is for the client.
fn split(fetching: &Fetching, made: Made, needs_memory: bool) -> Result<MadeOf, Vec<u8>> {
    const NOT_LOCKED: &[u8] = b"ERR a change of a key that was not fetched";
    let mut effects_of: BTreeMap<ParticipantId, Vec<u8>> = BTreeMap::new();
    for effect in effects::split(&made.effects) {
        let (effect, bytes) = effect.map_err(|_| NOT_LOCKED)?;
        let owner = fetching.owner_of((effect.db, effect.key)).ok_or(NOT_LOCKED)?;
        effects_of.entry(owner).or_default().extend_from_slice(bytes);
    }
    let mut events_of: BTreeMap<ParticipantId, Vec<command::Event>> = BTreeMap::new();
    for event in made.events {
        if let Some(owner) = fetching.owner_of((event.db, &event.key)) {
            events_of.entry(owner).or_default().push(event);
        }
    }
    let mut all = Vec::new();
    for part in &fetching.parts {
        let owner = part.member.id;
        let events = events_of.remove(&owner).unwrap_or_default();
        let effects = effects_of.get(&owner).map_or(&[][..], Vec::as_slice);
        if events.is_empty() && effects.is_empty() {
            continue;
        }
        let changes = Changes { checks: Vec::new(), effects, events, needs_memory }.encode();
        if changes.len() > PART_MAX {
            return Err(if effects.len() > PART_MAX { TOO_LARGE } else { TOO_LONG }.into());
        }
        all.push((owner, changes.into()));
    }
    Ok(all)
}

//! Commands, scripts and blocks that need keys of several nodes at once, or keys of other nodes and something that only this one has.
//!
//! All their keys are locked where they are, and copies of them fetched; the block runs on these in a *workspace*, as EXEC runs any block; what came
//! of that is prepared and committed by the owners of the keys. A script that turns out to need further keys is suspended, and goes on when these are locked and
//! fetched, too (`txn::Coordinator::widen`).
//! Nothing of a block is told before it is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::{Reach, effects};
use engine::Workspace;
use resp::{Args, Batch};
use txn::locks::Mode;
use txn::{Lock, NodeId, Part};

use super::coordinator::{Block, OfNode, PART_MAX, TOO_LONG, Watches};
use super::doubts::LOOK_MS;
use super::found::Unusable;
use super::part::TOO_LARGE;
use super::waiting::Unserved;
use super::wire::Changes;
use crate::cluster::inquiry::Answers;
use crate::cluster::kinds::Kind;
use crate::cluster::peers::Peers;
use crate::cluster::route::{EVERYTHING, SEVERAL};
use crate::node::Node;
use crate::session::{Aside, Flow, Multi, SessionCtx, Suspended, database, exec, is_read_only_script};
use crate::table::{Command, Handler};
use crate::worker::Worker;
use crate::worker::conn::Conn;

/// Workspaces that a worker keeps for later.
const IDLE: usize = 4;
/// Before the reply of a block of one command.
const OF_ONE: &[u8] = b"*1\r\n";
/// Of keys, with their databases.
pub(super) type Versions = BTreeMap<(u16, Box<[u8]>), u64>;

/// A block that runs on copies.
#[derive(Default)]
pub(super) struct Fetching {
    /// Who has what.
    pub(super) parts: Vec<Part>,
    /// What its present attempt was widened by, beside what the parts have: keys, and whose they are.
    pub(super) wider: Vec<(NodeId, Arc<[Lock]>)>,
    /// Keys that scripts turned out to need, and how many bytes they are by owner.
    pub(super) extra: Vec<Lock>,
    pub(super) extra_bytes: BTreeMap<NodeId, usize>,
    /// What its present attempt has found.
    pub(super) seen: Seen,
    /// It is a command between BEGIN and COMMIT.
    pub(super) interactive: bool,
    /// It is between two transactions, and holds nothing, as nodes are asked about their keys.
    pub(super) apart: bool,
    /// What was asked for, of what its transaction had not seen.
    pub(super) asked: Vec<Lock>,
    /// What its script lacks.
    pub(super) further: Vec<Lock>,
    /// When it was first asked for, unix milliseconds.
    pub(super) asked_at: u64,
    /// The command waits if it finds nothing: the versions of the keys that there are.
    pub(super) patient: Option<Versions>,
    /// It runs.
    pub(super) run: Option<Box<Run>>,
    /// It has run.
    pub(super) told: Option<Told>,
}

/// What was found for a block.
#[derive(Default)]
pub(super) struct Seen {
    /// The latest time at which a node has looked, unix milliseconds.
    pub(super) latest: u64,
    /// When the first of the keys, or of their fields, ends that were there, unix milliseconds.
    pub(super) ends: Option<u64>,
    /// How much it is, by node.
    pub(super) bytes: BTreeMap<NodeId, usize>,
}

/// A block under way in a workspace.
pub(super) struct Run {
    pub(super) attempt: u32,
    pub(super) workspace: Workspace,
    pub(super) aside: Aside,
    /// Its time, unix milliseconds.
    pub(super) now: u64,
    pub(super) suspended: Option<Box<Suspended>>,
    /// When the owners of the keys were last told that it takes long, in milliseconds of [`Worker::tx_now`].
    told_slow: Option<u64>,
}

/// What a block tells once it is committed.
pub(super) struct Told {
    reply: Vec<u8>,
    aside: Aside,
    /// The client's connection is to be closed.
    closes: bool,
}

/// What is to be done to the keys of nodes.
type MadeOf = Vec<(NodeId, Arc<[u8]>)>;

/// How a stretch of running ended.
enum Ran {
    /// It goes on later.
    Later,
    /// Its script needs further keys, and goes on when it has them.
    Lacks(Vec<Lock>),
    /// Its script waits for what other nodes answer. Alone: it must hold nothing meanwhile, and runs again from the start.
    Asks { alone: bool },
    /// It runs again from the start, when other nodes have answered.
    Again,
    /// It has run; what is to be done to the keys of each node, or that this cannot be.
    Done(Result<MadeOf, Vec<u8>>),
    /// It has run, and waits.
    Waits(Unserved),
    /// It has run, between BEGIN and COMMIT; its reply, or that it cannot be.
    Answers(Result<Vec<u8>, Vec<u8>>),
}

impl Run {
    /// Its script takes long, and it is time to say so: whether that is a function, and to whom.
    fn slow_script(&mut self, now: u64, fetching: &Fetching) -> Option<(bool, Vec<NodeId>)> {
        let is_due = self.told_slow.is_none_or(|told| told + LOOK_MS <= now);
        // Between BEGIN and COMMIT nothing is held.
        let function = self.aside.slow.filter(|_| is_due && !fetching.interactive)?;
        self.told_slow = Some(now);
        Some((function, fetching.parts.iter().map(|part| part.member.node).collect()))
    }
}

impl Command {
    /// How it locks its keys.
    pub(crate) fn mode(&self) -> Mode {
        super::coordinator::mode_of(self)
    }

    /// The databases in which it works on its keys, if its session has selected `db`: MOVE and COPY make keys elsewhere.
    pub(crate) fn databases(&self, db: u16, databases: u16) -> std::ops::Range<u16> {
        if self.spec.has(command::flags::OTHER_DB) { 0..databases } else { db..db + 1 }
    }
}

impl Fetching {
    /// `extra`: keys that it is known to need beside those of its commands. What is asked for now, `asked_at`, unix milliseconds.
    pub(super) fn new(parts: Vec<Part>, extra: Vec<Lock>, asked_at: u64) -> Box<Self> {
        Box::new(Self { parts, extra, asked_at, ..Self::default() })
    }

    /// Of a command between BEGIN and COMMIT.
    pub(super) fn interactive(parts: Vec<Part>) -> Option<Box<Self>> {
        Some(Box::new(Self { parts, interactive: true, ..Self::default() }))
    }

    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Keys that it was found to need beside those of its commands.
    pub(super) fn extra(&self) -> &[Lock] {
        &self.extra
    }

    /// The version of a key that was looked at; 0: it is not there.
    pub(super) fn version_of(&self, db: u16, key: &[u8]) -> u64 {
        self.patient.as_ref().and_then(|versions| versions.get(&(db, key.into()))).copied().unwrap_or(0)
    }

    /// Whether keys have other owners now.
    pub(super) fn is_elsewhere(&self, parts: &[Part]) -> bool {
        let of =
            |parts: &[Part]| -> Vec<_> { parts.iter().map(|part| (part.member.node, part.locks.clone())).collect() };
        of(&self.parts) != of(parts)
    }

    /// All its keys.
    pub(super) fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.parts.iter().flat_map(|part| part.locks.iter())
    }

    pub(super) fn owner_of(&self, place: (u16, &[u8])) -> Option<NodeId> {
        let has = |locks: &[Lock]| locks.binary_search_by(|lock| lock.place().cmp(&place)).is_ok();
        let part = self.parts.iter().find(|part| has(&part.locks)).map(|part| part.member.node);
        part.or_else(|| self.wider.iter().rev().find(|(_, locks)| has(locks)).map(|(node, _)| *node))
    }
}

impl Peers {
    /// Which node has which keys of a block that runs on copies. The error is for the client.
    pub(super) fn plan_fetching(
        &self,
        (node, databases): (&Node, u16),
        multi: &Multi,
        watches: Watches<'_>,
        session: (u16, resp::Protocol),
        extra: &[Lock],
    ) -> Result<Vec<Part>, Vec<u8>> {
        let (mut selected, protocol) = session;
        let mut nodes = self.parts_of_watches(watches, protocol)?;
        let mut add = |lock: Lock| {
            let owner = self.owner(&lock.key)?;
            nodes.entry(owner).or_insert_with(|| OfNode::new(protocol)).locks.push(lock);
            Ok::<(), Vec<u8>>(())
        };
        let mut positions = Vec::new();
        for (queued, args) in multi.commands() {
            let command = node.table.get(queued.command);
            let kind = self.kinds[queued.command];
            match kind {
                Kind::Quick if command.name == "select" => {
                    selected = database(args.get(1).unwrap_or_default(), databases).unwrap_or(selected);
                }
                Kind::Keyed | Kind::Patient | Kind::Script => {
                    if reach_of(command, args) != Reach::Keys {
                        return Err(EVERYTHING.into());
                    }
                    let mode = match kind {
                        Kind::Script if is_read_only_script(node, command, args) => Mode::Shared,
                        Kind::Script => Mode::Exclusive,
                        _ => command.mode(),
                    };
                    positions.clear();
                    command.spec.keys_of(args, &mut positions);
                    for key in positions.iter().filter_map(|at| args.get(at.index)) {
                        for db in command.databases(selected, databases) {
                            add(Lock { db, key: key.into(), mode })?;
                        }
                    }
                }
                Kind::Quick | Kind::Unwatch | Kind::Own => {}
                _ if self.may_be_asked(command) => {}
                Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot => return Err(EVERYTHING.into()),
                Kind::Watch | Kind::Exec => return Err(SEVERAL.into()),
            }
        }
        extra.iter().cloned().try_for_each(add)?;
        self.parts_of(nodes)
    }
}

/// On which keys a command works.
pub(crate) fn reach_of(command: &Command, args: Args<'_>) -> Reach {
    match command.handler {
        Handler::Data(row) => row.run.reach(args),
        Handler::Session(_) => Reach::Keys,
    }
}

impl Worker {
    /// What a block needs has been fetched: it runs.
    pub(super) fn run_fetched(&mut self, (sequence, attempt): (u64, u32), found: &[(NodeId, Arc<[u8]>)]) {
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        if block.fetching.as_deref().is_some_and(|fetching| fetching.interactive && fetching.run.is_some()) {
            return self.go_on_interactive((sequence, attempt), (block, conn), found);
        }
        self.stop_workspace(&mut conn, &mut block);
        let mut workspace = self.workspace();
        let filled = self.fill_workspace(&mut conn, &mut block, &mut workspace, found);
        let begun = match (filled, block.fetching.as_deref_mut()) {
            (Ok((now, aside)), Some(fetching)) => {
                fetching.run = Some(Box::new(Run { attempt, workspace, aside, now, suspended: None, told_slow: None }));
                Ok(())
            }
            (filled, _) => {
                self.put_workspace(workspace);
                match filled {
                    Err(Unusable::Wrong(text)) => Err(text),
                    _ => {
                        self.put_conn(conn);
                        self.put_running(sequence, block);
                        return self.fetch_later((sequence, attempt));
                    }
                }
            }
        };
        let session = &mut conn.session;
        session.set_db(block.db);
        session.set_protocol(block.protocol);
        session.multi = Some(std::mem::take(&mut block.multi));
        let is_interactive = block.fetching.as_deref().is_some_and(|fetching| fetching.interactive);
        self.put_conn(conn);
        self.put_running(sequence, block);
        if is_interactive {
            self.end_fetch((sequence, attempt));
        }
        match begun {
            Ok(()) => self.step_workspace(sequence),
            Err(text) if is_interactive => self.answer_interactive(sequence, Err(text.into())),
            Err(text) => self.fail_running((sequence, attempt), text.as_bytes()),
        }
    }

    fn workspace(&mut self) -> Workspace {
        let idle = self.peers.as_deref_mut().and_then(|peers| peers.tx.idle.pop());
        let seed = self.engine.rng().next_u64();
        idle.unwrap_or_else(|| Workspace::new(&self.node.engine, self.index as u16, seed))
    }

    pub(super) fn take_running(&mut self, sequence: u64) -> Option<(Block, Box<Conn>)> {
        let block = self.peers.as_deref_mut()?.tx.blocks.remove(&sequence)?;
        match self.take_conn(block.token) {
            Some(conn) => Some((block, conn)),
            None => {
                self.put_running(sequence, block);
                None
            }
        }
    }

    pub(super) fn put_running(&mut self, sequence: u64, block: Block) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.tx.blocks.insert(sequence, block);
        }
    }

    /// Lets blocks in workspaces go on that have had to let others run.
    pub(super) fn step_workspaces(&mut self) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        for sequence in std::mem::take(&mut peers.tx.running) {
            self.step_workspace(sequence);
        }
    }

    pub(super) fn step_workspace(&mut self, sequence: u64) {
        let Some((mut block, mut conn)) = self.take_running(sequence) else { return };
        let Some(mut run) = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take()) else {
            self.put_conn(conn);
            return self.put_running(sequence, block);
        };
        let attempt = run.attempt;
        let ran = self.run_in_workspace(&mut conn, &mut block, &mut run);
        self.put_conn(conn);
        if let Ran::Later | Ran::Lacks(_) | Ran::Asks { .. } = ran {
            let now = self.tx_now();
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
                _ => {
                    if let Some(peers) = self.peers.as_deref_mut() {
                        peers.tx.running.push_back(sequence);
                    }
                }
            };
        }
        self.put_workspace(run.workspace);
        self.put_running(sequence, block);
        match ran {
            Ran::Later | Ran::Lacks(_) | Ran::Asks { .. } => {}
            Ran::Waits(unserved) => self.sleep_over_nodes((sequence, attempt), unserved),
            Ran::Answers(reply) => self.answer_interactive(sequence, reply),
            Ran::Again => {
                if !self.asks_for_workspace((sequence, attempt)) {
                    self.begin_again((sequence, attempt), Vec::new());
                }
            }
            Ran::Done(Err(text)) => self.fail_running((sequence, attempt), &text),
            Ran::Done(Ok(made)) => {
                let (now, mut events) = (self.tx_now(), Vec::new());
                if let Some(coordinator) = self.peers.as_deref_mut().and_then(|peers| peers.tx.coordinator.as_mut()) {
                    // If the attempt is void by now, there will be another.
                    coordinator.proceed(now, (sequence, attempt), &made, &mut events);
                }
                self.tx_events(events);
            }
        }
    }

    pub(super) fn put_workspace(&mut self, mut workspace: Workspace) {
        let tunables = self.engine.tunables().clone();
        workspace.begin(self.engine.now(), &tunables);
        let clear = workspace.clear();
        workspace.end();
        if let Some(peers) = self.peers.as_deref_mut()
            && clear
            && peers.tx.idle.len() < IDLE
        {
            peers.tx.idle.push(workspace);
        }
    }

    /// Runs a block for a while.
    fn run_in_workspace(&mut self, conn: &mut Conn, block: &mut Block, run: &mut Run) -> Ran {
        let mut out = Vec::new();
        let flow = self.in_workspace(conn, run, &mut out, |ctx, suspended| match suspended {
            Some(suspended) => suspended.go_on(ctx),
            None => crate::session::run(ctx, exec::exec),
        });
        self.paused = self.node.pauses.current(self.engine.now());
        self.engine.keep_expired(self.paused.is_some());
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
            // It ran as a block of one command.
            out.drain(..OF_ONE.len());
        }
        let (made, unwaited) = (run.workspace.take(), run.workspace.take_unwaited());
        let Some(fetching) = block.fetching.as_deref_mut() else { return Ran::Later };
        fetching.put_together();
        if let Some(wait) = unwaited.filter(|_| fetching.patient.is_some()) {
            return Ran::Waits(Unserved { wait, now: run.now });
        }
        if let Some(text) = run.aside.killed.take() {
            return if fetching.interactive { Ran::Answers(Err(text)) } else { Ran::Done(Err(text)) };
        }
        if fetching.interactive {
            conn.closing |= closes;
            std::mem::take(&mut run.aside.lines).into_iter().for_each(|line| self.node.show_line(line));
            let noted = match conn.session.transaction.as_deref_mut() {
                Some(transaction) => transaction.note_made(made, &mut run.workspace, &mut run.aside),
                None => Ok(()),
            };
            return Ran::Answers(noted.map(|()| out));
        }
        let made = split(fetching, made, run.aside.needs_memory);
        fetching.told = Some(Told { reply: out, aside: std::mem::take(&mut run.aside), closes });
        Ran::Done(made)
    }

    fn in_workspace<R>(
        &mut self,
        conn: &mut Conn,
        run: &mut Run,
        out: &mut Vec<u8>,
        f: impl FnOnce(&mut SessionCtx<'_>, Option<Suspended>) -> R,
    ) -> R {
        let (node, settings) = (self.node.clone(), self.follower.settings().clone());
        let tunables = self.engine.tunables().clone();
        let mut batch = Batch::new();
        let pushed = batch.push_copy([&b"EXEC"[..]]);
        debug_assert!(pushed, "a short command");
        let exec = node.table.find_own(b"exec").expect("the table has EXEC");
        let suspended = run.suspended.take().map(|mut suspended| {
            std::mem::swap(out, &mut suspended.out);
            *suspended
        });
        self.meter.settle();
        run.workspace.begin(run.now, &tunables);
        let mut ctx = SessionCtx {
            engine: run.workspace.engine(),
            out,
            aside: Some(&mut run.aside),
            ..self.session_ctx(conn, &node, &settings, exec, batch.args(0, &[]))
        };
        let result = f(&mut ctx, suspended);
        run.workspace.engine().parts.copy_into(out);
        run.workspace.end();
        result
    }

    /// Ends the run of a block that is under way: what it runs on is not so any more, or nobody waits for it.
    pub(super) fn stop_workspace(&mut self, conn: &mut Conn, block: &mut Block) {
        block.fetching.as_deref_mut().into_iter().for_each(Fetching::put_together);
        let Some(mut run) = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take()) else { return };
        let multi = self.in_workspace(conn, &mut run, &mut Vec::new(), |ctx, suspended| {
            suspended.and_then(|suspended| suspended.give_up(ctx)).or_else(|| ctx.session.multi.take())
        });
        block.multi = multi.unwrap_or_default();
        conn.session.leave_block();
        self.put_workspace(run.workspace);
    }

    /// Whether the script of a block waits for what other nodes answer.
    pub(super) fn asks_for_workspace(&mut self, which: (u64, u32)) -> bool {
        let Some((block, mut conn)) = self.take_running(which.0) else { return false };
        let asks = self.ask_for_workspace(&mut conn, which);
        self.put_conn(conn);
        self.put_running(which.0, block);
        asks
    }

    pub(crate) fn note_answered(&mut self, which: (u64, u32)) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.tx.answered.push(which);
        }
    }

    /// A block cannot be done: nothing of it is.
    pub(super) fn fail_running(&mut self, which: (u64, u32), text: &[u8]) {
        let (now, mut events) = (self.tx_now(), Vec::new());
        let Some(coordinator) = self.peers.as_deref_mut().and_then(|peers| peers.tx.coordinator.as_mut()) else {
            return;
        };
        if coordinator.give_up(now, which, &mut events) {
            let why = txn::Refusal::Failed(text.into());
            events.push(txn::Event::Failed { sequence: which.0, why });
        }
        self.tx_events(events);
    }

    /// A block is committed: what it has to tell is told. Its reply.
    pub(super) fn tell_block(&mut self, block: &mut Block) -> Option<Vec<u8>> {
        if let Some(transaction) = block.commit.take() {
            self.tell_messages(transaction.messages);
            return Some(b"+OK\r\n".to_vec());
        }
        let told = block.fetching.as_deref_mut()?.told.take()?;
        told.aside.lines.into_iter().for_each(|line| self.node.show_line(line));
        if self.monitored
            && !block.alone
            && let Some(client) = self.conn(block.token).map(|conn| conn.session.client.clone())
        {
            self.show_exec(&client, block.db, &block.exec);
        }
        self.tell_messages(told.aside.messages);
        if told.closes
            && let Some(conn) = self.conn(block.token)
        {
            conn.closing = true;
        }
        Some(told.reply)
    }

    fn tell_messages(&mut self, messages: super::interactive::Messages) {
        let (worker, seen) = (self.index, self.engine.everything_seen());
        for (kind, channel, payload) in messages {
            self.node.publish(worker, kind, &channel, &payload, &seen);
            let message = crate::Message::Spread { kind, channel, payload, seen: seen.clone() };
            self.node.send_from(worker, worker, message);
        }
    }
}

/// What a block has done, by the nodes that own the keys. The error is for the client.
fn split(fetching: &Fetching, made: engine::Made, needs_memory: bool) -> Result<MadeOf, Vec<u8>> {
    const NOT_LOCKED: &[u8] = b"ERR a change of a key that was not fetched";
    let mut effects_of: BTreeMap<NodeId, Vec<u8>> = BTreeMap::new();
    for effect in effects::split(&made.effects) {
        let (effect, bytes) = effect.map_err(|_| NOT_LOCKED)?;
        let owner = fetching.owner_of((effect.db, effect.key)).ok_or(NOT_LOCKED)?;
        effects_of.entry(owner).or_default().extend_from_slice(bytes);
    }
    let mut events_of: BTreeMap<NodeId, Vec<command::Event>> = BTreeMap::new();
    for event in made.events {
        if let Some(owner) = fetching.owner_of((event.db, &event.key)) {
            events_of.entry(owner).or_default().push(event);
        }
    }
    let mut all = Vec::new();
    for part in &fetching.parts {
        let node = part.member.node;
        let events = events_of.remove(&node).unwrap_or_default();
        let effects = effects_of.get(&node).map_or(&[][..], Vec::as_slice);
        if events.is_empty() && effects.is_empty() {
            continue;
        }
        let changes = Changes { checks: Vec::new(), effects, events, needs_memory }.encode();
        if changes.len() > PART_MAX {
            return Err(if effects.len() > PART_MAX { TOO_LARGE } else { TOO_LONG }.into());
        }
        all.push((node, changes.into()));
    }
    Ok(all)
}

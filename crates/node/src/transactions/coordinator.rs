//! EXEC of a block whose commands need one node each, and several together.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::{KeyAt, Reach, flags};
use engine::WatchedKey;
use resp::{Args, Protocol, Reply};
use txn::locks::Mode;
use txn::{Event, Lock, Member, NodeId, Part, Refusal};

use super::split::{Join, join, lacking};
use super::waiting::Waiting;
use super::workspace::Fetching;
use super::{Watched, member, wire};
use crate::cluster::kinds::Kind;
use crate::cluster::peers::Peers;
use crate::cluster::route::{NO_OWNER, Place, SEVERAL};
use crate::cluster::tracking::For;
use crate::figures::stats::add;
use crate::node::Node;
use crate::session::interactive::Interactive;
use crate::session::{ExecWord, Multi, database};
use crate::table::{Command, Handler, Table};
use crate::worker::conn::{Conn, Wait};
use crate::worker::{Token, Worker};

/// Bytes of a node's part of a block at most: it is one message.
pub(super) const PART_MAX: usize = 8 << 20;
pub(super) const TOO_LONG: &[u8] = b"ERR the block is too long for a transaction over nodes";
/// For so long a block is tried again whose nodes say that they do not own its keys, while the map says that they do, in milliseconds.
const MAP_MS: u64 = 3_000;
pub(super) const NOT_SERVED: &[u8] = b"CLUSTERDOWN a node that owns some of the keys does not serve them now";

/// A block under way.
pub(super) struct Block {
    pub(super) token: Token,
    /// It is one command, and no EXEC.
    pub(super) alone: bool,
    /// Where its reply goes, and whether the client wants it.
    hole: (u64, bool),
    pub(super) multi: Box<Multi>,
    /// What the client watches at this node.
    watched: Vec<WatchedKey>,
    /// What it watches at others.
    elsewhere: Vec<Elsewhere>,
    /// Database and protocol of the session.
    pub(super) db: u16,
    pub(super) protocol: Protocol,
    answers: Vec<Answer>,
    /// The database that it selects.
    selected: u16,
    /// It runs here, on copies.
    pub(super) fetching: Option<Box<Fetching>>,
    /// It is the COMMIT of this.
    pub(super) commit: Option<Box<Interactive>>,
    /// Since when its nodes say that keys are elsewhere and the map has not said where, in milliseconds of [`Worker::tx_now`].
    moved_since: Option<u64>,
    /// It waits, or tries again: what it needs was not there.
    pub(super) waiting: Option<Box<Waiting>>,
    /// For whom it runs, if that client caches.
    pub(super) runs: For,
    /// See [`Multi::exec`].
    pub(super) exec: ExecWord,
}

/// What a client watches at this node, and at others.
pub(super) type Watches<'a> = (&'a [WatchedKey], &'a [Elsewhere]);

/// What a connection watches at other nodes.
fn watched_elsewhere(conn: &Conn) -> Vec<Elsewhere> {
    let Some(remote) = conn.remote.as_deref() else { return Vec::new() };
    let lines = remote.lines.iter().enumerate().filter_map(|(link, line)| Some((link, line.as_ref()?)));
    let watching = lines.filter(|(_, line)| !line.watched.is_empty());
    let elsewhere = watching.map(|(link, line)| {
        let (vc, client, keys) = (line.vc, conn.session.client.id, line.watched.len() as u32);
        Elsewhere { link, watch: wire::Watch { vc, client, keys }, keys: line.watched.clone() }
    });
    elsewhere.collect()
}

/// What a client watches at another node.
pub(super) struct Elsewhere {
    link: usize,
    watch: wire::Watch,
    keys: Vec<(u16, Box<[u8]>)>,
}

/// Where the reply to a command comes from.
enum Answer {
    Node(NodeId),
    Here(Vec<u8>),
    /// From several nodes, each of which has these of its keys.
    Split(Join, Vec<(NodeId, Vec<usize>)>),
}

/// What a block is to the nodes.
struct Plan {
    parts: Vec<Part>,
    answers: Vec<Answer>,
    selected: u16,
    /// It runs here, on copies.
    fetches: bool,
}

/// A node's part of it.
pub(super) struct OfNode {
    pub(super) locks: Vec<Lock>,
    commands: wire::Commands,
}

impl OfNode {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { locks: Vec::new(), commands: wire::Commands::new(protocol, None) }
    }
}

/// What became of an EXEC.
pub(crate) enum Begun {
    /// The connection waits.
    Waits,
    /// It cannot be; what the client is told.
    Refused(Vec<u8>),
}

/// What a transaction does at a node. Who only shares locks changes nothing there.
pub(super) fn part(member: Member, locks: Vec<Lock>, commands: Arc<[u8]>) -> Part {
    let writes = locks.iter().any(|lock| lock.mode == Mode::Exclusive);
    Part { member, locks: Lock::normalized(locks), commands, writes }
}

impl Peers {
    /// Who owns a key.
    pub(super) fn owner(&self, key: &[u8]) -> Result<u16, Vec<u8>> {
        self.map.owner_of(keyspace::slot_of(key)).ok_or_else(|| NO_OWNER.into())
    }

    /// What is watched, by nodes.
    pub(super) fn parts_of_watches(
        &self,
        (watched, elsewhere): Watches<'_>,
        protocol: Protocol,
    ) -> Result<BTreeMap<u16, OfNode>, Vec<u8>> {
        let mut nodes: BTreeMap<u16, OfNode> = BTreeMap::new();
        let lock = |db: u16, key: &[u8]| Lock { db, key: key.into(), mode: Mode::Shared };
        if !watched.is_empty() {
            let watch = wire::Watch { vc: u32::MAX, client: 0, keys: watched.len() as u32 };
            let locks = watched.iter().map(|key| lock(key.db, &key.key)).collect();
            nodes.insert(self.me, OfNode { locks, commands: wire::Commands::new(protocol, Some(watch)) });
        }
        for Elsewhere { link, watch, keys } in elsewhere {
            let place = self.links[*link].node.and_then(|node| self.map.index_of(node)).ok_or(NO_OWNER)?;
            let locks = keys.iter().map(|(db, key)| lock(*db, key)).collect();
            nodes.insert(place, OfNode { locks, commands: wire::Commands::new(protocol, Some(*watch)) });
        }
        Ok(nodes)
    }

    /// The parts of nodes, each of which is a message.
    pub(super) fn parts_of(&self, nodes: BTreeMap<u16, OfNode>) -> Result<Vec<Part>, Vec<u8>> {
        let mut parts = Vec::with_capacity(nodes.len());
        for (owner, OfNode { locks, commands }) in nodes {
            let commands = commands.finish();
            if commands.len() + locks.iter().map(|lock| lock.key.len() + 16).sum::<usize>() > PART_MAX {
                return Err(TOO_LONG.into());
            }
            let member = member(self.map.node(owner));
            parts.push(part(member, locks, commands.into()));
        }
        // As the coordinator has them.
        parts.sort_by_key(|part| part.member);
        Ok(parts)
    }

    /// Which node does what. The error is for the client.
    fn plan(
        &self,
        (node, databases): (&Node, u16),
        multi: &Multi,
        watches: Watches<'_>,
        session: (u16, Protocol),
        extra: &[Lock],
    ) -> Result<Plan, Vec<u8>> {
        if let Some(plan) = self.plan_apart((&node.table, databases), multi, watches, session)? {
            return Ok(plan);
        }
        let parts = self.plan_fetching((node, databases), multi, watches, session, extra)?;
        if parts.is_empty() {
            Err(SEVERAL.into())
        } else {
            Ok(Plan { parts, answers: Vec::new(), selected: session.0, fetches: true })
        }
    }

    /// Which node does what, if each command needs one node only, or works on each of its keys alone.
    fn plan_apart(
        &self,
        (table, databases): (&Table, u16),
        multi: &Multi,
        watches: Watches<'_>,
        (db, protocol): (u16, Protocol),
    ) -> Result<Option<Plan>, Vec<u8>> {
        let mut nodes = self.parts_of_watches(watches, protocol)?;
        let (mut answers, mut selected) = (Vec::with_capacity(multi.queue.len()), db);
        let mut positions: Vec<KeyAt> = Vec::new();
        for (queued, args) in multi.commands() {
            let command = table.get(queued.command);
            let mut here = Vec::new();
            let mut reply = Reply::new(&mut here, protocol);
            match (self.kinds[queued.command], command.handler) {
                (Kind::Quick, _) if command.name == "select" => {
                    match database(args.get(1).unwrap_or_default(), databases) {
                        Ok(db) => {
                            selected = db;
                            reply.ok();
                        }
                        Err(error) => reply.error(error.as_bytes()),
                    }
                    answers.push(Answer::Here(here));
                }
                (Kind::Quick, _) if command.name == "ping" || command.name == "echo" => {
                    match args.get(1) {
                        Some(text) => reply.bulk(text),
                        None => reply.simple("PONG"),
                    }
                    answers.push(Answer::Here(here));
                }
                (Kind::Keyed | Kind::Patient, Handler::Data(row)) => {
                    if let Some(error) = lacking(command, args) {
                        reply.error(&error);
                        answers.push(Answer::Here(here));
                        continue;
                    }
                    let is_lockable = row.run.reach(args) == Reach::Keys;
                    let owner = match self.place_of(command, args, queued.key.map(|(slot, _)| slot)) {
                        Place::At(owner, _) if is_lockable => owner,
                        Place::Nobody => return Err(NO_OWNER.into()),
                        Place::At(..) | Place::Anywhere => return Ok(None),
                        Place::Several => {
                            let Some(split) = self.split(command, args)? else { return Ok(None) };
                            let mut of_nodes = Vec::with_capacity(split.nodes.len());
                            for (owner, (words, numbers)) in split.nodes {
                                let of_node = nodes.entry(owner).or_insert_with(|| OfNode::new(protocol));
                                of_node.commands.push(selected, words.iter().copied());
                                let step = (words.len() - 1) / numbers.len();
                                let keys = words[1..].iter().step_by(step);
                                let lock =
                                    |key: &&[u8]| Lock { db: selected, key: (*key).into(), mode: mode_of(command) };
                                of_node.locks.extend(keys.map(lock));
                                of_nodes.push((member(self.map.node(owner)).node, numbers));
                            }
                            answers.push(Answer::Split(split.join, of_nodes));
                            continue;
                        }
                    };
                    let of_node = nodes.entry(owner).or_insert_with(|| OfNode::new(protocol));
                    of_node.commands.push(selected, args.iter());
                    positions.clear();
                    command.spec.keys_of(args, &mut positions);
                    let (mode, databases) = (mode_of(command), command.databases(selected, databases));
                    for key in positions.iter().filter_map(|at| args.get(at.index)) {
                        of_node.locks.extend(databases.clone().map(|db| Lock { db, key: key.into(), mode }));
                    }
                    answers.push(Answer::Node(member(self.map.node(owner)).node));
                }
                _ => return Ok(None),
            }
        }
        if nodes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Plan { parts: self.parts_of(nodes)?, answers, selected, fetches: false }))
    }
}

pub(super) fn mode_of(command: &Command) -> Mode {
    // Who finds fields of a hash that have expired deletes them: that must not be done twice.
    let writes = flags::MAY_REPLICATE | flags::EXPIRES_FIELDS;
    let reads = command.spec.has(flags::READONLY) && command.spec.flags & writes == 0;
    if reads { Mode::Shared } else { Mode::Exclusive }
}

impl Worker {
    /// EXEC over several nodes, or one command, `alone`, with keys of several. Nothing is owed to the connection.
    pub(crate) fn begin_transaction(&mut self, conn: &mut Conn, command: &Command, alone: Option<Args<'_>>) -> Begun {
        let hole = None;
        self.begin_transaction_at(conn, command, alone, hole)
    }

    /// As [`Self::begin_transaction`], of what is owed this reply already.
    pub(crate) fn begin_transaction_at(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        alone: Option<Args<'_>>,
        hole: Option<(u64, bool)>,
    ) -> Begun {
        let extra = conn.session.goes_over.take().unwrap_or_default();
        if let Some(error) = alone.and_then(|args| lacking(command, args)) {
            return Begun::Refused(error);
        }
        let multi = match alone {
            None => conn.session.multi.take(),
            Some(args) => {
                let mut multi = Box::<Multi>::default();
                multi.push(command.id, None, args).then_some(multi)
            }
        };
        let Some(multi) = multi else { return Begun::Refused(TOO_LONG.into()) };
        let (node, databases) = (self.node.clone(), self.follower.settings().databases);
        let (db, protocol) = (conn.session.db, conn.session.protocol);
        let elsewhere = if alone.is_none() { watched_elsewhere(conn) } else { Vec::new() };
        let watches = (if alone.is_none() { &*conn.session.watched } else { &[] }, &*elsewhere);
        let planned = match self.peers.as_deref_mut() {
            None => Err(SEVERAL.into()),
            Some(peers) => match peers.plan((&node, databases), &multi, watches, (db, protocol), &extra) {
                Ok(_) if peers.tx.coordinator.is_none() => Err(NOT_SERVED.into()),
                Ok(plan) => peers.refusal(&plan.parts).map_or(Ok(plan), Err),
                Err(error) => Err(error),
            },
        };
        let Plan { parts, answers, selected, fetches } = match planned {
            Ok(plan) => plan,
            Err(text) => {
                if alone.is_none() {
                    conn.session.multi = Some(multi);
                }
                return Begun::Refused(text);
            }
        };
        let hole = hole.unwrap_or_else(|| self.place_of_reply(conn));
        let runs = self.runs_for(conn, &multi, &parts);
        let watched = if alone.is_none() { conn.session.leave_multi() } else { Vec::new() };
        // What runs here is counted and shown as it runs.
        match (fetches, alone) {
            (true, Some(_)) => {}
            (true, None) | (false, Some(_)) => self.count_forwarded(conn, command, alone),
            (false, None) => self.count_block(conn, &multi, command),
        }
        conn.wait = Wait::Replies(0);
        let (now, time, clock) = (self.tx_now(), self.engine.hybrid_time(), self.node.clock.unix_ms());
        let mut events = Vec::new();
        if let Some(peers) = self.peers.as_deref_mut()
            && let Some(coordinator) = peers.tx.coordinator.as_mut()
        {
            let fetching = fetches.then(|| Fetching::new(parts.clone(), extra, clock));
            let sequence = match fetches {
                true => coordinator.begin_fetching(now, time, parts, &mut events),
                false => coordinator.begin(now, time, parts, &mut events),
            };
            let exec = multi.exec.clone();
            let fresh = Block::new(conn.token, hole, multi, (db, protocol), fetching);
            let block = Block { alone: alone.is_some(), watched, elsewhere, answers, selected, runs, exec, ..fresh };
            peers.tx.blocks.insert(sequence, block);
        }
        self.tx_events(events);
        Begun::Waits
    }

    /// The client of a connection has gone: what it has begun is not tried again.
    pub(crate) fn abandon_transaction(&mut self, conn: &mut Conn) {
        let (now, token) = (self.tx_now(), conn.token);
        if self.abandon_wait(token) {
            return;
        }
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let of = |(sequence, block): (&u64, &Block)| (block.token == token).then_some(*sequence);
        let Some(sequence) = peers.tx.blocks.iter().find_map(of) else { return };
        let Some(mut block) = peers.tx.blocks.remove(&sequence) else { return };
        self.forget_deadline(&block);
        self.stop_workspace(conn, &mut block);
        let mut events = Vec::new();
        if let Some(peers) = self.peers.as_deref_mut()
            && let Some(coordinator) = &mut peers.tx.coordinator
            && coordinator.abandon(now, sequence, &mut events)
        {
            // It may still happen, and then publishes what it published.
            peers.tx.blocks.insert(sequence, block);
        } else {
            self.engine.unwatch_later(block.watched);
        }
        self.tx_events(events);
    }

    /// Does what the coordinator asks for.
    pub(super) fn tx_events(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Send { to, message } => self.tx_send(to, message),
                Event::Reply { sequence, replies } => {
                    let Some(mut block) = self.take_block(sequence) else { continue };
                    if block.fetching.is_some() || block.commit.is_some() {
                        match self.tell_block(&mut block) {
                            Some(reply) => self.answer_counted(&block, &reply),
                            None => self.cut(block.token),
                        }
                        continue;
                    }
                    match block.reply(&replies) {
                        Some(reply) => self.answer_block(&block, &reply, Some(block.selected)),
                        // A node has said what is no reply: the client must not hear that nothing was done.
                        None => self.cut(block.token),
                    }
                }
                Event::Close { sequence } => {
                    if let Some(block) = self.take_block(sequence) {
                        self.cut(block.token);
                    }
                }
                Event::Failed { sequence, why } => {
                    let Some(mut block) = self.take_block(sequence) else { continue };
                    self.put_session_back(&mut block);
                    let mut bytes = Vec::new();
                    let mut reply = Reply::new(&mut bytes, block.protocol);
                    match why {
                        why if block.commit.is_some() => reply.error(&*super::interactive::refused(&why)),
                        Refusal::Failed(text) => reply.error(&*text),
                        _ => reply.null_array(),
                    }
                    self.answer_block(&block, &bytes, None);
                }
                Event::Fetched { sequence, attempt, round: 0, found } => self.run_fetched((sequence, attempt), &found),
                Event::Fetched { sequence, attempt, found, .. } => self.go_on_fetched((sequence, attempt), &found),
                Event::Reroute { sequence } => self.route_again(sequence),
            }
        }
    }

    fn take_block(&mut self, sequence: u64) -> Option<Block> {
        let tx = &mut self.peers.as_deref_mut()?.tx;
        let mut block = tx.blocks.remove(&sequence)?;
        let last = tx.coordinator.as_ref().and_then(|coordinator| coordinator.current(sequence));
        add(&self.stats.transactions, 1);
        add(&self.stats.transaction_retries, last.map_or(0, |tx| u64::from(tx.attempt.saturating_sub(1))));
        self.engine.unwatch_later(std::mem::take(&mut block.watched));
        Some(block)
    }

    /// A block has not happened: what it did to the session has not, either.
    pub(super) fn put_session_back(&mut self, block: &mut Block) {
        if block.fetching.is_none() {
            return;
        }
        let Some(mut conn) = self.take_conn(block.token) else { return };
        self.stop_workspace(&mut conn, block);
        conn.session.set_db(block.db);
        conn.session.set_protocol(block.protocol);
        conn.session.leave_block();
        self.put_conn(conn);
    }

    /// An error is counted.
    pub(super) fn answer_block(&mut self, block: &Block, reply: &[u8], selected: Option<u16>) {
        if self.conn(block.token).is_some()
            && let Some(error) = reply.strip_prefix(b"-")
        {
            self.stats.count_error(error);
        }
        self.fill_hole(block, reply, selected);
    }

    /// What has run here has counted its errors.
    pub(super) fn answer_counted(&mut self, block: &Block, reply: &[u8]) {
        self.fill_hole(block, reply, None);
    }

    fn fill_hole(&mut self, block: &Block, reply: &[u8], selected: Option<u16>) {
        let Some(mut conn) = self.take_conn(block.token) else { return };
        if block.waiting.is_some() {
            self.forget_deadline(block);
            self.count_unblocked(&conn);
        }
        if let Some(db) = selected {
            conn.session.set_db(db);
        }
        let (hole, wanted) = block.hole;
        if !block.alone {
            self.forget_watched_elsewhere(&mut conn, None);
        }
        self.ensure_out(&mut conn);
        let shown = block.fetching.as_deref().filter(|fetching| fetching.is_interactive());
        let shown = shown.into_iter().flat_map(|shown| shown.locks()).map(|lock| &*lock.key);
        if !self.answer_behind_news(&mut conn, (&block.runs, shown), block.hole, reply) {
            conn.out.fill(hole, if wanted { reply } else { &[] }, true);
            self.tell_held_news(&mut conn);
        }
        self.look_at_answers(&mut conn, usize::MAX);
        self.put_conn(conn);
        self.mark_dirty(block.token);
    }

    /// A node does not own its keys any more, or does not serve: the block goes where they are now.
    fn route_again(&mut self, sequence: u64) {
        if let Some((mut block, mut conn)) = self.take_running(sequence) {
            self.stop_workspace(&mut conn, &mut block);
            self.put_conn(conn);
            self.put_running(sequence, block);
        }
        let now = self.tx_now();
        let (node, databases) = (self.node.clone(), self.follower.settings().databases);
        let token = self.peers.as_deref().and_then(|peers| peers.tx.blocks.get(&sequence)).map(|block| block.token);
        let transaction = token.and_then(|token| self.conn(token)).and_then(|conn| conn.session.transaction.take());
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let failed = |text: &[u8]| Refusal::Failed(text.into());
        let mut planned = match peers.tx.blocks.get(&sequence) {
            None => Err(failed(NOT_SERVED)),
            Some(Block { commit: Some(transaction), selected, .. }) => {
                let plan = |parts| (Plan { parts, answers: Vec::new(), selected: *selected, fetches: false }, false);
                peers.plan_commit(transaction).map(plan).map_err(|text| failed(&text))
            }
            Some(block) => {
                let session = (block.db, block.protocol);
                let extra = block.fetching.as_deref().map_or(&[][..], Fetching::extra);
                let plan = match block.fetching {
                    None => peers.plan((&node, databases), &block.multi, block.watches(), session, extra),
                    Some(_) => peers
                        .plan_fetching((&node, databases), &block.multi, block.watches(), session, extra)
                        .map(|parts| Plan { parts, answers: Vec::new(), selected: block.selected, fetches: true }),
                };
                let moved = |plan: &Plan| match &block.fetching {
                    Some(fetching) => fetching.is_elsewhere(&plan.parts),
                    None => block.is_elsewhere(&plan.answers),
                };
                plan.map_err(|text| failed(&text)).map(|plan| {
                    let moved = moved(&plan);
                    (plan, moved)
                })
            }
        };
        if let (Ok((_, moved)), Some(block)) = (&planned, peers.tx.blocks.get_mut(&sequence)) {
            // A map that says where comes soon: to this node, or to the one that is to have them.
            let since = *block.moved_since.get_or_insert(now);
            if *moved {
                block.moved_since = None;
            } else if now.saturating_sub(since) > MAP_MS {
                planned = Err(failed(NOT_SERVED));
            }
        }
        let Some(coordinator) = peers.tx.coordinator.as_mut() else { return };
        let mut events = Vec::new();
        match planned {
            Ok((mut plan, _)) => {
                if let Some(block) = peers.tx.blocks.get_mut(&sequence) {
                    block.answers = plan.answers;
                    if let Some(fetching) = block.fetching.as_deref_mut() {
                        fetching.parts.clone_from(&plan.parts);
                        if let Some(transaction) = transaction.as_deref().filter(|_| fetching.is_interactive()) {
                            plan.parts = fetching.ask_for_lacking(transaction);
                        }
                    }
                }
                coordinator.routed(now, sequence, plan.parts);
            }
            Err(why) => coordinator.fail(now, sequence, why, &mut events),
        }
        if let Some(conn) = token.and_then(|token| self.conn(token)).filter(|_| transaction.is_some()) {
            conn.session.transaction = transaction;
        }
        self.tx_events(events);
    }
}

impl Peers {
    /// Why a transaction over these nodes is not begun, if so: one of them is out of reach, and it would wait for that, or this one is no node of the
    /// cluster, and nobody would hear it.
    pub(super) fn refusal(&mut self, parts: &[Part]) -> Option<Vec<u8>> {
        let Some(Member { node: me, .. }) = self.member() else { return Some(self.no_lease()) };
        let map = Arc::clone(&self.map);
        for part in parts {
            let place = map.nodes().iter().position(|node| member(node).node == part.member.node)? as u16;
            if part.member.node == me {
                if !self.serves {
                    return Some(self.no_lease());
                }
                continue;
            }
            let link = self.link_to(place);
            if map.node(place).lost || self.links[link].is_out_of_reach() {
                return Some(NOT_SERVED.into());
            }
        }
        None
    }
}

impl Block {
    /// Of one command, such as are between BEGIN and COMMIT, or a COMMIT.
    pub(super) fn new(
        token: Token,
        hole: (u64, bool),
        multi: Box<Multi>,
        (db, protocol): (u16, Protocol),
        fetching: Option<Box<Fetching>>,
    ) -> Self {
        Self {
            token,
            alone: true,
            hole,
            multi,
            watched: Vec::new(),
            elsewhere: Vec::new(),
            db,
            protocol,
            answers: Vec::new(),
            selected: db,
            fetching,
            commit: None,
            moved_since: None,
            waiting: None,
            runs: For::default(),
            exec: ExecWord::new(),
        }
    }

    /// What it watches.
    pub(super) fn watches(&self) -> Watches<'_> {
        (&self.watched, &self.elsewhere)
    }

    /// What it watches at this node.
    pub(super) fn watched_here(&self) -> Watched {
        Watched::Keys(self.watched.clone())
    }

    /// Whether commands have other owners now.
    fn is_elsewhere(&self, answers: &[Answer]) -> bool {
        let nodes = |answer: &Answer| match answer {
            Answer::Here(_) => Vec::new(),
            Answer::Node(node) => vec![*node],
            Answer::Split(_, nodes) => nodes.iter().map(|(node, _)| *node).collect(),
        };
        self.answers.iter().map(nodes).ne(answers.iter().map(nodes))
    }

    /// The reply of EXEC, of those of its parts.
    fn reply(&self, replies: &[(NodeId, Arc<[u8]>)]) -> Option<Vec<u8>> {
        let mut rest: BTreeMap<NodeId, &[u8]> = replies.iter().map(|(node, bytes)| (*node, &**bytes)).collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        if !self.alone {
            reply.array(self.answers.len());
        }
        for answer in &self.answers {
            match answer {
                Answer::Here(bytes) => reply.raw(bytes),
                Answer::Split(how, nodes) => {
                    let mut parts = Vec::with_capacity(nodes.len());
                    for (node, numbers) in nodes {
                        parts.push((wire::take_bytes(rest.get_mut(node)?).ok()?, &**numbers));
                    }
                    reply.raw(&join(*how, &parts, self.protocol)?);
                }
                Answer::Node(node) => reply.raw(wire::take_bytes(rest.get_mut(node)?).ok()?),
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_change_something_locks_alone() {
        let table = Table::new();
        let mode = |name: &str| mode_of(table.find_command(name.as_bytes()).unwrap());
        for name in ["set", "pfcount", "hget", "hmget", "getdel"] {
            assert_eq!(mode(name), Mode::Exclusive, "{name}");
        }
        for name in ["get", "mget", "exists", "lrange", "zscore", "type"] {
            assert_eq!(mode(name), Mode::Shared, "{name}");
        }
    }
}

//! EXEC of a block whose commands need one node each, and several together.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::{KeyAt, Run, flags};
use resp::{Protocol, Reply};
use txn::locks::Mode;
use txn::{Event, Lock, NodeId, Part, Refusal};

use super::super::kinds::Kind;
use super::super::peers::Peers;
use super::super::route::{NO_OWNER, Place, SEVERAL};
use super::{member, wire};
use crate::conn::{Conn, Wait};
use crate::session::{Multi, database};
use crate::table::{Command, Handler, Table};
use crate::worker::{Token, Worker};

/// Bytes of a node's part of a block at most: it is one message.
const PART_MAX: usize = 8 << 20;
const TOO_LONG: &[u8] = b"ERR the block is too long for a transaction over nodes";
pub(super) const NOT_SERVED: &[u8] = b"CLUSTERDOWN a node that owns keys of the block does not serve them now";

/// A block under way.
pub(super) struct Block {
    token: Token,
    /// When it was begun, as links and blocks are counted.
    begun: u64,
    /// Where its reply goes, and whether the client wants it.
    hole: (u64, bool),
    multi: Box<Multi>,
    /// Database and protocol of the session.
    db: u16,
    protocol: Protocol,
    answers: Vec<Answer>,
    /// The database that it selects.
    selected: u16,
}

/// Where the reply to a command comes from.
enum Answer {
    Node(NodeId),
    Here(Vec<u8>),
}

/// What a block is to the nodes.
struct Plan {
    parts: Vec<Part>,
    answers: Vec<Answer>,
    selected: u16,
}

/// What became of an EXEC.
pub(crate) enum Begun {
    /// The connection waits.
    Waits,
    /// It cannot be; what the client is told.
    Refused(Vec<u8>),
}

impl Peers {
    /// Which node does what. The error is for the client.
    fn plan(&self, table: &Table, databases: u16, multi: &Multi, db: u16, protocol: Protocol) -> Result<Plan, Vec<u8>> {
        struct OfNode {
            locks: Vec<Lock>,
            commands: wire::Commands,
        }
        let mut nodes: BTreeMap<u16, OfNode> = BTreeMap::new();
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
                    let whole = matches!(row.run, Run::KeyedOrWhole(_, whole) if whole(args));
                    let owner = match self.place_of(command, args, queued.key.map(|(slot, _)| slot)) {
                        Place::At(owner, _) if !whole => owner,
                        Place::Nobody => return Err(NO_OWNER.into()),
                        Place::At(..) | Place::Anywhere | Place::Several => return Err(SEVERAL.into()),
                    };
                    let of_node = nodes
                        .entry(owner)
                        .or_insert_with(|| OfNode { locks: Vec::new(), commands: wire::Commands::new(protocol) });
                    of_node.commands.push(selected, args);
                    positions.clear();
                    command.spec.keys_of(args, &mut positions);
                    let mode = mode_of(command);
                    // MOVE and COPY make keys elsewhere.
                    let others = command.spec.has(flags::OTHER_DB);
                    let databases = if others { 0..databases } else { selected..selected + 1 };
                    for key in positions.iter().filter_map(|at| args.get(at.index)) {
                        of_node.locks.extend(databases.clone().map(|db| Lock { db, key: key.into(), mode }));
                    }
                    answers.push(Answer::Node(member(self.map.node(owner)).node));
                }
                _ => return Err(SEVERAL.into()),
            }
        }
        let mut parts = Vec::with_capacity(nodes.len());
        for (owner, OfNode { locks, commands }) in nodes {
            let commands = commands.finish();
            if commands.len() + locks.iter().map(|lock| lock.key.len() + 16).sum::<usize>() > PART_MAX {
                return Err(TOO_LONG.into());
            }
            let member = member(self.map.node(owner));
            // Readers log as well: a node that starts again has no time to wait for those who might still hold what they have read (rule T3).
            parts.push(Part { member, locks: Lock::normalized(locks), commands: commands.into(), writes: true });
        }
        Ok(Plan { parts, answers, selected })
    }
}

fn mode_of(command: &Command) -> Mode {
    let reads = command.spec.has(flags::READONLY) && !command.spec.has(flags::MAY_REPLICATE);
    if reads { Mode::Shared } else { Mode::Exclusive }
}

impl Worker {
    /// EXEC over several nodes. Nothing is owed to the connection.
    pub(crate) fn begin_transaction(&mut self, conn: &mut Conn, command: &Command) -> Begun {
        let (node, databases) = (self.node.clone(), self.follower.settings().databases);
        let (db, protocol) = (conn.session.db, conn.session.protocol);
        let Some((peers, multi)) = self.peers.as_deref_mut().zip(conn.session.multi.as_deref()) else {
            return Begun::Refused(SEVERAL.into());
        };
        let plan = match peers.plan(&node.table, databases, multi, db, protocol) {
            Ok(plan) if peers.tx.coordinator.is_some() => plan,
            Ok(_) => return Begun::Refused(NOT_SERVED.into()),
            Err(error) => return Begun::Refused(error),
        };
        if let Some(text) = peers.refusal(&plan.parts) {
            return Begun::Refused(text);
        }
        let hole = self.place_of_reply(conn);
        let Some(multi) = conn.session.multi.take() else { return Begun::Refused(SEVERAL.into()) };
        let watched = conn.session.leave_multi();
        self.engine.unwatch_later(watched);
        self.count_forwarded(conn, command, None);
        conn.wait = Wait::Replies(0);
        let (now, time) = (self.tx_now(), self.engine.hybrid_time());
        let mut events = Vec::new();
        let Plan { parts, answers, selected } = plan;
        if let Some(peers) = self.peers.as_deref_mut()
            && let Some(coordinator) = peers.tx.coordinator.as_mut()
        {
            let sequence = coordinator.begin(now, time, parts, &mut events);
            peers.tx.ticks += 1;
            let begun = peers.tx.ticks;
            let block = Block { token: conn.token, begun, hole, multi, db, protocol, answers, selected };
            peers.tx.blocks.insert(sequence, block);
        }
        self.tx_events(events);
        Begun::Waits
    }

    /// The client of a connection has gone: what it has begun is not tried again.
    pub(crate) fn abandon_transaction(&mut self, token: Token) {
        let now = self.tx_now();
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let of = |(sequence, block): (&u64, &Block)| (block.token == token).then_some(*sequence);
        let Some(sequence) = peers.tx.blocks.iter().find_map(of) else { return };
        peers.tx.blocks.remove(&sequence);
        let Some(coordinator) = &mut peers.tx.coordinator else { return };
        let mut events = Vec::new();
        coordinator.abandon(now, sequence, &mut events);
        self.tx_events(events);
    }

    /// Does what the coordinator asks for.
    pub(super) fn tx_events(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Send { to, message } => self.tx_send(to, message),
                Event::Reply { sequence, replies } => {
                    let Some(block) = self.take_block(sequence) else { continue };
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
                    let Some(block) = self.take_block(sequence) else { continue };
                    let mut bytes = Vec::new();
                    let mut reply = Reply::new(&mut bytes, block.protocol);
                    match why {
                        Refusal::Failed(text) => reply.error(&*text),
                        _ => reply.null_array(),
                    }
                    self.answer_block(&block, &bytes, None);
                }
                Event::Reroute { sequence } => self.route_again(sequence),
            }
        }
    }

    fn take_block(&mut self, sequence: u64) -> Option<Block> {
        self.peers.as_deref_mut()?.tx.blocks.remove(&sequence)
    }

    fn answer_block(&mut self, block: &Block, reply: &[u8], selected: Option<u16>) {
        if reply.first() == Some(&b'-') {
            self.stats.count_error(&reply[1..]);
        }
        let Some(mut conn) = self.take_conn(block.token) else { return };
        if let Some(db) = selected {
            conn.session.set_db(db);
        }
        let (hole, wanted) = block.hole;
        self.ensure_out(&mut conn);
        conn.out.fill(hole, if wanted { reply } else { &[] }, true);
        self.look_at_answers(&mut conn, usize::MAX);
        self.put_conn(conn);
        self.mark_dirty(block.token);
    }

    /// A node does not own its keys any more, or does not serve: the block goes where they are now.
    fn route_again(&mut self, sequence: u64) {
        let now = self.tx_now();
        let (node, databases) = (self.node.clone(), self.follower.settings().databases);
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let failed = |text: &[u8]| Refusal::Failed(text.into());
        let planned = match peers.tx.blocks.get(&sequence) {
            None => Err(failed(NOT_SERVED)),
            Some(block) => {
                let plan = peers.plan(&node.table, databases, &block.multi, block.db, block.protocol);
                let moved = |plan: &Plan| block.is_elsewhere(&plan.answers);
                plan.map_err(|text| failed(&text)).and_then(|plan| match moved(&plan) {
                    true => Ok(plan),
                    false => Err(failed(NOT_SERVED)),
                })
            }
        };
        let Some(coordinator) = peers.tx.coordinator.as_mut() else { return };
        let mut events = Vec::new();
        match planned {
            Ok(plan) => {
                if let Some(block) = peers.tx.blocks.get_mut(&sequence) {
                    block.answers = plan.answers;
                }
                coordinator.routed(now, sequence, plan.parts);
            }
            Err(why) => coordinator.fail(now, sequence, why, &mut events),
        }
        self.tx_events(events);
    }
}

impl Peers {
    /// Why a transaction over these nodes is not begun, if so: one of them is out of reach, and it would wait for that.
    fn refusal(&mut self, parts: &[Part]) -> Option<Vec<u8>> {
        let me = self.member()?.node;
        let map = Arc::clone(&self.map);
        for part in parts {
            let place = map.nodes().iter().position(|node| member(node).node == part.member.node)? as u16;
            if part.member.node == me {
                if !self.serves {
                    return Some(self.no_lease());
                }
                continue;
            }
            if map.node(place).lost {
                return Some(NOT_SERVED.into());
            }
        }
        None
    }
}

impl Block {
    /// Whether a node has a part in it, and cannot have heard of it: its link was open last at this time.
    pub(super) fn is_unheard(&self, node: NodeId, last_open: u64) -> bool {
        self.begun > last_open
            && self.answers.iter().any(|answer| matches!(answer, Answer::Node(other) if *other == node))
    }

    /// Whether commands have other owners now.
    fn is_elsewhere(&self, answers: &[Answer]) -> bool {
        let node = |answer: &Answer| if let Answer::Node(node) = answer { Some(*node) } else { None };
        self.answers.iter().map(node).ne(answers.iter().map(node))
    }

    /// The reply of EXEC, of those of its parts.
    fn reply(&self, replies: &[(NodeId, Arc<[u8]>)]) -> Option<Vec<u8>> {
        let mut rest: BTreeMap<NodeId, &[u8]> = replies.iter().map(|(node, bytes)| (*node, &**bytes)).collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        reply.array(self.answers.len());
        for answer in &self.answers {
            match answer {
                Answer::Here(bytes) => reply.raw(bytes),
                Answer::Node(node) => reply.raw(wire::take_bytes(rest.get_mut(node)?).ok()?),
            }
        }
        Some(out)
    }
}

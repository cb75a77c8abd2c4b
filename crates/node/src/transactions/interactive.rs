//! Transactions between BEGIN and COMMIT. Each command runs on copies: those that earlier commands have left, and those
//! of new keys, which are fetched without keeping their locks. COMMIT is one transaction that locks the keys that were
//! read or changed, lets their owners compare versions, and installs the changes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clocks::UnixMs;
use command::{Reach, effects};
use engine::{Made, Workspace};
use resp::{Args, Reply};
use txn::locks::Mode;
use txn::{Lock, Part, Refusal};

use super::block::Block;
use super::fetching::Fetching;
use super::found::{Unusable, place_of};
use super::plan::{NOT_SERVED, TOO_LONG};
use super::port::{Desk, Port, Transacting};
use super::wire::Image;
use crate::admission::cluster::{NOT_HERE, OfTransaction, Runs};
use crate::cluster::kinds::Kind;
use crate::cluster::merge::Merge;
use crate::cluster::route::calls_function;
use crate::config::Isolation;
use crate::session::transaction::{Interactive, Seen};
use crate::session::{Aside, Multi};
use crate::table::Command;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::token::Token;
use crate::worker::wait::{NodeWait, Wait};

/// Bytes that a transaction may keep.
const BYTES_MAX: usize = 16 << 20;
/// The cost of a key in addition to its name and its image, in bytes.
const KEY: usize = size_of::<((u16, Box<[u8]>), Seen)>();
/// The cost of a message in addition to its channel and its text, in bytes.
const MESSAGE: usize = size_of::<(crate::push::delivery::Kind, Vec<u8>, Vec<u8>)>();
/// The numbers of blocks that need no answer of another node, and of no other blocks.
pub(super) const AT_HOME: u64 = 1 << 63;

const ABORTED: &[u8] = b"ABORTED The transaction was rolled back: ";
const TOO_LARGE: &[u8] = b"ERR the transaction is too large: this command was not executed";
const OTHER_RIGHTS: &str = "the client has another user since BEGIN, or its user has other rights";
const IDLE: &str = "it was idle for longer than transaction-idle-timeout";
pub(super) const CONFLICT: &[u8] =
    b"CONFLICT The transaction was rolled back: another client has changed keys that it uses. None of its changes were made; try it again from BEGIN";

/// The messages that COMMIT publishes in addition to changes of keys.
pub(super) type Messages = Vec<(crate::push::delivery::Kind, Vec<u8>, Vec<u8>)>;

impl Fetching {
    /// Asks for the keys that its transaction has not seen.
    pub(super) fn ask_for_lacking(&mut self, transaction: &Interactive) -> Vec<Part> {
        let parts = std::mem::take(&mut self.parts);
        let lacking = self.ask_for_lacking_of(&parts, transaction);
        self.parts = parts;
        lacking
    }

    /// As before, of these parts.
    fn ask_for_lacking_of(&mut self, parts: &[Part], transaction: &Interactive) -> Vec<Part> {
        let lacking = |part: &Part| {
            let seen = |lock: &&Lock| !transaction.keys.contains_key(&(lock.db, lock.key.clone()));
            // No locks are kept: it is enough to read.
            let locks = part.locks.iter().filter(seen).map(|lock| Lock { mode: Mode::Shared, ..lock.clone() });
            Part { locks: Lock::normalized(locks.collect()), writes: false, ..part.clone() }
        };
        let parts: Vec<Part> = parts.iter().map(lacking).filter(|part| !part.locks.is_empty()).collect();
        self.asked = parts.iter().flat_map(|part| part.locks.iter().cloned()).collect();
        parts
    }
}

impl<P: Port> Transacting<'_, P> {
    /// A command between BEGIN and COMMIT. `None`: it runs here as ever.
    pub(crate) fn route(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>, kind: Kind) -> Option<Next> {
        if let Some(next) = self.port.in_turn(conn) {
            return Some(next);
        }
        let (now, idle_ms) = (self.engine().now(), self.settings().transaction_idle_timeout * 1000);
        let transaction = conn.session.transaction.as_deref_mut()?;
        end_if_idle(transaction, now, idle_ms);
        transaction.active = now;
        // COMMIT makes what the user has done before, so it has to have the same rights still.
        if command.name == "commit" && transaction.over.is_none() && transaction.user != conn.session.user.principal {
            transaction.end(OTHER_RIGHTS);
        }
        let over = transaction.over;
        match (command.name.as_str(), over) {
            // There is no block that EXEC could execute, as it says.
            ("rollback" | "begin" | "reset" | "quit" | "exec", _) => return None,
            ("commit", None) => return Some(self.commit(conn, command, args)),
            (name, Some(why)) => {
                if name == "commit" {
                    conn.session.transaction = None;
                }
                return Some(self.port.decline(conn, command, &[ABORTED, why.as_bytes()].concat()));
            }
            ("multi", None) => return Some(self.port.decline(conn, command, NOT_HERE)),
            _ => {}
        }
        let about = match kind {
            Kind::Keyed | Kind::Patient | Kind::Script => OfTransaction::Keys {
                alone: command.reach(args) == Reach::Keys,
                calls_function: kind == Kind::Script && calls_function(command),
            },
            Kind::Gather(Merge::Receivers) => OfTransaction::Message,
            Kind::Quick | Kind::Own | Kind::Unwatch => OfTransaction::Connection,
            Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot | Kind::Watch | Kind::Exec => {
                OfTransaction::Everything
            }
        };
        match about.runs(self.peers().serves) {
            Runs::OverNodes => Some(self.run_interactive(conn, command, args)),
            Runs::NoLease => {
                let text = self.peers().no_lease();
                Some(self.port.decline(conn, command, &text))
            }
            Runs::Refused(error) => Some(self.port.decline(conn, command, error)),
            Runs::Here | Runs::WithItsBlock | Runs::At(_) | Runs::Moved(..) => None,
        }
    }

    fn run_interactive(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Next {
        let mut multi = Box::<Multi>::default();
        if !multi.push(command.id, None, args) {
            return self.port.decline(conn, command, TOO_LONG);
        }
        if let Some(transaction) = conn.session.transaction.as_deref_mut() {
            if transaction.isolation == Isolation::ReadCommitted {
                transaction.forget_unwritten();
            }
            self.txn().interactive.insert(conn.token);
        }
        let session = (conn.session.db, conn.session.protocol);
        let parts = match self.plan_interactive(&multi, session, &[]) {
            Ok(parts) => parts,
            Err(text) => return self.port.decline(conn, command, &text),
        };
        let hole = self.port.place_of_reply(conn);
        conn.wait = Wait::Node(NodeWait::Replies(0));
        let runs = self.port.runs_for(conn, &multi, &[]);
        let mut block = Block::new(conn.token, hole, multi, session, Fetching::interactive(parts));
        block.runs = runs;
        self.fetch_interactive(conn, block);
        Next::Stop
    }

    fn plan_interactive(
        &mut self,
        multi: &Multi,
        session: (u16, resp::Protocol),
        extra: &[Lock],
    ) -> Result<Vec<Part>, Vec<u8>> {
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let Desk { txn, peers, .. } = self.desk();
        let parts = peers.plan_fetching((&node, databases), multi, (&[], &[]), session, extra)?;
        if txn.coordinator.is_none() && !parts.is_empty() {
            return Err(NOT_SERVED.into());
        }
        peers.refusal(&parts).map_or(Ok(parts), Err)
    }

    /// Fetches the keys that a command needs and its transaction has not seen. If there are none, the command runs
    /// soon.
    fn fetch_interactive(&mut self, conn: &mut Conn, mut block: Block) {
        let (Some(fetching), Some(transaction)) = (block.fetching.as_deref_mut(), conn.session.transaction.as_deref())
        else {
            return;
        };
        let parts = fetching.ask_for_lacking(transaction);
        self.fetch_lacking(conn, block, parts);
    }

    /// Asks for these parts. If there are none, the command runs soon.
    fn fetch_lacking(&mut self, conn: &mut Conn, mut block: Block, parts: Vec<Part>) {
        let (now, time, clock) = (self.now(), self.engine().hybrid_time(), self.node().clock.unix_ms());
        let mut events = Vec::new();
        block.fetching.as_deref_mut().into_iter().for_each(|fetching| fetching.asked_at = clock);
        let mut runs = std::mem::take(&mut block.runs);
        self.port.tell_parts(conn, &parts, &mut runs);
        block.runs = runs;
        let txn = self.txn();
        match txn.coordinator.as_mut() {
            Some(coordinator) if !parts.is_empty() => {
                let sequence = coordinator.begin_fetching(now, time, parts, &mut events);
                txn.blocks.insert(sequence, block);
            }
            // Plans of what needs others are refused without a coordinator.
            _ => {
                txn.at_home += 1;
                let sequence = AT_HOME | txn.at_home;
                txn.blocks.insert(sequence, block);
                txn.beginning.push(sequence);
            }
        }
        self.carry_out(events);
    }

    /// A script turned out to need further keys. Those that its transaction has not seen are fetched, and the script
    /// goes on.
    pub(super) fn fetch_further_interactive(
        &mut self,
        (sequence, mut block, mut conn): (u64, Block, Box<Conn>),
        missing: Vec<Lock>,
    ) {
        let Desk { txn, peers, .. } = self.desk();
        let planned = match txn.coordinator {
            Some(_) => peers
                .plan_further(missing.clone(), block.protocol)
                .and_then(|parts| peers.refusal(&parts).map_or(Ok(parts), Err)),
            None => Err(NOT_SERVED.into()),
        };
        match (planned, block.fetching.as_deref_mut(), conn.session.transaction.as_deref()) {
            (Ok(parts), Some(fetching), Some(transaction)) => {
                fetching.extra.extend(missing);
                fetching.note_wider(&parts);
                let lacking = fetching.ask_for_lacking_of(&parts, transaction);
                self.fetch_lacking(&mut conn, block, lacking);
                self.port.put_conn(conn);
            }
            (planned, ..) => {
                self.port.put_conn(conn);
                self.put_running(sequence, block);
                let text = planned.err().unwrap_or_else(|| NOT_SERVED.into());
                self.answer_interactive(sequence, Err(text));
            }
        }
    }

    /// The keys that a script lacked are there.
    pub(super) fn go_on_interactive(
        &mut self,
        which: (u64, u32),
        (mut block, mut conn): (Block, Box<Conn>),
        found: &[(txn::ParticipantId, Arc<[u8]>)],
    ) {
        let run = block.fetching.as_deref_mut().and_then(|fetching| fetching.run.take());
        let transaction = conn.session.transaction.as_deref_mut();
        let filled = match (block.fetching.as_deref_mut(), transaction, run) {
            (Some(fetching), Some(transaction), Some(mut run)) => {
                let filled = self.fill_further_interactive(transaction, fetching, &mut run, found);
                run.attempt = which.1;
                fetching.run = Some(run);
                filled
            }
            _ => Err(Unusable::Untimely),
        };
        self.port.put_conn(conn);
        self.put_running(which.0, block);
        self.end_fetch(which);
        match filled {
            Ok(()) => self.step_workspace(which.0),
            Err(Unusable::Untimely | Unusable::NoCopy) => self.begin_again(which, Vec::new()),
            Err(Unusable::Wrong(text)) => self.answer_interactive(which.0, Err(text.into())),
        }
    }

    /// A command runs again from its start.
    pub(super) fn fetch_more_interactive(&mut self, sequence: u64) {
        let Some((block, mut conn)) = self.take_running(sequence) else { return };
        let extra = block.fetching.as_deref().map(|fetching| fetching.extra().to_vec()).unwrap_or_default();
        let planned = self.plan_interactive(&block.multi, (block.db, block.protocol), &extra);
        match planned {
            Ok(parts) => {
                let mut block = block;
                if let Some(fetching) = block.fetching.as_deref_mut() {
                    fetching.parts = parts;
                }
                self.fetch_interactive(&mut conn, block);
                self.port.put_conn(conn);
            }
            Err(text) => {
                self.port.put_conn(conn);
                self.put_running(sequence, block);
                self.answer_interactive(sequence, Err(text));
            }
        }
    }

    /// The fetched keys are in the workspace: the coordinator no longer needs them.
    pub(super) fn end_fetch(&mut self, which: (u64, u32)) {
        let (now, mut events) = (self.now(), Vec::new());
        if let Some(coordinator) = self.txn().coordinator.as_mut() {
            coordinator.give_up(now, which, &mut events);
        }
        self.carry_out(events);
    }

    /// A command between BEGIN and COMMIT has run, or cannot be.
    pub(super) fn answer_interactive(&mut self, sequence: u64, ran: Result<Vec<u8>, Vec<u8>>) {
        let Some(mut block) = self.txn().blocks.remove(&sequence) else { return };
        // Waiting for an answer is not idling.
        let now = self.engine().now();
        if let Some(transaction) = self.port.conn(block.token).and_then(|conn| conn.session.transaction.as_deref_mut())
        {
            transaction.active = now;
        }
        match ran {
            Ok(reply) => self.answer_counted(&block, &reply),
            Err(text) => {
                self.put_session_back(&mut block);
                self.answer_block(&block, &error(&text), None);
            }
        }
    }

    /// COMMIT.
    fn commit(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>) -> Next {
        let Some(transaction) = conn.session.transaction.take() else { return Next::Continue };
        let Desk { txn, peers, .. } = self.desk();
        let planned = match peers.plan_commit(&transaction) {
            Ok(parts) if parts.is_empty() => Ok(parts),
            Ok(_) if txn.coordinator.is_none() => Err(NOT_SERVED.into()),
            Ok(parts) => peers.refusal(&parts).map_or(Ok(parts), Err),
            Err(text) => Err(text),
        };
        let parts = match planned {
            Ok(parts) => parts,
            Err(text) => {
                // Nothing has happened: it may be tried again.
                conn.session.transaction = Some(transaction);
                return self.port.decline(conn, command, &text);
            }
        };
        let hole = self.port.place_of_reply(conn);
        conn.wait = Wait::Node(NodeWait::Replies(0));
        self.port.count_forwarded(conn, command, Some(args));
        let (now, time) = (self.now(), self.engine().hybrid_time());
        let mut events = Vec::new();
        let session = (conn.session.db, conn.session.protocol);
        let mut block = Block::new(conn.token, hole, Box::default(), session, None);
        block.runs = self.port.runs_for(conn, &block.multi, &parts);
        block.commit = Some(transaction);
        let txn = self.txn();
        match txn.coordinator.as_mut() {
            Some(coordinator) if !parts.is_empty() => {
                let sequence = coordinator.begin_known(now, time, parts, &mut events);
                txn.blocks.insert(sequence, block);
            }
            _ => {
                // It has read nothing that matters.
                txn.at_home += 1;
                let sequence = AT_HOME | txn.at_home;
                txn.blocks.insert(sequence, block);
                txn.committed.push(txn::Event::Reply { sequence, replies: Vec::new() });
            }
        }
        self.carry_out(events);
        Next::Stop
    }

    /// Begins commands that need no answer of another node, and ends transactions that are idle for too long.
    pub(super) fn step_interactive(&mut self) {
        let now = self.engine().now();
        let idle_ms = self.settings().transaction_idle_timeout * 1000;
        let txn = self.txn();
        let events = std::mem::take(&mut txn.committed);
        let beginning = std::mem::take(&mut txn.beginning);
        if !txn.interactive.is_empty() && now >= txn.idle_at {
            txn.idle_at = now + 1000;
            let mut tokens: BTreeSet<Token> = std::mem::take(&mut txn.interactive);
            tokens.retain(|token| {
                let Some(conn) = self.port.conn(*token) else { return false };
                let waits = !conn.has_ended();
                let Some(transaction) = conn.session.transaction.as_deref_mut() else { return false };
                if waits {
                    return true;
                }
                end_if_idle(transaction, now, idle_ms);
                let goes_on = transaction.over.is_none();
                conn.show_output();
                goes_on
            });
            self.txn().interactive.append(&mut tokens);
        }
        self.carry_out(events);
        for sequence in beginning {
            self.run_fetched((sequence, 0), &[]);
        }
    }
}

fn end_if_idle(transaction: &mut Interactive, now: UnixMs, idle_ms: u64) {
    if idle_ms > 0 && transaction.over.is_none() && now.since(transaction.active) > idle_ms {
        transaction.end(IDLE);
    }
}

fn error(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Reply::new(&mut bytes, resp::Protocol::Resp2).error(text);
    bytes
}

impl Interactive {
    /// Keys that it has only read are read again.
    fn forget_unwritten(&mut self) {
        let bytes = &mut self.bytes;
        self.keys.retain(|(_, key), seen| {
            if !seen.written {
                *bytes -= KEY + key.len() + seen.image.len();
            }
            seen.written
        });
    }

    /// Notes the contents of keys that were asked for, `there` by the clock of their owner. False: the transaction
    /// would become too large.
    pub(super) fn note_found(&mut self, asked: &[Lock], there: UnixMs, found: &[Image<'_>]) -> bool {
        for lock in asked {
            // An earlier attempt may have found something else.
            let seen = Seen { fetched: Some(there), ..Seen::default() };
            match self.keys.insert((lock.db, lock.key.clone()), seen) {
                Some(before) => self.bytes -= before.image.len(),
                None => self.bytes += KEY + lock.key.len(),
            }
        }
        for (version, image) in found {
            let Some((db, key)) = place_of(image) else { continue };
            if let Some(seen) = self.keys.get_mut(&(db, Box::from(key))) {
                self.bytes = self.bytes - seen.image.len() + image.len();
                (seen.version, seen.image) = (*version, (*image).into());
            }
        }
        self.bytes <= BYTES_MAX
    }

    /// Notes what a command has done. An error: the transaction would become too large, and nothing was noted.
    pub(super) fn note_made(
        &mut self,
        made: Made,
        workspace: &mut Workspace,
        aside: &mut Aside,
    ) -> Result<(), Vec<u8>> {
        let mut images = BTreeMap::new();
        let (mut bytes, mut replaced) = (self.bytes + made.effects.len(), 0);
        for effect in effects::decode(&made.effects).flatten() {
            let place = (effect.db, Box::from(effect.key));
            if let Entry::Vacant(image) = images.entry(place) {
                match self.keys.get(image.key()) {
                    Some(seen) => replaced += seen.image.len(),
                    None => bytes += KEY + effect.key.len(),
                }
                bytes += image.insert(workspace.image(effect.db, effect.key)).len();
            }
        }
        // Notifications of a key go with its changes to the key's owner. Those of keys that were only read are dropped.
        let mut events = made.events;
        events.retain(|event| {
            let place = (event.db, event.key.clone());
            images.contains_key(&place) || self.keys.get(&place).is_some_and(|seen| seen.written)
        });
        bytes += events.iter().map(|event| size_of::<command::Event>() + event.key.len()).sum::<usize>();
        let of_message = |(_, channel, payload): &(_, Vec<u8>, Vec<u8>)| MESSAGE + channel.len() + payload.len();
        bytes += aside.messages.iter().map(of_message).sum::<usize>();
        if bytes - replaced > BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        self.bytes = bytes - replaced;
        self.needs_memory |= aside.needs_memory;
        for (place, image) in images {
            let seen = self.keys.entry(place).or_default();
            (seen.image, seen.written) = (image.into(), true);
        }
        self.effects.extend_from_slice(&made.effects);
        self.events.append(&mut events);
        self.messages.append(&mut aside.messages);
        Ok(())
    }
}

/// The reply to a COMMIT that has failed. Its transaction no longer exists.
pub(super) fn refused(why: &Refusal) -> Arc<[u8]> {
    match why {
        // Not the text of a COMMIT that has not begun: such a transaction can be committed again.
        Refusal::Failed(text) => [ABORTED, text].concat().into(),
        _ => Arc::from(CONFLICT),
    }
}

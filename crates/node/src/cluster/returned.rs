//! Commands that owners have sent back while later ones of their connections are under way.
//!
//! Such a command goes to the present owner of its keys, and its reply into the hole that it had. Until then its
//! connection sends nothing more. All commands of a connection that are under way were sent by one map: before it sends
//! by another one, it waits for their replies. So two commands on one key never overtake each other.
//!
//! A command that is sent back once more fails. A later one may have been sent back by a newer map, and have been executed
//! where that one leads.

use clocks::UnixMs;
use resp::{Args, Batch, Decoder, Limits};

use super::blocks::{EXEC, MULTI};
use super::kinds::Kind;
use super::peers::HOME;
use super::port::{Forwarding, Port};
use super::remote::{Expect, Owed, Returned};
use crate::admission::cluster::{Place, TRY_AGAIN};
use crate::session::Multi;
use crate::table::Table;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::{Token, write_error};

/// The next step for a command that was sent back.
enum Step {
    /// This node does not know the owner's map yet.
    Waits,
    Goes(usize),
    /// No link leads to where all of its keys are, or the same owner has them again by a later map. That owner may have
    /// executed later commands.
    Fails,
}

impl<P: Port> Forwarding<'_, P> {
    /// Keeps a command that was sent back, and sends it where it belongs now, or later.
    pub(super) fn take_returned(&mut self, conn: &mut Conn, returned: Returned) {
        self.port.wake_at(returned.until, conn.token);
        conn.remote.get_or_insert_default().returned.push_back(returned);
        self.send_returned(conn);
    }

    /// Sends the commands of a connection that were sent back to where they belong, in their order, as far as this node
    /// knows the maps.
    fn send_returned(&mut self, conn: &mut Conn) {
        let now = self.engine().now();
        while let Some(next) = conn.remote.as_deref_mut().and_then(|remote| remote.returned.pop_front()) {
            match self.step_of(&next, now) {
                Step::Waits => return conn.remote.get_or_insert_default().returned.push_front(next),
                Step::Goes(link) => self.send_one(conn, link, &next),
                Step::Fails => {
                    self.stats().count_error(TRY_AGAIN);
                    let mut error = Vec::new();
                    write_error(&mut error, conn.session.protocol, TRY_AGAIN);
                    conn.out.fill(next.owed.hole, if next.owed.wanted { &error } else { &[] }, true);
                }
            }
        }
    }

    fn step_of(&mut self, next: &Returned, now: UnixMs) -> Step {
        if self.peers().map.version() < next.version {
            return if next.until <= now { Step::Fails } else { Step::Waits };
        }
        let place = match next.is_block {
            true => self.place_of_returned_block(&next.command),
            false => self.place_of_returned(&next.command),
        };
        match place {
            Some(Place::At(owner, _)) => match self.peers().link_to(owner) {
                link if link == next.from => Step::Fails,
                link => Step::Goes(link),
            },
            _ => Step::Fails,
        }
    }

    fn place_of_returned(&mut self, command: &[u8]) -> Option<Place> {
        let node = self.node().clone();
        let (_, batch) = decoded(command)?;
        let args = batch.args(0, command);
        let row = node.table.of_words(&args.iter().take(2).collect::<Vec<_>>())?;
        let peers = self.peers();
        match peers.kinds[row.id] {
            Kind::Keyed => Some(peers.place_of(row, args, None)),
            Kind::Scan => Some(peers.place_of_scan(args)),
            Kind::Slot => Some(peers.place_of_slot(args)),
            _ => None,
        }
    }

    fn place_of_returned_block(&mut self, commands: &[u8]) -> Option<Place> {
        let (node, databases) = (self.node().clone(), self.settings().databases);
        let multi = self.block_of(commands)?;
        let needs = self.peers().needs_of((&node.table, databases), &multi);
        needs.is_of_keys_alone().then_some(needs.place)
    }

    /// The block that these commands make. `None`: they cannot be queued.
    pub(super) fn block_of(&self, mut commands: &[u8]) -> Option<Box<Multi>> {
        let node = self.node();
        let mut multi = Box::<Multi>::default();
        while !commands.is_empty() {
            let (consumed, batch) = decoded(commands)?;
            let args = batch.args(0, commands);
            let command = of_words(&node.table, args)?;
            let key = args.get(1).filter(|_| node.table.get(command).has_one_key);
            let key = key.map(|key| node.engine.keyspace.hasher().key(key));
            if !multi.push(command, key.map(|key| (key.slot, key.hash)), args) {
                return None;
            }
            commands = &commands[consumed..];
        }
        Some(multi)
    }

    fn send_one(&mut self, conn: &mut Conn, link: usize, next: &Returned) {
        let Returned { owed, is_block, command, .. } = next;
        let owed = Owed { is_resent: true, ..*owed };
        // The client may have selected another database since.
        let db = std::mem::replace(&mut conn.session.db, owed.db);
        if *is_block {
            let count = self.block_of(command).map_or(0, |multi| multi.queue.len());
            let bytes = [MULTI, command, EXEC].concat();
            let expected = std::iter::repeat_with(|| Expect::Nothing).take(1 + count);
            self.ask(conn, link, None, &bytes, expected.chain([Expect::Block(owed, None)]));
        } else {
            self.ask(conn, link, None, command, [Expect::Hole(owed)]);
        }
        conn.session.db = db;
        if link != HOME
            && let Some(remote) = conn.remote.as_deref_mut()
        {
            remote.note_change(link);
        }
    }

    /// The wait of a connection before it sends anything by the present map, if there is one.
    #[inline]
    pub(super) fn wait_for_returned(&mut self, conn: &mut Conn) -> Option<Next> {
        if !conn.out.has_holes() {
            return None;
        }
        let waits = conn.has_returned() || conn.map.routed_by != self.peers().map.version();
        waits.then(|| self.wait_for_replies(conn, 0))
    }

    /// The map has changed: commands that were sent back may be sent.
    pub(super) fn look_at_all_returned(&mut self) {
        let waiting = self.port.conns().filter(|conn| conn.has_returned());
        let waiting: Vec<Token> = waiting.map(|conn| conn.token).collect();
        waiting.into_iter().for_each(|token| self.look_at_returned(token));
    }

    /// Sends the commands of a connection that were sent back, or gives those up that have waited for too long.
    #[cold]
    pub(crate) fn look_at_returned(&mut self, token: Token) {
        let Some(mut conn) = self.take_conn(token) else { return };
        self.port.ensure_out(&mut conn);
        self.send_returned(&mut conn);
        conn.out.settle();
        self.look_at_answers(&mut conn, HOME);
        self.put_conn(conn);
        self.mark_dirty(token);
    }
}

impl Conn {
    /// True if commands were sent back and wait for a map.
    pub(crate) fn has_returned(&self) -> bool {
        self.remote.as_deref().is_some_and(|remote| !remote.returned.is_empty())
    }
}

/// The first of these commands, and its bytes. They were admitted already, whatever the limits are now.
fn decoded(commands: &[u8]) -> Option<(usize, Batch)> {
    let limits = Limits { proto_max_bulk_len: usize::MAX, authenticated: true };
    decoded_within(commands, &limits)
}

/// As [`decoded`], within other limits.
pub(super) fn decoded_within(commands: &[u8], limits: &Limits) -> Option<(usize, Batch)> {
    let mut batch = Batch::new();
    let consumed = Decoder::new().decode(commands, limits, 1, &mut batch).consumed;
    (!batch.is_empty() && consumed > 0).then_some((consumed, batch))
}

fn of_words(table: &Table, args: Args<'_>) -> Option<usize> {
    table.of_words(&args.iter().take(2).collect::<Vec<_>>()).map(|command| command.id)
}

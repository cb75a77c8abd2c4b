//! The route of a command: here, the node that owns its keys, all nodes, or nowhere for now.

use std::sync::atomic::Ordering::Relaxed;

use ::membership::Slot;
use ::membership::items::{Item, Principal};
use command::{KeyAt, Reach, flags};
use resp::{Args, OwnedArgs, Reply};

use super::Role;
use super::kinds::Kind;
use super::merge::Merge;
use super::peers::{HOME, Peers, slot_of};
use super::port::{Forwarding, Port};
use super::remote::{Expect, Line, Owed, Remote, Script};
use crate::admission::cluster as admission;
use crate::admission::cluster::{
    Called, Forwarded, Keyless, OfClient, OfKeyless, OfScript, OnCopies, Place, Runs, TRY_AGAIN,
};
use crate::client::Client;
use crate::config::Redirect;
use crate::figures::stats::add;
use crate::session::caching::Mode;
use crate::session::{Block, Multi, Replies, database};
use crate::table::Command;
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::next::{Item as Parsed, Next};
use crate::worker::wait::{NodeWait, Wait};

/// Most outstanding replies of a connection.
const HOLES_MAX: usize = 1024;
/// Most bytes of forwarded commands of a connection that are not all answered; but always one command.
const FORWARDED_MAX: usize = 1 << 20;
/// Most bytes behind an outstanding reply; but always one reply.
const BEHIND_MAX: usize = 64 * 1024;

/// An owner's answer to a script that was undone because it also uses keys of other nodes: a push, which no script
/// answers.
pub(crate) const GOES_OVER: &[u8] = b">1\r\n+goes-over\r\n";
impl Peers {
    /// The owner of a slot.
    #[inline]
    pub(crate) fn place(&self, slot: Slot) -> Place {
        self.map.owner_of(slot).map_or(Place::Nobody, |owner| Place::At(owner, slot))
    }

    /// The owner of the keys of a command; for a command on keys of any slots, all nodes. `key`: the slot of its only
    /// key, if that is known.
    pub(crate) fn place_of(&self, command: &Command, args: Args<'_>, key: Option<u16>) -> Place {
        if let Some(slot) = key {
            return self.place(Slot::of(slot));
        }
        if !self.is_alone() && command.reach(args) == Reach::Everything {
            return Place::Several;
        }
        let mut positions: Vec<KeyAt> = Vec::new();
        command.spec.keys_of(args, &mut positions);
        let keys = positions.iter().filter_map(|at| args.get(at.index));
        keys.fold(Place::Anywhere, |place, key| place.and(self.place(slot_of(key))))
    }
}

impl Peers {
    /// The error while this node has no lease.
    pub(crate) fn no_lease(&self) -> Vec<u8> {
        admission::no_lease(&self.shared.lease().reason())
    }

    /// True if a command has keys of other nodes, and works on its keys alone.
    pub(crate) fn has_elsewhere(&self, command: &Command, args: Args<'_>) -> bool {
        let is_keyed = matches!(self.kinds[command.id], Kind::Keyed | Kind::Patient | Kind::Script);
        is_keyed
            && command.reach(args) == Reach::Keys
            && match self.place_of(command, args, None) {
                Place::At(owner, _) => owner != self.me,
                Place::Several => true,
                Place::Anywhere | Place::Nobody => false,
            }
    }

    /// Decides if a script that runs here may call a command.
    pub(crate) fn may_call(&self, command: &Command, args: Args<'_>, block: &Block) -> Called {
        let script = OfScript {
            me: self.me,
            serves: self.serves,
            can_be_undone: block.run.can_be_undone(),
            is_old: block.map != self.map.version(),
        };
        match self.kinds[command.id] {
            Kind::Keyed | Kind::Patient | Kind::Script => {}
            _ if self.may_be_asked(command) => return Called::Runs,
            Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot if !self.is_alone() => {
                return script.calls_for_everything();
            }
            _ => return Called::Runs,
        }
        if !self.is_alone() && command.reach(args) == Reach::Everything {
            return script.calls_for_everything();
        }
        let (mut place, mut is_held) = (Place::Anywhere, true);
        let mut positions: Vec<KeyAt> = Vec::new();
        command.spec.keys_of(args, &mut positions);
        for slot in positions.iter().filter_map(|at| args.get(at.index)).map(keyspace::slot_of) {
            place = place.and(match block.reads_copy && self.reads_copy_of(Slot::of(slot)) {
                true => Place::At(self.me, Slot::of(slot)),
                false => self.place(Slot::of(slot)),
            });
            is_held &= block.run.held().covers(slot);
        }
        script.calls_with_keys(place, is_held, || command.reach(args) == Reach::Keys)
    }

    /// The kind of a command for a block, or a script in it, that runs in a workspace. Its keys are there. `smart`: the
    /// client means this node alone.
    pub(crate) fn on_copies(&self, command: &Command, args: Args<'_>, smart: bool) -> OnCopies {
        match self.kinds[command.id] {
            Kind::Gather(Merge::Receivers) => OnCopies::IsAsked,
            _ if !smart && self.may_be_asked(command) => OnCopies::IsAsked,
            Kind::Keyed if command.reach(args) != Reach::Keys => OnCopies::Everything,
            Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot => OnCopies::Everything,
            _ => OnCopies::Keys,
        }
    }

    /// The owner of the slot that the cursor of SCAN names. A wrong cursor runs anywhere, and gets an error.
    pub(super) fn place_of_scan(&self, args: Args<'_>) -> Place {
        args.get(1).and_then(command::slot_of_cursor).map_or(Place::Anywhere, |slot| self.place(Slot::of(slot)))
    }

    /// The owner of the slot that a subcommand of CLUSTER names.
    pub(super) fn place_of_slot(&self, args: Args<'_>) -> Place {
        args.get(2).and_then(command::slot_of_argument).map_or(Place::Anywhere, |slot| self.place(Slot::of(slot)))
    }

    /// The end of a SCAN that runs here: behind the range of this node that the slot in its cursor is in.
    pub(crate) fn end_of_scan(&self, args: Args<'_>) -> u16 {
        self.end_of_scan_at(args, self.me)
    }

    /// The end of a SCAN of the keys of this owner.
    pub(super) fn end_of_scan_at(&self, args: Args<'_>, owner: u16) -> u16 {
        let slot = args.get(1).and_then(command::slot_of_cursor);
        let of_slot =
            |slot| self.map.ranges_of(owner).find(|range| (range.start..=range.end).contains(&Slot::of(slot)));
        slot.and_then(of_slot).map_or(keyspace::SLOTS as u16, |range| range.end.get() + 1)
    }

    /// True if a command of a virtual connection was sent here by a map that this node does not know yet.
    #[inline]
    fn is_behind(&self, conn: &Conn) -> bool {
        matches!(&conn.role, Role::Virtual(line) if self.epoch < line.epoch) && !self.is_out()
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// Makes a command run where it belongs. `None`: here and now.
    #[inline]
    pub(crate) fn route(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        args: Args<'_>,
        parsed: Parsed,
        raw: &[u8],
        redirect: Redirect,
    ) -> Option<Next> {
        let peers = self.peers();
        let kind = peers.kinds[command.id];
        if conn.session.transaction.is_some() {
            return self.transactions().route(conn, command, args, kind);
        }
        if let Kind::Keyed = kind
            && !conn.out.has_holes()
            && conn.session.multi.is_none()
        {
            // The usual case of a client that knows where its keys are.
            if let Some((slot, _)) = parsed.key()
                && peers.has(Slot::of(slot))
                && peers.serves
                && !peers.is_behind(conn)
            {
                return None;
            }
        }
        if conn.session.answers.as_deref().is_some_and(|answers| answers.is_over) {
            conn.session.answers = None;
        }
        if conn.session.reads_copies
            && let Some(here) = self.read_copy(conn, command, args, kind, redirect)
        {
            return here;
        }
        if matches!(kind, Kind::Scan | Kind::Gather(_))
            && let Some(refused) = self.refuse_copy(conn, command, kind, redirect)
        {
            return Some(refused);
        }
        let routed = match conn.is_virtual() {
            true => self.take_forwarded(conn, command, args, kind),
            false => self.send_where(conn, command, args, kind, parsed, raw, redirect),
        };
        match kind {
            Kind::Exec if routed.is_none() => self.ask_for_block(conn, false),
            _ => routed,
        }
    }

    /// A command that another node has forwarded runs here or nowhere.
    fn take_forwarded(&mut self, conn: &mut Conn, command: &Command, args: Args<'_>, kind: Kind) -> Option<Next> {
        let peers = self.peers();
        if conn.session.queues(command) {
            // It is checked when the block is to run.
            return None;
        }
        if conn.session.goes_over.take().is_some() {
            // Its node has everything that is needed for that. The block's watches here stay.
            if kind == Kind::Exec {
                conn.session.leave_block();
            }
            conn.out.bytes.extend_from_slice(GOES_OVER);
            return Some(Next::Continue);
        }
        let place = match kind {
            Kind::Keyed | Kind::Patient | Kind::Script | Kind::Watch => peers.place_of(command, args, None),
            Kind::Exec => self.needs_of_block(conn).place,
            Kind::Scan => peers.place_of_scan(args),
            Kind::Slot => peers.place_of_slot(args),
            Kind::Gather(merge) if merge.needs_lease(&command.name) && !peers.serves => {
                return self.without_lease(conn, command);
            }
            _ => Place::Anywhere,
        };
        let Desk { peers, engine, .. } = self.desk();
        if kind == Kind::Scan {
            engine.scan_end = peers.end_of_scan(args);
        }
        let verdict = admission::of_forwarded(place, peers.me, peers.serves, || peers.is_behind(conn));
        let error = match verdict {
            Forwarded::Runs => return None,
            Forwarded::NoLease => return self.without_lease(conn, command),
            Forwarded::Refused(error) => error,
            Forwarded::AwaitsMap => match self.wait_for_map(conn) {
                Some(next) => return Some(next),
                None => TRY_AGAIN,
            },
            Forwarded::GoesBack => match self.send_back(conn, kind, args) {
                Some(sent) => return Some(sent),
                // The watched keys have moved: that is a change, as far as this node knows.
                None if kind == Kind::Exec && !conn.session.watched.is_empty() => return Some(self.leave_undone(conn)),
                None => TRY_AGAIN,
            },
        };
        Some(self.decline(conn, command, error))
    }

    /// Answers EXEC as if watched keys had changed.
    fn leave_undone(&mut self, conn: &mut Conn) -> Next {
        self.port.drop_block(conn);
        Reply::new(&mut conn.out.bytes, conn.session.protocol).null_array();
        Next::Continue
    }

    #[expect(clippy::too_many_arguments, reason = "what was found out about the command")]
    fn send_where(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        args: Args<'_>,
        kind: Kind,
        parsed: Parsed,
        raw: &[u8],
        redirect: Redirect,
    ) -> Option<Next> {
        if let Some(next) = self.wait_for_returned(conn).or_else(|| self.wait_for_newer_map(conn, command)) {
            return Some(next);
        }
        let peers = self.peers();
        let moves = conn.session.moves(redirect);
        let queues = conn.session.queues(command);
        let of = OfKeyless { alone: peers.is_alone(), serves: peers.serves, moves, queues };
        if queues && !moves {
            return None;
        }
        if conn.session.goes_over.is_some() && !queues {
            return Some(match kind {
                Kind::Exec => self.exec_over_nodes(conn, command, args),
                _ => self.run_over_nodes(conn, command, args),
            });
        }
        let is_local = matches!(kind, Kind::Unwatch | Kind::Quick | Kind::Own);
        if admission::refuses_outside(peers.is_out(), is_local, queues) {
            self.forget_watched_elsewhere(conn, None);
            return self.decline_without_lease(conn, command);
        }
        let key = parsed.key().map(|(slot, _)| slot).filter(|_| kind == Kind::Keyed);
        let place = match kind {
            Kind::Keyed | Kind::Patient | Kind::Script => peers.place_of(command, args, key),
            Kind::Watch => match moves.then(|| peers.place_of(command, args, key)) {
                Some(place) if place != Place::Several && !peers.holds_back(place) => place,
                // If it moves, there is no single place that the client could be told.
                _ => return self.route_watch(conn, command, args, raw),
            },
            Kind::Unwatch if !queues => {
                self.forget_watched_elsewhere(conn, None);
                return self.in_turn(conn, false).or_else(|| self.before_login(conn, command));
            }
            Kind::Exec => return self.route_exec(conn, command, args),
            Kind::Gather(merge) => match of.gathers(merge.is_for_all(), merge != Merge::Kill) {
                Keyless::AtAll => return Some(self.gather_from_all(conn, command, args, merge, raw)),
                Keyless::NoLease => return self.without_lease(conn, command),
                Keyless::Here | Keyless::AtSlot => return self.in_turn(conn, false),
            },
            Kind::Scan => match of.scans() {
                Keyless::AtSlot => peers.place_of_scan(args),
                Keyless::NoLease => return self.without_lease(conn, command),
                Keyless::Here | Keyless::AtAll => {
                    self.engine().scan_end = keyspace::SLOTS as u16;
                    return self.in_turn(conn, false);
                }
            },
            Kind::Slot if of.names_slot() == Keyless::AtSlot => peers.place_of_slot(args),
            // In a block it is a command of this node, and waits for nothing.
            Kind::Own if command.name == "wait" && of.gathers(true, false) == Keyless::AtAll => {
                return Some(self.gather_from_all(conn, command, args, Merge::Least, raw));
            }
            Kind::Libraries if of.changes_libraries() == Keyless::NoLease => {
                return self.without_lease(conn, command);
            }
            Kind::Quick => return self.in_turn(conn, true),
            Kind::Libraries | Kind::Slot | Kind::Unwatch | Kind::Own => {
                return self.in_turn(conn, false).or_else(|| self.before_login(conn, command));
            }
        };
        let Desk { peers, engine, .. } = self.desk();
        if kind == Kind::Scan {
            engine.scan_end = peers.end_of_scan(args);
        }
        let (me, moves) = (peers.me, moves && !peers.holds_back(place));
        if let Some(multi) = conn.session.multi.as_deref_mut().filter(|_| queues) {
            multi.here |= !moves || place == Place::Several || matches!(place, Place::At(owner, _) if owner == me);
        }
        let client = OfClient {
            me,
            serves: peers.serves,
            moves,
            queues,
            calls_function: || calls_function(command),
            belongs_here: || belongs_here(conn),
            on_keys_alone: || command.reach(args) == Reach::Keys,
            is_lost: |owner| peers.map.node(owner).lost,
        };
        match client.runs(place) {
            Runs::Here => self.in_turn(conn, kind == Kind::Keyed && place != Place::Anywhere),
            Runs::WithItsBlock => None,
            Runs::OverNodes => Some(self.run_over_nodes(conn, command, args)),
            Runs::At(owner) => {
                let link = peers.link_to(owner);
                Some(self.forward_command(conn, link, command, args, kind, raw))
            }
            Runs::Moved(slot, owner) => {
                let (map, settings) = (peers.map.clone(), self.node().config.settings());
                let member = map.node(owner);
                let port = settings.port_at(member, conn.session.client.peer.tls);
                let text = admission::moved(slot, &member.host, port);
                // So this node hears when that one is gone.
                let link = self.peers().link_to(owner);
                self.want_link(link);
                Some(self.decline(conn, command, &text))
            }
            Runs::NoLease => self.without_lease(conn, command),
            Runs::Refused(error) => Some(self.decline(conn, command, error)),
        }
    }

    /// A command runs here, but not before outstanding replies, unless it may stand behind them.
    pub(crate) fn in_turn(&mut self, conn: &mut Conn, may_overtake: bool) -> Option<Next> {
        let owed = conn.out.holes();
        if owed == 0 {
            return None;
        }
        if !may_overtake || conn.over_nodes {
            return Some(self.wait_for_replies(conn, 0));
        }
        let too_much = owed >= HOLES_MAX || conn.out.behind_holes() > BEHIND_MAX;
        too_much.then(|| self.wait_for_replies(conn, HOLES_MAX / 2))
    }

    /// A client that may become another user waits for every answer that other nodes owe it, also for those that it
    /// does not see: no command is judged by the rights of another user than its own.
    fn before_login(&mut self, conn: &mut Conn, command: &Command) -> Option<Next> {
        let is_owed = command.spec.has(flags::NO_AUTH) && conn.remote.as_deref().is_some_and(Remote::is_owed);
        is_owed.then(|| self.wait_for_replies(conn, 0))
    }

    /// Makes the connection wait, with its command unread, until at most so many replies are outstanding.
    pub(crate) fn wait_for_replies(&mut self, conn: &mut Conn, most: usize) -> Next {
        conn.wait = Wait::Node(NodeWait::Replies(if conn.out.behind_holes() > BEHIND_MAX { 0 } else { most }));
        Next::Retry
    }

    pub(crate) fn decline(&mut self, conn: &mut Conn, command: &Command, text: &[u8]) -> Next {
        self.port.refuse(conn, Some(command), text);
        Next::Continue
    }

    /// A command waits for this node's lease, or is refused.
    #[cold]
    pub(crate) fn without_lease(&mut self, conn: &mut Conn, command: &Command) -> Option<Next> {
        self.wait_for_lease(conn).or_else(|| self.decline_without_lease(conn, command))
    }

    /// Refuses a command, as this node has no lease.
    #[cold]
    fn decline_without_lease(&mut self, conn: &mut Conn, command: &Command) -> Option<Next> {
        let text = self.peers().no_lease();
        Some(self.decline(conn, command, &text))
    }

    fn forward_command(
        &mut self,
        conn: &mut Conn,
        link: usize,
        command: &Command,
        args: Args<'_>,
        kind: Kind,
        raw: &[u8],
    ) -> Next {
        // A command that may wait for something other than the node does so alone.
        let alone = matches!(kind, Kind::Patient | Kind::Scan | Kind::Slot | Kind::Script);
        if let Some(next) = self.may_forward(conn, link, alone) {
            return next;
        }
        let owed = self.place_of_reply(conn);
        if kind == Kind::Keyed {
            conn.out.hold();
        }
        let is_script = kind == Kind::Script;
        let expect = if is_script { Expect::Script(owed) } else { Expect::Hole(owed) };
        self.say_caching(conn, link);
        let is_read = kind == Kind::Keyed && command.spec.only_reads() && !command.spec.has(flags::BLOCKING);
        self.ask_one(conn, link, Some(args), raw, [expect], is_read);
        if command.spec.flags & (flags::WRITE | flags::MAY_REPLICATE) != 0
            && let Some(remote) = conn.remote.as_deref_mut()
        {
            remote.note_change(link);
        }
        self.note_forwarded(conn, command, Some(args));
        if is_script {
            // Later commands may not run before it, because it may have to run again.
            let script = Script { command: command.id, args: OwnedArgs::new(args), reply: Vec::new() };
            conn.remote.get_or_insert_default().script = Some(Box::new(script));
            conn.wait = Wait::Node(NodeWait::Replies(0));
            return Next::Stop;
        }
        if kind != Kind::Patient {
            return Next::Continue;
        }
        conn.wait = Wait::Node(NodeWait::Answer(link));
        if command.spec.has(flags::BLOCKING) {
            conn.session.client.waits_elsewhere.store(true, Relaxed);
            conn.session.client.blocked.store(true, Relaxed);
            add(&self.stats().blocked, 1);
        }
        Next::Stop
    }

    /// The wait of the connection before it may forward, if there is one. `alone`: no other command may be under way.
    pub(crate) fn may_forward(&mut self, conn: &mut Conn, link: usize, alone: bool) -> Option<Next> {
        if let Some(next) = self.in_turn(conn, !alone) {
            return Some(next);
        }
        if conn.out.has_holes() && conn.remote.as_ref().is_some_and(|remote| remote.forwarded > FORWARDED_MAX) {
            return Some(self.wait_for_replies(conn, 0));
        }
        if self.peers().links[link].is_full() {
            self.wait_for_link(conn, link);
            return Some(Next::Retry);
        }
        None
    }

    /// The place of the reply to a command that is forwarded by the present map.
    pub(crate) fn place_of_reply(&mut self, conn: &mut Conn) -> Owed {
        conn.map.routed_by = self.peers().map.version();
        let wanted = conn.session.replies == Replies::On;
        if let Replies::Skip = conn.session.replies {
            conn.session.replies = Replies::On;
        }
        self.port.ensure_out(conn);
        Owed { hole: conn.out.open_hole(), wanted, db: conn.session.db, is_resent: false }
    }

    /// Sends commands over a link, in the state of the session. `raw`: as they came; `args`: those of a command that
    /// may have come inline.
    pub(crate) fn ask(
        &mut self,
        conn: &mut Conn,
        link: usize,
        args: Option<Args<'_>>,
        raw: &[u8],
        expected: impl IntoIterator<Item = Expect>,
    ) {
        self.ask_one(conn, link, args, raw, expected, false);
    }

    /// As [`Self::ask`]. `is_read`: it is one command that may be executed twice.
    pub(super) fn ask_one(
        &mut self,
        conn: &mut Conn,
        link: usize,
        args: Option<Args<'_>>,
        raw: &[u8],
        expected: impl IntoIterator<Item = Expect>,
        is_read: bool,
    ) {
        self.line_over(conn, link);
        let Some(remote) = conn.remote.as_deref_mut() else { return };
        let out = &mut self.peers().links[link];
        let epoch = out.epoch;
        remote.forwarded += raw.len();
        let Some(line) = remote.line(link) else { return };
        let mut whole = Vec::new();
        let bytes = match args.filter(|_| raw.first() != Some(&b'*')) {
            None => raw,
            Some(args) => {
                append_args(&mut whole, args);
                &whole
            }
        };
        out.stage.commands(line.vc, epoch, bytes);
        line.reads.note(line.expected.is_empty(), bytes, is_read);
        line.expected.extend(expected);
    }

    /// The virtual connection over a link, opened if need be, in the state of the session. Returns its number.
    pub(crate) fn line_over(&mut self, conn: &mut Conn, link: usize) -> u32 {
        self.want_link(link);
        let peers = self.peers();
        let says_principals = peers.says_principals();
        let out = &mut peers.links[link];
        let remote = conn.remote.get_or_insert_default();
        let (db, protocol) = (conn.session.db, conn.session.protocol.number() as u8);
        let epoch = out.epoch;
        let place = remote.place(link);
        let line = match place {
            Some(line) => line,
            None => {
                let vc = out.open(conn.token);
                out.stage.put(&Item::Open { vc, client: conn.session.client.id, db, protocol });
                // Below the level every user is `default`, and may do everything.
                let principal = if says_principals { conn.session.user.principal } else { Principal::default() };
                if says_principals {
                    out.stage.put(&Item::Principal { vc, principal });
                }
                place.insert(Line {
                    vc,
                    db: Some(db),
                    protocol,
                    no_touch: false,
                    principal,
                    expected: Default::default(),
                    has_begun: false,
                    reads: Default::default(),
                    sent_back: Vec::new(),
                    questions: Default::default(),
                    watches: false,
                    tracking: Mode::default(),
                    is_heard: false,
                    last: None,
                    watched: Vec::new(),
                    unacknowledged: 0,
                })
            }
        };
        // This node's own connection is no second client.
        let tracking = if link == HOME { Mode::default() } else { conn.session.tracking_mode() };
        if !line.follows(&conn.session, tracking) {
            let (vc, principal) = (line.vc, conn.session.user.principal);
            if says_principals && line.principal != principal {
                out.stage.put(&Item::Principal { vc, principal });
                line.principal = principal;
            }
            line.follow(&conn.session, tracking, |bytes| out.stage.commands(vc, epoch, bytes));
        }
        line.vc
    }

    /// Notes that a client's command is carried out by several nodes, or partly elsewhere: it counts here.
    pub(crate) fn count_forwarded(&mut self, conn: &mut Conn, command: &Command, args: Option<Args<'_>>) {
        self.port.count_ran(command.counted_as);
        self.note_forwarded(conn, command, args);
    }

    /// Notes that a block is carried out by several nodes: it counts here.
    pub(crate) fn count_block(&mut self, conn: &mut Conn, multi: &Multi, exec: &Command) {
        for queued in &multi.queue {
            self.port.count_ran(self.node().table.get(queued.command).counted_as);
        }
        self.show_block(conn, multi);
        self.count_forwarded(conn, exec, None);
    }

    /// Shows a block that runs elsewhere to clients that monitor this node.
    pub(crate) fn show_block(&self, conn: &Conn, multi: &Multi) {
        if !self.port.is_monitored() {
            return;
        }
        let (client, databases) = (&conn.session.client, self.settings().databases);
        let mut db = conn.session.db;
        for (queued, args) in multi.commands() {
            let command = self.node().table.get(queued.command);
            if command.is_shown_to_monitors() {
                self.node().show_to_monitors(client, db, args);
            }
            if command.name == "select" {
                db = args.get(1).and_then(|text| database(text, databases).ok()).unwrap_or(db);
            }
        }
        self.show_exec(client, db, &multi.exec);
    }

    pub(crate) fn show_exec(&self, client: &Client, db: u16, word: &[u8]) {
        let exec: OwnedArgs = [word].into_iter().collect();
        self.node().show_to_monitors(client, db, exec.args());
    }

    /// Notes that a command was sent to the node that runs it and counts it.
    pub(crate) fn note_forwarded(&mut self, conn: &mut Conn, command: &Command, args: Option<Args<'_>>) {
        if self.port.is_monitored()
            && command.is_shown_to_monitors()
            && let Some(args) = args
        {
            self.node().show_to_monitors(&conn.session.client, conn.session.db, args);
        }
        conn.session.end_caching();
        let client = &conn.session.client;
        client.last_command.store(command.id as u32 + 1, Relaxed);
        client.last_active.store(self.engine().now().0, Relaxed);
    }
}

/// True if the block of a smart client concerns this node. If not, the client may have used an old map, and should
/// renew it.
fn belongs_here(conn: &Conn) -> bool {
    let watches =
        !conn.session.watched.is_empty() || conn.remote.as_deref().is_some_and(|r| r.watching().next().is_some());
    watches || conn.session.multi.as_deref().is_some_and(|multi| multi.here)
}

/// True if a command calls a function of a library: a node without a lease may lack some.
pub(crate) fn calls_function(command: &Command) -> bool {
    command.name.starts_with("fcall")
}

/// Writes a command in the form in which clients send it.
pub(crate) fn append_args(out: &mut Vec<u8>, args: Args<'_>) {
    let mut request = Reply::new(out, resp::Protocol::Resp2);
    request.array(args.len());
    args.iter().for_each(|arg| request.bulk(arg));
}

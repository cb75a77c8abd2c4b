//! Questions of a block or script to other nodes. They are how many clients a message would reach there, and the
//! replies of commands about the keys of all nodes, such as DBSIZE.
//!
//! Nodes are asked while the block holds nothing: so no two nodes wait for each other. A block's questions are known
//! before it runs. A script that comes to a question is undone, and runs again with the answer. So the answers are of
//! about the time of the block, and not isolated from other clients. A question about a message needs no keys: a script
//! that runs on copies is suspended for it.

use ::membership::Slot;
use engine::Busy;
use keyspace::Need;
use resp::{Args, Protocol};

use super::answers::{Asks, Question};
use super::kinds::Kind;
use super::merge::Merge;
use super::peers::Peers;
use super::port::{Forwarding, Port};
use super::remote::Expect;
use crate::admission::cluster::Place;
use crate::session::{Block, Multi, SessionCtx, database};
use crate::table::Command;
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::wait::{NodeWait, Wait};

/// Most questions of a block or script. A message beyond them counts the subscribers of its node alone; a question
/// about keys is refused.
const QUESTIONS_MAX: usize = 256;

const TOO_CURIOUS: &[u8] = b"ERR a script asked other nodes too often, or cannot run again with what they answer";

impl Peers {
    /// How the answers of nodes to a command become one, if blocks and scripts may contain it. `smart`: the client asks
    /// each node, and means the keys of that node.
    fn merges(&self, command: &Command, smart: bool) -> Option<Merge> {
        match self.kinds[command.id] {
            _ if self.is_alone() => None,
            Kind::Gather(Merge::Receivers) => Some(Merge::Receivers),
            Kind::Gather(merge @ (Merge::Sum | Merge::Concat | Merge::Unique | Merge::Pairs | Merge::Any))
                if !smart =>
            {
                Some(merge)
            }
            Kind::Scan if !smart => Some(Merge::Same),
            _ => None,
        }
    }

    /// True if blocks and scripts may contain a command, though it is not about keys of theirs.
    pub(crate) fn may_be_asked(&self, command: &Command) -> bool {
        match self.kinds[command.id] {
            Kind::Scan => true,
            Kind::Gather(merge) => merge == Merge::Receivers || merge.only_looks(),
            _ => false,
        }
    }

    /// The links of the nodes to ask.
    fn asked(&mut self, merge: Merge, question: &Question, command: &Command) -> Vec<usize> {
        let (me, home) = (self.me, question.home);
        let is_asked = |peers: &Peers, node: u16| (home || node != me) && peers.takes_part(merge, &command.name, node);
        let nodes: Vec<u16> = match self.kinds[command.id] {
            Kind::Scan => {
                let words: Vec<&[u8]> = question.words.iter().map(|word| &**word).collect();
                let slot = words.get(1).and_then(|cursor| command::slot_of_cursor(cursor));
                let owner = slot.map_or(Place::Anywhere, |slot| self.place(Slot::of(slot)));
                let owner = if let Place::At(owner, _) = owner { owner } else { me };
                [owner].into_iter().filter(|node| home || *node != me).collect()
            }
            _ => (0..self.map.nodes().len() as u16).filter(|node| is_asked(self, *node)).collect(),
        };
        nodes.into_iter().map(|node| self.link_to(node)).collect()
    }
}

impl SessionCtx<'_> {
    /// True if a command of a script waits for answers of nodes. If so, the question is noted. `may`: it can wait. For
    /// a question about keys, this node is asked, too: a script that needs all of its keys could not be undone any
    /// more.
    pub(crate) fn asks(&mut self, command: &Command, args: Args<'_>, db: u16, may: bool) -> Asks {
        let smart = self.session.moves(self.settings.cluster_redirect);
        let Some(merge) = self.peers.merges(command, smart) else { return Asks::Nothing };
        let home = merge != Merge::Receivers;
        let question = Question::of(db, args, home);
        let answers = self.session.answers.get_or_insert_default();
        // The next command of the connection must not see any of them.
        answers.is_over |= self.aside.is_some();
        if answers.find(&question).is_some() {
            return if home { Asks::Answered } else { Asks::Nothing };
        }
        match (may && answers.known.len() < QUESTIONS_MAX, merge) {
            (true, _) => {
                answers.wanted = Some(question);
                Asks::Waits(Busy { need: Need::Slots(Default::default()), slot: 0, awaited: true })
            }
            (false, Merge::Receivers) => Asks::Nothing,
            (false, _) => Asks::Fails(TOO_CURIOUS),
        }
    }

    /// Notes where a SCAN of a block or script that runs here ends: at the same place as a SCAN by itself.
    #[inline]
    pub(crate) fn note_scan(&mut self, command: &Command, args: Args<'_>) {
        if self.peers.is_cluster() {
            self.set_scan_end(command, args);
        }
    }

    fn set_scan_end(&mut self, command: &Command, args: Args<'_>) {
        let peers = self.peers;
        if peers.kinds[command.id] != Kind::Scan {
            return;
        }
        let smart = self.session.moves(self.settings.cluster_redirect);
        let all = smart || peers.is_alone();
        self.engine.scan_end = if all { keyspace::SLOTS as u16 } else { peers.end_of_scan(args) };
    }

    /// Merges the answers of other nodes to a command with this node's reply, which is in `reply` from `from` on.
    pub(crate) fn add_answers(
        &mut self,
        block: &Block,
        command: &Command,
        args: Args<'_>,
        db: u16,
        (protocol, reply, from): (Protocol, &mut Vec<u8>, usize),
    ) {
        let smart = self.session.moves(self.settings.cluster_redirect);
        let (peers, Some(answers)) = (self.peers, self.session.answers.as_deref()) else { return };
        let Some(merge) = peers.merges(command, smart) else { return };
        let home = merge != Merge::Receivers && self.aside.is_some();
        let Some(known) = answers.find(&Question::of(db, args, home)) else { return };
        if reply.get(from) == Some(&b'-') {
            return;
        }
        // Keys of a workspace do not count: for DBSIZE, only the number that its block has added. For SCAN this node's
        // keys do not count if another node was asked.
        let counts = !home
            && match merge {
                Merge::Same => known.is_empty(),
                merge => peers.takes_part(merge, &command.name, peers.me),
            };
        let own = match command.name == "dbsize" && home {
            true => Some(self.added_by(block, db)),
            false => counts.then(|| reply[from..].to_vec()),
        };
        let parts: Vec<Vec<u8>> = own.into_iter().chain(known.iter().cloned()).collect();
        reply.truncate(from);
        self.merge_answers(merge, &parts, protocol, reply);
    }

    /// The reply to a command of a script that does not run: see [`Asks::Answered`].
    pub(crate) fn answer(
        &mut self,
        block: &Block,
        command: &Command,
        args: Args<'_>,
        db: u16,
        (protocol, reply): (Protocol, &mut Vec<u8>),
    ) {
        let (peers, Some(answers)) = (self.peers, self.session.answers.as_deref()) else { return };
        let Some(merge) = peers.merges(command, false) else { return };
        let Some(known) = answers.find(&Question::of(db, args, true)) else { return };
        let mut parts = known.clone();
        if merge == Merge::Sum && command.name == "dbsize" {
            // The keys that the script itself has added and removed.
            parts.push(self.added_by(block, db));
        }
        self.merge_answers(merge, &parts, protocol, reply);
    }

    /// How many keys a block has added to a database, as a part of the reply to DBSIZE.
    fn added_by(&self, block: &Block, db: u16) -> Vec<u8> {
        format!(":{}\r\n", self.engine.keys_added(&block.run, db)).into()
    }

    fn merge_answers(&mut self, merge: Merge, parts: &[Vec<u8>], protocol: Protocol, reply: &mut Vec<u8>) {
        let merge = if merge == Merge::Same { Merge::Any } else { merge };
        let merged = merge.merge(parts, protocol, self.engine.rng().next_u64());
        match (&merged[..], protocol) {
            (b"$-1\r\n", Protocol::Resp3) => reply.extend_from_slice(b"_\r\n"),
            (merged, _) => reply.extend_from_slice(merged),
        }
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// Asks the questions of the block of a connection. `over_nodes`: it runs in a workspace, which has only the
    /// block's keys. `None`: there is no open question.
    pub(crate) fn ask_for_block(&mut self, conn: &mut Conn, over_nodes: bool) -> Option<Next> {
        let multi = conn.session.multi.take()?;
        let question = self.question_of(conn, &multi, over_nodes);
        conn.session.multi = Some(multi);
        conn.session.answers.get_or_insert_default().wanted = Some(question?);
        if conn.out.has_holes() {
            return Some(self.wait_for_replies(conn, 0));
        }
        self.ask_wanted(conn)
    }

    /// The first open question of a block.
    fn question_of(&mut self, conn: &Conn, multi: &Multi, over_nodes: bool) -> Option<Question> {
        let settings = self.settings();
        let (smart, databases) = (conn.session.moves(settings.cluster_redirect), settings.databases);
        let Desk { peers, node, .. } = self.desk();
        if peers.is_alone() {
            return None;
        }
        let answers = conn.session.answers.as_deref();
        let mut db = conn.session.db;
        for (queued, args) in multi.commands() {
            let command = node.table.get(queued.command);
            if command.name == "select" {
                db = args.get(1).and_then(|text| database(text, databases).ok()).unwrap_or(db);
            }
            let Some(merge) = peers.merges(command, smart).filter(|_| command.spec.accepts(args.len())) else {
                continue;
            };
            let question = Question::of(db, args, over_nodes && merge != Merge::Receivers);
            if answers.is_none_or(|answers| answers.find(&question).is_none() && answers.known.len() < QUESTIONS_MAX) {
                return Some(question);
            }
        }
        None
    }

    /// Asks the questions of the present command of a connection, which was undone for that. The connection waits, with
    /// its command unread. `None`: there is no question.
    pub(crate) fn ask_wanted(&mut self, conn: &mut Conn) -> Option<Next> {
        let question = conn.session.answers.as_deref_mut()?.wanted.take()?;
        conn.session.again = None;
        let hole = conn.out.open_hole();
        self.ask_question(conn, question, Some(hole), None);
        match conn.out.has_holes() {
            true => conn.wait = Wait::Node(NodeWait::Replies(0)),
            // There is no other node.
            false => self.port.look_again(conn.token),
        }
        Some(Next::Retry)
    }

    /// As before, for a script that runs in a workspace, in this attempt of its block. It goes on there with the
    /// answer.
    pub(crate) fn ask_for_workspace(&mut self, conn: &mut Conn, which: (u64, u32)) -> bool {
        let wanted = conn.session.answers.as_deref_mut().and_then(|answers| answers.wanted.take());
        let Some(question) = wanted else { return false };
        if let Some(gather) = conn.remote.as_deref_mut().and_then(|remote| remote.gather.as_deref_mut()) {
            gather.goes_on_with(which);
            return true;
        }
        self.ask_question(conn, question, None, Some(which))
    }

    /// True if any node was asked.
    fn ask_question(
        &mut self,
        conn: &mut Conn,
        question: Question,
        hole: Option<u64>,
        which: Option<(u64, u32)>,
    ) -> bool {
        let node = self.node().clone();
        let name = question.words.first().map_or(&b""[..], |word| word);
        let sub = question.words.get(1).map(|word| &**word);
        let command = node.table.find_command(name).or_else(|| node.table.find_own(name));
        let command = command.and_then(|command| node.table.with_word(command, sub));
        let request = question.request();
        let merge = command.and_then(|command| Some((command, self.peers().merges(command, false)?)));
        let links = match merge {
            Some((command, merge)) => self.peers().asked(merge, &question, command),
            None => Vec::new(),
        };
        self.port.ensure_out(conn);
        if links.is_empty() {
            conn.session.answers.get_or_insert_default().learn(question, Vec::new());
            if let Some(hole) = hole {
                conn.out.fill(hole, &[], true);
            }
            return false;
        }
        let db = std::mem::replace(&mut conn.session.db, question.db);
        self.begin_inquiry(conn, question, links.len(), hole, which);
        for (part, link) in links.into_iter().enumerate() {
            self.ask(conn, link, None, &request, [Expect::Part(part)]);
        }
        conn.session.db = db;
        true
    }
}

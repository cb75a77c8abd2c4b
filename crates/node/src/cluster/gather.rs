//! Commands in which every node has a part: each runs it as if it were alone, and the replies become one.

use ::membership::{Map, Slot};
use resp::Args;

use super::answers::Question;
use super::gathering::{Gather, Then};
use super::merge::Merge;
use super::peers::{HOME, slot_of};
use super::port::{Forwarding, Port};
use super::remote::{Expect, Owed, Remote};
use crate::table::Command;
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::next::Next;
use crate::worker::wait::{NodeWait, Wait};

/// The slot of all keys that a pattern matches, if it is one.
fn slot_of_pattern(pattern: &[u8]) -> Option<Slot> {
    let is_literal = |text: &[u8]| !text.iter().any(|byte| b"*?[\\".contains(byte));
    let Some(open) = pattern.iter().position(|byte| *byte == b'{').filter(|open| is_literal(&pattern[..*open])) else {
        return is_literal(pattern).then(|| slot_of(pattern));
    };
    let tag = &pattern[open + 1..];
    let close = tag.iter().position(|byte| *byte == b'}').filter(|close| *close > 0 && is_literal(&tag[..*close]));
    match close {
        Some(close) => Some(slot_of(&tag[..close])),
        None => is_literal(pattern).then(|| slot_of(pattern)),
    }
}

/// True if replies of all shards promise that writes are on disks.
fn is_always(map: &Map) -> bool {
    map.shards().iter().all(|shard| shard.settings.get("appendfsync").is_none_or(|value| value == "always"))
}

impl<P: Port> Forwarding<'_, P> {
    /// Sends a command to all nodes, this one included. The connection, which is owed no other reply, waits.
    pub(crate) fn gather_from_all(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        args: Args<'_>,
        merge: Merge,
        raw: &[u8],
    ) -> Next {
        if conn.out.has_holes() {
            return self.wait_for_replies(conn, 0);
        }
        let peers = self.peers();
        let map = peers.map.clone();
        let nodes = 0..map.nodes().len() as u16;
        let mut asked: Vec<u16> = nodes.clone().filter(|node| peers.takes_part(merge, &command.name, *node)).collect();
        if matches!(&*command.name, "wait" | "waitaof") {
            // They are about the changes of this connection. With `always` those of a node whose shard another one has
            // are in the log that the other one has read. A node without slots has no log of its own, perhaps.
            let changed = conn.remote.as_deref().map_or(&[][..], |remote| &remote.changed);
            let owners: Vec<u16> = nodes.filter(|node| peers.takes_part(Merge::Sum, "dbsize", *node)).collect();
            asked.retain(|node| match (owners.contains(node), peers.link_to(*node)) {
                (owns, HOME) => owns,
                (owns, link) => changed.contains(&link) && (owns || !is_always(&map)),
            });
            if asked.is_empty() {
                asked.extend(owners.first());
            }
        }
        if command.name == "keys"
            && let Some(slot) = args.get(1).and_then(slot_of_pattern)
            && let Some(owner) = map.owner_of(slot)
        {
            asked = vec![owner];
        }
        let links: Vec<usize> = asked.iter().map(|node| self.peers().link_to(*node)).collect();
        if merge.needs_lease(&command.name)
            && let Some(next) = self.reaches_all(conn, command, (&asked, &links))
        {
            return next;
        }
        self.begin_gathering(conn, merge, links.len());
        if let Some(remote) = conn.remote.as_deref_mut() {
            if merge == Merge::Change {
                links.iter().for_each(|link| remote.note_change(*link));
            }
            if let Some(gather) = remote.gather.as_deref_mut().filter(|_| Merge::leaves_out(&command.name)) {
                (gather.leaves_out, gather.links) = (true, links.clone());
            }
        }
        let at_home = links.contains(&HOME);
        for (part, link) in links.into_iter().enumerate() {
            self.ask(conn, link, Some(args), raw, [Expect::Part(part)]);
        }
        match at_home {
            // The part of this node counts it.
            true => self.note_forwarded(conn, command, Some(args)),
            false => self.count_forwarded(conn, command, Some(args)),
        }
        Next::Stop
    }

    /// Returns `None` if a command about all keys may be sent to their owners, which are asked over these links. It waits
    /// for one that does not answer, as another node may take its keys over. In vain: a change is refused, and any other
    /// command is sent. A change also waits for links that were not needed yet. Nothing guards against later failures.
    fn reaches_all(&mut self, conn: &mut Conn, command: &Command, (asked, links): (&[u16], &[usize])) -> Option<Next> {
        let changes = matches!(&*command.name, "swapdb" | "flushall" | "flushdb");
        if changes && !self.peers().serves {
            return self.without_lease(conn, command);
        }
        let Desk { peers, engine, .. } = self.desk();
        let now = engine.now();
        let fails = |(node, link): &(&u16, &usize)| {
            let node = peers.map.node(**node);
            node.lost || peers.holds_no_lease(node.id) || **link != HOME && peers.links[**link].is_down(now)
        };
        if let Some((node, link)) = asked.iter().zip(links).find(fails) {
            let node = peers.map.node(*node);
            let text = format!(
                "CLUSTERDOWN The node at {}:{} cannot be reached, or does not serve: nothing was done, as all have to do it",
                node.host, node.port
            );
            // It was waited for already, by this command or by others.
            let in_vain = node.lost || *link != HOME && peers.links[*link].is_out_of_reach();
            let waits = if in_vain { None } else { self.wait_for_node(conn) };
            return waits.or_else(|| changes.then(|| self.decline(conn, command, text.as_bytes())));
        }
        if !changes {
            return None;
        }
        let link = links.iter().copied().find(|link| *link != HOME && peers.links[*link].open_end().is_none())?;
        self.want_link(link);
        self.wait_for_link(conn, link);
        Some(Next::Retry)
    }

    /// Begins to collect so many replies into one. The connection, which is owed no other reply, waits.
    pub(crate) fn begin_gathering(&mut self, conn: &mut Conn, merge: Merge, parts: usize) {
        let Owed { hole, wanted, .. } = self.place_of_reply(conn);
        let protocol = conn.session.protocol;
        let then = Then::Reply((hole, wanted));
        let parts = vec![Vec::new(); parts];
        let (missing, links) = (parts.len(), Vec::new());
        let gather = Gather { merge, parts, links, leaves_out: false, missing, then, protocol };
        let remote: &mut Remote = conn.remote.get_or_insert_default();
        remote.gather = Some(Box::new(gather));
        conn.wait = Wait::Node(NodeWait::Replies(0));
    }

    /// Begins to collect so many answers to a question of a block or script: see [`Then::Answer`].
    pub(crate) fn begin_inquiry(
        &mut self,
        conn: &mut Conn,
        question: Question,
        parts: usize,
        hole: Option<u64>,
        which: Option<(u64, u32)>,
    ) {
        let (merge, protocol) = (Merge::Same, conn.session.protocol);
        let then = Then::Answer(Box::new(question), hole, which);
        let parts = vec![Vec::new(); parts];
        let (missing, links) = (parts.len(), Vec::new());
        let gather = Gather { merge, parts, links, leaves_out: false, missing, then, protocol };
        conn.remote.get_or_insert_default().gather = Some(Box::new(gather));
    }

    /// Holds a reply back until nodes have answered this command, too: the reply then stands behind their earlier news.
    /// The connection waits.
    pub(crate) fn answer_behind(
        &mut self,
        conn: &mut Conn,
        hole: (u64, bool),
        reply: &[u8],
        (links, question): (&[usize], &[u8]),
    ) {
        let mut parts = vec![Vec::new(); links.len() + 1];
        parts[0] = reply.to_vec();
        let (merge, protocol) = (Merge::First, conn.session.protocol);
        let (missing, then) = (links.len(), Then::Reply(hole));
        let gather = Gather { merge, parts, links: Vec::new(), leaves_out: false, missing, then, protocol };
        conn.remote.get_or_insert_default().gather = Some(Box::new(gather));
        conn.wait = Wait::Node(NodeWait::Replies(0));
        for (i, link) in links.iter().enumerate() {
            self.ask(conn, *link, None, question, [Expect::Part(i + 1)]);
        }
    }

    /// Takes one of several replies, or a part of it.
    pub(crate) fn gather(&mut self, conn: &mut Conn, part: usize, reply: &[u8], whole: bool) {
        let Some(gather) = conn.remote.as_deref_mut().and_then(|remote| remote.gather.as_deref_mut()) else { return };
        let Some(gathered) = gather.parts.get_mut(part) else { return };
        gathered.extend_from_slice(reply);
        if !whole {
            return;
        }
        gather.missing -= 1;
        if gather.missing > 0 {
            return;
        }
        let Some(mut gather) = conn.remote.as_deref_mut().and_then(|remote| remote.gather.take()) else { return };
        let (hole, wanted) = match std::mem::replace(&mut gather.then, Then::Reply((0, false))) {
            Then::Reply(hole) => hole,
            Then::Answer(question, hole, which) => {
                conn.session.answers.get_or_insert_default().learn(*question, gather.parts);
                if let Some(hole) = hole {
                    conn.out.fill(hole, &[], true);
                }
                return which.into_iter().for_each(|which| self.txn().note_answered(which));
            }
        };
        let chance = self.engine().rng().next_u64();
        let learns = gather.merge == Merge::Same;
        let (reply, silent) = gather.conclude(chance);
        if learns {
            self.owe_script(&reply, &silent);
        }
        conn.out.fill(hole, if wanted { &reply } else { &[] }, true);
        if conn.holds_news {
            self.tell_held_news(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_be_about_one_slot() {
        let slots = [("{a}*", "a"), ("x{a}[bc]", "a"), ("key", "key"), ("{}", "{}"), ("{a", "{a")];
        for (pattern, key) in slots {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(slot_of(key.as_bytes())), "{pattern}");
        }
        for pattern in ["*", "*{a}", "[x]{a}", "{a*}", "{}*", "{a?", "k\\{a}", "{*}{a}"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
        }
    }
}

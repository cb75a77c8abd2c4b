//! Commands in which every node has a part: each runs it as if it were alone, and the replies become one.

use resp::{Args, Protocol, Reply, ReplyDecoder, Value, skip_reply};

use super::inquiry::Question;
use super::link::is_unknown;
use super::peers::HOME;
use super::remote::{Expect, Remote};
use crate::table::Command;
use crate::worker::Worker;
use crate::worker::conn::{Conn, Wait};
use crate::worker::execute::Next;

/// How replies become one. An error of any node is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    /// Numbers are added.
    Sum,
    /// Numbers of receivers are added; who is not reached does not receive.
    Receivers,
    /// Lists follow one another.
    Concat,
    /// Lists follow one another, without what was in one before.
    Unique,
    /// Names and numbers in turn: the numbers are added.
    Pairs,
    /// Numbers of which the least counts.
    Least,
    /// All say the same.
    Same,
    /// As before, of what is changed at each node: that only some have done it is an error of its own.
    Change,
    /// One of those that are not nil, whichever.
    Any,
    /// Done, if any node has; otherwise why not.
    Kill,
    /// Done here, whatever they say.
    Done,
    /// The first is there already, and counts; of the others it matters that they have come.
    First,
}

impl Merge {
    /// Of the command of this name, if every node has a part in it.
    pub(crate) fn of(name: &str) -> Option<Merge> {
        Some(match name {
            "dbsize" | "pubsub|numpat" => Merge::Sum,
            "publish" | "spublish" => Merge::Receivers,
            "keys" => Merge::Concat,
            "pubsub|channels" | "pubsub|shardchannels" => Merge::Unique,
            "pubsub|numsub" | "pubsub|shardnumsub" => Merge::Pairs,
            "script|exists" | "waitaof" => Merge::Least,
            "flushall" | "flushdb" | "swapdb" | "script|flush" => Merge::Change,
            "script|load" => Merge::Same,
            "randomkey" => Merge::Any,
            "script|kill" | "function|kill" => Merge::Kill,
            _ => return None,
        })
    }

    /// Whether a node that is lost is not asked: it cannot be, and has nothing of it that anybody would miss, as the slots' owners have of keys.
    pub(crate) fn is_without_lost(self, name: &str) -> bool {
        matches!(self, Merge::Receivers | Merge::Kill)
            || ["pubsub|", "script|"].iter().any(|family| name.starts_with(family))
    }

    /// Whether nodes that do not answer are left out: none of what they would say is missed. What they are to know they are told when they are back.
    fn leaves_out(name: &str) -> bool {
        name.starts_with("pubsub|") || matches!(name, "script|load" | "script|exists")
    }

    /// Whether it only looks: whether a node has come to it matters to nobody.
    pub(crate) fn only_looks(self) -> bool {
        match self {
            Merge::Sum | Merge::Concat | Merge::Unique | Merge::Pairs | Merge::Any => true,
            // What WAITAOF waits for may be lost (rule L9).
            Merge::Least | Merge::Receivers | Merge::Same | Merge::Change | Merge::Kill => false,
            // The parts do not count.
            Merge::Done | Merge::First => false,
        }
    }

    /// Whether a node has its part only as long as it has a lease: it is about keys.
    pub(crate) fn needs_lease(self, name: &str) -> bool {
        self != Merge::Least && !self.is_without_lost(name)
    }

    /// Whether every node has its part also where clients find nodes by themselves: of what else they want of all, they ask each.
    pub(crate) fn is_for_all(self) -> bool {
        matches!(self, Merge::Receivers | Merge::Least)
    }

    /// One reply of several. `chance` chooses where any would do.
    pub(crate) fn merge(self, parts: &[Vec<u8>], protocol: Protocol, chance: u64) -> Vec<u8> {
        if self == Merge::Kill {
            return parts.iter().min_by_key(|part| rank_of_kill(part)).cloned().unwrap_or_default();
        }
        match self {
            Merge::Done => return b"+OK\r\n".to_vec(),
            Merge::First => return parts.first().cloned().unwrap_or_default(),
            _ => {}
        }
        let error = parts.iter().find(|part| part.first() == Some(&b'-') && self != Merge::Receivers);
        // One key will do, whoever has it.
        let is_found = self == Merge::Any && parts.iter().any(|part| is_some(part));
        if let Some(error) = error.filter(|_| !is_found) {
            let failed = parts.iter().filter(|part| part.first() == Some(&b'-')).count();
            // Nobody may have executed it, but nobody knows: not with a code that clients repeat, either.
            let unknown = parts.iter().find(|part| is_unknown(part));
            return match self {
                Merge::Change if failed < parts.len() || unknown.is_some() => {
                    partly(parts.len() - failed, parts.len(), unknown.unwrap_or(error), protocol)
                }
                _ => error.clone(),
            };
        }
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match self {
            Merge::Sum | Merge::Receivers => reply.integer(parts.iter().map(|part| number(part)).sum()),
            Merge::Same | Merge::Change | Merge::Kill | Merge::Done | Merge::First => {
                return parts.first().cloned().unwrap_or_default();
            }
            Merge::Any => {
                let some: Vec<&Vec<u8>> = parts.iter().filter(|part| is_some(part)).collect();
                let chosen = (chance as usize).checked_rem(some.len()).and_then(|i| some.get(i).copied());
                return chosen.or(parts.first()).cloned().unwrap_or_default();
            }
            Merge::Concat => {
                let lists: Vec<(usize, &[u8])> = parts.iter().map(|part| list(part)).collect();
                reply.array(lists.iter().map(|(count, _)| count).sum());
                lists.iter().for_each(|(_, elements)| reply.raw(elements));
            }
            Merge::Unique => {
                let mut seen = std::collections::BTreeSet::new();
                let lists = parts.iter().map(|part| list(part).1);
                let elements: Vec<&[u8]> = lists.flat_map(Elements).filter(|element| seen.insert(*element)).collect();
                reply.array(elements.len());
                elements.iter().for_each(|element| reply.raw(element));
            }
            Merge::Pairs | Merge::Least => {
                let lists: Vec<Vec<&[u8]>> = parts.iter().map(|part| Elements(list(part).1).collect()).collect();
                let Some(first) = lists.first() else { return out };
                reply.array(first.len());
                for (i, element) in first.iter().enumerate() {
                    let numbers = lists.iter().map(|list| list.get(i).map_or(0, |element| number(element)));
                    match self {
                        Merge::Least => reply.integer(numbers.min().unwrap_or(0)),
                        _ if i % 2 == 0 => reply.raw(element),
                        _ => reply.integer(numbers.sum()),
                    }
                }
            }
        }
        out
    }
}

/// The slot of all keys that a pattern matches, if it is one.
fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let is_literal = |text: &[u8]| !text.iter().any(|byte| b"*?[\\".contains(byte));
    let Some(open) = pattern.iter().position(|byte| *byte == b'{').filter(|open| is_literal(&pattern[..*open])) else {
        return is_literal(pattern).then(|| keyspace::slot_of(pattern));
    };
    let tag = &pattern[open + 1..];
    let close = tag.iter().position(|byte| *byte == b'}').filter(|close| *close > 0 && is_literal(&tag[..*close]));
    match close {
        Some(close) => Some(keyspace::slot_of(&tag[..close])),
        None => is_literal(pattern).then(|| keyspace::slot_of(pattern)),
    }
}

/// Whether a reply names something.
fn is_some(reply: &[u8]) -> bool {
    !(reply.starts_with(b"$-1") || reply.starts_with(b"_") || reply.starts_with(b"-"))
}

/// Which of the replies to SCRIPT KILL counts: the least. What a node has not said may be that a script runs there.
fn rank_of_kill(reply: &[u8]) -> usize {
    match reply {
        [b'+', ..] => 0,
        _ if reply.starts_with(b"-UNKILLABLE") => 1,
        _ if reply.starts_with(b"-BUSY") => 2,
        _ if !reply.starts_with(b"-NOTBUSY") => 3,
        _ => 4,
    }
}

/// What is answered if only some nodes have executed a command. The codes of errors after which clients repeat a command by themselves are left out of it:
/// some nodes would execute it twice (rule T9).
fn partly(done: usize, all: usize, error: &[u8], protocol: Protocol) -> Vec<u8> {
    let error = error.strip_prefix(b"-").unwrap_or(error).trim_ascii_end();
    let code = error.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let why = String::from_utf8_lossy(if error.get(code) == Some(&b' ') { &error[code + 1..] } else { error });
    let mut out = Vec::new();
    let text = format!("ERR {done} of {all} nodes have executed it, of the others the first says: {why}");
    Reply::new(&mut out, protocol).error(text.as_bytes());
    out
}

fn number(reply: &[u8]) -> i64 {
    match ReplyDecoder::default().next(reply) {
        Ok(Some((Value::Integer(n), _))) => n,
        _ => 0,
    }
}

/// How many elements a list has, and what they are.
fn list(reply: &[u8]) -> (usize, &[u8]) {
    let Some(end) = reply.windows(2).position(|two| two == b"\r\n") else { return (0, &[]) };
    let count = reply.get(1..end).and_then(keyspace::canonical_int).unwrap_or(0);
    (usize::try_from(count).unwrap_or(0), &reply[end + 2..])
}

/// The replies in a row of them.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (end, _) = skip_reply(self.0).ok()??;
        let (element, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(element)
    }
}

/// A command under way at several nodes.
pub(crate) struct Gather {
    merge: Merge,
    parts: Vec<Vec<u8>>,
    /// Over which links they come; nothing where that does not matter.
    links: Vec<usize>,
    /// Those who do not answer are left out.
    leaves_out: bool,
    /// Replies that have not come.
    missing: usize,
    then: Then,
    protocol: Protocol,
}

/// What becomes of replies.
enum Then {
    /// They become one, which goes here; whether the client wants it.
    Reply((u64, bool)),
    /// They are what a block or script has asked, which goes on: its connection, which waits for this, or this attempt of it.
    Answer(Box<Question>, Option<u64>, Option<(u64, u32)>),
}

impl Gather {
    /// Bytes that have come.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Whether its client need not be closed where nobody knows what a node has done (rule T9): a message may be lost, a script may be killed twice, and of a
    /// change the reply says how many have made it.
    pub(crate) fn says_what_is_unknown(&self) -> bool {
        matches!(self.merge, Merge::Receivers | Merge::Change | Merge::Kill | Merge::Done | Merge::First)
            || self.leaves_out
            || self.only_looks()
            || matches!(self.then, Then::Answer(..))
    }

    /// What has asked is this attempt of a block by now.
    pub(crate) fn goes_on_with(&mut self, which: (u64, u32)) {
        if let Then::Answer(_, _, goes_on) = &mut self.then {
            *goes_on = Some(which);
        }
    }

    /// See [`Merge::only_looks`].
    pub(crate) fn only_looks(&self) -> bool {
        self.merge.only_looks()
    }

    /// The reply, and the links of those who were left out.
    fn conclude(mut self, chance: u64) -> (Vec<u8>, Vec<usize>) {
        let failed = |part: &Vec<u8>| part.starts_with(b"-CLUSTERDOWN") || is_unknown(part);
        let mut silent = Vec::new();
        if self.leaves_out && !self.parts.iter().all(failed) {
            silent =
                self.links.iter().zip(&self.parts).filter(|(_, part)| failed(part)).map(|(link, _)| *link).collect();
            self.parts.retain(|part| !failed(part));
        }
        (self.merge.merge(&self.parts, self.protocol, chance), silent)
    }

    /// The rest of one of the replies will not come.
    pub(crate) fn forget(&mut self, part: usize) {
        self.parts.get_mut(part).into_iter().for_each(Vec::clear);
    }
}

impl Worker {
    /// Sends a command to all nodes, this one included. The connection, which is owed nothing else, waits.
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
        let Some(peers) = &mut self.peers else { return Next::Continue };
        let (map, me, all) = (peers.map.clone(), peers.me, !merge.is_without_lost(&command.name));
        let asked = (0..map.nodes().len() as u16).filter(|node| all || *node == me || !map.node(*node).lost);
        let mut links: Vec<usize> = asked.map(|node| peers.link_to(node)).collect();
        if command.name == "waitaof" {
            // It is about what this connection has changed.
            let changed = conn.remote.as_deref().map_or(&[][..], |remote| &remote.changed);
            links.retain(|link| *link == HOME || changed.contains(link));
        }
        if command.name == "keys"
            && let Some(slot) = args.get(1).and_then(slot_of_pattern)
            && let Some(owner) = map.owner_of(slot)
        {
            links = vec![peers.link_to(owner)];
        }
        if matches!(&*command.name, "swapdb" | "flushall" | "flushdb")
            && let Some(next) = self.reaches_all(conn, command, &links)
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

    /// Whether a command that must not be done by some nodes alone may be sent to all: `None`. It waits for links that have not been needed yet, and is refused
    /// if a node is out of reach. What comes to pass after that, nothing guards against.
    fn reaches_all(&mut self, conn: &mut Conn, command: &Command, links: &[usize]) -> Option<Next> {
        let (peers, now) = (self.peers.as_deref()?, self.engine.now());
        if !peers.serves {
            let text = peers.no_lease();
            return Some(self.decline(conn, command, &text));
        }
        let fails = |node: &&::membership::map::Node| {
            let link = links.iter().find(|link| peers.links[**link].node == Some(node.id));
            node.lost || peers.holds_no_lease(node.id) || link.is_some_and(|link| peers.links[*link].fails(now))
        };
        if let Some(node) = peers.map.nodes().iter().find(fails) {
            let text = format!(
                "CLUSTERDOWN The node at {}:{} cannot be reached, or does not serve: nothing was done, as all have to do it",
                node.host, node.port
            );
            return Some(self.decline(conn, command, text.as_bytes()));
        }
        let link = links.iter().copied().find(|link| *link != HOME && peers.links[*link].open_end().is_none())?;
        self.want_link(link);
        self.wait_for_link(conn, link);
        Some(Next::Retry)
    }

    /// So many replies are to become one. The connection, which is owed nothing else, waits.
    pub(crate) fn begin_gathering(&mut self, conn: &mut Conn, merge: Merge, parts: usize) {
        let hole = self.place_of_reply(conn);
        let protocol = conn.session.protocol;
        let then = Then::Reply(hole);
        let parts = vec![Vec::new(); parts];
        let (missing, links) = (parts.len(), Vec::new());
        let gather = Gather { merge, parts, links, leaves_out: false, missing, then, protocol };
        let remote: &mut Remote = conn.remote.get_or_insert_default();
        remote.gather = Some(Box::new(gather));
        conn.wait = Wait::Replies(0);
    }

    /// So many replies are what a block or script has asked: see [`Then::Answer`].
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

    /// A reply is there, and is written when nodes have answered this, too: behind what they have said before. The
    /// connection waits.
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
        conn.wait = Wait::Replies(0);
        for (i, link) in links.iter().enumerate() {
            self.ask(conn, *link, None, question, [Expect::Part(i + 1)]);
        }
    }

    /// One of several replies has come, or some of it.
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
                return which.into_iter().for_each(|which| self.txn.note_answered(which));
            }
        };
        let chance = self.engine.rng().next_u64();
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

    fn merged(merge: Merge, parts: &[&str]) -> String {
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        String::from_utf8(merge.merge(&parts, Protocol::Resp2, 1)).unwrap()
    }

    #[test]
    fn a_pattern_may_be_about_one_slot() {
        let slots = [("{a}*", "a"), ("x{a}[bc]", "a"), ("key", "key"), ("{}", "{}"), ("{a", "{a")];
        for (pattern, key) in slots {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(keyspace::slot_of(key.as_bytes())), "{pattern}");
        }
        for pattern in ["*", "*{a}", "[x]{a}", "{a*}", "{}*", "{a?", "k\\{a}", "{*}{a}"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
        }
    }

    #[test]
    fn replies_become_one() {
        assert_eq!(merged(Merge::Sum, &[":3\r\n", ":0\r\n", ":4\r\n"]), ":7\r\n");
        assert_eq!(merged(Merge::Sum, &[":3\r\n", "-ERR no\r\n"]), "-ERR no\r\n");
        let unknown = format!("-{}\r\n", crate::cluster::link::unknown(" at a:1"));
        let both = merged(Merge::Change, &["-CLUSTERDOWN no lease\r\n", &unknown]);
        assert!(both.starts_with("-ERR 0 of 2 nodes have executed it") && both.contains("nobody knows"), "{both}");
        assert_eq!(merged(Merge::Change, &["-CLUSTERDOWN a\r\n", "-CLUSTERDOWN b\r\n"]), "-CLUSTERDOWN a\r\n");
        assert_eq!(merged(Merge::Receivers, &[":3\r\n", "-CLUSTERDOWN\r\n", ":1\r\n"]), ":4\r\n");
        assert_eq!(
            merged(Merge::Concat, &["*1\r\n$1\r\na\r\n", "*0\r\n", "*2\r\n$1\r\nb\r\n$0\r\n\r\n"]),
            "*3\r\n$1\r\na\r\n$1\r\nb\r\n$0\r\n\r\n"
        );
        assert_eq!(
            merged(Merge::Unique, &["*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"]),
            "*2\r\n$1\r\na\r\n$1\r\nb\r\n"
        );
        assert_eq!(
            merged(Merge::Pairs, &["*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n$1\r\na\r\n:2\r\n"]),
            "*2\r\n$1\r\na\r\n:3\r\n"
        );
        assert_eq!(merged(Merge::Least, &["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"]), "*2\r\n:1\r\n:0\r\n");
        assert_eq!(merged(Merge::Same, &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(merged(Merge::Change, &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(merged(Merge::Change, &["-CLUSTERDOWN a\r\n", "-ERR b\r\n"]), "-CLUSTERDOWN a\r\n");
        assert_eq!(
            merged(Merge::Change, &["+OK\r\n", "-CLUSTERDOWN not there\r\n", "-nothing\r\n"]),
            "-ERR 1 of 3 nodes have executed it, of the others the first says: not there\r\n"
        );
        let (free, no) = ("-NOTBUSY none\r\n", "-UNKILLABLE it wrote\r\n");
        assert_eq!(merged(Merge::Kill, &[free, no, "+OK\r\n"]), "+OK\r\n");
        assert_eq!(merged(Merge::Kill, &[free, "-BUSY other\r\n", no]), no);
        assert_eq!(merged(Merge::Kill, &[free, "-BUSY other\r\n", free]), "-BUSY other\r\n");
        assert_eq!(merged(Merge::Kill, &[free, &unknown, free]), unknown, "it may run there");
        assert_eq!(merged(Merge::Kill, &[free, free]), free);
        assert_eq!(merged(Merge::Any, &["$-1\r\n", "$1\r\nk\r\n"]), "$1\r\nk\r\n");
        assert_eq!(merged(Merge::Any, &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
        assert_eq!(merged(Merge::Any, &["-CLUSTERDOWN a\r\n", "$1\r\nk\r\n"]), "$1\r\nk\r\n");
        assert_eq!(merged(Merge::Any, &["-CLUSTERDOWN a\r\n", "$-1\r\n"]), "-CLUSTERDOWN a\r\n");
    }
}

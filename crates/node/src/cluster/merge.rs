//! How the replies of several nodes become one.

use resp::{Protocol, Reply, ReplyDecoder, Value, skip_reply};

use super::unknown::is_unknown;

/// How replies become one. An error of any node is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    /// Numbers are added.
    Sum,
    /// Numbers of receivers are added; a client that is not reached is no receiver.
    Receivers,
    /// Lists follow one another.
    Concat,
    /// Lists follow one another, without repeated elements.
    Unique,
    /// Names and numbers in turn: the numbers are added.
    Pairs,
    /// Numbers; the least counts.
    Least,
    /// All nodes answer the same.
    Same,
    /// As before, for a change at each node: if only some nodes have made it, that is an error of its own.
    Change,
    /// One of those that are not nil, any of them.
    Any,
    /// Done, if any node has; otherwise the reason why not.
    Kill,
    /// Done here, whatever the other nodes answer.
    Done,
    /// The first is there already, and counts. The others only have to come.
    First,
}

impl Merge {
    /// The merge of the command of this name, if every node has a part in it.
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

    /// True if a lost node is not asked: it cannot answer, and nothing of it is missed, unlike keys of the slots'
    /// owners.
    pub(crate) fn is_without_lost(self, name: &str) -> bool {
        matches!(self, Merge::Receivers | Merge::Kill)
            || ["pubsub|", "script|"].iter().any(|family| name.starts_with(family))
    }

    /// True if nodes that do not answer are left out: their answers are not missed. They get what they have to know
    /// when they are back.
    pub(super) fn leaves_out(name: &str) -> bool {
        name.starts_with("pubsub|") || matches!(name, "script|load" | "script|exists")
    }

    /// True if it only reads, so that it does not matter whether a node has executed it.
    pub(crate) fn only_looks(self) -> bool {
        match self {
            Merge::Sum | Merge::Concat | Merge::Unique | Merge::Pairs | Merge::Any => true,
            // The records that WAITAOF waits for may be lost (rule L9).
            Merge::Least | Merge::Receivers | Merge::Same | Merge::Change | Merge::Kill => false,
            // The parts do not count.
            Merge::Done | Merge::First => false,
        }
    }

    /// True if a node answers its part only with a lease, because it is about keys.
    pub(crate) fn needs_lease(self, name: &str) -> bool {
        self != Merge::Least && !self.is_without_lost(name)
    }

    /// True if every node has a part also where clients find nodes by themselves: such clients send all other commands
    /// to each node.
    pub(crate) fn is_for_all(self) -> bool {
        matches!(self, Merge::Receivers | Merge::Least)
    }

    /// Makes one reply of several. `chance` chooses where any would do.
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
        // One key will do, of any node.
        let is_found = self == Merge::Any && parts.iter().any(|part| is_some(part));
        if let Some(error) = error.filter(|_| !is_found) {
            let failed = parts.iter().filter(|part| part.first() == Some(&b'-')).count();
            // Perhaps no node has executed it, but that is unknown: so no code after which clients repeat it.
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
            Merge::Least if parts.iter().all(|part| part.first() == Some(&b':')) => {
                reply.integer(parts.iter().map(|part| number(part)).min().unwrap_or(0));
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

/// True if a reply names something.
fn is_some(reply: &[u8]) -> bool {
    !(reply.starts_with(b"$-1") || reply.starts_with(b"_") || reply.starts_with(b"-"))
}

/// The rank of a reply to SCRIPT KILL: the least counts. A node that has not answered may have a running script.
fn rank_of_kill(reply: &[u8]) -> usize {
    match reply {
        [b'+', ..] => 0,
        _ if reply.starts_with(b"-UNKILLABLE") => 1,
        _ if reply.starts_with(b"-BUSY") => 2,
        _ if !reply.starts_with(b"-NOTBUSY") => 3,
        _ => 4,
    }
}

/// The error if only some nodes have executed a command. It avoids the codes after which clients repeat a command by
/// themselves: some nodes would execute it twice (rule T9).
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

/// How many elements a list has, and their bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(merge: Merge, parts: &[&str]) -> String {
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        String::from_utf8(merge.merge(&parts, Protocol::Resp2, 1)).unwrap()
    }

    #[test]
    fn replies_become_one() {
        assert_eq!(merged(Merge::Sum, &[":3\r\n", ":0\r\n", ":4\r\n"]), ":7\r\n");
        assert_eq!(merged(Merge::Sum, &[":3\r\n", "-ERR no\r\n"]), "-ERR no\r\n");
        let unknown = format!("-{}\r\n", crate::cluster::unknown::unknown(" at a:1"));
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
        assert_eq!(merged(Merge::Least, &[":2\r\n", ":1\r\n"]), ":1\r\n");
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

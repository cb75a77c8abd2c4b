//! Commands that work on each of their keys alone (MSET, MGET, DEL, UNLINK, EXISTS, TOUCH): each node does its keys,
//! and the replies become one.

use std::collections::BTreeMap;

use resp::{Args, Protocol, Reply, skip_reply};

use crate::table::Command;

/// How the replies of a command's parts become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    /// All say OK.
    Same,
    /// Numbers are added.
    Sum,
    /// Elements go to the places of their keys.
    Places,
}

impl Join {
    /// How, and arguments per key; `None`: the command is not such a one.
    fn of(command: &Command) -> Option<(Join, usize)> {
        Some(match command.name.as_str() {
            "mset" => (Join::Same, 2),
            "mget" => (Join::Places, 1),
            "del" | "unlink" | "exists" | "touch" => (Join::Sum, 1),
            _ => return None,
        })
    }
}

/// A command, by nodes.
pub(super) struct Split<'a> {
    pub(super) join: Join,
    /// By place of the node in the map: the words of its command, and the numbers of its keys.
    pub(super) nodes: BTreeMap<u16, (Vec<&'a [u8]>, Vec<usize>)>,
}

/// The error that is the reply to a command that lacks an argument of its last key: it has no parts, and does nothing
/// anywhere.
pub(super) fn lacking(command: &Command, args: Args<'_>) -> Option<Vec<u8>> {
    let (_, step) = Join::of(command)?;
    let lacks = !args.len().saturating_sub(1).is_multiple_of(step);
    lacks.then(|| format!("ERR wrong number of arguments for '{}' command", command.name).into())
}

/// True if parts of a command may be at several nodes.
pub(super) fn is_splittable(command: &Command) -> bool {
    Join::of(command).is_some()
}

/// Splits a command with keys of several nodes, which is not [`lacking`]. `owner_of` says the node of a key, and makes
/// the error. `Ok(None)`: the command works on its keys together.
pub(super) fn split<'a, E>(
    command: &Command,
    args: Args<'a>,
    owner_of: impl Fn(&[u8]) -> Result<u16, E>,
) -> Result<Option<Split<'a>>, E> {
    let Some((join, step)) = Join::of(command) else { return Ok(None) };
    let words: Vec<&'a [u8]> = args.iter().collect();
    let Some((name, rest)) = words.split_first() else { return Ok(None) };
    let mut nodes: BTreeMap<u16, (Vec<&'a [u8]>, Vec<usize>)> = BTreeMap::new();
    for (number, of_key) in rest.chunks(step).enumerate() {
        let owner = owner_of(of_key[0])?;
        let (words, numbers) = nodes.entry(owner).or_insert_with(|| (vec![*name], Vec::new()));
        words.extend_from_slice(of_key);
        numbers.push(number);
    }
    Ok(Some(Split { join, nodes }))
}

/// One reply of those of its parts, each with the numbers of its keys. `None`: they are not what such a command
/// replies.
pub(super) fn join(how: Join, parts: &[(&[u8], &[usize])], protocol: Protocol) -> Option<Vec<u8>> {
    if let Some((error, _)) = parts.iter().find(|(reply, _)| reply.first() == Some(&b'-')) {
        return Some(error.to_vec());
    }
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, protocol);
    match how {
        Join::Same => reply.raw(parts.first()?.0),
        Join::Sum => {
            let number = |reply: &[u8]| keyspace::canonical_int(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?);
            reply.integer(parts.iter().try_fold(0, |sum: i64, (reply, _)| sum.checked_add(number(reply)?))?);
        }
        Join::Places => {
            let mut elements: BTreeMap<usize, &[u8]> = BTreeMap::new();
            for (list, numbers) in parts {
                let head = list.windows(2).position(|two| two == b"\r\n")? + 2;
                let mut rest = &list[head..];
                for number in *numbers {
                    let (length, _) = skip_reply(rest).ok()??;
                    let (element, more) = rest.split_at_checked(length)?;
                    elements.insert(*number, element);
                    rest = more;
                }
            }
            reply.array(elements.len());
            elements.values().for_each(|element| reply.raw(element));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(how: Join, parts: &[(&str, &[usize])]) -> Option<String> {
        let parts: Vec<(&[u8], &[usize])> = parts.iter().map(|(reply, at)| (reply.as_bytes(), *at)).collect();
        join(how, &parts, Protocol::Resp2).map(|reply| String::from_utf8(reply).unwrap())
    }

    #[test]
    fn parts_become_one() {
        assert_eq!(joined(Join::Sum, &[(":3\r\n", &[0]), (":0\r\n", &[1])]).unwrap(), ":3\r\n");
        assert_eq!(joined(Join::Same, &[("+OK\r\n", &[0]), ("+OK\r\n", &[1])]).unwrap(), "+OK\r\n");
        let parts = [("*2\r\n$1\r\na\r\n$-1\r\n", &[0, 3][..]), ("*2\r\n$1\r\nb\r\n$0\r\n\r\n", &[1, 2])];
        assert_eq!(joined(Join::Places, &parts).unwrap(), "*4\r\n$1\r\na\r\n$1\r\nb\r\n$0\r\n\r\n$-1\r\n");
        assert_eq!(joined(Join::Sum, &[(":3\r\n", &[0]), ("-ERR no\r\n", &[1])]).unwrap(), "-ERR no\r\n");
        assert_eq!(joined(Join::Places, &[("*1\r\n", &[0])]), None);
        assert_eq!(joined(Join::Sum, &[("+OK\r\n", &[0])]), None);
        assert_eq!(joined(Join::Sum, &[(":9223372036854775807\r\n", &[0]), (":1\r\n", &[1])]), None);
    }
}

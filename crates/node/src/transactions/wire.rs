//! Bytes of transactions that `txn` knows nothing about (docs/formats.md).
//!
//! ```text
//! body     := node u64 · incarnation u64 · message                          of a frame of kind transactions: who says it, and what
//! commands := version u8 (1, 2) · protocol u8 (2, 3) · watches u8 (0, 1) · [user u32 · revision u64, in version 2] ·
//!             [vc u32 · client u64 · keys u32] · (db u16 · arguments u32 · (length u32 · bytes) each) each
//!             version 2 says for which user they run, at level::PRINCIPALS and above
//! replies  := (length u32 · reply) each
//! found    := version u8 (1) · now u64 · (key's version u64 · length u32 · effect IMAGE | steps) each
//! steps    := u8 (255) · db u16 · length u32 · key · (from version u64 · length u32 · effects) each: from a version that a part of a
//!             transaction that fetches has named as a command of two words, the key and the version u64
//! changes  := version u8 (1) · u8 (1; 0: no command that full memory forbids has made them) · checks u32 · (db u16 · length u32 · key · key's version u64, 0: not there) each · length u32 · effects ·
//!             (class u32 · db u16 · length u32 · key · length u32 · name of a notification · [length u32 · fields, if the class's
//!             highest bit is set]) each
//! ```

use std::collections::BTreeMap;

use ::membership::items::Principal;
use clocks::UnixMs;
use command::Event;
use keyspace::Version;
use resp::Protocol;
use txn::{Life, Malformed, Message, NodeId};

const VERSION: u8 = 1;
/// Of commands for a user that is named.
const VERSION_OF_USERS: u8 = 2;
/// In place of the protocol of commands.
const CHANGES: u8 = 1;
/// As [`CHANGES`], if full memory does not forbid them.
const FREE_CHANGES: u8 = 0;
/// In the class of a notification: the list of the fields that it is about follows.
const NAMES_FIELDS: u32 = 1 << 31;
const CUT: Malformed = Malformed("cut short");

/// Writes a body to the place that `put` gives.
pub(super) fn put(from: Life, message: &Message, put: impl FnOnce(&dyn Fn(&mut Vec<u8>))) {
    put(&|out| {
        out.extend_from_slice(&from.node.0.to_le_bytes());
        out.extend_from_slice(&from.incarnation.to_le_bytes());
        message.encode(out);
    });
}

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Result<(Life, Message), Malformed> {
    let (node, rest) = body.split_first_chunk().ok_or(CUT)?;
    let (incarnation, rest) = rest.split_first_chunk().ok_or(CUT)?;
    let from = Life { node: NodeId(u64::from_le_bytes(*node)), incarnation: u64::from_le_bytes(*incarnation) };
    Ok((from, Message::decode(rest)?))
}

/// The virtual connection of a client that watches keys at the coordinator's own node.
pub(super) const HERE: u32 = u32::MAX;

/// The client that watches keys at a node for a block, and the number of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Watch {
    /// The virtual connection, on the link that the message comes over.
    pub(super) vc: u32,
    /// The client whose it is.
    pub(super) client: u64,
    pub(super) keys: u32,
}

/// The commands of a part, that are being written.
pub(super) struct Commands(Vec<u8>);

impl Commands {
    pub(super) fn new(protocol: Protocol, watch: Option<Watch>) -> Self {
        let mut bytes = vec![VERSION, protocol.number() as u8, u8::from(watch.is_some())];
        if let Some(Watch { vc, client, keys }) = watch {
            bytes.extend_from_slice(&vc.to_le_bytes());
            bytes.extend_from_slice(&client.to_le_bytes());
            bytes.extend_from_slice(&keys.to_le_bytes());
        }
        Self(bytes)
    }

    /// Says for which user they run. To be called before the first [`Self::push`].
    pub(super) fn name_user(&mut self, principal: Principal) {
        if let [version @ VERSION, protocol, watches, rest @ ..] = &self.0[..] {
            debug_assert!(*version == VERSION, "a user is named once");
            let mut bytes = vec![VERSION_OF_USERS, *protocol, *watches];
            bytes.extend_from_slice(&principal.user.to_le_bytes());
            bytes.extend_from_slice(&principal.revision.to_le_bytes());
            bytes.extend_from_slice(rest);
            self.0 = bytes;
        }
    }

    pub(super) fn push<'a>(&mut self, db: u16, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.0.extend_from_slice(&db.to_le_bytes());
        self.0.extend_from_slice(&(args.len() as u32).to_le_bytes());
        args.for_each(|arg| put_bytes(&mut self.0, arg));
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Begins an answer: the time of the node, unix milliseconds.
pub(super) fn begin_found(now: UnixMs) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&now.0.to_le_bytes());
    bytes
}

/// A key that exists: its version, and the effect that produces its value.
pub(super) type Image<'a> = (Version, &'a [u8]);

/// Reads a node's values: its time, and of each key its version (0 if it has expired by then), and the effect that
/// produces its value.
pub(super) fn found(bytes: &[u8]) -> Result<(UnixMs, Vec<Image<'_>>), Malformed> {
    let [VERSION, rest @ ..] = bytes else { return Err(Malformed("an unknown version of found keys")) };
    let (now, mut rest) = rest.split_first_chunk().ok_or(CUT)?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (version, more) = rest.split_first_chunk().ok_or(CUT)?;
        rest = more;
        keys.push((Version(u64::from_le_bytes(*version)), take_bytes(&mut rest)?));
    }
    Ok((UnixMs(u64::from_le_bytes(*now)), keys))
}

/// The changes of a key, a copy of which the request named.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Steps<'a> {
    pub(super) db: u16,
    pub(super) key: &'a [u8],
    /// From which version each leads to the next, and its effects.
    pub(super) steps: Vec<(Version, &'a [u8])>,
}

/// Reads what an owner says in place of an image.
pub(super) fn steps(bytes: &[u8]) -> Result<Steps<'_>, Malformed> {
    let [engine::STEPS, rest @ ..] = bytes else { return Err(Malformed("steps of a key")) };
    let (db, mut rest) = rest.split_first_chunk().ok_or(CUT)?;
    let key = take_bytes(&mut rest)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (from, more) = rest.split_first_chunk().ok_or(CUT)?;
        rest = more;
        steps.push((Version(u64::from_le_bytes(*from)), take_bytes(&mut rest)?));
    }
    Ok(Steps { db: u16::from_le_bytes(*db), key, steps })
}

/// Names a copy of a key: appended to the commands of a part that fetches.
pub(super) fn name_copy(commands: &mut Vec<u8>, (db, key): (u16, &[u8]), version: Version) {
    commands.extend_from_slice(&db.to_le_bytes());
    commands.extend_from_slice(&2u32.to_le_bytes());
    put_bytes(commands, key);
    put_bytes(commands, &version.0.to_le_bytes());
}

/// The copies that the commands of a part name, and their versions.
pub(super) fn named_copies(commands: &[u8]) -> BTreeMap<(u16, &[u8]), Version> {
    let named = self::commands(commands).map(|(_, named)| named).unwrap_or_default();
    let copies = named.into_iter().filter_map(|(db, words)| match words[..] {
        [key, version] => Some(((db, key), Version(u64::from_le_bytes(version.try_into().ok()?)))),
        _ => None,
    });
    copies.collect()
}

/// A key that must be as it was at this version; 0: not there.
pub(super) type Check<'a> = (u16, &'a [u8], Version);

/// The checks of a node's keys, and the changes of them.
#[derive(Default)]
pub(super) struct Changes<'a> {
    pub(super) checks: Vec<Check<'a>>,
    pub(super) effects: &'a [u8],
    pub(super) events: Vec<Event>,
    /// They are made by commands of which one is refused when memory is full.
    pub(super) needs_memory: bool,
}

impl Changes<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, if self.needs_memory { CHANGES } else { FREE_CHANGES }];
        out.extend_from_slice(&(self.checks.len() as u32).to_le_bytes());
        for (db, key, version) in &self.checks {
            out.extend_from_slice(&db.to_le_bytes());
            put_bytes(&mut out, key);
            out.extend_from_slice(&version.0.to_le_bytes());
        }
        put_bytes(&mut out, self.effects);
        for Event { class, name, db, key, fields } in &self.events {
            let named = if fields.is_empty() { 0 } else { NAMES_FIELDS };
            out.extend_from_slice(&(class | named).to_le_bytes());
            out.extend_from_slice(&db.to_le_bytes());
            put_bytes(&mut out, key);
            put_bytes(&mut out, name.as_bytes());
            if named != 0 {
                put_bytes(&mut out, fields);
            }
        }
        out
    }
}

/// True if these are [`Changes`], and no commands. Nothing is none.
pub(super) fn is_changes(bytes: &[u8]) -> bool {
    matches!(bytes, [] | [VERSION, CHANGES | FREE_CHANGES, ..])
}

/// The changes of a node's keys.
pub(super) fn changes(bytes: &[u8]) -> Result<Changes<'_>, Malformed> {
    let mut changes = Changes::default();
    if bytes.is_empty() {
        return Ok(changes);
    }
    let [VERSION, kind @ (CHANGES | FREE_CHANGES), rest @ ..] = bytes else {
        return Err(Malformed("a version of changes that is not known"));
    };
    changes.needs_memory = *kind == CHANGES;
    let (checks, mut rest) = rest.split_first_chunk().ok_or(CUT)?;
    for _ in 0..u32::from_le_bytes(*checks) {
        let (db, more) = rest.split_first_chunk().ok_or(CUT)?;
        rest = more;
        let key = take_bytes(&mut rest)?;
        let (version, more) = rest.split_first_chunk().ok_or(CUT)?;
        rest = more;
        changes.checks.push((u16::from_le_bytes(*db), key, Version(u64::from_le_bytes(*version))));
    }
    changes.effects = take_bytes(&mut rest)?;
    while !rest.is_empty() {
        let (class, more) = rest.split_first_chunk().ok_or(CUT)?;
        let (db, more) = more.split_first_chunk().ok_or(CUT)?;
        rest = more;
        let (key, name) = (take_bytes(&mut rest)?.into(), take_bytes(&mut rest)?);
        let name = std::str::from_utf8(name).map_err(|_| Malformed("the name of a notification"))?;
        let (class, db) = (u32::from_le_bytes(*class), u16::from_le_bytes(*db));
        let fields = if class & NAMES_FIELDS != 0 { take_bytes(&mut rest)?.into() } else { Box::default() };
        changes.events.push(Event { class: class & !NAMES_FIELDS, name: name.to_owned().into(), db, key, fields });
    }
    Ok(changes)
}

/// The beginning of commands.
struct Head {
    protocol: Protocol,
    /// For whom they run; `None`: the other node does not say so yet.
    principal: Option<Principal>,
    watch: Option<Watch>,
}

fn head(bytes: &[u8]) -> Result<(Head, &[u8]), Malformed> {
    let (head, mut rest) = bytes.split_first_chunk::<3>().ok_or(CUT)?;
    let protocol = match head {
        [VERSION | VERSION_OF_USERS, 2, _] => Protocol::Resp2,
        [VERSION | VERSION_OF_USERS, 3, _] => Protocol::Resp3,
        _ => return Err(Malformed("a version of commands that is not known")),
    };
    let mut principal = None;
    if head[0] == VERSION_OF_USERS {
        let (user, more) = rest.split_first_chunk().ok_or(CUT)?;
        let (revision, more) = more.split_first_chunk().ok_or(CUT)?;
        principal = Some(Principal { user: u32::from_le_bytes(*user), revision: u64::from_le_bytes(*revision) });
        rest = more;
    }
    match head[2] {
        0 => Ok((Head { protocol, principal, watch: None }, rest)),
        1 => {
            let (vc, rest) = rest.split_first_chunk().ok_or(CUT)?;
            let (client, rest) = rest.split_first_chunk().ok_or(CUT)?;
            let (keys, rest) = rest.split_first_chunk().ok_or(CUT)?;
            let (vc, client) = (u32::from_le_bytes(*vc), u64::from_le_bytes(*client));
            let watch = Some(Watch { vc, client, keys: u32::from_le_bytes(*keys) });
            Ok((Head { protocol, principal, watch }, rest))
        }
        _ => Err(Malformed("neither yes nor no")),
    }
}

/// For whom the commands of a part run.
pub(super) fn principal(bytes: &[u8]) -> Option<Principal> {
    head(bytes).ok()?.0.principal
}

/// The client that watches keys for a part.
pub(super) fn watch(bytes: &[u8]) -> Option<Watch> {
    head(bytes).ok()?.0.watch
}

/// A command, and its database.
pub(super) type Command<'a> = (u16, Vec<&'a [u8]>);

/// The commands of a part, and the protocol of their replies.
pub(super) fn commands(bytes: &[u8]) -> Result<(Protocol, Vec<Command<'_>>), Malformed> {
    let (Head { protocol, .. }, mut rest) = head(bytes)?;
    let mut commands = Vec::new();
    while !rest.is_empty() {
        let (db, more) = rest.split_first_chunk().ok_or(CUT)?;
        let (count, more) = more.split_first_chunk().ok_or(CUT)?;
        rest = more;
        let mut args = Vec::new();
        for _ in 0..u32::from_le_bytes(*count) {
            args.push(take_bytes(&mut rest)?);
        }
        if args.is_empty() {
            return Err(Malformed("a command without a name"));
        }
        commands.push((u16::from_le_bytes(*db), args));
    }
    Ok((protocol, commands))
}

/// Appends bytes with their length: a reply.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The next reply.
pub(super) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let (length, rest) = bytes.split_first_chunk().ok_or(CUT)?;
    let (taken, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(CUT)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let watch_of = Watch { vc: 7, client: 258, keys: 2 };
        let mut written = Commands::new(Protocol::Resp3, Some(watch_of));
        written.push(2, [&b"GET"[..], b"k"].into_iter());
        let bytes = written.finish();
        assert_eq!(
            bytes,
            b"\x01\x03\x01\x07\0\0\0\x02\x01\0\0\0\0\0\0\x02\0\0\0\x02\0\x02\0\0\0\x03\0\0\0GET\x01\0\0\0k"
        );
        assert_eq!(watch(&bytes), Some(watch_of));
        assert_eq!(Commands::new(Protocol::Resp2, None).finish(), b"\x01\x02\0");
        assert_eq!(principal(&bytes), None);
        let mut named = Commands::new(Protocol::Resp2, None);
        named.name_user(Principal { user: 3, revision: 258 });
        named.push(2, [&b"GET"[..], b"k"].into_iter());
        let named = named.finish();
        assert_eq!(named, b"\x02\x02\0\x03\0\0\0\x02\x01\0\0\0\0\0\0\x02\0\x02\0\0\0\x03\0\0\0GET\x01\0\0\0k");
        assert_eq!(principal(&named), Some(Principal { user: 3, revision: 258 }));
        assert_eq!(commands(&named).unwrap(), commands(b"\x01\x02\0\x02\0\x02\0\0\0\x03\0\0\0GET\x01\0\0\0k").unwrap());
        let mut watching = Commands::new(Protocol::Resp3, Some(watch_of));
        watching.name_user(Principal::default());
        assert_eq!(watch(&watching.finish()), Some(watch_of));
        assert_eq!(commands(&bytes).unwrap(), (Protocol::Resp3, vec![(2, vec![&b"GET"[..], b"k"])]));

        let mut there = begin_found(UnixMs(258));
        there.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'x']);
        assert_eq!(there, b"\x01\x02\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0x");
        assert_eq!(found(&there).unwrap(), (UnixMs(258), vec![(Version(7), &b"x"[..])]));
        let said = steps(b"\xff\x03\0\x01\0\0\0k\x07\0\0\0\0\0\0\0\x01\0\0\0x").unwrap();
        assert_eq!(said, Steps { db: 3, key: b"k", steps: vec![(Version(7), &b"x"[..])] });
        let mut part = Commands::new(Protocol::Resp2, None).finish();
        name_copy(&mut part, (3, b"k"), Version(7));
        assert_eq!(part, b"\x01\x02\0\x03\0\x02\0\0\0\x01\0\0\0k\x08\0\0\0\x07\0\0\0\0\0\0\0");
        assert_eq!(named_copies(&part), [((3, &b"k"[..]), Version(7))].into());
        let event = Event { class: 4, name: "del".into(), db: 1, key: (*b"k").into(), fields: Box::default() };
        let made = Changes {
            checks: vec![(2, b"key", Version(9))],
            effects: b"ef",
            events: vec![event.clone()],
            needs_memory: true,
        };
        let made = made.encode();
        assert_eq!(Changes::default().encode(), b"\x01\0\0\0\0\0\0\0\0\0");
        let checks = b"\x01\x01\x01\0\0\0\x02\0\x03\0\0\0key\x09\0\0\0\0\0\0\0";
        assert_eq!(made, [&checks[..], b"\x02\0\0\0ef\x04\0\0\0\x01\0\x01\0\0\0k\x03\0\0\0del"].concat());
        let read_back = changes(&made).unwrap();
        assert_eq!((read_back.checks, read_back.effects), (vec![(2, &b"key"[..], Version(9))], &b"ef"[..]));
        assert!(read_back.events == [event.clone()] && is_changes(&made) && !is_changes(&bytes));
        let events = vec![Event { class: 64, fields: (*b"1:f").into(), ..event.clone() }, event];
        let named = Changes { events: events.clone(), ..Changes::default() }.encode();
        assert!(changes(&named).unwrap().events == events);

        let from = Life { node: NodeId(3), incarnation: 2 };
        let message = Message::Finished { origin: txn::Origin { life: from, lane: 1 }, below: 7 };
        let mut body = Vec::new();
        put(from, &message, |write| write(&mut body));
        assert_eq!(body, b"\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\x09\x03\0\0\0\0\0\0\0\x02\x01\x07");
        assert_eq!(read(&body).unwrap(), (from, message));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 1u8..4, any::<u8>()], 0..80)) {
            let _ = (read(&bytes), commands(&bytes), take_bytes(&mut &bytes[..]));
            let _ = (found(&bytes), changes(&bytes).map(|_| ()), named_copies(&bytes), steps(&bytes));
        }
    }
}

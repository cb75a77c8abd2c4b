//! Items: the content of a data link's frames, many per frame.
//!
//! A link has an *origin*, the node whose clients' commands it carries, and an *owner*, which executes them. A client
//! of the origin is a *virtual connection* there (`vc`, a number that the origin chooses, free again when the owner has
//! said [`Item::Closed`]). Bytes of one command, and of one reply, may be spread over several items, and over several
//! frames: nothing is too long.
//!
//! Layout: `docs/formats.md`, "Between nodes".

use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::frame::BODY_MAX;

/// The user of forwarded commands: the owner judges rights by it. Both are 0 while there are no users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Principal {
    /// The user's number.
    pub user: u32,
    /// The revision of the users' table that the origin knew. An owner that is behind must not judge by its own.
    pub revision: u64,
}

/// One item, borrowed from the frame it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// Origin: a client has come.
    Open {
        /// Its number on this link.
        vc: u32,
        /// The origin's number for it (CLIENT ID).
        client: u64,
        /// The database it has selected.
        db: u16,
        /// 2 or 3: the version of RESP it speaks.
        protocol: u8,
    },
    /// Origin: commands of the client, as RESP.
    Commands {
        /// The client.
        vc: u32,
        /// The epoch of the owner in the map by which the origin has routed them.
        epoch: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Origin: so many more bytes of replies and pushes may be sent. Owner: so many of commands.
    Credit {
        /// The client.
        vc: u32,
        /// Bytes.
        bytes: u32,
    },
    /// Origin: the client is to wait no longer (CLIENT UNBLOCK).
    Unblock {
        /// The client.
        vc: u32,
        /// With an error, or as if its time were over.
        with_error: bool,
    },
    /// Origin: the client has gone.
    Close {
        /// The client.
        vc: u32,
    },
    /// Owner: replies, in the order of the commands.
    Replies {
        /// The client.
        vc: u32,
        /// How many bytes each reply has that *ends* in these bytes. For the first one, the bytes that were lacking;
        /// bytes behind their sum are the beginning of a reply that goes on.
        lengths: Lengths<'a>,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Owner: true if the client was waiting.
    Unblocked {
        /// The client.
        vc: u32,
        /// True if it was waiting.
        yes: bool,
    },
    /// Owner: it has forgotten the client.
    Closed {
        /// The client.
        vc: u32,
    },
    /// Both: every LSN here is at or below this one (rules L1, T7).
    Clock {
        /// The LSN.
        lsn: u64,
    },
    /// Origin: the client that the next message of a transaction over this link is for (CLIENT TRACKING).
    For {
        /// The client.
        vc: u32,
        /// The origin's number for it (CLIENT ID).
        client: u64,
        /// The client caches what it reads, and is to hear of changes.
        caches: bool,
    },
    /// Origin: the user of the client's further commands, at [`crate::level::PRINCIPALS`] and above.
    Principal {
        /// The client.
        vc: u32,
        /// The user.
        principal: Principal,
    },
    /// Owner: it shuts down. It executes none of the commands on this link that it has not answered.
    Leaving,
}

/// The lengths of replies, read where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lengths<'a>(&'a [[u8; 4]]);

impl<'a> Lengths<'a> {
    /// How many replies end.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if none does.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + use<'a> {
        self.0.iter().map(|length| u32::from_le_bytes(*length) as usize)
    }
}

mod tag {
    pub const OPEN: u8 = 1;
    // 2 is not used: SELECT and HELLO keep their place among the commands.
    pub const COMMANDS: u8 = 3;
    pub const CREDIT: u8 = 4;
    pub const UNBLOCK: u8 = 5;
    pub const CLOSE: u8 = 6;
    pub const REPLIES: u8 = 7;
    // 8 is not used: invalidations keep their place among the replies.
    pub const UNBLOCKED: u8 = 9;
    pub const CLOSED: u8 = 10;
    // 11 is kept for commands that were not executed and are to be sent elsewhere.
    pub const CLOCK: u8 = 12;
    pub const LEAVING: u8 = 13;
    pub const FOR: u8 = 14;
    pub const PRINCIPAL: u8 = 15;
}

/// The items of a body, in their order. It ends at the first error.
pub fn items(body: &[u8]) -> Items<'_> {
    Items(Reader::new(body))
}

/// See [`items`].
pub struct Items<'a>(Reader<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = read(&mut self.0);
        if item.is_err() {
            self.0 = Reader::new(&[]);
        }
        Some(item)
    }
}

fn read<'a>(from: &mut Reader<'a>) -> Result<Item<'a>, Malformed> {
    let (tag, vc) = (from.u8()?, from.u32()?);
    Ok(match tag {
        tag::OPEN => Item::Open { vc, client: from.u64()?, db: from.u16()?, protocol: protocol(from)? },
        tag::COMMANDS => Item::Commands { vc, epoch: from.u64()?, bytes: from.bytes(BODY_MAX)? },
        tag::CREDIT => Item::Credit { vc, bytes: from.u32()? },
        tag::UNBLOCK => Item::Unblock { vc, with_error: from.flag()? },
        tag::CLOSE => Item::Close { vc },
        tag::REPLIES => {
            let count = from.count(BODY_MAX)?;
            let lengths = Lengths(from.take(count * 4)?.as_chunks().0);
            let bytes = from.bytes(BODY_MAX)?;
            let ended = lengths.0.iter().map(|length| u64::from(u32::from_le_bytes(*length))).sum::<u64>();
            if ended > bytes.len() as u64 {
                return Err(Malformed("replies that end in their bytes"));
            }
            Item::Replies { vc, lengths, bytes }
        }
        tag::UNBLOCKED => Item::Unblocked { vc, yes: from.flag()? },
        tag::CLOSED => Item::Closed { vc },
        tag::CLOCK if vc == 0 => Item::Clock { lsn: from.u64()? },
        tag::LEAVING if vc == 0 => Item::Leaving,
        tag::FOR => Item::For { vc, client: from.u64()?, caches: from.flag()? },
        tag::PRINCIPAL => Item::Principal { vc, principal: Principal { user: from.u32()?, revision: from.u64()? } },
        _ => return Err(Malformed("an item")),
    })
}

fn protocol(from: &mut Reader<'_>) -> Result<u8, Malformed> {
    match from.u8()? {
        protocol @ 2..=3 => Ok(protocol),
        _ => Err(Malformed("a version of RESP")),
    }
}

fn head(out: &mut Vec<u8>, tag: u8, vc: u32) {
    out.push(tag);
    out.extend_from_slice(&vc.to_le_bytes());
}

impl Item<'_> {
    /// Appends the item to a body.
    pub fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Open { vc, client, db, protocol } => {
                head(out, tag::OPEN, vc);
                out.extend_from_slice(&client.to_le_bytes());
                out.extend_from_slice(&db.to_le_bytes());
                out.push(protocol);
            }
            Self::Commands { vc, epoch, bytes } => {
                let at = put_commands(out, vc, epoch);
                extend_commands(out, at, bytes);
            }
            Self::Credit { vc, bytes } => {
                head(out, tag::CREDIT, vc);
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Unblock { vc, with_error } => {
                head(out, tag::UNBLOCK, vc);
                out.push(u8::from(with_error));
            }
            Self::Close { vc } => head(out, tag::CLOSE, vc),
            Self::Replies { vc, lengths, bytes } => {
                head(out, tag::REPLIES, vc);
                put_count(out, lengths.len());
                out.extend_from_slice(lengths.0.as_flattened());
                put_bytes(out, bytes);
            }
            Self::Unblocked { vc, yes } => {
                head(out, tag::UNBLOCKED, vc);
                out.push(u8::from(yes));
            }
            Self::Closed { vc } => head(out, tag::CLOSED, vc),
            Self::Clock { lsn } => {
                head(out, tag::CLOCK, 0);
                out.extend_from_slice(&lsn.to_le_bytes());
            }
            Self::Leaving => head(out, tag::LEAVING, 0),
            Self::For { vc, client, caches } => {
                head(out, tag::FOR, vc);
                out.extend_from_slice(&client.to_le_bytes());
                out.push(u8::from(caches));
            }
            Self::Principal { vc, principal: Principal { user, revision } } => {
                head(out, tag::PRINCIPAL, vc);
                out.extend_from_slice(&user.to_le_bytes());
                out.extend_from_slice(&revision.to_le_bytes());
            }
        }
    }
}

/// Where the length of an item of commands stands behind the item's place.
const LENGTH: usize = 1 + 4 + 8;

/// Appends an item of no commands yet; returns the place for [`extend_commands`].
pub fn put_commands(out: &mut Vec<u8>, vc: u32, epoch: u64) -> usize {
    let at = out.len();
    head(out, tag::COMMANDS, vc);
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    at
}

/// Appends `bytes` to the item at `at`, which is the last one.
pub fn extend_commands(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    add(out, at + LENGTH, bytes.len() as u32);
}

fn add(out: &mut [u8], at: usize, more: u32) {
    let number = &mut out[at..at + 4];
    let sum = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) + more;
    number.copy_from_slice(&sum.to_le_bytes());
}

/// Appends an item of replies, each of which ends in it after its `lengths`. `bytes` writes their bytes, at least as
/// many as the sum of the lengths.
pub fn put_replies(out: &mut Vec<u8>, vc: u32, lengths: &[u32], bytes: impl FnOnce(&mut Vec<u8>)) {
    head(out, tag::REPLIES, vc);
    put_count(out, lengths.len());
    lengths.iter().for_each(|length| out.extend_from_slice(&length.to_le_bytes()));
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    bytes(out);
    let written = (out.len() - at - 4) as u32;
    add(out, at, written);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let lengths = [[5, 0, 0, 0], [1, 0, 0, 0]];
        let all: &[(Item<'_>, &[u8])] = &[
            (Item::Open { vc: 7, client: 258, db: 3, protocol: 2 }, b"\x01\x07\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\x02"),
            (
                Item::Commands { vc: 7, epoch: 9, bytes: b"PING\r\n" },
                b"\x03\x07\0\0\0\x09\0\0\0\0\0\0\0\x06\0\0\0PING\r\n",
            ),
            (Item::Credit { vc: 7, bytes: 4096 }, b"\x04\x07\0\0\0\0\x10\0\0"),
            (Item::Unblock { vc: 7, with_error: true }, b"\x05\x07\0\0\0\x01"),
            (Item::Close { vc: 7 }, b"\x06\x07\0\0\0"),
            (
                Item::Replies { vc: 7, lengths: Lengths(&lengths), bytes: b"+OK\r\n\n+" },
                b"\x07\x07\0\0\0\x02\0\0\0\x05\0\0\0\x01\0\0\0\x07\0\0\0+OK\r\n\n+",
            ),
            (Item::Unblocked { vc: 7, yes: false }, b"\x09\x07\0\0\0\0"),
            (Item::Closed { vc: 7 }, b"\x0a\x07\0\0\0"),
            (Item::Clock { lsn: 1 }, b"\x0c\0\0\0\0\x01\0\0\0\0\0\0\0"),
            (Item::Leaving, b"\x0d\0\0\0\0"),
            (Item::For { vc: 7, client: 258, caches: true }, b"\x0e\x07\0\0\0\x02\x01\0\0\0\0\0\0\x01"),
            (
                Item::Principal { vc: 7, principal: Principal { user: 3, revision: 258 } },
                b"\x0f\x07\0\0\0\x03\0\0\0\x02\x01\0\0\0\0\0\0",
            ),
        ];
        let mut body = Vec::new();
        for (item, bytes) in all {
            let at = body.len();
            item.put(&mut body);
            assert_eq!(&body[at..], *bytes, "{item:?}");
        }
        let read: Vec<_> = items(&body).map(Result::unwrap).collect();
        assert_eq!(read, all.iter().map(|(item, _)| *item).collect::<Vec<_>>());
    }

    #[test]
    fn what_lies_about_itself_is_malformed() {
        let malformed = |bytes: &[u8]| items(bytes).any(|item| item.is_err());
        assert!(malformed(b"\x10\0\0\0\0"), "an unknown item");
        for unused in [2, 8, 11] {
            assert!(
                malformed(&[unused, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                "an item that is not used: {unused}"
            );
        }
        assert!(malformed(b"\x01\x07\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\x04"), "RESP4");
        assert!(malformed(b"\x07\x07\0\0\0\x01\0\0\0\x05\0\0\0\x01\0\0\0+"), "a reply longer than its bytes");
        assert!(malformed(b"\x07\x07\0\0\0\xff\xff\xff\xff"), "as many replies as there are numbers");
        assert!(malformed(b"\x03\x07\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0+"), "commands longer than their bytes");
        assert!(malformed(b"\x0c\x01\0\0\0\x01\0\0\0\0\0\0\0"), "a clock of a client");
        assert!(malformed(b"\x0d\x01\0\0\0"), "an end of a client's");
    }

    #[test]
    fn commands_are_appended_in_place() {
        let mut body = Vec::new();
        Item::Open { vc: 1, client: 1, db: 0, protocol: 3 }.put(&mut body);
        let at = put_commands(&mut body, 1, 4);
        extend_commands(&mut body, at, b"GET x\r\n");
        extend_commands(&mut body, at, b"PING\r\nPING\r\nPI");
        let last = items(&body).last().unwrap().unwrap();
        assert_eq!(last, Item::Commands { vc: 1, epoch: 4, bytes: b"GET x\r\nPING\r\nPING\r\nPI" });
    }

    proptest! {
        #[test]
        fn replies_are_what_was_put(vc in any::<u32>(), replies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..10), begun in 0usize..9) {
            let lengths: Vec<u32> = replies.iter().map(|r| r.len() as u32).collect();
            let bytes = [replies.concat(), vec![1; begun]].concat();
            let mut body = Vec::new();
            put_replies(&mut body, vc, &lengths, |out| out.extend_from_slice(&bytes));
            Item::Close { vc }.put(&mut body);
            let mut read = items(&body);
            let Some(Ok(Item::Replies { vc: to, lengths, bytes: read_bytes })) = read.next() else { panic!("no replies") };
            prop_assert_eq!(to, vc);
            prop_assert_eq!(lengths.iter().collect::<Vec<_>>(), replies.iter().map(Vec::len).collect::<Vec<_>>());
            prop_assert_eq!(read_bytes, &bytes[..]);
            prop_assert_eq!(read.next(), Some(Ok(Item::Close { vc })));
            prop_assert_eq!(read.next(), None);
        }

        #[test]
        fn no_bytes_panic(tag in 0u8..17, rest in prop::collection::vec(prop_oneof![Just(0u8), 0u8..8, any::<u8>()], 0..120)) {
            let body = [vec![tag], rest].concat();
            let mut again = Vec::new();
            for item in items(&body).map_while(Result::ok) {
                item.put(&mut again);
            }
            prop_assert!(body.starts_with(&again), "what is read is written the same way");
        }
    }
}

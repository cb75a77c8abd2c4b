//! Invalidations for clients that cache: the keys that have changed.

use std::sync::Arc;

use keyspace::Horizon;
use resp::{Protocol, Reply, skip_reply};

/// The channel on which RESP2 clients hear of invalidations that are redirected to them.
const CHANNEL: &str = "__redis__:invalidate";

/// A message for a client beside its replies.
pub enum News {
    /// These keys, as an array, have changed.
    Keys(Arc<[u8]>),
    /// Every key may have changed.
    All,
    /// The client with this id, to which invalidations were redirected, is gone.
    Broken(u64),
}

/// News on its way to a client.
pub struct Notice {
    /// The client that it is for.
    pub(super) client: u64,
    /// The worker's name for its connection.
    pub(super) token: u64,
    /// The client that redirects it here; 0: none.
    pub(super) of: u64,
    pub(super) news: News,
    /// The versions that it waits for.
    pub(super) seen: Horizon,
}

pub(super) fn encode(keys: &[&[u8]]) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(16 + keys.iter().map(|key| key.len() + 16).sum::<usize>());
    let mut reply = Reply::new(&mut bytes, Protocol::Resp3);
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(*key));
    bytes.into()
}

/// The beginning of news for the client of a virtual connection, among the replies to that.
const HEAD: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

impl News {
    /// The news of another node for one of this node's clients, if the bytes are news and nothing else.
    pub(crate) fn heard(mut bytes: &[u8]) -> Option<Vec<News>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (one, rest) = bytes.split_at_checked(skip_reply(bytes).ok()??.0)?;
            bytes = rest;
            all.push(match one.strip_prefix(HEAD)? {
                b"_\r\n" => News::All,
                keys @ [b'*', ..] => News::Keys(keys.into()),
                _ => return None,
            });
        }
        Some(all)
    }

    /// The news of these keys.
    pub(crate) fn of<'a>(keys: impl Iterator<Item = &'a [u8]>) -> News {
        News::Keys(encode(&keys.collect::<Vec<_>>()))
    }

    /// Writes it for a client of this protocol. In RESP2 only for a subscriber to which it is redirected.
    pub(super) fn write(&self, out: &mut Vec<u8>, protocol: Protocol, listens: bool) {
        if protocol == Protocol::Resp2 && !listens {
            return;
        }
        let mut reply = Reply::new(out, protocol);
        match (self, protocol) {
            (News::Broken(_), Protocol::Resp2) => return,
            (News::Broken(id), _) => {
                reply.push(2);
                reply.bulk("tracking-redir-broken");
                return reply.count(*id);
            }
            (_, Protocol::Resp2) => {
                reply.array(3);
                reply.bulk("message");
                reply.bulk(CHANNEL);
            }
            _ => {
                reply.push(2);
                reply.bulk("invalidate");
            }
        }
        match self {
            News::Keys(keys) => out.extend_from_slice(keys),
            _ => reply.null(),
        }
    }
}

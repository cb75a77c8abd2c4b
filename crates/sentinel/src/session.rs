//! A connection of a client.

use std::collections::BTreeSet;

use object::glob;
use resp::{Args, Batch, Decoder, Limits, Protocol, Reply};

use crate::answers;
use crate::view::{News, View};

/// Most channels and patterns that a client may subscribe to.
const SUBSCRIPTIONS_MAX: usize = 1000;

/// Bounds of a request: nobody has to authenticate, so they are those of Redis for clients that have not.
const LIMITS: Limits = Limits { proto_max_bulk_len: 16 * 1024, authenticated: false };

/// The state of a connection behind a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Goes,
    Ends,
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: u64,
    /// The address at which the client has reached this process.
    pub(crate) here: String,
    pub(crate) protocol: Protocol,
    pub(crate) name: Vec<u8>,
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    decoder: Decoder,
    input: Vec<u8>,
}

impl Session {
    /// A connection with a number of its own. `here`: the address at which the client has reached this process.
    #[must_use]
    pub fn new(id: u64, here: String) -> Self {
        Self {
            id,
            here,
            protocol: Protocol::Resp2,
            name: Vec::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            decoder: Decoder::new(),
            input: Vec::new(),
        }
    }

    /// Takes bytes of the client, and appends the replies. Returns false if the connection ends behind them.
    pub fn feed(&mut self, bytes: &[u8], view: &View, out: &mut Vec<u8>) -> bool {
        self.input.extend_from_slice(bytes);
        let mut batch = Batch::new();
        loop {
            batch.clear();
            let progress = self.decoder.decode(&self.input, &LIMITS, 1, &mut batch);
            let input = std::mem::take(&mut self.input);
            let mut flow = Flow::Goes;
            for index in 0..batch.len() {
                flow = answers::answer(self, batch.args(index, &input), view, out);
            }
            self.input = input;
            self.input.drain(..progress.consumed);
            if let Some(error) = progress.error {
                Reply::new(out, self.protocol).protocol_error(&error);
                return false;
            }
            if flow == Flow::Ends {
                return false;
            }
            if batch.is_empty() {
                return true;
            }
        }
    }

    /// Appends the messages that the client has subscribed to.
    pub fn hear(&self, news: &[News], out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.protocol);
        for News { channel, text } in news {
            if self.channels.contains(channel.as_bytes()) {
                reply.push(3);
                reply.bulk("message");
                reply.bulk(channel);
                reply.bulk(text);
            }
            for pattern in self.patterns.iter().filter(|pattern| glob::matches(pattern, channel.as_bytes())) {
                reply.push(4);
                reply.bulk("pmessage");
                reply.bulk(pattern);
                reply.bulk(channel);
                reply.bulk(text);
            }
        }
    }

    /// True if the client has subscribed to something.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }

    /// SUBSCRIBE and PSUBSCRIBE.
    pub(crate) fn subscribe(&mut self, args: Args<'_>, is_pattern: bool, out: &mut Vec<u8>) {
        let kind = if is_pattern { "psubscribe" } else { "subscribe" };
        for channel in args.iter().skip(1) {
            if self.channels.len() + self.patterns.len() >= SUBSCRIPTIONS_MAX {
                return Reply::new(out, self.protocol).error("ERR too many subscriptions");
            }
            self.set(is_pattern).insert(channel.to_vec());
            self.confirm(kind, Some(channel), out);
        }
    }

    /// UNSUBSCRIBE and PUNSUBSCRIBE: of all, if none is named.
    pub(crate) fn unsubscribe(&mut self, args: Args<'_>, is_pattern: bool, out: &mut Vec<u8>) {
        let kind = if is_pattern { "punsubscribe" } else { "unsubscribe" };
        let mut gone: Vec<Vec<u8>> = args.iter().skip(1).map(<[u8]>::to_vec).collect();
        if gone.is_empty() {
            gone.extend(self.set(is_pattern).iter().cloned());
        }
        if gone.is_empty() {
            self.confirm(kind, None, out);
        }
        for channel in gone {
            self.set(is_pattern).remove(&channel);
            self.confirm(kind, Some(&channel), out);
        }
    }

    /// RESET: as if the client had just connected.
    pub(crate) fn reset(&mut self) {
        self.channels.clear();
        self.patterns.clear();
        self.name.clear();
        self.protocol = Protocol::Resp2;
    }

    fn set(&mut self, is_pattern: bool) -> &mut BTreeSet<Vec<u8>> {
        if is_pattern { &mut self.patterns } else { &mut self.channels }
    }

    fn confirm(&self, kind: &str, channel: Option<&[u8]>, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.protocol);
        reply.push(3);
        reply.bulk(kind);
        reply.bulk_or_null(channel);
        reply.count((self.channels.len() + self.patterns.len()) as u64);
    }
}

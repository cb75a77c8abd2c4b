//! A connection as its worker sees it: buffers, decoder, session, and what it waits for.

use std::sync::Arc;

use engine::{Blocked, Walking};
use resp::{Decoder, OwnedArgs};

use crate::session::Session;

/// What a connection waits for before its next command can run.
pub(crate) enum Wait {
    /// Nothing.
    No,
    /// A latch: its present command is still in the query buffer and will be run again.
    Latch,
    /// Keys: its present command has been taken over by the engine.
    Keys(Arc<Blocked>),
    /// The end of CLIENT PAUSE: its present command is still in the query buffer and will be run again.
    Pause,
    /// The end of DEBUG SLEEP, with its arguments; then it is answered.
    Sleep(OwnedArgs),
    /// A walk over the keyspace that goes on in steps.
    Walk(Box<Walking>),
}

pub(crate) struct Conn {
    /// The worker's name for it: generation and index.
    pub(crate) token: u64,
    pub(crate) session: Session,
    pub(crate) decoder: Decoder,
    /// Received and not yet executed, from `start` on.
    pub(crate) query: Vec<u8>,
    pub(crate) start: usize,
    /// Replies, from `sent` on still to be sent.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) wait: Wait,
    /// In the queue of connections with something to do.
    pub(crate) queued: bool,
    /// In the list of connections with something to send.
    pub(crate) dirty: bool,
    /// Close once the output is sent; nothing more is executed.
    pub(crate) closing: bool,
    /// Nanoseconds that the command that waits took until it began to wait.
    pub(crate) spent: u64,
    /// Failures in a row to get a latch.
    pub(crate) busy: u32,
    /// Since when the output is above the soft limit, unix milliseconds.
    pub(crate) over_soft_since: Option<u64>,
}

impl Conn {
    pub(crate) fn new(token: u64, session: Session) -> Self {
        Self {
            token,
            session,
            decoder: Decoder::new(),
            query: Vec::new(),
            start: 0,
            out: Vec::new(),
            sent: 0,
            wait: Wait::No,
            queued: false,
            dirty: false,
            closing: false,
            spent: 0,
            busy: 0,
            over_soft_since: None,
        }
    }

    /// Bytes received and not yet executed.
    pub(crate) fn unread(&self) -> usize {
        self.query.len() - self.start
    }

    /// Bytes still to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether its last command has been answered rather than waits for something.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.wait, Wait::No)
    }

    /// Whether commands can run now.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.wait, Wait::No) && !self.closing
    }
}

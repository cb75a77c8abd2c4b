//! The seam between an owner and its acceptors: messages out, and what is heard of an acceptor.

use std::sync::Arc;

use quorum::{AcceptorId, Reply, Request};

/// A word of an acceptor, or of the connection to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The acceptor can be reached. The owner sends `Seal` before anything else.
    Connected,
    /// The acceptor cannot be reached: messages that were sent may have arrived or not.
    Lost,
    /// An answer of the acceptor.
    Reply(Reply),
}

/// Called on the thread of the acceptor or of the connection: it must not wait.
pub type Listener = Arc<dyn Fn(AcceptorId, Heard) + Send + Sync>;

/// An acceptor as its owner reaches it: in this process, or over a connection that is made again when it breaks.
pub trait Port: Send + Sync {
    /// Does not wait. A message that cannot be sent is dropped.
    fn send(&self, request: Request);

    /// As [`Self::send`], for a message about old blocks. It may be sent in another order than those of [`Self::send`],
    /// and does not delay these.
    fn send_apart(&self, request: Request) {
        self.send(request);
    }

    /// The reason why the acceptor cannot be reached, in words, if that is so and it is known.
    fn trouble(&self) -> Option<String> {
        None
    }
}
